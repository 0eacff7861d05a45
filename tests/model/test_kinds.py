"""Kinds of modules and ops are complete: every table has an entry for each, and a new kind is one file."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import roofline as rl
from folded import folded
from model.fourier import FourierMixing, Transform
from roofline.hardware.named_chip import chip_named
from roofline.kernels.kernels import GRADIENT_LAWS
from roofline.model.families.blocks.feed_forward import mlp
from roofline.model.families.blocks.layers import layer
from roofline.model.families.blocks.norms import layer_norm
from roofline.model.formats import FORMATS
from roofline.model.kind_table import KindTable, MissingKindError, kinds
from roofline.model.model import Model
from roofline.model.modules import Collective, Embedding, Linear, Module
from roofline.model.precision import uniform
from roofline.model.summary import GROUPS as MODULE_GROUPS
from roofline.model.summary import fingerprint
from roofline.views.plots.style import GROUP_ORDER
from roofline.whatif.markers import GROUPS as OP_GROUPS
from roofline.whatif.markers import points
from roofline.work.counting import COUNTINGS
from roofline.work.lower import lower
from roofline.work.ops import Backward, Communicate, Op, Update
from roofline.work.traffic import TRAFFICS
from roofline.work.training import KEPT

SRC = Path(__file__).parents[2] / "src"


def tables() -> Iterator[KindTable[Any]]:
    """Every table that stands in a module of the package."""
    for path in sorted((SRC / "roofline").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text if "roofline.model.kind_table" in text else "")
        if any(isinstance(n, ast.ImportFrom) and n.module == "roofline.model.kind_table" for n in ast.walk(tree)):
            name = ".".join(path.relative_to(SRC).with_suffix("").parts)
            yield from (value for value in vars(import_module(name)).values() if isinstance(value, KindTable))


TABLES = tuple({id(table): table for table in tables()}.values())
BY_NAME = {table.name: table for table in TABLES}
MODULES = [kind for kind in kinds(Module) if kind.__module__.startswith("roofline.")]
OPS = [kind for kind in kinds(Op) if kind.__module__.startswith("roofline.")]
APART = {"kernels": {Communicate}, "names": {Backward}, "groups of a picture": {Backward}}
"""What tables leave out: the network times collectives, and a gradient is called and drawn as what it is of."""


# -- what there is -------------------------------------------------------------------------------------------------
def test_every_table_is_looked_at() -> None:
    assert len(BY_NAME) == len(TABLES), "two tables of one name"
    of_modules = {"lowerings", "sharding", "roles", "groups of modules", "words", "pieces"}
    of_ops = {"names", "kernels", "laws of gradients", "gradients", "kept activations", "streams of a layer"}
    of_ops |= {"groups of a picture", *(f"{name} counting" for name in COUNTINGS)}
    of_ops |= {f"{name} traffic" for name in TRAFFICS} | {"counting of whole squares"}
    assert {t.name for t in TABLES if t.domain is Module} == of_modules
    assert {t.name for t in TABLES if t.domain is Op} == of_ops
    assert len(TABLES) == len(of_modules) + len(of_ops)


def test_modules_and_ops_that_stand_in_the_package_are_kinds() -> None:
    import roofline.model.modules as m
    import roofline.work.ops as o

    defined = [v for v in (*vars(m).values(), *vars(o).values()) if isinstance(v, type) and issubclass(v, (Module, Op))]
    parents = {base for kind in defined for base in kind.__bases__}
    assert {*MODULES, *OPS} == set(defined) - parents


@folded("name", BY_NAME)
def test_a_table_has_every_kind_of_its_domain(name: str) -> None:
    table = BY_NAME[name]
    apart = APART.get(name, set())
    assert set(table.without) == apart
    wanted = MODULES if table.domain is Module else OPS
    assert [kind.__name__ for kind in wanted if kind not in table and kind not in apart] == []
    assert [kind.__name__ for kind in table.missing if kind in wanted] == []
    for kind in wanted:
        if kind not in apart:
            assert table[kind] is not None
    assert set(table) <= {kind for kind in kinds(table.domain) if kind not in apart}, "a kind of another domain"


@folded("name", BY_NAME)
def test_registering_twice_is_an_error(name: str) -> None:
    table = BY_NAME[name]
    known = next(kind for kind in table if kind in table._entries)
    entry = table[known]
    with pytest.raises(ValueError, match=f"{known.__name__} stands in the table of {name} twice"):
        table.add(entry, known)
    assert table[known] is entry


class OddModule(Module):
    """A kind that no table knows."""


class OddOp(Op):
    """A kind that no table knows."""


@folded("name", BY_NAME)
def test_a_missing_kind_is_an_error_that_names_kind_and_table(name: str) -> None:
    table = BY_NAME[name]
    odd = OddModule if table.domain is Module else OddOp
    assert odd in table.missing
    with pytest.raises(MissingKindError, match=f"{odd.__name__} has no entry in the table of {name}"):
        table[odd]


# -- no else -------------------------------------------------------------------------------------------------------
def with_module(module: Module) -> Model:
    model = rl.load("meta-llama/Llama-3.1-8B")
    block = model.layers[0]
    return replace(model, layers=(replace(block, modules=(*block.modules, module)),))


@pytest.mark.parametrize(
    ("table", "use"),
    [
        ("lowerings", lambda m: rl.analyze(m, rl.prefill(1, 8)).flops),
        ("lowerings", lambda m: rl.estimate(m, rl.prefill(1, 8), on="h100-sxm").time),
        ("sharding", lambda m: rl.shard(m, rl.Layout(tp=8))),
        ("roles", lambda m: m.parameters_by_part()),
        ("words", lambda m: rl.plot(m, kind="diagram")),
    ],
)  # fmt: skip
def test_an_unknown_module_is_swallowed_nowhere(table: str, use: Any) -> None:
    with pytest.raises(MissingKindError, match=f"OddModule has no entry in the table of {table}"):
        use(with_module(OddModule(name="odd")))


def test_an_unknown_op_is_swallowed_nowhere() -> None:
    from roofline.engines.engine import engine_named
    from roofline.kernels.kernels import is_matrix
    from roofline.kernels.target import CALIBRATED, Target
    from roofline.kernels.timing import time_op
    from roofline.work.training import backward, kept

    odd = OddOp(name="odd", input=1, output=1)
    of_odd = Backward(name="odd_backward", of=odd)
    target = Target(chip_named("h100-sxm"), uniform(FORMATS["bf16"]), engine_named("none"), CALIBRATED)
    uses = [
        *(c.flops for c in COUNTINGS.values()), *(t.elements for t in TRAFFICS.values()), kept, is_matrix,
        lambda op: op.kind, lambda op: tuple(backward(op)), lambda op: time_op(op, target),
    ]  # fmt: skip
    for use in uses:
        with pytest.raises(MissingKindError, match="OddOp"):
            use(odd)
    for use in (*(c.flops for c in COUNTINGS.values()), is_matrix, lambda op: op.kind, lambda op: time_op(op, target)):
        with pytest.raises(MissingKindError, match="OddOp"):
            use(of_odd)


def test_what_has_no_gradient_of_its_own_is_never_timed_as_one() -> None:
    """Laws of gradients are those of `Backward`, of which products, collectives and updates make none."""
    from roofline.kernels.kernels import of_no_backward

    without = {kind for kind in OPS if GRADIENT_LAWS[kind] is of_no_backward}
    assert {kind.__name__ for kind in without} == {"MatMul", "ExpertMatMul", "Communicate", "Backward", "Update"}


def test_every_group_has_its_colour() -> None:
    assert {OP_GROUPS[kind] for kind in OP_GROUPS} == set(GROUP_ORDER)
    assert {MODULE_GROUPS[kind] for kind in MODULE_GROUPS} == set(GROUP_ORDER) - {OP_GROUPS[Update]}


# -- a new kind is one file ----------------------------------------------------------------------------------------
WIDTH, INNER, LAYERS, VOCAB = 512, 2048, 4, 32_000
PROMPT = 1024
ON = "h100-sxm"


def fnet() -> Model:
    """FNet's layers, norms after mixing and feed-forward."""
    mixing = (FourierMixing(name="mixing", width=WIDTH),)
    ffn = mlp(WIDTH, INNER, "gelu", gated=False, bias=True)
    block = layer("fourier", WIDTH, mixing, ffn, norm=layer_norm, before=False, after=True)
    return Model(
        "fnet", "fnet", VOCAB, WIDTH, (Embedding(name="embedding", rows=VOCAB, width=WIDTH),), (block,) * LAYERS,
        (Linear(name="lm_head", inputs=WIDTH, outputs=VOCAB, part="head", cut="columns"),),
        uniform(FORMATS["bf16"]), context=4096,
    )  # fmt: skip


