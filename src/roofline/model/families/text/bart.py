"""Encoder-decoders of text: BART and its kin."""

from __future__ import annotations

from dataclasses import replace

from roofline.model.configs.config import MOST_LAYERS, Config
from roofline.model.families.blocks.attention import attention, cross_attention, in_bands
from roofline.model.families.blocks.encoders import paced
from roofline.model.families.blocks.feed_forward import activation, mlp, moe
from roofline.model.families.blocks.layers import again
from roofline.model.families.blocks.norms import layer_norm
from roofline.model.families.blocks.seq2seq import encoder_decoder, half_sizes, sublayers
from roofline.model.families.blocks.text_heads import dense
from roofline.model.families.registry import complete
from roofline.model.model import Block, Model
from roofline.model.modules import Attention, Embedding, Linear, Module, Modules, Pace


def bart_like(
    c: Config,
    *,
    before: bool,
    embedding_norm: bool,
    table: str = "learned",
    extra: int = 0,
    source: Embedding | None = None,
    bias: bool = True,
    window: int | None = None,
) -> Model:
    """Encoder and decoder of BART's layers.

    `before`: norms before the sublayers and behind the layers, not after sublayers. `table`: positions are `learned`,
    `fixed` (a table that is not trained), or `made` without a table. `extra`: rows of the table beside the config's.
    """
    c.mark_read(*_OLD)
    width, act = c.size("d_model"), activation(c, "activation_function", "gelu")
    e, d = half_sizes(c, "encoder", width), half_sizes(c, "decoder", width)
    mixer, written = attention(e, rotary=0, bias=bias, causal=False, window=window), attention(d, rotary=0, bias=bias)
    ffns = [mlp(width, c.size(f"{name}_ffn_dim"), act, gated=False, bias=True) for name in ("encoder", "decoder")]
    listens = sublayers("dense", width, (("attn", mixer), ("ffn", ffns[0])), norm=layer_norm, before=before)
    parts = (("attn", written), ("cross", cross_attention(d, bias=bias)), ("ffn", ffns[1]))
    speaks = sublayers("dense", width, parts, norm=layer_norm, before=before)
    if not c.flag("tie_word_embeddings", True) and source is None:
        source = Embedding(name="source_embedding", rows=c.size("vocab_size"), width=width)
        front_tables: Modules = (replace(source, name="unused_embedding", idle=True),)
    else:
        front_tables = ()
    front = embedded_positions(c, width, table, extra, norm=embedding_norm)
    blocks = ([Block("front", front)] if front else []) + [listens] * e.layers
    blocks += [Block("last", (layer_norm("final_norm", width),))] if before else []
    return encoder_decoder(
        c,
        width,
        blocks,
        [speaks] * d.layers,
        before=(*front_tables, *front),
        norm=layer_norm if before else None,
        source=source,
    )


_OLD = """
    num_hidden_layers classif_dropout static_position_embeddings hidden_size add_bias_logits add_final_layer_norm
    extra_pos_embeddings force_bos_token_to_be_generated normalize_before normalize_embedding _num_labels
""".split()
"""Keys of older configs that the published code does not read."""


def embedded_positions(c: Config, width: int, table: str, extra: int, *, norm: bool) -> Modules:
    """Positions and the norm behind the table of words."""
    rows = c.size("max_position_embeddings", 1024) + extra
    positions: dict[str, Module] = {
        "learned": Embedding(name="position_embedding", rows=rows, width=width),
        "fixed": Embedding(name="position_embedding", rows=rows, width=width, frozen=True),
    }
    kept = [positions[table]] if table in positions else []
    return (*kept, *((layer_norm("embedding_norm", width),) if norm else ()))


@complete("bart", "plbart")
def bart(c: Config) -> Model:
    """BART (arXiv:1910.13461): norms after sublayers and behind the embedding, learned positions from the third."""
    return bart_like(c, before=False, embedding_norm=True, extra=2)


@complete("mbart")
def mbart(c: Config) -> Model:
    """mBART (arXiv:2001.08210): BART with norms before sublayers."""
    return bart_like(c, before=True, embedding_norm=True, extra=2)


@complete("mvp")
def mvp(c: Config) -> Model:
    """MVP (arXiv:2206.12131): BART, whose prompts are a second checkpoint."""
    if c.flag("use_prompt"):
        raise c.error("use_prompt", "false: prompts of every layer are not covered")
    c.mark_read("prompt_length", "prompt_mid_dim")
    return bart_like(c, before=False, embedding_norm=True, extra=2)


