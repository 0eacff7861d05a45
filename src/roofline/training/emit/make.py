"""`hand_over`: export a training estimate as a framework's config, and list what it cannot express."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from roofline.declared.errors import not_one_of
from roofline.declared.numbers.units import si
from roofline.training.emit.bridge import bridge_told
from roofline.training.emit.deepspeed import deepspeed_told
from roofline.training.emit.maxtext import maxtext_told
from roofline.training.emit.megatron import flags_text, megatron_told
from roofline.training.emit.sizes import ConfigEntry, LayoutSizes, Missing, Told, sizes_of
from roofline.training.emit.text import commented, config_json, python_text, yaml_text
from roofline.training.emit.torchtitan import torchtitan_told
from roofline.training.estimate import TrainingEstimate

FrameworkName: TypeAlias = Literal["megatron", "bridge", "torchtitan", "deepspeed", "maxtext"]
FRAMEWORKS: tuple[FrameworkName, ...] = get_args(FrameworkName)


@dataclass(frozen=True)
class Framework:
    """A training framework and the release whose names a config of it has.

    `told` gives its settings, `written` formats them as text, with `comments` if allowed.
    """

    name: str
    release: str
    told: Callable[[TrainingEstimate, LayoutSizes], Told]
    written: Callable[[tuple[ConfigEntry, ...]], str]
    comments: bool = True


KNOWN: Mapping[str, Framework] = {
    "megatron": Framework("Megatron-LM, flags of pretrain_gpt.py", "Megatron Core 0.16.1", megatron_told, flags_text),
    "bridge": Framework("Megatron Bridge, overrides of its ConfigContainer", "0.3.1", bridge_told, yaml_text),
    "torchtitan": Framework("torchtitan, fields of a Trainer.Config", "0.3.0", torchtitan_told, python_text),
    "deepspeed": Framework("DeepSpeed, its JSON config", "0.19.8", deepspeed_told, config_json, comments=False),
    "maxtext": Framework("MaxText, a run's YAML", "0.2.5", maxtext_told, yaml_text),
}


@dataclass(frozen=True)
class Emitted:
    """An exported config for a `release` of a framework.

    `settings` are under the framework's names; `missing` is what its `text` lacks.
    """

    framework: str
    settings: tuple[ConfigEntry, ...]
    text: str
    missing: tuple[str, ...]
    release: str = ""


def hand_over(e: TrainingEstimate, framework: str) -> Emitted:
    """The config of a framework for a training estimate; comments in it say if the step does not fit.

    Raises InputError for an unknown framework, and for an estimate of an array of layouts.
    """
    if framework not in KNOWN:
        raise not_one_of("emit", framework, FRAMEWORKS)
    kind, sizes = KNOWN[framework], sizes_of(e)
    told = tuple(kind.told(e, sizes))
    settings = tuple(x for x in told if isinstance(x, ConfigEntry))
    missing = tuple(x.what for x in told if isinstance(x, Missing))
    head = [
        f"{kind.name} ({kind.release}): {e.model.name} on {sizes.chips} × {e.chip.name}, {e.asked.layout.text()}",
        f"GPUs: {sizes.chips}; replicas: {sizes.dp}; micro-batches of each: {sizes.micro_batches}",
        *([] if e.fits else [f"does not fit: needs {si(e.memory.total, 'B')} of {si(e.memory.capacity, 'B')} a chip"]),
        *(f"not expressed: {what}" for what in missing),
    ]
    text = kind.written(settings)
    return Emitted(framework, settings, commented(head) + text if kind.comments else text, missing, kind.release)
