"""`roofline fit`."""

from __future__ import annotations

from roofline.cli.common import (
    ChipName,
    EngineName,
    Formats,
    Headers,
    ModelArgument,
    Needed,
    Revision,
    Switch,
    Whole,
    refuse,
    warn,
)
from roofline.cli.layout_options import LayoutOptions


def fit(
    model: ModelArgument,
    /,
    *,
    on: ChipName,
    spread: LayoutOptions = LayoutOptions(),  # noqa: B008
    batch: Needed = 1,
    context: Whole = None,
    engine: EngineName = None,
    precision: Formats = None,
    chunk: Whole = None,
    revision: Revision = None,
    headers: Headers = False,
    json: Switch = False,
) -> None:
    """Does it fit: weights, KV cache, activations; the largest batch, the longest context, the fewest chips.

    Exits with 1 where it does not, and says what would make it fit. Without `--context` it says how long a context fits
    beside the weights, and exits with 0 if that is 1,024 tokens or the model's context.

    Example: `roofline fit meta-llama/Llama-3.1-8B --on l4 --batch 4 --context 4096`

    Parameters
    ----------
    batch:
        Sequences held at once, those of all replicas.
    context:
        Tokens of each (the longest that fits, at most the model's context).
    chunk:
        Most new tokens of a step, for the activations (the engine's own).
    json:
        JSON, as docs/json.md has it.
    """
    from roofline.estimates.fit import fit as run
    from roofline.model.load import load
    from roofline.show.analysis import headline
    from roofline.show.estimate import first_line
    from roofline.show.fit import fit_text
    from roofline.show.tables import print_json, print_text

    built = load(model, revision=revision, headers=headers)
    result = run(
        built,
        on=on,
        layout=spread.text(),
        batch=batch,
        context=context,
        engine=engine,
        precision=precision,
        chunk=chunk,
    )
    if json:
        print_json(result.to_dict())
    else:
        first = first_line(result, result.memory)
        print_text(f"{first}\n{headline(result.model, result.formats)}\n\n{fit_text(result)}")
    warn(built)
    refuse(result.fits)
