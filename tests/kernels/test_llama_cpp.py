"""llama.cpp's kernels: their law by hand, which machine runs which, and what must hold of formats and chips."""

from __future__ import annotations

import tomllib
from itertools import pairwise
from pathlib import Path

import pytest

import roofline as rl
from folded import folded
from roofline.engines.engine import engine_named, engines
from roofline.hardware.chip import chips
from roofline.hardware.named_chip import chip_named
from roofline.kernels import constants
from roofline.kernels.constants import constants_for
from roofline.work import ops as o

LLAMA = "meta-llama/Llama-3.1-8B"


@folded(
    ("on", "software"),
    [
        ("rtx-4090", "llama.cpp-cuda"), ("p40", "llama.cpp-cuda"), ("m3-max", "llama.cpp-metal"),
        ("strix-halo", "llama.cpp-rocm"), ("arc-b580", "llama.cpp-vulkan"), ("ryzen-9-7950x", "llama.cpp-cpu"),
    ],
)  # fmt: skip
def test_the_backend_is_the_chips(on: str, software: str) -> None:
    assert engine_named("llama.cpp").on(chip_named(on)).software == software
    assert engine_named("llama-cpp") == engine_named("llama.cpp") == engines()["llama-cpp"]


def test_a_product_is_t0_and_a_roofline_by_hand() -> None:
    """o_proj of Llama-3.1-8B in q8_0 on a 3090, one token: 4096 × 4096 weights of 8.5 bits."""
    table = tomllib.loads((Path(constants.FOLDER) / "llama.cpp-cuda-ampere-rtx.toml").read_text())
    entry, cores = table["int8_wo"]["quantised_matmul"]["default"], table["cores"]
    moved = 4096 * 4096 * 8.5 / 8 + 2 * 4096 * 2
    most = 82 * 1.695e9 * cores["clocked"] / 936e9
    fraction = (entry["memory"] ** -4 + most**-4) ** -0.25
    step = rl.estimate(LLAMA, rl.decode(1, 16), on="rtx-3090", engine="llama.cpp", precision="q8_0")
    op = next(op for op in step.ops if op.name == "o_proj")
    assert isinstance(op.cost.op, o.MatMul)
    assert float(op.each.expected) == pytest.approx(entry["t0"] + moved / (936e9 * fraction), rel=2e-3)


def test_no_core_reads_more_than_it_can_in_a_clock() -> None:
    """An A100's cores do not fill its memory's bandwidth: half of it in answers, as people measured."""
    for on, low, high in (("a100-pcie-80gb", 0.4, 0.6), ("rtx-3090", 0.7, 0.95), ("rtx-6000-ada", 0.8, 0.95)):
        record = constants_for(chip_named(on), "bf16", "matmul", "llama.cpp-cuda").record
        assert low < record.memory < high, on


@pytest.mark.drawn(3)
@pytest.mark.parametrize("on", ["rtx-4090", "rtx-3060", "m1", "m4-max", "strix-halo", "p40", "n150", "rx-7900-xtx"])
def test_fewer_bits_are_never_slower_in_answers(on: str) -> None:
    rates = []
    for mix in ("fp16", "q8_0", "q6_k", "q5_k_m", "q4_k_m", "q3_k_m", "q2_k"):
        e = rl.estimate("Qwen/Qwen3-4B", rl.decode(1, 1024), on=on, engine="llama.cpp", precision=mix)
        rates.append(1 / float(e.span.expected))
        assert e.span.low <= e.span.expected <= e.span.high
        assert e.span.expected >= e.span.floor
    assert all(b >= 0.99 * a for a, b in pairwise(rates))


def test_a_longer_context_and_a_narrower_bus_are_never_faster() -> None:
    times = [
        float(rl.estimate(LLAMA, rl.decode(1, n), on="m2-max", engine="llama.cpp").span.expected)
        for n in (1, 999, 9999)
    ]
    assert times == sorted(times)
    buses = [f"like=rtx-3090,bw={n}GB/s" for n in (1000, 800, 400, 200)]
    times = [float(rl.estimate(LLAMA, rl.decode(1, 9), on=on, engine="llama.cpp").span.expected) for on in buses]
    assert times == sorted(times)


def test_it_runs_in_fp16_where_a_chip_has_no_bf16_and_in_fp32_where_it_has_neither() -> None:
    for on, compute in (("m1", "fp16"), ("rtx-2080", "fp16"), ("ryzen-5-3600", "fp32"), ("rtx-3090", "fp16")):
        step = rl.estimate(LLAMA, rl.decode(1, 9), on=on, engine="llama.cpp")
        formats = step.formats
        assert (formats.activations.name, formats.activations.compute, formats.kv.name) == ("fp16", compute, "fp16")
        assert step.memory.weights == 2 * 8_030_261_248


