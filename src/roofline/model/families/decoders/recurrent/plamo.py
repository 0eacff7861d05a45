"""PLaMo (Preferred Networks): PLaMo 1, parallel layers; PLaMo 2, state spaces between windows; PLaMo 3, windows."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from roofline.model.configs.config import Config
from roofline.model.families.blocks.attention import attention, rotary, windowed
from roofline.model.families.blocks.feed_forward import mlp
from roofline.model.families.blocks.layers import causal_lm, parallel_layer, stack
from roofline.model.families.blocks.norms import layer_norm_of_each_head, per_head, rms
from roofline.model.families.blocks.projections import column_product, row_product
from roofline.model.families.blocks.sizes import Dims, dims
from roofline.model.families.registry import family
from roofline.model.model import Model
from roofline.model.modules import Conv, Gate, Modules, Norm, StateSpace


@family("plamo")
def plamo(c: Config) -> Model:
    """PLaMo 13B: attention and feed-forward side by side; `n_shared_head` query heads share a key head."""
    d = dims(c, kv_key="num_attention_heads")
    d = replace(d, kv_heads=-(-d.heads // c.size("n_shared_head", 8)))
    mixer, ffn = attention(d, rotary=rotary(c, d.head_dim)), mlp(d.width, c.size("intermediate_size"), "silu")
    return causal_lm(c, d.width, [parallel_layer("dense", d.width, mixer, ffn, norm=rms)] * d.layers)


@family("plamo2")
def plamo2(c: Config) -> Model:
    """PLaMo 2: state spaces as in Mamba 2 and attention in turns, norms on both sides; most attention has a window."""
    d = dims(c.with_values(head_dim=c.size("hidden_size_per_head", 128)))
    step, full = c.size("mamba_step", 2), c.layer_set("full_attention_idx", d.layers) or []
    window = c.size("attention_window_size", 2048)
    scans = c.flag("mamba_enabled", True)

    def mixer(i: int) -> tuple[str, Modules]:
        last = d.layers <= step // 2
        if scans and (i != d.layers - 1 if last else i % step != step // 2):
            return "mamba2", _scan(c, d)
        limit = None if i in full else window
        heads = attention(d, rotary=rotary(c, d.head_dim), window=limit, qk_norm=_scaled)
        return "sliding" if limit else "", heads

    ffn = mlp(d.width, c.size("intermediate_size"), "silu")
    return causal_lm(c, d.width, stack(d.width, [mixer(i) for i in range(d.layers)], ffn, after=True), tied=True)


@family("plamo3")
def plamo3(c: Config) -> Model:
    """PLaMo 3 (mlx-lm 0.32.2, plamo3.py): norms on both sides, and every eighth layer sees all; the others a window.

    A query sees `window_size` tokens and its own.
    """
    d, every = dims(c, head_dim=128), c.size("sliding_window_pattern", 8)
    window = c.size("sliding_window", c.size("window_size", 2048)) + 1
    c.mark_read("window_size", "rope_local_theta", "linear_type", "image_feature_size", "image_proj_type")
    limits = [None if (i + 1) % every == 0 else window for i in range(d.layers)]
    mixer = partial(attention, d, rotary=rotary(c, d.head_dim), qk_norm=per_head)
    ffn = mlp(d.width, c.size("intermediate_size"), "silu")
    return causal_lm(c, d.width, stack(d.width, windowed(limits, mixer), ffn, after=True), tied=True)


def _scaled(name: str, heads: int, dim: int) -> Norm:
    """RMSNorm over each head with a weight of `dim` for each."""
    return replace(layer_norm_of_each_head(name, heads, dim), center=False)


def _scan(c: Config, d: Dims) -> Modules:
    """The mixer of Mamba 2 whose B, C and dt come from a product of their own, with Jamba's norms."""
    heads, state, dim = c.size("mamba_num_heads", 64), c.size("mamba_d_state", 64), d.head_dim
    inner, rank = heads * dim, max(64, d.width // 16)
    chunk = c.size("mamba_chunk_size", 256)
    return (
        column_product("in_proj", d.width, 2 * inner),
        Conv(name="conv", channels=inner, kernel=c.size("mamba_d_conv", 4)),
        row_product("x_proj", inner, rank + 2 * state),
        rms("dt_norm", rank),
        rms("b_norm", state),
        rms("c_norm", state),
        column_product("dt_proj", rank, heads),
        StateSpace(name="scan", heads=heads, head_dim=dim, state_size=state, groups=1, chunk=chunk),
        Gate(name="scan_gate", width=inner, gates=inner),
        row_product("out_proj", inner, d.width),
    )
