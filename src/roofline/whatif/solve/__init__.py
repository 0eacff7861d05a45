"""The value of one setting at which a target is met."""
