"""Multimodal models that contain a language model: the section that holds it, and its default type."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

SECTIONS = ("text_config", "llm_config", "language_config", "thinker_config")
"""Keys of the section with the language model; sections may be nested (`thinker_config.text_config`)."""

# Type of the text part → multimodal models that have it, by the classes of transformers 5.23.
_TEXT_PARTS = {
    "aria_text": "aria",
    "cohere2": "aya_vision cohere2_vision",
    "cohere_compass_text": "cohere_compass",
    "cosmos3_edge_text": "cosmos3_edge",
    "deepseek_ocr2_text": "deepseek_ocr2",
    "deepseek_v3": "kimi_k25",
    "deepseek_v41_text": "deepseek_v41",
    "dots3_note_text": "dots3_note",
    "emu3_text_model": "emu3",
    "ernie4_5_vl_moe_text": "ernie4_5_vl_moe",
    "exaone4": "exaone4_5",
    "gemma": "paligemma",
    "gemma3_text": "shieldgemma2",
    "glm4v_moe_text": "glm4v_moe",
    "glm4v_text": "glm46v glm4v glmga",
    "glm5_next_text": "glm5_next",
    "glm_ocr_text": "glm_ocr",
    "granite": "granite_speech granite_speech_plus",
    "granite4_vision_text": "granite4_vision",
    "granite_docling_text": "granite_docling",
    "hunyuan_vl_text": "hunyuan_vl",
    "hyperclovax": "hyperclovax_vision_v2",
    "inkling2_text": "inkling2",
    "inkling_text": "inkling_mm_model",
    "kosmos_2_5_text_model": "kosmos-2.5",
    "kosmos_2_text_model": "kosmos-2",
    "lfm2": "lfm2_vl",
    "lfm3": "lfm3_vl",
    "llama": """
        deepseek_vl deepseek_vl_hybrid glmasr idefics3 janus llava_next_video perception_lm smolvlm video_llava
        vipllava voxtral
    """,
    "minimax_m3_vl_text": "minimax_m3_vl",
    "mistral": "idefics2",
    "mistral_large4_text": "mistral_large4",
    "mllama_text_model": "mllama",
    "molmo2_text": "molmo2",
    "muse_glimmer_text": "muse_glimmer",
    "muse_spark_text": "muse_spark",
    "nemotron_h": "nemo_speechlm nemotron_h_omni",
    "opt": "blip-2 instructblip instructblipvideo",
    "paddleocr_vl_text": "paddleocr_vl",
    "persimmon": "fuyu",
    "kimi_linear": "kimi_k3",
    "qwen2": """
        audioflamingo3 fast_vlm got_ocr2 internvl llava_onevision musicflamingo ovis2 pp_chart2table qwen2_audio
        vibevoice_asr video_llama_3
    """,
    "qwen2_5_omni_text": "qwen2_5_omni qwen2_5_omni_thinker",
    "qwen3": "fun_asr_nano lighton_ocr moss_transcribe_diarize qianfan_ocr qwen3_asr",
    "qwen3_5_text": "minicpm_ocr minicpmv4_6 minicpmv4_7",
    "qwen3_omni_moe_text": "qwen3_omni_moe qwen3_omni_moe_thinker",
    "qwen3_vl_text": "cosmos3_omni",
    "qwen4_exp_text": "qwen4_exp",
    "step3p5": "step3p7",
    "unlimited_ocr_text": "unlimited_ocr",
    "voxtral_realtime_text": "voxtral_realtime",
}

TEXT_PARTS: Mapping[str, str] = MappingProxyType(
    {whole: text for text, wholes in _TEXT_PARTS.items() for whole in wholes.split()}
)
"""Type of a multimodal model → type of its language model."""

# Whose `tie_word_embeddings` ties the head, by the modeling code of transformers 5.23: the outer one, except for these.
TIED_INSIDE = frozenset("blip-2 instructblip instructblipvideo kosmos-2.5 llama4 nemotron_h_omni".split())
"""Models whose head belongs to the text part, whose key decides."""
TIED_BY_EITHER = frozenset(
    """
    fast_vlm glm4v glm4v_moe glm_ocr hunyuan_vl kosmos-2 llava llava_next_video llava_onevision minimax_m3_vl
    paddleocr_vl qwen2_5_vl qwen2_vl shieldgemma2 video_llama_3
    """.split()
)
"""Models whose head is tied if either the outer config or the text part says so."""
NEVER_TIED = frozenset(
    """
    audioflamingo3 cosmos3_edge inkling2 inkling_mm_model mllama molmo2 muse_spark musicflamingo nemo_speechlm
    qwen2_audio vibevoice_asr voxtral
    """.split()
)
"""Models whose code never ties the head."""
OWN_HEADS = frozenset(("mistral3",))
"""Models whose class ties the head by default, but whose published checkpoints have one (Mistral Small 3.1)."""
