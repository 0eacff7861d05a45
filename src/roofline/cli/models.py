"""`roofline models`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from roofline.cli.common import Form, Revision, Switch, warn
from roofline.model.errors import InputError


def models(
    name: Annotated[
        str | None, Parameter(help="A model to show, by any name `analyze` takes; without one, the catalog.")
    ] = None,
    /,
    *,
    types: Switch = False,
    revision: Revision = None,
    json: Form = False,
    md: Form = False,
) -> None:
    """The catalog of published models, or one model's modules and parameters.

    Example: `roofline models meta-llama/Llama-3.1-8B`

    Parameters
    ----------
    types:
        List the model_types that are understood.
    json:
        JSON, as docs/json.md has it.
    md:
        Markdown.
    """
    from roofline.model.load import catalog, load
    from roofline.show import models as views
    from roofline.show.tables import markdown, print_json, print_line, print_table

    if types and name is not None:
        raise InputError("--types", name, "no model beside it")
    result: views.ModelTypes | views.Catalog | views.ModelAnswer
    if types:
        from roofline.model.families import FAMILIES

        result = views.ModelTypes(tuple(sorted(FAMILIES)))
        table = views.types_table(result)
    elif name is None:
        result = views.Catalog(tuple(catalog().values()))
        table = views.catalog_table(result)
    else:
        result = views.ModelAnswer(load(name, revision=revision))
        table = views.module_table(result)
    if json:
        print_json(result.to_dict())
    elif md:
        print_line(markdown(table))
    else:
        print_table(table)
    if isinstance(result, views.ModelAnswer):
        warn(result.model)
