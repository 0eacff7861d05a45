"""`roofline train`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from roofline.cli.common import (
    FIGURES,
    Headers,
    LawName,
    ModelArgument,
    Needed,
    OutFile,
    Revision,
    Switch,
    Whole,
    deliver,
    refuse,
    say,
    warn,
)
from roofline.cli.layout_options import LayoutOptions
from roofline.cli.run_options import RunChoices
from roofline.declared.errors import InputError

if TYPE_CHECKING:
    from roofline.estimates.train import TrainingEstimate
    from roofline.explore.training_breakdown import Breakdown
    from roofline.explore.training_bytes import RankBytes


def train(
    model: ModelArgument,
    /,
    *,
    on: Annotated[str, Parameter(help=f"Several chips (`4xdgx-h100`, `gb200-nvl72`, a cluster file), or {FIGURES}")],
    batch: Needed,
    tokens: Needed,
    spread: LayoutOptions = LayoutOptions(),  # noqa: B008
    micro_batch: Needed = 1,
    schedule: str = "1f1b",
    recompute: str = "none",
    recipe: str = "bf16",
    optimizer: str = "adamw",
    lora: Whole = None,
    lora_targets: str | None = None,
    drafts: Whole = None,
    offload: Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")] = None,
    offload_layers: Whole = None,
    no_flash: Switch = False,
    loss: str | None = None,
    fused_loss: Switch = False,
    overlap: str | None = None,
    no_overlap: Switch = False,
    recompute_layers: Whole = None,
    recompute_every: Whole = None,
    lengths: str | None = None,
    no_reshard: Switch = False,
    no_sync: Switch = False,
    gather_format: str | None = None,
    reduce_format: str | None = None,
    optimizer_in_backward: Switch = False,
    engine: str | None = None,
    law: LawName = "calibrated",
    whole: RunChoices = RunChoices(),  # noqa: B008
    revision: Revision = None,
    headers: Headers = False,
    timeline: Switch = False,
    breakdown: Literal["modules", "ops"] | None = None,
    trace: Path | None = None,
    plot: Path | None = None,
    emit: Literal["megatron", "bridge", "torchtitan", "deepspeed", "maxtext"] | None = None,
    out: OutFile = None,
    json: Switch = False,
    force: Switch = False,
) -> None:
    """A training step under a layout: memory of every stage, step time, bubble, communication, MFU; days and cost.

    Exits with 1 where it does not fit, with the least expensive changes that would.

    Example: `roofline train meta-llama/Llama-3.1-8B --on dgx-h100 --batch 128 --tokens 8192 --layout tp=2,dp=4,zero=1`

    Parameters
    ----------
    batch:
        Sequences of one step, over all replicas.
    tokens:
        Tokens of a sequence.
    micro_batch:
        Sequences that pass through a replica together.
    schedule:
        Of the pipeline: `gpipe`, `1f1b`, `interleaved` (with vp in the layout), `zb-h1`, `zb-h2`, `dualpipe`.
    recompute:
        `none`, `selective` (attention's core), `op` (every second product, and everything but products and attention),
        `full`, or names of modules, each followed by a comma.
    recipe:
        Formats of products, weights, gradients and master: `bf16`, `bf16-gradients`, `bf16-pure`, `fp16`, `fp32`,
        `fp8`, `fp8-block`, `mxfp8`, `nvfp4`, `qlora` (with --lora). With FSDP also `bf16-mixed` and `fp8-mixed`:
        fp32 weights, gathered in bf16. `fp8-primary` keeps matrices of layers in fp8. Formats of a recipe can be
        changed: `fp8(gradients=bf16,matrices=fp8,activated=fp8)`; the last is of inputs of activation functions.
        `attended=bf16` keeps attention's output once, as `fp8-block` does.
    optimizer:
        `adamw`, `adamw-bf16`, `adam8bit`, `adafactor`, `muon`, `momentum`, `sgd`; `paged-adamw`, `paged-adam8bit`
        (state in the host's memory where there is no room).
    lora:
        Rank of adapters on frozen weights.
    lora_targets:
        Linear layers that have one, separated by commas, such as `qkv_proj,o_proj` (default: all).
    drafts:
        Multi-token-prediction layers that learn too.
    offload:
        What lives in the host's memory: `optimizer`, `activations`, `parameters` (zero=3), `gradients` (zero=2, 3).
    offload_layers:
        Layers of each stage whose activations do, with `--offload activations` (default: all).
    no_flash:
        Attention kernel by kernel, its scores in memory.
    loss:
        How cross-entropy keeps its logits: `in-place` (6 bytes each, Megatron-LM), `eager` (12, PyTorch), `compiled`
        (4), `chunked` (2.25), `fused` (0) (default: as the engine does).
    fused_loss:
        The same as `--loss fused`.
    overlap:
        Communication that overlaps with compute, separated by commas (default: as the engine does). `dp`: gradients and
        gathered weights. `tp`: collectives in pieces, during their products. `ep`: tokens, during another
        micro-batch. `cp`: a ring's keys and values. `pp`: activations between stages.
    no_overlap:
        No communication overlaps with compute.
    recompute_layers:
        Layers of each stage that are run again, the others not.
    recompute_every:
        The same of each second, third … layer.
    lengths:
        Sequences that are packed into one, such as `4096,512x8`: they add up to --tokens.
    no_reshard:
        With zero=3, weights gathered for the forward pass stay for the backward (reshard_after_forward=False).
    no_sync:
        With zero=2 or 3, gradients are kept whole over the micro-batches of a step, and reduced once.
    gather_format:
        Format in which weights are gathered: `fp32`, `bf16`, `fp16`, or `fp8` for matrices of layers (default: the
        recipe's).
    reduce_format:
        Format in which gradients are reduced: `fp32`, `bf16`, `fp16` (default: the recipe's).
    optimizer_in_backward:
        Each gradient is applied at once and freed; needs one micro-batch per step.
    engine:
        Whose slow-downs and habits: `megatron` (containers 26.06 and later), `nemo` (before), `megatron-2025`, `fsdp`,
        `torchtitan`, `deepspeed`, `maxtext`, or `none`. Default: `megatron`, but `none` with --schedule
        dualpipe, which no engine has.
    timeline:
        Draw the schedule.
    breakdown:
        Where time and memory go, by `modules` or by `ops`: lines that add up to the step.
    trace:
        Write the step as a Chrome trace, for Perfetto: passes, exposed collectives, optimizer.
    plot:
        A picture of the memory of ranks over the step: `.png`, `.svg`, `.pdf`, `.html` (Plotly).
    emit:
        Instead: the flags or the config of a framework for exactly this layout; what it cannot express on stderr.
    out:
        The file for it.
    json:
        JSON, as docs/json.md has it.
    force:
        Overwrite files.
    """
    from roofline.estimates.run import run as run_of
    from roofline.estimates.train import train as estimate
    from roofline.estimates.training_changes import fixes
    from roofline.model.load import load
    from roofline.show import training as views
    from roofline.show.analysis import headline
    from roofline.show.estimate import first_line, misfit
    from roofline.show.tables import print_json, print_line, print_tables, print_text

    asked = whole.given()
    if plot is not None:
        _check_picture(plot, force)
    if out is not None and emit is None:
        raise InputError("--out", str(out), "--emit beside it: the framework whose config it is")
    if emit is not None and (json or timeline or breakdown or trace or plot or whole.run_tokens is not None):
        raise InputError("--emit", emit, "nothing else to print or to draw beside it")
    if json and timeline:
        raise InputError("--timeline", "--json", "one of them; --trace writes the schedule to a file")
    if no_overlap and overlap is not None:
        raise InputError("--overlap", overlap, "nothing beside --no-overlap")
    beside = False if no_overlap else True if overlap is None else overlap
    built = load(model, revision=revision, headers=headers)
    result = estimate(
        built, batch=batch, tokens=tokens, lora=lora, lora_targets=lora_targets, drafts=drafts, on=on,
        layout=spread.text(), engine=engine, law=law, recompute=recompute, recipe=recipe, optimizer=optimizer,
        flash=not no_flash, fused_loss=fused_loss, loss=loss, micro_batch=micro_batch, schedule=schedule,
        overlap=beside, offload=",".join(offload or ()), offload_layers=offload_layers,
        recompute_layers=recompute_layers, recompute_every=recompute_every, lengths=lengths, reshard=not no_reshard,
        no_sync=no_sync, gather_format=gather_format, reduce_format=reduce_format,
        optimizer_in_backward=optimizer_in_backward, bill=whole.bill(),
    )  # fmt: skip
    if emit is not None:
        _hand_over(result, emit, out, force)
        return
    drawn = result.timeline if timeline or trace is not None else None
    run = None if whole.run_tokens is None else run_of(result, whole.run_tokens, **asked)
    if not result.fits and sys.stderr.isatty():
        print("does not fit; looking for what would …", file=sys.stderr)
    ways = () if result.fits else fixes(result, on)
    if trace is not None and drawn is not None:
        from json import dumps

        from roofline.show.timeline import training_trace

        name = f"{result.model.name}, {result.deployment.text}"
        deliver(dumps(training_trace(result, name)), trace, force)
    if plot is not None:
        _draw(result, plot, force)
    parts, modules = _parts(result) if breakdown else (None, ())
    if json:
        print_json(views.Trained(result, ways, run, parts, modules).to_dict())
    else:
        first = first_line(result, result.memory)
        print_text(f"{first}\n{headline(built, result.formats)}\n{views.setting_text(result)}")
        print_line("")
        print_tables((views.memory_table(result), ""))
        print_line("")
        print_text(views.training_step_text(result))
        if timeline and drawn is not None:
            from roofline.show.tables import window_width
            from roofline.show.timeline import timeline_text

            print_line("")
            print_line(timeline_text(drawn, min(window_width(), 160)))
        if breakdown and parts is not None:
            print_line("")
            print_tables((views.breakdown_table(parts, breakdown), ""))
            print_line("")
            print_tables((views.modules_table(modules), ""))
        if run is not None:
            print_line("")
            print_text(views.run_text(run))
        if ways or not result.fits:
            print_line("")
            print_text(views.fixes_text(ways))
    warn(result.model)
    for note in result.notes:
        say(f"note: {note}")
    refuse(result.fits, misfit(result.memory) if json else "")


def _parts(result: TrainingEstimate) -> tuple[Breakdown, tuple[RankBytes, ...]]:
    """The time of the slowest stage, and the memory of the fullest."""
    from roofline.explore.training_breakdown import breakdown
    from roofline.explore.training_bytes import module_bytes

    return breakdown(result), module_bytes(result)


def _check_picture(path: Path, force: bool) -> None:
    from roofline.show.files import check_ending, check_file
    from roofline.show.plots.write import ENDINGS

    check_ending(path, ENDINGS, "--plot")
    check_file(path, force, "--plot")


def _draw(result: TrainingEstimate, path: Path, force: bool) -> None:
    from roofline.show.plots.build_training import step_memory_plot
    from roofline.show.plots.write import write

    write(step_memory_plot(result), path, force=force)


def _hand_over(result: TrainingEstimate, framework: str, out: Path | None, force: bool) -> None:
    """The config of a framework to stdout or a file, and what it cannot express to stderr."""
    from roofline.emit.make import hand_over
    from roofline.show.estimate import misfit

    handed = hand_over(result, framework)
    deliver(handed.text, out, force)
    sys.stdout.flush()
    for what in handed.missing:
        print(f"not expressed: {what}", file=sys.stderr)
    warn(result.model)
    refuse(result.fits, misfit(result.memory))
