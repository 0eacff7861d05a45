"""Encoder-decoders that transcribe: Canary, Cohere Transcribe, Moonshine Streaming."""

from __future__ import annotations

from dataclasses import replace

from roofline.declared.numbers.maths import ceil_div
from roofline.model.configs.config import Config
from roofline.model.families.blocks.attention import attention, cross_attention, rotary
from roofline.model.families.blocks.encoders import at, encoder, tower
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.layers import causal_lm, position_table
from roofline.model.families.blocks.norms import layer_norm, layer_norm_no_bias
from roofline.model.families.blocks.seq2seq import sublayers
from roofline.model.families.blocks.sizes import dims
from roofline.model.families.blocks.sound import lists_of, samples_of
from roofline.model.families.blocks.text_heads import dense
from roofline.model.families.registry import complete
from roofline.model.families.speech.conformers import parakeet
from roofline.model.model import Block, Model
from roofline.model.modules import Activation, Convolution, Embedding, Learned, Linear, Module, Modules


def _heard(c: Config) -> tuple[list[Block], int, int]:
    """Parakeet's encoder in a section of its own: blocks, width and positions."""
    inner = c.section("encoder_config").of_kind("parakeet_encoder")
    front, blocks, d, length = parakeet(inner)
    c.note(*inner.leftovers())
    return [Block("front", front), *blocks], d.width, length


def _listens(model: Model, blocks: list[Block], width: int, length: int) -> Model:
    read = tower("encoder", "source", width, blocks, length, quantised=True)
    return replace(model, towers=(read,), steps=("encode", "prefill", "decode"))


def _writes(c: Config, length: int | None, before: Modules, *, tied: bool) -> Model:
    """A decoder with norms before sublayers and behind the embedding, and biases everywhere."""
    c.mark_read("is_encoder_decoder", "model_type")
    d, act = dims(c), activation(c, default="relu")
    bias = c.flag("attention_bias", True)
    ffn = mlp(d.width, c.size("intermediate_size"), act, gated=False, bias=True)
    parts = (("attn", attention(d, rotary=0, bias=bias)), ("cross", _grouped(c, length)), ("ffn", ffn))
    block = sublayers("dense", d.width, parts, norm=layer_norm)
    norm = layer_norm("embedding_norm", d.width)
    return causal_lm(
        c, d.width, [block] * d.layers, norm=layer_norm, tied=tied, head_bias=True, before=(*before, norm)
    )  # fmt: skip


def _grouped(c: Config, length: int | None, *, out_bias: bool | None = None) -> Modules:
    """Attention to the sound, whose width is the decoder's own."""
    bias = c.flag("attention_bias", True)
    *cross, out = cross_attention(dims(c), bias=bias, fixed=length)
    assert isinstance(out, Linear)
    return (*cross, out if out_bias is None else replace(out, bias=out_bias))


@complete("canary")
def canary(c: Config) -> Model:
    """Canary (arXiv:2406.19674): Parakeet's encoder, and a decoder with sines for positions."""
    c.mark_read("vocab_size", "is_encoder_decoder", "model_type")
    blocks, width, length = _heard(c)
    inner = c.section("decoder_config").of_kind("canary_decoder")
    inner = inner.with_values(tie_word_embeddings=c.flag("tie_word_embeddings", True))
    model = _writes(inner, length, (), tied=True)
    c.note(*inner.leftovers())
    named = replace(model, name=c.text("_name_or_path", "") or "canary", model_type="canary")
    return _listens(_headed(c, named), blocks, width, length)


@complete("canary_decoder")
def canary_decoder(c: Config) -> Model:
    """Canary's decoder alone."""
    return _headed(c, _writes(c, None, (), tied=True), base=True)


@complete("cohere_asr")
def cohere_asr(c: Config) -> Model:
    """Cohere Transcribe (model card CohereLabs/cohere-transcribe-03-2026): Parakeet's encoder, learned positions."""
    blocks, width, length = _heard(c)
    own = c.size("hidden_size")
    joint = replace(dense("joint_proj", width, own), stream="source")
    return _listens(
        _headed(c, _writes(c, length, (joint, position_table(c, own)), tied=False)), blocks, width, length
    )  # fmt: skip


