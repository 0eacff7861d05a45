"""Number of prompt tokens of a recording by its length, for models whose processor's rule is known.

`model_type` selects the rule. Lengths of windows and limits that the config does not say are those of the published
checkpoints' `preprocessor_config.json`. Markers that a processor or a chat template puts around one are counted.
Source of the rules: the models' processors in huggingface/transformers, mistral-common for Voxtral.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil
from typing import TypeAlias

from roofline.declared.checks import integer
from roofline.declared.errors import InputError
from roofline.declared.numbers.maths import ceil_div
from roofline.declared.trees import JsonObject
from roofline.model.configs.config import Inputs

SOUND = "sound"
"""The stream of recordings."""
HEARD = (
    "Qwen2-Audio, Qwen2.5-Omni, Qwen3-Omni, Qwen3-ASR, Audio Flamingo 3, GLM-ASR, Voxtral, Granite Speech, Gemma 3n, "
    "Gemma 4, Phi-4-multimodal, Ultravox, VibeVoice-ASR"
)
"""Models whose rules are known."""
LONGEST_SECONDS = 86_400.0
"""Longest recording of a request."""
RATE, HOP = 16_000, 160
"""Samples a second, and those between two columns of a spectrogram: 10 ms."""
WINDOW = 30.0
"""Seconds that Whisper's kin read at once."""


@dataclass(frozen=True)
class Heard:
    """What a recording becomes: `tokens` of the prompt, and `pieces` that the tower reads one by one.

    `sizes`: of a piece, where they follow from the length; else a piece is what the tower reads as its config stands.
    """

    tokens: int
    pieces: int = 1
    sizes: Inputs = field(default_factory=Inputs)


SoundRule: TypeAlias = Callable[[float], Heard]
"""Seconds of a recording → what it becomes. Raises InputError for more than a model hears."""
MakeSoundRule: TypeAlias = Callable[[JsonObject, float], Heard]
RULES: dict[str, MakeSoundRule] = {}
"""Type of a config → its rule."""


def heard_by(*model_types: str) -> Callable[[MakeSoundRule], MakeSoundRule]:
    """Register the rule of some model types."""

    def register(rule: MakeSoundRule) -> MakeSoundRule:
        RULES.update(dict.fromkeys(model_types, rule))
        return rule

    return register


def sound_rule(raw: JsonObject) -> SoundRule | None:
    """The rule of a config's model; None if none is known."""
    rule = RULES.get(str(raw.get("model_type")))
    return None if rule is None else lambda seconds: rule(raw, seconds)


def samples_in(seconds: float, rate: int = RATE) -> int:
    """Samples of a recording, at least one."""
    return max(1, round(seconds * rate))


def spectrum_columns(seconds: float) -> int:
    """Columns of a spectrogram, one for each 10 ms begun."""
    return ceil_div(samples_in(seconds), HOP)


def _kept(seconds: float, most: float | None) -> None:
    if most is not None and seconds > most:
        raise InputError("audio", f"{seconds:g}s", f"at most {most:g}s, which is all that its processor keeps")


def windows(seconds: float, most: float | None = None) -> list[float]:
    """A recording in windows of 30 s, the last shorter. Raises InputError for more than `most` seconds."""
    _kept(seconds, most)
    whole = ceil(seconds / WINDOW) - 1
    return [WINDOW] * whole + [seconds - whole * WINDOW]


def of_stride_two(length: int) -> int:
    """Positions that a convolution of stride 2, padded on both sides, leaves."""
    return (length - 1) // 2 + 1


def _paired(length: int) -> int:
    """Tokens of Whisper's positions averaged in pairs."""
    return (of_stride_two(length) - 2) // 2 + 1


@heard_by("qwen2_audio")
def _qwen2_audio(raw: JsonObject, seconds: float) -> Heard:
    """One window, padded to 30 s; two markers."""
    (last,) = windows(seconds, WINDOW)
    return Heard(_paired(spectrum_columns(last)) + 2)


@heard_by("audioflamingo3", "musicflamingo")
def _audio_flamingo(raw: JsonObject, seconds: float) -> Heard:
    """Windows padded to 30 s, up to ten minutes (music: twenty); what the last one lacks has no tokens."""
    most = 1200.0 if raw.get("model_type") == "musicflamingo" else 600.0
    every = windows(seconds, most)
    return Heard(_paired(sum(spectrum_columns(s) for s in every)), len(every))


