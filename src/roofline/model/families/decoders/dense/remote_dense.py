"""Dense decoders whose code comes with the checkpoint, not with transformers, with their own key names."""

from __future__ import annotations

from dataclasses import replace

from roofline.model.configs.config import Config
from roofline.model.families.blocks.attention import attention, layer_windows, rotary, windowed
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.layers import causal_lm, layer, stack
from roofline.model.families.blocks.norms import layer_norm, rms
from roofline.model.families.blocks.sizes import Dims, dims
from roofline.model.families.decoders.dense.gpt import phi3
from roofline.model.families.decoders.dense.llama import llama
from roofline.model.families.decoders.dense.qwen import qwen2
from roofline.model.families.registry import family
from roofline.model.model import Block, Model
from roofline.model.modules import Linear, Modules, Part

family("phi3_v")(phi3)


@family("mimo")
def mimo(c: Config) -> Model:
    """MiMo 7B (arXiv:2505.07608): Qwen2 with a draft layer."""
    c.mark_read("attention_bias")
    return qwen2(c)


@family("internlm")
def internlm(c: Config) -> Model:
    """InternLM (2023): Llama with biased attention."""
    return _llama(c, dims(c), bias=c.flag("bias", True))


@family("internlm2")
def internlm2(c: Config) -> Model:
    """InternLM 2 and 2.5 (arXiv:2403.17297): Llama with fused queries, keys and values."""
    return _llama(c, dims(c), bias=c.flag("bias", True))


@family("PanguEmbedded")
def pangu_embedded(c: Config) -> Model:
    """openPangu Embedded (arXiv:2505.22375): Llama with biased attention."""
    return _llama(c, dims(c), bias=c.flag("bias", True))


@family("spark2_5")
def spark2_5(c: Config) -> Model:
    """Spark X2.5 (mlx-lm 0.32.2, spark2_5.py): a gate for each head, and three layers with a window to one without."""
    d = dims(c)
    if c.flag("attention_bias"):
        raise c.error("attention_bias", "false: its gates have no bias here")
    c.flag("headwise_attn_output_gate", True), c.text("gate_attn_act_mode", "sigmoid", ("sigmoid",))
    ffn = mlp(d.width, c.size("intermediate_size"), activation(c, default="gelu"), bias=c.flag("mlp_bias"))
    windows = layer_windows(c, d.layers, lambda i: i % 4 != 3)
    turned = {w: rotary(c, d.head_dim, layer_type=f"{'sliding' if w else 'full'}_attention") for w in windows}
    mixers = windowed(windows, lambda window: attention(d, rotary=turned[window], gates=d.heads, window=window))
    return causal_lm(c, d.width, stack(d.width, mixers, ffn), tied=True)


@family("solar")
def solar(c: Config) -> Model:
    """Solar Pro Preview (Upstage, 2024): Llama with sums of earlier layers' outputs, which have no weights."""
    c.mark_read("bskcn_1", "bskcn_2", "bskcn_3", "bskcn_4", "bskcn_tv")
    return llama(c)


@family("exaone")
def exaone(c: Config) -> Model:
    """EXAONE 3.0 and 3.5 (arXiv:2408.03541, 2412.04862): Llama with GPT-2's key names."""
    return _llama(c, dims(c), act=activation(c, "activation_function"))


@family("minicpm")
def minicpm(c: Config) -> Model:
    """MiniCPM (arXiv:2404.06395): Llama with scalar multipliers and, by default, a tied head."""
    return _llama(c, dims(c), bias=c.flag("attention_bias"), tied=True)


def _llama(c: Config, d: Dims, *, bias: bool = False, act: str = "", tied: bool = False) -> Model:
    """A model on Llama's plan; `bias`: whether all four projections of attention have one."""
    ffn = mlp(d.width, c.size("intermediate_size"), act or activation(c))
    block = layer("dense", d.width, attention(d, rotary=rotary(c, d.head_dim), bias=bias), ffn)
    return causal_lm(c, d.width, [block] * d.layers, tied=tied)


@family("baichuan")
def baichuan(c: Config) -> Model:
    """Baichuan 1 and 2 (arXiv:2309.10305): Llama; the 13B, whose config has no longest sequence, has ALiBi."""
    d = dims(c, kv_key="num_attention_heads")
    rope = rotary(c, d.head_dim) if c.has("max_position_embeddings") else 0
    ffn = mlp(d.width, c.size("intermediate_size"), activation(c))
    return causal_lm(c, d.width, [layer("dense", d.width, attention(d, rotary=rope), ffn)] * d.layers)


@family("orion")
def orion(c: Config) -> Model:
    """Orion (arXiv:2401.12246): Llama with LayerNorm."""
    d = dims(c)
    ffn = mlp(d.width, c.size("intermediate_size"), activation(c))
    block = layer("dense", d.width, attention(d, rotary=rotary(c, d.head_dim)), ffn, norm=layer_norm)
    return causal_lm(c, d.width, [block] * d.layers, norm=layer_norm)


