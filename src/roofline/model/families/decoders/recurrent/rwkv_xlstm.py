"""Models whose state does not grow with the text: RWKV, xLSTM."""

from __future__ import annotations

from roofline.declared.numbers.maths import ceil_div
from roofline.model.configs.config import Config
from roofline.model.families.blocks.feed_forward import mlp
from roofline.model.families.blocks.layers import causal_lm, layer, untied
from roofline.model.families.blocks.norms import MakeNorm, layer_norm, rms, rms_with_bias
from roofline.model.families.blocks.recurrent import channel_mixing, delta_mixing, mlstm, shifted_mlp, time_mixing
from roofline.model.families.blocks.sizes import depth
from roofline.model.families.registry import family
from roofline.model.model import Model


@family("rwkv")
def rwkv(c: Config) -> Model:
    """RWKV-4 (arXiv:2305.13048): time mixing and channel mixing, with an additional norm after the embedding."""
    width, layers = c.size("hidden_size"), depth(c)
    mixer = time_mixing(width, c.size("attention_hidden_size", width))
    block = layer("rwkv", width, mixer, channel_mixing(width, c.size("intermediate_size", 4 * width)), norm=layer_norm)
    c.mark_read("rescale_every", "context_length")  # a scale, and what it was trained on: a state has no length
    return causal_lm(c, width, [block] * layers, norm=layer_norm, before=(layer_norm("embedding_norm", width),))


@family("rwkv7")
def rwkv7(c: Config) -> Model:
    """RWKV-7 (arXiv:2503.14456): the first layer has no share of another's value, and a norm before its input."""
    width, layers, dim = c.size("hidden_size"), depth(c), c.size("head_dim|head_size", 64)
    if width % dim:
        raise c.error("head_dim", f"a divisor of hidden_size = {width}")
    ranks = {"decay": "decay_low_rank_dim", "rate": "a_low_rank_dim", "value": "v_low_rank_dim",
             "gate": "gate_low_rank_dim"}  # fmt: skip
    sizes = {name: c.size(key) for name, key in ranks.items()}
    ffn = shifted_mlp(width, c.size("intermediate_size", 4 * width))
    first = delta_mixing(width, dim, {name: rank for name, rank in sizes.items() if name != "value"})
    blocks = [layer("first rwkv7", width, first, ffn, norm=layer_norm)]
    blocks += [layer("rwkv7", width, delta_mixing(width, dim, sizes), ffn, norm=layer_norm)] * (layers - 1)
    c.mark_read(*_OF_RWKV7)
    return causal_lm(c, width, blocks, norm=layer_norm, before=(layer_norm("embedding_norm", width),))


# Keys for kernels, losses and norms that have one value in all published checkpoints.
_OF_RWKV7 = (
    "attn", "attn_mode", "fuse_norm", "fuse_cross_entropy", "hidden_act", "hidden_ratio", "norm_bias", "norm_first",
    "num_heads", "num_attention_heads", "value_dim", "context_length",
)  # fmt: skip


@family("xlstm")
def xlstm(c: Config) -> Model:
    """xLSTM-7B (arXiv:2503.13427): mLSTM in every layer, a gated feed-forward of 8/3 the width."""
    c = untied(c)
    width, bias = c.size("hidden_size|embedding_dim"), c.flag("use_bias")
    keys, values = (int(width * c.number(f"{side}_dim_factor", usual)) for side, usual in (("qk", 0.5), ("v", 1.0)))
    heads, multiple = c.size("num_heads", 8), c.size("ffn_round_up_to_multiple_of", 64)
    inner = multiple * ceil_div(int(width * c.number("ffn_proj_factor", 2.667)), multiple)
    mixer = mlstm(width, heads, keys, values, c.size("chunk_size", 64), bias=bias)
    norm: MakeNorm = rms_with_bias if bias else rms
    c.mark_read(*_KERNELS_OF_XLSTM)
    block = layer("mlstm", width, mixer, mlp(width, inner, "silu", bias=bias), norm=norm)
    return causal_lm(c, width, [block] * c.size("num_hidden_layers|num_blocks"), norm=rms)


# Keys for caps of gates and logits, for formats, and for the kernels that the published code runs.
_KERNELS_OF_XLSTM = (
    "add_out_norm", "autocast_kernel_dtype", "chunkwise_kernel", "eps", "gate_soft_cap",
    "max_inference_chunksize", "mode", "norm_reduction_force_float32", "output_logit_soft_cap", "return_last_states",
    "sequence_kernel", "step_kernel", "weight_mode",
)  # fmt: skip
