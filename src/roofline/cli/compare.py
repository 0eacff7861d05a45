"""`roofline compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from roofline.cli.common import ChipName, EngineName, Form, Formats, LayoutText, ModelArgument, Switch, Whole, keep


def compare(
    model: ModelArgument,
    /,
    *,
    measured: Annotated[
        Path,
        Parameter(
            help="A trace of torch.profiler, an export of Nsight Systems (.sqlite) or Nsight Compute (.csv), or "
            "results of llama-bench, vllm bench, sglang.bench_serving or genai-perf."
        ),
    ],
    on: ChipName,
    batch: Whole = None,
    input: Whole = None,
    context: Whole = None,
    layout: LayoutText = None,
    engine: EngineName = None,
    precision: Formats = None,
    rows: Annotated[Path | None, Parameter(help="Writes what was measured as a table for `roofline accuracy`.")] = None,
    force: Switch = False,
    json: Form = False,
) -> None:
    """Measured beside predicted: a profile op by op, or a benchmark's results; what is lost where.

    Example: `roofline compare meta-llama/Llama-3.1-8B --measured bench.json --on h100-sxm`

    Parameters
    ----------
    batch:
        Sequences of the profiled step, where its shapes do not say it.
    input:
        New tokens of each sequence, of a profiled prefill.
    context:
        Tokens cached, of a profiled decode.
    force:
        Overwrite the file of `--rows`.
    json:
        JSON, as docs/json.md has it.
    """
    from roofline.comparison.comparison import Comparison
    from roofline.comparison.read import compare_measured
    from roofline.comparison.rows import accuracy_table
    from roofline.show.compare import compared_table, results_table, unmatched_table, verdict
    from roofline.show.files import check_file
    from roofline.show.tables import print_json, print_tables, print_text

    step = {"batch": batch, "input": input, "context": context}
    where = {"on": on, "layout": layout, "engine": engine, "precision": precision}
    if rows:
        check_file(rows, force, "--rows")
    answer = compare_measured(model, measured, step, where)
    if rows:
        keep(accuracy_table(answer, {"model": model, **where}, measured.name).encode("utf-8"), rows, force)
    if json:
        print_json(answer.to_dict())
    elif isinstance(answer, Comparison):
        more = [(unmatched_table(answer), "")] if answer.unmatched else []
        print_tables((compared_table(answer), ""), *more)
        print_text(verdict(answer))
    else:
        print_tables((results_table(answer), ""))
