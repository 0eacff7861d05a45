"""Route handlers of secondary views and downloads: files, launch commands, configs, tables, reports."""

from __future__ import annotations

from io import BytesIO

import roofline as rl
from roofline.declared.errors import InputError, not_one_of
from roofline.declared.groups import PlaceSettings
from roofline.declared.result import Result, plain
from roofline.declared.trees import JsonObject
from roofline.doors.web import request_models as b
from roofline.doors.web.allow_list import Allowed, chosen_machine
from roofline.doors.web.answers import ApiAnswer, given_fields, given_search
from roofline.doors.web.page.gguf_model import dropped
from roofline.extras import check_frames
from roofline.hardware.chip import Chip
from roofline.layout.layout import layout_named
from roofline.model.load import catalog
from roofline.training.emit.make import hand_over
from roofline.training.layouts.remedies import fixes
from roofline.views.files.csv_columns import csv_bytes
from roofline.views.report.completed import Finished
from roofline.views.report.page import html
from roofline.whatif.diff import Side
from roofline.whatif.query.parsing import side_named
from roofline.whatif.search.launch import launch_files
from roofline.whatif.search.what_fits import OF_ONE, formats_that_run, what_runs
from roofline.whatif.solve.break_even import owned_named

MOST_ITEMS = 20_000
"""Maximum number of micro-batch passes in a timeline."""
CATALOG_PART = 40
"""Default number of catalog models that one answer evaluates."""
TABLES = ("generate", "serve", "fit", "estimate", "simulate", "train")
"""Routes whose answers can be downloaded as tables, one row per point."""


def timeline_answer(asked: b.Body, allowed: Allowed) -> JsonObject:
    """When each stage works on which micro-batch: `items` of stage, kind, micro-batch, start and end in seconds."""
    estimate: rl.TrainingEstimate = rl.train(**given_fields(asked, allowed))
    layout = estimate.asked.layout
    passes = 3 * int(estimate.micro_batches) * int(layout.pp) * int(layout.vp)
    if passes > MOST_ITEMS:
        raise InputError("batch", asked.batch, f"a timeline of at most {MOST_ITEMS} passes, not {passes}")
    course = estimate.timeline
    items = [[i.stage, i.kind, i.micro_batch, i.start, i.end] for i in course.items]
    return {"stages": course.stages, "length": course.length, "bubble": course.bubble, "items": items}


def remedies_answer(asked: b.Body, allowed: Allowed) -> JsonObject:
    """`changes` that make an optimizer step fit, cheapest first: `detail`, `chips`, and `time` and `cost` of a step.

    `time` is in seconds, `cost` in expected chip-seconds. The list is empty if the step fits or no change helps.
    """
    given = given_fields(asked, allowed)
    estimate: rl.TrainingEstimate = rl.train(**given)
    ways = () if estimate.fits else fixes(estimate, given["on"])
    return {"fits": bool(estimate.fits), "changes": [plain(way) for way in ways]}


def limits_answer(asked: b.Body, allowed: Allowed) -> JsonObject:
    """What bounds a question about a model.

    `context`: its maximum of prompt plus output tokens; null if its config states none. `steps`: the passes that it
    has. `positions`: those of each input, where its config fixes them.
    """
    model = given_fields(asked, allowed)["model"]
    return {"context": model.context, "steps": list(model.steps), "positions": model.positions}


def layouts_answer(asked: b.Body, allowed: Allowed) -> ApiAnswer:
    """`roofline.training-search`: layouts of a training step, the best first."""
    return rl.search_training(**given_fields(asked, allowed))


def diff_answer(asked: b.Body, allowed: Allowed) -> ApiAnswer:
    """`roofline.diff`: what changes from one side to the other, setting by setting and op by op."""
    return rl.diff(_side(asked.a, allowed), _side(asked.b, allowed), asked.engine)


