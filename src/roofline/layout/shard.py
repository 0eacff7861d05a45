"""Model × layout → the smaller model that one rank holds, with collectives put in as modules.

What ranks share out is what the architecture makes of independent pieces: heads, inner neurons, experts, vocabulary
rows. Everything else every rank has whole. A product that adds up the pieces (`rows`) leaves a partial sum on every
rank, which is reduced where the whole is needed next: an all-reduce, or with sequence parallelism a reduce-scatter,
and an all-gather before the next product that needs all tokens (Megatron-LM, arXiv:1909.08053 and 2205.05198).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

from roofline.layout.layout import Layout, check_divides
from roofline.model import modules as m
from roofline.model.errors import InputError
from roofline.model.maths import Count, ceil_div, is_array, least, most
from roofline.model.model import Block, Model

ONE_CHIP = Layout()


@dataclass(frozen=True)
class Shard(Model):
    """What one rank holds, a model like any other; `counted`: its blocks, each with its number of layers.

    `whole`: the model, where this is a pass through all stages of a pipeline.
    """

    counted: tuple[tuple[Block, Count], ...] = ()
    layout: Layout = ONE_CHIP
    whole: Model | None = None

    @property
    def layout_text(self) -> str:
        """The layout of which this is one rank, in words."""
        return self.layout.text()

    @cached_property
    def resident(self) -> tuple[Model, ...]:
        """The ranks of the stages that a pass goes through, one after another; an average one for arrays of degrees."""
        if self.whole is None:
            return (self,)
        if is_array(self.layout.pp):
            return (shard(self.whole, self.layout, 0),)
        return distinct(stages(self.whole, self.layout))

    def kv_elements(self, tokens: Count) -> Count:
        """Cached elements of one sequence: those of this rank's share of the tokens, or of its heads (Ulysses)."""
        whole = super().kv_elements(tokens)
        return whole if self.layout.exchange == "ulysses" else ceil_div(whole, self.layout.cp)

    @cached_property
    def blocks(self) -> tuple[tuple[Block, Count], ...]:
        """The blocks of this rank's layers."""
        return self.counted

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The broadcast shape of the layout's degrees."""
        return self.layout.shape

    @cached_property
    def distinct_parameters(self) -> Count:
        """Parameters, each divided by the ranks that hold it too: their sum over all ranks is the model's."""
        return sum(n * _distinct(module, self.layout) for module, n in self.modules())


def _distinct(module: m.Module, layout: Layout) -> Count:
    from fractions import Fraction

    def share(count: Count, copies: Count) -> Count:
        return Fraction(count, copies) if isinstance(count, int) and isinstance(copies, int) else count / copies

    rest = module.parameters - module.matrix
    if isinstance(module, (m.Linear, m.Conv)) and module.kv:
        each = module.parameters // (module.outputs if isinstance(module, m.Linear) else module.channels)
        again = layout.ranks // least(layout.tp, module.kv_groups)
        return share(module.parameters - module.kv * each, module.copies) + share(module.kv * each, again)
    if isinstance(module, m.Activation) or (isinstance(module, m.Linear) and module.cut == "rows"):
        return share(module.matrix, module.copies) + share(rest, layout.ranks)
    if isinstance(module, m.Experts) and module.bias:
        out = module.held * module.hidden
        return share(module.parameters - out, module.copies) + share(out, module.copies * layout.expert_tp)
    return share(module.parameters, module.copies)


