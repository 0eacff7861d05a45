"""Images in `diff`, in changes that would help, and in a report: the same tokens and encoding as in `serve`."""

from __future__ import annotations

from pathlib import Path

import pytest

import roofline as rl
from roofline.views.report.make import report
from roofline.whatif.diff import Side
from roofline.whatif.search.recommendations import advice, served

VL = "Qwen/Qwen3-VL-8B-Instruct"
SEEN = rl.Images(2, 1024, 768)


def test_a_side_with_images() -> None:
    """A prefill with 1,540 more tokens and the work of the tower; `images` and `image_size` change together."""
    d = rl.diff(f"{VL}@h100-sxm", f"{VL}@h100-sxm:images=2,image_size=1024x768")
    flops = next(c for c in d.changes if (c.phase, c.name) == ("prefill", "FLOPs"))
    assert flops.a == rl.analyze(VL, rl.prefill(1, 1024)).flops
    assert flops.b == rl.analyze(VL, rl.prefill(1, 1024), images=SEEN).flops
    assert [t.settings for t in d.turns] == [("images", "image_size")]
    with pytest.raises(rl.InputError, match="image_size as well"):
        rl.diff(f"{VL}@h100-sxm", f"{VL}@h100-sxm:images=2")


def test_a_side_with_sound() -> None:
    text = {"hidden_size": 2048, "num_hidden_layers": 4}
    heard = {"model_type": "qwen3_asr", "audio_config": {}, "text_config": text}
    d = rl.diff(*(Side(model=rl.load(heard), step="prefill", audio=seconds) for seconds in (8.0, 80.0)))
    flops = next(c for c in d.changes if c.name == "FLOPs")
    assert flops.b == rl.analyze(heard, rl.prefill(1, 1024), images=rl.Images(audio=80)).flops


def test_changes_that_would_help_with_images() -> None:
    now = served(rl.load(VL), on="h100-sxm", batch=8, images=2, image_size="1024x768")
    text = served(rl.load(VL), on="h100-sxm", batch=8)
    alike = rl.generate(VL, on="h100-sxm", input=1024, output_tokens=256, batch=8, images=2, image_size="1024x768")
    assert now.generation.ttft.expected == alike.ttft.expected > 2 * text.generation.ttft.expected
    assert all(a.generation.images is not None for a in advice(now))


def test_a_report_says_what_images_add(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    report(rl.load(VL), on="h100-sxm", batch=4, images=2, image_size="1024x768", output=page)
    words = page.read_text("utf-8")
    assert "Of every prompt 1,540 tokens are 2 images of 1024x768, 770 tokens each; 3072 patches." in words
