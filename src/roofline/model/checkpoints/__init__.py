"""A checkpoint's rules and tensors, from which the format of every module follows."""
