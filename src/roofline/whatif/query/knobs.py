"""The knobs of a query, declared once: name, unit, and how each is read and set.

`solve` finds the value of one knob, `sensitivity` and the tornado vary each, a design of `codesign` sets several.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Literal, TypeAlias

from roofline.declared.checks import RAREST
from roofline.declared.errors import InputError
from roofline.declared.frozen_mapping import frozen
from roofline.declared.kinds import Given
from roofline.declared.question import Settings
from roofline.hardware.chip import Chip
from roofline.model import modules as m
from roofline.model.model import Model
from roofline.model.precision import Precision
from roofline.whatif.query import model_variants
from roofline.whatif.query.query import ALL_SIZES, LARGEST_BATCH, LONGEST_UNLIMITED, NUMBERS, SIZES, OpenQuestion
from roofline.whatif.sensitivity.quantized_weights import quantized_weights

KnobSide: TypeAlias = Literal["hardware", "work", "model"]
"""What a knob belongs to: the machine, the numbers of the query, or the architecture."""
KnobRead: TypeAlias = Callable[[OpenQuestion], float | None]
"""Reads the value of a knob from a query; None where the query lacks it."""
KnobTurn: TypeAlias = Callable[[OpenQuestion, Given], OpenQuestion]
"""Sets a knob to another value or an array of values. Raises InputError for an invalid value."""
WIDER, NARROWER = 2.0**12, 2.0**-12
"""Range of the root search, as factors of the chip's own figures."""
LONGEST_ANSWER = 2**18
"""Maximum number of answer tokens evaluated: each is a decode step."""
SLOWEST = 2.0**-10
"""Lowest request rate evaluated, as a share of the server's maximum."""


@dataclass(frozen=True)
class Knob:
    """A number of a query that can be varied. `grain`: integers are multiples of it; 0 for real numbers.

    `ends`: range of a tornado, as factors of the current value. `about`: what the number is, where the name does not
    say.
    """

    name: str
    unit: str
    side: KnobSide
    get: KnobRead
    set: KnobTurn
    grain: Callable[[OpenQuestion], int] = lambda q: 0
    ends: tuple[float, float] = (0.5, 2.0)
    about: str = ""


# -- hardware ------------------------------------------------------------------------------------------------------
def _of_chip(name: str) -> tuple[KnobRead, KnobTurn]:
    """A knob that is a field of the chip."""
    return (
        lambda q: getattr(q.asked.deployment.chip, name),
        lambda q, value: q.on(replace(q.asked.deployment.chip, **{name: value})),
    )


def _rates(name: str, now: KnobRead) -> tuple[KnobRead, KnobTurn]:
    """A knob for the rate in one format; the rates in other formats scale with it."""

    def turned(q: OpenQuestion, value: float) -> OpenQuestion:
        chip, factor = q.asked.deployment.chip, value / (now(q) or value)
        rates: Settings = {name: frozen({f: factor * v for f, v in getattr(chip, name).items()})}
        return q.on(replace(chip, **rates))

    return now, turned


def _with_capacity(q: OpenQuestion, value: float) -> OpenQuestion:
    return q.on(replace(q.asked.deployment.chip, capacity=value, nominal_capacity=None))


def _links(first: int, last: int | None) -> tuple[KnobRead, KnobTurn]:
    """A knob for the bandwidth of the first of some levels; the other levels scale with it."""

    def now(q: OpenQuestion) -> float | None:
        levels = q.asked.deployment.cluster.levels[first:last]
        return levels[0].bandwidth if levels and q.asked.deployment.chips > 1 else None

    def turned(q: OpenQuestion, value: float) -> OpenQuestion:
        cluster = q.asked.deployment.cluster
        factor = value / (now(q) or value)
        inside = slice(first, last)
        turned = {level.name: replace(level, bandwidth=factor * level.bandwidth) for level in cluster.levels[inside]}
        return q.joined(replace(cluster, levels=tuple(turned.get(level.name, level) for level in cluster.levels)))

    return now, turned


def _priced(q: OpenQuestion) -> float | None:
    price = q.asked.deployment.chip.price
    return None if price is None else price.usd_per_hour


def _peak(q: OpenQuestion) -> float:
    chip = q.asked.deployment.chip
    return chip.peak(chip.main_format)


def _vector(q: OpenQuestion) -> float | None:
    return next(iter(q.asked.deployment.chip.vector.values()), None)


# -- work ----------------------------------------------------------------------------------------------------------
def _of_work(name: str) -> Knob:
    def now(q: OpenQuestion) -> float | None:
        return None if name not in SIZES[q.subject] else q.numbers.get(name, 1 if name == "batch" else None)

    def grain(q: OpenQuestion) -> int:
        """The number that a training size is a multiple of."""
        if q.subject != "train":
            return 1
        degrees = q.asked.layout
        return int(degrees.dp) * int(q.others.get("micro_batch") or 1) if name == "batch" else 2 * int(degrees.cp)

    kind = NUMBERS[name]
    whole = kind.json == (int,)
    return Knob(
        name.removesuffix("_tokens"), kind.unit, "work", now, lambda q, value: q.sized(**{name: value}),
        grain if whole else lambda q: 0, (0.5, 2.0) if name in ("batch", "concurrency", "rate") else (0.5, 1.0),
    )  # fmt: skip


