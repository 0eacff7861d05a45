"""`roofline serve`."""

from __future__ import annotations

from roofline.doors.cli.common import Json, refuse, warn
from roofline.doors.cli.derived import command
from roofline.doors.cli.drafts import with_its_drafts
from roofline.serving.pools import Pools
from roofline.serving.serve import serve as question
from roofline.serving.server import Serving
from roofline.views.text.inference.analysis import headline
from roofline.views.text.inference.estimate import first_line, misfit
from roofline.views.text.serving.serve import pools_text, serving_text
from roofline.views.text.tables import print_json, print_text


def _show(result: Serving | Pools, *, json: Json = False) -> None:
    asked, memory = result.limiting if isinstance(result, Pools) else (result.asked, result.memory)
    if json:
        print_json(result.to_dict())
    else:
        text = pools_text(result) if isinstance(result, Pools) else serving_text(result)
        print_text(f"{first_line(asked, memory)}\n{headline(result.model, result.formats)}\n\n{text}")
    warn(with_its_drafts(result.model, result.speculation))
    refuse(result.fits, misfit(memory) if json else "")


serve = command(
    question,
    _show,
    """A server in steady state, at a concurrency or a request rate: TTFT, TPOT, throughput.

    Exits with 1 where it does not fit.

    Example: `roofline serve meta-llama/Llama-3.1-8B --on h100-sxm --input 1024 --output-tokens 256 --concurrency 32`
    """,
)
