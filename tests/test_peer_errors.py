"""Mistakes found in other tools, each a test here."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import roofline as rl
from roofline.declared.errors import InputError
from roofline.declared.numbers.units import si
from roofline.hardware.chip import chips
from roofline.hardware.named_chip import chip_named
from roofline.model.modules import Experts

V3 = "deepseek-ai/DeepSeek-V3"


def test_a_gigabyte_is_ten_to_the_nine_and_a_teraflop_ten_to_the_twelve() -> None:
    assert si(10**9, "B") == "1.00 GB"
    assert si(10**12, "FLOP") == "1.00 TFLOP"
    assert chip_named("h100-sxm").bandwidth == 3350e9


@pytest.mark.parametrize("name", ["h100-sxm", "gh200", "h200-sxm"])
def test_peaks_are_dense(name: str) -> None:
    assert chip_named(name).peak("bf16") == pytest.approx(989.4e12, rel=1e-3)


def test_no_chip_claims_a_sparse_peak() -> None:
    """8-bit is at most twice 16-bit on one matrix unit; a sparse figure in a dense table shows as four times.

    Rubin apart: NVIDIA's table of NVL72, dense, has 1,260 PF of FP8 and 288 PF of BF16.
    """
    rubin = chips()["vr200"]
    assert 72 * rubin.peaks["fp8"] == pytest.approx(1260e15)
    assert 72 * rubin.peaks["bf16"] == pytest.approx(288e15)
    for chip in chips().values():
        if chip is rubin:
            continue
        if chip.vendor in ("nvidia", "amd") and {"bf16", "fp8"} <= set(chip.peaks):
            assert chip.peaks["fp8"] <= 2.05 * chip.peaks["bf16"], chip.id


def test_prefill_attention_is_halved_by_the_causal_mask() -> None:
    model = rl.load("meta-llama/Llama-3.1-8B")
    step = rl.prefill(batch=1, tokens=4096)
    standard = rl.analyze(model, step).op("attention").flops
    full = rl.analyze(model, step, counting="torch").op("attention").flops
    assert full / standard == pytest.approx(2 * 4096 / 4097)


def test_the_head_runs_once_a_sequence_at_prefill() -> None:
    head = rl.analyze(rl.load("meta-llama/Llama-3.1-8B"), rl.prefill(batch=3, tokens=1000)).op("lm_head")
    assert head.flops == 2 * 3 * 4096 * 128256


def test_deepseek_v3_has_671_b_parameters_37_b_active_and_70272_bytes_of_cache_a_token() -> None:
    model = rl.load(V3)
    assert model.parameters == 671_026_404_352
    assert round(model.active_parameters / 1e9) in (37, 38)
    assert model.kv_bytes(1) == 70_272
    assert model.kv_bytes(1000) == 70_272_000


def test_latent_cache_is_not_stored_uncompressed() -> None:
    model = rl.load(V3)
    assert model.kv_elements(1) == 61 * (512 + 64)
    assert model.kv_elements(1) * 50 < 61 * 128 * (192 + 128)


def test_the_first_layers_of_deepseek_v3_are_dense() -> None:
    layers = rl.load(V3).layers
    sparse = [any(isinstance(m, Experts) for m in block.modules) for block in layers]
    assert sparse == [False] * 3 + [True] * 58


def test_embedding_and_head_are_in_the_weights_and_in_the_traffic() -> None:
    model = rl.load("meta-llama/Llama-3.1-8B")
    assert model.weight_bytes() == 2 * 8_030_261_248
    step = rl.analyze(model, rl.decode(batch=1, context=0))
    assert step.op("lm_head").moved.weight == 2 * 4096 * 128256
    assert step.op("embedding").moved.weight == 2 * 4096  # a row, not the table


def test_distinct_experts_grow_with_the_batch() -> None:
    model = rl.load(V3)

    def touched(batch: int) -> float:
        return float(rl.analyze(model, rl.decode(batch=batch, context=1)).op("experts_down_proj").op.touched)  # type: ignore[attr-defined]

    assert touched(1) == 8
    for batch, expected in ((8, 57), (32, 163), (64, 222), (128, 252)):
        assert touched(batch) == pytest.approx(expected, abs=0.7)
    assert touched(10**6) <= 256


def test_routed_work_is_top_k_however_many_experts_are_touched() -> None:
    model = rl.load(V3)
    one, many = (rl.analyze(model, rl.decode(batch=b, context=1)).op("experts_down_proj").flops for b in (1, 128))
    assert many == 128 * one


def test_declared_dependencies_are_those_imported() -> None:
    required = importlib.metadata.requires("roofline") or []
    used = [
        r for r in required if "extra" not in r or re.search("extra == .(web|mcp|codesign|cluster|algebra|frames)", r)
    ]
    declared = {re.split(r"[<>=\[; ]", r)[0].lower() for r in used}
    for name in declared:
        importlib.metadata.version(name)
    source = Path(rl.__file__).parent
    found = set()
    for path in source.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        found |= set().union(
            *re.findall(r"^\s*(?:from ([a-zA-Z_]\w*)[\w.]* import|import ([a-zA-Z_]\w*))", text, re.MULTILINE),
            re.findall(r"import_module\(\"([a-zA-Z_]\w*)", text),
        )
    third = found - set(sys.stdlib_module_names) - {"roofline", ""}
    compared = {re.split(r"[<>=; ]", r)[0] for r in required if "extra == 'oracle'" in r}  # brought by whoever traces
    assert third - compared == {d.replace("-", "_") for d in declared}


def test_a_users_mistake_is_an_input_error_not_an_assertion() -> None:
    with pytest.raises(InputError):
        rl.load({"model_type": "llama", "hidden_size": -1})


def test_nothing_is_written_outside_what_was_asked_for(tmp_path: Path) -> None:
    before = set(tmp_path.rglob("*"))
    env = {**os.environ, "HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    for command in (["analyze", "gpt2"], ["models"], ["explain", "gpt2", "attention"]):
        subprocess.run(
            [sys.executable, "-m", "roofline.doors.cli.main", *command],
            cwd=tmp_path,
            env=env,
            check=True,
            capture_output=True,
        )
    assert set(tmp_path.rglob("*")) == before
