"""Quantisation of checkpoints: from a config's section to rules over module names to the format of each module."""

from roofline.model.checkpoints.quantization.methods import scheme_of, stored_precision
from roofline.model.checkpoints.quantization.rules import Rule, Scheme, quantised

__all__ = ["Rule", "Scheme", "quantised", "scheme_of", "stored_precision"]
