"""The requests of a served load: their lengths, images as tokens of the prompts, and the drafting of their answers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from roofline.declared.groups import LengthSpread, Load
from roofline.declared.numbers.arrays import Array
from roofline.declared.numbers.maths import Count, is_array
from roofline.declared.question import group_settings
from roofline.declared.result import Units
from roofline.engines.engine import Engine
from roofline.inference.generate import TRAITS, Speculation
from roofline.inference.plan import EMPTY, Plan, Total
from roofline.inference.settings import Deployed, Setup
from roofline.inference.span import NOTHING, Span
from roofline.model.media.images import Images, ImageTokens
from roofline.model.model import SOURCE, Model
from roofline.serving.drafting import Drafting
from roofline.work.lower import encoded_before, fed
from roofline.work.step import Queries, decode, images_beside
from roofline.work.step import replace as changed

NORMAL = 65
"""Points at which a normal distribution is summed."""
LENGTHS: Units = dict.fromkeys(("input", "output"), "")
"""Figures of every answer about requests."""
WIDEST, NEWTON = 6.0, 5
"""Standard deviations up to which clipped lengths are summed, and Newton steps to find the law whose clipped lengths
have the given mean."""


@dataclass(frozen=True)
class ServedLoad:
    """The requests of a load. `images`: images of each request, whose tokens add to its prompt.

    `longest`: tokens of the longest request that the model takes, None where unknown.
    """

    load: Load
    speculation: Speculation | None = None
    images: ImageTokens | None = None
    longest: int | None = None

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
        """Tokens of a prompt that are found in the prefix cache."""
        return rounded_down(self.input * self.load.prefix)

    @property
    def sizes(self) -> dict[str, Count]:
        """Quantities that may be arrays, by name."""
        vary = {name: getattr(self.load, name) for name in group_settings(LengthSpread)}
        return {"input": self.input, "output": self.output, "prefix": self.load.prefix, **vary}

    @property
    def context(self) -> Count:
        """Mean number of tokens in the cache of a request that decodes, rounded down. Longer answers decode for longer.

        Σ O·(I + O/2) / Σ O = I + (1 + v)·O/2, where v is the squared coefficient of variation of the answers' lengths.
        """
        if not np.any(self.answers_vary):
            return self.input + self.output // 2
        return rounded_down(self.input + (1 + self.answers_vary) * self.output / 2)

    def kept_by(self, engine: Engine) -> Count:
        """Tokens for which memory is kept, on average over the requests that run.

        An engine that reserves room for whole answers keeps it for the prompt and all of the answer,
        Σ O·(I + O) / Σ O = I + (1 + v)·O; other engines keep the mean `context`.
        """
        if not engine.reserves:
            return self.context
        return rounded_down(self.input + (1 + self.answers_vary) * self.output)

    @cached_property
    def prompts_vary(self) -> Count:
        """Squared coefficient of variation of the prompts' lengths. Images always add the same number of tokens."""
        return self._varied(self.load.input_cv * (self.load.input / self.input), self.input)

    @cached_property
    def answers_vary(self) -> Count:
        """Squared coefficient of variation of the answers' lengths."""
        return self._varied(self.load.output_cv, self.output)

    @cached_property
    def answered(self) -> tuple[Count, Count, Count]:
        """Share of answers with more than one token, share with two, and the weight of short answers in the mean TPOT.

        That weight is E[1/(O − 1)]·(E[O] − 1) over answers of more than one token. It is above 1 where lengths vary,
        since a delay common to all requests counts most in the TPOT of short answers. Lengths are lognormal, rounded,
        and at least one token.
        """
        mean = np.asarray(self.output, dtype=float)
        if not np.any(self.answers_vary):
            return 1.0, np.where(mean == 2, 1.0, 0.0), 1.0
        square = np.log1p(np.asarray(self.answers_vary))
        z = np.linspace(-4, 4, NORMAL).reshape(-1, *(1 for _ in np.broadcast_shapes(mean.shape, square.shape)))
        weights, factors = np.exp(-z * z / 2), np.exp(z * np.sqrt(square) - square / 2)
        weights = weights / weights.sum(axis=0)
        once = (weights * np.maximum(np.rint(mean * factors), 1)).sum(axis=0)
        tokens = np.maximum(np.rint(np.maximum(2 * mean - once, 0.5) * factors), 1)
        several = weights * (tokens > 1)
        share = np.maximum(several.sum(axis=0), 1e-12)
        each = (several / np.maximum(tokens - 1, 1)).sum(axis=0) / share
        two = (weights * (tokens == 2)).sum(axis=0)
        return np.where(mean > 1, share, 1.0), two, np.where(mean > 1, each * np.maximum(mean - 1, 1), 1.0)

    def _varied(self, cv: Count, tokens: Count) -> Count:
        """Squared coefficient of variation of lengths that the model's context limits; 0 for lengths of one token.

        If n mean requests fit into the context, lengths stay below n times the mean.
        """
        square = np.where(np.asarray(tokens) > 1, np.asarray(cv, dtype=float) ** 2, 0.0)
        if self.longest is not None:
            square = cut_square(square, self.longest / np.asarray(self.input + self.output, dtype=float))
        return square if square.shape else float(square)

    def drafting(self, asked: Setup) -> Drafting | None:
        """What drafts tokens for a server in this setup, None without speculation."""
        return None if self.speculation is None else Drafting(asked, self.speculation)


