"""Optional features: whether their packages are there, and how to install them, from the extras in `pyproject.toml`."""

from __future__ import annotations

import re
from importlib.util import find_spec

from roofline.declared.errors import InputError

_OF_AN_EXTRA = re.compile(r"(?P<needed>[^;]+?)\s*;.*\bextra\s*==\s*[\"'](?P<extra>[\w.-]+)[\"']")


def install_line(extra: str, *only: str) -> str:
    """The command that installs the packages of an extra, with their bounds.

    `only`: packages of the extra to include. If Roofline itself is not installed, the command for a checkout.

    >>> install_line("codesign")
    "pip install 'pymoo<0.7,>=0.6.1'"
    """
    from importlib.metadata import PackageNotFoundError, requires  # loaded where a package is missing

    try:
        lines = requires("roofline") or []
    except PackageNotFoundError:
        lines = []
    all_needed = [m["needed"] for m in map(_OF_AN_EXTRA.fullmatch, lines) if m and m["extra"] == extra]
    needed = [each for each in all_needed if not only or re.split(r"[^\w.-]", each)[0] in only]
    return "pip install " + (" ".join(f"'{each}'" for each in needed) or f"'.[{extra}]' in a checkout")


def is_there(package: str) -> bool:
    """Whether a package is installed; it is not imported."""
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:
        return False


def check_frames(field: str, value: str, instead: str = "") -> None:
    """Raise InputError if Polars is missing, which only Parquet and Arrow files and `to_frame` need.

    `instead`: what works without it.
    """
    if not is_there("polars"):
        raise InputError(field, value, f"{instead}{', or ' if instead else ''}Polars: {install_line('frames')}")
