"""A chip: peaks for each format, memory, links, power, price. SI inside; catalog files in the units of datasheets.

Peaks are dense, link bandwidth is per direction, 1 GB = 10⁹ bytes, 1 GiB = 2³⁰. Every figure in `catalog/*.toml` has
its source and date. Memory is what programs can use: ECC on GDDR takes 1/16 of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from roofline.declared.errors import InputError, nearest, not_one_of
from roofline.declared.frozen_mapping import frozen, frozen_tree
from roofline.declared.kinds import Given
from roofline.declared.trees import TomlTable
from roofline.hardware.chip_files import Tables, only_known, plain_name, positive, raw, tables_of, word
from roofline.hardware.series import ChipRows
from roofline.hardware.tiers import (
    MAIN,
    MemoryTier,
    TierPlaces,
    keeper_of,
    kept_in,
    tier_of_figures,
    tiers_from,
    with_place,
)

CATALOG = Path(__file__).with_name("catalog")
FORMATS = ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "fp6", "int8", "fp4", "int4")
KINDS = ("gpu", "tpu", "npu", "cpu", "pim", "wafer")


@dataclass(frozen=True)
class Price:
    """Price per hour: an assumption, with its date."""

    usd_per_hour: float
    date: str = ""
    source: str = ""


@dataclass(frozen=True)
class Chip:
    """One accelerator as software sees it.

    `peaks` and `vector`: FLOP/s of the matrix units and of ordinary arithmetic, by format. `bandwidth`: bytes/s, and
    `capacity`: usable bytes, of main memory. `cache`: bytes of the last-level cache. `units`: number of cores (SMs,
    CUs). `nominal_capacity`: bytes on the datasheet where fewer are usable, according to `usable_source` on
    `usable_date`. `exponentials`: exponentials per clock, relative to other chips of the generation. `link` and `host`:
    bytes/s in one direction to peers and to the host. Powers in watts. `cap`: the most that the board may draw, where
    that is set below its TDP; `locked`: share of its clock at which the cores are held. `tiers`: memories beside the
    main one, and `placement` what is kept where. `like`: the catalog chip that this one is derived from. `constants`:
    fitted laws from a calibrated chip file.
    """

    id: str
    name: str
    vendor: str
    generation: str
    kind: str
    peaks: Mapping[str, float]
    bandwidth: float
    capacity: float
    nominal_capacity: float | None = None
    usable_source: str = ""
    usable_date: str = ""
    vector: Mapping[str, float] = field(default_factory=lambda: frozen({}))
    cache: float | None = None
    units: int | None = None
    clock: float | None = None
    exponentials: float = 1.0
    memory_kind: str = ""
    link_kind: str = ""
    link: float | None = None
    host_kind: str = ""
    host: float | None = None
    tdp: float | None = None
    idle: float | None = None
    cap: float | None = None
    locked: float = 1.0
    tiers: tuple[MemoryTier, ...] = ()
    placement: TierPlaces = field(default_factory=lambda: frozen({}))
    price: Price | None = None
    aliases: tuple[str, ...] = ()
    source: str = ""
    date: str = ""
    note: str = ""
    like: str | None = None
    constants: TomlTable | None = None

    def __hash__(self) -> int:
        return hash(self.id)

    def plain(self) -> str:
        """Name of the chip in results."""
        return self.id

    def peak(self, fmt: str) -> float:
        """Dense FLOP/s of the matrix units in a format.

        Raises InputError, naming the supported formats, where the chip lacks this one.
        """
        if fmt not in self.peaks:
            has = ", ".join(self.peaks)
            raise InputError(f"{self.id} peak", fmt, f"a format it multiplies in ({has})", nearest(fmt, self.peaks))
        return self.peaks[fmt]

    def tier_of(self, role: str) -> MemoryTier | None:
        """The tier that keeps the cache or a part of the weights; None where the main memory does."""
        name = keeper_of(self.placement, role)
        return None if name == MAIN else next(tier for tier in self.tiers if tier.name == name)

    @property
    def whole_capacity(self) -> float:
        """Bytes of the main memory and all tiers."""
        return self.capacity + sum(tier.capacity for tier in self.tiers)

    @property
    def limit(self) -> float | None:
        """Watts that the board may draw: its cap, else its TDP; None where neither is known."""
        return self.tdp if self.cap is None else self.cap

    @property
    def main_format(self) -> str:
        """The format that the chip's figures are quoted in: bf16, else fp16, else the first one of its matrix units."""
        return next(fmt for fmt in ("bf16", "fp16", *self.peaks) if fmt in self.peaks)

    def ridge(self, fmt: str) -> float:
        """Ridge point: the arithmetic intensity, FLOP/B, at which peak(fmt) equals what the memory bandwidth
        sustains."""
        return self.peak(fmt) / self.bandwidth

    def attainable(self, flops: float, moved: float, fmt: str) -> float:
        """The roofline: FLOP/s of work that moves `moved` bytes, flops / max(flops / peak(fmt), moved / bandwidth).

        Raises InputError where the chip has no such peak.
        """
        return flops / max(flops / self.peak(fmt), moved / self.bandwidth)


