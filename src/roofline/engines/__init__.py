"""Serving and training engines: the kernels they choose, host time, scheduler policy and memory rule."""
