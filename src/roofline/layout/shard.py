"""Shard a model: model × layout → the smaller model of one rank, with collectives inserted as modules.

Ranks share the independent pieces of the architecture: heads, inner neurons, experts, vocabulary rows. Everything else
is replicated. A product that sums over pieces (`rows`) leaves a partial sum on every rank. It is reduced where the full
value is needed next, by an all-reduce, or with sequence parallelism by a reduce-scatter and an all-gather before the
next product that needs all tokens (Megatron-LM, arXiv:1909.08053 and 2205.05198).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

from roofline.declared.errors import InputError
from roofline.declared.numbers.maths import Count, ceil_div, is_array, least, most, some
from roofline.declared.question import Settings
from roofline.layout.layout import Layout, check_divides, does_not_divide, layout_named
from roofline.model import modules as m
from roofline.model.kind_table import KindTable, OfKind
from roofline.model.model import Block, Model, Tower
from roofline.model.popularity import busiest

ONE_CHIP = Layout()
PIPELINE = "pipeline"
"""Name of the block with the send to the next stage."""


@dataclass(frozen=True, eq=False, repr=False)
class Shard(Model):
    """The model on one rank, usable like any other model; `counted`: its blocks, each with its number of layers.

    `stands_for`: the blocks of the full model that these are shares of. `whole`: the full model, where this is a pass
    through all stages of a pipeline.
    """

    counted: tuple[tuple[Block, int], ...] = ()
    stands_for: tuple[tuple[Block, int], ...] = ()
    layout: Layout = ONE_CHIP
    whole: Model | None = None

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    @property
    def layout_text(self) -> str:
        """The rank's layout, as text."""
        return self.layout.text()

    @cached_property
    def resident(self) -> tuple[Model, ...]:
        """The ranks of the stages that a pass goes through, in order."""
        return (self,) if self.whole is None else distinct_ranks(stages(self.whole, self.layout))

    def kv_elements(self, tokens: Count, ahead: Count = 0, block: int = 1) -> Count:
        """Cached elements of one sequence: those of this rank's share of the tokens, or of its heads (Ulysses)."""
        return ceil_div(super().kv_elements(tokens, ahead, block), self.token_shares)

    @property
    def token_shares(self) -> Count:
        """Ranks among which the cached tokens are divided."""
        return 1 if self.layout.exchange == "ulysses" else self.layout.cp

    @cached_property
    def blocks(self) -> tuple[tuple[Block, int], ...]:
        """The blocks of this rank's layers."""
        return self.counted

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The broadcast shape of the layout's degrees."""
        return self.layout.shape

    @cached_property
    def distinct_parameters(self) -> Count:
        """Parameters, each divided by the number of ranks that hold it: summed over all ranks, the model's
        parameters."""
        return sum(n * _distinct(module, self.layout) for module, n in self.modules())


def _distinct(module: m.Module, layout: Layout) -> Count:
    from fractions import Fraction

    def share(count: Count, copies: Count) -> Count:
        return Fraction(count, copies) if isinstance(count, int) and isinstance(copies, int) else count / copies

    rest = module.parameters - module.matrix
    if isinstance(module, (m.Linear, m.Conv)) and module.kv and module.copies != layout.ranks:
        each = module.parameters // (module.outputs if isinstance(module, m.Linear) else module.channels)
        again = layout.ranks // least(layout.tp, module.kv_groups)
        return share(module.parameters - module.kv * each, module.copies) + share(module.kv * each, again)
    if isinstance(module, m.Activation) or (isinstance(module, m.Linear) and module.cut == "rows"):
        return share(module.matrix, module.copies) + share(rest, layout.ranks)
    if isinstance(module, m.Experts) and module.bias:
        out = module.held * module.hidden
        return share(module.parameters - out, module.copies) + share(out, module.copies * layout.expert_tp)
    return share(module.parameters, module.copies)


def shard(model: Model, layout: Layout | str, stage: int | None = None) -> Model:
    """The model on a rank of `stage`: the first stage has the embedding, the last the head.

    With `stage` None all layers are on one rank, with the sends between stages as modules, for the latency of one pass.
    A layout of one chip gives the model itself, except for its experts' popularity. Degrees that are arrays (tp, dp,
    cp, ep, …) give sizes that are arrays. Raises InputError for a degree that does not divide what it shards, naming
    both and the nearest degrees that do.
    """
    layout = layout_named(layout)
    return model if layout.alone else parts_of(model, layout).of(stage)


