"""Latent attention with gates: A.X K2, Hunyuan 4, Ling 3, dots 3."""

from __future__ import annotations

from roofline.model.configs.config import Config
from roofline.model.families.blocks.attention import latent_attention
from roofline.model.families.blocks.feed_forward import activation, fine_moe, mlp, mlp_layer_types
from roofline.model.families.blocks.layers import causal_lm, kind, stack, untied, with_before
from roofline.model.families.blocks.norms import rms
from roofline.model.families.blocks.projections import column_product
from roofline.model.families.blocks.recurrent import kimi_delta
from roofline.model.families.blocks.sizes import depth
from roofline.model.families.blocks.streams import collapse, stream_layer
from roofline.model.families.registry import family
from roofline.model.model import Model
from roofline.model.modules import Activation, Gate, Linear, Modules


@family("axk2")
def axk2(c: Config) -> Model:
    """A.X K2 (model card skt/A.X-K2): DeepSeek-V3.2's sparse attention with gates; gated norms before sublayers."""
    width, layers, rank = c.size("hidden_size"), depth(c), c.assumed("gated_norm_rank", 16)
    c.per_layer("layer_types", layers, ("indexed_attention",), ["indexed_attention"] * layers)
    first, every = c.size("first_k_dense_replace", 1, least=0), c.size("moe_layer_freq", 1)
    mixer = (*norm_gate("attn", width, rank), *_gated_queries(latent_attention(c, bias=_bias(c), index="full")))
    dense, experts = mlp(width, c.size("intermediate_size"), activation(c)), fine_moe(c, width)
    gated, sparse = (*norm_gate("ffn", width, rank), *experts), mlp_layer_types(c, layers, first, every)
    return causal_lm(c, width, stack(width, [("", mixer)] * layers, dense, experts=gated, sparse=sparse))


def _bias(c: Config) -> bool:
    return c.flag("attention_bias")


def norm_gate(name: str, width: int, rank: int) -> Modules:
    """A gate on a norm's output, computed from that output by a narrow network."""
    return (
        Linear(name=f"{name}_norm_down_proj", inputs=width, outputs=rank, part="other"),
        Activation(name=f"{name}_norm_act", width=rank, function="silu", gated=False),
        Linear(name=f"{name}_norm_up_proj", inputs=rank, outputs=width, part="other"),
        Gate(name=f"{name}norm_gate", width=width, gates=width),
    )


def _gated_queries(latent: Modules) -> Modules:
    """Replace the query projection: queries and gates of values, from compressed queries before and after the norm."""
    queries, output = (next(m for m in latent if m.name == name) for name in ("q_b_proj", "o_proj"))
    assert isinstance(queries, Linear)
    assert isinstance(output, Linear)
    wide = column_product("q_gate_proj", 2 * queries.inputs, queries.outputs + output.inputs)
    gate = Gate(name="attention_gate", width=output.inputs, gates=output.inputs)
    return with_before((wide if m is queries else m for m in latent), "o_proj", gate)


@family("hy_v4")
def hy_v4(c: Config) -> Model:
    """Hunyuan 4 (transformers 5.23): sparse latent attention with gates and sinks, residual streams kept apart."""
    width, layers, streams = c.size("hidden_size"), depth(c), c.assumed("hc_mult", 4)
    c.per_layer("layer_types", layers, ("indexed_attention",), ["indexed_attention"] * layers)
    default = ["full" if i == 0 or i % 4 == 1 else "shared" for i in range(layers)]
    index, sparse = c.per_layer("indexer_types", layers, ("full", "shared"), default), mlp_layer_types(c, layers, 1)
    gates, names = c.size("v_head_dim"), {"full": "", "shared": "shared index"}
    mixers = {i: latent_attention(c, bias=_bias(c), index=i, gates=gates, sinks=True) for i in dict.fromkeys(index)}
    dense, experts = mlp(width, c.size("intermediate_size"), activation(c)), fine_moe(c, width)
    c.mark_read("hc_magnitude", "hc_eps", "learnable_sink_init")
    blocks = {
        (i, s): stream_layer(kind(s, names[i]), width, streams, mixers[i], experts if s else dense, mixed=False)
        for i, s in zip(index, sparse, strict=True)
    }
    last = collapse("hc_head", width, streams, streams, 1)
    return causal_lm(c, width, [blocks[each] for each in zip(index, sparse, strict=True)], after=last)


