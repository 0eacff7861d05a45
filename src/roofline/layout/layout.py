"""A layout: the degrees of parallelism over tensors, layers, experts, tokens and batches.

Ranks are numbered with tensor parallelism innermost, then context, data and pipeline parallelism, so the ranks of a
tensor-parallel group are neighbours. Experts are sharded over the tensor, context and data ranks of a stage.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import ClassVar, Literal, TypeAlias, get_args

import numpy as np

from roofline.declared.checks import first_where, flag, lengths_differ
from roofline.declared.errors import InputError, nearest, not_one_of
from roofline.declared.kinds import Given
from roofline.declared.numbers.maths import Count, ceil_div, is_array, least, most, some, where
from roofline.declared.result import Figured, Units
from roofline.model.popularity import Popularity, popularity_given

Exchange: TypeAlias = Literal["ring", "all_gather", "ulysses"]
EXCHANGES: tuple[Exchange, ...] = get_args(Exchange)
MOST = 2**20
DEGREES = ("tp", "pp", "dp", "cp", "ep")
FLAGS = ("sp", "overlap")
DISCRETE = ("pp", "vp", "zero", "sp", "stages", "exchange", "redundant", "popularity", "overlap")
SEVERAL = ("stages", "popularity")
"""Fields whose value may be a sequence but never an array over layouts; each value needs its own plan."""


@dataclass(frozen=True)
class Layout(Figured):
    """Degrees of parallelism. Ints, or arrays for many layouts at once.

    tp: tensor; pp: pipeline stages; dp: data (replicas; with ep, attention data parallelism beside experts); cp:
    context; ep: expert. All but pp may be arrays. `etp`: tensor parallelism inside an expert (default: tp where ep is
    1, else 1). `sp`: sequence parallelism, with norms and residuals on 1/tp of the tokens (arXiv:2205.05198 §4.2.2).
    `zero`: what is sharded over the data and context ranks: 0 nothing, 1 optimizer state, 2 also gradients, 3 also
    weights (arXiv:1910.02054). `shard`: shard over this many of them and replicate over the rest (HSDP). `vp`: model
    chunks per stage (interleaving). `stages`: layers of each stage where they are not equal. `exchange`: how context
    parallelism exchanges keys and values. `imbalance`: tokens of the busiest rank's experts over the mean; `capacity`:
    the most they accept, over the mean, with the rest dropped; either may be an array. `redundant`: extra copies of
    experts, equally many in each layer, so that ep divides the total. `popularity`: distribution of tokens over
    experts, as the exponent of a power law or as tokens per expert; where `imbalance` is 1 it follows from this. None:
    even without a machine; on one, steps of inference visit as few experts as those of measured servers.
    `overlap`: two-batch overlap, where one half of a step's sequences computes while the other exchanges tokens with
    the experts (arXiv:2412.19437 §3.4).

    >>> Layout(tp=8, pp=4, dp=2).chips
    64
    """

    FIGURES: ClassVar[Units] = dict.fromkeys(
        ("tp", "pp", "dp", "cp", "ep", "etp", "sp", "zero", "shard", "vp", "stages", "exchange", "imbalance",
         "capacity", "redundant", "popularity", "overlap"), "",
    )  # fmt: skip
    NAMES: ClassVar[Mapping[str, str]] = {"etp": "expert_tp", "shard": "sharers"}

    tp: Count = 1
    pp: int = 1
    dp: Count = 1
    cp: Count = 1
    ep: Count = 1
    etp: Count = None
    sp: bool = False
    zero: int = 0
    shard: Count = None
    vp: int = 1
    stages: tuple[int, ...] = ()
    exchange: Exchange = "ring"
    imbalance: Count = 1.0
    capacity: Count = None
    redundant: int = 0
    popularity: Popularity = None  # type: ignore[assignment]  # null in JSON, as schemas allow where a number is
    overlap: bool = False

    def __post_init__(self) -> None:
        for name in DISCRETE:
            value = getattr(self, name)
            if is_array(value) or (name not in SEVERAL and isinstance(value, (list, tuple))):
                raise InputError(f"layout.{name}", value, f'one value; several as layout={{"{name}": [...]}}')
        for name in DEGREES:
            object.__setattr__(self, name, _degree(name, getattr(self, name)))
        for name in ("etp", "shard"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, _degree(name, getattr(self, name)))
        object.__setattr__(self, "vp", _degree("vp", self.vp))
        if self.zero not in (0, 1, 2, 3) or isinstance(self.zero, bool):
            raise InputError("layout.zero", self.zero, "a ZeRO stage: 0, 1, 2 or 3")
        flag("layout.sp", self.sp)
        flag("layout.overlap", self.overlap)
        if isinstance(self.redundant, bool) or not isinstance(self.redundant, int) or not 0 <= self.redundant <= MOST:
            raise InputError("layout.redundant", self.redundant, f"a whole number from 0 to {MOST}")
        if self.exchange not in EXCHANGES:
            raise not_one_of("layout.exchange", self.exchange, EXCHANGES)
        for name in ("imbalance", "capacity"):
            if name == "imbalance" or self.capacity is not None:
                object.__setattr__(self, name, _at_least_one(name, getattr(self, name)))
        if self.popularity is not None:
            object.__setattr__(self, "popularity", popularity_given("layout.popularity", self.popularity))
        try:
            stages = tuple(self.stages)
        except TypeError:
            raise InputError("layout.stages", self.stages, "the layers of each stage") from None
        if any(isinstance(n, bool) or not isinstance(n, int) or n < 0 for n in stages):
            raise InputError("layout.stages", self.stages, "whole numbers of layers")
        object.__setattr__(self, "stages", stages)
        if stages and len(stages) != self.pp * self.vp:
            expected = f"{self.pp}·{self.vp} numbers, one for each stage and chunk"
            raise InputError("layout.stages", list(stages), expected)
        self._check_shapes()
        if some(self.ranks % (self.ep * self.expert_tp)):
            raise does_not_divide("ep", self.ep, "tp·cp·dp / etp", ceil_div(self.ranks, self.expert_tp))
        for name in ("redundant", "overlap"):
            if getattr(self, name) and not some(self.ep > 1):
                raise InputError(f"layout.{name}", getattr(self, name), "only with experts shared out, ep of 2 or more")
        if self.shard is not None and self.zero == 0:
            raise InputError("layout.shard", self.shard, "only with ZeRO, zero of 1 or more")
        if self.shard is not None and some((self.dp * self.cp) % self.shard):
            raise does_not_divide("shard", self.shard, "dp·cp", self.dp * self.cp)

    def _check_shapes(self) -> None:
        given = {f.name: getattr(self, f.name) for f in fields(self)}
        shapes = {name: value.shape for name, value in given.items() if is_array(value)}
        if len(shapes) > 1:
            import numpy

            try:
                numpy.broadcast_shapes(*shapes.values())
            except ValueError:
                raise lengths_differ("layout", shapes) from None

    @cached_property
    def ranks(self) -> Count:
        """Chips of one pipeline stage: tp·cp·dp."""
        return self.tp * self.cp * self.dp

    @cached_property
    def chips(self) -> Count:
        """All chips: tp·cp·dp·pp."""
        return self.ranks * self.pp

    @property
    def in_step(self) -> Count:
        """Data-parallel replicas that share experts and therefore run every step together; 1 where each has its own.

        ep · etp chips hold each expert once; a replica has tp · cp chips.
        """
        sharing = self.ep * self.expert_tp // (self.tp * self.cp)
        return most(1, where(self.ep == 1, 1, sharing))

    @cached_property
    def expert_tp(self) -> Count:
        """Tensor parallelism inside an expert: as given, else tp where experts are not sharded, and 1 where they
        are."""
        if self.etp is not None:
            return self.etp
        alone = (self.ep == 1) * 1
        return alone * self.tp + (1 - alone)

    @cached_property
    def sharers(self) -> Count:
        """Ranks over which ZeRO shards the state of one copy of the weights."""
        return self.dp * self.cp if self.shard is None else self.shard

    @cached_property
    def expert_sharers(self) -> Count:
        """Ranks over which ZeRO shards the state of the experts' weights, of which fewer ranks hold copies."""
        copies = self.ranks // (self.ep * self.expert_tp)
        return copies if self.shard is None else least(copies, self.shard)

    def stride(self, axis: str) -> Count:
        """Distance between neighbours of a group along an axis, in ranks."""
        return {
            "tp": 1,
            "etp": 1,
            "ep": self.expert_tp,
            "cp": self.tp,
            "dp": self.tp * self.cp,
            "pp": self.ranks,
        }[axis]

    @cached_property
    def load(self) -> Count:
        """Rows of the busiest expert-parallel rank over the mean; 1 where one rank has all experts."""
        return self.loaded(1.0)

    def loaded(self, popular: Count) -> Count:
        """`load` with popularity's rows of the busiest rank, `popular`, where no imbalance is given."""
        told = where(self.imbalance > 1, self.imbalance, popular)
        return where(self.ep > 1, told if self.capacity is None else least(told, self.capacity), 1.0)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The broadcast shape of degrees that are arrays, () where none are."""
        degrees = (*(getattr(self, name) for name in DEGREES), self.expert_tp, self.sharers, self.load)
        if not any(is_array(d) for d in degrees):
            return ()
        return np.broadcast_shapes(*(np.shape(d) for d in degrees))

    @cached_property
    def alone(self) -> bool:
        """Whether the layout is one chip with evenly loaded experts, so that its rank is the model itself."""
        return not is_array(self.chips) and self.chips == 1 and not self.popularity

    def layers_of(self, layers: int, v_shaped: bool = False) -> tuple[tuple[int, ...], ...]:
        """Indices of the layers of every stage; with interleaving a stage has several runs of them.

        Where they do not divide, the middle stages take one more, since the first and the last hold the embedding and
        the head. With interleaving these two count as layers, so that the first and the last chunk may have no others
        (Megatron-LM's account_for_embedding_in_pipeline_split and account_for_loss_in_pipeline_split). `v_shaped`:
        every second round of chunks goes from the last stage to the first (arXiv:2401.10241 §6).

        Raises InputError where there are more stages than layers or `stages` does not add up.
        """
        chunks = self.pp * self.vp
        shared_out = layers + 2 if self.vp > 1 else layers
        if chunks > max(1, shared_out):  # towers alone have no layers, on one stage
            most = max(1, shared_out // self.vp)
            raise InputError("layout.pp", self.pp, f"at most {most} stages of {layers} layers", [str(most)])
        counts = list(self.stages) or _spread(layers, chunks)
        if sum(counts) != layers:
            raise InputError("layout.stages", list(self.stages), f"numbers that add up to {layers} layers")
        starts = [sum(counts[:i]) for i in range(chunks)]
        runs = [tuple(range(s, s + n)) for s, n in zip(starts, counts, strict=True)]
        rounds = [runs[i : i + self.pp] for i in range(0, chunks, self.pp)]
        placed = [run[::-1] if v_shaped and i % 2 else run for i, run in enumerate(rounds)]
        return tuple(tuple(i for run in own for i in run) for own in zip(*placed, strict=True))

    def text(self) -> str:
        """In one line, degrees of 1 left out: `tp=8, pp=4, zero=1`."""
        numbers = (*DEGREES, "etp", "shard", "vp", "zero")
        values = {n: getattr(self, n) for n in numbers}
        plain = {n: v for n, v in values.items() if is_array(v) or v not in (None, 0 if n == "zero" else 1)}
        shown = [f"{n}={_short(v)}" for n, v in plain.items()]
        words = [name for name in FLAGS if getattr(self, name)]
        words += [f"redundant={self.redundant}"] if self.redundant else []
        words += [f"popularity={_spread_text(self.popularity)}"] if self.popularity is not None else []
        words += [f"stages={'+'.join(map(str, self.stages))}"] if self.stages else []
        words += [f"imbalance={_short(self.imbalance)}"] if is_array(self.imbalance) or self.imbalance != 1 else []
        words += [f"capacity={_short(self.capacity)}"] if self.capacity is not None else []
        words += [f"exchange={self.exchange}"] if self.exchange != "ring" else []
        return ", ".join(shown + words) or "one chip"


def _short(value: Count) -> str:
    """A number, or the range of an array, as text."""
    if not is_array(value):
        return f"{value:g}"
    low, high = value.min(), value.max()
    return f"{low:g}" if low == high else f"{low:g}…{high:g}"


def _spread_text(popularity: Popularity) -> str:
    """The exponent, or the tokens of each expert, as text."""
    values = popularity if isinstance(popularity, tuple) else (popularity,)
    return "+".join(np.format_float_positional(v, trim="-") for v in values)


def _spread(layers: int, chunks: int) -> list[int]:
    """Distribute `layers` over `chunks` as evenly as possible; the middle ones take one more first."""
    counts = [layers // chunks] * chunks
    order = sorted(range(chunks), key=lambda i: (i == chunks - 1, i == 0, i))
    for i in order[: layers % chunks]:
        counts[i] += 1
    return counts


def layout_named(spec: Given) -> Layout:
    """A layout from text such as `tp=8,pp=4,sp,zero=1` (`tp8 pp4` too), a mapping, or itself; None is one chip.

    Raises InputError for a degree that does not exist or is not a whole number.
    """
    if spec is None:
        return Layout()
    if isinstance(spec, Layout):
        return spec
    if isinstance(spec, str):
        spec = dict(_pair(word) for word in re.split(r"[,\s]+", spec.strip()) if word)
    if not isinstance(spec, Mapping):
        raise InputError("layout", spec, "degrees such as tp=8,pp=4")
    names = [f.name for f in fields(Layout)]
    for name in spec:
        if name not in names:
            raise InputError("layout", name, f"one of {', '.join(names)}", nearest(str(name), names))
    return replace(Layout(), **spec)


def _pair(word: str) -> tuple[str, Given]:
    if word in FLAGS:
        return word, True
    pair = re.fullmatch(r"([a-z]+)=?(.*)", word)
    name, text = (pair[1], pair[2]) if pair else (word, "")
    if name == "exchange":
        return name, text
    if name in FLAGS:
        return name, text.lower() in ("true", "1", "yes")
    if name in ("imbalance", "capacity") and re.fullmatch(r"\d+(\.\d+)?", text):
        return name, float(text)
    if name == "popularity":
        counts = text.split("+")
        if not all(re.fullmatch(r"\d{1,400}(\.\d{1,400})?", part) for part in counts):
            return name, popularity_given("layout.popularity", text)
        return name, [float(part) for part in counts] if len(counts) > 1 else float(text)
    if name == "stages":
        parts = text.split("+")
        if not all(re.fullmatch(r"\d{1,9}", p) for p in parts):
            raise InputError("layout.stages", text, "layers of each stage, as in 20+22+20")
        return name, tuple(int(p) for p in parts)
    if not re.fullmatch(r"\d{1,9}", text):
        raise InputError(f"layout.{name}", text, "a whole number")
    return name, int(text)


def _number(value: Given) -> Given:
    """A NumPy number as a Python number."""
    return value.item() if is_array(value) and not value.ndim else value


def _degree(name: str, value: Given) -> Count:
    value = _number(value)
    if is_array(value) or isinstance(value, (list, tuple)):
        try:
            array = np.asarray(value)
        except ValueError:
            raise InputError(f"layout.{name}", value, "numbers, not lists of several lengths") from None
        if array.dtype.kind not in "iu" or array.size == 0:
            raise InputError(f"layout.{name}", value, f"whole numbers from 1 to {MOST}")
        beyond = (array < 1) | (array > MOST)
        if beyond.any():
            raise InputError(f"layout.{name}", first_where(beyond, array), f"whole numbers from 1 to {MOST}")
        return array.astype(np.int64)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST:
        raise InputError(f"layout.{name}", value, f"a whole number from 1 to {MOST}")
    return value


def _at_least_one(name: str, value: Given) -> Count:
    value = _number(value)
    if is_array(value) or isinstance(value, (list, tuple)):
        array = np.asarray(value)
        if array.dtype.kind not in "iuf" or array.size == 0 or not (np.isfinite(array) & (array >= 1)).all():
            raise InputError(f"layout.{name}", value, "numbers of at least 1")
        return array.astype(float)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 1 <= value < float("inf"):
        raise InputError(f"layout.{name}", value, "a number of at least 1")
    return value


def does_not_divide(degree: str, value: Count, what: str, size: Count) -> InputError:
    """The error for a degree that does not divide a size, the first of several, with the nearest degrees that do."""
    if is_array(value) or is_array(size):
        wrong = np.asarray(size % value != 0)
        value, size = (int(np.broadcast_to(v, wrong.shape)[wrong][0]) for v in (value, size))
    divisors = [n for n in range(1, min(int(size), 4096) + 1) if size % n == 0]
    near = sorted(divisors, key=lambda n: (abs(n - value), n))[:3]
    return InputError(f"layout.{degree}", value, f"a divisor of {what}, {size}", [str(n) for n in sorted(near)])


def check_divides(degree: str, value: Count, what: str, size: Count) -> None:
    """Raises InputError where `value` does not divide `size`, naming both and the nearest degrees that do."""
    if some(size % value):
        raise does_not_divide(degree, value, what, size)
