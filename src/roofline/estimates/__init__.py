"""Ops × machine: how long a step, a generation or a server takes, and what it needs."""
