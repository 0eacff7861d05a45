"""How fast `roofline analyze` starts, beside `python -c "import numpy, rich"` in the same run.

    python benchmarks/startup.py

Every command runs with its modules compiled before, in a folder of this run's own. Exits with 1 where a target is
missed.
"""

from __future__ import annotations

import os
import sys
import tempfile
from statistics import median

from machine_description import describe, peak_megabytes, wall

MODEL = "meta-llama/Llama-3.1-8B"
ANALYZE = [sys.executable, "-m", "roofline.doors.cli.main", "analyze", MODEL]
FLOOR = [sys.executable, "-c", "import numpy, rich"]
COMMANDS = ((ANALYZE, 2.0), ([*ANALYZE, "--on", "h100-sxm"], 3.0))
"""Each with the most that its time may be in that of the floor."""
MEGABYTES = 120


def main(rounds: int = 15) -> int:
    """Prints medians, their ratios and the peak memory."""
    commands = (FLOOR, *(command for command, _ in COMMANDS))
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PYTHONPYCACHEPREFIX"] = folder
        for command in commands:
            wall(command)
        times = [[wall(command) for command in commands] for _ in range(rounds)]
        memory = [peak_megabytes(command) for command, _ in COMMANDS]
    floor, *ours = (median(column) for column in zip(*times, strict=True))
    print(describe())
    print(f"python -c 'import numpy, rich': median {floor * 1e3:.0f} ms of {rounds}")
    met = True
    for (command, most), seconds, size in zip(COMMANDS, ours, memory, strict=True):
        figures = f"median {seconds * 1e3:.0f} ms, ratio {seconds / floor:.2f} (target ≤ {most:.1f})"
        print(f"roofline {' '.join(command[3:])}: {figures}, peak memory {size:.0f} MB (target < {MEGABYTES})")
        met = met and seconds <= most * floor and size < MEGABYTES
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
