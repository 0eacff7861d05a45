"""What reads measurements: calibration, accuracy, comparison."""
