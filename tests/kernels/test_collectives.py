"""Collectives: bytes against the algorithms played out, the law's shape, levels, engines, and what is refused."""

from __future__ import annotations

import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from folded import folded
from roofline.declared.errors import InputError
from roofline.hardware.cluster import Cluster, Level, cluster_named
from roofline.kernels.collectives import ALGORITHMS, OPS, bytes_moved, collective, hierarchical_bytes, steps
from roofline.kernels.links import FILE, KNOTS, Link, _tables, link_of, measured

RANKS = st.integers(1, 64)
CHUNK = st.integers(1, 10**6)
SIZES = np.unique(np.concatenate([np.logspace(0, 11, 200), KNOTS]))
CLUSTERS = (
    "8xh100-sxm", "8xa100-sxm-80gb", "l40s-server", "gb200-nvl72", "4xdgx-h100", "tpu-v5e-pod", "mi300x-platform",
    "pcie-workstation", "4xa100-pcie-80gb", "hls-gaudi2",
)  # fmt: skip


# -- bytes: the algorithms played out chunk by chunk --------------------------------------------------------------
def ring_phase(n: int, chunk: int) -> int:
    """Bytes one rank sends in n−1 turns of one chunk each: a reduce-scatter or an all-gather around a ring."""
    return sum(chunk for _ in range(n - 1))


@given(RANKS, CHUNK)
def test_bytes_of_every_collective(n: int, chunk: int) -> None:
    size = n * chunk  # n chunks of whole bytes
    others = [chunk for rank in range(n) if rank != 0]
    played = {
        ("all_reduce", "ring"): 2 * ring_phase(n, chunk),
        ("all_reduce", "two_shot"): sum(others) + sum(others),
        ("all_reduce", "one_shot"): sum(size for _ in others),
        ("all_reduce", "in_switch"): size + chunk if n > 1 else 0,  # all of it once to the switch, its share back
        ("all_reduce", "in_network"): size if n > 1 else 0,
        ("all_reduce", "tree"): 2 * size if n > 1 else 0,  # up once and down once, pipelined over two trees
        ("all_gather", "ring"): ring_phase(n, chunk),
        ("all_gather", "direct"): sum(others),
        ("reduce_scatter", "ring"): ring_phase(n, chunk),
        ("reduce_scatter", "direct"): sum(others),
        ("all_to_all", "direct"): sum(others),
        ("all_to_all", "ring"): sum(chunk * min(d, n - d) for d in range(1, n)),  # each hop the shorter way round
        ("broadcast", "ring"): size if n > 1 else 0,
        ("broadcast", "tree"): 2 * size if n > 1 else 0,
        ("p2p", "direct"): size if n > 1 else 0,
    }
    assert set(played) == {(op, name) for op, known in ALGORITHMS.items() for name in known}
    for (op, name), expected in played.items():
        assert bytes_moved(op, name, size, n) == expected, (op, name)
        assert bytes_moved(op, name, Fraction(size), n) == expected
        assert bytes_moved(op, name, np.array([0, size]), n).tolist() == [0, expected]


def test_steps() -> None:
    assert steps("all_reduce", "ring", 8) == 14
    assert steps("all_reduce", "tree", 8) == 6
    assert steps("all_reduce", "tree", 9) == 8
    assert steps("all_reduce", "one_shot", 8) == 1
    assert steps("all_reduce", "two_shot", 8) == 2
    assert steps("all_gather", "ring", 8) == steps("all_to_all", "direct", 8) == 7
    for op, known in ALGORITHMS.items():
        for name in known:
            assert steps(op, name, 1) == 0


@given(st.lists(st.integers(1, 8), min_size=1, max_size=3), CHUNK)
def test_levels_send_together_what_one_ring_sends(counts: list[int], chunk: int) -> None:
    n = int(np.prod(counts))
    size = Fraction(n * chunk)
    for op in ("all_reduce", "all_gather", "reduce_scatter"):
        sent = hierarchical_bytes(op, size, tuple(counts))
        assert sum(sent) == bytes_moved(op, "ring", size, n)
        for later, count in zip(sent[1:], counts[1:], strict=True):  # never more outside than a flat ring sends there
            assert later <= bytes_moved(op, "ring", size, count)
    sent = hierarchical_bytes("all_to_all", size, tuple(counts))
    assert sent[-1] == (counts[-1] - 1) * size / counts[-1]