def shard(model: Model, layout: Layout, stage: int | None = None) -> Model:
    """The model that a rank of `stage` holds: the first stage has the embedding, the last the head.

    `stage` None: all layers on one rank, and the hand-overs between stages as modules, for the latency of one pass.
    A layout of one chip gives the model itself. Degrees in arrays give sizes in arrays; a stage is then an average one.
    Raises InputError for a degree that does not divide what it shares out, naming it and the nearest that do.
    """
    if layout.alone:
        return model
    here = _Rank(layout, model.hidden, model.vocab)
    embedding, head = tuple(_spread(here, model.embedding)), tuple(_spread(here, model.head))
    if is_array(layout.pp):
        share = ceil_div(len(model.layers), layout.pp) / len(model.layers)
        counted = [(here.block(block), n * (1 if stage is None else share)) for block, n in model.blocks]
    else:
        held = layout.layers_of(len(model.layers))
        layers = range(len(model.layers)) if stage is None else held[stage]
        counted = [(here.block(b), n) for b, n in Counter(model.layers[i] for i in layers).items()]
        if stage is not None:
            embedding = embedding if stage == 0 else ()
            if layout.pp > 1:
                embedding, head = _untied(embedding), _untied(head)
            head = head if stage == layout.pp - 1 else ()
    if here.several(layout.pp):
        handed = m.Collective(
            name="send", op="p2p", width=model.hidden, ranks=layout.pp, stride=layout.ranks, axis="pp",
            split=here.scattered,
        )  # fmt: skip
        passes = layout.pp - 1 if stage is None or is_array(layout.pp) else int(stage < layout.pp - 1)
        if not isinstance(passes, int) or passes:
            counted.append((Block("pipeline", (handed,)), passes if stage is None else 1))
    given = {f.name: getattr(model, f.name) for f in fields(Model)}
    given |= {"embedding": embedding, "head": head, "layers": ()}
    passing = model if stage is None and here.several(layout.pp) else None
    return Shard(**given, counted=tuple(counted), layout=layout, whole=passing)


def stages(model: Model, layout: Layout) -> tuple[Model, ...]:
    """The models of a rank of every pipeline stage, first to last. Raises InputError as `shard` does."""
    return tuple(shard(model, layout, i) for i in range(layout.pp))


def distinct(ranks: Iterable[Model]) -> tuple[Model, ...]:
    """The ranks that differ in what they hold."""
    return tuple({(rank.embedding, rank.blocks, rank.head): rank for rank in ranks}.values())


def _untied(modules: tuple[m.Module, ...]) -> tuple[m.Module, ...]:
    """The first and the last stage each hold the table that embedding and head share."""

    def apart(x: m.Module) -> m.Module:
        if isinstance(x, m.Linear) and x.tied:
            return replace(x, tied=False, copies=2 * x.copies)
        return replace(x, copies=2 * x.copies) if isinstance(x, m.Embedding) and x.shared else x

    return tuple(apart(x) for x in modules)


