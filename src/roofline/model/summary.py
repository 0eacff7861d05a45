"""Summaries of a model's architecture: module sizes and groups, layer order, fingerprint."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import MISSING, fields
from itertools import groupby

from roofline.declared.numbers.units import counted, si, whole
from roofline.model import modules as m
from roofline.model.kind_table import KindTable, OfKind
from roofline.model.model import Model

GROUPS: KindTable[str] = KindTable("groups of modules", m.Module)
"""Kind of module → the group of ops that plots draw it in."""
for _group, _kinds in (
    ("matmul", (m.Linear, m.Router, m.Indexer, m.RelativeBias, m.Convolution)),
    ("attention", (m.Attention, m.LatentAttention, m.CompressedAttention)),
    ("experts", (m.Experts, m.ExpertLinear)), ("norm", (m.Norm,)), ("embedding", (m.Embedding,)),
    ("communication", (m.Collective,)),
    ("elementwise", (m.Activation, m.Add, m.Gate, m.Rope, m.Mix, m.TokenShift, m.Delay, m.DepthAttention, m.Learned)),
    ("scan", (m.Conv, m.SelectiveScan, m.StateSpace, m.DeltaRule, m.LinearAttention, m.GatedRecurrence, m.Compressor)),
    ("scan", (m.Wkv, m.MatrixMemory)), ("elementwise", (m.Magnitude,)),
):  # fmt: skip
    GROUPS.add(_group, *_kinds)
WORDS: KindTable[OfKind[str]] = KindTable("words", m.Module)
"""Kind of module → a function that writes its sizes for a diagram."""


def sizes(x: m.Module) -> str:
    """The sizes of a module that differ from their defaults, as `name=value`."""
    shown = []
    for f in fields(x):
        value = getattr(x, f.name)
        if f.name in ("name", "part") or value is None or (f.default is not MISSING and value == f.default):
            continue
        shown.append(f.name if value is True else f"{f.name}={value}")
    return " ".join(shown)


def in_words(x: m.Module) -> str:
    """A module's sizes as written in a diagram, such as `32 heads, 8 KV × 128`."""
    return WORDS[type(x)](x)


def _heads(heads: int, dim: int) -> str:
    return f"{counted(heads, 'head')} × {dim}"


def _of(rate: int | None) -> str:
    return f", entries of {rate}" if rate else ""


def _best(select: int | None) -> str:
    return f", best {whole(select)}" if select else ""


def _slides(window: int | None) -> str:
    return f", window {whole(window)}" if window else ""


WORDS.add(lambda x: f"{whole(x.inputs)} → {whole(x.outputs)}", m.Linear, m.Magnitude)
WORDS.add(lambda x: f"{whole(x.rows)} × {whole(x.width)}", m.Embedding, m.Learned)
WORDS.add(lambda x: f"{whole(x.inputs)} → {whole(x.outputs)}, {counted(x.kernel, 'tap')}", m.Convolution)
WORDS.add(
    lambda x: f"{x.heads} heads, latent {x.rank} + {x.rope}{_best(x.select)}{_slides(x.window)}", m.LatentAttention
)
WORDS.add(lambda x: f"{whole(x.inputs)} → {x.experts}", m.Router)
WORDS.add(lambda x: f"{x.repeats} × {x.width}" if x.repeats > 1 else whole(x.width), m.Norm)
WORDS.add(lambda x: f"{x.heads} × {x.dims}", m.Rope)
WORDS.add(lambda x: f"{x.function}{' · gate' if x.gated else ''}, {whole(x.width)}", m.Activation)
WORDS.add(lambda x: whole(x.width), m.Add, m.Gate, m.Mix, m.Delay)
WORDS.add(lambda x: f"{counted(x.states, 'state')} of {whole(x.width)}", m.DepthAttention)
WORDS.add(lambda x: f"{_heads(x.heads, x.dim)}, distances to {whole(x.extent)}", m.RelativeBias)
WORDS.add(lambda x: f"{_heads(x.heads, x.head_dim)}{_of(x.rate)}", m.Indexer)
WORDS.add(lambda x: f"{whole(x.width)} of {x.rate} tokens{', overlapping' if x.overlap else ''}", m.Compressor)
WORDS.add(lambda x: f"{counted(x.channels, 'channel')}, kernel {x.kernel}", m.Conv)
WORDS.add(lambda x: f"{counted(x.channels, 'channel')}, state {x.state_size}", m.SelectiveScan)
WORDS.add(lambda x: f"{counted(x.heads, 'head')}, state {x.head_dim} × {x.head_dim}", m.LinearAttention)
WORDS.add(lambda x: counted(x.channels, "channel"), m.GatedRecurrence, m.Wkv)
WORDS.add(lambda x: f"{counted(x.heads, 'head')}, state {x.key_dim} × {x.value_dim}", m.MatrixMemory)
WORDS.add(lambda x: f"{whole(x.width)}, {counted(x.streams, 'way')}", m.TokenShift)


@WORDS.of(m.Attention)
def _attention(x: m.Attention) -> str:
    ends = _slides(x.window) if x.window else f", chunks of {whole(x.chunk)}" if x.chunk else ""
    if x.select:
        ends = f"{_best(x.select)} blocks of {whole(x.block)}"
    shared = "" if x.kv_heads == x.heads else f", {x.kv_heads} KV"
    return f"{x.heads} heads{shared} × {x.head_dim}{ends}{_best(x.select)}"


