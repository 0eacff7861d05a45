"""Images as tokens of a prompt: how many one of so many pixels becomes, for models whose config states how.

The rule follows from `model_type`, the sizes from the config: patches, how many of them are merged, tiles. Limits that
a config does not hold are those of the published checkpoints' `preprocessor_config.json`. Markers that the processor
puts around an image are counted. What images are resized by: the models' processors in huggingface/transformers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, floor, sqrt
from typing import Annotated, ClassVar, Protocol

from roofline.declared.checks import integer
from roofline.declared.errors import InputError
from roofline.declared.kinds import ImageSize, Whole
from roofline.declared.question import group
from roofline.declared.result import Figured, Units
from roofline.declared.spelling import pixels_named
from roofline.declared.trees import JsonObject

LARGEST_SIDE = 2**16
"""Pixels of a side."""
MOST_IMAGES = 1024
"""Images of a request."""


class ImageRule(Protocol):
    """How an image becomes tokens."""

    def tokens(self, width: int, height: int) -> int:
        """Tokens of an image of so many pixels. Raises InputError for one that the model does not take."""


@dataclass(frozen=True)
class FixedImage:
    """Every image is resized to one size, and has as many tokens."""

    number: int

    def tokens(self, width: int, height: int) -> int:
        return self.number


@dataclass(frozen=True)
class MergedPatches:
    """Sides are rounded to multiples of `side` pixels, each square of which is a token; one marker at either end.

    Where that is beyond `most` pixels, or below `least`, both sides are scaled by the square root of the ratio, and
    rounded down, or up.
    """

    side: int
    least: int
    most: int
    NARROWEST: ClassVar[int] = 200

    def tokens(self, width: int, height: int) -> int:
        if max(width, height) > self.NARROWEST * min(width, height):
            raise InputError("image size", f"{width}x{height}", f"sides of at most {self.NARROWEST} to 1")
        side, sides = self.side, (width, height)
        across, down = (round(n / side) for n in sides)
        if across * down * side * side > self.most:
            scale = sqrt(width * height / self.most)
            across, down = (max(1, floor(n / scale / side)) for n in sides)
        elif across * down * side * side < self.least:
            scale = sqrt(self.least / (width * height))
            across, down = (ceil(n * scale / side) for n in sides)
        return across * down + 2


@dataclass(frozen=True)
class PatchRows:
    """Squares of `side` pixels, begun ones included, and a marker at the end of each row.

    An image whose longer side is beyond `longest` is scaled down to it.
    """

    side: int
    longest: int

    def tokens(self, width: int, height: int) -> int:
        ratio = max(width, height) / self.longest
        if ratio > 1:
            width, height = (max(1, floor(n / ratio)) for n in (width, height))
        return -(-height // self.side) * (-(-width // self.side) + 1)


@dataclass(frozen=True)
class ImageTiles:
    """Up to `most` tiles of `side` pixels, `each` tokens in each, and one more of the whole image where it has several.

    Of the grids on which the image is scaled up least, else of those on which it is scaled down least, the smallest. A
    marker follows every tile of several; three are around the whole image.
    """

    side: int
    each: int
    most: int

    def grid(self, width: int, height: int) -> tuple[int, int]:
        """Tiles across and down."""
        numbers = range(1, self.most + 1)
        grids = [(across, down) for across in numbers for down in numbers if across * down <= self.most]

        def scale(grid: tuple[int, int]) -> int:
            """By which sides grow, times the image's area: a whole number."""
            return min(grid[0] * self.side * height, grid[1] * self.side * width)

        larger = [scale(g) for g in grids if scale(g) >= width * height]
        chosen = min(larger) if larger else max(map(scale, grids))
        return min((g for g in grids if scale(g) == chosen), key=lambda g: g[0] * g[1])

    def tokens(self, width: int, height: int) -> int:
        across, down = self.grid(width, height)
        tiles = across * down if across * down > 1 else 0
        return tiles * (self.each + 1) + self.each + 3


