"""`roofline explain`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from roofline.cli.common import CountingName, ModelArgument, StepOptions, TrafficName, warn
from roofline.model.errors import InputError


def explain(
    model: ModelArgument,
    op: Annotated[
        str | None, Parameter(help="An op's name as `roofline analyze` prints it; without one, their list.")
    ] = None,
    /,
    *,
    step: StepOptions = StepOptions(),  # noqa: B008
    counting: CountingName = "standard",
    traffic: TrafficName = "fused",
    precision: str | None = None,
    revision: str | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """The formula of one op, the numbers put in, and its source.

    Example: `roofline explain meta-llama/Llama-3.1-8B attention --decode 4096 --batch 32`

    Parameters
    ----------
    counting:
        How FLOPs are counted: `standard`, `torch`, `original`.
    traffic:
        What crosses memory: `fused`, `unfused`, `floor`, `original`.
    precision:
        Formats instead of the checkpoint's: `fp8`, or by role `weights=int4,kv=fp8`.
    revision:
        A branch, tag or commit on the Hub.
    json:
        Print the documented JSON schema.
    """
    from roofline.model.load import load
    from roofline.show import explain as views
    from roofline.show.tables import print_line
    from roofline.work.analysis import analyze as run
    from roofline.work.explain import explain as work

    built = load(model, revision=revision)
    analyses = [
        (name, run(built, s, counting=counting, traffic=traffic, precision=precision)) for name, s in step.steps()
    ]
    if op is None:
        names = list(dict.fromkeys(row.name for _, a in analyses for row in a.ops))
        raise InputError("op", "nothing", f"an op of this model: {', '.join(names)}")
    has = [(name, a) for name, a in analyses if any(row.name == op for row in a.ops)] or analyses[:1]
    explained = [(name, work(a, op)) for name, a in has]
    warn(built)
    if json:
        from json import dumps

        print_line(dumps(views.as_json(built, explained), indent=2))
        return
    for name, explanation in explained:
        print_line(views.text(name, explanation))
