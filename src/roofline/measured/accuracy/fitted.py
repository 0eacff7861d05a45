"""Which constants were fitted on a measured row, as declared with the constants.

`fitted_on.toml` names the measured tables, each with the SHA-256 of the content used for fitting, and the
tables of the laws of kernels and of collectives. `fitted_on` of an engine in `engines/engines.toml` says which of its
values were fitted on which rows. A table with another name or other content took part in no fit.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import file_digest
from pathlib import Path

from roofline.declared.question import Settings
from roofline.declared.trees import TomlTable
from roofline.engines.engine import Engine, default_engine, engine_named
from roofline.inference.deployment import deploy
from roofline.measured.accuracy.measurements import MeasuredRun, model_named
from roofline.model.model import Model

FILE = Path(__file__).with_name("fitted_on.toml")
NOTHING = "no"
"""Word for rows on which nothing was fitted."""
OF_KERNELS = "the law's constants"
OF_COLLECTIVES = "the collective's constants"
WORDS: Mapping[str, str] = {
    "request_s": "the engine's time of a request", "request_token_s": "the engine's time of a request",
    "idle_step_s": "the engine's host time", "idle_sequence_s": "the engine's host time",
    "step_s": "the engine's host time", "sequence_s": "the engine's host time", "rereads": "the engine's host time",
    "launch_s": "the engine's launch",
    "expert_layer_s": "the engine's host time",
     "slower": "the engine's slow-downs", "starts": "the engine's start-up",
    "generations": "the engine's host time", "untuned": "the engine's experts without tuned blocks",
    "kernels": "the engine's kernels", "scatter": "scatter of ranks and seconds between steps",
    "between_s": "scatter of ranks and seconds between steps",
}  # fmt: skip
"""Constant of an engine → its name in results."""


@dataclass(frozen=True)
class FittedRows:
    """Values of an engine, and the rows of a table on which they were fitted; empty or None conditions always hold.

    quantities, chips, generations, vendors: only rows of these. models: only models whose name contains one of these.
    several: only layouts of several chips, or only of one. sparse: only models with experts, or only without. cold:
    only first batches of a process, or only others.
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
        """Whether a row of the table, run by the engine, is one of these rows."""
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
    """Name of a file if it is a table that constants were fitted on, byte for byte; else None."""
    known = _declared()["tables"].get(path.name)
    if known is None or not path.is_file():
        return None
    with path.open("rb") as file:
        return path.name if file_digest(file, "sha256").hexdigest() == known else None


def fits_of(engine: Engine) -> tuple[FittedRows, ...]:
    """Fits declared for an engine's values."""

    def rows(entry: TomlTable) -> FittedRows:
        given: Settings = {key: tuple(v) if isinstance(v, list) else v for key, v in entry.items()}
        return FittedRows(**given)

    return tuple(map(rows, engine.fitted_on))


def fitted_words(table: str | None, run: MeasuredRun) -> str:
    """What was fitted on a row of a table, "no" for nothing; None is a table that nothing was fitted on.

    A row run by other software than the predicted engine took part in no fit of that engine.
    """
    if table is None or run.software:
        return NOTHING
    where = run.where
    engine = default_engine(deploy(where.on, where.layout).chip) if where.engine is None else engine_named(where.engine)
    of_table = (fit for fit in fits_of(engine) if fit.table == table)
    known = [fit for fit in of_table if fit.holds(run, engine)]
    return ", ".join(dict.fromkeys(WORDS[value] for fit in known for value in fit.values)) or NOTHING


def kernels_fitted(kind: str, table: str | None) -> bool:
    """Whether constants of kernels were fitted on a table. `kind`: `laws` or `collectives`."""
    return table is not None and table in _declared()[kind]
