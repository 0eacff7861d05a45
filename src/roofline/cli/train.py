"""`roofline train`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from roofline.cli.common import (
    FIGURES,
    Headers,
    LawName,
    LayoutText,
    ModelArgument,
    Needed,
    Revision,
    Switch,
    Whole,
    deliver,
    refuse,
    warn,
)
from roofline.model.errors import InputError


def train(
    model: ModelArgument,
    /,
    *,
    on: Annotated[str, Parameter(help=f"A cluster (`4xdgx-h100`, `gb200-nvl72`, a cluster file), or {FIGURES}")],
    batch: Needed,
    tokens: Needed,
    layout: LayoutText = None,
    micro_batch: Needed = 1,
    schedule: str = "1f1b",
    recompute: str = "none",
    recipe: str = "bf16",
    optimizer: str = "adamw",
    lora: Whole = None,
    drafts: Whole = None,
    offload: Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")] = None,
    no_flash: Switch = False,
    loss: str | None = None,
    fused_loss: Switch = False,
    overlap: str | None = None,
    no_overlap: Switch = False,
    engine: str = "megatron",
    law: LawName = "calibrated",
    run_tokens: float | None = None,
    mtbf_hours: float | None = None,
    save_seconds: float | None = None,
    restart_seconds: float | None = None,
    revision: Revision = None,
    headers: Headers = False,
    timeline: Switch = False,
    trace: Path | None = None,
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
        `none`, `selective` (attention's core), `full`, or names of modules, each with a comma behind it.
    recipe:
        Formats of products, weights, gradients and master: `bf16`, `bf16-gradients`, `bf16-pure`, `fp16`, `fp32`,
        `fp8`, `fp8-block`, `mxfp8`, `nvfp4`, `qlora` (with --lora).
    optimizer:
        `adamw`, `adamw-bf16`, `adam8bit`, `adafactor`, `muon`, `momentum`, `sgd`.
    lora:
        Rank of adapters on frozen weights.
    drafts:
        Multi-token-prediction layers that learn too.
    offload:
        What lives in the host's memory: `optimizer`, `activations`.
    no_flash:
        Attention kernel by kernel, its scores in memory.
    loss:
        How cross-entropy keeps its logits: `in-place` (6 bytes each, Megatron-LM), `eager` (10, PyTorch), `fused` (0);
        the engine's own where not given.
    fused_loss:
        The same as `--loss fused`.
    overlap:
        Whose communication travels beside work: `dp` (gradients, gathered weights), `tp` (collectives in pieces beside
        their products), `ep` (tokens beside another micro-batch), `cp` (a ring's keys and values), `pp`, a comma
        between; the engine's own where not given.
    no_overlap:
        Nothing travels beside work.
    engine:
        Whose slow-downs and habits: `megatron` (containers 26.06 and later), `nemo` (before), `megatron-2025`, `fsdp`,
        `torchtitan`, `deepspeed`, `maxtext`, or `none`.
    run_tokens:
        Tokens of the whole run, for its days, cost and energy (1e12 and the like).
    mtbf_hours:
        Mean hours between failures of one chip (50,000).
    save_seconds:
        That a checkpoint holds the run up (10: copied to the hosts' memory, and written from there beside the run).
    restart_seconds:
        From a failure until the run goes on (600).
    timeline:
        Draw the schedule.
    trace:
        Write the schedule as a Chrome trace, for Perfetto.
    json:
        JSON, as docs/json.md has it.
    force:
        Overwrite the trace.
    """
    from roofline.estimates.run import run as run_of
    from roofline.estimates.train import train as estimate
    from roofline.estimates.training_changes import fixes
    from roofline.model.load import load
    from roofline.show import training as views
    from roofline.show.analysis import headline
    from roofline.show.estimate import first_line, misfit
    from roofline.show.tables import print_json, print_line, print_tables, print_text

    whole = {"mtbf_hours": mtbf_hours, "save_seconds": save_seconds, "restart_seconds": restart_seconds}
    asked = {name: value for name, value in whole.items() if value is not None}
    if asked and run_tokens is None:
        name, value = next(iter(asked.items()))
        raise InputError(f"--{name.replace('_', '-')}", value, "--run-tokens beside it: it is of a whole run")
    if json and timeline:
        raise InputError("--timeline", "--json", "one of them; --trace writes the schedule to a file")
    if no_overlap and overlap is not None:
        raise InputError("--overlap", overlap, "nothing beside --no-overlap")
    beside = False if no_overlap else True if overlap is None else overlap
    built = load(model, revision=revision, headers=headers)
    result = estimate(
        built, batch=batch, tokens=tokens, lora=lora, drafts=drafts, on=on, layout=layout, engine=engine, law=law,
        recompute=recompute, recipe=recipe, optimizer=optimizer, flash=not no_flash, fused_loss=fused_loss, loss=loss,
        micro_batch=micro_batch, schedule=schedule, overlap=beside, offload=",".join(offload or ()),
    )  # fmt: skip
    run = None
    if run_tokens is not None:
        run = run_of(result, run_tokens, **asked)
    if not result.fits and sys.stderr.isatty():
        print("does not fit; looking for what would …", file=sys.stderr)
    ways = () if result.fits else fixes(result, on)
    if trace is not None:
        from json import dumps

        from roofline.show.timeline import chrome_trace

        name = f"{result.model.name}, {result.deployment.text}"
        deliver(dumps(chrome_trace(result.timeline, name)), trace, force)
    if json:
        print_json(views.Trained(result, ways, run).to_dict())
    else:
        first = first_line(result, result.memory)
        print_text(f"{first}\n{headline(built, result.formats)}\n{views.setting_text(result)}")
        print_line("")
        print_tables((views.memory_table(result), ""))
        print_line("")
        print_text(views.training_step_text(result))
        if timeline:
            from roofline.show.tables import window_width
            from roofline.show.timeline import timeline_text

            print_line("")
            print_line(timeline_text(result.timeline, min(window_width(), 160)))
        if run is not None:
            print_line("")
            print_text(views.run_text(run))
        if ways or not result.fits:
            print_line("")
            print_text(views.fixes_text(ways))
    warn(result.model)
    for note in result.notes:
        print(f"note: {note}", file=sys.stderr)
    refuse(result.fits, misfit(result.memory) if json else "")
