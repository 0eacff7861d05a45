"""Number of prompt tokens of an image by its size in pixels, for models whose config determines it.

`model_type` selects the rule and the config gives the sizes: patches, merging, tiles. Limits missing from the config
are those of the published checkpoints' `preprocessor_config.json`. Markers that the processor puts around an image are
counted. Source of the resizing rules: the models' processors in huggingface/transformers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import ceil, floor, prod, sqrt
from typing import Annotated, ClassVar, Protocol, TypeAlias

from roofline.declared.checks import integer
from roofline.declared.errors import InputError
from roofline.declared.kinds import ImageSize, Seconds, Whole
from roofline.declared.numbers.spelling import pixels_named, seconds_named
from roofline.declared.numbers.units import counted
from roofline.declared.question import group
from roofline.declared.result import Figured, Units
from roofline.declared.trees import JsonObject
from roofline.model.media.sound import HEARD, LONGEST_SECONDS, SOUND, Heard

IMAGES = "images"
"""The stream of images and videos."""

LARGEST_SIDE = 2**16
"""Most pixels of a side."""
MOST_IMAGES = 1024
"""Most images of a request."""


class ImageRule(Protocol):
    """Rule that gives the number of tokens of an image."""

    def tokens(self, width: int, height: int) -> int:
        """Tokens of an image of `width` × `height` pixels. Raises InputError if the model does not accept the size."""

    def patches(self, width: int, height: int) -> tuple[int, int]:
        """Positions of each input of the vision tower, and the number of inputs that the image is cut into."""


@dataclass(frozen=True)
class FixedImage:
    """Every image is resized to one size, `seen` by the tower in as many positions, and has the same tokens."""

    number: int
    seen: int = 0

    def tokens(self, width: int, height: int) -> int:
        return self.number

    def patches(self, width: int, height: int) -> tuple[int, int]:
        return self.seen or self.number, 1


@dataclass(frozen=True)
class MergedPatches:
    """Sides are rounded to multiples of `side` pixels, and each square of that side is a token; plus two markers.

    A square has `merged` patches on each side. If the area is above `most` or below `least` pixels, both sides are
    scaled by the square root of the ratio and rounded down or up, respectively. `video`: the limits of a video's
    frames, where they are known.
    """

    side: int
    least: int
    most: int
    merged: int = 2
    video: FrameLimits | None = None
    NARROWEST: ClassVar[int] = 200

    def tokens(self, width: int, height: int) -> int:
        return prod(self.squares(width, height)) + 2

    def patches(self, width: int, height: int) -> tuple[int, int]:
        return prod(self.squares(width, height)) * self.merged**2, 1

    def filmed(self, frames: int) -> FramePairs | None:
        """The rule of a video of so many frames; None where its limits are not known."""
        if self.video is None:
            return None
        still = replace(self, least=self.video.least, most=self.video.most, video=None)
        return FramePairs(still, frames, self.video.shared, self.video.marked)

    def squares(self, width: int, height: int, frames: int = 1) -> tuple[int, int]:
        """Squares across and down of each of `frames` that share the limits. Raises InputError if it is too narrow."""
        if max(width, height) > self.NARROWEST * min(width, height):
            raise InputError("image size", f"{width}x{height}", f"sides of at most {self.NARROWEST} to 1")
        side, sides = self.side, (width, height)
        across, down = (round(n / side) for n in sides)
        even = frames if frames == 1 else 2 * round(frames / 2)
        if even * across * down * side * side > self.most:
            scale = sqrt(frames * width * height / self.most)
            across, down = (max(1, floor(n / scale / side)) for n in sides)
        elif even * across * down * side * side < self.least:
            scale = sqrt(self.least / (frames * width * height))
            across, down = (ceil(n * scale / side) for n in sides)
        return across, down


@dataclass(frozen=True)
class FrameLimits:
    """Fewest and most pixels of a frame, or of all frames together where they are `shared`.

    `marked`: two markers around each pair of frames, not around the whole.
    """

    least: int
    most: int
    shared: bool = False
    marked: bool = False


@dataclass(frozen=True)
class FramePairs:
    """A video's frames in pairs, each of which the tower sees as one image (Qwen-VL).

    The last frame of an odd number is taken twice. Words that give the time of a pair are part of the prompt.
    """

    still: MergedPatches
    frames: int
    shared: bool
    marked: bool

    @property
    def pairs(self) -> int:
        """Pairs of frames."""
        return -(-self.frames // 2)

    def tokens(self, width: int, height: int) -> int:
        return self.pairs * prod(self.squares(width, height)) + 2 * (self.pairs if self.marked else 1)

    def patches(self, width: int, height: int) -> tuple[int, int]:
        return prod(self.squares(width, height)) * self.still.merged**2, self.pairs

    def squares(self, width: int, height: int) -> tuple[int, int]:
        """Squares across and down of a pair."""
        return self.still.squares(width, height, self.frames if self.shared else 1)


@dataclass(frozen=True)
class PatchRows:
    """A token for each square of `side` pixels, partial squares included, and a marker at the end of each row.

    An image whose longer side exceeds `longest` pixels is scaled down to it. A square has `merged` patches on each
    side.
    """

    side: int
    longest: int
    merged: int = 1

    def tokens(self, width: int, height: int) -> int:
        across, down = self.squares(width, height)
        return down * (across + 1)

    def patches(self, width: int, height: int) -> tuple[int, int]:
        return prod(self.squares(width, height)) * self.merged**2, 1

    def squares(self, width: int, height: int) -> tuple[int, int]:
        """Squares across and down."""
        ratio = max(width, height) / self.longest
        if ratio > 1:
            width, height = (max(1, floor(n / ratio)) for n in (width, height))
        return -(-width // self.side), -(-height // self.side)


@dataclass(frozen=True)
class ImageTiles:
    """Up to `most` tiles of `side` pixels with `each` tokens per tile; if several, also the whole image as one tile.

    The grid is the one that scales the image up least, else the one that scales it down least; of equal grids, the
    smallest. With several tiles, a marker follows each of them; the whole image has three markers.
    """

    side: int
    each: int
    most: int
    seen: int = 0

    def grid(self, width: int, height: int) -> tuple[int, int]:
        """Tiles across and down."""
        numbers = range(1, self.most + 1)
        grids = [(across, down) for across in numbers for down in numbers if across * down <= self.most]

        def scale(grid: tuple[int, int]) -> int:
            """Scale factor of the sides on this grid, times the image's area: a whole number."""
            return min(grid[0] * self.side * height, grid[1] * self.side * width)

        larger = [scale(g) for g in grids if scale(g) >= width * height]
        chosen = min(larger) if larger else max(map(scale, grids))
        return min((g for g in grids if scale(g) == chosen), key=lambda g: g[0] * g[1])

    def tokens(self, width: int, height: int) -> int:
        across, down = self.grid(width, height)
        tiles = across * down if across * down > 1 else 0
        return tiles * (self.each + 1) + self.each + 3

    def patches(self, width: int, height: int) -> tuple[int, int]:
        across, down = self.grid(width, height)
        return self.seen or self.each, across * down + (across * down > 1)