def stages(model: Model, layout: Layout | str) -> tuple[Model, ...]:
    """The models of a rank of every pipeline stage, first to last. Raises InputError as `shard` does."""
    layout = layout_named(layout)
    if layout.alone:
        return (model,)
    return parts_of(model, layout).stages()


def pipeline(model: Model, layout: Layout, v_shaped: bool = False) -> tuple[Model, tuple[Model, ...]]:
    """One layer of each block with embedding and head, and the model on a rank of every stage, sharing those blocks.

    `v_shaped`: the first stage has both ends of the model. Raises InputError as `shard` does.
    """
    if layout.alone:
        return replace(model, layers=tuple(block for block, _ in model.blocks)), (model,)
    return parts_of(model, layout).pipeline(layout, v_shaped)


def handing(rank: Model) -> Model:
    """A model with only the send from this rank to the next stage."""
    blocks = tuple((block, n) for block, n in rank.blocks if block.name == PIPELINE)
    if not isinstance(rank, Shard):
        return replace(rank, embedding=(), head=(), layers=())
    return replace(rank, embedding=(), head=(), counted=blocks)


def parts_of(model: Model, layout: Layout) -> Parts:
    """The model cut for a rank. Raises InputError as `shard` does."""
    rows = next((e.rows for e in model.embedding if isinstance(e, m.Embedding)), model.vocab)
    rank = _Rank(layout, model.hidden, rows)
    handed = m.Collective(
        name="send", op="p2p", width=model.hidden, ranks=layout.pp, stride=layout.ranks, axis="pp",
        split=rank.scattered,
    )  # fmt: skip
    return Parts(
        model, layout, tuple(_spread(rank, model.embedding)), tuple(_spread(rank, model.head)),
        {block: rank.block(block) for block, _ in model.blocks}, Block(PIPELINE, (handed,)),
        layout.layers_of(len(model.layers)), tuple(_tower(tower, layout) for tower in model.towers),
    )  # fmt: skip


def _tower(tower: Tower, layout: Layout) -> Tower:
    """A tower on every rank: its heads and inner neurons divided, or all of it where the degree does not divide them.

    vLLM does the same by default, and replicates with `mm_encoder_tp_mode=data`.
    """
    rank = _Rank(layout, tower.hidden, 0)
    try:
        shares = {block: rank.block(block) for block, _ in tower.blocks}
    except InputError:
        shares = {
            block: Block(block.name, tuple(on_every_rank(x, rank) for x in block.modules)) for block, _ in tower.blocks
        }
    counted = tuple((replace(shares[b], modules=_in_stream(tower, shares[b].modules)), n) for b, n in tower.blocks)
    return replace(tower, layers=(), counted=counted)


def _in_stream(tower: Tower, modules: tuple[m.Module, ...]) -> tuple[m.Module, ...]:
    """The modules with the collectives among them in the tower's stream."""
    return tuple(replace(x, stream=tower.stream) if isinstance(x, m.Collective) else x for x in modules)


@dataclass(frozen=True)
class Parts:
    """A model cut for a rank: its ends, its blocks by the block they are shares of, and the layers of each stage."""

    model: Model
    layout: Layout
    embedding: tuple[m.Module, ...]
    head: tuple[m.Module, ...]
    blocks: Mapping[Block, Block]
    handed: Block
    layers: tuple[tuple[int, ...], ...]
    towers: tuple[Tower, ...] = ()
    v_shaped: bool = False

    def stages(self) -> tuple[Model, ...]:
        """The model on a rank of every stage."""
        return tuple(self.of(i) for i in range(self.layout.pp))

    def pipeline(self, layout: Layout, v_shaped: bool = False) -> tuple[Model, tuple[Model, ...]]:
        """One layer of each block with embedding and head, and the model on a rank of every stage.

        The layout must have the same stages and degrees; it may differ in chunks, and so in the layers of each stage.
        """
        layers = layout.layers_of(len(self.model.layers), v_shaped)
        parts = replace(self, layout=layout, layers=layers, v_shaped=v_shaped)
        whole = parts.of(None)
        assert isinstance(whole, Shard)
        return replace(whole, counted=tuple((block, 1) for block, _ in whole.counted)), parts.stages()

    def of(self, stage: int | None) -> Model:
        """The model on a rank of a stage, or of all stages as one."""
        model, layout = self.model, self.layout
        layers = range(len(model.layers)) if stage is None else self.layers[stage]
        stands_for = tuple(Counter(model.layers[i] for i in layers).items())
        counted = [(self.blocks[b], n) for b, n in stands_for]
        embedding, head = self.embedding, self.head
        if layout.pp > 1:
            if stage is not None and not self.v_shaped:
                embedding, head = untied_ends(embedding), untied_ends(head)
            sends = layout.pp - 1 if stage is None else int(stage < layout.pp - 1)
            counted += [(self.handed, sends)] if sends else []
        given = {f.name: getattr(model, f.name) for f in fields(Model)}
        given["embedding"] = embedding if stage in (None, 0) else ()
        given["head"] = head if stage in (None, 0 if self.v_shaped else layout.pp - 1) else ()
        bare = tuple(replace(tower, counted=()) for tower in self.towers)
        given["towers"] = self.towers if stage in (None, 0) else bare
        given |= {"layers": (), "counted": tuple(counted), "stands_for": stands_for}
        return Shard(**given, layout=layout, whole=model if stage is None and layout.pp > 1 else None)


