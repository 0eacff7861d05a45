"""Takes pictures of every view of the page, in both themes, on a desktop and on a phone: to look at after a change.

    python benchmarks/page_pictures.py FOLDER [VIEW ...]

Needs the extra `test` and Chromium. Beside the first scenario it takes a model that does not fit, in two views, and
a machine that does not exist.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from browser import watched
from served_page import Page, page_server, stop_servers

SIZES = {"desktop": (1300, 900), "phone": (390, 800)}
THEMES = ("light", "dark")
LARGE = "meta-llama/Llama-3.3-70B-Instruct"
TABS = "[...document.querySelectorAll('[role=tab]')].map((tab) => tab.id.slice(4))"


def taken(page: Page, folder: Path, name: str) -> Iterator[Path]:
    """What is shown now, in both themes and at both sizes."""
    for theme in THEMES:
        page.tab.emulate_media(color_scheme=theme)
        for size, (width, height) in SIZES.items():
            page.tab.set_viewport_size({"width": width, "height": height})
            page.fresh(page.tab.url)
            page.tab.wait_for_function("() => !document.querySelector('#verdict .first[aria-busy=true]')")
            page.tab.wait_for_timeout(600)
            path = folder / f"{name}-{theme}-{size}.png"
            page.tab.screenshot(path=path, full_page=True)
            yield path
        page.tab.emulate_media(color_scheme=THEMES[0])
        page.tab.set_viewport_size({"width": SIZES["desktop"][0], "height": SIZES["desktop"][1]})


def main() -> None:
    """Writes the pictures and prints their names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("views", nargs="*")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    with page_server() as address, watched() as seen:
        page = Page(seen, seen.tab)
        page.tab.set_viewport_size({"width": 1300, "height": 900})
        page.fresh(address)
        for view in asked.views or page.sees(TABS):
            page.open(view)
            for path in taken(page, asked.folder, view):
                print(path)
        page.open("overview")
        page.set_to("model", LARGE)
        for path in taken(page, asked.folder, "misfit"):
            print(path)
        page.open("training")
        for path in taken(page, asked.folder, "misfit-training"):
            print(path)
        page.tab.fill("#on", "h1000")
        page.tab.locator("#on").blur()
        page.tab.wait_for_selector("#verdict.wrong")
        page.tab.screenshot(path=asked.folder / "wrong.png", full_page=True)
    stop_servers()


if __name__ == "__main__":
    main()
