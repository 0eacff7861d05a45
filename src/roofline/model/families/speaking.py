"""Models that speak without one step for each frame: FastSpeech 2 with conformers."""

from __future__ import annotations

from dataclasses import replace

from roofline.model.config import MOST_LAYERS, Config
from roofline.model.families.blocks.attention import attention
from roofline.model.families.blocks.encoders import at, encoder
from roofline.model.families.blocks.layers import with_before
from roofline.model.families.blocks.norms import layer_norm
from roofline.model.families.blocks.seq2seq import sublayers
from roofline.model.families.blocks.sizes import Dims
from roofline.model.families.blocks.sound import channel_norm, spectra_of
from roofline.model.families.blocks.text_heads import dense
from roofline.model.families.conformers import convolution_module, relative_scores
from roofline.model.families.registry import complete
from roofline.model.families.vocoders import hifigan, taps
from roofline.model.model import Block, Model
from roofline.model.modules import Activation, Add, Attention, Embedding, Module, Modules, Pace


@complete("fastspeech2_conformer")
def fastspeech2_conformer(c: Config) -> Model:
    """FastSpeech 2 (arXiv:2006.04558) with conformers: all frames of the speech at once, as many as the caller says."""
    blocks, width, words = _fastspeech(c)
    return encoder(c, width, blocks, embedding=(words,), vocab=words.rows)


@complete("fastspeech2_conformer_with_hifigan")
def fastspeech2_conformer_with_hifigan(c: Config) -> Model:
    """FastSpeech 2 with conformers, and HiFi-GAN for the samples."""
    c.mark_read("model_type")
    spoken = c.section("model_config").of_kind("fastspeech2_conformer")
    vocoder = c.section("vocoder_config").of_kind("fastspeech2_conformer_hifigan")
    for part in (spoken, vocoder):
        part.mark_read("model_type", "normalize_before", "sampling_rate", "leaky_relu_slope")
    blocks, width, words = _fastspeech(spoken)
    sound = hifigan(vocoder, vocoder.size("model_in_dim", 80), spectra_of(spoken))
    c.note(*spoken.leftovers(), *vocoder.leftovers())
    made = [Block(f"vocoder {block.name}", block.modules) for block in sound]
    return encoder(c, width, [*blocks, *made], embedding=(words,), vocab=words.rows)


def _fastspeech(c: Config) -> tuple[list[Block], int, Embedding]:
    """Blocks, width and table of words."""
    c.mark_read(*_STEERING, *(key for key in c.raw if key.endswith(_STEERED)))
    width, frames, mels = c.size("hidden_size", 384), spectra_of(c), c.size("num_mel_bins", 80)
    words = Embedding(name="embedding", rows=c.size("vocab_size", 78), width=width)
    parts: list[Module] = []
    for name in ("speakers", "languages"):
        rows = c.size(f"num_{name}", None)
        parts += [Embedding(name=f"{name}_embedding", rows=rows, width=width)] if rows and rows > 1 else []
    voice = c.size("speaker_embed_dim", None)
    parts += [dense("voice_proj", width + voice, width)] if voice else []
    for name in ("duration", "pitch", "energy"):
        parts += _predictor(c, name, width)
        if name != "duration":
            parts.append(taps(f"{name}_embed", 1, width, c.size(f"{name}_embed_kernel_size", 1)))
    read = [_conformer(c, "encoder", width, None)] * c.size("encoder_layers", 4, most=MOST_LAYERS)
    write = [_conformer(c, "decoder", width, frames)] * c.size("decoder_layers", 4, most=MOST_LAYERS)
    behind: list[Module] = [dense("frames", width, mels * c.size("reduction_factor", 1))]
    units, kernel = c.size("speech_decoder_postnet_units", 256), c.size("speech_decoder_postnet_kernel", 5)
    layers = c.size("speech_decoder_postnet_layers", 5, least=0)
    for i in range(layers):
        inputs, outputs = (units if i else mels), (units if i < layers - 1 else mels)
        behind += [taps(f"correct{i}", inputs, outputs, kernel, bias=False), channel_norm(f"correct{i}_norm", outputs)]
    return [*read, Block("predictors", tuple(parts)), *write, Block("frames", at(frames, behind))], width, words


def _predictor(c: Config, name: str, width: int) -> Modules:
    """Convolutions over the text that predict one value for each token."""
    channels, kernel = c.size(f"{name}_predictor_channels", 256), c.size(f"{name}_predictor_kernel_size", 3)
    parts: list[Module] = []
    for i in range(c.size(f"{name}_predictor_layers", 2)):
        act = Activation(name=f"{name}{i}_act", width=channels, function="relu", gated=False)
        conv = taps(f"{name}{i}", channels if i else width, channels, kernel)
        parts += [conv, act, layer_norm(f"{name}{i}_norm", channels)]
    return (*parts, dense(name, channels, 1))


def _conformer(c: Config, side: str, width: int, length: int | None) -> Block:
    """A conformer whose feed-forward networks are convolutions, over the text or over `length` frames."""
    heads, inner = c.size(f"{side}_num_attention_heads", 2), c.size(f"{side}_linear_units", 1536)
    d, kernel = Dims(1, width, heads, heads, width // heads), c.size("positionwise_conv_kernel_size", 3)
    scores = relative_scores(d, length or 1)
    if length is None:
        wide = Pace(times=2, extra=-1)
        biases, (table, core) = scores[:2], scores[2:]
        assert isinstance(core, Attention)
        seen = replace(core, keys=None, spaced=wide)
        scores = (*biases, replace(table, positions=None, pace=wide), seen)
    mixer = with_before(attention(d, rotary=0, bias=True, causal=False), "attention", *scores)

    def network(name: str) -> Modules:
        act = Activation(name=f"{name}_act", width=inner, function="relu", gated=False)
        return taps(f"{name}_in", width, inner, kernel), act, taps(f"{name}_out", inner, width, kernel)

    macaron, convolves = c.flag("use_macaron_style_in_conformer", True), c.flag("use_cnn_in_conformer", True)
    norm = channel_norm("batch_norm", width)
    bias, taps_of = c.flag("convolution_bias", True), c.size(f"{side}_kernel_size", 7)
    parts = [
        *([("ffn1", network("first"))] if macaron else []), ("attn", mixer),
        *([("conv", convolution_module(width, taps_of, "silu", norm, bias=bias))] if convolves else []),
        ("ffn2", network("second")),
    ]  # fmt: skip
    block = sublayers("conformer", width, parts, norm=layer_norm, before=c.flag(f"{side}_normalize_before", False))
    modules = (*block.modules, *((layer_norm("layer_norm", width),) if convolves else ()))
    if c.flag(f"{side}_concat_after", False):
        modules = (*modules, dense("concat_proj", 2 * width, width), Add(name="concat_residual", width=width))
    if length is not None:
        modules = tuple(m if m.positions else replace(m, positions=length) for m in modules)
    return Block(f"{side} conformer", modules)


_STEERED = ("_rate", "_dropout", "_normalize_before", "_concat_after")
_STEERING = """
    encoder_config decoder_config speaking_speed stop_gradient_from_pitch_predictor max_source_positions use_masking
    stop_gradient_from_energy_predictor use_weighted_masking is_encoder_decoder model_type num_speakers num_languages
    encoder_kernel_size decoder_kernel_size convolution_bias
""".split()
