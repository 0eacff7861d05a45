"""Run a model's real code on shapes, and record the weights it multiplies by and its attention.

A dispatch mode sees each product on torch's meta device, and identifies a weight by the storage that its views share.
Attention and routed experts are intercepted through transformers' interfaces for custom kernels, so grouped keys stay
grouped, windows are known, and no expert is looked up by the value of a router.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from roofline.declared.errors import InputError
from roofline.declared.trees import JsonObject
from roofline.model.modules import Attention, Embedding, Experts, Linear, Module
from roofline.model.trace.installed import real_code
from roofline.model.trace.values import Operand, dispatching
from roofline.model.trace.weights import COPIES, LAYER, OTHER_PRODUCTS, PRODUCTS, Weights, leaf

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch._ops import OpOverload
    from transformers import Cache, PretrainedConfig, PreTrainedModel

Operands: TypeAlias = tuple[Operand, ...]
NamedOperands: TypeAlias = Mapping[str, Operand]
_KERNEL = "roofline_trace"
_PLACE = re.compile(r"^([^.]+\.[^.*]+(?:\.[^.*]+\.\*\.[^.]+)?).*$")
"""The module path of a parameter, without its own name."""
_ONE_AT_A_TIME = threading.Lock()
_OTHERS_BEGIN = "aten._scaled_dot_product"


class HalfAModelError(InputError):
    """A causal language model of that type would be half of what the config describes."""


@dataclass(frozen=True)
class TracedStep:
    """A module as it ran in a pass: its layer (None outside layers), and whether it came after all layers."""

    module: Module
    layer: str | None = None
    last: bool = False


@dataclass(frozen=True)
class Pass:
    """The recorded work of one pass, and facts about the model. `unknown`: places with products that no module stands
    for.

    `unused`: the parameters that the pass did not use, and their sizes.
    """

    steps: tuple[TracedStep, ...]
    cached: bool
    unknown: frozenset[str]
    unused: Mapping[str, int]
    parameters: int
    vocab: int
    hidden: int
    context: int | None
    version: str


def passes(model_type: str, settings: JsonObject, shapes: Sequence[tuple[int, int, bool]]) -> list[Pass]:
    """The recorded passes of a type's real code, one for each of `shapes`: (sequences, new tokens, behind a cache).

    Raises InputError where transformers has no causal language model of that type, where its code depends on values, or
    where the language model is only part of the class that `architectures` names.
    """
    torch, transformers = real_code()
    with _ONE_AT_A_TIME, quiet(torch, transformers):
        if model_type not in transformers.CONFIG_MAPPING:
            raise InputError("model_type", model_type, f"a type that transformers {transformers.__version__} has")
        try:
            model = _built(torch, transformers, model_type, settings)
            whole = transformers.AutoConfig.for_model(model_type, **settings)
            _refuse_half(whole, model)
            ran = [_pass(torch, transformers, model, shape) for shape in shapes if not shape[2]]
            ran += _behind_a_cache(torch, transformers, model, shapes)
            _refuse_unused(model, ran)
            _refuse_other(torch, transformers, whole, model)
        except InputError:
            raise
        except Exception as error:  # whatever the model's code raises: caused by the config or that code
            reason = " ".join(str(error).split())[:120] or type(error).__name__
            expected = "a config whose code in transformers runs on shapes alone"
            raise InputError("trace", f"{model_type}: {reason}", expected) from error
        return ran


def _refuse_half(config: PretrainedConfig, model: PreTrainedModel) -> None:
    """Raises InputError where the config describes an encoder-decoder and the model is only its decoder."""
    if getattr(config, "is_encoder_decoder", False):
        part = type(model).__name__
        expected = f"a decoder of text alone (this is an encoder-decoder, of which {part} is a part)"
        raise HalfAModelError("trace", config.model_type, expected)


def _refuse_other(
    torch: ModuleType, transformers: ModuleType, config: PretrainedConfig, model: PreTrainedModel
) -> None:
    """Raises InputError where `architectures` names a transformers class other than the model's."""
    built = type(model).__name__
    named = next(iter(config.architectures or ()), built)
    if named != built and hasattr(transformers, named):
        with torch.device("meta"):
            whole = getattr(transformers, named)(config)
        sizes = f"{_values(model)} parameters, this has {_values(whole)}"
        raise HalfAModelError("architectures", named, f"{built}, the decoder that is traced ({sizes})")


def _values(model: PreTrainedModel) -> int:
    """Number of values in all parameters."""
    return sum(p.numel() for p in model.parameters())


