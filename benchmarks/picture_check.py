"""Whether every text of every picture can be read: three models × every kind × both themes, all of it.

python benchmarks/picture_check.py [FOLDER]

Prints what cannot be read, a line each, and exits with 1 where there is something. In FOLDER the pictures are kept.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from legible import every_picture, picture, problems
from roofline.views.plots.style import Style
from roofline.views.plots.write import write


def main(folder: Path | None = None) -> int:
    """Prints what cannot be read; how many pictures have something of that."""
    plots, bad, number = cache(picture), 0, 0
    for model, kind, theme in every_picture():
        number += 1
        plot, style = plots(model, kind), Style(theme=theme, dpi=100)
        said = problems(plot, style)
        bad += bool(said)
        sys.stdout.writelines(f"{model} {kind} {theme}: {line}\n" for line in said)
        if folder is not None:
            write(plot, folder / f"{model}-{kind}-{theme}.png", style, force=True)
    print(f"{number} pictures, {bad} with text that cannot be read")
    return bad


if __name__ == "__main__":
    sys.exit(bool(main(*map(Path, sys.argv[1:2]))))
