"""Constants of products and attention on NeuronCores, from Transformers NeuronX's batches on them.

    python benchmarks/fit_neuron.py DIR [--write]

A chip has two wide cores, so that of the generic law, which is of GPUs with a hundred small units, the times of a
block, of a head and of a walk along a cache are 0. Fitted are the shares of the bandwidth at which steps read weights
and caches, on the times of an output token in e2e_aws_neuron.csv. The rest is generic, a prompt's constants too: first
tokens take twice as long as predicted, and no share of a peak explains them.

Printed are the shares of least mean |log error|, and the errors with each instance left out in turn. low, high: what
80 % of rows lie within, from the errors with an instance left out.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import roofline as rl
from measured_serving import NEURON, neuron
from roofline.hardware.named_chip import chip_named
from roofline.inference.step import Estimate
from roofline.kernels.constants import FOLDER, constants_for
from roofline.kernels.timing import time_op
from roofline.measured.accuracy.csvs import cells
from roofline.measured.accuracy.measurements import MeasuredRun

FILE = FOLDER / "generation-trainium1.toml"
CHIP = "trainium2"
"""A chip of the vendor that has the generic constants: the fitted generation's own are what is made here."""
WEIGHTS = (0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.7)
CACHES = (0.06, 0.08, 0.1, 0.13, 0.16, 0.2, 0.25, 0.3, 0.4)
TABLES = (("bf16", "matmul"), ("sq", "quantised_matmul"), ("bf16", "decode"))
HEAD = """\
# Written by benchmarks/fit_neuron.py from AWS Neuron's batches of Transformers NeuronX 2.18 on Trainium1 and
# Inferentia2 (aws-neuron-sdk, bare figures): the shares of the bandwidth at which weights and caches are read. mape,
# median, bias: with each instance left out in turn."""


@dataclass(frozen=True, eq=False)
class Row:
    """A run that measured the time of an output token, and its instance."""

    instance: str
    run: MeasuredRun


def records(weights: float, caches: float) -> dict[str, dict[str, dict[str, Any]]]:
    """The generic constants with the two shares, as a chip's file has them."""
    tables: dict[str, dict[str, dict[str, Any]]] = {}
    for dtype, kind in TABLES:
        record = asdict(constants_for(chip_named(CHIP), dtype, kind).record)
        record |= (
            {"memory": weights} if "matmul" in kind else {"memory": caches, "block": 0.0, "head": 0.0, "walk": 0.0}
        )
        tables.setdefault(dtype, {})[kind] = record
    return tables


@cache
def estimated(row: Row) -> Estimate:
    """The step halfway through the answers of a run."""
    run, settings = row.run, row.run.settings
    answer = settings.get("output", settings.get("output_tokens"))
    return rl.estimate(
        run.model, rl.decode(settings["batch"], settings["input"] + answer // 2), on=run.where.on,
        layout=run.where.layout, precision=run.where.precision, engine=run.where.engine,
    )  # fmt: skip


def seconds_of(row: Row, weights: float, caches: float) -> float:
    """Seconds of a run's step by two shares."""
    e, ends = estimated(row), dict.fromkeys(("low", "high", "low_small", "high_small"), 1.0)
    tables = {d: {k: {"default": {**r, **ends}} for k, r in t.items()} for d, t in records(weights, caches).items()}
    target = e.asked.target
    target = replace(target, chip=replace(target.chip, constants=tables))
    return sum(
        time_op(op.cost.op, target).expected * op.cost.layers
        if op.kind in ("matmul", "attention")
        else op.span.expected
        for op in e.ops
    )


def main(argv: Sequence[str]) -> None:
    """Prints the shares and the errors, and writes the constants where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(argv)
    runs = [(r.text("instance"), run) for r in cells(options.folder / NEURON) for run in neuron(r)]
    rows = [Row(instance, run) for instance, run in runs if run.quantity == "tpot"]
    errors = {
        shares: np.array([np.log(seconds_of(r, *shares) / r.run.seconds) for r in rows])
        for shares in product(WEIGHTS, CACHES)
    }

    def best(keep: np.ndarray[Any, Any]) -> tuple[float, float]:
        return min(errors, key=lambda shares: float(np.abs(errors[shares][keep]).mean()))

    instances, left = np.array([r.instance for r in rows]), np.zeros(len(rows))
    for instance in sorted(set(instances.tolist())):
        own = instances == instance
        shares = best(~own)
        left[own] = errors[shares][own]
        print(f"without {instance}: {shares}, median error there {100 * np.median(np.abs(np.expm1(left[own]))):.1f} %")
    shares = best(instances != "")
    print(f"{shares}, median error {100 * np.median(np.abs(np.expm1(errors[shares]))):.1f} %")
    if options.write:
        write(records(*shares), left)


def write(tables: Mapping[str, Mapping[str, Mapping[str, Any]]], errors: np.ndarray[Any, Any]) -> None:
    """The constants of the generation."""
    lines, misses = [HEAD], np.expm1(errors)
    low, high = np.exp(-np.quantile(errors, 0.9)), np.exp(-np.quantile(errors, 0.1))
    known = {"mape": np.abs(misses).mean(), "median": np.median(np.abs(misses)), "bias": errors.mean()}
    known |= {"low": low, "high": high, "low_small": low, "high_small": high}
    for dtype, kinds in tables.items():
        for kind, record in kinds.items():
            lines += ["", f"[{dtype}.{kind}.default]", 'software = "vllm"']
            lines += [f"{name} = {value:.4g}" for name, value in record.items()]
            lines += [f"rows = {len(errors)}", *(f"{name} = {value:.4g}" for name, value in known.items())]
    FILE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
