"""Fitted constants of the laws: a chip's own, else its generation's, else generic, with their held-out error.

`constants/*.toml` are written by `benchmarks/fit_laws.py`; the measurements they were fitted on are named there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass, fields, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeAlias, TypeVar

from roofline.declared.numbers.maths import Count, is_array, where
from roofline.declared.trees import TomlTable
from roofline.hardware.chip import Chip, chips
from roofline.hardware.chip_files import Tables, raw
from roofline.kernels.deviation import COMMON, Deviation
from roofline.kernels.law import CHOSEN, RECORDS, ExpertsLaw, PrefillLaw

FOLDER = Path(__file__).with_name("constants")
SORTS: Mapping[str, tuple[str, str]] = {
    "experts": ("alone", "shared"), "decode": ("near", "far"), "prefill": ("few", "many"),
}  # fmt: skip
"""Kind → the two sorts of ops whose intervals differ: experts on a rank with all of them, and with some; decode with a
cache that the chip's last-level one holds, and with a larger one; prompts of fewer than FEW new tokens, and of more."""
FEW = 512
UNKNOWN = (0.5, 2.0)
"""Default interval of a law that was not measured on any similar chip."""
SOFTMAX = PrefillLaw.fixed
"""Share of prefill attention's time, at head size 128, that is exponentials."""
OTHER_VENDORS = (0.70, 2.54)
"""Factors by which generic constants miss on GPUs of vendors outside the fit: Arc B60, MI300X and MI355X, by
`benchmarks/foreign.py`."""
UNMASKED = 0.30
"""Log deviation of attention without a mask from constants of causal prompts, beside theirs: its kernels took no part
in the fit. It holds 80 % of the encoders of three engines on six chips; with each left out 0.28 to 0.34
(`benchmarks/fit_unmasked.py`)."""
ELSEWHERE: Mapping[str, float] = {
    "matmul": 0.07, "quantised_matmul": 0.46, "prefill": 0.44, "decode": 0.41, "experts": 0.37,
    "latent_prefill": 0.89, "latent_decode": 0.97,
}  # fmt: skip
"""Kind → log deviation of an engine's kernels from constants of other engines' on the same chip or generation, beside
their interval, where its own were not measured. It holds 80 % of the rows of each engine by the constants of each other
one (`benchmarks/fit_other_engines.py`)."""
FITTED_VENDOR = "nvidia"
"""Vendor of the chips that the generic constants are fitted on."""
WHOLE: Mapping[str, str] = {"ada": "l40s", "ampere": "a100-sxm-80gb", "hopper": "h100-sxm", "blackwell": "b200",
                            "blackwell-rtx": "rtx-pro-6000-server"}  # fmt: skip
"""Generation → its fitted chip whose matrix units are not cut down."""
COMPUTED: Mapping[str, str] = {"fp8": "fp8", "nvfp4": "fp4", "w4a8_mxfp4": "fp8"}
"""Prefix of a dtype → the format that its products are computed in; bf16 for all others."""


class LawRecord(Protocol):
    """Constants of a law: a dataclass of numbers."""

    __dataclass_fields__: ClassVar[dict[str, Field[float]]]


Record = TypeVar("Record", bound=LawRecord)
Grade: TypeAlias = Any
"""Quality of constants, a letter or an array of them: A fitted on this chip, B on its generation, C on others, "-"
where there are none."""
KIN: Mapping[str, str] = {"ampere-rtx": "ada", "cdna3": "cdna4", "rubin": "blackwell"}
"""Generation → a generation with similar units, whose constants it uses before the generic ones. GA10x has half of
Ada's tensor cores and the same instructions; aiter's tables have few formats for CDNA 3."""


def worse(a: Grade, b: Grade) -> Grade:
    """The worse of two grades, element by element."""
    return max(a, b) if isinstance(a, str) and isinstance(b, str) else where(a > b, a, b)


