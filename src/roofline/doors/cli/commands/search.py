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
    deliver,
    refuse,
    say,
    warn,
)
from roofline.doors.cli.defaults import is_default
from roofline.doors.cli.derived import option_name, options_given, with_settings
from roofline.model.load import load
from roofline.model.model import Model
from roofline.views.text.inference.cost import assumed_lines
from roofline.views.text.serving.search import (
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
"""Settings to choose from, of which it takes lists."""
MANY = 100_000
"""Plans to look at that are told before the search."""


OF_SERVING, OF_LAYOUTS = question_settings(question), question_settings(search_training)
OF_TRAINING = {name: replace(setting, default=None, help=f"With --train: {setting.help}")
               for name, setting in OF_LAYOUTS.items() if name not in OF_SERVING}  # fmt: skip


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
    emit: Literal["vllm", "sglang", "trtllm", "dynamo", "k8s"] | None = None,
    out: OutFile = None,
    force: Switch = False,
    revision: Revision = None,
    headers: Headers = False,
    json: Json = False,
    **asked: Given,
) -> None:
    """The best ways to serve a model within limits: layouts, replicas, pools, machines, formats, engines; or to train.

    Without --concurrency or --rate each way has the most requests in flight that keep the limits; with one of them, as
    few replicas as keep them. 99 % of the requests are to keep --ttft, --tpot and --latency, or as large a share as
    --attainment says, or their means. Exits with 1 where nothing keeps them, and says how near anything comes.

    Example: `roofline search Qwen/Qwen3-32B --on h200-sxm --chips 32 --input 4000 --output-tokens 500 --ttft 1.2s
    --tpot 15ms --precision weights=fp8`

    Parameters
    ----------
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
    emit:
        Launch commands or manifests of the best plan instead, each option with its assumption; what they do not
        express is said on stderr.
    out:
        A file for the JSON; with --emit a folder for its files.
    force:
        Overwrite it.
    """
    _refuse_the_rest(OF_LAYOUTS if train else OF_SERVING, train, asked)
    if train:
        built = load(model, revision=revision, headers=headers)
        _train(built, asked, _Where(out, force, json))
        return
    asked = {name: value for name, value in asked.items() if name in OF_SERVING}
    for name in ("input", "output_tokens"):
        if asked.get(name) is None:
            raise InputError(name, "nothing", "tokens of a request")
    if plot is not None:
        _check_picture(plot, force)
    if emit is not None and (json or front):
        raise InputError("--emit", emit, "nothing else to print beside it")
    built = load(model, revision=revision, headers=headers)
    result: Search = question(built, counted=_tell, **asked)
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
            notes = answers_text(result), confirmed_text(result), *assumed_lines(result.plans[0])
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
    """Where the JSON goes, if it is asked for."""

    out: Path | None
    force: bool
    json: bool


def _delivered(result: Result, to: _Where) -> bool:
    """Whether it was printed or written as JSON."""
    if to.out is not None:
        if to.out.suffix != ".json":
            raise InputError("--out", str(to.out), "a file that ends in .json")
        deliver(json_text(result.to_dict()), to.out, to.force)
    elif to.json:
        print_json(result.to_dict())
    return to.out is not None or to.json


def _tell(number: int) -> None:
    """Says how many plans there are, where that is many."""
    if number > MANY:
        say(f"{number:,} plans to look at")


def _check_picture(path: Path, force: bool) -> None:
    """Before the search, which takes longer."""
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
    """Launch files of the best plan to stdout or into a folder, and what they do not express to stderr."""
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
    """Raises InputError for an option of serving in a search of training, and the other way round."""
    for name, value in options_given(asked).items():
        unsaid = name in OF_SERVING and value == OF_SERVING[name].default
        if name not in settings and not unsaid and not is_default(name.replace("_", "-")):
            raise InputError(option_name(name), value, "no such option with --train" if train else "--train beside it")


def _train(built: Model, asked: Settings, to: _Where) -> None:
    """The search of layouts of training."""
    chosen = {name: value for name, value in options_given(asked).items() if name in OF_LAYOUTS}
    for name in ("batch", "tokens"):
        if name not in chosen:
            raise InputError(name, "nothing", "a whole number, with --train")
    for name in SEVERAL:
        if isinstance(chosen.get(name), list):
            (chosen[name], *others) = chosen[name]
            if others:
                raise InputError(name, " ".join(asked[name]), "one of them, with --train")
    result = search_training(built, **chosen)
    if not _delivered(result, to):
        print_text(f"{training_search_text(result)}\n")
        if result.plans:
            print_tables((training_search_table(result), ""))
    warn(built)
    refuse(result.plans, "" if result.plans else "no layout fits")
