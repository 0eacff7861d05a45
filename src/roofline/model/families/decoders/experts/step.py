"""StepFun's decoders: few wide experts behind factorised attention, then many narrow ones behind gated attention."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from roofline.model.configs.config import Config
from roofline.model.families.blocks.attention import attention, layer_windows, rotary
from roofline.model.families.blocks.feed_forward import activation, mlp, mlp_layer_types, moe
from roofline.model.families.blocks.layers import causal_lm, stack
from roofline.model.families.blocks.norms import per_head, rms
from roofline.model.families.blocks.projections import column_product, replicated_product
from roofline.model.families.blocks.sizes import Dims, dims
from roofline.model.families.registry import family
from roofline.model.model import Model
from roofline.model.modules import Modules


@family("step3_text")
def step3(c: Config) -> Model:
    """Step3 (arXiv:2507.19427): attention factorised (arXiv:2412.19255), a few wide experts with a shared one."""
    d, inner, top_k = dims(c, kv_key="num_attention_groups"), c.size("moe_intermediate_size"), c.size("moe_top_k")
    count, shared = c.size("moe_num_experts"), c.size("share_expert_dim")
    experts = moe(c, d.width, count, top_k, inner, shared=shared, top_k_key="moe_top_k")
    dense, sparse = mlp(d.width, c.size("intermediate_size"), activation(c)), _step3_sparse(c, d.layers, 1)
    c.mark_read("need_fp32_gate", "use_moe", "use_mfa", "norm_expert_weight", "moe_router_activation")
    mixers = [("", _factorised(c, d))] * d.layers
    return causal_lm(c, d.width, stack(d.width, mixers, dense, experts=experts, sparse=sparse))


def _factorised(c: Config, d: Dims) -> Modules:
    """Multi-matrix factorisation attention: queries through `share_q_dim`, one key and value head."""
    rank, kv = c.size("share_q_dim"), 2 * d.kv_heads * d.head_dim
    queries = (
        replicated_product("q_a_proj", d.width, rank),
        rms("q_a_norm", rank),
        column_product("q_b_proj", rank, d.heads * d.head_dim),
    )
    keys = column_product("kv_proj", d.width, kv, kv=kv, kv_groups=d.kv_heads, beside=True)
    _, *core = attention(d, rotary=rotary(c, d.head_dim))
    return (*queries, keys, *core)


def _step3_sparse(c: Config, layers: int, first: int) -> list[bool]:
    """Whether each layer has experts: by a list or comma-separated text in `moe_layers_enum`, else from `first` on."""
    listed: Any = c.value("moe_layers_enum", list(range(first, layers)))[1]
    parts = listed.split(",") if isinstance(listed, str) else listed
    try:
        numbers = {int(part) for part in parts}
    except (TypeError, ValueError):
        raise c.error("moe_layers_enum", "layer numbers with commas between") from None
    if not numbers <= set(range(layers)):
        raise c.error("moe_layers_enum", f"layer numbers below {layers}")
    return [i in numbers for i in range(layers)]


@family("step3p5")
def step3p5(c: Config) -> Model:
    """Step-3.5 Flash (arXiv:2602.10604): q/k norms, a gate for each head, more heads on the sliding layers."""
    d = dims(c, head_dim=128, kv_key="num_key_value_heads|num_attention_groups")
    c, bias, inner = _without_draft_layers(c, d.layers), c.flag("mlp_bias"), c.size("moe_intermediate_size")
    sparse = _step3_sparse(c, d.layers, min(3, d.layers))
    sparse = mlp_layer_types(c, d.layers, 0) if c.has("mlp_layer_types") else sparse
    top_k, shared = c.size("num_experts_per_tok|moe_top_k"), c.size("share_expert_dim|share_expert_dims")
    count = c.size("n_routed_experts|moe_num_experts|num_local_experts")
    experts = moe(c, d.width, count, top_k, inner, act="silu", shared=shared, shared_bias=bias, reference="each")
    mixers, dense = _step3p5_mixers(c, d), mlp(d.width, c.size("intermediate_size"), "silu", bias=bias)
    c.mark_read("hidden_act", "swiglu_limits", "swiglu_limits_shared", "rope_theta", "num_nextn_predict_layers")
    return causal_lm(c, d.width, stack(d.width, mixers, dense, experts=experts, sparse=sparse))


def _step3p5_mixers(c: Config, d: Dims) -> list[tuple[str, Modules]]:
    """Attention of each layer, with the number of heads of its type."""
    other = c.section("attention_other_setting").size("num_attention_heads", d.heads)
    wide = replace(d, heads=c.size("num_sliding_attention_heads", other))
    if wide.heads % d.kv_heads:
        raise c.error("num_sliding_attention_heads", f"a multiple of num_key_value_heads = {d.kv_heads}")
    windows, bias = layer_windows(c, d.layers, lambda i: False), c.flag("attention_bias")
    types = ["sliding_attention" if window else "full_attention" for window in windows]
    factors = c.per_layer_number("partial_rotary_factors", d.layers, 1.0)

    def mixer(window: int | None, layer_type: str, factor: float) -> Modules:
        sizes, rope = wide if window else d, rotary(c, d.head_dim, factor, layer_type)
        return attention(sizes, rotary=rope, bias=bias, qk_norm=per_head, gates=sizes.heads, window=window)

    layers = zip(windows, types, factors, strict=True)
    return [("sliding" if each[0] else "", mixer(*each)) for each in layers]


def _without_draft_layers(c: Config, layers: int) -> Config:
    """The config with its per-layer lists cut to `layers`, without the entries for draft layers."""
    keys = ("layer_types", "mlp_layer_types", "partial_rotary_factors")
    longer = layers + c.size("num_nextn_predict_layers|num_mtp_layers", 0, least=0)
    lists = {key: value for key in keys if isinstance(value := c.get(key), list)}
    return c.with_values(**{key: each[:layers] for key, each in lists.items() if len(each) == longer})
