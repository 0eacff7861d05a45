"""Two sides: figures, turns and causes are the library's."""

from __future__ import annotations

import math

import pytest

import roofline as rl
from roofline.declared.groups import PlaceSettings
from roofline.training.estimate import TrainingEstimate
from roofline.views.report.parts.subject import report_on
from roofline.whatif import diff as difference
from roofline.whatif.diff import Cause, differ, side
from roofline.whatif.search.recommendations import BatchSizes

LLAMA = "meta-llama/Llama-3.1-8B"
MODEL = rl.load(LLAMA)


def test_causes_are_the_ops_times_on_either_side() -> None:
    d = differ(side(f"{LLAMA}@a100-sxm-80gb:batch=8"), side(f"{LLAMA}@h100-sxm:batch=8"), most=100)
    on = {chip: rl.estimate(MODEL, rl.decode(8, 1024), on=chip) for chip in ("a100-sxm-80gb", "h100-sxm")}
    times = [{op.name: op.expected for op in e.ops} for e in on.values()]
    causes = [c for c in d.causes if c.phase == "decode"]
    assert {c.op: (c.a, c.b, c.unit) for c in causes} == {op: (times[0][op], times[1][op], "s") for op in times[0]}
    assert [abs(c.change) for c in causes] == sorted((abs(c.change) for c in causes), reverse=True)
    assert sum(c.change for c in causes) == pytest.approx(on["h100-sxm"].time - on["a100-sxm-80gb"].time)


def test_without_a_chip_causes_are_flops() -> None:
    d = differ(side(f"{LLAMA}:step=decode"), side(f"{LLAMA}:step=decode,batch=2"), most=1)
    widest = max(rl.analyze(MODEL, rl.decode(1, 1024)).ops, key=lambda op: op.flops)
    assert d.causes == (Cause("decode", widest.name, widest.flops, 2 * widest.flops, "FLOP"),)
    assert [(t.settings, t.factor) for t in d.turns] == [(("batch",), 2.0)]


def test_mfu_is_a_share() -> None:
    spec = f"{LLAMA}@8xh100-sxm:train=2048,batch=8,step=training,layout="
    d = differ(side(f"{spec}[tp=8]"), side(f"{spec}[tp=2,dp=4,zero=1]"))
    t = rl.train(MODEL, batch=8, tokens=2048, on="8xh100-sxm", layout="tp=8")
    (mfu,) = (c for c in d.changes if c.name == "MFU")
    assert (mfu.unit, mfu.a) == ("share", t.mfu)
    (rate,) = (c for c in d.changes if c.name == "tokens/s per chip")
    assert rate.a == t.tokens_per_second_per_chip


def test_without_a_layout_a_training_step_is_the_one_of_train() -> None:
    """A diff, a report and `train` are asked the same, and choose the same layout and recomputation."""
    given = {"batch": 64, "on": "8xh100-sxm"}
    t = rl.train(MODEL, tokens=4096, **given)
    two = differ(side(f"{LLAMA}@8xh100-sxm:train=4096,batch=64,step=training"), side(f"{LLAMA}@8xh100-sxm:batch=64"))
    (mfu,) = (c for c in two.changes if c.name == "MFU")
    assert mfu.a == t.mfu
    place = PlaceSettings(on="8xh100-sxm")
    reported = report_on(MODEL, place, BatchSizes(batch=64, input=4096), train=True).training
    assert isinstance(reported, TrainingEstimate)
    assert (reported.time, reported.deployment.layout, reported.recompute) == (t.time, t.deployment.layout, t.recompute)
    assert t.deployment.layout.text() == "dp=8, zero=1"
    step = rl.estimate(MODEL, rl.training(64, 4096), on="8xh100-sxm")
    assert step.time == rl.train(MODEL, tokens=4096, recompute="none", schedule="1f1b", **given).time


def test_each_side_is_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, int]] = []
    measured = difference.phase_figures
    monkeypatch.setattr(
        difference, "phase_figures", lambda s, phase, timed: seen.append((phase, s.batch)) or measured(s, phase, timed)
    )
    d = differ(side(LLAMA), side(f"{LLAMA}:batch=2"))
    assert seen == [("prefill", 1), ("prefill", 2), ("decode", 1), ("decode", 2)]
    assert math.prod(t.factor for t in d.turns) == pytest.approx(4.0)


def test_models_and_configs_are_sides() -> None:
    small = {"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "vocab_size": 100,
             "num_hidden_layers": 2, "num_attention_heads": 4, "dtype": "bfloat16"}  # fmt: skip
    named = rl.diff("meta-llama/Llama-3.1-8B", "Qwen/Qwen3-8B").to_dict()
    assert rl.diff(rl.load("meta-llama/Llama-3.1-8B"), rl.load("Qwen/Qwen3-8B")).to_dict() == named
    assert rl.diff(small, rl.load(small)).facts == ()


def test_a_side_with_an_encoder_pool() -> None:
    """Its prefill has the text alone, behind the encoding of a request and the transfer of its embeddings."""
    name, seen = "Qwen/Qwen3-VL-8B-Instruct", "images=2,image_size=1024x768,prompt=128,step=prefill"
    d = rl.diff(f"{name}@h100-sxm:{seen}", f"{name}@h100-sxm:{seen},encoders=1,encoder_on=l40s")
    times = {change.name: change for change in d.changes if change.phase == "prefill"}
    images = rl.Images(2, 1024, 768)
    load = {"input": 128, "output_tokens": 8, "concurrency": 1, "images": images}
    pool = rl.serve(name, on="h100-sxm", **load, encoders=1, encoder_on="l40s").encoder
    tokens = 128 + rl.load(name).seen(images).tokens  # type: ignore[union-attr]
    text = rl.estimate(rl.load(name, text_only=True), rl.prefill(1, tokens), on="h100-sxm")
    assert pool is not None
    before = float(pool.encode.expected + pool.transfer.expected)
    assert times["time"].b == pytest.approx(before + float(text.time))
    assert times["memory"].b == pytest.approx(float(text.memory.total))
    assert {"encoding (pool)", "sending embeddings"} <= {cause.op for cause in d.causes}


@pytest.mark.parametrize(
    ("side", "field"),
    [
        ("Qwen/Qwen3-VL-8B-Instruct:images=1,image_size=640x480,encoders=1", "encoders"),
        ("Qwen/Qwen3-VL-8B-Instruct@h100-sxm:encoders=1", "encoders"),
        ("Qwen/Qwen3-VL-8B-Instruct@h100-sxm:images=1,image_size=640x480,encoder_on=l40s", "encoder_on"),
        ("Qwen/Qwen3-8B@h100-sxm:encoders=1", "encoders"),
    ],
)
def test_an_encoder_pool_that_cannot_be(side: str, field: str) -> None:
    with pytest.raises(rl.InputError) as error:
        rl.diff(side, "Qwen/Qwen3-8B@h100-sxm")
    assert error.value.field == field
