"""`machines`: which machine to serve a demand with, as people say it; one row a machine, cheapest first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import inf
from types import MappingProxyType
from typing import Annotated, ClassVar, TypeAlias

from roofline.declared.errors import InputError, error_line
from roofline.declared.groups import KernelSettings, LawSettings, LengthSpread, Load
from roofline.declared.kinds import (
    ChipCount,
    MachineName,
    OneRequests,
    OneTokens,
    PlainNumber,
    RequestsOfDay,
    Share,
    Switch,
    ValueKind,
)
from roofline.declared.question import group, question
from roofline.declared.result import Figured, Result, Units
from roofline.inference.cost.bill import Bill
from roofline.inference.deployment import Machine, is_several, listed_machines, machine_chip
from roofline.model.load import Source, decoder_of
from roofline.model.media.images import Images, ImageTokens
from roofline.model.model import Model
from roofline.whatif.answer import AnsweredSLO, why_no_plan
from roofline.whatif.search.demand import Limits, UnderLimits
from roofline.whatif.search.search import Choices, Ranking, Search, search
from roofline.whatif.search.serving.plans import Planned, ServingPlan, error_of

RENTED = (
    "l4", "l40s", "rtx-4090", "rtx-pro-6000-server", "a100-sxm-80gb", "h100-sxm", "h200-sxm", "b200", "mi300x",
    "mi355x",
)  # fmt: skip
"""Machines to choose from by default: accelerators that clouds rent by the hour."""
SERVER = 8
"""Chips of a machine at most, by default those of one server."""
READING_S = 60 / 238 * 3 / 4
"""Seconds per token of a person who reads: 238 words a minute (Brysbaert 2019, doi:10.1016/j.jml.2019.104047), 4 tokens
for 3 words (OpenAI's rule of thumb for English)."""
DAY_S, HOURS_A_MONTH = 86_400.0, 730.0
USUAL_PEAK = 2.0
"""Rate of the busiest hour over the mean of a day, by default: assumed."""


@dataclass(frozen=True)
class KindOfWork:
    """Mean lengths of requests of a kind of work, the share of their prompts that is cached, and their source."""

    input: int
    output_tokens: int
    prefix: float
    source: str

    @property
    def text(self) -> str:
        """Its lengths in words."""
        cached = f" with {100 * self.prefix:g} % of the prompt cached" if self.prefix else ""
        return f"{self.input} → {self.output_tokens}{cached}"


WORK: Mapping[str, KindOfWork] = MappingProxyType({
    "chat": KindOfWork(1155, 211, 0.0, "conversations of Azure's LLM inference trace of 2023"),
    "code": KindOfWork(2048, 28, 0.0, "completions of Azure's LLM inference trace of 2023"),
    "documents": KindOfWork(12035, 343, 0.40, "conversations of Mooncake's traces, FAST '25, table 2"),
    "agents": KindOfWork(8596, 182, 0.59, "tools and agents of Mooncake's traces, FAST '25, table 2"),
})  # fmt: skip
"""Kinds of work by published traces (github.com/Azure/AzurePublicDataset, github.com/kvcache-ai/Mooncake)."""
WorkName: TypeAlias = Annotated[str, ValueKind((str,), words=tuple(WORK))]
LENGTHS_OF_WORK = ", ".join(f"`{name}` {kind.text}" for name, kind in WORK.items())


@group
@dataclass(frozen=True, kw_only=True)
class PeoplesDemand(LengthSpread):
    """A demand as people say it: users at once or requests a day, and the kind of work."""

    users: Annotated[OneRequests | None, "People with a request under way at the same time."] = None
    requests_a_day: Annotated[RequestsOfDay | None, "Requests of a whole day, instead of users."] = None
    peak: Annotated[
        PlainNumber | None, "With --requests-a-day: the rate of the busiest hour over the mean of the day (2)."
    ] = None
    work: Annotated[WorkName, f"Tokens of requests by published traces: {LENGTHS_OF_WORK}."] = "chat"
    input: Annotated[OneTokens | None, "Prompt tokens of a request, instead of those of the work."] = None
    output_tokens: Annotated[OneTokens | None, "Generated tokens of a request, instead of those of the work."] = None
    prefix: Annotated[Share | None, "Share of each prompt in the prefix cache, instead of that of the work."] = None

    def load(self) -> Load:
        """The load of the busiest hour. Raises InputError for both or neither of users and requests a day."""
        if (self.users is None) == (self.requests_a_day is None):
            got = "neither" if self.users is None else "both"
            raise InputError("users and requests_a_day", got, "one of them")
        kind = WORK[self.work]
        prompt = kind.input if self.input is None else self.input
        output = kind.output_tokens if self.output_tokens is None else self.output_tokens
        cached = kind.prefix if self.prefix is None else self.prefix
        load = Load(prompt, output, cached, input_cv=self.input_cv, output_cv=self.output_cv)
        if self.peak is not None and not 1 <= self.peak < inf:
            raise InputError("peak", self.peak, "1 or more")
        if self.requests_a_day is not None:
            peak = USUAL_PEAK if self.peak is None else self.peak
            return replace(load, rate=self.requests_a_day / DAY_S * peak)
        if self.peak is not None:
            raise InputError("peak", self.peak, "requests_a_day as well: users are those of the busiest hour")
        return replace(load, concurrency=self.users)


@group
@dataclass(frozen=True, kw_only=True)
class RentedPlace(LawSettings, KernelSettings):
    """Machines to choose from, and how models run on them."""

    on: Annotated[MachineName | None, "Machines to choose from (default: accelerators that clouds rent)."] = None
    chips: Annotated[ChipCount, "Most chips of each machine; of several servers with a cluster, `4xdgx-h100`."] = SERVER


@dataclass(frozen=True)
class MachineRow(Planned, Figured):
    """The best that one machine can do. `plan`: null where it cannot serve the demand, and `why` says why not.

    `equal`: its price per hour is within the error of the cheapest machine's. `usd_per_month`: of 730 hours.
    """

    FIGURES: ClassVar[Units] = {
        "machine": "", "plan": "", "usd_per_month": "USD", "power_low": "W", "power_high": "W", "equal": "", "why": "",
    }  # fmt: skip

    machine: str
    plan: ServingPlan | None
    error: float = 0.0
    equal: bool = False
    why: str = ""

    @property
    def usd_per_month(self) -> float | None:
        """USD of 730 hours; None without a price."""
        hour = None if self.plan is None else self.plan.usd_per_hour
        return None if hour is None else hour * HOURS_A_MONTH


@dataclass(frozen=True, repr=False)
class MachineChoice(UnderLimits, Result):
    """Machines that serve a demand, the cheapest first; then those that cannot.

    `in_flight`, `requests_per_second`: the load of the busiest hour, one of them. `work`: the kind of work.
    """

    SCHEMA: ClassVar[str] = "roofline.machines/1"
    FIGURES: ClassVar[Units] = {
        "model": "", "work": "", **UnderLimits.FIGURES, "prefix": "share", "in_flight": "",
        "requests_per_second": "requests/s", "machines": "",
    }  # fmt: skip

    model: Model
    work: str
    demand: Load
    limits: Limits
    machines: tuple[MachineRow, ...]
    images: ImageTokens | None = None

    @property
    def prefix(self) -> float:
        """Share of each prompt in the prefix cache."""
        return float(self.demand.prefix)

    @property
    def in_flight(self) -> int | None:
        """Requests in flight; None at a rate."""
        return None if self.demand.concurrency is None else int(self.demand.concurrency)

    @property
    def requests_per_second(self) -> float | None:
        """Requests/s; None at a number of users."""
        return None if self.demand.rate is None else float(self.demand.rate)

    @property
    def found(self) -> bool:
        """Whether any machine serves the demand."""
        return any(row.plan is not None for row in self.machines)


@question()
def machines(
    model: Model | Source,
    demand: PeoplesDemand = PeoplesDemand(),
    limits: AnsweredSLO = AnsweredSLO(),  # noqa: B008
    place: RentedPlace = RentedPlace(),
    *,
    reading_speed: Annotated[Switch, "Answers as fast as people read, 189 ms a token, instead of --tpot."] = False,
    images: Images | None = None,
    bill: Bill | None = None,
    progress: Callable[[str], None] | None = None,
) -> MachineChoice:
    """Which machine to serve a demand with: the recommended plan of each machine, the cheapest first.

    The demand is a number of users at once or of requests a day, and a kind of work. Each machine has the plan that
    `search` recommends for that load by cost. Machines whose price is within the error of the cheapest are marked. A
    machine that refuses a setting, such as a format that it does not multiply in, says so in its row.
    `progress` is called with each machine before it is worked out.
    Raises InputError for settings that every machine refuses.
    """
    built, load = decoder_of(model, images), demand.load()
    if reading_speed and limits.tpot != AnsweredSLO.tpot:
        raise InputError("tpot", limits.tpot, "no other limit beside reading_speed, which is one on TPOT")
    kept = Limits(**vars(limits) | ({"tpot": READING_S} if reading_speed else {}))
    rows: list[MachineRow] = []
    refusals: list[InputError] = []
    for machine in RENTED if place.on is None else listed_machines(place.on):
        if progress is not None:
            progress(machine_chip(machine).name)
        choices = Choices(**vars(place) | {"on": machine}, kind="aggregated")
        try:
            rows.append(_row(built, choices, load, kept, images, bill))
        except InputError as error:
            refusals.append(error)
            rows.append(MachineRow(_named(machine), None, why=error_line(error).partition("; nearest")[0]))
    if len(refusals) == len(rows):
        raise refusals[0]
    rows.sort(key=_dearness)
    cheapest = rows[0]
    most = _dearness(cheapest) * (1 + cheapest.error)
    marked = (cheapest, *(replace(row, equal=_dearness(row) <= most < inf) for row in rows[1:]))
    return MachineChoice(built, demand.work, load, kept, marked, built.seen(images))


def _dearness(row: MachineRow) -> float:
    return inf if row.plan is None or row.plan.usd_per_hour is None else row.plan.usd_per_hour


def _named(machine: Machine) -> str:
    return machine if isinstance(machine, str) else machine_chip(machine).id


def _row(
    model: Model, choices: Choices, load: Load, limits: Limits, images: Images | None, bill: Bill | None
) -> MachineRow:
    """The plan that is recommended for one machine."""
    machine: Machine = choices.on
    name = _named(machine)
    if machine_chip(machine).link is None and not is_several(machine):
        choices = replace(choices, chips=1)  # how several would talk to each other is not known
    ranking = Ranking(objective=_aim(choices), top=1)
    plans: Search = search(model, load, limits, choices=choices, ranking=ranking, images=images, bill=bill)
    plan = plans.recommended or plans.highest
    if plan is None:
        fits = plans.deployments > 0
        return MachineRow(name, None, why=why_no_plan(plans) if fits else f"does not fit {choices.chips} chips")
    return MachineRow(name, plan, error_of(plan))


def _aim(choices: Choices) -> str:
    """By cost, where the chip has a price; else the fewest chips."""
    return "cost" if machine_chip(choices.on).price is not None else "chips"
