"""Encoders of speech over samples: wav2vec 2.0 and its kin."""

from __future__ import annotations

from dataclasses import replace

from roofline.model.configs.config import Config
from roofline.model.families.blocks.attention import attention
from roofline.model.families.blocks.encoders import at, at_one, encoder, patch_embedding
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.layers import layer, with_before
from roofline.model.families.blocks.norms import layer_norm, plain_layer_norm
from roofline.model.families.blocks.sizes import HEADS, Dims, dims
from roofline.model.families.blocks.sound import channel_norm, feature_encoder, strided_frames
from roofline.model.families.blocks.text_heads import acted, dense
from roofline.model.families.registry import complete
from roofline.model.families.text.deberta import bucketed_layer
from roofline.model.heads import label_count
from roofline.model.model import Block, Model
from roofline.model.modules import Activation, Add, Convolution, Learned, Module, Modules, RelativeBias

TRAINING = """
    apply_spec_augment mask_time_prob mask_time_length mask_time_min_masks mask_feature_prob mask_feature_length
    mask_feature_min_masks ctc_loss_reduction ctc_zero_infinity feat_proj_dropout final_dropout feat_quantizer_dropout
    num_negatives contrastive_logits_temperature diversity_loss_weight codevector_dim num_codevector_groups
    num_codevectors_per_group proj_codevector_dim tdnn_dim tdnn_kernel tdnn_dilation xvector_output_dim
    use_weighted_layer_sum classifier_proj_size vocab_size output_hidden_size num_adapter_layers adapter_kernel_size
    adapter_stride max_bucket_distance num_buckets num_ctc_classes do_stable_layer_norm activation_dropout
    layerdrop num_clusters replace_prob feature_layer_norm_eps feat_extract_dropout freeze_feat_extract_train
    mask_channel_length mask_channel_min_space mask_channel_other mask_channel_prob mask_channel_selection
    mask_time_min_space mask_time_other mask_time_selection no_mask_channel_overlap no_mask_time_overlap
    gradient_checkpointing
""".split()
"""Keys of training, and of heads that other classes have."""


def masked_vector(c: Config, width: int, *, always: bool = False) -> Modules:
    """The vector of masked positions, which training needs."""
    probable = any(c.number(key, 0.0) > 0 for key in ("mask_time_prob", "mask_feature_prob"))
    return (Learned(name="mask_vector", width=width, applied=False),) if always or probable else ()


