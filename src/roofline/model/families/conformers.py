"""Conformers: encoders of speech whose layers have a convolution between attention and feed-forward networks."""

from __future__ import annotations

from dataclasses import replace

from roofline.model.config import MOST_LAYERS, Config
from roofline.model.families.blocks.attention import attention
from roofline.model.families.blocks.encoders import at, encoder
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.layers import with_before
from roofline.model.families.blocks.norms import MakeNorm, layer_norm
from roofline.model.families.blocks.seq2seq import sublayers
from roofline.model.families.blocks.sizes import HEADS, Dims, dims
from roofline.model.families.blocks.sound import channel_norm, spectra_of, strided
from roofline.model.families.blocks.text_heads import dense
from roofline.model.families.registry import whole
from roofline.model.model import Block, Model
from roofline.model.modules import Activation, Attention, Convolution, Learned, Linear, Module, Modules


def convolution_module(width: int, kernel: int, act: str, norm: Module, *, bias: bool = True) -> Modules:
    """A conformer's convolution: a gated product, taps of each channel, a norm, a product."""

    def pointwise(name: str, outputs: int) -> Linear:
        return Linear(name=name, inputs=width, outputs=outputs, bias=bias)

    return (
        pointwise("conv_in", 2 * width),
        Activation(name="conv_gate", width=width, function="sigmoid"),
        Convolution(name="conv", inputs=width, outputs=width, kernel=kernel, groups=width, bias=bias),
        norm,
        Activation(name="conv_act", width=width, function=act, gated=False),
        pointwise("conv_out", width),
    )


def relative_scores(d: Dims, length: int, *, bias: bool = False) -> Modules:
    """Transformer-XL's scores of distances (arXiv:1901.02860 §3.3): 2·T − 1 of them are projected for each input."""
    inner, distances = d.heads * d.head_dim, 2 * length - 1
    return (
        Learned(name="content_bias", width=inner), Learned(name="distance_bias", width=inner),
        replace(
            Linear(name="distance_proj", inputs=d.width, outputs=inner, bias=bias, part="attention"), positions=distances
        ),
        Attention(
            name="distances", heads=d.heads, kv_heads=d.heads, head_dim=d.head_dim, v_head_dim=0, causal=False,
            keys=distances,
        ),
    )  # fmt: skip


def conformer_layer(
    d: Dims, mixer: Modules, ffns: tuple[Modules, Modules], conv: Modules, norm: MakeNorm = layer_norm
) -> Block:
    """Half a feed-forward network, attention, convolution, another half, a norm (arXiv:2005.08100)."""
    parts = (("ffn1", ffns[0]), ("attn", mixer), ("conv", conv), ("ffn2", ffns[1]))
    block = sublayers("conformer", d.width, parts, norm=norm)
    return Block(block.name, (*block.modules, norm("layer_norm", d.width)))


def two_halves(width: int, inner: int, act: str, bias: bool) -> tuple[Modules, Modules]:
    """The two feed-forward networks of a layer."""
    return (
        mlp(width, inner, act, gated=False, bias=bias, prefix="first_"),
        mlp(width, inner, act, gated=False, bias=bias, prefix="second_"),
    )


def subsampled(c: Config, width: int, mels: int) -> tuple[Modules, int]:
    """FastConformer's convolutions over a spectrogram (arXiv:2305.05084): modules, and positions that they leave."""
    kernel, stride = c.size("subsampling_conv_kernel_size", 3), c.size("subsampling_conv_stride", 2)
    channels, factor = c.size("subsampling_conv_channels", 256), c.size("subsampling_factor", 8)
    length, height, parts = spectra_of(c), mels, list[Module]()
    for i in range(factor.bit_length() - 1):
        length, height = (strided(n, kernel, stride, (kernel - 1) // 2) for n in (length, height))
        taps = Convolution(
            name=f"front{i}", inputs=channels if i else 1, outputs=channels, kernel=kernel * kernel,
            groups=channels if i else 1, stride=stride * stride, bias=True, part="other",
        )  # fmt: skip
        mixed = (dense(f"front{i}_proj", channels, channels),) if i else ()
        act = Activation(name=f"front{i}_act", width=channels, function="relu", gated=False)
        parts += at(length * height, (taps, *mixed, act))
    flat = mels // stride ** (factor.bit_length() - 1)
    return (*parts, *at(length, (dense("front_proj", channels * flat, width),))), length


def parakeet(c: Config) -> tuple[Modules, list[Block], Dims, int]:
    """NVIDIA's Parakeet (arXiv:2305.05084): front, layers, sizes and positions of its encoder."""
    c.mark_read("max_position_embeddings", "scale_input", "layerdrop", "activation_dropout", "dropout_positions")
    d, act, bias = dims(c), activation(c), c.flag("attention_bias", True)
    front, length = subsampled(c, d.width, c.size("num_mel_bins", 80))
    mixer = with_before(attention(d, rotary=0, bias=bias, causal=False), "attention", *relative_scores(d, length))
    norm, kernel = channel_norm("batch_norm", d.width), c.size("conv_kernel_size", 9)
    conv = convolution_module(d.width, kernel, act, norm, bias=c.flag("convolution_bias", True))
    block = conformer_layer(d, mixer, two_halves(d.width, c.size("intermediate_size"), act, bias), conv)
    return front, [block] * d.layers, d, length


@whole("parakeet_encoder")
def parakeet_encoder(c: Config) -> Model:
    """Parakeet's encoder alone."""
    front, blocks, d, length = parakeet(c)
    return encoder(c, d.width, blocks, embedding=front, positions=length)


@whole("parakeet_ctc")
def parakeet_ctc(c: Config) -> Model:
    """Parakeet with characters at every position."""
    c.mark_read("ctc_loss_reduction", "ctc_zero_infinity", "vocab_size")
    inner = c.section("encoder_config").of_kind("parakeet_encoder")
    front, blocks, d, length = parakeet(inner)
    c.note(*inner.leftovers())
    head = (dense("characters", d.width, c.size("vocab_size")),)
    return encoder(c, d.width, blocks, embedding=front, head=head, positions=length)
