"""`roofline offload`."""

from __future__ import annotations

from roofline.declared.kinds import Given
from roofline.doors.cli.common import Headers, ModelArgument, Revision, Switch, TextOnly, refuse, warn
from roofline.doors.cli.derived import with_settings, with_tables
from roofline.inference.offload import Offload
from roofline.inference.offload import offload as question


@with_tables
@with_settings(question)
def offload(
    model: ModelArgument,
    /,
    *,
    revision: Revision = None,
    headers: Headers = False,
    text_only: TextOnly = False,
    json: Switch = False,
    **given: Given,
) -> None:
    """A model too large for its cards: some layers on cards, the rest on the CPU, as in llama.cpp.

    Finds the fastest split that fits, or times the given one. Exits with 1 if it does not fit. With `--engine vllm`
    nothing runs on the CPU: in every step the card reads weights from host memory over its link (--cpu-offload-gb).

    Example: `roofline offload openai/gpt-oss-120b --on rtx-4090 --host ryzen-9-7950x`

    Parameters
    ----------
    json:
        JSON, as docs/json.md has it.
    """
    from roofline.model.load import load
    from roofline.views.text.inference.offload import offload_table, offload_text
    from roofline.views.text.tables import print_json, print_tables

    built = load(model, revision=revision, headers=headers, text_only=text_only)
    result: Offload = question(built, **given)
    if json:
        print_json(result.to_dict())
    else:
        print_tables((offload_table(result), offload_text(result)))
    warn(built)
    refuse(result.fits)
