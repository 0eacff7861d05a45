"""Fit the constants of expert parallelism's exchanges to a folder of measurements.

    python benchmarks/fit_exchanges.py DIR [--out FILE]

A group is a chip, a kernel and an op: α for each number of nodes, the share of the scale-up link within a node and
across nodes, and that of the NIC, by robust least squares on log(predicted/measured). What a group has no rows of it
takes from its generation's, then from all together: what crosses nodes goes over the same NICs, and a chip of which
only a few figures are published (H800) has its generation's α too.
The error beside them is of rows whose size took no part (5 folds).
"""

import argparse
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares  # type: ignore[import-untyped, unused-ignore]

from measured_collectives import Rows, exchanges
from measured_ops import Column, generation
from roofline.kernels.exchanges import FILE

FOLDS = 5
LEAST = 6  # rows of one number of nodes without which its α is not fitted
NODES = (1, 2, 4, 8)
Key = tuple[str, str, str]  # chip, generation or generic; kernel; op


@dataclass(frozen=True)
class Sendings:
    """Rows of one group: bytes over each link at full bandwidth in seconds, and the number of nodes of each."""

    inside: Column
    across: Column
    nodes: NDArray[np.int64]
    seconds: Column
    fold: NDArray[np.int64]

    def take(self, keep: NDArray[np.bool_]) -> "Sendings":
        return Sendings(*(getattr(self, f)[keep] for f in self.__dataclass_fields__))


def sendings(group: list[Rows]) -> Sendings:
    columns = []
    for r in group:
        assert r.routing is not None
        levels = r.cluster.levels
        n, nodes = len(r.size), levels[1].size if len(levels) > 1 else 1
        inside = r.size * r.routing.inside(r.ranks, nodes) / levels[0].bandwidth
        across = r.size * r.routing.across(nodes) / levels[1].bandwidth if nodes > 1 else np.zeros(n)
        columns.append((inside, across, np.full(n, nodes), r.seconds, r.fold))
    return Sendings(*(np.concatenate(c) for c in zip(*columns, strict=True)))


@dataclass(frozen=True)
class Law:
    """α by nodes, the share inside one node and across several, and that of the NIC."""

    alpha: dict[int, float]
    inside: tuple[float, float]
    across: float

    def seconds(self, t: Sendings) -> Column:
        alpha = np.interp(np.log2(t.nodes), np.log2(list(self.alpha)), list(self.alpha.values()))
        inside = t.inside / np.where(t.nodes == 1, self.inside[0], self.inside[1])
        return np.asarray(alpha + np.maximum(inside, t.across / self.across))


def fit(t: Sendings, base: Law | None, same: bool, chip: bool) -> Law:
    """What the rows tell, the rest as in `base`. α never falls with nodes; `same`: one share within and across nodes.

    Of a `chip`, what goes over the NIC is its generation's: it is the same NIC.
    """
    counts = [n for n in NODES if (t.nodes == n).sum() >= LEAST and (n == 1 or not chip)]
    several = int((t.nodes > 1).sum())
    split = several >= LEAST and not same
    across = several > 0 and not chip

    def law(x: Column) -> Law:
        values = np.exp(x).tolist()
        alpha = dict(zip(counts, np.cumsum(values[: len(counts)]).tolist(), strict=True))
        if base is not None:
            alpha = {n: max(alpha.get(n, a), alpha.get(1, 0.0)) for n, a in base.alpha.items()}
        inside, *others = values[len(counts) :]
        beyond = others.pop(0) if split else inside if same or several or base is None else min(base.inside[1], inside)
        return Law(alpha, (inside, beyond), others.pop(0) if across else base.across if base else 0.9)

    floors = [float(np.log(max(1e-7, t.seconds[t.nodes == n].min() * 0.8))) for n in counts[:1]]
    shares = [float(np.log(0.5))] * (1 + split) + [float(np.log(0.9))] * across
    start = [*floors, *[float(np.log(5e-6))] * (len(counts) - 1), *shares]
    low = [float(np.log(1e-8))] * len(counts) + [float(np.log(0.02))] * (1 + split + across)
    high = [float(np.log(1e-2))] * len(counts) + [0.0] * (1 + split + across)

    def residual(x: Column) -> Column:
        return np.asarray(np.log(law(x).seconds(t) / t.seconds))

    return law(least_squares(residual, start, bounds=(low, high), loss="soft_l1", f_scale=0.1, max_nfev=300).x)


