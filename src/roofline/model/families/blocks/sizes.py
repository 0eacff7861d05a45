"""Sizes of a decoder under the names that configs use: layers, widths, heads, the longest sequence."""

from __future__ import annotations

from dataclasses import dataclass

from roofline.model.configs.config import LARGEST_CONTEXT, MOST_LAYERS, Config

HEADS = "num_attention_heads|n_head|n_heads|num_heads|attention_heads"


@dataclass(frozen=True)
class Dims:
    """Sizes of a decoder: its layers, hidden size (`width`), heads and head width."""

    layers: int
    width: int
    heads: int
    kv_heads: int
    head_dim: int


def dims(c: Config, *, head_dim: int | None = None, kv_key: str = "num_key_value_heads", uneven: bool = False) -> Dims:
    """Layers, widths and heads under their usual names; missing KV heads mean one for each query head.

    `head_dim`: the architecture's default. Without one it is hidden_size / heads, which must divide evenly unless
    `uneven` (where the published code rounds down).
    """
    layers = depth(c)
    width = c.size("hidden_size|n_embd|d_model")
    heads = c.size(HEADS)
    kv_heads = c.size(kv_key, heads)
    if heads % kv_heads:
        divisors = [str(n) for n in range(1, min(heads, 1024) + 1) if heads % n == 0]
        raise c.error(kv_key, f"a divisor of num_attention_heads = {heads}", divisors[:8])
    size = c.size("head_dim", None) if head_dim is None else c.assumed("head_dim", head_dim, null=True)
    if size is None:
        size = max(1, width // heads) if uneven else split(c, "num_attention_heads", width, heads, "hidden_size")
    return Dims(layers, width, heads, kv_heads, size)


def depth(c: Config) -> int:
    """Number of layers."""
    layers: int = c.size("num_hidden_layers|n_layer|n_layers|num_layers", most=MOST_LAYERS)
    return layers


def split(c: Config, key: str, total: int, parts: int, of: str) -> int:
    """total / parts; raises an InputError that names both keys where it does not divide evenly."""
    if total % parts:
        raise c.error(key if c.has(key) else "n_head", f"a divisor of {of} = {total} (head_dim is not given)")
    return total // parts


def context_length(c: Config) -> int | None:
    """The longest sequence that the config allows, in tokens; None if it does not say."""
    keys = "max_position_embeddings|n_positions|max_seq_len|max_sequence_length|seq_length|n_ctx"
    tokens: int | None = c.size(keys, None, most=LARGEST_CONTEXT)
    return tokens
