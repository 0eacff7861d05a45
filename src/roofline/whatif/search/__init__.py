"""The best plan for an SLO or a budget, and its launch files."""
