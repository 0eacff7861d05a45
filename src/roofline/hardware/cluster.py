"""Clusters: chips of one kind in a tree of levels, each with the links that join its parts.

Bandwidths are bytes/s in one direction and per chip, over all the links of a chip at that level. Latencies are seconds
of one step between two chips. The presets in `fabrics.toml` have their sources beside them.
"""

from __future__ import annotations

import math
import os
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from roofline.declared.checks import names_a_file
from roofline.declared.errors import InputError, MachineNameWarning, nearest, not_one_of
from roofline.declared.kinds import Given
from roofline.declared.numbers.maths import ceil_div
from roofline.declared.trees import TomlTable
from roofline.hardware.chip import LIMITED, Chip, chip_id, chips, limited_chip
from roofline.hardware.chip_files import LARGEST_FIGURE, Tables, one_table, only_known, plain_name
from roofline.hardware.named_chip import chip_named

if TYPE_CHECKING:
    from roofline.hardware.detect.recognise import ThisMachine

FILE = Path(__file__).with_name("clusters.toml")
KINDS = ("switch", "mesh", "ring", "torus", "pcie", "network")
LATENCY: Mapping[str, float] = MappingProxyType(
    {"switch": 1e-6, "mesh": 1e-6, "ring": 1e-6, "torus": 1e-6, "pcie": 2e-6, "network": 5e-6}
)
"""Seconds of one step at a level that gives none: assumptions."""
NODE = 8
"""Most chips of one node, where a cluster is named by its chips alone."""
TRAY = 4
"""Chips per tray of a rack (NVIDIA GB200 NVL72 datasheet: 18 trays of 4 GPUs); part of a rack is whole trays."""
MOST = 2**20


@dataclass(frozen=True)
class Level:
    """One level of the tree: `size` equally joined parts, which are chips or whole inner levels.

    `kind`: switch (all pairs at full speed), mesh (a link for each pair), ring, torus (of `axes`), pcie (through the
    host), network (between nodes). `in_switch`: the switch can add and multicast (NVLink SHARP). `oversubscription`: a
    chip's links over its share of the links above, where all send at once; `bandwidth` is that share. `rails`:
    chips at the same place of each inner part have switches of their own, so that what goes to another place crosses
    the inner level first (NCCL's PXN; rail-only networks, arXiv:2307.12169).
    """

    name: str
    size: int
    bandwidth: float
    latency: float
    kind: str
    in_switch: bool = False
    axes: tuple[int, ...] = ()
    oversubscription: float = 1.0
    rails: bool = False

    def __post_init__(self) -> None:
        where = self.name if isinstance(self.name, str) and self.name else "level"
        if not isinstance(self.name, str) or not self.name:
            raise InputError("level.name", self.name, "text")
        if isinstance(self.size, bool) or not isinstance(self.size, int) or not 1 <= self.size <= MOST:
            raise InputError(f"{where}.size", self.size, f"a whole number from 1 to {MOST}")
        for field, value, least in (("bandwidth", self.bandwidth, "positive"), ("latency", self.latency, "")):
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
                raise InputError(f"{where}.{field}", value, "a finite number")
            if value < 0 or (least and value == 0):
                raise InputError(f"{where}.{field}", value, "a positive number" if least else "zero or more")
        if self.kind not in KINDS:
            raise not_one_of(f"{where}.kind", self.kind, KINDS)
        if not isinstance(self.in_switch, bool):
            raise InputError(f"{where}.in_switch", self.in_switch, "true or false")
        if self.in_switch and self.kind not in ("switch", "network"):
            raise InputError(f"{where}.in_switch", self.in_switch, f"false on a {self.kind}, which has no switch")
        if not isinstance(self.rails, bool):
            raise InputError(f"{where}.rails", self.rails, "true or false")
        if self.rails and self.kind != "network":
            raise InputError(f"{where}.rails", self.rails, f"false on a {self.kind}: rails are of a network")
        if self.axes and self.kind != "torus":
            raise InputError(f"{where}.axes", self.axes, "no axes but on a torus")
        whole = all(isinstance(a, int) and not isinstance(a, bool) and a > 0 for a in self.axes)
        if self.axes and not (whole and math.prod(self.axes) == self.size):
            raise InputError(f"{where}.axes", self.axes, f"whole numbers whose product is the size, {self.size}")


