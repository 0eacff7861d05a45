"""Compare measurements with predictions: kernels of profiles, matched to ops, and results of benchmarks."""
