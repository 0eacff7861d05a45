"""Policies of robots that denoise actions: π0."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from roofline.model.configs.config import Config
from roofline.model.families.blocks.encoders import at, at_one, encoder
from roofline.model.families.blocks.images.sight import read_part
from roofline.model.families.blocks.text_heads import dense
from roofline.model.families.diffusion.pipelines import PROMPT, encoder_as_tower
from roofline.model.families.registry import FAMILIES, TOWERS, complete
from roofline.model.model import Block, Model, Tower
from roofline.model.modules import Activation, Attention, Embedding, Modules

CAMERAS, WORDS = 3, 48
"""Images and tokens of the instruction before each decision, as openpi's π0 has them (`max_token_len`)."""
_TRAINING = "min_period max_period time_sampling_beta_alpha time_sampling_beta_beta time_sampling_scale".split()


@complete("pi0")
def pi0(c: Config) -> Model:
    """π0 (arXiv:2410.24164): a small Gemma denoises a chunk of actions beside what PaliGemma has read, once.

    Its layers attend to the keys that those of the larger Gemma made of images and instruction.
    """
    c.mark_read(*_TRAINING, "time_sampling_offset", "loss_reduction", "num_inference_steps", "tie_word_embeddings")
    seer, acts = read_part(c, "vlm_config"), read_part(c, "dit_config")
    reader = FAMILIES["gemma"](read_part(seer, "text_config"))
    actor = FAMILIES["gemma"](acts.with_values(vocab_size=reader.vocab))
    eyes = list(TOWERS["paligemma"](seer, reader))
    patches = eyes[0].positions or 1
    prefix = CAMERAS * patches + (c.inputs.tokens or WORDS)
    reader = replace(reader, layers=tuple(_all_seen(reader.layers)))
    read = encoder_as_tower(reader, "prefix", f"{PROMPT} {len(eyes) + 1}", prefix)
    width, chunk, values = actor.hidden, c.size("chunk_size", 50), c.size("max_action_dim", 32)
    times = (
        dense("action_proj", values, width), dense("time_in", 2 * width, width),
        Activation(name="time_act", width=width, function="silu", gated=False), dense("time_out", width, width),
    )  # fmt: skip
    unused = tuple(replace(m, idle=True, shared=False) for m in actor.embedding if isinstance(m, Embedding))
    first = (*unused, *at_one((dense("state_proj", c.size("max_state_dim", 32), width),)), *at(chunk, times))
    last = (*(m for m in actor.head if m.name != "lm_head"), *at(chunk, (dense("action_out", width, values),)))
    blocks = list(_all_seen(actor.layers, prefix + 1 + chunk))
    model = encoder(c, width, blocks, embedding=first, head=last, positions=1 + chunk, steps=("denoise",))
    return replace(model, towers=(*(_by_cameras(eye, i, patches) for i, eye in enumerate(eyes, 1)), read))


def _by_cameras(eye: Tower, number: int, patches: int) -> Tower:
    """The tower over the images of all cameras, as a part that runs once, with a stream of its own."""
    stream = f"{PROMPT} {number}"

    def each(modules: Modules) -> Modules:
        return tuple(replace(m, stream=stream) for m in at(patches, modules, CAMERAS))

    blocks = tuple(Block(b.name, each(b.modules)) for b in eye.layers)
    return replace(eye, stream=stream, layers=blocks, positions=CAMERAS * patches)


def _all_seen(blocks: Iterable[Block], keys: int | None = None) -> Iterator[Block]:
    """The layers with attention to all positions, and of `keys` in all."""
    for block in blocks:
        seen = (replace(m, causal=False, keys=keys) if isinstance(m, Attention) else m for m in block.modules)
        yield Block(block.name, tuple(seen))
