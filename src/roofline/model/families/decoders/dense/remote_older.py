"""Dense decoders of 2023 and 2024 with code of their own: TeleChat, OpenELM, Phi-3-small, the first Phi."""

from __future__ import annotations

from dataclasses import replace

from roofline.model.configs.config import Config
from roofline.model.families.blocks.attention import attention, rotary
from roofline.model.families.blocks.feed_forward import mlp
from roofline.model.families.blocks.layers import causal_lm, layer, parallel_layer
from roofline.model.families.blocks.norms import layer_norm, per_head
from roofline.model.families.blocks.sizes import HEADS, Dims, depth, dims
from roofline.model.families.decoders.dense.llama import llama
from roofline.model.families.registry import family
from roofline.model.model import Model
from roofline.model.modules import Linear, Modules

family("telechat3", "xverse")(llama)


@family("telechat")
def telechat(c: Config) -> Model:
    """TeleChat 1 and 2 (arXiv:2401.03804): Llama with biases on the output projections alone and a tied head.

    TeleChat-52B (arXiv:2404.16645) writes its keys as GPT-2 does and has neither.
    """
    d, bias = dims(c), c.flag("add_bias_linear", True)
    c.mark_read("hidden_act", "intermediate_size", "training_seqlen", "logn", "embed_layernorm", *_OF_TELECHAT_52B)
    mixer = attention(d, rotary=rotary(c, d.head_dim), out_bias=bias)
    *ffn, down = mlp(d.width, c.size("ffn_hidden_size|n_inner"), "silu")
    assert isinstance(down, Linear)
    block = layer("dense", d.width, mixer, (*ffn, replace(down, bias=bias)))
    return causal_lm(c, d.width, [block] * d.layers, tied=True)


_OF_TELECHAT_52B = ("activation_function", "relative_encoding", "rotary_theta", "use_RMSNorm", "use_mup")


@family("mixformer-sequential")
def mixformer(c: Config) -> Model:
    """Phi-1, 1.5 and 2 as first published (arXiv:2306.11644): attention and feed-forward side by side, all biased."""
    d = dims(c, kv_key="n_head_kv")
    c.mark_read("activation_function", "architecture", "embd_layer", "flash_rotary", "fused_dense", "phyagi_version")
    mixer = attention(d, rotary=c.size("rotary_dim", d.head_dim, least=0, most=d.head_dim), bias=True)
    ffn = mlp(d.width, c.size("n_inner", 4 * d.width), "gelu_new", gated=False, bias=True)
    return causal_lm(
        c, d.width, [parallel_layer("dense", d.width, mixer, ffn)] * d.layers, norm=layer_norm, head_bias=True
    )


@family("phi3small")
def phi3small(c: Config) -> Model:
    """Phi-3-small (arXiv:2404.14219): biases, GEGLU, a tied head; its block-sparse layers are counted as dense ones."""
    d = dims(c)
    c.mark_read(*_OF_PHI3_SMALL)
    mixer = attention(d, rotary=rotary(c, d.head_dim), bias=True)
    ffn = mlp(d.width, c.size("ff_intermediate_size"), "gelu", bias=True)
    block = layer("dense", d.width, mixer, ffn, norm=layer_norm)
    return causal_lm(c, d.width, [block] * d.layers, norm=layer_norm, tied=True)


# Scales, padding of tokens, and which blocks of keys its sparse layers see.
_OF_PHI3_SMALL = (
    "blocksparse_block_size", "blocksparse_homo_head_pattern", "blocksparse_num_local_blocks",
    "blocksparse_triton_kernel_block_size", "blocksparse_vert_stride", "dense_attention_every_n_layers",
    "embedding_dropout_prob", "ff_dim_multiplier", "ffn_dropout_prob", "gegelu_limit", "gegelu_pad_to_256",
    "hidden_act", "mup_attn_multiplier", "mup_embedding_multiplier", "mup_use_scaling", "mup_width_multiplier",
    "pad_sequence_to_multiple_of_64", "rope_embedding_base", "rope_position_scale", "attention_bias",
)  # fmt: skip


@family("openelm")
def openelm(c: Config) -> Model:
    """OpenELM (arXiv:2404.14619): heads and feed-forward grow from layer to layer; q/k norms, a tied head."""
    layers, width = depth(c.with_values(num_hidden_layers=c.size("num_transformer_layers"))), c.size("model_dim")
    heads, keys, factors = (_each(c, key, layers) for key in ("num_query_heads", "num_kv_heads", "ffn_multipliers"))
    dim, step = c.size("head_dim"), c.size("ffn_dim_divisor", 256)
    norm = per_head if c.flag("normalize_qk_projections", True) else None
    gated = c.flag("ffn_with_glu", True)
    c.mark_read("num_gqa_groups", "qkv_multipliers", "rope_freq_constant", "normalization_layer_name", HEADS)
    c.mark_read("activation_fn_name", "max_context_length", "rope_max_length")

    def block(i: int) -> tuple[Modules, Modules]:
        d = Dims(layers, width, int(heads[i]), int(keys[i]), dim)
        return attention(d, rotary=dim, qk_norm=norm), mlp(
            width, _rounded(factors[i] * width, step), "silu", gated=gated
        )

    blocks = [layer("dense", width, *block(i)) for i in range(layers)]
    tied = c.flag("share_input_output_layers", True)
    c = c.with_values(tie_word_embeddings=tied, max_position_embeddings=c.size("rope_max_length", None))
    return causal_lm(c, width, blocks)


def _each(c: Config, key: str, layers: int) -> list[float]:
    """A number above 0 for each layer."""
    value = c.value(key, expected="a number a layer")[1]
    if not isinstance(value, list) or len(value) != layers:
        raise c.error(key, f"a list of {layers} numbers, as num_transformer_layers says")
    numbers = [float(x) for x in value if isinstance(x, (int, float)) and not isinstance(x, bool) and 0 < x <= 2**20]
    if len(numbers) != layers:
        raise c.error(key, "numbers above 0")
    return numbers


def _rounded(size: float, step: int) -> int:
    """The multiple of `step` nearest to `size`, and the next one where that is less than nine tenths of it."""
    near = max(step, int(size + step / 2) // step * step)
    return near + step if near < 0.9 * size else near
