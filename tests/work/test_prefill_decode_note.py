"""A published note on Llama-3-8B prefill and decode: its figures from the library, and where its arithmetic slips."""

from __future__ import annotations

import pytest

import roofline as rl
from folded import folded
from roofline.hardware.named_chip import chip_named

MODEL = rl.load("meta-llama/Meta-Llama-3-8B")
MB, MiB = 10**6, 2**20


def each(step: rl.Step, *names: str, counting: str = "torch") -> int:
    """FLOPs of some ops in one layer. The note counts every pair, masked or not: `torch`."""
    analysis = rl.analyze(MODEL, step, counting=counting)
    return sum(analysis.op(n).each_flops for n in names)


ATTENTION, FFN = ("qkv_proj", "attention", "o_proj"), ("gate_up_proj", "down_proj")
PREFILL, DECODE = rl.prefill(batch=32, tokens=1024), rl.decode(batch=32, context=1024)


def layer_weights() -> int:
    """Bytes of a layer's matrices, in bf16."""
    return sum(2 * m.matrix for m in MODEL.layers[0].modules)


def weight(step: rl.Step, name: str) -> int:
    return rl.analyze(MODEL, step).op(name).each_moved.weight


def test_weights() -> None:
    assert 2 * MODEL.embedding[0].parameters == 1_050_673_152  # "1GB"
    assert weight(PREFILL, "o_proj") == 32 * MiB
    assert weight(PREFILL, "qkv_proj") == (32 + 8 + 8) * MiB
    assert MODEL.weight_bytes() == pytest.approx(16e9, rel=0.005)  # "~= 16GB (~= 8B x 2 bytes)"
    assert MODEL.parameters == 8_030_261_248


def test_slip_feed_forward_matrices_are_112_mib_not_128() -> None:
    assert weight(PREFILL, "gate_up_proj") == 2 * 112 * MiB
    assert weight(PREFILL, "down_proj") == 112 * MiB


def test_slip_a_layer_is_416_mib_not_480() -> None:
    assert layer_weights() == 416 * MiB == 436_207_616  # the note itself says 436 MB further down
    assert layer_weights() != 480 * MiB


def activations(step: rl.Step) -> int:
    """The note's four: attention input and output, feed-forward output, keys and values written."""
    a = rl.analyze(MODEL, step)
    moved = [a.op(n).each_moved for n in ("qkv_proj", "o_proj", "down_proj", "attention")]
    return moved[0].input + moved[1].output + moved[2].output + moved[3].cache_write


def test_prefill_activations_are_seven_widths_a_token() -> None:
    """The note's step to `d_model × 8` takes keys and values for a full width twice; its 7 is right."""
    assert activations(PREFILL) == 32 * 1024 * 4096 * 7 == 939_524_096  # "940 MB"
    assert activations(PREFILL) != 32 * 1024 * 4096 * 8


def test_prefill_bytes_and_flops_of_a_layer() -> None:
    assert layer_weights() + activations(PREFILL) == pytest.approx(1376 * MB, rel=0.001)
    assert each(PREFILL, *ATTENTION, *FFN) == pytest.approx(14.8e12, rel=0.005)
    assert each(PREFILL, *FFN) == pytest.approx(12e12, rel=0.05)


def test_slip_prefill_attention_is_3_3_not_3_0_tflop() -> None:
    assert each(PREFILL, *ATTENTION) == 3_298_534_883_328


def test_slip_the_note_counts_masked_pairs() -> None:
    assert each(PREFILL, "attention") == 4 * 32 * 1024 * 1024 * 4096
    assert each(PREFILL, "attention", counting="standard") == 4 * 32 * (1024 * 1025 // 2) * 4096


def test_prefill_intensity_of_batch_32() -> None:
    intensity = each(PREFILL, *ATTENTION, *FFN) / (layer_weights() + activations(PREFILL))
    assert intensity == pytest.approx(10_800, rel=0.002)  # "≈ 10,000"


def test_slip_prefill_intensity_of_batch_1_is_997_not_300() -> None:
    """The weights do not shrink with the batch, so the intensity does not fall 32 times."""
    one = rl.prefill(batch=1, tokens=1024)
    intensity = each(one, *ATTENTION, *FFN) / (layer_weights() + activations(one))
    assert intensity == pytest.approx(996.6, rel=1e-3)
    assert intensity > chip_named("h100-sxm").ridge("bf16")  # its conclusion stands: compute bound


def test_decode_bytes() -> None:
    a = rl.analyze(MODEL, DECODE)
    assert a.op("attention").each_moved.cache_read == 134_217_728
    assert a.op("attention").each_moved.cache_write == 131_072
    for name, role in (("qkv_proj", "input"), ("o_proj", "output"), ("down_proj", "output")):
        assert getattr(a.op(name).each_moved, role) == 262_144


def test_slip_decode_feed_forward_input_is_917504_not_884736() -> None:
    assert rl.analyze(MODEL, DECODE).op("down_proj").each_moved.input == 32 * 14336 * 2 == 917_504


def test_slip_decode_reads_571_mb_a_layer_not_600() -> None:
    moved = rl.analyze(MODEL, DECODE).op("attention").each_moved
    assert layer_weights() + moved.cache == pytest.approx(570.6 * MB, rel=1e-3)


def test_slip_a_new_token_attends_to_itself() -> None:
    """The note counts 1024 keys in decode; the token's own is the 1025th."""
    assert each(DECODE, "attention") == 4 * 32 * 1025 * 4096
    assert each(DECODE, "attention") - 4 * 32 * 1024 * 4096 == 4 * 32 * 4096


def test_decode_flops_and_intensity() -> None:
    flops = each(DECODE, *ATTENTION, *FFN)
    assert flops == pytest.approx(15e9, rel=0.04)
    assert each(DECODE, *FFN) == pytest.approx(12e9, rel=0.07)
    assert each(DECODE, *ATTENTION) == pytest.approx(3.0e9, rel=0.08)
    moved = rl.analyze(MODEL, DECODE).op("attention").each_moved
    assert flops / (layer_weights() + moved.cache) == pytest.approx(25.4, rel=2e-3)  # "≈ 24"


@folded(
    ("chip", "fmt", "tflops", "gbs", "ridge"),
    [
        ("h100-sxm", "bf16", 989, 3350, 295),
        ("h100-pcie", "bf16", 756, 2000, 378),
        ("a100-sxm-80gb", "bf16", 312, 2039, 153),
        ("a100-pcie-40gb", "bf16", 312, 1555, 201),
        ("l40s", "bf16", 362, 864, 419),
        ("a10", "bf16", 125, 600, 208),
        ("v100-sxm2-16gb", "fp16", 125, 900, 139),
    ],
)
def test_hardware_table(chip: str, fmt: str, tflops: int, gbs: int, ridge: int) -> None:
    c = chip_named(chip)
    assert c.peak(fmt) / 1e12 == pytest.approx(tflops, abs=0.6)
    assert c.bandwidth / 1e9 == gbs
    assert round(c.ridge(fmt)) == ridge
    decode = rl.analyze(MODEL, DECODE)
    assert decode.intensity < c.ridge(fmt)  # "Memory-bound!"
    assert rl.analyze(MODEL, PREFILL).intensity > c.ridge(fmt)
