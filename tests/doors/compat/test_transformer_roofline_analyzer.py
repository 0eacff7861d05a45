"""transformer-roofline-analyzer: its published outputs byte for byte, and its slips by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import roofline as rl
from roofline.doors.compat.transformer_roofline_analyzer import main
from roofline.work.counting import ORIGINAL, STANDARD
from roofline.work.ops import Activate, Attend, ExpertMatMul
from roofline.work.traffic import FUSED
from roofline.work.traffic import ORIGINAL as ORIGINAL_TRAFFIC

GOLDEN = Path(__file__).with_name("golden")


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[str, str]:
    main(argv)
    done = capsys.readouterr()
    return done.out, done.err


@pytest.mark.parametrize(
    ("options", "model", "golden"),
    [
        ("--cached-tokens 0 0 --input-tokens 512 1024", GOLDEN / "llama.json", "llama--cached-0-0--input-512-1024.txt"),
        (
            "--cached-tokens 0 --input-tokens 2048 --batch-size 100",
            GOLDEN / "llama4-step4.json",
            "llama4-step4--cached-0--input-2048--batch-100.txt",
        ),
        (
            "--cached-tokens 1048576 --input-tokens 1",
            "meta-llama/Llama-4-Scout-17B-16E",
            "scout--cached-1048576--input-1.txt",
        ),
    ],
)
def test_published_outputs_byte_for_byte(
    capsys: pytest.CaptureFixture[str], options: str, model: object, golden: str
) -> None:
    out, err = run(capsys, *options.split(), "--", str(model))
    assert out == (GOLDEN / golden).read_text()
    assert err.count("\n") == 1
    assert "original counting" in err
    assert "--counting standard" in err


def test_lists_repeat_as_a_whole(capsys: pytest.CaptureFixture[str]) -> None:
    config = str(GOLDEN / "llama.json")
    twice = run(capsys, "--cached-tokens", "8", "0", "--input-tokens", "1", "5", "--batch-size", "4", "--", config)
    spelt = run(capsys, "--cached-tokens", "8", "0", "8", "0", "--input-tokens", "1", "5", "1", "5", "--", config)
    assert twice == spelt


def test_defaults_are_one_token_on_an_empty_cache(capsys: pytest.CaptureFixture[str]) -> None:
    config = str(GOLDEN / "llama.json")
    assert run(capsys, config) == run(capsys, "--cached-tokens", "0", "--input-tokens", "1", "--", config)


def test_head_size_is_hidden_over_heads_for_llama_and_head_dim_for_llama4(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    config = json.loads((GOLDEN / "llama.json").read_text())
    other = tmp_path / "config.json"
    other.write_text(json.dumps({**config, "head_dim": 64}))
    assert run(capsys, str(other)) == run(capsys, str(GOLDEN / "llama.json"))
    config = json.loads((GOLDEN / "llama4-step4.json").read_text())
    config["text_config"]["head_dim"] = 64
    other.write_text(json.dumps(config))
    assert run(capsys, str(other)) != run(capsys, str(GOLDEN / "llama4-step4.json"))


def test_several_routed_experts_add_up_and_are_read_once_each(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    config = json.loads((GOLDEN / "llama4-step4.json").read_text())
    config["text_config"]["num_experts_per_tok"] = 3
    other = tmp_path / "config.json"
    other.write_text(json.dumps(config))
    one = json.loads(run(capsys, "--json", str(GOLDEN / "llama4-step4.json"))[0])
    three = json.loads(run(capsys, "--json", str(other))[0])
    for before, after in zip(one["rows"], three["rows"], strict=True):
        times = 3 if "RoutedExp_" in before["name"] else 1
        assert [after[k] for k in ("flops", "weight", "input", "output")] == [
            times * before[k] for k in ("flops", "weight", "input", "output")
        ]
    text = config["text_config"]
    expert = 3 * text["hidden_size"] * text["intermediate_size"] * 2 * 12
    assert one["storage_bytes"]["experts"] == 15 * expert
    assert three["storage_bytes"]["experts"] == 13 * expert


def test_half_precision_where_no_dtype_is_given(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    config = json.loads((GOLDEN / "llama.json").read_text())
    out = {}
    for dtype in (None, "float16", "float32"):
        del config["torch_dtype"]
        config |= {"torch_dtype": dtype} if dtype else {"hidden_act": "silu"}
        (tmp_path / "c.json").write_text(json.dumps(config))
        out[dtype] = json.loads(run(capsys, "--json", str(tmp_path / "c.json"))[0])["total"]["weight"]
        config["torch_dtype"] = dtype
    assert out[None] == out["float16"]
    assert out["float32"] == 2 * out["float16"]


@pytest.mark.parametrize(
    "model",
    [{"model_type": "qwen2"}, {"model_type": "llama"}, "nothing", [], {"model_type": "llama4", "text_config": 1}],
)
def test_a_config_that_cannot_be_read_exits_with_1(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, model: object
) -> None:
    (tmp_path / "c.json").write_text(json.dumps(model))
    with pytest.raises(SystemExit) as stop:
        main([str(tmp_path / "c.json")])
    err = capsys.readouterr().err
    assert stop.value.code == 1
    assert err.startswith("Error loading config: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "options",
    [
        "--cached-tokens 1 2 --input-tokens 1",
        "--cached-tokens -1",
        "--input-tokens 0",
        "--cached-tokens 1 2 --input-tokens 1 1 --batch-size 3",
        "--batch-size 0",
    ],
)
def test_token_lists_that_disagree_name_both_options(capsys: pytest.CaptureFixture[str], options: str) -> None:
    with pytest.raises(SystemExit) as stop:
        main([*options.split(), "--", str(GOLDEN / "llama.json")])
    err = capsys.readouterr().err
    assert stop.value.code == 2
    assert "--cached-tokens" in err
    assert "--input-tokens" in err


# -- the tool's slips, kept in `original` and nowhere else ---------------------------------------------------------
def test_slip_value_product_runs_over_the_kv_heads_width() -> None:
    step = rl.Step([(99, 1)])
    op = Attend(
        name="a", step=step, pairs_of=lambda q: step.pairs(), heads=32, kv_heads=8, qk_dim=128, v_dim=128,
        sequences=1, tokens=1, kv_tokens=100,
        pairs=step.pairs(), square=step.square_pairs, kept_pairs=step.kept_pairs(),
    )  # fmt: skip
    assert STANDARD.flops(op) == 2 * 100 * 32 * 128 + 2 * 100 * 32 * 128
    assert ORIGINAL.flops(op) == 100 * (2 * 4096 - 1) + 8 * 128 * (2 * 100 - 1)


def test_slip_activation_adds_the_tokens() -> None:
    op = Activate(name="a", rows=1536, width=14336, function="silu", gated=True)
    assert STANDARD.flops(op) == 5 * 14336 * 1536
    assert ORIGINAL.flops(op) == 5 * 14336 + 1536


def test_slip_experts_are_read_once_per_routed_choice_whatever_the_batch() -> None:
    model = rl.load("mistralai/Mixtral-8x7B-v0.1")
    row = rl.analyze(model, rl.decode(batch=64, context=1)).op("experts_gate_up_proj")
    assert isinstance(row.op, ExpertMatMul)
    assert ORIGINAL_TRAFFIC.elements(row.op).weight == 2 * 4096 * 28672
    assert FUSED.elements(row.op).weight == pytest.approx(8 * 4096 * 28672, rel=1e-6)


def test_slip_no_mask_no_head_no_embedding() -> None:
    model = rl.load("meta-llama/Llama-2-7b-hf")
    step = rl.prefill(batch=1, tokens=100)
    original = rl.analyze(model, step, counting="original", traffic="original")
    standard = rl.analyze(model, step)
    assert {"lm_head", "embedding", "final_norm"} & {r.name for r in original.ops} == set()
    assert {"lm_head", "embedding", "final_norm"} < {r.name for r in standard.ops}
    assert original.op("attention").flops > standard.op("attention").flops
