"""How a checkpoint is quantised: a config's own words → rules over modules' names → the format of every module."""

from roofline.model.quantization.methods import scheme_of, stored_precision
from roofline.model.quantization.rules import Rule, Scheme, quantised

__all__ = ["Rule", "Scheme", "quantised", "scheme_of", "stored_precision"]