@WORDS.of(m.CompressedAttention)
def _compressed(x: m.CompressedAttention) -> str:
    return f"{_heads(x.heads, x.head_dim)}, window {whole(x.window)}{_of(x.rate)}{_best(x.select)}"


@WORDS.of(m.Experts)
def _experts(x: m.Experts) -> str:
    every = x.top_k is None or x.top_k == x.experts
    besides = f" and {x.identities} identities" if x.identities else ""
    return f"{'all' if every else x.top_k} of {x.experts}{besides}, {whole(x.hidden)} → {whole(x.inner)}"


@WORDS.of(m.ExpertLinear)
def _expert_linear(x: m.ExpertLinear) -> str:
    return f"{x.top_k} of {x.experts}, {whole(x.inputs)} → {whole(x.outputs)}"


@WORDS.of(m.StateSpace)
def _state_space(x: m.StateSpace) -> str:
    return f"{counted(x.heads, 'head')}, {counted(x.groups, 'group')}, state {x.head_dim} × {x.state_size}"


@WORDS.of(m.DeltaRule)
def _delta_rule(x: m.DeltaRule) -> str:
    keys = "" if x.key_heads == x.value_heads else f", {x.key_heads} key"
    return f"{counted(x.value_heads, 'head')}{keys}, state {x.key_dim} × {x.value_dim}"


@WORDS.of(m.Collective)
def _collective(x: m.Collective) -> str:
    return f"{x.op.replace('_', ' ')} of {whole(x.width)}, {counted(x.ranks, 'rank')}"


def layer_pattern(model: Model) -> tuple[str, ...]:
    """The layers in order, as runs of equal layers or as a repeating pattern.

    DeepSeek-V3 gives `3 dense`, `58 moe`. A model with a global layer in every six gives
    `10 × (5 sliding, 1 dense)`, `2 sliding`.
    """
    names = [block.name for block in model.layers]
    for period in range(2, len(names) // 2 + 1):
        times = len(names) // period
        if len(set(names)) > 1 and all(name == names[i % period] for i, name in enumerate(names)):
            return f"{times} × ({', '.join(_runs(names[:period]))})", *_runs(names[times * period :])
    return _runs(names)


def layer_stack(model: Model, longest: int = 32) -> tuple[tuple[str, str], ...]:
    """The layer pattern as boxes of a diagram: titles, each with `layers` or the kinds of layer of a long pattern."""
    stack = []
    for part in layer_pattern(model):
        if len(part) <= longest:
            stack.append((part, "layers"))
            continue
        times, _, period = part.rpartition("(")
        kinds = Counter[str]()
        for run in period.rstrip(")").removesuffix(", mixed").split(", "):
            count, _, kind = run.partition(" ")
            kinds[kind] += int(count)
        stack.append((f"{times}{kinds.total()} layers", ", ".join(f"{n} {kind}" for kind, n in kinds.items())))
    return tuple(stack)


def _runs(names: Sequence[str]) -> tuple[str, ...]:
    runs = [(name, len(list(run))) for name, run in groupby(names)]
    if len(runs) > 12:
        return (", ".join(f"{names.count(name)} {name}" for name in dict.fromkeys(names)) + ", mixed",)
    return tuple(f"{n} {name}" for name, n in runs)


# -- a whole model -------------------------------------------------------------------------------------------------
def fingerprint(model: Model) -> tuple[tuple[str, str], ...]:
    """The properties of a model and their values in words. Properties that the model lacks are left out."""
    every = [x for x, _ in model.modules()]

    def words(*kinds: type) -> str:
        return "; ".join(dict.fromkeys(in_words(x) for x in every if isinstance(x, kinds)))

    norms = [x for x in every if isinstance(x, m.Norm)]
    experts = [x for x in every if isinstance(x, m.Experts)]
    head = next((x for x in model.head if isinstance(x, m.Linear)), None)
    attention = "latent attention" if any(isinstance(x, m.LatentAttention) for x in every) else "attention"
    mixers = [kind for kind in GROUPS if GROUPS[kind] == "attention"]
    scans = [kind for kind in GROUPS if GROUPS[kind] == "scan" and kind not in (m.Conv, m.Compressor)]
    rows = [
        ("family", model.model_type), ("layers", f"{len(model.layers)}: {', '.join(layer_pattern(model))}"),
        ("width", whole(model.hidden)), ("vocabulary", whole(model.vocab)),
        ("context", "the config does not say" if model.context is None else whole(model.context)),
        (attention, words(*mixers)), ("recurrence", words(*scans)), ("positions", _positions(every)),
        ("norms", " and ".join(sorted({"LayerNorm" if x.center else "RMSNorm" for x in norms}))),
        ("feed-forward", words(m.Activation)), ("experts", words(m.Experts)),
        ("shared experts", "yes" if experts and any(x.name.startswith("shared_") for x in every) else ""),
        ("head", "" if head is None else "tied to the embedding" if head.tied else "weights of its own"),
        ("parameters", whole(model.parameters)), ("active parameters", whole(model.active_parameters)),
        ("weights as published", f"{si(model.weight_bytes(), 'B')}, {model.precision.text()}"),
        ("KV cache per token", si(model.kv_bytes(1), "B")),
        ("state per sequence", si(model.state_bytes(), "B") if model.state_bytes() else ""),
    ]  # fmt: skip
    return tuple(row for row in rows if row[1])


def _positions(every: Sequence[m.Module]) -> str:
    if any(isinstance(x, m.Rope) for x in every):
        return "rotary"
    return "learned" if any(x.name == "position_embedding" for x in every) else ""
