"""Readers of text in scenes: MGP-STR."""

from __future__ import annotations

from roofline.model.config import Config
from roofline.model.families.blocks.attention import attention
from roofline.model.families.blocks.encoders import at, encoder, patch_embedding
from roofline.model.families.blocks.feed_forward import mlp
from roofline.model.families.blocks.layers import layer
from roofline.model.families.blocks.norms import layer_norm
from roofline.model.families.blocks.sizes import HEADS, dims
from roofline.model.families.blocks.sound import size_list
from roofline.model.families.blocks.text_heads import dense
from roofline.model.families.registry import complete
from roofline.model.model import Block, Model
from roofline.model.modules import Attention, Learned, Linear, Modules


@complete("mgp-str")
def mgp_str(c: Config) -> Model:
    """MGP-STR (arXiv:2209.03592): a vision transformer, and a learned mean of its positions for each character."""
    c.mark_read("output_a3_attentions", "drop_rate", "attn_drop_rate", "max_token_length")
    c.mark_read("num_character_labels", "num_bpe_labels", "num_wordpiece_labels")
    d, own = dims(c, kv_key=HEADS), 2 if c.flag("distilled") else 1
    rows, columns = size_list(c, "image_size", 2, [32, 128])
    high, *rest = size_list(c, "patch_size", None, [4])
    wide, channels = rest[0] if rest else high, c.size("num_channels", 3)
    patches = (rows // high) * (columns // wide)
    length = patches + own
    front: Modules = (
        *at(patches, (patch_embedding("patch_embedding", channels, high * wide, d.width),)),
        Learned(name="class_token", width=d.width, applied=False),
        Learned(name="position_embedding", width=d.width, rows=length, applied=False),
    )  # fmt: skip
    inner = int(d.width * c.number("mlp_ratio", 4.0))
    mixer = attention(d, rotary=0, bias=c.flag("qkv_bias", True), out_bias=True, causal=False)
    block = layer("dense", d.width, mixer, mlp(d.width, inner, "gelu", gated=False, bias=True), norm=layer_norm)
    head: Modules = ()
    if c.architecture.endswith("ForSceneTextRecognition"):
        for name, rows in (("character", 38), ("bpe", 50_257), ("wordpiece", 30_522)):
            labels = c.size(f"num_{name}_labels", rows)
            head = (*head, *_means(c, name, d.width, length), *at(c.size("max_token_length", 27), (
                dense(f"{name}_head", d.width, labels),
            )))  # fmt: skip
    blocks = [Block(block.name, at(length, block.modules))] * d.layers
    return encoder(c, d.width, blocks, embedding=front, head=head, positions=length)


def _means(c: Config, name: str, width: int, length: int) -> Modules:
    """A3: one mean of the positions for each character, with weights that a product makes."""
    count = c.size("max_token_length", 27)

    def narrow(part: str, outputs: int, groups: int = 1) -> Linear:
        return Linear(name=f"{name}_{part}", inputs=width, outputs=outputs, groups=groups, part="other")

    weighed = Attention(
        name=f"{name}_means", heads=1, kv_heads=1, head_dim=0, v_head_dim=width, causal=False, keys=length
    )
    norm, mixed, weights = layer_norm(f"{name}_norm", width), narrow("mixed", width, 8), narrow("weights", count)
    seen = (norm, mixed, weights, narrow("values", width, 8))
    return (*at(length, seen), *at(count, (weighed, layer_norm(f"{name}_out_norm", width))))
