"""Language models of multimodal models: known families under other names, or with one detail changed."""

from __future__ import annotations

from dataclasses import replace

from roofline.declared.errors import not_one_of
from roofline.model.configs.config import MOST_LAYERS, Config
from roofline.model.families.blocks.attention import attention, rotary
from roofline.model.families.blocks.feed_forward import activation, fine_moe, mlp, mlp_layer_types, moe
from roofline.model.families.blocks.layers import causal_lm, layer, stack
from roofline.model.families.blocks.norms import across_heads, biased_layer_norm_of_each_head, per_head
from roofline.model.families.blocks.sizes import dims
from roofline.model.families.decoders.dense.gpt import phi3
from roofline.model.families.decoders.dense.llama import llama
from roofline.model.families.decoders.dense.open_science import granite
from roofline.model.families.decoders.dense.qwen import qwen2, qwen3, qwen3_moe
from roofline.model.families.decoders.dense.remote_dense import minicpm
from roofline.model.families.registry import family
from roofline.model.model import Model
from roofline.model.modules import Embedding

family("phi4_multimodal")(phi3)
family("granite4_vision_text")(granite)
family("qwen2_5_omni_text")(qwen2)


@family("granite_docling_text")
def granite_docling(c: Config) -> Model:
    """Granite Docling (arXiv:2408.09869): Granite with a tied head by default."""
    return granite(c if c.has("tie_word_embeddings") else c.with_values(tie_word_embeddings=True))


