"""Text of sweeps, solutions, sensitivities and differences."""
