"""Codecs of sound: EnCodec."""

from __future__ import annotations

from dataclasses import replace
from math import floor, log2, prod

from roofline.declared.maths import ceil_div
from roofline.model.config import Config
from roofline.model.families.blocks.encoders import at, encoder
from roofline.model.families.blocks.sound import channel_norm, samples_of, size_list
from roofline.model.families.blocks.text_heads import dense
from roofline.model.families.registry import complete
from roofline.model.model import Block, Model
from roofline.model.modules import Activation, Add, Convolution, Learned, Linear, Module, Modules


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
    filters, hidden, channels = c.size("num_filters", 32), c.size("hidden_size", 128), c.size("audio_channels", 1)
    kernel, last, layers = c.size("kernel_size", 7), c.size("last_kernel_size", 7), c.size("num_lstm_layers", 2)
    widest, lengths = filters * 2 ** len(ratios), [samples_of(c)]
    for ratio in reversed(ratios):
        lengths.append(ceil_div(lengths[-1], ratio))

    def conv(name: str, inputs: int, outputs: int, taps: int, stride: int = 1) -> Modules:
        layer = Convolution(
            name=name, inputs=inputs, outputs=outputs, kernel=taps, bias=True, part="other", stride=stride
        )
        return (
            Activation(name=f"{name}_act", width=inputs, function="gelu", gated=False),
            *scaled_weights(layer, norm),
        )

    def residual(width: int, length: int, name: str) -> list[Block]:
        narrow, blocks = width // c.size("compress", 2), list[Block]()
        for i in range(c.size("num_residual_layers", 1)):
            parts = (
                *conv("narrow", width, narrow, c.size("residual_kernel_size", 3)),
                *conv("widen", narrow, width, 1),
            )
            parts += conv("shortcut", width, width, 1) if c.flag("use_conv_shortcut", True) else ()
            blocks.append(Block(f"{name} residual {i}", at(length, (*parts, Add(name="residual", width=width)))))
        return blocks

    def middle(name: str, inputs: int, outputs: int, taps: int, first: bool) -> Block:
        ends, width = conv("conv", inputs, outputs, taps), inputs if first else outputs
        state = recurrent(width, layers)
        return Block(name, at(lengths[-1], (*state, *ends) if first else (*ends, *state)))

    down = [Block("begin", at(lengths[0], conv("conv", channels, filters, kernel)))]
    up = [middle("back", hidden, widest, kernel, first=False)]
    for i, ratio in enumerate(reversed(ratios)):
        width = filters * 2**i
        down += residual(width, lengths[i], f"down{i}")
        down.append(Block(f"shorten{i}", at(lengths[i + 1], conv("conv", width, 2 * width, 2 * ratio, stride=ratio))))
    for i, ratio in enumerate(ratios):
        width, place = widest // 2**i, len(ratios) - i
        longer = conv("conv", width, width // 2, 2 * ratio, stride=ratio)
        longer = tuple(replace(m, transposed=True) if isinstance(m, Convolution) else m for m in longer)
        if norm == "weight_norm":
            longer = (*longer[:-1], Learned(name="conv_scale", width=1, rows=width, applied=False))
        up.append(Block(f"lengthen{i}", at(lengths[place], longer)))
        up += residual(width // 2, lengths[place - 1], f"up{i}")
    up.append(Block("end", at(lengths[0], conv("conv", filters, channels, last))))
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
