"""Slips that configs of this package once had, one test each, by what the framework's release takes."""

from __future__ import annotations

from typing import Any

import pytest

import roofline as rl
from roofline.training.emit.make import Emitted, hand_over

LLAMA_8B, DEEPSEEK = "meta-llama/Llama-3.1-8B", "deepseek-ai/DeepSeek-V3"
CORE_SET = {"core_attn", "moe_act", "layernorm", "mla_up_proj", "mlp", "moe", "shared_experts"}
"""Modules that Megatron Core runs again (core/transformer/transformer_config.py, `recompute_modules`)."""


def handed(framework: str, layout: str, model: str = LLAMA_8B, **options: Any) -> Emitted:
    """A step's config on 64 H100."""
    e = rl.train(model, on="8xdgx-h100", batch=256, tokens=4096, layout=layout, **options)
    return hand_over(e, framework)


def says(config: Emitted, *words: str) -> bool:
    """Whether something that is not expressed has a word."""
    return any(word in what for what in config.missing for word in words)


def test_torchtitan_has_no_toml_any_more() -> None:
    """Since 2026-02 its configs are Python: a function that sets fields of `Trainer.Config`."""
    text = handed("torchtitan", "dp=64,zero=3", engine="torchtitan").text
    assert "[training]" not in text
    assert "job_config" not in text
    compile(text, "planned", "exec")


def test_moments_in_bf16_are_a_flag_of_megatron() -> None:
    config = handed("megatron", "dp=64,zero=1", optimizer="adamw-bf16")
    assert "--exp-avg-dtype bf16" in config.text
    assert "--exp-avg-sq-dtype bf16" in config.text
    assert not says(config, "optimizer")


def test_muon_goes_with_megatron_s_distributed_optimizer() -> None:
    config = handed("megatron", "dp=64,zero=1", optimizer="muon")
    assert "--use-distributed-optimizer" in config.text
    assert not says(config, "muon")


def test_muon_does_not_go_with_megatron_fsdp() -> None:
    assert says(handed("megatron", "dp=64,zero=3", optimizer="muon"), "muon with zero")


@pytest.mark.parametrize("again", ["attn_norm,ffn_norm,", "act,", "attention,"])
def test_what_runs_again_is_in_megatron_s_words_or_is_said(again: str) -> None:
    """A set of its modules, else what cannot be expressed: never a list that Core refuses."""
    config = handed("megatron", "dp=64,zero=1", recompute=again)
    lines = [line for line in config.text.splitlines() if line.startswith("--recompute-modules")]
    if lines:
        assert set(lines[0].split()[1:]) <= CORE_SET
    else:
        assert says(config, "recompute")


def test_a_layer_of_multi_token_prediction_is_counted_and_placed() -> None:
    """`--mtp-num-layers`, and an m before the loss in the layout of stages."""
    text = handed("megatron", "pp=8,dp=8,ep=8,zero=1", DEEPSEEK, drafts=1).text
    assert "--mtp-num-layers 1" in text
    assert "mL'" in text


def test_deepspeed_s_third_stage_overlaps_only_where_it_was_timed_so() -> None:
    """Its default is true from stage 3 on (runtime/zero/config.py, `overlap_comm`), so that it is always written."""
    for overlap, written in ((None, "true"), (False, "false")):
        text = handed("deepspeed", "dp=64,zero=3", engine="deepspeed", overlap=overlap).text
        assert f'"overlap_comm": {written}' in text


def test_deepspeed_s_first_stages_say_overlap_too() -> None:
    for zero in (1, 2):
        assert '"overlap_comm"' in handed("deepspeed", f"dp=64,zero={zero}", engine="deepspeed").text


def test_maxtext_accumulates_no_gradients_in_fp8() -> None:
    """0.2.5, configs/types.py: "FP8 quantization is not compatible with gradient accumulation"."""
    several = handed("maxtext", "dp=64,zero=3", engine="maxtext", recipe="fp8")
    one = handed("maxtext", "dp=64,zero=3", engine="maxtext", recipe="fp8", micro_batch=4)
    assert "quantization" not in several.text
    assert says(several, "recipe fp8 over 4 micro-batches")
    assert 'quantization: "fp8"' in one.text
    assert not says(one, "micro-batches")


@pytest.mark.parametrize("stack", ["torchtitan", "maxtext"])
def test_what_a_search_finds_with_a_stack_is_expressed_in_full(stack: str) -> None:
    """Its ZeRO stages, formats, recomputation and loss are those that the stack has."""
    s = rl.search_training("meta-llama/Llama-3.1-8B", on="2xdgx-h100", batch=64, tokens=8192, engine=stack, top=1)
    handed_over = hand_over(s.best.estimate, stack)
    assert handed_over.missing == ()
    assert s.best.recipe == "bf16-mixed"
