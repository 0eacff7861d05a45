"""Vocoders and codecs of convolutions: HiFi-GAN, UnivNet, DAC, X-Codec 2."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import TypeAlias

from roofline.declared.numbers.maths import ceil_div
from roofline.model.configs.config import Config, Inputs
from roofline.model.families.blocks.attention import attention, rotary
from roofline.model.families.blocks.encoders import at, encoder
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.norms import layer_norm, rms
from roofline.model.families.blocks.seq2seq import sublayers
from roofline.model.families.blocks.sizes import dims
from roofline.model.families.blocks.sound import channel_norm, lists_of, samples_of, size_list, spectra_of
from roofline.model.families.blocks.text_heads import dense
from roofline.model.families.registry import WHOLES, complete
from roofline.model.model import Block, Model
from roofline.model.modules import Activation, Add, Convolution, Embedding, Learned, Linear, Module, Modules


def taps(
    name: str, inputs: int, outputs: int, kernel: int, stride: int = 1, *, longer: bool = False, bias: bool = True
) -> Convolution:
    """A convolution over time."""
    return Convolution(
        name=name,
        inputs=inputs,
        outputs=outputs,
        kernel=kernel,
        stride=stride,
        bias=bias,
        transposed=longer,
        part="other",
    )


def _leaky(name: str, width: int) -> Activation:
    return Activation(name=name, width=width, function="relu", gated=False)


# -- HiFi-GAN ------------------------------------------------------------------------------------------------------
def hifigan(c: Config, mels: int, frames: int, *, bias: bool = True) -> list[Block]:
    """HiFi-GAN (arXiv:2010.05646): convolutions that lengthen, each with means of residual blocks.

    `bias`: of the last convolution.
    """
    rates, width = size_list(c, "upsample_rates"), c.size("upsample_initial_channel", 512)
    kernels, sizes = size_list(c, "upsample_kernel_sizes", len(rates)), size_list(c, "resblock_kernel_sizes")
    dilations = lists_of(c, "resblock_dilation_sizes", len(sizes))
    blocks, length = [Block("begin", at(frames, (taps("conv", mels, width, 7),)))], frames
    for i, (rate, kernel) in enumerate(zip(rates, kernels, strict=True)):
        out = width // 2
        longer = at(length, (_leaky("act", width), taps("conv", width, out, kernel, rate, longer=True)))
        blocks.append(Block(f"lengthen{i}", longer))
        padding = (kernel - rate) // 2
        length, width = (length - 1) * rate - 2 * padding + kernel, out
        for j, (size, dilated) in enumerate(zip(sizes, dilations, strict=True)):
            parts: list[Module] = []
            for k in range(len(dilated)):
                for half in ("first", "second"):
                    parts += [_leaky(f"{half}{k}_act", width), taps(f"{half}{k}", width, width, size)]
                parts.append(Add(name=f"add{k}", width=width))
            blocks.append(Block(f"residual{i} {j}", at(length, parts)))
    return [*blocks, Block("end", at(length, (_leaky("act", width), taps("conv", width, 1, 7, bias=bias))))]


@complete("fastspeech2_conformer_hifigan", "speecht5_hifigan")
def hifigan_alone(c: Config) -> Model:
    """HiFi-GAN as the vocoder of a model of speech."""
    c.mark_read("normalize_before", "sampling_rate", "leaky_relu_slope")
    mels, frames = c.size("model_in_dim", 80), spectra_of(c)
    return encoder(c, mels, hifigan(c, mels, frames), embedding=(), positions=frames)


# -- UnivNet -------------------------------------------------------------------------------------------------------
@complete("univnet")
def univnet(c: Config) -> Model:
    """UnivNet (arXiv:2106.07889): convolutions whose weights are predicted from the spectrogram at each position."""
    c.mark_read("kernel_predictor_dropout", "leaky_relu_slope")
    width, mels, frames = c.size("model_hidden_channels", 32), c.size("num_mel_bins", 100), spectra_of(c)
    inner, kernel = c.size("kernel_predictor_hidden_channels", 64), c.size("kernel_predictor_conv_size", 3)
    noise, strides = c.size("model_in_channels", 64), size_list(c, "resblock_stride_sizes")
    sizes = size_list(c, "resblock_kernel_sizes", len(strides))
    dilations = lists_of(c, "resblock_dilation_sizes", len(strides))
    blocks, length = [Block("begin", at(frames, (taps("conv", noise, width, 7),)))], frames
    for i, (stride, size, dilated) in enumerate(zip(strides, sizes, dilations, strict=True)):
        layers = len(dilated)
        predicted: list[Module] = [taps("mels", mels, inner, 5), _leaky("mels_act", inner)]
        for j in range(c.size("kernel_predictor_num_blocks", 3)):
            predicted += [taps(f"read{j}", noise, noise, kernel), taps(f"read{j}_again", noise, noise, kernel)]
        predicted += [
            taps("weights", inner, width * 2 * width * size * layers, kernel),
            taps("biases", inner, 2 * width * layers, kernel),
        ]
        longer = at(length, (_leaky("act", width), taps("longer", width, width, 2 * stride, stride, longer=True)))
        length *= stride
        seen: list[Module] = []
        for j in range(layers):
            product = Linear(name=f"made{j}", inputs=width * size, outputs=2 * width, tied=True, part="other")
            gate = Activation(name=f"made{j}_gate", width=width, function="sigmoid")
            seen += [taps(f"conv{j}", width, width, size), _leaky(f"conv{j}_act", width), product, gate]
            seen.append(Add(name=f"add{j}", width=width))
        blocks.append(Block(f"lengthen{i}", (*at(frames, predicted), *longer, *at(length, seen))))
    blocks.append(Block("end", at(length, (_leaky("act", width), taps("conv", width, 1, 7)))))
    return encoder(c, width, blocks, embedding=(), positions=frames)


# -- DAC -----------------------------------------------------------------------------------------------------------
Snake: TypeAlias = Callable[[str, int], Modules]
"""Makes the activation of so many channels."""


def _snake(name: str, width: int) -> Modules:
    """x + sin²(αx)/α with one α for each channel (arXiv:2006.08195)."""
    return (Learned(name=name, width=width),)


def _dac_units(name: str, width: int, length: int, snake: Snake) -> list[Block]:
    first = (*snake("snake1", width), taps("conv1", width, width, 7))
    unit = (*first, *snake("snake2", width), taps("conv2", width, width, 1), Add(name="add", width=width))
    return [Block(f"{name} unit", at(length, unit))] * 3


def dac_encoder(c: Config, length: int, snake: Snake = _snake) -> tuple[list[Block], int, int]:
    """DAC's encoder: blocks, positions that it leaves, and the width of its latents."""
    width, ratios = c.size("encoder_hidden_size", 64), size_list(c, "downsampling_ratios", None, [2, 4, 8, 8])
    hidden = c.size("hidden_size", width * 2 ** len(ratios))
    blocks = [Block("begin", at(length, (taps("conv", 1, width, 7),)))]
    for i, ratio in enumerate(ratios):
        blocks += _dac_units(f"down{i}", width, length, snake)
        shorter = (length + 2 * ceil_div(ratio, 2) - 2 * ratio) // ratio + 1
        moved = (*snake("snake", width), taps("conv", width, 2 * width, 2 * ratio, ratio))
        blocks.append(Block(f"shorten{i}", at(shorter, moved)))
        length, width = shorter, 2 * width
    return (
        [*blocks, Block("last", at(length, (*snake("snake", width), taps("conv", width, hidden, 3))))],
        length,
        hidden,
    )


