"""Counted FLOPs of one token behind a cache, of a few kinds of layer; `test_real.py` asks the real code of every type.

The figures are what `torch.utils.flop_counter` (torch 2.13) counted on transformers 5.23 for the base configs of
`cases`: 2 sequences behind 70 tokens, 3 behind 5 and 1 behind 200, on the meta device.
"""

import pytest

import roofline as rl
from oracle import cases

STEPS = ((2, 70), (3, 5), (1, 200))
FIGURES = {
    "deepseek_v3": (17747200, 4980480, 23300480),  # makes keys and values of all cached latents at every step
    "falcon_mamba": (1445888, 2168832, 722944),
    "gemma3_text": (10391552, 15439872, 5195776),  # windows of 8 tokens, of which the cache keeps 7
    "kimi_linear": (7286528, 3716352, 8452224),
    "llama": (2843648, 3965952, 1621504),
    "mamba2": (1476608, 2214912, 738304),
    "minimax": (1341440, 1812480, 803840),
    "qwen3_next": (6678528, 8420352, 4404224),  # the scan recurs, without a product
}

STANDARD = {
    "deepseek_v3": (3175104, 3864096, 2186592),
    "gemma3_text": (10535040, 15655104, 5267520),
    "qwen3_next": (7496800, 9647760, 4813360),
}


@pytest.mark.parametrize("model_type", FIGURES)
def test_a_decode_counts_what_the_real_code_multiplies(model_type: str) -> None:
    model = rl.load(cases.base(model_type))
    counted = [rl.analyze(model, rl.decode(batch=b, context=n), counting="torch").flops for b, n in STEPS]
    assert tuple(counted) == FIGURES[model_type]


@pytest.mark.parametrize("model_type", ["deepseek_v3", "gemma3_text", "qwen3_next"])
def test_standard_counting_of_a_decode_is_as_before(model_type: str) -> None:
    """Pairs that the mask leaves, absorbed latents and recurrences: no matter how published code decodes."""
    model = rl.load(cases.base(model_type))
    counted = [rl.analyze(model, rl.decode(batch=b, context=n)).flops for b, n in STEPS]
    assert tuple(counted) == STANDARD[model_type]
