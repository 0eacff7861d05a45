"""`roofline generate`."""

from __future__ import annotations

from roofline.cli.billing import BillOptions
from roofline.cli.common import (
    ChipName,
    EngineName,
    Formats,
    Headers,
    LawName,
    ModelArgument,
    Needed,
    Revision,
    Switch,
    refuse,
    warn,
)
from roofline.cli.layout_options import LayoutOptions
from roofline.cli.servers import DraftOptions, with_its_drafts


def generate(
    model: ModelArgument,
    /,
    *,
    on: ChipName,
    spread: LayoutOptions = LayoutOptions(),  # noqa: B008
    input: Needed,
    output_tokens: Needed,
    batch: Needed = 1,
    engine: EngineName = None,
    precision: Formats = None,
    law: LawName = "calibrated",
    drafts: DraftOptions = DraftOptions(),  # noqa: B008
    bill: BillOptions = BillOptions(),  # noqa: B008
    revision: Revision = None,
    headers: Headers = False,
    json: Switch = False,
) -> None:
    """A static batch from prompt to last token: TTFT, TPOT, latency, tokens per second.

    Exits with 1 where it does not fit.

    Example: `roofline generate meta-llama/Llama-3.1-8B --on h100-sxm --batch 16 --input 1024 --output-tokens 256`

    Parameters
    ----------
    input:
        Prompt tokens of each sequence.
    output_tokens:
        Generated tokens of each sequence.
    batch:
        Sequences that start together, those of all replicas.
    json:
        JSON, as docs/json.md has it.
    """
    from roofline.estimates.generate import generate as run
    from roofline.model.load import load
    from roofline.show.analysis import headline
    from roofline.show.estimate import first_line, misfit
    from roofline.show.generate import generation_text
    from roofline.show.tables import print_json, print_text

    built = load(model, revision=revision, headers=headers)
    result = run(
        built, on=on, layout=spread.text(), batch=batch, input=input, output=output_tokens, engine=engine,
        precision=precision, law=law, speculation=drafts.speculation(), bill=bill.bill(),
    )  # fmt: skip
    if json:
        print_json(result.to_dict())
    else:
        first = first_line(result, result.memory)
        print_text(f"{first}\n{headline(result.model, result.formats)}\n\n{generation_text(result)}")
    warn(with_its_drafts(result.model, result.speculation))
    refuse(result.fits, misfit(result.memory) if json else "")
