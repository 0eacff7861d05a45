"""What the families are written with: projections, attention, feed-forward, layers, the whole decoder.

Each function turns sizes into a tuple of modules. Names of modules are the same in every family, so that an op
of one model can be compared with that of another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from roofline.model.config import LARGEST_CONTEXT, MOST_LAYERS, Config
from roofline.model.errors import InputError
from roofline.model.model import Block, Model
from roofline.model.modules import (
    Activation,
    Add,
    Attention,
    Conv,
    DeltaRule,
    Embedding,
    Experts,
    Gate,
    GatedRecurrence,
    Indexer,
    LatentAttention,
    Linear,
    LinearAttention,
    Module,
    Norm,
    Part,
    Rope,
    Router,
    SelectiveScan,
    StateSpace,
)
from roofline.model.quantization import checkpoint_precision

Modules = tuple[Module, ...]
MakeNorm = Callable[[str, int], Norm]
MakeHeadNorm = Callable[[str, int, int], Norm]


# -- norms ---------------------------------------------------------------------------------------------------------
def rms(name: str, width: int) -> Norm:
    """RMSNorm with a weight (arXiv:1910.07467)."""
    return Norm(name=name, width=width)


def layer_norm(name: str, width: int) -> Norm:
    """LayerNorm with weight and bias."""
    return Norm(name=name, width=width, center=True, bias=True)


def layer_norm_no_bias(name: str, width: int) -> Norm:
    """LayerNorm with a weight only."""
    return Norm(name=name, width=width, center=True)


def plain_layer_norm(name: str, width: int) -> Norm:
    """LayerNorm without parameters."""
    return Norm(name=name, width=width, center=True, weight=False)


def plain_rms(name: str, width: int) -> Norm:
    """RMSNorm without parameters."""
    return Norm(name=name, width=width, weight=False)


def per_head(name: str, heads: int, dim: int) -> Norm:
    """RMSNorm over each head, one weight of `dim` for all heads."""
    return Norm(name=name, width=dim, repeats=heads)


def plain_per_head(name: str, heads: int, dim: int) -> Norm:
    """RMSNorm over each head without parameters."""
    return Norm(name=name, width=dim, repeats=heads, weight=False)


def layer_norm_per_head(name: str, heads: int, dim: int) -> Norm:
    """LayerNorm over each head, one weight and bias of `dim` for all heads."""
    return Norm(name=name, width=dim, repeats=heads, center=True, bias=True)


def layer_norm_of_each_head(name: str, heads: int, dim: int) -> Norm:
    """LayerNorm over each head, a weight of `dim` for each."""
    return Norm(name=name, width=dim, repeats=heads, center=True, per_repeat=True)


def across_heads(name: str, heads: int, dim: int) -> Norm:
    """RMSNorm over all heads together."""
    return Norm(name=name, width=heads * dim)


# -- sizes ---------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Dims:
    """Widths of the stream and of attention."""

    layers: int
    width: int
    heads: int
    kv_heads: int
    head_dim: int


def dims(c: Config, *, head_dim: int | None = None, kv_key: str = "num_key_value_heads", uneven: bool = False) -> Dims:
    """Layers, widths and heads by their usual names; missing kv heads mean one for each query head.

    `head_dim`: what this architecture takes where the key is missing; otherwise hidden_size / heads, which must
    divide unless `uneven` (the real code rounds down).
    """
    layers = depth(c)
    width = c.size("hidden_size|n_embd|d_model")
    heads = c.size(HEADS)
    kv_heads = c.size(kv_key, heads)
    if heads % kv_heads:
        divisors = [str(n) for n in range(1, min(heads, 1024) + 1) if heads % n == 0]
        raise c.error(kv_key, f"a divisor of num_attention_heads = {heads}", divisors[:8])
    size = c.size("head_dim", None) if head_dim is None else c.assumed("head_dim", head_dim)
    if size is None:
        size = max(1, width // heads) if uneven else split(c, "num_attention_heads", width, heads, "hidden_size")
    return Dims(layers, width, heads, kv_heads, size)


HEADS = "num_attention_heads|n_head|n_heads|num_heads|attention_heads"


def depth(c: Config) -> int:
    """Number of layers."""
    layers: int = c.size("num_hidden_layers|n_layer|n_layers|num_layers", most=MOST_LAYERS)
    return layers


def split(c: Config, key: str, total: int, parts: int, of: str) -> int:
    """total / parts, or an error that names both keys."""
    if total % parts:
        raise c.error(key if c.has(key) else "n_head", f"a divisor of {of} = {total} (head_dim is not given)")
    return total // parts


def rotary(c: Config, head_dim: int, default: float = 1.0, layer_type: str = "") -> int:
    """Rotated dimensions of a head: head_dim · partial_rotary_factor, of that type of layer where they differ."""
    rope = rope_section(c)
    rope = rope.section(layer_type) if layer_type in rope.raw else rope
    given = c.number("partial_rotary_factor", c.number("rotary_pct", None, most=1), most=1)
    inside = rope.number("partial_rotary_factor", None, most=1)
    factor = inside if inside is not None else given if given is not None else default
    return int(head_dim * factor)


def rope_section(c: Config) -> Config:
    """`rope_parameters`, or `rope_scaling` as it was called before; its values checked."""
    rope = c.section("rope_parameters") if c.has("rope_parameters") else c.section("rope_scaling")
    c.read.update(("rope_parameters", "rope_scaling"))
    check_rope(rope)
    return rope


def check_rope(rope: Config) -> None:
    """RoPE scaling does not change the work; its values still have to be what they claim."""
    for key, value in rope.raw.items():
        if isinstance(value, dict):
            check_rope(Config(value, rope.field(key)))
        elif isinstance(value, list):
            if not all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in value):
                raise InputError(rope.field(key), value, "a list of numbers")
        elif key in ("type", "rope_type"):
            rope.text(key, "default")
        elif value is not None and not isinstance(value, (bool, str)):
            rope.number(key, None)
        elif isinstance(value, str):
            raise InputError(rope.field(key), value, "a number")


def context_length(c: Config) -> int | None:
    """The longest sequence the config allows, if it says."""
    keys = "max_position_embeddings|n_positions|max_seq_len|max_sequence_length|seq_length|n_ctx"
    found: int | None = c.size(keys, None, most=LARGEST_CONTEXT)
    return found


# -- layer patterns ------------------------------------------------------------------------------------------------
LAYER_TYPES = ("full_attention", "sliding_attention", "chunked_attention", "linear_attention")


def windows(c: Config, layers: int, sliding: Callable[[int], bool], assumed: int | None = None) -> list[int | None]:
    """The attention window of each layer: by `layer_types` where given, else `sliding(i)` says which slide.

    `assumed`: the window that this architecture takes where the key is missing.
    """
    default = ["sliding_attention" if sliding(i) else "full_attention" for i in range(layers)]
    kinds = c.per_layer("layer_types", layers, LAYER_TYPES[:2], default)
    if assumed is not None and "sliding_attention" in kinds:
        c.fill("sliding_window", assumed)
    window = c.size("sliding_window", None, least=0)
    if not window and "sliding_attention" in kinds:
        raise c.error("sliding_window", "the window of the sliding_attention layers, in tokens")
    return [window if kind == "sliding_attention" else None for kind in kinds]


def every_layer_slides(c: Config, layers: int) -> list[int | None]:
    """`sliding_window`, where set, on every layer."""
    return [c.size("sliding_window", None)] * layers


def qwen_windows(c: Config, layers: int) -> list[int | None]:
    """Qwen: layers from `max_window_layers` on slide, where `use_sliding_window` is set."""
    first = c.size("max_window_layers", layers, least=0)
    if not c.flag("use_sliding_window", False):
        c.size("sliding_window", None, least=0)
        c.per_layer("layer_types", layers, LAYER_TYPES, ["full_attention"] * layers)
        return [None] * layers
    return windows(c, layers, lambda i: i >= first)


def pattern_length(c: Config, default: int) -> int:
    """How often a full layer comes among sliding ones: a number, or a pattern such as LLLG."""
    if isinstance(c.raw.get("sliding_window_pattern"), str):
        pattern = c.text("sliding_window_pattern")
        if not pattern or set(pattern) - {"L", "G"}:
            raise c.error("sliding_window_pattern", "a number, or layers such as LLLG")
        return len(pattern)
    length: int = c.size("sliding_window_pattern|_sliding_window_pattern", default)
    return length


def stack(
    width: int, slides: Sequence[int | None], mixer: Callable[..., Modules], dense: Modules = (), *,
    experts: Modules = (), sparse: Sequence[bool] | None = None, norm: MakeNorm = rms, before: bool = True,
    after: bool = False,
) -> list[Block]:  # fmt: skip
    """One layer for each window: `mixer(window=…)`, then experts where `sparse` says so, else the dense network.

    Without `sparse` every layer holds experts if there are any.
    """
    flags = [bool(experts)] * len(slides) if sparse is None else sparse
    return [
        layer(kind(s, w), width, mixer(window=w), experts if s else dense, norm=norm, before=before, after=after)
        for s, w in zip(flags, slides, strict=True)
    ]


# -- products ------------------------------------------------------------------------------------------------------
def columns(
    name: str, inputs: int, outputs: int, bias: bool = False, part: Part = "attention", kv: int = 0, kv_groups: int = 1
) -> Linear:
    """A product whose outputs fall into pieces that do not need each other: heads, inner neurons."""
    return Linear(
        name=name, inputs=inputs, outputs=outputs, bias=bias, part=part, cut="columns", kv=kv, kv_groups=kv_groups
    )


def rows(name: str, inputs: int, outputs: int, bias: bool = False, part: Part = "attention") -> Linear:
    """A product that adds up what those pieces made."""
    return Linear(name=name, inputs=inputs, outputs=outputs, bias=bias, part=part, cut="rows")


# -- attention -----------------------------------------------------------------------------------------------------
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
) -> Modules:
    """Multi-head, grouped-query or multi-query attention with its projections.

    `rotary`: rotated dimensions of a head, 0 for none. `gate`: the query projection also makes an output gate;
    `gates`: a projection without bias of its own makes that many, one for each value or head. `v_dim`: width of a
    value head where it is not that of a key. `out_bias` is `bias` unless given.
    """
    queries, v_dim = d.heads * d.head_dim, v_dim or d.head_dim
    qkv = queries * (2 if gate else 1) + d.kv_heads * (d.head_dim + v_dim)
    made = Linear(
        name="qkv_proj", inputs=d.width, outputs=qkv, bias=bias, part="attention", cut="columns",
        kv=d.kv_heads * (d.head_dim + v_dim), kv_groups=d.kv_heads,
    )  # fmt: skip
    parts: list[Module] = [made]
    if qk_norm:
        parts += [qk_norm("q_norm", d.heads, d.head_dim), qk_norm("k_norm", d.kv_heads, d.head_dim)]
    if rotary:
        parts.append(Rope(name="rope", heads=d.heads + d.kv_heads, dims=rotary))
    parts.append(
        Attention(
            name="attention", heads=d.heads, kv_heads=d.kv_heads, head_dim=d.head_dim, v_head_dim=v_dim,
            window=window, chunk=chunk, sinks=sinks,
        )
    )  # fmt: skip
    if gates:
        parts.append(columns("attention_gate_proj", d.width, gates))
    if gate or gates:
        parts.append(Gate(name="attention_gate", width=d.heads * v_dim, gates=gates or queries))
    out = bias if out_bias is None else out_bias
    return (*parts, rows("o_proj", d.heads * v_dim, d.width, out))


def latent_attention(c: Config, *, bias: bool, index: str = "none", rope: bool = True) -> Modules:
    """Multi-head latent attention (arXiv:2405.04434 §2.1), queries compressed where `q_lora_rank` is set.

    `index`: DeepSeek-V3.2's lightning indexer chooses the tokens to attend to, `full` one of this layer's own, `shared`
    that of an earlier layer.
    """
    width, heads = c.size("hidden_size"), c.size("num_attention_heads")
    rank, nope, rotated = c.size("kv_lora_rank"), c.size("qk_nope_head_dim"), c.size("qk_rope_head_dim")
    v, q_rank = c.size("v_head_dim"), c.size("q_lora_rank", None) if index == "none" else c.size("q_lora_rank")
    c.size("num_key_value_heads", heads), c.size("head_dim", None), c.size("qk_head_dim", None)
    rope_section(c)

    def linear(name: str, inputs: int, outputs: int, biased: bool = False) -> Linear:
        return Linear(name=name, inputs=inputs, outputs=outputs, bias=biased, part="attention")

    queries: Modules = (columns("q_proj", width, heads * (nope + rotated)),)
    if q_rank is not None:
        queries = (
            linear("q_a_proj", width, q_rank, bias),
            rms("q_a_norm", q_rank),
            columns("q_b_proj", q_rank, heads * (nope + rotated)),
        )
    keys = (linear("kv_a_proj", width, rank + rotated, bias), rms("kv_a_norm", rank))
    turn = (Rope(name="rope", heads=heads + 1, dims=rotated),) if rope else ()
    select = None if index == "none" else c.size("index_topk")
    indexer: Modules = ()
    if index == "full":
        index_heads, index_dim = c.size("index_n_heads"), c.size("index_head_dim")
        indexer = (
            linear("index_q_proj", q_rank, index_heads * index_dim),
            linear("index_k_proj", width, index_dim),
            layer_norm("index_k_norm", index_dim),
            linear("index_weights_proj", width, index_heads),
            Indexer(name="indexer", heads=index_heads, head_dim=index_dim),
        )
    core = LatentAttention(name="attention", heads=heads, rank=rank, nope=nope, rope=rotated, v=v, select=select)
    return (*queries, *keys, *turn, *indexer, core, rows("o_proj", heads * v, width, bias))


# -- feed-forward --------------------------------------------------------------------------------------------------
ACTIVATIONS = (
    "silu", "swish", "gelu", "gelu_new", "gelu_fast", "gelu_python", "gelu_pytorch_tanh", "quick_gelu",
    "gelu_accurate", "relu", "relu2", "relu_squared", "relu6", "tanh", "sigmoid", "xielu", "mish", "laplace",
    "linear", "leaky_relu", "hardswish", "gelu_10", "gelu_python_tanh", "prelu",
)  # fmt: skip


def function(c: Config, keys: str = "hidden_act", default: str = "silu") -> str:
    """The activation function's name."""
    return c.text(keys, default, ACTIVATIONS)


