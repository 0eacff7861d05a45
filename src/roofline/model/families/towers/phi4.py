"""Towers of Phi-4-multimodal: SigLIP over crops, and a conformer that hears."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from roofline.declared.numbers.maths import ceil_div
from roofline.model.configs.config import MOST_LAYERS, Config
from roofline.model.families.blocks.attention import attention
from roofline.model.families.blocks.encoders import at
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.images.convolutions import strided
from roofline.model.families.blocks.images.vision import (
    TowerStage,
    TowerStages,
    projection,
    section_of,
    sees,
    streamed,
)
from roofline.model.families.blocks.norms import layer_norm
from roofline.model.families.blocks.seq2seq import sublayers
from roofline.model.families.blocks.sizes import Dims
from roofline.model.families.blocks.sound import spectra_of
from roofline.model.families.registry import towers
from roofline.model.families.towers.fixed_resolution import siglip_vision
from roofline.model.families.towers.resampled import unapplied
from roofline.model.media.images import IMAGES
from roofline.model.media.sound import SOUND
from roofline.model.model import Block, Model, Tower
from roofline.model.modules import Activation, Convolution, Linear, Module, Modules

LONGEST = 500
"""Positions that attention sees at once; more are cut into pieces of as many, by the code of transformers."""


@sees(alone=("phi4_multimodal_audio",))
def phi4_audio(c: Config) -> TowerStages:
    """Phi-4-multimodal's conformer (arXiv:2503.01743 §2.2): a learned bias for each distance, gated halves."""
    width, heads, inner = c.size("hidden_size"), c.size("num_attention_heads"), c.size("intermediate_size")
    layers, outputs = c.size("num_blocks", most=MOST_LAYERS), c.size("depthwise_separable_out_channel", 1024)
    d, act = Dims(layers, width, heads, heads, width // heads), activation(c, "activation", "swish")
    front, count = _front(c, width)
    pieces = ceil_div(count, LONGEST)
    seen = count if pieces == 1 else LONGEST
    taps = c.size("kernel_size", 3)
    wide, deep = c.size("ext_pw_out_channel", 1024), width * c.size("depthwise_multiplier", 1)
    conv: Modules = (
        Linear(name="conv_in", inputs=width, outputs=2 * wide, bias=True),
        unapplied("conv_biases", wide, 2),
        Activation(name="conv_gate", width=wide, function=activation(c, "conv_glu_type", "swish")),
        *at(seen + taps - 1, (  # padded on both sides, of which the last is cut off again
            Convolution(name="conv", inputs=width, outputs=deep, kernel=taps, groups=width, bias=True),
            Linear(name="conv_mid", inputs=deep, outputs=outputs, bias=True),
        ), pieces),
        Activation(name="conv_act", width=outputs, function=activation(c, "conv_activation", "swish"), gated=False),
        Linear(name="conv_out", inputs=width, outputs=wide, bias=True),
    )  # fmt: skip
    parts = (
        ("ffn1", mlp(width, inner, act, bias=True, prefix="first_")),
        ("attn", attention(d, rotary=0, bias=True, causal=False)),
        ("conv", conv),
        ("ffn2", mlp(width, inner, act, bias=True, prefix="second_")),
    )
    block = sublayers("conformer", width, parts, norm=layer_norm)
    modules = (*block.modules, layer_norm("out_norm", width))
    over = Block("conformer", tuple(m if m.positions else at(seen, (m,), pieces)[0] for m in modules))
    distances = c.size("bias_max_distance", 1000) * (1 if c.flag("bias_symmetric") else 2)
    bias = Block("distances", (unapplied("distances", heads, distances),))
    c.mark_read("chunk_size", "left_chunk", "feature_layer", "audio_token_id", "dropout_rate", "downsample_rate")
    yield TowerStage("audio", width, (front, bias, *[over] * layers), count)


def _front(c: Config, width: int) -> tuple[Block, int]:
    """Convolutions that halve the spectrogram, separable but the first, and a product; positions that they leave."""
    channels, columns, rows = c.size("nemo_conv_channels", 1024), spectra_of(c), c.size("input_size", 80)
    act, modules = activation(c, "nemo_activation", "relu"), list[Module]()
    for i in range(c.size("time_reduction", 8).bit_length() - 1):
        columns, rows = strided(columns, 3, 2), strided(rows, 3, 2)
        conv = Convolution(
            name=f"front{i}", inputs=channels if i else 1, outputs=channels, kernel=9, stride=4, bias=True,
            groups=channels if i else 1,
        )  # fmt: skip
        mixed = (Linear(name=f"front{i}_proj", inputs=channels, outputs=channels, bias=True),) if i else ()
        done = Activation(name=f"front{i}_act", width=channels, function=act, gated=False)
        modules += at(rows * columns, (conv, *mixed, done))
    c.mark_read("nemo_final_size")
    flat = Linear(name="front_proj", inputs=channels * rows, outputs=width, bias=True)
    return Block("front", (*modules, *at(columns, (flat,)))), columns


@towers("phi4_multimodal")
def phi4_multimodal(outer: Config, text: Model) -> Iterator[Tower]:
    """Phi-4-multimodal (arXiv:2503.01743): SigLIP over crops, averaged in squares of four, and a conformer.

    Sound beside images goes through two products of its own.
    """
    if outer.get("vision_config") is not None:
        (part,) = siglip_vision(section_of(outer, "vision_config"))
        left, width = ceil_div(part.positions or 1, 4), part.width
        block = projection("projector", (width, text.hidden, text.hidden))
        projector = Block("projector", (unapplied("separators", width, 2), *at(left, block.modules)))
        yield from streamed((part, TowerStage("projector", width, (projector,))), IMAGES)
    if outer.get("audio_config") is not None:
        c = section_of(outer, "audio_config")
        (part,), rate = phi4_audio(c), c.size("downsample_rate", 1)
        sizes = (part.width * rate, text.hidden, text.hidden)
        alone = at(part.positions or 1, projection("projector", sizes).modules)
        beside = tuple(replace(m, idle=True) for m in projection("beside_images", sizes).modules)
        yield from streamed(
            (part, TowerStage("projector", text.hidden, (Block("projector", (*alone, *beside)),))), SOUND
        )
