"""Words and images in one encoder: ViLT, BridgeTower; CLIPSeg and GroupViT, which group what CLIP sees."""

from __future__ import annotations

from dataclasses import replace

from roofline.model.configs.config import Config
from roofline.model.families.blocks.encoders import at, at_one, encoder, tower
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.images.convolutions import MapStep, chain, conv, everywhere, transposed
from roofline.model.families.blocks.images.sight import (
    Map,
    Sight,
    TokensBeside,
    both_sides,
    head_of,
    image_model,
    indices,
    looks_at,
    not_used,
    over,
    patched,
    plain_mlp,
    pooler,
    read_part,
    same_length,
    sees_all,
    stage_sizes,
    vision_dims,
    vision_layer,
)
from roofline.model.families.blocks.joint import of_images, one_sequence, words_and_image
from roofline.model.families.blocks.layers import again, layer, position_table
from roofline.model.families.blocks.norms import layer_norm
from roofline.model.families.blocks.projections import column_product, row_product
from roofline.model.families.blocks.sizes import Dims
from roofline.model.families.blocks.text_heads import acted, dense, masked_words
from roofline.model.families.image_text.clip import (
    TextPart,
    bert_words,
    clip_sight,
    clip_words,
    contrastive_model,
    shared_projection,
    text_model,
)
from roofline.model.families.registry import complete
from roofline.model.families.vision.detection.detr import heads_of
from roofline.model.heads import label_count
from roofline.model.model import Block, Model
from roofline.model.modules import Activation, Add, Embedding, Learned, Linear, Modules


# -- ViLT ----------------------------------------------------------------------------------------------------------
@complete("vilt")
def vilt(c: Config) -> Model:
    """ViLT (arXiv:2102.03334): words and patches in one sequence."""
    task = head_of(c, "ForMaskedLM", "ForQuestionAnswering", "ForImageAndTextRetrieval", "ForTokenClassification")
    d, vocab, bias = vision_dims(c), c.size("vocab_size", most=2**28), c.flag("qkv_bias", True)
    block = vision_layer(d.width, sees_all(d, (bias, bias, bias)), plain_mlp(c, d.width, activation(c, default="gelu")))
    sight = patched(c, d, [], TokensBeside())
    longest = c.value("max_image_length", -1)[1]
    n = sight.positions if type(longest) is not int or longest < 0 else min(sight.patches, longest) + 1
    tables = (
        Embedding(name="embedding", rows=vocab, width=d.width, shared=task == "ForMaskedLM"),
        Embedding(name="type_embedding", rows=c.size("type_vocab_size", 2), width=d.width),
        position_table(c, d.width), layer_norm("embedding_norm", d.width),
        Embedding(name="kind_embedding", rows=c.size("modality_type_vocab_size", 2), width=d.width),
    )  # fmt: skip
    norm = layer_norm("final_norm", d.width)
    head: Modules = (norm, *of_images(n, again((norm,))))
    if task != "ForTokenClassification":
        head += pooler(d.width)
    if task == "ForQuestionAnswering":
        wide = 2 * d.width
        head += at_one((
            dense("answer_proj", d.width, wide), layer_norm("answer_norm", wide),
            Activation(name="answer_act", width=wide, function="gelu", gated=False),
            dense("classifier", wide, label_count(c)),
        ))  # fmt: skip
    elif task == "ForImageAndTextRetrieval":
        head += at_one((dense("rank", d.width, 1),))
    elif task:
        words = masked_words(c, d.width, twice=False)
        head += words if task == "ForMaskedLM" else (dense("classifier", d.width, label_count(c)),)
    c.mark_read("num_images", "tie_word_embeddings")
    model = encoder(c, d.width, [one_sequence(block, n)] * d.layers, embedding=tables, head=head, vocab=vocab)
    seeing = tower("vision", "images", d.width, [Block("front", sight.front)], n, quantised=True)
    return replace(model, towers=(seeing,), context=c.size("max_position_embeddings"))


