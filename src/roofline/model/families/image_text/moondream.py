"""Moondream 3: a small decoder of experts beside SigLIP's layers, by the code that serves it (vLLM's moondream3.py)."""

from __future__ import annotations

from dataclasses import replace

from roofline.model.configs.config import MOST_LAYERS, Config
from roofline.model.families.blocks.attention import attention
from roofline.model.families.blocks.encoders import at
from roofline.model.families.blocks.feed_forward import mlp, moe
from roofline.model.families.blocks.images.vision import TowerStage, Vit, position_rows, projection, streamed
from roofline.model.families.blocks.layers import causal_lm, parallel_layer, with_before
from roofline.model.families.blocks.norms import layer_norm
from roofline.model.families.blocks.sizes import Dims
from roofline.model.families.blocks.text_heads import dense
from roofline.model.families.registry import complete
from roofline.model.families.towers.resampled import unapplied
from roofline.model.media.images import IMAGES
from roofline.model.model import Block, Model
from roofline.model.modules import Activation, Gate, Linear, Modules


@complete("moondream3")
def moondream3(c: Config) -> Model:
    """Moondream 3 (model card moondream/moondream3-preview): attention and experts side by side in each layer.

    A config that leaves sizes out, as the published one does, has those of its code.
    """
    inside = c.section("config")
    c.mark_read("config", "architectures")
    t, sparse = inside.section("text"), inside.section("text").section("moe")
    inside.mark_read("text", "vision", "region", "tokenizer", "skills")
    width, heads = t.size("dim", 2048), t.size("n_heads", 32)
    d = Dims(t.size("n_layers", 24, most=MOST_LAYERS), width, heads, t.size("n_kv_heads", heads), width // heads)
    mixer = _scaled_attention(d)
    plain = mlp(width, t.size("ff_dim", 8192), "gelu_pytorch_tanh", gated=False, bias=True)
    experts = moe(
        t, width, sparse.size("num_experts", 64), sparse.size("experts_per_token", 8),
        sparse.size("expert_inner_dim", 1024), act="gelu", router_bias=True,
    )  # fmt: skip
    first = sparse.size("start_layer", 4, least=0)
    blocks = [parallel_layer("moe" if i >= first else "dense", width, mixer, experts if i >= first else plain)
              for i in range(d.layers)]  # fmt: skip
    sizes = {"vocab_size": t.size("vocab_size", 51200), "max_position_embeddings": t.size("max_context", 4096)}
    t.mark_read("prefix_attn", "group_size", "moe")
    model = causal_lm(c.with_values(**sizes), width, blocks, norm=layer_norm, head_bias=True)
    seen = _tower(inside.section("vision"), width)
    return replace(model, towers=tuple(streamed((*seen, _region(inside.section("region"), width)), IMAGES)))


def _scaled_attention(d: Dims) -> Modules:
    """Attention whose queries and values are scaled per head, by the token and by its position."""
    every = (d.heads + 2 * d.kv_heads) * d.head_dim
    scales: Modules = (
        Activation(name="tau_act", width=every, function="gelu", gated=False),
        Linear(name="tau_proj", inputs=every, outputs=2 * d.heads, part="attention"),
        unapplied("tau_positions", d.heads),
        Gate(name="tau_queries", width=d.heads * d.head_dim, gates=d.heads),
        Gate(name="tau_values", width=d.kv_heads * d.head_dim, gates=d.kv_heads),
    )
    return with_before(attention(d, rotary=d.head_dim // 2, bias=True), "rope", *scales)


def _tower(v: Config, width: int) -> tuple[TowerStage, TowerStage]:
    """A crop of an image: its patches, and a projector of them beside those of the whole image."""
    own, side = v.size("enc_dim", 1152), v.size("crop_size", 378) // v.size("enc_patch_size", 14)
    layers, heads, inner = v.size("enc_n_layers", 27), v.size("enc_n_heads", 16), v.size("enc_ff_dim", 4304)
    v.mark_read("max_crops", "overlap_margin", "in_channels", "proj_out_dim")
    values = 3 * v.size("enc_patch_size", 14) ** 2
    front = Block("patches", (dense("patch_embedding", values, own), position_rows(own, side * side)))
    blocks = Vit(layers, own, heads, inner, "gelu_pytorch_tanh").blocks
    part = TowerStage("vision", own, (front, *blocks, Block("norm", (layer_norm("final_norm", own),))), side * side)
    sizes = (2 * own, v.size("proj_inner_dim", 8192), width)
    project = projection("projector", sizes, act="gelu_pytorch_tanh")
    return part, TowerStage("projector", width, (Block("projector", at(side * side, project.modules)),))


def _region(r: Config, width: int) -> TowerStage:
    """What reads and writes coordinates and sizes, which an answer in text runs none of."""
    near, far = r.size("coord_feat_dim", 256), r.size("size_feat_dim", 512)
    r.mark_read("dim")
    modules = (
        unapplied("coordinate_features", near // 2), unapplied("size_features", far // 2, 2),
        dense("coordinate_in", near, width), dense("coordinate_out", width, r.size("coord_out_dim", 1024)),
        dense("size_in", far, width), dense("size_out", width, r.size("size_out_dim", 2048)),
        layer_norm("region_norm", width),
    )  # fmt: skip
    return TowerStage("region", width, (Block("region", tuple(replace(m, idle=True) for m in modules)),))
