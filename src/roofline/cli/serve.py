"""`roofline serve`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from roofline.cli.common import ModelArgument, warn


def serve(
    model: ModelArgument,
    /,
    *,
    on: str,
    input: int,
    output: int,
    concurrency: int | None = None,
    rate: float | None = None,
    prefix: float = 0.0,
    engine: str = "vllm",
    precision: str | None = None,
    law: str = "calibrated",
    revision: str | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """A server in steady state, at a concurrency or a request rate: TTFT, TPOT, throughput.

    Example: `roofline serve meta-llama/Llama-3.1-8B --on h100-sxm --input 1024 --output 256 --concurrency 32`

    Parameters
    ----------
    on:
        A chip of the catalog, a chip file, or figures such as `peak=1000T,bw=4.8T,mem=141G`.
    input:
        Prompt tokens of a request.
    output:
        Generated tokens of a request.
    concurrency:
        Requests always in flight.
    rate:
        Requests a second, arriving at random; instead of a concurrency.
    prefix:
        Share of each prompt found in the prefix cache.
    engine:
        `vllm`, `trtllm`, `sglang`, or `none` (kernels only).
    precision:
        Formats instead of the checkpoint's: `fp8`, or by role `weights=int4,kv=fp8`.
    law:
        `calibrated`, `ideal` (speed of light), or `fixed(mfu,mbu)`.
    revision:
        A branch, tag or commit on the Hub.
    json:
        Print the documented JSON schema.
    """
    from roofline.estimates.serve import serve as run
    from roofline.model.load import load
    from roofline.show import estimate as views
    from roofline.show.tables import print_line

    built = load(model, revision=revision)
    result = run(
        built, on=on, input=input, output=output, concurrency=concurrency, rate=rate, prefix=prefix, engine=engine,
        precision=precision, law=law,
    )  # fmt: skip
    warn(built)
    if json:
        from json import dumps

        print_line(dumps(views.serving_json(result), indent=2))
    else:
        print_line(views.serving_text(result))
