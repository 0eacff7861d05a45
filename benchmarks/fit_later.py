"""How far later releases of engines' kernels fall from constants that were fitted on earlier ones.

    python benchmarks/fit_later.py DIR

Writes later_low and later_high, and those of short ops, beside the constants of a chip that measurements of a later
release speak of: the factors that hold 80 % of them, 1 at least within. After fit_laws.py, which leaves them out. Of
collectives, after fit_collectives.py, those that hold 80 % of later releases under an engine's name.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import measured_collectives
from accuracy import constants_of, score_case
from left_out import rows_of, sections
from measured_collectives import Rows
from measured_ops import Case, Column, cases, other_sort
from measured_other_ops import newer
from roofline.hardware.named_chip import chip_named
from roofline.kernels.constants import FOLDER, SORTS, Constants
from roofline.kernels.links import FILE as LINKS

FEWEST = 40
"""Rows without which nothing is said, and half of those of the short ops, or the long ones, alone."""
PRIOR = 60
"""Rows that the width of all rows counts as, beside those of a part of them."""
ANOTHER = 3.0
"""A row that is further off than this ran another kernel (a fallback for its head size, one launched by the host),
which says nothing of how a newer release of the same one falls."""
RANGES: Mapping[str, tuple[tuple[float, float], tuple[float, float]]] = {
    "experts": ((0.5, 1.0), (1.0, 3.0)), "decode": ((0.1, 3.0), (0.1, 3.0)), "prefill": ((0.1, 3.0), (0.1, 3.0)),
}  # fmt: skip
"""Kind → the least and the greatest power of its two sorts."""
OWN = ("later_", "release = ")
"""What lines of a table that are written here begin with, but for the powers of two sorts."""
Table = tuple[str, str]
"""Of which file which table."""


def tables(folder: Path, later: Iterable[Case]) -> Mapping[Table, list[Case]]:
    """The table that each case finds, among those of its own chip."""
    groups: dict[Table, list[Case]] = defaultdict(list)
    for c in later:
        file = chip_named(c.system).id
        path = folder / f"{file}.toml"
        text = path.read_text() if path.exists() else ""
        for software in (c.software, "default"):
            table = f"{c.dtype}.{c.kind}.{software}"
            if f"\n[{table}]\n" in text:
                groups[file, table].append(c)
                break
    return groups


def ends(group: Iterable[Case]) -> dict[str, float]:
    """The factors of short and of long ops."""
    from fit_laws import minor  # needs SciPy, which only fits do

    ratios: list[Column] = []
    short: list[NDArray[np.bool_]] = []
    for c in group:
        known: Constants = constants_of(c)
        s = score_case(c)
        keep = np.isfinite(s.predicted) & (s.predicted > 0) & ~(s.far & (s.plain > c.seconds))
        keep &= np.abs(np.log(c.seconds / np.where(keep, s.predicted, c.seconds))) <= np.log(ANOTHER)
        ratios.append((c.seconds / s.predicted)[keep])
        short.append(np.asarray(minor(c.args, s.predicted, known.record), dtype=bool)[keep])
    ratio, small = np.concatenate(ratios), np.concatenate(short)
    if len(ratio) < FEWEST:
        return {}
    factors: dict[str, float] = {}
    for name, part in (("_small", small), ("", ~small)):
        chosen = ratio[part] if part.sum() >= FEWEST / 2 else ratio
        factors[f"later_low{name}"] = min(1.0, float(np.quantile(chosen, 0.1)))
        factors[f"later_high{name}"] = max(1.0, float(np.quantile(chosen, 0.9)))
    return factors


def widths(group: Sequence[Case]) -> dict[str, list[float]]:
    """The powers of the interval's ends of the two sorts of ops of a kind, such as experts on ranks that hold all.

    The share of the logarithm of the end that 80 % of all rows have, its logarithm drawn towards 0 as PRIOR rows of it
    would.
    """
    kind = group[0].kind
    logs: list[Column] = []
    other: list[NDArray[np.bool_]] = []
    for c in group:
        s = score_case(c)
        keep = np.isfinite(s.predicted) & (s.predicted > 0) & ~(s.far & (s.plain > c.seconds))
        if kind != "experts":
            keep &= np.abs(np.log(c.seconds / np.where(keep, s.predicted, c.seconds))) <= np.log(ANOTHER)
        logs.append(np.log(c.seconds[keep] / s.predicted[keep]))
        other.append(np.broadcast_to(other_sort(c), c.seconds.shape)[keep])
    log, second = np.concatenate(logs), np.concatenate(other)
    values: dict[str, list[float]] = {}
    for name, part, (narrow, wide) in zip(SORTS[kind], (~second, second), RANGES[kind], strict=True):
        n = int(part.sum())
        if n >= FEWEST and n < len(log):
            shares = [np.quantile(log[part], at) / np.quantile(log, at) for at in (0.1, 0.9)]
            values[name] = [float(np.clip(x, narrow, wide) ** (n / (n + PRIOR))) for x in shares]
    return values


def written(text: str, table: str, values: Mapping[str, Any], old: tuple[str, ...] = OWN) -> str:
    """The text of a file with these values at the end of a table, instead of those that stood there."""
    before, head, rest = text.partition(f"\n[{table}]\n")
    body, gap, after = rest.partition("\n\n[")
    lines = [line for line in body.rstrip("\n").split("\n") if not line.startswith(old)]
    lines += [f"{k} = {_toml(v)}" for k, v in values.items()]
    return before + head + "\n".join(lines) + (gap + after if gap else "\n")


def _toml(value: Any) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    return f"[{', '.join(f'{v:.2f}' for v in value)}]" if isinstance(value, list) else f"{value:.3f}"


def all_releases(folder: Path, text: str) -> Mapping[str, dict[str, float | str]]:
    """Table of a chip's collective under an engine's name → the factors over later releases, and the fitted one.

    Over earlier ones where none is later; releases count alike. What has no release: over all rows, where some were not
    fitted.
    """
    every = [*measured_collectives.rows(folder), *measured_collectives.newer_rows(folder)]
    ours = [replace(r, system=r.cluster.chip) for r in every if r.single and r.routing is None]
    groups: dict[str, list[Rows]] = defaultdict(list)
    fitted: dict[str, str] = {}
    for r in ours:
        kind = r.cluster.span(r.ranks, r.stride)[0].level.kind
        name = f"{r.system}.{kind}.{r.op}.{r.engine}"
        if f"\n[{name}]\n" in text and r.engine != "pytorch":
            groups[name].append(r)
    for r in measured_collectives.rows(folder):
        name = (
            f"{r.cluster.chip}.{r.cluster.span(r.ranks, r.stride)[0].level.kind}.{r.op}.{r.engine}" if r.single else ""
        )
        if name in groups:
            fitted[name] = max(fitted.get(name, r.software), r.software, key=measured_collectives.version_key)
    values: dict[str, dict[str, float | str]] = {}
    for name, group in groups.items():
        if " " in fitted.get(name, ""):
            newest = measured_collectives.version_key(fitted[name])
            after = [r for r in group if measured_collectives.version_key(r.software) > newest]
            group = after or [r for r in group if r.software != fitted[name]]
        elif len({r.file for r in group}) < 2:
            continue
        if not group or name not in fitted:
            continue
        ratios, shares, short = (np.concatenate(c) for c in zip(*(_of_release(r, group) for r in group), strict=True))
        each: dict[str, float | str] = {"release": fitted[name]} if " " in fitted[name] else {}
        for suffix, part in (("_small", short), ("", ~short)):
            chosen = part if part.sum() >= FEWEST / 2 else np.ones(len(part), dtype=bool)
            each[f"later_low{suffix}"] = min(0.99, _quantile(ratios[chosen], shares[chosen], 0.1))
            each[f"later_high{suffix}"] = max(1.01, _quantile(ratios[chosen], shares[chosen], 0.9))
        values[name] = each
    return values


def _of_release(r: Rows, group: Iterable[Rows]) -> tuple[Column, Column, NDArray[np.bool_]]:
    """Measured over predicted, the weight of a row, and whether its latency rules."""
    t = measured_collectives.predict(r, r.engine)
    rows = sum(len(other.size) for other in group if other.software == r.software)
    expected = np.broadcast_to(t.expected, r.size.shape).astype(float)
    short = expected < 3 * np.broadcast_to(t.fixed, r.size.shape)
    return r.seconds / expected, np.full(len(expected), 1 / rows), short


def _quantile(values: Column, weights: Column, at: float) -> float:
    """The value below which such a share of the weights lies."""
    order = np.argsort(values)
    share = np.cumsum(weights[order]) / weights.sum()
    return float(np.interp(at, share, values[order]))


def main(argv: Iterable[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args(list(argv))
    older = cases(options.folder)
    later = newer(options.folder, rows_of(older, sections(options.folder)))
    number = 0
    for (file, table), group in tables(FOLDER, later).items():
        if values := ends(group):
            path = FOLDER / f"{file}.toml"
            path.write_text(written(path.read_text(), table, values))
            number += 1
    two = [c for c in (*older, *later) if c.kind in SORTS and c.software != "aiter"]
    for (file, table), group in tables(FOLDER, two).items():
        path, names = FOLDER / f"{file}.toml", SORTS[group[0].kind]
        path.write_text(written(path.read_text(), table, widths(group), tuple(f"{name} = " for name in names)))
    text = LINKS.read_text()
    releases = all_releases(options.folder, text)
    for table, both in releases.items():
        text = written(text, table, both)
    LINKS.write_text(text)
    print(f"{number} sets of constants, {len(releases)} of collectives", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
