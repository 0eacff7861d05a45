"""A whole training run: failures, checkpoints, days and money."""
