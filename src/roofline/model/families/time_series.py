"""Forecasters of time series: PatchTST, PatchTSMixer, TimesFM."""

from __future__ import annotations

from dataclasses import replace

from roofline.model.configs.config import MOST_LAYERS, Config
from roofline.model.families.blocks.attention import attention, rope_section
from roofline.model.families.blocks.encoders import at, encoder
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.layers import again, layer, with_before
from roofline.model.families.blocks.norms import layer_norm, per_head, rms
from roofline.model.families.blocks.seq2seq import sublayers
from roofline.model.families.blocks.sizes import HEADS, Dims, dims
from roofline.model.families.blocks.sound import channel_norm, strided_frames
from roofline.model.families.blocks.text_heads import acted, dense
from roofline.model.families.registry import complete
from roofline.model.model import Block, Model
from roofline.model.modules import Add, Embedding, Gate, Learned, Module, Modules

_STEERING = """
    distribution_output loss num_parallel_samples channel_consistent_masking do_mask_input mask_type mask_value
    random_mask_ratio num_forecast_mask_patches unmasked_channel_indices scaling positional_dropout path_dropout
    ff_dropout head_dropout init_std output_range bias pooling_type positional_encoding_type share_projection
    share_embedding prediction_length num_targets use_cls_token dropout
""".split()


@complete("patchtst")
def patchtst(c: Config) -> Model:
    """PatchTST (arXiv:2211.14730): patches of a series as tokens; each channel is a sequence of its own."""
    c.mark_read(*_STEERING)
    d, channels = dims(c, kv_key=HEADS), c.size("num_input_channels", 1)
    size, stride, context = c.size("patch_length", 1), c.size("patch_stride", 1), c.size("context_length", 32)
    if context < size:
        raise c.error("context_length", f"at least a patch of {size}")
    patches, own = strided_frames(context, size, stride), c.flag("use_cls_token", False)
    length, bias = patches + own, c.flag("bias", True)
    norm = channel_norm if c.text("norm_type", "batchnorm") == "batchnorm" else layer_norm
    ffn = mlp(d.width, c.size("ffn_dim", 512), activation(c, "activation_function", "gelu"), gated=False, bias=bias)
    mixer = attention(d, rotary=0, bias=True, causal=False)
    parts = [("attn", at(length, mixer, channels)), ("ffn", at(length, ffn, channels))]
    if c.flag("channel_attention", False):  # the same weights, between the channels of a patch
        across = tuple(replace(m, name=f"channel_{m.name}") for m in again(mixer))
        parts.insert(1, ("channel", at(channels, across, length)))
    block = sublayers("dense", d.width, parts, norm=norm, before=c.flag("pre_norm", True))
    shared, others = c.flag("share_embedding", True), (size + 1) * d.width
    embedding: Modules = (
        *at(patches, (dense("patch_embedding", size, d.width),), channels),
        *([] if shared else [Learned(name="other_patches", width=others, rows=channels - 1, applied=False)]),
        *([Learned(name="class_token", width=d.width, applied=False)] if own else []),
        Learned(name="position_embedding", width=d.width, rows=length),
    )  # fmt: skip
    placed = (m if m.positions else replace(m, positions=length, runs=channels) for m in block.modules)
    blocks = [Block(block.name, tuple(placed))] * d.layers
    return encoder(
        c, d.width, blocks, embedding=embedding, head=_forecast(c, d.width, patches, channels), positions=length
    )


def _forecast(c: Config, width: int, patches: int, channels: int) -> Modules:
    """The head of a task: classes of the whole, values of every patch, values ahead of each channel."""
    name, pooled_by = c.architecture, c.get("pooling_type", "mean")
    kept = 1 if pooled_by in ("mean", "max") or c.flag("use_cls_token", False) else patches
    if name.endswith("ForClassification"):
        return at(1, (dense("classes", width * channels * kept, c.size("num_targets", 1)),))
    if name.endswith("ForPretraining"):
        return at(patches, (dense("patches", width, c.size("patch_length", 1)),), channels)
    if name.endswith(("ForPrediction", "ForRegression")):
        raise c.error("architectures", "the base class, or one of classes: heads of distributions are not covered")
    return ()