MIXING = 5 * WIDTH * (PROMPT * 9 + PROMPT * 10)
"""FLOPs of a layer: 1024 transforms of 2^9 values and 512 of 2^10, at 5·n·log₂ n each."""


def test_it_stands_in_every_table() -> None:
    for table in TABLES:
        assert (FourierMixing if table.domain is Module else Transform) in table


def test_the_new_kind_is_analysed() -> None:
    model = fnet()
    assert model.parameters == 2 * VOCAB * WIDTH + LAYERS * (2 * WIDTH * INNER + INNER + WIDTH + 4 * WIDTH)
    analysis = rl.analyze(model, rl.prefill(1, PROMPT))
    mixing = analysis.op("mixing")
    assert (mixing.kind, mixing.layers, mixing.each_flops) == ("fourier", LAYERS, MIXING)
    assert mixing.each_moved.total == 2 * 3 * WIDTH * PROMPT  # in, out and into the cache, two bytes a value
    assert rl.analyze(model, rl.prefill(3, PROMPT)).op("mixing").each_flops == 3 * MIXING
    assert rl.analyze(model, rl.prefill(1, PROMPT), counting="torch").op("mixing").each_flops == 0
    last = rl.analyze(model, rl.decode(1, PROMPT - 1)).op("mixing").each_flops
    assert last == 5 * WIDTH * (9 + PROMPT * 10)