def only_main(chip: Chip, what: str) -> None:
    """Raises InputError for a chip that keeps something in a tier, in what is known of its main memory only."""
    if chip.placement:
        kept = ", ".join(f"{role}={memory}" for role, memory in chip.placement.items())
        raise InputError(f"{chip.id} memory", kept, f"all of it in main memory: {what} knows no tiers")


# -- reading -------------------------------------------------------------------------------------------------------
# key in the file: (field of Chip, factor to SI)
_NUMBERS: Mapping[str, tuple[str, float]] = frozen({
    "memory.bandwidth_gbs": ("bandwidth", 1e9), "memory.capacity_gb": ("capacity", 1e9),
    "memory.capacity_gib": ("capacity", 2.0**30), "memory.usable_gb": ("usable", 1e9),
    "memory.usable_gib": ("usable", 2.0**30), "memory.usable_mib": ("usable", 2.0**20),
    "memory.l2_mb": ("cache", 1e6), "memory.l2_mib": ("cache", 2.0**20), "memory.units": ("units", 1),
    "memory.clock_mhz": ("clock", 1e6), "vector.exponentials": ("exponentials", 1),
    "link.scale_up_gbs": ("link", 1e9), "link.host_gbs": ("host", 1e9),
    "power.tdp_w": ("tdp", 1), "power.idle_w": ("idle", 1),
})  # fmt: skip
_WORDS: Mapping[str, str] = frozen({
    "name": "name", "vendor": "vendor", "generation": "generation", "kind": "kind", "note": "note",
    "memory.kind": "memory_kind", "link.scale_up": "link_kind", "link.host": "host_kind", "sources.figures": "source",
    "sources.date": "date", "sources.usable": "usable_source", "sources.usable_date": "usable_date",
})  # fmt: skip
_MARKS = ("power.idle_assumed", "power.tdp_assumed", "memory.capacity_assumed", "price.assumed")
_PRICE = ("price.usd_per_hour", "price.date", "price.source")


