"""Draws settings of every estimate and compares arrays with the same points one by one, to 1e-12.

Of every span speed of light ≤ low ≤ expected ≤ high is looked at, too.

    python benchmarks/arrays.py [DRAWS] [SEED] [KIND …]

Prints for each kind of estimate how many draws and points were equal and how many draws cannot be (an error both ways).
Exits with 1 where any differs.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from drawn import KINDS, cases, check

DRAWS = 1500


def main(words: list[str]) -> int:
    """Draws, compares and says how it went."""
    numbers = [int(word) for word in words if word.isdigit()]
    kinds = [word for word in words if word in KINDS] or list(KINDS)
    draws, seed = [*numbers, *(DRAWS, 0)[len(numbers) :]]
    points, equal, impossible = Counter[str](), Counter[str](), Counter[str]()
    different = 0
    for kind in kinds:
        for case in cases(seed, draws // len(kinds), [kind]):
            try:
                compared = check(case)
            except Exception as error:
                different += 1
                print(f"{kind}: {type(error).__name__} {error} in {case}", flush=True)
                continue
            points[kind] += compared
            (equal if compared else impossible)[kind] += 1
        print(
            f"{kind:<9} {equal[kind]:>5} draws equal, {points[kind]:>6} points, {impossible[kind]} errors both ways",
            flush=True,
        )
    print(f"{sum(equal.values())} draws, {sum(points.values())} points, {different} differ")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
