"""What the tensors of a module are called in published checkpoints.

Here a fused product is one module; a checkpoint may store it in pieces (q, k and v; gate and up), and a quantisation
may treat each piece in its own way. `pieces` says which ones a module has, how many values each holds, and under which
names makers publish it, the usual one first. A name is relative to its layer; `stem` says how layers are called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from roofline.model import modules as m
from roofline.model.table import KindTable

STEMS = ("model.layers", "model.language_model.layers", "language_model.model.layers", "backbone.layers")
"""How layers are called: by most, and by wrappers and hybrids."""
HEAD, TABLE = ("lm_head", "output", "embed_out"), ("embed_tokens", "wte", "word_embeddings", "tok_embeddings", "wpe")
"""How heads and embedding tables are called."""
MIXERS = (
    "self_attn",
    "self_attn.0",
    "attn",
    "attention",
    "self_attention",
    "mixer",
    "linear_attn",
    "mamba",
    "temporal_block",
    "conv",
)
"""How the first half of a layer is called."""
NETWORKS = ("mlp", "mlps.0", "feed_forward", "block_sparse_moe", "ffn", "mixer", "moe")
"""How the second half is called."""
SECOND = "second_"
"""How the modules of the second half of a double layer begin (LongCat-Flash)."""
SHARED = ("shared_experts", "shared_expert", "shared_mlp")
BESIDE_DENSE = "dense_norm"
"""The norm of a dense network that has experts beside it, in no container of their own (Gemma 4)."""


@dataclass(frozen=True)
class Piece:
    """A matrix of a checkpoint: its values, and its names, in which `{e}` stands for the number of an expert."""

    values: int
    names: tuple[str, ...]


def _in(containers: Iterable[str], *leaves: str) -> tuple[str, ...]:
    """Every leaf in every container, the usual pair first; in the layer itself where a container has no name."""
    return tuple(f"{container}.{leaf}" if container else leaf for container in containers for leaf in leaves)


def _around_experts(block: m.Modules) -> tuple[str, ...]:
    """What holds the experts of a layer and their router."""
    return ("", "moe") if any(x.name == BESIDE_DENSE for x in block) else NETWORKS


_FUSED_QKV = ("qkv_proj", "query_key_value", "c_attn", "Wqkv", "W_pack", "wqkv", "in_proj_qkv")
_FUSED_GATE_UP = ("gate_up_proj", "gate_up", "w1_w2", "dense_h_to_4h")
_LEAVES: dict[str, tuple[str, ...]] = {
    "o_proj": ("o_proj", "out_proj", "wo", "dense", "c_proj", "proj", "to_out"),
    "up_proj": ("up_proj", "fc1", "c_fc", "w3", "fc_in", "dense_h_to_4h", "lin1"),
    "down_proj": ("down_proj", "fc2", "c_proj", "w2", "fc_out", "dense_4h_to_h", "lin2"),
    "q_proj": ("q_proj",),
    "q_a_proj": ("q_a_proj",),
    "q_b_proj": ("q_b_proj",),
    "kv_a_proj": ("kv_a_proj_with_mqa",),
    "index_q_proj": ("indexer.wq_b", "indexer.q_proj", "index_q_proj"),
    "index_k_proj": ("indexer.wk", "indexer.k_proj", "index_k_proj"),
    "index_weights_proj": ("indexer.weights_proj", "indexers_proj"),
    "shared_gate_proj": ("shared_expert_gate",),
    "experts_in_proj": ("fc1_latent_proj", "pre_expert_proj"),
    "experts_out_proj": ("fc2_latent_proj", "post_expert_proj"),
    "attention_gate_proj": ("gate_proj", "g_proj", "linear_gate"),
}
_GATED_NORMS = {
    f"{name}_norm_{way}_proj": (f"{norm}.W_{way}", f"{norm}.mlp.{fc}")
    for name, norm in (("attn", "input_layernorm"), ("ffn", "post_attention_layernorm"))
    for way, fc in (("down", "fc1"), ("up", "fc2"))
}


def _qkv(x: m.Linear) -> tuple[Piece, ...]:
    """Queries, keys and values; keys and values are as many."""
    each, keys = x.inputs, x.kv // 2
    sizes = (x.outputs - 2 * keys, keys, keys)
    apart = (("q_proj", "wq", "to_q"), ("k_proj", "wk", "to_k"), ("v_proj", "wv", "to_v"))
    return tuple(
        Piece(each * size, _in(MIXERS, *names, *_FUSED_QKV)) for size, names in zip(sizes, apart, strict=True) if size
    )


def _gate_up(x: m.Linear, containers: tuple[str, ...]) -> tuple[Piece, ...]:
    half = x.matrix // 2
    apart = (("gate_proj", "w1"), ("up_proj", "w3"))
    return tuple(Piece(half, _in(containers, *names, *_FUSED_GATE_UP)) for names in apart)


def _linear(x: m.Linear, block: m.Modules) -> tuple[Piece, ...]:
    if x.name.startswith(SECOND):
        return _second(_linear(replace(x, name=x.name.removeprefix(SECOND)), block))
    if x.part == "head":
        return (Piece(x.matrix, HEAD),)
    shared = x.name.removeprefix("shared_")
    if x.name in _GATED_NORMS:
        return (Piece(x.matrix, _GATED_NORMS[x.name]),)
    if x.name == "qkv_proj":
        return _qkv(x)
    if x.name == "in_proj":
        return _in_proj(x, block)
    if shared == "gate_up_proj":
        return _gate_up(x, NETWORKS if shared == x.name else _shared())
    leaves = _LEAVES.get(x.name) or _LEAVES.get(shared) or (x.name,)
    if x.name not in _LEAVES and shared != x.name:
        return (Piece(x.matrix, _in(_shared(), *leaves)),)
    return (Piece(x.matrix, _in(NETWORKS if x.part == "ffn" else MIXERS, *leaves)),)


def _second(pieces: tuple[Piece, ...]) -> tuple[Piece, ...]:
    """Those of the second half of a double layer, in containers that are numbered."""

    def numbered(name: str) -> str:
        container, leaf = name.split(".", 1)
        return f"{'mlps' if container == 'mlp' else container}.1.{leaf}"

    own = ("self_attn.", "mlp.")
    first = ("self_attn.0.", "mlps.0.")
    return tuple(
        Piece(p.values, tuple(numbered(n) for n in p.names if n.startswith(own) and not n.startswith(first)))
        for p in pieces
    )


def _latent(x: m.LatentAttention, _: m.Modules) -> tuple[Piece, ...]:
    piece = Piece(x.matrix, _in(MIXERS, "kv_b_proj"))
    return _second((piece,)) if x.name.startswith(SECOND) else (piece,)


def _shared() -> tuple[str, ...]:
    return _in(NETWORKS, *SHARED)


def _in_proj(x: m.Linear, block: m.Modules) -> tuple[Piece, ...]:
    """What goes into a state: of a delta rule its decays and rates stand apart from the streams."""
    scan = next((s for s in block if isinstance(s, m.DeltaRule) and not s.channelwise), None)
    if scan is None:
        return (Piece(x.matrix, _in(MIXERS, "in_proj", "q_proj", "qkv_proj")),)
    rates, values = 2 * scan.value_heads, scan.value_heads * scan.value_dim
    streams = (
        (x.outputs - rates - values, ("in_proj_qkvz", "in_proj_qkv")),
        (values, ("in_proj_qkvz", "in_proj_z")),
        (rates // 2, ("in_proj_ba", "in_proj_b")),
        (rates // 2, ("in_proj_ba", "in_proj_a")),
    )
    return tuple(Piece(x.inputs * size, _in(("linear_attn",), *names)) for size, names in streams)


def _experts(x: m.Experts, block: m.Modules) -> tuple[Piece, ...]:
    """Gate, up and down of every expert: under its number, or of all in one tensor."""
    each, around = x.held * x.hidden * x.inner, _around_experts(block)
    apart = (
        (("gate_proj", "w1", "gate_up_proj"), "input_linear"),
        (("up_proj", "w3", "gate_up_proj"), "input_linear"),
        (("down_proj", "w2"), "output_linear"),
    )
    return tuple(
        Piece(each, _in(around, *(f"experts.{{e}}.{n}" for n in names), *(f"experts.{n}" for n in names), whole))
        for names, whole in (apart if x.gated else apart[1:])
    )


PIECES: KindTable[Callable[[Any, m.Modules], tuple[Piece, ...]]] = KindTable("pieces", m.Module)
"""Kind of module → the matrices that a checkpoint stores of it."""
PIECES.add(_linear, m.Linear)
PIECES.add(_experts, m.Experts)
PIECES.add(
    lambda x, _: (Piece(x.matrix, _in(MIXERS, f"experts.{'output' if x.summed else 'input'}_linear")),), m.ExpertLinear
)
ROUTERS = (
    "gate", "router", "router.proj", "router.gate", "gate.wg", "router_gate", "router.layer", "router.classifier",
)  # fmt: skip
PIECES.add(lambda x, block: (Piece(x.matrix, _in(_around_experts(block), *ROUTERS)),), m.Router)
PIECES.add(_latent, m.LatentAttention)
PIECES.add(lambda x, _: (Piece(x.matrix, TABLE),), m.Embedding)
PIECES.add(lambda x, _: (Piece(x.matrix, _in(MIXERS, "rel_bias")),), m.RelativeBias)
PIECES.add(
    lambda x, _: (), m.Norm, m.Rope, m.Attention, m.Indexer, m.Compressor, m.CompressedAttention, m.Activation, m.Add,
    m.Gate, m.Mix, m.Conv, m.SelectiveScan, m.StateSpace, m.DeltaRule, m.LinearAttention, m.GatedRecurrence,
    m.TokenShift, m.Delay, m.DepthAttention, m.Wkv, m.MatrixMemory, m.Collective,
)  # fmt: skip


def pieces(module: m.Module, block: m.Modules) -> tuple[Piece, ...]:
    """The matrices that a checkpoint stores of a module among those of its layer; none where it has none.

    A tied product is stored where its weights are counted. Their values sum to the module's `matrix`.
    """
    return PIECES[type(module)](module, block) if module.matrix else ()