def test_arrays_of_the_new_kind_are_its_numbers_one_by_one() -> None:
    new, batch = np.array([1, 100, 4096]), np.array([[1], [16]])
    e = rl.estimate(fnet(), rl.prefill(batch, new), on=ON)
    for i, b in enumerate(batch[:, 0].tolist()):
        for j, n in enumerate(new.tolist()):
            one = rl.estimate(fnet(), rl.prefill(b, n), on=ON)
            assert e.flops[i, j] == pytest.approx(one.flops, rel=1e-12)
            assert e.time[i, j] == pytest.approx(one.time, rel=1e-12)


def test_the_new_kind_is_timed() -> None:
    """Two passes through memory, each no faster than its bytes; FLOPs run on the vector units."""
    e = rl.estimate(fnet(), rl.prefill(64, PROMPT), on=ON)
    mixing = next(op for op in e.ops if op.name == "mixing")
    chip = chip_named(ON)
    assert mixing.layers == LAYERS
    assert mixing.expected >= 2 * LAYERS * 64 * 2 * 2 * WIDTH * PROMPT / chip.bandwidth
    assert mixing.each.compute == pytest.approx(64 * MIXING / max(chip.vector.values()))
    assert mixing.expected < e.time
    assert e.memory.cache == 64 * 2 * LAYERS * WIDTH * PROMPT


def test_the_new_kind_is_sharded() -> None:
    model = fnet()
    plain = rl.shard(model, rl.Layout(tp=8))
    mixing = [m for m, _ in plain.modules() if isinstance(m, FourierMixing)]
    assert mixing == [FourierMixing(name="mixing", width=WIDTH, copies=8)]
    assert not [m for m, _ in plain.modules() if isinstance(m, Collective) and m.op == "all_gather"]
    step = rl.prefill(1, PROMPT)
    assert rl.analyze(plain, step).op("mixing").each_flops == MIXING
    scattered = rl.shard(model, rl.Layout(tp=8, sp=True))
    names = [m.name for m, _ in scattered.modules()]
    assert names.index("mixing_gather") == names.index("mixing") - 1
    assert rl.analyze(scattered, step).op("mixing").each_flops == MIXING
    one, eight = (rl.estimate(model, step, on="dgx-h100", layout=layout) for layout in ("tp=1", "tp=8"))
    assert eight.flops < one.flops
    assert eight.communication_time > 0
    with pytest.raises(rl.InputError, match=r"layout\.cp.*all tokens of a sequence"):
        rl.shard(model, rl.Layout(cp=2))


def test_the_new_kind_learns() -> None:
    """A training step: the transform and its adjoint, no weights, nothing kept."""
    model = fnet()
    t = rl.train(model, batch=8, tokens=PROMPT, on="dgx-h100", layout="tp=8")
    whole = rl.analyze(model, rl.training(8, PROMPT))
    named = {row.name: row for row in whole.ops}
    assert named["mixing"].each_flops == named["mixing_backward"].each_flops == 8 * MIXING
    assert t.model_flops == whole.flops
    assert t.fits
    micro = t.micro(t.stages[0])
    times = {op.name: op.expected for op in micro.ops}
    assert times["mixing"] == times["mixing_backward"] > 0
    assert KEPT[Transform](lower(FourierMixing(name="mixing", width=WIDTH), rl.prefill(1, 8))[0]).stream == 0


def test_the_new_kind_is_drawn_and_described() -> None:
    model = fnet()
    e = rl.estimate(model, rl.prefill(8, PROMPT), on=ON)
    assert {p.label: p.group for p in points(e)}["mixing"] == "attention"
    assert dict(fingerprint(model))["attention"] == "Fourier, 512"
    drawn = rl.plot(model, {"prefill": rl.prefill(8, PROMPT)}, on=ON)
    assert "mixing" in [p.label for panel in drawn.panels for p in panel.points]
    shares = rl.plot(model, {"prefill": rl.prefill(8, PROMPT)}, on=ON, kind="shares")
    assert all(dict(bar.parts)["attention"] > 0 for bar in shares.bars)


def test_the_new_kind_is_explained() -> None:
    """The algebra is the formula's, and its value that of the numbers put in."""
    import sympy

    explanation = rl.explain(fnet(), "mixing", rl.prefill(2, PROMPT))
    flops = explanation.figures[0]
    width, new, batch = sympy.symbols("width T B", integer=True, positive=True)
    expected = batch * 5 * width * new * (sympy.log(width, 2) + sympy.log(new, 2))
    assert sympy.simplify(flops.formula - expected) == 0
    assert flops.value == 2 * MIXING
    assert float(flops.formula.subs({width: WIDTH, new: PROMPT, batch: 2})) == 2 * MIXING
    assert "Van Loan" in flops.source
    assert str(explanation.symbols["width"]) == "512"


def test_it_generates() -> None:
    assert rl.generate(fnet(), on=ON, batch=2, input=64, output=8).latency.expected > 0
