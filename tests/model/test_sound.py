"""Recordings in requests: their tokens by hand, and what the audio tower costs at every question."""

from __future__ import annotations

from typing import Any

import pytest

import roofline as rl
from roofline.model.media.sound import RULES, sound_rule

TEXT: dict[str, Any] = {
    "hidden_size": 2048, "num_hidden_layers": 4, "num_attention_heads": 16, "num_key_value_heads": 4,
    "intermediate_size": 4096, "vocab_size": 32_000,
}  # fmt: skip
QWEN2_AUDIO: dict[str, Any] = {"model_type": "qwen2_audio", "audio_config": {}, "text_config": TEXT}
QWEN3_ASR: dict[str, Any] = {"model_type": "qwen3_asr", "audio_config": {}, "text_config": TEXT}
LOAD: dict[str, Any] = {"on": "h100-sxm", "input": 64, "output_tokens": 32}


@pytest.mark.parametrize(
    ("kind", "seconds", "tokens", "pieces"),
    [
        ("qwen2_audio", 30.0, 752, 1),  # 3,000 columns, halved twice, and two markers
        ("qwen2_audio", 1.0, 27, 1),
        ("audioflamingo3", 65.0, 1625, 3),
        ("voxtral", 31.0, 751, 2),
        ("qwen2_5_omni", 10.0, 252, 1),
        ("qwen3_omni_moe", 10.0, 132, 1),
        ("granite_speech", 10.0, 102, 1),  # 500 pairs of columns, 34 windows of 3 tokens
        ("gemma3n", 3.0, 192, 1),
        ("gemma4", 10.0, 252, 1),
        ("gemma4_unified", 10.0, 252, 1),
        ("phi4_multimodal", 10.0, 125, 1),
        ("ultravox", 40.0, 188 + 63, 2),
        ("vibevoice_asr", 10.0, 77, 1),
    ],
)
def test_tokens_of_a_recording(kind: str, seconds: float, tokens: int, pieces: int) -> None:
    rule = sound_rule({"model_type": kind})
    assert rule is not None
    heard = rule(seconds)
    assert (heard.tokens, heard.pieces) == (tokens, pieces)


@pytest.mark.parametrize("kind", sorted(RULES))
def test_a_longer_recording_never_has_fewer_tokens(kind: str) -> None:
    rule = sound_rule({"model_type": kind})
    assert rule is not None
    every = [rule(0.1 * n).tokens for n in range(2, 300)]
    assert every == sorted(every)


def test_what_is_longer_than_a_model_hears_is_an_error() -> None:
    with pytest.raises(rl.InputError, match=r"audio: expected at most 30s.*, got '31s'"):
        rl.serve(QWEN2_AUDIO, **LOAD, concurrency=1, audio="31s")


def test_a_model_without_a_rule_is_an_error() -> None:
    with pytest.raises(rl.InputError, match="audio: expected a model whose tokens per second of sound are known"):
        rl.serve("Qwen/Qwen3-8B", **LOAD, concurrency=1, audio=3)


def test_an_audio_tower_reads_as_much_as_the_recording_has() -> None:
    """Qwen3-ASR's encoder works over the columns of the recording, Qwen2-Audio's always over 30 s."""

    def flops(config: dict[str, Any], seconds: float) -> int:
        step = rl.prefill(1, 64)
        heard = rl.analyze(config, step, images=rl.Images(audio=seconds))
        return int(heard.flops)

    model = rl.load(QWEN3_ASR)
    short, long = (model.hearing(rl.Images(audio=s)) for s in (8.0, 80.0))
    assert next(t.positions for t in short.towers) == 104
    assert next(t.positions for t in long.towers) == 1040
    assert flops(QWEN3_ASR, 80.0) > 8 * flops(QWEN3_ASR, 8.0)
    assert flops(QWEN2_AUDIO, 30.0) < 2 * flops(QWEN2_AUDIO, 1.0)


def test_every_question_hears_the_same() -> None:
    """TTFT of one request alone: the same at `generate`, `serve` and `simulate`; memory has the tokens at `fit`."""
    heard = rl.generate(QWEN3_ASR, **LOAD, batch=1, audio=20)
    text = {**LOAD, "input": 64 + 262}
    encoded = heard.ttft.expected - rl.generate(QWEN3_ASR, **text, batch=1).ttft.expected
    assert encoded > 0
    served = rl.serve(QWEN3_ASR, **LOAD, concurrency=1, audio=20)
    assert served.images is not None
    assert served.images.tokens == 262
    more = served.ttft.expected - rl.serve(QWEN3_ASR, **text, concurrency=1).ttft.expected
    assert more == pytest.approx(encoded, rel=0.3)
    fitted = rl.fit(QWEN3_ASR, on="h100-sxm", context=96, audio=20)
    assert fitted.images is not None
    assert fitted.images.text == "20 s of sound, 262 tokens; 260 positions"
