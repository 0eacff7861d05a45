"""`roofline fit`."""

from __future__ import annotations

from roofline.doors.cli.common import Json, refuse, warn
from roofline.doors.cli.derived import command
from roofline.inference.fit import Fit
from roofline.inference.fit import fit as question
from roofline.views.text.inference.analysis import headline
from roofline.views.text.inference.estimate import first_line
from roofline.views.text.inference.fit import fit_text
from roofline.views.text.tables import print_json, print_text


def _show(result: Fit, *, json: Json = False) -> None:
    if json:
        print_json(result.to_dict())
    else:
        first = first_line(result, result.memory)
        print_text(f"{first}\n{headline(result.model, result.formats)}\n\n{fit_text(result)}")
    warn(result.model)
    refuse(result.fits)


fit = command(
    question,
    _show,
    """Does it fit: weights, KV cache, activations; the largest batch, the longest context, the fewest chips.

    Exits with 1 where it does not, and says what would make it fit. Without `--context` it says how long a context fits
    beside the weights, and exits with 0 if that is 1,024 tokens or the model's context.

    Example: `roofline fit meta-llama/Llama-3.1-8B --on l4 --batch 4 --context 4096`
    """,
)
