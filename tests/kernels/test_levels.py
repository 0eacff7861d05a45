"""Networks of more than two levels: oversubscribed links, and what crosses them."""

from __future__ import annotations

import pytest

import roofline as rl
from roofline.hardware.cluster import Cluster, Level, cluster_from, cluster_named
from roofline.kernels.collectives import collective


def _four_levels(over: float, site: float = 1e9) -> Cluster:
    """Nodes of 8, pods of 384 nodes, a spine over 8 pods, two sites."""
    return Cluster(
        "x", "h100-sxm",
        (
            Level("node", 8, 450e9, 1e-6, "switch"), Level("pod", 384, 50e9, 5e-6, "network"),
            Level("spine", 8, 50e9 / over, 7e-6, "network", oversubscription=over),
            Level("site", 2, site, 1e-3, "network"),
        ),
    )  # fmt: skip


def test_meta_s_cluster_has_the_published_levels() -> None:
    """arXiv:2407.21783 §3.3.1: 24,576 GPUs, pods of 3,072, 400 Gb/s, 1:7 above them."""
    cluster = cluster_named("llama-3-24k")
    assert cluster.chips == 24_576
    assert [(x.name, x.size) for x in cluster.levels] == [("node", 8), ("pod", 384), ("aggregation", 8)]
    assert cluster.levels[2].bandwidth == pytest.approx(50e9 / 7)


def test_an_oversubscribed_level_slows_what_crosses_it_and_nothing_else() -> None:
    """A group of one chip of each pod moves 7/8 of the buffer over the spine, at a seventh of the rate."""
    full, shared = _four_levels(1), _four_levels(7)
    for ranks, stride in ((8, 1), (3072, 1), (16, 8)):
        both = [collective("all_gather", 1e9, ranks, c, stride=stride).expected for c in (full, shared)]
        assert both[0] == both[1]
    floors = [collective("all_gather", 8e9, 8, c, stride=3072).floor for c in (full, shared)]
    assert floors[0] == pytest.approx(7e9 / 50e9)
    assert floors[1] == pytest.approx(7 * floors[0])
    whole = [collective("all_to_all", 8e9, 24_576, c).floor for c in (full, shared)]
    assert whole[1] == pytest.approx(7e9 / (50e9 / 7))
    assert whole[1] > 5 * whole[0]


def test_few_senders_have_more_than_their_share() -> None:
    """A stage of 512 of a pod's 3,072 chips sends alone: six shares of a seventh."""
    floors = [collective("p2p", 1e9, 8, _four_levels(7), stride=stride).floor for stride in (512, 1536, 3072)]
    assert floors == pytest.approx([7 / 50 / 6, 7 / 50 / 2, 7 / 50])
    assert collective("p2p", 1e9, 4, _four_levels(7), stride=64).floor == pytest.approx(1 / 50)


def test_sites_are_a_level_with_their_own_latency() -> None:
    """Every chip reduces its own part between two sites, 2 · 1e9 / 24,576 bytes at 1e9 bytes/s: latency is most."""
    apart, one = (
        collective("all_reduce", 1e9, 49_152, _four_levels(1)),
        collective("all_reduce", 1e9, 24_576, _four_levels(1)),
    )
    assert apart.expected > one.expected + 1e-3
    assert collective("p2p", 1e9, 2, _four_levels(1), stride=24_576).floor == pytest.approx(1.0)


def test_breakdown_says_which_level_an_axis_crosses() -> None:
    e = rl.train(
        "meta-llama/Llama-3.1-405B", batch=2048, tokens=8192, on="llama-3-24k",
        layout="tp=8,pp=16,dp=64,vp=8,sp,zero=1",
        schedule="interleaved", engine="megatron",
    )  # fmt: skip
    assert rl.breakdown(e).levels == {"tp": "node", "dp": "pod", "pp": "aggregation"}
    flat = rl.breakdown(rl.train(
        "meta-llama/Llama-3.1-8B", batch=64, tokens=1024, on="2xdgx-h100", layout="dp=16,zero=1", engine="megatron",
    ))  # fmt: skip
    assert flat.levels == {"dp": "cluster"}


