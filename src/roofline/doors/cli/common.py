"""Options shared by several commands, warnings, and output to stdout or a file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter, Token, validators

from roofline.declared.errors import InputError
from roofline.declared.groups import MachineSettings, PartsSettings
from roofline.declared.kinds import Given
from roofline.declared.numbers.spelling import whole_named
from roofline.declared.question import Hint, group_settings
from roofline.declared.sanitize import inert_line, inert_lines, shortened
from roofline.extras import check_frames
from roofline.model.model import Model
from roofline.work.step import USUAL_TOKENS, Step, read_whole

if TYPE_CHECKING:
    from roofline.work.analysis import Analysis

ModelArgument = Annotated[
    str, Parameter(help="A Hub id (`meta-llama/Llama-3.1-8B`), a catalog name, a config.json or its folder.")
]
REFRESHED = 3
"""Times a second that a progress bar is drawn anew; drawing it takes time from what it is about."""
BAR_AFTER_S = 1.0
"""Seconds of work after which a progress bar appears."""
LONGEST_WARNING = 400
"""Maximum characters of a warning, which may quote text from a config."""


def _whole(type_: Hint, tokens: Sequence[Token]) -> list[int]:
    """Parse integers with optional suffixes (k is 1,000, Ki is 1,024). Fractions raise InputError, never round."""
    del type_
    return [whole_named(token.keyword or "value", token.value) for token in tokens]


def _one(type_: Hint, tokens: Sequence[Token]) -> int:
    return _whole(type_, tokens)[0]


def _amount(type_: Hint, tokens: Sequence[Token]) -> float:
    """Parse a number with an exponent or a suffix: `15e12`, `15T`, `400G`."""
    del type_
    (token,) = tokens
    try:
        return float(token.value)
    except ValueError:
        return float(whole_named(token.keyword or "value", token.value))


Amount = Annotated[float | None, Parameter(converter=_amount)]
Whole = Annotated[int | None, Parameter(converter=_one)]
Needed = Annotated[int, Parameter(converter=_one)]
Wholes = Annotated[list[int] | None, Parameter(converter=_whole, consume_multiple=True, negative="")]

Switch = Annotated[bool, Parameter(negative="", show_default=False)]
Json = Annotated[bool, Parameter(help="JSON, as docs/json.md has it.", negative="", show_default=False)]
Several = Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")]
"""An option with one or more values."""
Form = Annotated[
    bool,
    Parameter(
        negative="",
        show_default=False,
        group=Group("One of these instead of the table", validator=validators.mutually_exclusive),
    ),
]
CLUSTER = group_settings(MachineSettings)["on"].help
"""Help text of the `--on` option."""
OutFile = Annotated[Path | None, Parameter(name=("--out", "-o"))]
Wide = Annotated[bool, Parameter(help="All columns of tables, however wide.", negative="", show_default=False)]
Revision = Annotated[str | None, Parameter(help="A branch, tag or commit on the Hub.")]
Headers = Annotated[
    bool,
    Parameter(
        help="Weights in the formats that the headers of the checkpoint's safetensors files state, not the config.",
        negative="",
        show_default=False,
    ),
]
"""`--headers` of commands with a model: needs a folder or Hub id with safetensors files; reads a few kB of each."""
TextOnly = Annotated[
    bool,
    Parameter(
        help=group_settings(PartsSettings)["text_only"].help,
        negative="",
        show_default=False,
    ),
]
"""`--text-only` of commands with a model."""


STEP = group_settings(Step)
"""Settings that select a step. If none is given, commands show a prefill and a decode."""


def steps_asked(settings: dict[str, Given], model: Model) -> list[tuple[str, Step]]:
    """Remove the step settings from `settings` and return the steps they describe, as (name, step) pairs.

    Without lengths, returns a prefill and a decode that fit in the model's context, or the pass of a model that reads
    its input as a whole.
    """
    given = {name: settings.pop(name) for name in STEP if name in settings}
    longest = model.context
    if not model.steps:
        raise InputError("--shape", None, f"the shapes of an input ({model.not_counted[0]})")
    if "decode" not in model.steps:
        return [(model.steps[0], _whole_input(given, model))]
    if "cached" in given or "new" in given:
        return [("step", Step.asked(**given))]
    lengths = {name: given.pop(name) for name in ("input", "context") if name in given}
    if "phase" in given:
        return [(given["phase"], Step.asked(**given, **lengths))]
    if not lengths:
        shortest = USUAL_TOKENS if longest is None else max(1, min(USUAL_TOKENS, longest - 1))
        lengths = {"input": shortest, "context": shortest}
    phases = {"input": "prefill", "context": "decode"}
    return [(phases[name], Step.asked(**given, **{name: tokens})) for name, tokens in lengths.items()]


def _whole_input(given: dict[str, Given], model: Model) -> Step:
    """The pass of a model that reads its input as a whole. Raises InputError for settings of cached tokens."""
    for name in given.keys() - {"batch", "input"}:
        raise InputError(f"--{name}", given[name], f"--batch and --input: {model.name} reads inputs as a whole")
    if model.positions is not None and "input" in given:
        raise InputError(
            "--input", given["input"], f"none: every input of {model.name} has {model.positions} positions"
        )
    usual = USUAL_TOKENS if model.context is None else min(USUAL_TOKENS, model.context)
    return read_whole(given.get("batch") or 1, model.positions or given.get("input") or usual)


def say(text: str) -> None:
    """Print lines on stderr; on a terminal they break between words."""
    text = inert_lines(text)
    if sys.stderr.isatty():
        from roofline.views.text.tables import broken, window_width

        text = "\n".join(part for line in text.split("\n") for part in broken(line, window_width()))
    print(text, file=sys.stderr)


def machine_progress() -> Callable[[str], None] | None:
    """Print the machine that is being worked out, on a terminal; None elsewhere."""
    return (lambda machine: say(f"{machine} …")) if sys.stderr.isatty() else None


def warn(model: Model) -> None:
    """Print on stderr which parts of the config are unknown and which parts of the model are not counted."""
    sys.stdout.flush()
    said = (*(f"warning: {text}" for text in model.warnings), *(f"not counted: {text}" for text in model.not_counted))
    for line in said:
        say(shortened(inert_line(line), LONGEST_WARNING))


def warn_beyond(model: Model, steps: list[tuple[str, Step]]) -> None:
    """Warn on stderr about each step that is longer than the model's context. The step is still computed."""
    for name, step in steps:
        if model.context is not None and step.longest > model.context:
            text = f"{name} reaches {step.longest} tokens, the context of {model.name} is {model.context}"
            say(f"warning: {text}")


