"""`roofline simulate`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from roofline.declared.errors import InputError, not_one_of
from roofline.declared.groups import LIMITED, SLO
from roofline.declared.kinds import Given
from roofline.declared.question import Settings, group_settings
from roofline.doors.cli.common import (
    Headers,
    Json,
    ModelArgument,
    OutFile,
    Revision,
    Switch,
    TextOnly,
    counted_bar,
    refuse,
    say,
    warn,
)
from roofline.doors.cli.derived import with_settings, with_tables
from roofline.doors.cli.drafts import with_its_drafts
from roofline.serving.simulate.simulate import simulate as question

if TYPE_CHECKING:
    from roofline.model.model import Model
    from roofline.serving.simulate.simulation import Simulation
    from roofline.views.files.requests import RequestFile


@with_tables
@with_settings(question)
def simulate(
    model: ModelArgument,
    /,
    *,
    slo: Annotated[str | None, Parameter(show=False)] = None,
    revision: Revision = None,
    headers: Headers = False,
    text_only: TextOnly = False,
    out: OutFile = None,
    plot: Path | None = None,
    theme: Literal["light", "dark"] = "light",
    force: Switch = False,
    json: Json = False,
    **asked: Given,
) -> None:
    """Simulate a server request by request: percentiles of TTFT, TPOT and latency, goodput, batch over time.

    Requests that meet --ttft, --tpot and --latency count as goodput. Exits with 1 if a smaller share of them does than
    --attainment, if the server is overloaded, or if its memory cannot hold one request.

    Example: `roofline simulate meta-llama/Llama-3.1-8B --on h100-sxm --input 1024 --output-tokens 256 --rate 4`

    Example: `roofline simulate meta-llama/Llama-3.1-70B --on 4xh200-sxm --layout tp=4 --prefill-on 8xh100-sxm
    --prefill-layout tp=4,dp=2 --input 4096 --output-tokens 256 --rate 2 --requests 2k`

    Parameters
    ----------
    slo:
        The former spelling of --ttft, --tpot and --latency: `ttft=2s,tpot=50ms,latency=20s`.
    out:
        A `.csv` or, with Polars, `.parquet` file for all requests after the warm-up. The same command resumes a run
        that was killed or interrupted.
    plot:
        A picture: requests and memory over time, and distributions; `.png`, `.svg`, `.pdf`, `.html` (Plotly).
    theme:
        Light or dark background of the picture.
    force:
        Overwrite files.
    """
    from roofline.model.load import load
    from roofline.serving.simulate.policy import NoRoomError

    if slo is not None:
        asked |= _limits_named(slo, asked)
    if plot is not None:
        _check_picture(plot, force)
    file = None if out is None else _file(out, force)
    built = load(model, revision=revision, headers=headers, text_only=text_only)
    with nullcontext() if file is None else file:
        try:
            with counted_bar("simulate", asked.get("requests"), "requests") as progress, _resumable(file):
                result = question(built, written=file, progress=progress, **asked)
        except NoRoomError as error:
            refuse(False, f"roofline: {error}")
        if file is not None:
            file.finish()
    if plot is not None:
        _draw(result, plot, theme, force)
    _print(result, with_its_drafts(result.model, result.speculation), json)


def _print(result: Simulation, told: Model, json: bool) -> None:
    from roofline.views.text.inference.analysis import headline
    from roofline.views.text.serving.simulate import (
        kept_text,
        simulation_first,
        simulation_head,
        simulation_text,
        times_table,
    )
    from roofline.views.text.tables import print_json, print_tables, print_text

    if json:
        print_json(result.to_dict())
    else:
        print_text(f"{simulation_first(result)}\n{headline(result.model, result.formats)}\n")
        print_text(f"{simulation_head(result)}\n")
        print_tables((times_table(result), simulation_text(result)))
    warn(told)
    refuse(result.requests and not result.overloaded, simulation_first(result) if json else "")
    refuse(result.keeps is not False, kept_text(result) if json else "")


# -- parsing of options --------------------------------------------------------------------------------------------
def _limits_named(text: str, asked: Settings) -> dict[str, str]:
    """Parse `ttft=2s,tpot=50ms` to settings. Raises InputError for unknown and repeated names."""
    known = {name: group_settings(SLO)[name] for name in LIMITED}
    limits: dict[str, str] = {}
    for part in text.split(","):
        name, _, value = (word.strip() for word in part.partition("="))
        if name not in known:
            raise not_one_of("--slo", name, known)
        if name in limits or name in asked:
            raise InputError("--slo", text, f"{name} once")
        limits[name] = known[name].kind.read(f"--slo {name}", value)
    say(f"--slo is now called {', '.join(f'--{name}' for name in limits)}")
    return limits


# -- files and progress --------------------------------------------------------------------------------------------
def _file(out: Path, force: bool) -> RequestFile:
    from roofline.views.files.requests import RequestFile

    return RequestFile(out, force, "--out")


@contextmanager
def _resumable(file: RequestFile | None) -> Iterator[None]:
    """Context that prints how to resume if the run is interrupted."""
    try:
        yield
    except KeyboardInterrupt:
        if file is not None and (kept := file.interrupted()):
            say(f"interrupted: {file.folder} keeps {kept:,} requests; the same command goes on from there")
        raise


def _check_picture(path: Path, force: bool) -> None:
    from roofline.views.files.atomic import check_ending, check_file
    from roofline.views.plots.write import ENDINGS

    check_ending(path, ENDINGS, "--plot")
    check_file(path, force, "--plot")


def _draw(result: Simulation, path: Path, theme: Literal["light", "dark"], force: bool) -> None:
    from roofline.views.plots.build import simulation_plot
    from roofline.views.plots.style import Style
    from roofline.views.plots.write import write

    write(simulation_plot(result), path, Style(theme=theme), force)