MERGED = dict.fromkeys(("qwen2_vl", "qwen2_5_vl"), (4 * 28 * 28, 16384 * 28 * 28)) | dict.fromkeys(
    ("qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe"), (256 * 256, 4096 * 4096)
)
"""Fewest and most pixels, by the published checkpoints' `preprocessor_config.json`."""
AROUND = 4
"""Around an image of Gemma 3: its begin, its end, and an empty line before and after."""
TILES = 16
"""Most tiles of an image of Llama 4."""
PIXTRAL_LONGEST = 1024
"""Pixels of the longer side of an image of Pixtral, by its `preprocessor_config.json`."""
STATED = "Qwen-VL, Qwen3.5, Gemma 3, Llama 4, Mistral 3, Pixtral, LLaVA 1.5"
"""Models whose rules are known."""


def image_rule(raw: JsonObject) -> ImageRule | None:
    """The rule of a config's model; None where none is known or sizes are missing."""
    vision = raw.get("vision_config")
    kind = raw.get("model_type")
    if not isinstance(vision, Mapping) or not isinstance(kind, str):
        return None
    inner = vision.get("model_type")
    patch, side, merged = _size(vision, "patch_size"), _size(vision, "image_size"), _size(raw, "spatial_merge_size")
    if kind in MERGED:
        merged = _size(vision, "spatial_merge_size")
        return MergedPatches(patch * merged, *MERGED[kind]) if patch and merged else None
    if kind == "gemma3":
        number = _size(raw, "mm_tokens_per_image")
        return FixedImage(number + AROUND) if number else None
    if kind == "mistral3":
        return PatchRows(patch * merged, side) if patch and side and merged else None
    if kind == "llama4":
        ratio = vision.get("pixel_shuffle_ratio")
        if not patch or not side or not isinstance(ratio, float) or not 0 < ratio <= 1:
            return None
        return ImageTiles(side, (side // patch) ** 2 // round(1 / ratio**2), TILES)
    if kind == "llava" and inner == "pixtral":
        return PatchRows(patch, PIXTRAL_LONGEST) if patch else None
    if kind == "llava" and inner == "clip_vision_model" and raw.get("vision_feature_select_strategy") == "default":
        return FixedImage((side // patch) ** 2) if patch and side else None
    return None


def _size(raw: JsonObject, key: str) -> int:
    """A size that is there; 0 where it is not, or is none."""
    number = integer(raw.get(key))
    return number if number is not None and 0 < number <= LARGEST_SIDE else 0


@group
@dataclass(frozen=True)
class Images:
    """So many images of so many pixels in every request. Raises InputError out of range."""

    number: int
    width: int
    height: int

    def __post_init__(self) -> None:
        for name, most in (("number", MOST_IMAGES), ("width", LARGEST_SIDE), ("height", LARGEST_SIDE)):
            value = integer(getattr(self, name))
            if value is None or not 1 <= value <= most:
                raise InputError(f"images.{name}", getattr(self, name), f"a whole number from 1 to {most}")

    @classmethod
    def asked(
        cls,
        *,
        images: Annotated[
            Whole | None,
            "Images in every request, whose tokens come on top of its prompt. Encoding them is not counted.",
        ] = None,
        image_size: Annotated[ImageSize | None, "Width and height of each, such as `1024x768`."] = None,
    ) -> Images:
        """Images as settings. Raises InputError for one without the other, and for other sizes."""
        if images is None:
            raise InputError("image_size", image_size, "images beside it")
        if image_size is None:
            raise InputError("images", images, "image_size beside it, such as 1024x768")
        return cls(images, *pixels_named("image_size", image_size))


@dataclass(frozen=True)
class ImageTokens(Figured):
    """Images of a request, and the tokens of each: a part of its prompt. What encodes them is not counted."""

    FIGURES: ClassVar[Units] = dict.fromkeys(("number", "width", "height", "each", "tokens"), "")

    number: int
    width: int
    height: int
    each: int

    @property
    def tokens(self) -> int:
        """Tokens of all of them."""
        return self.number * self.each

    @property
    def text(self) -> str:
        """In words."""
        images = f"{self.number} image{'s' if self.number > 1 else ''} of {self.width}x{self.height}"
        return f"{images}, {self.each} tokens each; encoding them is not counted"


def image_tokens(rule: ImageRule | None, name: str, images: Images) -> ImageTokens:
    """What images become under the rule of the model of that name. Raises InputError where it has none."""
    if rule is None:
        raise InputError("images", name, f"a model whose rule is known: {STATED}")
    each = rule.tokens(images.width, images.height)
    return ImageTokens(images.number, images.width, images.height, each)
