"""`roofline answer`, and `roofline MODEL`."""

from __future__ import annotations

from roofline.declared.errors import InputError
from roofline.declared.kinds import Given
from roofline.declared.question import question_settings
from roofline.doors.cli.common import Headers, Json, ModelArgument, Revision, TextOnly, machine_progress, refuse, warn
from roofline.doors.cli.derived import option_name, with_settings, with_tables
from roofline.model.load import load
from roofline.model.model import Model
from roofline.views.text.tables import print_json, print_tables, print_text
from roofline.views.text.whatif.answer import UNITS, answer_heading, answers_table, machine_text
from roofline.whatif.answer import answer as question


def _whole_inputs(model: Model, asked: dict[str, Given], json: bool) -> None:
    """The first answer about a model that reads inputs as a whole: one batch on the machine, as `encode` says."""
    from roofline.doors.cli.commands.predict.encode import show
    from roofline.inference.encode import encode

    machines = asked.pop("on", None) or ["h100-sxm"]
    for name in asked.keys() - question_settings(encode).keys():
        raise InputError(option_name(name), asked[name], f"a setting of `encode`: {model.name} generates no tokens")
    for machine in machines:
        show(encode(model, on=machine, **asked), json=json)


@with_tables
@with_settings(question, several=("on",))
def answer(
    model: ModelArgument,
    /,
    *,
    revision: Revision = None,
    headers: Headers = False,
    text_only: TextOnly = False,
    json: Json = False,
    **asked: Given,
) -> None:
    """The first answer: does it fit, how fast, what limits it, what does it cost, what would help.

    `roofline MODEL` is the same. Without `--on` it has a row for this machine and three usual ones. Exits with 1 where
    the model fits on none of the machines.

    Example: `roofline meta-llama/Llama-3.1-8B --on h100-sxm`
    """
    built = load(model, revision=revision, headers=headers, text_only=text_only)
    if "decode" not in built.steps:
        _whole_inputs(built, asked, json)
        return
    result = question(built, progress=machine_progress(), **asked)
    if json:
        print_json(result.to_dict())
    elif asked.get("on") is None:
        print_text(answer_heading(result))
        print_tables((answers_table(result), UNITS))
        print_text("more of one machine: --on MACHINE; its name: roofline chips")
    else:
        print_text("\n\n".join([answer_heading(result), *(machine_text(result, m) for m in result.machines)]))
    warn(result.model)
    refuse(result.fits)
