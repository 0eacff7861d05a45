"""Groups of settings of training: the framework, the machine, and what learns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from roofline.declared.errors import InputError
from roofline.declared.groups import KernelSettings, Where
from roofline.declared.kinds import EngineName, Given, ModelName, Names, OneTokens, Switch, Text, Whole, WholeOrNone
from roofline.declared.question import group
from roofline.model.adapters import named_targets, with_context, with_drafts, with_frozen, with_lora
from roofline.model.load import Source, model_of
from roofline.model.model import Model
from roofline.work.training import RECOMPUTE


@group
@dataclass(frozen=True, kw_only=True)
class TrainerSettings(KernelSettings):
    """The training framework whose conventions a step follows, its number formats, and chips that are slower."""

    engine: Annotated[
        EngineName | None,
        "The training framework, with its overheads, defaults and number formats: `megatron` (`megatron@0.14`, a "
        "release), `megatron-bridge` (its containers: `megatron-bridge@26.04`), `nemo`, `megatron-2025`, `fsdp`, "
        "`prime-rl`, `torchtitan`, `deepspeed`, `maxtext`, `hai-llm` (DeepSeek's), or `none`. Default: `megatron`, but "
        "`none` with the schedule `dualpipe`.",
    ] = None
    stragglers: Annotated[
        Text | None,
        "Chips that compute more slowly, as SHARE:SLOWDOWN with commas: `0.01:1.2,0.001:2`. A step waits for the "
        "slowest of its chips (default: as ranks scatter under the framework).",
    ] = None


@group
@dataclass(frozen=True, kw_only=True)
class TrainingWhere(TrainerSettings, Where):
    """The machine that a model trains on, and the framework that trains it."""


@group
@dataclass(frozen=True, kw_only=True)
class Learner:
    """Which parts of a model train, and what is added to it: adapters, layers of multi-token prediction."""

    lora: Annotated[Whole | None, "Rank of adapters on frozen weights."] = None
    lora_targets: Annotated[
        Names | None,
        "Linear layers that have an adapter, separated by commas, such as `qkv_proj,o_proj`; with `experts` each "
        "routed expert has its own (default: all of attention and feed-forward).",
    ] = None
    dora: Annotated[
        Switch, "Adapters learn the magnitude of each output too, over the norm of its row of weights (DoRA)."
    ] = False
    drafts: Annotated[
        WholeOrNone | None, "Multi-token-prediction layers that learn too (default: what the stack does, or 0)."
    ] = None

    context_length: Annotated[
        OneTokens | None,
        "The model's context while it trains, where sequences are longer than its own: RoPE is scaled, and no weight "
        "is added. With `cp` in the layout, 1Mi tokens fit.",
    ] = None

    teacher: Annotated[
        ModelName | None,
        "Frozen model whose logits this one learns from (distillation): its forward passes run under the same layout, "
        "before each of this one's.",
    ] = None
    reference: Annotated[
        Switch,
        "A frozen copy of the model runs forward too, as DPO has it; a pair is two sequences of the batch. With "
        "adapters it is the model without them, and has no weights of its own.",
    ] = False

    def second(self, model: Model | Source) -> Model | None:
        """The frozen model beside the one that learns: a teacher, or the reference. Raises InputError for both, and
        for a teacher with other tokens."""
        if self.teacher is None and not self.reference:
            return None
        if self.teacher is not None and self.reference:
            raise InputError("reference", True, "either a teacher or a reference", ["false"])
        built = model_of(model)
        other = built if self.teacher is None else model_of(self.teacher)
        if other.vocab != built.vocab:
            raise InputError("teacher", other.name, f"a model with the same {built.vocab} tokens, not {other.vocab}")
        return with_frozen(other if self.context_length is None else with_context(other, self.context_length))

    def of(self, model: Model | Source) -> Model:
        """The model that trains: of another context, with multi-token-prediction layers, with adapters on frozen
        weights."""
        built, targets = model_of(model), named_targets(self.lora_targets, self.lora)
        built = built if self.context_length is None else with_context(built, self.context_length)
        built = with_drafts(built, self.drafts) if self.drafts else built
        if self.lora is None:
            if self.dora:
                raise InputError("dora", True, "only with lora: the rank of adapters", ["false"])
            return built
        return with_lora(built, self.lora, targets, self.dora)


AS_IT_IS = Learner()


def is_one(name: str, value: Given) -> bool:
    """Whether a list is a single setting: the names of modules to recompute, or of what to offload."""
    if name not in ("recompute", "offload") or not isinstance(value, (list, tuple)):
        return False
    words = RECOMPUTE if name == "recompute" else ()
    return all(isinstance(v, str) and v not in words for v in value) and (bool(value) or name == "offload")