def test_hierarchical_bytes_of_two_levels() -> None:
    size = Fraction(1600)
    assert hierarchical_bytes("all_reduce", size, (8, 2)) == (2800, 200)
    assert hierarchical_bytes("all_to_all", size, (8, 2)) == (700, 800)
    assert hierarchical_bytes("p2p", size, (8, 2)) == (1600, 1600)


# -- the law ------------------------------------------------------------------------------------------------------
def test_the_law_has_its_ends_and_its_middle() -> None:
    link = Link(1e-5, 0.5)
    assert float(link.seconds(1.0, 1e-9, 1e9)) == pytest.approx(1e-5, rel=1e-3)
    assert float(link.seconds(1e12, 1e12, 1e9)) == pytest.approx(2000, rel=1e-3)
    assert float(link.seconds(5e3, 5e3, 1e9)) == pytest.approx(1e-5 * 2 ** (1 / 0.7))
    rising = Link(1e-5, 1.0, 1.0, (0.0, 1.0))
    assert float(rising.seconds(KNOTS[1], 0.0, 1e9)) == pytest.approx(1.5e-5)


@folded("name", CLUSTERS)
@folded("op", OPS)
def test_time_rises_with_bytes_and_never_beats_the_floor(name: str, op: str) -> None:
    cluster = cluster_named(name)
    for n in {2, min(4, cluster.chips), min(8, cluster.chips), min(32, cluster.chips)}:
        for software in ("nccl", "vllm", "sglang-eager"):
            t = collective(op, SIZES, n, cluster, software=software)
            assert np.all(np.diff(t.expected) >= -1e-12 * t.expected[1:])
            assert np.all(t.expected > 0)
            assert np.all(t.floor <= t.low)
            assert np.all(t.low <= t.expected)
            assert np.all(t.expected <= t.high)
            assert np.all(np.isfinite(t.high))
            assert set(np.unique(t.grade).tolist()) <= set("ABC")


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(CLUSTERS), st.sampled_from(OPS), st.floats(0, 1e10), st.floats(0, 1e10), st.integers(2, 32))
def test_more_bytes_take_no_less(name: str, op: str, a: float, b: float, n: int) -> None:
    cluster = cluster_named(name)
    n = min(n, cluster.chips)
    small, large = (float(collective(op, s, n, cluster).expected) for s in sorted((a, b)))
    assert small <= large * (1 + 1e-9)


@folded("op", OPS)
def test_nothing_takes_no_time(op: str) -> None:
    cluster = cluster_named("4xdgx-h100")
    for size, n in ((0, 8), (0, 16), (1e6, 1), (0, 1)):
        t = collective(op, size, n, cluster)
        assert (t.floor, t.expected, t.low, t.high, t.fixed) == (0, 0, 0, 0, 0)
    t = collective(op, np.array([0.0, 1e6]), 8, cluster)
    assert t.expected[0] == 0 < t.expected[1]


@pytest.mark.parametrize("op", ["all_reduce", "all_gather", "reduce_scatter"])
def test_levels_beat_one_ring_across_a_slow_link(op: str) -> None:
    slow = 5e9
    tree = Cluster(
        "tree", "h100-sxm", (Level("node", 8, 450e9, 1e-6, "switch"), Level("net", 4, slow, 5e-6, "network"))
    )
    flat = Cluster("flat", "h100-sxm", (Level("net", 32, slow, 5e-6, "network"),))
    size = np.logspace(1, 10, 50)
    one, other = collective(op, size, 32, tree), collective(op, size, 32, flat)
    assert np.all(one.expected <= other.expected * (1 + 1e-9))
    assert np.all(one.floor <= other.floor)
    assert one.expected[-1] < 0.4 * other.expected[-1]


