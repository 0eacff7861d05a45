"""A training step and run: passes, memory, pipelines, replicas, failures, and exports to frameworks."""