@complete("blenderbot")
def blenderbot(c: Config) -> Model:
    """Blenderbot (arXiv:2004.13637): norms before sublayers, none behind the embedding."""
    return bart_like(c, before=True, embedding_norm=False)


@complete("blenderbot-small")
def blenderbot_small(c: Config) -> Model:
    """Blenderbot's small model (arXiv:2004.13637): BART without the two spare positions."""
    return bart_like(c, before=False, embedding_norm=True)


@complete("pegasus")
def pegasus(c: Config) -> Model:
    """PEGASUS (arXiv:1912.08777): norms before sublayers, sines for positions."""
    return bart_like(c, before=True, embedding_norm=False, table="fixed")


@complete("marian")
def marian(c: Config) -> Model:
    """Marian (arXiv:1804.00344): norms after sublayers, sines for positions."""
    c.mark_read("share_encoder_decoder_embeddings", "decoder_vocab_size", "normalize_embedding")
    words = None
    if not c.flag("share_encoder_decoder_embeddings", True):
        words = Embedding(name="source_embedding", rows=c.size("vocab_size"), width=c.size("d_model"))
        c = c.with_values(vocab_size=c.size("decoder_vocab_size", c.size("vocab_size")))
    return bart_like(c, before=False, embedding_norm=False, table="fixed", source=words)


@complete("m2m_100")
def m2m_100(c: Config) -> Model:
    """M2M-100 and NLLB (arXiv:2010.11125): norms before sublayers, sines that have no table."""
    return bart_like(c, before=True, embedding_norm=False, table="made")


@complete("fsmt")
def fsmt(c: Config) -> Model:
    """FSMT (arXiv:1907.06616): norms after sublayers, a vocabulary for each language."""
    c.mark_read("langs", "decoder")
    rows, written = c.size("src_vocab_size"), c.size("tgt_vocab_size")
    words: Embedding | None = Embedding(name="source_embedding", rows=rows, width=c.size("d_model"))
    if c.flag("tie_word_embeddings", True):
        words = None
    c = c.with_values(vocab_size=written)
    extra = c.size("pad_token_id", 1, least=0) + 1
    return bart_like(c, before=False, embedding_norm=False, table="fixed", extra=extra, source=words)


@complete("led")
def led(c: Config) -> Model:
    """LED (arXiv:2004.05150): BART whose encoder sees windows; global tokens have projections of their own.

    The published code pads the text to whole windows.
    """
    c.mark_read("attention_window", "max_encoder_position_embeddings", "max_decoder_position_embeddings")
    rows = c.size("max_encoder_position_embeddings", 16_384)
    short = c.with_values(max_position_embeddings=c.size("max_decoder_position_embeddings", 1024))
    model = bart_like(short, before=False, embedding_norm=True)
    (read,), layers = model.towers, c.size("encoder_layers", 12)
    windows = c.per_layer_size("attention_window", layers, 512)
    front, *blocks = read.layers
    table = tuple(replace(m, rows=rows) if isinstance(m, Embedding) else m for m in front.modules)
    spare = tuple(
        replace(dense(f"global_{name}_proj", model.hidden, model.hidden), stream="source", idle=True) for name in "qkv"
    )

    def seen(block: Block, window: int) -> Block:
        return Block("windowed", (*in_bands(block.modules, window, max(windows)), *spare))

    encoder = (Block(front.name, table), *(seen(b, w) for b, w in zip(blocks, windows, strict=True)))
    encoder = (Block(front.name, paced(table, Pace(multiple=max(windows)))), *encoder[1:])
    return replace(model, towers=(replace(read, layers=encoder),))


