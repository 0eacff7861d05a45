"""Fit the constants of the collectives' law to a folder of measurements.

    python benchmarks/fit_collectives.py DIR [--out FILE] [--without-fold N] [--only SYSTEM,...]

A group is a chip, kind of link, op and software; each number of ranks has its own α, e and rises c ≥ 0, by robust least
squares on log(predicted/measured). The error beside them is of rows whose size took no part (5 folds by a hash of size
and ranks). A generation is fitted to all its chips, a kind of link to all generations, and their error is of a chip, or
of a generation, that took no part. An engine's constants are of its newest release on each chip; others stand under
the release's name. With --only the tables of other chips, generations and of all stay as they are.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares  # type: ignore[import-untyped, unused-ignore]

from measured_collectives import CUSTOM, NCCL, NCCL_ENGINES, ONE_CCL, VIDUR, Rows, rows, version_key
from measured_ops import Column, generation
from roofline.hardware.named_chip import chip_named
from roofline.kernels import collectives as laws
from roofline.kernels.links import FEWEST, FILE, KNOTS, Link

LEAST = 8  # rows of one number of ranks without which nothing is fitted
RIDGE = 0.02  # pull of each rise to 0, in units of one row's log error
ROUGH = 0.7  # exponent where the rows are too few, or too coarse, to tell the rises
OWN = ("later_", "release = ")
"""What lines of the file begin with that `fit_later.py` writes."""
STEP = 1e-6  # of the slopes of residuals
Key = tuple[str, str, str, str]  # chip, generation or generic; kind of link; op; software


@dataclass(frozen=True)
class Table:
    """Rows to fit together, of one number of ranks. fold: the hold-out fold; weight: the same for every chip."""

    size: Column
    moved: Column
    bandwidth: Column
    seconds: Column
    fold: NDArray[np.int64]
    weight: Column

    def take(self, keep: NDArray[np.bool_]) -> "Table":
        return Table(*(getattr(self, f)[keep] for f in self.__dataclass_fields__))


def table(group: list[Rows], fold: str) -> Table:
    """fold: 'size', 'system' or 'generation'."""
    labels = [r.system if fold == "system" else generation(r.system) for r in group]
    ids = {name: i for i, name in enumerate(sorted(set(labels)))}
    per: dict[str, int] = defaultdict(int)
    for r in group:
        per[r.system] += len(r.size)
    parts = []
    for r, label in zip(group, labels, strict=True):
        part = r.cluster.span(r.ranks, r.stride)[0]
        moved, speed, n = laws.bytes_moved(r.op, laws.RING[r.op], r.size, r.ranks), part.bandwidth, len(r.size)
        folds = r.fold if fold == "size" else np.full(n, ids[label])
        weight = np.full(n, np.sqrt(sum(per.values()) / len(per) / per[r.system]))
        parts.append((r.size, moved, np.full(n, speed), r.seconds, folds, weight))
    return Table(*(np.concatenate(c) for c in zip(*parts, strict=True)))


def fit(t: Table, sharp: float) -> Link:
    """The constants that fit a table.

    Rises are fitted as they are, not their logarithms, whose way to 0 never ends: then any start comes to the same.
    """
    rate = float(np.log(np.clip(np.max(t.moved / t.seconds / t.bandwidth), 1e-4, 0.99)))
    rises = len(KNOTS) if sharp == 1 else 0
    start = [float(np.log(t.seconds.min())), rate, *([0.1] * rises)]
    low = [float(np.log(1e-7)), float(np.log(1e-4)), *([0.0] * rises)]
    high = [float(np.log(1e-2)), float(np.log(1.2)), *([20.0] * rises)]

    def residual(x: Column) -> Column:
        return np.concatenate([logs(x, sharp, t) - np.log(t.seconds) * t.weight, RIDGE * x[2:]])

    def slopes(x: Column) -> Column:
        n = len(x)
        both = STEP * np.hstack([np.eye(n), -np.eye(n)])
        log = logs(x[:, None, None] + both[..., None], sharp, t)
        return np.vstack([(log[:n] - log[n:]).T / (2 * STEP), RIDGE * np.eye(n)[2:]])

    solution = least_squares(
        residual, start, jac=slopes, bounds=(low, high), loss="soft_l1", f_scale=0.05, max_nfev=400, ftol=1e-12,
        xtol=1e-12, gtol=1e-12,
    )  # fmt: skip
    return link_at(solution.x, sharp)


def logs(x: Column, sharp: float, t: Table) -> Column:
    """The weighted logarithms of what the law predicts at a point, or at a column of points."""
    seconds = np.asarray(link_at(x, sharp).seconds(t.size, t.moved, t.bandwidth), dtype=float)
    return np.asarray(np.log(seconds) * t.weight)


def link_at(x: Column, sharp: float) -> Link:
    """The constants at a point, log α, log share and the rises, or at a column of points."""
    alpha, share = np.exp(x[:2])
    return Link(alpha, share, sharp, tuple(x[2:]))


def laws_seconds(link: Link, t: Table) -> Column:
    return np.asarray(link.seconds(t.size, t.moved, t.bandwidth), dtype=float)


@dataclass(frozen=True)
class Fitted:
    """Constants by number of ranks, and what is known of them on rows that took no part."""

    links: dict[int, Link]
    predicted: Column
    seconds: Column
    alpha: Column
    measured: int
    lone: bool = False
    """Whether a generation's constants are of one chip, or those of a kind of link of one generation."""

    @property
    def error(self) -> Column:
        return np.asarray(self.predicted / self.seconds - 1)

    def intervals(self) -> dict[str, float]:
        ratio = self.seconds / self.predicted
        small = self.predicted < 3 * self.alpha
        values: dict[str, float] = {}
        for name, part in (("_small", small), ("", ~small)):
            chosen = ratio[part] if part.sum() >= FEWEST else ratio
            low, high = np.quantile(chosen, [0.1, 0.9])
            values |= {f"low{name}": min(0.99, float(low)), f"high{name}": max(1.01, float(high))}
        return values


