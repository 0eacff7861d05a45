"""`roofline fit`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from roofline.cli.common import ModelArgument, warn


def fit(
    model: ModelArgument,
    /,
    *,
    on: str,
    batch: int = 1,
    context: int | None = None,
    engine: str = "vllm",
    precision: str | None = None,
    chunk: int | None = None,
    revision: str | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Does it fit: weights, KV cache, activations; the largest batch, the longest context, the fewest chips.

    Exits with 1 where it does not, and says what would make it fit.

    Example: `roofline fit meta-llama/Llama-3.1-8B --on l4 --batch 4 --context 8192`

    Parameters
    ----------
    on:
        A chip of the catalog, a chip file, or figures such as `peak=1000T,bw=4.8T,mem=141G`.
    batch:
        Sequences held at once.
    context:
        Tokens of each (the model's context).
    engine:
        Whose memory rule: `vllm`, `trtllm`, `sglang`, or `none` (all of the memory).
    precision:
        Formats instead of the checkpoint's: `fp8`, or by role `weights=int4,kv=fp8`.
    chunk:
        Most new tokens of a step, for the activations (the engine's own).
    revision:
        A branch, tag or commit on the Hub.
    json:
        Print the documented JSON schema.
    """
    from roofline.estimates.memory import fit as run
    from roofline.model.load import load
    from roofline.show import estimate as views
    from roofline.show.tables import print_line

    built = load(model, revision=revision)
    result = run(built, on=on, batch=batch, context=context, engine=engine, precision=precision, chunk=chunk)
    warn(built)
    if json:
        from json import dumps

        print_line(dumps(views.fit_json(result), indent=2))
    else:
        print_line(views.fit_text(result))
    if not result.fits:
        raise SystemExit(1)
