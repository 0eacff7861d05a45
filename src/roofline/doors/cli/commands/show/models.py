"""`roofline models`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from roofline.declared.errors import InputError
from roofline.declared.kinds import Given
from roofline.declared.question import Settings, question_settings
from roofline.doors.cli.common import Form, Headers, Revision, Switch, TextOnly, progress_bar, refuse, warn
from roofline.doors.cli.derived import option_name, options_given, with_settings, with_tables
from roofline.whatif.search.what_fits import OF_ONE, formats_that_run, put_together, what_runs

if TYPE_CHECKING:
    from roofline.declared.result import Result
    from roofline.views.text.catalogs.models import StoredTensors
    from roofline.views.text.tables import Table
    from roofline.whatif.search.what_fits import WhatRuns

RUNS = {name: replace(s, default=s.default and None, help=s.help if name == "on" else f"With --on: {s.help}")
        for name, s in question_settings(formats_that_run).items()}  # fmt: skip
"""Settings of the search for models that run on a machine; without defaults, as they require `--on`."""


@with_tables
@with_settings(RUNS, optional=("on",))
def models(
    name: Annotated[
        str | None, Parameter(help="A model to show, by any name `analyze` takes; without one, the catalog.")
    ] = None,
    /,
    *,
    family: str | None = None,
    size: str | None = None,
    find: str | None = None,
    types: Switch = False,
    tensors: Switch = False,
    check: Path | None = None,
    revision: Revision = None,
    headers: Headers = False,
    text_only: TextOnly = False,
    json: Form = False,
    md: Form = False,
    **runs: Given,
) -> None:
    """The catalog of published models, one model's modules, tensors and parameters, or a check of many configs.

    With `--on`, what runs on that machine: each model in the widest format that fits, or one model in every format.

    Example: `roofline models --on rtx-4090 --context 8k --family qwen3`

    Parameters
    ----------
    family:
        Only catalog models whose model_type contains this text, such as `qwen3`.
    size:
        Only models with this many parameters: `7B-80B`, `70B-`, `-500M`, or `8B` for 8B ± 10 %.
    find:
        Only models with this text in their id, scope or source.
    types:
        List the supported model_types.
    tensors:
        List the tensors of the model's safetensors files, read from the headers only, beside those its config implies.
    check:
        Check every config in a folder. Exits with 1 if one is rejected.
    json:
        JSON, as docs/json.md has it.
    md:
        Markdown.
    """
    from roofline.model.load import load
    from roofline.views.text.catalogs import models as views
    from roofline.views.text.tables import markdown, print_json, print_line, print_tables

    filters = {"--family": family, "--size": size, "--find": find}
    asked = {"--types": types or None, "--check": check, **filters}
    for option, value in asked.items():
        if value is not None and (name is not None or tensors or headers or revision is not None):
            raise InputError(option, str(value), "no model and no option of one with it")
    asked_of = {setting: value for setting, value in options_given(runs).items() if value is not False}
    on = asked_of.get("on")
    for setting, value in asked_of.items():
        if on is None or (name is None and setting in OF_ONE):
            raise InputError(option_name(setting), value, f"{'a model and ' if setting in OF_ONE else ''}--on as well")
    if on is not None and (tensors or headers or types or check is not None):
        raise InputError("--on", on, "none of --types, --check, --tensors and --headers with it")
    if sum(map(bool, (types, check is not None, any(v is not None for v in filters.values())))) > 1:
        raise InputError("arguments", "several of them", "one of --types, --check and filters of the catalog")
    if name is None and (tensors or headers or revision is not None):
        raise InputError("name", None, "a model, for --tensors, --headers and --revision")

    result: Result
    tables: tuple[Table, ...]
    if types:
        import roofline.model.families.beyond  # noqa: F401  (registers families that are not decoders)
        from roofline.model.families.registry import FAMILIES, WHOLES

        result = views.ModelTypes(tuple(sorted({*FAMILIES, *WHOLES})))
        tables = (views.types_table(result),)
    elif check is not None:
        from roofline.model.sources.survey import checked_configs

        result = views.ConfigChecks(str(check), checked_configs(check))
        tables = (views.checks_table(result),)
    elif on is not None:
        result = _running(name, asked_of, filters)
        tables = (views.running_table(result),)
    elif name is None:
        from roofline.model.sources.choice import chosen_models

        result = views.Catalog(chosen_models(family, size, find))
        tables = (views.catalog_table(result),)
    elif tensors:
        result = _tensors(name, revision)
        tables = (views.stored_table(result), views.tensors_table(result))
    else:
        result = views.ModelAnswer(load(name, revision=revision, headers=headers, text_only=text_only))
        tables = (views.module_table(result),)
    if json:
        print_json(result.to_dict())
    elif md:
        print_line("\n".join(markdown(table) for table in tables))
    else:
        print_tables(*((table, "") for table in tables))
    if isinstance(result, views.ModelAnswer):
        warn(result.model)
    elif isinstance(result, views.StoredTensors):
        warn(result.as_stored)
    elif isinstance(result, views.ConfigChecks):
        refuse(not result.refused)


def _running(name: str | None, asked: Settings, filters: Mapping[str, str | None]) -> WhatRuns:
    """What runs on a machine: one model in every format, or the filtered catalog; with a progress bar on a terminal."""
    from roofline.doors.cli.processes import each_on_cores
    from roofline.doors.cli.waiting import stop_waiting
    from roofline.model.load import load
    from roofline.model.sources.choice import chosen_models

    if name is not None:
        one: WhatRuns = formats_that_run(load(name), **asked)
        return one
    names = [entry.id for entry in chosen_models(*filters.values())]
    parts: list[WhatRuns] = [what_runs([], **asked)]  # says what is wrong with the settings
    stop_waiting()
    with (
        each_on_cores(partial(_of_one, asked), names) as each,
        progress_bar("models") if sys.stderr.isatty() else nullcontext() as progress,
    ):
        for place, name in enumerate(names):
            if progress is not None:
                progress(place, len(names), name)
            parts.append(next(each))
    return put_together(parts)


def _of_one(asked: Settings, name: str) -> WhatRuns:
    """What runs of one model, in a process of its own perhaps."""
    answer: WhatRuns = what_runs([name], **asked)
    return answer


def _tensors(name: str, revision: str | None) -> StoredTensors:
    """Read the tensors of a model's safetensors files."""
    from roofline.model.checkpoints.checkpoint import tensors_of
    from roofline.model.checkpoints.stored import placed_tensors
    from roofline.model.load import model_from, origin_of
    from roofline.views.text.catalogs.models import StoredTensors

    origin = origin_of(name, revision=revision)
    return StoredTensors(placed_tensors(model_from(origin), tensors_of(origin)))
