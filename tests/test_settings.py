"""The reference of settings is that of the code, and lists of settings grow no more."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from roofline.declared.question import declaration_of
from roofline.views.reference.settings import questions, settings_page

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))
from setting_lists import setting_lists  # noqa: E402

DECLARED = {"inference/cost/bill.py": 1, "inference/generate.py": 1}
"""Declarations of groups: of a bill, and of drafts. There were 133 lists before settings were declared."""


def test_the_page_is_made_from_the_code() -> None:
    run = "run: python -m roofline.views.reference.settings > docs/settings.md"
    assert (ROOT / "docs" / "settings.md").read_text(encoding="utf-8") == settings_page(), run


def test_every_setting_says_what_it_is() -> None:
    for name, function in questions():
        for setting in declaration_of(function).settings.values():
            assert setting.help, (name, setting.name)
            assert setting.help.rstrip().endswith((".", ")")), (name, setting.name)


def test_lists_of_settings_grow_no_more() -> None:
    root = ROOT / "src" / "roofline"
    lists = Counter(str(one.path.relative_to(root)) for one in setting_lists(root))
    assert {path: number for path, number in lists.items() if number > DECLARED.get(path, 0)} == {}
