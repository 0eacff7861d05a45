"""LongCat-Flash (arXiv:2509.01322): two attentions and two dense networks per layer, experts on a shortcut."""

from __future__ import annotations

from dataclasses import replace

from roofline.model.checkpoints.tensor_names import SECOND
from roofline.model.configs.config import Config
from roofline.model.families.blocks.attention import latent_attention
from roofline.model.families.blocks.feed_forward import activation, mlp, moe
from roofline.model.families.blocks.layers import causal_lm, layer
from roofline.model.families.registry import family
from roofline.model.model import Block, Model
from roofline.model.modules import Add


@family("longcat_flash")
def longcat_flash(c: Config) -> Model:
    """LongCat-Flash (§2): the router may also choose one of `zero_expert_num` experts that return a token unchanged."""
    width, top_k = c.size("hidden_size"), c.size("moe_topk|num_experts_per_tok")
    layers = c.size("num_layers", None) or c.size("num_hidden_layers") // 2
    mixer = latent_attention(c, bias=c.flag("attention_bias"))
    dense = mlp(width, c.size("ffn_hidden_size|intermediate_size"), activation(c))
    inner, identities = c.size("expert_ffn_hidden_size|moe_intermediate_size"), c.size("zero_expert_num", 0, least=0)
    experts = moe(
        c, width, c.size("n_routed_experts|num_local_experts"), top_k, inner, router_bias=c.flag("router_bias"),
        reference="each", top_k_key="moe_topk", identities=identities,
    )  # fmt: skip
    c.text("zero_expert_type", "identity", ("identity",)), c.text("attention_method", "MLA", ("MLA",))
    c.mark_read("mla_scale_q_lora", "mla_scale_kv_lora", "num_hidden_layers", "q_lora_rank")
    first, second = layer("", width, mixer, (*experts, *dense)), layer("", width, mixer, dense)
    again = tuple(replace(m, name=SECOND + m.name) for m in second.modules)
    double = Block("moe", (*first.modules, *again, Add(name="shortcut", width=width)))
    return causal_lm(c, width, [double] * layers)
