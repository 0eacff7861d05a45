"""Trace any class of transformers or diffusers: what one call of its real code multiplies, on shapes alone.

A decoder of text is traced as a model of tokens (`make`). Everything else, an encoder, an encoder-decoder, a model of
images or sound, a denoiser, is traced for inputs of given shapes: every product then has a fixed number of rows, and a
batch repeats them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from importlib import import_module
from math import prod
from types import ModuleType
from typing import TYPE_CHECKING, TypeAlias

from roofline.declared.errors import InputError
from roofline.declared.trees import JsonObject
from roofline.model.checkpoints.quantization.methods import stored_precision
from roofline.model.config import Config
from roofline.model.model import Block, Model
from roofline.model.modules import Attention, Convolution, Embedding, Learned, Linear, Module
from roofline.model.trace.installed import real_code
from roofline.model.trace.watch import (
    _LAYER,
    _PRODUCTS,
    NamedOperands,
    Operand,
    Operands,
    _leaf,
    _quiet,
    _storage,
    _watching,
)

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch._ops import OpOverload

InputShapes: TypeAlias = Mapping[str, Operand]
"""Argument of the code → the shape of its tensor; nested lists are values, such as the grid of an image."""
WHOLE_NUMBERS = ("ids", "mask", "index", "labels", "lengths", "bbox", "shapes")
"""Parts of names of arguments that hold whole numbers."""
USUAL = {"tokens": 128, "side": 224, "samples": 16_000, "frames": 3_000}
"""Sizes of an input where neither the caller nor the config says them."""


WAYS = (("float32", "meta"), ("bfloat16", "meta"), ("float32", "cpu"))
"""Formats and devices of a trace, in the order they are tried. Grouped products run in bf16 alone; code that works out
sizes from values, as the grid of an image, needs fake tensors of a CPU, which keep small constants."""


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
    used: set[str] = field(default_factory=set)
    copies: list[Tensor] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.weights: dict[int, str] = {_storage(p): name for name, p in self.model.named_parameters()}

    def dispatch(self, function: OpOverload, args: Operands, kwargs: NamedOperands) -> Operand:
        """Run one torch function, and record it if it is a product or a convolution."""
        name = str(function.overloadpacket)
        args, kwargs = self._without_values(name, args, kwargs)
        leaves = import_module("torch.utils._pytree").tree_leaves
        self.used.update(self._owner(x) for x in leaves((args, kwargs)) if hasattr(x, "untyped_storage"))
        out = function(*args, **kwargs)
        if name in _PRODUCTS:
            first, second, added = _PRODUCTS[name]
            self._product(args[first], args[second], None if added is None else args[added])
        elif name == "aten.convolution":
            self._convolution(args, out)
        elif name == "aten.embedding":
            self._lookup(args[0], out)
        elif name in ("aten._to_copy", "aten.clone") and (owner := self._owner(args[0])):
            self.weights[_storage(out)] = owner
            self.copies.append(out)
        return out

    def _without_values(self, name: str, args: Operands, kwargs: NamedOperands) -> tuple[Operands, NamedOperands]:
        """The arguments as shapes where others are shapes, so that none needs values; none moves to a CPU."""
        tree = import_module("torch.utils._pytree")
        tensors = [x for x in tree.tree_leaves((args, kwargs)) if hasattr(x, "untyped_storage")]
        if all(x.device.type != "meta" for x in tensors):
            return args, kwargs
        if "device" in kwargs:
            kwargs = {**kwargs, "device": tensors[0].device if tensors[0].device.type == "meta" else "meta"}
        if all(x.device.type == "meta" for x in tensors):
            return args, kwargs

        def shape_of(x: Operand) -> Operand:
            values = hasattr(x, "untyped_storage") and x.device.type != "meta"
            return x.to("meta") if values else x

        args, kwargs = tree.tree_map(shape_of, (args, kwargs))
        return args, kwargs

    def unused(self) -> dict[str, int]:
        """The parameters that no function took, and their sizes."""
        owned = ((name, p, self._owner(p)) for name, p in self.model.named_parameters())
        return {name: p.numel() for name, p, owner in owned if owner not in self.used}

    def _owner(self, tensor: Tensor) -> str:
        return self.weights.get(_storage(tensor), "")

    def _product(self, a: Tensor, b: Tensor, added: Tensor | None) -> None:
        """A product with a weight, or one of two activations: half of an attention."""
        owner, weight, rows = self._owner(b), b, a.shape[-2]
        if not owner:
            owner, weight, rows = self._owner(a), a.mT, b.shape[-1]
        if not owner:
            self._activations(a, b)
            return
        inputs, outputs = weight.shape[-2:]
        groups = prod(weight.shape[:-2])
        if groups > 1 and weight.stride(0) == 0:
            rows, groups = rows * groups, 1
        bias = added is not None and bool(self._owner(added)) and added.numel() == outputs * groups
        first = owner not in self.counted
        self._add(owner, Linear(
            name=_leaf(owner), inputs=inputs * groups, outputs=outputs * groups, groups=groups, bias=bias and first,
            tied=not first, positions=rows,
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
        owner = self._owner(weight)
        around = x if transposed else out
        places = around.shape[0] * prod(around.shape[2:])
        inputs, outputs = x.shape[1], out.shape[1]
        first = owner not in self.counted
        module = Convolution(
            name=_leaf(owner) if owner else "convolution", inputs=inputs, outputs=outputs,
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
        owner = self._owner(table)
        if owner and owner not in self.counted:
            rows, width = table.shape
            self._add(owner, Embedding(name=_leaf(owner), rows=rows, width=width, positions=out.numel() // width))

    def _add(self, owner: str, module: Module) -> None:
        self.counted.add(owner)
        place = _LAYER.match(owner)
        self.ran.append(TracedProduct(place.group(1) if place else None, module))


def traced_call(name: str, raw: JsonObject, shapes: InputShapes | None = None, call: str = "forward") -> Model:
    """The model of one call of the class that a config names, for inputs of these shapes.

    `shapes`: argument → shape; without them those of one usual input. `call`: the method, such as `get_image_features`.
    Raises InputError where the class is not known, or its code does not run on shapes.
    """
    torch, transformers = real_code()
    kind = str(raw.get("_class_name") or raw.get("model_type") or "")
    with _quiet(torch, transformers):
        for attempt, (dtype, device) in enumerate(WAYS):
            torch.set_default_dtype(getattr(torch, dtype))
            try:
                fakes = import_module("torch._subclasses.fake_tensor").FakeTensorMode(allow_non_fake_inputs=True)
                with fakes if device == "cpu" else nullcontext():
                    with torch.device(device):
                        model = _built(torch, transformers, raw)
                    given = dict(shapes) if shapes is not None else dict(_usual(model, raw))
                    record = _Record(model)
                    arguments = {key: _tensor(torch, key, shape, device) for key, shape in given.items()}
                    with torch.no_grad(), _watching(record.dispatch):
                        _method(model, raw, given, call)(**arguments)
                    total = sum(p.numel() for p in model.parameters())
                    idle = record.unused()
                break
            except InputError:
                raise
            except Exception as error:  # whatever the class raises: caused by the config, the shapes or its code
                if attempt + 1 < len(WAYS):
                    continue
                reason = " ".join(str(error).split())[:160] or type(error).__name__
                expected = "a class whose code runs on inputs of these shapes alone"
                raise InputError("trace", f"{kind}: {reason}", expected) from error
    if shapes is None and sum(idle.values()) > UNUSED * total:
        places = list(dict.fromkeys(".".join(n.split(".")[:2]) for n in idle))
        expected = f"`shapes` of inputs that use all of it (not {', '.join(places[:3])})"
        raise InputError("trace", f"{kind}: {sum(idle.values())} of {total} parameters unused", expected)
    return _model(name or kind, kind, Config(raw), record, total, given)


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


ALONE = (("pixel_values", "get_image_features"), ("input_features", "get_audio_features"))
"""Argument → the method that reads it alone, in a class that also reads text."""


def _method(model: nn.Module, raw: JsonObject, given: InputShapes, call: str) -> Callable[..., Operand]:
    """The method to call: as asked, or where the shapes are those of a part, that part's: an encoder, a tower."""
    taken, name = inspect.signature(model.forward).parameters, call
    if call == "forward" and "input_ids" in taken and not {"input_ids", "decoder_input_ids"} & given.keys():
        name = next((method for key, method in ALONE if key in given and hasattr(model, method)), name)
    elif call == "forward":
        parts = (("x", "encode"), ("z", "decode"))
        name = next((method for key, method in parts if key in given and key not in taken), name)
    encodes = raw.get("is_encoder_decoder") and "decoder_input_ids" not in given and hasattr(model, "get_encoder")
    method_of: Operand = model if name == "forward" else getattr(model, name)
    chosen: Callable[..., Operand] = method_of.get_encoder() if name == "forward" and encodes else method_of
    return chosen


