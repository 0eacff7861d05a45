"""Audio encoders beside language models: Whisper's and its kin, Qwen-Omni's, Fun-ASR's, Muse's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from roofline.declared.numbers.maths import ceil_div
from roofline.model.configs.config import MOST_LAYERS, Config
from roofline.model.families.blocks.attention import attention
from roofline.model.families.blocks.encoders import at
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.images.vision import (
    TowerStage,
    TowerStages,
    listed_sizes,
    position_rows,
    projection,
    section_of,
    sees,
    streamed,
)
from roofline.model.families.blocks.layers import layer
from roofline.model.families.blocks.norms import layer_norm, rms
from roofline.model.families.blocks.sizes import HEADS, Dims
from roofline.model.families.registry import towers
from roofline.model.families.speech.whisper import attention_of_whisper
from roofline.model.families.towers.native_resolution import dots_vision, muse_projector, muse_vision
from roofline.model.families.towers.qwen_vl import qwen2_5_vl, qwen3_vl
from roofline.model.families.towers.spoken import qwen2_5_talker, qwen2_5_waves, qwen3_talker, qwen3_waves
from roofline.model.media.images import IMAGES
from roofline.model.media.sound import SOUND
from roofline.model.model import Block, Model, Tower
from roofline.model.modules import Activation, Add, Convolution, Learned, Linear, Module, Modules

ACT = "activation_function|hidden_act"


@dataclass(frozen=True)
class Ear:
    """Sizes of an audio encoder: its layers, and the columns of the spectrogram that it hears."""

    d: Dims
    inner: int
    act: str
    mels: int
    spectra: int

    @property
    def positions(self) -> int:
        """Positions after the convolutions, of which the second halves the spectrogram."""
        return ceil_div(self.spectra, 2)


def ear(c: Config, seconds: int = 3000) -> Ear:
    """Sizes under the names of Whisper's kin; the spectrogram is as long as the positions allow, else `seconds`."""
    width = c.size("d_model|hidden_size")
    heads, layers = (
        c.size(f"encoder_attention_heads|{HEADS}"),
        c.size("encoder_layers|num_hidden_layers", most=MOST_LAYERS),
    )
    own: int | None = c.size("head_dim", None)
    d = Dims(layers, width, heads, heads, own or width // heads)
    inner, act = c.size("encoder_ffn_dim|intermediate_size"), activation(c, ACT, "gelu")
    source = c.size("max_source_positions", None)
    spectra = c.inputs.spectra or (seconds if source is None else 2 * source)
    return Ear(d, inner, act, c.size("num_mel_bins", 128), spectra)


def halving(e: Ear, chunk: int | None = None) -> Block:
    """Whisper's two convolutions, in pieces of `chunk` columns where given."""
    width, columns, runs = e.d.width, e.spectra, 1
    if chunk is not None:
        columns, runs = chunk, ceil_div(e.spectra, chunk)
    return Block("front", (
        *at(columns, (Convolution(name="conv1", inputs=e.mels, outputs=width, kernel=3, bias=True),), runs),
        *at(ceil_div(columns, 2), (
            Convolution(name="conv2", inputs=width, outputs=width, kernel=3, stride=2, bias=True),
            Activation(name="conv_act", width=width, function="gelu", gated=False),
        ), runs),
    ))  # fmt: skip


def whisper_kin(c: Config, *, pooled: bool) -> TowerStages:
    """Whisper's encoder (arXiv:2212.04356); `pooled`: the output is averaged in pairs before the last norm."""
    e = ear(c)
    places = Block("positions", (position_rows(e.d.width, c.size("max_source_positions", 1500)),))
    ffn = mlp(e.d.width, e.inner, e.act, gated=False, bias=True)
    block = layer("dense", e.d.width, attention_of_whisper(e.d, causal=False), ffn, norm=layer_norm)
    last = Block("norm", at(e.positions // (2 if pooled else 1), (layer_norm("final_norm", e.d.width),)))
    yield TowerStage("audio", e.d.width, (halving(e), places, *[block] * e.d.layers, last), e.positions)


@sees(alone=("qwen2_audio_encoder", "audioflamingo3_encoder"))
def pooled_whisper(c: Config) -> TowerStages:
    """Whisper's encoder with pairs averaged: Qwen2-Audio (arXiv:2407.10759)."""
    return whisper_kin(c, pooled=True)


@sees(alone=("voxtral_encoder", "moss_transcribe_diarize_audio"))
def plain_whisper(c: Config) -> TowerStages:
    """Whisper's encoder as it is: Voxtral (arXiv:2507.13264)."""
    return whisper_kin(c, pooled=False)


def _heard(part: TowerStage, block: Block, positions: int) -> Iterator[Tower]:
    """An audio encoder and its projector over a fixed number of positions."""
    projector = TowerStage("projector", part.width, (Block(block.name, at(positions, block.modules)),))
    return streamed((part, projector), SOUND)


@towers("qwen2_audio", "audioflamingo3", "musicflamingo")
def qwen2_audio(outer: Config, text: Model) -> Iterator[Tower]:
    """Qwen2-Audio (arXiv:2407.10759): one product; Audio Flamingo 3 (arXiv:2507.08128): two."""
    (part,) = pooled_whisper(section_of(outer, "audio_config"))
    sizes: tuple[int, ...] = (part.width, text.hidden)
    bias = True
    if outer.raw.get("model_type") != "qwen2_audio":
        sizes, bias = (*sizes, text.hidden), outer.flag("projector_bias", True)
    block = projection("projector", sizes, act=activation(outer, "projector_hidden_act", "gelu"), bias=bias)
    return _heard(part, block, (part.positions or 2) // 2)


@towers("voxtral")
def voxtral(outer: Config, text: Model) -> Iterator[Tower]:
    """Voxtral (arXiv:2507.13264): four positions side by side, two products."""
    c = section_of(outer, "audio_config")
    (part,), wide = plain_whisper(c), c.size("intermediate_size|encoder_ffn_dim")
    act = activation(outer, "projector_hidden_act", "gelu")
    block = projection("projector", (wide, text.hidden, text.hidden), act=act, bias=False)
    return _heard(part, block, (part.positions or 1) * part.width // wide)


@towers("moss_transcribe_diarize")
def moss_transcribe(outer: Config, text: Model) -> Iterator[Tower]:
    """MOSS-Transcribe-Diarize (arXiv:2601.01554): four positions side by side, two products and a norm."""
    (part,), merge = plain_whisper(section_of(outer, "audio_config")), outer.size("audio_merge_size", 4)
    act, bias = activation(outer, "projector_hidden_act", "silu"), outer.flag("projector_bias", True)
    block = projection("projector", (merge * part.width, text.hidden, text.hidden), act=act, bias=bias)
    block = Block("projector", (*block.modules, layer_norm("projector_norm", text.hidden)))
    return _heard(part, block, (part.positions or 1) // merge)


@sees(alone=("glmasr_encoder",))
def glmasr_encoder(c: Config) -> TowerStages:
    """GLM-ASR's encoder (Z.ai, 2025): Whisper's layers with rotary positions."""
    e = ear(c)
    d = replace(e.d, kv_heads=c.size("num_key_value_heads", e.d.heads))
    mixer = attention_of_whisper(d, causal=False, rotary=d.head_dim)
    block = layer("dense", d.width, mixer, mlp(d.width, e.inner, e.act, gated=False, bias=True), norm=layer_norm)
    last = Block("norm", (layer_norm("final_norm", d.width),))
    yield TowerStage("audio", d.width, (halving(e), *[block] * d.layers, last), e.positions)


@towers("glmasr")
def glmasr(outer: Config, text: Model) -> Iterator[Tower]:
    """GLM-ASR (Z.ai, 2025): four positions side by side, two products, the first twice as wide."""
    c = section_of(outer, "audio_config")
    (part,), wide = glmasr_encoder(c), c.size("intermediate_size")
    act = activation(outer, "projector_hidden_act", "gelu")
    block = projection("projector", (wide, 2 * text.hidden, text.hidden), act=act)
    return _heard(part, block, (part.positions or 1) * part.width // wide)


@sees(alone=("voxtral_realtime_encoder",))
def voxtral_realtime_encoder(c: Config) -> TowerStages:
    """Voxtral Realtime's encoder (Mistral AI, 2026): RMSNorm, gated layers in a sliding window."""
    e = replace(ear(c), act=activation(c, "hidden_act", "silu"))
    window, width = c.size("sliding_window", None), e.d.width
    mixer = attention_of_whisper(e.d, causal=False, rotary=e.d.head_dim, window=window)
    up, act, down = mlp(width, e.inner, e.act)
    assert isinstance(down, Linear)
    block = layer("dense", width, mixer, (up, act, replace(down, bias=True)))
    last = Block("norm", (rms("final_norm", width),))
    yield TowerStage("audio", width, (halving(e), *[block] * e.d.layers, last), e.positions)


@towers("voxtral_realtime")
def voxtral_realtime_towers(outer: Config, text: Model) -> Iterator[Tower]:
    """Voxtral Realtime (Mistral AI, 2026): four positions side by side, two products."""
    (part,), merge = voxtral_realtime_encoder(section_of(outer, "audio_config")), outer.size("downsample_factor", 4)
    act = activation(outer, "projector_hidden_act", "gelu")
    block = projection("projector", (merge * part.width, text.hidden, text.hidden), act=act, bias=False)
    return _heard(part, block, (part.positions or 1) // merge)


# -- Qwen-Omni -----------------------------------------------------------------------------------------------------
@sees(alone=("qwen2_5_omni_audio_encoder",))
def qwen2_5_omni_audio(c: Config) -> TowerStages:
    """Qwen2.5-Omni's audio encoder (arXiv:2503.20215): Whisper's in pieces of two seconds."""
    e, window = ear(c), c.size("n_window", 100)
    ffn = mlp(e.d.width, e.inner, e.act, gated=False, bias=True)
    block = layer("dense", e.d.width, attention_of_whisper(e.d, causal=False, chunk=window), ffn, norm=layer_norm)
    yield TowerStage("audio", e.d.width, (halving(e, 2 * window), *[block] * e.d.layers), e.positions)
    out = c.size("output_dim", 3584)
    yield TowerStage("projector", out, (Block("projector", (
        *at(e.positions // 2, (
            layer_norm("final_norm", e.d.width), Linear(name="projector", inputs=e.d.width, outputs=out, bias=True),
        )),
        Learned(name="markers", width=out, rows=2, applied=False),
    )),))  # fmt: skip


@towers("qwen2_5_omni_thinker", "qwen2_5_omni")
def qwen2_5_omni(outer: Config, text: Model) -> Iterator[Tower]:
    """Qwen2.5-Omni (arXiv:2503.20215): the tower of Qwen2.5-VL, an audio encoder, and what speaks."""
    thinker = _thinker(outer)
    if thinker.raw.get("vision_config") is not None:
        yield from streamed(qwen2_5_vl(section_of(thinker, "vision_config")), IMAGES)
    if thinker.raw.get("audio_config") is not None:
        yield from streamed(qwen2_5_omni_audio(section_of(thinker, "audio_config")), SOUND)
    if _speaks(outer) and outer.get("talker_config") is not None:
        yield from qwen2_5_talker(section_of(outer, "talker_config"))
        yield from qwen2_5_waves(section_of(outer, "token2wav_config"))


def _speaks(outer: Config) -> bool:
    """Whether the checkpoint holds what speaks."""
    outer.mark_read("talker_config", "token2wav_config", "code2wav_config")
    return outer.flag("enable_audio_output", True)


def _thinker(outer: Config) -> Config:
    """The config of the part that sees, hears and writes text."""
    if "thinker_config" not in outer.defaults.parts and "thinker_config" not in outer.raw:
        return outer
    outer.mark_read("vision_config", "audio_config")
    return section_of(outer, "thinker_config")


def convolved(c: Config, e: Ear) -> tuple[Block, int, int]:
    """Qwen3-Omni's front: three convolutions that halve pieces of a second, and the positions of a piece and of all."""
    columns, rows, channels = 2 * c.size("n_window", 50), e.mels, c.size("downsample_hidden_size", 480)
    runs, inputs = ceil_div(e.spectra, columns), 1
    modules: list[Module] = []
    for i in range(3):
        rows, columns = ceil_div(rows, 2), ceil_div(columns, 2)
        conv = Convolution(name=f"conv{i + 1}", inputs=inputs, outputs=channels, kernel=9, stride=4, bias=True)
        act = Activation(name=f"conv_act{i + 1}", width=channels, function="gelu", gated=False)
        modules += at(rows * columns, (conv, act), runs)
        inputs = channels
    modules += at(columns, (Linear(name="conv_out", inputs=channels * rows, outputs=e.d.width, part="other"),), runs)
    return Block("front", tuple(modules)), columns, _after_three(e.spectra, 2 * c.size("n_window", 50))


def _after_three(columns: int, piece: int) -> int:
    """Positions that three halvings leave of whole pieces and of the rest."""

    def left(n: int) -> int:
        return ceil_div(ceil_div(ceil_div(n, 2), 2), 2)

    return columns // piece * left(piece) + left(columns % piece)


@sees(alone=("qwen3_asr_encoder",))
def qwen3_asr_encoder(c: Config) -> TowerStages:
    """The audio encoder of Qwen3-Omni and Qwen3-ASR (arXiv:2509.17765): attention within eight seconds."""
    e = ear(c)
    front, piece, count = convolved(c, e)
    window = piece * (c.size("n_window_infer", 800) // (2 * c.size("n_window", 50)))
    ffn = mlp(e.d.width, e.inner, e.act, gated=False, bias=True)
    mixer = attention(e.d, rotary=0, bias=True, causal=False, chunk=window)
    block = layer("dense", e.d.width, mixer, ffn, norm=layer_norm)
    last = Block("norm", (layer_norm("final_norm", e.d.width),))
    yield TowerStage("audio", e.d.width, (front, *[block] * e.d.layers, last), count)


def _asr_projector(c: Config, part: TowerStage) -> TowerStage:
    out = c.size("output_dim", 3584)
    block = projection("projector", (part.width, part.width, out), act=activation(c, ACT, "gelu"))
    return TowerStage("projector", out, (Block("projector", at(part.positions or 1, block.modules)),))


@sees(alone=("qwen3_omni_moe_audio_encoder",))
def qwen3_omni_audio(c: Config) -> TowerStages:
    """Qwen3-Omni's audio encoder with its projector."""
    (part,) = qwen3_asr_encoder(c)
    yield from (part, _asr_projector(c, part))


@towers("qwen3_asr")
def qwen3_asr(outer: Config, text: Model) -> Iterator[Tower]:
    """Qwen3-ASR (arXiv:2601.21337): the encoder of Qwen3-Omni."""
    yield from streamed(qwen3_omni_audio(section_of(outer, "audio_config")), SOUND)


@towers("qwen3_omni_moe_thinker", "qwen3_omni_moe")
def qwen3_omni_towers(outer: Config, text: Model) -> Iterator[Tower]:
    """Qwen3-Omni (arXiv:2509.17765): the tower of Qwen3-VL, an audio encoder, and what speaks."""
    thinker = _thinker(outer)
    if thinker.raw.get("vision_config") is not None:
        yield from streamed(qwen3_vl(section_of(thinker, "vision_config")), IMAGES)
    if thinker.raw.get("audio_config") is not None:
        yield from streamed(qwen3_omni_audio(section_of(thinker, "audio_config")), SOUND)
    if _speaks(outer) and outer.get("talker_config") is not None:
        yield from qwen3_talker(section_of(outer, "talker_config"))
        yield from qwen3_waves(section_of(outer, "code2wav_config"))


# -- Fun-ASR, Muse -------------------------------------------------------------------------------------------------
@sees(alone=("fun_asr_nano_encoder",))
def fun_asr_encoder(c: Config) -> TowerStages:
    """SAN-M (arXiv:2006.01713): a depthwise convolution of the values beside attention; stacked frames come in."""
    e = ear(c)
    d, inputs = e.d, c.size("num_mel_bins", 80) * c.size("num_stacked_frames", 7)
    taps, named = c.size("fsmn_kernel_size", 11), c.size("num_timestamp_prediction_layers", 20, least=0)
    ffn = mlp(d.width, e.inner, activation(c, default="relu"), gated=False, bias=True)

    def block(i: int) -> Block:
        first, *rest = attention(d, rotary=0, bias=True, causal=False)
        assert isinstance(first, Linear)
        wide = inputs if i == 0 else d.width
        memory = (
            Convolution(name="memory", inputs=d.width, outputs=d.width, kernel=taps, groups=d.width),
            Add(name="memory_sum", width=d.width), Add(name="value_sum", width=d.width),
        )  # fmt: skip
        whole = layer("dense", d.width, (replace(first, inputs=wide), *rest, *memory), ffn, norm=layer_norm)
        modules = (layer_norm("attn_norm", wide), *whole.modules[1:])
        last = (layer_norm("final_norm", d.width),) if i in (d.layers - named - 1, d.layers - 1) else ()
        return Block("first" if i == 0 else "dense", (*modules, *last))

    yield TowerStage("audio", d.width, tuple(block(i) for i in range(d.layers)), c.inputs.spectra)


@towers("fun_asr_nano")
def fun_asr_nano(outer: Config, text: Model) -> Iterator[Tower]:
    """Fun-ASR-Nano (arXiv:2509.12508): two products, then layers of an adaptor."""
    (part,), a = fun_asr_encoder(section_of(outer, "audio_config")), outer.section("adaptor_config")
    width = a.size("hidden_size", text.hidden)
    heads, layers = a.size(HEADS, 8), a.size("num_hidden_layers", 2, least=0)
    d, inner = Dims(layers, width, heads, heads, width // heads), a.size("intermediate_size", width // 4)
    act = activation(a, default="relu")
    sizes = (part.width, a.size("projector_hidden_size", 2048), width)
    first = projection("projector", sizes, act=activation(a, "projector_hidden_act", "relu"))
    ffn = mlp(width, inner, act, gated=False, bias=True)
    block = layer("adaptor", width, attention(d, rotary=0, bias=True, causal=False), ffn, norm=layer_norm)
    yield from streamed((part, TowerStage("projector", width, (first, *[block] * layers))), SOUND)


@sees(alone=("muse_spark_audio",))
def muse_audio(c: Config) -> TowerStages:
    """Muse Spark's audio encoder (model card meta-models/Muse-Spark-Open-816B-A42B): convolutions over the samples."""
    widths = listed_sizes(c, "hidden_sizes", [256, 512, 1024, 2048])
    depths, steps = listed_sizes(c, "depths", [2, 2, 2, 2]), listed_sizes(c, "patch_sizes", [16, 6, 5, 4])
    taps, ratio, act = c.size("conv_kernel_size", 7), c.number("mlp_ratio", 4), activation(c, default="gelu")
    count, inputs, blocks = c.inputs.samples or 480_000, 1, []
    for i, (width, depth, step) in enumerate(zip(widths, depths, steps, strict=True)):
        count //= step
        patch = (Linear(name="patch", inputs=inputs * step, outputs=width, bias=True), rms("patch_norm", width))
        conv: Modules = (
            Convolution(name="conv", inputs=width, outputs=width, kernel=taps, groups=width, bias=True),
            rms("norm", width), *mlp(width, int(width * ratio), act, gated=False, bias=True),
            Add(name="residual", width=width),
        )  # fmt: skip
        blocks += [Block(f"patch {i + 1}", at(count, patch)), *[Block(f"conv {i + 1}", at(count, conv))] * depth]
        inputs = width
    out = c.size("out_hidden_size", 8192)
    last = (
        rms("final_norm", inputs),
        Linear(name="projector", inputs=inputs, outputs=out, bias=True),
        rms("projector_norm", out),
    )
    yield TowerStage("audio", inputs, (*blocks, Block("projector", last)), count)


@towers("muse_spark")
def muse_spark_towers(outer: Config, text: Model) -> Iterator[Tower]:
    """Muse Spark (model card meta-models/Muse-Spark-Open-816B-A42B): images, videos and sound."""
    seen = (*muse_vision(section_of(outer, "vision_config")), muse_projector(outer, text))
    yield from streamed(seen, IMAGES)
    yield from streamed(muse_audio(section_of(outer, "audio_config")), SOUND)


# -- dots.note -----------------------------------------------------------------------------------------------------
def dots_audio(c: Config) -> TowerStages:
    """dots.note's audio encoder (rednote, 2026): three convolutions, rotary gated layers, keys without bias."""
    width, heads, layers = c.size("hidden_size"), c.size("num_attention_heads"), c.size("num_hidden_layers")
    d, inner, act = Dims(layers, width, heads, heads, width // heads), c.size("intermediate_size"), activation(c)
    columns, rows, channels = (
        c.inputs.spectra or 3000,
        c.size("feature_size", 128),
        c.size("downsample_hidden_size", 480),
    )
    front, inputs = list[Module](), 1
    for i in range(3):
        rows, columns = ceil_div(rows, 2), ceil_div(columns, 2)
        conv = Convolution(name=f"conv{i + 1}", inputs=inputs, outputs=channels, kernel=9, stride=4, bias=True)
        front += at(
            rows * columns, (conv, Activation(name=f"act{i + 1}", width=channels, function="gelu", gated=False))
        )
        inputs = channels
    front.append(Linear(name="conv_out", inputs=channels * rows, outputs=width, part="other"))
    mixer = attention_of_whisper(d, causal=False, rotary=d.head_dim // 2)
    block = layer("dense", width, mixer, mlp(width, inner, act, bias=True))
    last = Block("norm", (rms("final_norm", width),))
    yield TowerStage("audio", width, (Block("front", tuple(front)), *[block] * layers, last), columns)
    wide, out = c.size("adapter_input_size", width), c.size("adapter_out_dim", 5120)
    yield TowerStage(
        "projector", out, (projection("adapter", (wide, out, out), norm=layer_norm("adapter_norm", wide)),)
    )


@towers("dots3_note")
def dots3_note_towers(outer: Config, text: Model) -> Iterator[Tower]:
    """dots.note (rednote, 2026): images, videos and sound."""
    yield from streamed(dots_vision(section_of(outer, "vision_config"), text), IMAGES)
    yield from streamed(dots_audio(section_of(outer, "audio_config")), SOUND)
