"""Published models: their totals, and that every one of them loads without a warning that matters."""

from __future__ import annotations

import re

import pytest

import roofline as rl
from folded import folded
from roofline.model.sources.choice import chosen_models

ENTRIES = rl.catalog()


def test_at_least_eighty_published_models() -> None:
    assert len(ENTRIES) >= 80


@folded("name", ENTRIES)
def test_parameters_equal_the_published_total(name: str) -> None:
    model, entry = rl.load(name), ENTRIES[name]
    assert model.parameters == entry.parameters, "run: python benchmarks/catalog_index.py"
    assert (model.active_parameters, model.model_type) == (entry.active_parameters, entry.model_type)
    published = re.match(r"([\d.]+)\s*([BMT])", entry.published)
    if published and "language" not in entry.scope:
        scale = {"M": 1e6, "B": 1e9, "T": 1e12}[published[2]]
        last_digit = scale / 10 ** len(published[1].partition(".")[2])
        size = float(published[1]) * scale
        assert abs(model.parameters - size) <= max(
            last_digit, 0.06 * size
        )  # names round generously: OPT-350M has 331 M


@folded(
    ("name", "parameters"),
    [
        ("meta-llama/Llama-2-7b-hf", 6_738_415_616), ("meta-llama/Llama-3.1-8B", 8_030_261_248),
        ("meta-llama/Llama-3.1-70B", 70_553_706_496), ("meta-llama/Llama-3.1-405B", 405_853_388_800),
        ("mistralai/Mistral-7B-v0.1", 7_241_732_096), ("mistralai/Mixtral-8x7B-v0.1", 46_702_792_704),
        ("google/gemma-2-9b", 9_241_705_984), ("Qwen/Qwen2.5-7B", 7_615_616_512), ("Qwen/Qwen3-8B", 8_190_735_360),
        ("openai/gpt-oss-20b", 20_914_757_184), ("openai/gpt-oss-120b", 116_829_156_672),
        ("deepseek-ai/DeepSeek-V3", 671_026_404_352), ("openai-community/gpt2", 124_439_808),
        ("Qwen/Qwen3-30B-A3B", 30_532_122_624), ("Qwen/Qwen3-235B-A22B", 235_093_634_560),
    ],
)  # fmt: skip
def test_totals_that_checkpoints_state(name: str, parameters: int) -> None:
    assert rl.load(name).parameters == parameters


@folded(
    ("name", "megabytes"),
    [
        ("MiniMaxAI/MiniMax-M2.7", 230_024),
        ("Qwen/Qwen3-235B-A22B-FP8", 236_445),
        ("Qwen/Qwen3-30B-A3B-FP8", 31_175),
        ("Qwen/Qwen3-32B-FP8", 34_326),
        ("deepseek-ai/DeepSeek-V3", 673_151),
        ("deepseek-ai/DeepSeek-V3.2", 674_002),
        ("meta-llama/Llama-3.1-405B-FP8", 415_865),
        ("moonshotai/Kimi-K2-Thinking", 594_205),
        ("moonshotai/Kimi-K2.5", 595_147),
        ("nvidia/GLM-5.1-NVFP4", 445_957),
        ("nvidia/Gemma-4-31B-IT-NVFP4", 32_634),
        ("nvidia/Kimi-K2.6-NVFP4", 595_147),
        ("nvidia/Qwen3.5-397B-A17B-NVFP4", 237_943),
        ("zai-org/GLM-5-FP8", 746_115),
    ],
)
def test_weight_bytes_of_quantised_models(name: str, megabytes: int) -> None:
    """Sums over the real code's modules by the config's own list, scales included, zero points' biases apart.

    Towers add two bytes for each of their parameters.
    """
    assert rl.load(name).weight_bytes() == pytest.approx(megabytes * 1e6, rel=1e-3)


# -- filters -------------------------------------------------------------------------------------------------------
def test_filters_of_the_catalog() -> None:
    assert chosen_models() == tuple(ENTRIES.values())
    assert {e.model_type for e in chosen_models("qwen3_moe")} == {"qwen3_moe"}
    assert {e.id for e in chosen_models("llama", "70B-", "3.1-405b-i")} == {"meta-llama/Llama-3.1-405B-Instruct"}
    assert chosen_models(text="no such words") == ()


@pytest.mark.parametrize(
    ("size", "least", "most"),
    [
        ("7B-80B", 7e9, 80e9),
        ("-500M", 0, 5e8),
        ("1t-", 1e12, 1e15),
        ("8B", 7.2e9, 8.8e9),
        (" 0.5b - 1.5G ", 5e8, 1.5e9),
    ],
)
def test_sizes(size: str, least: float, most: float) -> None:
    chosen = chosen_models(size=size)
    assert chosen == tuple(e for e in ENTRIES.values() if least <= e.parameters <= most)
    assert chosen


@folded("size", ["", "-", "8", "B", "8B-7B", "8B-9B-10B", "1e9", "8 B", "nan", "٣B"])
def test_sizes_that_are_none(size: str) -> None:
    with pytest.raises(rl.InputError, match=r"^--size: expected a range"):
        chosen_models(size=size)


def test_family_that_is_none() -> None:
    with pytest.raises(rl.InputError, match="nearest: llama"):
        chosen_models("lamma")
