"""Constants of attention on TPUs, from vLLM's servers on them.

    python benchmarks/fit_tpu.py DIR [--write]

A TPU has one or two large cores, each of which takes sequence after sequence while the next ones' caches arrive. So of
the generic law, which is of GPUs with a hundred small units, the time of a block, of a head and of a walk along a cache
are 0: what is left is the share of the bandwidth, the one number that is fitted, for bf16 and fp8 caches alike. For the
same reason a chunk of linear attention adds no time of its own. Nothing of the latter is fitted.

Rows of tpu_recipes.csv, as `measured_traffic.py --part tpu` simulates them. Printed: the share of least mean |log
error|, and the errors with each chip left out in turn. low, high: what 80 % of servers may lie within, from the errors
with a chip left out, no narrower than the rows are few: ×/÷ 1.25.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from measured_traffic import TPU, Scored, tpu
from roofline.hardware.named_chip import chip_named
from roofline.kernels.constants import FOLDER, constants_for

FILE = FOLDER / "vendor-google.toml"
SHARES = np.arange(0.4, 0.9, 0.05)
NARROWEST = 1.25
HEAD = """\
# Written by benchmarks/fit_tpu.py from Google's recipes of vLLM on TPU v6e and v7 (tpu-recipes, Apache-2.0): the share
# of the bandwidth that attention reads caches with. mape, median, bias: with each chip left out in turn.
"""


def written(share: float, errors: Sequence[float]) -> str:
    """The file of constants."""
    logs = np.log1p(np.asarray(errors))
    low, high = (float(np.exp(-q)) for q in np.quantile(logs, (0.9, 0.1)))
    about = {
        "rows": len(logs), "mape": float(np.mean(np.abs(errors))), "median": float(np.median(np.abs(errors))),
        "bias": float(np.mean(logs)), "low": min(low, 1 / NARROWEST), "high": max(high, NARROWEST),
        "low_small": min(low, 1 / NARROWEST), "high_small": max(high, NARROWEST),
    }  # fmt: skip
    text = HEAD
    any_chip = chip_named("peak=1T,bw=1T,mem=1G")
    for dtype, kind, changed in (
        ("bf16", "decode", {"memory": share, "block": 0.0, "head": 0.0, "walk": 0.0}),
        ("fp8", "decode", {"memory": share, "block": 0.0, "head": 0.0, "walk": 0.0}),
        ("bf16", "scan", {"chunk": 0.0}),
    ):
        record = asdict(constants_for(any_chip, dtype, kind, "vllm").record) | changed
        text += f'\n[{dtype}.{kind}.default]\nsoftware = "vllm"\n'
        text += "".join(f"{name} = {value:.4g}\n" for name, value in {**record, **about}.items())
    return text


def scored(folder: Path) -> list[Scored]:
    """Rate and TPOT of each row with the constants of the file."""
    return [s for s in tpu(folder, False).scored if "," not in s.group]


def scored_with(folder: Path, share: float) -> list[Scored]:
    """The same with this share of the bandwidth, in a process that has read no constants yet."""
    FILE.write_text(written(share, (0.0,)), encoding="utf-8")
    with ProcessPoolExecutor(1, get_context("spawn")) as fresh:
        return fresh.submit(scored, folder).result()


def best(of: dict[float, list[Scored]], left_out: str = "") -> float:
    """The share of least mean |log error| on the rows of other chips than this."""
    return min(of, key=lambda share: float(np.mean([
        abs(np.log1p(s.error)) for s in of[share] if not left_out or left_out not in s.label
    ])))  # fmt: skip


def main(argv: list[str]) -> None:
    """Prints the fit; with --write, it takes the file's place."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(argv)
    if not (options.folder / TPU).is_file():
        parser.error(f"{options.folder}: no {TPU}")
    before = FILE.read_text(encoding="utf-8") if FILE.exists() else None
    today = [s.error for s in scored(options.folder)]  # in this process, whose files fit_all.py records
    print(f"today: median {100 * float(np.median(np.abs(today))):.1f} %")
    of = {float(share): scored_with(options.folder, float(share)) for share in SHARES}
    share = best(of)
    errors = []
    for chip in ("TPU v6e", "TPU v7"):
        without = best(of, chip)
        own = [s for s in of[without] if chip in s.label]
        errors += [s.error for s in own]
        print(f"{chip} left out: share {without:.2f}")
        for s in own:
            print(f"  {s.group:9} {s.label:58} {s.measured:9.4g} {s.predicted:9.4g} {100 * s.error:+6.1f} %")
    print(f"share {share:.2f}; left out, median {100 * float(np.median(np.abs(errors))):.1f} %")
    if options.write:
        FILE.write_text(written(share, errors), encoding="utf-8")
    elif before is None:
        FILE.unlink()
    else:
        FILE.write_text(before, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
