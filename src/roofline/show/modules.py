"""Modules in words: their sizes, the group a picture draws them in, and the order of a model's layers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import MISSING, fields
from itertools import groupby

from roofline.model import modules as m
from roofline.model.model import Model
from roofline.show.units import counted, whole

GROUPS = (
    ((m.Linear, m.Router, m.Indexer), "matmul"),
    ((m.Attention, m.LatentAttention, m.CompressedAttention), "attention"),
    ((m.Experts,), "experts"),
    ((m.Norm,), "norm"),
    ((m.Embedding,), "embedding"),
    ((m.Collective,), "communication"),
    ((m.Activation, m.Add, m.Gate, m.Rope, m.Mix), "elementwise"),
)
"""Kinds of module → the groups of ops that pictures tell apart; scans and convolutions are the rest."""


def group_of(x: m.Module) -> str:
    """The group a module is drawn in."""
    return next((group for kinds, group in GROUPS if isinstance(x, kinds)), "scan")


def sizes(x: m.Module) -> str:
    """What is not as usual of a module's sizes, as `name=value`."""
    shown = []
    for f in fields(x):
        value = getattr(x, f.name)
        if f.name in ("name", "part") or value is None or (f.default is not MISSING and value == f.default):
            continue
        shown.append(f.name if value is True else f"{f.name}={value}")
    return " ".join(shown)


def in_words(x: m.Module) -> str:
    """A module's sizes as a diagram says them."""
    match x:
        case m.Linear():
            return f"{whole(x.inputs)} → {whole(x.outputs)}"
        case m.Embedding():
            return f"{whole(x.rows)} × {whole(x.width)}"
        case m.Attention():
            ends = f", window {whole(x.window)}" if x.window else f", chunks of {whole(x.chunk)}" if x.chunk else ""
            shared = "" if x.kv_heads == x.heads else f", {x.kv_heads} KV"
            return f"{x.heads} heads{shared} × {x.head_dim}{ends}"
        case m.LatentAttention():
            return f"{x.heads} heads, latent {x.rank} + {x.rope}{_best(x.select)}"
        case m.Experts():
            every = x.top_k is None or x.top_k == x.experts
            return f"{'all' if every else x.top_k} of {x.experts}, {whole(x.hidden)} → {whole(x.inner)}"
        case m.Router():
            return f"{whole(x.inputs)} → {x.experts}"
        case m.Norm():
            return f"{x.repeats} × {x.width}" if x.repeats > 1 else whole(x.width)
        case m.Rope():
            return f"{x.heads} × {x.dims}"
        case m.Activation():
            return f"{x.function}{' · gate' if x.gated else ''}, {whole(x.width)}"
        case m.Add() | m.Gate() | m.Mix():
            return whole(x.width)
        case m.Indexer():
            return f"{_heads(x.heads, x.head_dim)}{_of(x.rate)}"
        case m.Compressor():
            return f"{whole(x.width)} of {x.rate} tokens{', overlapping' if x.overlap else ''}"
        case m.CompressedAttention():
            return f"{_heads(x.heads, x.head_dim)}, window {whole(x.window)}{_of(x.rate)}{_best(x.select)}"
        case m.Conv():
            return f"{counted(x.channels, 'channel')}, kernel {x.kernel}"
        case m.SelectiveScan():
            return f"{counted(x.channels, 'channel')}, state {x.state_size}"
        case m.StateSpace():
            return f"{counted(x.heads, 'head')}, {counted(x.groups, 'group')}, state {x.head_dim} × {x.state_size}"
        case m.DeltaRule():
            keys = "" if x.key_heads == x.value_heads else f", {x.key_heads} key"
            return f"{counted(x.value_heads, 'head')}{keys}, state {x.key_dim} × {x.value_dim}"
        case m.LinearAttention():
            return f"{counted(x.heads, 'head')}, state {x.head_dim} × {x.head_dim}"
        case m.GatedRecurrence():
            return counted(x.channels, "channel")
        case m.Collective():
            return f"{x.op.replace('_', ' ')} of {whole(x.width)}, {counted(x.ranks, 'rank')}"
        case _:
            return sizes(x).replace("_", " ")


def _heads(heads: int, dim: int) -> str:
    return f"{counted(heads, 'head')} × {dim}"


def _of(rate: int | None) -> str:
    return f", entries of {rate}" if rate else ""


def _best(select: int | None) -> str:
    return f", best {whole(select)}" if select else ""


def layer_pattern(model: Model) -> tuple[str, ...]:
    """The layers in order: runs of equal ones, and what repeats.

    DeepSeek-V3's is `3 dense`, `58 moe`; where a layer in six is global `10 × (5 sliding, 1 dense)`, `2 sliding`.
    """
    names = [block.name for block in model.layers]
    for period in range(2, len(names) // 2 + 1):
        times = len(names) // period
        if len(set(names)) > 1 and all(name == names[i % period] for i, name in enumerate(names)):
            return f"{times} × ({', '.join(_runs(names[:period]))})", *_runs(names[times * period :])
    return _runs(names)


def layer_stack(model: Model, longest: int = 32) -> tuple[tuple[str, str], ...]:
    """The same for the boxes of a diagram: what stands in each, and below it what a long one is made of."""
    found = []
    for part in layer_pattern(model):
        if len(part) <= longest:
            found.append((part, "layers"))
            continue
        times, _, period = part.rpartition("(")
        kinds = Counter[str]()
        for run in period.rstrip(")").removesuffix(", mixed").split(", "):
            count, _, kind = run.partition(" ")
            kinds[kind] += int(count)
        found.append((f"{times}{kinds.total()} layers", ", ".join(f"{n} {kind}" for kind, n in kinds.items())))
    return tuple(found)


def _runs(names: Sequence[str]) -> tuple[str, ...]:
    found = [(name, len(list(run))) for name, run in groupby(names)]
    if len(found) > 12:
        return (", ".join(f"{names.count(name)} {name}" for name in dict.fromkeys(names)) + ", mixed",)
    return tuple(f"{n} {name}" for name, n in found)