def mlp(
    width: int,
    inner: int,
    act: str,
    *,
    gated: bool = True,
    bias: bool = False,
    learned: int = 0,
    prefix: str = "",
    middle: Modules = (),
) -> Modules:
    """Feed-forward network: down(f(gate(x)) · up(x)), or down(f(up(x))) where not gated."""
    up = ("gate_up_proj", 2 * inner) if gated else ("up_proj", inner)
    return (
        replace(columns(prefix + up[0], width, up[1], bias, "ffn"), gated=gated),
        Activation(name=f"{prefix}act", width=inner, function=act, gated=gated, learned=learned),
        *middle,
        rows(f"{prefix}down_proj", inner, width, bias, "ffn"),
    )


def moe(
    c: Config,
    width: int,
    experts: int,
    top_k: int | None,
    inner: int,
    *,
    act: str | None = None,
    gated: bool = True,
    shared: int = 0,
    shared_gate: bool = False,
    shared_bias: bool = False,
    router_bias: bool = False,
    expert_bias: bool = False,
    correction: bool = False,
    reference: Literal["grouped", "each", "all"] = "grouped",
    top_k_key: str = "num_experts_per_tok",
) -> Modules:
    """Mixture of experts: router, routed experts of width `inner`, a shared one of width `shared` beside them.

    `correction`: the router's load-balancing bias is a parameter. `shared_gate`: one sigmoid gates the shared expert.
    """
    if top_k is not None and top_k > experts:
        raise c.error(top_k_key, f"at most the number of experts, {experts}")
    act = act or function(c)
    parts: list[Module] = [
        Router(name="router", inputs=width, experts=experts, bias=router_bias, correction=correction),
        Experts(
            name="experts", hidden=width, inner=inner, experts=experts, top_k=top_k, function=act, gated=gated,
            bias=expert_bias, reference=reference,
        ),
    ]  # fmt: skip
    if shared:
        parts += mlp(width, shared, act, gated=gated, prefix="shared_", bias=shared_bias)
        if shared_gate:
            parts.append(Linear(name="shared_gate_proj", inputs=width, outputs=1))
            parts.append(Gate(name="shared_gate", width=width, gates=1))
        parts.append(Add(name="shared_add", width=width))
    return tuple(parts)


