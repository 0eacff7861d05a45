"""GigaChat 3.5: gated delta nets and gated latent attention, experts, norms with gates of low rank on both sides.

Its sizes and modules are those of SGLang 0.5.23 (configs/gigachat35.py, models/gigachat35.py).
"""

from __future__ import annotations

from dataclasses import replace

from roofline.model.configs.config import Config
from roofline.model.families.blocks.attention import latent_attention
from roofline.model.families.blocks.feed_forward import activation, fine_moe, mlp, mlp_layer_types
from roofline.model.families.blocks.layers import causal_lm, stack
from roofline.model.families.blocks.recurrent import gated_delta_net
from roofline.model.families.blocks.sizes import depth
from roofline.model.families.decoders.experts.latent import norm_gate
from roofline.model.families.registry import family
from roofline.model.model import Block, Model
from roofline.model.modules import Modules, Norm

RANK = 16
"""Width of the network behind a gated norm; the published code has no key for it."""
GATED, PLAIN = ("ZeroCenteredGatedNorm", "GatedNorm"), ("LlamaRMSNorm", "ZeroCenteredRMSNorm")


@family("gigachat3_5")
def gigachat(c: Config) -> Model:
    """GigaChat 3.5: delta nets in most layers, latent attention in those of `full_attention_layers`."""
    width, layers, kinds = c.size("hidden_size"), depth(c), _kinds(c, depth(c))
    after = c.text("layernorm_type", "pre_post", ("pre", "pre_post")) == "pre_post"
    gates = c.size("v_head_dim", 128) if c.flag("gated_attention", True) else 0
    latent, linear = latent_attention(c, bias=c.flag("attention_bias"), gates=gates), _linear(c, width)
    mixers = [("linear", linear) if k == "linear_attention" else ("", latent) for k in kinds]
    first, every = c.size("first_k_dense_replace", 1, least=0), c.size("moe_layer_freq", 1)
    dense, experts = mlp(width, c.size("intermediate_size"), activation(c)), fine_moe(c, width)
    blocks = stack(
        width, mixers, dense, experts=experts, sparse=mlp_layer_types(c, layers, first, every), after=after
    )  # fmt: skip
    gated = c.text("norm_type", GATED[0], (*GATED, *PLAIN)) in GATED
    c.mark_read("use_mla_scaling_factor", "layernorm_gating_weight", "linear_gating_type", "linear_sigmoid_gate_scale")
    c.mark_read("use_shared_expert_sigmoid", "linear_attention_type", "output_gate_type", "nextn_is_sparse")
    model = causal_lm(c, width, [Block(b.name, _gated(b.modules)) for b in blocks] if gated else blocks)
    return replace(model, head=_gated(model.head)) if gated else model


def _kinds(c: Config, layers: int) -> list[str]:
    """Mixer of each layer: by `layer_types`, or by the numbers of those that attend."""
    full = c.layer_set("full_attention_layers", layers) or ()
    default = ["attention" if i in full else "linear_attention" for i in range(layers)]
    return c.per_layer("layer_types", layers, ("attention", "full_attention", "linear_attention"), default)


def _linear(c: Config, width: int) -> Modules:
    """The gated delta net of Qwen3-Next."""
    keys, values = c.size("linear_num_key_heads", 8), c.size("linear_num_value_heads", 16)
    if values % keys:
        raise c.error("linear_num_value_heads", f"a multiple of linear_num_key_heads = {keys}")
    sizes = c.size("linear_key_head_dim", 128), c.size("linear_value_head_dim", 128)
    return gated_delta_net(width, keys, values, *sizes, c.size("linear_conv_kernel_dim", 4))


def _gated(modules: Modules) -> Modules:
    """The modules with a gate of low rank behind every norm of a stream; the norm of a delta net's heads has none."""
    parts: Modules = ()
    for m in modules:
        gate = norm_gate(m.name.removesuffix("_norm"), m.width, RANK) if isinstance(m, Norm) and m.repeats == 1 else ()
        parts = (*parts, m, *gate)
    return parts
