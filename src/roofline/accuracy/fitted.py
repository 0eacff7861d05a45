"""Which constants were fitted on a measured row, by what is declared beside the constants.

`machine/fitted_on.toml` names the measured tables, each with the SHA-256 of the content that was fitted on, and those
of the laws of kernels and of collectives; `fitted_on` of an engine in `machine/engines.toml` says which of its values
were fitted on which rows of them. A table of another name or another content took part in no fit.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import file_digest
from pathlib import Path

from roofline.accuracy.measurements import MeasuredRun, model_named
from roofline.declared.question import Settings
from roofline.declared.trees import TomlTable
from roofline.estimates.deployment import deploy
from roofline.machine.engine import Engine, default_engine, engine_named
from roofline.model.model import Model

FILE = Path(__file__).parents[1] / "machine" / "fitted_on.toml"
NOTHING = "no"
"""Of a row on which nothing was fitted."""
OF_KERNELS = "the law's constants"
OF_COLLECTIVES = "the collective's constants"
WORDS: Mapping[str, str] = {
    "request_s": "the engine's time of a request", "request_token_s": "the engine's time of a request",
    "step_s": "the engine's host time", "sequence_s": "the engine's host time", "rereads": "the engine's host time",
    "launch_s": "the engine's launch", "slower": "the engine's slow-downs", "starts": "the engine's start-up",
    "kernels": "the engine's kernels", "scatter": "scatter of ranks and seconds between steps",
    "between_s": "scatter of ranks and seconds between steps",
}  # fmt: skip
"""Constants of an engine → how a line calls them."""


@dataclass(frozen=True)
class FittedRows:
    """Values of an engine, and the rows of a table that they were fitted on; what is empty or None does not matter.

    quantities, chips, generations, vendors: of those alone; models: whose names have one of these parts. several: of
    layouts of several chips, or of one. sparse: of models with experts, or without. cold: of a process's first batch.
    """

    values: tuple[str, ...]
    table: str
    quantities: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    chips: tuple[str, ...] = ()
    generations: tuple[str, ...] = ()
    vendors: tuple[str, ...] = ()
    several: bool | None = None
    sparse: bool | None = None
    cold: bool | None = None

    def holds(self, run: MeasuredRun, engine: Engine) -> bool:
        """Whether a row of the table, run by the engine, is one of them."""
        chip, model = deploy(run.where.on, run.where.layout).chip, _model_of(run)
        return (
            (not self.quantities or run.quantity in self.quantities)
            and (not self.models or any(part in model.name for part in self.models))
            and (not self.chips or chip.id in self.chips)
            and (not self.generations or chip.generation in self.generations)
            and (not self.vendors or chip.vendor in self.vendors)
            and self.several in (None, run.several)
            and self.sparse in (None, model.active_parameters != model.parameters)
            and self.cold in (None, engine.cold)
        )


def _model_of(run: MeasuredRun) -> Model:
    return run.model if isinstance(run.model, Model) else model_named(run.model)


@cache
def _declared() -> TomlTable:
    with FILE.open("rb") as file:
        return tomllib.load(file)


def fitted_table(path: Path) -> str | None:
    """The name of a file if it is a table that constants were fitted on, byte for byte, else None."""
    known = _declared()["tables"].get(path.name)
    if known is None or not path.is_file():
        return None
    with path.open("rb") as file:
        return path.name if file_digest(file, "sha256").hexdigest() == known else None


def fits_of(engine: Engine) -> tuple[FittedRows, ...]:
    """What is declared beside an engine's values."""

    def rows(entry: TomlTable) -> FittedRows:
        given: Settings = {key: tuple(v) if isinstance(v, list) else v for key, v in entry.items()}
        return FittedRows(**given)

    return tuple(map(rows, engine.fitted_on))


def fitted_words(table: str | None, run: MeasuredRun) -> str:
    """What was fitted on a row of a table, "no" where nothing was; a table of None is one that nothing was fitted on.

    A row that other software ran than the engine whose times are predicted took part in no fit of these.
    """
    if table is None or run.software:
        return NOTHING
    where = run.where
    engine = default_engine(deploy(where.on, where.layout).chip) if where.engine is None else engine_named(where.engine)
    of_table = (fit for fit in fits_of(engine) if fit.table == table)
    known = [fit for fit in of_table if fit.holds(run, engine)]
    return ", ".join(dict.fromkeys(WORDS[value] for fit in known for value in fit.values)) or NOTHING


def kernels_fitted(kind: str, table: str | None) -> bool:
    """Whether constants of kernels were fitted on a table; `kind`: `laws` or `collectives`."""
    return table is not None and table in _declared()[kind]