def position_convolution(c: Config, width: int, length: int, *, stride: int = 1) -> Modules:
    """Positions by a convolution in groups; its weights are scaled by a vector of one for each tap."""
    taps, groups = c.size("num_conv_pos_embeddings", 128), c.size("num_conv_pos_embedding_groups", 16)
    places = strided_frames(length, taps, stride, taps // 2)
    batch_norm = c.flag("conv_pos_batch_norm", False)
    scale: Module = channel_norm("position_norm", width)
    if not batch_norm:
        scale = Learned(name="position_scale", width=taps, applied=False)
    return (
        *at(places, (
            Convolution(
                name="position_conv", inputs=width, outputs=width, kernel=taps, groups=groups, bias=True, stride=stride,
                part="other",
            ),
        )),
        scale,
        Activation(name="position_act", width=width, function=c.text("feat_extract_activation", "gelu"), gated=False),
    )  # fmt: skip


def adapter(c: Config, width: int, length: int) -> tuple[Modules, int, int]:
    """Convolutions behind the layers that shorten the output: modules, positions that they leave, width."""
    if not c.flag("add_adapter", False):
        return (), length, width
    out, kernel, stride = (
        c.size("output_hidden_size", width),
        c.size("adapter_kernel_size", 3),
        c.size("adapter_stride", 2),
    )
    parts: list[Module] = [dense("adapter_proj", width, out), layer_norm("adapter_norm", out)] if out != width else []
    for i in range(c.size("num_adapter_layers", 3)):
        length = strided_frames(length, kernel, stride, 1)
        parts += at(length, (
            Convolution(
                name=f"adapter{i}", inputs=out, outputs=2 * out, kernel=kernel, stride=stride, bias=True, part="other"
            ),
            Activation(name=f"adapter{i}_act", width=out, function="sigmoid"),
        ))  # fmt: skip
    return tuple(parts), length, out


def speech_head(c: Config, d: Dims, width: int, length: int) -> Modules:
    """The head that `architectures` names: characters at each position, or classes of all of the sound."""
    name = c.architecture
    summed = c.flag("use_weighted_layer_sum", False)
    weights = (Learned(name="layer_weights", width=1, rows=d.layers + 1, applied=False),) if summed else ()
    if name.endswith("ForCTC"):
        return at(length, (dense("characters", width, c.size("vocab_size", 32)),))
    if name.endswith(("ForSequenceClassification", "ForAudioClassification")):
        inner = c.size("classifier_proj_size", 256)
        return (*weights, dense("projector", d.width, inner), *at_one((dense("classifier", inner, label_count(c)),)))
    if name.endswith("ForAudioFrameClassification"):
        return (*weights, dense("classifier", d.width, label_count(c)))
    if name.endswith(("ForXVector", "ForPreTraining")):
        raise c.error(
            "architectures", "the base class, or one of characters or classes: training's heads are not covered"
        )
    return ()


def wav2vec_like(
    c: Config, mixers: list[Modules] | None = None, *, norms: str | None = None, positions: Modules | None = None,
    mask: bool = False, projected: bool = True,
) -> Model:  # fmt: skip
    """wav2vec 2.0: convolutions over samples, a convolution for positions, layers with norms after or before.

    `mixers`: the attention of each layer where it is not plain. `mask`: the masked vector exists whatever the config
    says. `projected`: a norm goes before the projection to the layers' width.
    """
    c.mark_read(*TRAINING)
    d, norms = dims(c, kv_key=HEADS), norms or c.text("feat_extract_norm", "group", ("group", "layer"))
    front, length, last = feature_encoder(c, norms)
    act = activation(c, default="gelu")
    ffn = mlp(d.width, c.size("intermediate_size"), act, gated=False, bias=True)
    stable, own = c.flag("do_stable_layer_norm", False), c.size("adapter_attn_dim", None)
    mixers = mixers or [attention(d, rotary=0, bias=True, causal=False)] * d.layers
    blocks = [layer("dense", d.width, mixer, ffn, norm=layer_norm, before=stable, after=not stable) for mixer in mixers]
    if own is not None and stable:
        extra = (
            layer_norm("language_norm", d.width), *acted("language_in", d.width, own, "relu"),
            dense("language_out", own, d.width), Add(name="language_residual", width=d.width),
        )  # fmt: skip
        blocks = [Block("adapted", (*block.modules, *extra)) for block in blocks]
    places = position_convolution(c, d.width, length) if positions is None else positions
    behind, out, width = adapter(c, d.width, length)
    norm = layer_norm("encoder_norm", d.width)
    embedding = (
        *front, *((layer_norm("feature_norm", last),) if projected else ()), dense("feature_proj", last, d.width),
        *masked_vector(c, d.width, always=mask), *places, *(() if stable else (norm,)),
    )  # fmt: skip
    head = (*((norm,) if stable else ()), *behind, *speech_head(c, d, width, out))
    return encoder(c, d.width, blocks, embedding=embedding, head=head, positions=length)


@complete("wav2vec2", "unispeech")
def wav2vec2(c: Config) -> Model:
    """wav2vec 2.0 (arXiv:2006.11477), MMS and UniSpeech."""
    return wav2vec_like(c)


@complete("unispeech-sat")
def unispeech_sat(c: Config) -> Model:
    """UniSpeech-SAT (arXiv:2110.05752): wav2vec 2.0 trained with speakers' labels."""
    return wav2vec_like(c, mask=True)


@complete("hubert")
def hubert(c: Config) -> Model:
    """HuBERT (arXiv:2106.07447): wav2vec 2.0 with another training."""
    return wav2vec_like(c, projected=c.flag("feat_proj_layer_norm", True))


@complete("wavlm")
def wavlm(c: Config) -> Model:
    """WavLM (arXiv:2110.13900): HuBERT whose biases of distance are gated by the token."""
    d = dims(c, kv_key=HEADS)
    gate = (
        RelativeBias(name="gate_proj", heads=d.heads, dim=d.head_dim, extent=8),
        Learned(name="gate_bias", width=8, applied=False),
        Learned(name="gate_scale", width=d.heads, applied=False),
    )
    mixer = with_before(attention(d, rotary=0, bias=True, causal=False), "attention", *gate)
    table = Learned(name="relative_bias", width=d.heads, rows=c.size("num_buckets", 320), applied=False)
    return wav2vec_like(c, [(table, *mixer), *([mixer] * (d.layers - 1))])


@complete("data2vec-audio")
def data2vec_audio(c: Config) -> Model:
    """data2vec (arXiv:2202.03555): wav2vec 2.0 with several convolutions for positions."""
    width, taps = c.size("hidden_size"), c.size("conv_pos_kernel_size", 19)
    groups, act = c.size("num_conv_pos_embedding_groups", 16), c.text("feat_extract_activation", "gelu")
    length = feature_encoder(c, "layer")[1]
    places: list[Module] = []
    for i in range(c.size("num_conv_pos_embeddings", 5)):
        conv = Convolution(
            name=f"position_conv{i}", inputs=width, outputs=width, kernel=taps, groups=groups, bias=True, part="other"
        )
        places += at(strided_frames(length, taps, 1, taps // 2), (conv,))
        places.append(plain_layer_norm(f"position_norm{i}", width))
        places.append(Activation(name=f"position_act{i}", width=width, function=act, gated=False))
    return wav2vec_like(c, norms="layer", positions=tuple(places))


@complete("sew")
def sew(c: Config) -> Model:
    """SEW (arXiv:2109.06870): wav2vec 2.0 whose layers see every second position."""
    d, act = dims(c, kv_key=HEADS), activation(c, default="gelu")
    ffn = mlp(d.width, c.size("intermediate_size"), act, gated=False, bias=True)
    mixer = attention(d, rotary=0, bias=True, causal=False)
    block = layer("dense", d.width, mixer, ffn, norm=layer_norm, before=False, after=True)
    return _squeezed(c, block, (layer_norm("encoder_norm", d.width),))


@complete("sew-d")
def sew_d(c: Config) -> Model:
    """SEW-D (arXiv:2109.06870): SEW with layers of DeBERTa."""
    c.mark_read("max_position_embeddings", "feature_layer_norm_eps")
    block, tables = bucketed_layer(c)
    return _squeezed(c, block, tables)


def _squeezed(c: Config, block: Block, before: Modules) -> Model:
    """SEW around its layers: a convolution keeps one position of `squeeze_factor`, a product undoes it."""
    c.mark_read(*TRAINING)
    d, factor, taps = dims(c, kv_key=HEADS), c.size("squeeze_factor", 2), c.size("num_conv_pos_embeddings", 128)
    front, length, last = feature_encoder(c, c.text("feat_extract_norm", "group", ("group", "layer")))
    fewer = min(length // factor, strided_frames(length, taps, factor, taps // 2))

    def squeezed(modules: Modules) -> Modules:
        return tuple(replace(m, positions=fewer) if m.stream == "" else m for m in modules)

    wider = (dense("feature_proj", last, d.width),) if last != d.width else ()
    embedding = (
        *front, layer_norm("feature_norm", last), *wider, *masked_vector(c, d.width),
        *position_convolution(c, d.width, length, stride=factor), *squeezed(before),
    )  # fmt: skip
    up = at(fewer, acted("upsampling", d.width, d.width * factor, c.text("feat_extract_activation", "gelu")))
    blocks = [Block("dense", squeezed(block.modules))] * d.layers
    return encoder(
        c, d.width, blocks, embedding=embedding, head=(*up, *speech_head(c, d, d.width, length)), positions=length
    )


@complete("audio-spectrogram-transformer")
def audio_spectrogram_transformer(c: Config) -> Model:
    """AST (arXiv:2104.01778): a vision transformer over the patches of a spectrogram, with two tokens of its own."""
    d, patch, act = dims(c, kv_key=HEADS), c.size("patch_size", 16), activation(c, default="gelu")
    mels, columns = c.size("num_mel_bins", 128), c.size("max_length", 1024)
    rows = strided_frames(mels, patch, c.size("frequency_stride", 10))
    patches = rows * strided_frames(columns, patch, c.size("time_stride", 10))
    positions = patches + 2
    mixer = attention(d, rotary=0, bias=c.flag("qkv_bias", True), out_bias=True, causal=False)
    block = layer(
        "dense", d.width, mixer, mlp(d.width, c.size("intermediate_size"), act, gated=False, bias=True), norm=layer_norm
    )
    embedding = (
        *at(patches, (patch_embedding("patch_embedding", 1, patch * patch, d.width),)),
        Learned(name="class_tokens", width=d.width, rows=2, applied=False),
        Learned(name="position_embedding", width=d.width, rows=positions),
    )  # fmt: skip
    head: Modules = (layer_norm("final_norm", d.width),)
    if c.architecture.endswith("ForAudioClassification"):
        head = (*head, *at_one((layer_norm("class_norm", d.width), dense("classifier", d.width, label_count(c)))))
    return encoder(c, d.width, [block] * d.layers, embedding=embedding, head=head, positions=positions)
