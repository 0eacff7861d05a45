"""Layers, and a decoder made of them: embedding, layers, final norm, head, draft layers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from roofline.model.checkpoints.quantization.methods import stored_precision
from roofline.model.configs.config import Config
from roofline.model.families.blocks.norms import MakeNorm, layer_norm, rms
from roofline.model.families.blocks.sizes import context_length
from roofline.model.model import Block, Model
from roofline.model.modules import SINGLE_STATES, Add, DeltaRule, Embedding, Linear, Module, Modules, Norm

MOST_DRAFTS = 64
MOST_POSITIONS = 2**26


# -- a layer -------------------------------------------------------------------------------------------------------
def layer(
    name: str, width: int, mixer: Modules, ffn: Modules = (), *, norm: MakeNorm = rms, before: bool = True,
    after: bool = False,
) -> Block:  # fmt: skip
    """A residual layer: norm → mixer → add, norm → ffn → add, with norms before or after each sublayer, or both."""
    parts: list[Module] = []
    for label, inside in (("attn", mixer), ("ffn", ffn)):
        if not inside:
            continue
        parts += [norm(f"{label}_norm", width)] if before else []
        parts += inside
        parts += [norm(f"{label}_post_norm", width)] if after else []
        parts.append(Add(name=f"{label}_residual", width=width))
    return Block(name, tuple(parts))


def parallel_layer(
    name: str, width: int, mixer: Modules, ffn: Modules, *, norm: MakeNorm = layer_norm, norms: int = 1
) -> Block:
    """A layer whose attention and feed-forward both read the layer's input (GPT-J), through one norm or one each."""
    second = (norm("ffn_norm", width),) if norms == 2 else ()
    if norms == 1 and isinstance(ffn[0], Linear):
        ffn = (replace(ffn[0], beside=True), *ffn[1:])
    adds = (Add(name="attn_residual", width=width), Add(name="ffn_residual", width=width))
    return Block(name, (norm("attn_norm", width), *mixer, *second, *ffn, *adds))


def kind(sparse: bool, mixer: str = "") -> str:
    """A block's name: `dense`, `moe`, `sliding moe`, `linear dense`, …"""
    return " ".join(part for part in (mixer, "moe" if sparse else "dense") if part)


def stack(
    width: int, mixers: Iterable[tuple[str, Modules]], dense: Modules = (), *, experts: Modules = (),
    sparse: Sequence[bool] | None = None, norm: MakeNorm = rms, before: bool = True, after: bool = False,
) -> list[Block]:  # fmt: skip
    """One layer for each named mixer, followed by experts where `sparse` is true and by the dense network elsewhere.

    Without `sparse`, every layer has experts if there are any.
    """
    mixers = list(mixers)
    flags = [bool(experts)] * len(mixers) if sparse is None else sparse
    return [
        layer(kind(s, name), width, mixer, experts if s else dense, norm=norm, before=before, after=after)
        for s, (name, mixer) in zip(flags, mixers, strict=True)
    ]


def again(modules: Iterable[Module]) -> Modules:
    """The modules as run a second time; their weights are counted only where they first run."""

    def repeated(m: Module) -> Module:
        match m:
            case Linear():
                return replace(m, tied=True, bias=False)
            case Norm():
                return replace(m, tied=True)
            case _:
                return m

    return tuple(repeated(m) for m in modules)


def with_before(modules: Iterable[Module], name: str, *more: Module) -> Modules:
    """The modules with `more` inserted before the module called `name`."""
    return tuple(each for m in modules for each in ((*more, m) if m.name == name else (m,)))


# -- the decoder ---------------------------------------------------------------------------------------------------
def causal_lm(
    c: Config,
    width: int,
    layers: Iterable[Block],
    *,
    norm: MakeNorm | None = rms,
    tied: bool = False,
    head_bias: bool = False,
    embed: int | None = None,
    more_rows: int = 0,
    before: Modules = (),
    after: Modules = (),
    last: Modules = (),
) -> Model:
    """A decoder: token embedding, `before`, the layers, `after`, the final norm, `last`, the head.

    `tied`: whether the head shares the embedding where the config does not say. `embed`: width of the embedding where
    it differs from the hidden size. `more_rows`: rows of the embedding for tokens that the head does not predict.
    """
    vocab = c.size("vocab_size", most=2**28)
    shared = c.flag("tie_embedding|tie_word_embeddings", tied)
    table = Embedding(name="embedding", rows=vocab + more_rows, width=embed or width, shared=shared)
    head = Linear(
        name="lm_head", inputs=embed or width, outputs=vocab, bias=head_bias, part="head", tied=shared, cut="columns"
    )
    final = (norm("final_norm", width),) if norm else ()
    blocks = tuple(layers)
    single = [x for block in blocks for x in block.modules if isinstance(x, SINGLE_STATES)]
    narrowed = bool(single) and all(isinstance(x, DeltaRule) and not x.channelwise for x in single)
    return Model(
        name=c.text("_name_or_path", "") or c.text("model_type", "model"),
        model_type=c.text("model_type", "model"),
        vocab=vocab,
        hidden=width,
        embedding=(table, *before),
        layers=blocks,
        head=(*after, *final, *last, head),
        precision=stored_precision(c, "fp32" if single else None, wide=narrowed),
        context=context_length(c),
    )


def untied(c: Config) -> Config:
    """The config with an untied head, whatever it says: the published code has no way to tie it."""
    c.flag("tie_word_embeddings")
    return c.with_values(tie_word_embeddings=False)


def position_table(c: Config, width: int, extra: int = 0) -> Embedding:
    """Embedding of learned absolute positions."""
    rows = c.size("max_position_embeddings|n_positions", most=MOST_POSITIONS)
    return Embedding(name="position_embedding", rows=rows + extra, width=width)


def draft_blocks(model: Model, count: int) -> tuple[Block, ...]:
    """Multi-token-prediction layers (arXiv:2412.19437 §2.2), each built around a layer like the last one.

    Norms of the hidden state and of the next token's embedding, a projection of both, the layer, a norm, the shared
    head.
    """
    width, last = model.hidden, model.layers[-1]
    join = Linear(name="mtp_proj", inputs=2 * width, outputs=width)
    head = Linear(name="mtp_head", inputs=width, outputs=model.vocab, part="head", tied=True, cut="columns")
    before = (rms("mtp_stream_norm", width), rms("mtp_token_norm", width), join)
    return (Block("mtp", (*before, *last.modules, rms("mtp_norm", width), head)),) * count
