"""Releases of engines: how they are named, what a row changes, and that every door takes them."""

from __future__ import annotations

import json
import re
from dataclasses import fields

import pytest

import roofline as rl
from folded import folded
from roofline.declared.errors import InputError
from roofline.doors.cli.main import main
from roofline.engines.engine import Engine, engine_named, engines
from roofline.engines.releases import changed_fields, former_names, nearest_release, release_of, releases, version
from roofline.hardware.named_chip import chip_named

LLAMA = rl.load("meta-llama/Llama-3.1-8B")
NAMES = {f.name for f in fields(Engine)}


@folded(
    ("asked", "release"),
    [
        ("0.11", "0.11"), ("v0.11.2", "0.11.2"), ("0.11.1rc2", "0.11.1"), ("2025-06", "0.9"), ("2025-06-17", "0.9"),
        ("2026-01", "0.15"), (" 0.25 ", "0.25"),
    ],
)  # fmt: skip
def test_a_version_or_a_date_means_a_release(asked: str, release: str) -> None:
    assert release_of("vllm", asked) == release
    assert engine_named(f"vllm@{asked}").release == release


@folded(
    ("name", "nearest"),
    [
        ("vllm@0.99", "vllm@"), ("vllm@0.1", "vllm@0.3"), ("vllm@abc", "vllm@0.25"), ("vllm@", "vllm@0.25"),
        ("vllm@2020-01", "vllm@0.3"), ("vllm@2025-13", "vllm@0.3"), ("sglang@0.2", "sglang@0.3"), ("vlm@0.11", "vllm"),
        ("vllm@1e400", "vllm@0.25"), ("vllm@" + "9" * 99, "vllm@0.25"),
    ],
)  # fmt: skip
def test_one_line_names_the_nearest_known(name: str, nearest: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError) as caught:
        engine_named(name)
    assert any(known.startswith(nearest) for known in caught.value.nearest)
    with pytest.raises(SystemExit) as left:
        main(["fit", "meta-llama/Llama-3.1-8B", "--on", "l4", "--engine", name])
    assert left.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_an_engine_of_which_no_release_is_known_takes_none() -> None:
    with pytest.raises(InputError, match="without a release"):
        engine_named("mlx@0.21")
    with pytest.raises(InputError):
        engine_named("vllm-2024@0.5")


@folded("id", releases())
def test_rows_are_dated_and_have_a_source(id: str) -> None:
    known = releases()[id]
    assert known.newest in known.months
    assert id in engines()
    assert engines()[id].release == known.newest
    assert list(known.months) == sorted(known.months, key=version)
    assert list(known.months.values()) == sorted(known.months.values())
    for row in known.changes:
        assert row.source
        assert re.fullmatch(r"20\d\d-\d\d", row.date)
        assert version(row.release)
        assert bool(row.before) != bool(row.since)
        assert set(row.before) | set(row.since) <= NAMES
        assert (version(row.release) > version(known.newest)) == bool(row.since)
    assert changed_fields(id, known.newest) == ({}, False)
    for name in known.months:
        assert engine_named(f"{id}@{name}").on(chip_named("h100-sxm")).release == name


def test_the_newest_is_what_no_release_means() -> None:
    assert engine_named("vllm@0.25") == engine_named("vllm")
    assert engine_named("vllm@0.25").plain() == "vllm"
    old = engine_named("vllm@0.11.2(max_num_seqs=8)")
    assert (old.plain(), old.titled) == ("vllm@0.11.2(max_num_seqs=8)", "vLLM 0.11.2 (max_num_seqs=8)")
    assert engine_named(old.plain()) == old


def test_an_engine_that_became_a_release_keeps_its_name() -> None:
    assert set(former_names()) == {"vllm-2024", "trtllm-2024"}
    for old, (id, release) in former_names().items():
        named, plain = engine_named(old), engine_named(f"{id}@{release}")
        assert old not in engines()
        assert named.plain() == plain.plain() == f"{id}@{release}"
        assert named.titled == f"{plain.titled}, formerly {old}"
        assert named.fitted_on == plain.fitted_on != engines()[id].fitted_on
    assert engine_named("vllm@0.6").network == "nccl"
    assert engine_named("vllm@0.8").network is None