# -- architecture --------------------------------------------------------------------------------------------------
def _of_model(
    name: str, get: Callable[[Model], float | None], set: Callable[[Model, Given], Model | None],
    ends: tuple[float, float], grain: Callable[[Model], int] = lambda model: 1,
) -> Knob:  # fmt: skip
    def turned(q: OpenQuestion, value: Given) -> OpenQuestion:
        if value == get(q.model):
            return q
        changed = set(q.model, value)
        if changed is None or (changed.parameters == q.model.parameters and changed == q.model):
            raise InputError(name, value, "a size that the model can have")
        return q.under(replace(q.asked, model=changed))

    return Knob(name, "", "model", lambda q: get(q.model), turned, lambda q: grain(q.model), ends)


def layer_count(model: Model) -> int | None:
    """The number of layers; None where there is only one."""
    return len(model.layers) if len(model.layers) > 1 else None


def _first_layers(model: Model, count: int) -> Model | None:
    return model_variants.with_layers(model, count) if 0 < count <= len(model.layers) else None


def inner_size(model: Model) -> int | None:
    """The inner size of the first feed-forward, or of an expert."""
    for x, _ in model.modules():
        if isinstance(x, m.Experts):
            return x.inner
        if isinstance(x, m.Linear) and (x.part, x.cut) == ("ffn", "columns"):
            return x.outputs
    return None


def first_kv_size(model: Model) -> int | None:
    """KV heads, or the latent rank, of the first layer that has either."""
    return next((size for block, _ in model.blocks if (size := model_variants.kv_size(block))), None)


