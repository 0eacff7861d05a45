"""`roofline chips`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from roofline.cli.common import FIGURES, Form


def chips(
    name: Annotated[str | None, Parameter(help=f"One to show: {FIGURES}")] = None,
    /,
    *,
    json: Form = False,
    md: Form = False,
) -> None:
    """The catalog of chips, or everything known of one.

    Example: `roofline chips h100-sxm`

    Parameters
    ----------
    json:
        JSON, as docs/json.md has it.
    md:
        Markdown.
    """
    from roofline.machine.chip import chip_named
    from roofline.machine.chip import chips as catalog
    from roofline.show import estimate as views
    from roofline.show.tables import markdown, print_line, print_table

    found = dict(catalog()) if name is None else {name: chip_named(name)}
    if json:
        from json import dumps

        print_line(
            dumps({"schema": "roofline.chips/1", "chips": [views.chip_json(c) for c in found.values()]}, indent=2)
        )
        return
    table = views.chips_table(found) if name is None else views.chip_table(found[name])
    if md:
        print_line(markdown(table))
    else:
        print_table(table)
