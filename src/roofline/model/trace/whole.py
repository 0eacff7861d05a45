"""Trace any class of transformers or diffusers: what one call of its real code multiplies, on shapes alone.

A decoder of text is traced as a model of tokens (`make`). Everything else, an encoder, an encoder-decoder, a model of
images or sound, a denoiser, is traced for inputs of given shapes: every product then has a fixed number of rows, and a
batch repeats them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from math import prod
from types import ModuleType
from typing import TYPE_CHECKING

from roofline.declared.errors import InputError
from roofline.declared.trees import JsonObject
from roofline.model.checkpoints.quantization.methods import stored_precision
from roofline.model.configs.config import Config
from roofline.model.model import Block, Model
from roofline.model.modules import Attention, Convolution, Embedding, Learned, Linear, Module
from roofline.model.trace.calls import InputShapes, make_call, usual_inputs
from roofline.model.trace.installed import real_code
from roofline.model.trace.values import KnownValues, Operand, dispatching, in_memory
from roofline.model.trace.watch import NamedOperands, Operands, quiet
from roofline.model.trace.weights import COPIES, LAYER, OTHER_PRODUCTS, PRODUCTS, Weights, leaf

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch._ops import OpOverload

FORMATS = ("float32", "bfloat16")
"""Formats of a trace, in the order they are tried: grouped products run in bf16 alone."""
NO_INPUT = "trace: expected a class that reads tokens, images, sound or latents"
"""Why a class has no usual input."""
UNUSED = 0.01
"""Share of the parameters that a usual input may leave unused."""
_NOT_SETTINGS = (
    "implementation", "auto_map", "quantization_config", "use_kernels", "name_or_path", "trust_", "pretrained_backbone",
)  # fmt: skip
"""Words in config keys that say where code, kernels or weights come from: only installed code is traced."""


@dataclass(frozen=True)
class TracedProduct:
    """A product as it ran: its layer, None outside layers, and the module that stands for it."""

    layer: str | None
    module: Module


@dataclass
class _Record:
    """Records the products of one call, in order."""

    model: nn.Module
    ran: list[TracedProduct] = field(default_factory=list)
    counted: set[str] = field(default_factory=set)
    unseen: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.weights = Weights(self.model)
        self.values = KnownValues(moved=self.weights.copy)
        self.mode = dispatching(self.dispatch)

    def begin(self) -> None:
        """Forget what ran: it made what the recorded call finds, a cache or the output of an encoder."""
        self.ran.clear()
        self.counted.clear()

    def dispatch(self, function: OpOverload, args: Operands, kwargs: NamedOperands) -> Operand:
        """Run one torch function, and record it if it is a product or a convolution."""
        if function.has_kernel_for_dispatch_key(self.values.torch._C.DispatchKey.CompositeImplicitAutograd):
            with self.mode:
                return function.decompose(*args, **kwargs)
        name = str(function.overloadpacket)
        self.weights.use(self.values.tensors((args, kwargs)))
        out = self.values.run(function, args, kwargs)
        if name in PRODUCTS:
            first, second, added = PRODUCTS[name]
            self._product(args[first], args[second], None if added is None else args[added])
        elif name == "aten.convolution":
            self._convolution(args, out)
        elif name == "aten.embedding":
            self._lookup(args[0], out)
        elif name in COPIES:
            self.weights.copy(args[0], out)
        elif name in OTHER_PRODUCTS:
            self.unseen.add(name)
        return out

    def _product(self, a: Tensor, b: Tensor, added: Tensor | None) -> None:
        """A product with a weight, or one of two activations: half of an attention."""
        ran = self.weights.product(a, b, added)
        if ran is None:
            self._activations(a, b)
            return
        first = ran.owner not in self.counted
        self._add(ran.owner, Linear(
            name=leaf(ran.owner), inputs=ran.inputs, outputs=ran.outputs, groups=ran.groups, bias=ran.bias and first,
            tied=not first, positions=ran.rows,
        ))  # fmt: skip

    def _activations(self, a: Tensor, b: Tensor) -> None:
        """Scores of queries and keys, and with the next product of the same shape their sum of values."""
        groups, rows, inner, keys = prod(a.shape[:-2]), a.shape[-2], a.shape[-1], b.shape[-1]
        before = self.ran[-1] if self.ran else None
        scores = before.module if before is not None else None
        alike = (groups, rows, inner)
        if isinstance(scores, Attention) and not scores.v_head_dim and alike == (
            scores.heads, scores.positions, scores.keys,
        ):  # fmt: skip
            assert before is not None
            self.ran[-1] = replace(before, module=replace(scores, v_head_dim=keys))
            return
        self.ran.append(TracedProduct(before.layer if before is not None else None, Attention(
            name="attention", heads=groups, kv_heads=groups, head_dim=inner, v_head_dim=0, keys=keys, positions=rows,
            causal=False,
        )))  # fmt: skip

    def _convolution(self, args: Operands, out: Tensor) -> None:
        x, weight, bias, *_ = args
        transposed, groups = bool(args[6]), int(args[8])
        owner = self.weights.owner(weight)
        around = x if transposed else out
        places = around.shape[0] * prod(around.shape[2:])
        inputs, outputs = x.shape[1], out.shape[1]
        first = owner not in self.counted
        module = Convolution(
            name=leaf(owner) if owner else "convolution", inputs=inputs, outputs=outputs,
            kernel=prod(weight.shape[2:]), groups=groups, bias=bias is not None and first, positions=places,
            transposed=transposed,
        )  # fmt: skip
        if owner and first:
            self._add(owner, module)
            return
        work = Linear(
            name=module.name, inputs=module.kernel * inputs, outputs=outputs, groups=groups, tied=True, positions=places
        )
        self._add(owner, work)

    def _lookup(self, table: Tensor, out: Tensor) -> None:
        owner = self.weights.owner(table)
        if owner and owner not in self.counted:
            rows, width = table.shape
            self._add(owner, Embedding(name=leaf(owner), rows=rows, width=width, positions=out.numel() // width))

    def _add(self, owner: str, module: Module) -> None:
        self.counted.add(owner)
        place = LAYER.match(owner)
        self.ran.append(TracedProduct(place.group(1) if place else None, module))


def traced_call(name: str, raw: JsonObject, shapes: InputShapes | None = None, call: str | None = None) -> Model:
    """The model of one call of the class that a config names, for inputs of these shapes.

    `shapes`: argument → shape; without them those of one usual input. `call`: the method, such as `get_image_features`.
    Without `shapes`, a class whose code runs on no usual input, or leaves a hundredth of its weights unused on each, is
    known by its weights alone: it has no steps. Raises InputError where the class is not known, and where its code does
    not run on `shapes`.
    """
    torch, transformers = real_code()
    kind = str(raw.get("_class_name") or raw.get("model_type") or "")
    reason, idle, total = "", {}, 0
    with quiet(torch, transformers):
        for dtype in FORMATS:
            torch.set_default_dtype(getattr(torch, dtype))
            try:
                with dispatching(KnownValues().run), torch.device("meta"), in_memory():
                    model = _built(torch, transformers, raw)
            except InputError:
                raise
            except Exception as error:  # whatever the class raises of its config
                raise _not_run(kind, error, "a config of which its class can be built") from error
            total = sum(p.numel() for p in model.parameters())
            _as_a_checkpoint(model)
            for given in [dict(shapes)] if shapes is not None else usual_inputs(model, raw):
                record = _Record(model)
                try:
                    with torch.no_grad(), record.mode, in_memory():
                        make_call(torch, model, raw, given, call, record.begin, as_many=shapes is None)
                except Exception as error:  # whatever the class raises of the shapes, or its code
                    failed = _not_run(kind, error, "a class whose code runs on inputs of these shapes alone")
                    if shapes is not None and dtype == FORMATS[-1]:
                        raise failed from error
                    reason = reason or str(failed)
                    continue
                idle = record.weights.unused
                if shapes is not None or sum(idle.values()) <= UNUSED * total:
                    return _model(name or kind, kind, Config(raw), record, total, given)
            if idle:
                places = list(dict.fromkeys(".".join(n.split(".")[:2]) for n in idle))
                expected = f"`shapes` of inputs that use all of it (not {', '.join(places[:3])})"
                reason = str(
                    InputError("trace", f"{kind}: {sum(idle.values())} of {total} parameters unused", expected)
                )
                break
    weights = _model(name or kind, kind, Config(raw), _Record(model), total, {})
    return replace(weights, steps=(), not_counted=(reason or NO_INPUT,))


def _as_a_checkpoint(model: nn.Module) -> None:
    """Set real buffers that a checkpoint fills to zero, as annealed ones, EoMT's masks, are at the end of training."""
    for module in model.modules():
        for name, buffer in module.named_buffers(recurse=False):
            saved = name not in module._non_persistent_buffers_set
            if saved and buffer.device.type != "meta" and buffer.dtype.is_floating_point:
                buffer.zero_()


