"""Find the catalog chip for a device name reported by a driver.

Names are compared as sets of words, without marketing words and memory sizes. If several chips match, such as cards
sold with two memory sizes, the one nearest in cores and memory is chosen.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import product

from roofline.hardware.chip import Chip, chips
from roofline.hardware.detect.devices import GIB, Gpu

_NOISE = frozenset(
    """nvidia amd intel apple geforce radeon instinct tesla graphics gpu generation oam with design cpu processor ati
    series adapter edition blackwell workstation server hbm2 hbm2e hbm3 hbm3e pcie max c gen core cores ac vf""".split()
)
"""Words of drivers and of the catalog that do not distinguish chips."""
_TELLING = frozenset({"pcie", "max", "server", "workstation"})
"""Words that distinguish some chips; they are dropped if no chip matches with them."""
_SAME = {"sxm2": "sxm", "sxm3": "sxm", "sxm4": "sxm", "sxm5": "sxm", "sxm6": "sxm", "mobile": "laptop"}
_MEMORY = re.compile(r"\b(\d{1,4})g[bi]?b?\b")
_TOLERANCE = 0.12
"""Relative tolerance between memory reported by a driver and in the catalog: ECC and reserves take up to 1/16."""


def words(name: str, telling: bool = True) -> frozenset[str]:
    """The words of a name that distinguish chips.

    >>> sorted(words("NVIDIA A100-SXM4-80GB")), sorted(words("AMD EPYC 9654 96-Core Processor"))
    (['a100', 'sxm'], ['9654', 'epyc'])
    """
    text = (
        re.sub(r"\((?:r|tm)\)|[®™]", " ", name.lower()).replace("with max-q design", "laptop").replace("max-q", "maxq")
    )
    text = re.sub(r"@ ?[\d.]+ ?ghz|\d+th gen|\b\d{1,3}-cores?\b|w/.*|with radeon.*|\(.*?\)", " ", text)
    split = (_SAME.get(word, word) for word in re.split(r"[^a-z0-9+]+", text) if word)
    dropped = _NOISE - _TELLING if telling else _NOISE
    return frozenset(word for word in split if word not in dropped and not _MEMORY.fullmatch(word))


@cache
def _known(telling: bool) -> dict[frozenset[str], list[str]]:
    by_words: dict[frozenset[str], list[str]] = {}
    for id in chips():
        head = chips().head(id)
        for name in (id, head["name"], *head.get("aliases", ())):
            ids = by_words.setdefault(words(name, telling), [])
            if id not in ids:
                ids.append(id)
    by_words.pop(frozenset(), None)
    return by_words


def chip_of_gpu(gpu: Gpu) -> Chip | None:
    """Catalog chip of a GPU; None if there is none."""
    return _chip_of(gpu.name, gpu.memory, gpu.units, gpu.cut, ("gpu", "npu", "tpu"))


def chip_of_processor(name: str) -> Chip | None:
    """Catalog chip of a CPU, from the name that the system reports; None if there is none."""
    return _chip_of(name, None, None, False, ("cpu",))


def _chip_of(name: str, memory: float | None, units: int | None, cut: bool, kinds: tuple[str, ...]) -> Chip | None:
    for telling, part in product((True, False), (name, *name.split("/")[:4])):
        ids = _known(telling).get(words(part, telling), [])
        if cut and not ids:
            ids = _beginning(name)
        candidates = [chip for chip in (chips()[id] for id in ids) if chip.kind in kinds]
        if candidates:
            told = _MEMORY.search(name.lower()) if memory is None else None
            return _nearest(candidates, memory, units, float(told[1]) * GIB if told else None)
    return None


def _beginning(name: str) -> list[str]:
    """Names of chips that start with a truncated name."""
    start = re.sub(r"[^a-z0-9]", "", re.sub(r"nvidia|geforce|tesla|quadro", "", name.lower()))
    if len(start) < 4:
        return []
    named = ((id, chips().head(id)["name"]) for id in chips())
    plain = ((id, re.sub(r"[^a-z0-9]|nvidia|geforce|tesla|quadro", "", full.lower())) for id, full in named)
    same = {"sxm2": "sxm", "sxm4": "sxm", "sxm5": "sxm"}
    for long, short in same.items():
        start = start.replace(long, short)
    return [id for id, full in plain if full.startswith(start)]


def _nearest(every: list[Chip], memory: float | None, units: int | None, told: float | None) -> Chip | None:
    """Of chips with the same name, the nearest in cores, then in memory; None if memory differs by too much.

    `told`: bytes stated in the name itself, used if the driver reports none.
    """
    if units is not None and any(c.units == units for c in every):
        every = [c for c in every if c.units == units]
    size = memory or told
    if size is None:
        return every[0]

    def away(chip: Chip) -> float:
        return min(abs(size / known - 1) for known in (chip.capacity, chip.nominal_capacity or chip.capacity))

    best = min(every, key=away)
    shared = best.vendor == "apple" or best.kind == "cpu" or "shared" in best.note
    return best if memory is None or shared or away(best) <= _TOLERANCE else None