@contextmanager
def progress_bar(title: str) -> Iterator[Callable[[int, int | None, str], None]]:
    """Show a progress bar on stderr with the last completed part and the time left; cleared on exit."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, refresh_per_second=REFRESHED) as bar:
        task = bar.add_task(title, total=None)

        def done(number: int, total: int | None, part: str) -> None:
            bar.update(task, completed=number, total=total, description=f"{title}: {part}")

        yield done


@contextmanager
def counted_bar(title: str, total: int | None, part: str) -> Iterator[Callable[[int], None] | None]:
    """On a terminal, a progress bar of a number, if the work takes longer than `BAR_AFTER_S`; None elsewhere."""
    if not sys.stderr.isatty():
        yield None
        return
    start, shown = monotonic(), list[Callable[[int, int | None, str], None]]()
    with ExitStack() as stack:

        def show(number: int) -> None:
            if not shown:
                if monotonic() - start < BAR_AFTER_S:
                    return
                shown.append(stack.enter_context(progress_bar(title)))
            shown[0](number, total, part)

        yield show


def refuse(fits: object, said: str = "") -> None:
    """Unless `fits`, print `said` on stderr and exit with code 1."""
    if not fits:
        sys.stdout.flush()
        if said:
            say(said)
        raise SystemExit(1)


def warn_below(analyses: Iterable[tuple[str, Analysis]]) -> None:
    """Warn on stderr if a traffic convention counts fewer bytes than the step must at least move."""
    for name, a in analyses:
        if a.below_floor is not None:
            text = f"{name} moves {100 * float(a.below_floor):.0f} % of the bytes that must cross memory at least"
            say(f"warning: traffic {a.traffic.name}: {text}")


ENDINGS = {".json": "json", ".csv": "csv", ".parquet": "parquet", ".md": "md", ".txt": "md", "": "md"}


def form_of(output: Path | None, asked: Mapping[str, bool]) -> str:
    """Output format: the format option if given, else from the file extension; "" (a table) for stdout.

    Raises InputError if option and extension disagree, if the extension is unknown and no option is given, and for
    Parquet where Polars is missing.
    """
    option = next((form for form, wanted in asked.items() if wanted), "")
    if output is None:
        return option
    ending = ENDINGS.get(output.suffix.lower())
    if option and output.suffix and ending not in (None, option):
        raise InputError(
            "--out",
            str(output),
            f"a file that ends in {', '.join(e for e, form in ENDINGS.items() if e and form == option)}",
        )
    if not option and ending is None:
        raise InputError("--out", str(output), f"a file that ends in {', '.join(filter(None, ENDINGS))}")
    if (option or ending) == "parquet":
        check_frames("--out", str(output), "a file that ends in .csv")
    return option or ending or ""


def deliver(text: str, output: Path | None, force: bool) -> None:
    """Write text to stdout, or to a file with `keep`."""
    if output is None:
        sys.stdout.write(inert_lines(text))
    else:
        keep(text.encode("utf-8"), output, force)


def keep(content: bytes, output: Path, force: bool) -> None:
    """Write a file atomically. Raises InputError if it exists and `force` is false, or if it cannot be written."""
    from roofline.views.files.atomic import check_new, whole_file

    check_new(output, force, "--out")
    whole_file(output, lambda beside: beside.write_bytes(content), "--out", force=force)
