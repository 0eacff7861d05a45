"""What the families are written with: each function turns sizes into modules.

Modules have the same names in every family, so that an op of one model can be compared with that of another.
"""
