"""Constants of products and attention on NeuronCores, from Transformers NeuronX's batches on them.

    python benchmarks/fit_neuron.py DIR [--write] [--values FILE]

A chip has two wide cores, so that of the generic law, which is of GPUs with a hundred small units, the times of a
block, of a head and of a walk along a cache are 0. Fitted are the shares of the bandwidth at which steps read weights
and caches, on the times of an output token in e2e_aws_neuron.csv, and then, on the times of first tokens, the share of
the peak that products of prompts reach and the host's seconds of a batch of prompts. The rest is generic.

Printed are the values of least mean |log error|, and the errors with each instance left out in turn. low, high: what
80 % of rows lie within, from the errors with an instance left out: of caches those of output tokens, of products those
of both. Prompts of Mistral and CodeLlama with 4,096 tokens and more take two to four times as long, for a reason that
no row tells.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias

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
COMPUTES = (0.1, 0.12, 0.14, 0.16, 0.18, 0.2, 0.22, 0.25, 0.3, 0.4, 0.5)
HOSTS = (0.0, 2e-3, 4e-3, 6e-3, 8e-3, 1e-2, 1.2e-2, 1.4e-2)
"""Host seconds of a batch of prompts that are tried."""
TABLES = (("bf16", "matmul"), ("int8_wo", "quantised_matmul"), ("sq", "quantised_matmul"), ("bf16", "decode"))
HEAD = """\
# Written by benchmarks/fit_neuron.py from AWS Neuron's batches of Transformers NeuronX 2.18 on Trainium1 and
# Inferentia2 (aws-neuron-sdk, bare figures): the shares of the bandwidth at which weights and caches are read, and of
# the peak at which prompts are multiplied. mape, median, bias: with each instance left out in turn."""
Shares: TypeAlias = tuple[float, float, float | None]
"""Shares at which weights and caches are read, and at which prompts are multiplied; None: the generic one."""
Tried: TypeAlias = tuple[Shares, float]
"""Shares, and host seconds of a batch of prompts."""
Errors: TypeAlias = "np.ndarray[Any, Any]"


@dataclass(frozen=True, eq=False)
class Row:
    """A run that measured the time of a first or an output token, and its instance."""

    instance: str
    run: MeasuredRun


def records(weights: float, caches: float, compute: float | None) -> dict[str, dict[str, dict[str, Any]]]:
    """The generic constants with the shares, as a chip's file has them."""
    tables: dict[str, dict[str, dict[str, Any]]] = {}
    for dtype, kind in TABLES:
        record = asdict(constants_for(chip_named(CHIP), dtype, kind).record)
        record |= (
            {"memory": weights} if "matmul" in kind else {"memory": caches, "block": 0.0, "head": 0.0, "walk": 0.0}
        )
        record |= {} if compute is None or "matmul" not in kind else {"compute": compute}
        tables.setdefault(dtype, {})[kind] = record
    return tables


@cache
def estimated(row: Row) -> Estimate:
    """The step of a run's prompts, or the one halfway through its answers."""
    run, settings = row.run, row.run.settings
    answer, batch, prompt = settings.get("output", settings.get("output_tokens")), settings["batch"], settings["input"]
    first = run.quantity == "ttft"
    return rl.estimate(
        run.model, rl.prefill(batch, prompt) if first else rl.decode(batch, prompt + answer // 2), on=run.where.on,
        layout=run.where.layout, precision=run.where.precision, engine=run.where.engine,
    )  # fmt: skip


def seconds_of(row: Row, shares: Shares) -> float:
    """Seconds of a run's step by the shares."""
    e, ends = estimated(row), dict.fromkeys(("low", "high", "low_small", "high_small"), 1.0)
    tables = {d: {k: {"default": {**r, **ends}} for k, r in t.items()} for d, t in records(*shares).items()}
    target = e.asked.target
    target = replace(target, chip=replace(target.chip, constants=tables))
    return sum(
        time_op(op.cost.op, target).expected * op.cost.layers
        if op.kind in ("matmul", "attention")
        else op.span.expected
        for op in e.ops
    )


def fitted(rows: Sequence[Row], shares: Sequence[Shares], hosts: Sequence[float] = (0.0,)) -> tuple[Tried, Errors]:
    """What has the least mean |log error|, and the errors of each row by that of the other instances; prints them."""
    measured = np.array([r.run.seconds for r in rows])
    steps = {each: np.array([seconds_of(r, each) for r in rows]) for each in shares}
    errors = {(each, host): np.log((steps[each] + host) / measured) for each, host in product(shares, hosts)}

    def best(keep: Errors) -> Tried:
        return min(errors, key=lambda tried: float(np.abs(errors[tried][keep]).mean()))

    instances, left = np.array([r.instance for r in rows]), np.zeros(len(rows))
    for instance in sorted(set(instances.tolist())):
        own = instances == instance
        tried = best(~own)
        left[own] = errors[tried][own]
        print(f"without {instance}: {tried}, median error there {100 * np.median(np.abs(np.expm1(left[own]))):.1f} %")
    tried = best(instances != "")
    print(f"{tried}, median error {100 * np.median(np.abs(np.expm1(errors[tried]))):.1f} %")
    return tried, left


def main(argv: Sequence[str]) -> None:
    """Prints the shares and the errors, and writes the constants where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--values", type=Path, help="a JSON file for the host's seconds")
    options = parser.parse_args(argv)
    rows = [Row(r.text("instance"), run) for r in cells(options.folder / NEURON) for run in neuron(r)]
    steps, prompts = ([r for r in rows if r.run.quantity == quantity] for quantity in ("tpot", "ttft"))
    ((weights, caches, _), _), of_steps = fitted(steps, [(*shares, None) for shares in product(WEIGHTS, CACHES)])
    (shares, host), of_prompts = fitted(prompts, [(weights, caches, compute) for compute in COMPUTES], HOSTS)
    again = np.array([np.log(seconds_of(r, shares) / r.run.seconds) for r in steps])
    print(f"output tokens by all shares: median error {100 * np.median(np.abs(np.expm1(again))):.1f} %")
    if options.write:
        write(records(*shares), of_steps, of_prompts)
    if options.values:
        options.values.write_text(json.dumps({"vllm.generations.trainium1": {"prefill_s": host}}), encoding="utf-8")


def write(tables: Mapping[str, Mapping[str, Mapping[str, Any]]], steps: Errors, prompts: Errors) -> None:
    """The constants of the generation."""
    lines = [HEAD]
    for dtype, kinds in tables.items():
        for kind, record in kinds.items():
            errors = steps if kind == "decode" else np.concatenate((steps, prompts))
            misses = np.expm1(errors)
            low, high = np.exp(-np.quantile(errors, 0.9)), np.exp(-np.quantile(errors, 0.1))
            known = {"mape": np.abs(misses).mean(), "median": np.median(np.abs(misses)), "bias": errors.mean()}
            known |= {"low": low, "high": high, "low_small": low, "high_small": high}
            lines += ["", f"[{dtype}.{kind}.default]", 'software = "vllm"']
            lines += [f"{name} = {value:.4g}" for name, value in record.items()]
            lines += [f"rows = {len(errors)}", *(f"{name} = {value:.4g}" for name, value in known.items())]
    FILE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
