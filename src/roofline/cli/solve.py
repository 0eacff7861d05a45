"""`roofline solve`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from roofline.cli.common import (
    ChipName,
    EngineName,
    Formats,
    Headers,
    LawName,
    ModelArgument,
    Revision,
    Switch,
    Whole,
    refuse,
    warn,
)
from roofline.cli.layout_options import LayoutOptions
from roofline.declared.errors import InputError


@Parameter(name="*")
@dataclass(frozen=True)
class TrainingChoices:
    """With --tokens: a step of training."""

    tokens: Whole = None
    "Tokens of a training sequence."
    micro_batch: Whole = None
    "Sequences that pass through a replica together."
    recompute: str | None = None
    "What is run again, as of `train`."
    recipe: str | None = None
    "Formats of training, as of `train`."
    optimizer: str | None = None
    "The optimizer, as of `train`."
    schedule: str | None = None
    "The pipeline's schedule, as of `train`."

    def given(self, find: str) -> dict[str, Any]:
        """Those that are given. Raises InputError for any without tokens."""
        known = {name: value for name, value in vars(self).items() if value is not None}
        if known and "tokens" not in known and find != "tokens":
            name, value = next(iter(known.items()))
            raise InputError(f"--{name.replace('_', '-')}", value, "--tokens beside it: it is of training")
        return known


def solve(
    model: ModelArgument,
    /,
    *,
    find: str,
    where: Annotated[list[str] | None, Parameter(negative="")] = None,
    on: ChipName,
    against: str | None = None,
    spread: LayoutOptions = LayoutOptions(),  # noqa: B008
    batch: Whole = None,
    context: Whole = None,
    input: Whole = None,
    output_tokens: Whole = None,
    concurrency: Whole = None,
    rate: float | None = None,
    prefix: float | None = None,
    formula: Switch = False,
    training: TrainingChoices = TrainingChoices(),
    engine: EngineName = None,
    precision: Formats = None,
    law: LawName = "calibrated",
    utilisation: float | None = None,
    extreme: Literal["greatest", "least"] | None = None,
    most_chips: Whole = None,
    strict: Switch = False,
    revision: Revision = None,
    headers: Headers = False,
    json: Switch = False,
) -> None:
    """The value of one setting at which a target is met: batch, context, rate, bandwidth, chips, break-even price.

    Exits with 1 where there is none: even the least fails, or nothing limits it.

    Example: `roofline solve meta-llama/Llama-3.1-8B --find batch --where "tpot <= 20ms and fits" --on h100-sxm
    --input 1024 --output-tokens 256`

    Parameters
    ----------
    find:
        `batch`, `context`, `input`, `output`, `concurrency`, `rate`, `tokens`: the greatest under upper limits, else
        the least. `bandwidth`, `peak`, `memory`, `link` of a chip like the given one, or `chips`: the least. `price`
        (USD per chip-hour) or `utilisation` at which two ways cost the same.
    where:
        What must hold: `tpot <= 30ms and fits`, `tokens_per_second >= 5000`, `bound = compute`, `time <= against`.
    against:
        The other side, where it differs: `on=b200,precision=fp8`; of price and utilisation also owning,
        `owned(capital=30000,years=4,kwh=0.1,pue=1.2)`.
    batch:
        Sequences of all replicas (1).
    context:
        Cached tokens: of a decode step.
    input:
        Prompt tokens: alone of a prefill.
    output_tokens:
        Generated tokens: of a static batch, or with a load of a server.
    concurrency:
        Requests always in flight: of a server.
    rate:
        Requests a second, arriving at random: of a server.
    prefix:
        Share of each prompt found in the prefix cache.
    formula:
        Of a server the formula of means, whose percentiles are approximations.
    utilisation:
        Of the time in which an owned chip works, to find the price.
    extreme:
        The greatest or the least value, where it is not the usual one.
    most_chips:
        As far as chips are looked at (512, or those of the cluster).
    strict:
        Times at the far end of their 80 % intervals.
    json:
        JSON, as docs/json.md has it.
    """
    from roofline.explore.solve import solve as run
    from roofline.model.load import load
    from roofline.show.solve import solution_table, solution_text
    from roofline.show.tables import print_json, print_tables, print_text

    built = load(model, revision=revision, headers=headers)
    known = {
        "layout": spread.text(), "batch": batch, "context": context, "input": input, "output": output_tokens,
        "concurrency": concurrency, "rate": rate, "prefix": prefix, "formula": formula or None, "engine": engine,
        "precision": precision, "utilisation": utilisation, "most_chips": most_chips, **training.given(find),
    }  # fmt: skip
    given = {name: value for name, value in known.items() if value is not None}
    result = run(built, find=find, where=where, against=against, extreme=extreme, strict=strict, on=on, law=law,
                 **given)  # fmt: skip
    if json:
        print_json(result.to_dict())
    else:
        print_text(f"{solution_text(result)}\n")
        print_tables((solution_table(result), ""))
    warn(built)
    refuse(result.value is not None, f"no {find}: {result.why}" if result.value is None else "")