def fine_moe(c: Config, width: int, *, correction: bool = False, shared_bias: bool = False) -> Modules:
    """Many narrow experts of `moe_intermediate_size`, shared ones beside them (DeepSeekMoE, arXiv:2401.06066)."""
    inner, top_k = c.size("moe_intermediate_size"), c.size("num_experts_per_tok|num_experts_per_token", None)
    shared = inner * c.size("n_shared_experts|num_shared_experts", 0, least=0)
    count = c.size("n_routed_experts|num_experts|num_local_experts")
    made = moe(c, width, count, top_k, inner, shared=shared, shared_bias=shared_bias, correction=correction)
    groups, top = (c.raw.get(key) for key in ("n_group", "topk_group"))
    if not (isinstance(groups, int) and isinstance(top, int) and 1 < top < groups):
        return made
    return tuple(replace(m, groups=groups, top_groups=top) if isinstance(m, Experts) else m for m in made)


# -- recurrent mixers ----------------------------------------------------------------------------------------------
def mamba(
    width: int, inner: int, state: int, rank: int, kernel: int, *, conv_bias: bool, bias: bool, norms: bool = False
) -> Modules:
    """Mamba-1 mixer (arXiv:2312.00752 §3.4); `norms`: Jamba's on dt, B and C."""

    inside = (rms("dt_norm", rank), rms("b_norm", state), rms("c_norm", state)) if norms else ()
    return (
        columns("in_proj", width, 2 * inner, bias),
        Conv(name="conv", channels=inner, kernel=kernel, bias=conv_bias),
        rows("x_proj", inner, rank + 2 * state),
        *inside,
        columns("dt_proj", rank, inner, True),
        SelectiveScan(name="scan", channels=inner, state_size=state),
        Gate(name="scan_gate", width=inner, gates=inner),
        rows("out_proj", inner, width, bias),
    )


