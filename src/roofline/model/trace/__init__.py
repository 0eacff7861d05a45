"""Trace a model's real code on shapes alone into a model of its matrix products and attention."""