@complete("nllb-moe")
def nllb_moe(c: Config) -> Model:
    """NLLB's mixture of experts (arXiv:2207.04672): every fourth layer has experts, of which a token uses two."""
    c.mark_read(*_ROUTING)
    model, width = bart_like(c, before=True, embedding_norm=False, table="made"), c.size("d_model")
    act, count, bias = activation(c, "activation_function", "relu"), c.size("num_experts", 128), c.flag("router_bias")

    def sparse(blocks: tuple[Block, ...], name: str, stream: str) -> tuple[Block, ...]:
        inner, step = c.size(f"{name}_ffn_dim"), c.size(f"{name}_sparse_step", 4, least=0)
        experts = moe(c, width, count, 2, inner, act=act, gated=False, router_bias=bias, expert_bias=True)
        routed = tuple(replace(m, stream=stream) for m in experts)
        layers = [block for block in blocks if block.name == "dense"]
        mixed = [_with_experts(b, routed) if step and (i + 1) % step == 0 else b for i, b in enumerate(layers)]
        return (*mixed, *(block for block in blocks if block.name != "dense"))

    (read,) = model.towers
    read = replace(read, layers=sparse(read.layers, "encoder", "source"))
    return replace(model, layers=sparse(model.layers, "decoder", ""), towers=(read,))


def _with_experts(block: Block, experts: Modules) -> Block:
    """A layer whose feed-forward network is a mixture of experts."""
    names = ("up_proj", "act", "down_proj")
    modules = [m for m in block.modules if m.name not in names]
    place = next(i for i, m in enumerate(modules) if m.name == "ffn_norm") + 1
    return Block("moe", (*modules[:place], *experts, *modules[place:]))


_ROUTING = """
    expert_capacity router_dtype router_ignore_padding_tokens batch_prioritized_routing router_z_loss_coef
    router_aux_loss_coef second_expert_policy normalize_router_prob_before_dropping moe_eval_capacity_token_fraction
    moe_token_dropout output_router_logits
""".split()


@complete("seamless_m4t", "seamless_m4t_v2")
def seamless_m4t(c: Config) -> Model:
    """SeamlessM4T (arXiv:2308.11596) as a translator of text: NLLB. Its speech is of other classes."""
    if not c.architecture.endswith("ForTextToText"):
        raise c.error("architectures", "a class that ends in ForTextToText: how much it speaks depends on the text")
    c.mark_read(
        *(key for key in c.raw if key.startswith(_SPEAKING)), "position_embeddings_type", "feature_projection_input_dim"
    )
    c = c.with_values(d_model=c.size("hidden_size", 1024), activation_function=c.text("activation_function", "relu"))
    return bart_like(c, before=True, embedding_norm=False, table="made")


_SPEAKING = (
    "t2u_", "speech_", "adaptor_", "add_adapter", "num_adapter", "unit_", "vocoder_", "upsample_", "resblock_", "lang_",
    "spkr_", "var", "num_conv_pos", "max_source", "rotary_embedding", "conv_depthwise", "left_max", "right_max",
    "leaky_relu", "sampling_rate", "char_vocab", "position_embedding",
)  # fmt: skip


@complete("bigbird_pegasus")
def bigbird_pegasus(c: Config) -> Model:
    """BigBird-Pegasus (arXiv:2007.14062): PEGASUS without biases of attention; an encoder's query sees eight blocks."""
    bias, sparse = (
        c.flag("use_bias", False),
        c.text("attention_type", "block_sparse", ("block_sparse", "original_full")),
    )
    window = c.size("block_size", 64) * (5 + c.size("num_random_blocks", 3)) if sparse == "block_sparse" else None
    model = bart_like(c, before=True, embedding_norm=True, bias=bias, window=window)
    (read,) = model.towers
    head = tuple(m for m in model.head if m.name != "final_norm")  # no norms behind the layers
    if c.architecture.endswith("ForCausalLM"):  # the decoder's own class ties nothing
        head = tuple(replace(m, tied=False) if isinstance(m, Linear) else m for m in head)
    return replace(model, towers=(replace(read, layers=read.layers[:-1]),), head=head)


