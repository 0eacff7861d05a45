"""docs/json.md names every key that a command prints, and no other."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from roofline.cli.main import main
from roofline.compat import transformer_roofline_analyzer

DOCS = (Path(__file__).parents[1] / "docs" / "json.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", DOCS, re.MULTILINE | re.DOTALL))
SHARED = "In several schemas"
MAPS = set(re.findall(r"(\w+)\{\}`", DOCS))
ON = ["meta-llama/Llama-3.1-8B", "--on", "l4"]
LENGTHS = ["--input", "10", "--output", "4"]
KINDS = ("roofline", "shares", "sweep", "memory", "parameters", "map", "tornado", "diagram")
SHORT = {
    **{kind: ["--decode", "64"] for kind in ("roofline", "shares", "tornado", "sweep")},
    **{kind: ["--most-context", "512"] for kind in ("memory", "map")},
}
COMMANDS = [
    ["analyze", *ON, "--decode", "9"], ["explain", "openai-community/gpt2", "attention"], ["models"],
    ["models", "openai-community/gpt2"], ["models", "--types"], ["diff", ON[0], "openai-community/gpt2"],
    ["chips"], ["chips", "--clusters"],
    ["generate", *ON, *LENGTHS, "--draft", "openai-community/gpt2"], ["serve", *ON, *LENGTHS, "--concurrency", "2"],
    ["serve", ON[0], *"--on 8xh100-sxm --input 9 --output 9 --concurrency 2 --prefill-layout tp=2 --chips 4".split()],
    ["train", ON[0], *"--on 8xh100-sxm --batch 8 --tokens 8192 --layout dp=8 --run-tokens 1e9".split()],
    *(["plot", *ON, "--kind", kind, *SHORT.get(kind, [])] for kind in KINDS),
    ["report", *ON, "--output-tokens", "4"],
    ["fit", *ON, "--batch", "400"], ["transformer-roofline-analyzer", ON[0]],
]  # fmt: skip


def keys(value: Any) -> Iterator[str]:
    """Every key of every object; of a map from names to figures its own alone."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            if key not in MAPS:
                yield from keys(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from keys(inner)


def named(heading: str) -> set[str]:
    """The keys a section writes in backticks: no options, no schemas, no commands."""
    paths = re.findall(r"`([a-z_]+(?:\[\]|\{\})?(?:\.[a-z_]+(?:\[\]|\{\})?)*)`", SECTIONS[heading])
    return {part.strip("[]{}") for path in paths for part in path.split(".")}


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> dict[str, set[str]]:
    """Schema → keys."""
    found: dict[str, set[str]] = {}
    for words in COMMANDS:
        if words[0] == "transformer-roofline-analyzer":
            transformer_roofline_analyzer.main(["--json", "--", *words[1:]])
        elif words[0] in ("fit", "train"):  # neither fits
            with pytest.raises(SystemExit):
                main([*words, "--json"])
        else:
            main([*words, "--json"])
        data = json.loads(capsys.readouterr().out)
        found.setdefault(data["schema"], set()).update(keys(data))
    return found


def test_every_key_is_documented_and_every_documented_key_printed(printed: dict[str, set[str]]) -> None:
    assert named(SHARED) <= set().union(*printed.values())
    for schema, found in printed.items():
        section = named(f"`{schema}`")
        assert found - section - named(SHARED) == set(), f"{schema}: not in docs/json.md"
        assert section - found == set(), f"{schema}: in docs/json.md alone"
