"""The call of a class that a trace records: its method, its inputs by argument, and what runs before it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isqrt, prod
from types import ModuleType
from typing import TYPE_CHECKING, TypeAlias

from roofline.model.trace.values import Operand

if TYPE_CHECKING:
    from torch import nn

InputShapes: TypeAlias = Mapping[str, Operand]
"""Argument of the code → the shape of its tensor; nested lists are values, such as the grid of an image.

Two are no arguments: `past`, the number of tokens that the cache holds before the call, and `cross`, the shapes of what
an encoder read before it.
"""
WHOLE_NUMBERS = ("ids", "mask", "index", "labels", "lengths", "bbox", "shapes", "sizes", "grid", "thw")
"""Parts of names of arguments that hold whole numbers."""
PLACES = ("img_ids", "txt_ids")
"""Arguments that hold positions as real numbers, whatever their name says."""
PADDED = ("flattened_patches",)
"""Arguments whose rows of zeros are padding, so that their values say what is masked."""
USUAL = {"tokens": 128, "side": 224, "samples": 16_000, "frames": 3_000, "pictures": 16}
"""Sizes of an input where neither the caller nor the config says them."""
ALONE = (
    ("pixel_values", "get_image_features"), ("input_features", "get_audio_features"),
    ("input_values", "get_audio_features"), ("pixel_values_videos", "get_video_features"),
)  # fmt: skip
"""Argument → the method that reads it alone, in a class that also reads text."""
TOKENS = ("image_token_id", "image_token_index", "image_token", "img_context_token_id")
"""Keys of the token that stands for a piece of an image."""
SOUNDS = ("audio_token_id", "audio_token_index", "audio_token")
CACHES = ("past_key_values", "cache_params", "state")
"""What the caches of models are called, in what they return and in what they take."""


def make_call(
    torch: ModuleType, model: nn.Module, raw: Mapping[str, Operand], shapes: InputShapes, call: str | None,
    begin: Callable[[], None], *, as_many: bool = False,
) -> None:  # fmt: skip
    """Make the call. What comes before it, a prompt or an encoder's pass, runs first; then `begin` is called.

    `as_many`: there are as many more tokens as stand for the images and the sound.
    """
    model = _that_runs(model)
    past, cross = shapes.get("past"), shapes.get("cross")
    given = {key: shape for key, shape in shapes.items() if key not in ("past", "cross")}
    method = method_of(model, raw, given, call)
    if "added_cond_kwargs" in inspect.signature(model.forward).parameters:
        given["added_cond_kwargs"] = _conditions(model, given)
    arguments = tensors(torch, model, given)
    if past or cross:
        arguments |= _before(torch, model, arguments, int(past or 0), tensors(torch, model, cross or {}))
    elif "input_ids" in arguments:
        arguments |= _placed(torch, model, arguments, as_many)
    begin()
    method(**arguments)


def method_of(
    model: nn.Module, raw: Mapping[str, Operand], given: InputShapes, call: str | None
) -> Callable[..., Operand]:
    """The method to call: as asked, or where the shapes are those of a part, that part's: an encoder, a tower."""
    taken = inspect.signature(model.forward).parameters
    if call is not None and call != "forward":
        chosen = _named(model, call) or _named(model, f"get_{call}_features")
        if chosen is None:
            raise ValueError(f"no method {call}")
        return chosen
    if call is None and "input_ids" in taken and not {"input_ids", "decoder_input_ids"} & given.keys():
        alone = (method for key, name in ALONE if key in given and (method := _named(model, name)) is not None)
        if (chosen := next(alone, None)) is not None:
            return chosen
    parts = ((key, part) for key, part in (("x", "encode"), ("z", "decode")) if key in given and key not in taken)
    if (coded := next((_named(model, part) for _, part in parts), None)) is not None:
        return coded
    encodes = call is None and raw.get("is_encoder_decoder") and "decoder_input_ids" not in given
    if encodes and "past" not in given and hasattr(model, "get_encoder"):
        model = model.get_encoder()
    whole: Callable[..., Operand] = model
    return whole


def _that_runs(model: nn.Module) -> nn.Module:
    """The model, or where its class only holds others, such as a thinker and a talker, the first of them."""
    if model.forward.__name__ != "_forward_unimplemented":
        return model
    return next(part for part in model.children() if part.forward.__name__ == "forward")


def _named(model: Operand, name: str) -> Callable[..., Operand] | None:
    """The method of that name of a model, or of the model without a head within it."""
    method: Callable[..., Operand] | None = getattr(model, name, None)
    within = getattr(model, "model", None)
    return method if method is not None or within is None else getattr(within, name, None)