def dac_decoder(c: Config, length: int, hidden: int) -> list[Block]:
    """DAC's decoder."""
    width, down = c.size("decoder_hidden_size", 1536), size_list(c, "downsampling_ratios", None, [2, 4, 8, 8])
    ratios = size_list(c, "upsampling_ratios", None, down[::-1])
    blocks = [Block("back", at(length, (taps("conv", hidden, width, 7),)))]
    for i, ratio in enumerate(ratios):
        moved = (*_snake("snake", width), taps("conv", width, width // 2, 2 * ratio, ratio, longer=True))
        blocks.append(Block(f"lengthen{i}", at(length, moved)))
        length, width = (length - 1) * ratio + 2 * ratio - 2 * ceil_div(ratio, 2), width // 2
        blocks += _dac_units(f"up{i}", width, length, _snake)
    return [*blocks, Block("end", at(length, (*_snake("snake", width), taps("conv", width, 1, 7))))]


@complete("dac")
def dac(c: Config) -> Model:
    """DAC (arXiv:2306.06546): convolutions with snakes, and codebooks in few dimensions."""
    c.mark_read("quantizer_dropout", "commitment_loss_weight", "codebook_loss_weight", "sampling_rate", "hop_length")
    read, length, hidden = dac_encoder(c, samples_of(c))
    rows, few, codes = c.size("codebook_size", 1024), c.size("codebook_dim", 8), list[Module]()
    for i in range(c.size("n_codebooks", 9)):
        book = Linear(name=f"codes{i}_nearest", inputs=few, outputs=rows, tied=True, part="other")
        table = Embedding(name=f"codes{i}", rows=rows, width=few)
        codes += [dense(f"codes{i}_in", hidden, few), book, table, dense(f"codes{i}_out", few, hidden)]
    blocks = [*read, Block("codes", at(length, codes)), *dac_decoder(c, length, hidden)]
    return encoder(c, hidden, blocks, embedding=(), positions=length)


# -- X-Codec 2 -----------------------------------------------------------------------------------------------------
def _smooth_snake(name: str, width: int) -> Modules:
    """A snake with two values for each channel, at twice the rate between fixed filters (arXiv:2206.04658)."""
    up = Convolution(
        name=f"{name}_up", inputs=width, outputs=width, kernel=12, groups=width, stride=2, transposed=True, fixed=True
    )
    return (up, Learned(name=name, width=width, rows=2), replace(up, name=f"{name}_down", transposed=False))


@complete("xcodec2")
def xcodec2(c: Config) -> Model:
    """X-Codec 2 (arXiv:2502.04128): w2v-BERT and convolutions read sound, a transformer writes a spectrum back."""
    c.mark_read("semantic_model_config", "quantization_levels", "max_position_embeddings", "activation_dropout")
    c.mark_read("sampling_rate", "model_type", "tie_word_embeddings")
    d, ratios, samples = dims(c), size_list(c, "downsampling_ratios", None, [2, 2, 4, 4, 5]), samples_of(c)
    hop = prod(ratios)
    read, length, hidden = dac_encoder(c, samples, _smooth_snake)
    inner = replace(c.section("semantic_model_config").of_kind("wav2vec2-bert"), own_inputs=Inputs(spectra=length))
    inner.mark_read("model_type")
    meaning = WHOLES["wav2vec2-bert"](inner.with_values(architectures=["Wav2Vec2BertModel"]))
    c.note(*inner.leftovers())
    seen = meaning.hidden
    adapter = [
        taps(f"adapt{i}", seen, seen, 3, bias=i in (1, 2)) for i in range(4)
    ] + [Add(name="adapt_residual", width=seen)]  # fmt: skip
    both, wide, levels = hidden + seen, c.size("quantization_dim", 2048), len(size_list(c, "quantization_levels"))
    codes = (dense("joint", both, both), dense("codes_in", wide, levels), dense("codes_out", levels, wide))

    def rest(name: str) -> list[Block]:
        one = (channel_norm("norm1", d.width), taps("conv1", d.width, d.width, 3))
        two = (channel_norm("norm2", d.width), taps("conv2", d.width, d.width, 3))
        return [Block(name, (*one, *two, Add(name="add", width=d.width)))] * 2

    bias, act = c.flag("attention_bias", False), activation(c, default="silu")
    mixer = attention(d, rotary=rotary(c, d.head_dim), bias=bias, causal=False)
    ffn = mlp(d.width, c.size("intermediate_size", 4096), act, gated=False)
    layer = sublayers("dense", d.width, (("attn", mixer), ("ffn", ffn)), norm=rms)
    front = Block("back", (dense("back", wide, d.width), taps("embed", d.width, d.width, 7)))
    end = Block("spectrum", (layer_norm("final_norm", d.width), dense("spectrum", d.width, 4 * hop + 2)))
    written = [front, *rest("before"), *[layer] * d.layers, *rest("behind"), end]
    middle = [Block("adapter", tuple(adapter)), Block("codes", codes), *written]
    heard = [
        Block("meaning", meaning.embedding),
        *meaning.layers,
        *([Block("end", meaning.head)] if meaning.head else []),
    ]
    blocks = [*read, *heard, *(Block(b.name, at(length, b.modules)) for b in middle)]
    return encoder(c, d.width, blocks, embedding=(), positions=length)
