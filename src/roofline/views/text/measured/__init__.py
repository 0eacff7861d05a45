"""Text of measurements beside predictions."""
