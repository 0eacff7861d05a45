"""The tokens of recordings, and the columns of their spectrograms, are those of transformers' own processors."""

from __future__ import annotations

import importlib
import random
from types import SimpleNamespace
from typing import Any

import pytest

from roofline.model.media.sound import Heard, samples_in, sound_rule
from roofline.model.trace.installed import real_code

pytestmark = pytest.mark.oracle

DRAW = random.Random(7)
SECONDS = [round(DRAW.uniform(0.3, 30.0), 3) for _ in range(16)] + [0.5, 1.0, 29.995, 30.0]
LONG = [round(DRAW.uniform(30.0, 290.0), 3) for _ in range(8)]


def heard(kind: str, seconds: float, **raw: Any) -> Heard:
    rule = sound_rule({"model_type": kind, **raw})
    assert rule is not None
    return rule(seconds)


def _module(kind: str, part: str) -> Any:
    return importlib.import_module(f"transformers.models.{kind}.{part}_{kind}")


def _columns(extractor: Any, seconds: float, **options: Any) -> int:
    """Columns of a recording that the extractor marks as heard."""
    np = importlib.import_module("numpy")
    out = extractor(
        np.zeros(samples_in(seconds), np.float32), sampling_rate=16_000, return_attention_mask=True, **options
    )
    return int(np.asarray(out["attention_mask"]).sum())


def _whisper(longest: int = 30) -> Any:
    _, transformers = real_code()
    return transformers.WhisperFeatureExtractor(feature_size=128, chunk_length=longest)


@pytest.mark.parametrize("seconds", SECONDS)
def test_windows_of_thirty_seconds(seconds: float) -> None:
    columns = _columns(_whisper(), seconds, padding="max_length")
    assert heard("qwen2_audio", seconds).tokens == (((columns - 1) // 2 + 1) - 2) // 2 + 1 + 2


@pytest.mark.parametrize("seconds", SECONDS + LONG)
@pytest.mark.parametrize("kind", ["qwen2_5_omni", "qwen3_omni_moe"])
def test_recordings_of_qwen_omni(kind: str, seconds: float) -> None:
    torch, _ = real_code()
    options = {"padding": "max_length"} if kind == "qwen2_5_omni" else {"padding": True, "truncation": False}
    columns = _columns(_whisper(300), seconds, **options)
    tokens = _module(kind, "processing")._get_feat_extract_output_lengths(torch.tensor(columns))
    ours = heard(kind, seconds)
    assert ours.tokens == int(tokens) + 2
    assert ours.sizes.spectra == columns


@pytest.mark.parametrize("seconds", SECONDS + LONG)
@pytest.mark.parametrize(
    ("kind", "name"), [("audioflamingo3", "AudioFlamingo3Processor"), ("glmasr", "GlmAsrProcessor")]
)
def test_windows_side_by_side(kind: str, name: str, seconds: float) -> None:
    torch, _ = real_code()
    whole, last = divmod(samples_in(seconds), 480_000)
    parts = [30.0] * whole + [last / 16_000] * bool(last)
    columns = sum(_columns(_whisper(), part, padding="max_length") for part in parts)
    processor = getattr(_module(kind, "processing"), name)
    ours = heard(kind, seconds)
    assert ours.tokens == int(processor._get_audio_token_length(SimpleNamespace(), torch.tensor(columns)))
    assert ours.pieces == len(parts)


def _gemma(kind: str, seconds: float) -> tuple[Any, int]:
    np = importlib.import_module("numpy")
    extractor = getattr(_module(kind, "feature_extraction"), f"{kind.capitalize()}AudioFeatureExtractor")()
    out = extractor([np.zeros(samples_in(seconds), np.float32)], return_tensors="np")
    return extractor, out["input_features"].shape[1]


@pytest.mark.parametrize("seconds", SECONDS)
def test_recordings_of_gemma(seconds: float) -> None:
    real_code()
    _, columns = _gemma("gemma3n", seconds)
    assert heard("gemma3n", seconds).sizes.spectra == columns
    assert heard("gemma3n", seconds).tokens == 188 + 4
    extractor, columns = _gemma("gemma4", seconds)
    own = SimpleNamespace(feature_extractor=extractor, audio_seq_length=750)
    wave = range(samples_in(seconds))
    tokens = _module("gemma4", "processing").Gemma4Processor._compute_audio_num_tokens(own, wave, 16_000)
    ours = heard("gemma4", seconds)
    assert (ours.tokens, ours.sizes.spectra) == (tokens + 2, columns)
    own = SimpleNamespace(feature_extractor=SimpleNamespace(audio_samples_per_token=640), audio_seq_length=750)
    unified = _module("gemma4_unified", "processing").Gemma4UnifiedProcessor
    assert heard("gemma4_unified", seconds).tokens == unified._compute_audio_num_tokens(own, wave, 16_000) + 2


@pytest.mark.parametrize("seconds", SECONDS + LONG)
def test_recordings_of_granite_and_phi(seconds: float) -> None:
    torch, _ = real_code()
    granite = _module("granite_speech", "feature_extraction").GraniteSpeechFeatureExtractor
    own = SimpleNamespace(melspec_kwargs={"hop_length": 160}, projector_window_size=15, projector_downsample_rate=5)
    assert heard("granite_speech", seconds).tokens == granite._get_num_audio_features(own, [samples_in(seconds)])[0]
    phi = _module("phi4_multimodal", "feature_extraction").Phi4MultimodalFeatureExtractor
    columns = (samples_in(seconds) - 400) // 160 + 1
    own = SimpleNamespace(audio_compression_rate=8, audio_downsample_rate=1)
    assert heard("phi4_multimodal", seconds).tokens == int(phi._compute_audio_embed_size(own, torch.tensor(columns)))