def _not_run(kind: str, error: Exception, expected: str) -> InputError:
    """What the code of a class raised, in one line."""
    return InputError("trace", f"{kind}: {' '.join(str(error).split())[:160] or type(error).__name__}", expected)


def _is_a(kind: Operand, base: type) -> bool:
    """Whether this is a class below another one."""
    return isinstance(kind, type) and issubclass(kind, base)


def _built(torch: ModuleType, transformers: ModuleType, raw: JsonObject) -> nn.Module:
    """The class that the config names, on the meta device, with attention as products."""
    if isinstance(raw.get("_class_name"), str):
        diffusers = import_module("diffusers")
        kind: Operand = getattr(diffusers, str(raw["_class_name"]), None)
        if not _is_a(kind, diffusers.ModelMixin):
            raise InputError("_class_name", raw["_class_name"], "a model's class of diffusers")
        settings = {key: value for key, value in raw.items() if not key.startswith("_")}
        built: nn.Module = kind.from_config(settings).eval()
        return built
    settings = {key: value for key, value in _settings(raw).items() if key != "model_type"}
    config = transformers.AutoConfig.for_model(raw.get("model_type"), **settings)
    kind = getattr(transformers, Config(raw).architecture, None)
    if not _is_a(kind, transformers.PreTrainedModel):
        kind = None
    try:
        config._attn_implementation = "eager"
        config._experts_implementation = "batched_mm"
        built = transformers.AutoModel.from_config(config) if kind is None else kind(config)
    except (ImportError, ValueError):  # it has no attention to choose
        config = transformers.AutoConfig.for_model(raw.get("model_type"), **settings)
        built = transformers.AutoModel.from_config(config) if kind is None else kind(config)
    return built.eval()


