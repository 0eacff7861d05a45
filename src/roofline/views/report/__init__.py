"""The report of a model on a machine: what it is of, its sections, and the forms it is written in."""