# -- BridgeTower ---------------------------------------------------------------------------------------------------
def bridge_sight(c: Config) -> Sight:
    """BridgeTower's images: CLIP's, with heads of 64 values and norms of each layer's output."""
    wide = c.size("hidden_size")
    heads, last = max(1, wide // 64), int(c.flag("remove_last_layer"))
    d = Dims(c.size("num_hidden_layers", least=1) - last, wide, heads, heads, wide // heads)
    block = vision_layer(wide, sees_all(d), mlp(wide, 4 * wide, "quick_gelu", gated=False, bias=True))
    c.mark_read("stop_gradient", "initializer_factor")
    return patched(c, d, block, TokensBeside(bias=False), before=(layer_norm("pre_norm", wide),))


def _separate_norms(c: Config, width: int, positions: int) -> Modules:
    """Norms of each layer's output, where they do not share one."""
    count = 0 if c.flag("share_layernorm", True) else c.size("num_hidden_layers")
    return at(positions, tuple(layer_norm(f"layer{i}_norm", width) for i in range(count)))


@complete("bridgetower_vision_model")
def bridgetower_vision_model(c: Config) -> Model:
    """The images of BridgeTower."""
    sight, separate = bridge_sight(c), not c.flag("share_layernorm", True)
    norm = at(sight.positions, (layer_norm("post_norm", sight.width),))
    norms = _separate_norms(c, sight.width, sight.positions)
    return image_model(c, sight, (*(not_used(norm) if separate else norm), *norms))


@complete("bridgetower_text_model", "xclip_text_model", "groupvit_text_model")
def words_alone(c: Config) -> Model:
    """The text of BridgeTower, X-CLIP and GroupViT."""
    if c.kind == "bridgetower_text_model":
        c.mark_read("initializer_factor", "is_decoder")
        words = bert_words(c, 1)
        return text_model(c, words, pooler(words.width))
    return text_model(c, clip_words(c))


def _meets(c: Config, d: Dims, n: int, act: str) -> tuple[Modules, Modules]:
    """A layer of words that look at the image, and one of the image that looks at words."""
    ffn = mlp(d.width, c.size("intermediate_size"), act, gated=False, bias=True)
    own = layer("cross", d.width, sees_all(d), norm=layer_norm, before=False, after=True)
    feeds = layer("cross", d.width, (), ffn, norm=layer_norm, before=False, after=True)
    met = (Add(name="cross_residual", width=d.width), layer_norm("cross_norm", d.width))
    words = (*own.modules, *looks_at(d, n), *met, *feeds.modules)
    product = column_product("image_cross_kv_proj", d.width, 2 * d.width, True, kv=2 * d.width, kv_groups=d.heads)
    asks = (column_product("cross_q_proj", d.width, d.width, True),)
    image = (
        *of_images(n, (*own.modules, *asks)), product, words_and_image("image_cross_attention", n, d.heads, d.head_dim),
        *of_images(n, (row_product("cross_o_proj", d.width, d.width, True), *met, *feeds.modules)),
    )  # fmt: skip
    return tuple(replace(m, name=f"word_{m.name}") for m in words), image


@complete("bridgetower")
def bridgetower(c: Config) -> Model:
    """BridgeTower (arXiv:2206.08657): the last layers of two encoders, each bridged to a layer across them."""
    tasks = ("ForMaskedLM", "ForImageAndTextRetrieval", "ForContrastiveLearning")
    task, text, vision = head_of(c, *tasks), read_part(c, "text_config"), read_part(c, "vision_config")
    words, sight = bert_words(text, 1), bridge_sight(vision)
    width, count, t, n = c.size("hidden_size"), c.size("num_hidden_layers"), vision_dims(text), sight.positions
    if t.width != width or count > min(len(words.layers), len(sight.blocks)):
        raise c.error("hidden_size", "the width of the text, with no more layers than the text has")
    act, split = activation(text, default="gelu"), len(words.layers) - count
    same, scaled = c.flag("share_cross_modal_transformer_layers", True), c.text("link_tower_type", "add") != "add"
    to_words, to_image = dense("word_transform", words.width, width), dense("transform", sight.width, width)
    norms = (layer_norm("link_norm", width), *((Learned(name="link_scale", width=1, rows=1),) if scaled else ()))
    post, linked = layer_norm("post_norm", sight.width), c.flag("share_link_tower_layers")
    meets = _meets(text, Dims(1, width, t.heads, t.heads, width // t.heads), n, act)
    kinds = Learned(name="kinds", width=width, rows=2, applied=False)
    blocks: list[Block] = [*words.layers[:split], Block("kinds", (kinds,))]
    images: list[Block] = [*sight.every[: split + 1]]
    for i in range(count):
        first, again_link = i == 0, linked and i > 1
        transforms: tuple[Modules, Modules] = ((to_words,), (post, to_image))
        if not first:
            transforms = (
                again((to_words,)) if same else (to_words,),
                again((post, to_image)) if same else (*again((post,)), to_image),
            )
        link = (layer_norm("word_start_norm", width),) if first else tuple(
            replace(m, name=f"word_{m.name}") for m in (again(norms) if again_link else norms)
        )  # fmt: skip
        seen = (layer_norm("start_norm", width),) if first else again(norms) if again_link else norms
        blocks.append(Block("bridge", (
            *words.layers[split + i].modules, *of_images(n, sight.blocks[split + i].modules, "seen_"),
            *transforms[0], *of_images(n, transforms[1]), *link, *of_images(n, seen), *meets[0], *meets[1],
        )))  # fmt: skip
    ends = (*at_one(acted("word_pooler", width, width)), *of_images(1, acted("pooler", width, width)))
    unread = of_images(1, not_used(_separate_norms(vision, sight.width, 1)), "unused_")
    spare = (*(replace(m, name=f"unused_{m.name}") for m in not_used(pooler(words.width))), *unread)
    head: Modules = (*ends, *spare)
    if task == "ForMaskedLM":
        shared = c.flag("tie_word_embeddings")
        head += masked_words(
            text.with_values(tie_word_embeddings=shared), width, act=activation(c, default="gelu"), twice=False
        )
    elif task == "ForImageAndTextRetrieval":
        head += at_one((dense("matches", 2 * width, 2),))
    elif task:
        size = c.size("contrastive_hidden_size", 512)
        head += (
            *at_one((dense("word_vector", width, size), dense("both_vector", 2 * width, size))),
            *of_images(n, again((post, to_image)), "last_"), *of_images(1, (dense("vector", width, size),)),
            Learned(name="logit_scale", width=1, applied=False),
            *at_one(Linear(name=f"logits{i}", inputs=size, outputs=1, tied=True, part="other") for i in range(3)),
        )  # fmt: skip
    c.mark_read("init_layernorm_from_vision_encoder", "num_attention_heads", "initializer_factor", "hidden_act")
    c.mark_read("contrastive_hidden_size", "tie_word_embeddings")
    model = encoder(c, words.width, blocks, embedding=words.tables, head=head, vocab=words.vocab)
    seeing = tower("vision", "images", sight.width, images, n, quantised=True)
    return replace(model, towers=(seeing,), context=words.context)


# -- FLAVA ---------------------------------------------------------------------------------------------------------
def _flava_layers(c: Config) -> tuple[Dims, Block]:
    d, bias = vision_dims(c), c.flag("qkv_bias", True)
    ffn = plain_mlp(c, d.width, activation(c, default="gelu"))
    return d, vision_layer(d.width, sees_all(d, (bias, bias, bias)), ffn)


def flava_words(c: Config) -> TextPart:
    """FLAVA's text: BERT's tables, norms before sublayers."""
    d, block = _flava_layers(c)
    own = bert_words(c)
    return replace(own, layers=(block,) * d.layers, last=(layer_norm("final_norm", d.width), *pooler(d.width)))


def flava_sight(c: Config) -> Sight:
    """FLAVA's images: a vision transformer."""
    d, block = _flava_layers(c)
    c.mark_read("vocab_size", "mask_token")
    masks = int(c.flag("mask_token", True))
    return patched(c, d, block, TokensBeside(masks=masks), after=(layer_norm("final_norm", d.width),))


@complete("flava_text_model")
def flava_text_model(c: Config) -> Model:
    """The text of FLAVA."""
    return text_model(c, flava_words(c))


@complete("flava_image_model")
def flava_image_model(c: Config) -> Model:
    """The images of FLAVA."""
    sight = flava_sight(c)
    return image_model(c, sight, pooler(sight.width))


@complete("flava")
def flava(c: Config) -> Model:
    """FLAVA (arXiv:2112.04482): an encoder of words, one of images, and one of both in one sequence."""
    head_of(c)
    words, sight = flava_words(read_part(c, "text_config")), flava_sight(read_part(c, "image_config"))
    part, size = read_part(c, "multimodal_config"), c.size("projection_dim", 768)
    d, block = _flava_layers(part)
    extra = int(part.flag("use_cls_token", True))
    n = sight.positions + extra
    token = (Learned(name="both_token", width=d.width, applied=False),) if extra else ()
    norm = layer_norm("both_norm", d.width)
    front = Block("both", (
        *token, dense("words_to_both", words.width, d.width),
        *of_images(sight.positions, (dense("to_both", sight.width, d.width),)),
    ))  # fmt: skip
    spare = not_used((dense("text_projection", words.width, size), dense("image_projection", sight.width, size)))
    both = tuple(replace(m, name=f"both_{m.name}") for m in pooler(d.width))
    head = (norm, *of_images(n, again((norm,))), *both, Learned(name="logit_scale", width=1, applied=False), *spare)
    layers = [*words.layers, Block("words", words.last), front, *[one_sequence(block, n)] * d.layers]
    model = encoder(c, words.width, layers, embedding=words.tables, head=head, vocab=words.vocab)
    images = [*sight.every, Block("pooled", pooler(sight.width))]
    seeing = tower("vision", "images", sight.width, images, sight.positions, quantised=True)
    c.mark_read(*c.raw)
    return replace(model, towers=(seeing,), context=words.context)


# -- CLIPSeg -------------------------------------------------------------------------------------------------------
@complete("clipseg")
def clipseg(c: Config) -> Model:
    """CLIPSeg (arXiv:2112.10003): a small decoder over maps of CLIP, which words condition."""
    task, vision = head_of(c, "ForImageSegmentation"), read_part(c, "vision_config")
    words, sight, size = clip_words(read_part(c, "text_config")), clip_sight(vision), c.size("projection_dim", 512)
    text = (shared_projection("text_projection", words.width, size),)
    image = (shared_projection("visual_projection", sight.width, size),)
    c.mark_read("decoder_hidden_act", "decoder_attention_dropout", "conditional_layer")
    if not task:
        c.mark_read("extract_layers", "reduce_dim", "decoder_num_attention_heads", "decoder_intermediate_size")
        c.mark_read("use_complex_transposed_convolution")
        return contrastive_model(c, words, sight, text=text, image=image)
    wide, heads, n = c.size("reduce_dim", 64), c.size("decoder_num_attention_heads", 4), sight.positions
    maps, patch = indices(c, "extract_layers"), both_sides(vision, "patch_size")[0]
    ffn = mlp(wide, c.size("decoder_intermediate_size", 2048), "relu", gated=False, bias=True)
    d = Dims(len(maps), wide, heads, heads, wide // heads)
    block = layer("mask", wide, sees_all(d), ffn, norm=layer_norm, before=False, after=True)
    reduces = over(n, Block("mask", (dense("reduce", sight.width, wide), *block.modules)))
    films = at_one((dense("film_scale", size, wide), dense("film_shift", size, wide)))
    x = Map(wide, sight.rows, sight.columns)
    act = everywhere(Activation(name="mask_act", width=wide // 2, function="relu", gated=False))
    steps: tuple[MapStep, ...] = (
        conv("mask_conv", wide, bias=True, norm=None, act="relu"),
        transposed("mask_grow1", wide // 2, patch // 4, patch // 4), act,
        transposed("mask_grow2", 1, patch // 4, patch // 4),
    ) if c.flag("use_complex_transposed_convolution") else (transposed("mask_grow", 1, patch, patch),)  # fmt: skip
    ends = [Block("films", films), *[reduces] * len(maps), Block("pixels", chain(x, *steps)[0])]
    blocks = [*sight.every, Block("projection", at_one(image)), *ends]
    head = (*words.last, *at_one(text), Learned(name="logit_scale", width=1, applied=False))
    model = encoder(c, words.width, words.layers, embedding=words.tables, head=head, vocab=words.vocab)
    seeing = tower("vision", "images", sight.width, blocks, n, quantised=True)
    return replace(model, towers=(seeing,), context=words.context)


# -- GroupViT ------------------------------------------------------------------------------------------------------
def grouped_sight(c: Config) -> Sight:
    """GroupViT's images: after each stage, tokens of groups take the place of the patches assigned to them."""
    d, act = vision_dims(c), activation(c, default="gelu")
    depths, outputs = stage_sizes(c, "depths"), stage_sizes(c, "num_output_groups", 0)
    tokens = stage_sizes(c, "num_group_tokens", 0)
    same_length(c, "depths", depths, tokens, outputs)
    sight = patched(c, d, [], TokensBeside(classes=0), before=(layer_norm("patch_norm", d.width),))
    block = vision_layer(d.width, sees_all(d), plain_mlp(c, d.width, act))
    n, blocks = sight.patches, list[Block]()
    for i, (depth, count, out) in enumerate(zip(depths, tokens, outputs, strict=True)):
        first: Modules = (Learned(name="group_tokens", width=d.width, rows=count, applied=False),) if count else ()
        if i and count and outputs[i - 1]:
            first += at(outputs[i - 1], (layer_norm("group_norm", d.width),))
            first += at(d.width, heads_of("group_mixer", outputs[i - 1], d.width // 2, count, act=act))
        blocks += [*([Block("groups", first)] if first else []), *[over(n + count, block)] * depth]
        if count:
            blocks.append(_assigned(c, d, (n, count, out), act))
            n = out
    last = Block("norm", at(n, (layer_norm("final_norm", d.width),)))
    c.mark_read("num_hidden_layers", "assign_eps", "assign_mlp_ratio", "dropout")
    return replace(sight, blocks=(*blocks, last))


def _assigned(c: Config, d: Dims, sizes: tuple[int, int, int], act: str) -> Block:
    """Each of `n` positions joins one of `out` groups, made of `count` tokens."""
    (n, count, out), given = sizes, c.value("assign_mlp_ratio", [0.5, 4])[1]
    ratios = list(given) if isinstance(given, (list, tuple)) else [given, given]
    if len(ratios) != 2 or any(isinstance(r, bool) or not isinstance(r, (int, float)) or r <= 0 for r in ratios):
        raise c.error("assign_mlp_ratio", "one number above 0, or two")
    across, deep = (int(r * d.width) for r in ratios if isinstance(r, (int, float)))
    width = d.width
    one = Dims(1, width, 1, 1, width)
    return Block("assign", (
        *at(count, (layer_norm("tokens_norm", width),)), *at(n, (layer_norm("patches_norm", width),)),
        *at(width, heads_of("mixer", count, across, out, act=act)),
        *over(out, Block("", (
            layer_norm("mixed_norm", width), *looks_at(d, n), Add(name="cross_residual", width=width),
            layer_norm("ffn_norm", width), *plain_mlp(c, width, act), Add(name="ffn_residual", width=width),
            layer_norm("seen_norm", width), *looks_at(one, n, prefix="assign_"),
            Add(name="assign_residual", width=width), layer_norm("new_norm", width),
            *mlp(width, deep, act, gated=False, bias=True, prefix="new_"), Add(name="new_residual", width=width),
        ))).modules,
    ))  # fmt: skip


@complete("groupvit_vision_model")
def groupvit_vision_model(c: Config) -> Model:
    """The images of GroupViT."""
    return image_model(c, grouped_sight(c))


@complete("groupvit")
def groupvit(c: Config) -> Model:
    """GroupViT (arXiv:2202.11094)."""
    head_of(c)
    words, sight = clip_words(read_part(c, "text_config")), grouped_sight(read_part(c, "vision_config"))
    inner, size = c.size("projection_intermediate_dim", 4096), c.size("projection_dim", 256)
    if c.flag("output_segmentation"):
        raise c.error("output_segmentation", "false, as maps of groups are not covered")

    def projected(name: str, width: int) -> Modules:
        return (
            shared_projection(f"{name}1", width, inner, True), layer_norm(f"{name}_norm", inner),
            Activation(name=f"{name}_act", width=inner, function="relu", gated=False),
            shared_projection(f"{name}2", inner, size, True),
        )  # fmt: skip

    return contrastive_model(
        c, words, sight, text=projected("text_projection", words.width), image=projected("projection", sight.width)
    )
