"""`roofline encode`."""

from __future__ import annotations

from roofline.doors.cli.common import Json, refuse, warn
from roofline.doors.cli.derived import command
from roofline.inference.encode import Encoding
from roofline.inference.encode import encode as question
from roofline.views.text.inference.analysis import headline
from roofline.views.text.inference.encode import encoding_text
from roofline.views.text.inference.estimate import first_line, misfit
from roofline.views.text.tables import print_json, print_text


def show(result: Encoding, *, json: Json = False) -> None:
    """Print an encoding, and exit with 1 where it does not fit."""
    if json:
        print_json(result.to_dict())
    else:
        first = first_line(result, result.memory)
        print_text(f"{first}\n{headline(result.model, result.formats)}\n\n{encoding_text(result)}")
    warn(result.model)
    refuse(result.fits, misfit(result.memory) if json else "")


encode = command(
    question,
    show,
    """A batch of inputs that a model reads as a whole: texts to embed, images, sound, or latents to denoise.

    Latency, inputs per second, memory, cost and energy of each input. Exits with 1 where it does not fit.

    Example: `roofline encode BAAI/bge-base-en-v1.5 --on h100-sxm --batch 64 --input 512`
    """,
)