@dataclass(frozen=True)
class ClosestTiles:
    """Tiles of `side` pixels on the grid, of `least` to `most` tiles, whose ratio of sides is closest to the image's.

    With several tiles the whole image is one more. A tile has `each` tokens, `seen` by the tower as that many
    positions; `around`: markers around the image, `between`: after each tile but the whole (InternVL, Aya Vision).
    """

    side: int
    each: int
    seen: int
    most: int
    least: int = 1
    around: int = 2
    between: int = 0
    whole: bool = True

    def grid(self, width: int, height: int) -> tuple[int, int]:
        """Tiles across and down: of equally close grids the larger, while its tiles have at most twice the pixels."""
        numbers = range(1, self.most + 1)
        grids = [(a, d) for a in numbers for d in numbers if self.least <= a * d <= self.most]
        best, off = (1, 1), float("inf")
        for across, down in sorted(grids, key=prod):
            away = abs(width / height - across / down)
            if away < off or (away == off and 2 * width * height > self.side**2 * across * down):
                best, off = (across, down), away
        return best

    def tiles(self, width: int, height: int) -> int:
        """Tiles, the whole image among them."""
        number = prod(self.grid(width, height))
        return number + (self.whole and number > 1)

    def tokens(self, width: int, height: int) -> int:
        number = self.tiles(width, height)
        return number * self.each + (number - 1) * self.between + self.around

    def patches(self, width: int, height: int) -> tuple[int, int]:
        return self.seen, self.tiles(width, height)


