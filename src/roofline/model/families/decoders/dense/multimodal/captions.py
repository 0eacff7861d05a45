"""Decoders inside captioning and speech models, and one that writes pixels."""

from __future__ import annotations

from roofline.model.configs.config import MOST_LAYERS, Config
from roofline.model.families.blocks.attention import attention, rotary, same_window, windowed
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.layers import causal_lm, layer, position_table, stack
from roofline.model.families.blocks.norms import layer_norm
from roofline.model.families.blocks.sizes import HEADS, dims
from roofline.model.families.decoders.recurrent.short_convolutions import scaled_stream
from roofline.model.families.registry import family
from roofline.model.model import Model
from roofline.model.modules import Embedding, Linear, Modules


@family("kosmos_2_text_model", "kosmos_2_5_text_model")
def kosmos(c: Config) -> Model:
    """Kosmos-2 (arXiv:2306.14824), with norms inside (arXiv:2210.06423), and 2.5 (arXiv:2309.11419), with segments."""
    width, layers = c.size("embed_dim|hidden_size"), c.size("layers|num_hidden_layers", most=MOST_LAYERS)
    d = dims(c.with_values(hidden_size=width, num_hidden_layers=layers), kv_key=HEADS)
    segments = c.raw["model_type"] == "kosmos_2_5_text_model"
    *inside, out = attention(d, rotary=0, bias=True)
    mixer = (*inside, *(() if segments else (layer_norm("attn_inner_norm", width),)), out)
    inner, act = c.size("ffn_dim"), activation(c, "activation_function", "gelu")
    ffn = mlp(width, inner, act, gated=False, bias=True, middle=(layer_norm("ffn_inner_norm", inner),))
    before = (Embedding(name="segment_embedding", rows=2, width=width),) if segments else ()
    blocks = [layer("dense", width, mixer, ffn, norm=layer_norm)] * layers
    return causal_lm(c, width, blocks, norm=layer_norm, tied=True, before=before)


@family("git")
def git(c: Config) -> Model:
    """GIT (arXiv:2205.14100): a decoder built like BERT; image tokens share its attention."""
    d = dims(c, kv_key=HEADS)
    c.mark_read("num_image_with_embedding")
    ffn = mlp(d.width, c.size("intermediate_size"), activation(c, default="gelu"), gated=False, bias=True)
    before = (position_table(c, d.width), layer_norm("embedding_norm", d.width))
    block = layer("dense", d.width, attention(d, rotary=0, bias=True), ffn, norm=layer_norm, before=False, after=True)
    return causal_lm(c, d.width, [block] * d.layers, norm=None, head_bias=True, before=before)


@family("imagegpt")
def imagegpt(c: Config) -> Model:
    """Image GPT (Chen et al. 2020): GPT-2 with norms that do not centre; tokens are colours, plus a start token."""
    d, colours = dims(c, kv_key=HEADS), c.size("vocab_size", least=2) - 1
    if c.flag("tie_word_embeddings") and not c.architecture.endswith("ForImageClassification"):
        raise c.error("tie_word_embeddings", "false: the head answers with one token fewer than the embedding has")
    inner, act = c.size("n_inner", 4 * d.width), activation(c, "activation_function", "quick_gelu")
    ffn = mlp(d.width, inner, act, gated=False, bias=True)
    block, before = layer("dense", d.width, attention(d, rotary=0, bias=True), ffn), (position_table(c, d.width),)
    return causal_lm(c.with_values(vocab_size=colours), d.width, [block] * d.layers, more_rows=1, before=before)


@family("voxtral_realtime_text")
def voxtral_realtime(c: Config) -> Model:
    """Voxtral Realtime's decoder (Mistral AI, model card of Voxtral-Mini-4B-Realtime): Mistral, scaled by the delay.

    The scale of a layer's hidden state depends only on the delay: its two products run once per sequence, not per
    token.
    """
    d, rank = dims(c), 32
    scale: Modules = (
        Linear(name="delay_down_proj", inputs=d.width, outputs=rank, part="other", idle=True),
        Linear(name="delay_up_proj", inputs=rank, outputs=d.width, part="other", idle=True),
        scaled_stream("delay_scale", d.width, 0),
    )
    ffn, rope = mlp(d.width, c.size("intermediate_size"), activation(c)), rotary(c, d.head_dim)
    mixers = windowed(same_window(c, d.layers), lambda window: attention(d, rotary=rope, window=window))
    return causal_lm(c, d.width, stack(d.width, mixers, (*scale, *ffn)), tied=True)
