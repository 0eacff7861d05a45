"""Questions asked of many estimates at once: sweeps, crossing points, maps, shares."""
