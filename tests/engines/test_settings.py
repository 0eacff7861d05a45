"""Settings of engines: in their own words after their name, and their defaults by chip."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

import roofline as rl
from folded import folded
from roofline.declared.errors import InputError
from roofline.doors.cli.main import main
from roofline.engines.engine import Engine, engine_named, engines
from roofline.engines.settings import CONDITIONS, GENERAL, static_share
from roofline.hardware.named_chip import chip_named
from roofline.inference.settings import setup

LLAMA = rl.load("meta-llama/Llama-3.1-8B")


def test_the_words_of_each_engine() -> None:
    vllm = engine_named(
        "vllm(gpu_memory_utilization=0.95,max_num_seqs=128,max_num_batched_tokens=2048,block_size=32,enforce_eager=1)"
    )
    assert (vllm.share, vllm.most_running, vllm.chunk, vllm.block, vllm.eager) == (0.95, 128, 2048, 32, True)
    assert vllm.launch_s == 2.2e-5
    sglang = engine_named("sglang(mem_fraction_static=0.85,chunked_prefill_size=4096,max_running_requests=256)")
    assert (sglang.share, sglang.chunk, sglang.most_running) == (0.85, 4096, 256)
    trtllm = engine_named(
        "trtllm(free_gpu_memory_fraction=0.8,max_batch_size=64,max_num_tokens=1024,tokens_per_block=64)"
    )
    assert (trtllm.share, trtllm.most_running, trtllm.chunk, trtllm.block) == (0.8, 64, 1024, 64)
    assert (trtllm.splits, engine_named("trtllm(enable_chunked_prefill=1)").splits) == (False, True)
    policies = [f"trtllm(capacity_scheduler_policy={p})" for p in ("GUARANTEED_NO_EVICT", "MAX_UTILIZATION")]
    assert [engine_named(name).reserves for name in policies] == [trtllm.reserves, False] == [True, False]
    with pytest.raises(InputError, match="MAX_UTILIZATION"):
        engine_named("trtllm(capacity_scheduler_policy=STATIC_BATCH)")


def test_general_words_spaces_and_hyphens() -> None:
    mine = engine_named("none( share=0.5, chunk=64, most_running=8, block=4, reserve=2GB )")
    assert (mine.share, mine.chunk, mine.most_running, mine.block, mine.overhead_bytes) == (0.5, 64, 8, 4, 2e9)
    assert engine_named("vllm(reserve=1.5GiB)").overhead_bytes == 1.5 * 2**30
    assert engine_named("vllm(--max-num-seqs=7)").most_running == 7
    assert engine_named("vllm()") == engine_named("vllm")


def test_results_say_them() -> None:
    assert engine_named("vllm").plain() == "vllm"
    assert engine_named("vllm(max-num-seqs=128)").plain() == "vllm(max_num_seqs=128)"
    spec = "vllm(gpu_memory_utilization=0.95,max_num_seqs=128)"
    assert engine_named(engine_named(spec).plain()) == engine_named(spec)
    assert rl.fit(LLAMA, on="l4", engine=spec).to_dict()["engine"] == spec
    assert engine_named(spec).titled == "vLLM 0.25 (gpu_memory_utilization=0.95, max_num_seqs=128)"
    side = "meta-llama/Llama-3.1-8B@l4:engine=vllm(max_num_seqs=8)"
    assert rl.diff(side, "meta-llama/Llama-3.1-8B@l4").a.software == "vllm(max_num_seqs=8)"


@folded(
    ("spec", "nearest"),
    [
        ("vllm(max_num_seq=4)", "max_num_seqs"), ("vllm(mem_fraction_static=0.8)", ""), ("sglang(share=2)", ""),
        ("vllm(max_num_seqs=0)", ""), ("vllm(max_num_seqs=1.5)", ""), ("vllm(reserve=2)", ""), ("vllm(share=nan)", ""),
        ("vllm(max_num_seqs=4", ""), ("vllm(max_num_seqs)", ""), ("vllm(share=0.9,gpu_memory_utilization=0.8)", ""),
        ("vlm(max_num_seqs=4)", "vllm"), ("vllm(enforce_eager=2)", ""), ("vllm(max_num_seqs=4)x", ""),
        ("vllm(max_num_seqs=٣)", ""), ("vllm(,)", ""), ("vllm(captured=4)", ""),
    ],
)  # fmt: skip
def test_one_line_for_what_is_not_understood(spec: str, nearest: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError) as caught:
        engine_named(spec)
    assert nearest in str(caught.value)
    with pytest.raises(SystemExit) as left:
        main(["fit", "meta-llama/Llama-3.1-8B", "--on", "l4", "--engine", spec])
    assert left.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


@folded(
    ("chip", "chunk", "running"),
    [
        ("h100-sxm", 8192, 1024), ("h200", 8192, 1024), ("mi300x", 8192, 1024), ("a100-sxm-80gb", 2048, 256),
        ("l4", 2048, 256), ("rtx-4090", 2048, 256), ("xeon-8480", 2048, 128), ("tpu-v6e", 1024, 256),
        ("mi250", 2048, 256), ("like=a100-sxm-80gb,bw=3T", 2048, 256),
    ],
)  # fmt: skip
def test_vllm_by_chip(chip: str, chunk: int, running: int) -> None:
    engine = engine_named("vllm").on(chip_named(chip))
    assert (engine.chunk, engine.most_running, engine.share, engine.block) == (chunk, running, 0.9, 16)


@pytest.mark.parametrize(
    ("chip", "chunk", "captured"),
    [("t4", 2048, 8), ("l4", 2048, 24), ("l40s", 4096, 32), ("h100-sxm", 8192, 256), ("b200", 16384, 512)],
)
def test_sglang_by_chip(chip: str, chunk: int, captured: int) -> None:
    engine = engine_named("sglang").on(chip_named(chip))
    assert (engine.chunk, engine.captured, engine.most_running) == (chunk, captured, 2048)
    assert engine.share == static_share(chip_named(chip).capacity, chunk, captured)


def test_sglang_leaves_by_hand() -> None:
    # 512 + 1.5 · 8192 + 2 · 256 + 128 = 13,440 MiB of 81,920; 512 + 3072 + 48 + 128 = 3,760 of 24,576
    assert static_share(80 * 2**30, 8192, 256) == round(1 - 13440 / 81920, 3) == 0.836
    assert static_share(24 * 2**30, 2048, 24) == round(1 - 3760 / 24576, 3) == 0.847
    assert static_share(64 * 2**30, 2048, 8) == round(1 - 10240 / 65536, 3)


def test_what_was_asked_stays_on_every_chip() -> None:
    asked = engine_named("vllm(max_num_batched_tokens=8192)").on(chip_named("l4"))
    assert (asked.chunk, asked.most_running) == (8192, 256)
    changed = replace(engine_named("vllm"), chunk=4096).on(chip_named("l4"))
    assert (changed.chunk, changed.most_running) == (4096, 256)
    own = Engine(id="mine", name="Mine", chunk=4096)
    assert own.on(chip_named("l4")) is own


def test_estimates_run_with_the_defaults_of_the_chip() -> None:
    assert setup(LLAMA, on="l4").engine.chunk == 2048
    assert setup(LLAMA, on="l4", engine="vllm(max_num_batched_tokens=512)").engine.chunk == 512
    assert setup(LLAMA, on="h100-sxm").engine.most_running == 1024


def test_tables_name_fields() -> None:
    known = {f.name for f in fields(Engine)}
    assert {name for name, _, _ in GENERAL.values()} <= known
    for engine in engines().values():
        assert set(engine.words.values()) <= set(GENERAL)
        assert all(set(row) <= known | set(CONDITIONS) for row in engine.by_chip)


def test_marlin_holds_wider_experts_than_triton() -> None:
    """gpt-oss-120b loads 65.97 GiB on an H100 with Marlin, 64.38 with Triton (vllm issues 23278 and 33155)."""
    triton, marlin = (
        rl.fit("openai/gpt-oss-120b", on="h100-sxm", context=1024, engine=engine).memory.weights / 2**30
        for engine in ("vllm", "vllm(mxfp4_use_marlin=1)")
    )
    wider = 3 * 36 * 128 * 3072 * (2944 - 2880) * 4.25 / 8 / 2**30
    assert marlin - triton == pytest.approx(wider, rel=1e-9)
    assert triton == pytest.approx(64.38, rel=0.005)
    assert marlin == pytest.approx(65.97, rel=0.005)