def mamba2(
    width: int, heads: int, head_dim: int, state: int, groups: int, kernel: int, chunk: int,
    *, conv_bias: bool, bias: bool, out_bias: bool | None = None, norm: bool = True,
) -> Modules:  # fmt: skip
    """Mamba-2 mixer (arXiv:2405.21060 §7): one projection makes z, x, B, C and dt. `out_bias`: `bias` if None."""
    inner, mixed = heads * head_dim, heads * head_dim + 2 * groups * state
    last = bias if out_bias is None else out_bias
    return (
        columns("in_proj", width, inner + mixed + heads, bias, kv=mixed - inner, kv_groups=groups),
        Conv(name="conv", channels=mixed, kernel=kernel, bias=conv_bias, kv=mixed - inner, kv_groups=groups),
        StateSpace(name="scan", heads=heads, head_dim=head_dim, state_size=state, groups=groups, chunk=chunk),
        Gate(name="scan_gate", width=inner, gates=inner),
        *((rms("scan_norm", inner),) if norm else ()),
        rows("out_proj", inner, width, last),
    )


def kimi_delta(width: int, heads: int, dim: int, kernel: int) -> Modules:
    """Kimi Delta Attention (arXiv:2510.26692 §4): decay and output gate pass through one head's width."""
    inner = heads * dim
    return (
        columns("in_proj", width, 3 * inner + heads + 2 * dim, kv=2 * dim),
        Conv(name="conv", channels=3 * inner, kernel=kernel),
        columns("decay_proj", dim, inner),
        DeltaRule(name="scan", key_heads=heads, value_heads=heads, key_dim=dim, value_dim=dim, channelwise=True),
        Norm(name="scan_norm", width=dim, repeats=heads),
        columns("gate_proj", dim, inner),
        Gate(name="scan_gate", width=inner, gates=inner),
        rows("out_proj", inner, width),
    )