def cut_square(square: Array, most: Array) -> Array:
    """Squared coefficient of variation of lognormal lengths after clipping to `most` times their mean.

    `square`: the same before clipping. As in a simulation, the law is the one whose clipped lengths have this mean.

    >>> cut_square(np.array([1.0]), np.array([4.0])).round(3).tolist()
    [0.716]
    """
    if not np.any(square):
        return np.asarray(square + 0 * most)
    sigma, most = np.sqrt(np.log1p(square)), np.maximum(most, 1 + 1e-9)
    z = np.linspace(-WIDEST, WIDEST, NORMAL).reshape(-1, *(1 for _ in np.broadcast_shapes(sigma.shape, most.shape)))
    weights = np.exp(-z * z / 2) / np.exp(-z * z / 2).sum()
    lengths = np.exp(z * sigma - sigma**2 / 2)
    whole = (weights * lengths).sum(axis=0), (weights * lengths**2).sum(axis=0)
    longer = np.ones_like(sigma + most)
    for _ in range(NEWTON):  # the mean is concave in this factor, so that steps do not overshoot
        shorter = (weights * np.where(longer * lengths < most, lengths, 0.0)).sum(axis=0)
        missing = 1 - (weights * np.minimum(longer * lengths, most)).sum(axis=0)
        longer = longer + missing / np.maximum(shorter, 1e-3)
    cut = (weights * np.minimum(longer * lengths, most) ** 2).sum(axis=0)
    return np.asarray(square * np.clip((cut - 1) / np.maximum(whole[1] / whole[0] ** 2 - 1, 1e-300), 0.0, 1.0))


def requests_of(
    model: Model, load: Load, speculation: Speculation | None = None, images: Images | None = None
) -> ServedLoad:
    """The requests of a load for a model. Raises InputError for images that the model does not take."""
    tokens = model.seen(images)
    return ServedLoad(load, speculation, tokens, None if model.context is None else model.context + 1)


def encoding(plan: Plan, images: ImageTokens | None) -> Span:
    """Seconds in which towers encode the images and sound of one request, on the replica that prefills it."""
    if images is None or not images.encoded:
        return NOTHING
    seen, text = encoded_beside(plan, images)
    return Span(
        seen.floor - text.floor, seen.expected - text.expected, seen.low - text.low, seen.high - text.high
    )  # fmt: skip


def encoded_beside(plan: Plan, images: ImageTokens) -> tuple[Total, Total]:
    """Sums over a step in which towers encode the images and sound of one request, and over the same step without."""
    one = decode(1, 1)
    return plan.total(changed(one, beside=images_beside(images, 1))), plan.total(one)


def source_seconds(plan: Plan, new: Count) -> Array:
    """Seconds to encode the source of one prompt of `new` tokens and to compute its keys and values.

    0 for a model without an encoder that every request passes through.
    """
    begun = changed(decode(1, 1), (Queries(0, new, 1),))
    if not fed(plan.rank, begun).read(SOURCE):
        return np.zeros(())
    whole, later = (
        sum(plan.by_view(step).values(), EMPTY).expected for step in (begun, encoded_before(plan.rank, begun))
    )
    return np.asarray(whole - later)


class LoadAnswer(Deployed):
    """An answer about requests in a deployment, with the figures common to all such answers."""

    LENGTHS: ClassVar[Units] = {**LENGTHS, "cached_prefix": "", **dict.fromkeys(group_settings(LengthSpread), "")}
    TRAITS: ClassVar[Units] = TRAITS

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
    def input_cv(self) -> Count:
        """Coefficient of variation of the prompts' lengths."""
        return self.requests.load.input_cv

    @property
    def output_cv(self) -> Count:
        """Coefficient of variation of the answers' lengths."""
        return self.requests.load.output_cv

    @property
    def speculation(self) -> Speculation | None:
        """What drafts tokens; null without drafts."""
        return self.requests.speculation

    @property
    def images(self) -> ImageTokens | None:
        """Images of each request; null without any."""
        return self.requests.images

    @cached_property
    def drafting(self) -> Drafting | None:
        """The drafting of tokens in this deployment, None without speculation."""
        return self.requests.drafting(self.asked)


def rounded_down(value: Count) -> Count:
    """A number rounded down to a whole one."""
    return np.floor(value).astype(np.int64) if is_array(value) else int(value)
