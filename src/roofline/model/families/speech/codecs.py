"""Codecs of sound: EnCodec, Mimi, the tokenizers of Pocket TTS and VibeVoice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import floor, log2, prod
from typing import TypeAlias

from roofline.declared.numbers.maths import ceil_div
from roofline.model.configs.config import Config
from roofline.model.families.blocks.attention import attention, rotary
from roofline.model.families.blocks.encoders import at, encoder
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.norms import layer_norm, rms
from roofline.model.families.blocks.seq2seq import sublayers
from roofline.model.families.blocks.sizes import dims
from roofline.model.families.blocks.sound import channel_norm, samples_of, size_list
from roofline.model.families.blocks.text_heads import dense
from roofline.model.families.registry import complete
from roofline.model.model import Block, Model
from roofline.model.modules import Activation, Add, Convolution, Learned, Linear, Module, Modules

MakeConvolution: TypeAlias = Callable[..., Modules]
"""Makes an activation and the convolution behind it: (name, inputs, outputs, taps, stride, transposed)."""


def recurrent(width: int, layers: int, *, prefix: str = "lstm") -> Modules:
    """An LSTM as its products, of the input and of the state, one position after another."""
    parts: list[Module] = []
    for i in range(layers):
        parts += [dense(f"{prefix}{i}_input", width, 4 * width), dense(f"{prefix}{i}_state", width, 4 * width)]
        parts.append(Activation(name=f"{prefix}{i}_gates", width=width, function="sigmoid"))
    return (*parts, Add(name=f"{prefix}_residual", width=width))


def scaled_weights(conv: Convolution, norm: str) -> Modules:
    """A convolution whose weights are scaled by one value for each of its first channels, or with a norm behind it."""
    if norm == "weight_norm":
        rows = conv.inputs if conv.transposed else conv.outputs
        return (conv, Learned(name=f"{conv.name}_scale", width=1, rows=rows, applied=False))
    return (conv, channel_norm(f"{conv.name}_norm", conv.outputs))


def _convolved(
    norm: str, name: str, inputs: int, outputs: int, taps: int, stride: int = 1, *, transposed: bool = False
) -> Modules:
    """An activation and the convolution behind it, whose weights are scaled or normed as `norm` says."""
    layer = Convolution(
        name=name, inputs=inputs, outputs=outputs, kernel=taps, bias=True, part="other", stride=stride,
        transposed=transposed,
    )  # fmt: skip
    act = Activation(name=f"{name}_act", width=inputs, function="gelu", gated=False)
    return (act, *(scaled_weights(layer, norm) if norm else (layer,)))


def shortened_lengths(samples: int, ratios: list[int]) -> list[int]:
    """Positions before and after each convolution that shortens, the last ratio first."""
    lengths = [samples]
    for ratio in reversed(ratios):
        lengths.append(ceil_div(lengths[-1], ratio))
    return lengths


def _residuals(c: Config, conv: MakeConvolution, width: int, length: int, name: str) -> list[Block]:
    """SEANet's residual layers (arXiv:2009.02095): two convolutions, and a third beside them where the config says."""
    narrow, blocks = width // c.size("compress", 2), list[Block]()
    for i in range(c.size("num_residual_layers", 1)):
        parts = (*conv("narrow", width, narrow, c.size("residual_kernel_size", 3)), *conv("widen", narrow, width, 1))
        parts += conv("shortcut", width, width, 1) if c.flag("use_conv_shortcut", True) else ()
        blocks.append(Block(f"{name} residual {i}", at(length, (*parts, Add(name="residual", width=width)))))
    return blocks


def shortening(c: Config, conv: MakeConvolution, lengths: list[int]) -> list[Block]:
    """SEANet's encoder before its last convolution: residual layers, and strided convolutions."""
    ratios, filters, channels = size_list(c, "upsampling_ratios"), c.size("num_filters"), c.size("audio_channels", 1)
    blocks = [Block("begin", at(lengths[0], conv("conv", channels, filters, c.size("kernel_size", 7))))]
    for i, ratio in enumerate(reversed(ratios)):
        width = filters * 2**i
        blocks += _residuals(c, conv, width, lengths[i], f"down{i}")
        blocks.append(Block(f"shorten{i}", at(lengths[i + 1], conv("conv", width, 2 * width, 2 * ratio, stride=ratio))))
    return blocks