def short_conv(width: int, kernel: int, bias: bool) -> Modules:
    """LFM2's mixer (arXiv:2511.23404): a short convolution between two products with streams of the same projection."""
    return (
        columns("in_proj", width, 3 * width, bias),
        Gate(name="conv_in_gate", width=width, gates=width, sigmoid=False),
        Conv(name="conv", channels=width, kernel=kernel, bias=bias),
        Gate(name="conv_out_gate", width=width, gates=width, sigmoid=False),
        rows("out_proj", width, width, bias),
    )


def lightning(width: int, heads: int, dim: int, chunk: int, act: str) -> Modules:
    """Lightning attention as MiniMax-01 builds it (arXiv:2501.08313 §2.2): no RoPE, no softmax, gated output."""
    inner = heads * dim
    return (
        columns("qkv_proj", width, 3 * inner),
        Activation(name="qkv_act", width=3 * inner, function=act, gated=False),
        LinearAttention(name="scan", heads=heads, head_dim=dim, chunk=chunk),
        rms("scan_norm", inner),
        columns("gate_proj", width, inner),
        Gate(name="scan_gate", width=inner, gates=inner),
        rows("out_proj", inner, width),
    )


def griffin(width: int, lru: int, heads: int, kernel: int, act: str) -> Modules:
    """Griffin's recurrent mixer (arXiv:2402.19427 §2.3): gates from block-diagonal projections, one block a head."""
    return (
        columns("in_proj", width, 2 * lru, True),
        Conv(name="conv", channels=lru, kernel=kernel, bias=True),
        Linear(name="gates_proj", inputs=lru, outputs=2 * lru, bias=True, groups=heads, part="attention", cut="groups"),
        Activation(name="gates_act", width=2 * lru, function="sigmoid", gated=False),
        GatedRecurrence(name="scan", channels=lru),
        Activation(name="branch_act", width=lru, function=act),
        rows("out_proj", lru, width, True),
    )


