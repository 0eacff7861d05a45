"""Examples in docstrings print what they show. A module that has examples is a test; others are not collected."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = {
    ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path
    for root in (ROOT / "src", ROOT / "tests")
    for path in sorted(root.rglob("*.py"))
    if not path.name.startswith("test_")
}
EXAMPLES = [name for name, path in SOURCES.items() if ">>> " in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_print_what_they_show(name: str) -> None:
    result = doctest.testmod(import_module(name))  # prints each example that fails
    assert result.attempted
    assert not result.failed
