from __future__ import annotations

from fractions import Fraction
from math import comb
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import roofline as rl
from folded import folded
from roofline.kernels.exchanges import Routing
from roofline.layout.layout import Layout, layout_named
from roofline.model import modules as m
from roofline.model.load import catalog
from roofline.model.model import Model
from roofline.work import ops as o

LLAMA, V3 = rl.load("meta-llama/Llama-3.1-8B"), rl.load("deepseek-ai/DeepSeek-V3")
SCOUT, QWEN = rl.load("meta-llama/Llama-4-Scout-17B-16E-Instruct"), rl.load("Qwen/Qwen3-30B-A3B")
SPREADS: list[dict[str, Any]] = [
    {"tp": 2}, {"tp": 2, "sp": True, "dp": 2}, {"tp": 4, "pp": 2}, {"tp": 2, "dp": 4, "ep": 8},
    {"tp": 2, "cp": 2, "ep": 2}, {"tp": 4, "dp": 2, "ep": 2, "etp": 4, "sp": True},
]  # fmt: skip


def total(model: Model, layout: Layout) -> Fraction:
    """The distinct parameters of all ranks of all stages."""
    return sum((layout.ranks * s.distinct_parameters for s in rl.stages(model, layout)), Fraction(0))  # type: ignore[attr-defined]


def padding(model: Model, tp: int) -> int:
    """Rows that are added to the vocabulary so that it divides, times what stands in a row."""
    rows = -model.vocab % tp
    tables = [x.width for x in model.embedding if isinstance(x, m.Embedding) and x.rows == model.vocab]
    heads = [x.inputs + x.bias for x in model.head if isinstance(x, m.Linear) and x.part == "head" and not x.tied]
    heads += [1 for x in model.head if isinstance(x, m.Linear) and x.part == "head" and x.tied and x.bias]
    return rows * sum(tables + [h for h, x in zip(heads, heads, strict=True) if x])


@folded("id", sorted(catalog()), drawn=30)
@folded("spread", SPREADS, ids=[Layout(**s).text() for s in SPREADS])
def test_the_weights_of_all_ranks_add_up_to_the_model(id: str, spread: dict[str, Any]) -> None:
    model, layout = rl.load(id), Layout(**spread)
    try:
        distinct = total(model, layout)
    except rl.InputError as error:
        assert error.field.startswith("layout.")  # noqa: PT017
        return
    assert distinct == model.parameters + padding(model, layout.tp)


def test_one_chip_is_the_identity() -> None:
    assert rl.shard(LLAMA, Layout()) is LLAMA
    assert rl.shard(V3, Layout(sp=True, zero=3)) is V3


@folded("model", [LLAMA, V3, SCOUT, QWEN], ids=lambda m: m.name)
@folded("spread", [{"tp": 4}, {"tp": 2, "sp": True}, {"tp": 2, "dp": 2, "ep": 4}], ids=str)
def test_the_products_of_all_ranks_add_up_to_the_models(model: Model, spread: dict[str, Any]) -> None:
    """What is shared out adds up; what every rank has whole (routers, MLA's down-projections) is counted by ranks."""
    layout, step = Layout(**spread), rl.training(layout_batch(spread), 512)
    mine = rl.training(1, 512)
    products = (o.MatMul, o.ExpertMatMul, o.Attend)
    whole = {(c.block, c.name): c.flops for c in rl.analyze(model, step).ops if isinstance(c.op, products)}
    sharded = rl.analyze(rl.shard(model, layout), mine)
    for cost in sharded.ops:
        if (cost.block, cost.name) in whole:
            sum_of_ranks, wanted = cost.flops * layout.ranks, whole[cost.block, cost.name]
            copied = cost.name in COPIED and not layout.sp
            assert sum_of_ranks == wanted * (layout.tp if copied else 1), cost.name


COPIED = {f"{n}{s}" for n in ("q_a_proj", "kv_a_proj", "router") for s in ("", "_dgrad", "_wgrad")}


