"""dump_model_info's sensitivity analysis: 432 decode steps, and the knob that changes their time most."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from statistics import median

from roofline.doors.compat.chips import H200, Peaks
from roofline.doors.compat.model_info.account import Account, accounted
from roofline.doors.compat.model_info.conventions import Convention
from roofline.doors.compat.model_info.outline import checked_ranks, outline
from roofline.doors.compat.model_info.rules import EFFICIENT, NAIVE, Rules
from roofline.model import modules as m
from roofline.model.model import Model, with_modules
from roofline.work.step import decode

KNOBS = ("kv_dtype_bytes", "top_k", "kv_rank_scale", "hidden_scale", "cache_len")
CACHE_LENGTHS = (2048, 4096, 8192, 16384)
EXPERTS, LATENTS, WIDTHS = (2, 4, 8), (0.5, 1.0, 1.5), (0.75, 1.0, 1.25)
"""Experts per token, and factors on the widths of the cache and of the stream."""
COLUMNS = (
    "exec_model", "kv_dtype_bytes", "top_k", "kv_rank_scale", "hidden_scale", "cache_len", "ai_hbm", "ai_total",
    "t_est_ms", "mfu_est", "regime",
)  # fmt: skip


@dataclass(frozen=True)
class KnobPoint:
    """A combination of knobs under one set of rules, with the resulting decode step."""

    exec_model: str
    kv_dtype_bytes: int
    top_k: int
    kv_rank_scale: float
    hidden_scale: float
    cache_len: int
    account: Account

    @property
    def row(self) -> tuple[object, ...]:
        """The point as a row of the report's CSV."""
        a = self.account
        return (
            self.exec_model, self.kv_dtype_bytes, self.top_k, self.kv_rank_scale, self.hidden_scale, self.cache_len,
            a.intensity, a.flops / (a.bytes + a.network_bytes), 1e3 * a.time, a.mfu, a.regime,
        )  # fmt: skip


@lru_cache(maxsize=16)
def scaled_model(model: Model, hidden: float, top_k: int) -> Model:
    """Scale the widths of the stream, the feed-forward layers and the experts; attention keeps its own sizes.

    `top_k`: experts per token, at most all.
    """

    def size(value: int) -> int:
        return round(hidden * value)

    def changed(x: m.Module) -> m.Module:
        match x:
            case m.Experts():
                return replace(x, hidden=size(x.hidden), inner=size(x.inner), top_k=min(top_k, x.experts))
            case m.Linear(part="ffn"):
                return replace(x, inputs=size(x.inputs), outputs=size(x.outputs))
            case m.Router():
                return replace(x, inputs=size(x.inputs))
            case m.Norm() if x.width == model.hidden:
                return replace(x, width=size(x.width))
            case _:
                return x

    return replace(with_modules(model, changed), hidden=size(model.hidden))


def knob_grid(
    model: Model, *, batch: int, ep: int = 1, on: Peaks = H200, rules: tuple[Rules, Rules] = (NAIVE, EFFICIENT)
) -> Iterator[KnobPoint]:
    """Decode steps of 216 combinations of five knobs, one of them the width of the cache, under both sets of rules."""
    ranks = checked_ranks(model, ep)
    outlines = {
        (k, latent, hidden): outline(scaled_model(model, hidden, k), decoding=True, ranks=ranks, latent=latent)
        for k, latent, hidden in product(EXPERTS, LATENTS, WIDTHS)
    }
    for r, bytes_each, (k, latent, hidden), length in product(rules, (1, 2), outlines, CACHE_LENGTHS):
        c = Convention(replace(r, cache_bytes=float(bytes_each)), ranks, hidden * max(hidden, latent))
        step = accounted(outlines[k, latent, hidden], "decode", decode(batch, length), c, on)
        yield KnobPoint(r.name, bytes_each, k, latent, hidden, length, step)


def ranking(points: Iterable[KnobPoint]) -> list[tuple[str, float]]:
    """Knobs by effect, largest first: ratio of the largest to the smallest median time over a knob's values, minus 1.

    Uses the rows of the second rules.
    """
    every = list(points)
    rows = [p for p in every if p.exec_model == every[-1].exec_model]

    def effect(knob: str) -> float:
        medians = [
            median(p.account.time for p in rows if getattr(p, knob) == value)
            for value in {getattr(p, knob) for p in rows}
        ]
        return max(medians) / min(medians) - 1

    return sorted(((knob, effect(knob)) for knob in KNOBS), key=lambda pair: -pair[1])