def test_four_nodes_of_b200() -> None:
    """4 GiB among 32 GPUs in four nodes, 400 Gb/s for each: 22 ms measured."""
    t = collective("all_reduce", 2**32, 32, cluster_named("4xdgx-b200"))
    assert float(t.expected) == pytest.approx(22e-3, rel=0.1)
    assert t.low < 22e-3 < t.high
    assert t.floor < 22e-3


def test_a_strided_group_uses_the_outer_links_only() -> None:
    cluster = cluster_named("4xdgx-h100")
    t = collective("all_reduce", 1e9, 4, cluster, stride=8)
    assert t.floor == pytest.approx(1.5e9 / 50e9)
    assert t.moved == (("cluster", pytest.approx(1.5e9)),)


def test_floors_by_hand() -> None:
    h100 = cluster_named("8xh100-sxm")
    assert collective("all_reduce", 8e9, 8, h100).floor == pytest.approx(9e9 / 450e9)  # (n+1)/n, in the switch
    assert collective("all_reduce", 8e9, 2, h100).floor == pytest.approx(8e9 / 450e9)  # the ring sends less
    assert collective("all_gather", 8e9, 8, h100).floor == pytest.approx(7e9 / 450e9)
    a100 = cluster_named("8xa100-sxm-80gb")
    assert collective("all_reduce", 8e9, 8, a100).floor == pytest.approx(14e9 / 300e9)
    pod = cluster_named("tpu-v5e-pod")
    assert collective("all_reduce", 256e6, 256, pod).floor == pytest.approx(2 * 255e6 / 200e9)
    # a byte goes 4 steps on average along each axis of 16, over two links of 50 GB/s
    assert collective("all_to_all", 1e9, 256, pod).floor == pytest.approx(4 * 1e9 / 100e9)
    assert collective("p2p", 1e9, 2, cluster_named("8xmi300x")).expected > 1e9 / 64e9


# -- constants ----------------------------------------------------------------------------------------------------
def test_every_entry_is_sound() -> None:
    assert FILE.exists()
    count = 0
    for place, kinds in _tables().items():
        for ops in kinds.values():
            for op, softwares in ops.items():
                assert op in OPS
                for entry in softwares.values():
                    count += 1
                    ranks = entry["ranks"]
                    assert ranks == sorted(ranks), place
                    assert len(entry["alpha"]) == len(entry["share"]) == len(ranks)
                    assert all(a > 0 for a in entry["alpha"])
                    assert all(0 < s <= 1.2 for s in entry["share"])
                    for rises in entry.get("rises", []):
                        assert len(rises) == len(KNOTS)
                        assert min(rises) >= 0
                    assert 0 < entry["low"] < 1 < entry["high"]
                    assert 0 < entry["low_small"] < 1 < entry["high_small"]
    assert count > 100


def test_held_out_error_of_nccl_on_the_chips_measured() -> None:
    medians = [
        (entry["median"], entry["rows"])
        for place, kinds in _tables().items()
        if not place.startswith("gener")
        for ops in kinds.values()
        for op in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
        for entry in [ops.get(op, {}).get("nccl")]
        if entry
    ]
    assert sum(m * n for m, n in medians) / sum(n for _, n in medians) < 0.06


def test_grades_from_chip_to_generation_to_any() -> None:
    for name, grade in (("8xh100-sxm", "A"), ("dgx-b300", "B"), ("8xa100-sxm-40gb", "B"), ("8xmi300x", "C")):
        assert collective("all_reduce", 1e8, 8, cluster_named(name)).grade == grade, name
    assert collective("all_reduce", 1e8, 72, cluster_named("gb200-nvl72")).grade == "B"  # more ranks than measured
    assert collective("all_reduce", 1e8, 2, cluster_named("2xrtx-4090")).grade == "B"
    assert collective("broadcast", 1e8, 8, cluster_named("8xh100-sxm")).grade == "C"


