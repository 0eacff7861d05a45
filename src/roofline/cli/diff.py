"""`roofline diff`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from roofline.cli.common import Flag, warn

Spec = Annotated[
    str,
    Parameter(
        help="`MODEL`, `MODEL@CHIP`, either with `:key=value,…` of on, layout, precision, engine, batch (of a replica, "
        "in training of all), context (of the decode), prompt (of the prefill), train (tokens of a sequence), step "
        "(`prefill`, `decode` or `training` alone); values with commas in brackets: `:layout=[tp=8,sp],batch=32`."
    ),
]


def diff(a: Spec, b: Spec, /, *, json: Flag = False) -> None:
    """Two models, chips, formats, layouts or steps side by side: what changes, and what the change comes from.

    Example: `roofline diff meta-llama/Llama-3.1-8B@a100-sxm-80gb meta-llama/Llama-3.1-8B@h100-sxm:precision=fp8`

    Parameters
    ----------
    json:
        JSON, as docs/json.md has it.
    """
    from roofline.explore.difference import differ, side
    from roofline.show.difference import causes_text, difference_json, difference_table, facts_table
    from roofline.show.tables import print_json, print_line, print_tables

    found = differ(side(a), side(b))
    if json:
        print_json(difference_json(found))
    else:
        print_tables((difference_table(found), ""))
        print_line("")
        if found.a.model.name != found.b.model.name:
            print_tables((facts_table(found), ""))
            print_line("")
        print_line(causes_text(found))
    warn(found.a.model)
    if found.b.model.name != found.a.model.name:
        warn(found.b.model)
