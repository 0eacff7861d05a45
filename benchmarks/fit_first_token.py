"""Fits how far the TTFT of published servers scatters beyond the law of their steps; prints engines/first_token.toml.

    python benchmarks/fit_first_token.py DIR [--out FILE]

The logarithm of a row's TTFT over what is expected lies within √(law² + (host·h)² + (wait·w)²) of 0. The law's part and
the shares h and w of the host and of waits are the row's own; `host`, of each engine, and `wait` are fitted, and
`alike` instead of it where users send requests that are all equally long. The least mean interval score of an 80 %
interval decides (Gneiting and Raftery, JASA 102, 2007): its width and ten times what a row lies beyond it. Beside it
the share of rows inside, by engine and chip: with all rows, and with those of the engine on that chip left out.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize  # type: ignore[import-untyped]

from measured_serving import RATES, SERVING, rates, servers
from roofline.declared.errors import InputError
from roofline.engines.engine import engine_named
from roofline.engines.first_token import Scatter
from roofline.inference.span import Span
from roofline.measured.accuracy.csvs import cells
from roofline.measured.accuracy.measurements import MeasuredRun, predictions
from roofline.serving import first_token

ENGINES = ("vllm", "trtllm", "sglang")
WAITS = ("wait", "alike")
Values = NDArray[np.float64]
BEYOND = 10.0
"""What a unit beyond an interval costs: 2/α of one that leaves out α = 20 %."""


def runs(folder: Path) -> Iterator[MeasuredRun]:
    """Every TTFT of a server."""
    for file, reader in ((SERVING, servers), (RATES, rates)):
        for row in cells(folder / file):
            try:
                each = [run for run in reader(row) if run.quantity == "served-ttft"]
            except InputError:
                continue
            yield from each


@dataclass(frozen=True)
class Rows:
    """TTFTs: engine, and engine and chip; whether requests are equally long; the logarithm of measured over expected;
    the law's ends; shares of parts."""

    engine: NDArray[np.str_]
    system: NDArray[np.str_]
    alike: NDArray[np.bool_]
    log: Values
    below: Values
    above: Values
    host: Values
    wait: Values

    def ends(self, point: Values) -> tuple[Values, Values]:
        """How far below and above the expected an interval reaches: `wait`, `alike`, and `host` of each engine."""
        host = np.select([self.engine == name for name in ENGINES], list(point[len(WAITS) :]))
        more = (host * self.host) ** 2 + (np.where(self.alike, point[1], point[0]) * self.wait) ** 2
        return np.sqrt(self.below**2 + more), np.sqrt(self.above**2 + more)

    def inside(self, point: Values) -> NDArray[np.bool_]:
        """Which rows are."""
        below, above = self.ends(point)
        return np.asarray((-below <= self.log) & (self.log <= above))

    def score(self, point: Values, kept: NDArray[np.bool_]) -> float:
        """The mean interval score of some rows."""
        below, above = self.ends(point)
        beyond = np.maximum(self.log - above, 0.0) + np.maximum(-below - self.log, 0.0)
        return float(np.mean((below + above + BEYOND * beyond)[kept]))

    def fit(self, kept: NDArray[np.bool_]) -> Values:
        """The best point of some rows."""
        starts = (np.full(len(WAITS) + len(ENGINES), start) for start in (0.3, 0.9))
        options = {"maxiter": 4000}
        fits = [minimize(lambda x: self.score(x, kept), x, method="Nelder-Mead", options=options) for x in starts]
        return np.abs(np.asarray(min(fits, key=lambda fit: float(fit.fun)).x))


def spans(measured: Sequence[MeasuredRun], wait: float, host: float) -> list[Span | InputError]:
    """What is predicted where both parts scatter so."""
    constants = Scatter(wait, wait, dict.fromkeys(ENGINES, host))
    with patch.object(first_token, "scatter", return_value=constants):
        return predictions(measured)


def rows(measured: Sequence[MeasuredRun]) -> Rows:
    """Rows that can be predicted and are slower than the speed of light; at a scatter of 1 the width is a share."""
    names, values, alike = [], [], []
    each = zip(measured, *(spans(measured, *scatter) for scatter in ((0.0, 0.0), (0.0, 1.0), (1.0, 0.0))), strict=True)
    for run, law, host, wait in each:
        if not (isinstance(law, Span) and isinstance(host, Span) and isinstance(wait, Span)):
            continue
        if run.seconds < float(law.floor):
            continue
        expected, above = float(law.expected), np.log(float(law.high) / float(law.expected))
        shares = (np.log(float(part.high) / expected) ** 2 - above**2 for part in (host, wait))
        ends = (np.log(run.seconds / expected), np.log(expected / float(law.low)), above)
        engine = engine_named(run.where.engine or "none").id
        names.append((engine, f"{engine}, {run.system}"))
        alike.append("rate" not in run.settings and run.settings["input_cv"] == run.settings["output_cv"] == 0)
        values.append((*ends, *(np.sqrt(max(share, 0.0)) for share in shares)))
    engines, systems = np.array(names).T
    return Rows(engines, systems, np.array(alike), *np.array(values).T)


def table(r: Rows, point: Values) -> Mapping[str, tuple[int, float, float]]:
    """By engine and chip: rows, the share inside, and that where these rows took no part."""
    shares = {}
    for name in sorted(set(r.system.tolist())):
        own = r.system == name
        shares[name] = (int(own.sum()), float(r.inside(point)[own].mean()), float(r.inside(r.fit(~own))[own].mean()))
    return shares


def main() -> None:
    """The lines of the file, then the shares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, help="a file of these constants, whose values are replaced")
    given = parser.parse_args()
    r = rows(list(runs(given.folder)))
    point = r.fit(np.ones(len(r.log), dtype=bool))
    values = dict(zip((*WAITS, *ENGINES), point, strict=True))
    said = [f"{name} = {value:.2f}" for name, value in values.items()]
    print("\n".join(("[scatter]", *said[: len(WAITS)], "[scatter.host]", *said[len(WAITS) :])))
    if given.out:
        text = given.out.read_text(encoding="utf-8")
        for name, value in values.items():
            text = re.sub(rf"^{name} = .*$", f"{name} = {value:.2f}", text, flags=re.MULTILINE)
        given.out.write_text(text, encoding="utf-8")
    shares = table(r, point)
    apart = sum(n * out for n, _, out in shares.values()) / len(r.log)
    median = 100 * np.median(np.abs(np.expm1(-r.log)))
    print(f"\n{len(r.log)} rows, median error {median:.1f} %, {100 * np.mean(r.inside(point)):.0f} % inside, ", end="")
    print(f"{100 * apart:.0f} % apart from the fit")
    for name, (n, own, out) in shares.items():
        print(f"{name:<20} {n:5} rows  {100 * own:3.0f} % inside  {100 * out:3.0f} % apart")


if __name__ == "__main__":
    main()
