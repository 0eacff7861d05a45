"""Memory of a step: weights, caches, states, activations, and what an engine sets aside."""