def fit_group(group: list[Rows], fold: str) -> Fitted | None:
    """Each number of ranks by itself; p is 1 with rises, ROUGH without, whichever predicts held-out rows better."""
    by_ranks: dict[int, list[Rows]] = defaultdict(list)
    for r in group:
        by_ranks[r.ranks].append(r)
    best: Fitted | None = None
    for sharp in (1.0, ROUGH):
        links: dict[int, Link] = {}
        columns: list[tuple[Column, Column, Column]] = []
        for n, same_ranks in sorted(by_ranks.items()):
            t = table(same_ranks, fold)
            if len(t.size) < LEAST:
                continue
            if len(np.unique(t.fold)) < 2:  # one chip only: its own sizes
                t = table(same_ranks, "size")
            held_out = np.empty_like(t.seconds)
            for f in np.unique(t.fold):
                out = t.fold == f
                held_out[out] = laws_seconds(fit(t.take(~out), sharp), t.take(out))
            links[n] = fit(t, sharp)
            columns.append((held_out, t.seconds, np.full(len(held_out), links[n].alpha)))
        if links:
            predicted, seconds, alpha = (np.concatenate(c) for c in zip(*columns, strict=True))
            one = Fitted(links, predicted, seconds, alpha, max(links))
            if best is None or np.median(np.abs(one.error)) < np.median(np.abs(best.error)):
                best = one
    return best


P2P = ("h100_dgx",)  # nodes whose rows of vidur are fitted: what joins the others is not stated, or is but assumed
P2P_INSIDE = ("a100_dgx",)  # inside a node only


ONE_CCL_CHIPS = {chip_named(system).id for system in ONE_CCL}


def usable(r: Rows) -> bool:
    """Rows whose fabric is known, within one level."""
    if r.file == VIDUR:
        inside = r.single and r.cluster.span(r.ranks, r.stride)[0].level.kind == "switch"
        if r.op == "all_reduce":
            return inside
        return r.op == "p2p" and (r.system in P2P or (r.system in P2P_INSIDE and inside))
    return r.file in (NCCL, NCCL_ENGINES, CUSTOM) and r.single


