"""Norms of the hidden state and of attention heads."""

from __future__ import annotations

from collections.abc import Callable

from roofline.model.modules import Norm

MakeNorm = Callable[[str, int], Norm]
MakeHeadNorm = Callable[[str, int, int], Norm]


def rms(name: str, width: int) -> Norm:
    """RMSNorm with a weight (arXiv:1910.07467)."""
    return Norm(name=name, width=width)


def rms_with_bias(name: str, width: int) -> Norm:
    """RMSNorm with weight and bias."""
    return Norm(name=name, width=width, bias=True)


def layer_norm(name: str, width: int) -> Norm:
    """LayerNorm with weight and bias."""
    return Norm(name=name, width=width, center=True, bias=True)


def layer_norm_no_bias(name: str, width: int) -> Norm:
    """LayerNorm with a weight only."""
    return Norm(name=name, width=width, center=True)


def plain_layer_norm(name: str, width: int) -> Norm:
    """LayerNorm without parameters."""
    return Norm(name=name, width=width, center=True, weight=False)


def plain_rms(name: str, width: int) -> Norm:
    """RMSNorm without parameters."""
    return Norm(name=name, width=width, weight=False)


# -- of heads ------------------------------------------------------------------------------------------------------
def per_head(name: str, heads: int, dim: int) -> Norm:
    """RMSNorm over each head, with one weight of `dim` that all heads share."""
    return Norm(name=name, width=dim, repeats=heads)


def plain_per_head(name: str, heads: int, dim: int) -> Norm:
    """RMSNorm over each head without parameters."""
    return Norm(name=name, width=dim, repeats=heads, weight=False)


def layer_norm_per_head(name: str, heads: int, dim: int) -> Norm:
    """LayerNorm over each head, with one weight and one bias of `dim` that all heads share."""
    return Norm(name=name, width=dim, repeats=heads, center=True, bias=True)


def layer_norm_of_each_head(name: str, heads: int, dim: int) -> Norm:
    """LayerNorm over each head, with a weight of `dim` for each."""
    return Norm(name=name, width=dim, repeats=heads, center=True, per_repeat=True)


def biased_layer_norm_of_each_head(name: str, heads: int, dim: int) -> Norm:
    """LayerNorm over each head, with a weight and a bias of `dim` for each."""
    return Norm(name=name, width=dim, repeats=heads, center=True, bias=True, per_repeat=True)


def across_heads(name: str, heads: int, dim: int) -> Norm:
    """RMSNorm over all heads together."""
    return Norm(name=name, width=heads * dim)
