"""Inputs that a model reads as a whole: texts to embed, images to classify, sound, and latents to denoise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, ClassVar

import numpy as np

from roofline.declared.errors import InputError
from roofline.declared.groups import Where
from roofline.declared.kinds import ImageSize, PerSecond, Seconds, Sequences, Switch, Text, Tokens, Whole
from roofline.declared.numbers.maths import Count, ceil_div, is_array, least
from roofline.declared.numbers.spelling import pixels_named
from roofline.declared.question import group
from roofline.declared.result import Flag, Units, Word
from roofline.engines.engine import engine_named
from roofline.inference.batch_queue import BatchQueue
from roofline.inference.cost.bill import Bill
from roofline.inference.cost.busy import busy_of, ranks_of
from roofline.inference.cost.cost import MILLION, Cost, tariff
from roofline.inference.deployment import machine_chip
from roofline.inference.generate import of_total
from roofline.inference.memory.memory import Memory
from roofline.inference.settings import Deployed, Setup, question, setup
from roofline.inference.span import Span, total
from roofline.inference.step import Estimate, step_estimate
from roofline.layout.layout import Layout
from roofline.model.configs.config import Inputs
from roofline.model.families.diffusion.pipelines import PROMPT
from roofline.model.load import Source, model_of
from roofline.model.model import Model
from roofline.work.step import Step, read_whole

PASSES = 28
"""Denoising steps where none are given: the default of FLUX.1-dev's and Stable Diffusion 3's pipelines in diffusers."""
SAMPLES_PER_SECOND, SPECTRA_PER_SECOND = 16_000, 100
"""Sampling rate of speech models, and columns of their spectrograms per second (a hop of 10 ms)."""
ENCODED_TOKENS = 512
"""Tokens of an input where none are given: the longest input of models such as BERT."""
TOGETHER, MOST_TOGETHER = 32, 1024
"""Inputs of a server's largest batch where none are given, and of the largest batch whose queue is computed.

Infinity's `--batch-size` is 32, and TEI's `--max-batch-tokens` are 16,384: 32 texts of 512 tokens.
"""
PERCENTILES = (50, 90, 99)
"""Percentiles of the time that an input takes at a rate."""


@group
@dataclass(frozen=True)
class WholeInputs:
    """Inputs that are read together, and the size of each."""

    batch: Annotated[
        Sequences | None,
        "Inputs that are read together, those of all replicas (1). At a `rate`, the most that are (32 a replica; an "
        "image generator's 1).",
    ] = None
    rate: Annotated[
        PerSecond | None,
        "Inputs per second that come at random times: a free server reads all that wait together, up to `batch` "
        "(dynamic batching).",
    ] = None
    latency: Annotated[
        Seconds | None, "Maximum time of a batch: as many inputs are read together as it allows, and memory holds."
    ] = None
    input: Annotated[
        Tokens | None, "Tokens of each text (512, or the longest that fits); of an image generator, of its prompt."
    ] = None
    size: Annotated[
        ImageSize | None, "Width and height of each image or video, such as `1024x768` (default: the config's)."
    ] = None
    frames: Annotated[Whole | None, "Frames of each video (default: the config's)."] = None
    seconds: Annotated[Seconds | None, "Length of each recording, such as `30s` (default: the config's)."] = None
    tower: Annotated[
        Text | None, "Only one encoder of a larger model: the one that reads `images`, `sound` or the `source` text."
    ] = None
    passes: Annotated[Whole | None, "Denoising steps of an image or a video (28)."] = None
    guidance: Annotated[
        Switch,
        "Denoise with and without the prompt and combine both (classifier-free guidance): every pass takes each input "
        "twice.",
    ] = False

    @property
    def inputs(self) -> Inputs | None:
        """The sizes that are given; None where the config's apply."""
        width, height = (None, None) if self.size is None else pixels_named("size", self.size)
        seconds = None if self.seconds is None else float(self.seconds)
        samples, spectra = (
            (None, None)
            if seconds is None
            else (int(seconds * rate) for rate in (SAMPLES_PER_SECOND, SPECTRA_PER_SECOND))
        )
        sizes = Inputs(width, height, self.frames, samples, spectra)
        return None if sizes == Inputs() else sizes


@dataclass(frozen=True)
class PipelinePart:
    """A part of a pipeline that runs once for a batch, unsharded: on every chip (`everywhere`) or one chip per replica.

    xDiT encodes prompts on all GPUs and decodes on the last of each replica (`is_dp_last_group`).
    """

    name: str
    asked: Setup
    step: Step
    everywhere: bool


