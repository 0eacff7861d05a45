"""Models that speak without one step for each frame: FastSpeech 2 with conformers, VITS."""

from __future__ import annotations

from dataclasses import replace

from roofline.model.configs.config import MOST_LAYERS, Config
from roofline.model.families.blocks.attention import attention
from roofline.model.families.blocks.encoders import at, encoder
from roofline.model.families.blocks.feed_forward import activation
from roofline.model.families.blocks.layers import with_before
from roofline.model.families.blocks.norms import layer_norm
from roofline.model.families.blocks.seq2seq import sublayers
from roofline.model.families.blocks.sizes import Dims
from roofline.model.families.blocks.sound import channel_norm, spectra_of
from roofline.model.families.blocks.text_heads import dense, unused
from roofline.model.families.registry import complete
from roofline.model.families.speech.conformers import convolution_module, relative_scores
from roofline.model.families.speech.vocoders import hifigan, taps
from roofline.model.model import Block, Model
from roofline.model.modules import Activation, Add, Attention, Convolution, Embedding, Learned, Module, Modules, Pace


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
    samples = [Block(f"vocoder {block.name}", block.modules) for block in sound]
    return encoder(c, width, [*blocks, *samples], embedding=(words,), vocab=words.rows)


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


# -- VITS ----------------------------------------------------------------------------------------------------------
@complete("vits")
def vits(c: Config) -> Model:
    """VITS (arXiv:2106.06103): a text encoder, flows over as many frames as the caller says, HiFi-GAN.

    The posterior encoder is of training alone.
    """
    c.mark_read(*_NOISE)
    width, flow, voice = (
        c.size("hidden_size", 192),
        c.size("flow_size", 192),
        c.size("speaker_embedding_size", 0, least=0),
    )
    frames, bins = spectra_of(c), c.size("spectrogram_bins", 513)
    words = Embedding(name="embedding", rows=c.size("vocab_size", 38), width=width)
    voices = (Embedding(name="voices", rows=c.size("num_speakers", 1), width=voice),) if voice else ()
    layers = [_text_layer(c, width)] * c.size("num_hidden_layers", 6, most=MOST_LAYERS)
    means = Block("means", (dense("means", width, 2 * flow),))
    flows: list[Block] = []
    for _ in range(c.size("prior_encoder_num_flows", 4)):
        wave = _wavenet(c, width, voice, c.size("prior_encoder_num_wavenet_layers", 4))
        ends = dense("flow_in", flow // 2, width), dense("flow_out", width, flow // 2)
        flows.append(Block("flow", at(frames, (ends[0], *wave, ends[1]))))
    seen = _wavenet(c, width, voice, c.size("posterior_encoder_num_wavenet_layers", 16))
    posterior = unused((dense("spectrum_in", bins, width), *seen, dense("spectrum_out", width, 2 * flow)))
    durations = Block("durations", _durations(c, width, voice))
    cond = at(1, (taps("voice", voice, c.size("upsample_initial_channel", 512), 1),)) if voice else ()
    sound = hifigan(c, flow, frames, bias=False)
    blocks = [
        *layers,
        means,
        durations,
        *flows,
        Block("posterior", posterior),
        *([Block("voice", cond)] if cond else []),
    ]
    return encoder(c, width, [*blocks, *sound], embedding=(words, *voices), vocab=words.rows)


def _text_layer(c: Config, width: int) -> Block:
    """Attention with learned distances of keys and of values, and convolutions as the feed-forward network."""
    heads, kernel, inner = c.size("num_attention_heads", 2), c.size("ffn_kernel_size", 3), c.size("ffn_dim", 768)
    bias, window = c.flag("use_bias", True), c.size("window_size", 4, least=0)
    mixer = attention(Dims(1, width, heads, heads, width // heads), rotary=0, bias=bias, causal=False)
    core = next(m for m in mixer if isinstance(m, Attention))
    if window:
        tables = tuple(
            Learned(name=f"{side}_distances", width=core.head_dim, rows=2 * window + 1, applied=False) for side in "kv"
        )
        wide = Pace(times=2, extra=-1)
        keys = replace(core, name="distance_scores", v_head_dim=0, spaced=wide)
        mixer = with_before(mixer, "attention", *tables, keys)
        mixer = with_before(mixer, "o_proj", replace(core, name="distance_values", head_dim=0, spaced=wide))
    act = Activation(name="act", width=inner, function=activation(c, default="relu"), gated=False)
    ffn = (taps("ffn_in", width, inner, kernel), act, taps("ffn_out", inner, width, kernel))
    return sublayers("dense", width, (("attn", mixer), ("ffn", ffn)), norm=layer_norm, before=False)


def _scaled(conv: Convolution) -> Modules:
    """A convolution whose weights have a scale for each output."""
    return conv, Learned(name=f"{conv.name}_scale", width=1, rows=conv.outputs, applied=False)


def _wavenet(c: Config, width: int, voice: int, layers: int) -> Modules:
    """WaveNet's layers (arXiv:1609.03499): gated taps, and a product to the stream and the sum of all."""
    kernel, parts = c.size("wavenet_kernel_size", 5), list[Module]()
    if voice:
        parts += at(1, _scaled(taps("voice", voice, 2 * width * layers, 1)))
    for i in range(layers):
        gate = Activation(name=f"wave{i}_gate", width=width, function="sigmoid")
        out = taps(f"wave{i}_out", width, width if i == layers - 1 else 2 * width, 1)
        parts += [*_scaled(taps(f"wave{i}", width, 2 * width, kernel)), gate, *_scaled(out)]
    return tuple(parts)


def _durations(c: Config, width: int, voice: int) -> Modules:
    """How long each token lasts: flows over a drawn value, or two convolutions."""
    kernel, cond = c.size("duration_predictor_kernel_size", 3), (taps("voice", voice, width, 1),) if voice else ()
    if not c.flag("use_stochastic_duration_prediction", True):
        inner = c.size("duration_predictor_filter_channels", 256)
        first, second = taps("first", width, inner, kernel), taps("second", inner, inner, kernel)
        norms = layer_norm("first_norm", inner), layer_norm("second_norm", inner)
        return (*at(1, cond), first, norms[0], second, norms[1], dense("lasts", inner, 1))
    half, bins = c.size("depth_separable_channels", 2) // 2, c.size("duration_predictor_flow_bins", 10)

    def separable(name: str) -> Modules:
        parts: list[Module] = []
        for i in range(c.size("depth_separable_num_layers", 3)):
            conv = replace(taps(f"{name}_taps{i}", width, width, kernel), groups=width)
            norms = layer_norm(f"{name}_taps{i}_norm", width), layer_norm(f"{name}_mix{i}_norm", width)
            parts += [conv, norms[0], dense(f"{name}_mix{i}", width, width), norms[1]]
        return tuple(parts)

    def flows(name: str) -> Modules:
        parts: list[Module] = [Learned(name=f"{name}_affine", width=2 * half, rows=2, applied=False)]
        for i in range(c.size("duration_predictor_num_flows", 4)):
            ends = dense(f"{name}{i}_in", half, width), dense(f"{name}{i}_out", width, half * (3 * bins - 1))
            one = (ends[0], *separable(f"{name}{i}"), ends[1])
            parts += unused(one) if i == 0 else one  # the published code skips a flow when it speaks
        return tuple(parts)

    begin = (dense("read", width, width), *separable("read"), dense("read_out", width, width))
    trained = (dense("post", 1, width), *separable("post"), dense("post_out", width, width), *flows("post_flow"))
    return (*at(1, cond), *begin, *flows("flow"), *unused(trained))


_NOISE = """
    noise_scale noise_scale_duration speaking_rate sampling_rate wavenet_dropout wavenet_dilation_rate leaky_relu_slope
    duration_predictor_dropout duration_predictor_tail_bound duration_predictor_filter_channels num_speakers
    depth_separable_channels depth_separable_num_layers duration_predictor_num_flows duration_predictor_flow_bins
""".split()
