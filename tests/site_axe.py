"""Looks with axe at every page of a built site, in both themes and two widths: `python tests/site_axe.py FOLDER`.

Prints what is serious or critical, and exits with 1 where there is any. Pages of Roofline's own; the theme's search is
left closed.
"""

from __future__ import annotations

import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path
from typing import Any

from axe_playwright_python.sync_playwright import Axe

from browser import CHROMIUM, watched

WIDTHS = (390, 1300)


class Silent(SimpleHTTPRequestHandler):
    """Serves files without a word for each."""

    def log_message(self, format: str, *args: Any) -> None:
        pass


def violations(folder: Path) -> int:
    """How many there are; each is printed."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Silent, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    pages = sorted(p.relative_to(folder).parent.as_posix() for p in folder.rglob("index.html"))
    count = 0
    with watched() as seen:
        for page, theme, width in product(pages, ("light", "dark"), WIDTHS):
            seen.tab.emulate_media(color_scheme=theme)
            seen.tab.set_viewport_size({"width": width, "height": 900})
            seen.tab.goto(f"http://127.0.0.1:{server.server_port}/{page}/")
            answer = Axe().run(seen.tab, options={"resultTypes": ["violations"]}).response
            for v in answer["violations"]:
                if v["impact"] in ("serious", "critical"):
                    count += 1
                    where = v["nodes"][0]["html"].replace("\n", " ")[:160]
                    print(f"{page} {theme} {width}: {v['id']}: {where}")
    server.shutdown()
    print(f"{len(pages)} pages, {count} serious or critical")
    return count


if __name__ == "__main__":
    if CHROMIUM is None:
        print("no chromium: the site is not looked at")
    elif violations(Path(sys.argv[1])):
        sys.exit(1)