def _before(
    torch: ModuleType, model: nn.Module, arguments: Mapping[str, Operand], past: int, source: Mapping[str, Operand]
) -> dict[str, Operand]:
    """The arguments that a prompt of `past` tokens, and an encoder that read `source`, leave to the call."""
    decodes = "decoder_input_ids" in arguments
    tokens = "decoder_input_ids" if decodes else "input_ids"
    batch = arguments[tokens].shape[0]
    prompt = torch.zeros(batch, *(past or 1,), *arguments[tokens].shape[2:], dtype=torch.long)
    if decodes and hasattr(model, "get_encoder"):
        given = {"encoder_outputs": model.get_encoder()(**source)}
    else:
        given = dict(source)
    given |= {key: value for key, value in source.items() if key == "attention_mask"}
    first = model(**given, **{tokens: prompt}, use_cache=True)
    left = {name: first[name] for name in CACHES if name in first}
    if not left:
        raise ValueError("a class that returns a cache")
    return {**(given if decodes else {}), **left, "use_cache": True}


def _conditions(model: Operand, given: InputShapes) -> Mapping[str, Operand] | None:
    """The sizes that a denoiser is told in a mapping, by shape: as given, or those that its class needs."""
    told = given.get("added_cond_kwargs")
    if isinstance(told, Mapping):
        return told
    batch, config = next(iter(given.values()))[0], model.config
    if hasattr(model, "use_additional_conditions"):
        more = model.use_additional_conditions
        return {"resolution": (batch, 2) if more else None, "aspect_ratio": (batch, 1) if more else None}
    if config.get("addition_embed_type") == "text_time":
        pooled = config.projection_class_embeddings_input_dim - 6 * config.addition_time_embed_dim
        return {"text_embeds": (batch, pooled), "time_ids": (batch, 6)}
    return None


# -- tensors -----------------------------------------------------------------------------------------------------------
def tensors(torch: ModuleType, model: nn.Module, shapes: InputShapes) -> dict[str, Operand]:
    """The arguments of these shapes; those that say what others are, as grids and masks do, have their values."""
    return {
        key: tensor(torch, key, _sizes(model, key, shape, shapes)) for key, shape in shapes.items()
        if not isinstance(shape, str)
    }  # fmt: skip


def tensor(torch: ModuleType, name: str, shape: Operand) -> Operand:
    """An argument of that shape; a nested list is values, and a plain number or a list of lists of lists stays one."""
    if isinstance(shape, Mapping):
        return {key: tensor(torch, key, value) for key, value in shape.items()}
    if not isinstance(shape, (list, tuple)):
        return shape
    if shape and isinstance(shape[0], (list, tuple)):
        if shape[0] and isinstance(shape[0][0], (list, tuple)):
            return [[tuple(sides) for sides in each] for each in shape]
        return torch.tensor(shape)
    if name in PADDED:
        return torch.ones(*shape)
    if name in PLACES or not (name == "inputs" or any(part in name for part in WHOLE_NUMBERS)):
        return torch.zeros(*shape, device="meta" if prod(shape) > 1 else "cpu")
    if "mask" in name:
        return torch.ones(*shape, dtype=torch.bool if name.startswith("encoder") else torch.long)
    return torch.zeros(*shape, dtype=torch.long)