@dataclass(frozen=True, repr=False)
class Encoding(Deployed):
    """A batch of inputs that a model reads as a whole, in one pass or, where it denoises, in many.

    `positions`: of each input, as the model sees them: tokens, patches, columns. `passes`: forward passes of the batch.
    `latency`: seconds of the batch, kernels and host. `parts`: seconds of each part of a pipeline: its denoiser runs in
    every pass, its text encoders once, on every chip, and the decoder of its latents once, on one chip of a replica.

    At a rate, `batch` is the largest and `latency` its seconds. `input_latency`: seconds from an input's arrival until
    its batch is read, the mean and percentiles. `mean_batch`: of a replica. `busy`: share of the time in which it
    works. These three are null without a rate.
    """

    SCHEMA: ClassVar[str] = "roofline.encode/1"
    FIGURES: ClassVar[Units] = {
        **Deployed.PLACE, "batch": "", "batch_per_replica": "", "positions": "", "passes": "", "latency": "s",
        "memory": "B", "inputs_per_second": "inputs/s", "inputs_per_second_per_chip": "inputs/s",
        "positions_per_second": "tokens/s", "usd_per_hour": "USD", "usd_per_million_inputs": "USD",
        "usd_per_recorded_hour": "USD", "power": "W",
        "joules_per_input": "J", "bound": "", "grade": "", "shares": "share", "parts": "s", "cost_assumptions": "",
        "mean_batch": "", "busy": "share", "input_latency": "s",
    }  # fmt: skip

    asked: Setup
    read: WholeInputs
    beside: tuple[PipelinePart, ...] = ()
    queue: BatchQueue | None = None
    typical: Encoding | None = None

    @property
    def batch(self) -> Count:
        """Inputs that are read together, over all replicas."""
        return 1 if self.read.batch is None else self.read.batch

    @property
    def batch_per_replica(self) -> Count:
        """Inputs of the busiest replica."""
        return self.deployment.share(self.batch)

    @property
    def positions(self) -> Count:
        """Positions of each input."""
        return self.step.queries[0].new

    @property
    def passes(self) -> int:
        """Forward passes of a batch: 1, or the denoising steps."""
        if "denoise" not in self.model.steps:
            return 1
        return PASSES if self.read.passes is None else self.read.passes

    @cached_property
    def step(self) -> Step:
        """One pass over the batch."""
        fixed = self.model.positions
        if fixed is not None:
            return read_whole(self.batch * (2 if self.read.guidance else 1), fixed)
        return read_whole(self.batch, _tokens(self.model) if self.read.input is None else self.read.input)

    @cached_property
    def one(self) -> Estimate:
        """The estimate of one pass."""
        return step_estimate(self.asked, self.step)

    @cached_property
    def once(self) -> dict[str, Estimate]:
        """Estimates of the parts of a pipeline that run once, by their names."""
        return {part.name: step_estimate(part.asked, part.step) for part in self.beside}

    @cached_property
    def latency(self) -> Span:
        """Seconds of the batch: all passes with launches and the engine's host time, and the parts that run once."""
        spans = [self._span(self.one).times(self.passes), *map(self._span, self.once.values())]
        return total(spans).shaped(self.one.shape)

    def _span(self, one: Estimate) -> Span:
        """Seconds of one pass of a part, with the engine's host time."""
        host = self.engine.prefill_s + self.engine.host(self.batch_per_replica, one.share.new_tokens)
        return of_total(one.total, one.plan, host).wider(one.plan.unexplained)

    @property
    def parts(self) -> Mapping[str, Count]:
        """Expected seconds of each part of a pipeline; empty for a model by itself."""
        if not self.once:
            return {}
        parts = {name: self._span(one).expected for name, one in self.once.items()}
        return {**parts, "denoiser": self._span(self.one).times(self.passes).expected}

    @property
    def memory(self) -> Memory:
        """Memory of the fullest rank: weights, the activations of a pass, and the engine's overhead."""
        return self.one.memory

    @property
    def fits(self) -> Flag:
        """Whether that memory is available."""
        return self.memory.fits

    @property
    def inputs_per_second(self) -> Count:
        """Inputs of all replicas per expected second: the rate, where there is one."""
        return self.batch / self.latency.expected if self.read.rate is None else self.read.rate

    @property
    def mean_batch(self) -> float | None:
        """Mean inputs that a replica reads together at a rate."""
        return None if self.queue is None else self.queue.mean_batch

    @property
    def busy(self) -> float | None:
        """Share of the time in which a replica works at a rate."""
        return None if self.queue is None else self.queue.busy

    @cached_property
    def input_latency(self) -> Mapping[str, float] | None:
        """Seconds from an input's arrival until its batch is read: the mean, and percentiles by their names."""
        if self.queue is None:
            return None
        return {"mean": self.queue.mean, **{f"p{p}": self.queue.percentile(p / 100) for p in PERCENTILES}}

    @property
    def inputs_per_second_per_chip(self) -> Count:
        """Inputs of all replicas per expected second, divided by the chips of the layout."""
        return self.inputs_per_second / self.asked.layout.chips

    @property
    def positions_per_second(self) -> Count:
        """Positions of all inputs per expected second: tokens of texts, patches of images."""
        return self.inputs_per_second * self.positions

    @cached_property
    def cost(self) -> Cost:
        """The cost of the batch. Replicas without inputs idle, and so do chips that wait for another one.

        At a rate the chips run batches of the mean size and idle between them.
        """
        if self.typical is not None:
            one = self.typical.cost
            many = self.batch / self.typical.batch
            busy = None if one.busy is None else one.busy.times(many)
            return replace(one, seconds=self.batch / self.inputs_per_second, busy=busy)
        layout = self.asked.layout
        replicas = least(self.batch, layout.dp)
        ranks = replicas * ranks_of(self.asked)
        paid = tariff(self.chip, self.asked.bill)
        busy = busy_of(self.one.total).times(ranks * self.passes)
        for part in self.beside:
            busy = busy + busy_of(self.once[part.name].total).times(ranks if part.everywhere else replicas)
        return Cost(layout.chips, self.latency.expected, paid, busy=busy)

    @property
    def usd_per_hour(self) -> Count | None:
        """USD per hour of work; null without a price."""
        return None if self.cost.usd is None else self.cost.usd / self.cost.seconds * 3600

    @property
    def usd_per_million_inputs(self) -> Count | None:
        """USD per 10⁶ inputs; null without a price."""
        each = self.cost.usd_per(self.batch)
        return None if each is None else each * MILLION

    @property
    def usd_per_recorded_hour(self) -> Count | None:
        """USD per hour of recordings, in inputs of the `seconds` that are asked for; null without these or a price."""
        each = self.cost.usd_per(self.batch)
        return None if each is None or self.read.seconds is None else each * 3600 / float(self.read.seconds)

    @property
    def power(self) -> Count | None:
        """Mean watts of all chips while they work, without the site's overhead; null where power is unknown."""
        joules = self.cost.working_joules
        return None if joules is None else joules / self.cost.seconds

    @property
    def joules_per_input(self) -> Count | None:
        """Joules of the site per input; null where power is unknown."""
        return self.cost.joules_per(self.batch)

    @property
    def bound(self) -> Word:
        """What limits a pass: compute, memory, network or latency."""
        limits: Word = self.one.bound
        return limits

    @property
    def grade(self) -> Word:
        """How well the constants are known."""
        grade: Word = self.one.grade
        return grade

    @property
    def shares(self) -> Mapping[str, float]:
        """Share of the expected time of a pass by kind of op, largest first."""
        return dict(self.one.shares)

    @property
    def cost_assumptions(self) -> tuple[str, ...]:
        """The assumptions behind price and power, each with the setting that changes it."""
        return self.cost.tariff.assumptions