@dataclass(frozen=True)
class _Rank:
    """What cutting a module needs to know: the degrees, and the width of the stream."""

    layout: Layout
    hidden: int
    vocab: int

    @staticmethod
    def several(degree: Count) -> bool:
        """Whether there is more than one, in any element."""
        return is_array(degree) or degree > 1

    @property
    def scattered(self) -> Count:
        """Ranks that share out the tokens where the stream is scattered: cp, with sequence parallelism cp·tp."""
        return self.layout.cp * (self.layout.tp if self.layout.sp else 1)

    def block(self, block: Block) -> Block:
        """One layer on this rank."""
        return Block(block.name, tuple(_spread(self, block.modules)))

    def kv(self, heads: Count) -> Count:
        """Key/value heads of a rank: they are copied beyond their number."""
        return most(1, heads // self.layout.tp)

    def groups(self, total: int, kv: int, kv_heads: int) -> Count:
        """A width of which `kv` is made by `kv_heads` heads that are copied beyond their number."""
        return (total - kv) // self.layout.tp + kv // least(self.layout.tp, kv_heads)


# -- one module ----------------------------------------------------------------------------------------------------
Cutter = Callable[[Any, _Rank, str], dict[str, Count]]
"""A module, the rank and what to call the module in errors → the sizes that change."""


def _linear(l: m.Linear, r: _Rank, what: str) -> dict[str, Count]:
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


def _attention(a: m.Attention, r: _Rank, what: str) -> dict[str, Count]:
    tp = r.layout.tp
    check_divides("tp", tp, f"{what} heads", a.heads)
    many, few = most(tp, a.kv_heads), least(tp, a.kv_heads)
    if (many % few).any() if is_array(many % few) else many % few:
        raise InputError("layout.tp", tp, f"a divisor or a multiple of the {a.kv_heads} key/value heads")
    return {"heads": a.heads // tp, "kv_heads": r.kv(a.kv_heads)}


def _heads(a: m.LatentAttention | m.CompressedAttention | m.LinearAttention, r: _Rank, what: str) -> dict[str, Count]:
    check_divides("tp", r.layout.tp, f"{what} heads", a.heads)
    return {"heads": a.heads // r.layout.tp}


def _state_space(s: m.StateSpace, r: _Rank, what: str) -> dict[str, Count]:
    check_divides("tp", r.layout.tp, f"{what} heads", s.heads)
    return {"heads": s.heads // r.layout.tp, "groups": r.kv(s.groups)}


def _delta(s: m.DeltaRule, r: _Rank, what: str) -> dict[str, Count]:
    check_divides("tp", r.layout.tp, f"{what} key heads", s.key_heads)
    check_divides("tp", r.layout.tp, f"{what} value heads", s.value_heads)
    return {"key_heads": s.key_heads // r.layout.tp, "value_heads": s.value_heads // r.layout.tp}


def _channels(s: m.SelectiveScan | m.GatedRecurrence, r: _Rank, what: str) -> dict[str, Count]:
    check_divides("tp", r.layout.tp, f"{what} channels", s.channels)
    return {"channels": s.channels // r.layout.tp}


def _conv(c: m.Conv, r: _Rank, what: str) -> dict[str, Count]:
    return {"channels": r.groups(c.channels, c.kv, c.kv_groups), "kv": c.kv // least(r.layout.tp, c.kv_groups)}


def _width(a: m.Activation, r: _Rank, what: str) -> dict[str, Count]:
    check_divides("tp", r.layout.tp, f"{what} width", a.width)
    return {"width": a.width // r.layout.tp}


def _gate(g: m.Gate, r: _Rank, what: str) -> dict[str, Count]:
    return {"width": g.width // r.layout.tp, "gates": ceil_div(g.gates, r.layout.tp)}


def _embedding(e: m.Embedding, r: _Rank, what: str) -> dict[str, Count]:
    return {"rows": ceil_div(e.rows, r.layout.tp)}


CUTTERS: dict[type[m.Module], Cutter] = {
    m.Linear: _linear, m.Attention: _attention, m.LatentAttention: _heads, m.CompressedAttention: _heads,
    m.LinearAttention: _heads, m.StateSpace: _state_space, m.DeltaRule: _delta, m.SelectiveScan: _channels,
    m.GatedRecurrence: _channels, m.Conv: _conv, m.Activation: _width, m.Gate: _gate, m.Embedding: _embedding,
}  # fmt: skip
MIXERS = (
    m.Attention, m.LatentAttention, m.CompressedAttention, m.LinearAttention, m.StateSpace, m.DeltaRule,
    m.SelectiveScan, m.GatedRecurrence,
)  # fmt: skip
"""Modules made of heads or channels, which are always shared out."""
FOLLOWERS = (m.Norm, m.Rope, m.Activation, m.Gate, m.Conv)
"""Modules that are shared out where what they read is."""


def _cut(module: m.Module, rank: _Rank) -> m.Module:
    sizes = CUTTERS[type(module)](module, rank, module.name)
    return replace(module, **sizes, split=rank.layout.cp, copies=rank.layout.cp * rank.layout.dp)


def _whole(module: m.Module, rank: _Rank) -> m.Module:
    return replace(module, split=rank.scattered, copies=rank.layout.ranks)


def _norm(n: m.Norm, rank: _Rank, mixer: m.Module | None) -> m.Module:
    """A norm inside the pieces: over each head, or over the width that the ranks share out."""
    kv_heads = getattr(mixer, "kv_heads", 0)
    size = n.repeats if n.repeats > 1 else n.width
    per_kv = kv_heads and (n.repeats == kv_heads or n.name == "k_norm")
    part = size // least(rank.layout.tp, kv_heads) if per_kv else ceil_div(size, rank.layout.tp)
    weights = rank.layout.ranks if n.repeats > 1 and not n.per_repeat else rank.layout.cp * rank.layout.dp
    if per_kv and n.repeats == 1:
        weights = rank.layout.ranks // least(rank.layout.tp, kv_heads)
    sizes = {"repeats": part} if n.repeats > 1 else {"width": part}
    return replace(n, **sizes, split=rank.layout.cp, copies=weights)


def _rope(r: m.Rope, rank: _Rank, mixer: m.Module | None) -> m.Module:
    """Heads of queries, and of keys as the attention beside it has them."""
    heads = getattr(mixer, "heads", r.heads)
    keys = max(0, r.heads - heads)
    held = rank.kv(keys) if keys > 1 else keys
    return replace(r, heads=ceil_div(r.heads - keys, rank.layout.tp) + held, split=rank.layout.cp)


# -- a layer -------------------------------------------------------------------------------------------------------
def _spread(rank: _Rank, modules: Iterable[m.Module]) -> Iterator[m.Module]:
    """The modules of a layer on one rank, in order, with the collectives between them."""
    layout, modules = rank.layout, tuple(modules)
    several, mixer = rank.several(layout.tp), next((x for x in modules if isinstance(x, MIXERS)), None)
    if mixer is not None:
        _cut(mixer, rank)  # an error names heads rather than the products around them
    pieces = False  # whether the last module's output is shared out
    partial: Count = 0  # partial sums that wait for their reduction
    everywhere: set[Count] = set()  # widths of the streams that an all-gather has brought together

    def reduced(name: str, some: Count = 1) -> Iterator[m.Module]:
        if several and not (isinstance(some, int) and some == 0):
            op, split = ("reduce_scatter", rank.scattered) if layout.sp else ("all_reduce", layout.cp)
            ranks = layout.tp if isinstance(some, int) else _if(some, layout.tp, 1)
            yield m.Collective(name=f"{name}_reduce", op=op, width=rank.hidden, ranks=ranks, split=split)

    def gather(name: str, width: Count) -> Iterator[m.Module]:
        if several and layout.sp and width not in everywhere:
            everywhere.add(width)
            name = f"{name}_gather"
            yield m.Collective(name=name, op="all_gather", width=width, ranks=layout.tp, split=rank.scattered)

    for module in modules:
        stream = isinstance(module, m.Norm) and not pieces
        if isinstance(module, m.Add) or stream:
            now = (partial == 1) * 1 if isinstance(module, m.Add) else (partial > 0) * 1
            yield from reduced(module.name, now)
            partial = most(partial - 1, 0) if isinstance(module, m.Add) else 0
            everywhere.clear()
        if isinstance(module, m.Experts):
            yield from _experts(module, rank)
            pieces, partial = False, partial + _stays(layout)
        elif isinstance(module, m.Linear) and module.cut != "none":
            if module.cut == "columns" and (not pieces or module.inputs == rank.hidden):
                yield from gather(module.name, module.inputs)
                module = replace(module, gathered=layout.tp if layout.sp else 1)
            yield _cut(module, rank)
            pieces = module.cut != "rows"
            if module.cut == "rows" and several and module.outputs == rank.hidden:
                partial = partial + (layout.tp > 1) * 1
            elif module.cut == "rows" and several:
                yield m.Collective(
                    name=f"{module.name}_reduce", op="all_reduce", width=module.outputs, ranks=layout.tp,
                    split=layout.cp,
                )  # fmt: skip
        elif isinstance(module, MIXERS):
            if isinstance(module, (m.LatentAttention, m.CompressedAttention)):
                yield from gather(module.name, module.cache_width)
            yield from _context(module, rank)
            pieces = True
        elif isinstance(module, m.Rope):
            yield _rope(module, rank, mixer)
        elif isinstance(module, m.Norm) and pieces:
            yield _norm(module, rank, mixer)
        elif isinstance(module, FOLLOWERS) and pieces:
            yield _cut(module, rank)
        elif isinstance(module, m.Embedding) and module.rows == rank.vocab:
            yield _cut(module, rank)
            yield from reduced(module.name)
        else:
            yield _whole(module, rank)
            pieces = False
    yield from reduced("layer", (partial > 0) * 1)


def _if(condition: Count, then: Count, other: Count) -> Count:
    return condition * then + (1 - condition) * other


def _stays(layout: Layout) -> Count:
    """1 where the ranks of an expert group are those of a tensor-parallel group, which have the same tokens anyway.

    Their experts' outputs are then partial sums like any other, and nothing is dispatched.
    """
    if layout.sp:
        return 0
    group = layout.ep * layout.expert_tp
    return ((group == layout.tp) & (layout.tp > 1)) * 1


def _experts(e: m.Experts, rank: _Rank) -> Iterator[m.Module]:
    """Experts shared out over ep ranks, each of them over etp; tokens are sent to them and their outputs back."""
    layout, etp = rank.layout, rank.layout.expert_tp
    check_divides("ep", layout.ep, "experts", e.experts)
    check_divides("etp" if layout.etp is not None else "tp", etp, "the experts' inner size", e.inner)
    stays, owned = _stays(layout), layout.cp * layout.tp
    held = replace(
        e, inner=e.inner // etp, ranks=layout.ep, gathered=layout.ep * etp, split=owned,
        copies=layout.ranks // (layout.ep * etp), load=layout.load,
    )  # fmt: skip
    sends, spans = _if(stays, 1, layout.ep), _if(stays, 1, etp)
    width, k = e.hidden, e.top_k or 1

    def exchange(op: str) -> Iterator[m.Module]:
        if rank.several(sends):
            yield m.Collective(
                name=f"{e.name}_{op}", op=op, width=width * k, ranks=sends, stride=etp, axis="ep", top_k=k,
                experts=e.experts, groups=e.groups, top_groups=e.top_groups, split=owned,
            )  # fmt: skip

    def within(op: str) -> Iterator[m.Module]:
        if rank.several(spans):
            rows = _if((layout.ep == 1) * 1, 1, k)
            yield m.Collective(name=f"{e.name}_{op}", op=op, width=width * rows, ranks=spans, axis="tp", split=owned)

    yield from exchange("dispatch")
    yield from within("all_gather")
    yield held
    yield from within("reduce_scatter")
    yield from exchange("combine")
    if not layout.sp and rank.several(layout.tp) and not (isinstance(stays, int) and stays):
        ranks = _if(stays, 1, layout.tp)
        yield m.Collective(name=f"{e.name}_gather", op="all_gather", width=width, ranks=ranks, split=owned)


def _context(module: m.Module, rank: _Rank) -> Iterator[m.Module]:
    """A mixer on one rank, with the exchange that context parallelism needs before it (and Ulysses also after it)."""
    layout, cut = rank.layout, _cut(module, rank)
    keys = getattr(cut, "kv_width", getattr(cut, "cache_width", None))
    if not rank.several(layout.cp) or keys is None:
        yield cut
        return
    place = {"stride": layout.tp, "axis": "cp", "split": layout.cp, "ranks": layout.cp}
    if layout.exchange == "ulysses" and isinstance(cut, m.Attention):
        check_divides("cp", layout.cp, "the attention heads of a tensor-parallel rank", cut.heads)
        queries, values = cut.heads * cut.head_dim, cut.heads * cut.v_head_dim
        yield m.Collective(name=f"{module.name}_spread", op="all_to_all", width=queries + keys, **place)
        few = least(layout.cp, cut.kv_heads)
        yield replace(cut, heads=cut.heads // layout.cp, kv_heads=cut.kv_heads // few, split=1)
        yield m.Collective(name=f"{module.name}_return", op="all_to_all", width=values, **place)
        return
    if layout.exchange == "ulysses":
        raise InputError("layout.exchange", layout.exchange, f"ring or all_gather for {type(module).__name__}")
    name = "ring" if layout.exchange == "ring" else "keys"
    yield m.Collective(name=f"{module.name}_{name}", op="all_gather", width=keys, **place)
    yield cut
