"""`roofline serve`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofline.cli.common import (
    ChipName,
    EngineName,
    Formats,
    Headers,
    LawName,
    LayoutText,
    ModelArgument,
    Needed,
    Revision,
    Switch,
    Whole,
    refuse,
    warn,
)
from roofline.model.errors import InputError

if TYPE_CHECKING:
    from roofline.estimates.pools import Pools
    from roofline.estimates.serve import Serving


def serve(
    model: ModelArgument,
    /,
    *,
    on: ChipName,
    layout: LayoutText = None,
    input: Needed,
    output: Needed,
    concurrency: Whole = None,
    rate: float | None = None,
    prefix: float = 0.0,
    engine: EngineName = None,
    precision: Formats = None,
    law: LawName = "calibrated",
    prefill_layout: LayoutText = None,
    chips: Whole = None,
    revision: Revision = None,
    headers: Headers = False,
    json: Switch = False,
) -> None:
    """A server in steady state, at a concurrency or a request rate: TTFT, TPOT, throughput.

    Exits with 1 where it does not fit.

    Example: `roofline serve meta-llama/Llama-3.1-8B --on h100-sxm --input 1024 --output 256 --concurrency 32`

    Parameters
    ----------
    input:
        Prompt tokens of a request.
    output:
        Generated tokens of a request.
    concurrency:
        Requests always in flight, those of all replicas.
    rate:
        Requests a second, arriving at random; instead of a concurrency.
    prefix:
        Share of each prompt found in the prefix cache.
    prefill_layout:
        Layout of replicas that only prefill, beside those of --layout that only decode, on --chips chips; the
        concurrency is then that of one decode replica.
    chips:
        Chips of both pools.
    json:
        JSON, as docs/json.md has it.
    """
    from roofline.estimates.serve import serve as run
    from roofline.model.load import load
    from roofline.show.serve import pools_text, serving_text

    if (concurrency is None) == (rate is None):
        got = "neither" if rate is None else "both"
        raise InputError("--concurrency and --rate", got, "one of them: requests in flight, or requests a second")
    if prefill_layout is None and chips is not None:
        raise InputError("--chips", chips, "--prefill-layout beside it; without, the chips are those of --layout")
    if prefill_layout is not None:
        if chips is None:
            raise InputError("--chips", "nothing", "the chips of both pools, with --prefill-layout")
        if concurrency is None:
            raise InputError("--rate", rate, "--concurrency of one decode replica, with --prefill-layout")
        if prefix:
            raise InputError("--prefix", prefix, "nothing, with --prefill-layout: its prompts are prefilled whole")
    built = load(model, revision=revision, headers=headers)
    if prefill_layout is not None and chips is not None and concurrency is not None:
        from roofline.estimates.pools import pools

        both = pools(
            built, on=on, chips=chips, prefill_layout=prefill_layout, decode_layout=layout, input=input, output=output,
            concurrency=concurrency, engine=engine, precision=precision, law=law,
        )  # fmt: skip
        _print(both, pools_text(both), json)
        return
    result = run(
        built, on=on, layout=layout, input=input, output=output, concurrency=concurrency, rate=rate, prefix=prefix,
        engine=engine, precision=precision, law=law,
    )  # fmt: skip
    _print(result, serving_text(result), json)


def _print(result: Pools | Serving, text: str, json: bool) -> None:
    """The answer in either form, then warnings, and the exit."""
    from roofline.show.analysis import headline
    from roofline.show.estimate import first_line, misfit
    from roofline.show.tables import print_json, print_text

    if json:
        print_json(result.to_dict())
    else:
        first = first_line(result, result.memory)
        print_text(f"{first}\n{headline(result.model, result.formats)}\n\n{text}")
    warn(result.model)
    refuse(result.fits, misfit(result.memory) if json else "")
