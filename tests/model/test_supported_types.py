"""Model types of vLLM, SGLang, mlx-lm and transformers beside this package's: what is absent has a reason.

`supported_types.json` holds their names and the day they were read; `python benchmarks/supported_types.py` reads them
anew. `absent_types.json` holds names that mean a type of this package, and the reason of each absent one. A name that
is in neither is new, and the test prints it.
"""

from __future__ import annotations

import datetime
import json
import re
from pathlib import Path
from typing import Any

import pytest

import roofline.model.families.beyond  # noqa: F401  (registers all families)
from roofline.model.families import FAMILIES, SAME, TOWERS, WHOLES, WRAPPERS
from roofline.model.families.refused import REFUSED

FOLDER = Path(__file__).parent
LISTS: dict[str, Any] = json.loads((FOLDER / "supported_types.json").read_text())
KEPT: dict[str, Any] = json.loads((FOLDER / "absent_types.json").read_text())
SOFTWARE = ("vllm", "sglang", "mlx-lm", "transformers")
REASON = {name: reason for reason, names in KEPT["absent"].items() for name in names}
CLASS = re.compile(
    r"(ForCausalLM|ForConditionalGeneration|LMHeadModel|ForImageTextToText|ForVision2Seq|ChatModel|Model)$"
)


def plain(name: str) -> str:
    """A class or a type without the words and signs in which they differ: `Qwen3MoeForCausalLM`, `qwen3_moe`."""
    return re.sub(r"[^a-z0-9]", "", CLASS.sub("", name).lower())


KNOWN = {plain(name) for name in (*FAMILIES, *WHOLES, *WRAPPERS, *TOWERS, *SAME, *REFUSED)} | {
    plain(name) for name in KEPT["same"]
}


def absent(software: str) -> set[str]:
    return {name for name in LISTS[software]["names"] if plain(name) not in KNOWN}


@pytest.mark.parametrize("software", SOFTWARE)
def test_what_others_support_is_covered_or_has_a_reason(software: str) -> None:
    new = sorted(absent(software) - {*REASON})
    print(f"new in {software} {LISTS[software]['version']}:", *new, sep="\n  ")
    assert new == []


def test_reasons_are_of_what_is_absent() -> None:
    assert sorted({*REASON} - set().union(*map(absent, SOFTWARE))) == []


def test_what_means_a_type_means_one_of_this_package() -> None:
    assert {*KEPT["same"].values()} <= {*FAMILIES, *WHOLES, *WRAPPERS, *TOWERS, *SAME}


def test_the_lists_are_whole_and_dated() -> None:
    assert datetime.date.fromisoformat(LISTS["read"]) >= datetime.date(2026, 11, 27)
    assert {name: len(LISTS[name]["names"]) >= 100 for name in SOFTWARE} == dict.fromkeys(SOFTWARE, True)