def _tensor(torch: ModuleType, name: str, shape: Operand, device: str) -> Operand:
    """An argument of that shape, without values; a nested list is values, and a plain number stays one."""
    if not isinstance(shape, (list, tuple)):
        return shape
    if shape and isinstance(shape[0], (list, tuple)):
        return torch.tensor(shape)
    whole = any(part in name for part in WHOLE_NUMBERS) and name not in ("img_ids", "txt_ids")
    return torch.zeros(*shape, dtype=torch.long if whole else torch.get_default_dtype(), device=device)


def _settings(raw: JsonObject) -> dict[str, Operand]:
    """The settings without those that say where code, kernels or weights come from."""
    return {
        key: _settings(value) if isinstance(value, Mapping) else value
        for key, value in raw.items()
        if not any(word in key for word in _NOT_SETTINGS)
        and not (key == "backbone" and isinstance(value, str) and (":" in value or "/" in value))
    }


def _usual(model: nn.Module, raw: Mapping[str, Operand]) -> Iterator[tuple[str, Sequence[int]]]:
    """InputShapes of one usual input, by the arguments that the code takes and the sizes that the config has."""
    taken = inspect.signature(model.forward).parameters
    sizes = {**raw, **(raw.get("vision_config") or {}), **(raw.get("audio_config") or {})}
    side = sizes.get("image_size") or sizes.get("sample_size") or USUAL["side"]
    across, down = side if isinstance(side, (list, tuple)) else (side, side)
    channels = sizes.get("num_channels") or sizes.get("in_channels") or 3
    text = {**raw, **(raw.get("text_config") or {})}
    if "input_ids" in taken:
        yield "input_ids", (1, min(USUAL["tokens"], text.get("max_position_embeddings") or USUAL["tokens"]))
    if "decoder_input_ids" in taken and raw.get("is_encoder_decoder"):
        yield "decoder_input_ids", (1, 1)
    if "pixel_values" in taken and "image_token_id" not in raw and "image_token_index" not in raw:
        yield "pixel_values", (1, channels, across, down)
    if "input_features" in taken:
        yield "input_features", (1, sizes.get("num_mel_bins") or 80, USUAL["frames"])
    if "input_values" in taken:
        yield "input_values", (1, USUAL["samples"])
    if "timestep" in taken:
        yield from _denoised(taken, sizes)


