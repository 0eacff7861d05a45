"""Questions that take many estimates: sweeps, searches, root search, sensitivity, co-design and comparisons."""
