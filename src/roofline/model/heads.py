"""Heads of a model, from the class that a config names in `architectures`.

The head of a language model computes a logit for each token of the vocabulary. A base model has no head. Classifiers
and reward models have a small head instead, as in transformers 5.23 and, for reward models, in vLLM.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from roofline.declared.errors import InputError
from roofline.model.configs.config import Config
from roofline.model.model import Model
from roofline.model.modules import Activation, Embedding, Linear, Modules

MOST_LABELS = 2**20

_WRITES = re.compile(r"LMHeadModel$|For(CausalLM|ConditionalGeneration|ImageTextToText|MultimodalLM|Vision2Seq|OCR)")
_DRAFTS = re.compile(r"eagle(?!2)|medusa|speculator|mtp", re.IGNORECASE)
_HEAD = re.compile(r"(For[A-Z]|DoubleHeads)\w*$")
_YES_OR_NO = "ShieldGemma2ForImageClassification"
"""The class that classifies by the logits of two words, with the language model's head."""
_LAYERED = ("modernbert-decoder",)

MakeHead = Callable[[Config, int], tuple[Modules, str]]
"""Makes a head: (config, hidden size) → the head's modules and a description."""


def headed(model: Model, c: Config) -> tuple[Model, list[str]]:
    """The model with the head that `architectures` names, and a note if it is not the language model's.

    Raises InputError for a draft model, which runs on another model's hidden states, and for an unknown reward model.
    """
    name = c.architecture
    if _DRAFTS.search(name):
        raise InputError(
            "architectures", name, "a whole model (this is a draft, which runs on another's hidden states)"
        )
    if model.model_type in _LAYERED and not _WRITES.search(name) and name:
        raise InputError(
            "architectures", name, "the language model (its head is layers, which others have differently)"
        )
    if name == _YES_OR_NO:
        return model, []
    if name in c.defaults.bases:
        return _behind(model, (), f"{name}: a base model, without a head")
    make = _REWARD.get(name) or next((make for task, make in _TASKS.items() if name.endswith(task)), None)
    if make is None and "Reward" in name:
        raise InputError("architectures", name, "a head that is known", tuple(_REWARD))
    if make is None:
        unknown = _HEAD.search(name) and not _WRITES.search(name)
        return model, [f"{name} is no head that is known; that of a language model was counted"] if unknown else []
    modules, words = make(c, _last(model).inputs)
    return _behind(model, modules, f"{name}: {words}")


def _last(model: Model) -> Linear:
    """The language model's head."""
    return next(m for m in model.head if isinstance(m, Linear) and m.name == "lm_head")


def _behind(model: Model, modules: Modules, note: str) -> tuple[Model, list[str]]:
    """The model with its head replaced by `modules`; its embedding is no longer shared, and it has no draft layers."""
    kept = tuple(m for m in model.head if m is not _last(model))
    return unshared(replace(model, head=(*kept, *modules), drafts=())), [note]


def unshared(model: Model) -> Model:
    """The model with its tables looked up alone where no head multiplies by them, whatever the config ties."""
    if any(isinstance(x, Linear) and x.part == "head" and x.tied for x in model.head):
        return model
    tables = (replace(x, shared=False) if isinstance(x, Embedding) else x for x in model.embedding)
    return replace(model, embedding=tuple(tables))


# -- classifiers ---------------------------------------------------------------------------------------------------
def label_count(c: Config) -> int:
    """Number of classes of a classifier: the length of `id2label`, else `num_labels`, else 2."""
    named = c.raw.get("id2label")
    if isinstance(named, Mapping) and named:
        return len(named)
    return int(c.size("num_labels", 2, most=MOST_LABELS))


def _sequence(c: Config, width: int) -> tuple[Modules, str]:
    """A score for each class at one position per sequence, the last; engines pool before the head."""
    labels = label_count(c)
    score = Linear(name="score", inputs=width, outputs=labels, part="head")
    return (score,), f"{labels} label(s) at one position a sequence, no language head"


def _token(c: Config, width: int) -> tuple[Modules, str]:
    """A score for each class at each token."""
    labels = label_count(c)
    score = Linear(name="score", inputs=width, outputs=labels, bias=True, part="other")
    return (score,), f"{labels} label(s) at every token, no language head"


def _question(c: Config, width: int) -> tuple[Modules, str]:
    """Scores for the start and the end of an answer at each token."""
    return (Linear(name="qa_outputs", inputs=width, outputs=2, bias=True, part="other"),), (
        "start and end of an answer at every token, no language head"
    )


def _image(c: Config, width: int) -> tuple[Modules, str]:
    """A score for each class at the mean of all positions."""
    modules, words = _sequence(c, width)
    return tuple(replace(m, positions=1) for m in modules), words


_TASKS: Mapping[str, MakeHead] = MappingProxyType({
    "ForSequenceClassification": _sequence, "ForTokenClassification": _token, "ForQuestionAnswering": _question,
    "ForImageClassification": _image,
})  # fmt: skip


# -- reward models (vLLM's qwen2_rm.py and internlm2.py) -----------------------------------------------------------
def _two_layers(outputs: int) -> MakeHead:
    """Qwen2.5-Math's reward heads: a layer as wide as the hidden state, ReLU, then `outputs` scores at each token."""

    def make(c: Config, width: int) -> tuple[Modules, str]:
        modules = (
            Linear(name="score_in", inputs=width, outputs=width, bias=True, part="other"),
            Activation(name="score_act", width=width, function="relu", gated=False),
            Linear(name="score", inputs=width, outputs=outputs, bias=True, part="other"),
        )
        return modules, f"a reward head of two layers, {outputs} score(s) at every token, no language head"

    return make


def _value(c: Config, width: int) -> tuple[Modules, str]:
    """One value at each token."""
    return (Linear(name="v_head", inputs=width, outputs=1, part="other"),), "a value at every token, no language head"


def _score(c: Config, width: int) -> tuple[Modules, str]:
    """One score of a sequence, from its last token."""
    return (Linear(name="out_proj", inputs=width, outputs=1, bias=True, part="other"),), (
        "a score of a sequence, no language head"
    )


_REWARD: Mapping[str, MakeHead] = MappingProxyType({
    "Qwen2ForRewardModel": _two_layers(1), "Qwen2ForProcessRewardModel": _two_layers(2),
    "InternLM2ForRewardModel": _value, "GPTNeoXRewardModel": _score,
})  # fmt: skip
