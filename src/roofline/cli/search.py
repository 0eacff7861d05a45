"""`roofline search`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from roofline.cli.billing import BillOptions
from roofline.cli.common import (
    Headers,
    LawName,
    ModelArgument,
    OutFile,
    Revision,
    Several,
    Switch,
    Whole,
    deliver,
    refuse,
    say,
    warn,
)
from roofline.cli.defaults import is_default
from roofline.declared.errors import InputError

if TYPE_CHECKING:
    from roofline.explore.search import Search

MANY = 100_000
"""Plans to look at that are told before the search."""


def search(
    model: ModelArgument,
    /,
    *,
    on: Annotated[list[str], Parameter(consume_multiple=True, negative="")],
    chips: Whole = None,
    input: Whole = None,
    output_tokens: Whole = None,
    ttft: str | None = None,
    tpot: str | None = None,
    latency: str | None = None,
    concurrency: Whole = None,
    rate: float | None = None,
    prefix: float = 0.0,
    precision: Several = None,
    engine: Several = None,
    layout: Several = None,
    law: LawName = "calibrated",
    kind: Literal["aggregated", "disaggregated"] | None = None,
    objective: Literal["throughput", "cost", "energy", "latency", "chips", "time"] | None = None,
    budget: float | None = None,
    power: float | None = None,
    bill: BillOptions = BillOptions(),  # noqa: B008
    strict: Switch = False,
    confirm: Whole = 0,
    top: Whole = 10,
    front: Switch = False,
    plan: str | None = None,
    plot: Path | None = None,
    train: Switch = False,
    batch: Whole = None,
    tokens: Whole = None,
    recipe: Several = None,
    schedule: str | None = None,
    recompute: str | None = None,
    emit: Literal["vllm", "sglang", "trtllm", "dynamo", "k8s"] | None = None,
    out: OutFile = None,
    force: Switch = False,
    revision: Revision = None,
    headers: Headers = False,
    json: Switch = False,
) -> None:
    """The best ways to serve a model within limits: layouts, replicas, pools, machines, formats, engines; or to train.

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
        Formats to choose from, as in `weights=fp8` (default: the checkpoint's).
    engine:
        Engines to choose from.
    layout:
        Layouts of a replica to choose from, as in `tp=4` (default: all that divide).
    kind:
        Replicas that do both phases, or a pool for each alone (default: both).
    objective:
        What is best: most tokens per second and chip (the default without a load), least USD or joules per token,
        least time, or fewest chips (the default under a load). For training: least `time`.
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
    front:
        The Pareto front of tokens/s for a user and per chip instead: --tpot is no limit then.
    plan:
        Says too where a way to serve stands or what rejects it, as in
        `prefills=5,prefill_layout=tp=4,replicas=3,layout=tp=4,concurrency=192`.
    plot:
        A file for a picture of the front: `.png`, `.svg`, `.pdf` or `.html`.
    train:
        Layouts of a training step instead, of --batch sequences of --tokens on one machine: every one that divides and
        fits; best by `time`, `cost` (chip-seconds) or `chips`.
    batch:
        Sequences of a training step.
    tokens:
        Tokens of each.
    recipe:
        Formats of training to choose from (bf16).
    schedule:
        The order in which pipeline stages take micro-batches, as of `train` (default: 1f1b or interleaved, whichever
        is faster).
    recompute:
        What is run again, as of `train` (default: none, selective or full, whichever is fastest).
    emit:
        Launch commands or manifests of the best plan instead, each option with its assumption; what they do not
        express is said on stderr.
    out:
        A file for the JSON; with --emit a folder for its files.
    force:
        Overwrite it.
    json:
        JSON, as docs/json.md has it.
    """
    given = dict(locals())
    _refuse_the_rest(train, given)
    if train:
        _train(given)
        return
    if input is None or output_tokens is None:
        raise InputError("--input" if input is None else "--output-tokens", "nothing", "tokens of a request")
    from roofline.declared.spelling import seconds_named
    from roofline.explore.demand import Demand, Limits
    from roofline.explore.plan_place import rank_plan
    from roofline.explore.search import search as run
    from roofline.model.load import load
    from roofline.show.cost import assumed_lines
    from roofline.show.search import confirmed_text, place_text, search_table, search_text
    from roofline.show.tables import json_text, print_json, print_tables, print_text

    times = {"ttft": ttft, "tpot": tpot, "latency": latency}
    limits = Limits(
        **{name: seconds_named(f"--{name}", text) for name, text in times.items() if text is not None}, strict=strict
    )
    if plot is not None:
        _check_picture(plot, force)
    if emit is not None and (json or front):
        raise InputError("--emit", emit, "nothing else to print beside it")
    built = load(model, revision=revision, headers=headers)
    result = run(
        built, Demand(input, output_tokens, prefix, concurrency, rate), limits, on=on, precision=precision,
        engine=engine, chips=chips, layouts=layout, kinds=kind, budget=budget, power=power, objective=objective,
        top=top, confirm=confirm, bill=bill.bill(), law=law, counted=_tell,
    )  # fmt: skip
    if plan is not None:
        result = replace(result, asked_plan=rank_plan(result, plan))
    if plot is not None:
        _draw(result, plot, force)
    if front:
        result = result.front
    if emit is not None:
        if result.plans:
            _hand_over(result, emit, out, force)
    elif out is not None:
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
        if plot is not None:
            print_text(f"{plot}\n")
    if result.asked_plan is not None:
        say(place_text(result.asked_plan))
    warn(built)
    refuse(result.plans, "" if result.plans else "nothing keeps these limits")


def _tell(number: int) -> None:
    """Says how many plans there are, where that is many."""
    if number > MANY:
        say(f"{number:,} plans to look at")


def _check_picture(path: Path, force: bool) -> None:
    """Before the search, which takes longer."""
    from roofline.show.files import check_ending, check_file
    from roofline.show.plots.write import ENDINGS

    check_ending(path, ENDINGS, "--plot")
    check_file(path, force, "--plot")


def _draw(result: Search, path: Path, force: bool) -> None:
    from roofline.show.plots.build_front import front_plot
    from roofline.show.plots.style import Style
    from roofline.show.plots.write import write

    write(front_plot(result.front), path, Style(), force)


def _hand_over(result: Search, launcher: str, folder: Path | None, force: bool) -> None:
    """Launch files of the best plan to stdout or into a folder, and what they do not express to stderr."""
    from roofline.emit.serving import launch_files
    from roofline.show.files import check_file, check_folder, whole_file

    emitted = launch_files(result.best, launcher)
    if folder is None:
        for file in emitted.files:
            deliver(file.text, None, force)
    else:
        check_folder(folder, True)
        folder.mkdir(exist_ok=True)
        for file in emitted.files:
            check_file(folder / file.name, force, "--out")
        for file in emitted.files:
            path, content = folder / file.name, file.text.encode("utf-8")
            whole_file(path, partial(_fill, content), "--out", force=force)
            deliver(f"{path}\n", None, force)
    for what in emitted.missing:
        say(f"not expressed: {what}")


def _fill(content: bytes, path: Path) -> None:
    path.write_bytes(content)


OF_TRAINING = frozenset({"train", "batch", "tokens", "recipe", "schedule", "recompute"})
OF_BOTH = frozenset({"model", "on", "chips", "objective", "top", "out", "force", "revision", "headers", "json"})


def _refuse_the_rest(train: bool, given: Mapping[str, Any]) -> None:
    """Raises InputError for an option of serving in a search of training, and the other way round."""
    from inspect import signature

    for name, parameter in signature(search).parameters.items():
        wrong = name not in OF_TRAINING | OF_BOTH if train else name in OF_TRAINING
        if wrong and given[name] != parameter.default and not is_default(name.replace("_", "-")):
            expected = "no such option with --train" if train else "--train beside it"
            raise InputError(f"--{name.replace('_', '-')}", given[name], expected)


def _train(given: Mapping[str, Any]) -> None:
    """The search of layouts of training."""
    from roofline.explore.training_search import search_training
    from roofline.model.load import load
    from roofline.show.tables import json_text, print_json, print_tables, print_text
    from roofline.show.training_search import training_search_table, training_search_text

    for name in ("batch", "tokens"):
        if given[name] is None:
            raise InputError(f"--{name}", "nothing", "a whole number, with --train")
    if len(given["on"]) != 1:
        raise InputError("--on", " ".join(given["on"]), "one machine, with --train")
    built = load(given["model"], revision=given["revision"], headers=given["headers"])
    result = search_training(
        built, batch=given["batch"], tokens=given["tokens"], on=given["on"][0], recipe=given["recipe"] or "bf16",
        objective=given["objective"] or "time", chips=given["chips"], top=given["top"], schedule=given["schedule"],
        recompute=given["recompute"],
    )  # fmt: skip
    out = given["out"]
    if out is not None:
        if out.suffix != ".json":
            raise InputError("--out", str(out), "a file that ends in .json")
        deliver(json_text(result.to_dict()), out, given["force"])
    elif given["json"]:
        print_json(result.to_dict())
    else:
        print_text(f"{training_search_text(result)}\n")
        if result.plans:
            print_tables((training_search_table(result), ""))
    warn(built)
    refuse(result.plans, "" if result.plans else "no layout fits")
