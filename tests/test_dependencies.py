"""What is declared of other packages: each has a least and a most version, and those installed lie between them."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
LINES = sorted(
    {*PROJECT["dependencies"], *(line for extra, lines in EXTRAS.items() if extra != "oracle" for line in lines)}
)


def numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text.split("+")[0])[:4])


@pytest.mark.parametrize("line", LINES)
def test_bounds(line: str) -> None:
    bounds = re.fullmatch(r"([\w.-]+)>=(\d+(?:\.\d+)*),<(\d+(?:\.\d+)*)", line)
    assert bounds, f"{line}: no least and most version"
    name, least, most = bounds.groups()
    assert numbers(least) < numbers(most)
    try:
        installed = version(name)
    except PackageNotFoundError:
        pytest.skip(f"{name} is not installed")
    assert numbers(least) <= numbers(installed) < numbers(most), f"{name} {installed}"


def test_what_the_oracle_compares_with_is_pinned() -> None:
    assert all(re.fullmatch(r"[\w.-]+==[\d.]+(?:\*)?", line) for line in EXTRAS["oracle"])


def test_an_extra_and_the_tests_agree() -> None:
    """What tests install beside the package is what its extras ask for, by the same bounds."""
    bounds: dict[str, set[str]] = {}
    for extra, lines in EXTRAS.items():
        if extra != "oracle":
            for line in lines:
                bounds.setdefault(re.split(r"[<>=]", line)[0], set()).add(line)
    assert {name: lines for name, lines in bounds.items() if len(lines) > 1} == {}


def test_python_versions() -> None:
    named = {c.rsplit(" ", 1)[1] for c in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+", c)}
    assert PROJECT["requires-python"] == ">=3.11"
    run = (Path(__file__).parents[1] / ".ci" / "run").read_text(encoding="utf-8")
    assert named == {"3.11", *re.findall(r"\b3\.\d+\b", re.search(r"for version in ([\d. ]+);", run)[1])}  # type: ignore[index]
