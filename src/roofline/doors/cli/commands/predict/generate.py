"""`roofline generate`."""

from __future__ import annotations

from roofline.doors.cli.common import Json, refuse, warn
from roofline.doors.cli.derived import command
from roofline.doors.cli.drafts import with_its_drafts
from roofline.inference.generate import Generation
from roofline.inference.generate import generate as question
from roofline.views.text.inference.analysis import headline
from roofline.views.text.inference.estimate import first_line, misfit
from roofline.views.text.inference.generate import generation_text
from roofline.views.text.tables import print_json, print_text


def _show(result: Generation, *, json: Json = False) -> None:
    if json:
        print_json(result.to_dict())
    else:
        first = first_line(result, result.memory)
        print_text(f"{first}\n{headline(result.model, result.formats)}\n\n{generation_text(result)}")
    warn(with_its_drafts(result.model, result.speculation))
    refuse(result.fits, misfit(result.memory) if json else "")


generate = command(
    question,
    _show,
    """A static batch from prompt to last token: TTFT, TPOT, latency, tokens per second.

    Exits with 1 where it does not fit.

    Example: `roofline generate meta-llama/Llama-3.1-8B --on h100-sxm --batch 16 --input 1024 --output-tokens 256`
    """,
)
