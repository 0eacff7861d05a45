"""Encoder-decoders that hear: Speech2Text, Moonshine, SpeechT5."""

from __future__ import annotations

from dataclasses import replace

from roofline.model.configs.config import MOST_LAYERS, Config
from roofline.model.families.blocks.attention import attention, cross_attention, rope_section, rotary
from roofline.model.families.blocks.encoders import at, tower
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.layers import causal_lm
from roofline.model.families.blocks.norms import layer_norm, layer_norm_no_bias
from roofline.model.families.blocks.seq2seq import half_sizes, sublayers
from roofline.model.families.blocks.sizes import Dims
from roofline.model.families.blocks.sound import (
    channel_norm,
    feature_encoder,
    samples_of,
    size_list,
    spectra_of,
    strided_frames,
)
from roofline.model.families.blocks.text_heads import acted, dense
from roofline.model.families.registry import complete
from roofline.model.families.speech.wav2vec2 import TRAINING, masked_vector, position_convolution
from roofline.model.model import Block, Model
from roofline.model.modules import Activation, Attention, Convolution, Embedding, Learned, Linear, Module, Modules


def _hears(model: Model, width: int, blocks: list[Block], positions: int) -> Model:
    """The decoder with an encoder of sound."""
    encoder = tower("encoder", "source", width, blocks, positions, quantised=True)
    return replace(model, towers=(encoder,), steps=("encode", "prefill", "decode"))