def residual_block(name: str, inputs: int, inner: int, outputs: int, *, bias: bool = True) -> Modules:
    """Two products around SiLU, and a third beside them."""
    return (
        *acted(f"{name}_in", inputs, inner, "silu", bias=bias), dense(f"{name}_out", inner, outputs, bias=bias),
        dense(f"{name}_beside", inputs, outputs, bias=bias), Add(name=f"{name}_add", width=outputs),
    )  # fmt: skip


def _is_base(c: Config) -> bool:
    """Whether the class has no forecasts."""
    return c.architecture in c.defaults.bases


@complete("timesfm")
def timesfm(c: Config) -> Model:
    """TimesFM (arXiv:2310.10688): a decoder over patches of a series, with forecasts behind each."""
    c.mark_read("min_timescale", "max_timescale", "pad_val", "tolerance", "num_hidden_layers")
    d, patch, inner = dims(c, kv_key=HEADS), c.size("patch_length", 32), c.size("intermediate_size")
    quantiles = c.value("quantiles", [0.1 * i for i in range(1, 10)])[1]
    values = c.size("horizon_length", 128) * (1 + len(quantiles)) if isinstance(quantiles, list) else 0
    if not values:
        raise c.error("quantiles", "a list of quantiles")
    scale = Learned(name="query_scale", width=d.head_dim, applied=False)
    mixer = with_before(attention(d, rotary=0, bias=True), "attention", scale)
    ffn = (layer_norm("ffn_norm", d.width), *mlp(d.width, inner, "relu", gated=False, bias=True))
    parts = (rms("attn_norm", d.width), *mixer, Add(name="attn_residual", width=d.width), *ffn)
    block = Block("dense", (*parts, Add(name="ffn_residual", width=d.width)))
    table = Embedding(name="frequency_embedding", rows=c.size("freq_size", 3), width=d.width)
    embedding = (*residual_block("patch", 2 * patch, inner, d.width), table)
    c.flag("use_positional_embedding", True)
    head = () if _is_base(c) else residual_block("horizon", d.width, inner, values)
    length = c.size("context_length", 512) // patch
    return encoder(c, d.width, [block] * d.layers, embedding=embedding, head=head, positions=length)


@complete("timesfm2_5")
def timesfm2_5(c: Config) -> Model:
    """TimesFM 2.5 (Google, 2025): rotary positions, norms before and after sublayers, a second head of quantiles."""
    c.mark_read(
        "decode_index", "infer_is_positive", "max_position_embeddings", "use_cache", "min_timescale", "max_timescale"
    )
    d, patch, inner = dims(c), c.size("patch_length", 32), c.size("intermediate_size")
    quantiles = c.value("quantiles", [0.1 * i for i in range(1, 10)])[1]
    count = 1 + len(quantiles) if isinstance(quantiles, list) else 1
    rope_section(c)
    act, bias = c.text("activation", "swish"), c.flag("use_bias", False)
    mixer = attention(d, rotary=d.head_dim, bias=c.flag("attention_bias", False), qk_norm=per_head)
    mixer = with_before(mixer, "attention", Learned(name="query_scale", width=d.head_dim, applied=False))
    ffn = mlp(d.width, inner, act, gated=False, bias=bias)
    block = layer("dense", d.width, mixer, ffn, after=True)
    runs = 2 if c.flag("force_flip_invariance", True) else 1
    head = residual_block("point", d.width, d.width, c.size("horizon_length", 128) * count, bias=bias)
    if c.flag("use_continuous_quantile_head", True):
        ahead = c.size("output_quantile_len", 1024) * count
        head = (*head, *residual_block("quantile", d.width, d.width, ahead, bias=bias))
    length = c.size("context_length", 16384) // patch
    embedding = residual_block("patch", 2 * patch, d.width, d.width)
    blocks = [Block(block.name, at(length, block.modules, runs))] * d.layers
    embedding, head = at(length, embedding, runs), () if _is_base(c) else at(length, head, runs)
    return encoder(c, d.width, blocks, embedding=embedding, head=head, positions=length)