def _headed(c: Config, model: Model, *, base: bool = False) -> Model:
    """Without the head where the class is the base one."""
    if not base and not c.architecture.endswith("Model"):
        return model
    words = model.embedding[0]
    assert isinstance(words, Embedding)
    kept = tuple(m for m in model.head if m.name != "lm_head")
    return replace(model, embedding=(replace(words, shared=False), *model.embedding[1:]), head=kept)


@complete("moonshine_streaming_encoder")
def moonshine_streaming_encoder(c: Config) -> Model:
    """Moonshine Streaming's encoder alone."""
    blocks, width, length = _streaming(c)
    return encoder(c, width, blocks, embedding=(), positions=length)


def _streaming(c: Config) -> tuple[list[Block], int, int]:
    """Moonshine Streaming's encoder: frames of samples, two convolutions, layers in windows without positions."""
    c.mark_read("max_position_embeddings", "sliding_windows", "model_type")
    d, act, rate = dims(c), activation(c, default="gelu"), c.size("sample_rate", 16_000)
    frame = round(rate * c.number("frame_ms", 5.0) / 1000)
    frames = samples_of(c) // max(frame, 1)
    if frame < 1:
        raise c.error("frame_ms", "a frame of at least a sample")
    length, parts = frames, list[Module]()
    for i, (inputs, outputs) in enumerate(((d.width, 2 * d.width), (2 * d.width, d.width))):
        length = ceil_div(length, 2)
        conv = Convolution(name=f"conv{i}", inputs=inputs, outputs=outputs, kernel=5, stride=2, bias=True, part="other")
        parts += at(length, (conv,))
    compress = Learned(name="compression", width=1, applied=False)
    begin = (compress, dense("frame_proj", frame, d.width, bias=False))
    act_in = Activation(name="frame_act", width=d.width, function="silu", gated=False)
    blocks = [Block("front", (*at(frames, (*begin, act_in)), *parts))]
    for window in map(sum, lists_of(c, "sliding_windows", d.layers)):
        mixer = attention(d, rotary=0, bias=c.flag("attention_bias", False), causal=False, window=window)
        ffn = mlp(d.width, c.size("intermediate_size"), act, gated=False, bias=True)
        blocks.append(sublayers("windowed", d.width, (("attn", mixer), ("ffn", ffn)), norm=layer_norm_no_bias))
    return [*blocks, Block("last", (layer_norm_no_bias("final_norm", d.width),))], d.width, length


@complete("moonshine_streaming")
def moonshine_streaming(c: Config) -> Model:
    """Moonshine Streaming (model card UsefulSensors/moonshine-streaming-tiny): an encoder in windows."""
    c.mark_read("pad_head_dim_to_multiple_of", "is_encoder_decoder")
    inner = c.section("encoder_config").of_kind("moonshine_streaming_encoder")
    blocks, heard, length = _streaming(inner)
    c.note(*inner.leftovers())
    d, rows = dims(c), c.size("max_position_embeddings", 4096)
    mixer = attention(d, rotary=rotary(c, d.head_dim, 0.8), bias=c.flag("attention_bias", False), out_bias=False)
    ffn = mlp(d.width, c.size("intermediate_size"), activation(c, default="silu"), bias=True)
    parts = (
        ("attn", mixer),
        ("cross", _grouped(c.with_values(attention_bias=c.flag("attention_bias", False)), length, out_bias=False)),
        ("ffn", ffn),
    )
    block = sublayers("dense", d.width, parts, norm=layer_norm_no_bias)
    places: Modules = (Embedding(name="position_embedding", rows=rows, width=heard, stream="source"),)
    if heard != d.width:
        places = (*places, replace(dense("joint_proj", heard, d.width, bias=False), stream="source"))
    model = causal_lm(c, d.width, [block] * d.layers, norm=layer_norm_no_bias, tied=False, before=places)
    return _listens(_headed(c, model), blocks, heard, length)