def test_links_of_one_chip_alone_are_known_less_on_another() -> None:
    """p2p was measured on one chip of Hopper, by network on no other generation, and on two generations by NVLink."""
    chips = {"B": ("h200-sxm", "switch", 0.28), "C": ("a100-sxm-80gb", "network", 0.56)}
    for grade, (chip, kind, log) in chips.items():
        lone, own = (measured(name, kind, "p2p", "nccl", 2) for name in (chip, "h100-sxm"))
        assert lone is not None
        assert own is not None
        assert (lone.grade, lone.alpha) == (grade, own.alpha)
        ends = [-np.hypot(np.log(own.large[0]), log), np.hypot(np.log(own.large[1]), log)]
        assert np.log(lone.large) == pytest.approx(ends)
    assert "lone" not in _tables()["generic"]["switch"]["p2p"]["nccl"]


def test_ranks_between_and_beyond_those_measured() -> None:
    entry = {
        "ranks": [2, 4, 8], "alpha": [1e-5, 2e-5, 3e-5], "share": [0.5, 0.6, 0.7], "sharp": 1.0,
        "rises": [[0.0, 1.0], [0.0, 2.0], [0.0, 3.0]], "low": 0.9, "high": 1.1, "low_small": 0.8, "high_small": 1.2,
    }  # fmt: skip
    assert link_of(entry, 4, "A").alpha == pytest.approx(2e-5)
    between = link_of(entry, 6, "A")
    assert 2e-5 < between.alpha < 3e-5
    assert 0.6 < between.share < 0.7
    beyond = link_of(entry, 64, "B")
    assert beyond.alpha == pytest.approx(6e-5)
    assert (beyond.share, beyond.rises) == (0.7, (0.0, 3.0))
    assert link_of(entry, 8, "A").large == (0.9, 1.1)
    assert between.large[0] < 0.9
    assert beyond.large[1] > between.large[1] > 1.1
    assert (link_of(entry, 8, "A").grade, link_of(entry, 16, "A").grade) == ("A", "B")
    lone = {**entry, "ranks": [8], "alpha": [3e-5], "share": [0.7], "rises": [[0.0, 3.0]]}
    assert link_of(lone, 16, "A").alpha > link_of(lone, 8, "A").alpha == link_of(lone, 4, "A").alpha
    alphas = [link_of(entry, n, "A").alpha for n in range(2, 73)]
    assert alphas == sorted(alphas)


def test_measured_rows() -> None:
    """A few rows of the tables that were fitted: nccl-tests and vLLM's kernel, seconds."""
    for name, op, n, size, software, seconds in (
        ("8xh100-sxm", "all_reduce", 8, 268435456, "nccl", 1092e-6),
        ("8xh100-sxm", "all_reduce", 8, 512, "nccl", 15.6e-6),
        ("8xa100-sxm-80gb", "all_gather", 2, 33554432, "nccl", 153.7e-6),
        ("8xl40s", "all_reduce", 4, 33554432, "nccl", 9.84e-3),
        ("8xh100-sxm", "all_reduce", 4, 8192, "vllm", 4.8e-6),
        ("8xb200", "all_reduce", 8, 8192, "nccl", 26.0e-6),
    ):
        t = collective(op, size, n, cluster_named(name), software=software)
        assert float(t.expected) == pytest.approx(seconds, rel=0.1), (name, op, n, size)
        assert t.floor <= seconds


def test_the_engine_takes_the_faster_of_its_kernel_and_nccl() -> None:
    cluster = cluster_named("8xh100-sxm")
    sizes = np.logspace(2, 9, 60)
    plain, own = (collective("all_reduce", sizes, 8, cluster, software=s) for s in ("nccl", "vllm"))
    assert np.all(own.expected <= plain.expected)
    assert own.expected[0] < 0.5 * plain.expected[0]
    assert measured("h100-sxm", "switch", "all_reduce", "vllm 99.0", 8) == measured(
        "h100-sxm", "switch", "all_reduce", "vllm", 8
    )
    eager = collective("all_reduce", sizes, 8, cluster, software="vllm-eager")
    assert eager.expected[0] > plain.expected[0]  # the host's launches
    assert np.all(collective("all_reduce", sizes, 8, cluster, software="other").expected == plain.expected)


