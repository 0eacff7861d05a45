"""Options that have had another name, and names of machines that have meant another: a line on stderr says so."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from roofline.declared.errors import MachineNameWarning
from roofline.declared.sanitize import inert_line

STEPS = {"--prefill": "--input", "--decode": "--context"}
FILE = {"--output": "--out"}
TOKENS = {"--output": "--output-tokens"}
RENAMED: Mapping[str, Mapping[str, str]] = MappingProxyType({
    "analyze": {**STEPS, **FILE}, "plot": {**STEPS, **FILE}, "explain": STEPS,
    **dict.fromkeys(("report", "calibrate"), FILE), "train": {**FILE, "--no-overlap": "--overlap=none"},
    **dict.fromkeys(("generate", "serve", "simulate", "solve", "search", "sensitivity", "web"), TOKENS),
})  # fmt: skip
"""Command → its options' old names and the new ones."""


def renamed(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """A command line with today's names of options, and a line for each old one.

    >>> renamed(["generate", "gpt2", "--output=9"])
    (['generate', 'gpt2', '--output-tokens=9'], ['--output is now called --output-tokens'])
    """
    names = RENAMED.get(words[0], {}) if words else {}
    pairs = list(_pairs(words, names))
    told = [f"{old} is now called {names[old]}" for old in dict.fromkeys(old for _, old in pairs if old)]
    return [word for word, _ in pairs], told


def _pairs(words: Sequence[str], names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Every word as it is now, with the old name it had; after `--` nothing is an option."""
    options = True
    for word in words:
        options = options and word != "--"
        name, sign, value = word.partition("=")
        if options and name in names:
            yield f"{names[name]}{sign}{value}", name
        else:
            yield word, ""


@contextmanager
def names_that_changed() -> Iterator[None]:
    """Within it a machine whose bare name means fewer chips than before is said in one line on stderr, once."""
    with warnings.catch_warnings():
        warnings.simplefilter("default", MachineNameWarning)
        usual = warnings.showwarning

        def show(message: Any, category: type[Warning], *where: Any, **more: Any) -> None:
            if issubclass(category, MachineNameWarning):
                print(f"warning: {inert_line(str(message))}", file=sys.stderr)
            else:
                usual(message, category, *where, **more)

        warnings.showwarning = show
        yield
