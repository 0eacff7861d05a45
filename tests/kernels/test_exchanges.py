from __future__ import annotations

from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import roofline as rl
from folded import folded
from roofline.declared.errors import InputError
from roofline.hardware.cluster import cluster_named
from roofline.kernels.collectives import Transfer, collective
from roofline.kernels.exchanges import KERNEL_NAMES, ExchangeKernel, Routing, exchange_constants

H800, H100 = cluster_named("16xhgx-h800"), cluster_named("16xdgx-h100")
BYTES = {"dispatch": 7168 + 4 * 56, "combine": 2 * 7168}
"""Of a token's copy: 8 bits and a scale of 4 bytes for every 128 there, 16 bits back."""


def sent(op: str, ranks: int, tokens: int, kernel: ExchangeKernel, cluster: object = H800) -> tuple[Transfer, Routing]:
    nodes = ranks // 8
    groups = (nodes, min(nodes, 4)) if kernel == "normal" and nodes > 1 else (1, 1)
    routing = Routing(8, 256, *groups, kernel=kernel)
    return collective(op, tokens * 8 * BYTES[op], ranks, cluster, routing=routing), routing  # type: ignore[arg-type]


# github.com/deepseek-ai/DeepEP, docs/legacy.md: 4,096 tokens, GB/s over NVLink (8) or RDMA; 128 tokens, µs
NORMAL = {8: (153, 158), 32: (58, 57), 64: (51, 50)}
LOW_LATENCY = {8: (77, 114), 32: (155, 273), 128: (192, 369)}


@folded("ranks", NORMAL)
@folded("op", BYTES)
def test_normal_kernels_as_deepep_publishes_them(ranks: int, op: str) -> None:
    """Bytes are those of all copies that a rank receives, its own among them."""
    t, routing = sent(op, ranks, 4096, "normal")
    received = 4096 * 8 * BYTES[op] * routing.sent(ranks // 8 if ranks > 8 else 8)
    published = NORMAL[ranks][op == "combine"] * 1e9
    assert received / t.expected == pytest.approx(published, rel=0.05)


@folded("ranks", LOW_LATENCY)
@folded("op", BYTES)
def test_low_latency_kernels_as_deepep_publishes_them(ranks: int, op: str) -> None:
    t, _ = sent(op, ranks, 128, "low_latency")
    assert t.expected == pytest.approx(LOW_LATENCY[ranks][op == "combine"] * 1e-6, rel=0.15)


@folded("kernel", KERNEL_NAMES)
@folded("op", BYTES)
def test_the_level_crossed_sets_the_bandwidth(kernel: ExchangeKernel, op: str) -> None:
    """H100 and H800 differ in NVLink alone."""
    for ranks in (32, 64, 128):
        one, other = (sent(op, ranks, 4096, kernel, c)[0] for c in (H800, H100))
        assert one.expected == other.expected
    assert sent(op, 8, 4096, kernel, H100)[0].expected < sent(op, 8, 4096, kernel, H800)[0].expected


def test_bytes_by_hand() -> None:
    """EP 32, 8 of 256 experts: a token is on 4·(1 − C(192,8)/C(256,8)) of 4 nodes, 32·(1 − C(248,8)/C(256,8)) ranks."""
    size = 4096 * 8 * 7392
    nodes = 4 * (1 - comb(192, 8) / comb(256, 8))
    ranks = 32 * (1 - comb(248, 8) / comb(256, 8))
    t = collective("dispatch", size, 32, H800, routing=Routing(8, 256))
    moved = dict(t.moved)
    assert moved["cluster"] == pytest.approx(4096 * 7392 * nodes * 3 / 4)
    assert moved["node"] == pytest.approx(4096 * 7392 * ranks * 7 / 8)
    each = collective("dispatch", size, 32, H800, routing=Routing(8, 256, kernel="low_latency"))
    assert dict(each.moved) == pytest.approx({"cluster": size * 3 / 4, "node": size * 7 / 32})
    known = exchange_constants("h800-sxm", "dispatch", "low_latency", 4)
    assert known is not None
    assert each.expected == pytest.approx(known.alpha + size * 3 / 4 / (known.across * 50e9))


def test_group_limited_routing_by_hand() -> None:
    """EP 64, groups of 32 experts on a node each, 4 chosen: 8 of the 128 experts of 4 nodes."""
    expected = 4 * (1 - comb(96, 8) / comb(128, 8))
    assert 8 * Routing(8, 256, 8, 4).sent(8) == pytest.approx(expected)
    assert expected == pytest.approx(3.63, abs=0.005)
    one_by_one = np.random.default_rng(0)
    total = 0
    for _ in range(4000):
        groups = one_by_one.permutation(8)[:4]
        experts = one_by_one.permutation(np.concatenate([np.arange(32 * g, 32 * g + 32) for g in groups]))[:8]
        total += len(set(experts // 32))
    assert total / 4000 == pytest.approx(expected, rel=0.01)


@given(
    st.sampled_from(["dispatch", "combine"]), st.sampled_from(KERNEL_NAMES), st.integers(1, 2**14),
    st.sampled_from([8, 16, 32, 64, 128]),
)  # fmt: skip
def test_a_longer_message_and_more_nodes_never_take_less(
    op: str, kernel: ExchangeKernel, tokens: int, ranks: int
) -> None:
    t = sent(op, ranks, tokens, kernel)[0]
    assert t.floor <= t.low <= t.expected <= t.high
    assert sent(op, ranks, tokens + 1, kernel)[0].expected >= t.expected
    if 8 < ranks < 128:
        assert sent(op, 2 * ranks, tokens, kernel)[0].expected >= t.expected


def test_arrays_are_their_elements() -> None:
    routing, ranks = Routing(8, 256, kernel="low_latency"), np.array([1, 8, 32, 128])
    many = collective("combine", 1e6, ranks, H800, routing=routing)
    one = [collective("combine", 1e6, int(n), H800, routing=routing).expected for n in ranks]
    assert many.expected.tolist() == pytest.approx(one)


def test_an_unknown_kernel() -> None:
    with pytest.raises(InputError, match="low_latency"):
        Routing(8, 256, kernel="low-latency")  # type: ignore[arg-type]


@pytest.mark.parametrize(("on", "engine", "gathers"), [
    ("4xrtx-pro-6000-server", "vllm", True), ("4xh100-sxm", "vllm", False), ("4xb200", "trtllm@1.0", True),
    ("4xb200", "trtllm", False), ("4xgb200", "trtllm@1.0", False),
])  # fmt: skip
def test_over_pcie_tokens_go_to_all_ranks_once_and_sums_come_back(on: str, engine: str, gathers: bool) -> None:
    """Nothing writes to other ranks there: 4 of them gather 4 · 512 tokens of 2,048 values, whoever needs them."""
    e = rl.estimate("Qwen/Qwen3-30B-A3B", rl.decode(4 * 512, 100), on=on, engine=engine, layout="dp=4,ep=4")
    moved = {op.name.rpartition("_")[2]: float(op.expected) / op.layers for op in e.ops if op.kind == "communication"}
    size, software = 4 * 512 * 2048 * 2, engine.partition("@")[0]
    alone = {
        name: float(collective(op, size, 4, e.target.joined, software=software).expected)
        for name, op in (("dispatch", "all_gather"), ("combine", "reduce_scatter"))
    }
    assert [moved[name] == pytest.approx(alone[name], rel=1e-6) for name in alone] == [gathers, gathers]
