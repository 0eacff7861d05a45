"""One step, one static batch and the memory of a deployment, compiled once and timed at any number of points."""