def _side(asked: b.Body, allowed: Allowed) -> Side:
    given = given_fields(asked, allowed)
    given = PlaceSettings.fully(given)
    if "on" in given and not isinstance(given["on"], Chip):  # a catalog name or `here`: keep it as given
        given["on"] = asked.on.strip().lower()
    if "layout" in given:
        given["layout"] = layout_named(given["layout"])
    return Side(**given)


def solve_answer(asked: b.Body, allowed: Allowed) -> ApiAnswer:
    """`roofline.solve`: the value of one setting at which the requirements hold."""
    given = given_fields(asked, allowed)
    against = given.get("against")
    if against is not None and owned_named(against) is None and (on := side_named(against).get("on")) is not None:
        try:
            chosen_machine(on, allowed)
        except InputError as error:
            raise InputError("against", against, error.expected, error.nearest) from error
    return rl.solve(**given)


def runs_answer(asked: b.Body, allowed: Allowed) -> JsonObject:
    """`roofline.running` for part of the catalog or for one model; `of`: the number of models in the catalog."""
    given = given_fields(asked, allowed)
    part = {name: given.pop(name) for name in ("start", "count") if name in given}
    beside = {name: value for name in OF_ONE if (value := given.pop(name, None))}
    if "model" in given:
        if part:
            raise InputError(*next(iter(part.items())), "nothing beside a model")
        return {**formats_that_run(**given, **beside).to_dict(), "of": 0}
    if beside:
        raise InputError(*next(iter(beside.items())), "a model as well")
    names = tuple(catalog())
    start = part.get("start", 0)
    return {**what_runs(names[start : start + part.get("count", CATALOG_PART)], **given).to_dict(), "of": len(names)}


def gguf_answer(asked: b.Body, allowed: Allowed) -> JsonObject:
    """`model`: a GGUF file's header in the form that the API accepts as a model; `name`, `parameters`, `warnings`."""
    return dropped(asked.head, asked.size)


def launch_answer(asked: b.Body, allowed: Allowed) -> JsonObject:
    """`files` (`name`, `text`) that launch the best server for a load; `missing`: settings they do not express."""
    given = given_fields(asked, allowed)
    launcher = given.pop("launcher", "")
    result = given_search(asked, {**given, "kind": "aggregated", "top": 1})
    if not result.plans:
        raise InputError("on", asked.on, "a machine on which this model fits and can be served")
    emitted = launch_files(result.plans[0], launcher)
    files = [{"name": file.name, "text": file.text} for file in emitted.files]
    return {"launcher": emitted.launcher, "files": files, "missing": list(emitted.missing)}


def recipe_answer(asked: b.Body, allowed: Allowed) -> JsonObject:
    """`text` of a training framework's config, `missing` layout settings it cannot express, and whether it `fits`."""
    given = given_fields(asked, allowed)
    framework = given.pop("framework", "")
    estimate: rl.TrainingEstimate = rl.train(**given)
    emitted = hand_over(estimate, framework)
    missing = list(emitted.missing)
    return {"framework": emitted.framework, "text": emitted.text, "missing": missing, "fits": bool(estimate.fits)}


def report_answer(asked: b.Body, allowed: Allowed) -> bytes | Finished:
    """`roofline report`: one HTML page, or its figures as the JSON of `roofline.report`."""
    given = given_fields(asked, allowed)
    form = given.pop("form")
    whole: Finished = rl.report(**given)
    return whole if form == "json" else html(whole).encode()


def table_bytes(answer: Result, form: str) -> bytes:
    """Serialize an answer as a CSV or Parquet file."""
    if form == "csv":
        return csv_bytes(answer.columns())
    file = BytesIO()
    answer.to_frame().write_parquet(file)
    return file.getvalue()


def check_table(name: str, form: str) -> None:
    """Raise InputError for a route whose answer is not a table, and for Parquet where Polars is missing."""
    if name not in TABLES:
        raise not_one_of("name", name, TABLES)
    if form == "parquet":
        check_frames("form", form, "csv")
