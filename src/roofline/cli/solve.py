"""`roofline solve`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from cyclopts import Parameter

from roofline.cli.common import Headers, Json, ModelArgument, Revision, Switch, Whole, refuse, warn
from roofline.cli.derived import options_given, with_settings
from roofline.declared.errors import InputError
from roofline.explore.asking import ASKED, TRAINED
from roofline.explore.solve import solve as question
from roofline.model.load import load
from roofline.show.solve import solution_table, solution_text
from roofline.show.tables import print_json, print_tables, print_text


@with_settings({**ASKED, **TRAINED})
def solve(
    model: ModelArgument,
    /,
    *,
    find: str,
    where: Annotated[list[str] | None, Parameter(negative="")] = None,
    against: str | None = None,
    utilisation: float | None = None,
    extreme: Literal["greatest", "least"] | None = None,
    most_chips: Whole = None,
    strict: Switch = False,
    revision: Revision = None,
    headers: Headers = False,
    json: Json = False,
    **asked: Any,
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
    utilisation:
        Of the time in which an owned chip works, to find the price.
    extreme:
        The greatest or the least value, where it is not the usual one.
    most_chips:
        As far as chips are looked at (512, or those of the cluster).
    strict:
        Times at the far end of their 80 % intervals.
    """
    for name, value in options_given(asked).items():
        if name in TRAINED and "tokens" not in asked and find != "tokens":
            raise InputError(name, value, "`tokens` beside it: it is of training")
    given = options_given({"utilisation": utilisation, "most_chips": most_chips, **asked})
    built = load(model, revision=revision, headers=headers)
    result = question(built, find=find, where=where, against=against, extreme=extreme, strict=strict, **given)
    if json:
        print_json(result.to_dict())
    else:
        print_text(f"{solution_text(result)}\n")
        print_tables((solution_table(result), ""))
    warn(built)
    refuse(result.value is not None, f"no {find}: {result.why}" if result.value is None else "")
