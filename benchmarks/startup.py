"""How fast `roofline analyze` starts, beside `python -c "import numpy, rich"` in the same run.

python benchmarks/startup.py
"""

from __future__ import annotations

import sys
from functools import partial

from machine_description import alternating, describe, peak_megabytes, wall

MODEL = "meta-llama/Llama-3.1-8B"
ANALYZE = [sys.executable, "-m", "roofline.cli.main", "analyze", MODEL]
FLOOR = [sys.executable, "-c", "import numpy, rich"]


def main(rounds: int = 15) -> None:
    """Prints medians, their ratio and the peak memory."""
    for command in (ANALYZE, FLOOR):
        wall(command)
    ours, floor = alternating(partial(wall, ANALYZE), partial(wall, FLOOR), rounds)
    print(describe())
    print(f"roofline analyze {MODEL}: median {ours * 1e3:.0f} ms of {rounds}")
    print(f"python -c 'import numpy, rich': median {floor * 1e3:.0f} ms")
    print(f"ratio {ours / floor:.2f} (target ≤ 2)")
    print(f"peak memory {peak_megabytes(ANALYZE):.0f} MB (target < 120)")


if __name__ == "__main__":
    main()
