"""Communication and updates of data-parallel replicas."""