def _reach(r: Rows) -> int:
    """For how many places rows count: a bridged pair's for itself, PyTorch's and oneCCL's for a generation at most."""
    library = r.engine == "pytorch" or (r.file == NCCL_ENGINES and r.cluster.chip in ONE_CCL_CHIPS)
    return 1 if r.cluster.levels[0].name == "bridge" else 2 if library else 3


def jobs(measured: list[Rows]) -> dict[Key, list[Rows]]:
    """The groups to fit: under the engine's name its newest release on each chip, the others under their own."""
    chosen = [replace(r, system=r.cluster.chip) for r in measured if usable(r)]
    newest: dict[tuple[str, str], str] = {}
    for r in chosen:
        kernel = (r.system, r.engine)
        newest[kernel] = max(newest.get(kernel, r.software), r.software, key=version_key)
    groups: dict[Key, list[Rows]] = defaultdict(list)
    for r in chosen:
        kind = r.cluster.span(r.ranks, r.stride)[0].level.kind
        if r.software == newest[r.system, r.engine]:
            places = (r.system, f"generation-{generation(r.system)}", "generic")
            for place in places[: _reach(r)]:
                groups[place, kind, r.op, r.engine].append(r)
        else:
            groups[r.system, kind, r.op, r.software].append(r)
    return groups


def alone(place: str, group: Iterable[Rows]) -> bool:
    """Whether no chip of a generation, or no generation of all, could be left out, since there is but one."""
    if place == "generic":
        return len({generation(r.system) for r in group}) == 1
    return place.startswith("generation") and len({r.system for r in group}) == 1


def extended(results: dict[Key, Fitted]) -> dict[Key, Fitted]:
    """Chips measured up to fewer ranks than their generation: beyond, its constants, scaled to meet."""
    done = dict(results)
    for key, f in results.items():
        place, *rest = key
        if place.startswith("gener"):
            continue
        wide = results.get((f"generation-{chip_named(place).generation}", *rest))  # type: ignore[arg-type]
        last = max(f.links)
        if wide is None or last not in wide.links:
            continue
        own, others = f.links[last], wide.links[last]
        more = {
            n: replace(x, alpha=x.alpha / others.alpha * own.alpha, share=x.share / others.share * own.share,
                       sharp=own.sharp, rises=x.rises if own.rises else ())
            for n, x in wide.links.items() if n > last and x.sharp == own.sharp
        }  # fmt: skip
        if more:
            done[key] = replace(f, links=f.links | more)
    return done


HEAD = """\
# Written by benchmarks/fit_collectives.py from measurements of aiconfigurator (Apache-2.0) and, for p2p and pytorch,
# vidur (MIT).
# alpha: s, share: of the link's bandwidth, for each number of ranks; rises: of alpha, at 4 KiB, 16 KiB, ... 16 MiB; the
# law is in kernels/collectives.py. measured: the most ranks that were. mape, median, bias: on rows whose size took no
# part in the fit (generation and generic: on a chip, or generation, that took no part; lone: sizes, for there is but
# one). low, high: factors of the interval that holds 80 % of those rows; *_small where latency rules.
"""


def write(results: dict[Key, Fitted], path: Path) -> None:
    lines = [HEAD]
    for key in sorted(results):
        f = results[key]
        ranks = sorted(f.links)
        links = [f.links[n] for n in ranks]
        place, kind, op, software = key
        quoted = f'"{software}"' if set(" .") & set(software) else software
        lines += [f"[{place}.{kind}.{op}.{quoted}]", f"ranks = {ranks}"]
        if f.measured < ranks[-1]:
            lines.append(f"measured = {f.measured}")
        lines.append(f"alpha = [{', '.join(f'{x.alpha:.4g}' for x in links)}]")
        lines.append(f"share = [{', '.join(f'{x.share:.4g}' for x in links)}]")
        lines.append(f"sharp = {links[0].sharp:.4g}")
        if links[0].rises:
            rows_ = (f"[{', '.join(f'{c:.3g}' if c >= 0.002 else '0.0' for c in x.rises)}]" for x in links)
            lines.append(f"rises = [{', '.join(rows_)}]")
        e = f.error
        lines.append(f"rows = {len(e)}")
        if f.lone:
            lines.append("lone = true")
        lines += [f"mape = {np.mean(np.abs(e)):.4f}", f"median = {np.median(np.abs(e)):.4f}", f"bias = {e.mean():.4f}"]
        lines += [f"{name} = {value:.3f}" for name, value in f.intervals().items()]
        lines.append("")
    path.write_text("\n".join(lines).replace("\n\n\n", "\n\n"))


