"""`roofline plot`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from roofline.cli.common import (
    FIGURES,
    CountingName,
    Flag,
    Formats,
    LawName,
    ModelArgument,
    Revision,
    StepOptions,
    TrafficName,
    Whole,
    warn,
    warn_beyond,
)
from roofline.model.errors import InputError


def plot(
    model: ModelArgument,
    /,
    *,
    output: Path,
    on: Annotated[
        list[str] | None, Parameter(help=f"One or several of {FIGURES}", consume_multiple=True, negative="")
    ] = None,
    kind: Literal["roofline", "shares", "sweep", "memory", "parameters", "map"] = "roofline",
    step: StepOptions = StepOptions(),  # noqa: B008
    points: Literal["ops", "layers", "phases"] = "ops",
    links: Flag = False,
    over: Literal["batch", "context"] = "batch",
    most_batch: Whole = None,
    most_context: Whole = None,
    theme: Literal["light", "dark"] = "light",
    legend: Literal["beside", "separate", "none"] = "beside",
    broken: Flag = False,
    dpi: Whole = None,
    counting: CountingName = "standard",
    traffic: TrafficName = "fused",
    precision: Formats = None,
    law: LawName = "calibrated",
    engine: str = "none",
    revision: Revision = None,
    force: Flag = False,
) -> None:
    """A picture: the roofline, shares, sweeps, memory, parameters, or the decode map, as PNG, SVG, PDF or HTML.

    Without a step: a prefill and a decode of 1024 tokens. --decode and --batch are also the context and the batch at
    which sweeps and memory are drawn.

    Example: `roofline plot meta-llama/Llama-3.1-8B --on h100-sxm a100-sxm-80gb --output roofline.png --force`

    Parameters
    ----------
    output:
        The file: `.png`, `.svg`, `.pdf`, or `.html` to zoom and point at (Plotly, `pip install 'roofline[web]'`).
    kind:
        `roofline`: performance over intensity; `shares`: of FLOPs, bytes and time; `sweep`: decode over batch or
        context; `memory`: over context; `parameters`: by part; `map`: decode over batch × context.
    points:
        What a point of the roofline is.
    links:
        Draw the bandwidth of links beside that of memory.
    over:
        The axis of a sweep.
    most_batch:
        The last batch of a sweep or map (1024).
    most_context:
        The last context of a sweep, map or memory (the model's, at most 131072).
    theme:
        Ink on white, or light on dark.
    legend:
        Beside the picture, in a file of its own (`…_legend`), or none.
    broken:
        A broken x axis: memory-bound points left, the ridge and compute-bound ones right, the empty middle left out.
    dpi:
        Pixels per inch of a PNG (150).
    engine:
        Whose kernels and memory rule: `vllm`, `trtllm`, `sglang`, or `none`.
    force:
        Overwrite the file.
    """
    from roofline.model.load import load
    from roofline.show.plots.make import plot as run

    if kind in ("roofline", "sweep", "map") and not on:
        raise InputError("--on", "nothing", f"a chip, for a {kind}")
    built = load(model, revision=revision)
    steps = step.steps(built.context)
    size = 1 if step.batch is None else step.batch
    if sys.stderr.isatty():
        print(f"drawing {output} …", file=sys.stderr)
    run(
        built, dict(steps), on=on or (), kind=kind, output=output, force=force, points=points, links=links, over=over,
        batch=size, context=step.decode, most_batch=most_batch, most_context=most_context, theme=theme, legend=legend,
        broken=broken, dpi=150 if dpi is None else dpi, counting=counting, traffic=traffic, precision=precision,
        law=law, engine=engine,
    )  # fmt: skip
    sys.stdout.write(f"{output}\n")
    warn(built)
    if kind in ("roofline", "shares"):
        warn_beyond(built, steps)
