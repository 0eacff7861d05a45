"""`roofline train`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from roofline.declared.errors import InputError
from roofline.declared.kinds import Given
from roofline.declared.question import question_settings
from roofline.doors.cli.common import (
    Headers,
    Json,
    ModelArgument,
    OutFile,
    Revision,
    Switch,
    TextOnly,
    deliver,
    refuse,
    say,
    warn,
)
from roofline.doors.cli.derived import with_settings, with_tables
from roofline.training.estimate import TrainingEstimate
from roofline.training.runs.run import run
from roofline.training.train import train as question

if TYPE_CHECKING:
    from roofline.training.breakdown import Breakdown
    from roofline.training.memory.by_part import RankBytes

OF_RUN = tuple(name for name in question_settings(run) if name not in question_settings(question))
"""Settings that apply to whole runs only."""


@with_tables
@with_settings({**question_settings(question), **question_settings(run)}, optional=("run_tokens",))
def train(
    model: ModelArgument,
    /,
    *,
    revision: Revision = None,
    headers: Headers = False,
    text_only: TextOnly = False,
    timeline: Switch = False,
    breakdown: Literal["modules", "ops"] | None = None,
    trace: Path | None = None,
    plot: Path | None = None,
    emit: Literal["megatron", "bridge", "torchtitan", "deepspeed", "maxtext"] | None = None,
    out: OutFile = None,
    json: Json = False,
    force: Switch = False,
    **asked: Given,
) -> None:
    """A training step under a layout: memory of every stage, step time, bubble, communication, MFU; days and cost.

    With --run-tokens, also a whole run: days, cost, energy and goodput. If it does not fit, exits with 1 and lists the
    cheapest changes that make it fit.

    Example: `roofline train meta-llama/Llama-3.1-8B --on dgx-h100 --batch 128 --tokens 8192 --layout tp=2,dp=4,zero=1`

    Parameters
    ----------
    timeline:
        Draw the schedule.
    breakdown:
        Break down time and memory by `modules` or by `ops`; the lines add up to the step.
    trace:
        Write the step as a Chrome trace, for Perfetto: passes, exposed collectives, optimizer.
    plot:
        A picture of the memory of ranks over the step: `.png`, `.svg`, `.pdf`, `.html` (Plotly).
    emit:
        Print a framework's flags or config for this layout instead. Settings that it cannot express go to stderr.
    out:
        The file for --emit.
    force:
        Overwrite files.
    """
    from roofline.model.load import load
    from roofline.training.layouts.remedies import fixes
    from roofline.views.text.inference.analysis import headline
    from roofline.views.text.inference.estimate import first_line, misfit
    from roofline.views.text.tables import print_json, print_line, print_tables, print_text
    from roofline.views.text.training import training as views

    whole = {name: asked.pop(name) for name in OF_RUN if name in asked}
    tokens = whole.pop("run_tokens", None)
    alone = next((name for name, value in whole.items() if value not in (None, False)), None)
    if alone is not None and tokens is None:
        raise InputError(alone, whole[alone], "run_tokens as well: it is of a whole run")
    if plot is not None:
        _check_picture(plot, force)
    if out is not None and emit is None:
        raise InputError("--out", str(out), "--emit as well: the framework whose config it is")
    if emit is not None and (json or timeline or breakdown or trace or plot or tokens is not None):
        raise InputError("--emit", emit, "nothing else to print or to draw")
    if json and timeline:
        raise InputError("--timeline", "--json", "one of them; --trace writes the schedule to a file")
    built = load(model, revision=revision, headers=headers, text_only=text_only)
    result: TrainingEstimate = question(built, **asked)
    if emit is not None:
        _hand_over(result, emit, out, force)
        return
    drawn = result.timeline if timeline or trace is not None else None
    of_run = None if tokens is None else run(result, tokens, **whole)
    if not result.fits and sys.stderr.isatty():
        print("does not fit; looking for what would …", file=sys.stderr)
    ways = () if result.fits else fixes(result, asked["on"])
    if trace is not None and drawn is not None:
        from json import dumps

        from roofline.views.files.timeline import training_trace

        name = f"{result.model.name}, {result.deployment.text}"
        deliver(dumps(training_trace(result, name)), trace, force)
    if plot is not None:
        _draw(result, plot, force)
    parts, modules = _parts(result) if breakdown else (None, ())
    if json:
        print_json(views.Trained(result, ways, of_run, parts, modules).to_dict())
    else:
        first = first_line(result, result.memory)
        print_text(f"{first}\n{headline(built, result.formats)}\n{views.setting_text(result)}")
        if told := views.stack_text(result):
            print_text(told)
        print_line("")
        print_tables((views.memory_table(result), ""))
        print_line("")
        print_text(views.training_step_text(result))
        if timeline and drawn is not None:
            from roofline.views.files.timeline import timeline_text
            from roofline.views.text.tables import window_width

            print_line("")
            print_text(timeline_text(drawn, window_width()))
        if breakdown and parts is not None:
            print_line("")
            print_tables((views.breakdown_table(parts, breakdown), ""))
            print_line("")
            print_tables((views.modules_table(modules), ""))
        if of_run is not None:
            print_line("")
            print_text(views.run_text(of_run))
        if ways or not result.fits:
            print_line("")
            print_text(views.fixes_text(ways))
    warn(result.model)
    for note in result.notes:
        say(f"note: {note}")
    refuse(result.fits, misfit(result.memory) if json else "")


def _parts(result: TrainingEstimate) -> tuple[Breakdown, tuple[RankBytes, ...]]:
    """The time of the slowest stage, and the memory of the fullest ranks."""
    from roofline.training.breakdown import breakdown
    from roofline.training.memory.by_part import module_bytes

    return breakdown(result), module_bytes(result)


def _check_picture(path: Path, force: bool) -> None:
    from roofline.views.files.atomic import check_ending, check_file
    from roofline.views.plots.write import ENDINGS

    check_ending(path, ENDINGS, "--plot")
    check_file(path, force, "--plot")


def _draw(result: TrainingEstimate, path: Path, force: bool) -> None:
    from roofline.views.plots.build_training import step_memory_plot
    from roofline.views.plots.write import write

    write(step_memory_plot(result), path, force=force)


def _hand_over(result: TrainingEstimate, framework: str, out: Path | None, force: bool) -> None:
    """Write a framework's config to stdout or a file, and settings that it cannot express to stderr."""
    from roofline.training.emit.make import hand_over
    from roofline.views.text.inference.estimate import misfit

    handed = hand_over(result, framework)
    deliver(handed.text, out, force)
    sys.stdout.flush()
    for what in handed.missing:
        print(f"not expressed: {what}", file=sys.stderr)
    warn(result.model)
    refuse(result.fits, misfit(result.memory))
