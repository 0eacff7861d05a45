"""Conformers: encoders of speech whose layers have a convolution between attention and feed-forward networks."""

from __future__ import annotations

from dataclasses import replace

from roofline.declared.numbers.maths import ceil_div
from roofline.model.configs.config import Config
from roofline.model.families.blocks.attention import attention, rope_section
from roofline.model.families.blocks.encoders import at, encoder
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.layers import with_before
from roofline.model.families.blocks.norms import MakeNorm, layer_norm, layer_norm_no_bias
from roofline.model.families.blocks.seq2seq import sublayers
from roofline.model.families.blocks.sizes import HEADS, Dims, dims
from roofline.model.families.blocks.sound import channel_norm, feature_encoder, spectra_of, strided_frames
from roofline.model.families.blocks.text_heads import dense, unused
from roofline.model.families.registry import complete
from roofline.model.families.speech.wav2vec2 import TRAINING, adapter, masked_vector, position_convolution, speech_head
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
        Linear(
            name="distance_proj", inputs=d.width, outputs=inner, bias=bias, part="attention", positions=distances
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


def subsampled(c: Config, width: int, mels: int, *, streams: bool = False) -> tuple[Modules, int]:
    """FastConformer's convolutions over a spectrogram (arXiv:2305.05084): modules, and positions that they leave.

    `streams`: they see no later positions, and are padded before.
    """
    kernel, stride = c.size("subsampling_conv_kernel_size", 3), c.size("subsampling_conv_stride", 2)
    channels, factor = c.size("subsampling_conv_channels", 256), c.size("subsampling_factor", 8)
    length, height, parts, steps = spectra_of(c), mels, list[Module](), factor.bit_length() - 1
    for i in range(steps):
        if streams:
            length, height = ((n + stride - 2) // stride + 1 for n in (length, height))
        else:
            length, height = (strided_frames(n, kernel, stride, (kernel - 1) // 2) for n in (length, height))
        taps = Convolution(
            name=f"front{i}", inputs=channels if i else 1, outputs=channels, kernel=kernel * kernel,
            groups=channels if i else 1, stride=stride * stride, bias=True, part="other",
        )  # fmt: skip
        mixed = (dense(f"front{i}_proj", channels, channels),) if i else ()
        act = Activation(name=f"front{i}_act", width=channels, function="relu", gated=False)
        parts += at(length * height, (taps, *mixed, act))
    flat = height if streams else mels // stride**steps
    return (*parts, *at(length, (dense("front_proj", channels * flat, width),))), length


def parakeet(c: Config, *, streams: bool = False) -> tuple[Modules, list[Block], Dims, int]:
    """NVIDIA's Parakeet (arXiv:2305.05084): front, layers, sizes and positions of its encoder.

    `streams`: attention sees a window, and the convolutions are normed by token.
    """
    c.mark_read(*_STEERING)
    d, act, bias = dims(c), activation(c), c.flag("attention_bias", True)
    front, length = subsampled(c, d.width, c.size("num_mel_bins", 80), streams=streams)
    window = c.size("sliding_window", None) if streams else None
    mixer = attention(d, rotary=0, bias=bias, causal=False, window=window)
    mixer = with_before(mixer, "attention", *relative_scores(d, length))
    norm = layer_norm("channel_norm", d.width) if streams else channel_norm("batch_norm", d.width)
    conv = convolution_module(d.width, c.size("conv_kernel_size", 9), act, norm, bias=c.flag("convolution_bias", True))
    block = conformer_layer(d, mixer, two_halves(d.width, c.size("intermediate_size"), act, bias), conv)
    return front, [block] * d.layers, d, length


@complete("nemotron_asr_streaming_encoder")
def nemotron_asr_streaming_encoder(c: Config) -> Model:
    """Nemotron's streaming encoder: Parakeet's in a window, without later positions in its convolutions."""
    front, blocks, d, length = parakeet(c, streams=True)
    return encoder(c, d.width, blocks, embedding=front, positions=length)


@complete("parakeet_encoder")
def parakeet_encoder(c: Config) -> Model:
    """Parakeet's encoder alone."""
    front, blocks, d, length = parakeet(c)
    return encoder(c, d.width, blocks, embedding=front, positions=length)


@complete("parakeet_ctc")
def parakeet_ctc(c: Config) -> Model:
    """Parakeet with characters at every position."""
    c.mark_read("ctc_loss_reduction", "ctc_zero_infinity", "vocab_size")
    inner = c.section("encoder_config").of_kind("parakeet_encoder")
    front, blocks, d, length = parakeet(inner)
    c.note(*inner.leftovers())
    head = (dense("characters", d.width, c.size("vocab_size")),)
    return encoder(c, d.width, blocks, embedding=front, head=head, positions=length)


@complete("lasr_encoder")
def lasr_encoder(c: Config) -> Model:
    """LASR's encoder: a conformer with rotary positions."""
    front, blocks, d, length, norm = lasr(c)
    return encoder(c, d.width, blocks, embedding=front, head=(norm,), positions=length)


@complete("lasr_ctc")
def lasr_ctc(c: Config) -> Model:
    """LASR with characters at every position."""
    c.mark_read("ctc_loss_reduction", "ctc_zero_infinity", "vocab_size")
    inner = c.section("encoder_config").of_kind("lasr_encoder")
    front, blocks, d, length, norm = lasr(inner)
    c.note(*inner.leftovers())
    head = (norm, dense("characters", d.width, c.size("vocab_size")))
    return encoder(c, d.width, blocks, embedding=front, head=head, positions=length)


def lasr(c: Config) -> tuple[Modules, list[Block], Dims, int, Module]:
    """LASR (Google, 2025): front, layers, sizes, positions and last norm of its encoder."""
    c.mark_read(*_STEERING, "feed_forward_residual_weights", "conv_residual_weights", "batch_norm_momentum")
    d, act, bias = dims(c), activation(c), c.flag("attention_bias")
    mels, taps, stride = (
        c.size("num_mel_bins", 128),
        c.size("subsampling_conv_kernel_size", 5),
        c.size("subsampling_conv_stride", 2),
    )
    channels, length = c.size("subsampling_conv_channels", 256), spectra_of(c)
    front: list[Module] = list(at(length, (dense("front_in", mels, d.width),)))
    for i, (inputs, outputs) in enumerate(((d.width, d.width), (d.width, channels))):
        length = strided_frames(length, taps, stride)
        conv = Convolution(
            name=f"front{i}", inputs=inputs, outputs=outputs, kernel=taps, stride=stride, bias=True, part="other"
        )
        front += at(length, (conv, Activation(name=f"front{i}_act", width=outputs, function="relu", gated=False)))
    rope_section(c)
    mixer = attention(d, rotary=d.head_dim, bias=bias, causal=False)
    norm, kernel, biased = (
        channel_norm("batch_norm", d.width),
        c.size("conv_kernel_size", 32),
        c.flag("convolution_bias"),
    )
    conv_part = convolution_module(d.width, kernel, act, norm, bias=biased)
    ffns = two_halves(d.width, c.size("intermediate_size"), act, bias)
    block = conformer_layer(d, mixer, ffns, conv_part, layer_norm_no_bias)
    embedding = (*front, dense("front_out", channels, d.width))
    return embedding, [block] * d.layers, d, length, layer_norm_no_bias("final_norm", d.width)


def wav2vec_conformer_layer(
    c: Config, d: Dims, length: int, *, kind: str | None, norm: Module, act: str, keyed: int = 0
) -> Block:
    """A conformer layer of wav2vec 2.0: positions of a `kind`, a convolution without biases.

    `keyed`: distances that have a vector of their own, which scores beside the keys.
    """
    mixer = attention(d, rotary=d.head_dim if kind == "rotary" else 0, bias=True, causal=False)
    if kind == "relative":
        mixer = with_before(mixer, "attention", *relative_scores(d, length))
    if keyed:
        scores = Attention(
            name="distances", heads=d.heads, kv_heads=d.heads, head_dim=d.head_dim, v_head_dim=0, causal=False
        )
        mixer = with_before(
            mixer, "attention", Learned(name="distance", width=d.head_dim, rows=keyed, applied=False), scores
        )
    conv = convolution_module(d.width, c.size("conv_depthwise_kernel_size", 31), act, norm, bias=False)
    return conformer_layer(d, mixer, two_halves(d.width, c.size("intermediate_size"), act, True), conv)


_POSITIONS = ("relative", "rotary", "relative_key")
_STEERING = """
    max_position_embeddings scale_input layerdrop activation_dropout dropout_positions conformer_conv_dropout
    max_source_positions default_num_lookahead_tokens rotary_embedding_base num_feat_extract_layers model_type
""".split()


@complete("wav2vec2-conformer")
def wav2vec2_conformer(c: Config) -> Model:
    """wav2vec 2.0 with conformer layers (arXiv:2006.11477, arXiv:2005.08100)."""
    c.mark_read(*TRAINING, *_STEERING)
    d, act = dims(c, kv_key=HEADS), activation(c, default="gelu")
    front, length, last = feature_encoder(c, c.text("feat_extract_norm", "group", ("group", "layer")))
    kind = c.text("position_embeddings_type", "relative", _POSITIONS)
    block = wav2vec_conformer_layer(c, d, length, kind=kind, norm=channel_norm("batch_norm", d.width), act=act)
    behind, out, width = adapter(c, d.width, length)
    embedding = (
        *front, layer_norm("feature_norm", last), dense("feature_proj", last, d.width), *masked_vector(c, d.width),
        *unused(position_convolution(c, d.width, length)),
    )  # fmt: skip
    head = (layer_norm("encoder_norm", d.width), *behind, *speech_head(c, d, width, out))
    return encoder(c, d.width, [block] * d.layers, embedding=embedding, head=head, positions=length)


@complete("wav2vec2-bert")
def wav2vec2_bert(c: Config) -> Model:
    """w2v-BERT 2.0 (arXiv:2312.05187): conformer layers over a spectrogram."""
    c.mark_read(*TRAINING, *_STEERING, "left_max_position_embeddings", "right_max_position_embeddings")
    d, act, inputs, length = (
        dims(c, kv_key=HEADS),
        activation(c, default="swish"),
        c.size("feature_projection_input_dim", 160),
        spectra_of(c),
    )
    kind = c.text("position_embeddings_type", "relative_key", _POSITIONS)
    ends = c.size("left_max_position_embeddings", 64), c.size("right_max_position_embeddings", 8)
    keyed = sum(ends) + 1 if kind == "relative_key" else 0
    norm = layer_norm("channel_norm", d.width)
    block = wav2vec_conformer_layer(c, d, length, kind=kind, norm=norm, act=act, keyed=keyed)
    embedding = (
        layer_norm("feature_norm", inputs), dense("feature_proj", inputs, d.width), *masked_vector(c, d.width)
    )  # fmt: skip
    behind, out, width = _adapting_layers(c, d, length)
    head = (*behind, *speech_head(c, d, width, out))
    return encoder(c, d.width, [block] * d.layers, embedding=embedding, head=head, positions=length)


def _adapting_layers(c: Config, d: Dims, length: int) -> tuple[Modules, int, int]:
    """w2v-BERT's adapter: layers whose residual and attention read every second position."""
    act, inner = c.text("adapter_act", "relu"), c.size("intermediate_size")
    between: Modules = ()
    if c.flag("use_intermediate_ffn_before_adapter", False):
        between = mlp(d.width, inner, act, gated=False, bias=True, prefix="between_")
    if not c.flag("add_adapter", False):
        return between, length, d.width
    out, kernel, stride = (
        c.size("output_hidden_size", d.width),
        c.size("adapter_kernel_size", 3),
        c.size("adapter_stride", 2),
    )
    parts: list[Module] = list(between)
    parts += [dense("adapter_proj", d.width, out), layer_norm("adapter_norm", out)] if out != d.width else []
    wide = Dims(1, out, d.heads, d.heads, out // d.heads)
    for i in range(c.size("num_adapter_layers", 1)):
        shorter = strided_frames(length, kernel, stride, stride // 2)
        for name in ("residual", "attn"):
            conv = Convolution(
                name=f"adapter{i}_{name}_conv",
                inputs=out,
                outputs=2 * out,
                kernel=kernel,
                stride=stride,
                bias=True,
                part="other",
            )
            parts += [
                replace(layer_norm(f"adapter{i}_{name}_norm", out), positions=length),
                replace(conv, positions=shorter),
            ]
        mixer = attention(wide, rotary=0, bias=True, causal=False)
        ffn = mlp(out, inner, act, gated=False, bias=True)
        rest = (*mixer, layer_norm("ffn_norm", out), *ffn)
        parts += [replace(m, name=f"adapter{i}_{m.name}", positions=shorter) for m in rest]
        length = shorter
    return tuple(parts), length, out


def granite_speech5(c: Config) -> tuple[Modules, list[Block], int, int, Linear]:
    """Granite Speech 5 (IBM, 2026): front, layers, width, positions, head; attention in blocks of `context_size`.

    The first layers halve the positions, and the head's scores are added to the stream in the middle.
    """
    c.mark_read(*_STEERING)
    d, act, bias = dims(c), activation(c), c.flag("attention_bias", True)
    length, size, vocab = spectra_of(c), c.size("context_size", 128), c.size("vocab_size")
    halving, rows = c.layer_set("subsample_layers", d.layers) or [], 2 * c.size("max_position_embeddings", 512) + 1
    ffns = two_halves(d.width, c.size("intermediate_size"), act, bias)
    first, core, out = attention(d, rotary=0, out_bias=bias, causal=False)
    table = Learned(name="distance", width=d.head_dim, rows=rows, applied=False)
    scores = Attention(
        name="distances", heads=d.heads, kv_heads=d.heads, head_dim=d.head_dim, v_head_dim=0, causal=False
    )
    front = at(length, (dense("front_proj", 4 * c.size("num_mel_bins", 80), d.width),))
    head, blocks = dense("characters", d.width, vocab), list[Block]()
    for i in range(d.layers):
        stride = 2 if i in halving else 1
        mixer = (*at(size, (first, table, scores, core), ceil_div(length, size)), out)
        halves = conformer_layer(d, mixer, ffns, _halving_convolution(c, d.width, length, stride))
        modules, name = _placed(halves.modules, length, length // stride), "halving" if stride > 1 else "conformer"
        length //= stride
        if i + 1 == d.layers // 2:
            middle = (replace(head, name="middle_characters"), dense("middle_proj", vocab, d.width))
            modules, name = (*modules, *at(length, middle)), "middle"
        blocks.append(Block(name, modules))
    return front, blocks, d.width, length, head


def _halving_convolution(c: Config, width: int, length: int, stride: int) -> Modules:
    """Granite's convolution of a layer, which keeps one position of `stride`."""
    inner, taps = width * c.size("conv_expansion_factor", 2), c.size("conv_kernel_size", 7)
    gate = Activation(name="conv_gate", width=inner, function="sigmoid")
    seen = Convolution(name="conv", inputs=inner, outputs=inner, kernel=taps, groups=inner, stride=stride)
    act = Activation(name="conv_act", width=inner, function="silu", gated=False)
    behind = (seen, channel_norm("batch_norm", inner), act, dense("conv_out", inner, width))
    shorter = strided_frames(length, taps, stride, (taps - 1) // 2)
    return (*at(length, (dense("conv_in", width, 2 * inner), gate)), *at(shorter, behind))


def _placed(modules: Modules, length: int, shorter: int) -> Modules:
    """The modules of a layer at its positions, of which its convolution leaves fewer."""
    last = next(i for i, m in enumerate(modules) if m.name == "conv_residual")
    return tuple(
        m if m.positions else replace(m, positions=length if i < last else shorter) for i, m in enumerate(modules)
    )


@complete("granite_speech5_encoder")
def granite_speech5_encoder(c: Config) -> Model:
    """Granite Speech 5's encoder alone."""
    front, blocks, width, length, _ = granite_speech5(c)
    return encoder(c, width, blocks, embedding=front, positions=length)


@complete("granite_speech5_ctc")
def granite_speech5_ctc(c: Config) -> Model:
    """Granite Speech 5 with characters at every position, whose head is that of the middle."""
    c.mark_read("ctc_loss_reduction", "ctc_zero_infinity", "vocab_size", "tie_word_embeddings")
    inner = c.section("encoder_config").of_kind("granite_speech5_encoder")
    front, blocks, width, length, head = granite_speech5(inner)
    c.note(*inner.leftovers())
    last = replace(head, tied=True, bias=False)
    return encoder(c, width, blocks, embedding=front, head=(last,), positions=length)