def test_every_gpu_and_cpu_that_people_own_answers(whole: bool) -> None:
    for chip in list(chips().values())[:: 1 if whole else 10]:
        if chip.kind in ("gpu", "cpu") and chip.vendor in (
            "nvidia",
            "amd",
            "apple",
            "intel",
            "ampere",
            "aws",
            "broadcom",
        ):
            step = rl.estimate("Qwen/Qwen3-0.6B", rl.decode(1, 64), on=chip.id, engine="llama.cpp", precision="q4_k_m")
            assert step.span.floor <= step.span.expected < 5, chip.id


def test_grades_say_which_generations_took_part() -> None:
    for on, grade in (("rtx-4090", "B"), ("m4-max", "C"), ("h100-sxm", "C"), ("p40", "C"), ("rx-6800-xt", "C")):
        step = rl.estimate(LLAMA, rl.decode(1, 9), on=on, engine="llama.cpp", precision="q4_k_m")
        assert step.grade == grade, on


def test_mlx_is_near_what_people_published() -> None:
    """Tokens a second: 70B in 4 bits on an M3 Max, by which it was set, and two that took no part: Llama-3.1-8B in 8
    bits on an M3 Max (EricLBuehler/mistral.rs issue 903), Qwen3.5-9B in 4 bits on an M4 (jitesh.dev, 2026-03)."""
    for name, on, bits, prompt, measured in (
        ("meta-llama/Llama-3.1-70B", "m3-max", 4, 1635, 9.22), ("meta-llama/Llama-3.1-70B", "m3-max", 4, 16003, 7.78),
        ("meta-llama/Llama-3.1-8B", "m3-max", 8, 22, 43.43), ("Qwen/Qwen3.5-9B", "m4", 4, 83, 22.0),
    ):  # fmt: skip
        g = rl.generate(name, on=on, engine="mlx", precision=f"mlx-{bits}bit", input=prompt, output=256)
        assert 1 / g.tpot.expected == pytest.approx(measured, rel=0.08), (name, on)
        assert g.tpot.low < 1 / measured < g.tpot.high
        assert g.grade == "C"


def test_exllama_is_near_what_its_authors_measured() -> None:
    """Tokens a second after a few words, exllamav2's README (turboderp/exllamav2, 2024); nothing was fitted on them."""
    for name, on, bits, measured in (
        ("meta-llama/Llama-2-7b-hf", "rtx-4090", 3, 245), ("meta-llama/Llama-2-7b-hf", "rtx-4090", 4, 207),
        ("meta-llama/Llama-2-7b-hf", "rtx-4090", 5, 170), ("codellama/CodeLlama-34b-hf", "rtx-4090", 4, 50),
        ("meta-llama/Llama-2-70b-hf", "rtx-4090", 2.5, 37), ("meta-llama/Llama-2-7b-hf", "rtx-3090-ti", 4, 179),
        ("meta-llama/Llama-2-7b-hf", "rtx-3090-ti", 5, 159), ("codellama/CodeLlama-34b-hf", "rtx-3090-ti", 4, 44),
    ):  # fmt: skip
        g = rl.generate(name, on=on, engine="exllama", precision=f"exl2-{bits}bpw", input=8, output=128)
        assert 1 / g.tpot.expected == pytest.approx(measured, rel=0.15), (name, on, bits)
        assert g.tpot.low < 1 / measured < g.tpot.high
        assert g.grade == "C"


def test_mlx_is_apples_alone() -> None:
    assert engine_named("mlx").on(chip_named("m1")).software == "mlx"
    assert engine_named("mlx").on(chip_named("rtx-3090")).software is None


@folded(("prompt", "cards"), [(256, 1), (1024, 1), (1100, 1), (512, 2), (2048, 4)])
def test_prompts_go_in_parts_that_follow_one_another_through_cards(prompt: int, cards: int) -> None:
    """ggml's pipeline: each card works on the part behind that of the next; by hand, step by step."""
    model, many = rl.load(LLAMA), cards > 1
    where = {"on": f"{cards}xrtx-4090" if many else "rtx-4090", "layout": f"pp={cards}" if many else None}
    g = rl.generate(model, batch=1, input=prompt, output_tokens=2, engine="llama-cpp", precision="q4_0", **where)
    begins = range(0, prompt, 512)
    steps = [rl.prefill(1, min(512, prompt - begin), cached=begin) for begin in begins]
    times = [
        float(rl.estimate(model, step, engine="llama-cpp", precision="q4_0", within=False, **where).total.expected)
        for step in steps
    ]
    whole = sum(times) / cards + (cards - 1) / cards * sum(times) / len(times)
    assert g.ttft.expected == pytest.approx(whole, rel=0.01)


def test_short_prompts_share_a_part() -> None:
    few, many = (
        rl.generate(LLAMA, batch=n, input=128, output_tokens=2, on="rtx-4090", engine="llama-cpp", precision="q4_0")
        for n in (4, 8)
    )
    one = rl.estimate(LLAMA, rl.prefill(4, 128), on="rtx-4090", engine="llama-cpp", precision="q4_0", within=False)
    assert few.ttft.expected == pytest.approx(float(one.total.expected))
    assert many.ttft.expected == pytest.approx(2 * few.ttft.expected)
