"""Settings of every estimate beside its sizes: machine, layout, formats, engine and law, or lists of these.

The model, the machine, a layout with more than numbers in it, the formats and the engine may be lists. Each value then
has a plan of its own, and the result an axis for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any, ClassVar

import numpy as np

from roofline.declared.caching import remembered
from roofline.declared.checks import lengths_differ
from roofline.declared.errors import InputError
from roofline.declared.groups import Where
from roofline.declared.numbers.maths import Count, is_array, some
from roofline.declared.question import Settings, group_settings
from roofline.declared.question import question as declared_question
from roofline.declared.result import Axis, Grid, Leaf, Result, Units
from roofline.engines.engine import Engine, default_engine, engine_named
from roofline.hardware.chip import Chip
from roofline.hardware.cluster import Cluster, is_catalogued
from roofline.inference.cost.bill import PLAIN_BILL, Bill
from roofline.inference.deployment import (
    Deployment,
    Machine,
    deploy,
    inference_layouts,
    is_several,
    machine_chip,
    whole_machine,
)
from roofline.inference.memory.memory import Holding, holding
from roofline.inference.overlap import OverlappedPlan
from roofline.inference.plan import Plan
from roofline.kernels.target import Mode, Target, mode_named
from roofline.layout.layout import DISCRETE, SEVERAL, Layout, layout_named
from roofline.model.checkpoints.quantization.asked import formats_of, says_cache
from roofline.model.media.images import Images, ImageTokens
from roofline.model.model import Model, with_modules
from roofline.model.modules import Experts
from roofline.model.precision import Precision
from roofline.work.step import Step


@dataclass(frozen=True)
class Setup:
    """Resolved settings: a model in a deployment, in formats, with an engine and a law."""

    model: Model
    deployment: Deployment
    formats: Precision
    engine: Engine
    law: Mode
    bill: Bill = PLAIN_BILL
    seen: ImageTokens | None = None
    """Images of every request, which a vision tower encodes before its prompt."""

    @cached_property
    def plan(self) -> Plan:
        """The plan of what one rank holds."""
        return plan_of(self.model, self.deployment, self.formats, self.engine, self.law)

    @cached_property
    def holding(self) -> Holding:
        """What holds the sequences of the deployment, by the engine's memory rule."""
        return holding_of(self.model, self.deployment, self.formats, self.engine, None, self.seen)

    def seeing(self, images: Images | None) -> Setup:
        """The setup with images in every request. Raises InputError for a model without a rule for their tokens."""
        return self if images is None else replace(self, seen=self.model.seen(images))

    @property
    def layout(self) -> Layout:
        """The layout of the deployment."""
        return self.deployment.layout

    @property
    def assumed_popularity(self) -> float | None:
        """The assumed exponent by which steps visit experts; None where one is given, or without experts."""
        return None if self.layout.popularity is not None else assumed_popularity(self.model)

    @property
    def formats_text(self) -> Any:
        """The formats in words.

        For many layouts, the engine's own format of dispatched experts is named only where experts are dispatched (EP >
        1).
        """
        ep, dispatch = self.layout.ep, self.formats.dispatch
        own = dispatch is not None and self.engine.dispatches.get(self.formats.experts.name) == dispatch.name
        if not (own and is_array(ep)):
            return self.formats.text()
        return np.where(ep > 1, self.formats.text(), replace(self.formats, dispatch=None).text())

    @cached_property
    def target(self) -> Target:
        """The chip, formats, engine and law that ops are timed with."""
        return Target(self.deployment.chip, self.formats, self.engine, self.law, self.deployment.cluster)


