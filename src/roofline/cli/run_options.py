"""Options of a whole training run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cyclopts import Parameter

from roofline.cli.common import Amount, Switch, Whole
from roofline.declared.errors import InputError

if TYPE_CHECKING:
    from roofline.estimates.bill import Bill

PAID = ("price", "years", "utilisation", "power", "power_share", "pue", "grid")
"""Options of the step's bill and the run's."""


@Parameter(name="*")
@dataclass(frozen=True)
class RunChoices:
    """A whole run: its days, cost, energy and goodput."""

    run_tokens: Amount = None
    "Tokens of the whole run, for its days, cost and energy: 15T, 400G or 15e12."
    failures: str | None = None
    "A published record of failures: `llama-3` (the default), `rsc-1`, `rsc-2`, `opt`, `bloom`."
    mtbf_hours: float | None = None
    "Instead: mean hours between failures of one chip."
    save_seconds: float | None = None
    "That a checkpoint holds the run up (10: copied to the hosts' memory, and written from there beside the run)."
    storage: float | None = None
    "Instead: bytes/s of the storage, all ranks together (2e12); the run waits while a checkpoint is written."
    asynchronous: Switch = False
    "With --storage: it waits only for the copy to the hosts' memory."
    save_every: float | None = None
    "Seconds of work between checkpoints (default: the interval that loses least)."
    restart_seconds: float | None = None
    "From a failure until the run goes on (600)."
    stall_seconds: float | None = None
    "That a step waits for its data (0)."
    evaluation_tokens: float | None = None
    "Tokens of an evaluation, with --evaluation-every."
    evaluation_every: Whole = None
    "Steps from one evaluation to the next."
    dataset_tokens: float | None = None
    "Tokens of one epoch."
    price: str | None = None
    "USD an hour of one chip (the catalog's), or `own(30000,rest=12000,years=4,electricity=0.08)`: bought."
    years: float | None = None
    "Years that a chip which is bought is paid off in (4)."
    utilisation: float | None = None
    "Share of the hours paid for in which chips work (1); in the others they idle."
    power: float | None = None
    "Mean watts of one chip with its part of the host (default: by the energy roofline)."
    power_share: float | None = None
    "Instead: the mean as a share of the TDP."
    pue: float | None = None
    "Power usage effectiveness of the site (1: the chips alone)."
    grid: str | None = None
    "A country's code, such as `fr`, or kilograms of CO2 equivalent a kWh."

    def bill(self) -> Bill:
        """Who pays what. Raises InputError for what cannot be."""
        from roofline.estimates.bill import Bill, price_named

        known = {name: getattr(self, name) for name in PAID if name not in ("price", "years")}
        given = {name: value for name, value in known.items() if value is not None}
        return Bill(price=price_named(self.price, self.years), **given)

    def given(self) -> dict[str, Any]:
        """What was given besides the tokens and the bill, as the library takes it.

        Raises InputError for any without tokens.
        """
        others = {name: v for name, v in vars(self).items() if name not in ("run_tokens", *PAID)}
        known = {name: v for name, v in others.items() if v is not None and v is not False}
        if known and self.run_tokens is None:
            name, value = next(iter(known.items()))
            raise InputError(f"--{name.replace('_', '-')}", value, "--run-tokens beside it: it is of a whole run")
        return known
