"""Parallel layouts: degrees of parallelism, and the smaller model that one rank holds."""
