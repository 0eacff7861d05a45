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
