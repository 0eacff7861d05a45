"""A static batch: all prompts are prefilled together, then every step yields one token and the context grows by it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from dataclasses import replace as changed_model
from functools import cached_property
from typing import Annotated, Any, ClassVar

import numpy as np

from roofline.declared.checks import real
from roofline.declared.errors import InputError
from roofline.declared.groups import StaticBatch, Where
from roofline.declared.kinds import ModelName, Probability, Switch, Whole
from roofline.declared.numbers.arrays import Array
from roofline.declared.numbers.maths import Count, ceil_div, is_array, least, most, root, where
from roofline.declared.question import group
from roofline.declared.result import Figured, Flag, Units, Word
from roofline.inference.cost.bill import Bill
from roofline.inference.cost.busy import busy_of, ranks_of, shared
from roofline.inference.cost.cost import Spending, Spent
from roofline.inference.deployment import deploy
from roofline.inference.memory.memory import Memory
from roofline.inference.plan import Plan, Total, grade_of
from roofline.inference.settings import Deployed, Setup, broadcast, question, setup
from roofline.inference.span import NOTHING, Span, exactly
from roofline.inference.step import Estimate, check_context, check_formats, step_estimate
from roofline.kernels.power import Busy
from roofline.model.load import Source, decoder_of, model_of
from roofline.model.media.images import Images, ImageTokens
from roofline.model.model import Model
from roofline.work.step import Step, decode, images_beside, prefill
from roofline.work.step import replace as changed

TRAITS: Units = dict.fromkeys(("speculation", "images"), "")
"""Figures of requests other than their lengths."""
DRAFT_LENGTH = 3
"""Tokens proposed per step where drafting is on and no length is given."""
DRAFT_RIGHT, MTP_RIGHT, NGRAM_RIGHT = 0.7, 0.85, 0.5
"""Default acceptance, the probability that a proposed token is right, by what proposes it. A small model of the same
family: 0.53 to 0.75 with T5-small (arXiv:2211.17192, §4). The model's own draft layers: second tokens 0.85 to 0.9 for
DeepSeek-V3 (arXiv:2412.19437, §5.4.3). N-grams: 0.54, 0.36 and 0.26 for the first three tokens in a log of vLLM (issue
19254)."""


@group
@dataclass(frozen=True)
class Speculation(Figured):
    """Speculative decoding (arXiv:2211.17192): a step drafts `length` tokens, each right with probability `acceptance`.

    `draft`: a model that proposes the tokens, on one chip. `mtp`: the model's own first draft layer proposes them on
    the model's ranks, one run for each token (arXiv:2412.19437). With neither, the host looks up n-grams of the text so
    far. Prompts go through the draft too. Raises InputError for values out of range.
    """

    FIGURES: ClassVar[Units] = dict.fromkeys(("draft", "length", "acceptance", "tokens_per_step"), "")

    acceptance: float
    length: int
    draft: Model | None = None
    mtp: bool = False

    def __post_init__(self) -> None:
        if self.mtp and self.draft is not None:
            raise InputError("draft", self.draft.name, "no draft model beside the model's own draft layers")
        acceptance = real(self.acceptance)
        if acceptance is None or not 0 <= acceptance <= 1:
            raise InputError("acceptance", self.acceptance, "a probability from 0 to 1")
        if not isinstance(self.length, int) or isinstance(self.length, bool) or not 1 <= self.length <= 64:
            raise InputError("draft length", self.length, "a whole number from 1 to 64")

    @classmethod
    def asked(
        cls,
        *,
        draft: Annotated[
            ModelName | None,
            "Draft model that proposes tokens for this one to verify; `none` uses n-grams of the text so far.",
        ] = None,
        mtp: Annotated[Switch, "Draft with the model's own multi-token-prediction layer."] = False,
        draft_length: Annotated[Whole | None, "Tokens drafted per step (3 where drafting is on)."] = None,
        acceptance: Annotated[
            Probability | None,
            "Probability that a drafted token is right (0.7 for a draft model, 0.85 for `mtp`, 0.5 for n-grams).",
        ] = None,
    ) -> Speculation | None:
        """The drafts that these settings describe; None where nothing is drafted.

        Raises InputError for both a draft model and the model's own layer, an acceptance without drafts, and values out
        of range.
        """
        if draft is None and draft_length is None and not mtp:
            if acceptance is not None:
                raise InputError("acceptance", acceptance, "draft, mtp or draft_length as well")
            return None
        if mtp and draft is not None:
            raise InputError("draft", draft, "either a draft model or mtp")
        proposer = None if draft in (None, "none") else model_of(draft)
        usual = MTP_RIGHT if mtp else DRAFT_RIGHT if proposer is not None else NGRAM_RIGHT
        given = (usual if acceptance is None else acceptance, DRAFT_LENGTH if draft_length is None else draft_length)
        return cls(*given, proposer, mtp)

    @property
    def tokens_per_step(self) -> float:
        """Expected tokens that a verification yields: (1 − a^(γ+1)) / (1 − a), at most γ + 1."""
        a, n = self.acceptance, self.length + 1
        return float(n) if a == 1 else (1 - a**n) / (1 - a)


@dataclass(frozen=True)
class Wave:
    """Sequences of a replica that run together, as many as fit, with the spans of their prefill and decode."""

    sequences: Count
    first: Span
    rest: Span


@dataclass(frozen=True, repr=False)
class Generation(Spent, Deployed):
    """A static batch of `batch` prompts, over all replicas, with `input` tokens each; each generates `output` tokens.

    `ttft`: time to the first token of the first wave: start-up of a cold process, prefill and host. `tpot`: (latency −
    ttft) / (output − 1) of a wave, the time between tokens. `latency`: time to the last token of the last wave. Spans
    are in seconds.
    """

    SCHEMA: ClassVar[str] = "roofline.generate/3"
    FIGURES: ClassVar[Units] = {
        **Deployed.PLACE, "batch": "", "input": "", "output": "", "batch_per_replica": "", "idle_replicas": "",
        "waves": "", "first_wave": "", "ttft": "s", "tpot": "s", "latency": "s", "memory": "B",
        "tokens_per_second": "tokens/s", "tokens_per_second_per_user": "tokens/s",
        "tokens_per_second_per_chip": "tokens/s", **Spent.BILLED, "grade": "", "prefill_shares": "share",
        "decode_shares": "share", **TRAITS,
    }  # fmt: skip
    NAMES: ClassVar[Mapping[str, str]] = {"tpot": "between_tokens"}

    asked: Setup
    load: StaticBatch
    speculation: Speculation | None = None

    # -- what and where --------------------------------------------------------------------------------------------
    @property
    def batch(self) -> Count:
        """Sequences that start together, over all replicas."""
        return self.load.batch

    @property
    def images(self) -> ImageTokens | None:
        """Images of each sequence; None without any."""
        return self.asked.seen

    @property
    def input(self) -> Count:
        """Prompt tokens of each sequence, images included."""
        return self.load.input + (0 if self.images is None else self.images.tokens)

    @property
    def output(self) -> Count:
        """Generated tokens of each sequence."""
        return self.load.output_tokens

    @property
    def idle_replicas(self) -> Count:
        """Replicas with fewer sequences than the busiest."""
        return self.deployment.idle(self.batch)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The broadcast shape of batch, input, output and the layout's degrees."""
        return np.broadcast_shapes(*map(np.shape, (self.batch, self.input, self.output)), self.asked.layout.shape)

    # -- waves -----------------------------------------------------------------------------------------------------
    @cached_property
    def batch_per_replica(self) -> Count:
        """Sequences of the busiest replica."""
        return self.deployment.share(self.batch)

    @cached_property
    def together(self) -> Count:
        """Sequences of a replica that run at once: as many as fit by the engine's rule.

        Where not even one fits, all of them: times then ignore the memory limit.
        """
        most = self.asked.holding.most_sequences(self.input + self.output, self.batch_per_replica)
        return where(most < 1, self.batch_per_replica, most)

    @cached_property
    def first_wave(self) -> Count:
        """Sequences of a replica in the first wave."""
        return least(self.together, self.batch_per_replica)

    @cached_property
    def waves(self) -> Count:
        """Waves that run one after another."""
        return ceil_div(self.batch_per_replica, self.together)

    @cached_property
    def _whole(self) -> Wave:
        return self._wave(self.first_wave)

    @cached_property
    def _last(self) -> Wave | None:
        """The wave of the remaining sequences; None where none remain."""
        left = self.batch_per_replica % self.first_wave
        return None if not np.any(np.asarray(left)) else self._wave(left)

    def _wave(self, size: Count) -> Wave:
        """A wave of `size` sequences, split into one group for each pipeline stage, which follow one another."""
        engine, plan = self.engine, self.asked.plan
        group = pipeline_group(size, self.asked.layout.pp)
        first = prompts_span(self.asked, size, self.input, self._prefill_of(group))
        speculation, host = self.speculation, engine.host(size)
        draft = None if speculation is None else draft_plan(self.asked, speculation)
        if speculation is not None and draft is None:
            host = host + engine.looks_up(size, self.input + self.output // 2)
        rest = self._decoded(plan, group, host)
        if speculation is not None and draft is not None:
            first = first + of_total(draft.total(changed_step(prefill(1, 1), 0, self.input, size)), draft, 0.0)
            rest = rest + self._decoded(draft, size, engine.host(size), verified=1).times(speculation.length)
        return Wave(size, first, rest)

    def _prompts_of(self, count: Count) -> Step:
        """The step that prefills `count` prompts and encodes their images."""
        step = changed_step(prefill(1, 1), 0, self.input, count)
        return step if self.images is None else changed(step, beside=images_beside(self.images, count))

    def _prefill_of(self, count: Count) -> Prefill:
        """The steps that prefill `count` prompts and encode their images."""
        return prefill_of(self.asked, self._prompts_of(count))

    def _decoded(self, plan: Plan, batch: Count, host: Count, verified: int | None = None) -> Span:
        """All decode steps of a wave: from a context of `input` tokens to one token before the last."""
        yields, new = 1.0, 1
        if self.speculation is not None:
            yields, new = self.speculation.tokens_per_step, self.speculation.length + 1
        return decode_steps(plan, batch, self.input, self.output - 1, host, yields, verified or new)

    # -- figures ---------------------------------------------------------------------------------------------------
    @cached_property
    def start_up(self) -> Span:
        """Seconds that a cold process takes before its first prompt; 0 for one that has run before."""
        return Span(0.0, *self.engine.start_up(self.deployment.chip.generation))

    @cached_property
    def ttft(self) -> Span:
        """Time to first token."""
        return (self.start_up + self._whole.first).shaped(self.shape)

    @cached_property
    def tpot(self) -> Span:
        """Time per output token after the first; 0 where only one token is generated."""
        return self._whole.rest.times(1 / most(1, self.output - 1)).shaped(self.shape)

    @property
    def between_tokens(self) -> Span:
        """Time per output token after the first; null where only one token is generated."""
        return self.tpot.where(self.output > 1, exactly(math.nan))

    @cached_property
    def latency(self) -> Span:
        """End-to-end latency of the batch."""
        whole, last = self._whole, self._last
        full = self.batch_per_replica // self.first_wave
        total = (whole.first + whole.rest).times(full)
        if last is not None:
            total = total + (last.first + last.rest).where(last.sequences > 0, NOTHING)
        return (self.start_up + total).shaped(self.shape)

    @cached_property
    def memory(self) -> Memory:
        """Memory of the fullest rank, by the engine's rule, with the first wave at its last token; no draft model."""
        return self.asked.holding.memory(((self.first_wave, self.input + self.output),)).shaped(self.shape)

    @property
    def fits(self) -> Flag:
        """Whether that memory is available."""
        return self.memory.fits

    @cached_property
    def prompts(self) -> Estimate:
        """The step that prefills the first wave."""
        batch = self.first_wave * self.asked.layout.dp
        return step_estimate(self.asked, self._prompts_of(batch), within=False)

    @cached_property
    def middle(self) -> Estimate:
        """The decode step of the first wave in the middle of its answers."""
        batch = self.first_wave * self.asked.layout.dp
        step = changed_step(decode(1, 1), self.input + self.output // 2, 1, batch)
        return step_estimate(self.asked, step, within=False)

    @property
    def prefill_shares(self) -> Mapping[str, float]:
        """Share of the expected time of the first wave's prefill by kind of op, largest first."""
        return dict(self.prompts.shares)

    @property
    def decode_shares(self) -> Mapping[str, float]:
        """Share of the expected time of a decode step in the middle of the answers by kind of op, largest first; empty
        where only one token is generated."""
        return dict(self.middle.shares) if np.any(np.asarray(self.output) > 1) else {}

    @cached_property
    def grade(self) -> Word:
        """The worse of the grades of prefill and decode."""
        plan, group = self.asked.plan, pipeline_group(self.first_wave, self.asked.layout.pp)
        steps = (self._prompts_of(group), changed_step(decode(1, 1), self.input, 1, group))
        grades = [grade_of(t.graded, t.expected) for t in (plan.total(step) for step in steps)]
        worst = np.where(np.asarray(self.output) > 1, np.maximum(*map(_rank, grades)), _rank(grades[0]))
        letters = _LETTERS[worst]
        return np.broadcast_to(letters, self.shape) if self.shape else str(letters)

    @cached_property
    def tokens_per_second(self) -> Count:
        """Generated tokens of all sequences per expected second."""
        return self.batch * self.output / self.latency.expected

    @property
    def tokens_per_second_interval(self) -> tuple[Count, Count]:
        """Generated tokens per second at the upper and the lower end of the latency's interval."""
        tokens = self.batch * self.output
        return tokens / self.latency.high, tokens / self.latency.low

    @property
    def tokens_per_second_per_chip(self) -> Count:
        """Generated tokens of all sequences per expected second, divided by the chips of the layout."""
        return self.tokens_per_second / self.asked.layout.chips

    @cached_property
    def spending(self) -> Spending:
        """What the batch spends from the first prompt to the last token, with decode steps at their mean context.

        Replicas without sequences idle.
        """
        full, whole, last = self.batch_per_replica // self.first_wave, self._whole, self._last
        prompts, answers = (part.times(full) for part in self._work(whole))
        if last is not None:
            there = where(last.sequences > 0, 1.0, 0.0)
            first, rest = self._work(last)
            prompts, answers = prompts + first.times(there), answers + rest.times(there)
        costs = shared(self.asked, self.asked.layout.chips, self.latency.expected, prompts, answers)
        return Spending(*costs, self.latency.expected, self.batch * self.input, self.batch * self.output)

    def _work(self, wave: Wave) -> tuple[Busy, Busy]:
        """Work of the units of all chips for a wave's prompts and answers; chips are awake until its last token."""
        layout, size = self.asked.layout, most(1, wave.sequences)
        groups = most(1, least(layout.pp, size))
        group = ceil_div(size, groups)
        active = least(self.batch, layout.dp)
        ranks = groups * active * ranks_of(self.asked)
        yields, new = 1.0, 1
        if self.speculation is not None:
            yields, new = self.speculation.tokens_per_step, self.speculation.length + 1
        steps, context = np.ceil((self.output - 1) / yields), self.input + most(0, self.output - 2) // 2
        prompts = busy_of(self._prefill_of(group).total).times(ranks)
        answers = busy_of(self.asked.plan.total(decode_of(group, context, new))).times(steps * ranks)
        draft = None if self.speculation is None else draft_plan(self.asked, self.speculation)
        if self.speculation is not None and draft is not None:
            proposed = busy_of(draft.total(decode_of(size, context, 1))).times(steps * self.speculation.length)
            drafting = active * (1 if self.speculation.draft is not None else ranks_of(self.asked))
            answers = answers + proposed.times(drafting)
            drafted = busy_of(draft.total(changed_step(prefill(1, 1), 0, self.input, size)))
            prompts = prompts + drafted.times(drafting)
        awake = active * ranks_of(self.asked) * layout.pp
        return (
            changed_model(prompts, running=wave.first.expected * awake),
            changed_model(answers, running=wave.rest.expected * awake),
        )

    @property
    def tokens_per_second_per_user(self) -> Count | None:
        """Tokens per second that a sequence receives while it decodes: 1 / TPOT; null for a single token."""
        if not is_array(self.tpot.expected):
            return 1 / self.tpot.expected if self.output > 1 else None
        return np.divide(1, self.tpot.expected, out=np.full(self.shape, np.nan), where=self.tpot.expected > 0)


_LETTERS = np.array(["-", "A", "B", "C"])


def _rank(grade: Any) -> Any:
    """Grades as numbers, the worst the largest."""
    return np.searchsorted(_LETTERS, grade)


def draft_plan(asked: Setup, speculation: Speculation) -> Plan | None:
    """The plan of the proposer of a token: a draft model on one chip, or a draft layer on the model's ranks.

    None where n-grams propose tokens. Raises InputError where draft layers are asked for and the model has none.
    """
    draft, deployment, model = speculation.draft, asked.deployment, asked.model
    if draft is not None:
        return changed_model(asked, model=draft, deployment=deploy(deployment.chip), formats=draft.precision).plan
    if not speculation.mtp:
        return None
    if not model.drafts:
        raise InputError("mtp", model.name, "a model with draft layers of its own")
    own = changed_model(model, layers=model.drafts[:1], drafts=())
    whole = changed_model(deployment, layout=changed_model(deployment.layout, pp=1, stages=()))
    return changed_model(asked, model=own, deployment=whole).plan


def pipeline_group(size: Count, depth: int) -> Count:
    """Sequences that share a step: `size` sequences are split into one group for each pipeline stage."""
    return ceil_div(size, most(1, least(depth, size)))


@dataclass(frozen=True)
class Prefill:
    """Sums over the ops of all steps that prefill some prompts, and the number of steps."""

    total: Total
    steps: Count = 1


def prefill_of(asked: Setup, step: Step) -> Prefill:
    """The steps in which an engine computes the prompts of a step: a single one, or chunks of at most `chunk` tokens.

    Chunks of a prompt attend to the chunks before them, on average to half of the prompt. Images are encoded before the
    first chunk. A step takes as many whole short prompts as it has room for.
    """
    plan, chunk, (query,) = asked.plan, asked.engine.chunk, step.queries
    if not asked.engine.parts:
        return Prefill(plan.total(step))
    part = least(query.new, chunk)
    full, rest = query.new // most(1, part), query.new % most(1, part)
    rows = ceil_div(query.count, most(1, chunk // most(1, part)))
    beside = ceil_div(query.count, most(1, rows))
    alone = changed(step, beside=())
    total = plan.total(changed_step(alone, query.cached + (full - 1) * part // 2, part, beside)).times(rows * full)
    if step.beside:
        total = total + plan.total(step) + plan.total(alone).times(-1)
    if not np.any(np.asarray(rest)):
        return Prefill(total, rows * full)
    left = where(rest > 0, rows, 0)
    last = plan.total(changed_step(alone, query.cached + full * part, most(1, rest), beside)).times(left)
    return Prefill(total + last, rows * full + left)


def prompts_span(asked: Setup, size: Count, new: Count, group: Prefill) -> Span:
    """Seconds to the first token of `size` prompts of `new` tokens. `group`: the prefill of one group.

    The stages of a pipeline work on the steps of all groups, one after another.
    """
    engine, depth, groups = asked.engine, asked.layout.pp, most(1, least(asked.layout.pp, size))
    chunks, longest = ceil_div(size * new, engine.chunk), least(size * new, engine.chunk)
    host = engine.prefill_s + chunks * engine.host(size, longest)
    first = of_total(group.total, asked.plan, 0.0)
    return first.times(((depth - 1) / group.steps + groups) / depth) + Span(0.0, host, host, host)


def changed_step(step: Step, cached: Count, new: Count, batch: Count) -> Step:
    """A step of the same kind with one query, unchecked: in the arrays of a sweep some counts may be 0."""
    (query,) = step.queries
    return changed(step, (type(query)(cached, new, batch),))


def launched(plan: Plan, step: Step, host: Count) -> Span:
    """Seconds of a server's step: its kernels, or their launches if these take longer, and the host's time.

    The interval includes the error of whole models and that of the host's time.
    """
    span = of_total(plan.total(step), plan, host)
    return span.wider(root(plan.unexplained**2 + (plan.unsure_host * host / span.expected) ** 2))


def of_total(t: Total, plan: Plan, host: Count) -> Span:
    """Seconds of a step from the sums over its ops, host time and kernel launches included."""
    waits = most(0.0, t.launches * plan.target.engine.launch_s - t.expected) + host
    return Span(t.floor, t.expected + waits, t.low + waits, t.high + waits)


# -- many decode steps ---------------------------------------------------------------------------------------------
def decode_steps(plan: Plan, batch: Count, start: Count, tokens: Count, host: Count, yields: float, new: int) -> Span:
    """Sum of the decode steps that yield `tokens` tokens after a context of `start`, each step timed by itself.

    Contexts are start, start + yields, … (rounded down), for every element of the arrays. Equal steps of several
    elements are timed once: the steps of an element are the difference of two cumulative sums over the contexts of its
    batch size.
    """
    shape = np.broadcast_shapes(np.shape(batch), np.shape(start), np.shape(tokens), plan.rank.shape)
    flat = shape or (1,)
    many, begin, left = (np.broadcast_to(v, flat).astype(np.int64) for v in (batch, start, tokens))
    steps, hosts = np.ceil(left / yields).astype(np.int64), np.broadcast_to(host, flat)
    if not np.any(steps > 0):
        return NOTHING.shaped(shape)
    if yields != 1 or plan.rank.shape:
        span = _every_step(plan, many, begin, steps, hosts, yields, new)
    else:
        span = _rows(plan, many, begin, steps, hosts, new)
    span = span.wider(plan.unexplained)
    return span.shaped(shape) if shape else Span(*(np.asarray(v).item() for v in span.ends()))


def _rows(plan: Plan, batch: Array, start: Array, steps: Array, hosts: Array, new: int) -> Span:
    """Time one row of contexts per batch size that covers all its elements, which are differences of the row's sums."""
    shape, added = steps.shape, hosts * steps
    batch, start, steps = (v.reshape(-1) for v in (batch, start, steps))
    order = np.lexsort((start, batch))
    runs = list(_runs(batch[order], start[order], (start + steps)[order]))
    contexts = np.concatenate([np.arange(low, high) for _, low, high, _ in runs])
    sizes = np.concatenate([np.full(high - low, size) for size, low, high, _ in runs])
    span = of_total(plan.total(decode_of(sizes, contexts, new)), plan, 0.0)
    begins = np.empty(len(order), dtype=np.int64)
    place = 0
    for _, low, high, members in runs:
        begins[order[members]] = place + start[order[members]] - low
        place += high - low

    def between(values: Count) -> Array:
        row = np.concatenate([[0.0], np.cumsum(np.broadcast_to(values, contexts.shape), dtype=np.longdouble)])
        return np.asarray((row[begins + steps] - row[begins]).astype(float).reshape(shape))

    floor, expected, low_end, high_end = (between(v) for v in span.ends())
    return Span(floor, expected + added, low_end + added, high_end + added)


def _runs(batch: Array, start: Array, end: Array) -> Iterator[tuple[int, int, int, slice]]:
    """For elements sorted by batch and start: batch size, union of overlapping ranges, and the elements in it."""
    first, low, high = 0, int(start[0]), int(end[0])
    for i in range(1, len(batch)):
        if batch[i] == batch[first] and start[i] <= high:
            high = max(high, int(end[i]))
            continue
        yield int(batch[first]), low, high, slice(first, i)
        first, low, high = i, int(start[i]), int(end[i])
    yield int(batch[first]), low, high, slice(first, len(batch))


def _every_step(plan: Plan, batch: Array, start: Array, steps: Array, hosts: Array, yields: float, new: int) -> Span:
    """Time every step of every element along a first axis, in pieces; steps beyond an element's last one are 0."""
    longest, piece = int(steps.max()), max(1, 2**18 // steps.size)
    sums: list[Any] = [np.zeros(steps.shape)] * 4
    for first in range(0, longest, piece):
        numbers = np.arange(first, min(first + piece, longest)).reshape(-1, *(1 for _ in steps.shape))
        contexts = (start + np.minimum(numbers, np.maximum(steps - 1, 0)) * yields).astype(np.int64)
        span = of_total(plan.total(decode_of(batch, contexts, new)), plan, hosts)
        sums = [s + np.where(numbers < steps, v, 0.0).sum(axis=0) for s, v in zip(sums, span.ends(), strict=True)]
    return Span(*sums)


def decode_of(batch: Count, context: Count, new: int) -> Step:
    """A decode step, unchecked."""
    return changed_step(decode(1, 1, new=new), context, new, batch)


@question
def generate(
    model: Model | Source,
    where: Where,
    load: StaticBatch,
    *,
    speculation: Speculation | None = None,
    images: Images | None = None,
    bill: Bill | None = None,
) -> Generation:
    """Predict how long a static batch takes: TTFT, TPOT and latency in seconds, with every step timed by itself.

    Returns a `Generation`, or a `Grid` where a setting is a list.
    `batch` prompts, over all replicas, generate their tokens: the prefill yields the first and output − 1 decode steps
    the others. With `speculation` there are fewer steps, which verify drafts. With pipeline stages the batch is split
    into as many groups, which follow one another. An `engine` adds its host time and its memory rule: sequences that do
    not fit run in a further wave. `images`: in every prompt; a vision tower encodes them first. `model`: a Model, its
    name, path or config. Numbers may be arrays, which broadcast.
    Raises InputError for settings that are not understood, lengths beyond the model's context, a format that the chip
    lacks, and a degree that does not divide. Where the engine's memory holds not even one sequence, `fits` is false.
    """
    return generation(setup(decoder_of(model, images), where, bill), load, speculation, images)


def generation(
    asked: Setup, load: StaticBatch, speculation: Speculation | None = None, images: Images | None = None
) -> Generation:
    """`generate` with the model and its place already resolved."""
    broadcast(batch=load.batch, input=load.input, output=load.output_tokens, layout=asked.layout)
    asked = asked.seeing(images)
    model = asked.model
    answer = Generation(asked, load, speculation)
    check_context(model, prefill(1, answer.input + load.output_tokens - 1))
    check_formats(asked.plan)
    if speculation is not None:
        draft_plan(asked, speculation)  # raises if the model has no draft layers
    return answer