def _sizes(model: nn.Module, name: str, shape: Operand, shapes: InputShapes) -> Operand:
    """The values of a table of sizes that is given by its shape: those of the images that are given beside it.

    A grid has the patches that there are, in rows and columns as equal as can be.
    """
    if not isinstance(shape, (list, tuple)) or not shape or isinstance(shape[0], (list, tuple)):
        return shape
    pixels = next((shapes[key] for key in ("pixel_values", "hidden_states") if key in shapes), None)
    if pixels is None:
        return shape
    if name.endswith("grid_thw"):
        return [[1, *_rows(pixels[0] // shape[0])]] * shape[0]
    if name == "spatial_shapes":
        return [list(_rows(pixels[1]))] * shape[0]
    if name == "target_sizes":
        patch = pixels[-2]
        return [list(_rows(prod(pixels[-2:]) // patch**2))] * shape[0]
    if name == "image_sizes":
        return [list(pixels[-2:])] * shape[0]
    return shape


def _rows(patches: int) -> tuple[int, int]:
    """Rows and columns of that many patches, even where they can be, more rows than columns."""
    pairs = [(patches // n, n) for n in range(isqrt(patches), 0, -1) if patches % n == 0]
    return next((pair for pair in pairs if not (pair[0] % 4 or pair[1] % 4)), pairs[0])


def _placed(torch: ModuleType, model: nn.Module, arguments: Mapping[str, Operand], as_many: bool) -> dict[str, Operand]:
    """The tokens, as many of which stand for the images and the sound given beside them as their towers say."""
    ids = arguments["input_ids"].clone()
    kinds, at = torch.zeros_like(ids), 1
    for kind, method, keys, places in (
        (1, "get_image_features", ("pixel", "image", "grid_thw", "target_sizes"), TOKENS),
        (3, "get_audio_features", ("input_features", "input_values", "feature", "audio"), SOUNDS),
    ):
        config, tower = getattr(model, "config", None), _named(model, method)
        token = next((t for key in places if isinstance(t := getattr(config, key, None), int)), None)
        given = {key: value for key, value in arguments.items() if any(part in key for part in keys)}
        if token is None or not given or tower is None:
            continue
        taken = inspect.signature(tower).parameters
        count = _positions(tower(**{k: v for k, v in given.items() if k in taken or "kwargs" in taken}))
        if as_many:
            more = torch.zeros(len(ids), count, dtype=torch.long)
            ids, kinds = torch.cat((ids, more), 1), torch.cat((kinds, more), 1)
        ids[:, at : at + count], kinds[:, at : at + count] = token, kind
        at += count
    typed = at > 1 and "mm_token_type_ids" in inspect.signature(model.forward).parameters
    return {"input_ids": ids, **({"mm_token_type_ids": kinds} if typed else {})}


def _positions(features: Operand) -> int:
    """Number of vectors of features, in whatever they are returned."""
    if hasattr(features, "pooler_output"):
        pooled = features.pooler_output
        return _positions(features.last_hidden_state if pooled is None else pooled)
    if isinstance(features, (list, tuple)):
        return sum(_positions(each) for each in features)
    return prod(features.shape[:-1])


# -- usual inputs ------------------------------------------------------------------------------------------------------
def usual_inputs(model: nn.Module, raw: Mapping[str, Operand]) -> Iterator[dict[str, Operand]]:
    """Inputs to try, the fullest first, by the arguments that the code takes and the sizes that the config has."""
    model = _that_runs(model)
    taken = inspect.signature(model.forward).parameters
    vision, sound = raw.get("vision_config") or {}, raw.get("audio_config") or {}
    sizes = {**raw, **vision, **sound}
    side = sizes.get("image_size") or sizes.get("sample_size") or USUAL["side"]
    across, down = side if isinstance(side, (list, tuple)) else (side, side)
    channels = sizes.get("num_channels") or sizes.get("in_channels") or 3
    text = {**raw, **(raw.get("text_config") or {})}
    words: dict[str, Operand] = {}
    if "input_ids" in taken:
        words["input_ids"] = (1, min(USUAL["tokens"], text.get("max_position_embeddings") or USUAL["tokens"]))
    if "decoder_input_ids" in taken and raw.get("is_encoder_decoder"):
        words["decoder_input_ids"] = (1, 1)
    heard: list[dict[str, Operand]] = []
    if "input_features" in taken:
        spectra: dict[str, Operand] = {"input_features": (1, sizes.get("num_mel_bins") or 80, USUAL["frames"])}
        if "input_features_mask" in taken:
            spectra["input_features_mask"] = (1, USUAL["frames"])
        heard.append(spectra)
    if "input_values" in taken:
        heard.append({"input_values": (1, USUAL["samples"])})
    others = dict(_denoised(taken, sizes)) if "timestep" in taken else {}
    images: list[dict[str, Operand]] = []
    if "pixel_values" in taken:
        images = [{"pixel_values": (1, channels, across, down)}]
        if "image_sizes" in taken:
            images.append({**images[0], "image_sizes": [[across, down]]})
        if "image_grid_thw" in taken and isinstance(patch := vision.get("patch_size"), int):
            width = (vision.get("in_channels") or channels) * (vision.get("temporal_patch_size") or 1) * patch**2
            images = [{"pixel_values": (ROWS * COLUMNS, width), "image_grid_thw": [[1, ROWS, COLUMNS]]}]
    if "pixel_values_videos" in taken and "input_ids" not in taken:
        frames = sizes.get("frames_per_clip") or sizes.get("num_frames") or USUAL["pictures"]
        images.append({"pixel_values_videos": (1, frames, channels, across, down)})
    for seen in (*images, {}):
        yield from ({**words, **seen, **sound, **others} for sound in (*heard, {}) if words or seen or sound or others)
    yield from heard if words else ()


ROWS, COLUMNS = 32, 24
"""Patches of a usual image, where the code takes any number."""
WIDTHS = ("joint_attention_dim", "cross_attention_dim", "text_embed_dim", "text_dim", "caption_channels")
"""Keys of the width of a text that a denoiser reads, in configs of diffusers."""


def _denoised(taken: Mapping[str, Operand], sizes: Mapping[str, Operand]) -> Iterator[tuple[str, Sequence[int]]]:
    """InputShapes of the latents and the text of a denoiser of diffusers: a small image or video."""
    channels, side, tokens = sizes.get("in_channels") or 4, 64, USUAL["tokens"]
    latents = "hidden_states" if "hidden_states" in taken else "sample"
    patches, video = side * side // 4, "rope_max_seq_len" in sizes or "patch_size_t" in sizes
    packed = "img_ids" in taken or "img_shapes" in taken
    yield latents, (1, patches, channels) if packed else (1, channels, *((5,) if video else ()), side, side)
    yield "timestep", (1,)
    width = next((sizes[key] for key in WIDTHS if isinstance(sizes.get(key), int)), None)
    if "encoder_hidden_states" in taken and width is not None:
        yield "encoder_hidden_states", (1, tokens, width)
    if "pooled_projections" in taken and sizes.get("pooled_projection_dim"):
        yield "pooled_projections", (1, sizes["pooled_projection_dim"])
    if "img_ids" in taken:
        yield from (("img_ids", (patches, 3)), ("txt_ids", (tokens, 3)))
    if "guidance" in taken and sizes.get("guidance_embeds"):
        yield "guidance", (1,)
