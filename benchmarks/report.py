"""How long a whole report takes, beside one bare Matplotlib picture with SymPy loaded, in the same run; and its size.

python benchmarks/report.py
"""

from __future__ import annotations

import sys
import tempfile
from functools import partial
from pathlib import Path

from machine_description import alternating, describe, peak_megabytes, wall

MODEL = "deepseek-ai/DeepSeek-V3"
PLACES = (["--on", "h200-sxm"], ["--on", "8xh200-sxm", "--layout", "tp=8"])
PICTURE = (
    "import io, jinja2, sympy; from matplotlib.figure import Figure; f = Figure(); "
    "f.add_subplot().loglog([1, 9], [1, 9]); f.savefig(io.BytesIO(), format='svg')"
)


def main(rounds: int = 5) -> None:
    """Prints medians, ratios and sizes."""
    floor_command = [sys.executable, "-c", PICTURE]
    print(describe())
    with tempfile.TemporaryDirectory() as folder:
        for place in PLACES:
            page = Path(folder) / "report.html"
            command = [
                sys.executable,
                "-m",
                "roofline.doors.cli.main",
                "report",
                MODEL,
                *place,
                "--out",
                str(page),
                "--force",
            ]
            for words in (command, floor_command):
                wall(words)
            ours, floor = alternating(partial(wall, command), partial(wall, floor_command), rounds)
            print(f"roofline report {MODEL} {' '.join(place)}: median {ours:.2f} s of {rounds} (target < 5)")
            print(f"one picture: median {floor:.2f} s, ratio {ours / floor:.1f}")
            print(f"page {page.stat().st_size / 1e6:.2f} MB (target < 3), peak memory {peak_megabytes(command):.0f} MB")


if __name__ == "__main__":
    main()
