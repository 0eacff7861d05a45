"""State-space models and hybrids with attention."""

from __future__ import annotations

from roofline.declared.numbers.maths import ceil_div
from roofline.model.configs.config import Config
from roofline.model.families.blocks.attention import attention
from roofline.model.families.blocks.feed_forward import activation, mlp, moe
from roofline.model.families.blocks.layers import causal_lm, layer, stack
from roofline.model.families.blocks.recurrent import mamba, mamba2
from roofline.model.families.blocks.sizes import Dims, depth, dims
from roofline.model.families.registry import family
from roofline.model.model import Model
from roofline.model.modules import Modules


@family("mamba2")
def mamba2_lm(c: Config) -> Model:
    """Mamba-2 (arXiv:2405.21060): one mixer per layer, no feed-forward."""
    width, heads, head_dim = c.size("hidden_size"), c.size("num_heads"), c.size("head_dim")
    _check_expanded(c, width, heads * head_dim, head_dim)
    groups, kernel, chunk = c.size("n_groups", 8), c.size("conv_kernel", 4), c.size("chunk_size", 256)
    c.size("intermediate_size", None), activation(c)
    conv_bias, bias = c.flag("use_conv_bias", True), c.flag("use_bias")
    mixer = mamba2(width, heads, head_dim, c.size("state_size"), groups, kernel, chunk, conv_bias=conv_bias, bias=bias)
    return causal_lm(c, width, [layer("mamba2", width, mixer)] * depth(c))


@family("mamba", "falcon_mamba")
def mamba_lm(c: Config) -> Model:
    """Mamba (arXiv:2312.00752)."""
    width, state, kernel = c.size("hidden_size"), c.size("state_size"), c.size("conv_kernel", 4)
    inner, rank = c.size("intermediate_size", _expanded(c, width)), _rank(c, "time_step_rank", width)
    c.size("d_inner", None), c.size("d_model", None), activation(c)
    conv_bias, bias = c.flag("use_conv_bias", True), c.flag("use_bias")
    mixer = mamba(width, inner, state, rank, kernel, conv_bias=conv_bias, bias=bias)
    return causal_lm(c, width, [layer("mamba", width, mixer)] * depth(c), tied=True)


def _check_expanded(c: Config, width: int, inner: int, head_dim: int) -> None:
    """Raise an InputError unless the heads of Mamba-2 fill expand · hidden_size."""
    expanded = _expanded(c, width)
    if inner != expanded and inner % width == 0:
        raise c.error("expand", f"num_heads · head_dim / hidden_size = {inner // width}")
    if inner != expanded:
        raise c.error("num_heads", f"expand · hidden_size / head_dim = {expanded / head_dim:g}")


def _expanded(c: Config, width: int) -> int:
    """The inner width: expand · hidden_size, rounded down."""
    inner = int(c.number("expand", 2) * width)
    if inner < 1:
        raise c.error("expand", "a factor that leaves an inner width")
    return inner


def _rank(c: Config, key: str, width: int) -> int:
    """Width of the time-step projection; "auto" is hidden_size / 16, rounded up."""
    if c.get(key) in (None, "auto"):
        c.mark_read(key)
        return int(ceil_div(width, 16))
    rank: int = c.size(key)
    return rank


@family("jamba")
def jamba(c: Config) -> Model:
    """Jamba (arXiv:2403.19887): one attention layer in eight, experts on every other layer."""
    d, inner, act = dims(c), c.size("intermediate_size"), activation(c)
    scan = _jamba_scan(c, d)
    count, top_k = c.size("num_experts", 16), c.size("num_experts_per_tok", 2)
    dense = mlp(d.width, inner, act)
    experts = moe(c, d.width, count, top_k, inner) if count > 1 else ()
    full, (every, at) = attention(d, rotary=0), _beat(c, "attn_layer", 8, 4)
    mixers = [("attention", full) if i % every == at else ("mamba", scan) for i in range(d.layers)]
    sparse_every, sparse_at = _beat(c, "expert_layer", 2, 1)
    sparse = [count > 1 and i % sparse_every == sparse_at for i in range(d.layers)]
    return causal_lm(c, d.width, stack(d.width, mixers, dense, experts=experts, sparse=sparse))


def _jamba_scan(c: Config, d: Dims) -> Modules:
    """Mamba-1 with norms on dt, B and C."""
    rank, inner = _rank(c, "mamba_dt_rank", d.width), c.size("mamba_expand", 2) * d.width
    state, kernel = c.size("mamba_d_state", 16), c.size("mamba_d_conv", 4)
    conv_bias, bias = c.flag("mamba_conv_bias", True), c.flag("mamba_proj_bias")
    return mamba(d.width, inner, state, rank, kernel, conv_bias=conv_bias, bias=bias, norms=True)


def _beat(c: Config, key: str, period: int, offset: int) -> tuple[int, int]:
    """Period of a kind of layer, and the offset of the first."""
    every = c.size(f"{key}_period", period)
    return every, c.size(f"{key}_offset", offset, least=0, most=every - 1)
