"""Options of commands about servers: what drafts tokens, and what prefills elsewhere."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cyclopts import Parameter

from roofline.cli.common import Switch, Whole
from roofline.declared.errors import InputError
from roofline.declared.spelling import bandwidth_named
from roofline.model.adapters import drafts_note

if TYPE_CHECKING:
    from roofline.estimates.generate import Speculation
    from roofline.model.images import Images
    from roofline.model.model import Model
    from roofline.simulation.pooled import PrefillPool

LENGTH, ACCEPTANCE = 3, 0.7
"""Tokens proposed a step and the probability that one is right, where tokens are drafted and neither is given."""


def with_its_drafts(model: Model, speculation: Speculation | None) -> Model:
    """The model as its warnings should say it: a draft layer that runs is counted."""
    if speculation is None or not speculation.mtp:
        return model
    note, left = drafts_note(len(model.drafts)), len(model.drafts) - 1
    others = tuple(text for text in model.not_counted if text != note)
    return replace(model, not_counted=(*others, *([drafts_note(left)] if left else [])))


@Parameter(name="*")
@dataclass(frozen=True)
class DraftOptions:
    """Drafted decoding: what proposes tokens for the model to verify."""

    draft: str | None = None
    "A model that proposes tokens for this one to verify; `none` where proposing is free (n-grams)."
    mtp: Switch = False
    "The model's own multi-token-prediction layer proposes them."
    draft_length: Whole = None
    "Tokens proposed a step (3 where tokens are drafted)."
    acceptance: float | None = None
    "Probability that a proposed token is right (0.7)."

    def speculation(self) -> Speculation | None:
        """What was asked for, None where nothing is drafted.

        Raises InputError for a draft model beside the model's own layer, an acceptance of no drafts, and figures out of
        range.
        """
        from roofline.estimates.generate import Speculation
        from roofline.model.load import load

        if self.draft is None and self.draft_length is None and not self.mtp:
            if self.acceptance is not None:
                raise InputError("--acceptance", self.acceptance, "--draft, --mtp or --draft-length beside it")
            return None
        if self.mtp and self.draft is not None:
            raise InputError("--draft", self.draft, "either a draft model or --mtp")
        proposer = None if self.draft in (None, "none") else load(self.draft)
        length = LENGTH if self.draft_length is None else self.draft_length
        return Speculation(ACCEPTANCE if self.acceptance is None else self.acceptance, length, proposer, self.mtp)


@Parameter(name="*")
@dataclass(frozen=True)
class ImageOptions:
    """Images in every request, for models that state how images become tokens."""

    images: Whole = None
    "Images in every request, whose tokens come on top of --input. Encoding them is not counted."
    image_size: str | None = None
    "Width and height of each, such as `1024x768`."

    def asked(self) -> Images | None:
        """What was asked for, None where there are none.

        Raises InputError for one without the other, and for other sizes.
        """
        from roofline.model.images import Images

        if self.images is None and self.image_size is None:
            return None
        if self.images is None:
            raise InputError("--image-size", self.image_size, "--images beside it")
        if self.image_size is None:
            raise InputError("--images", self.images, "--image-size beside it, such as 1024x768")
        match = re.fullmatch(r"([0-9]{1,6})[x×]([0-9]{1,6})", self.image_size)
        if match is None:
            raise InputError("--image-size", self.image_size, "pixels across and down, such as 1024x768")
        return Images(self.images, int(match[1]), int(match[2]))


@Parameter(name="*")
@dataclass(frozen=True)
class PrefillOptions:
    """A pool of replicas that only prefill, beside those that then only decode."""

    prefill_layout: str | None = None
    "Layout of replicas that only prefill (`tp=2,dp=3`: three of them), beside those of --layout that only decode."
    prefill_on: str | None = None
    "Chip or cluster of the replicas that only prefill, where it is not that of --on."
    prefill_engine: str | None = None
    "Their engine, where it is not that of --engine."
    prefill_bandwidth: str | None = None
    "Of the link of each chip from one pool to the other, such as `50GB/s`; else that of the network of nodes."

    def pool(self, on: str) -> PrefillPool | None:
        """What was asked for, None where the same replicas prefill and decode; `on`: the machine of those that decode.

        Raises InputError for an engine or a bandwidth of no pool, and a bandwidth that is none.
        """
        from roofline.simulation.pooled import PrefillPool

        if self.prefill_layout is None and self.prefill_on is None:
            alone = {"--prefill-engine": self.prefill_engine, "--prefill-bandwidth": self.prefill_bandwidth}
            for option, value in alone.items():
                if value is not None:
                    wanted = "--prefill-layout or --prefill-on beside it; without, no replica only prefills"
                    raise InputError(option, value, wanted)
            return None
        machine, text = on if self.prefill_on is None else self.prefill_on, self.prefill_bandwidth
        link = None if text is None else bandwidth_named("--prefill-bandwidth", text)
        return PrefillPool(machine, self.prefill_layout, self.prefill_engine, link)