def chip_from(id: str, table: object) -> Chip:
    """The chip that a table of a chip file describes.

    Raises InputError naming the key that is missing, unknown, negative, not a number or not possible.
    """
    if not isinstance(table, Mapping):
        raise InputError(id, table, "a table with peak and memory")
    fitted = _constants(f"{id}.constants", table["constants"]) if "constants" in table else None
    tiers, placement = tiers_from(f"{id}.tiers", table["tiers"]) if "tiers" in table else ((), frozen({}))
    flat = dict(_flattened({key: value for key, value in table.items() if key not in ("constants", "tiers")}))
    known = [
        *_NUMBERS,
        *_WORDS,
        *_MARKS,
        *_PRICE,
        "aliases",
        *(f"{k}.{f}" for k in ("peak", "vector") for f in FORMATS),
    ]
    only_known(id, flat, known)
    values: dict[str, Given] = {}
    for key, (name, factor) in _NUMBERS.items():
        if key in flat:
            if name in values:
                raise InputError(f"{id}.{key}", flat[key], f"one figure for {name}, not two")
            values[name] = positive(f"{id}.{key}", flat[key], zero=name == "idle") * factor
    for key, name in _WORDS.items():
        if key in flat:
            values[name] = word(f"{id}.{key}", flat[key])
    for name, key in (("bandwidth", "memory.bandwidth_gbs"), ("capacity", "memory.capacity_gb")):
        if name not in values:
            raise InputError(f"{id}.{key}", "nothing (missing key)", "a positive number")
    if "usable" in values:
        values |= _usable(id, flat, values.pop("usable"), values["capacity"])
    peaks = {f: positive(f"{id}.peak.{f}", flat[f"peak.{f}"]) * 1e12 for f in FORMATS if f"peak.{f}" in flat}
    if not peaks:
        raise InputError(f"{id}.peak", "nothing (missing key)", f"TFLOP/s of at least one of {', '.join(FORMATS)}")
    vector = {f: positive(f"{id}.vector.{f}", flat[f"vector.{f}"]) * 1e12 for f in FORMATS if f"vector.{f}" in flat}
    if "units" in values:
        values["units"] = int(values["units"])
    if values.get("kind", "gpu") not in KINDS:
        raise not_one_of(f"{id}.kind", values["kind"], KINDS)
    if "price.usd_per_hour" in flat:
        dollars = positive(f"{id}.price.usd_per_hour", flat["price.usd_per_hour"])
        values["price"] = Price(dollars, *(word(f"{id}.{k}", flat.get(k, "")) for k in _PRICE[1:]))
    aliases = flat.get("aliases", [])
    if not isinstance(aliases, list) or not all(isinstance(a, str) for a in aliases):
        raise InputError(f"{id}.aliases", aliases, "a list of names")
    defaults = {"name": id, "vendor": "", "generation": "", "kind": "gpu"}
    return Chip(
        id=id, peaks=frozen(peaks), vector=frozen(vector), aliases=tuple(aliases),
        constants=fitted, tiers=tiers, placement=placement, **{**defaults, **values},
    )  # fmt: skip


def _usable(id: str, flat: TomlTable, usable: float, nominal: float) -> dict[str, float]:
    """Capacities, in bytes, of a chip whose memory is only partly usable."""
    if usable > nominal:
        key = next(key for key in flat if key.startswith("memory.usable_"))
        raise InputError(f"{id}.{key}", flat[key], "at most the capacity")
    return {"capacity": usable, "nominal_capacity": nominal}