def again(modules: Iterable[Module]) -> Modules:
    """The same modules run once more with the same weights, which are counted where they ran first."""

    def repeated(m: Module) -> Module:
        match m:
            case Linear():
                return replace(m, tied=True, bias=False)
            case Norm():
                return replace(m, tied=True)
            case _:
                return m

    return tuple(repeated(m) for m in modules)


def gated_delta_net(width: int, key_heads: int, value_heads: int, key_dim: int, value_dim: int, kernel: int) -> Modules:
    """Gated DeltaNet mixer (arXiv:2412.06464 §3) as Qwen3-Next builds it."""
    keys, values = key_heads * key_dim, value_heads * value_dim
    return (
        columns("in_proj", width, 2 * keys + 2 * values + 2 * value_heads),
        Conv(name="conv", channels=2 * keys + values, kernel=kernel),
        DeltaRule(name="scan", key_heads=key_heads, value_heads=value_heads, key_dim=key_dim, value_dim=value_dim),
        Norm(name="scan_norm", width=value_dim, repeats=value_heads),
        Gate(name="scan_gate", width=values, gates=values),
        rows("out_proj", values, width),
    )


# -- layers --------------------------------------------------------------------------------------------------------
def layer(
    name: str, width: int, mixer: Modules, ffn: Modules = (), *, norm: MakeNorm = rms, before: bool = True,
    after: bool = False,
) -> Block:  # fmt: skip
    """A residual layer: norm → mixer → add, norm → ffn → add; norms before, after, or on both sides of each."""
    parts: list[Module] = []
    for label, inside in (("attn", mixer), ("ffn", ffn)):
        if not inside:
            continue
        parts += [norm(f"{label}_norm", width)] if before else []
        parts += inside
        parts += [norm(f"{label}_post_norm", width)] if after else []
        parts.append(Add(name=f"{label}_residual", width=width))
    return Block(name, tuple(parts))


