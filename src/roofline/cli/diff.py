"""`roofline diff`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from roofline.cli.common import EngineName, Switch, refuse, warn

Spec = Annotated[
    str,
    Parameter(
        help="`MODEL`, `MODEL@CHIP`, either with `:key=value,…` of on, layout, precision, engine, batch (of all "
        "replicas), context (of the decode), prompt (of the prefill), train (tokens of a sequence), step "
        "(`prefill`, `decode` or `training` alone); values with commas in brackets: `:layout=[tp=8,sp],batch=32`."
    ),
]


def diff(a: Spec, b: Spec, /, *, engine: EngineName = None, json: Switch = False) -> None:
    """Two models, chips, formats, layouts or steps side by side: what changes, and what the change comes from.

    `--engine` is for the sides that name none themselves. Exits with 1 where a side does not fit.

    Example: `roofline diff meta-llama/Llama-3.1-8B@a100-sxm-80gb meta-llama/Llama-3.1-8B@h100-sxm:precision=fp8`

    Parameters
    ----------
    json:
        JSON, as docs/json.md has it.
    """
    from roofline.explore.difference import diff as run
    from roofline.show.difference import causes_text, difference_table, facts_table, misfit_text, phases_engines_text
    from roofline.show.tables import print_json, print_line, print_tables

    result = run(a, b, engine)
    if json:
        print_json(result.to_dict())
    else:
        if not result.fits:
            print_line(f"{misfit_text(result)}\n")
        engines = phases_engines_text(result)
        if engines:
            print_line(f"{engines}\n")
        print_tables((difference_table(result), ""))
        print_line("")
        if result.a.model.name != result.b.model.name:
            print_tables((facts_table(result), ""))
            print_line("")
        print_line(causes_text(result))
    warn(result.a.model)
    if result.b.model.name != result.a.model.name:
        warn(result.b.model)
    refuse(result.fits, misfit_text(result) if json else "")
