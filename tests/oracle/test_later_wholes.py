"""Towers and wholes of this release against the real classes: parameters, and FLOPs that torch counts."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from typing import Any

import pytest

import roofline as rl
from roofline.model.configs.config import Inputs
from roofline.model.families.towers.inkling import scales
from roofline.model.trace.installed import real_code
from roofline.work.step import read_whole

pytestmark = pytest.mark.oracle


def _flops(torch: Any, call: Callable[[], Any]) -> int:
    counter = importlib.import_module("torch.utils.flop_counter").FlopCounterMode(display=False)
    with torch.no_grad(), counter:
        call()
    return int(counter.get_total_flops())


def _config(config: Any) -> dict[str, Any]:
    raw: dict[str, Any] = json.loads(config.to_json_string(use_diff=False))
    return raw


HEARERS = {
    "gemma3n_audio": ("gemma3n", "Gemma3nAudioEncoder", 128),
    "gemma4_audio": ("gemma4", "Gemma4AudioModel", 128),
    "phi4_multimodal_audio": ("phi4_multimodal", "Phi4MultimodalAudioModel", 80),
}


@pytest.mark.parametrize("columns", [96, 1234, 4400])
@pytest.mark.parametrize("kind", HEARERS)
def test_conformers(kind: str, columns: int) -> None:
    torch, transformers = real_code()
    module, name, bands = HEARERS[kind]
    layers = {"gemma3n_audio": "conf_num_hidden_layers", "phi4_multimodal_audio": "num_blocks"}
    config = transformers.CONFIG_MAPPING[kind](**{layers.get(kind, "num_hidden_layers"): 1})
    config._attn_implementation = "eager"
    model = getattr(importlib.import_module(f"transformers.models.{module}.modeling_{module}"), name)(config).eval()
    heard = torch.zeros(1, columns, bands)
    more = {"gemma3n_audio": (torch.zeros(1, columns, dtype=torch.bool),), "phi4_multimodal_audio": (None,)}
    ours = rl.load(_config(config), inputs=Inputs(spectra=columns))
    assert ours.parameters == sum(p.numel() for p in model.parameters())
    counted = rl.analyze(ours, read_whole(1, ours.positions or 1), counting="torch").flops
    assert counted == _flops(torch, lambda: model(heard, *more.get(kind, ())))


@pytest.mark.parametrize("side", [224, 512])
def test_fast_vlm_sees(side: int) -> None:
    torch, transformers = real_code()
    config = transformers.CONFIG_MAPPING["fast_vlm"]()
    with torch.device("meta"):
        model = transformers.FastVlmForConditionalGeneration(config)
        real = _flops(torch, lambda: model.model.get_image_features(torch.zeros(1, 3, side, side)))
    ours = rl.load(_config(config), inputs=Inputs(height=side, width=side))
    seen = ours.alone("images")
    assert ours.parameters == sum(p.numel() for p in model.parameters())
    assert rl.analyze(seen, read_whole(1, seen.positions or 1), counting="torch").flops == real


@pytest.mark.parametrize("samples", [22_500, 480_000])
def test_vibevoice_hears(samples: int) -> None:
    torch, transformers = real_code()
    config = transformers.CONFIG_MAPPING["vibevoice_asr"]()
    with torch.device("meta"):
        model = transformers.VibeVoiceAsrForConditionalGeneration(config)
        real = _flops(torch, lambda: model.model.get_audio_features(torch.zeros(1, 1, samples)))
    ours = rl.load(_config(config), inputs=Inputs(samples=samples))
    heard = ours.alone("sound")
    assert ours.parameters == sum(p.numel() for p in model.parameters())
    assert rl.analyze(heard, read_whole(1, heard.positions or 1), counting="torch").flops == real


@pytest.mark.parametrize(("source", "tokens"), [(64, 16), (100, 40)])
def test_t5gemma2(source: int, tokens: int) -> None:
    torch, transformers = real_code()
    text = {
        "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 3, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 1000, "sliding_window": 512,
    }  # fmt: skip
    seen = {
        "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
        "image_size": 224, "patch_size": 14, "model_type": "siglip_vision_model",
    }  # fmt: skip
    marks = {"image_token_index": 999, "eoi_token_index": 998}
    encoder = {"text_config": text, "vision_config": seen, "boi_token_index": 997, **marks}
    config = transformers.CONFIG_MAPPING["t5gemma2"](encoder=encoder, decoder=text, **marks)
    made = transformers.T5Gemma2ForConditionalGeneration._from_config(config, attn_implementation="eager").eval()
    words = {"input_ids": torch.full((1, source), 5), "decoder_input_ids": torch.full((1, tokens), 5)}
    ours = rl.load(_config(config))
    assert ours.parameters == sum(p.numel() for p in made.parameters())
    counted = rl.analyze(ours, rl.prefill(1, tokens).reading("source", source), counting="torch").flops
    assert counted == _flops(torch, lambda: made(**words, use_cache=False))


def test_where_inkling_folds_pixels() -> None:
    """Its cells between layers for drawn patches, depths and frames, as its own code plans them."""
    real_code()
    plan = importlib.import_module("transformers.models.inkling.modeling_inkling").plan_out_scales
    for frames in (1, 2, 3, 4):
        for side in (8, 12, 14, 16, 28, 32, 40, 48):
            for layers in (3, 4, 6, 8, 12, 24):
                try:
                    real = [(int(t), int(h), int(c)) for t, h, _, c in plan(frames, side, layers, 3).tolist()]
                except Exception:  # more layers than it can choose cells for
                    continue
                assert scales(frames, side, layers, 3) == real


@pytest.mark.parametrize(("words", "tokens"), [(64, 16), (100, 40)])
def test_udop(words: int, tokens: int) -> None:
    """The source of a page without words' places: its words, and all 196 patches."""
    torch, transformers = real_code()
    config = transformers.CONFIG_MAPPING["udop"](
        num_layers=2, num_decoder_layers=2, d_model=128, d_ff=256, d_kv=16, num_heads=8
    )
    made = transformers.UdopForConditionalGeneration._from_config(config, attn_implementation="eager").eval()
    page = {"bbox": torch.zeros(1, words, 4), "pixel_values": torch.zeros(1, 3, 224, 224)}
    read = {"input_ids": torch.full((1, words), 5), "decoder_input_ids": torch.full((1, tokens), 5)}
    ours = rl.load(_config(config))
    assert ours.parameters == sum(p.numel() for p in made.parameters())
    step = rl.prefill(1, tokens).reading("source", words + 196).reading("images", 196)
    assert rl.analyze(ours, step, counting="torch").flops == _flops(
        torch, lambda: made(**read, **page, use_cache=False)
    )