def _refuse_unused(model: PreTrainedModel, runs: Sequence[Pass]) -> None:
    """Raises InputError where no text pass uses some parameters of the class: they do work that is not traced."""
    unused = {key: n for key, n in runs[0].unused.items() if all(key in run.unused for run in runs)}
    if unused:
        places = list(dict.fromkeys(_PLACE.sub(r"\1", re.sub(r"\.\d+\.", ".*.", key)) for key in unused))
        value = f"{type(model).__name__}: {sum(unused.values())} of {runs[0].parameters} parameters unused"
        raise HalfAModelError("trace", value, f"a class all of which a step of text uses (not {', '.join(places[:3])})")


@contextmanager
def quiet(torch: ModuleType, transformers: ModuleType) -> Iterator[None]:
    """Use bf16 weights, as grouped products need; print nothing and download nothing."""
    from huggingface_hub import constants as hub

    before = torch.get_default_dtype()
    level, offline = transformers.logging.get_verbosity(), hub.HF_HUB_OFFLINE
    torch.set_default_dtype(torch.bfloat16)
    transformers.logging.set_verbosity_error()
    hub.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        torch.set_default_dtype(before)
        transformers.logging.set_verbosity(level)
        hub.HF_HUB_OFFLINE = offline


def _built(torch: ModuleType, transformers: ModuleType, model_type: str, settings: JsonObject) -> PreTrainedModel:
    """The causal language model on the meta device, with the recording attention where it can be selected."""
    _register(transformers, _untraced, _untraced)

    whole = transformers.AutoConfig.for_model(model_type, **settings)
    if type(whole) not in transformers.MODEL_FOR_CAUSAL_LM_MAPPING:
        raise HalfAModelError("trace", model_type, "a type with a causal language model")

    def build(attention: str) -> PreTrainedModel:
        config = transformers.AutoConfig.for_model(model_type, **settings)
        config._experts_implementation = _KERNEL
        with torch.device("meta"):
            return transformers.AutoModelForCausalLM.from_config(config, attn_implementation=attention)

    try:
        model = build(_KERNEL)
    except (KeyError, ValueError):  # its attention cannot be selected
        model = build("eager")
    return model.train(False)


def _untraced(*args: Tensor, **kwargs: Tensor) -> NoReturn:
    raise RuntimeError("this runs in a trace only")


def _register(
    transformers: ModuleType, attend: Callable[..., tuple[Tensor, None]], experts: Callable[..., Tensor]
) -> None:
    transformers.AttentionInterface.register(_KERNEL, attend)
    import_module("transformers.integrations.moe").ALL_EXPERTS_FUNCTIONS.register(_KERNEL, experts)


def _behind_a_cache(
    torch: ModuleType, transformers: ModuleType, model: PreTrainedModel, shapes: Sequence[tuple[int, int, bool]]
) -> Iterator[Pass]:
    """The passes behind a cache; none for a model whose cache does not work without values."""
    for shape in shapes:
        if shape[2]:
            try:
                yield _pass(torch, transformers, model, shape)
            except Exception:  # the model reports that none ran
                return


def _pass(torch: ModuleType, transformers: ModuleType, model: PreTrainedModel, shape: tuple[int, int, bool]) -> Pass:
    """One pass; a pass behind a cache first runs a prompt that is not recorded."""
    sequences, tokens, cached = shape
    watch = _Watch(model, sequences * tokens)
    _register(transformers, watch.attend, watch.experts)
    ids = torch.zeros(sequences, tokens, dtype=torch.long, device="meta")
    with torch.no_grad():
        given: dict[str, bool | Cache] = {"use_cache": False}
        if cached:
            prompt = torch.zeros(sequences, 5, dtype=torch.long, device="meta")
            given = {"use_cache": True, "past_key_values": model(input_ids=prompt, use_cache=True).past_key_values}
            watch.steps.clear()
            watch.counted.clear()
            watch.unknown.clear()
        with dispatching(watch.dispatch):
            model(input_ids=ids, **given)
    text, table = model.config.get_text_config(), model.get_input_embeddings().weight
    return Pass(
        steps=tuple(watch.steps), cached=cached, unknown=frozenset(watch.unknown), unused=watch.weights.unused,
        parameters=_values(model), vocab=table.shape[0],
        hidden=getattr(text, "hidden_size", table.shape[1]), context=getattr(text, "max_position_embeddings", None),
        version=transformers.__version__,
    )  # fmt: skip