def _tokens(model: Model) -> int:
    """Tokens of a text where none are given."""
    return ENCODED_TOKENS if model.context is None else min(ENCODED_TOKENS, model.context)


@question
def encode(
    model: Model | Source,
    where: Where,
    read: WholeInputs,
    *,
    bill: Bill | None = None,
) -> Encoding:
    """Predict how long a model takes for a batch of inputs that it reads as a whole, and what each input costs.

    Returns an `Encoding`, or a `Grid` where a setting is a list. An encoder takes one pass over texts, images or sound;
    a denoiser takes `passes` of them. A decoder of text embeds its prompt. Of a larger model `tower` alone is run.
    `model`: a Model, its name, path or config. Numbers may be arrays, which broadcast. Raises InputError for settings
    that are not understood, sizes that the model does not read, a format that the chip lacks, and a degree that does
    not divide. Where memory is short, `fits` is false. With a limit of `latency` the batch is the largest within it,
    whose `inputs_per_second` is the throughput at that latency. At a `rate`, a free replica reads what waits together,
    up to `batch`; a rate above 99 % of what such batches allow is refused.
    """
    built = _sized(model_of(model), read)
    if "denoise" in built.steps and where.engine is None:
        served = engine_named("diffusers").runs_on(machine_chip(where.on))
        where = replace(where, engine="diffusers" if served else "none")

    def asked(batch: Count) -> Encoding:
        reads = replace(read, batch=batch, rate=None)
        return Encoding(setup(built, where, bill), reads, _beside(built, where, reads))

    if read.rate is not None:
        return _at_rate(asked, read)
    return asked(1 if read.batch is None else read.batch) if read.latency is None else _largest_within(asked, read)


