"""`roofline serve`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

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
    Whole,
    refuse,
    warn,
)
from roofline.cli.layout_options import LayoutOptions
from roofline.cli.servers import DraftOptions, ImageOptions
from roofline.model.errors import InputError

if TYPE_CHECKING:
    from roofline.estimates.memory import Memory
    from roofline.estimates.pools import Pools
    from roofline.estimates.serve import Serving
    from roofline.estimates.settings import Setup
    from roofline.model.model import Model


def serve(
    model: ModelArgument,
    /,
    *,
    on: ChipName,
    spread: LayoutOptions = LayoutOptions(),  # noqa: B008
    input: Needed,
    output_tokens: Needed,
    concurrency: Whole = None,
    rate: float | None = None,
    rounds: Whole = None,
    prefix: float = 0.0,
    formula: Annotated[bool | None, Parameter(negative="--no-formula")] = None,
    drafts: DraftOptions = DraftOptions(),  # noqa: B008
    pictures: ImageOptions = ImageOptions(),  # noqa: B008
    engine: EngineName = None,
    precision: Formats = None,
    law: LawName = "calibrated",
    prefill_layout: str | None = None,
    prefill_on: ChipName | None = None,
    prefill_engine: EngineName = None,
    chips: Whole = None,
    prefills: Whole = None,
    decodes: Whole = None,
    bill: BillOptions = BillOptions(),  # noqa: B008
    revision: Revision = None,
    headers: Headers = False,
    json: Switch = False,
) -> None:
    """A server in steady state, at a concurrency or a request rate: TTFT, TPOT, throughput.

    Exits with 1 where it does not fit.

    Example: `roofline serve meta-llama/Llama-3.1-8B --on h100-sxm --input 1024 --output-tokens 256 --concurrency 32`

    Parameters
    ----------
    input:
        Prompt tokens of a request.
    output_tokens:
        Generated tokens of a request.
    concurrency:
        Requests always in flight, those of all replicas.
    rate:
        Requests a second, arriving at random; instead of a concurrency.
    rounds:
        Requests that each user of a benchmark sends, where all begin at once: TTFT then has its share of the opening.
        Without it, TTFT is that of the steady state.
    prefix:
        Share of each prompt found in the prefix cache.
    formula:
        Use a formula of means, for requests of varying length; its percentiles are approximations. It is the default at
        a concurrency. --no-formula follows equally long requests step by step; at a concurrency all begin at once.
    prefill_layout:
        Layout of replicas that only prefill, beside those of --layout that only decode, on --chips chips.
    prefill_on:
        Chip or cluster of the replicas that only prefill, where it is not that of --on.
    prefill_engine:
        Their engine, where it is not that of --engine.
    chips:
        Chips of both pools, divided for the highest throughput at the concurrency, or the earliest answer at the rate.
    prefills:
        Replicas that only prefill, with --decodes instead of --chips.
    decodes:
        Replicas that only decode.
    json:
        JSON, as docs/json.md has it.
    """
    from roofline.estimates.serve import serve as run
    from roofline.model.load import load
    from roofline.show.serve import pools_text, serving_text

    if (concurrency is None) == (rate is None):
        got = "neither" if rate is None else "both"
        raise InputError("--concurrency and --rate", got, "one of them: requests in flight, or requests a second")
    if formula and prefill_layout is not None:
        raise InputError("--formula", "with --prefill-layout", "one pool; two are a formula in any case")
    speculation, images = drafts.speculation(), pictures.asked()
    own = {"--chips": chips, "--prefills": prefills, "--decodes": decodes, "--prefill-on": prefill_on,
           "--prefill-engine": prefill_engine}  # fmt: skip
    if rounds is not None and prefill_layout is not None:
        raise InputError("--rounds", "with --prefill-layout", "one pool")
    for option, value in own.items():
        if prefill_layout is None and value is not None:
            raise InputError(option, value, "--prefill-layout beside it; without, no replica only prefills")
    if prefill_layout is not None and chips is None and (prefills is None or decodes is None):
        raise InputError("--chips", "nothing", "the chips of both pools, or --prefills and --decodes")
    built = load(model, revision=revision, headers=headers)
    if prefill_layout is not None:
        from roofline.estimates.pools import pools

        both = pools(
            built, on=on, chips=chips, prefill_layout=prefill_layout, decode_layout=spread.text(), input=input,
            output=output_tokens, concurrency=concurrency, rate=rate, prefix=prefix, engine=engine,
            precision=precision, law=law, prefill_on=prefill_on,
            prefill_engine=prefill_engine, prefills=prefills, decodes=decodes, bill=bill.bill(),
            speculation=speculation, images=images,
        )  # fmt: skip
        _print(both, both.limiting, pools_text(both), json, drafts.told(both.model))
        return
    result = run(
        built, on=on, layout=spread.text(), input=input, output=output_tokens, concurrency=concurrency,
        rate=rate, prefix=prefix, formula=formula, engine=engine, precision=precision, law=law, bill=bill.bill(),
        speculation=speculation, images=images, rounds=rounds,
    )  # fmt: skip
    _print(result, (result.asked, result.memory), serving_text(result), json, drafts.told(result.model))


def _print(result: Pools | Serving, fullest: tuple[Setup, Memory], text: str, json: bool, told: Model) -> None:
    """The answer in either form, then warnings, and the exit."""
    from roofline.show.analysis import headline
    from roofline.show.estimate import first_line, misfit
    from roofline.show.tables import print_json, print_text

    asked, memory = fullest
    if json:
        print_json(result.to_dict())
    else:
        first = first_line(asked, memory)
        print_text(f"{first}\n{headline(result.model, result.formats)}\n\n{text}")
    warn(told)
    refuse(result.fits, misfit(memory) if json else "")
