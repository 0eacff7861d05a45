"""Commands that predict: what a model needs, and what it does on a machine."""
