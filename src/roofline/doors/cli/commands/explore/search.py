"""`roofline search`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

from roofline.declared.errors import InputError
from roofline.declared.groups import PlaceSettings
from roofline.declared.kinds import Given
from roofline.declared.question import Setting, Settings, group_settings, question_settings
from roofline.declared.result import Result
from roofline.doors.cli.common import (
    Headers,
    Json,
    ModelArgument,
    OutFile,
    Revision,
    Switch,
    TextOnly,
    counted_bar,
    deliver,
    refuse,
    say,
    warn,
)
from roofline.doors.cli.defaults import is_default
from roofline.doors.cli.derived import option_name, options_given, with_settings, with_tables
from roofline.model.load import load
from roofline.model.model import Model
from roofline.views.text.inference.cost import assumed_lines
from roofline.views.text.serving.search import (
    UNITS,
    answers_text,
    confirmed_text,
    nearest_text,
    place_text,
    search_table,
    search_text,
)
from roofline.views.text.tables import json_text, print_json, print_tables, print_text
from roofline.views.text.training.training_search import training_search_table, training_search_text
from roofline.whatif.search.search import Search
from roofline.whatif.search.search import search as question
from roofline.whatif.search.target import rank_plan
from roofline.whatif.search.training_search import search_training

SEVERAL = tuple(name for name, setting in group_settings(PlaceSettings).items() if setting.kind.varies)
"""Settings that accept a list of choices."""
MANY = 100_000
"""Number of plans from which it is reported before the search."""


OF_SERVING, OF_LAYOUTS = question_settings(question), question_settings(search_training)
OF_TRAINING = {name: replace(setting, default=None, help=f"With --train: {setting.help}")
               for name, setting in OF_LAYOUTS.items() if name not in OF_SERVING}  # fmt: skip


@with_tables
@with_settings(
    {**OF_SERVING, **OF_TRAINING}, several=(*SEVERAL, "recipe", "schedule"), optional=("input", "output_tokens")
)
def search(
    model: ModelArgument,
    /,
    *,
    front: Switch = False,
    plan: str | None = None,
    plot: Path | None = None,
    train: Switch = False,
    emit: Literal[
        "vllm", "sglang", "trtllm", "dynamo", "k8s", "megatron", "bridge", "torchtitan", "deepspeed", "maxtext"
    ]
    | None = None,
    out: OutFile = None,
    force: Switch = False,
    revision: Revision = None,
    headers: Headers = False,
    text_only: TextOnly = False,
    json: Json = False,
    **asked: Given,
) -> None:
    """Find the best layouts, replicas, pools, machines, formats and engines to serve or train a model within limits.

    Without --concurrency or --rate, each plan has the highest concurrency within the limits; with one of them, the
    fewest replicas. 99 % of requests must meet --ttft, --tpot and --latency, or the share or means that --attainment
    sets. Exits with 1 if no plan meets the limits, and reports the nearest.

    Example: `roofline search Qwen/Qwen3-32B --on h200-sxm --chips 32 --input 4000 --output-tokens 500 --ttft 1.2s
    --tpot 15ms --precision weights=fp8`

    Parameters
    ----------
    front:
        Show the Pareto front of tokens/s per user and per chip instead; --tpot is not a limit then.
    plan:
        Also show the rank of this plan or what rejects it, as in
        `prefills=5,prefill_layout=tp=4,replicas=3,layout=tp=4,concurrency=192`.
    plot:
        A file for a picture of the front: `.png`, `.svg`, `.pdf` or `.html`.
    train:
        Search layouts of a training step instead, with --batch sequences of --tokens on one machine. Best is least
        `time`, `cost` (chip-seconds) or `chips`; with --run-tokens also `days`, `dollars`, `energy` or `goodput`.
    emit:
        Print launch commands or manifests of the best plan instead, each option with its assumption; with --train, a
        framework's flags or config. Settings for which it has no option are listed on stderr.
    out:
        A file for the JSON; with --emit, a folder for its files, or with --train a file for the config.
    force:
        Overwrite it.
    """
    _refuse_the_rest(OF_LAYOUTS if train else OF_SERVING, train, asked)
    if train:
        built = load(model, revision=revision, headers=headers, text_only=text_only)
        _train(built, asked, emit, _Where(out, force, json))
        return
    asked = {name: value for name, value in asked.items() if name in OF_SERVING}
    for name in ("input", "output_tokens"):
        if asked.get(name) is None:
            raise InputError(name, "nothing", "tokens of a request")
    if plot is not None:
        _check_picture(plot, force)
    if emit is not None:
        from roofline.whatif.search.launch import LAUNCHERS

        _check_emit(emit, LAUNCHERS, "without --train", json or front)
    built = load(model, revision=revision, headers=headers, text_only=text_only)
    with counted_bar("search", None, "plans") as progress:
        result: Search = question(built, counted=_tell, progress=progress, **asked)
    if plan is not None:
        result = replace(result, asked_plan=rank_plan(result, plan))
    if plot is not None:
        _draw(result, plot, force)
    if front:
        result = result.front
    if emit is not None:
        if result.plans:
            _hand_over(result, emit, out, force)
    elif not _delivered(result, _Where(out, force, json)):
        print_text(f"{search_text(result)}\n")
        if result.plans:
            notes = UNITS, answers_text(result), confirmed_text(result), *assumed_lines(result.plans[0])
            print_tables((search_table(result), "\n".join(filter(None, notes))))
        elif result.limits.limits:
            print_text(f"{nearest_text(result)}\n")
        if plot is not None:
            print_text(f"{plot}\n")
    if result.asked_plan is not None:
        say(place_text(result, result.asked_plan))
    warn(built)
    kept = [plan for plan in result.plans if not plan.broken]
    refuse(kept, "" if kept else "nothing keeps these limits")


@dataclass(frozen=True)
class _Where:
    """Destination of the JSON, if any."""

    out: Path | None
    force: bool
    json: bool


def _delivered(result: Result, to: _Where) -> bool:
    """Print or write the result as JSON if requested. Returns whether it was."""
    if to.out is not None:
        if to.out.suffix != ".json":
            raise InputError("--out", str(to.out), "a file that ends in .json")
        deliver(json_text(result.to_dict()), to.out, to.force)
    elif to.json:
        print_json(result.to_dict())
    return to.out is not None or to.json


def _tell(number: int) -> None:
    """Report the number of plans on stderr if it is large."""
    if number > MANY:
        say(f"{number:,} plans to look at")


def _check_picture(path: Path, force: bool) -> None:
    """Check the path of the picture before the search, which takes long."""
    from roofline.views.files.atomic import check_ending, check_file
    from roofline.views.plots.write import ENDINGS

    check_ending(path, ENDINGS, "--plot")
    check_file(path, force, "--plot")


def _draw(result: Search, path: Path, force: bool) -> None:
    from roofline.views.plots.build_front import front_plot
    from roofline.views.plots.style import Style
    from roofline.views.plots.write import write

    write(front_plot(result.front), path, Style(), force)


def _hand_over(result: Search, launcher: str, folder: Path | None, force: bool) -> None:
    """Write launch files of the best plan to stdout or a folder, and settings they cannot express to stderr."""
    from roofline.views.files.atomic import check_file, check_folder, whole_file
    from roofline.whatif.search.launch import launch_files

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


def _refuse_the_rest(settings: Mapping[str, Setting], train: bool, asked: Settings) -> None:
    """Raise InputError for a serving option in a training search, and vice versa."""
    for name, value in options_given(asked).items():
        unsaid = name in OF_SERVING and value == OF_SERVING[name].default
        if name not in settings and not unsaid and not is_default(name.replace("_", "-")):
            raise InputError(option_name(name), value, "no such option with --train" if train else "--train as well")


def _check_emit(emit: str, names: tuple[str, ...], when: str, beside: bool) -> None:
    """Raise InputError for a name of the other kind of search, and for anything else to print."""
    if beside:
        raise InputError("--emit", emit, "nothing else to print")
    if emit not in names:
        raise InputError("--emit", emit, f"one of {', '.join(names)} {when}")


def _train(built: Model, asked: Settings, emit: str | None, to: _Where) -> None:
    """Search training layouts and print them."""
    chosen = {name: value for name, value in options_given(asked).items() if name in OF_LAYOUTS}
    for name in ("batch", "tokens"):
        if name not in chosen:
            raise InputError(name, "nothing", "a whole number, with --train")
    for name in SEVERAL:
        if isinstance(chosen.get(name), list):
            (chosen[name], *others) = chosen[name]
            if others:
                raise InputError(name, " ".join(asked[name]), "one of them, with --train")
    if emit is not None:
        from roofline.training.emit.make import FRAMEWORKS, hand_over

        _check_emit(emit, FRAMEWORKS, "with --train", to.json)
    with counted_bar("search", None, "layouts") as progress:
        result = search_training(built, progress=progress, **chosen)
    if emit is not None and result.plans:
        handed = hand_over(result.best.estimate, emit)
        deliver(handed.text, to.out, to.force)
        for what in handed.missing:
            say(f"not expressed: {what}")
    elif not _delivered(result, to):
        print_text(f"{training_search_text(result)}\n")
        if result.plans:
            print_tables((training_search_table(result), ""))
    warn(built)
    refuse(result.plans, "" if result.plans else "no layout fits")