@pytest.mark.parametrize("tokens", [16, 40])
def test_pp_formulanet(tokens: int) -> None:
    """An image that SAM's encoder sees, and a decoder that attends to 64 positions of it."""
    torch, transformers = real_code()
    config = transformers.CONFIG_MAPPING["pp_formulanet"]()
    ours = rl.load(_config(config))
    with torch.device("meta"):
        made = transformers.PPFormulaNetForConditionalGeneration._from_config(config, attn_implementation="eager")
        seen, said = torch.zeros(1, 3, 512, 512), torch.full((1, tokens), 5)
        real = _flops(torch, lambda: made.eval()(pixel_values=seen, decoder_input_ids=said, use_cache=False))
    parts = {"encoder": made.model.encoder, "": made.model.decoder}
    sizes = {name: sum(p.numel() for p in part.parameters()) for name, part in parts.items()}
    sizes[""] += made.lm_head.weight.numel()
    assert ours.parameters_by_tower() == sizes
    assert rl.analyze(ours, rl.prefill(1, tokens).reading("source", 64), counting="torch").flops == real


@pytest.mark.parametrize(("residues", "tokens"), [(30, 20), (100, 40)])
def test_evolla(residues: int, tokens: int) -> None:
    """A protein of any length becomes latents, to which every second of four layers attends."""
    torch, transformers = real_code()
    protein = {"hidden_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 56}
    config = transformers.CONFIG_MAPPING["evolla"](
        hidden_size=64, intermediate_size=96, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
        vocab_size=128, aligner_num_add_layers=2, resampler_depth=2, resampler_num_latents=8, pad_token_id=0,
        bos_token_id=1, eos_token_id=2, protein_encoder_config=protein,
    )  # fmt: skip
    made = transformers.EvollaForProteinText2Text._from_config(config, attn_implementation="eager").eval()
    asked, read = torch.full((1, tokens), 5), torch.full((1, residues), 5)
    whole = {"input_ids": asked, "attention_mask": torch.ones_like(asked), "protein_input_ids": read}
    whole["protein_attention_mask"] = torch.ones_like(read)
    ours = rl.load(_config(config))
    sizes = sum(p.numel() for p in made.model.protein_encoder.parameters())
    assert ours.parameters_by_tower()["protein"] == sizes
    assert ours.parameters == sum(p.numel() for p in made.parameters())
    step = rl.prefill(1, tokens).reading("source", residues)
    assert rl.analyze(ours, step, counting="torch").flops == _flops(torch, lambda: made(**whole, use_cache=False))


@pytest.mark.parametrize("words", [8, 20])
def test_pi0(words: int) -> None:
    """One denoising pass with what it reads: three images of 16 patches, the instruction, a state and ten actions."""
    torch, transformers = real_code()
    text = {
        "model_type": "gemma", "hidden_size": 64, "num_hidden_layers": 3, "intermediate_size": 96, "vocab_size": 512,
        "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 16,
    }  # fmt: skip
    seen = {
        "model_type": "siglip_vision_model", "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
        "num_attention_heads": 2, "patch_size": 14, "image_size": 56, "vision_use_head": False,
    }  # fmt: skip
    whole = {"model_type": "paligemma", "text_config": text, "vision_config": seen, "projection_dim": 64}
    config = transformers.CONFIG_MAPPING["pi0"](
        vlm_config={**whole, "image_token_id": 511}, dit_config={**text, "hidden_size": 32}, chunk_size=10,
        max_action_dim=6, max_state_dim=5,
    )  # fmt: skip
    made = transformers.PI0ForConditionalGeneration._from_config(config, attn_implementation="eager").eval()
    asked = torch.cat([torch.full((1, 48), 511), torch.full((1, words), 5)], 1)
    given = {"state": torch.zeros(1, 5), "noise": torch.zeros(1, 10, 6), "timestep": torch.zeros(1)}
    given |= {"input_ids": asked, "attention_mask": torch.ones_like(asked)}
    given |= {"pixel_values": torch.zeros(1, 3, 3, 56, 56), "pixel_attention_mask": torch.ones(1, 3).bool()}
    ours = rl.load(_config(config), inputs=Inputs(tokens=words))
    inside = made.model.vlm
    parts = {"vision": inside.vision_tower, "projector": inside.multi_modal_projector, "prefix": inside.language_model}
    sizes = {name: sum(p.numel() for p in part.parameters()) for name, part in parts.items()}
    every = sum(p.numel() for p in made.parameters())
    assert ours.parameters_by_tower() == {**sizes, "": every - sum(sizes.values())}
    step = read_whole(1, ours.positions or 1)
    for tower in ours.towers:
        step = step.reading(tower.stream, tower.positions or 1)
    assert rl.analyze(ours, step, counting="torch").flops == _flops(torch, lambda: made(**given))


@pytest.mark.parametrize("columns", [80, 801])
def test_nemotron_transcribe_hears(columns: int) -> None:
    """Two encoders of the same columns, of a recording within a chunk."""
    torch, transformers = real_code()
    code = importlib.import_module("transformers.models.nemotron3_5_transcribe.modeling_nemotron3_5_transcribe")
    sizes = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_mel_bins": 16}
    who = {
        "model_type": "nemotron3_diarization", "chunk_length": 500, "chunk_left_context": 50,
        "chunk_right_context": 50, "fifo_length": 40, "streaming_config": {"num_speakers": 4},
        "audio_config": {"hidden_size": 32, "intermediate_size": 48, **sizes},
        "head_config": {"hidden_size": 24, "audio_hidden_size": 32, "num_speakers": 4},
    }  # fmt: skip
    audio = transformers.CONFIG_MAPPING["nemotron3_5_transcribe_audio"](
        asr_config={"hidden_size": 64, "intermediate_size": 96, **sizes}, diarization_config=who
    )
    whole = transformers.CONFIG_MAPPING["nemo_speechlm"](audio_config=audio)
    frames = -(-columns // 8)
    made = code.Nemotron3_5TranscribeAudioModel._from_config(audio, attn_implementation="eager").eval()
    ours = rl.load(_config(whole), inputs=Inputs(spectra=columns))
    parts = ours.parameters_by_tower()
    assert parts["audio"] == sum(p.numel() for p in made.asr_encoder.parameters())
    assert parts["diarization"] == sum(p.numel() for p in made.diarization_model.parameters())
    heard = ours.alone("sound")
    counted = rl.analyze(heard, read_whole(1, heard.positions or 1), counting="torch").flops
    projector = 2 * frames * 64 * ours.hidden
    assert counted - projector == _flops(torch, lambda: made(torch.zeros(1, 8 * frames, 16)))