def held_out(t: Sendings, base: Law | None, same: bool, chip: bool) -> Column:
    """Each row's time by a law to which its size gave nothing; by its own where there are too few."""
    predicted = fit(t, base, same, chip).seconds(t)
    if len(t.seconds) >= 4 * LEAST:
        for fold in range(FOLDS):
            out = t.fold == fold
            if out.any():
                predicted[out] = fit(t.take(~out), base, same, chip).seconds(t.take(out))
    return predicted


def lines(key: Key, law: Law, t: Sendings, predicted: Column) -> list[str]:
    place, kernel, op = key
    ratio, error = t.seconds / predicted, predicted / t.seconds - 1
    small = predicted < 3 * np.interp(np.log2(t.nodes), np.log2(list(law.alpha)), list(law.alpha.values()))
    bounds = {}
    for name, part in (("_small", small), ("", ~small)):
        chosen = ratio[part] if part.sum() >= 12 else ratio
        low, high = np.quantile(chosen, [0.1, 0.9])
        bounds |= {f"low{name}": min(0.9, float(low)), f"high{name}": max(1.1, float(high))}
    return [
        f"[{place}.{kernel}.{op}]",
        f"nodes = {list(law.alpha)}",
        f"measured = {int(t.nodes.max())}",
        f"alpha = [{', '.join(f'{a:.4g}' for a in law.alpha.values())}]",
        f"inside = [{law.inside[0]:.4g}, {law.inside[1]:.4g}]",
        f"across = {law.across:.4g}",
        f"rows = {len(error)}",
        f"mape = {np.mean(np.abs(error)):.4f}",
        f"median = {np.median(np.abs(error)):.4f}",
        f"bias = {error.mean():.4f}",
        *(f"{name} = {value:.3f}" for name, value in bounds.items()),
        "",
    ]


HEAD = """\
# Written by benchmarks/fit_exchanges.py from measurements of aiconfigurator and aisimulate (Apache-2.0) and DeepEP's
# own figures for H800 (MIT). alpha: s, for each number of nodes; inside: share of the scale-up link within one node,
# across nodes; across: share of the NIC; the law is in kernels/exchanges.py. measured: the most nodes that were. mape,
# median, bias: on rows whose size took no part in the fit. low, high: factors of the interval that holds 80 % of those
# rows, and a tenth at least; *_small up to three alphas.
"""


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(description="Fits the constants of expert parallelism's exchanges.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=FILE)
    options = parser.parse_args(argv)
    groups: dict[Key, list[Rows]] = defaultdict(list)
    for r in exchanges(options.folder):
        for place in ("generic", f"generation-{generation(r.system)}", r.cluster.chip):
            groups[place, r.engine, r.op].append(r)
    order = sorted(groups, key=lambda key: (key[0] != "generic", not key[0].startswith("generation-"), key))
    laws: dict[Key, Law] = {}
    text = [HEAD]
    for key in order:
        place, kernel, op = key
        base = laws.get(("generic", kernel, op))
        if not place.startswith("gener"):
            base = laws[f"generation-{generation(groups[key][0].system)}", kernel, op]
        t, same, chip = sendings(groups[key]), kernel == "low_latency", not place.startswith("gener")
        laws[key], predicted = fit(t, base, same, chip), held_out(t, base, same, chip)
        text += lines(key, laws[key], t, predicted)
        error = predicted / t.seconds - 1
        law = laws[key]
        print(
            f"{' '.join(key):44} rows {len(error):4}  median {100 * np.median(np.abs(error)):5.1f} %"
            f"  mean {100 * np.mean(np.abs(error)):5.1f} %  inside {law.inside[0]:.3f} {law.inside[1]:.3f}"
            f"  across {law.across:.3f}  alpha {' '.join(f'{1e6 * a:.1f}' for a in law.alpha.values())}"
        )
    options.out.write_text("\n".join(text).rstrip("\n") + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