@family("qwen3_omni_moe_text")
def qwen3_omni(c: Config) -> Model:
    """Qwen3-Omni's language model (arXiv:2509.17765): Qwen3 with experts, head widths rounded down."""
    if not c.has("head_dim"):
        c = c.with_values(head_dim=max(1, c.size("hidden_size") // c.size("num_attention_heads")))
    return qwen3_moe(c)


@family("glm4v_text", "glm_image_text")
def glm4v(c: Config) -> Model:
    """GLM-4.1V (arXiv:2507.01006), and what writes GLM-Image's tokens: GLM-4 0414 with heads of hidden_size / heads."""
    return _glm4v(c, bias=True)


@family("glm_ocr_text")
def glm_ocr(c: Config) -> Model:
    """GLM-OCR: GLM-4.1V without biases."""
    return _glm4v(c, bias=False)


def _glm4v(c: Config, *, bias: bool) -> Model:
    d = dims(c)
    mixer = attention(d, rotary=rotary(c, d.head_dim), bias=bias, out_bias=False)
    ffn = mlp(d.width, c.size("intermediate_size"), activation(c))
    return causal_lm(c, d.width, [layer("dense", d.width, mixer, ffn, after=True)] * d.layers)


@family("glm4v_moe_text")
def glm4v_moe(c: Config) -> Model:
    """GLM-4.5V (arXiv:2507.01006): GLM-4.5 without q/k norms, with biases by default."""
    d, bias, first = dims(c, uneven=True), c.flag("attention_bias", True), c.size("first_k_dense_replace", 1, least=0)
    mixer = attention(d, rotary=rotary(c, d.head_dim, 0.5), bias=bias, out_bias=False)
    dense, sparse = mlp(d.width, c.size("intermediate_size"), activation(c)), [i >= first for i in range(d.layers)]
    blocks = stack(d.width, [("", mixer)] * d.layers, dense, experts=fine_moe(c, d.width), sparse=sparse)
    return causal_lm(c, d.width, blocks)


@family("paddleocr_vl_text")
def paddleocr_vl(c: Config) -> Model:
    """PaddleOCR-VL (arXiv:2510.14528): ERNIE 4.5, dense, whose head has no bias."""
    d, bias = dims(c, head_dim=128), c.flag("use_bias")
    mixer = attention(d, rotary=rotary(c, d.head_dim), bias=bias)
    ffn = mlp(d.width, c.size("intermediate_size"), activation(c), bias=bias)
    return causal_lm(c, d.width, [layer("dense", d.width, mixer, ffn)] * d.layers, tied=True)


@family("ernie4_5_vl_moe_text")
def ernie4_5_vl_moe(c: Config) -> Model:
    """ERNIE 4.5 VL (Baidu, 2025): separate experts for text and images; text uses only its own."""
    d, bias = dims(c), c.flag("use_bias")
    inner, seeing = c.per_layer_size("moe_intermediate_size", 2, [1536, 512])
    mixer = attention(d, rotary=rotary(c, d.head_dim), bias=bias)
    dense = mlp(d.width, c.size("intermediate_size"), activation(c), bias=bias)
    count, shared = c.size("moe_num_experts"), inner * c.size("moe_num_shared_experts", 0, least=0)
    experts = moe(
        c, d.width, count, c.size("moe_k"), inner, shared=shared, shared_bias=bias, correction=True,
        top_k_key="moe_k",
    )  # fmt: skip
    seen = moe(c, d.width, count, c.size("moe_k"), seeing, correction=True, top_k_key="moe_k")
    experts = (*(replace(m, name=f"image_{m.name}", idle=True) for m in seen), *experts)
    sparse = mlp_layer_types(c, d.layers, 1)
    blocks = stack(d.width, [("", mixer)] * d.layers, dense, experts=experts, sparse=sparse)
    return causal_lm(c, d.width, blocks, tied=True)


@family("ernie4_5_moe_vl")
def ernie4_5_published(c: Config) -> Model:
    """ERNIE 4.5 VL under the keys of its published code, which counts experts of text and of images apart."""
    c = c.of_kind("ernie4_5_vl_moe_text")
    experts, images = c.per_layer_size("moe_num_experts", 2, [64, 64])
    if experts != images:
        raise c.error("moe_num_experts", "as many experts of images as of text")
    layers, first = c.size("num_hidden_layers", most=MOST_LAYERS), c.size("moe_layer_start_index", 1, least=0)
    kinds = ["dense" if i < first else "sparse" for i in range(layers)]
    shared = c.raw.get("moe_num_shared_experts") or 0
    return ernie4_5_vl_moe(c.with_values(moe_num_experts=experts, mlp_layer_types=kinds, moe_num_shared_experts=shared))


@family("hunyuan_vl_text")
def hunyuan_vl(c: Config) -> Model:
    """HunyuanOCR (arXiv:2511.19575): Hunyuan, dense, with q/k norms on each head."""
    d = dims(c)
    mixer = attention(d, rotary=rotary(c, d.head_dim), bias=c.flag("attention_bias"), qk_norm=per_head)
    ffn = mlp(d.width, c.size("intermediate_size"), activation(c))
    return causal_lm(c, d.width, [layer("dense", d.width, mixer, ffn)] * d.layers, tied=True)


@family("molmo")
def molmo(c: Config) -> Model:
    """Molmo (arXiv:2409.17146): OLMo's plan or Qwen2's, with 128 more rows in its embedding than its head."""
    rows, tied = c.size("embedding_size", None) or c.size("vocab_size"), c.flag("weight_tying")
    c.mark_read("use_position_ids", "layer_norm_type", "clip_qkv", "vocab_size")
    c = c.with_values(vocab_size=rows, tie_word_embeddings=tied)
    d, after = dims(c), c.flag("norm_after")
    norm = across_heads if c.flag("attention_layer_norm") else None
    mixer = attention(d, rotary=rotary(c, d.head_dim), bias=c.flag("qkv_bias"), out_bias=False, qk_norm=norm)
    ffn = mlp(d.width, c.size("intermediate_size") // 2, activation(c, default="silu"))
    block = layer("dense", d.width, mixer, ffn, before=not after, after=after)
    return with_more_rows(causal_lm(c, d.width, [block] * d.layers), 128)


@family("molmo2_text")
def molmo2(c: Config) -> Model:
    """Molmo 2 (arXiv:2601.10611): q/k norms as in Qwen3 or OLMo; the embedding has more rows than the head."""
    d, norms = dims(c, head_dim=128), {"qwen3": per_head, "olmo": across_heads}
    norm, after, bias = norms[c.text("qk_norm_type", "qwen3", norms)], c.flag("norm_after"), c.flag("attention_bias")
    mixer = attention(d, rotary=rotary(c, d.head_dim), bias=bias, out_bias=False, qk_norm=norm)
    ffn = mlp(d.width, c.size("intermediate_size"), activation(c))
    block = layer("dense", d.width, mixer, ffn, before=not after, after=after)
    return with_more_rows(causal_lm(c, d.width, [block] * d.layers), c.size("additional_vocab_size", 128, least=0))


def with_more_rows(model: Model, rows: int) -> Model:
    """The model with `rows` more rows in its embedding than its head has outputs."""
    table, *rest = model.embedding
    assert isinstance(table, Embedding)
    return replace(model, embedding=(replace(table, rows=table.rows + rows), *rest))


@family("minicpmv", "minicpmo")
def minicpm_v(c: Config) -> Model:
    """MiniCPM-V and -o (arXiv:2408.01800): each version has another language model."""
    old = "2.0" if c.get("vision_config") is None else "2.5"
    version = str(c.value("version", old)[1])
    decoders = {"2.0": minicpm, "2.5": llama, "2.6": qwen2, "4.0": llama, "4.5": qwen3}
    if version not in decoders:
        raise not_one_of(c.field("version"), version, decoders)
    return decoders[version](c)


@family("chameleon")
def chameleon(c: Config) -> Model:
    """Chameleon (arXiv:2405.09818): Llama with q/k norms per head; the 34B has norms after sublayers, not before."""
    c.mark_read("vocabulary_map", "model_parallel_size")
    d, after = dims(c), c.flag("swin_norm")
    bias, norm = c.flag("attention_bias"), biased_layer_norm_of_each_head
    mixer = attention(d, rotary=rotary(c, d.head_dim), bias=bias, qk_norm=norm)
    ffn = mlp(d.width, c.size("intermediate_size"), activation(c), bias=c.flag("mlp_bias"))
    return causal_lm(c, d.width, [layer("dense", d.width, mixer, ffn, before=not after, after=after)] * d.layers)
