"""`roofline codesign`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from roofline.declared.errors import InputError, not_one_of
from roofline.declared.kinds import Given
from roofline.doors.cli.common import Headers, Json, ModelArgument, Revision, TextOnly, Whole, warn
from roofline.doors.cli.derived import with_settings, with_tables
from roofline.model.load import load
from roofline.views.text.tables import print_json, print_tables, print_text
from roofline.views.text.whatif.codesign import codesign_table, codesign_text
from roofline.whatif.codesign import codesign as question
from roofline.whatif.query.parsing import ASKED

if TYPE_CHECKING:
    from roofline.whatif.codesign import Bounds, Process

UNITS: Mapping[str, tuple[str, ...]] = {
    "peak": ("FLOP/s", "FLOPS", ""), "cache": ("B", ""), "link": ("B/s", ""), "power": ("W", ""),
}  # fmt: skip
"""Bound → units accepted in its values."""


@Parameter(name="*")
@dataclass(frozen=True)
class BoundOptions:
    """Ranges of the chips to search, minimum..maximum."""

    peak: str | None = None
    "FLOP/s of bf16: `100T..1000T` (50T to 1300T)."
    stacks: str | None = None
    "Stacks of memory: `2..8` (1 to 8)."
    cache: str | None = None
    "Bytes of the last-level cache: `50MiB..100MiB` (8 to 256 MiB)."
    link: str | None = None
    "Bytes/s of the link in one direction: `25GB/s..900GB/s` (the default)."
    power: str | None = None
    "Maximum power of a chip: `700W`."

    def bounds(self) -> Bounds:
        """Convert to the library's `Bounds`."""
        from roofline.hardware.chip import figure_named
        from roofline.whatif.codesign import Bounds

        def figure(name: str) -> Callable[[str], float]:
            return lambda text: figure_named(f"--{name}", text, UNITS[name])

        given: dict[str, Given] = {
            name: _pair(f"--{name}", text, figure(name))
            for name in ("peak", "cache", "link")
            if (text := getattr(self, name)) is not None
        }
        if self.stacks is not None:
            given["stacks"] = _pair("--stacks", self.stacks, _stacks)
        if self.power is not None:
            given["power"] = figure("power")(self.power)
        return Bounds(**given)


@with_tables
@with_settings(ASKED)
def codesign(
    model: ModelArgument,
    /,
    *,
    of: str | None = None,
    against: Literal["usd", "power", "area"] = "usd",
    where: Annotated[list[str] | None, Parameter(negative="")] = None,
    bounds: BoundOptions = BoundOptions(),
    process: str | None = None,
    generations: Whole = None,
    seed: Whole = None,
    revision: Revision = None,
    headers: Headers = False,
    text_only: TextOnly = False,
    json: Json = False,
    **asked: Given,
) -> None:
    """Design a hypothetical chip for a model: the Pareto front of time against area, power or price.

    Candidates have the kernel constants of the given chip; area, yield, power and price come from models. Lengths and
    load select the estimate, as with `solve`. Needs the package pymoo.

    Example: `roofline codesign meta-llama/Llama-3.1-8B --on h100-sxm --batch 8 --input 512 --output-tokens 64 --power
    700W --generations 5`

    Parameters
    ----------
    of:
        The figure to improve: a time, `usd_per_million_tokens`, `joules_per_token`, `tokens_per_second`, … (default:
        the time of the whole estimate).
    against:
        The cost of a chip: `usd` to make it, `power` in watts, or `area` in mm².
    where:
        Requirements on chips: `tpot <= 20ms and area < 600`, as with `solve`, and also on their `area` and `usd`.
    process:
        Constants that differ from those of a 5 nm die with HBM3: `wafer=17000,defects=0.1`, with the names of `process`
        in the JSON.
    generations:
        Generations of the search, of 32 chips each (40).
    seed:
        Seed of the search; the same seed gives the same front (1).
    """
    within, made_by = bounds.bounds(), _process(process)
    built = load(model, revision=revision, headers=headers, text_only=text_only)
    asked |= {name: value for name, value in (("seed", seed), ("generations", generations)) if value is not None}
    result = question(built, bounds=within, process=made_by, of=of, against=against, where=where or (), **asked)
    if json:
        print_json(result.to_dict())
    else:
        print_text(f"{codesign_text(result)}\n")
        print_tables((codesign_table(result), ""))
    warn(built)


def _pair(field: str, text: str, number: Callable[[str], float]) -> tuple[float, float]:
    """Parse a range, or one number as both ends."""
    low, dots, high = text.partition("..")
    pair = number(low), number(high if dots else low)
    if pair[0] > pair[1]:
        raise InputError(field, text, "the least first, as in 2..8")
    return pair


def _stacks(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < len(text) < 10 and int(text)):
        raise InputError("--stacks", text, "a whole number above 0, or two as in 2..8")
    return int(text)


def _process(text: str | None) -> Process:
    """Parse process constants; those not given have their defaults."""
    from roofline.whatif.codesign import Process

    values: dict[str, float] = {}
    for part in text.split(",") if text is not None else ():
        name, _, value = (word.strip() for word in part.partition("="))
        if name not in Process.FIGURES:
            raise not_one_of("--process", name, Process.FIGURES)
        if name in values:
            raise InputError(f"--process {name}", value, "each constant once")
        try:
            values[name] = float(value)
        except ValueError:
            raise InputError(f"--process {name}", value, "a number, as in wafer=17000") from None
    return Process(**values)
