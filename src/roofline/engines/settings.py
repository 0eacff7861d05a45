"""Settings of an engine: those in brackets after its name, and its defaults by chip.

Every setting has a general name and, in engines that support it, the engine's own name. Values are shares, integers,
switches or bytes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence

from roofline.declared.errors import InputError, nearest
from roofline.declared.kinds import Given
from roofline.declared.trees import TomlTable
from roofline.hardware.chip import Chip

OF_SOME = (
    "ahead",
    "balanced",
    "captured",
    "chunked",
    "cold",
    "dispatcher",
    "flash",
    "marlin",
    "deep_gemm",
    "hosts_tables",
    "reserves",
)
"""Settings that apply only to engines with their own name for them; they do not affect other engines' figures."""
Asked = tuple[tuple[str, str], ...]
"""Settings as they were written: (key, value) pairs."""
_BYTES = {"B": 1.0, "KB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30}
_AMOUNT = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)([KMG]i?B|B)?")
LARGEST_SETTING = 2**24
"""Largest number of tokens in a step, or of concurrent sequences, that is accepted."""


def _share(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 < value <= 1 else None


def _whole_number(text: str) -> int | None:
    value = int(text) if text.isascii() and text.isdigit() and len(text) < 12 else 0
    return value if 0 < value <= LARGEST_SETTING else None


def _switch(text: str) -> bool | None:
    return {"1": True, "true": True, "on": True, "0": False, "false": False, "off": False}.get(text.lower())


def _dispatcher(text: str) -> str | None:
    known = {
        "deepep": "deepep", "flex": "deepep", "alltoall": "alltoall", "nvlink": "nvlink", "hybridep": "nvlink",
        "allgather": "allgather",
    }  # fmt: skip
    return known.get(text)


def _reserves(text: str) -> bool | None:
    known = {"guaranteed_no_evict": True, "max_utilization": False}
    return known.get(text.lower(), _switch(text))


def _bytes(text: str) -> float | None:
    amount = _AMOUNT.fullmatch(text)
    if amount is None or (amount[2] is None and float(amount[1])):
        return None
    value = float(amount[1]) * _BYTES[amount[2] or "B"]
    return value if math.isfinite(value) else None


# general name: (field of Engine, parser, description of valid values)
GENERAL: Mapping[str, tuple[str, Callable[[str], Given], str]] = {
    "share": ("share", _share, "a share in (0, 1]"),
    "chunk": ("chunk", _whole_number, "a whole number from 1 to 2^24"),
    "most_running": ("most_running", _whole_number, "a whole number from 1 to 2^24"),
    "block": ("block", _whole_number, "a whole number from 1 to 2^24"),
    "balanced": ("balanced", _whole_number, "a whole number from 1 to 2^24"),
    "captured": ("captured", _whole_number, "a whole number from 1 to 2^24"),
    "dispatcher": ("dispatcher", _dispatcher, "deepep, alltoall, nvlink or allgather"),
    "chunked": ("splits", _switch, "1 or 0"),
    "reserves": ("reserves", _reserves, "GUARANTEED_NO_EVICT or MAX_UTILIZATION"),
    "eager": ("eager", _switch, "1 or 0"),
    "ahead": ("ahead", _switch, "1 or 0"),
    "flash": ("flash", _switch, "1 or 0"),
    "cold": ("cold", _switch, "1 or 0"),
    "hosts_tables": ("hosts_tables", _switch, "1 or 0"),
    "marlin": ("marlin", _switch, "1 or 0"),
    "deep_gemm": ("deep_gemm", _switch, "1 or 0"),
    "graphs": ("graph_bytes", _bytes, "bytes with their unit, such as 500MB or 0B"),
    "sampled": ("sampled_bytes", _bytes, "bytes with their unit, such as 14B"),
    "reserve": ("overhead_bytes", _bytes, "bytes with their unit, such as 2GB or 1.5GiB"),
}


def asked_settings(spec: str, inside: str, words: Mapping[str, str]) -> tuple[Asked, dict[str, Given]]:
    """Parse the settings in the brackets of `spec`; return them as written, and the engine fields that they set.

    `words`: the engine's own names for settings → their general names. Raises InputError for an unclosed bracket, a key
    that is unknown (with the nearest) or repeated, and an invalid value.
    """
    if not inside.endswith(")"):
        raise InputError("engine", spec, "a name, or a name and settings in brackets: vllm(max_num_seqs=128)")
    known = {**{name: name for name in GENERAL if name not in OF_SOME}, **words}
    asked: list[tuple[str, str]] = []
    values: dict[str, Given] = {}
    for part in inside[:-1].split(",") if inside[:-1].strip() else ():
        written, equals, text = (piece.strip() for piece in part.partition("="))
        key = written.removeprefix("--").replace("-", "_")
        if key not in known or not equals:
            raise InputError(f"engine.{key}", part.strip(), f"one of {', '.join(known)}", nearest(key, known))
        field, read, expected = GENERAL[known[key]]
        if field in values:
            raise InputError(f"engine.{key}", text, "each setting once")
        value = read(text)
        if value is None:
            raise InputError(f"engine.{key}", text, expected)
        values[field] = value
        asked.append((key, text))
    return tuple(asked), values


def fields_of(asked: Asked, words: Mapping[str, str]) -> frozenset[str]:
    """The fields of an engine that the settings set."""
    return frozenset(GENERAL[words.get(key, key)][0] for key, _ in asked)


def chip_settings(rows: Sequence[TomlTable], chip: Chip) -> dict[str, Given]:
    """The settings of the first row that matches a chip; empty if none does.

    A row selects either named `chips`, or `kinds` of chips (GPUs and NPUs by default) except those in `but`, with
    memory of at least `least_gib` and below `below_gib`.
    """
    gib = chip.capacity / 2**30
    ids = (chip.id, chip.like or "")

    def suits(row: TomlTable) -> bool:
        if "chips" in row:
            return any(id.startswith(name) for id in ids for name in row["chips"])
        if chip.kind not in row.get("kinds", ("gpu", "npu")) or not row.get("least_gib", 0) <= gib:
            return False
        return gib < row.get("below_gib", math.inf) and not any(
            i.startswith(n) for i in ids for n in row.get("but", ())
        )

    first: TomlTable = next((row for row in rows if suits(row)), {})
    return {key: value for key, value in first.items() if key not in CONDITIONS}


CONDITIONS = ("kinds", "chips", "but", "least_gib", "below_gib")
"""Keys of a row that select chips."""
CHIP_SETTINGS = (
    "share", "chunk", "most_running", "block", "captured", "dispatcher", "step_s", "sequence_s", "rereads",
)  # fmt: skip
"""Fields of an engine that may depend on the chip."""


def static_share(capacity: float, chunk: int, captured: int, ranks: int = 1) -> float:
    """SGLang's default share of memory for weights and cache, rounded as SGLang does.

    1 − reserved / capacity, in MiB: reserved = 512 + 1.5·max(chunk, 2048) + 2·captured + 128·ranks, at least 10,240
    above 60 GiB of memory (python/sglang/srt/server_args.py, ServerArgs._handle_gpu_memory_settings).

    >>> static_share(80 * 2**30, 8192, 256)
    0.836
    """
    mib = capacity / 2**20
    reserved = 512 + 1.5 * max(chunk, 2048) + 2 * captured + 128 * ranks
    if mib > 60 * 1024:
        reserved = max(reserved, 10 * 1024)
    return max(0.0, round((mib - reserved) / mib, 3))
