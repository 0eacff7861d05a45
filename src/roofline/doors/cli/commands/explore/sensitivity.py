"""`roofline sensitivity`."""

from __future__ import annotations

from roofline.declared.kinds import Given
from roofline.doors.cli.common import Headers, Json, ModelArgument, Revision, Switch, TextOnly, warn
from roofline.doors.cli.derived import with_settings, with_tables
from roofline.model.load import load
from roofline.views.text.tables import print_json, print_tables, print_text
from roofline.views.text.whatif.sensitivity import elasticity_table, map_table, regime_table, sensitivity_text
from roofline.whatif.query.parsing import ASKED
from roofline.whatif.sensitivity.sensitivity import sensitivity as question


@with_tables
@with_settings(ASKED)
def sensitivity(
    model: ModelArgument,
    /,
    *,
    of: str | None = None,
    map: Switch = False,
    revision: Revision = None,
    headers: Headers = False,
    text_only: TextOnly = False,
    json: Json = False,
    **asked: Given,
) -> None:
    """Percent change in a time or cost per 1 % change in each parameter of chip, work and model, and what limits it.

    The sizes select the estimate, as with `solve`. `roofline plot --kind tornado` and `--kind map` draw it.

    Example: `roofline sensitivity meta-llama/Llama-3.1-8B --on h100-sxm --batch 16 --context 2048`

    Parameters
    ----------
    of:
        A figure: `time`, `ttft`, `tpot`, `latency`, `tokens_per_second`, `usd_per_million_tokens`, …
    map:
        Also show what limits decodes over batch and context.
    """
    built = load(model, revision=revision, headers=headers, text_only=text_only)
    result = question(built, of=of, map=map, **asked)
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
