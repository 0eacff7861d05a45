"""Factors of later releases go into the table of the constants that they speak of."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

import fit_later

TEXT = """# head

[a.b.default]
t0 = 1
later_low = 0.5

[a.b.vllm]
t0 = 2
"""


def test_a_table_is_written_again() -> None:
    once = fit_later.written(TEXT, "a.b.default", {"later_low": 0.25, "later_high": 2})
    assert once == TEXT.replace("later_low = 0.5", "later_low = 0.250\nlater_high = 2.000")
    last = fit_later.written(TEXT, "a.b.vllm", {"later_low": 0.25})
    assert last == TEXT + "later_low = 0.250\n"