# -- refused ------------------------------------------------------------------------------------------------------
@folded(
    ("op", "size", "n", "field"),
    [
        ("all-reduce", 1, 8, "collective"),
        ("all_reduce", -1, 8, "size"),
        ("all_reduce", float("nan"), 8, "size"),
        ("all_reduce", float("inf"), 8, "size"),
        ("all_reduce", True, 8, "size"),
        ("all_reduce", 1, 0, "ranks"),
        ("all_reduce", 1, 2.0, "ranks"),
        ("all_reduce", 1, 9, "group"),
    ],
)
def test_bad_input(op: str, size: float, n: int, field: str) -> None:
    with pytest.raises(InputError) as raised:
        collective(op, size, n, cluster_named("8xh100-sxm"))
    assert raised.value.field == field


def test_bad_algorithms() -> None:
    for op, name, field in (("all_redu", "ring", "collective"), ("all_reduce", "rings", "all_reduce algorithm")):
        with pytest.raises(InputError) as raised:
            bytes_moved(op, name, 1, 8)
        assert raised.value.field == field
        assert raised.value.nearest


@pytest.mark.parametrize("ranks", [8, 16, 32, 64])
def test_the_fixed_part_is_never_longer_than_the_whole(ranks: int) -> None:
    t = collective("all_reduce", np.array([1e3, 4e4, 4e5, 5e6]), ranks, cluster_named("8xdgx-a100"))
    assert np.all(t.fixed <= t.expected)


# -- libraries and pairs -------------------------------------------------------------------------------------------
def test_a_pair_has_its_bridge_to_itself() -> None:
    """Neighbours of a node of pairs meet over NVLink, 300 GB/s; of two pairs over PCIe, 32 GB/s."""
    node = cluster_named("4xa100-pcie-80gb")
    inside, across = collective("all_reduce", 1e9, 2, node), collective("all_reduce", 1e9, 2, node, stride=2)
    assert (inside.moved, across.moved) == ((("bridge", 1e9),), (("node", 1e9),))
    assert (inside.floor, across.floor) == (pytest.approx(1e9 / 300e9), pytest.approx(1e9 / 32e9))
    assert collective("p2p", 1e9, 2, node).floor == inside.floor


@pytest.mark.parametrize("chip", ["a100-sxm-80gb", "h100-sxm"])
def test_ranks_of_pytorch_wait_for_one_another(chip: str) -> None:
    """Vidur's profiles of 2023, in a node: 43 to 182 KB among 8 took 32 to 61 µs on A100 and 20 to 38 µs on H100."""
    node, (low, high) = cluster_named(f"8x{chip}"), (32e-6, 61e-6) if chip == "a100-sxm-80gb" else (20e-6, 38e-6)
    for size in (43e3, 65536.0, 182e3):
        torch, nccl = (collective("all_reduce", size, 8, node, software=s).expected for s in ("pytorch", "nccl"))
        assert low < torch < high
        assert torch > nccl
        gathered = [collective("all_gather", size, 8, node, software=s) for s in ("pytorch", "nccl")]
        assert gathered[0] == gathered[1]


def test_pytorch_measured_on_no_such_chip_is_its_nccl() -> None:
    node = cluster_named("8xb200")
    assert collective("all_reduce", 1e6, 8, node, software="pytorch") == collective("all_reduce", 1e6, 8, node)


def test_constants_of_another_file_hold_while_they_are_asked_for(tmp_path: Path) -> None:
    """`benchmarks/measured_collectives.py` judges intervals by constants fitted without the sizes that it judges."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
    from measured_collectives import constants_from
    from roofline.kernels import links

    def seconds() -> float:
        return float(links.measured("a100-sxm-80gb", "switch", "all_reduce", "nccl", 8).alpha)  # type: ignore[union-attr]

    shipped, other = seconds(), tmp_path / "other.toml"
    other.write_text(
        "[a100-sxm-80gb.switch.all_reduce.nccl]\nranks = [8]\nalpha = [1.0]\nshare = [0.5]\nsharp = 1\n"
        "low = 0.9\nhigh = 1.1\nlow_small = 0.9\nhigh_small = 1.1\n"
    )
    with constants_from(other):
        assert seconds() == 1.0
    assert seconds() == shipped < 1e-3
