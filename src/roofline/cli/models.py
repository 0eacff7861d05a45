"""`roofline models`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from roofline.cli.common import warn
from roofline.model.errors import InputError


def models(
    name: Annotated[
        str | None, Parameter(help="A model to show, by any name `analyze` takes; without one, the catalog.")
    ] = None,
    /,
    *,
    types: Annotated[bool, Parameter(negative="")] = False,
    revision: str | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
    md: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """The catalog of published models, or one model's modules and parameters.

    Example: `roofline models meta-llama/Llama-3.1-8B`

    Parameters
    ----------
    types:
        List the model_types that are understood.
    revision:
        A branch, tag or commit on the Hub.
    json:
        Print the documented JSON schema.
    md:
        Print Markdown.
    """
    from roofline.model.load import catalog, load
    from roofline.show import models as views
    from roofline.show.tables import markdown, print_line, print_table

    if types and name is not None:
        raise InputError("--types", name, "no model beside it")
    if json and md:
        raise InputError("--md", "--json", "one of --json and --md")
    if types:
        from roofline.model.families import FAMILIES

        data, table = views.types_json(FAMILIES), views.types_table(FAMILIES)
    elif name is None:
        entries = catalog()
        data, table = views.catalog_json(entries), views.catalog_table(entries)
    else:
        model = load(name, revision=revision)
        warn(model)
        data, table = views.model_json(model), views.module_table(model)
    if json:
        from json import dumps

        print_line(dumps(data, indent=2))
    elif md:
        print_line(markdown(table))
    else:
        print_table(table)
