"""`roofline offload`."""

from __future__ import annotations

from roofline.declared.kinds import Given
from roofline.doors.cli.common import Headers, ModelArgument, Revision, Switch, refuse, warn
from roofline.doors.cli.derived import with_settings
from roofline.inference.offload import Offload
from roofline.inference.offload import offload as question


@with_settings(question)
def offload(
    model: ModelArgument,
    /,
    *,
    revision: Revision = None,
    headers: Headers = False,
    json: Switch = False,
    **given: Given,
) -> None:
    """A model too large for its cards: layers on cards, the rest on the CPU, as llama.cpp splits it.

    Finds the fastest split that fits, or times the one given. Exits with 1 where it does not fit. With `--engine vllm`
    nothing runs on the CPU: the card reads the host's weights over its link in every step (--cpu-offload-gb).

    Example: `roofline offload openai/gpt-oss-120b --on rtx-4090 --host ryzen-9-7950x`

    Parameters
    ----------
    json:
        JSON, as docs/json.md has it.
    """
    from roofline.model.load import load
    from roofline.views.text.inference.offload import offload_table, offload_text
    from roofline.views.text.tables import print_json, print_tables

    built = load(model, revision=revision, headers=headers)
    result: Offload = question(built, **given)
    if json:
        print_json(result.to_dict())
    else:
        print_tables((offload_table(result), offload_text(result)))
    warn(built)
    refuse(result.fits)
