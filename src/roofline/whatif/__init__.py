"""Questions about many answers: sweeps, searches, solving, sensitivity, differences, codesign."""
