"""Score predictions against measurements: which rows can be predicted, how large errors are, why rows are left out."""
