"""Links of the README and the pages: files and headings are there; links elsewhere are the ones listed."""

from __future__ import annotations

import re
from pathlib import Path

from documented import PAGES, ROOT
from folded import folded

ABOUT = ("README", "CONTRIBUTING", "CHANGELOG", "NOTICE", "SECURITY", "CODE_OF_CONDUCT")
TEXTS = (*(ROOT / f"{name}.md" for name in ABOUT), *PAGES)
MADE = {"formulas.md", "gallery.md"}
"""Pages that exist once the site is built."""
EXTERNAL = {
    "https://github.com/Azure/AzurePublicDataset",
    "https://github.com/HPMLL/BurstGPT",
    "https://github.com/alibaba-edu/qwen-bailian-usagetraces-anon",
    "https://github.com/kvcache-ai/Mooncake",
    "https://jax-ml.github.io/scaling-book/",
    "https://json-schema.org/",
    "https://keepachangelog.com/en/1.1.0/",
    "https://kipp.ly/transformer-inference-arithmetic/",
    "https://modelcontextprotocol.io",
    "https://pymoo.org",
    "https://semver.org",
    "https://ui.perfetto.dev",
}
"""No test opens them: where there is a network, a person does before a release."""


def targets(page: Path) -> list[str]:
    """What the links and pictures of a page lead to, code apart."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"\]\(([^()\s]+)\)", re.sub(r"`[^`\n]*`", "CODE", text))


def anchors(page: Path) -> set[str]:
    """The headings of a page as GitHub and MkDocs link to them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@folded("page", TEXTS, ids=lambda p: p.name)
def test_relative_links_and_anchors_lead_somewhere(page: Path) -> None:
    for target in targets(page):
        if "://" in target:
            continue
        file, _, anchor = target.partition("#")
        if file in MADE:
            continue
        there = (page.parent / file).resolve() if file else page
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), target


def test_links_elsewhere_are_listed() -> None:
    assert {target for page in TEXTS for target in targets(page) if "://" in target} == EXTERNAL


def test_pictures_say_what_they_show() -> None:
    """Alternative texts are sentences, and checked-in pictures are used."""
    shown = set()
    for page in TEXTS:
        for words, target in re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
            assert len(words.split()) >= 5, (page.name, words)
            shown.add((page.parent / target).resolve())
    assert shown == {path.resolve() for path in (ROOT / "docs" / "pictures").iterdir()}
