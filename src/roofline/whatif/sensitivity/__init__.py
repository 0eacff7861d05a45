"""Elasticities, tornado and precision by module: what a figure depends on."""
