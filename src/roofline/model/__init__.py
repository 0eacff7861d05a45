"""Descriptions of transformers: modules, models, families, and the sources of configs."""
