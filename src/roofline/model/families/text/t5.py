"""Encoder-decoders of T5's kind: T5, mT5, UMT5."""

from __future__ import annotations

from dataclasses import replace

from roofline.model.configs.config import MOST_LAYERS, Config
from roofline.model.families.blocks.attention import attention, cross_attention
from roofline.model.families.blocks.feed_forward import ACTIVATIONS, mlp, moe
from roofline.model.families.blocks.norms import rms
from roofline.model.families.blocks.seq2seq import encoder_decoder, sublayers
from roofline.model.families.blocks.sizes import Dims
from roofline.model.families.blocks.text_heads import dense
from roofline.model.families.registry import complete
from roofline.model.heads import label_count
from roofline.model.model import Block, Model
from roofline.model.modules import Attention, Embedding, Learned, Linear, Modules, Pace


def t5_feed_forward(c: Config, default: str) -> Modules:
    """T5's feed-forward network: `gated-gelu` multiplies two streams, `relu` does not."""
    name = c.text("feed_forward_proj", default)
    gated, act = name.startswith("gated-"), name.removeprefix("gated-")
    act = "gelu_new" if name == "gated-gelu" else act
    if act not in ACTIVATIONS:
        raise c.error("feed_forward_proj", "an activation, with gated- before it where it is gated")
    c.mark_read("dense_act_fn", "is_gated_act", "scale_decoder_outputs")
    return mlp(c.size("d_model"), c.size("d_ff"), act, gated=gated)


def relative_table(c: Config, heads: int) -> Learned:
    """T5's biases of attention, one for each bucket of distances and each head."""
    rows = c.size("relative_attention_num_buckets", 32)
    c.mark_read("relative_attention_max_distance")
    return Learned(name="relative_bias", width=heads, rows=rows, applied=False)


def t5_like(c: Config, ffn: Modules, *, every: bool = False) -> Model:
    """T5: RMSNorm before sublayers, no biases. `every`: each layer has a table of distances, not the first alone."""
    c.mark_read("is_decoder", "dropout_rate", "classifier_dropout")
    width, heads, head = c.size("d_model"), c.size("num_heads"), c.size("d_kv")
    layers = c.size("num_layers", most=MOST_LAYERS)
    written = c.size("num_decoder_layers", layers, most=MOST_LAYERS)
    d = Dims(layers, width, heads, heads, head)
    mixer, seen, cross = attention(d, rotary=0, causal=False), attention(d, rotary=0), cross_attention(d)
    listens = sublayers("dense", width, (("attn", mixer), ("ffn", ffn)), norm=rms)
    speaks = sublayers("dense", width, (("attn", seen), ("cross", cross), ("ffn", ffn)), norm=rms)
    table = relative_table(c, heads)
    read, said = (
        [_with(block, table, i, every) for i in range(n)] for block, n in ((listens, layers), (speaks, written))
    )
    blocks, task = [*read, Block("last", (rms("final_norm", width),))], c.architecture
    sorts = task.endswith("ForTokenClassification")  # it holds the encoder alone
    named = c.with_values(architectures=["T5EncoderModel"]) if sorts else c
    model = encoder_decoder(named, width, blocks, said, norm=rms)
    if sorts:
        return replace(model, head=(dense("classifier", width, label_count(c)),))
    if task.endswith("ForQuestionAnswering"):
        return replace(model, head=(*model.head[:-1], dense("answers", width, label_count(c))))
    return model


def _with(block: Block, table: Learned, i: int, every: bool) -> Block:
    """A layer with the table of distances, if it has one."""
    return Block("first", (table, *block.modules)) if every or i == 0 else block


@complete("t5")
def t5(c: Config) -> Model:
    """T5 (arXiv:1910.10683), v1.1 with gated GELU (arXiv:2002.05202), and Chronos of its own classes."""
    c.mark_read("chronos_config")
    if "Bolt" in c.architecture:
        raise c.error("architectures", "a class of T5: patches of a series are not covered")
    return t5_like(c, t5_feed_forward(c, "relu"))


@complete("mt5")
def mt5(c: Config) -> Model:
    """mT5 (arXiv:2010.11934): T5 v1.1 in many languages."""
    return t5_like(c, t5_feed_forward(c, "gated-gelu"))


@complete("umt5")
def umt5(c: Config) -> Model:
    """UMT5 (arXiv:2304.09151): mT5 with a table of relative positions in every layer."""
    return t5_like(c, t5_feed_forward(c, "gated-gelu"), every=True)


