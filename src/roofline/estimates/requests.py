"""What a server is asked to answer: a load, its images as tokens of the prompts, and what drafts the answers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from roofline.declared.groups import Load
from roofline.declared.maths import Count, is_array
from roofline.declared.result import Units
from roofline.estimates.drafting import Drafting
from roofline.estimates.generate import Speculation
from roofline.estimates.settings import Deployed, Setup
from roofline.model.images import Images, ImageTokens, image_tokens
from roofline.model.model import Model

LENGTHS: Units = dict.fromkeys(("input", "output"), "")
"""Figures of every answer about requests."""


@dataclass(frozen=True)
class ServedLoad:
    """The requests of a load; `images`: those of each request, whose tokens come on top of its prompt."""

    load: Load
    speculation: Speculation | None = None
    images: ImageTokens | None = None

    @property
    def input(self) -> Count:
        """Tokens of a prompt, images included."""
        return self.load.input + (0 if self.images is None else self.images.tokens)

    @property
    def output(self) -> Count:
        """Tokens of an answer."""
        return self.load.output_tokens

    @property
    def cached(self) -> Count:
        """Tokens of a prompt that are known."""
        return rounded_down(self.input * self.load.prefix)

    @property
    def sizes(self) -> dict[str, Count]:
        """What may be arrays, by name."""
        return {"input": self.input, "output": self.output, "prefix": self.load.prefix}

    def drafting(self, asked: Setup) -> Drafting | None:
        """What drafts tokens of a server in a place."""
        return None if self.speculation is None else Drafting(asked, self.speculation)


def requests_of(
    model: Model, load: Load, speculation: Speculation | None = None, images: Images | None = None
) -> ServedLoad:
    """The requests of a load for a model. Raises InputError for images that the model does not take."""
    tokens = None if images is None else image_tokens(model.images, model.name, images)
    return ServedLoad(load, speculation, tokens)


class Served(Deployed):
    """An answer about requests in a deployment: what all of them say of what was asked."""

    PLACE: ClassVar[Units] = dict.fromkeys(("model", "deployment", "engine", "law", "formats"), "")
    LENGTHS: ClassVar[Units] = {**LENGTHS, "cached_prefix": ""}
    TRAITS: ClassVar[Units] = dict.fromkeys(("speculation", "images"), "")

    requests: ServedLoad

    @property
    def input(self) -> Count:
        """Tokens of a prompt, images included."""
        return self.requests.input

    @property
    def output(self) -> Count:
        """Tokens of an answer."""
        return self.requests.output

    @property
    def cached_prefix(self) -> Count:
        """Tokens of a prompt that are found in the prefix cache."""
        return self.requests.cached

    @property
    def speculation(self) -> Speculation | None:
        """What drafts tokens, where something does."""
        return self.requests.speculation

    @property
    def images(self) -> ImageTokens | None:
        """Images of each request, where it has any."""
        return self.requests.images

    @cached_property
    def drafting(self) -> Drafting | None:
        """The drafts in this deployment."""
        return self.requests.drafting(self.asked)


def rounded_down(value: Count) -> Count:
    """A number rounded down."""
    return np.floor(value).astype(np.int64) if is_array(value) else int(value)
