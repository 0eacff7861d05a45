"""Audio encoders of convolutions and attention beside language models: Granite Speech's, Nemotron 3.5 Transcribe's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from roofline.declared.numbers.maths import ceil_div
from roofline.model.configs.config import Config
from roofline.model.families.blocks.attention import attention
from roofline.model.families.blocks.encoders import at
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.images.vision import TowerStage, TowerStages, section_of, sees, streamed
from roofline.model.families.blocks.layers import layer
from roofline.model.families.blocks.norms import MakeHeadNorm, layer_norm, layer_norm_per_head
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


# -- Nemotron 3.5 Transcribe ---------------------------------------------------------------------------------------
@towers("nemo_speechlm")
def nemotron_transcribe(outer: Config, text: Model) -> Iterator[Tower]:
    """Nemotron 3.5 Transcribe (model card nvidia/NVIDIA-Nemotron-3.5-Transcribe-30B-A4B): who speaks, beside what.

    Both encoders hear the same frames, in chunks beyond the length of one, each counted with its whole context. What
    tells the times of words runs on request alone, and has no work here.
    """
    c, times = section_of(outer, "audio_config"), section_of(outer, "word_timestamp_config")
    hears, who = section_of(c, "asr_config"), section_of(c, "diarization_config")
    c.mark_read("speaker_activity_threshold", "streaming_config")
    frames = ceil_div(c.inputs.spectra or 3000, hears.size("subsampling_factor", 8))
    chunk = who.size("chunk_length", 500)
    beside = sum(who.size(f"chunk_{side}_context", 50, least=0) for side in ("left", "right"))
    who.mark_read("fifo_length", "speaker_cache_update_period", "streaming_config")
    runs, seen = ceil_div(frames, chunk), min(frames, chunk + beside)
    width, speakers = hears.size("hidden_size", 1280), section_of(who, "head_config").size("num_speakers", 8)
    heard = [Block(b.name, at(seen, b.modules, runs)) for b in _stacked(hears, layer_norm_per_head)]
    joined = Block("speakers", at(frames, (
        layer_norm("asr_norm", width), layer_norm("speaker_norm", speakers),
        Linear(name="speaker_embedding", inputs=speakers, outputs=width, tied=True),
        Add(name="speaker_sum", width=width),
        Linear(name="projector", inputs=width, outputs=text.hidden, bias=True),
    )))  # fmt: skip
    idle = [Block(b.name, tuple(replace(m, idle=True) for m in b.modules)) for b in _word_times(times)]
    yield from streamed((
        TowerStage("audio", width, tuple(heard), frames),
        TowerStage("diarization", width, tuple(_who_speaks(who, seen, runs)), frames),
        TowerStage("projector", text.hidden, (joined,)), TowerStage("word times", width, tuple(idle)),
    ), SOUND)  # fmt: skip


def _stacked(c: Config, qk_norm: MakeHeadNorm | None = None) -> Iterator[Block]:
    """Columns stacked to frames, and rotary layers between norms."""
    width, heads, inner = c.size("hidden_size"), c.size("num_attention_heads"), c.size("intermediate_size")
    c.mark_read("num_key_value_heads", "max_position_embeddings", "rope_parameters", "partial_rotary_factor")
    stacked = c.size("subsampling_factor", 8) * c.size("num_mel_bins", 128)
    norm = layer_norm("input_norm", width)
    yield Block("front", (Linear(name="input", inputs=stacked, outputs=width), norm))
    yield from [_rotary_layer(c, Dims(1, width, heads, heads, width // heads), inner, qk_norm)] * c.size(
        "num_hidden_layers"
    )
    yield Block("norm", (layer_norm("final_norm", width),))


def _rotary_layer(c: Config, d: Dims, inner: int, qk_norm: MakeHeadNorm | None) -> Block:
    mixer = attention(d, rotary=d.head_dim // 2, out_bias=True, qk_norm=qk_norm, causal=False)
    return layer("dense", d.width, mixer, mlp(d.width, inner, activation(c, default="gelu"), gated=False, bias=True),
                 norm=layer_norm)  # fmt: skip


def _who_speaks(c: Config, seen: int, runs: int) -> Iterator[Block]:
    """Sortformer (arXiv:2409.06656): layers over frames, and a score of each speaker for every column."""
    audio, head = section_of(c, "audio_config"), section_of(c, "head_config")
    width, own, up = (
        head.size("audio_hidden_size", 512),
        head.size("hidden_size", 192),
        head.size("subsampling_factor", 8),
    )
    yield from (Block(b.name, at(seen, b.modules, runs)) for b in _stacked(audio))
    yield Block("head", (
        unapplied("silence", width),
        *at(seen, (
            Linear(name="speaker_proj", inputs=width, outputs=own, bias=True),
            Convolution(name="upsampler", inputs=own, outputs=own * up, kernel=3, bias=True),
        ), runs),
        *at(seen * up, (
            Linear(name="speaker_dense", inputs=own, outputs=own, bias=True),
            Linear(name="speaker_out", inputs=own, outputs=head.size("num_speakers", 8), bias=True),
        ), runs),
    ))  # fmt: skip


def _word_times(c: Config) -> Iterator[Block]:
    """What aligns words with time: two layers at twice the frames, and a score of each piece of a word."""
    width, heads, inner = c.size("hidden_size"), c.size("num_attention_heads"), c.size("intermediate_size")
    c.mark_read("num_key_value_heads", "max_position_embeddings", "rope_parameters", "blank_token_id", "residual_scale")
    up, words = c.size("upsampling_factor", 2), c.size("vocab_size")
    taps = Convolution(name="upsampler", inputs=width, outputs=width, kernel=up, stride=up, bias=True, transposed=True)
    block = _rotary_layer(c, Dims(1, width, heads, heads, width // heads), inner, layer_norm_per_head)
    yield Block("front", (taps, layer_norm("input_norm", width)))
    yield from [block] * c.size("num_hidden_layers")
    yield Block(
        "words", (layer_norm("final_norm", width), Linear(name="words", inputs=width, outputs=words, bias=True))
    )