def layout_batch(spread: dict[str, Any]) -> int:
    return int(spread.get("dp", 1))


def test_key_value_heads_are_copied_beyond_their_number() -> None:
    sizes = {tp: rl.shard(LLAMA, Layout(tp=tp)) for tp in (2, 8, 16, 32)}
    assert [s.kv_bytes(1) for s in sizes.values()] == [131072 // 2, 131072 // 8, 131072 // 8, 131072 // 8]
    qkv = next(x for x, _ in sizes[32].modules() if x.name == "qkv_proj")
    assert isinstance(qkv, m.Linear)
    assert qkv.outputs == 4096 // 32 + 2 * 128  # one head of queries, one of keys, one of values


def test_a_latent_cache_is_never_divided() -> None:
    assert rl.shard(V3, Layout(tp=8)).kv_bytes(100) == V3.kv_bytes(100)


def test_norms_and_routers_are_whole_and_sequence_parallelism_shares_out_their_tokens() -> None:
    plain, scattered = rl.shard(QWEN, Layout(tp=4)), rl.shard(QWEN, Layout(tp=4, sp=True))
    step = rl.prefill(1, 1024)
    for shard, share in ((plain, 1), (scattered, 4)):
        flops = {c.name: c.flops for c in rl.analyze(shard, step).ops}
        reference = {c.name: c.flops for c in rl.analyze(QWEN, step).ops}
        assert flops["attn_norm"] * share == reference["attn_norm"]
        assert flops["router"] * share == reference["router"]
        assert flops["q_norm"] * 4 == reference["q_norm"]  # inside the heads


# -- collectives ---------------------------------------------------------------------------------------------------
def sent(model: Model, layout: Layout, step: rl.Step) -> dict[str, tuple[str, int, int]]:
    """name → (collective, elements, ranks) of the first block."""
    costs = rl.analyze(rl.shard(model, layout), step).ops
    return {
        c.name: (c.op.collective, int(c.op.elements), int(c.op.ranks))
        for c in costs
        if isinstance(c.op, o.Communicate) and c.block not in ("embedding", "head")
    }


def test_tensor_parallelism_reduces_twice_a_layer() -> None:
    assert sent(LLAMA, Layout(tp=8), rl.prefill(2, 1000)) == {
        "attn_residual_reduce": ("all_reduce", 2000 * 4096, 8),
        "ffn_residual_reduce": ("all_reduce", 2000 * 4096, 8),
    }


def test_sequence_parallelism_gathers_and_scatters_the_same_elements() -> None:
    whole = 2000 * 4096
    assert sent(LLAMA, Layout(tp=8, sp=True), rl.prefill(2, 1000)) == {
        "qkv_proj_gather": ("all_gather", whole, 8), "attn_residual_reduce": ("reduce_scatter", whole, 8),
        "gate_up_proj_gather": ("all_gather", whole, 8), "ffn_residual_reduce": ("reduce_scatter", whole, 8),
    }  # fmt: skip


def test_tokens_go_to_their_experts_and_back() -> None:
    exchanges = sent(QWEN, Layout(dp=8, ep=8), rl.prefill(1, 1024))
    assert exchanges == {
        "experts_dispatch": ("dispatch", 1024 * 8 * 2048, 8), "experts_combine": ("combine", 1024 * 8 * 2048, 8),
    }  # fmt: skip


def test_experts_beside_tensor_parallelism_alone_are_partial_sums() -> None:
    exchanges = sent(QWEN, Layout(tp=4, ep=4), rl.prefill(1, 1024))
    assert set(exchanges) == {"attn_residual_reduce", "ffn_residual_reduce"}


def test_pipeline_stages_hand_over_the_stream() -> None:
    first, last = rl.stages(LLAMA, Layout(pp=2))
    assert [c.op.elements for c in rl.analyze(first, rl.prefill(1, 100)).ops if c.name == "send"] == [100 * 4096]
    assert not [c for c in rl.analyze(last, rl.prefill(1, 100)).ops if c.name == "send"]
    assert last.embedding == ()
    assert first.head == ()


@pytest.mark.parametrize("exchange", ["ring", "all_gather", "ulysses"])
def test_context_parallelism_shares_out_tokens_and_pairs(exchange: str) -> None:
    layout = Layout(cp=4, exchange=exchange)  # type: ignore[arg-type]
    step = rl.prefill(1, 4096)
    mine = {c.name: c.flops for c in rl.analyze(rl.shard(LLAMA, layout), step).ops}
    whole = {c.name: c.flops for c in rl.analyze(LLAMA, step).ops}
    for name in ("qkv_proj", "attention", "down_proj"):
        assert 4 * mine[name] == whole[name]
    exchanges = sent(LLAMA, layout, step)
    if exchange == "ulysses":
        assert exchanges["attention_spread"] == ("all_to_all", 1024 * (4096 + 2048), 4)
        assert exchanges["attention_return"] == ("all_to_all", 1024 * 4096, 4)
    else:
        assert list(exchanges.values()) == [("all_gather", 4096 * 2048, 4)]


# -- errors and forms ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("model", "spread", "words"),
    [
        (LLAMA, {"tp": 3}, ["layout.tp", "attention heads, 32", "2, 4"]),
        (QWEN, {"dp": 3, "ep": 3}, ["layout.ep", "experts, 128", "2, 4"]),
        (LLAMA, {"pp": 40}, ["layout.pp", "32"]),
        (LLAMA, {"pp": 2, "stages": (20, 10)}, ["layout.stages", "32"]),
    ],
    ids=["heads", "experts", "layers", "stages"],
)
def test_what_does_not_divide_names_the_size_and_the_nearest_degrees(
    model: Model, spread: dict[str, Any], words: list[str]
) -> None:
    with pytest.raises(rl.InputError) as caught:
        rl.stages(model, Layout(**spread))
    for word in words:
        assert word in str(caught.value)


