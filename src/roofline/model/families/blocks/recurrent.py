"""Mixers with a state instead of a cache: state spaces, linear attention, gated recurrence, short convolutions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from roofline.model.families.blocks.feed_forward import mlp
from roofline.model.families.blocks.norms import rms
from roofline.model.families.blocks.projections import column_product, row_product
from roofline.model.modules import (
    Activation,
    Conv,
    DeltaRule,
    Gate,
    GatedRecurrence,
    Linear,
    LinearAttention,
    MatrixMemory,
    Module,
    Modules,
    Norm,
    SelectiveScan,
    StateSpace,
    TokenShift,
    Wkv,
)


# -- state spaces --------------------------------------------------------------------------------------------------
def mamba(
    width: int, inner: int, state: int, rank: int, kernel: int, *, conv_bias: bool, bias: bool, norms: bool = False
) -> Modules:
    """Mamba-1 mixer (arXiv:2312.00752 §3.4). `norms`: with Jamba's norms of dt, B and C."""
    inside = (rms("dt_norm", rank), rms("b_norm", state), rms("c_norm", state)) if norms else ()
    return (
        column_product("in_proj", width, 2 * inner, bias),
        Conv(name="conv", channels=inner, kernel=kernel, bias=conv_bias),
        row_product("x_proj", inner, rank + 2 * state),
        *inside,
        column_product("dt_proj", rank, inner, True),
        SelectiveScan(name="scan", channels=inner, state_size=state),
        Gate(name="scan_gate", width=inner, gates=inner),
        row_product("out_proj", inner, width, bias),
    )


def in_heads(mixer: Modules, heads: int) -> Modules:
    """A Mamba-1 mixer whose channels are split into heads with separate dt, B and C (Zamba, arXiv:2405.16712 §3)."""

    def of_heads(x: Module) -> Module:
        match x:
            case Linear(name="x_proj"):
                return replace(x, outputs=heads * x.outputs, groups=heads, cut="groups")
            case Linear(name="dt_proj"):
                return replace(x, inputs=heads * x.inputs, groups=heads, cut="groups")
            case SelectiveScan():
                return replace(x, groups=heads)
            case _:
                return x

    return mixer if heads == 1 else tuple(of_heads(x) for x in mixer)


def mamba2(
    width: int, heads: int, head_dim: int, state: int, groups: int, kernel: int, chunk: int,
    *, conv_bias: bool, bias: bool, out_bias: bool | None = None, norm: bool = True,
) -> Modules:  # fmt: skip
    """Mamba-2 mixer (arXiv:2405.21060 §7): one projection gives z, x, B, C and dt. `out_bias` defaults to `bias`."""
    inner, mixed = heads * head_dim, heads * head_dim + 2 * groups * state
    last = bias if out_bias is None else out_bias
    return (
        column_product("in_proj", width, inner + mixed + heads, bias, kv=mixed - inner, kv_groups=groups),
        Conv(name="conv", channels=mixed, kernel=kernel, bias=conv_bias, kv=mixed - inner, kv_groups=groups),
        StateSpace(name="scan", heads=heads, head_dim=head_dim, state_size=state, groups=groups, chunk=chunk),
        Gate(name="scan_gate", width=inner, gates=inner),
        *((rms("scan_norm", inner),) if norm else ()),
        row_product("out_proj", inner, width, last),
    )


# -- linear attention ----------------------------------------------------------------------------------------------
def gated_delta_net(width: int, key_heads: int, value_heads: int, key_dim: int, value_dim: int, kernel: int) -> Modules:
    """Gated DeltaNet mixer (arXiv:2412.06464 §3) as Qwen3-Next builds it."""
    keys, values = key_heads * key_dim, value_heads * value_dim
    return (
        column_product("in_proj", width, 2 * keys + 2 * values + 2 * value_heads),
        Conv(name="conv", channels=2 * keys + values, kernel=kernel),
        DeltaRule(name="scan", key_heads=key_heads, value_heads=value_heads, key_dim=key_dim, value_dim=value_dim),
        Norm(name="scan_norm", width=value_dim, repeats=value_heads),
        Gate(name="scan_gate", width=values, gates=values),
        row_product("out_proj", values, width),
    )


def kimi_delta(
    width: int, heads: int, dim: int, kernel: int, *, narrow: bool = True, narrow_gate: bool | None = None
) -> Modules:
    """Kimi Delta Attention (arXiv:2510.26692 §4): decay and output gate have low rank, the width of one head.

    If not `narrow`, a full product computes each of them (Ling 3); `narrow_gate` says so of the gate alone (Kimi K3).
    """
    inner, ranks = heads * dim, (narrow, narrow if narrow_gate is None else narrow_gate)
    own, shared = inner * (2 - sum(ranks)), dim * sum(ranks)
    return (
        column_product("in_proj", width, 3 * inner + heads + own + shared, kv=shared),
        Conv(name="conv", channels=3 * inner, kernel=kernel),
        *((column_product("decay_proj", dim, inner),) if narrow else ()),
        DeltaRule(name="scan", key_heads=heads, value_heads=heads, key_dim=dim, value_dim=dim, channelwise=True),
        Norm(name="scan_norm", width=dim, repeats=heads),
        *((column_product("gate_proj", dim, inner),) if ranks[1] else ()),
        Gate(name="scan_gate", width=inner, gates=inner),
        row_product("out_proj", inner, width),
    )