def parallel_layer(
    name: str, width: int, mixer: Modules, ffn: Modules, *, norm: MakeNorm = layer_norm, norms: int = 1
) -> Block:
    """A layer whose attention and feed-forward read the same stream (GPT-J), through one norm or through two."""
    second = (norm("ffn_norm", width),) if norms == 2 else ()
    adds = (Add(name="attn_residual", width=width), Add(name="ffn_residual", width=width))
    return Block(name, (norm("attn_norm", width), *mixer, *second, *ffn, *adds))


def kind(sparse: bool, window: int | None = None, chunk: int | None = None, mixer: str = "") -> str:
    """A block's name: `dense`, `moe`, `sliding moe`, `linear dense`, …"""
    where = "sliding" if window else "chunked" if chunk else mixer
    return " ".join(part for part in (where, "moe" if sparse else "dense") if part)


def is_sparse(c: Config, i: int, only_dense: Sequence[int] | None, step: int) -> bool:
    """Qwen's rule: layer i holds experts unless listed in `mlp_only_layers` or off the sparse step."""
    return i not in (only_dense or ()) and (i + 1) % step == 0


def mlp_layer_types(c: Config, layers: int, first_dense: int, every: int = 1) -> list[bool]:
    """Which layers hold experts: by `mlp_layer_types` where given, else each `every`-th from `first_dense` on."""
    default = ["sparse" if i >= first_dense and i % every == 0 else "dense" for i in range(layers)]
    return [t == "sparse" for t in c.per_layer("mlp_layer_types", layers, ("dense", "sparse"), default)]


def causal_lm(
    c: Config,
    width: int,
    layers: Iterable[Block],
    *,
    norm: MakeNorm | None = rms,
    tied: bool = False,
    head_bias: bool = False,
    embed: int | None = None,
    before: Modules = (),
    after: Modules = (),
    last: Modules = (),
) -> Model:
    """The whole decoder: token embedding, `before`, the layers, `after`, the final norm, `last`, the head.

    `tied`: whether the head shares the embedding where the config does not say. `embed`: width of the embedding
    where it is not that of the stream.
    """
    vocab = c.size("vocab_size", most=2**28) if "vocab_size" in c.raw else c.size("vocab_size")
    shared = c.flag("tie_embedding|tie_word_embeddings", tied)
    table = Embedding(name="embedding", rows=vocab, width=embed or width, shared=shared)
    head = Linear(
        name="lm_head", inputs=embed or width, outputs=vocab, bias=head_bias, part="head", tied=shared, cut="columns"
    )
    final = (norm("final_norm", width),) if norm else ()
    return Model(
        name=c.text("_name_or_path", "") or c.text("model_type", "model"),
        model_type=c.text("model_type", "model"),
        vocab=vocab,
        hidden=width,
        embedding=(table, *before),
        layers=tuple(layers),
        head=(*after, *final, *last, head),
        precision=checkpoint_precision(c),
        context=context_length(c),
    )


MOST_DRAFTS = 64


def draft_blocks(model: Model, count: int) -> tuple[Block, ...]:
    """Multi-token-prediction layers (arXiv:2412.19437 §2.2): a layer like the last one behind a product of two streams.

    Norms of the stream and of the next token's embedding, a projection of both, the layer, a norm, the shared head.
    """
    width, last = model.hidden, model.layers[-1]
    join = Linear(name="mtp_proj", inputs=2 * width, outputs=width)
    head = Linear(name="mtp_head", inputs=width, outputs=model.vocab, part="head", tied=True, cut="columns")
    before = (rms("mtp_stream_norm", width), rms("mtp_token_norm", width), join)
    return (Block("mtp", (*before, *last.modules, rms("mtp_norm", width), head)),) * count


def position_table(c: Config, width: int, extra: int = 0) -> Embedding:
    """Learned absolute positions."""
    rows = c.size("max_position_embeddings|n_positions", most=LARGEST_SIZE_POSITIONS)
    return Embedding(name="position_embedding", rows=rows + extra, width=width)


LARGEST_SIZE_POSITIONS = 2**26