@dataclass(frozen=True)
class Constants:
    """The record of a law with its quality: the grade, and the interval's factors for short and for long ops.

    `later`: those factors for releases after the fitted ones, None where none was measured. `usual`, `other`: powers
    applied to the lower and upper factor, of ops of two sorts, which SORTS names by kind.
    """

    record: Any
    grade: str
    small: tuple[float, float]
    large: tuple[float, float]
    mape: float | None = None
    rows: int = 0
    later: tuple[tuple[float, float], tuple[float, float]] | None = None
    usual: tuple[float, float] = (1.0, 1.0)
    other: tuple[float, float] = (1.0, 1.0)

    def of_sort(self, other: Count) -> Constants | Either:
        """The constants of one of the two sorts of ops; `other`, elementwise: whether an op is of the other one."""
        if self.usual == self.other:
            return self._as_wide(self.usual)
        if not is_array(other):
            return self._as_wide(self.other if other else self.usual)
        return Either(other, self._as_wide(self.other), self._as_wide(self.usual))

    def _as_wide(self, powers: tuple[float, float]) -> Constants:
        if powers == (1.0, 1.0):
            return self
        small, large, *later = (
            (low ** powers[0], high ** powers[1]) for low, high in (self.small, self.large, *(self.later or ()))
        )
        return replace(self, small=small, large=large, later=(later[0], later[1]) if later else None)

    @cached_property
    def unmasked(self) -> Constants:
        """The constants for attention in which every query sees every key."""
        return replace(self.scattered(UNMASKED), usual=(1.0, 1.0), other=(1.0, 1.0))

    def scattered(self, log: float) -> Constants:
        """The constants with an independent error of the logarithm beside that of their interval."""
        small, large, *later = (scattered_ends(ends, log) for ends in (self.small, self.large, *(self.later or ())))
        return replace(self, small=small, large=large, later=(later[0], later[1]) if later else None)

    @cached_property
    def launch(self) -> float:
        """The launch floor of the law, seconds."""
        return float(self.record.t0)

    @cached_property
    def short(self) -> float:
        """Seconds under which an op is a short one: three launch floors."""
        return 3 * float(self.record.t0 + getattr(self.record, "quantise_t0", 0.0))

    def interval(self, seconds: Count, fitted: bool = False) -> tuple[Count, Count]:
        """Factors of the 80 % interval of an op that takes `seconds`.

        An op's error has its own part and one of its kernels' release. With `fitted` the interval is only the former,
        for the fitted releases; otherwise it covers later releases too, where they were measured.
        """
        small, large = (self.small, self.large) if fitted or self.later is None else self.later
        short = seconds < self.short
        return where(short, small[0], large[0]), where(short, small[1], large[1])

    def deviation(self, seconds: Count) -> Deviation:
        """Deviation of measurements from an expected `seconds`, in a common and an independent part.

        The excess of later releases over the fitted ones is common to all ops, as is the grade's share of the rest.
        """
        short, (small, large) = seconds < self.short, self._parts
        cb, ca, ob, oa = (where(short, a, b) * seconds for a, b in zip(small, large, strict=True))
        return Deviation(cb, ca, ob * ob, oa * oa)

    @cached_property
    def _parts(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """For short and for long ops: common below, common above, own below, own above, relative to the expected
        seconds."""
        stated = (self.small, self.large) if self.later is None else self.later
        both = (_two_parts(all, own, self.grade) for all, own in zip(stated, (self.small, self.large), strict=True))
        small, large = both
        return small, large


def scattered_ends(ends: tuple[float, float], log: float) -> tuple[float, float]:
    """Factors of an interval with an independent error of the logarithm beside its own."""
    low, high = ends
    return math.exp(-math.hypot(math.log(low), log)), math.exp(math.hypot(math.log(high), log))


def _two_parts(stated: tuple[float, float], fitted: tuple[float, float], grade: str) -> tuple[float, ...]:
    """The parts of an interval, from its stated factors and those of the fitted rows."""
    wide, fits = ((max(0.0, 1 - low), max(0.0, high - 1)) for low, high in (stated, fitted))
    own = [(1 - COMMON[grade]) * min(f, w) ** 2 for f, w in zip(fits, wide, strict=True)]
    common = [math.sqrt(w * w - o) for w, o in zip(wide, own, strict=True)]
    return *common, *(math.sqrt(o) for o in own)


@dataclass(frozen=True)
class Either:
    """Select constants elementwise: `one` where `first` is true, else `other`."""

    first: Count
    one: Constants | Either
    other: Constants | Either

    @property
    def launch(self) -> Count:
        """The launch floor, seconds."""
        return where(self.first, self.one.launch, self.other.launch)

    @property
    def grade(self) -> Grade:
        """Grade of the selected constants."""
        return where(self.first, self.one.grade, self.other.grade)

    def interval(self, seconds: Count, fitted: bool = False) -> tuple[Count, Count]:
        """Factors of the 80 % interval."""
        one, other = self.one.interval(seconds, fitted), self.other.interval(seconds, fitted)
        return where(self.first, one[0], other[0]), where(self.first, one[1], other[1])

    def deviation(self, seconds: Count) -> Deviation:
        """Deviation of measurements from the expected seconds."""
        return self.one.deviation(seconds).where(self.first, self.other.deviation(seconds))


@cache
def _table(name: str) -> TomlTable:
    return Tables(raw, FOLDER / f"{name}.toml") if name in _measured() else {}


@cache
def _measured() -> frozenset[str]:
    """Names of the tables of constants; a chip's name is arbitrary, and no other name may become a path."""
    return frozenset(path.stem for path in FOLDER.glob("*.toml"))


def places(chip: Chip) -> tuple[tuple[str, str], ...]:
    """Names of the tables that serve a chip, best first, with grades: own, generation, similar one, vendor, generic."""
    own = (chip.like or chip.id, "A" if chip.like is None else "B")
    kin = ((f"generation-{KIN[chip.generation]}", "C"),) if chip.generation in KIN else ()
    return own, (f"generation-{chip.generation}", "B"), *kin, (f"vendor-{chip.vendor}", "C"), ("generic", "C")


@cache
def constants_for(chip: Chip, dtype: str, kind: str, software: str | None = None) -> Constants:
    """The constants of a kind of op in a dtype: the chip's own, its generation's, then the generic ones.

    Where `software` is given and was measured these are its own; otherwise the default. fp16 falls back to bf16's
    constants, and so does any other dtype that was not measured, with grade C.
    """
    if software is not None and software in _measured():
        return _measured_here(chip, dtype, kind, software) or _of_software(chip, dtype, kind, software)
    if chip.constants is not None:
        own = _record(chip.constants.get(dtype, {}).get(kind, {}), kind, software, "A")
        if own:
            return own
    for place, grade in places(chip):
        node = _table(place).get(dtype, {}).get(kind, {})
        known = _record(node, kind, software, grade)
        if known:
            if grade in ("A", "B") and software is not None and software not in _speaks_of(node, software):
                known = known.scattered(ELSEWHERE.get(kind, 0.0))
            if grade == "B":
                return replace(known, record=_of_chip(known.record, chip, dtype))
            return known if grade == "A" or place.startswith("vendor") else _foreign(known, chip, kind)
    if (dtype, kind) == ("sq", "experts"):  # int8: no row anywhere
        base = constants_for(chip, "fp8", kind, software)
        return replace(base, grade="C", small=UNKNOWN, large=UNKNOWN, later=None)
    if dtype not in ("bf16", "bf16_kv_bf16"):
        base = constants_for(chip, "bf16_kv_bf16" if kind.startswith("latent") else "bf16", _plain(kind), software)
        if dtype == "fp16" or kind == "stream":
            return base
        return Constants(_as(RECORDS[kind], base.record), "C", UNKNOWN, UNKNOWN)
    return Constants(RECORDS[kind](), "C", UNKNOWN, UNKNOWN)


def measured_of(chip: Chip, dtype: str, kind: str) -> frozenset[str]:
    """Names of the software whose ops of a kind have constants of the chip's own."""
    return frozenset(_table(chip.like or chip.id).get(dtype, {}).get(kind, {})) - {"default"}


def _speaks_of(node: TomlTable, software: str) -> Sequence[str]:
    """The software that the constants of a kind speak of: this one where it has its own, else all of the default."""
    return [software] if software in node else node["default"].get("software", "").split()


def _measured_here(chip: Chip, dtype: str, kind: str, software: str) -> Constants | None:
    """Constants of an engine's kernels from a chip file."""
    nodes = ((chip.constants or {}).get(d, {}).get(kind, {}) for d in (dtype, _wide(kind)))
    own = (_record({"default": node[software]}, kind, None, "A") for node in nodes if software in node)
    return next(own, None)


CORES_SHARP = 4.0
"""Exponent of the smooth maximum between the memory's limit and the cores' limit."""


def _of_software(chip: Chip, dtype: str, kind: str, software: str) -> Constants:
    """The constants of an engine whose kernels were measured on whole models, on machines of many kinds.

    They stand in a file of its own, those of a generation in one beside; on generations that took no part they have
    grade C. `clocked`: bytes of weights that a core reads
    in a clock, so that of the bandwidth there is at most units·clock·clocked / bandwidth. `integers`: where half of the
    int8 rate is more than the fp16 rate, as on cards that accumulate in fp32 at half speed, products are faster by the
    ratio to this power, for they are of integers or accumulated in fp16.
    """
    for place in (f"{software}-{chip.generation}", software):
        table = _table(place)
        grade = "B" if table and chip.generation in table["cores"]["generations"] else "C"
        nodes = (table.get(d, {}).get(kind, {}) for d in (dtype, _wide(kind)))
        known = next(filter(None, (_record(node, kind, None, grade) for node in nodes)), None)
        if known is None and kind == "quantised_matmul":
            plain = _record(table.get("bf16", {}).get("matmul", {}), "matmul", None, "C")
            known = None if plain is None else replace(plain, record=_as(RECORDS[kind], plain.record))
        if known is not None:
            return replace(known, record=_by_cores(known.record, table["cores"], chip))
    return Constants(RECORDS[kind](), "C", UNKNOWN, UNKNOWN)


def _wide(kind: str) -> str:
    return "bf16_kv_bf16" if kind.startswith("latent") else "bf16"


def _by_cores(record: Any, cores: TomlTable, chip: Chip) -> Any:
    """A record's fractions of a chip's bandwidth and peak, limited by what its cores do in a clock."""
    values: dict[str, float] = {}
    if chip.units and chip.clock:
        most_of = chip.units * chip.clock * cores["clocked"] / chip.bandwidth
        values["memory"] = (record.memory**-CORES_SHARP + most_of**-CORES_SHARP) ** (-1 / CORES_SHARP)
    if hasattr(record, "compute") and cores["integers"] and "fp16" in chip.peaks:
        faster = max(1.0, chip.peaks.get("int8", 0.0) / 2 / chip.peaks["fp16"])
        values["compute"] = min(record.compute * faster ** cores["integers"], 0.97)
    return replace(record, **values)


def _of_chip(record: Any, chip: Chip, dtype: str) -> Any:
    """A generation's constants on one of its chips.

    Where matrix units are cut down and the rest of a processor is not, as on GeForce cards, the L20 and the H20, what
    else a product takes fits beside the multiplying. Of that limit, x in 1/compute = (1 + x^p)^(1/p) at the peak of the
    chip that was fitted, r·x is left, r being the ratio of the two chips' matrix to ordinary FLOP/s; p is CORES_SHARP.
    So an L20 reaches 0.90 of its peak and an RTX 5060 Ti 0.98; published are 105 to 115 of 119.5 TFLOP/s
    (github.com/DefTruth/CUDA-Learn-Notes, hgemm) and 47.0 of 47.4 (github.com/QuantumDrizzy/BLACKWALL).
    There libraries also choose kernels of fewer rows: so many at most that they take half of the time in which the
    weights are read. More exponentials a clock shorten softmax.
    """
    if isinstance(record, PrefillLaw) and chip.exponentials != 1:
        saved = SOFTMAX * (1 - 1 / chip.exponentials)
        return replace(record, compute=record.compute / (1 - saved), fixed=(record.fixed - saved) / (1 - saved))
    if not hasattr(record, "height") or chip.kind != "gpu":
        return record
    cut = _matrix_share(chip, dtype)
    if cut < 1:
        beside = (record.compute**-CORES_SHARP - 1) * cut**CORES_SHARP
        record = replace(record, compute=(1 + beside) ** (-1 / CORES_SHARP))
    hidden = chip.ridge(chip.main_format) / 2
    return record if record.height <= hidden else replace(record, height=2.0 ** math.floor(math.log2(hidden)))


def _matrix_share(chip: Chip, dtype: str) -> float:
    """A chip's FLOP/s of matrix units to those of ordinary arithmetic, over the same of the chip that was fitted.

    Of a chip whose figures were turned, that of the one in the catalog: what is asked is what the figure does, apart.
    """
    own, whole, known = chip.like or chip.id, WHOLE.get(chip.generation, ""), chips()
    if own not in known or whole not in known:
        return 1.0
    fmt = next((name for word, name in COMPUTED.items() if dtype.startswith(word)), "bf16")
    rates = [(known[id].peaks.get(fmt), known[id].vector.get("fp32")) for id in (own, whole)]
    shares = [peak / plain for peak, plain in rates if peak and plain]
    return shares[0] / shares[1] if len(shares) == 2 else 1.0


def in_tallest_tiles(experts: ExpertsLaw) -> float:
    """Fraction of peak of a grouped product with many rows for each expert."""
    tallest = experts.height * CHOSEN[-1]
    return float(experts.compute * tallest / (tallest + experts.stage))


def marlin_constants(chip: Chip, dtype: str, software: str | None) -> Constants:
    """Constants of Marlin's products of weights in few bits, one after another.

    None was measured. Marlin's grouped products with 4-bit weights were, and have the same inner loop: the fractions of
    peak and bandwidth are theirs. On an A100 that is 0.48 of the peak; 141 TFLOP/s, 0.45, are published, from 64 rows
    to 4,000 (github.com/vllm-project/vllm/pull/2497). A launch and splits cost what they do in other kernels with such
    weights.
    """
    dense = constants_for(chip, dtype, "quantised_matmul", software)
    grouped = constants_for(chip, "int4_wo", "experts", software)
    of = grouped.record
    record = replace(dense.record, compute=in_tallest_tiles(of), memory=of.memory, sharp=of.sharp)
    return Constants(
        record, worse(grouped.grade, "B"), _around(dense.small, grouped.small), _around(dense.large, grouped.large)
    )


UNIT_BANDWIDTH = 3.35e12 / 132
"""B/s of memory for each multiprocessor of an H100, whose seconds of a block the generic constants hold."""


def _foreign(generic: Constants, chip: Chip, kind: str) -> Constants:
    """Generic constants on a chip nobody measured: rows are computed as they are, for a few of them run kernels of
    their own, and how wide those of the rest are nobody knows. What a step of a block's loop takes at least is of a
    GPU's many blocks side by side: one wide unit pipelines them. Off GPUs a block keeps a unit busy for fewer seconds,
    by as much as the unit's share of the bandwidth is more than UNIT_BANDWIDTH.

    The interval is at least that of a generation that took no part in a fit, of another vendor's GPU, or, off GPUs, the
    widest. Some products in few bits were measured on one generation alone: theirs is at least that of fp8.
    """
    record = generic.record
    if isinstance(record, ExpertsLaw):
        record = replace(record, compute=in_tallest_tiles(record), stage=0.0)
    record = replace(record, height=1.0) if hasattr(record, "height") else record
    if chip.kind != "gpu":
        wide = min(1.0, UNIT_BANDWIDTH / (chip.bandwidth / (chip.units or 1)))
        busy = {name: getattr(record, name) * wide for name in ("block", "head") if hasattr(record, name)}
        record = replace(record, **busy, **({"step": 0.0} if hasattr(record, "step") else {}))
    if chip.vendor != FITTED_VENDOR:
        far = OTHER_VENDORS if chip.kind == "gpu" else _around(UNKNOWN, OTHER_VENDORS)
        return replace(generic, record=record, small=_around(generic.small, far), large=_around(generic.large, far))
    dtype = "fp8" if kind == "quantised_matmul" else "bf16"
    apart = _record(_table("generic").get(dtype, {}).get(kind, {}), kind, None, "C") or generic
    return replace(
        generic, record=record, small=_around(generic.small, apart.small), large=_around(generic.large, apart.large)
    )


def _around(a: tuple[float, float], b: tuple[float, float]) -> tuple[float, float]:
    """The interval that holds two."""
    return min(a[0], b[0]), max(a[1], b[1])


def _plain(kind: str) -> str:
    return "matmul" if kind == "quantised_matmul" else kind


def _as(record: type[Record], base: LawRecord) -> Record:
    """The same constants in another record; what it has besides stays at its default."""
    shared = {f.name for f in fields(record)} & {f.name for f in fields(base)}
    return record(**{name: getattr(base, name) for name in shared})


def _record(node: TomlTable, kind: str, software: str | None, grade: str) -> Constants | None:
    entry = node.get(software or "default") or node.get("default")
    if not entry:
        return None
    names = {f.name for f in fields(RECORDS[kind])}
    return Constants(
        RECORDS[kind](**{k: float(v) for k, v in entry.items() if k in names}), grade,
        (entry["low_small"], entry["high_small"]), (entry["low"], entry["high"]),
        entry.get("mape"), entry.get("rows", 0), _later(entry),
        *(_pair(entry, name) for name in SORTS.get(kind, ("", ""))),
    )  # fmt: skip


def _later(entry: TomlTable) -> tuple[tuple[float, float], tuple[float, float]] | None:
    if "later_low" not in entry:
        return None
    small, large = ((entry[f"later_low{k}"], entry[f"later_high{k}"]) for k in ("_small", ""))
    return small, large


def _pair(entry: TomlTable, name: str) -> tuple[float, float]:
    low, high = entry.get(name, (1.0, 1.0))
    return float(low), float(high)
