"""`roofline sweep`."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from roofline.declared.errors import InputError
from roofline.declared.kinds import Given
from roofline.doors.cli.common import (
    CLUSTER,
    Headers,
    Json,
    Needed,
    OutFile,
    Revision,
    Several,
    Switch,
    TextOnly,
    progress_bar,
    refuse,
    warn,
)
from roofline.doors.cli.derived import options_given, with_settings, with_tables
from roofline.whatif.query.axes import AXES, NUMBERS

if TYPE_CHECKING:
    from roofline.views.text.whatif.sweep import Order
    from roofline.whatif.query.columns import Rows
    from roofline.whatif.query.evaluate import Sweeper
    from roofline.whatif.sweep.sweep import Sweep

PATIENCE = 1.0
"""Seconds before a progress bar is shown."""
MOST_SHOWN = 1000


@with_tables
@with_settings(AXES, several=[name for name in AXES if name not in NUMBERS])
def sweep(
    *models: Annotated[str, Parameter(help="Hub ids, catalog names, config.json files or their folders.")],
    on: Annotated[list[str], Parameter(help=f"{CLUSTER} One or several.", consume_multiple=True, negative="")],
    phase: Literal["decode", "prefill", "generate", "serve", "train"] = "decode",
    figures: Several = None,
    where: str = "",
    columns: Several = None,
    sort: str | None = None,
    rows: Needed = 20,
    out: OutFile = None,
    resume: Switch = False,
    cluster: str | None = None,
    plot: Path | None = None,
    x: str | None = None,
    y: str | None = None,
    theme: Literal["light", "dark"] = "light",
    revision: Revision = None,
    headers: Headers = False,
    text_only: TextOnly = False,
    force: Switch = False,
    json: Json = False,
    **axes: Given,
) -> None:
    """Tabulate estimates over models, chips, layouts, formats, engines, batches, contexts and rates.

    Each option is an axis with one or more values. Numbers: `8`, `1,2,4`, `1..512` (each), `1..512:x2`,
    `16..256:+16`; k is 1,000 and Ki 1,024. Layouts: `tp=1,2,4,8,pp=1,2`, every combination of degrees. Other axes take
    one word per value, as in `--precision bf16 fp8`; `checkpoint` is the checkpoint's own format.

    Invalid combinations are skipped and counted. Exits with 1 if no row is left.

    Example: `roofline sweep meta-llama/Llama-3.1-8B --on h100-sxm b200 --tp 1,2 --batch 1..64:x2 --context 1Ki,8Ki`

    Parameters
    ----------
    phase:
        What is estimated. `decode`: over batch and context. `prefill`: over batch and input. `generate`: over batch,
        input and output-tokens. `serve`: over input, output-tokens, prefix and concurrency or rate. `train`: over batch
        and tokens.
    figures:
        Variations of the chips: `bw=2T,4T,8T` makes three of each chip.
    where:
        A condition on columns that selects rows: `fits and tpot < 30ms`, `mfu > 40% or memory_total < 60GB`.
    columns:
        Columns to show beside the axes, instead of the default ones; or `all`.
    sort:
        Column to sort by, ascending (`tpot`) or, with a minus before it, descending (`--sort=-tokens_per_second`).
    rows:
        Number of rows to show.
    out:
        Write all rows to a `.csv`, `.parquet` or `.arrow` file (an Arrow stream), piece by piece, in little memory. The
        last two need Polars.
    resume:
        Continue an --out file of the same sweep after it was killed; the result is byte-identical.
    cluster:
        Evaluate on Dask: `local`, or the address of a scheduler (with the package distributed).
    plot:
        A picture of one column over one axis, with a line per combination of the others: `.png`, `.svg`, `.pdf`.
    x:
        The axis of the picture (default: the longest).
    y:
        The column of the picture (default: the first).
    theme:
        Light or dark background of the picture.
    force:
        Overwrite files, and restart a killed sweep.
    """
    from roofline.model.load import load
    from roofline.views.files.atomic import check_ending
    from roofline.views.files.sweep_file import ENDINGS
    from roofline.views.text.whatif.sweep import order_named, size_text
    from roofline.whatif.query.axes import space_of
    from roofline.whatif.query.evaluate import sweeper_of
    from roofline.whatif.sweep.sweep import MOST_IN_MEMORY, MOST_POINTS, check_size, split_names

    if not models:
        raise InputError("MODEL", "nothing", "a model")
    if not 1 <= rows <= MOST_SHOWN:
        raise InputError("--rows", rows, f"a whole number from 1 to {MOST_SHOWN}")
    if out is not None and (json or plot is not None):
        raise InputError("--out", str(out), "either a file of rows, or --json or --plot")
    if resume and out is None:
        raise InputError("--resume", "nothing", "--out with it")
    if plot is not None:
        _check_picture(plot, force)
    if out is not None:
        check_ending(out, ENDINGS, "--out")
    if "precision" in axes:
        axes["precision"] = [None if word == "checkpoint" else word for word in axes["precision"]]
    built = [load(model, revision=revision, headers=headers, text_only=text_only) for model in models]
    space = space_of(built, phase, {"on": on, **options_given({**axes, "figures": figures})})
    check_size(space, MOST_POINTS if out is not None else MOST_IN_MEMORY)
    sweeper = sweeper_of(space, split_names(columns), where)
    order = order_named(sort, rows, sweeper)
    print(size_text(space), file=sys.stderr)
    if out is not None:
        _to_file(sweeper, order, _Target(out, resume, force, cluster))
    else:
        _in_memory(sweeper, order, cluster, _Shown(json, plot, x, y, theme, force))
    for model in built:
        warn(model)


@dataclass(frozen=True)
class _Target:
    """Options of the output: file, resuming and cluster."""

    out: Path
    resume: bool
    force: bool
    cluster: str | None


@dataclass(frozen=True)
class _Shown:
    """Options for showing rows that are held in memory."""

    json: bool
    plot: Path | None
    x: str | None
    y: str | None
    theme: Literal["light", "dark"]
    force: bool


def _in_memory(sweeper: Sweeper, order: Order, cluster: str | None, shown: _Shown) -> None:
    from roofline.views.text.tables import print_json
    from roofline.whatif.sweep.sweep import collected
    from roofline.whatif.sweep.workers import each_in_order

    with _progress(sweeper.space.pieces) as done:
        pieces = each_in_order(sweeper.piece, range(sweeper.space.pieces), cluster)
        result = collected(sweeper, (done(i, piece) for i, piece in enumerate(pieces)))
    if shown.json:
        print_json(result.to_dict())
    else:
        _print(sweeper, order.best(result.values), result.rows, order)
    if shown.plot is not None and result.rows:
        _draw(result, shown)
    _end(result.dropped, result.rows)


def _to_file(sweeper: Sweeper, order: Order, to: _Target) -> None:
    from roofline.views.files.sweep_file import SweepFile
    from roofline.views.text.whatif.sweep import PieceTask
    from roofline.whatif.query.columns import dicts_of, joined_rows, rows_of
    from roofline.whatif.sweep.sweep import sweep_digest
    from roofline.whatif.sweep.workers import each_in_order

    empty = sweeper.no_rows()
    file = SweepFile(to.out, empty, sweep_digest(sweeper) + repr(order), resume=to.resume, force=to.force)
    try:
        best, dropped = rows_of(file.kept.get("best", []), empty), Counter[str](file.kept.get("dropped", {}))
    except (AttributeError, LookupError, OverflowError, TypeError, ValueError):
        file.close()
        raise InputError("--out", file.log.name, "the log of this sweep, or --force to begin anew") from None
    first, last = file.pieces, sweeper.space.pieces
    if first:
        print(f"going on at piece {first + 1:,} of {last:,}, behind {file.rows:,} rows", file=sys.stderr)
    try:
        with _progress(last) as done:
            task = PieceTask(sweeper, file.ending, order)
            for number, piece in enumerate(each_in_order(task, range(first, last), to.cluster), first):
                best = order.best(joined_rows([best, piece.best]))
                dropped.update(piece.dropped)
                file.add(piece.content, piece.rows, {"dropped": dict(dropped), "best": dicts_of(best)})
                done(number, piece)
    except BaseException:
        file.close()
        print(f"{file.part} keeps {file.rows:,} rows; --resume goes on from there", file=sys.stderr)
        raise
    file.finish()
    _print(sweeper, best, file.rows, order)
    _end(dropped, file.rows)


def _print(sweeper: Sweeper, best: Rows, rows: int, order: Order) -> None:
    from roofline.views.text.tables import print_tables
    from roofline.views.text.whatif.sweep import rows_table, rows_text
    from roofline.whatif.query.columns import row_count

    print_tables((rows_table(sweeper, best), f"\n{rows_text(sweeper.space, rows, row_count(best), order)}"))


def _end(dropped: Mapping[str, int], rows: int) -> None:
    """Report the skipped combinations; exit with 1 if no row is left."""
    from roofline.views.text.whatif.sweep import dropped_text

    sys.stdout.flush()
    for line in dropped_text(dropped):
        print(line, file=sys.stderr)
    refuse(rows, "roofline: no row is left")


# -- progress and pictures -----------------------------------------------------------------------------------------
@contextmanager
def _progress(total: int) -> Iterator[Callable[[int, Any], Any]]:
    """Yield a callback for finished pieces, which returns them; on a terminal, it shows progress after `PATIENCE`."""
    start, shown = monotonic(), list[Callable[[int, int | None, str], None]]()
    with ExitStack() as stack:

        def done(number: int, piece: Any) -> Any:
            if sys.stderr.isatty() and not shown and monotonic() - start > PATIENCE:
                shown.append(stack.enter_context(progress_bar("sweep")))
            if shown:
                shown[0](number + 1, total, "pieces")
            return piece

        yield done


def _check_picture(path: Path, force: bool) -> None:
    from roofline.views.files.atomic import check_ending, check_file
    from roofline.views.plots.write import ENDINGS

    check_ending(path, ENDINGS, "--plot")
    check_file(path, force, "--plot")


def _draw(result: Sweep, shown: _Shown) -> None:
    from roofline.views.plots.rows import rows_plot
    from roofline.views.plots.style import Style
    from roofline.views.plots.write import write

    assert shown.plot is not None
    write(rows_plot(result, shown.x, shown.y), shown.plot, Style(theme=shown.theme), shown.force)
