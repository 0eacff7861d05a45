"""The time and energy of an op on a chip: laws, their constants, collectives."""