@dataclass
class _Watch:
    """Records the products of a pass over a given number of tokens, in order."""

    model: PreTrainedModel
    tokens: int
    steps: list[TracedStep] = field(default_factory=list)
    unknown: set[str] = field(default_factory=set)
    counted: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.names: dict[int, str] = {id(m): name for name, m in self.model.named_modules()}
        self.weights = Weights(self.model)
        head, table = self.model.get_output_embeddings(), self.model.get_input_embeddings()
        self.head = "" if head is None else self.weights.owner(head.weight)
        self.shared = self.head == self.weights.owner(table.weight)
        self.leaves: Callable[[Operand], list[Operand]] = import_module("torch.utils._pytree").tree_leaves

    # -- what torch runs -----------------------------------------------------------------------------------------------
    def dispatch(self, function: OpOverload, args: Operands, kwargs: NamedOperands) -> Operand:
        """Run one torch function, and record it if it is a product."""
        name = str(function.overloadpacket)
        self._use(args, kwargs)
        if name in PRODUCTS:
            first, second, added = PRODUCTS[name]
            self._product(args[first], args[second], None if added is None else args[added])
        elif name == "aten.embedding":
            self._lookup(args[0])
        elif name in OTHER_PRODUCTS or name.startswith(_OTHERS_BEGIN):
            owner = next((n for x in args if hasattr(x, "untyped_storage") and (n := self.weights.owner(x))), "")
            self.unknown.add(self._general(owner) or name)
        out = function(*args, **kwargs)
        if name in COPIES:
            self.weights.copy(args[0], out)
        return out

    def _use(self, *values: Operand) -> None:
        """Record the parameters among these values, however nested."""
        self.weights.use(value for value in self.leaves(values) if hasattr(value, "untyped_storage"))

    def _product(self, a: Tensor, b: Tensor, added: Tensor | None) -> None:
        """Record a·b, where one is a weight [in, out], or one such weight for each group."""
        ran = self.weights.product(a, b, added)
        if ran is None:
            self.unknown.add(f"behind {self.steps[-1].module.name}" if self.steps else "before all layers")
            return
        if ran.rows % self.tokens:
            self.unknown.add(self._general(ran.owner))
            return
        for _ in range(ran.rows // self.tokens):
            counted = ran.owner in self.counted
            self._add(ran.owner, Linear(
                name=leaf(ran.owner), inputs=ran.inputs, outputs=ran.outputs, groups=ran.groups,
                bias=ran.bias and not counted, part="head" if ran.owner == self.head else "ffn", tied=counted,
            ))  # fmt: skip

    def _lookup(self, table: Tensor) -> None:
        if (owner := self.weights.owner(table)) and owner not in self.counted:
            rows, width = table.shape
            shared = self.shared and owner == self.head
            self._add(owner, Embedding(name=leaf(owner), rows=rows, width=width, shared=shared))

    # -- what transformers lets one choose -----------------------------------------------------------------------------
    def attend(
        self,
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None = None,
        **kwargs: Operand,
    ) -> tuple[Tensor, None]:
        """Attention of [sequences, heads, tokens, head_dim] queries, its keys and values not repeated.

        Raises InputError where tokens attend to those behind them.
        """
        del mask
        if getattr(module, "is_causal", True) is False:
            name = type(self.model).__name__
            raise HalfAModelError("trace", name, "a decoder (in this encoder tokens attend to those behind them, too)")
        self._use(kwargs)
        sequences, heads, tokens, dim = query.shape
        self._add(self.names[id(module)] + ".", Attention(
            name=f"{leaf(self.names[id(module)] + '.')}.attention", heads=heads, kv_heads=key.shape[1], head_dim=dim,
            v_head_dim=value.shape[-1], window=kwargs.get("sliding_window"), sinks=kwargs.get("s_aux") is not None,
        ))  # fmt: skip
        return query.new_empty(sequences, tokens, heads, value.shape[-1]), None

    def experts(self, module: nn.Module, states: Tensor, index: Tensor, weights: Tensor) -> Tensor:
        """Routed experts on [tokens, hidden] states; `index` [tokens, top_k] selects them."""
        del weights
        self._use(list(module.parameters()))
        count, hidden = module.down_proj.shape[0], states.shape[-1]
        name = self.names[id(module)] + "."
        if states.shape[0] != self.tokens:
            self.unknown.add(self._general(name))
        else:
            inner, gated = module.down_proj.numel() // (count * hidden), bool(module.has_gate)
            self._add(name, Experts(
                name=leaf(name), hidden=hidden, inner=inner, experts=count, top_k=index.shape[-1], function="silu",
                gated=gated, bias=bool(module.has_bias),
            ))  # fmt: skip
        return states.new_empty(states.shape)

    # -- where ---------------------------------------------------------------------------------------------------------
    def _add(self, name: str, module: Module) -> None:
        """Record a module under the name that it, or its weight, has in the code."""
        self.counted.add(name)
        place = LAYER.match(name)
        layered = any(step.layer is not None for step in self.steps)
        self.steps.append(TracedStep(module, place.group(1) if place else None, layered and place is None))

    def _general(self, name: str) -> str:
        """A name with the layer number replaced, so that all layers share it."""
        return re.sub(r"\.\d+\.", ".*.", name)
