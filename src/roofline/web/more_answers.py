"""Answers of views beside the main ones, and what is taken away: files, launch commands, configs, tables, reports."""

from __future__ import annotations

from io import BytesIO
from itertools import islice
from typing import Any

import polars

import roofline as rl
from roofline.emit.make import hand_over
from roofline.emit.serving import launch_files
from roofline.explore.difference import Side, differ
from roofline.explore.running import formats_that_run, what_runs
from roofline.layout.layout import layout_named
from roofline.model.errors import InputError, not_one_of
from roofline.model.load import catalog
from roofline.show.report.page import html
from roofline.web import bodies as b
from roofline.web.answers import settings_of_place, train_answer
from roofline.web.choices import Allowed, chosen_machine, chosen_model
from roofline.web.gguf_model import dropped

MOST_ITEMS = 20_000
"""Passes of micro-batches that a timeline has."""
TABLES = ("generate", "serve", "fit", "estimate", "simulate", "train")
"""Answers that are tables too: a row for each point."""


def timeline_answer(asked: b.TrainAsked, allowed: Allowed) -> dict[str, Any]:
    """When each stage works on which micro-batch: `items` of stage, kind, micro-batch, start and end in seconds."""
    estimate: rl.TrainingEstimate = train_answer(asked, allowed)
    layout = estimate.asked.layout
    passes = 3 * int(estimate.micro_batches) * int(layout.pp) * int(layout.vp)
    if passes > MOST_ITEMS:
        raise InputError("batch", asked.batch, f"a timeline of at most {MOST_ITEMS} passes, not {passes}")
    course = estimate.timeline
    items = [[i.stage, i.kind, i.micro_batch, i.start, i.end] for i in course.items]
    return {"stages": course.stages, "length": course.length, "bubble": course.bubble, "items": items}


def layouts_answer(asked: b.LayoutsAsked, allowed: Allowed) -> Any:
    """`roofline.training-search`: layouts of a training step, the best first."""
    model, on = chosen_model(asked.model, allowed), chosen_machine(asked.on, allowed)
    sizes: dict[str, Any] = {"batch": asked.batch, "tokens": asked.tokens, "top": asked.top}
    return rl.search_training(model, on=on, objective=asked.objective, **sizes)


def diff_answer(asked: b.DiffAsked, allowed: Allowed) -> Any:
    """`roofline.diff`: what changes from one side to the other, setting by setting and op by op."""
    return differ(_side(asked.a, allowed), _side(asked.b, allowed))


def _side(asked: b.SideAsked, allowed: Allowed) -> Side:
    chosen_machine(asked.on, allowed)
    on = asked.on.strip()
    return Side(
        chosen_model(asked.model, allowed),
        on=on if "=" in on else on.lower(),
        layout=layout_named(asked.layout) if asked.layout else None,
        precision=asked.precision or None,
        engine=asked.engine or None,
        batch=asked.batch,
        context=asked.context,
        prompt=asked.prompt,
    )


def runs_answer(asked: b.RunsAsked, allowed: Allowed) -> dict[str, Any]:
    """`roofline.running` of a part of the catalog, or of one model; `of`: how many models the catalog has."""
    on = chosen_machine(asked.on, allowed)
    if asked.model is not None:
        return {**formats_that_run(chosen_model(asked.model, allowed), on, asked.context).to_dict(), "of": 0}
    names = tuple(catalog())
    part = islice(names, asked.start, asked.start + asked.count)
    return {**what_runs(part, on, asked.context).to_dict(), "of": len(names)}


def gguf_answer(asked: b.GgufAsked, allowed: Allowed) -> dict[str, Any]:
    """`model`: what the API takes as a model, of the header of a GGUF file; its `name`, `parameters` and `warnings`."""
    return dropped(asked.head, asked.size)


def launch_answer(asked: b.LaunchAsked, allowed: Allowed) -> dict[str, Any]:
    """`files`: what starts the best server of a load, by `name` and `text`; `missing`: what they do not express."""
    settings = {k: v for k, v in settings_of_place(asked, allowed).items() if k not in ("law", "layout")}
    options = {**settings, **({"layouts": [asked.layout]} if asked.layout else {})}
    demand = rl.Demand(input=asked.input, output=asked.output, concurrency=asked.concurrency)
    result = rl.search(chosen_model(asked.model, allowed), demand, kinds="aggregated", top=1, **options)
    if not result.plans:
        raise InputError("on", asked.on, "a machine on which this model fits and can be served")
    emitted = launch_files(result.plans[0], asked.launcher)
    files = [{"name": file.name, "text": file.text} for file in emitted.files]
    return {"launcher": emitted.launcher, "files": files, "missing": list(emitted.missing)}


def recipe_answer(asked: b.RecipeAsked, allowed: Allowed) -> dict[str, Any]:
    """The `text` of a training framework's config, and what is `missing` of the layout in it."""
    emitted = hand_over(train_answer(asked, allowed), asked.framework)
    return {"framework": emitted.framework, "text": emitted.text, "missing": list(emitted.missing)}


def report_answer(asked: b.GenerateAsked, allowed: Allowed) -> bytes:
    """`roofline report`: the whole story on one HTML page."""
    settings = {k: v for k, v in settings_of_place(asked, allowed).items() if k not in ("law", "bill")}
    model = chosen_model(asked.model, allowed)
    page = rl.report(model, batch=asked.batch, input=asked.input, output_tokens=asked.output, **settings)
    return html(page).encode()


def table_bytes(frame: polars.DataFrame, form: str) -> bytes:
    """A frame as the content of a file."""
    file = BytesIO()
    if form == "parquet":
        frame.write_parquet(file)
    else:
        frame.write_csv(file)
    return file.getvalue()


def check_table(name: str) -> None:
    """Raises InputError for an answer that is no table."""
    if name not in TABLES:
        raise not_one_of("name", name, TABLES)