def lightning(width: int, heads: int, dim: int, chunk: int, act: str) -> Modules:
    """Lightning attention as MiniMax-01 builds it (arXiv:2501.08313 §2.2): no RoPE, no softmax, gated output."""
    inner = heads * dim
    return (
        column_product("qkv_proj", width, 3 * inner),
        Activation(name="qkv_act", width=3 * inner, function=act, gated=False),
        LinearAttention(name="scan", heads=heads, head_dim=dim, chunk=chunk),
        rms("scan_norm", inner),
        column_product("gate_proj", width, inner, beside=True),
        Gate(name="scan_gate", width=inner, gates=inner),
        row_product("out_proj", inner, width),
    )


def mlstm(width: int, heads: int, keys: int, values: int, chunk: int, *, bias: bool = False) -> Modules:
    """mLSTM mixer as xLSTM-7B builds it (arXiv:2503.13427 §3): capped gates, a norm for each head, a gated output."""
    key_dim, value_dim = keys // heads, values // heads
    return (
        column_product("in_proj", width, 2 * keys + 2 * values, bias),
        column_product("gates_proj", width, 2 * heads, True),
        Activation(name="gates_act", width=2 * heads, function="tanh", gated=False),
        MatrixMemory(name="scan", heads=heads, key_dim=key_dim, value_dim=value_dim, chunk=chunk),
        Norm(name="scan_norm", width=value_dim, repeats=heads, center=True, bias=bias, per_repeat=True),
        Gate(name="scan_gate", width=values, gates=values),
        row_product("out_proj", values, width, bias),
    )


# -- RWKV (arXiv:2305.13048 §3) ------------------------------------------------------------------------------------
def time_mixing(width: int, inner: int) -> Modules:
    """RWKV's time mixing: receptance, key and value, each from its own token shift; a gated weighted mean of values."""
    shifted, three = 3 * width, 3 * inner
    return (
        TokenShift(name="time_shift", width=width, streams=3),
        Linear(name="rkv_proj", inputs=shifted, outputs=three, groups=3, part="attention", cut="columns"),
        Wkv(name="scan", channels=inner),
        Gate(name="scan_gate", width=inner, gates=inner),
        row_product("out_proj", inner, width),
    )


def delta_mixing(width: int, dim: int, ranks: Mapping[str, int]) -> Modules:
    """RWKV-7's time mixing (arXiv:2503.14456 §4): a delta rule with a decay for each key channel.

    `ranks`: rank of the products that give the decay, the rate, the share of the first layer's value, and the gate.
    """
    heads = width // dim
    return (
        TokenShift(name="time_shift", width=width, streams=6),
        Linear(name="rkv_proj", inputs=3 * width, outputs=3 * width, groups=3, part="attention", cut="columns"),
        *(x for name, rank in ranks.items() for x in _low_rank(name, width, rank, bias=name != "gate")),
        Activation(name="key_scales", width=width, function="linear", gated=False, learned=3 * width),
        Norm(name="key_norm", width=dim, repeats=heads, weight=False),
        DeltaRule(
            name="scan", key_heads=heads, value_heads=heads, key_dim=dim, value_dim=dim, channelwise=True,
            learned=False,
        ),
        Norm(name="scan_norm", width=dim, repeats=heads, center=True, bias=True, per_repeat=True),
        Gate(name="scan_gate", width=width, gates=width, sigmoid=False),
        row_product("out_proj", width, width),
    )  # fmt: skip


def _low_rank(name: str, width: int, rank: int, *, bias: bool) -> Modules:
    return (
        Linear(name=f"{name}_down_proj", inputs=width, outputs=rank, part="attention", beside=True),
        Activation(name=f"{name}_act", width=rank, function="tanh", gated=False),
        column_product(f"{name}_up_proj", rank, width, bias),
    )


def shifted_mlp(width: int, inner: int) -> Modules:
    """RWKV-7's channel mixing: a squared-ReLU feed-forward on a shifted input."""
    return (TokenShift(name="channel_shift", width=width, streams=1), *mlp(width, inner, "relu2", gated=False))


def channel_mixing(width: int, inner: int) -> Modules:
    """RWKV's channel mixing: a squared-ReLU feed-forward gated by a receptance, both on shifted inputs."""
    return (
        TokenShift(name="channel_shift", width=width, streams=2),
        *mlp(width, inner, "relu2", gated=False),
        Linear(name="receptance_proj", inputs=width, outputs=width),
        Gate(name="receptance_gate", width=width, gates=width),
    )


# -- gated recurrence and convolutions -----------------------------------------------------------------------------
def griffin(width: int, lru: int, heads: int, kernel: int, act: str) -> Modules:
    """Griffin's recurrent mixer (arXiv:2402.19427 §2.3): gates from block-diagonal projections, a block per head."""
    return (
        column_product("in_proj", width, 2 * lru, True),
        Conv(name="conv", channels=lru, kernel=kernel, bias=True),
        Linear(name="gates_proj", inputs=lru, outputs=2 * lru, bias=True, groups=heads, part="attention", cut="groups"),
        Activation(name="gates_act", width=2 * lru, function="sigmoid", gated=False),
        GatedRecurrence(name="scan", channels=lru),
        Activation(name="branch_act", width=lru, function=act),
        row_product("out_proj", lru, width, True),
    )


def short_conv(width: int, kernel: int, bias: bool) -> Modules:
    """LFM2's mixer (arXiv:2511.23404): a short convolution whose input and output are gated by the same projection."""
    return (
        column_product("in_proj", width, 3 * width, bias),
        Gate(name="conv_in_gate", width=width, gates=width, sigmoid=False),
        Conv(name="conv", channels=width, kernel=kernel, bias=bias),
        Gate(name="conv_out_gate", width=width, gates=width, sigmoid=False),
        row_product("out_proj", width, width, bias),
    )
