"""Readers of each quantisation method's section of a config.json: which matrices are in which format.

A method is a function from its section to a `Scheme`. Keys are read as the method's own code reads them; an unknown key
gives a warning.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from math import ceil, log2
from typing import TypeGuard

from roofline.declared.errors import InputError, nearest
from roofline.declared.trees import JsonValue
from roofline.model.checkpoints.quantization.rules import Rule, Scheme
from roofline.model.configs.config import LARGEST_SIZE, Config
from roofline.model.configs.ignored_keys import HARMLESS_QUANTIZATION, NEUTRAL_QUANTIZATION
from roofline.model.formats import ALIASES, FORMATS, Format, by_row, format_named, grouped, integers
from roofline.model.modules import PARTS, Part
from roofline.model.precision import WEIGHTS, Precision, uniform

Method = Callable[[Config], Scheme]
METHODS: dict[str, Method] = {}
"""Name of a method → reader of its section."""
SECTIONS = ("quantization_config", "compression_config", "hf_quant_config", "quantization")
"""Sections that state a quantisation: the usual one, its predecessor, NVIDIA's separate file, MLX's."""
EVERYTHING = frozenset(PARTS)
_DTYPES = ("fp64", "fp32", "bf16", "fp16", "fp8", "int8")
_KV = {("float", 8): "fp8", ("float", 4): "fp4", ("int", 8): "int8", ("int", 4): "int4"}
_SPARED = (
    "modules_to_not_convert", "ignore", "llm_int8_skip_modules", "ignored_layers", "exclude_modules", "exclude",
    "skip_modules", "linear_weights_not_to_quantize",
)  # fmt: skip


_KEPT_IN_32_BITS = dict.fromkeys(("t5", "mt5", "umt5", "pop2piano", "udop"), ("down_proj",))
"""Type → modules that its class keeps in fp32 (`_keep_in_fp32_modules`), which bitsandbytes then does not quantise."""


def method(*names: str) -> Callable[[Method], Method]:
    """Register the reader of a method under its names."""

    def register(function: Method) -> Method:
        METHODS.update(dict.fromkeys(names, function))
        return function

    return register


# -- the checkpoint ------------------------------------------------------------------------------------------------
def stored_precision(c: Config, state: str | None = None, *, wide: bool = False) -> Precision:
    """The formats given by the config's dtypes, without quantisation. A missing dtype is read as bf16, with a note.

    `state`: format of recurrent states where no key gives it, None for the dtype. `wide`: whether engines may narrow
    it. Weights stored in 32 or 64 bits are loaded in bf16, as engines do by default (vLLM's `--dtype auto`), with a
    note. Raises InputError for an unknown dtype.
    """
    base = uniform(_dtype(c))
    base = base if state is None else replace(base.with_roles(state=state), wide_state=wide)
    for key in ("mamba_ssm_dtype", "mamba_ssm_cache_dtype", "inference_state_dtype"):
        if c.has(key):
            base = base.with_roles(state=_stored(c.field(key), c.get(key)))
        c.read.add(key)
    return replace(base, own=EVERYTHING)


def scheme_of(c: Config) -> Scheme | None:
    """The quantisation in a config, None if there is none.

    Raises InputError for an unknown method, and for a bit width that the method does not have.
    """
    places = [(x, key) for x in (c, c.parent) if x is not None for key in SECTIONS]
    for x, key in places:
        x.mark_read(key)
    place = next(((x, key) for x, key in places if x.has(key)), None)
    if place is None:
        return _by_bits(c)
    q = place[0].section(place[1])
    if place[1] == "hf_quant_config":
        q = q.section("quantization")
    scheme, kept = METHODS[_method(q)](q), _KEPT_IN_32_BITS.get(c.kind, ())
    if kept and _method(q) == "bitsandbytes":
        scheme = replace(scheme, rules=(*(Rule(pattern, FORMATS["fp32"]) for pattern in kept), *scheme.rules))
    kv = _kv_format(q)
    if kv is None and place[1] != "hf_quant_config" and place[0].has("hf_quant_config"):
        kv = _kv_format(place[0].section("hf_quant_config").section("quantization"))
    c.note(*q.notes, *q.leftovers(HARMLESS_QUANTIZATION, NEUTRAL_QUANTIZATION))
    return replace(scheme, source=q.path, kv=kv or scheme.kv)


def _by_bits(c: Config) -> Scheme | None:
    """ChatGLM's own quantisation: a key for the bits of the layers' matrices, each row of which has a 16-bit scale."""
    c.mark_read("quantization_embeddings")
    bits = c.size("quantization_bit", 0, least=0, most=8) if c.has("quantization_bit") else 0
    return Scheme(default=integers(bits, -1, zeros=False), source="quantization_bit") if bits else None


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
    if chosen.bits > FORMATS["bf16"].bits:
        c.note(f"{name} is {value}; loaded in bf16, as engines do, unless the precision is set to {chosen.name}")
        return FORMATS["bf16"]
    return chosen


def _stored(field: str, value: object) -> Format:
    """Format of an unquantised checkpoint's dtype."""
    names = [n for n in (*FORMATS, *ALIASES) if format_named(n).name in _DTYPES]
    if not isinstance(value, str) or value.strip().lower().removeprefix("torch.") not in names:
        near = nearest(value.removeprefix("torch."), names) if isinstance(value, str) else ()
        raise InputError(field, value, "a dtype such as bfloat16", near)
    return format_named(value, field)


def _method(q: Config) -> str:
    """Name of the method; if missing, it is inferred from the section's keys."""
    q.mark_read("quant_method")
    if q.has("quant_method"):
        name = q.text("quant_method").lower()
        if name not in METHODS:
            raise InputError(q.field("quant_method"), name, "a known method", nearest(name, METHODS) or sorted(METHODS))
        return name
    signs = (
        ("load_in_4bit", "bitsandbytes"), ("load_in_8bit", "bitsandbytes"), ("config_groups", "compressed-tensors"),
        ("quant_algo", "modelopt"), ("quantized_layers", "modelopt"), ("global_quant_config", "quark"),
        ("quant_type", "torchao"), ("weight_bits", "gptq"), ("dense_quant_type", "fastdeploy"),
    )  # fmt: skip
    for key, name in signs:
        if q.has(key):
            return name
    if q.has("bits") and (q.path.endswith("quantization") or (q.parent is not None and q.parent.has("quantization"))):
        return "mlx"  # which writes its section a second time, as `quantization_config`
    raise InputError(q.field("quant_method"), "nothing (missing key)", "a known method", sorted(METHODS))


# -- what sections have in common ----------------------------------------------------------------------------------
def _names(q: Config, key: str) -> list[str]:
    """A list of patterns, empty if the key is missing."""
    value = q.value(key, None)[1]
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        raise InputError(q.field(key), value, "a list of module names")
    return value


def _spared(q: Config) -> tuple[Rule, ...]:
    """Rules for modules that the method leaves unquantised."""
    return _rules_of(q, *_SPARED)


def _rules_of(q: Config, *keys: str) -> tuple[Rule, ...]:
    """Rules for modules that the lists under these keys leave unquantised."""
    return tuple(Rule(pattern) for key in keys for pattern in _names(q, key) if pattern)


def _all_but_spared(q: Config, fmt: Format, *more: Rule) -> Scheme:
    """All matrices of the layers in one format, except for unquantised modules and those of further rules."""
    return Scheme((*_spared(q), *more), fmt)


def _group(q: Config, keys: str, default: int) -> int:
    """Number of values that share a scale, −1 for a whole row."""
    name, group = q.value(keys, default)
    if group == -1:
        return -1
    if not _is_size(group):
        raise InputError(q.field(name), group, f"a whole number from 1 to {LARGEST_SIZE}, or -1 for a whole row")
    return group


def _is_size(value: object) -> TypeGuard[int]:
    return type(value) is int and 1 <= value <= LARGEST_SIZE


def _members(q: Config, key: str) -> Iterator[tuple[str, Config]]:
    """The nested objects of an object, by name."""
    section = q.section(key)
    for name in section.raw:
        yield name, section.section(name)


# -- floats --------------------------------------------------------------------------------------------------------
@method("fp8", "finegrained_fp8", "fbgemm_fp8")
def _fp8(q: Config) -> Scheme:
    """FP8 with a scale for each tensor, each row, or each block of weights."""
    q.text("fmt", "e4m3", ("e4m3", "e5m2", "float8_e4m3fn", "float8_e5m2"))
    if q.has("moe_quant_algo"):
        return _experts_apart(q)
    scheme = _all_but_spared(q, _fp8_format(q))
    if q.text("expert_dtype", "checkpoint", ("checkpoint", "fp4", "fp8")) != "fp4":
        return scheme
    return replace(scheme, rules=(*scheme.rules, Rule("experts", FORMATS["mxfp4"])))


def _fp8_format(q: Config) -> Format:
    """Format of FP8 weights, with the block that shares a scale, if any."""
    block, static = q.value("weight_block_size", None)[1], q.text("activation_scheme", "dynamic") == "static"
    if block is None:
        rows = q.raw.get("quant_method") == "fbgemm_fp8"
        fp8 = replace(FORMATS["fp8"], static=static)
        return by_row(fp8, 32) if rows else fp8
    if not (isinstance(block, list) and len(block) == 2 and all(map(_is_size, block))):
        raise InputError(q.field("weight_block_size"), block, f"two whole numbers from 1 to {LARGEST_SIZE}")
    if block == [128, 128]:
        return FORMATS["fp8-block"]
    name = f"fp8-block{block[0]}x{block[1]}"
    powers = q.text("scale_fmt", "float", ("float", "ue8m0")) == "ue8m0"
    return replace(grouped(name, 8, block[0] * block[1], 8 if powers else 32, "fp8"), scales="block")


_SPARED_FROM_FP8 = ("modules_to_not_convert", "ignored_layers")


def _experts_apart(q: Config) -> Scheme:
    """An FP8 checkpoint whose routed experts are quantised again by `moe_quant_algo` (DeepSeek-V4 in NVFP4).

    Modules in FP8's exclusion lists are in 16 bits; modules in the other lists (`ignore`) stay in FP8.
    """
    q.mark_read("quant_algo", "group_size", "config_groups")
    before = Scheme(_rules_of(q, *_SPARED_FROM_FP8), _fp8_format(q))
    spared = _rules_of(q, *(key for key in _SPARED if key not in _SPARED_FROM_FP8))
    listed = tuple(Rule(name, _algorithm(x)) for name, x in _members(q, "quantized_layers"))
    every = Rule("experts", FORMATS[_ALGORITHMS[q.text("moe_quant_algo", choices=_ALGORITHMS)]])
    return Scheme((*spared, *listed, every), before=before)


@method("mxfp4")
def _mxfp4(q: Config) -> Scheme:
    """MXFP4 weights of the experts, as in the published gpt-oss."""
    return Scheme(_spared(q), FORMATS["mxfp4"], covers=frozenset({"experts"}))


@method("mxfp8")
def _mxfp8(q: Config) -> Scheme:
    """FP8 with an 8-bit scale for 32 values of a row, as the published MiniMax-M3-MXFP8."""
    if q.value("weight_block_size", [1, 32])[1] != [1, 32]:
        raise q.error("weight_block_size", "[1, 32]")
    return _all_but_spared(q, FORMATS["mxfp8"])


@method("fp_quant")
def _fp_quant(q: Config) -> Scheme:
    return _all_but_spared(q, FORMATS[q.text("forward_dtype", "mxfp4", ("mxfp4", "nvfp4"))])


# -- NVIDIA --------------------------------------------------------------------------------------------------------
_ALGORITHMS = {
    "FP8": "fp8", "FP8_PER_CHANNEL_PER_TOKEN": "fp8", "FP8_PB_WO": "fp8-block", "FP8_PB_REAL": "fp8-block",
    "NVFP4": "nvfp4", "NVFP4_AWQ": "nvfp4", "NVFP4_SVDQUANT": "nvfp4", "W4A8_NVFP4_FP8": "nvfp4",
    "W4A16_NVFP4": "nvfp4-a16",
    "W4A16_AWQ": "int4", "W4A8_AWQ": "int4", "W4A16": "int4", "INT4_AWQ": "int4", "W8A16": "int8-g128",
    "W8A8_SQ_PER_CHANNEL": "int8", "W8A8_SQ_PER_TENSOR_PLUGIN": "int8", "INT8_SQ": "int8", "MXFP8": "mxfp8",
    "W4A8_MXFP4_FP8": "mxfp4", "MXFP4": "mxfp4",
}  # fmt: skip


@method("modelopt", "modelopt_fp4", "modelopt_mixed")
def _modelopt(q: Config) -> Scheme:
    """TensorRT Model Optimizer: one algorithm for all, groups as in compressed-tensors, or an algorithm per module."""
    if q.has("moe_quant_algo"):
        return _fp8(q)
    q.mark_read("quant_algo", "quantized_layers")
    algorithm = q.raw.get("quant_algo")
    if q.has("quantized_layers") or algorithm == "MIXED_PRECISION":
        layers = tuple(Rule(name, _algorithm(x)) for name, x in _members(q, "quantized_layers"))
        if not layers:
            raise InputError(q.field("quantized_layers"), None, "the algorithm of each module")
        return Scheme((*_spared(q), *layers))
    if q.has("config_groups"):
        return _compressed(q)
    return _all_but_spared(q, _algorithm(q))


def _algorithm(q: Config) -> Format:
    algorithm = q.text("quant_algo", choices=_ALGORITHMS)
    fmt, group = FORMATS[_ALGORITHMS[algorithm]], _group(q, "group_size", -1)
    if fmt.name == "nvfp4-a16" and group not in (-1, 16):
        return grouped(f"nvfp4-a16-g{group}", 4, group, 8)
    if fmt.name in ("int4", "int8-g128") and group > 0:
        fmt = grouped(f"int{fmt.bits}-g{group}", fmt.bits, group, 16)
    if "AWQ" in algorithm:
        fmt = replace(fmt, input_bits=16)  # by which its inputs are scaled
    if "PER_CHANNEL" in algorithm:
        return by_row(fmt, 32)
    return replace(fmt, static=True) if fmt.name == "fp8" else fmt


# -- compressed-tensors --------------------------------------------------------------------------------------------
@method("compressed-tensors", "compressed_tensors")
def _compressed(q: Config) -> Scheme:
    """Groups of modules with one format each; the target `Linear` stands for all modules that no other target names."""
    rules: list[Rule] = []
    default: Format | None = None
    groups = list(_members(q, "config_groups"))
    if not groups:
        raise InputError(q.field("config_groups"), {}, "at least one group")
    whole = q.text("format", "")
    for _, group in groups:
        fmt = _group_format(group, whole)
        group.mark_read("output_activations")
        for target in _names(group, "targets") or ["Linear"]:
            if re.fullmatch(r"(re:)?\.?\*?(Linear|FusedMoE|MoE|RoutedExperts)\$?", target):
                if default is not None and fmt != default:
                    q.note(f"{group.path} was not counted, another group was for all")
                default = default or fmt
            else:
                rules.append(Rule(target, fmt))
        q.note(*group.leftovers(HARMLESS_QUANTIZATION, NEUTRAL_QUANTIZATION))
    return Scheme((*_spared(q), *rules), default)


_UNPACKED = ("int-quantized", "naive-quantized")
"""Layouts of compressed-tensors that store a byte for an integer, however few bits it has."""


def _group_format(group: Config, whole: str) -> Format | None:
    """Format of a group's weights, None if they are not quantised; `whole`: layout of groups that do not say theirs."""
    weights, activations = group.section("weights"), group.section("input_activations")
    if not group.has("weights"):
        return None
    bits, kind = weights.size("num_bits", least=2, most=16), weights.text("type", "int", ("int", "float"))
    strategy = weights.text("strategy", "") or ("group" if weights.has("group_size") else "tensor")
    size = _group(weights, "group_size", -1)
    static, layout = activations.raw.get("dynamic") is False, group.text("format", whole)
    if bits == 16 or layout == "dense":
        return None
    if kind == "float" and bits == 8:
        block = weights.value("block_structure", None)[1]
        if strategy == "block" or block is not None:
            return FORMATS["fp8-block"]
        if strategy == "group" and size == 32:
            return FORMATS["mxfp8"]
        return _by_strategy(replace(FORMATS["fp8"], static=static), strategy)
    if kind == "float" and bits == 4:
        return FORMATS["nvfp4"] if size == 16 else FORMATS["mxfp4"]
    if kind == "float":
        raise InputError(weights.field("num_bits"), bits, "4 or 8 for float weights")
    if bits == 8 and activations.raw:
        return _by_strategy(replace(FORMATS["int8"], static=static), strategy)
    chosen = integers(bits, size, zeros=not weights.flag("symmetric", True))
    stored = Fraction(8 if layout in _UNPACKED else bits)
    reordered = weights.text("actorder", "") in ("group", "dynamic")
    return replace(chosen, bits=stored, input_bits=32 if reordered else 0)


def _by_strategy(fmt: Format, strategy: str) -> Format:
    """The format with a 16-bit scale for every row where the strategy is `channel`."""
    return by_row(fmt, 16) if strategy == "channel" else fmt


# -- integers ------------------------------------------------------------------------------------------------------
@method("gptq", "gptq_marlin", "gptq_bitblas", "gptqmodel", "marlin", "bitblas")
def _gptq(q: Config) -> Scheme:
    """GPTQ: a scale and a zero point for each group, and the group index of each input.

    `dynamic` lists modules with other settings, or left unquantised.
    """
    bits, size = q.size("bits|w_bit", least=2, most=8), _group(q, "group_size|q_group_size", 128)
    only = q.value("modules_in_block_to_quantize", None)[1]
    rules = [*_spared(q), *_overrides(q, "dynamic", bits, size)]
    q.mark_read("dynamic")
    head = [Rule("lm_head", _gptq_integers(bits, size))] if q.flag("lm_head", False) else []
    if not only:
        return Scheme((*rules, *head), _gptq_integers(bits, size))
    names = [name for entry in _listed(q, "modules_in_block_to_quantize", only) for name in entry]
    return Scheme((*rules, *head, *(Rule(name, _gptq_integers(bits, size)) for name in names)))


def _gptq_integers(bits: int, size: int) -> Format:
    """Integers as GPTQ packs them: always with zero points, and with a 32-bit group index for each input."""
    return replace(integers(bits, size), input_bits=32)


def _listed(q: Config, key: str, value: JsonValue) -> list[list[str]]:
    """Lists of module names; a single name becomes a list."""
    entries = value if isinstance(value, list) else [value]
    lists = [entry if isinstance(entry, list) else [entry] for entry in entries]
    names = [[name for name in entry if isinstance(name, str)] for entry in lists]
    if names != lists:
        raise InputError(q.field(key), value, "lists of module names")
    return names


def _overrides(q: Config, key: str, bits: int, size: int) -> Iterator[Rule]:
    """GPTQModel's `dynamic`: `+:regex` with other bits or groups, `-:regex` for modules left unquantised."""
    for name, x in _members(q, key):
        sign, _, expression = name.partition(":") if name[:2] in ("+:", "-:") else ("+", "", name)
        fmt = _gptq_integers(x.size("bits", bits, least=2, most=8), _group(x, "group_size", size))
        x.mark_read("desc_act", "sym", "mse", "damp_percent")
        yield Rule(f"re:{expression}", None if sign == "-" else fmt)


@method("awq", "awq_marlin", "ipex", "llm-awq")
def _awq(q: Config) -> Scheme:
    """AWQ: a scale for each group, with a zero point unless `zero_point` is false."""
    zeros, bits = q.flag("zero_point", True), q.size("bits|w_bit", 4, least=2, most=8)
    return _all_but_spared(q, integers(bits, _group(q, "group_size|q_group_size", 128), zeros=zeros))


@method("auto-round", "auto_round", "autoround", "intel/auto-round", "inc")
def _auto_round(q: Config) -> Scheme:
    """AutoRound; `extra_config` lists modules with other settings. Integers may be packed as in GPTQ."""
    bits, size = q.size("bits", 4, least=2, most=16), _group(q, "group_size", 128)
    kind = q.text("data_type", "int")
    packed = "gptq" in q.text("packing_format", "") or "gptq" in q.text("backend", "")
    q.mark_read("to_quant_block_names", "autoround_version", "iters", "low_gpu_mem_usage", "nsamples")

    def fmt(x: Config) -> Format | None:
        width, each = x.size("bits", bits, least=2, most=16), _group(x, "group_size", size)
        named, symmetric = x.text("data_type", kind), x.flag("sym", True)
        if width >= 16:
            return None
        return _gptq_integers(width, each) if packed and named == "int" else _named_kind(named, width, each, symmetric)

    rules = tuple(Rule(_auto_name(name), fmt(x)) for name, x in _members(q, "extra_config"))
    return Scheme((*_spared(q), *rules), fmt(q))


def _auto_name(name: str) -> str:
    return f"re:{name}" if any(sign in name for sign in "*\\^$[(") and not name.startswith("re:") else name


def _named_kind(kind: str, bits: int, size: int, symmetric: bool = True) -> Format:
    """Format of a kind given in words, with its bits and group size."""
    kind = kind.lower()
    if "nv" in kind and bits == 4:
        return FORMATS["nvfp4"]
    if "mx" in kind:
        return FORMATS["mxfp8" if bits == 8 else "mxfp4"]
    if "fp" in kind or "float" in kind:
        return FORMATS["fp8" if bits == 8 else "fp4"]
    return integers(bits, size, zeros=not symmetric)


@method("bitsandbytes")
def _bitsandbytes(q: Config) -> Scheme:
    """LLM.int8() or 4-bit blocks (arXiv:2208.07339, arXiv:2305.14314)."""
    eight, four = q.flag("load_in_8bit|_load_in_8bit"), q.flag("load_in_4bit|_load_in_4bit")
    if eight == four:
        raise InputError(q.field("load_in_4bit"), four, f"the opposite of load_in_8bit, which is {eight}")
    if eight:
        return _all_but_spared(q, by_row(FORMATS["bnb-int8"], 32))
    q.text("bnb_4bit_quant_type", "nf4", ("nf4", "fp4"))
    return _all_but_spared(q, FORMATS["nf4-double" if q.flag("bnb_4bit_use_double_quant", False) else "nf4"])


@method("bitnet")
def _bitnet(q: Config) -> Scheme:
    return _all_but_spared(q, FORMATS["ternary"])


@method("eetq")
def _eetq(q: Config) -> Scheme:
    q.text("weights", "int8", ("int8",))
    return _all_but_spared(q, integers(8, -1, zeros=False))


@method("quanto")
def _quanto(q: Config) -> Scheme:
    """Quanto: 8 bits with a scale for each row, or fewer with a 16-bit scale and shift for each 128 values."""
    weights = q.text("weights", "int8", ("float8", "int8", "int4", "int2"))
    q.mark_read("activations")
    if weights == "float8":
        return _all_but_spared(q, by_row(FORMATS["fp8"], 16))
    bits = int(weights[3:])
    return _all_but_spared(q, integers(8, -1, zeros=False) if bits == 8 else grouped(f"int{bits}-g128", bits, 128, 32))


@method("hqq")
def _hqq(q: Config) -> Scheme:
    """HQQ: a 16-bit scale and zero point for each group; settings for all modules, or by module name."""
    settings = q.section("quant_config")
    q.mark_read("quant_config")

    def fmt(x: Config) -> Format:
        weights = x.section("weight_quant_params") if x.has("weight_quant_params") else x
        bits, size = weights.size("nbits", 4, least=1, most=8), _group(weights, "group_size", 64)
        stored = _HQQ_STORED.get(bits, Fraction(bits))
        if size < 0:
            return by_row(Format(f"int{bits}-row", stored), 32)
        return grouped(f"int{bits}-g{size}", stored, size, 32)

    named = any(isinstance(value, Mapping) and key != "weight_quant_params" for key, value in settings.raw.items())
    if named and not settings.has("weight_quant_params") and not settings.has("nbits"):
        return Scheme((*_spared(q), *(Rule(name, fmt(settings.section(name))) for name in settings.raw)))
    return _all_but_spared(q, fmt(settings if settings.raw else q))


_HQQ_STORED = {3: Fraction(32, 10), 5: Fraction(8), 6: Fraction(8), 7: Fraction(8)}
"""Bits per value where HQQ packs whole values into 32 bits, or stores a byte for each."""


@method("higgs")
def _higgs(q: Config) -> Scheme:
    """HIGGS (arXiv:2411.17525): `bits` per value on a grid, and a 16-bit scale for each group."""
    bits, size = q.size("bits", 4, least=2, most=8), _group(q, "group_size", 256)
    q.mark_read("p", "hadamard_size", "tune_metadata")
    return _all_but_spared(q, grouped(f"higgs{bits}", bits, size, 16))


# -- vectors -------------------------------------------------------------------------------------------------------
@method("aqlm")
def _aqlm(q: Config) -> Scheme:
    """AQLM (arXiv:2401.06118): codebooks · bits of a code for each group of in · out values.

    A code is an integer of 8, 16 or 32 bits. Every matrix has codebooks of its own, and 16-bit scales of its rows.
    """
    outputs = q.size("out_group_size", 1)
    values, books = q.size("in_group_size", 8) * outputs, q.size("num_codebooks", 1)
    bits = q.size("nbits_per_codebook", 16, most=24)
    code = next(width for width in (8, 16, 32) if bits <= width)
    fmt = by_row(Format("aqlm", Fraction(books * code, values)), -(-16 // outputs))
    return _all_but_spared(q, replace(fmt, scales="tensor", matrix_bits=books * 2**bits * values * 16))


@method("vptq")
def _vptq(q: Config) -> Scheme:
    """VPTQ (arXiv:2409.17066): the index of a centroid and of a residual centroid for each vector.

    Every matrix has centroids of its own, and each of its inputs a scale, a bias and a place, of 16 bits.
    """
    q.mark_read("shared_layer_config")

    def fmt(x: Config) -> Format:
        length, main, residual = (_last(x, key) for key in ("vector_lens", "num_centroids", "num_res_centroids"))
        length, books = max(1, length), [n for n in (main, residual) if n > 1]
        codes, groups = sum(ceil(log2(n)) for n in books), max(1, _last(x, "group_num"))
        inputs = (32 if x.raw.get("enable_norm") else 0) + (16 if x.raw.get("enable_perm") else 0)
        x.mark_read(*x.raw)
        coded = Format("vptq", Fraction(codes, length), input_bits=inputs)
        return replace(coded, matrix_bits=groups * sum(books) * length * 16)

    rules = tuple(Rule(name, fmt(x)) for name, x in _members(q, "config_for_layers"))
    return Scheme((*_spared(q), *rules))


def _last(x: Config, key: str) -> int:
    """The number under `key`, or the last of a list (the first of a pair is for outliers)."""
    value = x.value(key, -1)[1]
    number = value[-1] if isinstance(value, list) and value else value
    if type(number) is not int or not -1 <= number <= LARGEST_SIZE:
        raise InputError(x.field(key), value, "a whole number, or a pair of them")
    return number


@method("spqr")
def _spqr(q: Config) -> Scheme:
    """SpQR (arXiv:2306.03078): `bits` per value, and as many for a scale and a zero point of each beta1 values.

    The second level takes four 16-bit values for each beta1 · beta2 values.
    """
    bits, first, second = q.size("bits", 3, most=8), q.size("beta1", 16), q.size("beta2", 16)
    q.mark_read("shapes")
    overhead = Fraction(2 * bits, first) + Fraction(4 * 16, first * second)
    return _all_but_spared(q, Format("spqr", Fraction(bits), overhead))


# -- frameworks ----------------------------------------------------------------------------------------------------
@method("quark")
def _quark(q: Config) -> Scheme:
    """AMD Quark: one setting for all modules, others by module name or layer type."""

    def fmt(x: Config) -> Format | None:
        weight = x.section("weight")
        x.mark_read("input_tensors", "output_tensors", "bias", "target_device")
        return _quark_format(weight) if weight.raw else None

    q.mark_read("algo_config", "export", "softmax_quant_spec", "quant_mode")
    rules = tuple(Rule(name, fmt(x)) for name, x in _members(q, "layer_quant_config"))
    kinds = tuple(Rule(name, fmt(x)) for name, x in _members(q, "layer_type_quant_config") if "Linear" not in name)
    kv = next((_quark_format(x.section("output_tensors")) for _, x in _members(q, "kv_cache_quant_config")), None)
    every = fmt(q.section("global_quant_config"))
    if every is None and not rules and not kinds:
        raise InputError(q.field("global_quant_config"), q.raw.get("global_quant_config"), "the format of weights")
    return Scheme((*_spared(q), *rules, *kinds), every, kv=kv)


def _quark_format(x: Config) -> Format:
    dtype, scheme, size = x.text("dtype"), x.text("qscheme", "per_tensor"), _group(x, "group_size", -1)
    x.mark_read(*x.raw)
    kind = re.fullmatch(r"(mx)?(u?int|fp|float)(\d)(_e\dm\d)?(fn|fnuz)?", dtype.lower())
    if kind is None or not 2 <= int(kind[3]) <= 8 or (kind[2] in ("fp", "float") and int(kind[3]) not in (4, 6, 8)):
        raise InputError(x.field("dtype"), dtype, "a dtype of Quark such as fp8_e4m3, int4 or fp4")
    bits, is_float = int(kind[3]), kind[2] in ("fp", "float")
    if is_float and (kind[1] or bits < 8):
        return FORMATS[f"mxfp{bits}"]
    if is_float:
        return replace(FORMATS["fp8"], scales="channel" if "channel" in scheme else "tensor")
    if bits == 8 and scheme != "per_group":
        return FORMATS["int8"]
    return integers(bits, size)


_FASTDEPLOY = {
    "block_wise_fp8": FORMATS["fp8-block"], "tensor_wise_fp8": FORMATS["fp8"], "wfp8afp8": by_row(FORMATS["fp8"], 32),
    "wint8": integers(8, -1, zeros=False), "wint4": integers(4, -1, zeros=False), "w8a8": by_row(FORMATS["int8"], 32),
    "w4afp8": integers(4, -1, zeros=False), "w4a8": integers(4, -1, zeros=False),
}  # fmt: skip
"""FastDeploy's words for the format of weights (fastdeploy/model_executor/layers/quantization)."""


@method("fastdeploy")
def _fastdeploy(q: Config) -> Scheme:
    """FastDeploy (PaddlePaddle): a word for dense products, one for experts, and one for the cache."""
    dense, experts = (q.text(f"{part}_quant_type", choices=_FASTDEPLOY) for part in ("dense", "moe"))
    cache = q.text("kv_cache_quant_type", "")
    q.mark_read("quantization", "is_quantized", "is_permuted", "is_channel_wise", "has_zero_point")
    q.mark_read("hadamard_block_size", "image_moe_quant_type")
    kv = format_named(cache, q.field("kv_cache_quant_type")) if cache else None
    return Scheme((*_spared(q), Rule("experts", _FASTDEPLOY[experts])), _FASTDEPLOY[dense], kv=kv)


_TORCHAO = {
    "int4weightonly": ("int4", 128), "int4_weight_only": ("int4", 128), "int8weightonly": ("int8", -1),
    "int8_weight_only": ("int8", -1), "int8dynamicactivationint4weight": ("int4", 32),
    "int8dynamicactivationint8weight": ("w8a8", -1), "int8_dynamic_activation_int8_weight": ("w8a8", -1),
    "float8weightonly": ("fp8", -1), "float8_weight_only": ("fp8", -1),
    "float8dynamicactivationfloat8weight": ("fp8", -1),
    "float8_dynamic_activation_float8_weight": ("fp8", -1), "float8staticactivationfloat8weight": ("fp8", -1),
    "float8dynamicactivationint4weight": ("int4", 128), "intxweightonly": ("int8", -1),
    "int8dynamicactivationintxweight": ("int4", 32), "uintxweightonly": ("int4", 64), "autoquant": ("int8", -1),
    "nvfp4inferenceconfig": ("nvfp4", 16), "nvfp4dynamicactivationnvfp4weight": ("nvfp4", 16),
    "mxfpinferenceconfig": ("mxfp4", 32), "mxdynamicactivationmxweight": ("mxfp8", 32),
}  # fmt: skip


@method("torchao")
def _torchao(q: Config) -> Scheme:
    """torchao: one config for all modules, or one for each."""
    chosen = q.value("quant_type")[1]
    given = q.section("quant_type_kwargs") if isinstance(chosen, str) else q.section("quant_type")
    both = q.flag("include_input_output_embeddings", False)
    q.mark_read("untie_embedding_weights")
    parts: frozenset[Part] = frozenset((*WEIGHTS, *(("embedding", "head") if both else ())))
    if isinstance(chosen, str):
        return Scheme(_spared(q), _torchao_format(q.field("quant_type"), chosen, given), covers=parts)
    inner = given.section("default") if given.has("default") else given
    name, data = inner.text("_type"), inner.section("_data")
    inner.mark_read("_version")
    if name in ("ModuleFqnToConfig", "FqnToConfig"):
        own = data.section(next((key for key in data.raw if key.endswith("_to_config")), "module_fqn_to_config"))
        rules = [(key, _torchao_named(own.section(key)) if own.has(key) else None) for key in own.raw]
        others = tuple(Rule(key.removesuffix(".weight"), fmt) for key, fmt in rules if key != "_default")
        return Scheme((*_spared(q), *others), dict(rules).get("_default"), covers=parts)
    return Scheme(_spared(q), _torchao_format(inner.field("_type"), name, data), covers=parts)


def _torchao_named(x: Config) -> Format:
    return _torchao_format(x.field("_type"), x.text("_type"), x.section("_data"))


def _torchao_format(field: str, name: str, data: Config) -> Format:
    key = name.lower().removesuffix("config")
    key = key if key in _TORCHAO else name.lower()
    if key not in _TORCHAO:
        raise InputError(field, name, "a config of torchao", nearest(key, _TORCHAO) or ["Int4WeightOnlyConfig"])
    kind, size = _TORCHAO[key]
    dtype = data.raw.get("weight_dtype")
    width = dtype.get("_data") if isinstance(dtype, Mapping) else None
    if isinstance(width, str) and re.fullmatch(r"u?int[1-8]", width):
        kind = "int" + width.rpartition("int")[2]
    size = _group(data, "group_size", size)
    rows = "PerRow" in str(data.raw.get("granularity"))
    data.mark_read(*data.raw)
    if kind == "w8a8":
        return by_row(FORMATS["int8"], 16)
    if not kind.startswith("int"):
        return by_row(FORMATS[kind], 32) if kind == "fp8" and rows else FORMATS[kind]
    if kind == "int8" and size < 0:
        return integers(8, -1, zeros=False)
    bits = int(kind[3:])
    return grouped(f"int{bits}-g{size}", bits, size, 32) if key in _TILED and size > 0 else integers(bits, size)


_TILED = ("int4weightonly", "int4_weight_only")
"""torchao configs whose groups have a 16-bit scale and a 16-bit zero point (tile-packed int4)."""


@method("mlx")
def _mlx(q: Config) -> Scheme:
    """MLX: all matrices, embedding table and head too, with a 16-bit scale and bias per group; exceptions by name."""
    bits, size = q.size("bits", 4, least=2, most=8), q.size("group_size", 64)
    mode = q.text("mode", "affine")

    def fmt(x: Config, default: str) -> Format:
        width, each, kind = x.size("bits", bits, least=2, most=8), x.size("group_size", size), x.text("mode", default)
        return grouped(f"int{width}-g{each}", width, each, 32) if kind == "affine" else _named_kind(kind, width, each)

    rules = []
    for name, value in q.raw.items():
        if value is False:
            rules.append(Rule(name))
        elif isinstance(value, Mapping):
            rules.append(Rule(name, fmt(q.section(name), mode)))
        q.mark_read(name)
    return Scheme(tuple(rules), fmt(q, mode), covers=EVERYTHING, linear_only=True)


# -- the cache -----------------------------------------------------------------------------------------------------
def _kv_format(q: Config) -> Format | None:
    """Format of the KV cache: from a scheme with type and bits, a name, or NVIDIA's algorithm."""
    for key in ("kv_cache_scheme", "kv_cache_quant_algo"):
        stated = q.value(key, None)[1]
        if isinstance(stated, str):
            return None if stated.lower() in ("none", "auto") else format_named(_kv_words(stated), q.field(key))
    scheme = q.section("kv_cache_scheme")
    if not scheme.raw:
        return None
    kind, bits = scheme.text("type", "float", ("float", "int")), scheme.size("num_bits", 8)
    if (kind, bits) not in _KV:
        raise InputError(scheme.field("num_bits"), bits, "4 or 8")
    return FORMATS[_KV[kind, bits]]


def _kv_words(text: str) -> str:
    """Convert `FP8`, `fp8_e4m3`, `NVFP4` or `INT8` to a format name."""
    word = text.lower().partition("_")[0]
    return {"float8": "fp8", "nvfp4": "nvfp4"}.get(word, word)
