"""`roofline explain`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from roofline.declared.errors import InputError
from roofline.declared.kinds import Given
from roofline.declared.question import question_settings
from roofline.doors.cli.common import Headers, Json, ModelArgument, Revision, TextOnly, say, steps_asked, warn
from roofline.doors.cli.derived import with_settings
from roofline.extras import install_line
from roofline.work.analysis import analyze

OPTIONS = question_settings(analyze)
"""Settings of the analysis that contains the op."""


@with_settings(OPTIONS)
def explain(
    model: ModelArgument,
    op: Annotated[str | None, Parameter(help="An op's name, as `roofline analyze` prints it.")] = None,
    /,
    *,
    revision: Revision = None,
    headers: Headers = False,
    text_only: TextOnly = False,
    json: Json = False,
    **asked: Given,
) -> None:
    """The formulas of one op's FLOPs and bytes, with this model's numbers and the sources.

    Example: `roofline explain meta-llama/Llama-3.1-8B attention --context 4096 --batch 32`
    """
    from roofline.model.load import load
    from roofline.views.text.inference.explain import Explanations, NamedExplanation, explanation_text
    from roofline.views.text.tables import print_json, print_text
    from roofline.work.explain import explained, has_algebra

    if not has_algebra():
        say(f"numbers alone; formulas in symbols need SymPy: {install_line('algebra')}")

    built = load(model, revision=revision, headers=headers, text_only=text_only)
    analyses = [(name, analyze(built, s, **asked)) for name, s in steps_asked(asked, built)]
    if op is None:
        names = list(dict.fromkeys(row.name for _, a in analyses for row in a.ops))
        raise InputError("op", "nothing", f"an op of this model: {', '.join(names)}")
    has = [(name, a) for name, a in analyses if any(row.name == op for row in a.ops)] or analyses[:1]
    result = Explanations(built, tuple(NamedExplanation(name, explained(a, op)) for name, a in has))
    if json:
        print_json(result.to_dict())
    else:
        pairs = zip(result.steps, has, strict=True)
        print_text("\n\n".join(explanation_text(s.name, a.step, s.explanation) for s, (_, a) in pairs))
    warn(built)
