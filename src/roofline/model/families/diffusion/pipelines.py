"""Pipelines of diffusers: a denoiser with the text encoders and the autoencoder that run once beside its passes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from roofline.declared.errors import InputError
from roofline.declared.trees import JsonObject, JsonValue
from roofline.model.configs.config import Inputs
from roofline.model.model import Block, Model, Tower
from roofline.model.modules import Linear, Module

Build: TypeAlias = Callable[[JsonObject, str, Inputs | None], Model]
DENOISERS = ("transformer", "unet", "prior")
DECODERS = ("vae", "vqvae", "movq")
PROMPT, LATENTS = "prompt", "latents"
"""Streams of what runs once: a text encoder (of several, each with its number) and the decoder of latents."""
TOKENS = {"clip_text_model": 77, "clip": 77}
"""Tokens to which pipelines pad a prompt for an encoder, where it has a length of its own."""


@dataclass(frozen=True)
class Produced:
    """What a pipeline makes where nobody says: width and height in pixels, frames, and tokens of the prompt."""

    width: int = 1024
    height: int = 1024
    frames: int | None = None
    tokens: int = 512


OWN = {
    "WanTransformer3DModel": Produced(832, 480, 81),
    "WanVACETransformer3DModel": Produced(832, 480, 81),
    "HunyuanVideoTransformer3DModel": Produced(1280, 720, 129, 256),
    "CogVideoXTransformer3DModel": Produced(720, 480, 49, 226),
    "LTXVideoTransformer3DModel": Produced(704, 512, 161, 128),
    "MochiTransformer3DModel": Produced(848, 480, 19, 256),
    "AllegroTransformer3DModel": Produced(1280, 720, 88),
    "PixArtTransformer2DModel": Produced(tokens=300),
    "SanaTransformer2DModel": Produced(tokens=300),
    "SD3Transformer2DModel": Produced(tokens=333),
    "HunyuanDiT2DModel": Produced(tokens=256),
    "UNet2DConditionModel": Produced(512, 512, tokens=77),
    "UNet2DModel": Produced(256, 256, tokens=77),
}
"""Defaults of the pipelines of diffusers 0.42, by the class of the denoiser."""


def is_pipeline(raw: JsonObject) -> bool:
    """Whether a config is that of a pipeline, its components' configs included."""
    name = raw.get("_class_name")
    return isinstance(name, str) and any(isinstance(raw.get(key), Mapping) for key in DENOISERS)


def diffusion_pipeline(raw: JsonObject, name: str, inputs: Inputs | None, build: Build) -> Model:
    """The denoiser of a pipeline, with towers for its text encoders and the decoder of its latents.

    `build`: of the config of a component. Raises InputError for a component that is not understood, naming it.
    """
    key = next(key for key in DENOISERS if isinstance(raw.get(key), Mapping))
    own = _object(raw, key)
    given, default = inputs or Inputs(), _own_sizes(own)
    width = given.width or given.height or default.width
    sizes = replace(
        given, width=width, height=given.height or (given.width or default.height),
        frames=default.frames if given.frames is None else given.frames,
    )  # fmt: skip
    tokens = given.tokens or default.tokens
    denoiser = _component(raw, key, replace(sizes, tokens=given.tokens or _own_tokens(own, default)), build)
    towers, warnings = [], list(denoiser.warnings)
    for place, part in enumerate(
        k for k in sorted(raw) if k.startswith("text_encoder") and isinstance(raw[k], Mapping)
    ):
        model = _component(raw, part, Inputs(), build)
        length = TOKENS.get(model.model_type, tokens)
        towers.append(encoder_as_tower(model, part, PROMPT if not place else f"{PROMPT} {place + 1}", length))
    decoder = next((key for key in DECODERS if isinstance(raw.get(key), Mapping)), None)
    if decoder is not None:
        model = _component(raw, decoder, replace(sizes, frames=_video(sizes.frames, raw, decoder)), build)
        towers += [replace(t, name=f"{decoder} {t.name}") for t in model.towers]
    idle = _second(raw, build, sizes)
    not_counted = tuple(
        f"{part} (not counted)" for part in ("safety_checker", "image_encoder") if isinstance(raw.get(part), Mapping)
    )  # fmt: skip
    return replace(
        denoiser, name=name or str(raw["_class_name"]), towers=tuple(towers), warnings=tuple(warnings),
        embedding=(*denoiser.embedding, *idle), not_counted=not_counted,
    )  # fmt: skip


def encoder_as_tower(model: Model, name: str, stream: str, tokens: int) -> Tower:
    """A text encoder as a tower: what embeds its tokens and its layers, without a head over the vocabulary."""
    source = next((tower for tower in model.towers if tower.stream == "source"), None)
    if source is not None and "encode" in model.steps:
        blocks: tuple[Block, ...] = source.layers
    else:
        last = tuple(m for m in model.head if not (isinstance(m, Linear) and m.part == "head"))
        ends = (Block("head", last),) if last else ()
        blocks = (Block("embedding", model.embedding), *model.layers, *ends)
    return Tower(name, stream, model.hidden, tuple(_streamed(block, stream) for block in blocks), tokens)


def _streamed(block: Block, stream: str) -> Block:
    return Block(block.name, tuple(replace(m, stream=stream) for m in block.modules))


def _second(raw: JsonObject, build: Build, sizes: Inputs) -> tuple[Module, ...]:
    """The weights of a second denoiser, which takes over from the first one for some of the passes (Wan 2.2)."""
    if not isinstance(raw.get("transformer_2"), Mapping):
        return ()
    model = _component(raw, "transformer_2", sizes, build)
    return tuple(
        replace(m, name=f"second {i} {m.name}", idle=True) for i, (m, n) in enumerate(model.modules()) for _ in range(n)
    )  # fmt: skip


def _component(raw: JsonObject, key: str, sizes: Inputs, build: Build) -> Model:
    try:
        return build(_object(raw, key), key, sizes)
    except InputError as error:
        raise InputError(f"{key}.{error.field}", error.value, error.expected) from error


def _object(raw: JsonObject, key: str) -> dict[str, JsonValue]:
    value = raw[key]
    assert isinstance(value, Mapping)
    return dict(value)


def _own_sizes(own: JsonObject) -> Produced:
    """What a pipeline makes by its denoiser's class and latents."""
    kind = OWN.get(str(own.get("_class_name")), Produced())
    side, scale = own.get("sample_size"), 32 if own.get("_class_name") == "SanaTransformer2DModel" else 8
    return replace(kind, width=side * scale, height=side * scale) if isinstance(side, int) else kind


def _own_tokens(own: JsonObject, default: Produced) -> int:
    words = own.get("max_text_seq_length")
    return words if isinstance(words, int) else default.tokens


def _video(frames: int | None, raw: JsonObject, decoder: str) -> int | None:
    """Frames that an autoencoder reads: those of the video, or of each image by itself."""
    return frames if str(_object(raw, decoder).get("_class_name")) != "AutoencoderKL" else None
