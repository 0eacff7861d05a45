"""`roofline generate`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from roofline.cli.common import ModelArgument, warn


def generate(
    model: ModelArgument,
    /,
    *,
    on: str,
    input: int,
    output: int,
    batch: int = 1,
    engine: str = "none",
    precision: str | None = None,
    law: str = "calibrated",
    draft: str | None = None,
    draft_length: int | None = None,
    acceptance: float = 0.7,
    revision: str | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """A static batch from prompt to last token: TTFT, TPOT, latency, tokens per second.

    Example: `roofline generate meta-llama/Llama-3.1-8B --on h100-sxm --batch 16 --input 1024 --output 256`

    Parameters
    ----------
    on:
        A chip of the catalog, a chip file, or figures such as `peak=1000T,bw=4.8T,mem=141G`.
    input:
        Prompt tokens of each sequence.
    output:
        Generated tokens of each sequence.
    batch:
        Sequences that start together.
    engine:
        Adds its host time and memory rule: `vllm`, `trtllm`, `sglang`; `none` is kernels only.
    precision:
        Formats instead of the checkpoint's: `fp8`, or by role `weights=int4,kv=fp8`.
    law:
        `calibrated`, `ideal` (speed of light), or `fixed(mfu,mbu)`.
    draft:
        A model that proposes tokens for this one to verify; `none` where proposing is free (n-grams).
    draft_length:
        Tokens proposed a step (3 where a draft is given).
    acceptance:
        Probability that a proposed token is right.
    revision:
        A branch, tag or commit on the Hub.
    json:
        Print the documented JSON schema.
    """
    from roofline.estimates.generate import Speculation
    from roofline.estimates.generate import generate as run
    from roofline.model.load import load
    from roofline.show import estimate as views
    from roofline.show.tables import print_line

    built = load(model, revision=revision)
    speculation = None
    if draft is not None or draft_length is not None:
        proposer = None if draft in (None, "none") else load(draft)
        speculation = Speculation(acceptance, 3 if draft_length is None else draft_length, proposer)
    result = run(
        built, on=on, batch=batch, input=input, output=output, engine=engine, precision=precision, law=law,
        speculation=speculation,
    )  # fmt: skip
    warn(built)
    if json:
        from json import dumps

        print_line(dumps(views.generation_json(result), indent=2))
    else:
        print_line(views.generation_text(result))
