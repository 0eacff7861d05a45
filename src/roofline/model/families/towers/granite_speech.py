"""Audio encoders of convolutions and attention beside language models: Granite Speech's."""

from __future__ import annotations

from collections.abc import Iterator

from roofline.declared.numbers.maths import ceil_div
from roofline.model.configs.config import Config
from roofline.model.families.blocks.attention import attention
from roofline.model.families.blocks.encoders import at
from roofline.model.families.blocks.feed_forward import mlp
from roofline.model.families.blocks.images.vision import TowerStage, TowerStages, section_of, sees, streamed
from roofline.model.families.blocks.norms import layer_norm
from roofline.model.families.blocks.sizes import Dims
from roofline.model.families.registry import towers
from roofline.model.families.towers.resampled import qformer, unapplied
from roofline.model.media.sound import SOUND
from roofline.model.model import Block, Model, Tower
from roofline.model.modules import Activation, Add, Convolution, Linear, Modules, RelativeBias


@sees(alone=("granite_speech_encoder", "granite_speech_plus_encoder"))
def granite_speech_encoder(c: Config) -> TowerStages:
    """Granite Speech's conformer (arXiv:2505.08699): attention within blocks, with Shaw's relative positions."""
    width, heads, layers = c.size("hidden_dim"), c.size("num_heads"), c.size("num_layers")
    head: int | None = c.size("dim_head", None)
    d, inner = Dims(layers, width, heads, heads, head or width // heads), width * c.size("feedforward_mult", 4)
    context, frames = c.size("context_size", 200), c.inputs.spectra or 1500
    blocks = ceil_div(frames, context)
    first, core, out = attention(d, rotary=0, out_bias=True, causal=False)
    distances = 2 * c.size("max_pos_emb", 512) + 1
    mixer: Modules = (
        layer_norm("attn_norm", width), *at(context, (first,), blocks),
        *at(context, (RelativeBias(name="relative", heads=heads, dim=d.head_dim, extent=context),), blocks),
        unapplied("distances", d.head_dim, distances - context), *at(context, (core,), blocks), out,
        Add(name="attn_residual", width=width),
    )  # fmt: skip
    block = Block("conformer", (
        *_half("before", width, inner), *mixer, *_convolved(c, width), *_half("after", width, inner),
        layer_norm("post_norm", width),
    ))  # fmt: skip
    words = c.size("output_dim", 42)
    middle = Block("middle", (
        Linear(name="out", inputs=width, outputs=words, bias=True),
        Linear(name="out_mid", inputs=words, outputs=width, bias=True),
    ))  # fmt: skip
    front = Block("front", (Linear(name="input", inputs=c.size("input_dim", 160), outputs=width, bias=True),))
    half = layers // 2
    yield TowerStage("audio", width, (front, *[block] * half, middle, *[block] * (layers - half)), frames)


def _half(name: str, width: int, inner: int) -> Modules:
    """A feed-forward that counts half in the sum."""
    ffn = mlp(width, inner, "silu", gated=False, bias=True, prefix=f"{name}_")
    return (layer_norm(f"{name}_norm", width), *ffn, Add(name=f"{name}_residual", width=width))


def _convolved(c: Config, width: int) -> Modules:
    """The conformer's convolution (arXiv:2005.08100 §2.2), with the statistics of a batch norm as its weights."""
    wide = width * c.size("conv_expansion_factor", 2)
    return (
        layer_norm("conv_norm", width),
        Convolution(name="up_conv", inputs=width, outputs=2 * wide, kernel=1, bias=True),
        Activation(name="conv_gate", width=wide, function="sigmoid"),
        Convolution(name="conv", inputs=wide, outputs=wide, kernel=c.size("conv_kernel_size", 15), groups=wide),
        layer_norm("batch_norm", wide), Activation(name="conv_act", width=wide, function="silu", gated=False),
        Convolution(name="down_conv", inputs=wide, outputs=width, kernel=1, bias=True),
        Add(name="conv_residual", width=width),
    )  # fmt: skip


@towers("granite_speech", "granite_speech_plus")
def granite_speech(outer: Config, text: Model) -> Iterator[Tower]:
    """Granite Speech (arXiv:2505.08699): a Q-Former for every window of the encoder's output."""
    (part,), q = granite_speech_encoder(section_of(outer, "encoder_config")), section_of(outer, "projector_config")
    window, rate = outer.size("window_size", 15), outer.size("downsample_rate", 5)
    runs, queries = ceil_div(part.positions or 1, window), window // rate
    also_text = q.flag("use_qformer_text_input")
    width = q.size("hidden_size")
    project = at(runs * queries, (Linear(name="projector", inputs=width, outputs=text.hidden, bias=True),))
    blocks = (*qformer(q, queries, window, text=also_text, runs=runs), Block("projector", project))
    yield from streamed((part, TowerStage("projector", width, blocks)), SOUND)
