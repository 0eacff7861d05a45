"""Clusters: the presets, counted chips and nodes, files of one's own, what a group crosses, and what is refused."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import roofline as rl
from folded import folded
from roofline.declared.errors import InputError, MachineNameWarning
from roofline.hardware.chip import chips
from roofline.hardware.chip_files import plain_name
from roofline.hardware.cluster import KINDS, Cluster, Level, cluster_named, clusters, is_cluster, level_part
from roofline.hardware.named_chip import chip_named

GOOD = """
[mine]
chip = "h100-sxm"
source = "my desk"
date = "2026-01"
levels = [
    { name = "node", size = 4, kind = "switch", in_switch = true },
    { name = "room", size = 3, bandwidth_gbs = 25, latency_us = 7, kind = "network" },
]
"""


def test_presets_have_chip_source_date_and_sane_levels() -> None:
    assert len(clusters()) >= 25
    for cluster in clusters().values():
        assert chip_named(cluster.chip).id == cluster.chip
        assert cluster.source, cluster.name
        assert re.fullmatch(r"\d{4}-\d{2}", cluster.date), cluster.name
        speeds = [level.bandwidth for level in cluster.levels]
        assert speeds == sorted(speeds, reverse=True), cluster.name
        assert all(level.kind in KINDS for level in cluster.levels)


@folded(
    "name",
    """
    dgx-1 dgx-2 dgx-a100 hgx-a100 dgx-h100 hgx-h100 dgx-h200 dgx-b200 dgx-b300 gb200-nvl72 GB300_NVL72 tpu-v4-pod
    tpu-v5e-pod tpu-v5p-pod tpu-v6e-pod tpu-v7-pod mi300x-platform mi355x-node pcie-workstation workstation
    """.split(),
)
def test_the_clusters_people_ask_for(name: str) -> None:
    assert cluster_named(name).chips >= 2


BOXES = {
    "dgx-1": 8, "dgx-2": 16, "dgx-a100": 8, "hgx-a100": 8, "dgx-h100": 8, "DGX H100": 8, "dgx-b200": 8, "hgx-h800": 8,
    "gh200-nvl32": 32, "gb200-nvl72": 72, "gb300-nvl72": 72, "tpu-v4-4096": 4096, "tpu-v5e-pod": 256,
    "tpu-v5p-pod": 8960, "mi300x-platform": 8, "hls-gaudi3": 8, "trn2-ultraserver": 64, "l40s-server": 8,
}  # fmt: skip
PODS = {
    "superpod-a100": (1120, "140xdgx-a100"), "superpod-h100": (256, "32xdgx-h100"),
    "cluster-h800": (2048, "256xhgx-h800"), "superpod-b300": (512, "64xdgx-b300"),
    "superpod-gb200": (576, "8xgb200-nvl72"),
    "ultracluster-trn2": (4096, "64xtrn2-ultraserver"), "2xsuperpod-h100": (512, "64xdgx-h100"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "count"), BOXES.items())
def test_a_bare_name_is_one_box_rack_or_pod(name: str, count: int) -> None:
    """A DGX H100 has eight GPUs (NVIDIA DGX H100 datasheet), an NVL72 rack 72."""
    one = cluster_named(name)
    assert (one.chips, [level.kind == "network" for level in one.levels]) == (count, [False])
    assert cluster_named(f"1x{name}").levels == one.levels
    assert cluster_named(f"3x{name}").chips == 3 * count


@pytest.mark.parametrize(("name", "what"), PODS.items())
def test_a_cluster_of_boxes_has_a_name_of_its_own(name: str, what: tuple[int, str]) -> None:
    count, same = what
    pod = cluster_named(name)
    assert (pod.chips, pod.levels) == (count, cluster_named(same).levels)
    assert is_cluster(name)


def test_a_bare_name_that_changed_warns_and_names_its_cluster() -> None:
    with pytest.warns(MachineNameWarning, match=r"dgx-h100 now means 8 chips.* superpod-h100 \(256 chips\)"):
        cluster_named("dgx-h100")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in ("1xdgx-h100", "superpod-h100", "4xdgx-h100", "8xh100-sxm", "rtx-4090-workstation"):
            cluster_named(name)
        assert cluster_named(clusters()["dgx-h100"]).chips == 8


def test_the_cluster_that_a_warning_names_is_one() -> None:
    for id in clusters():
        before = clusters().head(id).get("before")
        if before is not None:
            assert cluster_named(before).chips >= 2 * clusters()[id].chips
            assert cluster_named(before).chip == clusters()[id].chip


def test_aliases_are_unique() -> None:
    seen: dict[str, str] = {}
    for cluster in clusters().values():
        for name in (cluster.name, *cluster.aliases):
            assert seen.setdefault(name.lower().replace("_", "-"), cluster.name) == cluster.name


def test_no_chip_and_no_cluster_have_a_name_in_common() -> None:
    owners: dict[str, set[str]] = {}
    for kind, id, names in (
        *(("chip", c.id, (c.id, c.name, *c.aliases)) for c in chips().values()),
        *(("cluster", c.name, (c.name, *c.aliases)) for c in clusters().values()),
    ):
        for name in names:
            owners.setdefault(plain_name(name), set()).add(f"{kind} {id}")
    assert {name: sorted(of) for name, of in owners.items() if len(of) > 1} == {}


def test_every_chip_is_a_chip_wherever_a_machine_is_asked_for(whole: bool) -> None:
    for chip in chips().values():
        for name in (chip.id, chip.name, *chip.aliases):
            assert not is_cluster(name), name
            assert chip_named(name) is chip
            assert (cluster_named(name).chip, cluster_named(name).chips) == (chip.id, 1)
    for cluster in clusters().values():
        for name in (cluster.name, *cluster.aliases):
            assert is_cluster(name)
            assert cluster_named(name) is cluster
            if whole or name == cluster.name:
                with pytest.raises(InputError):
                    chip_named(name)


@pytest.mark.parametrize("name", ["7900xtx", "7900-XTX", "7900 xtx", "RX 7900 XTX"])
def test_a_chip_that_begins_with_a_number_and_has_an_x(name: str) -> None:
    e = rl.estimate("openai-community/gpt2", rl.decode(1, 8), on=name)
    assert (e.chip.id, e.deployment.chips) == ("rx-7900-xtx", 1)
    assert cluster_named(f"2x{name}").chips == 2


@folded("name", ["mi300x", "gaudi-2", "h100-sxm", "l40s", "v100-sxm2-32gb", "tpu-v5e", "tpu-v5p"])
@folded("count", [1, 2, 4, 8])
def test_so_many_chips_are_so_many_whatever_joins_them(name: str, count: int) -> None:
    """Also of a mesh or a torus, whose links are those of the whole."""
    cluster = cluster_named(f"{count}x{name}")
    assert cluster.chips == count
    with pytest.raises(InputError, match="group"):
        cluster.span(count + 1)
    e = rl.estimate(
        "openai-community/gpt2", rl.decode(8, 8), on=cluster, precision="fp16" if name.startswith("v100") else None
    )
    assert e.deployment.chips == count


def test_counted_chips_and_nodes() -> None:
    one = cluster_named("8xh100-sxm")
    assert (one.chips, one.levels[0].bandwidth, one.levels[0].in_switch) == (8, 450e9, True)
    assert cluster_named("8 x H100 SXM") == one
    assert cluster_named("4xdgx-h100").chips == cluster_named("32xh100-sxm").chips == 32
    assert [(v.size, v.kind) for v in cluster_named("144xgb200").levels] == [(72, "switch"), (2, "network")]
    assert [(v.name, v.size) for v in cluster_named("4xa100-pcie-80gb").levels] == [("bridge", 2), ("node", 2)]
    assert cluster_named("h100-sxm").chips == 1
    assert cluster_named(chip_named("t4")).chips == 1
    assert cluster_named("2xt4").levels[0].kind == "pcie"
    assert cluster_named(one) is one


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(GOOD)
    cluster = cluster_named(path)
    assert (cluster.name, cluster.chips, cluster.source) == ("mine", 12, "my desk")
    node, room = cluster.levels
    assert node == Level("node", 4, 450e9, 1e-6, "switch", True)
    assert (room.bandwidth, room.latency) == (25e9, pytest.approx(7e-6))
    assert cluster_named(str(path)) == cluster


@folded(
    ("old", "new", "field"),
    [
        ('chip = "h100-sxm"', "", "mine.chip"),
        ('chip = "h100-sxm"', 'chip = "h1000"', "chip"),
        ("size = 4", "size = 0", "node.size"),
        ("size = 4", "size = 4.5", "node.size"),
        ("size = 4", "size = true", "node.size"),
        ("size = 4, ", "", "mine.levels[0].size"),
        ("bandwidth_gbs = 25", "bandwidth_gbs = -1", "room.bandwidth"),
        ("bandwidth_gbs = 25", "bandwidth_gbs = nan", "room.bandwidth"),
        ("bandwidth_gbs = 25", 'bandwidth_gbs = "25"', "mine.levels[1].bandwidth_gbs"),
        ("bandwidth_gbs = 25, ", "", "mine.levels[1].bandwidth_gbs"),
        ("latency_us = 7", "latency_us = -7", "room.latency"),
        ('kind = "network"', 'kind = "netwrk"', "room.kind"),
        ('kind = "network"', "kind = 3", "mine.levels[1].kind"),
        ('"room"', '"node"', "mine.levels"),
        ('"room"', '""', "level.name"),
        ('kind = "network"', 'kind = "pcie", in_switch = true', "room.in_switch"),
        ('kind = "network"', 'kind = "torus", axes = [2, 2]', "room.axes"),
        ("size = 3", "sizes = 3", "mine.levels[1].sizes"),
        ("source", "sauce", "mine.sauce"),
    ],
)
def test_a_bad_file_names_the_field(tmp_path: Path, old: str, new: str, field: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(InputError) as raised:
        cluster_named(path)
    assert raised.value.field == field


@pytest.mark.parametrize("text", ["", "levels", "[a]\n[b]", "[a]\nlevels = 3\nchip = 'h100-sxm'", "a = 1"])
def test_a_file_that_is_no_cluster(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(InputError):
        cluster_named(path)


@folded(
    "spec", ["dgx-h1000", "0xh100-sxm", "12xh100-sxm", "8xm4", "9xt4", "2xpcie-workstation", "nowhere.toml", "", "x"]
)
def test_no_such_cluster(spec: str) -> None:
    with pytest.raises(InputError):
        cluster_named(spec)


def test_the_nearest_is_named() -> None:
    with pytest.raises(InputError) as raised:
        cluster_named("dgx-h10")
    assert "dgx-h100" in raised.value.nearest


def spans(cluster: Cluster, n: int, stride: int = 1) -> list[tuple[str, int]]:
    return [(part.level.name, part.count) for part in cluster.span(n, stride)]


def test_what_a_group_crosses() -> None:
    cluster = cluster_named("superpod-h100")
    assert spans(cluster, 1) == []
    assert spans(cluster, 8) == [("node", 8)]
    assert spans(cluster, 32) == [("node", 8), ("cluster", 4)]
    assert spans(cluster, 12) == [("node", 8), ("cluster", 2)]
    assert spans(cluster, 4, 8) == [("cluster", 4)]
    assert spans(cluster, 8, 2) == [("node", 4), ("cluster", 2)]
    assert spans(cluster, 2, 64) == [("cluster", 2)]
    assert spans(cluster_named("gb200-nvl72"), 64) == [("rack", 64)]
    for n, stride in ((257, 1), (0, 1), (2, 256), (2, 0), (-1, 1), (True, 1)):
        with pytest.raises(InputError):
            cluster.span(n, stride)


@given(st.integers(1, 256), st.sampled_from([1, 2, 4, 8, 16]))
def test_a_group_fits_in_what_it_crosses(n: int, stride: int) -> None:
    cluster = cluster_named("superpod-h100")
    if (n - 1) * stride + 1 > cluster.chips:
        return
    held = 1
    for part in cluster.span(n, stride):
        assert 1 < part.count <= part.level.size
        held *= part.count
    assert held >= n
    if n & (n - 1) == 0:
        assert held == n


def test_tori_and_meshes() -> None:
    pod = cluster_named("tpu-v5e-pod")
    (whole,) = pod.span(256)
    assert (whole.bandwidth, whole.axes, whole.wrapped) == (200e9, (16, 16), True)
    (row,) = pod.span(16, 16)
    assert (row.bandwidth, row.axes) == (100e9, (16,))
    (four,) = pod.span(4)
    assert (four.bandwidth, four.axes, four.wrapped) == (100e9, (2, 2), False)
    (cube,) = cluster_named("tpu-v4-pod").span(64)
    assert (cube.bandwidth, cube.axes, cube.wrapped) == (300e9, (4, 4, 4), True)
    (some,) = cluster_named("8xmi300x").span(4)
    assert some.bandwidth == pytest.approx(3 * 64e9)
    assert some.pair == pytest.approx(64e9)


@given(st.integers(2, 64))
def test_no_part_is_faster_than_its_level(n: int) -> None:
    for level in (
        Level("a", 64, 1e9, 1e-6, "torus", axes=(4, 4, 4)),
        Level("a", 64, 1e9, 1e-6, "torus", axes=(16, 4)),
        Level("a", 64, 1e9, 1e-6, "torus"),
        Level("a", 64, 1e9, 1e-6, "mesh"),
        Level("a", 64, 1e9, 1e-6, "ring"),
        Level("a", 64, 1e9, 1e-6, "switch"),
    ):
        part = level_part(level, n)
        assert 0 < part.bandwidth <= level.bandwidth
        assert 0 < part.pair <= level.bandwidth
        assert level_part(level, 64).bandwidth == level.bandwidth