@complete("patchtsmixer")
def patchtsmixer(c: Config) -> Model:
    """PatchTSMixer (arXiv:2306.09364): feed-forward networks across patches, values and, where they mix, channels."""
    c.mark_read(*_STEERING, *_MIXING)
    width, channels, factor = c.size("d_model", 8), c.size("num_input_channels", 1), c.size("expansion_factor", 2)
    size, stride, context = c.size("patch_length", 8), c.size("patch_stride", 8), c.size("context_length", 32)
    patches, gated = strided_frames(max(context, size), size, stride), c.flag("gated_attn", True)

    def mixed(name: str, across: int, rows: int, runs: int) -> Modules:
        gate = (dense(f"{name}_gate", across, across), Gate(name=f"{name}_weigh", width=across, gates=across))
        ffn = mlp(across, factor * across, "gelu", gated=False, bias=True, prefix=f"{name}_")
        return at(rows, (*ffn, *(gate if gated else ())), runs)

    heads = c.size("self_attn_heads", 1)
    every = Dims(1, width, heads, heads, width // heads)
    parts: list[Module] = []
    if c.text("mode", "common_channel", ("common_channel", "mix_channel")) == "mix_channel":
        parts += [
            *at(patches, (layer_norm("channel_norm", width),), channels),
            *mixed("channels", channels, patches, width),
        ]
    parts += [*at(patches, (layer_norm("patch_norm", width),), channels), *mixed("patches", patches, width, channels)]
    if c.flag("self_attn", False):
        mixer = attention(every, rotary=0, bias=True, causal=False)
        parts += at(patches, (*mixer, layer_norm("attn_norm", width)), channels)
    parts += [*at(patches, (layer_norm("value_norm", width),), channels), *mixed("values", width, patches, channels)]
    front: Modules = at(patches, (dense("patch_embedding", size, width),), channels)
    if c.flag("use_positional_encoding", False):
        front = (*front, Learned(name="position_embedding", width=width, rows=patches, applied=False))
    blocks = [Block("mixer", tuple(parts))] * c.size("num_layers", 3, most=MOST_LAYERS)
    return encoder(c, width, blocks, embedding=front, head=_mixer_head(c, width, patches, channels), positions=patches)


def _mixer_head(c: Config, width: int, patches: int, channels: int) -> Modules:
    """The head of a task, and statistics of the series joined to what classes read."""
    name = c.architecture
    if name.endswith("ForPretraining"):
        return at(patches, (dense("patches", width, c.size("patch_length", 8)),), channels)
    if name.endswith("ForPrediction"):
        if c.text("loss", "mse") != "mse":
            raise c.error("loss", "mse: heads of distributions are not covered")
        return at(1, (dense("forecast", patches * width, c.size("prediction_length", 16)),), channels)
    if name.endswith(("ForTimeSeriesClassification", "ForRegression")):
        if name.endswith("ForRegression") and c.text("loss", "mse") != "mse":
            raise c.error("loss", "mse: heads of distributions are not covered")
        kept = patches if c.get("head_aggregation", "max_pool") is None else 1
        head = at(1, (dense("classes", width * channels * kept, c.size("num_targets", 3)),))
        if c.get("scaling", "std") not in ("std", "mean", True):
            return head
        wide = (dense("with_statistics", width + 2, 2 * width), dense("without_statistics", 2 * width, width))
        few = (dense("statistics_in", 2, 4), dense("statistics_out", 4, 2))
        return (*at(patches, (*few, *wide), channels), *head)
    return ()


_MIXING = """
    loss scaling head_aggregation self_attn_heads norm_mlp masked_loss prediction_channel_indices num_patches patch_last
""".split()
