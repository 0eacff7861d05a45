"""Machines: chips, clusters, engines, the laws that time work on them, and their fitted constants."""
