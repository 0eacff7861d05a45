"""The precision a checkpoint is stored in: `dtype` and `quantization_config` of a config.json."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from roofline.model.config import LARGEST_SIZE, Config
from roofline.model.errors import InputError, nearest
from roofline.model.keys import HARMLESS_QUANTIZATION, NEUTRAL_QUANTIZATION
from roofline.model.precision import ALIASES, FORMATS, Format, Precision, format_named, grouped, uniform

_METHODS = (
    "gptq", "awq", "fp8", "fbgemm_fp8", "bitsandbytes", "mxfp4", "compressed-tensors", "bitnet", "modelopt",
    "finegrained_fp8",
)  # fmt: skip
_SECTIONS = ("quantization_config", "compression_config")
_DTYPES = ("fp64", "fp32", "bf16", "fp16", "fp8", "int8")
# NVIDIA's quant_algo, and what it makes of the weights.
_ALGORITHMS = {"FP8": "fp8", "FP8_PER_CHANNEL_PER_TOKEN": "fp8", "FP8_PB_WO": "fp8-block", "NVFP4": "nvfp4",
               "NVFP4_AWQ": "nvfp4", "W4A16_AWQ": "int4", "W8A16": "int8", "W8A8_SQ_PER_CHANNEL": "int8"}  # fmt: skip
_KV = {("float", 8): "fp8", ("float", 4): "fp4", ("int", 8): "int8", ("int", 4): "int4"}


def checkpoint_precision(c: Config) -> Precision:
    """The format of each role, as the config states it.

    A missing dtype is read as bf16, with a note. Weight quantisation covers the attention, ffn and expert matrices
    and spares embedding, head, router and norms, unless the method says otherwise.

    Raises InputError for an unknown dtype, method or bit width. A key of the quantisation that is not understood
    becomes a named warning.
    """
    base = uniform(_dtype(c))
    for key in ("mamba_ssm_dtype", "mamba_ssm_cache_dtype"):
        if c.has(key):
            base = base.with_roles(state=_stored(c.field(key), c.raw[key]))
        c.read.add(key)
    places = [(x, key) for x in (c, c.parent) if x is not None for key in _SECTIONS]
    for x, key in places:
        x.read.add(key)
    owner = next((place for place in places if place[0].has(place[1])), None)
    if owner is None:
        return base
    q = owner[0].section(owner[1])
    method = _method(q)
    weights = _weights(q, method)
    layers: int = c.size("num_hidden_layers|n_layer|n_layers|num_layers", 1)
    excluded = _excluded(q)
    roles: dict[str, Format] = {}
    for role, marks in _KINDS.items():
        spared = _spared_layers(excluded, marks)
        if spared is not None and len(spared) < layers:
            roles[role] = weights
            if spared:
                part = f"the {role} weights of {len(spared)} of {layers} layers"
                c.note(f"{q.path} leaves {part} unquantised; all were counted as {weights.name}")
    if method == "mxfp4":
        roles = {"experts": weights}
    if method in ("gptq",) and q.flag("lm_head", False):
        roles["head"] = weights
    kv = _kv_format(q)
    c.note(*q.notes, *q.leftovers(HARMLESS_QUANTIZATION, NEUTRAL_QUANTIZATION))
    return base.with_roles(**roles, **({"kv": kv} if kv else {}))


def _dtype(c: Config) -> Format:
    stated: list[tuple[str, object, Format]] = []
    for x in (c, c.parent):
        if x is None or stated:
            continue
        for key in ("dtype", "torch_dtype"):
            x.read.add(key)
            if x.has(key):
                stated.append((x.field(key), x.raw[key], _stored(x.field(key), x.raw[key])))
    if not stated:
        c.note(f"{c.field('dtype')} is missing; bf16 was used")
        return FORMATS["bf16"]
    (name, value, chosen), *others = stated
    c.note(*(f"{n} = {v} was not used, {name} = {value} was" for n, v, other in others if other != chosen))
    return chosen


def _stored(field: str, value: object) -> Format:
    """The format of an unquantised checkpoint."""
    names = [n for n in (*FORMATS, *ALIASES) if format_named(n).name in _DTYPES]
    if not isinstance(value, str) or value.strip().lower().removeprefix("torch.") not in names:
        near = nearest(value.removeprefix("torch."), names) if isinstance(value, str) else ()
        raise InputError(field, value, "a dtype such as bfloat16", near)
    return format_named(value, field)


def _method(q: Config) -> str:
    if not q.has("quant_method") and (q.has("load_in_4bit") or q.has("load_in_8bit")):
        return "bitsandbytes"
    if not q.has("quant_method") and q.has("config_groups"):
        return "compressed-tensors"
    method = q.text("quant_method")
    if method not in _METHODS:
        raise InputError(q.field("quant_method"), method, "a known method", nearest(method, _METHODS) or _METHODS)
    return method


def _weights(q: Config, method: str) -> Format:
    if method in ("gptq", "awq"):
        bits = q.size("bits|w_bit", least=2, most=8) if method == "gptq" else q.size("bits|w_bit", 4, least=2, most=8)
        group = _group(q, "group_size|q_group_size", 128)
        size = 4096 if group == -1 else group
        return grouped(f"int{bits}-g{group}" if group != 128 else f"int{bits}", bits, size, 16 + bits)
    if method in ("fp8", "finegrained_fp8", "fbgemm_fp8"):
        q.text("fmt", "e4m3", ("e4m3", "e5m2", "float8_e4m3fn", "float8_e5m2"))
        block = q.value("weight_block_size", None)[1]
        if block is None:
            return FORMATS["fp8"]
        if not (isinstance(block, list) and len(block) == 2 and all(map(_is_size, block))):
            raise InputError(q.field("weight_block_size"), block, f"two whole numbers from 1 to {LARGEST_SIZE}")
        if block == [128, 128]:
            return FORMATS["fp8-block"]
        return grouped(f"fp8-block{block[0]}x{block[1]}", 8, block[0] * block[1], 32, "fp8")
    if method == "bitsandbytes":
        eight, four = q.flag("load_in_8bit|_load_in_8bit"), q.flag("load_in_4bit|_load_in_4bit")
        if eight == four:
            raise InputError(q.field("load_in_4bit"), four, f"the opposite of load_in_8bit, which is {eight}")
        if eight:
            return FORMATS["bnb-int8"]
        q.text("bnb_4bit_quant_type", "nf4", ("nf4", "fp4"))
        return FORMATS["nf4-double" if q.flag("bnb_4bit_use_double_quant", False) else "nf4"]
    if method == "mxfp4":
        return FORMATS["mxfp4"]
    if method == "bitnet":
        return FORMATS["ternary"]
    if method == "modelopt":
        return FORMATS[_ALGORITHMS[q.text("quant_algo", choices=_ALGORITHMS)]]
    return _compressed(q)


def _compressed(q: Config) -> Format:
    """compressed-tensors: the weights of its first group."""
    groups = q.section("config_groups")
    if not groups.raw:
        raise InputError(q.field("config_groups"), groups.raw, "at least one group")
    first, *others = (groups.section(name) for name in groups.raw)
    weights = first.section("weights")
    ignored = [g for g in others if g.raw.get("weights") != weights.raw]
    q.note(*(f"{g.path} was not counted, {first.path} was for all" for g in ignored))
    bits = weights.size("num_bits", least=2, most=8)
    kind = weights.text("type", "int", ("int", "float"))
    group = _group(weights, "group_size", -1)
    activations = first.section("input_activations")
    if kind == "float" and bits == 8:
        block = weights.value("block_structure", None)[1]
        return FORMATS["fp8-block" if block == [128, 128] or weights.text("strategy", "tensor") == "block" else "fp8"]
    if kind == "float" and bits == 4:
        return FORMATS["nvfp4"] if group == 16 else FORMATS["mxfp4"]
    if kind == "float":
        raise InputError(weights.field("num_bits"), bits, "4 or 8 for float weights")
    if bits == 8 and activations.raw:
        return Format("int8", Fraction(8), compute="int8")
    size = 4096 if group == -1 else group
    extra = 16 if weights.flag("symmetric", True) else 16 + bits
    return grouped(f"int{bits}-g{size}", bits, size, extra)


def _group(q: Config, keys: str, default: int) -> int:
    """Values that share a scale, -1 for a whole row."""
    name, group = q.value(keys, default)
    if group != -1 and not _is_size(group):
        raise InputError(q.field(name), group, f"a whole number from 1 to {LARGEST_SIZE}, or -1 for a whole row")
    return int(group)


def _is_size(value: object) -> bool:
    return type(value) is int and 1 <= value <= LARGEST_SIZE


_KINDS = {"attention": ("attn", "attention"), "ffn": ("mlp", "feed_forward"), "experts": ("experts",)}


def _excluded(q: Config) -> list[str]:
    """Module name patterns the method leaves unquantised."""
    patterns: list[str] = []
    for key in ("modules_to_not_convert", "ignore", "llm_int8_skip_modules", "ignored_layers", "exclude_modules"):
        value: Any = q.value(key, None)[1]
        if value is None:
            continue
        if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
            raise InputError(q.field(key), value, "a list of module names")
        patterns += value
    return patterns


def _spared_layers(patterns: list[str], marks: tuple[str, ...]) -> set[str] | None:
    """The layers in which a kind of module is left unquantised, None for all of them.

    A pattern names the kind as a whole (`self_attn`, `model.layers.3.self_attn*`) or one of its projections; a layer is
    spared where two or more of them are named, one alone is not the kind.
    """
    projections: dict[str, set[str]] = {}
    for pattern in patterns:
        parts = [p.strip("*$^\\") for p in pattern.removeprefix("re:").replace("\\.", ".").split(".")]
        parts = [p for p in parts if p]
        at = next((i for i, part in enumerate(parts) if any(mark in part for mark in marks)), None)
        if at is None:
            continue
        layer = next((part for part in parts[:at] if part.isdigit()), "")
        if at == len(parts) - 1:
            projections.setdefault(layer, set()).update(("whole", parts[at]))
        elif parts[-1].endswith("proj"):
            projections.setdefault(layer, set()).add(parts[-1])
    spared = {layer for layer, names in projections.items() if len(names) > 1}
    return None if "" in spared else spared


def _kv_format(q: Config) -> Format | None:
    scheme = q.section("kv_cache_scheme")
    if not scheme.raw:
        algorithm = q.value("kv_cache_quant_algo", None)[1]
        return format_named(algorithm, q.field("kv_cache_quant_algo")) if algorithm is not None else None
    kind, bits = scheme.text("type", "float", ("float", "int")), scheme.size("num_bits", 8)
    if (kind, bits) not in _KV:
        raise InputError(scheme.field("num_bits"), bits, "4 or 8")
    return FORMATS[_KV[kind, bits]]
