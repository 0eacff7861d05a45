"""What VibeVoice hears with: two encoders of samples beside each other."""

from __future__ import annotations

from collections.abc import Iterator

from roofline.model.configs.config import Config
from roofline.model.families.blocks.encoders import at
from roofline.model.families.blocks.images.vision import TowerStage, section_of, streamed
from roofline.model.families.blocks.norms import rms
from roofline.model.families.registry import towers
from roofline.model.families.speech.codecs import vibevoice_acoustic_tokenizer
from roofline.model.media.sound import SOUND
from roofline.model.model import Block, Model, Tower
from roofline.model.modules import Add, Linear, Modules


@towers("vibevoice_asr")
def vibevoice_asr(outer: Config, text: Model) -> Iterator[Tower]:
    """VibeVoice-ASR (Microsoft, 2026): sounds and meanings by an encoder each, projected and added."""
    every: Modules = ()
    for name in ("acoustic", "semantic"):
        c = section_of(outer, f"{name}_tokenizer_encoder_config")
        model = vibevoice_acoustic_tokenizer(c)
        count = model.positions or 1
        yield from streamed((TowerStage("audio", model.hidden, model.layers, count),), SOUND)
        every += at(count, (
            Linear(name=f"{name}_linear_1", inputs=model.hidden, outputs=text.hidden, bias=True),
            rms(f"{name}_norm", text.hidden),
            Linear(name=f"{name}_linear_2", inputs=text.hidden, outputs=text.hidden, bias=True),
        ))  # fmt: skip
    outer.mark_read("acoustic_tokenizer_chunk_size")
    last = Block("projector", (*every, *at(count, (Add(name="sum", width=text.hidden),))))
    yield from streamed((TowerStage("projector", text.hidden, (last,)),), SOUND)
