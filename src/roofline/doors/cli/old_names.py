"""Renamed options, and machine names whose meaning has changed; a line on stderr reports each use."""

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
"""Command → old option name → new option name."""


def renamed(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Replace old option names in a command line; also return one message for each replaced name.

    >>> renamed(["generate", "gpt2", "--output=9"])
    (['generate', 'gpt2', '--output-tokens=9'], ['--output is now called --output-tokens'])
    """
    names = RENAMED.get(words[0], {}) if words else {}
    pairs = list(_pairs(words, names))
    told = [f"{old} is now called {names[old]}" for old in dict.fromkeys(old for _, old in pairs if old)]
    return [word for word, _ in pairs], told


def _pairs(words: Sequence[str], names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield each word with its new name, and its old name or "". Words after `--` are not options."""
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
    """Context that prints each MachineNameWarning (a name that now means fewer chips) once, as one line on stderr."""
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