def lengthening(c: Config, conv: MakeConvolution, lengths: list[int]) -> list[Block]:
    """SEANet's decoder behind its first convolution: what `shortening` does, backwards."""
    ratios, filters, channels = size_list(c, "upsampling_ratios"), c.size("num_filters"), c.size("audio_channels", 1)
    blocks = list[Block]()
    for i, ratio in enumerate(ratios):
        width, place = filters * 2 ** (len(ratios) - i), len(ratios) - i
        longer = conv("conv", width, width // 2, 2 * ratio, stride=ratio, transposed=True)
        blocks.append(Block(f"lengthen{i}", at(lengths[place], longer)))
        blocks += _residuals(c, conv, width // 2, lengths[place - 1], f"up{i}")
    blocks.append(Block("end", at(lengths[0], conv("conv", filters, channels, c.size("last_kernel_size", 7)))))
    return blocks


@complete("encodec")
def encodec(c: Config) -> Model:
    """EnCodec (arXiv:2210.13438): convolutions that shorten sound, codebooks, and convolutions back.

    The number of codebooks is that of the first bandwidth.
    """
    c.mark_read(
        "normalize", "chunk_length_s", "overlap", "trim_right_ratio", "pad_mode", "use_causal_conv", "sampling_rate"
    )
    c.mark_read("dilation_growth_rate", "norm_type")
    ratios, norm = size_list(c, "upsampling_ratios", None, [8, 5, 4, 2]), c.text("norm_type", "weight_norm")
    filters, hidden, lengths = (
        c.size("num_filters", 32),
        c.size("hidden_size", 128),
        shortened_lengths(samples_of(c), ratios),
    )
    kernel, last, layers = c.size("kernel_size", 7), c.size("last_kernel_size", 7), c.size("num_lstm_layers", 2)
    widest, conv = filters * 2 ** len(ratios), partial(_convolved, norm)

    def middle(name: str, inputs: int, outputs: int, taps: int, first: bool) -> Block:
        ends, width = conv("conv", inputs, outputs, taps), inputs if first else outputs
        state = recurrent(width, layers)
        return Block(name, at(lengths[-1], (*state, *ends) if first else (*ends, *state)))

    down, up = shortening(c, conv, lengths), lengthening(c, conv, lengths)
    up.insert(0, middle("back", hidden, widest, kernel, first=False))
    code = Block("codes", at(lengths[-1], _codebooks(c, hidden, prod(ratios))))
    blocks = [*down, middle("last", widest, hidden, last, first=True), code, *up]
    return encoder(c, hidden, blocks, embedding=(), positions=lengths[-1])


def _codebooks(c: Config, width: int, factor: int) -> Modules:
    """The nearest entry of each codebook; the tables are no parameters, since training moves them otherwise."""
    rows, rates = c.size("codebook_size", 1024), c.value("target_bandwidths", [1.5])[1]
    rate = rates[0] if isinstance(rates, list) and rates else 1.5
    if not isinstance(rate, (int, float)):
        raise c.error("target_bandwidths", "a list of bandwidths")
    frames = ceil_div(c.size("sampling_rate", 24_000), factor)
    count = max(1, floor(rate * 1000 / (log2(rows) * frames)))
    size = c.size("codebook_dim", width)
    return tuple(Linear(name=f"codebook{i}", inputs=size, outputs=rows, tied=True, part="other") for i in range(count))


# -- Mimi and its kin ----------------------------------------------------------------------------------------------
def _bare(name: str, inputs: int, outputs: int, taps: int, stride: int = 1, *, transposed: bool = False) -> Modules:
    """An activation and the convolution behind it, without a norm."""
    return _convolved("", name, inputs, outputs, taps, stride, transposed=transposed)


def _transformer(c: Config) -> list[Block]:
    """Layers of Mimi: a sliding window, rotary positions, and a scale of each residual."""
    d, act, window = dims(c), activation(c, default="gelu"), c.size("sliding_window", 250)
    mixer = attention(d, rotary=rotary(c, d.head_dim), bias=c.flag("attention_bias"), window=window)
    ffn = mlp(d.width, c.size("intermediate_size", 2048), act, gated=False)
    scales = (Learned(name="attn_scale", width=d.width), Learned(name="ffn_scale", width=d.width))
    block = sublayers("sliding", d.width, (("attn", (*mixer, scales[0])), ("ffn", (*ffn, scales[1]))), norm=layer_norm)
    return [block] * d.layers


def _latent_stride(c: Config) -> int:
    """Positions of the transformer for each latent."""
    if c.has("latent_stride"):
        return int(c.size("latent_stride"))
    hop, rate = prod(size_list(c, "upsampling_ratios")), c.size("sampling_rate", 24_000)
    frames = c.number("_frame_rate|frame_rate", None) or rate / (2 * hop)
    return max(1, int(ceil_div(rate, hop) / frames))


def _mimi_halves(c: Config) -> tuple[list[Block], list[Block], int]:
    """Blocks of Mimi's encoder and of its decoder, and the number of latents."""
    c.mark_read(*_MIMI)
    width, stride, ratios = c.size("hidden_size", 512), _latent_stride(c), size_list(c, "upsampling_ratios")
    widest, lengths = c.size("num_filters", 64) * 2 ** len(ratios), shortened_lengths(samples_of(c), ratios)
    latents, out = ceil_div(lengths[-1], stride), c.size("latent_dim", width)
    layers = [Block(b.name, at(lengths[-1], b.modules)) for b in _transformer(c)]
    last = Block("last", at(lengths[-1], _bare("conv", widest, width, c.size("last_kernel_size", 3))))
    read = [*shortening(c, _bare, lengths), last, *layers]
    back = Block("back", at(lengths[-1], _bare("conv", width, widest, c.size("kernel_size", 7))[1:]))
    write = [*layers, back, *lengthening(c, _bare, lengths)]
    if stride > 1:
        down = Convolution(name="down", inputs=width, outputs=out, kernel=2 * stride, stride=stride, part="other")
        groups = c.size("upsample_groups", 512)
        up = replace(down, name="up", outputs=width, groups=groups, transposed=True)
        read, write = [*read, Block("down", at(latents, (down,)))], [Block("up", at(latents, (up,))), *write]
    return read, write, latents


_MIMI = """
    codebook_size num_quantizers num_semantic_quantizers vector_quantization_hidden_dimension codebook_dim pad_mode
    trim_right_ratio use_causal_conv layer_scale_initial_scale max_position_embeddings dilation_growth_rate use_cache
    use_streaming tie_word_embeddings latent_dim upsample_groups sampling_rate _frame_rate frame_rate latent_stride
    model_type norm_eps encoder_config decoder_config
""".split()


@complete("mimi", "mimi_encoder", "mimi_decoder")
def mimi(c: Config) -> Model:
    """Mimi (arXiv:2410.00037 §3.3): SEANet with a transformer on either side of its codebooks.

    The codebooks are no parameters, and their distances no products.
    """
    c = c.with_values(use_conv_shortcut=c.flag("use_conv_shortcut", False))
    width, inner = c.size("hidden_size", 512), c.size("vector_quantization_hidden_dimension", 256)
    read, write, latents = _mimi_halves(c)
    sides = [
        dense(f"{name}_{side}", *sizes, bias=False)
        for side, sizes in (("in", (width, inner)), ("out", (inner, width)))
        for name in ("meaning", "sound")
    ]
    codes = Block("codes", at(latents, sides if inner != width else ()))
    return _sided(c, width, read, codes, write, latents)


@complete("pocket_tts_audio_tokenizer", "pocket_tts_audio_tokenizer_encoder", "pocket_tts_audio_tokenizer_decoder")
def pocket_tts_audio_tokenizer(c: Config) -> Model:
    """Pocket TTS's tokenizer of sound (arXiv:2509.06926): Mimi with narrow latents instead of codebooks."""
    c = c.with_values(
        use_conv_shortcut=c.flag("use_conv_shortcut", False), latent_stride=c.size("latent_stride", 16),
        latent_dim=c.size("latent_dim", 32),
    )  # fmt: skip
    width = c.size("hidden_size", 512)
    read, write, latents = _mimi_halves(c)
    codes = Block("latents", at(latents, (dense("latent_proj", c.size("latent_dim"), width, bias=False),)))
    return _sided(c, width, read, codes, write, latents)


def _sided(c: Config, width: int, read: list[Block], codes: Block, write: list[Block], latents: int) -> Model:
    """The whole codec, or the half that the type names."""
    kind = c.text("model_type", "")
    blocks = read if kind.endswith("_encoder") else write if kind.endswith("_decoder") else [*read, codes, *write]
    return encoder(c, width, [b for b in blocks if b.modules], embedding=(), positions=latents)


# -- VibeVoice -----------------------------------------------------------------------------------------------------
@complete(
    "vibevoice_acoustic_tokenizer", "vibevoice_acoustic_tokenizer_encoder", "vibevoice_acoustic_tokenizer_decoder"
)
def vibevoice_acoustic_tokenizer(c: Config) -> Model:
    """VibeVoice's tokenizer of sound (arXiv:2508.19205): ConvNeXt's blocks over time between strided convolutions."""
    c.mark_read("vae_std", "layer_scale_init_value", "model_type")
    ratios, depths = size_list(c, "downsampling_ratios"), size_list(c, "depths")
    if len(depths) != len(ratios) + 1:
        raise c.error("depths", f"a list of {len(ratios) + 1} sizes")
    channels, filters, latent, taps = (
        c.size(key, size)
        for key, size in (("channels", 1), ("num_filters", 32), ("hidden_size", 64), ("kernel_size", 7))
    )
    kind, lengths = c.text("model_type", ""), [samples_of(c)]
    for ratio in ratios:
        lengths.append(lengths[-1] // ratio)

    def conv(outputs: int, inputs: int, kernel: int = taps, stride: int = 1, *, longer: bool = False) -> Convolution:
        return Convolution(
            name="conv", inputs=inputs, outputs=outputs, kernel=kernel, stride=stride, bias=True, transposed=longer,
            part="other",
        )  # fmt: skip

    def stage(name: str, first: Convolution, places: int, width: int, length: int, depth: int) -> list[Block]:
        return [Block(name, at(places, (first,))), *[Block(f"{name} layer", at(length, _convnext(c, width)))] * depth]

    widths, ends = [filters * 2**i for i in range(len(depths))], lengths[-1]
    read = stage("begin", conv(filters, channels), lengths[0], filters, lengths[0], depths[0])
    for i, ratio in enumerate(ratios):
        first = conv(widths[i + 1], widths[i], 2 * ratio, ratio)
        read += stage(f"shorten{i}", first, lengths[i + 1], widths[i + 1], lengths[i + 1], depths[i + 1])
    read.append(Block("last", at(ends, (conv(latent, widths[-1]),))))
    again = depths if kind.endswith("_decoder") else depths[::-1]
    write = stage("back", conv(widths[-1], latent), ends, widths[-1], ends, again[0])
    length = ends
    for i, ratio in enumerate(reversed(ratios)):
        place = len(ratios) - i
        first = conv(widths[place - 1], widths[place], 2 * ratio, ratio, longer=True)
        write += stage(f"lengthen{i}", first, length, widths[place - 1], length * ratio, again[i + 1])
        length *= ratio
    write.append(Block("end", at(length, (conv(channels, filters),))))
    blocks = read if kind.endswith("_encoder") else write if kind.endswith("_decoder") else [*read, *write]
    return encoder(c, latent, blocks, embedding=(), positions=ends)


def _convnext(c: Config, width: int) -> Modules:
    """A layer of taps of each channel and a feed-forward network, each with a scale."""
    taps, inner = c.size("kernel_size", 7), c.size("ffn_expansion", 4) * width
    mixer = Convolution(name="conv", inputs=width, outputs=width, kernel=taps, groups=width, bias=True)
    ffn = mlp(width, inner, activation(c, default="gelu"), gated=False, bias=True)
    scales = (Learned(name="conv_scale", width=width), Learned(name="ffn_scale", width=width))
    return sublayers("layer", width, (("conv", (mixer, scales[0])), ("ffn", (*ffn, scales[1]))), norm=rms).modules
