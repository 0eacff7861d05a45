"""Forecasters of time series: PatchTST."""

from __future__ import annotations

from roofline.model.config import Config
from roofline.model.families.blocks.attention import attention
from roofline.model.families.blocks.encoders import at, encoder
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.norms import layer_norm
from roofline.model.families.blocks.seq2seq import sublayers
from roofline.model.families.blocks.sizes import HEADS, dims
from roofline.model.families.blocks.sound import channel_norm, strided
from roofline.model.families.blocks.text_heads import dense
from roofline.model.families.registry import whole
from roofline.model.model import Model
from roofline.model.modules import Learned, Modules

_STEERING = """
    distribution_output loss num_parallel_samples channel_consistent_masking do_mask_input mask_type mask_value
    random_mask_ratio num_forecast_mask_patches unmasked_channel_indices scaling positional_dropout path_dropout
    ff_dropout head_dropout init_std output_range bias pooling_type positional_encoding_type share_projection
    share_embedding prediction_length num_targets use_cls_token dropout
""".split()


@whole("patchtst")
def patchtst(c: Config) -> Model:
    """PatchTST (arXiv:2211.14730): patches of a series as tokens; each channel is a sequence of its own."""
    c.mark_read(*_STEERING)
    d, channels = dims(c, kv_key=HEADS), c.size("num_input_channels", 1)
    size, stride, context = c.size("patch_length", 1), c.size("patch_stride", 1), c.size("context_length", 32)
    if context < size:
        raise c.error("context_length", f"at least a patch of {size}")
    patches, own = strided(context, size, stride), c.flag("use_cls_token", False)
    length, bias = patches + own, c.flag("bias", True)
    norm = channel_norm if c.text("norm_type", "batchnorm") == "batchnorm" else layer_norm
    ffn = mlp(d.width, c.size("ffn_dim", 512), activation(c, "activation_function", "gelu"), gated=False, bias=bias)
    if c.flag("channel_attention", False):
        raise c.error("channel_attention", "false: attention between channels is not covered")
    parts = (("attn", attention(d, rotary=0, bias=bias, causal=False)), ("ffn", ffn))
    block = sublayers("dense", d.width, parts, norm=norm, before=c.flag("pre_norm", True))
    shared = c.flag("share_embedding", True)
    embedding: Modules = (
        *at(patches, (dense("patch_embedding", size, d.width),), channels),
        *([] if shared else [Learned(name="other_patches", width=(size + 1) * d.width, rows=channels - 1, applied=False)]),
        *([Learned(name="class_token", width=d.width, applied=False)] if own else []),
        Learned(name="position_embedding", width=d.width, rows=length),
    )  # fmt: skip
    blocks = [type(block)(block.name, at(length, block.modules, channels))] * d.layers
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