class Deployed(Result):
    """An answer about a model in a deployment, with the settings that all such answers state."""

    PLACE: ClassVar[Units] = dict.fromkeys(
        ("model", "deployment", "engine", "law", "formats", "assumed_popularity"), ""
    )

    asked: Setup

    def leaves(self) -> Iterator[Leaf]:
        """The columns of a result, with the formats in words for each of many layouts."""
        for name, value, unit in super().leaves():
            yield name, self.asked.formats_text if name == "formats" else value, unit

    @property
    def model(self) -> Model:
        """The whole model."""
        return self.asked.model

    @property
    def deployment(self) -> Deployment:
        """Where the model runs: chips and layout."""
        return self.asked.deployment

    @property
    def chip(self) -> Chip:
        """The kind of chip that the model runs on."""
        return self.asked.deployment.chip

    @property
    def engine(self) -> Engine:
        """The engine, which determines kernels, host time and memory rule."""
        return self.asked.engine

    @property
    def law(self) -> str:
        """Name of the law that the times follow."""
        return self.asked.law.name

    @property
    def formats(self) -> Precision:
        """The format of every role."""
        return self.asked.formats

    @property
    def assumed_popularity(self) -> float | None:
        """The exponent by which steps visit experts; None where a popularity is told, and without experts."""
        return self.asked.assumed_popularity


@remembered(256)
def plan_of(model: Model, deployment: Deployment, formats: Precision, engine: Engine, law: Mode) -> Plan:
    """The plan of what one rank holds, cached in this process."""
    kind = OverlappedPlan if deployment.layout.overlap else Plan
    told = deployment.layout.popularity is not None
    rank = deployment.rank(model if told else routed(model))
    return kind(rank, Target(deployment.chip, formats, engine, law, deployment.cluster))


ROUTED = 0.6
"""Exponent of the power law by which tokens choose experts in a step that is timed, where no popularity is told: of
692 served rows of 8 mixtures the one with the least error, 7.9 % (8.7 % with even routing); 0.5 or 0.6 with each model
left out (`benchmarks/fit_popularity.py`). Rows are spread evenly over ranks all the same."""


@remembered(64)
def assumed_popularity(model: Model) -> float | None:
    """`ROUTED`, by which steps visit the experts of a model where no popularity is told; None without experts."""
    return ROUTED if any(isinstance(module, Experts) for module, _ in model.modules()) else None


@remembered(64)
def routed(model: Model) -> Model:
    """The model with experts that steps visit by `assumed_popularity`; the model itself without any."""
    exponent = assumed_popularity(model)
    if exponent is None:
        return model
    return with_modules(model, lambda x: replace(x, assumed=exponent) if isinstance(x, Experts) else x)


@remembered(256)
def holding_of(
    model: Model, deployment: Deployment, formats: Precision, engine: Engine, chunk: int | None,
    images: ImageTokens | None = None,
) -> Holding:  # fmt: skip
    """What holds the sequences of a model in a deployment, cached.

    `chunk`: most new tokens of a step, None for the engine's. `images`: of every sequence.
    """
    return holding(model, deployment, formats, engine, chunk, images)


def setup(model: Model, where: Where | None = None, bill: Bill | None = None, **settings: Any) -> Setup:
    """Resolve the settings of an inference estimate; without a layout all chips of a machine are used.

    `settings`: those of `Where`, if `where` is not given. Raises InputError for settings that are not understood, and
    for a layout of more chips than the cluster has.
    """
    place = Where(**Where.fully(settings)) if where is None else where
    known = isinstance(place.on, str) and is_catalogued(place.on)
    return (_known_setup if known else _setup)(model, place, bill)


def _setup(model: Model, where: Where, bill: Bill | None) -> Setup:
    chip = machine_chip(where.on)
    how = (default_engine(chip) if where.engine is None else engine_named(where.engine)).on(chip)
    mode = mode_named(where.law)
    own = model.precision
    model, formats = formats_of(model.served, where.precision)
    formats = formats if says_cache(where.precision) else how.caching(formats, own)
    formats = how.running(formats, chip)
    deployment = deployment_of(model, where.on, where.layout, formats, how)
    if some(deployment.layout.ep > 1):
        formats = how.dispatching(formats)
    return Setup(model, deployment, formats, how, mode, bill_of(bill))


def bill_of(bill: object) -> Bill:
    """The bill given, or the default one. Raises InputError for anything else."""
    if bill is not None and not isinstance(bill, Bill):
        raise InputError("bill", bill, "a Bill(price=…, utilisation=…, pue=…, grid=…)")
    return bill or PLAIN_BILL


