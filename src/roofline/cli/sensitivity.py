"""`roofline sensitivity`."""

from __future__ import annotations

from roofline.cli.common import (
    ChipName,
    EngineName,
    Formats,
    Headers,
    LawName,
    ModelArgument,
    Revision,
    Switch,
    Whole,
    warn,
)
from roofline.cli.layout_options import LayoutOptions


def sensitivity(
    model: ModelArgument,
    /,
    *,
    on: ChipName,
    of: str | None = None,
    spread: LayoutOptions = LayoutOptions(),  # noqa: B008
    batch: Whole = None,
    context: Whole = None,
    input: Whole = None,
    output_tokens: Whole = None,
    concurrency: Whole = None,
    rate: float | None = None,
    tokens: Whole = None,
    engine: EngineName = None,
    precision: Formats = None,
    law: LawName = "calibrated",
    map: Switch = False,
    revision: Revision = None,
    headers: Headers = False,
    json: Switch = False,
) -> None:
    """Percent of change in a time or a cost for 1 % of change in a parameter of chip, work or model; what limits it.

    The sizes choose the estimate, as with `solve`. `roofline plot --kind tornado` and `--kind map` draw it.

    Example: `roofline sensitivity meta-llama/Llama-3.1-8B --on h100-sxm --batch 16 --context 2048`

    Parameters
    ----------
    of:
        A figure: `time`, `ttft`, `tpot`, `latency`, `tokens_per_second`, `usd_per_million_tokens`, …
    batch:
        Sequences of all replicas (1).
    context:
        Cached tokens: of a decode step.
    input:
        Prompt tokens: alone of a prefill.
    output_tokens:
        Generated tokens: of a static batch, or with a load of a server.
    concurrency:
        Requests always in flight: of a server.
    rate:
        Requests a second: of a server.
    tokens:
        Tokens of a training sequence: of a step of training.
    map:
        What limits decodes over batch and context too.
    json:
        JSON, as docs/json.md has it.
    """
    from roofline.explore.elasticity import sensitivity as run
    from roofline.model.load import load
    from roofline.show.sensitivity import elasticity_table, map_table, regime_table, sensitivity_text
    from roofline.show.tables import print_json, print_tables, print_text

    built = load(model, revision=revision, headers=headers)
    known = {
        "layout": spread.text(), "batch": batch, "context": context, "input": input, "output": output_tokens,
        "concurrency": concurrency, "rate": rate, "tokens": tokens, "engine": engine, "precision": precision,
    }  # fmt: skip
    given = {name: value for name, value in known.items() if value is not None}
    result = run(built, of=of, map=map, on=on, law=law, **given)
    if json:
        print_json(result.to_dict())
    else:
        print_text(f"{sensitivity_text(result)}\n")
        tables = [(elasticity_table(result), "")]
        if result.regimes:
            tables.append((regime_table(result), "shares of the expected time, by what limits each op"))
        if result.map is not None:
            note = "what limits a decode at each batch and context: Compute, Memory, Network, Latency; (…) does not fit"
            tables.append((map_table(result.map), note))
        print_tables(*tables)
    warn(built)
