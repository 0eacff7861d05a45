"""Denoisers, autoencoders and pipelines: exact parameters and FLOPs, published sizes, and how they are run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.nondecoder import score

import roofline as rl
from roofline.model.configs.config import Inputs
from roofline.model.load import catalog_config

FILE = Path(__file__).with_name("nondecoder") / "diffusion.json"
CASES = json.loads(FILE.read_text("utf-8"))["cases"]
FLUX = {"_class_name": "FluxTransformer2DModel", "guidance_embeds": True}
WAN = "Wan-AI/Wan2.1-T2V-1.3B-Diffusers"
VAE = {
    "_class_name": "AutoencoderKL", "block_out_channels": [128, 256, 512, 512], "layers_per_block": 2,
    "down_block_types": ["DownEncoderBlock2D"] * 4, "up_block_types": ["UpDecoderBlock2D"] * 4, "latent_channels": 4,
}  # fmt: skip
PIXART = {"_class_name": "PixArtTransformer2DModel", "caption_channels": 4096, "use_additional_conditions": False}
PIPELINE = {"_class_name": "PixArtSigmaPipeline", "transformer": PIXART, "vae": VAE, "scheduler": ["diffusers", "DPM"]}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_the_real_class_holds_and_multiplies_as_much(case: dict[str, Any]) -> None:
    done = score(case)
    assert done.exact, done


def test_published_sizes() -> None:
    assert rl.load(FLUX).parameters == 11_901_408_320  # "12 billion"
    assert rl.load({"_class_name": "AutoencoderKL", **VAE}).parameters == 83_653_863  # Stable Diffusion's


def test_wan_under_the_keys_of_its_own_code() -> None:
    """Wan 2.2's TI2V-5B as published and as converted for diffusers; an original `i2v` does not say which it is."""
    own = {
        "_class_name": "WanModel", "_diffusers_version": "0.33.0", "dim": 3072, "eps": 1e-06, "ffn_dim": 14336,
        "freq_dim": 256, "in_dim": 48, "model_type": "ti2v", "num_heads": 24, "num_layers": 30, "out_dim": 48,
        "text_len": 512,
    }  # fmt: skip
    converted = {
        "_class_name": "WanTransformer3DModel", "num_attention_heads": 24, "attention_head_dim": 128,
        "ffn_dim": 14336, "in_channels": 48, "out_channels": 48, "num_layers": 30,
    }  # fmt: skip
    model = rl.load(own)
    assert model.parameters == rl.load(converted).parameters == 4_999_787_712
    assert model.warnings == rl.load(converted).warnings
    with pytest.raises(rl.InputError, match="model_type: expected one of t2v, ti2v, got 'i2v'"):
        rl.load({**own, "model_type": "i2v"})


def test_no_published_key_is_a_warning() -> None:
    assert [w for case in CASES for w in rl.load(case["config"]).warnings] == []


def test_pixels_and_latents_are_two_ways_to_say_a_size() -> None:
    wan = {"_class_name": "WanTransformer3DModel", "num_layers": 2}
    pixels = rl.load(wan, inputs=Inputs(width=832, height=480, frames=81))
    latents = rl.load(wan, inputs=Inputs(latents=(21, 60, 104)))
    assert pixels.positions == latents.positions == 21 * 30 * 52


def test_attention_of_a_double_block_by_hand() -> None:
    """Image and text attend to both: 2 · 2 · (S + T)² · heads · head_dim FLOPs."""
    model = rl.load(FLUX, inputs=Inputs(width=512, height=512, tokens=128))
    work = rl.analyze(model, rl.prefill(1, model.positions), counting="torch")
    both = 32 * 32 + 128
    once = next(op for op in work.ops if op.kind == "attention")
    assert once.layers == 19
    assert once.flops == 19 * 4 * both**2 * 24 * 128 or once.flops == 4 * both**2 * 24 * 128


def test_a_pipeline_is_its_denoiser_with_the_rest_beside_it() -> None:
    model = rl.load(PIPELINE)
    assert model.name == "PixArtSigmaPipeline"
    assert model.parameters == rl.load(PIXART).parameters + rl.load(VAE).parameters
    answer = rl.encode(model, on="h100-sxm", size="1024x1024", passes=20, guidance=True)
    assert answer.positions == 64 * 64
    assert set(answer.parts) == {"denoiser", "vae decoder"}
    assert sum(answer.parts.values()) == pytest.approx(answer.latency.expected)
    assert answer.passes == 20