@complete("pegasus_x")
def pegasus_x(c: Config) -> Model:
    """PEGASUS-X (arXiv:2208.04347): an encoder of blocks, and global tokens that every token sees.

    Every second layer moves its blocks by half of one, for which the published code adds a block.
    """
    c.mark_read("block_size", "num_global_tokens", "stagger_local_blocks", "max_position_embeddings")
    model = bart_like(c, before=True, embedding_norm=False, table="made", bias=False)
    width, block, tokens = model.hidden, c.size("block_size", 512), c.size("num_global_tokens", 32)
    (read,), staggers = model.towers, c.flag("stagger_local_blocks", True)
    layers = c.size("encoder_layers", most=MOST_LAYERS)
    table = Embedding(name="global_embedding", rows=tokens, width=width, stream="source")
    whole, moved = Pace(multiple=block), Pace(multiple=block, extra=block // 2 * 2)
    first = next(i for i, b in enumerate(read.layers) if b.name == "dense")
    plain = read.layers[first].modules
    globals_ = tuple(
        replace(m, name=f"global_{m.name}", positions=tokens)
        for m in (replace(layer_norm("attn_norm", width), stream="source"), *again(plain[1:]))
    )

    ends = [m.name for m in plain].index("attn_residual")

    def placed(staggered: bool) -> Block:
        modules: list[Module] = []
        for i, m in enumerate(plain):
            inside = 0 < i < ends
            pace = moved if staggered and inside else whole
            if isinstance(m, Attention):
                modules += [
                    replace(m, keys=block + tokens, pace=pace),
                    replace(m, name="by_globals", keys=tokens, pace=pace),
                ]
            else:
                modules.append(replace(m, pace=pace))
        return Block("staggered" if staggered else "blocks", (*modules, *globals_))

    blocks = [placed(staggers and i % 2 == 1) for i in range(layers)]
    before, behind = read.layers[:first], read.layers[first + layers :]
    read = replace(read, layers=(*before, Block("globals", (table,)), *blocks, *behind))
    return replace(model, towers=(read,))


@complete("prophetnet")
def prophetnet(c: Config) -> Model:
    """ProphetNet (arXiv:2001.04063): a decoder with a stream for each of the next tokens that it predicts."""
    c.mark_read("num_hidden_layers", "num_attention_heads", "relative_max_distance", "disable_ngram_loss", "eps")
    c.mark_read("is_decoder", "add_cross_attention")
    if c.architecture.endswith(("ForCausalLM", "Encoder", "Decoder")):
        raise c.error("architectures", "a class of the whole: half of it is not covered")
    width, act, streams = c.size("hidden_size"), activation(c, "activation_function", "gelu"), c.size("ngram", 2)
    names = {f"{side}_{key}": c.size(f"num_{side}_{key}") for side in ("encoder", "decoder")
             for key in ("layers", "attention_heads")}  # fmt: skip
    sized = c.with_values(**names)
    e, d = half_sizes(sized, "encoder", width), half_sizes(sized, "decoder", width)
    ffns = [mlp(width, c.size(f"{name}_ffn_dim"), act, gated=False, bias=True) for name in ("encoder", "decoder")]
    parts = (("attn", attention(e, rotary=0, bias=True, causal=False)), ("ffn", ffns[0]))
    listens = sublayers("dense", width, parts, norm=layer_norm, before=False)
    (main,) = (m for m in attention(d, rotary=0, bias=True) if isinstance(m, Attention))
    ahead = replace(main, heads=streams * d.heads, borrowed=True)
    own = replace(ahead, name="own_attention", causal=False, spaced=Pace(), borrowed=False)
    near = dense("distances", width, c.size("num_buckets", 32) * d.heads)
    mixer = [m for m in attention(d, rotary=0, bias=True) if not isinstance(m, Attention)]
    spoken = ("attn", (mixer[0], near, main, replace(ahead, name="ahead_attention"), own, mixer[1]))
    said = (spoken, ("cross", cross_attention(d, bias=True)), ("ffn", ffns[1]))
    speaks = sublayers("dense", width, said, norm=layer_norm, before=False)
    every, kept = Pace(times=1 + streams), (main.name, ahead.name, own.name, "ahead_attention")
    wide = (m if m.stream or m.name in kept else replace(m, pace=every) for m in speaks.modules)
    front = embedded_positions(c, width, "learned", 0, norm=True)
    tables = (*front, Embedding(name="stream_embedding", rows=streams, width=width))
    source, unused = None, list[Module]()
    if not c.flag("tie_word_embeddings", True):
        source = Embedding(name="source_embedding", rows=c.size("vocab_size"), width=width)
        unused.append(replace(source, name="unused_embedding", idle=True))
    model = encoder_decoder(
        sized, width, [Block("front", front), *[listens] * e.layers], [Block("dense", tuple(wide))] * d.layers,
        before=(*unused, *tables), source=source,
    )  # fmt: skip
    more = tuple(
        replace(m, name=f"lm_head{i}", tied=True)
        for i in range(1, streams)
        for m in model.head
        if isinstance(m, Linear)
    )
    c.mark_read(*sized.read)
    return replace(model, head=(*model.head, *more))