def test_steps_wait_for_the_host_before_0_14() -> None:
    times = {
        name: rl.serve(LLAMA, on="h100-sxm", engine=name, input=512, output_tokens=256, concurrency=64).tpot.expected
        for name in ("vllm", "vllm@0.14", "vllm@0.13", "vllm@0.13(async_scheduling=1)", "vllm(async_scheduling=0)")
    }
    assert times["vllm@0.14"] == times["vllm@0.13(async_scheduling=1)"] == pytest.approx(times["vllm"], rel=0.01)
    assert times["vllm@0.13"] == pytest.approx(times["vllm(async_scheduling=0)"], rel=0.01)
    more = times["vllm@0.13"] - times["vllm@0.14"]
    usual = engine_named("vllm")
    assert more == pytest.approx(usual.idle_step_s + 64 * usual.idle_sequence_s, rel=0.2)


def test_a_cache_has_the_format_that_nvfp4_checkpoints_ask_for_since_0_14() -> None:
    """Half of the bytes of 16 bits, which other formats keep."""
    sizes = {
        (release, formats): rl.fit(
            LLAMA, on="b200", engine=f"vllm@{release}", precision=formats, context=1024
        ).memory.cache
        for release in ("0.13", "0.14")
        for formats in ("weights=nvfp4", "weights=fp8", "weights=nvfp4,kv=bf16")
    }
    half = sizes["0.14", "weights=nvfp4"]
    assert {key: size / half for key, size in sizes.items()} == {
        key: pytest.approx(1 if key == ("0.14", "weights=nvfp4") else 2, rel=0.02) for key in sizes
    }


def test_what_a_release_lacks() -> None:
    assert engine_named("vllm@0.12").fuses == ["nvfp4"]
    sampled = [engine_named(f"vllm@{x}").sampled_bytes for x in ("0.10.2", "0.11", "0.11.1", "0.15", "0.16")]
    assert sampled == [14.0, 14.0, 38.4, 38.4, 14.0]
    assert engine_named("vllm@0.11").fuses == []
    assert engine_named("vllm@0.11").kernel("mxfp4", "blackwell") is None
    assert engine_named("vllm@0.12").kernel("mxfp4", "blackwell") == "w4a8_mxfp4_mxfp8"
    assert engine_named("vllm@0.9.1").dispatches == {} != engine_named("vllm@0.9.2").dispatches
    assert engine_named("vllm@0.20").graph_bytes == 0.0
    assert engine_named("vllm@0.29").share == 0.92
    assert engine_named("megatron@0.14").slower["hopper"] == engines()["nemo"].slower["hopper"]
    rack = chip_named("gb200")
    names = {name: engine_named(name).on(rack).dispatcher for name in ("megatron@0.14", "megatron@0.15", "megatron")}
    assert names == {"megatron@0.14": "deepep", "megatron@0.15": "nvlink", "megatron": "nvlink"}
    assert engine_named("megatron(moe_token_dispatcher_type=alltoall)").on(rack).dispatcher == "alltoall"


def test_defaults_of_a_chip_hold_in_every_release() -> None:
    chip = chip_named("l4")
    assert engine_named("vllm@0.29").on(chip).most_running == engine_named("vllm").on(chip).most_running == 256
    assert engine_named("vllm@0.29").on(chip).share == 0.92
    assert engine_named("vllm@0.29(gpu_memory_utilization=0.8)").on(chip).share == 0.8


def test_versions_as_tables_write_them() -> None:
    names = {"v0.11.0": "0.11.0", "1.2.0rc2.post2": "1.2.0", "0.6.3.post2.dev308": "0.6.3", "glm5-hopper": None,
             "nightly-5b8c": None, "": None, "2025-10": "0.11"}  # fmt: skip
    for text, release in names.items():
        assert nearest_release("trtllm" if text.startswith("1.") else "vllm", text) == release


def test_doors_take_a_release(capsys: pytest.CaptureFixture[str]) -> None:
    serve = ["serve", "meta-llama/Llama-3.1-8B", "--on", "h100-sxm", "--input", "64", "--output-tokens", "28"]
    serve += ["--concurrency", "2", "--engine", "vllm@2025-10"]
    main(serve)
    assert capsys.readouterr().out.splitlines()[0].endswith("· vLLM 0.11")
    main([*serve, "--json"])
    assert json.loads(capsys.readouterr().out)["engine"] == "vllm@0.11"
    side = rl.diff("meta-llama/Llama-3.1-8B@h100-sxm:engine=vllm@0.11", "meta-llama/Llama-3.1-8B@h100-sxm")
    assert (side.a.software, side.b.software) == ("vllm@0.11", "vllm")
    grid = rl.estimate(LLAMA, rl.decode(1, 64), on="h100-sxm", engine=["vllm@0.11", "vllm-2024", "vllm"])
    assert grid.axes[0].labels == ("vllm@0.11", "vllm-2024", "vllm")
