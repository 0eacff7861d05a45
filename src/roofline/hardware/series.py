"""Chips that differ only in units, clock and memory, one row each.

`catalog/series/series.toml` gives the FLOP of one unit per clock, and the .csv files beside it list the chips. A row is
expanded to the table of a chip file, so that both are read and validated by the same code (`chip.chip_from`):

    peak in TFLOP/s = units × clock in MHz × FLOP per unit and clock / 10⁶
    bandwidth in GB/s = bus in bits × Gbit/s per pin / 8, or as the vendor states it
    host link in GB/s per direction = lanes × 1, 2, 4 for PCIe 3, 4, 5
"""

from __future__ import annotations

import csv
import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path

from roofline.declared.frozen_mapping import frozen
from roofline.declared.trees import TomlTable

PCIE_LANE_GBS: Mapping[str, float] = frozen({"3": 1.0, "4": 2.0, "5": 4.0})
"""GB/s per direction of one lane, before protocol overhead, by PCIe generation."""
SERIES_SOURCE = "rows of catalog/series"
_TABLES = "series.toml"
_NICKNAMES = re.compile(r"^(gtx|rtx|rx|core|ryzen-\d(?=-\d+x)|threadripper(?:-pro)?)-(?=.*\d)")


class ChipRows(Mapping[str, TomlTable]):
    """id → the table of each chip that is a row of a folder's .csv files, in the units of chip files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @cached_property
    def _rows(self) -> Mapping[str, Mapping[str, str]]:
        rows: dict[str, Mapping[str, str]] = {}
        for path in sorted(self._folder.glob("*.csv")):
            with path.open(encoding="utf-8", newline="") as lines:
                rows |= {row["id"]: row for row in csv.DictReader(lines)}
        return rows

    @cached_property
    def _series(self) -> Mapping[str, TomlTable]:
        return tomllib.loads((self._folder / _TABLES).read_text(encoding="utf-8"))

    def __getitem__(self, id: str) -> TomlTable:
        row = self._rows[id]
        series = self._series[row["series"]]
        thousands = float(row["units"]) * float(row["clock_mhz"]) / 1e6
        power = {"idle_w": series["idle_w"], "idle_assumed": True}
        if row["tdp_w"]:
            power |= {"tdp_w": float(row["tdp_w"]), **({"tdp_assumed": True} if series.get("tdp_assumed") else {})}
        vendor = row["vendor"] or series["vendor"]
        sources = {"figures": f"{series['source']}: {row['name']}", "date": row["date"]}
        if row["usable_mib"]:
            sources |= {"usable": _USABLE[vendor], "usable_date": "2025-11"}
        return {
            **self.head(id),
            **{key: series[key] for key in ("generation", "kind")},
            "vendor": vendor,
            "note": " ".join(filter(None, (row["note"], series["note"]))),
            "peak": {fmt: thousands * rate for fmt, rate in series["rate"].items()},
            "vector": {fmt: thousands * rate for fmt, rate in series["vector"].items()},
            "memory": {
                "kind": row["memory"],
                "capacity_gib": float(row["capacity_gib"]),
                "bandwidth_gbs": float(row["gbs"] or float(row["bus_bits"]) * float(row["gbits"]) / 8),
                "units": float(row["units"]),
                "clock_mhz": float(row["clock_mhz"]),
                **{key: float(row[name]) for key, name in _OPTIONAL if row[name]},
                **({"capacity_assumed": True} if series.get("capacity_assumed") else {}),
            },
            "power": power,
            "sources": sources,
            **({"link": {"host": row["host"], "host_gbs": host_gbs(row["host"])}} if row["host"] else {}),
        }

    def head(self, id: str) -> TomlTable:
        """The name and the aliases of a chip."""
        row = self._rows[id]
        bare = _NICKNAMES.sub("", id)
        nicknames = dict.fromkeys((*row["aliases"].split(), *(n for n in (bare, id.replace("-", "")) if n != id)))
        return {"name": row["name"], "aliases": [n for n in nicknames if n not in self._rows]}

    def rates(self, series: str) -> tuple[Mapping[str, float], Mapping[str, float]]:
        """FLOP per unit and clock of the matrix units and of ordinary arithmetic, by format."""
        return self._series[series]["rate"], self._series[series]["vector"]

    def __contains__(self, id: object) -> bool:
        return id in self._rows

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


_OPTIONAL = (("l2_mib", "cache_mib"), ("usable_mib", "usable_mib"))
_USABLE: Mapping[str, str] = frozen({
    "apple": "Metal's recommendedMaxWorkingSetSize as llama.cpp logs it: two thirds of 32 GiB and less, else 3/4",
    "nvidia": "nvidia-smi total with ECC on, which takes 1/16",
})  # fmt: skip


def host_gbs(link: str) -> float:
    """GB/s in one direction of a link such as `PCIe4 x16`.

    >>> host_gbs("PCIe4 x16"), host_gbs("PCIe5 x8")
    (32.0, 32.0)
    """
    generation, lanes = link.removeprefix("PCIe").split(" x")
    return PCIE_LANE_GBS[generation] * int(lanes)