WIDTHS = ("joint_attention_dim", "cross_attention_dim", "text_embed_dim", "text_dim", "caption_channels")
"""Keys of the width of a text that a denoiser reads, in configs of diffusers."""


def _denoised(taken: Mapping[str, Operand], sizes: Mapping[str, Operand]) -> Iterator[tuple[str, Sequence[int]]]:
    """InputShapes of the latents and the text of a denoiser of diffusers: a small image or video."""
    channels, side, tokens = sizes.get("in_channels") or 4, 64, USUAL["tokens"]
    latents = "hidden_states" if "hidden_states" in taken else "sample"
    patches, video = side * side // 4, "rope_max_seq_len" in sizes or "patch_size_t" in sizes
    packed = "img_ids" in taken or "img_shapes" in taken
    yield latents, (1, patches, channels) if packed else (1, channels, *((5,) if video else ()), side, side)
    yield "timestep", (1,)
    width = next((sizes[key] for key in WIDTHS if isinstance(sizes.get(key), int)), None)
    if "encoder_hidden_states" in taken and width is not None:
        yield "encoder_hidden_states", (1, tokens, width)
    if "pooled_projections" in taken and sizes.get("pooled_projection_dim"):
        yield "pooled_projections", (1, sizes["pooled_projection_dim"])
    if "img_ids" in taken:
        yield from (("img_ids", (patches, 3)), ("txt_ids", (tokens, 3)))
    if "guidance" in taken and sizes.get("guidance_embeds"):
        yield "guidance", (1,)


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
        warnings=(f"traced for one input of {', '.join(f'{key} {_sides(shape)}' for key, shape in shapes.items())}",),
        not_counted=(
            "the work of all but matrix products, convolutions and attention "
            f"(traced from {'diffusers' if c.raw.get('_class_name') else 'transformers'} {version})",
        ),
    )  # fmt: skip


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
