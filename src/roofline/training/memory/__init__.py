"""Memory of a training rank: saved activations, workspace, optimizer state."""