def _at_rate(asked: Callable[[Count], Encoding], read: WholeInputs) -> Encoding:
    """The largest batch, with the queue of each replica, which receives an equal share of the inputs.

    Raises InputError beside a limit, for arrays, and for a rate that the batches cannot take.
    """
    if read.latency is not None:
        raise InputError("latency", read.latency, "none beside `rate`, whose percentiles of latency are answered")
    one = asked(1)
    settings = {"rate": read.rate, "batch": read.batch, "layout": one.asked.layout.dp}
    for name, value in settings.items():
        if is_array(value):
            raise InputError(name, value, "one number, for the queue of a server")
    replicas = int(one.asked.layout.dp)
    together = 1 if "denoise" in one.model.steps else TOGETHER
    largest = replicas * together if read.batch is None else int(read.batch)
    if not replicas <= largest <= replicas * MOST_TOGETHER:
        expected = f"from {replicas} to {replicas * MOST_TOGETHER} at a rate, those of all replicas"
        raise InputError("batch", largest, expected)
    sizes = [replicas * b for b in range(1, ceil_div(largest, replicas) + 1)]
    if one.beside:
        seconds = np.array([float(asked(size).latency.expected) for size in sizes])
    else:
        seconds = np.broadcast_to(asked(np.array(sizes)).latency.expected, (len(sizes),)).astype(float)
    queue = BatchQueue(float(read.rate or 0.0) / replicas, seconds)
    typical = asked(replicas * max(1, round(queue.mean_batch)))
    return replace(asked(sizes[-1]), read=replace(read, batch=sizes[-1]), queue=queue, typical=typical)


MOST_INPUTS = 2**20
"""Most inputs of a batch that a limit allows."""


def _largest_within(asked: Callable[[Count], Encoding], read: WholeInputs) -> Encoding:
    """The largest batch that is read within the limit and that memory holds.

    Raises InputError for a limit that one input exceeds, and for a batch beside a limit.
    """
    limit = float(read.latency or 0.0)
    if read.batch is not None:
        raise InputError("batch", read.batch, "none beside `latency`, which finds it")
    known = asked(1)
    if known.latency.expected > limit:
        raise InputError("latency", limit, f"at least {known.latency.expected:.3g} s, what one input takes")

    def allowed(batch: int) -> bool:
        one = asked(batch)
        return bool(one.fits) and bool(one.latency.expected <= limit)

    low, high = 1, 2
    while high <= MOST_INPUTS and allowed(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if allowed(middle) else (low, middle)
    return asked(low)


def _beside(model: Model, where: Where, read: WholeInputs) -> tuple[PipelinePart, ...]:
    """The parts of a pipeline that run once for a batch, unsharded on one chip: text encoders, then the decoder.

    With guidance the text encoders also read an empty prompt for each prompt. Every replica has its share of the batch.
    The decoder runs in the engine's own format for it, whatever the `precision` of the denoiser.
    """
    if "denoise" not in model.steps or not isinstance(read.batch, int):
        return ()
    parts = []
    layout = where.layout
    chips = layout.dp if isinstance(layout, Layout) and isinstance(layout.dp, int) else 1
    alone = replace(where, layout=Layout())
    for tower in model.towers:
        if tower.positions is None or tower.stream == "images":
            continue
        prompt = tower.stream.startswith(PROMPT)
        one = replace(model.alone(tower.stream), positions=tower.positions)
        step = read_whole(-(-read.batch // chips) * (2 if read.guidance and prompt else 1), tower.positions)
        part = setup(one, alone)
        if part.engine.decodes and not prompt:
            part = setup(one, replace(alone, precision=part.engine.decodes))
        parts.append(PipelinePart(tower.name, part, step, prompt))
    return tuple(parts)


def _sized(model: Model, read: WholeInputs) -> Model:
    """The model for inputs of the sizes that are given, or its tower. Raises InputError for sizes it does not read."""
    denoises = "denoise" in model.steps
    for name, given in (("passes", read.passes is not None), ("guidance", read.guidance)):
        if given and not denoises:
            raise InputError(name, getattr(read, name), f"no {name}: {model.name} does not denoise")
    sizes = read.inputs
    if denoises and read.input is not None:
        sizes = replace(sizes or Inputs(), tokens=int(read.input))
    elif read.input is not None and model.positions is not None and read.tower is None:
        raise InputError("input", read.input, f"none: every input of {model.name} has {model.positions} positions")
    for name in ("size", "frames", "seconds"):
        if getattr(read, name) is not None and model.positions is None and not model.towers:
            raise InputError(name, getattr(read, name), f"none: {model.name} reads tokens")
    if sizes is not None:
        model = model.sized(sizes)
    if read.tower is not None:
        return model.alone(read.tower)
    if not model.layers and model.towers:
        streams = " or ".join(dict.fromkeys(tower.stream for tower in model.towers))
        raise InputError("tower", None, f"{streams}: which half of {model.name} runs")
    return model
