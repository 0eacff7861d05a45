"""Constants of older chips by 32-bit ops that PyTorch launched one by one: elementwise passes, and fp32 products.

After fit_laws.py, which leaves them out.

    python benchmarks/fit_older.py DIR [--write]

Rows of ops_fp32_neusight.csv. Their floor of 12 to 14 µs is the host's, so that the share of the bandwidth and of the
peak is theirs, and the launch time that of the generic constants. The interval holds 80 % of the rows that take
longer than three floors, of shapes that took no part. With --write each table takes the place of the chip's own.
"""

import argparse
import re
from collections import defaultdict
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from fit_laws import FREE, Fitted, Key, Rows, minor, pool, predict, solve
from measured_ops import Case
from measured_other_ops import older_chips
from roofline.hardware.named_chip import chip_named
from roofline.kernels.constants import FOLDER, constants_for

FEWEST = 40
"""Rows without which nothing is fitted."""
HEAD = """\
# Written by benchmarks/fit_older.py from NeuSight's kernels (MIT), PyTorch in 32 bits launched one by one. mape,
# median, bias: on rows whose shape took no part in the fit. low, high: of the interval that holds 80 % of them."""


def groups(folder: Path) -> dict[Key, list[Case]]:
    """Cases by what they fit."""
    together: dict[Key, list[Case]] = defaultdict(list)
    for c in older_chips(folder):
        kind = c.kind.partition(".")[0]
        together[c.system, "fp32" if kind == "matmul" else "bf16", kind, "default"].append(c)
    return together


def generic(kind: str) -> Any:
    """The constants of any chip."""
    return constants_for(chip_named("peak=1T,bw=1T,mem=1G"), "bf16", kind, None).record


def fitted_rows(rows: Rows, base: Any) -> Fitted:
    """The host's floor, and the share of the bandwidth, or of a product, whose rows say nothing else, of the peak."""
    free = {name: FREE[rows.kind][name] for name in ("t0", "compute" if rows.kind == "matmul" else "memory")}
    held_out = np.empty_like(rows.seconds)
    for fold in np.unique(rows.fold):
        out = rows.fold == fold
        held_out[out] = predict(rows.take(out), solve(rows.take(~out), base, free))
    record, ratio = solve(rows, base, free), rows.seconds / held_out
    long = ~minor(rows.args, held_out, record)
    low, high = (float(np.quantile(ratio[long], q)) for q in (0.1, 0.9))
    off = np.abs(1 / ratio - 1)
    bias = float(np.mean(np.log(1 / ratio)))
    return Fitted(record, len(ratio), float(off.mean()), float(np.median(off)), bias, (low, high), (low, high), 0.8)


def table(key: Key, fitted: Fitted) -> str:
    """A table of a constants file; the launch time is the generic one."""
    _, dtype, kind, software = key
    record = replace(fitted.record, t0=generic(kind).t0)
    low, high = fitted.large
    return "\n".join([
        f"[{dtype}.{kind}.{software}]", 'software = "host"',
        *(f"{x.name} = {float(getattr(record, x.name)):.4g}" for x in fields(record)),
        f"rows = {fitted.rows}", f"mape = {fitted.mape:.4f}", f"median = {fitted.median:.4f}",
        f"bias = {fitted.bias:.4f}", f"low_small = {low:.3f}", f"high_small = {high:.3f}",
        f"low = {low:.3f}", f"high = {high:.3f}",
    ])  # fmt: skip


def keep(path: Path, key: Key, text: str) -> None:
    """The table in the place of the one that the file has, or behind it; in a new file where there is none."""
    before = path.read_text(encoding="utf-8") if path.exists() else HEAD + "\n"
    head, *tables = re.split(r"\n(?=\[)", before.rstrip("\n"))
    name = f"[{'.'.join(key[1:])}]"
    others = [t.rstrip("\n") for t in tables if not t.startswith(name)]
    path.write_text("\n\n".join([head.rstrip("\n"), *others, text]) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    for key, cases in sorted(groups(given.folder).items()):
        rows = pool(cases, "shape")
        if len(rows.seconds) < FEWEST:
            continue
        fitted = fitted_rows(rows, generic(key[2]))
        r = fitted.record
        shares = " ".join(f"{n} {getattr(r, n):.3g}" for n in ("t0", "compute", "memory", "l2") if hasattr(r, n))
        print(f"{key[0]:18}{key[2]:8}{fitted.rows:5} rows  mean {fitted.mape:6.1%}  median {fitted.median:6.1%}  "
              f"80 % in {fitted.large[0]:.2f} to {fitted.large[1]:.2f}  {shares}")  # fmt: skip
        if given.write:
            keep(FOLDER / f"{chip_named(key[0]).id}.toml", key, table(key, fitted))


if __name__ == "__main__":
    main()
