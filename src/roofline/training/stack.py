"""A training call completed by what the recipes of its stack set, where the call does not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace

from roofline.declared.kinds import Given
from roofline.declared.question import Settings
from roofline.engines.engine import Engine, trainer_named
from roofline.engines.settings import fields_of
from roofline.engines.stacks import StackSetting, Trainee, stack_rows, stack_settings
from roofline.hardware.cluster import cluster_named
from roofline.inference.deployment import is_several, machine_chip
from roofline.layout.layout import layout_named
from roofline.model import modules as m
from roofline.model.model import Model
from roofline.training.settings import Learner, TrainingWhere
from roofline.work.recipe import CHANGES, Recipe
from roofline.work.training import TrainingOptions

HABITS = ("dispatcher", "expert_layer_s")
"""Settings of a stack's recipes that are fields of its engine."""


@dataclass(frozen=True)
class Call:
    """What a training call says: where, how and what learns; `stack`: the settings that its stack's recipes added."""

    where: TrainingWhere
    how: TrainingOptions
    learner: Learner
    stack: tuple[StackSetting, ...] = ()

    @property
    def engine(self) -> Engine:
        """The training engine."""
        return trainer_named(self.where.engine, self.how.schedule or "")


def with_stack(model: Model, call: Call) -> Call:
    """The call with the settings of its stack's recipes for the model, the chip, the formats and the release."""
    engine, recipe = call.engine, call.how.recipe
    if engine.id not in stack_rows():
        return call
    base = recipe.name if isinstance(recipe, Recipe) else recipe
    rows = stack_settings(engine.id, _trainee(model, call, engine), base and base.partition("(")[0].strip())
    added: dict[str, StackSetting] = {s.name: s for s in rows if not _said(s.name, call, engine)}
    values = {name: setting.value for name, setting in added.items()}
    options = {field.name for field in fields(TrainingOptions)}
    how: dict[str, Given] = {name: value for name, value in values.items() if name in options}
    changes = {name: value for name, value in values.items() if name in CHANGES}
    if changes and not isinstance(recipe, Recipe):
        how["recipe"] = _changed(how.get("recipe", recipe) or "bf16", changes)
    habits: Settings = {name: values[name] for name in HABITS if name in values}
    engine = replace(engine, **habits) if habits else engine
    where = replace(call.where, engine=engine, layout=values.get("layout", call.where.layout))
    learner = replace(call.learner, drafts=values.get("drafts", call.learner.drafts))
    return replace(call, where=where, how=replace(call.how, **how), learner=learner, stack=tuple(added.values()))


def _trainee(model: Model, call: Call, engine: Engine) -> Trainee:
    where = call.where
    layout = None if where.layout is None else layout_named(where.layout)
    chips = cluster_named(where.on).chips if is_several(where.on) else 1
    return Trainee(
        engine.release, machine_chip(where.on), model.model_type, len(model.layers),
        any(isinstance(x, m.Experts) for x, _ in model.modules()), call.learner.lora is not None,
        layout is not None and layout.zero == 3, chips,
    )  # fmt: skip


def _said(name: str, call: Call, engine: Engine) -> bool:
    """Whether the call says a setting itself."""
    how, recipe = call.how, call.how.recipe
    if name in CHANGES:
        return isinstance(recipe, Recipe) or name in _keys(recipe or "")
    if name == "overlap":
        return how.overlap is not None and how.overlap is not True
    if name == "loss":
        return how.loss is not None or how.fused_loss
    if name == "offload_layers":
        return how.offload is not None
    if name in HABITS:
        return name in fields_of(engine.asked, engine.words)
    owner = call.where if name == "layout" else call.learner if name == "drafts" else how
    return getattr(owner, name) is not None


def _keys(recipe: str) -> Iterable[str]:
    """The formats that a recipe's brackets change."""
    return [word.partition("=")[0].strip() for word in recipe.partition("(")[2].removesuffix(")").split(",")]


def _changed(recipe: str, changes: Settings) -> str:
    """The text of a recipe with more of its formats changed."""
    base, _, inside = recipe.partition("(")
    more = [f"{name}={value}" for name, value in changes.items() if name not in _keys(recipe)]
    own = [word for word in inside.removesuffix(")").split(",") if word]
    return f"{base}({','.join([*own, *more])})" if own or more else base
