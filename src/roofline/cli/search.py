"""`roofline search`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from roofline.cli.billing import BillOptions
from roofline.cli.common import Headers, ModelArgument, Needed, Revision, Switch, Whole, deliver, refuse, warn
from roofline.model.errors import InputError

Several = Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")]


def search(
    model: ModelArgument,
    /,
    *,
    on: Annotated[list[str], Parameter(consume_multiple=True, negative="")],
    chips: Whole = None,
    input: Needed,
    output_tokens: Annotated[int, Parameter(name=("--output-tokens", "--output"))],
    ttft: str | None = None,
    tpot: str | None = None,
    latency: str | None = None,
    concurrency: Whole = None,
    rate: float | None = None,
    prefix: float = 0.0,
    precision: Several = None,
    engine: Several = None,
    layout: Several = None,
    kind: Literal["aggregated", "disaggregated"] | None = None,
    objective: Literal["throughput", "cost", "energy", "latency", "chips"] | None = None,
    budget: float | None = None,
    power: float | None = None,
    bill: BillOptions = BillOptions(),  # noqa: B008
    strict: Switch = False,
    confirm: Whole = 0,
    top: Whole = 10,
    out: Annotated[Path | None, Parameter(name=("-o", "--out"))] = None,
    force: Switch = False,
    revision: Revision = None,
    headers: Headers = False,
    json: Switch = False,
) -> None:
    """The best ways to serve a model within limits: layouts, replicas, pools, machines, formats, engines.

    Without --concurrency or --rate each way has the most requests in flight that keep the limits; with one of them, as
    few replicas as keep them. Exits with 1 where nothing does.

    Example: `roofline search Qwen/Qwen3-32B --on h200-sxm --chips 32 --input 4000 --output-tokens 500 --ttft 300ms
    --tpot 10ms --precision weights=fp8`

    Parameters
    ----------
    on:
        Chips or clusters to choose from.
    chips:
        Chips in all (8, or those of the cluster).
    input:
        Prompt tokens of a request.
    output_tokens:
        Generated tokens of a request.
    ttft:
        The longest mean time to first token, as in `300ms`.
    tpot:
        The longest mean time between tokens.
    latency:
        The longest mean time of a whole request.
    concurrency:
        Requests always in flight, in all.
    rate:
        Requests a second, arriving at random, in all.
    prefix:
        Share of each prompt found in the prefix cache.
    precision:
        Formats to choose from, as in `weights=fp8`; where not given the checkpoint's.
    engine:
        Engines to choose from.
    layout:
        Layouts of a replica to choose from, as in `tp=4`; where not given all that divide.
    kind:
        Replicas that do both phases, or a pool for each alone; where not given both.
    objective:
        What is best: most tokens per second and chip (where no load is given), least USD or joules per token, least
        time, fewest chips (under a load).
    budget:
        The most USD an hour.
    power:
        The most watts of all chips' boards, each at its TDP.
    strict:
        Limits hold at the far end of the 80 % interval.
    confirm:
        So many of the best are simulated, request by request.
    top:
        Ways that are listed.
    out:
        A file for the JSON.
    force:
        Overwrite it.
    json:
        JSON, as docs/json.md has it.
    """
    from roofline.explore.demand import Demand, Limits
    from roofline.explore.search import search as run
    from roofline.model.load import load
    from roofline.show.cost import assumed_lines
    from roofline.show.search import confirmed_text, search_table, search_text
    from roofline.show.tables import json_text, print_json, print_tables, print_text
    from roofline.simulation.spelling import seconds_named

    times = {"ttft": ttft, "tpot": tpot, "latency": latency}
    limits = Limits(
        **{name: seconds_named(f"--{name}", text) for name, text in times.items() if text is not None}, strict=strict
    )
    built = load(model, revision=revision, headers=headers)
    result = run(
        built, Demand(input, output_tokens, prefix, concurrency, rate), limits, on=on, precision=precision,
        engine=engine, chips=chips, layouts=layout, kinds=kind, budget=budget, power=power, objective=objective,
        top=top, confirm=confirm, bill=bill.bill(),
    )  # fmt: skip
    if out is not None:
        if out.suffix != ".json":
            raise InputError("--out", str(out), "a file that ends in .json")
        deliver(json_text(result.to_dict()), out, force)
    elif json:
        print_json(result.to_dict())
    else:
        print_text(f"{search_text(result)}\n")
        if result.plans:
            notes = confirmed_text(result), *assumed_lines(result.plans[0])
            print_tables((search_table(result), "\n".join(filter(None, notes))))
    warn(built)
    refuse(result.plans, "" if result.plans else "nothing keeps these limits")