def test_a_folder_of_a_pipeline(tmp_path: Path) -> None:
    index = {"_class_name": "PixArtSigmaPipeline", "transformer": ["diffusers", PIXART["_class_name"]]}
    (tmp_path / "model_index.json").write_text(json.dumps(index))
    (tmp_path / "transformer").mkdir()
    (tmp_path / "transformer" / "config.json").write_text(json.dumps(PIXART))
    assert rl.load(tmp_path).parameters == rl.load(PIXART).parameters


def test_a_part_that_is_not_understood_is_named() -> None:
    with pytest.raises(rl.InputError, match=r"vae\._class_name"):
        rl.load({**PIPELINE, "vae": {"_class_name": "AutoencoderOfTomorrow"}})


def test_sequence_parallelism_divides_the_image_and_not_the_prompt() -> None:
    answers = [
        rl.encode(PIXART, on="1xdgx-h100", layout=f"cp={n},exchange=ulysses", size="1024x1024", passes=20, batch=16)
        for n in (1, 8)
    ]
    one, eight = (answer.latency.expected for answer in answers)
    assert one / 8 < eight < one


def test_guidance_takes_every_input_twice() -> None:
    plain, guided = (rl.encode(PIXART, on="h100-sxm", guidance=g, batch=8) for g in (False, True))
    assert guided.passes == plain.passes
    assert 1.5 < guided.latency.expected / plain.latency.expected < 2.1


def test_each_half_of_an_autoencoder_runs_alone() -> None:
    halves = [rl.encode(VAE, on="h100-sxm", size="512x512", tower=tower) for tower in ("images", "latents")]
    assert [half.positions for half in halves] == [512 * 512, 64 * 64]
    with pytest.raises(rl.InputError, match="images or latents"):
        rl.encode(VAE, on="h100-sxm", size="512x512")


def test_a_text_encoder_is_a_decoder_without_its_head() -> None:
    model = rl.load({**PIPELINE, "text_encoder": catalog_config("Qwen/Qwen3-0.6B")})
    assert model.parameters_by_tower()["text_encoder"] > 500_000_000
    assert "text_encoder" in rl.encode(model, on="h100-sxm", size="512x512").parts


def test_the_decoder_of_latents_computes_in_the_engine_s_format() -> None:
    """In fp32 under diffusers, whatever the denoiser's format is; 5.9 times as long as in bf16 on an H100."""
    sizes = {"on": "h100-sxm", "size": "1024x1024", "engine": "diffusers"}
    alone, narrow = (rl.encode(VAE, tower="latents", precision=p, **sizes).latency.expected for p in ("fp32", "bf16"))
    for precision in (None, "fp8"):
        assert rl.encode(PIPELINE, precision=precision, **sizes).parts["vae decoder"] == pytest.approx(alone)
    assert alone / narrow == pytest.approx(5.9, abs=0.15)


def test_one_chip_of_a_replica_decodes_and_the_others_wait() -> None:
    """xDiT decodes on the last GPU of each replica: its work is that of one chip, and all wait for it."""
    sizes = {"on": "1xdgx-h100", "size": "1024x1024", "passes": 20, "batch": 16}
    decoder = rl.encode(
        VAE, tower="latents", precision="fp32", engine="diffusers", on="h100-sxm", size="1024x1024", batch=16
    )
    whole, bare = (rl.encode(m, layout="cp=8,exchange=ulysses", **sizes) for m in (PIPELINE, PIXART))
    assert whole.cost.busy.running - bare.cost.busy.running == pytest.approx(decoder.cost.busy.running)
    assert whole.latency.expected - bare.latency.expected == pytest.approx(decoder.latency.expected)


def test_a_video_s_minute_is_a_sixtieth_of_a_recorded_hour() -> None:
    """Five seconds of video cost 12 / 60 of its minute."""
    wan = rl.encode(WAN, on="h100-sxm", size="832x480", frames=81, seconds="5s", guidance=True, price=3.6)
    assert wan.usd_per_recorded_hour == pytest.approx(wan.usd_per_million_inputs / 1e6 * 720)
    assert rl.encode(WAN, on="h100-sxm", size="832x480", frames=81).usd_per_recorded_hour is None