@complete("pop2piano")
def pop2piano(c: Config) -> Model:
    """Pop2Piano (arXiv:2211.00895): T5 over spectra, with a vector for each composer."""
    c.mark_read("composer_vocab_size")
    rows, width = c.size("composer_vocab_size", 21), c.size("d_model")
    c.flag("tie_word_embeddings", False)
    model = t5_like(c.with_values(tie_word_embeddings=False), t5_feed_forward(c, "gated-gelu"))
    (tower,) = model.towers
    composers = Embedding(name="composer_embedding", rows=rows, width=width, stream="source", idle=True)
    front = Block("composers", (composers,))
    return replace(model, towers=(replace(tower, layers=(front, *tower.layers)),))


@complete("switch_transformers")
def switch_transformers(c: Config) -> Model:
    """Switch Transformers (arXiv:2101.03961): T5 whose sparse layers send a token to one of their experts."""
    c.mark_read(*_ROUTING)
    act, width, inner = c.text("dense_act_fn", "relu", ACTIVATIONS), c.size("d_model"), c.size("d_ff")
    plain, count = mlp(width, inner, act, gated=False), c.size("num_experts", 8)
    experts = moe(c, width, count, 1, inner, act=act, gated=False, router_bias=c.flag("router_bias"))
    model = t5_like(c, plain)

    def sparse(blocks: tuple[Block, ...], name: str, stream: str, layers: int) -> tuple[Block, ...]:
        chosen = c.size(f"num_sparse_{name}_layers", 3, least=0)
        step = layers // chosen if chosen else 0
        routed = tuple(replace(m, stream=stream) for m in experts)

        def mixed(i: int, block: Block) -> Block:
            if not step or not (i % step == 1 or step == 1):
                return block
            modules = [m for m in block.modules if m.name not in ("up_proj", "act", "down_proj")]
            place = next(j for j, m in enumerate(modules) if m.name == "ffn_norm") + 1
            return Block("moe", (*modules[:place], *routed, *modules[place:]))

        return (*(mixed(i, block) for i, block in enumerate(blocks[:layers])), *blocks[layers:])

    (read,) = model.towers
    layers = c.size("num_layers", most=MOST_LAYERS)
    read = replace(read, layers=sparse(read.layers, "encoder", "source", layers))
    return replace(model, layers=sparse(model.layers, "decoder", "", len(model.layers)), towers=(read,))


_ROUTING = """
    expert_capacity router_dtype router_ignore_padding_tokens router_z_loss_coef router_aux_loss_coef
    add_router_probs encoder_sparse_step decoder_sparse_step is_gated_act feed_forward_proj add_cross_attention
""".split()


@complete("longt5")
def longt5(c: Config) -> Model:
    """LongT5 (arXiv:2112.07916): T5 whose encoder sees three blocks, and means of all blocks where they are global."""
    kind = c.text("encoder_attention_type", "local", ("local", "transient-global"))
    length, every = c.size("local_radius", 127) + 1, c.size("global_block_size", 16)
    model = t5_like(c, t5_feed_forward(c, "relu"))
    whole, means = Pace(multiple=length), Pace(every=every, down=True)
    layers = model.towers[0].layers if model.towers else model.layers
    core = next(m for block in layers for m in block.modules if isinstance(m, Attention))
    table = replace(relative_table(c, core.heads), name="global_bias", stream=core.stream)
    values = core.heads * core.head_dim
    sums = replace(core, name="sums", heads=1, kv_heads=1, head_dim=model.hidden, v_head_dim=0, spaced=means)
    keys = Linear(
        name="global_kv_proj", inputs=model.hidden, outputs=2 * values, tied=True, part="attention", pace=means
    )
    norm = replace(rms("global_norm", model.hidden), pace=means)
    beside = tuple(replace(m, stream=core.stream) for m in (sums, norm, keys))

    def seen(block: Block) -> Block:
        if all(m.name != "attention" for m in block.modules):
            return block
        local = replace(core, keys=3 * length, pace=whole)
        if kind == "local":
            return Block(block.name, tuple(local if m.name == "attention" else m for m in block.modules))
        joined = (*beside, local, replace(core, name="global_attention", spaced=means, pace=whole))
        parts = tuple(x for m in block.modules for x in (joined if m.name == "attention" else (m,)))
        return Block(block.name, (table, *parts) if block.name == "first" else parts)

    layers = tuple(seen(block) for block in layers)
    return (
        replace(model, towers=(replace(model.towers[0], layers=layers),))
        if model.towers
        else replace(model, layers=layers)
    )