@dataclass(frozen=True)
class LevelPart:
    """The part of a level that a group of chips uses: `count` parts, `bandwidth` in bytes/s, `axes` of a torus."""

    level: Level
    count: int
    bandwidth: float
    axes: tuple[int, ...] = ()
    wrapped: bool = True

    @property
    def pair(self) -> float:
        """Bytes/s between one chip and one other: of the single link that a mesh, torus or ring has for that pair."""
        kind = self.level.kind
        if kind == "mesh":
            return self.level.bandwidth / max(1, self.level.size - 1)
        if kind == "torus":
            return self.level.bandwidth / (2 * max(1, len(self.level.axes)))
        return self.level.bandwidth / 2 if kind == "ring" and self.level.size > 2 else self.level.bandwidth


@dataclass(frozen=True)
class Cluster:
    """Chips of one kind and the levels that join them, innermost first; `count`: use only this many of the chips.

    `network`: the level that joins several such machines (here with size 1); None where nothing does, or where it is
    one of the levels already.
    """

    name: str
    chip: str
    levels: tuple[Level, ...]
    source: str = ""
    date: str = ""
    aliases: tuple[str, ...] = ()
    note: str = ""
    count: int | None = None
    network: Level | None = None

    def __post_init__(self) -> None:
        if not self.levels:
            raise InputError(f"{self.name}.levels", self.levels, "at least one level")
        if len({level.name for level in self.levels}) < len(self.levels):
            raise InputError(f"{self.name}.levels", [level.name for level in self.levels], "each name once")
        if self.chips > MOST:
            raise InputError(f"{self.name}.levels", self.chips, f"at most {MOST} chips")

    def plain(self) -> str:
        """Name of the cluster in results."""
        return self.name

    @property
    def chips(self) -> int:
        """Number of chips: the product of the sizes, or `count`."""
        return math.prod(level.size for level in self.levels) if self.count is None else self.count

    def to_rails(self, part: LevelPart, stride: int) -> LevelPart | None:
        """The level inside of one with rails that is crossed first on the way to the chip `stride` places further; None
        where that is on the same rail, or there are no rails."""
        at = self.levels.index(part.level) if part.level in self.levels else 0
        inside = math.prod(level.size for level in self.levels[:at])
        if not (part.level.rails and at and stride % inside):
            return None
        return level_part(self.levels[at - 1], 2)

    def switches(self, part: LevelPart, over: LevelPart | None = None) -> int:
        """Switches on the longest way over a level: one of a node or a rail, two more for each network above.

        `over`: the level that is crossed first, to another rail.
        """
        networks = [level for level in self.levels if level.kind == "network"]
        if part.level in networks:
            return 2 * networks.index(part.level) + 1 + (0 if over is None else self.switches(over))
        return int(part.level.kind == "switch")

    def span(self, n: int, stride: int = 1) -> tuple[LevelPart, ...]:
        """The levels that a group of n chips crosses, innermost first; none for one chip.

        Chips are numbered from the inside out, and the group takes every `stride`-th: 1 for neighbours (tensor
        parallelism), the product of the inner degrees for data parallelism. A level of which only one part is used is
        left out. A group that does not fill its last part counts as if it did. Raises InputError where the cluster is
        smaller than the group.
        """
        for field, value in (("group", n), ("stride", stride)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InputError(field, value, "a whole number of at least 1")
        if (n - 1) * stride + 1 > self.chips:
            raise InputError(
                "group", n, f"at most {ceil_div(self.chips, stride)} chips of {self.name} at stride {stride}"
            )
        return tuple(self._parts(n, stride))

    def _parts(self, n: int, stride: int) -> Iterator[LevelPart]:
        for level in self.levels:
            if n == 1:
                return
            inside = max(1, level.size // stride)  # members of the group below one part of the next level
            count = min(n, inside)
            if count > 1:
                yield level_part(level, count, stride)
            n, stride = ceil_div(n, count), max(1, stride // level.size)


def level_part(level: Level, count: int, stride: int = 1) -> LevelPart:
    """`count` parts of a level, every `stride`-th, with their share of its bandwidth.

    In a mesh each part has the links to the others. In a torus a box of neighbours has the links of the axes that it
    spans (the fastest box that holds them), and a strided group those of the axes that it walks; half of that where
    they do not close a ring. Boxes of a three-axis torus close at multiples of four, where optical switches join the
    faces.
    """
    if level.kind == "mesh":
        return LevelPart(level, count, level.bandwidth * (count - 1) / (level.size - 1))
    if level.kind == "ring":
        closed = count == level.size
        return LevelPart(level, count, level.bandwidth if closed else level.bandwidth / 2, (count,), closed)
    if level.kind != "torus":
        return LevelPart(level, count, level.bandwidth)
    axes = level.axes or (level.size,)
    boxes = [(_walk(axes, count, stride), axes)] if stride > 1 else [(b, axes) for b in _boxes(axes, count)]
    best: LevelPart | None = None
    for box, whole in boxes:
        folds = len(whole) == 3 and all(b % 4 == 0 for b in box if b > 1)
        closed = all(b in (1, axis) or folds for b, axis in zip(box, whole, strict=True))
        used = tuple(b for b in box if b > 1)
        speed = level.bandwidth * max(1, len(used)) / len(whole) * (1.0 if closed else 0.5)
        if best is None or (speed, -sum(used)) > (best.bandwidth, -sum(best.axes)):
            best = LevelPart(level, count, speed, used, closed)
    assert best is not None
    return best


def _walk(axes: tuple[int, ...], count: int, stride: int) -> tuple[int, ...]:
    """Members of a strided group along each axis."""
    box = []
    for axis in axes:
        reached = min(count, max(1, axis // stride))
        box.append(reached)
        count, stride = ceil_div(count, reached), max(1, stride // axis)
    return tuple(box)


@cache
def _boxes(axes: tuple[int, ...], count: int) -> tuple[tuple[int, ...], ...]:
    """The boxes of `count` chips that fit, whole axis lengths; the line through the axes in turn where none does."""
    if len(axes) == 1:
        return ((count,),) if count <= axes[0] else ()
    spans = [
        (first, *rest)
        for first in range(1, min(axes[0], count) + 1)
        if count % first == 0
        for rest in _boxes(axes[1:], count // first)
    ]
    return tuple(spans) or (_walk(axes, count, 1),)


# -- reading -------------------------------------------------------------------------------------------------------
_CLUSTER = ("name", "chip", "levels", "source", "date", "aliases", "note")
_BOX = (*_CLUSTER, "network", "before")
_POD = ("name", "of", "source", "date", "aliases", "note")
_LEVEL = ("name", "size", "bandwidth_gbs", "latency_us", "kind", "in_switch", "axes", "oversubscription", "rails")


def cluster_from(id: str, table: object) -> Cluster:
    """The cluster that a table of a fabric file describes: chip and levels, from the inside out.

    The innermost bandwidth is that of the chip's link where none is given. Raises InputError naming the key that is
    missing, unknown or not possible.
    """
    if not isinstance(table, Mapping):
        raise InputError(id, table, "a table with chip and levels")
    only_known(id, table, _CLUSTER)
    for key in ("chip", "levels"):
        if key not in table:
            raise InputError(f"{id}.{key}", "nothing (missing key)", "a value")
    words = _words(id, table)
    if not isinstance(table["chip"], str):
        raise InputError(f"{id}.chip", table["chip"], "text")
    chip = chip_named(table["chip"])
    rows = table["levels"]
    if not isinstance(rows, list) or not rows:
        raise InputError(f"{id}.levels", rows, "a list of at least one table")
    levels = tuple(_level(f"{id}.levels[{i}]", row, chip if i == 0 else None) for i, row in enumerate(rows))
    return Cluster(id, chip.id, levels, **words)


def _words(id: str, table: TomlTable) -> dict[str, Given]:
    """Descriptive fields of a machine: aliases, display name (last), source, date and note."""
    for key in ("source", "date", "note", "name"):
        if not isinstance(table.get(key, ""), str):
            raise InputError(f"{id}.{key}", table[key], "text")
    aliases = table.get("aliases", [])
    if not isinstance(aliases, list) or not all(isinstance(a, str) for a in aliases):
        raise InputError(f"{id}.aliases", aliases, "a list of names")
    every = (*aliases, *([table["name"]] if "name" in table else []))
    return {"aliases": every, **{key: table[key] for key in ("source", "date", "note") if key in table}}


def _preset(id: str, table: TomlTable) -> Cluster:
    """A machine of `fabrics.toml`: one box with its external network, or several of another machine."""
    if "of" in table:
        only_known(id, table, _POD)
        count, _, base = table["of"].partition("x")
        return replace(joined_copies(int(count), clusters()[base]), name=id, **_words(id, table))
    only_known(id, table, _BOX)
    box = cluster_from(id, {key: value for key, value in table.items() if key in _CLUSTER})
    if "network" not in table:
        return box
    row = {"name": "cluster", "kind": "network", "size": 1, **table["network"]}
    return replace(box, network=_level(f"{id}.network", row, None))


def _level(where: str, row: object, chip: Chip | None) -> Level:
    if not isinstance(row, Mapping):
        raise InputError(where, row, "a table")
    only_known(where, row, _LEVEL)
    for key in ("name", "size", "kind"):
        if key not in row:
            raise InputError(f"{where}.{key}", "nothing (missing key)", "a value")
    given: dict[str, Given] = {"name": row["name"], "size": row["size"], "kind": row["kind"]}
    if not isinstance(row["kind"], str):
        raise InputError(f"{where}.kind", row["kind"], f"one of {', '.join(KINDS)}")
    for key, field, factor in (("bandwidth_gbs", "bandwidth", 1e9), ("latency_us", "latency", 1e-6)):
        if key in row:
            value = row[key]
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise InputError(f"{where}.{key}", value, "a number")
            if abs(value) > LARGEST_FIGURE:
                raise InputError(f"{where}.{key}", value, f"a number up to {LARGEST_FIGURE:g}")
            given[field] = value * factor
    if "bandwidth" not in given:
        if chip is None or chip.link is None:
            raise InputError(f"{where}.bandwidth_gbs", "nothing (missing key)", "GB/s per chip and direction")
        given["bandwidth"] = chip.link
    given.setdefault("latency", LATENCY.get(row["kind"], 0.0))
    over = row.get("oversubscription", 1.0)
    if isinstance(over, bool) or not isinstance(over, (int, float)) or not 1 <= over <= MOST:
        raise InputError(
            f"{where}.oversubscription", over, "a number of at least 1, such as 7 where 7 chips share a link"
        )
    given |= {"bandwidth": given["bandwidth"] / over, "oversubscription": float(over)}
    axes = row.get("axes", [])
    if not isinstance(axes, list):
        raise InputError(f"{where}.axes", axes, "a list of whole numbers")
    return Level(
        **given, in_switch=row.get("in_switch", False), axes=tuple(axes), rails=row.get("rails", False)
    )  # fmt: skip


# -- finding -------------------------------------------------------------------------------------------------------
@cache
def clusters() -> Tables[Cluster]:
    """The presets, boxes, racks and pods first and clusters of them after: id → cluster.

    Bandwidths are bytes/s of a chip in one direction, latencies seconds.
    """
    return Tables(_preset, FILE)


@cache
def _names() -> Mapping[str, str]:
    heads = ((id, clusters().head(id)) for id in clusters())
    names = {plain_name(alias): id for id, head in heads for alias in (*head.get("aliases", ()), head["name"], id)}
    return MappingProxyType(names)


@cache
def _presets() -> Mapping[str, str]:
    """The first box, rack or pod of each chip, by chip id."""
    heads = ((clusters().head(id), id) for id in clusters())
    pairs = [(chip_id(head["chip"]), id) for head, id in heads if "chip" in head]
    return MappingProxyType({chip: id for chip, id in reversed(pairs) if chip is not None})


def is_catalogued(name: str) -> bool:
    """Whether a name means a chip or cluster of the package, or several, as in `8xh100-sxm`, limited or not."""
    whole = plain_name(name).partition(LIMITED)[0]
    counted = _counted(whole)
    return _has_name(counted[1] if counted else whole)


def _has_name(name: str) -> bool:
    """Whether it is a name or alias of a chip or cluster of the package."""
    return chip_id(name) is not None or plain_name(name) in _names()


def _counted(text: str) -> tuple[int, str] | None:
    """The number and the name in `8xh100-sxm`; None for names without a number, such as the chip 7900xtx."""
    counted = re.fullmatch(r"(\d{1,7})-?[x×*]-?(.+)", text)
    return (int(counted[1]), counted[2]) if counted and not _has_name(text) else None


def is_cluster(spec: object) -> bool:
    """Whether it names a cluster and not a chip: a preset, COUNTxNAME, or a file with levels."""
    if not isinstance(spec, (str, os.PathLike)):
        return False
    text = plain_name(os.fspath(spec))
    whole = text.partition(LIMITED)[0]
    if whole in _names() or _counted(whole):
        return True
    if text == "here":
        return _here().count > 1
    path = Path(spec)
    if path.suffix != ".toml" or not names_a_file(path):
        return False
    table = one_table("machine", path)[1]
    return isinstance(table, Mapping) and "levels" in table


def _here() -> ThisMachine:
    from roofline.hardware.detect.recognise import this_machine  # asks the system's tools

    return this_machine()


def cluster_named(spec: str | os.PathLike[str] | Chip | Cluster) -> Cluster:
    """A cluster by name: a preset or its alias, `4xdgx-h100` for four of it, `8xh100-sxm` for eight chips of a node, a
    single chip, or the path of a TOML file.

    Raises InputError with the nearest names for an unknown name.
    """
    if isinstance(spec, Cluster):
        return spec
    if isinstance(spec, Chip):
        return of_chips(1, spec)
    text, path = plain_name(os.fspath(spec)), Path(spec)
    known = catalog_cluster(text) if isinstance(spec, str) or not names_a_file(path) else None
    if known is not None:
        return known
    if text == "here":
        return of_chips(_here().count, _here().chip)
    if path.suffix == ".toml" or names_a_file(path):
        return cluster_from(*one_table("cluster", path))
    count, rest = _counted(text) or (1, text)
    if count < 1:
        raise InputError("cluster", spec, "at least one chip")
    try:
        chip = chip_named(rest)
    except InputError:
        words = (*_names(), *(f"{count}x{id}" for id in chips()))
        raise InputError(
            "cluster", str(spec), "a preset, COUNTxCHIP such as 8xh100-sxm, or a .toml file", nearest(text, words)
        ) from None
    return of_chips(count, chip)


def catalog_cluster(name: str) -> Cluster | None:
    """A cluster from the package's own names only: a preset, COUNTxPRESET, COUNTxCHIP, or a single chip.

    None for any other name; no file is looked up. Raises InputError for a number of chips that cannot be joined.
    """
    text = plain_name(name)
    whole, mark, limit = text.rpartition(LIMITED)
    if mark:
        free = catalog_cluster(whole)
        if free is None:
            return None
        limited = limited_chip(chip_named(free.chip), limit)
        if free.chips > 1 and limited.link is None and chip_named(free.chip).link is not None:
            raise InputError("cluster", name, f"one {limited.id}: its links to others cannot be used")
        return replace(free, name=text, chip=limited.id)
    if text in _names():
        _warn_changed(text)
        return clusters()[_names()[text]]
    count, rest = _counted(text) or (1, text)
    preset, id = _names().get(rest), chip_id(rest)
    if count < 1 and (preset or id):
        raise InputError("cluster", name, "at least one chip")
    if preset is not None:
        return joined_copies(count, clusters()[preset])
    return None if id is None else of_chips(count, chips()[id])


def _warn_changed(text: str) -> None:
    """Emit a `MachineNameWarning` for a bare name that used to mean a cluster and now means one box, rack or pod.

    Worker processes do not warn: the process that started them has read the same name.
    """
    id = _names()[text]
    before = clusters().head(id).get("before")
    if before is None:
        return
    from multiprocessing import parent_process

    if parent_process() is not None:
        return
    chips, more = clusters()[id].chips, cluster_named(before).chips
    warnings.warn(
        f"{text} now means {chips:,} chips, not a cluster: that is {before} ({more:,} chips); "
        f"1x{text} avoids this line",
        MachineNameWarning,
        stacklevel=1,
    )


def joined_copies(count: int, one: Cluster) -> Cluster:
    """`count` copies of a machine joined by its network; for a cluster, a larger outermost level.

    Raises InputError where no network joins two of them.
    """
    outer, inner = one.network, one.levels
    if outer is None and one.levels[-1].kind == "network":
        outer, inner = one.levels[-1], one.levels[:-1]
    if outer is None:
        if count == 1:
            return one
        raise InputError("cluster", f"{count}x{one.name}", f"one {one.name}: nothing joins two of them")
    parts = count * outer.size
    levels = (*inner, replace(outer, size=parts)) if parts > 1 else inner
    return replace(one, name=f"{count}x{one.name}", levels=levels, aliases=(), network=None if parts > 1 else outer)


def of_chips(count: int, chip: Chip) -> Cluster:
    """`count` chips in one node, joined by the catalog's link; beyond the size of a node, nodes of the chip's preset.

    Raises InputError where the chip has no link, or the count does not fill the preset's nodes.
    """
    name = f"{count}x{chip.id}"
    free, mark, _ = chip.id.partition(LIMITED)
    if mark and free in chips() and (count == 1 or chip.link is not None or chips()[free].link is None):
        return replace(of_chips(count, chips()[free]), name=name, chip=chip.id)
    preset = clusters()[_presets()[chip.id]] if chip.id in _presets() else None
    if preset is not None and preset.chips < count and (count > NODE or preset.network is not None):
        part = _part_of_rack(count, preset)
        if part is not None:
            rack = replace(preset, levels=(replace(preset.levels[0], size=part),))
            return replace(joined_copies(count // part, rack), name=name)
        if preset.network is None or count % preset.chips:
            raise InputError("cluster", name, f"a multiple of {preset.chips} chips, as in {preset.name}")
        return replace(joined_copies(count // preset.chips, preset), name=name)
    if preset is not None and preset.levels[0].kind in ("torus", "mesh") and count <= preset.chips:
        return replace(preset, name=name, aliases=(), count=count, network=None)  # with its links
    if count > NODE and (preset is None or count > preset.levels[0].size):
        raise InputError("cluster", name, f"at most {NODE} chips of a node; a cluster file says how more are joined")
    kind = link_kind(chip)
    link, host = chip.link or chip.host, chip.host or chip.link
    if link is None or host is None:
        if count > 1:
            raise InputError("cluster", name, f"a chip whose link is known; {chip.id} has none in the catalog")
        link = host = chip.bandwidth  # alone: never used
    source, date = chip.source, chip.date
    if "bridge" in chip.link_kind and count > 1 and chip.vendor == "nvidia":
        wide = 4 if "4" in chip.link_kind.partition("(")[2] else 2
        inner = min(count, wide)
        levels = [Level("bridge", inner, link, LATENCY["ring"], "switch")]
        if count > inner:
            levels.append(Level("node", ceil_div(count, inner), min(host, link), LATENCY["pcie"], "pcie"))
        return Cluster(name, chip.id, tuple(levels), source, date)
    in_switch = kind == "switch" and chip.generation in ("hopper", "blackwell")
    axes = (count,) if kind == "torus" else ()
    return Cluster(
        name, chip.id, (Level("node", count, link, LATENCY[kind], kind, in_switch, axes),), source, date
    )  # fmt: skip


def _part_of_rack(count: int, preset: Cluster) -> int | None:
    """Chips per rack where `count` fills no whole racks: the fewest racks with equal numbers of whole trays.

    For 256 GB200, 64 in each of four racks. None where racks are filled, where less than half of each would be used,
    and where nodes are not racks.
    """
    size = preset.levels[0].size
    if preset.network is None or preset.levels[0].kind != "switch" or size <= 2 * NODE or count % size == 0:
        return None
    racks = range(ceil_div(count, size), 2 * count // size + 1)
    return next((count // n for n in racks if count % (n * TRAY) == 0), None)


def link_kind(chip: Chip) -> str:
    """The kind of level that a chip's link forms, from the link's name in the catalog."""
    text = chip.link_kind.lower()
    for word, kind in (
        ("nvlink", "switch"), ("pcie", "pcie"), ("torus", "torus"), ("infinity", "mesh"), ("roce", "mesh"),
        ("xe link", "mesh"), ("neuronlink", "torus"), ("gbe", "network"),
    ):  # fmt: skip
        if word in text:
            return kind
    return "pcie" if chip.link is None else "ring"
