"""Attention: windows, rotary embedding and projections."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from roofline.declared.errors import InputError
from roofline.model.configs.config import Config
from roofline.model.families.blocks.norms import MakeHeadNorm, layer_norm, rms
from roofline.model.families.blocks.projections import column_product, replicated_product, row_product
from roofline.model.families.blocks.sizes import Dims
from roofline.model.modules import Attention, Gate, Indexer, LatentAttention, Module, Modules, Pace, Rope


# -- windows -------------------------------------------------------------------------------------------------------
def layer_windows(
    c: Config, layers: int, sliding: Callable[[int], bool], assumed: int | None = None
) -> list[int | None]:
    """Attention window of each layer in tokens, None for full attention.

    `layer_types` decides which layers slide; where it is missing, `sliding(i)` does. `assumed`: the architecture's
    window where the key is missing.
    """
    default = ["sliding_attention" if sliding(i) else "full_attention" for i in range(layers)]
    kinds = c.per_layer("layer_types", layers, ("full_attention", "sliding_attention"), default)
    sliding_layers = "sliding_attention" in kinds
    if sliding_layers and assumed is not None:
        window = c.assumed("sliding_window", assumed, least=0, null=True)
    else:
        window = c.size("sliding_window", None, least=0)
    if sliding_layers and not window:
        raise c.error("sliding_window", "the window of the sliding_attention layers, in tokens")
    return [window if kind == "sliding_attention" else None for kind in kinds]


def same_window(c: Config, layers: int) -> list[int | None]:
    """The window `sliding_window`, if set, for every layer."""
    return [c.size("sliding_window", None)] * layers


def pattern_length(c: Config, default: int) -> int:
    """Number of layers from one full-attention layer to the next: a number, or the length of a pattern such as LLLG."""
    if isinstance(c.get("sliding_window_pattern"), str):
        pattern = c.text("sliding_window_pattern")
        if not pattern or set(pattern) - {"L", "G"}:
            raise c.error("sliding_window_pattern", "a number, or layers such as LLLG")
        return len(pattern)
    length: int = c.size("sliding_window_pattern|_sliding_window_pattern", default)
    return length


def windowed(windows: Iterable[int | None], mixer: Callable[..., Modules]) -> list[tuple[str, Modules]]:
    """`mixer(window=…)` for each layer, with its name for `stack`: "sliding", or "" for full attention."""
    return [("sliding" if window else "", mixer(window=window)) for window in windows]


# -- rotary embedding (arXiv:2104.09864) ---------------------------------------------------------------------------
def rotary(c: Config, head_dim: int, default: float = 1.0, layer_type: str = "") -> int:
    """Rotated dimensions of a head, head_dim · partial_rotary_factor; of `layer_type` where layer types differ."""
    rope = rope_section(c)
    rope = rope.section(layer_type) if layer_type in rope.raw else rope
    given = c.number("partial_rotary_factor", c.number("rotary_pct", None, most=1), most=1)
    inside = rope.number("partial_rotary_factor", None, most=1)
    factor = inside if inside is not None else given if given is not None else default
    return int(head_dim * factor)


def rope_section(c: Config) -> Config:
    """The section `rope_parameters`, or its older name `rope_scaling`, with its values checked."""
    rope = c.section("rope_parameters") if c.has("rope_parameters") else c.section("rope_scaling")
    c.mark_read("rope_parameters", "rope_scaling")
    _check_rope(rope)
    return rope


def _check_rope(rope: Config) -> None:
    """Check the values of RoPE scaling, which does not change the work."""
    for key, value in rope.raw.items():
        if isinstance(value, dict):
            _check_rope(Config(value, rope.field(key)))
        elif isinstance(value, list):
            if not all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in value):
                raise InputError(rope.field(key), value, "a list of numbers")
        elif key in ("type", "rope_type"):
            rope.text(key, "default")
        elif value is not None and not isinstance(value, (bool, str)):
            rope.number(key, None)
        elif isinstance(value, str):
            raise InputError(rope.field(key), value, "a number")


# -- grouped queries -----------------------------------------------------------------------------------------------
def attention(
    d: Dims,
    *,
    rotary: int,
    bias: bool = False,
    out_bias: bool | None = None,
    qk_norm: MakeHeadNorm | None = None,
    gate: bool = False,
    gates: int = 0,
    v_dim: int | None = None,
    window: int | None = None,
    chunk: int | None = None,
    sinks: bool = False,
    causal: bool = True,
) -> Modules:
    """Multi-head, grouped-query or multi-query attention with its projections.

    `rotary`: rotated dimensions of a head, 0 for none. `gate`: the query projection also produces an output gate.
    `gates`: outputs of a separate gate projection without bias, one for each value or head. `v_dim`: width of a value
    head where it differs from that of a key. `out_bias` defaults to `bias`. `causal`: a token sees no later ones.
    """
    queries, v_dim = d.heads * d.head_dim, v_dim or d.head_dim
    kv = d.kv_heads * (d.head_dim + v_dim)
    qkv = column_product("qkv_proj", d.width, queries * (2 if gate else 1) + kv, bias, kv=kv, kv_groups=d.kv_heads)
    parts: list[Module] = [qkv]
    if qk_norm:
        parts += [qk_norm("q_norm", d.heads, d.head_dim), qk_norm("k_norm", d.kv_heads, d.head_dim)]
    if rotary:
        parts.append(Rope(name="rope", heads=d.heads + d.kv_heads, dims=rotary))
    parts.append(
        Attention(
            name="attention", heads=d.heads, kv_heads=d.kv_heads, head_dim=d.head_dim, v_head_dim=v_dim,
            window=window, chunk=chunk, sinks=sinks, causal=causal,
        )
    )  # fmt: skip
    if gate:
        parts.append(Gate(name="attention_gate", width=d.heads * v_dim, gates=queries))
    parts += output_gate(d.width, d.heads * v_dim, gates)
    return (*parts, row_product("o_proj", d.heads * v_dim, d.width, bias if out_bias is None else out_bias))


def cross_attention(
    d: Dims, *, bias: bool = False, source: int | None = None, fixed: int | None = None, stream: str = "source",
    key_bias: bool | None = None,
) -> Modules:  # fmt: skip
    """Attention of a decoder to an encoder's output, `source` wide; keys and values are made once per sequence.

    `fixed`: number of positions of the encoder's output, where the config fixes it. `key_bias`: whether keys have a
    bias, where that differs from queries and values (Whisper).
    """
    queries, kv = d.heads * d.head_dim, d.kv_heads * d.head_dim
    of_keys = bias if key_bias is None else key_bias
    keys = (
        replace(
            column_product("cross_k_proj", source or d.width, kv, of_keys, kv=kv, kv_groups=d.kv_heads), stream=stream
        ),
        replace(
            column_product("cross_v_proj", source or d.width, kv, bias, kv=kv, kv_groups=d.kv_heads), stream=stream
        ),
    )
    return (
        *keys,
        column_product("cross_q_proj", d.width, queries, bias),
        Attention(
            name="cross_attention", heads=d.heads, kv_heads=d.kv_heads, head_dim=d.head_dim, v_head_dim=d.head_dim,
            reads=stream, keys=fixed,
        ),
        row_product("cross_o_proj", queries, d.width, bias),
    )  # fmt: skip


def in_bands(mixer: Modules, window: int, multiple: int) -> Modules:
    """Attention to half a window on either side as Longformer's code multiplies it (arXiv:2004.05150 appendix A).

    Pieces of a window overlap by half in the scores, and three halves of values follow each half of a window. The text
    is padded to whole multiples.
    """
    half = window // 2
    parts: list[Module] = []
    for m in mixer:
        if not isinstance(m, Attention):
            parts.append(replace(m, pace=Pace(multiple=multiple)))
            continue
        overlapping = Pace(multiple=multiple, extra=-half)
        scores = replace(m, name="scores", v_head_dim=0, keys=4 * half, pace=overlapping, window=None)
        values = replace(m, head_dim=0, keys=3 * half, pace=Pace(multiple=multiple), window=None)
        parts += [scores, values]
    return tuple(parts)


def output_gate(width: int, values: int, gates: int) -> Modules:
    """A gate on the `values` of all heads from a separate projection with `gates` outputs; nothing for 0."""
    if not gates:
        return ()
    return (
        column_product("attention_gate_proj", width, gates, beside=True),
        Gate(name="attention_gate", width=values, gates=gates),
    )


# -- latent --------------------------------------------------------------------------------------------------------
def latent_attention(
    c: Config, *, bias: bool, index: str = "none", rope: bool = True, gates: int = 0, window: int | None = None,
    sinks: bool = False,
) -> Modules:  # fmt: skip
    """Multi-head latent attention (arXiv:2405.04434 §2.1), with compressed queries where `q_lora_rank` is set.

    `index`: whether DeepSeek-V3.2's lightning indexer selects the tokens to attend to: `full` for an indexer of this
    layer, `shared` for the selection of an earlier layer, `none`. `gates`: output gates per head, from a projection.
    """
    width, heads = c.size("hidden_size"), c.size("num_attention_heads")
    rank, nope = c.size("kv_lora_rank"), c.size("qk_nope_head_dim")
    rotated = c.size("qk_rope_head_dim", least=int(rope))
    v, q_rank = c.size("v_head_dim"), c.size("q_lora_rank", None) if index == "none" else c.size("q_lora_rank")
    c.unused_sizes("num_key_value_heads", "qk_head_dim")
    c.unused_sizes("head_dim", least=int(rope))
    rope_section(c)
    queries: Modules = (column_product("q_proj", width, heads * (nope + rotated)),)
    stacked = 0 if q_rank is None else q_rank + rank + rotated  # fused_qkv_a_proj of vLLM and SGLang
    if q_rank is not None:
        queries = (
            replicated_product("q_a_proj", width, q_rank, bias, stacked=stacked),
            rms("q_a_norm", q_rank),
            column_product("q_b_proj", q_rank, heads * (nope + rotated)),
        )
    keys = (
        replicated_product("kv_a_proj", width, rank + rotated, bias, beside=True, stacked=stacked),
        rms("kv_a_norm", rank),
    )
    embedding = (Rope(name="rope", heads=heads + 1, dims=rotated),) if rope else ()
    select = None if index == "none" else c.size("index_topk")
    indexer = () if index != "full" or q_rank is None else _lightning_indexer(c, width, q_rank)
    core = LatentAttention(
        name="attention", heads=heads, rank=rank, nope=nope, rope=rotated, v=v, select=select, window=window,
        sinks=sinks,
    )  # fmt: skip
    output = (*output_gate(width, heads * v, heads * gates), row_product("o_proj", heads * v, width, bias))
    return (*queries, *keys, *embedding, *indexer, core, *output)


def _lightning_indexer(c: Config, width: int, q_rank: int) -> Modules:
    """DeepSeek-V3.2's lightning indexer: small query heads and one key, whose weighted scores rank the tokens."""
    heads, dim = c.size("index_n_heads"), c.size("index_head_dim")
    return (
        replicated_product("index_q_proj", q_rank, heads * dim),
        replicated_product("index_k_proj", width, dim, beside=True),
        layer_norm("index_k_norm", dim),
        replicated_product("index_weights_proj", width, heads, beside=True),
        Indexer(name="indexer", heads=heads, head_dim=dim),
    )