@family("qwen")
def qwen(c: Config) -> Model:
    """Qwen (arXiv:2309.16609): biased q, k, v; `intermediate_size` is the width of gate and up projection together."""
    d, inner = dims(c, kv_key="num_attention_heads"), c.size("intermediate_size")
    d, bias = replace(d, head_dim=c.size("kv_channels", d.head_dim)), not c.flag("no_bias", True)
    if inner % 2:
        raise c.error("intermediate_size", "an even number: gate and up-projection have half of it each")
    mixer = attention(d, rotary=rotary(c, d.head_dim), bias=True, out_bias=bias)
    block = layer("dense", d.width, mixer, mlp(d.width, inner // 2, "silu", bias=bias))
    return causal_lm(c, d.width, [block] * d.layers)


@family("chatglm")
def chatglm(c: Config) -> Model:
    """ChatGLM 2 and 3, GLM-4 9B (arXiv:2406.12793): shared keys and values, RoPE on half of each head."""
    if c.has("inner_hidden_size"):
        return _chatglm_6b(c)
    shared = c.flag("multi_query_attention")
    d = dims(c, kv_key="multi_query_group_num" if shared else "num_attention_heads")
    d, bias = replace(d, head_dim=c.size("kv_channels", d.head_dim)), c.flag("add_bias_linear")
    norm = rms if c.flag("rmsnorm", True) else layer_norm
    c.mark_read("multi_query_group_num", "interleaved_qkv", "classifier_dropout", "fp32_residual_connection")
    mixer = attention(d, rotary=d.head_dim // 2, bias=c.flag("add_qkv_bias") or bias, out_bias=bias)
    block = layer("dense", d.width, mixer, mlp(d.width, c.size("ffn_hidden_size"), "silu", bias=bias), norm=norm)
    c = c.with_values(vocab_size=c.size("padded_vocab_size|vocab_size"))
    return causal_lm(c, d.width, [block] * d.layers, norm=norm if c.flag("post_layer_norm", True) else None)


def _chatglm_6b(c: Config) -> Model:
    """ChatGLM-6B (arXiv:2210.02414): positions in two dimensions, biases, a feed-forward without gate, a tied head."""
    d = dims(c, kv_key="num_attention_heads")
    c.mark_read("position_encoding_2d", "pre_seq_len", "prefix_projection", "layernorm_epsilon")
    ffn = mlp(d.width, c.size("inner_hidden_size"), "gelu", gated=False, bias=True)
    block = layer("dense", d.width, attention(d, rotary=d.head_dim, bias=True), ffn, norm=layer_norm)
    return causal_lm(c, d.width, [block] * d.layers, norm=layer_norm, tied=True)


# -- layers found by search ----------------------------------------------------------------------------------------
@family("nemotron-nas")
def nemotron_nas(c: Config) -> Model:
    """Llama Nemotron 51B, 49B and 253B (Puzzle, arXiv:2411.19146): width and KV heads differ from layer to layer."""
    d, (_, described) = dims(c, kv_key="num_attention_heads"), c.value("block_configs", expected="an object a layer")
    if not isinstance(described, list) or len(described) != d.layers:
        raise c.error("block_configs", f"a list of {d.layers} objects, as num_hidden_layers says")
    each = Config({f"block_configs[{i}]": block for i, block in enumerate(described)}, c.path)
    return causal_lm(c, d.width, [_searched_layer(c, d, each.section(key)) for key in each.raw])


def _searched_layer(c: Config, d: Dims, block: Config) -> Block:
    """A layer found by search: attention and feed-forward may each be replaced by a product or left out."""
    mixer, ffn = block.section("attention"), block.section("ffn")
    group = mixer.size("n_heads_in_group", 1)
    if d.heads % group:
        raise mixer.error("n_heads_in_group", f"a divisor of num_attention_heads = {d.heads}")
    sizes, bias, rope = replace(d, kv_heads=d.heads // group), c.flag("attention_bias"), rotary(c, d.head_dim)
    window = mixer.size("window_length", None)
    attend = _searched(mixer, "attention", d.width, attention(sizes, rotary=rope, bias=bias, window=window))
    inner = -(-int(2 * ffn.number("ffn_mult", 1.0) * d.width / 3) // 256) * 256
    feed = _searched(ffn, "ffn", d.width, mlp(d.width, inner, activation(c)))
    kinds = [f"attention of {sizes.kv_heads}" if len(attend) > 1 else "linear attention" if attend else ""]
    kinds += [f"ffn of {inner}" if len(feed) > 1 else "linear ffn" if feed else ""]
    return layer(", ".join(kind for kind in kinds if kind) or "nothing", d.width, attend, feed)


def _searched(part: Config, name: Part, width: int, whole: Modules) -> Modules:
    """Attention or feed-forward as is, replaced by a product, or left out."""
    if part.flag("no_op"):
        return ()
    return (
        (Linear(name=f"{name}_linear", inputs=width, outputs=width, part=name),)
        if part.flag("replace_with_linear")
        else whole
    )
