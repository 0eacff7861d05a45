"""The report of a model on a machine: its subject, its sections, and its output forms."""
