"""Chips, clusters, links, prices and grids as data, and the readers of their files."""
