"""Text of training steps, runs and searches."""