def _setting(value: Operand) -> Operand:
    """A setting as code takes it: a config.json writes an infinite number as {"__float__": "Infinity"}."""
    if isinstance(value, list):
        return [_setting(each) for each in value]
    if isinstance(value, Mapping):
        return float(value["__float__"]) if "__float__" in value else _settings(value)
    return value


def _settings(raw: JsonObject) -> dict[str, Operand]:
    """The settings without those that say where code, kernels or weights come from."""
    return {
        key: _setting(value)
        for key, value in raw.items()
        if not any(word in key for word in _NOT_SETTINGS)
        and not (key == "backbone" and isinstance(value, str) and (":" in value or "/" in value))
    }


def _model(name: str, kind: str, c: Config, record: _Record, total: int, shapes: InputShapes) -> Model:
    """The model of what ran, layers in blocks, and all parameters."""
    layers = list(dict.fromkeys(run.layer for run in record.ran if run.layer is not None))
    first = next((i for i, run in enumerate(record.ran) if run.layer is not None), len(record.ran))
    before = [run.module for run in record.ran[:first]]
    after = [run.module for run in record.ran[first:] if run.layer is None]
    blocks = [Block("layer", _apart([run.module for run in record.ran if run.layer == layer])) for layer in layers]
    idle = total - sum(run.module.parameters for run in record.ran)
    rest = (Learned(name="rest", width=idle, applied=False),) if idle > 0 else ()
    rows = [run.module.positions or 1 for run in record.ran]
    version = import_module("diffusers" if c.raw.get("_class_name") else "transformers").__version__
    widths = (getattr(run.module, "outputs", 0) for run in record.ran)
    return Model(
        name=name, model_type=kind, vocab=0, hidden=max(widths, default=1),
        embedding=_apart([*before, *rest]), layers=tuple(blocks), head=_apart(after),
        precision=stored_precision(c), steps=("encode",), positions=max(rows, default=1),
        warnings=(f"traced for one input of {_inputs(shapes)}",) if shapes else (),
        not_counted=(
            "the work of all but matrix products, convolutions and attention "
            f"(traced from {'diffusers' if c.raw.get('_class_name') else 'transformers'} {version})",
        ),
    )  # fmt: skip


def _inputs(shapes: InputShapes) -> str:
    return ", ".join(f"{key} {_sides(shape)}" for key, shape in shapes.items())


def _sides(shape: Operand) -> str:
    return "×".join(map(str, shape)) if isinstance(shape, (list, tuple)) else str(shape)


def _apart(modules: Sequence[Module]) -> tuple[Module, ...]:
    """Modules with names of their own in their block."""
    known: dict[str, int] = {}
    named: list[Module] = []
    for module in modules:
        known[module.name] = number = known.get(module.name, 0) + 1
        named.append(module if number == 1 else replace(module, name=f"{module.name} {number}"))
    return tuple(named)
