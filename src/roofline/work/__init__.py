"""What a step costs: steps, ops, counting, traffic."""