@dataclass(frozen=True)
class SplitRows:
    """The image scaled until its longer side is `longest` pixels, in tiles of `side`, and the whole as one more.

    A tile has `each` tokens and two markers, a row of tiles one, the whole image three (Idefics 3, SmolVLM).
    """

    side: int
    longest: int
    each: int
    seen: int

    def grid(self, width: int, height: int) -> tuple[int, int]:
        """Tiles across and down. The shorter side is rounded up to an even number of pixels."""
        longer, shorter = max(width, height), min(width, height)
        other = self.longest * shorter / longer if height > width else self.longest / (width / height)
        even = max(1, int(other)) + int(other) % 2
        across, down = (-(-n // self.side) for n in (self.longest, even))
        return (across, down) if width >= height else (down, across)

    def tokens(self, width: int, height: int) -> int:
        across, down = self.grid(width, height)
        rows = down * ((self.each + 2) * across + 1) if across * down > 1 else 0
        return rows + self.each + 3

    def patches(self, width: int, height: int) -> tuple[int, int]:
        number = prod(self.grid(width, height))
        return self.seen, number + 1 if number > 1 else 1


@dataclass(frozen=True)
class AnyResolution:
    """Tiles of `side` pixels that fill the best of `sizes` (height, width), and the whole image as one more tile.

    The best size keeps most pixels of the image, and of those that keep as many wastes least. A tile has `edge` tokens
    on a side; those of padding are left out, and a marker ends each row (LLaVA-NeXT). More than 1.21 × `most` tiles
    are scaled down to it (LLaVA-OneVision). `seen`: positions of a tile in the tower.
    """

    side: int
    edge: int
    seen: int
    sizes: tuple[tuple[int, int], ...]
    most: int | None = None

    def best(self, width: int, height: int) -> tuple[int, int]:
        """Height and width of the canvas."""

        def kept(size: tuple[int, int]) -> tuple[int, int]:
            scale = min(size[1] / width, size[0] / height)
            pixels = min(int(width * scale) * int(height * scale), width * height)
            return -pixels, size[0] * size[1] - pixels

        return min(self.sizes, key=kept)

    def tokens(self, width: int, height: int) -> int:
        high, wide = self.best(width, height)
        rows, columns = high // self.side * self.edge, wide // self.side * self.edge
        if width / height > columns / rows:
            rows -= (rows - int(round(height * columns / width, 7))) // 2 * 2
        else:
            columns -= (columns - int(round(width * rows / height, 7))) // 2 * 2
        ratio = 1.0 if self.most is None else sqrt(rows * columns / (self.most * self.edge**2))
        if ratio > 1.1:
            rows, columns = int(rows // ratio), int(columns // ratio)
        return rows * columns + rows + self.edge**2

    def patches(self, width: int, height: int) -> tuple[int, int]:
        high, wide = self.best(width, height)
        return self.seen, (high // self.side) * (wide // self.side) + 1


MERGED = (
    dict.fromkeys(("qwen2_vl", "qwen2_5_vl"), (4 * 28 * 28, 16384 * 28 * 28))
    | dict.fromkeys(("qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe"), (256 * 256, 4096 * 4096))
    | dict.fromkeys(("glm4v", "glm4v_moe"), (112 * 112 // 2, 28 * 28 * 15000 // 2))  # an image is two frames
    | {
        "ernie4_5_vl_moe": (56 * 56, 28 * 28 * 6177),
        "paddleocr_vl": (384 * 384, 1536 * 1536),
        "dots_ocr": (56 * 56, 28 * 28 * 14400),
    }
)
"""Fewest and most pixels of an image, by the published checkpoints' `preprocessor_config.json`, or where the code of
the processor has them."""
FRAMES = dict.fromkeys(("qwen2_vl", "qwen2_5_vl"), FrameLimits(128 * 28 * 28, 768 * 28 * 28)) | dict.fromkeys(
    ("qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe"), FrameLimits(4096, 25_165_824, shared=True, marked=True)
)
"""Limits of a video's frames: of Qwen2-VL by its processor, of Qwen3-VL by `video_preprocessor_config.json`."""
FILMED = "Qwen2-VL, Qwen2.5-VL, Qwen3-VL, Qwen3.5"
"""Models whose rules of videos are known."""
MOST_FRAMES = 2**16
"""Most frames of a video."""
SPLIT = 4
"""Tiles along the longer side of an Idefics 3 or SmolVLM image."""
DYNAMIC = 12
"""Most tiles of an InternVL image where the config does not say."""
ONEVISION = 9
"""Most tiles of a LLaVA-OneVision image where the config does not say."""
AROUND = 4
"""Tokens around an image of Gemma 3: begin, end, and an empty line before and after."""
TILES = 16
"""Most tiles of a Llama 4 image."""
PIXTRAL_LONGEST = 1024
"""Longest side of a Pixtral image in pixels, by its `preprocessor_config.json`."""
PINPOINTS = ((336, 672), (672, 336), (672, 672), (1008, 336), (336, 1008))
"""Sizes that a LLaVA-NeXT image is fitted to, where the config does not say."""
STATED = (
    "Qwen-VL, Qwen3.5, Gemma 3 and 3n, PaliGemma, Llama 4, Mistral 3, Pixtral, LLaVA 1.5, LLaVA-NeXT, "
    "LLaVA-OneVision, InternVL, Aya Vision, Idefics 3, SmolVLM, GLM-4.5V, ERNIE 4.5 VL, PaddleOCR-VL, dots.ocr"
)
"""Models whose rules are known."""


@dataclass(frozen=True)
class VisionSizes:
    """What a rule reads of a config: all of it, and the section of its vision tower."""

    raw: JsonObject
    vision: JsonObject

    @property
    def patch(self) -> int:
        """Pixels of a patch's side; 0 where the config does not say."""
        return _size(self.vision, "patch_size")

    @property
    def side(self) -> int:
        """Pixels of a side of what the tower reads; 0 where the config does not say."""
        return _size(self.vision, "image_size")

    @property
    def edge(self) -> int:
        """Patches along that side; 0 where one of both is missing."""
        return self.side // self.patch if self.patch else 0

    def share(self, raw: JsonObject, key: str, default: float | None = None) -> int:
        """Patches that become one token, by the factor on each side; 0 where it is none."""
        ratio = raw.get(key, default)
        return round(1 / ratio**2) if isinstance(ratio, float) and 0 < ratio <= 1 else 0


MakeRule: TypeAlias = Callable[[VisionSizes], ImageRule | None]
RULES: dict[str, MakeRule] = {}
"""Type of a config → the rule of its images; None where sizes are missing."""


def rule_of(*model_types: str) -> Callable[[MakeRule], MakeRule]:
    """Register the rule of some model types."""

    def register(make: MakeRule) -> MakeRule:
        RULES.update(dict.fromkeys(model_types, make))
        return make

    return register


def image_rule(raw: JsonObject) -> ImageRule | None:
    """The image rule of a config's model; None if no rule is known or sizes are missing."""
    vision, make = raw.get("vision_config"), RULES.get(str(raw.get("model_type")))
    return None if make is None or not isinstance(vision, Mapping) else make(VisionSizes(raw, vision))


@rule_of(*MERGED)
def _merged_patches(s: VisionSizes) -> ImageRule | None:
    merged = _size(s.vision, "spatial_merge_size") or _size(s.raw, "spatial_merge_size") or 2
    kind = str(s.raw["model_type"])
    return MergedPatches(s.patch * merged, *MERGED[kind], merged, FRAMES.get(kind)) if s.patch else None


@rule_of("gemma3", "gemma3n")
def _gemma3(s: VisionSizes) -> ImageRule | None:
    number = _size(s.raw, "mm_tokens_per_image") or _size(s.raw, "vision_soft_tokens_per_image")
    return FixedImage(number + AROUND, s.edge**2) if number else None


@rule_of("paligemma")
def _paligemma(s: VisionSizes) -> ImageRule | None:
    return FixedImage(s.edge**2) if s.edge else None


@rule_of("mistral3")
def _mistral3(s: VisionSizes) -> ImageRule | None:
    merged = _size(s.raw, "spatial_merge_size")
    return PatchRows(s.patch * merged, s.side, merged) if s.edge and merged else None


@rule_of("llama4")
def _llama4(s: VisionSizes) -> ImageRule | None:
    each = s.share(s.vision, "pixel_shuffle_ratio")
    return ImageTiles(s.side, s.edge**2 // each, TILES, s.edge**2 + 1) if s.edge and each else None


@rule_of("llava")
def _llava(s: VisionSizes) -> ImageRule | None:
    inner, strategy = s.vision.get("model_type"), s.raw.get("vision_feature_select_strategy")
    if inner == "pixtral" and s.patch:
        return PatchRows(s.patch, PIXTRAL_LONGEST)
    fixed = inner == "clip_vision_model" and strategy == "default" and s.edge
    return FixedImage(s.edge**2, s.edge**2 + 1) if fixed else None


@rule_of("llava_next")
def _llava_next(s: VisionSizes) -> ImageRule | None:
    clip = s.vision.get("model_type") == "clip_vision_model"
    return _any_resolution(s, s.edge**2 + 1) if s.edge and clip else None


@rule_of("llava_onevision")
def _llava_onevision(s: VisionSizes) -> ImageRule | None:
    stated = str(s.raw.get("vision_aspect_ratio", "")).removeprefix("anyres_max_")
    return _any_resolution(s, s.edge**2, int(stated) if stated.isdecimal() else ONEVISION) if s.edge else None


def _any_resolution(s: VisionSizes, seen: int, most: int | None = None) -> AnyResolution | None:
    """LLaVA's rule; None where a size that images are fitted to is smaller than a tile."""
    given = s.raw.get("image_grid_pinpoints")
    pairs = [p for p in given if isinstance(p, list) and len(p) == 2] if isinstance(given, list) else []
    sizes = tuple((integer(p[0]) or 0, integer(p[1]) or 0) for p in pairs) or PINPOINTS
    return AnyResolution(s.side, s.edge, seen, sizes, most) if all(min(size) >= s.side for size in sizes) else None


@rule_of("idefics3", "smolvlm")
def _idefics3(s: VisionSizes) -> ImageRule | None:
    factor = _size(s.raw, "scale_factor") or 2
    return SplitRows(s.side, SPLIT * s.side, s.edge**2 // factor**2, s.edge**2) if s.edge else None


@rule_of("aya_vision")
def _aya_vision(s: VisionSizes) -> ImageRule | None:
    each = s.edge**2 // (_size(s.raw, "downsample_factor") or 2) ** 2
    return ClosestTiles(s.side, each, s.edge**2, DYNAMIC, around=3, between=1) if s.edge else None


@rule_of("internvl", "internvl_chat", "h2ovl_chat", "skywork_chat")
def _internvl(s: VisionSizes) -> ImageRule | None:
    share, whole = s.share(s.raw, "downsample_ratio", 0.5), s.raw.get("use_thumbnail", True) is True
    most = (_size(s.raw, "max_dynamic_patch") or DYNAMIC) if s.raw.get("dynamic_image_size", True) else 1
    return ClosestTiles(s.side, s.edge**2 // share, s.edge**2 + 1, most, whole=whole) if s.edge and share else None


def _size(raw: JsonObject, key: str) -> int:
    """The size under `key`; 0 if it is missing or invalid."""
    number = integer(raw.get(key))
    return number if number is not None and 0 < number <= LARGEST_SIDE else 0


@group
@dataclass(frozen=True)
class Images:
    """What every request has beside its text: images and sound. Raises InputError out of range.

    `number` of images, their `width` and `height` in pixels; `frames`: of each, which is a video if they are several.
    `audio`: seconds of a recording, 0 for none.
    """

    number: int = 0
    width: int = 0
    height: int = 0
    frames: int = 1
    audio: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.audio <= LONGEST_SECONDS:
            raise InputError("audio", self.audio, f"seconds from 0 to {LONGEST_SECONDS:g}")
        if self.audio and (self.number, self.width, self.height, self.frames) == (0, 0, 0, 1):
            return
        sides = ("width", LARGEST_SIDE), ("height", LARGEST_SIDE)
        for name, most in (("number", MOST_IMAGES), *sides, ("frames", MOST_FRAMES)):
            value = integer(getattr(self, name))
            if value is None or not 1 <= value <= most:
                raise InputError(f"images.{name}", getattr(self, name), f"a whole number from 1 to {most}")

    @classmethod
    def asked(
        cls,
        *,
        images: Annotated[
            Whole | None,
            "Images in every request, whose tokens come on top of its prompt; the vision tower encodes them first.",
        ] = None,
        image_size: Annotated[ImageSize | None, "Width and height of each, such as `1024x768`."] = None,
        frames: Annotated[Whole | None, "Frames of each, sampled before; several make it a video (1)."] = None,
        audio: Annotated[
            Seconds | None,
            "Length of a recording in every request, such as `30s`; its tokens add to its prompt.",
        ] = None,
    ) -> Images:
        """Build from settings. Raises InputError for one setting without the other, and for invalid sizes."""
        seconds = 0.0 if audio is None else seconds_named("audio", audio)
        if images is None and image_size is None and frames is None:
            return cls(audio=seconds)
        if images is None and image_size is None:
            raise InputError("frames", frames, "images and image_size as well")
        if images is None:
            raise InputError("image_size", image_size, "images as well")
        if image_size is None:
            raise InputError("images", images, "image_size as well, such as 1024x768")
        return cls(images, *pixels_named("image_size", image_size), 1 if frames is None else frames, seconds)


@dataclass(frozen=True)
class Encoded:
    """What a tower reads of a request: `number` of images or recordings, each of `inputs` inputs of `positions`.

    `tokens`: of each in the prompt.
    """

    stream: str
    number: int
    tokens: int
    positions: int
    inputs: int


@dataclass(frozen=True)
class ImageTokens(Figured):
    """Images and sound of a request, and their tokens, which are part of its prompt.

    A vision tower encodes each image as `inputs` inputs of `positions` patches, an audio tower the recording of `audio`
    seconds as `audio_inputs` of `audio_positions`; without a tower that is counted, both are 0.
    """

    FIGURES: ClassVar[Units] = {
        **dict.fromkeys(("number", "width", "height", "frames", "each", "tokens", "positions", "inputs"), ""),
        "audio": "s",
        **dict.fromkeys(("audio_tokens", "audio_positions", "audio_inputs"), ""),
    }

    number: int
    width: int
    height: int
    each: int
    positions: int = 0
    inputs: int = 0
    frames: int = 1
    audio: float = 0.0
    audio_tokens: int = 0
    audio_positions: int = 0
    audio_inputs: int = 0

    @property
    def tokens(self) -> int:
        """Tokens of all images of a request, and of its recording."""
        return self.number * self.each + self.audio_tokens

    @property
    def encoded(self) -> tuple[Encoded, ...]:
        """What towers that are counted read."""
        seen = Encoded(IMAGES, self.number, self.each, self.positions, self.inputs)
        heard = Encoded(SOUND, 1, self.audio_tokens, self.audio_positions, self.audio_inputs)
        return tuple(part for part in (seen, heard) if part.number * part.inputs)

    @property
    def text(self) -> str:
        """Description in words."""
        return " and ".join((*self._seen(), *self._heard()))

    def _seen(self) -> list[str]:
        if not self.number:
            return []
        what = counted(self.number, "image" if self.frames == 1 else "video")
        images = f"{what} of {'' if self.frames == 1 else f'{self.frames} frames of '}{self.width}x{self.height}"
        encoded = f"{self.inputs * self.positions} patches" if self.inputs else "encoding them is not counted"
        return [f"{images}, {self.each} tokens each; {encoded}"]

    def _heard(self) -> list[str]:
        if not self.audio:
            return []
        encoded = counted(self.audio_inputs * self.audio_positions, "position")
        encoded = encoded if self.audio_inputs else "encoding it is not counted"
        return [f"{self.audio:g} s of sound, {self.audio_tokens} tokens; {encoded}"]


def image_tokens(
    rule: ImageRule | None, name: str, images: Images, sees: bool = False, heard: Heard | None = None, hears: int = 0
) -> ImageTokens:
    """Tokens of images and sound under a model's rules, and what its towers read; `name` names it in errors.

    `sees`: whether a vision tower is counted. `heard`: what the recording becomes; `hears`: positions that the audio
    tower reads of a piece, 0 without one. Raises InputError if there is no rule.
    """
    beside = ImageTokens(0, 0, 0, 0)
    if images.audio:
        if heard is None:
            raise InputError("audio", name, f"a model whose tokens per second of sound are known: {HEARD}")
        beside = replace(
            beside, audio=images.audio, audio_tokens=heard.tokens, audio_positions=hears,
            audio_inputs=heard.pieces if hears else 0,
        )  # fmt: skip
    if not images.number:
        return beside
    size = images.width, images.height
    if rule is None:
        raise InputError("images", name, f"a model whose rule is known: {STATED}")
    if images.frames > 1:
        filmed = rule.filmed(images.frames) if isinstance(rule, MergedPatches) else None
        if filmed is None:
            raise InputError("frames", images.frames, f"1, or a model whose rule of videos is known: {FILMED}")
        rule = filmed
    positions, inputs = rule.patches(*size) if sees else (0, 0)
    return replace(
        beside, number=images.number, width=images.width, height=images.height, each=rule.tokens(*size),
        positions=positions, inputs=inputs, frames=images.frames,
    )  # fmt: skip