def _flattened(table: TomlTable) -> Iterator[tuple[str, Given]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from ((f"{key}.{inner}", v) for inner, v in value.items())
        else:
            yield key, value


_INTERVAL = ("low", "high", "low_small", "high_small")
_KNOWN_OF_FIT = (*_INTERVAL, "rows", "mape", "median", "bias", "software")


def _constants(key: str, table: object) -> TomlTable:
    """Fitted laws: dtype → kind of op → software → the fields of the law's record and its error interval.

    Raises InputError naming a key that is missing, unknown, negative or not a number.
    """
    from roofline.kernels.law import RECORDS

    names = {kind: tuple(record.__dataclass_fields__) for kind, record in RECORDS.items()}
    read: dict[str, Given] = {}
    for dtype, kinds in tables_of(key, table):
        read[dtype] = {}
        for kind, softwares in tables_of(f"{key}.{dtype}", kinds):
            field = f"{key}.{dtype}.{kind}"
            if kind not in names:
                raise InputError(field, "a table", f"one of {', '.join(names)}", nearest(kind, names))
            read[dtype][kind] = {s: _entry(f"{field}.{s}", e, names[kind]) for s, e in tables_of(field, softwares)}
    return frozen_tree(read)


def _entry(key: str, entry: TomlTable, names: Iterable[str]) -> dict[str, Given]:
    known = (*names, *_KNOWN_OF_FIT)
    for name, value in entry.items():
        if name not in known:
            raise InputError(f"{key}.{name}", value, "a constant of this law", nearest(name, known))
        if name == "software":
            word(f"{key}.{name}", value)
        elif name in _INTERVAL:
            positive(f"{key}.{name}", value)
        elif isinstance(value, bool) or not isinstance(value, (int, float)) or (value != value):
            raise InputError(f"{key}.{name}", value, "a number")
        elif name != "bias" and value < 0:
            raise InputError(f"{key}.{name}", value, "a number that is not negative")
    for name in _INTERVAL:
        if name not in entry:
            raise InputError(f"{key}.{name}", "nothing (missing key)", "a positive number")
    return dict(entry)


# -- finding -------------------------------------------------------------------------------------------------------
class ChipCatalog(Mapping[str, Chip]):
    """id → chip: chips with their own table in a folder's files, then the rows of its series. Each is read on first
    use."""

    def __init__(self, folder: Path) -> None:
        self._tables = Tables(chip_from, *sorted(folder.glob("*.toml")))
        self._rows = ChipRows(folder / "series")
        self._from_rows: dict[str, Chip] = {}

    def __getitem__(self, id: str) -> Chip:
        base, mark, limit = id.rpartition(LIMITED)
        if mark:
            return limited_chip(self[base], limit)
        if id in self._tables:
            return self._tables[id]
        if id not in self._from_rows:
            self._from_rows[id] = chip_from(id, self._rows[id])
        return self._from_rows[id]

    def __contains__(self, id: object) -> bool:
        if isinstance(id, str) and LIMITED in id:
            return id.rpartition(LIMITED)[0] in self
        return id in self._tables or id in self._rows

    def __iter__(self) -> Iterator[str]:
        yield from self._tables
        yield from (id for id in self._rows if id not in self._tables)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def head(self, id: str) -> TomlTable:
        """The name and the aliases of a chip, without its figures."""
        return self._tables.head(id) if id in self._tables else self._rows.head(id)


@cache
def chips() -> ChipCatalog:
    """The catalog: id → chip in SI units, in the order of the files."""
    return ChipCatalog(CATALOG)


@cache
def chip_names() -> Mapping[str, str]:
    """Every normalised name and alias of the catalog's chips → the chip's id."""
    heads = ((id, chips().head(id)) for id in chips())
    names = {plain_name(alias): id for id, head in heads for alias in (*head.get("aliases", ()), head["name"], id)}
    return frozen(names)


def chip_id(name: str) -> str | None:
    """The id of a chip of the catalog, by its name or alias; None where there is none.

    `h100-sxm@490W` is a chip whose board is limited (`limited_chip`). Raises InputError for a limit that cannot be.
    """
    plain = plain_name(name)
    base, mark, limit = plain.rpartition(LIMITED)
    if mark:
        known = chip_id(base)
        return None if known is None else limited_chip(chips()[known], limit).id
    return plain if plain in chips() else chip_names().get(plain)


LIMITED = "@"
"""Between the name of a chip or cluster and the limit of its boards: `h100-sxm@490W`."""
LEAST_CLOCK = 0.2
"""Share of a chip's clock below which it is not held."""


SLICES = Path(__file__).with_name("slices.toml")


@cache
def profiles(id: str) -> Mapping[str, tuple[TomlTable, int]]:
    """Name of a MIG profile of a catalog chip, such as 1g.10gb → its slices, and in how many the memory is cut."""
    table = next((t for t in Tables(raw, SLICES).values() if id in t["chips"]), None)
    if table is None:
        return frozen({})
    chip, parts = chips()[id], int(table["slices"])
    whole = (chip.nominal_capacity or chip.capacity) / _SCALES["Gi"]
    gigabytes = [int(whole * row["memory"] / parts + 0.5) for row in table["profiles"]]
    return frozen({f"{r['g']}g.{n}gb": (r, parts) for r, n in zip(table["profiles"], gigabytes, strict=True)})


def _share(chip: Chip, cores: float, memory: float, cache: float) -> Chip:
    """A part of a chip: shares of its cores, of its memory with the bandwidth, and of its cache.

    Watts go with the cores, as arithmetic does. A part has no price of its own.
    """

    def part(value: float | None, share: float) -> float | None:
        return None if value is None else value * share

    peaks, vector = (frozen({f: cores * v for f, v in units.items()}) for units in (chip.peaks, chip.vector))
    tiers = tuple(
        replace(
            tier, capacity=tier.capacity * memory, bandwidth=tier.bandwidth * memory,
            inside=part(tier.inside, memory), inside_flops=part(tier.inside_flops, memory),
        )
        for tier in chip.tiers
    )  # fmt: skip
    return replace(
        chip, peaks=peaks, vector=vector, units=None if chip.units is None else max(1, round(chip.units * cores)),
        tiers=tiers,
        bandwidth=chip.bandwidth * memory, capacity=chip.capacity * memory,
        nominal_capacity=part(chip.nominal_capacity, memory), cache=part(chip.cache, cache),
        tdp=part(chip.tdp, cores), idle=part(chip.idle, cores), cap=part(chip.cap, cores), price=None,
    )  # fmt: skip


def _instance(chip: Chip, name: str) -> Chip:
    """A MIG instance: its profile's cores, memory and L2; peers are out of reach (NVIDIA's guide: no P2P, no NVLink).

    Raises InputError, naming the profiles, where the chip has none of this name.
    """
    own = profiles((chip.like or chip.id).partition(LIMITED)[0])
    if name not in own:
        known = f"a profile of this chip ({', '.join(own)})" if own else "a chip with MIG profiles in the catalog"
        raise InputError(f"{chip.id} part", name, known, nearest(name, own))
    row, parts = own[name]
    part = _share(chip, row["cores"] / (chip.units or row["cores"]), row["memory"] / parts, row["l2"] / parts)
    return replace(part, link=None, link_kind="")


def _fraction(chip: Chip, text: str) -> Chip:
    """A part 1/4 or 3/4 of everything that a chip has, links included.

    Raises InputError for anything that is not a fraction below 1.
    """
    above, _, below = text.partition("/")
    if not (above.isdecimal() and below.isdecimal() and 0 < int(above[:6]) < int(below[:6])):
        raise InputError(f"{chip.id} part", text, "a fraction below 1, as in 1/4")
    share = int(above[:6]) / int(below[:6])
    link, host = (None if v is None else v * share for v in (chip.link, chip.host))
    return replace(_share(chip, share, share, share), link=link, host=host)


@cache
def limited_chip(chip: Chip, limit: str) -> Chip:
    """A chip whose board draws at most `490W` or `70%` of its TDP, or whose cores are held at `1400MHz`; a part of
    one: a MIG instance, `1g.10gb`, or a fraction, `1/4`; or one that keeps `weights=lpddr5x` in a tier of its memory.

    A cap slows only what would draw more (`kernels/power.py`). At a share s of its clock all arithmetic has s of its
    peak. Raises InputError for any other limit, for one above what the chip has, and where TDP or clock are unknown.
    """
    text = plain_name(limit)
    if "/" in text or re.fullmatch(r"\d{1,3}g\.\d{1,4}gb", text):
        part = _fraction(chip, text) if "/" in text else _instance(chip, text)
        id, name = f"{chip.id}{LIMITED}{text}", f"{chip.name}, {text}"
        return replace(part, id=id, name=name, like=chip.like or chip.id, aliases=())
    if "=" in text:
        role, _, memory = text.partition("=")
        kept = with_place(f"{chip.id} memory", chip.placement, chip.tiers, role, memory)
        return replace(
            chip, id=f"{chip.id}{LIMITED}{text}", name=f"{chip.name}, {role} in {memory}", placement=kept,
            like=chip.like or chip.id, aliases=(),
        )  # fmt: skip
    own = replace(
        chip, id=f"{chip.id}{LIMITED}{text}", name=f"{chip.name} at {limit}", like=chip.like or chip.id, aliases=()
    )
    if text.endswith("hz"):
        hertz = figure_named("clock", text[:-2].upper() + "Hz", ("Hz",))
        if chip.clock is None or not LEAST_CLOCK <= hertz / chip.clock <= 1:
            most = "of a chip whose clock is known" if chip.clock is None else f"up to {chip.clock / 1e6:g}MHz"
            raise InputError(f"{chip.id} clock", limit, f"a clock {most}, at least a fifth of it")
        share = hertz / chip.clock
        peaks, vector = (frozen({f: share * v for f, v in units.items()}) for units in (chip.peaks, chip.vector))
        return replace(own, clock=hertz, locked=chip.locked * share, peaks=peaks, vector=vector)
    if chip.tdp is None:
        raise InputError(f"{chip.id} cap", limit, "a chip whose TDP is known")
    if not text.endswith(("%", "w")):
        raise InputError(
            f"{chip.id} limit",
            limit,
            "watts, a share of the TDP, a clock, a part or a place in memory: 490W, 70%, "
            "1400MHz, 1g.10gb, 1/4, weights=TIER",
        )
    number = figure_named("cap", text[:-1].upper(), ("",))
    watts = number * chip.tdp / 100 if text.endswith("%") else number
    if not (chip.idle or 0.0) < watts <= chip.tdp:
        raise InputError(f"{chip.id} cap", limit, f"watts above idle, {chip.idle or 0:g}, up to the TDP, {chip.tdp:g}")
    return replace(own, cap=watts)


_SCALES = {
    "": 1.0,
    "k": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "P": 1e15,
    "Ki": 2.0**10,
    "Mi": 2.0**20,
    "Gi": 2.0**30,
    "Ti": 2.0**40,
}
_UNITS: Mapping[str, tuple[str, tuple[str, ...]]] = frozen({
    "bw": ("bandwidth", ("B/s", "Bps", "")), "mem": ("capacity", ("B", "")), "l2": ("cache", ("B", "")),
    "link": ("link", ("B/s", "Bps", "")), "host": ("host", ("B/s", "Bps", "")), "tdp": ("tdp", ("W", "")),
    "idle": ("idle", ("W", "")), "price": ("price", ("$/h", "USD/h", "")), "units": ("units", ("",)),
})  # fmt: skip
_RATE_UNITS = ("FLOP/s", "FLOPS", "OP/s", "OPS", "")
_EXAMPLES = frozen({"FLOP/s": "989TFLOP/s", "B/s": "3.35TB/s", "B": "80GB"})
"""Unit that always needs a prefix → an example of a number with it."""


def chip_of_figures(spec: str, like: Callable[[str], Chip] | None = None) -> Chip:
    """A chip by its figures: `peak=1000T,bw=4.8T,mem=141G`, with `like=h100-sxm` for what is left out.

    `like`: function that finds a chip by name; None where no chip may be named, so that no file is read. Raises
    InputError for an unknown key, and for a value that is not a figure with its unit.
    """
    given: dict[str, str] = {}
    beside = list[str]()
    for item in spec.split(","):
        key, equals, value = (part.strip() for part in item.partition("="))
        if not equals or not value:
            raise InputError("chip", item, "key=value")
        if key == "tier":
            beside.append(value)
            continue
        if key in given:
            raise InputError(f"chip {key}", value, "each figure once")
        given[key] = value
    known = [*(["like"] if like else []), "peak", "vector", "tier", *FORMATS, *_UNITS]
    for key, value in given.items():
        if key not in known:
            raise InputError(f"chip {key}", value, f"one of {', '.join(known)}", nearest(key, known))
    if "=" in given.get("like", ""):
        raise InputError("chip like", given["like"], "a chip of the catalog or its file")
    base = like(given.pop("like")) if like and "like" in given else None
    values: dict[str, Given] = {}
    peaks = {f: figure_named(f"chip {f}", given[f], _RATE_UNITS) for f in FORMATS if f in given}
    if "peak" in given:
        peak = figure_named("chip peak", given["peak"], _RATE_UNITS)
        peaks = {"bf16": peak, "fp16": peak} | peaks
    for key, (name, units) in _UNITS.items():
        if key in given:
            values[name] = figure_named(f"chip {key}", given[key], units)
    if "price" in values:
        values["price"] = Price(values["price"], source="given on the command line")
    if "units" in values:
        values["units"] = int(values["units"])
    vector = {"fp32": figure_named("chip vector", given["vector"], _RATE_UNITS)} if "vector" in given else {}
    if beside:
        values["tiers"], values["placement"] = _tiers_of_figures(beside)
    if base is not None:
        values["peaks"] = frozen({**base.peaks, **peaks})
        values["vector"] = frozen({**base.vector, **vector})
        if "capacity" in values:
            values |= {"nominal_capacity": None, "usable_source": "", "usable_date": ""}
        return replace(base, id=spec, name=spec, aliases=(), like=base.id, **values)
    for key, name in (("peak", ""), ("bw", "bandwidth"), ("mem", "capacity")):
        if not (peaks if key == "peak" else name in values):
            raise InputError(f"chip {key}", "nothing (missing)", f"a figure, as in peak=1000T,bw=4.8T,mem=141G: {spec}")
    return Chip(
        id=spec, name=spec, vendor="", generation="", kind="gpu", peaks=frozen(peaks),
        vector=frozen(vector), **values,
    )  # fmt: skip


def _tiers_of_figures(texts: Sequence[str]) -> tuple[tuple[MemoryTier, ...], TierPlaces]:
    """Memory tiers by their figures, `NAME:CAPACITY:BANDWIDTH`, with what is kept there: `hbf:1TB:3.2TB/s:weights`."""
    tiers, holds = list[MemoryTier](), dict[str, Sequence[str]]()
    for text in texts:
        name, *figures = text.split(":")
        if not 2 <= len(figures) <= 3:
            raise InputError("chip tier", text, "NAME:CAPACITY:BANDWIDTH, and what it keeps: hbf:1TB:3TB/s:weights")
        if name in holds:
            raise InputError("chip tier", text, "each tier once")
        pairs = (("mem", "capacity", figures[0]), ("bw", "bandwidth", figures[1]))
        values = {word: figure_named(f"chip {name} {key}", figure, _UNITS[key][1]) for key, word, figure in pairs}
        tiers.append(tier_of_figures("chip tier", name, values))
        holds[name] = figures[2].split("+") if figures[2:] else ()
    return tuple(tiers), kept_in("chip tier", tiers, holds)


def figure_named(field: str, text: str, units: Sequence[str]) -> float:
    """Parse `4.8T`, `4.8TB/s`, `141GiB`: a positive number with a prefix and a suitable unit; errors name `field`.

    Raises InputError for anything else, and for a bare number of FLOP/s, bytes or bytes a second.
    """
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ/$ ")
    unit, example = text[len(digits) :].strip(), next((_EXAMPLES[u] for u in units if u in _EXAMPLES), "")
    if example and not unit:
        key = field.rpartition(" ")[2]
        raise InputError(field, text, f"a number with its unit, such as {key}={example}")
    for known in units:
        if unit.endswith(known) and unit[: len(unit) - len(known)] in _SCALES:
            try:
                return positive(field, float(digits)) * _SCALES[unit[: len(unit) - len(known)]]
            except ValueError as error:
                if isinstance(error, InputError):
                    raise
                break
    wanted = " or ".join(u for u in units if u) or "no unit"
    raise InputError(field, text, f"a positive number with an optional prefix (k M G T P) in {wanted}")