@family("bailing_hybrid")
def bailing_hybrid(c: Config) -> Model:
    """Ling 3 (model card inclusionAI/Ling-3.0-Flash): five layers of delta attention to one of gated latent."""
    c = untied(c)
    c.mark_read("q_lora_rank")
    width, layers, every = c.size("hidden_size"), depth(c), c.assumed("layer_group_size", 6)
    kernel = c.size("linear_conv_kernel_dim", c.size("short_conv_kernel_size", 4))
    heads, dim = c.size("linear_num_heads", c.size("num_attention_heads")), c.size("linear_head_dim", _head_dim(c))
    mixers = {"linear_attention": ("linear", kimi_delta(width, heads, dim, kernel, narrow=False))}
    mixers["full_attention"] = ("", latent_attention(c.with_values(q_lora_rank=None), bias=_bias(c), gates=1))
    default = ["full_attention" if (i + 1) % every == 0 else "linear_attention" for i in range(layers)]
    kinds = c.per_layer("layer_types", layers, ("linear_attention", "full_attention"), default)
    dense, experts = mlp(width, c.size("intermediate_size"), activation(c)), fine_moe(c, width)
    sparse = mlp_layer_types(c, layers, c.size("first_k_dense_replace", 2, least=0))
    c.mark_read("kda_safe_gate", "kda_lower_bound", "mtp_loss_scaling_factor")
    return causal_lm(c, width, stack(width, [mixers[k] for k in kinds], dense, experts=experts, sparse=sparse))


def _head_dim(c: Config) -> int:
    size: int = c.assumed("head_dim", 128)
    return size


@family("dots3_note_text", "dots3_note")
def dots3_note(c: Config) -> Model:
    """dots 3 (model card dots-studio/dots3-note-prev): latent attention, sparse on every fourth layer, else sliding."""
    width, kinds = c.size("hidden_size"), _dots3_kinds(c, depth(c))
    mixers = [(("sliding" if k == SLIDING else ""), _dots3_attention(c, i, k)) for i, k in enumerate(kinds)]
    shared = c.size("shared_experts_intermediate_size|moe_shared_expert_intermediate_size", 1536)
    dense, experts = mlp(width, c.size("intermediate_size"), activation(c)), fine_moe(c, width, shared_inner=shared)
    c.mark_read("mlp_bias", "swa_rope_theta", "use_dsa", "head_dim", *(f"swa_{key}" for key in SLIDING_SIZES))
    return causal_lm(c, width, stack(width, mixers, dense, experts=experts, sparse=_dots3_sparse(c, len(kinds))))


SLIDING, INDEXED, FULL = "sliding_attention", "indexed_attention", "full_attention"
SLIDING_SIZES = {
    "num_attention_heads": 64, "num_key_value_heads": 64, "q_lora_rank": 1024, "kv_lora_rank": 1024, "head_dim": 256,
    "qk_nope_head_dim": 192, "v_head_dim": 128,
}  # fmt: skip
"""Sizes of sliding layers where neither `per_layer_config` nor a key with the prefix `swa_` gives them."""


def _dots3_kinds(c: Config, layers: int) -> list[str]:
    """Attention type of each layer; `use_dsa` decides whether full layers are indexed."""
    indexed = c.flag("use_dsa", True)
    default = [
        INDEXED if i < 2 or i % 4 == 1 or not c.flag("use_sliding_window", True) else SLIDING for i in range(layers)
    ]
    kinds = c.per_layer("layer_types", layers, (SLIDING, INDEXED, FULL), default)
    if not c.has("use_dsa") and c.has("per_layer_config"):
        return kinds
    return [k if k == SLIDING else INDEXED if indexed else FULL for k in kinds]


def _dots3_attention(c: Config, layer: int, kind: str) -> Modules:
    """Latent attention with the sizes of a layer, one gate per head, and a norm of the key that all heads share."""
    c = _dots3_sizes(c, layer, kind)
    window = c.size("sliding_window|sliding_window_size", 512) if kind == SLIDING else None
    index = "full" if kind == INDEXED else "none"
    latent = latent_attention(c, bias=_bias(c), index=index, gates=1, window=window)
    return with_before(latent, "rope", rms("k_rope_norm", c.size("qk_rope_head_dim")))


def _dots3_sizes(c: Config, layer: int, kind: str) -> Config:
    """The config with the sizes of a layer: from `per_layer_config`, or those of sliding layers."""
    if c.has("per_layer_config"):
        listed = c.section("per_layer_config")
        key = next((k for k in listed.raw if k.isdigit() and int(k) == layer), "")
        inside = listed.section(key)
        return c.with_values(**{k: inside.size(k, c.get(k)) for k in (*SLIDING_SIZES, "qk_rope_head_dim")})
    if kind != SLIDING:
        return c
    sizes = {key: c.size(f"swa_{key}", size) for key, size in SLIDING_SIZES.items()}
    rope = c.size("swa_qk_rope_head_dim", sizes["head_dim"] - sizes["qk_nope_head_dim"])
    return c.with_values(**sizes, qk_rope_head_dim=rope)


def _dots3_sparse(c: Config, layers: int) -> list[bool]:
    """Whether each layer has experts; `moe_layer_freq` is an interval or a list."""
    first = c.size("first_k_dense_replace", 1, least=0)
    if not isinstance(c.raw.get("moe_layer_freq"), list):
        return mlp_layer_types(c, layers, first, c.size("moe_layer_freq", 1))
    listed = [i >= first and n == 1 for i, n in enumerate(c.per_layer("moe_layer_freq", layers, (0, 1)))]
    return mlp_layer_types(c, layers, 0) if c.has("mlp_layer_types") else listed