def with_others(path: Path, before: str, places: set[str]) -> None:
    """Give a file of some places the tables of all others that another had, in its order of names."""
    head, *new = path.read_text().rstrip("\n").split("\n[")
    old = [t for t in before.rstrip("\n").split("\n[")[1:] if t.partition(".")[0] not in places]
    tables = sorted((*new, *old), key=lambda t: tuple(t.partition("]")[0].replace('"', "").split(".", 3)))
    path.write_text("\n[".join((head, *(f"{t.rstrip()}\n" for t in tables))))


def carried(path: Path, before: str) -> None:
    """Give a file what `fit_later.py` wrote beside the constants of the file before."""
    own = {head: lines for head, *lines in (block.split("\n") for block in before.split("\n["))}
    head, *blocks = path.read_text().split("\n[")
    later = ([line for line in own.get(block.partition("\n")[0], ()) if line.startswith(OWN)] for block in blocks)
    parts = ("\n".join((block.rstrip(), *lines)) for block, lines in zip(blocks, later, strict=True))
    path.write_text("\n[".join((head, *(f"{part}\n" for part in parts))))


def report(results: dict[Key, Fitted]) -> None:
    """Held-out error by place, op and software."""
    pooled: dict[tuple[str, ...], list[Column]] = defaultdict(list)
    for (place, kind, op, software), f in results.items():
        level = "generation" if place.startswith("generation") else "generic" if place == "generic" else "chip"
        family = software.partition(" ")[0]
        pooled[level, op, family, "all"].append(f.error)
        pooled[level, op, family, kind].append(f.error)
        if software == "nccl":
            pooled[level, "nccl", "all ops", "all"].append(f.error)
            if level == "chip":
                pooled[level, "nccl", "all ops", place].append(f.error)
    for name, errors in sorted(pooled.items()):
        e = 100 * np.abs(np.concatenate(errors))
        print(f"{' '.join(name):52} rows {len(e):5}  median {np.median(e):5.1f} %  mean {e.mean():5.1f} %")


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(description="Fits the constants of the collectives' law.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=FILE)
    parser.add_argument("--without-fold", type=int, default=-1, help="leave out this fifth of the sizes altogether")
    parser.add_argument("--only", default="", help="fit these systems and their generations alone, after commas")
    options = parser.parse_args(argv)
    measured = rows(options.folder)
    before, systems = FILE.read_text(), {chip_named(name).id for name in options.only.split(",") if name}
    if systems:
        measured = [r for r in measured if r.cluster.chip in systems]
    if options.without_fold >= 0:
        kept = ((r, r.fold != options.without_fold) for r in measured)
        measured = [replace(r, size=r.size[k], seconds=r.seconds[k], shape=r.shape.take(k)) for r, k in kept if k.any()]
    results: dict[Key, Fitted] = {}
    for key, group in jobs(measured).items():
        lone = len({r.system for r in group}) == 1
        many = len({generation(r.system) for r in group}) > 1
        fold = "size" if lone else "generation" if key[0] == "generic" and many else "system"
        fitted = fit_group(group, fold)
        if fitted is not None:
            results[key] = replace(fitted, lone=alone(key[0], group))
    report(results)
    done = extended(results)
    places = systems | {key[0] for key in done if key[0].startswith("generation")}
    write({k: f for k, f in done.items() if not systems or k[0] in places}, options.out)
    carried(options.out, before)
    if systems:
        with_others(options.out, before, places)


if __name__ == "__main__":
    main(sys.argv[1:])
