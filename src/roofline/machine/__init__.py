"""What it runs on: chips, their laws of time, and where their figures come from."""