@folded(
    "given",
    [{"tp": 0}, {"tp": 1.5}, {"tp": True}, {"zero": 4}, {"sp": 1}, {"exchange": "x"}, {"stages": 3}, {"ep": 3},
     {"dp": 4, "shard": 3}, {"tp": []}, {"tp": [1, 0]}],
    ids=str,
)  # fmt: skip
def test_a_bad_degree_is_an_input_error(given: dict[str, Any]) -> None:
    with pytest.raises(rl.InputError):
        Layout(**given)


@folded("text", ["tp", "tp=x", "xx=3", "tp=8;", "stages=a", "=3", "tp=-1"])
def test_bad_text_is_an_input_error(text: str) -> None:
    with pytest.raises(rl.InputError):
        layout_named(text)


def test_layouts_are_written_and_read() -> None:
    layout = Layout(tp=8, pp=4, dp=2, sp=True, zero=1)
    assert layout_named(layout.text()) == layout
    assert layout_named("tp8 pp4,dp=2 sp zero=1") == layout
    assert layout_named({"tp": 8, "pp": 4, "dp": 2, "sp": True, "zero": 1}) == layout
    assert layout_named(None) == Layout()


def test_uneven_stages_give_the_middle_more() -> None:
    assert [len(s) for s in Layout(pp=4).layers_of(10)] == [2, 3, 3, 2]
    assert [len(s) for s in Layout(pp=3, stages=(20, 22, 19)).layers_of(61)] == [20, 22, 19]
    assert Layout(pp=2, vp=2).layers_of(8) == ((0, 1, 4, 5), (2, 3, 6, 7))


