"""The precision a checkpoint is stored in: `dtype` and `quantization_config` of a config.json."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from roofline.model.config import Config
from roofline.model.errors import InputError, nearest
from roofline.model.precision import FORMATS, Format, Precision, format_named, grouped, uniform

_METHODS = (
    "gptq", "awq", "fp8", "fbgemm_fp8", "bitsandbytes", "mxfp4", "compressed-tensors", "bitnet", "modelopt",
    "finegrained_fp8",
)  # fmt: skip


def checkpoint_precision(c: Config) -> Precision:
    """The format of each role, as the config states it.

    A missing dtype is read as bf16, with a note. Weight quantisation covers the attention, ffn and expert matrices
    and spares embedding, head, router and norms, unless the method says otherwise.

    Raises InputError for an unknown dtype, method or bit width.
    """
    base = uniform(_dtype(c))
    owner = next((x for x in (c, c.parent) if x is not None and x.has("quantization_config")), None)
    for x in (c, c.parent):
        if x is not None:
            x.read.update(("quantization_config", "compression_config"))
    if owner is None:
        return base
    q = owner.section("quantization_config")
    method = _method(q)
    weights = _weights(q, method)
    spared = _spared(q)
    roles: dict[str, Format] = {
        role: weights
        for role, marks in (
            ("attention", ("attn", "attention")),
            ("ffn", ("mlp", "feed_forward")),
            ("experts", ("experts",)),
        )
        if not any(_covers(entry, marks) for entry in spared)
    }
    if method == "mxfp4":
        roles = {"experts": weights}
    if method in ("gptq",) and q.flag("lm_head", False):
        roles["head"] = weights
    kv = _kv_format(q)
    return base.with_roles(**roles, **({"kv": kv} if kv else {}))


def _dtype(c: Config) -> Format:
    for x in (c, c.parent):
        if x is None:
            continue
        for key in ("dtype", "torch_dtype"):
            x.read.add(key)
            if x.has(key):
                chosen = format_named(x.raw[key], x.field(key))
                if chosen.bits < 8:
                    raise InputError(x.field(key), x.raw[key], "a dtype such as bfloat16")
                return chosen
    c.notes.append(f"{c.field('dtype')} is missing; bf16 was used")
    return FORMATS["bf16"]


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
        bits = q.size("bits|w_bit", 4, least=2, most=8)
        group = q.value("group_size|q_group_size", 128)[1]
        if type(group) is not int or group == 0 or group < -1:
            raise InputError(q.field("group_size"), group, "a positive whole number, or -1 for a whole row")
        size = 4096 if group == -1 else group
        return grouped(f"int{bits}-g{group}" if group != 128 else f"int{bits}", bits, size, 16 + bits)
    if method in ("fp8", "finegrained_fp8", "fbgemm_fp8"):
        block = q.value("weight_block_size", None)[1]
        if block is None:
            return FORMATS["fp8"]
        if not (isinstance(block, list) and len(block) == 2 and all(type(b) is int and b > 0 for b in block)):
            raise InputError(q.field("weight_block_size"), block, "two positive whole numbers")
        if block == [128, 128]:
            return FORMATS["fp8-block"]
        return grouped(f"fp8-block{block[0]}x{block[1]}", 8, block[0] * block[1], 32, "fp8")
    if method == "bitsandbytes":
        if q.flag("load_in_8bit|_load_in_8bit", False):
            return FORMATS["bnb-int8"]
        return FORMATS["nf4-double" if q.flag("bnb_4bit_use_double_quant", False) else "nf4"]
    if method == "mxfp4":
        return FORMATS["mxfp4"]
    if method == "bitnet":
        return FORMATS["ternary"]
    if method == "modelopt":
        algorithm = q.text("quant_algo", "FP8").upper()
        return FORMATS["nvfp4" if "FP4" in algorithm else "fp8"]
    return _compressed(q)


def _compressed(q: Config) -> Format:
    """compressed-tensors: the weights of its first group."""
    groups = q.section("config_groups")
    if not groups.raw:
        raise InputError(q.field("config_groups"), groups.raw, "at least one group")
    first = groups.section(next(iter(groups.raw)))
    weights = first.section("weights")
    bits = weights.size("num_bits", least=2, most=16)
    kind = weights.text("type", "int", ("int", "float"))
    group = weights.size("group_size", None, least=-1)
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
    size = group if group and group > 0 else 4096
    extra = 16 if weights.flag("symmetric", True) else 16 + bits
    return grouped(f"int{bits}-g{size}", bits, size, extra)


def _spared(q: Config) -> list[str]:
    """Module name patterns the method leaves unquantised."""
    found: list[str] = []
    for key in ("modules_to_not_convert", "ignore", "llm_int8_skip_modules", "ignored_layers", "exclude_modules"):
        value: Any = q.value(key, None)[1]
        if value is None:
            continue
        if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
            raise InputError(q.field(key), value, "a list of module names")
        found += value
    return found


def _covers(pattern: str, marks: tuple[str, ...]) -> bool:
    """Whether a pattern spares a whole kind of module in every layer, not one layer's."""
    whole = not any(part.isdigit() for part in pattern.replace("re:", "").split("."))
    tail = pattern.rstrip(".*$").rsplit(".", 1)[-1]
    return whole and any(mark in tail for mark in marks)


def _kv_format(q: Config) -> Format | None:
    scheme = q.section("kv_cache_scheme")
    if not scheme.raw:
        algorithm = q.value("kv_cache_quant_algo", None)[1]
        return format_named(algorithm, q.field("kv_cache_quant_algo")) if algorithm else None
    bits = scheme.size("num_bits", 8, least=4, most=16)
    return FORMATS["fp8" if scheme.text("type", "float") == "float" and bits == 8 else f"int{bits}"]
