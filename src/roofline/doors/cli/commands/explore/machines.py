"""`roofline machines`."""

from __future__ import annotations

from roofline.declared.kinds import Given
from roofline.doors.cli.common import Headers, Json, ModelArgument, Revision, TextOnly, machine_progress, refuse, warn
from roofline.doors.cli.derived import with_settings, with_tables
from roofline.model.load import load
from roofline.views.text.tables import print_json, print_tables, print_text
from roofline.views.text.whatif.machines import demand_text, machines_table, notes_text
from roofline.whatif.machine_choice import machines as question


@with_tables
@with_settings(question, several=("on",))
def machines(
    model: ModelArgument,
    /,
    *,
    revision: Revision = None,
    headers: Headers = False,
    text_only: TextOnly = False,
    json: Json = False,
    **asked: Given,
) -> None:
    """Which machine to rent: for so many users or requests a day, one row a machine, the cheapest first.

    `≈` marks machines as cheap as the cheapest, within the error of its times. Exits with 1 where none serves the
    demand.

    Example: `roofline machines Qwen/Qwen3-32B --users 200 --work chat`
    """
    built = load(model, revision=revision, headers=headers, text_only=text_only)
    result = question(built, progress=machine_progress(), **asked)
    if json:
        print_json(result.to_dict())
    else:
        print_text(demand_text(result))
        print_tables((machines_table(result), notes_text(result)))
    warn(result.model)
    refuse(result.found)