_known_setup = remembered(256)(_setup)
"""`_setup`, cached, for machines of the catalog, which do not change."""


def deployment_of(model: Model, on: Machine, layout: object, formats: Precision, engine: Engine) -> Deployment:
    """Where the model runs: under the layout given, or on the whole machine."""
    if layout is not None or not is_several(on):
        return deploy(on, layout)
    return _whole_machine(model, on, formats, engine)


@remembered(256)
def _whole_machine(model: Model, on: Machine, formats: Precision, engine: Engine) -> Deployment:
    def holds(deployment: Deployment) -> bool:
        return bool(holding_of(model, deployment, formats, engine, None).fits(1, 1))

    return whole_machine(on, lambda cluster: inference_layouts(model, cluster), holds)


# -- lists of settings ---------------------------------------------------------------------------------------------
LISTED = ("model", *(name for name, setting in group_settings(Where).items() if setting.kind.varies))
"""Settings of every estimate that may be lists; no single value of them is a list or a tuple itself."""


def each(run: Callable[..., Any], options: Settings, names: Sequence[str] = LISTED) -> Any:
    """`run(**options)`, or a Grid with a run for each combination where any of the `names` is a list.

    In a layout that is a mapping, settings that are not numbers (stages, ZeRO, …) may be lists too. Raises InputError
    for an empty list.
    """
    axes = {name: tuple(v) for name, v in options.items() if name in names and isinstance(v, (list, tuple))}
    if not axes and not isinstance(options.get("layout"), Mapping):
        return run(**options)
    options = dict(options)
    degrees: dict[str, Any] = {}
    if isinstance(options.get("layout"), Mapping):
        degrees = dict(options.pop("layout"))
        axes |= {name: tuple(v) for name, v in degrees.items() if _is_list_of(name, v)}
    for name, values in axes.items():
        if not values:
            raise InputError(name, [], "at least one")

    def one(choice: Sequence[Any]) -> Any:
        chosen = dict(zip(axes, choice, strict=True))
        layout = {name: chosen.pop(name, value) for name, value in degrees.items()}
        return run(**{**options, **chosen, **({"layout": layout_named(layout)} if degrees else {})})

    if not axes:
        return one(())
    results = tuple(one(choice) for choice in product(*axes.values()))
    return Grid(tuple(Axis(name, setting_labels(name, values)) for name, values in axes.items()), results)


question = declared_question(each)
"""Decorator that makes a function a question whose settings may be lists."""


def _is_list_of(name: str, value: object) -> bool:
    """Whether this is a list of values for a setting that takes one of them."""
    if name not in DISCRETE or not isinstance(value, (list, tuple)):
        return False
    return name not in SEVERAL or any(isinstance(v, (list, tuple)) for v in value)


def setting_labels(name: str, values: Sequence[Any]) -> tuple[str, ...]:
    """Distinct labels for the values of a setting; an engine that is not given is `default`."""
    names = ["default" if name == "engine" and v is None else _label(v) for v in values]
    return tuple(n if names.count(n) == 1 else f"{n} ({i + 1})" for i, n in enumerate(names))


def _label(value: Any) -> str:
    match value:
        case Model() | Cluster():
            return value.name
        case Chip() | Engine():
            return value.plain()
        case Layout():
            return value.text()
        case Precision():
            return value.activations.name
        case Mapping():
            return ",".join(f"{k}={v}" for k, v in value.items())
        case tuple() | list():
            return "+".join(map(_label, value)) or "none"
        case None:
            return "none"
        case _:
            return str(value)


def broadcast(**numbers: Count | Layout | Step) -> tuple[int, ...]:
    """The broadcast shape of numbers, arrays and objects with a shape. Raises InputError where there is none."""
    try:
        return np.broadcast_shapes(*(np.shape(v) for v in numbers.values()))
    except ValueError:
        raise lengths_differ("arrays", {name: np.shape(v) for name, v in numbers.items()}) from None
