"""Closed forms of a server: queues, lock-step batches, mean value analysis, percentiles."""
