"""Building blocks of the families: each function turns sizes into modules.

Modules have the same names in every family, so that ops of different models can be compared.
"""
