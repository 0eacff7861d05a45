"""What the recipes of a training stack set where a call does not say, by release, chip, model and formats.

`stacks.toml` holds the rows, each with a date and a source. Of the rows that hold, a later one overrides an earlier.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar

from roofline.declared.kinds import Given
from roofline.declared.result import Figured, Units
from roofline.declared.trees import TomlTable
from roofline.engines.releases import version
from roofline.hardware.chip import Chip

FILE = Path(__file__).with_name("stacks.toml")


@dataclass(frozen=True)
class StackSetting(Figured):
    """A setting of a stack's recipes: its value, and the source and the date of the row that sets it."""

    FIGURES: ClassVar[Units] = {"name": "", "value": "", "source": "", "date": ""}

    name: str
    value: Given
    source: str
    date: str


@dataclass(frozen=True)
class Trainee:
    """What the rows of a stack depend on.

    release: of the stack, empty for the newest without a known one. layers, experts: number of layers, and whether
    there are experts. recipe: the recipe's base name. sharded: ZeRO-3. machine: number of chips.
    """

    release: str
    chip: Chip
    model_type: str
    layers: int
    experts: bool
    lora: bool
    sharded: bool
    machine: int


@dataclass(frozen=True)
class StackRow:
    """Settings of a stack and the conditions under which its recipes have them; an empty condition always holds."""

    date: str
    source: str
    sets: TomlTable
    since: str = ""
    before: str = ""
    chips: tuple[str, ...] = ()
    generations: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()
    layers: int | None = None
    experts: bool | None = None
    lora: bool | None = None
    sharded: bool | None = None
    machine: int | None = None

    def holds(self, trainee: Trainee, recipe: str) -> bool:
        """Whether all conditions hold. `recipe`: the base name of the recipe."""
        alike = (
            (self.layers, trainee.layers), (self.experts, trainee.experts), (self.lora, trainee.lora),
            (self.sharded, trainee.sharded), (self.machine, trainee.machine),
        )  # fmt: skip
        among = (
            (self.types, trainee.model_type), (self.formats, recipe), (self.generations, trainee.chip.generation),
        )  # fmt: skip
        return (
            all(asked is None or asked == own for asked, own in alike)
            and all(not names or own in names for names, own in among)
            and (not self.chips or trainee.chip.id.startswith(self.chips))
            and _within(trainee.release, self.since, self.before)
        )


def _within(release: str, since: str, before: str) -> bool:
    """Whether a release is neither older than `since` nor as new as `before`."""
    numbers = version(release)
    return (not since or numbers >= version(since)) and (not before or numbers < version(before))


@cache
def stack_rows() -> Mapping[str, tuple[StackRow, ...]]:
    """Engine → the rows of its recipes."""
    tables = tomllib.loads(FILE.read_text(encoding="utf-8"))
    return {id: tuple(_row(row) for row in table["rows"]) for id, table in tables.items()}


def _row(table: TomlTable) -> StackRow:
    fields: TomlTable = {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}
    return StackRow(**fields)


def stack_settings(engine: str, trainee: Trainee, recipe: str | None) -> Iterator[StackSetting]:
    """The settings that the recipes of an engine have, in the order of their rows.

    `recipe`: base name of the one that is asked for; None for the stack's own, else bf16.
    """
    base = recipe
    for row in stack_rows().get(engine, ()):
        if row.holds(trainee, base or "bf16"):
            if recipe is None and "recipe" in row.sets:
                base = row.sets["recipe"].partition("(")[0]
            for name, value in row.sets.items():
                plain = tuple(value) if isinstance(value, list) else value
                yield StackSetting(name, plain, row.source, row.date)
