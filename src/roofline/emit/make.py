"""`hand_over`: the config of a training framework that runs exactly what was estimated, and what it cannot express."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from roofline.declared.errors import not_one_of
from roofline.declared.units import si
from roofline.emit.bridge import bridge_told
from roofline.emit.deepspeed import deepspeed_told
from roofline.emit.maxtext import maxtext_told
from roofline.emit.megatron import flags_text, megatron_told
from roofline.emit.sizes import ConfigEntry, LayoutSizes, Missing, Told, sizes_of
from roofline.emit.text import commented, config_json, toml_text, yaml_text
from roofline.emit.torchtitan import torchtitan_told
from roofline.estimates.train import TrainingEstimate

FrameworkName: TypeAlias = Literal["megatron", "bridge", "torchtitan", "deepspeed", "maxtext"]
FRAMEWORKS: tuple[FrameworkName, ...] = get_args(FrameworkName)


@dataclass(frozen=True)
class Framework:
    """How a framework is told: `told` gives its settings, `written` their text, which may have `comments` or not."""

    name: str
    told: Callable[[TrainingEstimate, LayoutSizes], Told]
    written: Callable[[tuple[ConfigEntry, ...]], str]
    comments: bool = True


KNOWN: Mapping[str, Framework] = {
    "megatron": Framework("Megatron-LM, flags of pretrain_gpt.py", megatron_told, flags_text),
    "bridge": Framework("Megatron Bridge, overrides of its ConfigContainer", bridge_told, yaml_text),
    "torchtitan": Framework("torchtitan, a job's TOML", torchtitan_told, toml_text),
    "deepspeed": Framework("DeepSpeed, its JSON config", deepspeed_told, config_json, comments=False),
    "maxtext": Framework("MaxText, a run's YAML", maxtext_told, yaml_text),
}


@dataclass(frozen=True)
class Emitted:
    """`settings` by the framework's own names, their `text` as it reads them, and what is `missing` of the layout."""

    framework: str
    settings: tuple[ConfigEntry, ...]
    text: str
    missing: tuple[str, ...]


def hand_over(e: TrainingEstimate, framework: str) -> Emitted:
    """The config of a framework for a training estimate; its comments say so where the step does not fit.

    Raises InputError for a framework that is not known, and for arrays of layouts.
    """
    if framework not in KNOWN:
        raise not_one_of("emit", framework, FRAMEWORKS)
    kind, sizes = KNOWN[framework], sizes_of(e)
    told = tuple(kind.told(e, sizes))
    settings = tuple(x for x in told if isinstance(x, ConfigEntry))
    missing = tuple(x.what for x in told if isinstance(x, Missing))
    head = [
        f"{kind.name}: {e.model.name} on {sizes.chips} × {e.chip.name}, {e.asked.layout.text()}",
        f"GPUs: {sizes.chips}; replicas: {sizes.dp}; micro-batches of each: {sizes.micro_batches}",
        *([] if e.fits else [f"does not fit: needs {si(e.memory.total, 'B')} of {si(e.memory.capacity, 'B')} a chip"]),
        *(f"not expressed: {what}" for what in missing),
    ]
    text = kind.written(settings)
    return Emitted(framework, settings, commented(head) + text if kind.comments else text, missing)