@heard_by("glmasr")
def _glmasr(raw: JsonObject, seconds: float) -> Heard:
    """Windows padded to 30 s, up to eleven minutes, four positions to a token."""
    every = windows(seconds, 655.0)
    return Heard((of_stride_two(sum(spectrum_columns(s) for s in every)) - 4) // 4 + 1, len(every))


@heard_by("voxtral")
def _voxtral(raw: JsonObject, seconds: float) -> Heard:
    """Windows padded to 30 s, all of whose 375 tokens are in the prompt, and a marker before them."""
    number = len(windows(seconds))
    return Heard(375 * number + 1, number)


@heard_by("ultravox")
def _ultravox(raw: JsonObject, seconds: float) -> Heard:
    """Windows of 30 s, the last as long as it is; `stack_factor` positions of Whisper's to a token."""
    stack = integer(raw.get("stack_factor")) or 8
    every = [spectrum_columns(s) for s in windows(seconds)]
    tokens = sum(max(1, ceil_div(n, 2 * stack)) for n in every)
    return Heard(tokens, len(every), Inputs(spectra=max(every)))


@heard_by("qwen2_5_omni", "qwen2_5_omni_thinker")
def _qwen2_5_omni(raw: JsonObject, seconds: float) -> Heard:
    """The whole recording of up to five minutes, and two markers."""
    _kept(seconds, 300.0)
    length = spectrum_columns(seconds)
    return Heard(_paired(length) + 2, 1, Inputs(spectra=length))


@heard_by("qwen3_omni_moe", "qwen3_omni_moe_thinker", "qwen3_asr")
def _qwen3_omni(raw: JsonObject, seconds: float) -> Heard:
    """13 tokens a second, and two markers. Ten milliseconds that are not full have no column."""
    length = max(1, samples_in(seconds) // HOP)
    return Heard(
        13 * (length // 100) + of_stride_two(of_stride_two(of_stride_two(length % 100))) + 2, 1, Inputs(spectra=length)
    )


@heard_by("granite_speech", "granite_speech_plus")
def _granite_speech(raw: JsonObject, seconds: float) -> Heard:
    """Pairs of columns; each window of 15 of them has 3 tokens."""
    window, rate = integer(raw.get("window_size")) or 15, integer(raw.get("downsample_rate")) or 5
    length = (samples_in(seconds) // HOP + 1) // 2
    return Heard(ceil_div(length, window) * (window // rate), 1, Inputs(spectra=length))


@heard_by("gemma3n")
def _gemma3n(raw: JsonObject, seconds: float) -> Heard:
    """188 tokens, however long up to 30 s; two markers and an empty line before and behind."""
    windows(seconds, WINDOW)
    samples = ceil_div(samples_in(seconds), 128) * 128
    length = max(1, (samples - 513) // HOP + 1)
    tokens = integer(raw.get("audio_soft_tokens_per_image")) or 188
    return Heard(tokens + 4, 1, Inputs(spectra=length))


@heard_by("gemma4")
def _gemma4(raw: JsonObject, seconds: float) -> Heard:
    """A token each 40 ms up to 30 s, and two markers. Its spectrogram has frames of 20 ms."""
    windows(seconds, WINDOW)
    padded = ceil_div(samples_in(seconds), 128) * 128
    of_all, own = ((n + HOP - 321) // HOP + 1 for n in (padded, samples_in(seconds)))
    tokens = min(of_stride_two(of_stride_two(max(1, own))), 750)
    return Heard(tokens + 2, 1, Inputs(spectra=max(1, of_all)))


@heard_by("gemma4_unified")
def _gemma4_unified(raw: JsonObject, seconds: float) -> Heard:
    """A token for each 640 samples up to 30 s, and two markers."""
    windows(seconds, WINDOW)
    audio = raw.get("audio_config")
    each = (integer(audio.get("audio_embed_dim")) if isinstance(audio, dict) else None) or 640
    samples = samples_in(seconds)
    return Heard(ceil_div(samples, each) + 2, 1, Inputs(samples=samples))


@heard_by("phi4_multimodal", "phi4mm")
def _phi4(raw: JsonObject, seconds: float) -> Heard:
    """Frames of 25 ms each 10 ms, eight to a token."""
    length = max(1, (samples_in(seconds) - 400) // HOP + 1)
    return Heard(ceil_div(length, 8), 1, Inputs(spectra=length))


@heard_by("vibevoice_asr")
def _vibevoice(raw: JsonObject, seconds: float) -> Heard:
    """3,200 samples of 24,000 a second to a token, and two markers."""
    samples = ceil_div(samples_in(seconds, 24_000), 3200) * 3200
    return Heard(samples // 3200 + 2, 1, Inputs(samples=samples))
