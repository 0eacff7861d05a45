"""Measured beside predicted: kernels of profilers and results of benchmarks, read, matched to ops and compared."""