@complete("speech_to_text")
def speech_to_text(c: Config) -> Model:
    """Speech2Text (arXiv:2010.05171): convolutions that halve a spectrogram, layers with norms before."""
    c.mark_read("num_hidden_layers", "max_source_positions", "max_target_positions", "is_encoder_decoder")
    width, act, count = c.size("d_model"), activation(c, "activation_function", "relu"), c.size("num_conv_layers", 2)
    e, d = half_sizes(c, "encoder", width), half_sizes(c, "decoder", width)
    inputs, channels = c.size("input_feat_per_channel", 80) * c.size("input_channels", 1), c.size("conv_channels", 1024)
    length, front = spectra_of(c), list[Module]()
    for i, kernel in enumerate(size_list(c, "conv_kernel_sizes", count, [5] * count)):
        length, outputs = strided_frames(length, kernel, 2, kernel // 2), channels if i < count - 1 else 2 * width
        conv = Convolution(
            name=f"conv{i}", inputs=inputs, outputs=outputs, kernel=kernel, stride=2, bias=True, part="other"
        )
        front += at(length, (conv, Activation(name=f"conv{i}_gate", width=outputs // 2, function="sigmoid")))
        inputs = outputs // 2
    listens = sublayers("dense", width, (
        ("attn", attention(e, rotary=0, bias=True, causal=False)),
        ("ffn", mlp(width, c.size("encoder_ffn_dim"), act, gated=False, bias=True)),
    ), norm=layer_norm)  # fmt: skip
    speaks = sublayers("dense", width, (
        ("attn", attention(d, rotary=0, bias=True)), ("cross", cross_attention(d, bias=True, fixed=length)),
        ("ffn", mlp(width, c.size("decoder_ffn_dim"), act, gated=False, bias=True)),
    ), norm=layer_norm)  # fmt: skip
    blocks = [Block("front", tuple(front)), *[listens] * e.layers, Block("last", (layer_norm("final_norm", width),))]
    return _hears(causal_lm(c, width, [speaks] * d.layers, norm=layer_norm, tied=True), width, blocks, length)


@complete("moonshine")
def moonshine(c: Config) -> Model:
    """Moonshine (arXiv:2410.15608): convolutions over samples, rotary positions, a decoder with gated networks."""
    c.mark_read("pad_head_dim_to_multiple_of", "is_encoder_decoder", "rope_theta", "max_position_embeddings")
    width, bias = c.size("hidden_size"), c.flag("attention_bias")
    inner, names = c.size("intermediate_size"), ("encoder", "decoder")

    def sizes(name: str) -> Dims:
        heads = c.size(f"{name}_num_attention_heads|num_attention_heads", 8)
        layers = c.size(f"{name}_num_hidden_layers|num_hidden_layers", 6, most=MOST_LAYERS)
        kv = c.size(f"{name}_num_key_value_heads|num_key_value_heads", heads)
        return Dims(layers, width, heads, kv, c.size("head_dim", width // heads))

    e, d = (sizes(name) for name in names)
    rotated, length, inputs, front = rotary(c, e.head_dim, 0.9), samples_of(c), 1, list[Module]()
    rope_section(c)
    for i, (outputs, kernel, stride) in enumerate(((width, 127, 64), (2 * width, 7, 3), (width, 3, 2))):
        length = strided_frames(length, kernel, stride)
        conv = Convolution(
            name=f"conv{i}", inputs=inputs, outputs=outputs, kernel=kernel, stride=stride, bias=i > 0, part="other"
        )
        act = Activation(name=f"conv{i}_act", width=outputs, function="tanh" if i == 0 else "gelu", gated=False)
        front += at(length, (conv, act, *((channel_norm("group_norm", width),) if i == 0 else ())))
        inputs = outputs
    heard = mlp(width, inner, activation(c, "encoder_hidden_act", "gelu"), gated=False, bias=True)
    said = mlp(width, inner, activation(c, "decoder_hidden_act|hidden_act", "silu"), bias=True)
    listens = sublayers("dense", width, (
        ("attn", attention(e, rotary=rotated, bias=bias, out_bias=False, causal=False)), ("ffn", heard),
    ), norm=layer_norm_no_bias)  # fmt: skip
    seen = attention(d, rotary=rotated, bias=bias, out_bias=False)
    *cross, out = cross_attention(d, bias=bias, fixed=length)
    assert isinstance(out, Linear)
    parts = (("attn", seen), ("cross", (*cross, replace(out, bias=False))), ("ffn", said))
    speaks = sublayers("dense", width, parts, norm=layer_norm_no_bias)
    last = Block("last", (layer_norm_no_bias("final_norm", width),))
    model = causal_lm(c, width, [speaks] * d.layers, norm=layer_norm_no_bias, tied=True)
    return _hears(model, width, [Block("front", tuple(front)), *[listens] * e.layers, last], length)


@complete("speecht5")
def speecht5(c: Config) -> Model:
    """SpeechT5 (arXiv:2110.07205): one encoder-decoder with fronts and ends for text and speech."""
    c.mark_read(*TRAINING, *_UNUSED)
    name, width, act = c.architecture, c.size("hidden_size"), activation(c, default="gelu")
    hears, speaks = name.endswith(("SpeechToText", "SpeechToSpeech")), name.endswith(("TextToSpeech", "SpeechToSpeech"))
    if not hears and not speaks:
        raise c.error("architectures", "SpeechT5ForTextToSpeech, SpeechT5ForSpeechToText or SpeechT5ForSpeechToSpeech")
    e, d = half_sizes(c, "encoder", width), half_sizes(c, "decoder", width)
    distances = 2 * c.size("encoder_max_relative_position", 160)
    norms: Modules = (
        layer_norm("encoder_norm", width), Learned(name="distances", width=e.head_dim, rows=distances, applied=False),
    )  # fmt: skip
    front, length = _speech_front(c, width) if hears else (_text_front(c, width), None)
    scores = Attention(
        name="distances", heads=e.heads, kv_heads=e.heads, head_dim=e.head_dim, v_head_dim=0, causal=False
    )
    listens = sublayers("dense", width, (
        ("attn", (scores, *attention(e, rotary=0, bias=True, causal=False))),
        ("ffn", mlp(width, c.size("encoder_ffn_dim"), act, gated=False, bias=True)),
    ), norm=layer_norm, before=False)  # fmt: skip
    block = sublayers("dense", width, (
        ("attn", attention(d, rotary=0, bias=True)), ("cross", cross_attention(d, bias=True, fixed=length)),
        ("ffn", mlp(width, c.size("decoder_ffn_dim"), act, gated=False, bias=True)),
    ), norm=layer_norm, before=False)  # fmt: skip
    model = causal_lm(c, width, [block] * d.layers, norm=None, tied=True)
    if speaks:
        model = replace(model, embedding=_speech_before(c, width), head=_speech_behind(c, width))
    blocks = [Block("front", (*front, *norms)), *[listens] * e.layers]
    encoder = tower("encoder", "source", width, blocks, length, quantised=True)
    return replace(model, towers=(encoder,), steps=("encode", "prefill", "decode"))


def _speech_front(c: Config, width: int) -> tuple[Modules, int]:
    """wav2vec 2.0's convolutions over samples, and the positions that they leave."""
    front, length, last = feature_encoder(c, c.text("feat_extract_norm", "group", ("group", "layer")))
    places = position_convolution(c, width, length)
    begin = (*front, layer_norm("feature_norm", last), dense("feature_proj", last, width), *masked_vector(c, width))
    return (*begin, *places), length


def _text_front(c: Config, width: int) -> Modules:
    """A table of characters, and a scale of its sines."""
    table = Embedding(name="embedding", rows=c.size("vocab_size", 81), width=width)
    return (table, Learned(name="position_scale", width=1, applied=False))


def _speech_before(c: Config, width: int) -> Modules:
    """What a decoder of speech reads: the frame before, through products, beside the vector of a speaker."""
    inputs, units, parts = c.size("num_mel_bins", 80), c.size("speech_decoder_prenet_units", 256), list[Module]()
    for i in range(c.size("speech_decoder_prenet_layers", 2)):
        parts += acted(f"frame{i}", inputs, units, "relu")
        inputs = units
    parts.append(dense("frame_proj", inputs, width))
    parts.append(Learned(name="position_scale", width=1, applied=False))
    parts.append(dense("speaker_proj", c.size("speaker_embedding_dim", 512) + width, width))
    return tuple(parts)


def _speech_behind(c: Config, width: int) -> Modules:
    """Frames and whether they are the last, and the convolutions that correct all frames at the end."""
    factor, mels, units = (
        c.size("reduction_factor", 2),
        c.size("num_mel_bins", 80),
        c.size("speech_decoder_postnet_units", 256),
    )
    parts: list[Module] = [dense("frames", width, mels * factor), dense("ends", width, factor)]
    layers, taps = c.size("speech_decoder_postnet_layers", 5), c.size("speech_decoder_postnet_kernel", 5)
    for i in range(layers):
        inputs, outputs = (units if i else mels), (units if i < layers - 1 else mels)
        conv = Convolution(name=f"correct{i}", inputs=inputs, outputs=outputs, kernel=taps, part="other", idle=True)
        parts += [conv, replace(channel_norm(f"correct{i}_norm", outputs), idle=True)]
    return tuple(parts)


_UNUSED = """
    is_encoder_decoder num_hidden_layers max_speech_positions max_text_positions scale_embedding positional_dropout
    num_mel_bins speech_decoder_prenet_dropout speech_decoder_prenet_layers speech_decoder_prenet_units
    speech_decoder_postnet_dropout speech_decoder_postnet_kernel speech_decoder_postnet_layers
    speech_decoder_postnet_units speaker_embedding_dim reduction_factor use_guided_attention_loss
    guided_attention_loss_num_heads guided_attention_loss_scale guided_attention_loss_sigma normalize_before
    decoder_start_token_id feat_extract_norm feat_extract_activation conv_dim conv_stride conv_kernel conv_bias
    num_conv_pos_embeddings num_conv_pos_embedding_groups num_feat_extract_layers
""".split()