def distinct_ranks(ranks: Iterable[Model]) -> tuple[Model, ...]:
    """The ranks with distinct contents; stages differ in their number of layers, and in embedding and head."""
    return tuple({(contents(rank), len(rank.blocks)): rank for rank in ranks}.values())


def contents(rank: Model) -> tuple[object, ...]:
    """Key of a stage's contents within one layout: its blocks, their numbers of layers, and which ends it has."""
    blocks = rank.stands_for if isinstance(rank, Shard) else rank.blocks
    return blocks, bool(rank.embedding), bool(rank.head)


def untied_ends(modules: tuple[m.Module, ...]) -> tuple[m.Module, ...]:
    """The first and the last stage each hold the table that embedding and head share."""

    def apart(x: m.Module) -> m.Module:
        if isinstance(x, m.Linear) and x.tied and x.part == "head":
            return replace(x, tied=False, copies=2 * x.copies)
        return replace(x, copies=2 * x.copies) if isinstance(x, m.Embedding) and x.shared else x

    return tuple(apart(x) for x in modules)


@dataclass(frozen=True)
class _Rank:
    """Context for cutting a module: the degrees, the width of the stream, and the mixer of its layer.

    `rows`: of the token embedding table.
    """

    layout: Layout
    hidden: int
    rows: int
    mixer: m.Module | None = None

    @staticmethod
    def several(degree: Count) -> bool:
        """Whether any element of a degree is above 1."""
        return is_array(degree) or degree > 1

    @property
    def scattered(self) -> Count:
        """Ranks that share the tokens where the stream is scattered: cp, or cp·tp with sequence parallelism."""
        return self.layout.cp * (self.layout.tp if self.layout.sp else 1)

    def block(self, block: Block) -> Block:
        """One layer on this rank."""
        return Block(block.name, tuple(_spread(self, block.modules)))

    def kv(self, heads: Count) -> Count:
        """Key/value heads of a rank; ranks beyond their number hold copies."""
        return most(1, heads // self.layout.tp)

    def groups(self, total: int, kv: int, kv_heads: int) -> Count:
        """A rank's share of a width, of which `kv` belongs to `kv_heads` heads that are copied beyond their number."""
        return (total - kv) // self.layout.tp + kv // least(self.layout.tp, kv_heads)


# -- one module ----------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Stream:
    """The output of a module in a layer, as the ranks of a tensor-parallel group hold it.

    `pieces`: each rank has its own heads or inner neurons. `partial`: partial sums that are not reduced yet.
    `gathered`: widths of the streams whose tokens an all-gather has collected.
    """

    pieces: bool = False
    partial: Count = 0
    gathered: frozenset[int] = frozenset()


ShardingRule = Callable[[Any, _Rank, Stream], tuple[Iterable[m.Module], Stream]]
"""(module, rank, incoming stream) → (the rank's modules including collectives, outgoing stream)."""
SHARDING: KindTable[ShardingRule] = KindTable("sharding", m.Module)
Sizes = Callable[[Any, _Rank, str], Settings]
"""(module, rank, the module's name in errors) → the sizes that change."""


def cut(module: m.Module, rank: _Rank, sizes: Sizes) -> m.Module:
    """The rank's share of a module."""
    changed = sizes(module, rank, module.name)
    return replace(module, **changed, split=module.split * rank.layout.cp, copies=rank.layout.cp * rank.layout.dp)


def on_every_rank(module: m.Module, rank: _Rank) -> m.Module:
    """Cut a module that is the same on every rank."""
    return replace(module, split=module.split * rank.scattered, copies=rank.layout.ranks)


def replicated(module: m.Module, rank: _Rank, stream: Stream) -> tuple[Iterable[m.Module], Stream]:
    """Rule of a replicated module: every rank has all of it, and its full output."""
    return (on_every_rank(module, rank),), replace(stream, pieces=False)


SHARDING.add(replicated, m.Router, m.Indexer, m.Compressor, m.Mix, m.DepthAttention, m.Collective, m.Convolution)


def follows(sizes: Sizes) -> ShardingRule:
    """Rule of a module that is sharded if its input is."""

    def rule(module: m.Module, rank: _Rank, stream: Stream) -> tuple[Iterable[m.Module], Stream]:
        return ((cut(module, rank, sizes),), stream) if stream.pieces else replicated(module, rank, stream)

    return rule


def _width(a: m.Activation, r: _Rank, what: str) -> dict[str, Count]:
    check_divides("tp", r.layout.tp, f"{what} width", a.width)
    return {"width": a.width // r.layout.tp}


def _gate(g: m.Gate, r: _Rank, what: str) -> dict[str, Count]:
    return {"width": g.width // r.layout.tp, "gates": ceil_div(g.gates, r.layout.tp)}


def _conv(c: m.Conv, r: _Rank, what: str) -> dict[str, Count]:
    taps = c.dynamic // least(r.layout.tp, c.kv_groups)
    kv = c.kv // least(r.layout.tp, c.kv_groups)
    return {"channels": r.groups(c.channels, c.kv, c.kv_groups), "kv": kv, "dynamic": taps}


def _learned(l: m.Learned, r: _Rank, what: str) -> dict[str, Count]:
    return {"width": ceil_div(l.width, r.layout.tp)}


SHARDING.add(follows(_width), m.Activation)
SHARDING.add(follows(_gate), m.Gate)
SHARDING.add(follows(_conv), m.Conv)
SHARDING.add(follows(_learned), m.Learned)


# -- products ------------------------------------------------------------------------------------------------------
def _linear_sizes(l: m.Linear, r: _Rank, what: str) -> dict[str, Count]:
    tp = r.layout.tp
    if l.part == "head":
        return {"outputs": ceil_div(l.outputs, tp)}  # the vocabulary is padded
    if l.cut == "columns":
        check_divides("tp", tp, f"{what} outputs", l.outputs - l.kv)
        return {"outputs": r.groups(l.outputs, l.kv, l.kv_groups), "kv": l.kv // least(tp, l.kv_groups)}
    check_divides("tp", tp, f"{what} inputs", l.inputs)
    if l.cut == "groups":
        check_divides("tp", tp, f"{what} groups", l.groups)
        return {"inputs": l.inputs // tp, "outputs": l.outputs // tp, "groups": l.groups // tp}
    return {"inputs": l.inputs // tp}


@SHARDING.of(m.Linear)
def _linear(l: m.Linear, rank: _Rank, stream: Stream) -> tuple[Iterable[m.Module], Stream]:
    """Column products need all tokens of their input; row products leave partial sums, reduced where they join the
    stream."""
    if l.cut == "none":
        return replicated(l, rank, stream)
    before: tuple[m.Module, ...] = ()
    after: tuple[m.Module, ...] = ()
    tp, several = rank.layout.tp, rank.several(rank.layout.tp)
    if l.cut == "columns" and (not stream.pieces or l.inputs == rank.hidden):
        before, stream = gather(l.name, l.inputs, rank, stream, again=not l.frozen)
        l = replace(l, gathered=tp if rank.layout.sp else 1)
    if l.cut == "rows" and several and l.outputs == rank.hidden:
        stream = replace(stream, partial=stream.partial + (tp > 1) * 1)
    elif l.cut == "rows" and several:
        after = (
            m.Collective(
                name=f"{l.name}_reduce", op="all_reduce", width=l.outputs, ranks=tp, split=l.split * rank.layout.cp
            ),
        )
    return (*before, cut(l, rank, _linear_sizes), *after), replace(stream, pieces=l.cut != "rows")


@SHARDING.of(m.Magnitude)
def _magnitude(d: m.Magnitude, rank: _Rank, stream: Stream) -> tuple[Iterable[m.Module], Stream]:
    """A rank has the magnitudes of its own outputs, or a part of each row, whose sum of squares it shares."""
    if d.cut == "none":
        return (on_every_rank(d, rank),), stream
    if d.cut == "columns":
        return (cut(d, rank, lambda d, r, what: {"outputs": d.outputs // r.layout.tp}),), stream
    return (cut(d, rank, lambda d, r, what: {"inputs": d.inputs // r.layout.tp, "sharers": r.layout.tp}),), stream


@SHARDING.of(m.ExpertLinear)
def _expert_linear(e: m.ExpertLinear, rank: _Rank, stream: Stream) -> tuple[Iterable[m.Module], Stream]:
    """Every rank has its heads of every expert: columns of the query products, rows of the output products.

    Adapters of experts are where the experts are, and their tokens come with theirs.
    """
    tp = rank.layout.tp
    if e.adapts:
        layout, etp = rank.layout, rank.layout.expert_tp
        sizes = {"columns": {"outputs": e.outputs // etp}, "rows": {"inputs": e.inputs // etp}}.get(e.cut, {})
        copies = layout.ranks // (layout.ep * etp) * (1 if sizes else etp)
        own: Settings = {**sizes, "copies": copies, "split": layout.cp * layout.tp, "load": layout.load}
        return (replace(e, **own, ranks=layout.ep, gathered=layout.ep * etp),), stream
    if e.summed:
        check_divides("tp", tp, f"{e.name} inputs", e.inputs)
        partial = stream.partial + (tp > 1) * 1
        mine = cut(e, rank, lambda e, r, what: {"inputs": e.inputs // r.layout.tp})
        return (mine,), replace(stream, pieces=False, partial=partial)
    check_divides("tp", tp, f"{e.name} outputs", e.outputs)
    before, stream = gather(e.name, e.inputs, rank, stream)
    mine = cut(e, rank, lambda e, r, what: {"outputs": e.outputs // r.layout.tp})
    return (*before, mine), replace(stream, pieces=True)


@SHARDING.of(m.Embedding)
def _embedding(e: m.Embedding, rank: _Rank, stream: Stream) -> tuple[Iterable[m.Module], Stream]:
    """The rows of the vocabulary are sharded and their lookups summed over ranks, and so are those of hashes (SGLang).

    Other tables are replicated.
    """
    if e.rows != rank.rows and not e.hashed:
        return replicated(e, rank, stream)
    mine = cut(e, rank, lambda e, r, what: {"rows": ceil_div(e.rows, r.layout.tp)})
    summed = reduction(e.name, rank)
    if e.hashed:
        summed = tuple(replace(x, width=e.lookups * e.width) if isinstance(x, m.Collective) else x for x in summed)
    return (mine, *summed), stream


# -- the stream ----------------------------------------------------------------------------------------------------
def reduction(name: str, rank: _Rank, where: Count = 1) -> tuple[m.Module, ...]:
    """Reduce the stream's partial sums, if there are any (`where` is 0 or 1); with sp a reduce-scatter."""
    layout = rank.layout
    if not rank.several(layout.tp) or (isinstance(where, int) and where == 0):
        return ()
    op, split = ("reduce_scatter", rank.scattered) if layout.sp else ("all_reduce", layout.cp)
    ranks = layout.tp if isinstance(where, int) else _if(where, layout.tp, 1)
    return (m.Collective(name=f"{name}_reduce", op=op, width=rank.hidden, ranks=ranks, split=split),)


def gather(
    name: str, width: int, rank: _Rank, stream: Stream, again: bool = False
) -> tuple[tuple[m.Module, ...], Stream]:
    """All-gather the scattered tokens of a stream of this width, once for all modules that read it."""
    layout = rank.layout
    if not rank.several(layout.tp) or not layout.sp or width in stream.gathered:
        return (), stream
    collective = m.Collective(
        name=f"{name}_gather", op="all_gather", width=width, ranks=layout.tp, split=rank.scattered, again=again
    )
    return (collective,), replace(stream, gathered=stream.gathered | {width})


@SHARDING.of(m.Add)
def _add(a: m.Add, rank: _Rank, stream: Stream) -> tuple[Iterable[m.Module], Stream]:
    """A residual sum needs reduced values; two partial branches are added before one reduction.

    A sum inside the sharded pieces is sharded like them.
    """
    if stream.pieces:
        width: Settings = {"width": ceil_div(a.width, rank.layout.tp)}
        mine = replace(a, **width, split=a.split * rank.layout.cp)
        return (replace(mine, copies=rank.layout.cp * rank.layout.dp),), stream
    before = reduction(a.name, rank, (stream.partial == 1) * 1)
    return (*before, on_every_rank(a, rank)), Stream(partial=most(stream.partial - 1, 0))


@SHARDING.of(m.TokenShift)
def _shift(s: m.TokenShift, rank: _Rank, stream: Stream) -> tuple[Iterable[m.Module], Stream]:
    """A token needs the one before, so the shift follows the all-gather; every rank computes all streams."""
    before, stream = gather(s.name, s.width, rank, stream)
    mine = replace(s, split=s.split * rank.layout.cp, copies=rank.layout.ranks)
    return (*before, mine), replace(stream, gathered=stream.gathered | {s.streams * s.width})


@SHARDING.of(m.Delay)
def _delay(d: m.Delay, rank: _Rank, stream: Stream) -> tuple[Iterable[m.Module], Stream]:
    """Values are sharded with the heads that they belong to."""
    width: Settings = {"width": d.width // least(rank.layout.tp, d.kv_groups)}
    return (replace(d, **width, split=d.split * rank.layout.cp, copies=rank.layout.cp * rank.layout.dp),), stream


@SHARDING.of(m.RelativeBias)
def _relative(b: m.RelativeBias, rank: _Rank, stream: Stream) -> tuple[Iterable[m.Module], Stream]:
    """Each rank has the whole table, and its share of the heads."""
    check_divides("tp", rank.layout.tp, f"{b.name} heads", b.heads)
    heads: Settings = {"heads": b.heads // rank.layout.tp}
    return (replace(b, **heads, split=rank.layout.cp, copies=rank.layout.ranks),), stream


@SHARDING.of(m.Norm)
def _norm(n: m.Norm, rank: _Rank, stream: Stream) -> tuple[Iterable[m.Module], Stream]:
    """A norm of the stream needs reduced values; a norm inside the pieces is over each head, or a share of the
    width."""
    if not stream.pieces:
        return (*reduction(n.name, rank, (stream.partial > 0) * 1), on_every_rank(n, rank)), Stream()
    layout, kv_heads = rank.layout, getattr(rank.mixer, "kv_heads", 0)
    size = n.repeats if n.repeats > 1 else n.width
    per_kv = kv_heads and (n.repeats == kv_heads or n.name == "k_norm")
    part = size // least(layout.tp, kv_heads) if per_kv else ceil_div(size, layout.tp)
    copies = layout.ranks if n.repeats > 1 and not n.per_repeat else layout.cp * layout.dp
    if per_kv and n.repeats == 1:
        copies = layout.ranks // least(layout.tp, kv_heads)
    sizes: Settings = {"repeats": part} if n.repeats > 1 else {"width": part}
    return (replace(n, **sizes, split=layout.cp, copies=copies),), stream


@SHARDING.of(m.Rope)
def _rope(r: m.Rope, rank: _Rank, stream: Stream) -> tuple[Iterable[m.Module], Stream]:
    """Heads of queries, and of keys as in the attention of the layer."""
    keys = max(0, r.heads - getattr(rank.mixer, "heads", r.heads))
    kept = rank.kv(keys) if keys > 1 else keys
    heads: Settings = {"heads": ceil_div(r.heads - keys, rank.layout.tp) + kept}
    return (replace(r, **heads, split=rank.layout.cp),), stream


# -- mixers --------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Mixes:
    """Rule of a mixer made of heads or channels, which are always sharded.

    `keys`: elements of a token's keys and values, exchanged between ranks that share the tokens; None where only a
    state passes from token to token. `latent`: it computes keys and values from the stream itself, and so needs all
    tokens of its cached entries.
    """

    sizes: Sizes
    keys: OfKind[Count] | None
    latent: bool = False

    def __call__(self, module: Any, rank: _Rank, stream: Stream) -> tuple[Iterable[m.Module], Stream]:
        before: tuple[m.Module, ...] = ()
        if self.latent:
            before, stream = gather(module.name, module.cache_width, rank, stream)
        mine = self._exchanged(module.name, cut(module, rank, self.sizes), rank)
        return (*before, *mine), replace(stream, pieces=True)

    def _exchanged(self, name: str, mixer: Any, rank: _Rank) -> Iterator[m.Module]:
        """A rank's mixer, preceded by the exchange of context parallelism (for Ulysses also followed by one)."""
        layout = rank.layout
        own = isinstance(mixer, m.Attention) and mixer.keys is not None and not mixer.reads
        if not rank.several(layout.cp) or self.keys is None or own:
            yield mixer  # keys of its own, such as those of a prompt, are on every rank
            return
        keys = self.keys(mixer)
        place: Settings = {
            "stride": layout.tp, "axis": "cp", "split": layout.cp, "ranks": layout.cp, "positions": mixer.positions,
            "runs": mixer.runs, "stream": mixer.stream,
        }  # fmt: skip
        if layout.exchange == "ulysses" and isinstance(mixer, m.Attention):
            check_divides("cp", layout.cp, "the attention heads of a tensor-parallel rank", mixer.heads)
            queries, values = mixer.heads * mixer.head_dim, mixer.heads * mixer.v_head_dim
            yield m.Collective(name=f"{name}_spread", op="all_to_all", width=queries + keys, **place)
            few = least(layout.cp, mixer.kv_heads)
            sizes: Settings = {"heads": mixer.heads // layout.cp, "kv_heads": mixer.kv_heads // few}
            yield replace(mixer, **sizes, split=1)
            yield m.Collective(name=f"{name}_return", op="all_to_all", width=values, **place)
            return
        if layout.exchange == "ulysses":
            raise InputError("layout.exchange", layout.exchange, f"ring or all_gather for {type(mixer).__name__}")
        ring = "ring" if layout.exchange == "ring" else "keys"
        yield m.Collective(name=f"{name}_{ring}", op="all_gather", width=keys, again=True, **place)
        yield mixer


def _attention(a: m.Attention, r: _Rank, what: str) -> dict[str, Count]:
    tp = r.layout.tp
    check_divides("tp", tp, f"{what} heads", a.heads)
    many, few = most(tp, a.kv_heads), least(tp, a.kv_heads)
    if some(many % few):
        raise InputError("layout.tp", tp, f"a divisor or a multiple of the {a.kv_heads} key/value heads")
    if a.differential:
        check_divides("tp", tp, f"{what} pairs of key/value heads", a.kv_heads // 2)
    return {"heads": a.heads // tp, "kv_heads": r.kv(a.kv_heads)}


def _heads(
    a: m.LatentAttention | m.CompressedAttention | m.LinearAttention | m.MatrixMemory, r: _Rank, what: str
) -> dict[str, Count]:
    check_divides("tp", r.layout.tp, f"{what} heads", a.heads)
    return {"heads": a.heads // r.layout.tp}


def _state_space(s: m.StateSpace, r: _Rank, what: str) -> dict[str, Count]:
    check_divides("tp", r.layout.tp, f"{what} heads", s.heads)
    return {"heads": s.heads // r.layout.tp, "groups": r.kv(s.groups)}


def _delta(s: m.DeltaRule, r: _Rank, what: str) -> dict[str, Count]:
    check_divides("tp", r.layout.tp, f"{what} key heads", s.key_heads)
    check_divides("tp", r.layout.tp, f"{what} value heads", s.value_heads)
    return {"key_heads": s.key_heads // r.layout.tp, "value_heads": s.value_heads // r.layout.tp}


def _selective(s: m.SelectiveScan, r: _Rank, what: str) -> dict[str, Count]:
    check_divides("tp", r.layout.tp, f"{what} channels", s.channels)
    return {"channels": s.channels // r.layout.tp, "groups": r.kv(s.groups)}


def _channels(s: m.GatedRecurrence | m.Wkv, r: _Rank, what: str) -> dict[str, Count]:
    check_divides("tp", r.layout.tp, f"{what} channels", s.channels)
    return {"channels": s.channels // r.layout.tp}


SHARDING.add(Mixes(_attention, lambda a: a.kv_width), m.Attention)
SHARDING.add(Mixes(_heads, lambda a: a.cache_width, latent=True), m.LatentAttention, m.CompressedAttention)
SHARDING.add(Mixes(_heads, None), m.LinearAttention, m.MatrixMemory)
SHARDING.add(Mixes(_state_space, None), m.StateSpace)
SHARDING.add(Mixes(_delta, None), m.DeltaRule)
SHARDING.add(Mixes(_selective, None), m.SelectiveScan)
SHARDING.add(Mixes(_channels, None), m.GatedRecurrence, m.Wkv)


# -- experts -------------------------------------------------------------------------------------------------------
@SHARDING.of(m.Experts)
def _experts(e: m.Experts, rank: _Rank, stream: Stream) -> tuple[Iterable[m.Module], Stream]:
    """Experts are sharded over ep ranks, and each over etp; results within a tensor-parallel group are partial sums."""
    partial = stream.partial + _stays(rank.layout)
    return _exchanged_experts(e, rank), replace(stream, pieces=False, partial=partial)


def _load(e: m.Experts, layout: Layout) -> Count:
    """Rows of the busiest rank over the mean: as given, else from the experts' popularity."""
    if not e.popularity:
        return layout.load
    return layout.loaded(busiest(e.chances, layout.ep, isinstance(e.popularity, tuple) and not e.redundant))


def _check_slots(experts: int, redundant: int, ranks: Count) -> None:
    """Raises InputError where ranks do not divide experts plus copies, with the fewest copies for which they do."""
    slots = experts + redundant
    if not some(slots % ranks):
        return
    error = does_not_divide("ep", ranks, f"{experts} experts and {redundant} copies" if redundant else "experts", slots)
    if is_array(ranks):
        raise error
    more = redundant + -slots % int(ranks)
    raise InputError(error.field, ranks, f"{error.expected}, or in inference redundant={more}", error.nearest)


def _exchanged_experts(e: m.Experts, rank: _Rank) -> Iterator[m.Module]:
    """A rank's experts, with the dispatch of tokens to them and the combine of their outputs."""
    layout, etp = rank.layout, rank.layout.expert_tp
    redundant = layout.redundant if rank.several(layout.ep) else 0
    _check_slots(e.experts, redundant, layout.ep)
    check_divides("etp" if layout.etp is not None else "tp", etp, "the experts' inner size", e.inner)
    stays, owned = _stays(layout), layout.cp * layout.tp
    inner: Settings = {"inner": e.inner // etp}
    routed = replace(e, redundant=redundant, popularity=layout.popularity or 0.0)
    mine = replace(
        routed, **inner, ranks=layout.ep, gathered=layout.ep * etp, split=owned,
        copies=layout.ranks // (layout.ep * etp), load=_load(routed, layout),
    )  # fmt: skip
    sends, spans = _if(stays, 1, layout.ep), _if(stays, 1, etp)
    width, k = e.hidden, e.top_k or 1

    def exchange(op: str) -> Iterator[m.Module]:
        if rank.several(sends):
            yield m.Collective(
                name=f"{e.name}_{op}", op=op, width=e.routed(width * k), ranks=sends, stride=etp, axis="ep",
                top_k=k, experts=mine.slots, groups=e.groups, top_groups=e.top_groups, identities=e.identities,
                split=owned,
            )  # fmt: skip

    def within(op: str) -> Iterator[m.Module]:
        if rank.several(spans):
            sent = _if((layout.ep == 1) * 1, width, e.routed(width * k))
            yield m.Collective(name=f"{e.name}_{op}", op=op, width=sent, ranks=spans, axis="tp", split=owned)

    yield from exchange("dispatch")
    yield from within("all_gather")
    yield mine
    yield from within("reduce_scatter")
    yield from exchange("combine")
    if not layout.sp and rank.several(layout.tp) and not (isinstance(stays, int) and stays):
        ranks = _if(stays, 1, layout.tp)
        yield m.Collective(name=f"{e.name}_gather", op="all_gather", width=width, ranks=ranks, split=owned)


def _stays(layout: Layout) -> Count:
    """1 where the ranks of an expert group are those of a tensor-parallel group, which have the same tokens.

    Their experts' outputs are then partial sums like any other, and there is no dispatch.
    """
    if layout.sp:
        return 0
    group = layout.ep * layout.expert_tp
    return ((group == layout.tp) & (layout.tp > 1)) * 1


def _if(condition: Count, then: Count, other: Count) -> Count:
    return condition * then + (1 - condition) * other


# -- a layer -------------------------------------------------------------------------------------------------------
def _spread(rank: _Rank, modules: Iterable[m.Module]) -> Iterator[m.Module]:
    """The modules of a layer on one rank, in order, with the collectives between them."""
    modules = tuple(modules)
    mixer = next((x for x in modules if isinstance(SHARDING[type(x)], Mixes)), None)
    rank, stream = replace(rank, mixer=mixer), Stream()
    idle = bool(modules) and all(module.idle for module in modules)
    if mixer is not None:
        SHARDING[type(mixer)](mixer, rank, stream)  # so that an error names heads, not their products
    for module in modules:
        mine, stream = SHARDING[type(module)](module, rank, stream)
        yield from (x for x in mine if not (idle and isinstance(x, m.Collective)))
    if not idle:  # an idle layer exchanges nothing
        yield from reduction("layer", rank, (stream.partial > 0) * 1)
