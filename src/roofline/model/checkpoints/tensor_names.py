"""Names of a module's tensors in published checkpoints.

A fused product is one module here, while a checkpoint may store it in pieces (q, k and v; gate and up) and quantise
each piece differently. `pieces` gives the pieces of a module, the number of values of each, and the names under which
they are published, the usual one first. A name is relative to its layer; `STEMS` are the names of layers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from roofline.model import modules as m
from roofline.model.kind_table import KindTable

STEMS = ("model.layers", "model.language_model.layers", "language_model.model.layers", "backbone.layers")
"""Names of the list of layers: the usual one, and those of wrappers and hybrids."""
HEAD, TABLE = ("lm_head", "output", "embed_out"), ("embed_tokens", "wte", "word_embeddings", "tok_embeddings", "wpe")
"""Names of heads and of embedding tables."""
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
    "attention.self",
    "attention.output",
    "self_attention.attention",
)
"""Names of the mixer, the first half of a layer."""
NETWORKS = ("mlp", "mlps.0", "feed_forward", "block_sparse_moe", "ffn", "mixer", "moe")
"""Names of the feed-forward, the second half of a layer."""
CROSS = (
    "encoder_attn",
    "cross_attention",
    "cross_attn",
    "crossattention.self",
    "crossattention.output",
    "crossattention",
    "encoder_decoder_attention.attention",
    "encoder_decoder_attention",
    "layer.1.EncDecAttention",
)
"""Names of attention to what an encoder read."""
SECOND = "second_"
"""Prefix of the modules in the second half of a double layer (LongCat-Flash)."""
SHARED = ("shared_experts", "shared_expert", "shared_mlp")
BESIDE_DENSE = "dense_norm"
"""Norm of a dense network whose layer also has experts outside any container (Gemma 4)."""


@dataclass(frozen=True)
class Piece:
    """A matrix of a checkpoint: its number of values, and its names, in which `{e}` stands for an expert's number."""

    values: int
    names: tuple[str, ...]


def _in(containers: Iterable[str], *leaves: str) -> tuple[str, ...]:
    """Every leaf in every container, the usual pair first; a container "" is the layer itself."""
    return tuple(f"{container}.{leaf}" if container else leaf for container in containers for leaf in leaves)


def _around_experts(block: m.Modules) -> tuple[str, ...]:
    """Names of the containers of a layer's experts and router."""
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
    """Pieces of a fused query, key and value projection; keys and values have equal sizes."""
    each, keys = x.inputs, x.kv // 2
    sizes = (x.outputs - 2 * keys, keys, keys)
    apart = (("q_proj", "wq", "to_q", "query"), ("k_proj", "wk", "to_k", "key"), ("v_proj", "wv", "to_v", "value"))
    return tuple(
        Piece(each * size, _in(MIXERS, *names, *_FUSED_QKV)) for size, names in zip(sizes, apart, strict=True) if size
    )


def _gate_up(x: m.Linear, containers: tuple[str, ...]) -> tuple[Piece, ...]:
    half = x.matrix // 2
    apart = (("gate_proj", "w1"), ("up_proj", "w3"))
    return tuple(Piece(half, _in(containers, *names, *_FUSED_GATE_UP)) for names in apart)


_CROSS_LEAVES = {
    "cross_q_proj": ("q_proj", "query", "q"),
    "cross_k_proj": ("k_proj", "key", "k"),
    "cross_v_proj": ("v_proj", "value", "v"),
    "cross_o_proj": ("out_proj", "o_proj", "attention.output", "dense", "o"),
}


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
    if x.name == "qv_proj":
        return tuple(Piece(x.matrix // 2, _in(MIXERS, name)) for name in ("q_proj", "v_proj"))
    if x.name in _CROSS_LEAVES:
        return (Piece(x.matrix, _in(CROSS, *_CROSS_LEAVES[x.name])),)
    if x.name == "in_proj":
        return _in_proj(x, block)
    if shared == "gate_up_proj":
        return _gate_up(x, NETWORKS if shared == x.name else _shared())
    leaves = _LEAVES.get(x.name) or _LEAVES.get(shared) or (x.name,)
    if x.name not in _LEAVES and shared != x.name:
        return (Piece(x.matrix, _in(_shared(), *leaves)),)
    return (Piece(x.matrix, _in(NETWORKS if x.part == "ffn" else MIXERS, *leaves)),)


def _second(pieces: tuple[Piece, ...]) -> tuple[Piece, ...]:
    """Pieces of the second half of a double layer, whose containers are numbered."""

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
    """Pieces of a state's input projection; that of a delta rule is also stored with decays and rates separate."""
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
    """Gate, up and down projections of all experts: numbered, or together in one tensor."""
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
"""Kind of module → the matrices that a checkpoint stores for it."""
PIECES.add(_linear, m.Linear)
PIECES.add(_experts, m.Experts)
PIECES.add(
    lambda x, _: (Piece(x.matrix, _in(MIXERS, f"experts.{'output' if x.summed else 'input'}_linear")),), m.ExpertLinear
)
ROUTERS = (
    "gate", "router", "router.proj", "router.gate", "gate.wg", "router_gate", "router.layer", "router.classifier",
)  # fmt: skip
PIECES.add(lambda x, block: (Piece(x.matrix, _in(_around_experts(block), *ROUTERS)),), m.Router)
PIECES.add(lambda x, _: (Piece(x.matrix, ()),), m.Convolution)
PIECES.add(_latent, m.LatentAttention)
PIECES.add(lambda x, _: (Piece(x.matrix, TABLE),), m.Embedding)
PIECES.add(lambda x, _: (Piece(x.matrix, _in(MIXERS, "rel_bias")),), m.RelativeBias)
PIECES.add(
    lambda x, _: (), m.Norm, m.Rope, m.Attention, m.Indexer, m.Compressor, m.CompressedAttention, m.Activation, m.Add,
    m.Gate, m.Mix, m.Conv, m.SelectiveScan, m.StateSpace, m.DeltaRule, m.LinearAttention, m.GatedRecurrence,
    m.TokenShift, m.Delay, m.DepthAttention, m.Wkv, m.MatrixMemory, m.Collective, m.Learned, m.Magnitude,
)  # fmt: skip


def pieces(module: m.Module, block: m.Modules) -> tuple[Piece, ...]:
    """The matrices that a checkpoint stores for a module of a layer (`block`); none for a module without matrices.

    A tied product is stored where its weights are counted. The values of all pieces sum to the module's `matrix`.
    """
    return PIECES[type(module)](module, block) if module.matrix else ()