def test_a_file_says_the_oversubscription() -> None:
    levels = [
        {"name": "node", "size": 8, "kind": "switch"},
        {"name": "spine", "size": 4, "kind": "network", "bandwidth_gbs": 50, "oversubscription": 2.5},
    ]
    assert cluster_from("mine", {"chip": "h100-sxm", "levels": levels}).levels[1].bandwidth == pytest.approx(20e9)
    levels[1]["oversubscription"] = 0.5
    with pytest.raises(rl.InputError, match="oversubscription"):
        cluster_from("mine", {"chip": "h100-sxm", "levels": levels})


# -- rails ---------------------------------------------------------------------------------------------------------
def _of_rails(rails: bool) -> Cluster:
    """Nodes of 8, 32 of them on each switch of a rail, a spine with half of the links."""
    return Cluster(
        "x", "h100-sxm",
        (
            Level("node", 8, 450e9, 1e-6, "switch"), Level("unit", 32, 50e9, 5e-6, "network", rails=rails),
            Level("spine", 4, 25e9, 7e-6, "network", oversubscription=2.0),
        ),
    )  # fmt: skip


def test_what_stays_on_a_rail_is_as_without() -> None:
    """Every eighth chip, for any op, and rings, which keep to their rails."""
    for op in ("all_to_all", "all_reduce", "all_gather", "p2p"):
        assert collective(op, 1e8, 32, _of_rails(True), stride=8) == collective(op, 1e8, 32, _of_rails(False), stride=8)
    for op in ("all_reduce", "all_gather", "reduce_scatter"):
        assert collective(op, 1e8, 256, _of_rails(True)) == collective(op, 1e8, 256, _of_rails(False))


def test_an_exchange_goes_to_the_rail_inside_the_node_first() -> None:
    """Both levels' latencies, and the longer of both transfers: 7/8 of the bytes inside, 3/4 over the rails."""
    own = collective("all_to_all", 1e9, 32, _of_rails(True))
    inside, along = (collective("all_to_all", 1e9, n, _of_rails(True), stride=s) for n, s in ((8, 1), (4, 8)))
    assert own.fixed == pytest.approx(inside.fixed + along.fixed)
    assert own.expected == pytest.approx(own.fixed + max(inside.expected - inside.fixed, along.expected - along.fixed))
    small = [collective("all_to_all", 1e3, 32, _of_rails(rails)).expected for rails in (True, False)]
    assert small[0] >= small[1]  # without rails it may go straight


def test_a_send_to_another_rail_crosses_the_node_too() -> None:
    """Twelve chips further is another place of its node; sixteen is the same."""
    sends = {s: [collective("p2p", 1e6, 2, _of_rails(r), stride=s) for r in (True, False)] for s in (12, 16)}
    assert sends[16][0] == sends[16][1]
    node = collective("p2p", 1e6, 2, _of_rails(True), stride=1)
    assert sends[12][0].fixed == pytest.approx(sends[12][1].fixed + node.fixed)
    assert sends[12][0].expected > sends[12][1].expected


def test_breakdown_counts_the_switches_of_each_axis() -> None:
    """In a node one; on a rail one, and one more to another rail; leaf, spine and leaf are three."""

    def hops(layout: str, rails: bool = True, model: str = "meta-llama/Llama-3.1-8B") -> dict[str, int]:
        e = rl.train(model, batch=1024, tokens=1024, on=_of_rails(rails), layout=layout)
        return dict(rl.breakdown(e).hops)

    assert hops("tp=8,sp,dp=32,zero=1") == {"tp": 1, "dp": 1}
    assert hops("tp=8,sp,dp=128,zero=1") == {"tp": 1, "dp": 3}
    assert hops("tp=8,sp,pp=4,dp=8,zero=1") == {"tp": 1, "pp": 1, "dp": 1}
    mixture = "Qwen/Qwen3-30B-A3B"
    assert hops("dp=256,ep=32,zero=1", model=mixture)["ep"] == 2
    assert hops("dp=256,ep=32,zero=1", rails=False, model=mixture)["ep"] == 1
    assert hops("dp=256,ep=8,zero=1", model=mixture)["ep"] == 1


def test_a_file_says_its_rails() -> None:
    levels = [
        {"name": "node", "size": 8, "kind": "switch"},
        {"name": "unit", "size": 32, "kind": "network", "bandwidth_gbs": 50, "rails": True},
    ]
    assert cluster_from("mine", {"chip": "h100-sxm", "levels": levels}).levels[1].rails
    levels[0]["rails"] = True
    with pytest.raises(rl.InputError, match="rails"):
        cluster_from("mine", {"chip": "h100-sxm", "levels": levels})
