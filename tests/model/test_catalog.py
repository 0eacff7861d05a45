"""Published models: their totals, and that every one of them loads without a warning that matters."""

from __future__ import annotations

import re

import pytest

import roofline as rl

ENTRIES = rl.catalog()


def test_at_least_eighty_published_models() -> None:
    assert len(ENTRIES) >= 80


@pytest.mark.parametrize("name", ENTRIES)
def test_parameters_equal_the_published_total(name: str) -> None:
    model, entry = rl.load(name), ENTRIES[name]
    assert model.parameters == entry.parameters
    published = re.match(r"([\d.]+)\s*([BMT])", entry.published)
    if published and "language" not in entry.scope:
        scale = {"M": 1e6, "B": 1e9, "T": 1e12}[published[2]]
        last_digit = scale / 10 ** len(published[1].partition(".")[2])
        size = float(published[1]) * scale
        assert abs(model.parameters - size) <= max(
            last_digit, 0.06 * size
        )  # names round generously: OPT-350M has 331 M


@pytest.mark.parametrize(
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
