"""`roofline simulate`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter, Token

from roofline.cli.billing import BillOptions
from roofline.cli.common import (
    ChipName,
    EngineName,
    Formats,
    Headers,
    LawName,
    ModelArgument,
    OutFile,
    Revision,
    Switch,
    Whole,
    progress_bar,
    refuse,
    say,
    warn,
)
from roofline.cli.layout_options import LayoutOptions
from roofline.cli.servers import DraftOptions, ImageOptions, PrefillOptions, with_its_drafts
from roofline.declared.errors import InputError, not_one_of
from roofline.declared.spelling import whole_named

if TYPE_CHECKING:
    from roofline.model.model import Model
    from roofline.show.requests import RequestFile
    from roofline.simulation.recorder import Objective
    from roofline.simulation.simulation import Simulation
    from roofline.simulation.workload import Prefixes

PATIENCE = 1.0
"""Seconds before a bar is shown."""


def _counts(type_: Any, tokens: Sequence[Token]) -> int:
    """A count, with k, M or Ki behind it."""
    del type_
    return whole_named(tokens[0].keyword or "value", tokens[0].value)


CountText = Annotated[int | None, Parameter(converter=_counts)]


@Parameter(name="*")
@dataclass(frozen=True)
class TrafficOptions:
    """Which requests come: drawn at a rate or by users who wait for answers, or those of a trace."""

    input: str | None = None
    "Prompt tokens: a number, `uniform(100,2000)`, `lognormal(1024,0.8)` (mean, cv), `file(lengths.csv,column)`."
    output_tokens: str | None = None
    "Generated tokens, likewise."
    rate: float | None = None
    "Requests a second."
    arrivals: str | None = None
    "How they come at that rate: `poisson` (the default), `constant`, `gamma(cv)` in bursts."
    concurrency: Whole = None
    "Instead of a rate: users each of whom sends the next request when the last one is answered."
    think: str | None = None
    "Time between an answer and the same user's next request, such as `1s`."
    ramp: str | None = None
    "Time within which users send their first requests."
    prefixes: str | None = None
    "Prompts begin with one of so many prefixes of so many tokens, such as `10x2048`."
    trace: Path | None = None
    "Instead of all these: a file of requests, CSV, JSON lines or Parquet; docs/simulation.md says which columns."
    speed: float | None = None
    "Times as fast as the trace."

    def given(self) -> dict[str, Any]:
        """What was given, as the library takes it."""
        options = {name: value for name, value in vars(self).items() if value is not None}
        if self.output_tokens is not None:
            options["output"] = options.pop("output_tokens")
        if self.prefixes is not None:
            options["prefixes"] = prefixes_named(self.prefixes)
        return options


@Parameter(name="*")
@dataclass(frozen=True)
class ExtentOptions:
    """How long it goes on."""

    requests: CountText = None
    "Requests that count, such as `10k` (10k; of a trace all)."
    warmup: CountText = None
    "Requests to warm up, which do not count (default: a tenth; none for a trace)."
    until: float | None = None
    "Instead of --requests: until 95 % confidence intervals of mean TTFT and latency are ± this share of them, `0.02`."
    seed: int = 0
    "Of what is drawn: the same seed gives the same answer."


def simulate(
    model: ModelArgument,
    /,
    *,
    on: ChipName,
    spread: LayoutOptions = LayoutOptions(),  # noqa: B008
    traffic: TrafficOptions = TrafficOptions(),
    extent: ExtentOptions = ExtentOptions(),
    router: Literal["round-robin", "least-loaded", "prefix-aware"] = "round-robin",
    slo: str | None = None,
    pool: PrefillOptions = PrefillOptions(),  # noqa: B008
    drafts: DraftOptions = DraftOptions(),  # noqa: B008
    lora: Whole = None,
    pictures: ImageOptions = ImageOptions(),  # noqa: B008
    engine: EngineName = None,
    precision: Formats = None,
    law: LawName = "calibrated",
    bill: BillOptions = BillOptions(),  # noqa: B008
    revision: Revision = None,
    headers: Headers = False,
    out: OutFile = None,
    plot: Path | None = None,
    theme: Literal["light", "dark"] = "light",
    force: Switch = False,
    json: Switch = False,
) -> None:
    """A server under traffic, request by request: percentiles of TTFT, TPOT and latency, goodput, batch over time.

    Exits with 1 where it is overloaded, or its memory does not hold one request.

    Example: `roofline simulate meta-llama/Llama-3.1-8B --on h100-sxm --input 1024 --output-tokens 256 --rate 4`

    Example: `roofline simulate meta-llama/Llama-3.1-70B --on 4xh200-sxm --layout tp=4 --prefill-on 8xh100-sxm
    --prefill-layout tp=4,dp=2 --input 4096 --output-tokens 256 --rate 2 --requests 2k`

    Parameters
    ----------
    router:
        How replicas share requests: in turn, to the one with fewest, or to the one that has most of the prompt cached.
    slo:
        What a request has to meet to count as goodput, such as `ttft=2s,tpot=50ms,latency=20s`.
    lora:
        Rank of an adapter that every request uses: its weights take memory, and steps read them.
    out:
        Every request that counts, to a `.parquet` or `.csv` file. What was killed or interrupted goes on when the same
        command is run again.
    plot:
        A picture: requests and memory over time, and distributions; `.png`, `.svg`, `.pdf`, `.html` (Plotly).
    theme:
        Of the picture: ink on white, or light on dark.
    force:
        Overwrite files.
    json:
        JSON, as docs/json.md has it.
    """
    from roofline.model.load import load
    from roofline.simulation.policy import NoRoomError
    from roofline.simulation.simulate import Extent
    from roofline.simulation.simulate import simulate as run

    aim, given = None if slo is None else objective_named(slo), traffic.given()
    if plot is not None:
        _check_picture(plot, force)
    file = None if out is None else _file(out, force)
    built, speculation = load(model, revision=revision, headers=headers), drafts.speculation()
    with nullcontext() if file is None else file:
        try:
            with _progress(extent.requests) as progress, _resumable(file):
                result = run(
                    built, extent=Extent(**vars(extent)), router=router, objective=aim, written=file, progress=progress,
                    on=on, layout=spread.text(), engine=engine, precision=precision, law=law, speculation=speculation,
                    prefill=pool.pool(on), lora=lora, images=pictures.asked(), bill=bill.bill(), **given,
                )  # fmt: skip
        except NoRoomError as error:
            refuse(False, f"roofline: {error}")
        if file is not None:
            file.finish()
    if plot is not None:
        _draw(result, plot, theme, force)
    _print(result, with_its_drafts(result.model, result.speculation), json)


def _print(result: Simulation, told: Model, json: bool) -> None:
    from roofline.show.analysis import headline
    from roofline.show.simulate import simulation_first, simulation_head, simulation_text, times_table
    from roofline.show.tables import print_json, print_tables, print_text

    if json:
        print_json(result.to_dict())
    else:
        print_text(f"{simulation_first(result)}\n{headline(result.model, result.formats)}\n")
        print_text(f"{simulation_head(result)}\n")
        print_tables((times_table(result), simulation_text(result)))
    warn(told)
    refuse(result.requests and not result.overloaded, simulation_first(result) if json else "")


# -- what is spelled -----------------------------------------------------------------------------------------------
def objective_named(text: str) -> Objective:
    """`ttft=2s,tpot=50ms` → an objective. Raises InputError for other names, and times without a unit."""
    from roofline.declared.spelling import seconds_named
    from roofline.simulation.recorder import Objective

    most: dict[str, float] = {}
    for part in text.split(","):
        name, _, value = (word.strip() for word in part.partition("="))
        if name not in Objective.__annotations__:
            raise not_one_of("--slo", name, Objective.__annotations__)
        if name in most:
            raise InputError("--slo", text, f"{name} once")
        most[name] = seconds_named(f"--slo {name}", value)
    return Objective(**most)


def prefixes_named(text: str) -> Prefixes:
    """`10x2048` → ten prefixes of 2,048 tokens. Raises InputError for anything else."""
    from roofline.simulation.workload import Prefixes

    number, cross, tokens = text.replace("×", "x").partition("x")
    if not cross:
        raise InputError("--prefixes", text, "so many prefixes of so many tokens, such as 10x2048")
    return Prefixes(whole_named("--prefixes", number.strip()), whole_named("--prefixes", tokens.strip()))


# -- files and progress --------------------------------------------------------------------------------------------
def _file(out: Path, force: bool) -> RequestFile:
    from roofline.show.requests import RequestFile

    return RequestFile(out, force, "--out")


@contextmanager
def _resumable(file: RequestFile | None) -> Iterator[None]:
    """Says how to go on where a run is interrupted."""
    try:
        yield
    except KeyboardInterrupt:
        if file is not None and not file.saved:
            file.discard()
        elif file is not None:
            said = f"interrupted: {file.folder} keeps {file.saved:,} requests; the same command goes on from there"
            say(said)
        raise


@contextmanager
def _progress(total: int | None) -> Iterator[Callable[[int], None] | None]:
    """A bar on a terminal, of what takes longer than a second."""
    if not sys.stderr.isatty():
        yield None
        return
    start, shown = monotonic(), list[Callable[[int, int | None, str], None]]()
    with ExitStack() as stack:

        def show(number: int) -> None:
            if not shown:
                if monotonic() - start < PATIENCE:
                    return
                shown.append(stack.enter_context(progress_bar("simulate")))
            shown[0](number, total, "requests")

        yield show


def _check_picture(path: Path, force: bool) -> None:
    from roofline.show.files import check_ending, check_file
    from roofline.show.plots.write import ENDINGS

    check_ending(path, ENDINGS, "--plot")
    check_file(path, force, "--plot")


def _draw(result: Simulation, path: Path, theme: Literal["light", "dark"], force: bool) -> None:
    from roofline.show.plots.build import simulation_plot
    from roofline.show.plots.style import Style
    from roofline.show.plots.write import write

    write(simulation_plot(result), path, Style(theme=theme), force)