def _with_kv(model: Model, size: float) -> Model | None:
    now = first_kv_size(model) or 0
    return model_variants.with_kv(model, now // int(size)) if 0 < size <= now and now % size == 0 else None


def experts_per_token(model: Model) -> int:
    """Top-k of the first mixture of experts; 0 for a dense model."""
    return next((x.top_k or 0 for x, _ in model.modules() if isinstance(x, m.Experts)), 0)


def _with_top_k(model: Model, count: int) -> Model | None:
    experts = min((x.experts for x, _ in model.modules() if isinstance(x, m.Experts)), default=0)
    return model_variants.with_experts_per_token(model, count) if 0 < count <= experts else None


def _grain_of(size: int | None) -> int:
    return model_variants.GRAIN if size and size % model_variants.GRAIN == 0 else 1


def is_latent(model: Model) -> bool:
    """Whether the cache holds latents: its size then depends on their rank and not on heads."""
    return any(isinstance(x, m.LatentAttention) for x, _ in model.modules())


KNOBS: Mapping[str, Knob] = MappingProxyType({
    knob.name: knob
    for knob in (
        Knob("bandwidth", "B/s", "hardware", *_of_chip("bandwidth"), about="of memory"),
        Knob("peak", "FLOP/s", "hardware", *_rates("peaks", _peak),
             about="dense, in the chip's main format; the others in proportion"),
        Knob("vector", "FLOP/s", "hardware", *_rates("vector", _vector),
             about="of ordinary arithmetic, in its first format; the others in proportion"),
        Knob("link", "B/s", "hardware", *_links(0, 1), about="in one direction, of a chip to those beside it"),
        Knob("network", "B/s", "hardware", *_links(1, None),
             about="in one direction, of the first level beyond the links; those further out in proportion"),
        Knob("memory", "B", "hardware", _of_chip("capacity")[0], _with_capacity, about="that programs can use"),
        Knob("cache", "B", "hardware", *_of_chip("cache"), about="of the last level on the chip"),
        Knob("power", "W", "hardware", *_of_chip("tdp"), about="of a chip that works"),
        Knob("price", "USD/h", "hardware", _priced, lambda q, usd: q.priced(usd), about="of a chip"),
        *map(_of_work, ALL_SIZES),
        _of_model("layers", layer_count, _first_layers, (0.5, 1.0)),
        _of_model("width", lambda x: x.hidden, lambda x, n: model_variants.with_width(x, n / x.hidden), (0.75, 1.25),
                  lambda x: _grain_of(x.hidden)),
        _of_model("feed-forward", inner_size, lambda x, n: model_variants.with_inner(x, n / (inner_size(x) or n)),
                  (0.75, 1.25), lambda x: _grain_of(inner_size(x))),
        _of_model("KV heads", lambda x: None if is_latent(x) else first_kv_size(x), _with_kv, (0.5, 1.0),
                  lambda x: max(1, (first_kv_size(x) or 0) // 2)),
        _of_model("latent rank", lambda x: first_kv_size(x) if is_latent(x) else None, _with_kv, (0.5, 1.0),
                  lambda x: max(1, (first_kv_size(x) or 0) // 2)),
        _of_model("experts per token", lambda x: experts_per_token(x) if experts_per_token(x) > 1 else None,
                  _with_top_k, (0.5, 1.0)),
    )
})  # fmt: skip
"""Name → knob."""
RATES = ("bandwidth", "peak", "vector", "link", "network")
"""Hardware rates. Scaling all of them by a factor scales all time but fixed seconds."""
FOUND = ("bandwidth", "peak", "vector", "memory", "link", "network")
"""Hardware knobs that `solve` minimises."""
HARDWARE = FOUND
WORK = ALL_SIZES
"""Knobs of the work. `solve` maximises them where all limits are upper limits."""


def knobs_of(q: OpenQuestion) -> Iterator[tuple[Knob, float]]:
    """The knobs of a query with their current values: rates of the machine, work, architecture."""
    for name, knob in KNOBS.items():
        now = knob.get(q)
        if now and (knob.side != "hardware" or name in RATES):
            yield knob, now


# -- formats -------------------------------------------------------------------------------------------------------
def eight_bits(chip: Chip) -> str:
    """The 8-bit format of weights on a chip: fp8 if it multiplies fp8, else int8, which saves memory only."""
    return "fp8" if "fp8" in chip.peaks else "int8"


MATTERS = 0.8
"""Narrower weights count only if they leave at most this share of the bytes."""


def narrower_formats(q: OpenQuestion) -> Iterator[tuple[str, float, OpenQuestion]]:
    """Narrower formats: name, share of the bytes left, and the query with the format."""
    formats, model = q.asked.formats, q.model

    def narrowed(precision: Precision) -> OpenQuestion:
        return q.under(replace(q.asked, formats=precision))

    narrow = eight_bits(q.asked.deployment.chip)
    weights = quantized_weights(model, formats, narrow)
    if weights is not None and weights.bytes <= MATTERS:
        yield f"weights in {narrow}", weights.bytes, narrowed(weights.precision)
    if formats.kv.bits >= 16 and model.kv_bytes(1):
        yield "cache in fp8", float(8 / formats.kv.bits), narrowed(formats.merged("kv=fp8"))


# -- unknowns ------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Sought:
    """The unknown of a root search: a knob and its range from `low` to `high`, for integers in multiples of `step`.

    `ends`: why values above `high` are impossible; empty where `high` only ends the search. `tolerance`: relative, for
    real numbers.
    """

    knob: Knob
    q: OpenQuestion
    low: float
    high: float
    ends: str = ""
    step: int = 1
    tolerance: float = 1e-9

    @property
    def whole(self) -> bool:
        """Whether values are integers, which are evaluated in arrays."""
        return self.knob.grain(self.q) > 0

    def at(self, value: Given) -> OpenQuestion:
        """The query, and its other side, with a value."""
        value = value * self.step if self.whole else value
        there = self.knob.set(self.q, value)
        return there if self.q.other is None else replace(there, other=self.knob.set(self.q.other, value))


def sought(name: str, q: OpenQuestion) -> Sought:
    """The unknown and its range. Raises InputError where the query lacks the knob."""
    return _of_sizes(name, q) if name in WORK else _of_machine(KNOBS[name], q)


def _of_machine(knob: Knob, q: OpenQuestion) -> Sought:
    now = knob.get(q)
    if not now:
        wanted = {"link": "a layout of several chips", "network": "a machine of several nodes"}
        raise InputError("find", knob.name, wanted.get(knob.name, f"a chip whose {knob.name} is known"))
    return Sought(knob, q, now * NARROWER, now * WIDER)


def _of_sizes(name: str, q: OpenQuestion) -> Sought:
    knob = KNOBS[name.removesuffix("_tokens")]
    limit = "" if q.model.context is None else "the context of the model"
    longest = LONGEST_UNLIMITED if q.model.context is None else q.model.context
    of = partial(Sought, knob, q)
    match name:
        case "batch" | "concurrency":
            return of(1, LARGEST_BATCH, step=knob.grain(q))
        case "rate":
            most = float(q.sized(rate=1.0).server.fastest)
            low, high = max(most * SLOWEST, RAREST), most * (1 - 1e-6)
            return of(low, high, "what the server takes", tolerance=1e-4)
        case "context":
            return of(1, longest - 1, limit)
        case "tokens":
            step = knob.grain(q) if int(q.asked.layout.cp) > 1 else 1
            return of(1, longest // step, limit, step)
        case "input":
            return of(1, max(1, longest - q.numbers.get("output_tokens", 1) + 1), limit)
        case _:
            last = longest - q.numbers["input"] + 1
            return of(1, max(1, min(last, LONGEST_ANSWER)), limit if last <= LONGEST_ANSWER else "")