@settings(max_examples=40, deadline=None)
@given(tp=st.sampled_from([1, 2, 4, 8]), pp=st.sampled_from([1, 2, 4]), dp=st.sampled_from([1, 2]), sp=st.booleans())
def test_arrays_of_degrees_are_many_layouts_at_once(tp: int, pp: int, dp: int, sp: bool) -> None:
    degrees = np.array([1, 2, 4, 8])
    many = Layout(tp=degrees, pp=pp, dp=np.array([dp]), sp=sp)
    one = Layout(tp=tp, pp=pp, dp=dp, sp=sp)
    place = int(np.flatnonzero(degrees == tp)[0])
    step = rl.training(1, 1024)
    if one.alone:
        one = Layout(tp=np.array([1]))
    mine = rl.analyze(rl.shard(LLAMA, one), step)
    all_of_them = rl.analyze(rl.shard(LLAMA, many), step)
    assert np.ravel(mine.flops)[0] == all_of_them.flops[place]
    assert np.ravel(mine.bytes)[0] == all_of_them.bytes[place]


def legal(chips: int) -> list[Layout]:
    """Every layout of so many chips with degrees that are powers of two."""
    sizes = [2**i for i in range(chips.bit_length())]
    return [
        Layout(tp=tp, pp=pp, cp=cp, dp=chips // (tp * pp * cp), ep=ep, sp=tp > 1)
        for tp in sizes if tp <= 16
        for pp in sizes if tp * pp <= chips and pp <= 16
        for cp in (1, 2, 4) if tp * pp * cp <= chips
        for ep in sizes if (chips // pp) % ep == 0
    ]  # fmt: skip


@pytest.mark.parametrize("model", [V3, SCOUT], ids=lambda m: m.name)
def test_every_legal_layout_of_64_chips(model: Model) -> None:
    tried = 0
    for layout in legal(64):
        try:
            distinct = total(model, layout)
        except rl.InputError as error:
            assert "divis" in str(error)  # noqa: PT017
            continue
        tried += 1
        assert distinct == model.parameters + padding(model, layout.tp), layout
    assert tried > 60


def test_a_node_gets_a_token_once_and_groups_limit_the_nodes() -> None:
    """N·(1 − C(E − E/N, k)/C(E, k)) of 256 experts, top 8: 3.61 of 4 nodes, 5.29 of 8; of the 128 experts of 4 groups,
    3.63 of 4 nodes.
    """

    def share(chips: int, groups: int, top: int) -> float:
        return 8 * Routing(top_k=8, experts=256, groups=groups, top_groups=top).sent(chips // 8)

    assert [round(share(n, 1, 1), 2) for n in (16, 32, 64)] == [1.99, 3.61, 5.29]
    assert share(8, 1, 1) == 8  # one node: nothing crosses, nothing is saved
    assert share(64, 8, 4) == pytest.approx(4 * (1 - comb(96, 8) / comb(128, 8)))
    assert share(32, 8, 4) == share(32, 1, 1)  # two groups on a node: four may be anywhere
    dispatch = next(
        c.op for c in rl.analyze(rl.shard(V3, Layout(dp=8, ep=8)), rl.prefill(1, 8)).ops if c.name == "experts_dispatch"
    )
    assert isinstance(dispatch, o.Communicate)
    assert (dispatch.experts, dispatch.groups, dispatch.top_groups, dispatch.top_k) == (256, 8, 4, 8)


def test_an_exchange_takes_at_least_its_bytes() -> None:
    """V3 lets a token go to 4 of 8 groups: 3.63 of 8 nodes over 50 GB/s each, or of 8 ranks of one over 450 GB/s.

    Every replica has 8 prompts.
    """
    sent, places = 2040 * 7168 * 2, 4 * (1 - comb(96, 8) / comb(128, 8))

    def floor(model: Model, on: str, n: int) -> tuple[float, str]:
        e = rl.estimate(model, rl.prefill(8 * n, 255), on=on, layout=Layout(dp=n, ep=n))
        return max(float(op.each.network) for op in e.ops if op.kind == "communication"), e.bound

    assert floor(V3, "8xdgx-h200", 64) == (pytest.approx(places * sent * 7 / 8 / 50e9), "network")
    assert floor(V3, "dgx-h200", 8) == (pytest.approx(places * sent * 7 / 8 / 450e9), "compute")
    distinct = 8 * (1 - comb(112, 8) / comb(128, 8))
    assert floor(QWEN, "dgx-h200", 8)[0] == pytest.approx(distinct * 2040 * 2048 * 2 * 7 / 8 / 450e9)


@folded("layout", ["dp=64,ep=64", "tp=8,ep=8", "tp=4,dp=8,ep=32", "tp=8,ep=8,sp", "dp=8,ep=8"])
@folded("traffic", ["fused", "unfused", "floor"])
def test_no_op_of_a_rank_moves_less_than_nothing(layout: str, traffic: str) -> None:
    for step in (rl.prefill(8, 255), rl.decode(8, 1024), rl.decode(1, 64)):
        for model in (V3, rl.load("Qwen/Qwen1.5-MoE-A2.7B"), QWEN):
            try:
                rank = rl.shard(model, layout_named(layout))
            except rl.InputError:
                continue
            assert all(c.bytes >= 0 for c in rl.analyze(rank, step, traffic=traffic).ops)


def test_the_ranks_sums_of_experts_outputs_add_up() -> None:
    def combined(model: rl.Model, step: rl.Step) -> int:
        return sum(c.flops for c in rl.analyze(model, step).ops if c.name == "experts_combine" and c.kind == "add")

    whole = combined(V3, rl.prefill(64, 32))
    assert 64 * combined(rl.shard(V3, Layout(dp=64, ep=64)), rl.prefill(1, 32)) == whole
    assert 8 * combined(rl.shard(V3, Layout(tp=8, ep=8)), rl.prefill(64, 32)) == whole


def test_imbalance_loads_the_busiest_rank_and_capacity_drops_the_rest() -> None:
    def rows(**given: Any) -> int:
        ops = rl.analyze(rl.shard(QWEN, Layout(dp=8, ep=8, **given)), rl.prefill(1, 1000)).ops
        return int(next(c.op.m for c in ops if isinstance(c.op, o.ExpertMatMul)))

    assert rows() == 8 * 1000
    assert rows(imbalance=1.5) == 12000
    assert rows(imbalance=1.5, capacity=1.25) == 10000
    assert Layout(tp=8, imbalance=1.5).load == 1  # every rank has all experts
    with pytest.raises(rl.InputError):
        Layout(imbalance=0.5)


@pytest.mark.parametrize(
    ("ranks", "copies", "fewest"), [(72, 0, 32), (72, 30, 32), (144, 0, 32), (7, 0, 3), (8, 3, 8), (72, 33, 104)]
)
def test_an_ep_that_does_not_divide_names_the_fewest_copies_of_experts(ranks: int, copies: int, fewest: int) -> None:
    """DeepSeek-V3 has 256 experts: 72 ranks hold four each of 256 and 32 copies."""
    model = rl.load("deepseek-ai/DeepSeek-V3")
    with pytest.raises(rl.InputError, match=rf"^layout\.ep: .* or in inference redundant={fewest}, got {ranks};"):
        rl.shard(model, Layout(dp=ranks, ep=ranks, redundant=copies))
    rl.shard(model, Layout(dp=ranks, ep=ranks, redundant=fewest))


@pytest.mark.parametrize(
    ("layout", "routed"), [("tp=2,sp,etp=2", False), ("tp=4,dp=2,sp,ep=4,etp=2", True)], ids=["alone", "shared"]
)
def test_ranks_that_split_an_expert_exchange_tokens_once_or_as_routed(layout: str, routed: bool) -> None:
    """Without expert parallelism the ranks of an expert exchange each token once, with it once for each expert."""
    model = rl.load("Qwen/Qwen3-30B-A3B")
    experts = next(module for module, _ in model.modules() if isinstance(module, m.Experts))
    exchanges = [x for x, _ in rl.shard(model, layout).modules() if isinstance(x, m.Collective)]
    (gather,) = [x for x in exchanges if (x.op, x.axis, x.name) == ("all_gather", "tp", "experts_all_gather")]
    assert experts.top_k == 8
    assert gather.width == (model.hidden * 8 if routed else model.hidden)
