"""Florence-2: DaViT sees, BART reads what it saw before the words."""

from __future__ import annotations

from dataclasses import replace

from roofline.model.configs.config import MOST_LAYERS, Config
from roofline.model.families.blocks.encoders import at, tower
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.images.convolutions import chain, conv, everywhere, in_groups, residual
from roofline.model.families.blocks.images.sight import (
    Map,
    Sight,
    image_model,
    inner_width,
    read_part,
    refused_head,
    same_length,
    sees_all,
    stage_sizes,
)
from roofline.model.families.blocks.layers import layer, position_table
from roofline.model.families.blocks.norms import layer_norm
from roofline.model.families.blocks.projections import column_product, row_product
from roofline.model.families.blocks.sizes import Dims
from roofline.model.families.image_text.image_to_text import bart_decoder
from roofline.model.families.registry import complete
from roofline.model.families.vision.backbones import shown
from roofline.model.families.vision.convnets import image_map
from roofline.model.model import Block, Model
from roofline.model.modules import Add, Attention, Embedding, Learned, Linear, Modules


def davit_sight(c: Config) -> Sight:
    """DaViT (arXiv:2204.03645): attention in windows, then between groups of channels."""
    act, bias, window = (
        activation(c, "activation_function", "gelu"),
        c.flag("qkv_bias", True),
        c.size("window_size", 12),
    )
    keys = ("embed_dim", "depths", "num_heads", "num_groups", "patch_size", "patch_stride", "patch_padding")
    lists = [stage_sizes(c, key, 0) for key in keys]
    before = c.value("patch_prenorm")[1]
    if not isinstance(before, (list, tuple)) or any(type(flag) is not bool for flag in before):
        raise c.error("patch_prenorm", "a list of true and false")
    same_length(c, "embed_dim", *lists, [int(bool(flag)) for flag in before])
    x, blocks, maps = image_map(c, 768), [], []
    for i, (wide, depth, heads, groups, patch, stride, padding) in enumerate(zip(*lists, strict=True)):
        step = conv("patch_embedding", wide, patch, stride, bias=True, norm=None, padding=padding)
        norms = everywhere(layer_norm("patch_norm", x.channels if before[i] else wide))
        modules, x = chain(x, *((norms, step) if before[i] else (step, norms)))
        blocks.append(Block(f"patches{i + 1}", modules))
        n, d = x.positions, Dims(depth, wide, heads, heads, wide // heads)
        runs = -(-x.rows // window) * -(-x.columns // window)
        spatial = at(window * window, sees_all(d, (bias, bias, bias)), runs)
        core = Attention(name="attention", heads=groups, kv_heads=groups, head_dim=n, v_head_dim=n, causal=False)
        channels = (
            *at(n, (column_product("qkv_proj", wide, 3 * wide, bias),)), *at(wide // groups, (core,)),
            *at(n, (row_product("o_proj", wide, wide, True),)),
        )  # fmt: skip
        feeds = mlp(wide, inner_width(c, wide), act, gated=False, bias=True)
        for name, mixer in (("windowed", spatial), ("channels", channels)):
            blocks += [Block(f"{name}{i + 1}", _mixed(x, mixer, feeds))]
        pair = blocks[-2:]
        blocks = [*blocks[:-2], *pair * depth]
        maps.append(x)
    return Sight((), tuple(blocks), x.channels, x.rows, x.columns, maps=tuple(maps))


def _mixed(x: Map, mixer: Modules, feeds: Modules) -> Modules:
    """A convolution of each channel before the attention and before the feed-forward network."""
    first, _ = residual(x, in_groups(conv("conv1", x.channels, bias=True, norm=None)), name="conv1_residual")
    second, _ = residual(x, in_groups(conv("conv2", x.channels, bias=True, norm=None)), name="conv2_residual")
    width, n = x.channels, x.positions
    return (
        *first, *at(n, (layer_norm("attn_norm", width),)), *mixer, *at(n, (Add(name="attn_residual", width=width),)),
        *second, *at(n, (layer_norm("ffn_norm", width), *feeds, Add(name="ffn_residual", width=width))),
    )  # fmt: skip


@complete("florence_vision")
def florence_vision(c: Config) -> Model:
    """The DaViT of Florence-2."""
    c.mark_read("projection_dim", "max_temporal_embeddings", "max_position_embeddings")
    return image_model(c, davit_sight(c))


@complete("florence2")
def florence2(c: Config) -> Model:
    """Florence-2 (arXiv:2311.06242): tokens of the image stand before those of the prompt in BART's encoder."""
    if c.architecture and not c.architecture.endswith("ForConditionalGeneration"):
        raise refused_head(c, "Florence2ForConditionalGeneration")
    vision, text = read_part(shown(c, 768, 768), "vision_config"), read_part(c, "text_config")
    if text.kind != "bart":
        raise text.error("model_type", "bart")
    sight, size = davit_sight(vision), vision.size("projection_dim", 768)
    rows = vision.size("max_position_embeddings", 50)
    project = at(sight.patches + 1, (
        Linear(name="image_proj", inputs=sight.width, outputs=size, part="other"), layer_norm("image_proj_norm", size),
    ))  # fmt: skip
    places = Learned(name="image_positions", width=sight.width, rows=rows, applied=False)
    blocks = [*sight.blocks, Block("projector", (places, *project))]
    seeing = tower("vision", "images", sight.width, blocks, sight.patches + 1, quantised=True)
    heads, width = text.size("encoder_attention_heads"), text.size("d_model")
    e = Dims(text.size("encoder_layers", most=MOST_LAYERS), width, heads, heads, width // heads)
    act = activation(text, "activation_function", "gelu")
    ffn = mlp(width, text.size("encoder_ffn_dim"), act, gated=False, bias=True)
    reads = layer("dense", width, sees_all(e), ffn, norm=layer_norm, before=False, after=True)
    table = position_table(text, width, 2)
    front = Block("front", (replace(table, name="positions"), layer_norm("embedding_norm", width)))
    encoder = tower("encoder", "source", width, [front, *[reads] * e.layers], quantised=True)
    model = bart_decoder(c, text, encoder, width, before=False, table=True, norm=True)
    c.mark_read("is_encoder_decoder", "tie_word_embeddings", "image_token_id")
    assert all(isinstance(m, Embedding) for m in model.embedding[:1])
    return replace(model, towers=(seeing, *model.towers))
