"""`simulate`: discrete-event simulation of a server under traffic, request by request."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, nan
from typing import Annotated, Any

from roofline.declared.checks import integer, real
from roofline.declared.errors import InputError, not_one_of
from roofline.declared.groups import SLO, EncoderReplicas, LengthSpread, Load, Where
from roofline.declared.kinds import (
    ArrivalsText,
    FileName,
    LengthsText,
    PlainCount,
    PlainNumber,
    PrefixesText,
    RouterName,
    TimeText,
    Whole,
)
from roofline.declared.numbers.maths import Count, is_array
from roofline.declared.numbers.spelling import whole_named
from roofline.declared.question import group, group_settings, question
from roofline.inference.cost.bill import Bill
from roofline.inference.cost.cost import Spending
from roofline.inference.generate import Speculation
from roofline.inference.settings import Setup, each, setup
from roofline.inference.step import check_context
from roofline.model.adapters import with_lora
from roofline.model.load import Source, decoder_of
from roofline.model.media.images import Images, ImageTokens
from roofline.model.model import Model
from roofline.serving.drafting import Drafting
from roofline.serving.encoders import EncoderQueue, Encoders, encoders_of
from roofline.serving.energy import PhasePool, SteadyLoad, pools_spending, server_spending
from roofline.serving.requests import encoding
from roofline.serving.serve import server_of
from roofline.serving.simulate.checkpoint import Ledger, digest_of, restore, state_of
from roofline.serving.simulate.disaggregated import (
    Handover,
    PrefillPool,
    Travel,
    TwoPools,
    run_pools_closed,
    run_pools_open,
)
from roofline.serving.simulate.dp_attention import join_steps, locked_steps
from roofline.serving.simulate.load.arrivals import AtOnce, Closed, arrivals_named
from roofline.serving.simulate.load.lengths import About, Fixed, Longer, about, lengths_named
from roofline.serving.simulate.load.request import Request
from roofline.serving.simulate.load.workload import Prefixes, Workload
from roofline.serving.simulate.policy import Room, policy_of, room_of
from roofline.serving.simulate.recorder import Recorder, Row, Settling, Watch
from roofline.serving.simulate.replica import Replica
from roofline.serving.simulate.run import ROUTERS, Position, behind_encoders, run_closed, run_open, sent
from roofline.serving.simulate.simulation import (
    Quantiles,
    Simulation,
    balanced,
    distribution,
    falls_behind,
    long_enough,
    time_course,
)
from roofline.serving.simulate.speculation import steps_of
from roofline.serving.simulate.steps import step_times
from roofline.serving.simulate.tables.traces import Trace, TraceSummary, trace_named
from roofline.version import __version__
from roofline.work.step import prefill as prefill_step

REQUESTS = 10_000
"""Default number of requests that count."""
WARMUP = 0.1
"""Minimum warm-up for random traffic, as a share of the requests that count: at the start the server is empty."""
LONGEST_WARMUP = 1_000
"""The warm-up waits for the number in flight to settle for at most this many requests or as many as count,
whichever is more."""
MOST_REQUESTS = 20_000_000
"""Maximum number of requests in a simulation, with `until` too."""
SUREST = 1e-4
"""Smallest share of the mean for `until`: even the maximum number of requests gives no narrower interval."""
UNBOUNDED = 2**20
"""Maximum tokens of a request to a model that states no context."""


@group
@dataclass(frozen=True, kw_only=True)
class DrawnLengths(LengthSpread):
    """Tokens of requests, each with its own length; a plain number is a mean about which they vary (`LengthSpread`)."""

    input: Annotated[
        LengthsText | None,
        "Prompt tokens: their mean, or a distribution: `uniform(100,2000)`, `lognormal(1024,0.8)` (mean and "
        "coefficient of variation), `file(lengths.csv,column)`.",
    ] = None
    output_tokens: Annotated[LengthsText | None, "Generated tokens, likewise."] = None


@group
@dataclass(frozen=True, kw_only=True)
class Requested(DrawnLengths):
    """The traffic: requests at a rate, from users who wait for answers, or from a trace."""

    rate: Annotated[PlainNumber | None, "Requests a second."] = None
    arrivals: Annotated[
        ArrivalsText | None,
        "Arrival process at that rate: `poisson` (the default), `constant`, `gamma(cv)` in bursts. Without a rate: "
        "`at-once`, where all requests are sent at the start.",
    ] = None
    concurrency: Annotated[
        PlainCount | None,
        "Instead of a rate: users each of whom sends the next request when the last one is answered.",
    ] = None
    think: Annotated[TimeText | None, "Time between an answer and the same user's next request, such as `1s`."] = None
    ramp: Annotated[
        TimeText | None,
        "Time within which users send their first requests. Default: 0s, or the time of one answer where "
        "all requests are equally long and prefill shares steps with decode.",
    ] = None
    prefixes: Annotated[
        PrefixesText | None, "Shared prefixes of prompts, their number × tokens each, such as `10x2048`."
    ] = None
    trace: Annotated[
        FileName | None,
        "Instead of all these: a file of requests, CSV, JSON lines or Parquet; docs/simulation.md says which columns.",
    ] = None
    speed: Annotated[PlainNumber | None, "Replay speed of the trace: 2 is twice as fast."] = None


def _extent(field: str, value: object, least: int) -> int:
    number = integer(value)
    if number is None or not least <= number <= MOST_REQUESTS:
        raise InputError(field, value, f"a whole number from {least} to {MOST_REQUESTS}")
    return number


@group
@dataclass(frozen=True)
class Extent:
    """The length of a simulation: requests that count, warm-up, and the random seed.

    `warmup`: for random traffic, by default a tenth of the requests that count, and until three times as many have come
    as are in flight; for a trace, none. `until`: run until the half-widths of the 95 % confidence intervals of mean
    TTFT and latency are at most this share of the means, whatever `requests` says.
    """

    requests: Annotated[PlainCount | None, "Requests that count, such as `10k` (default: 10k; all of a trace)."] = None
    warmup: Annotated[
        PlainCount | None, "Requests to warm up, which do not count (default: a tenth; none for a trace)."
    ] = None
    seed: Annotated[PlainCount, "Random seed: the same seed gives the same answer."] = 0
    until: Annotated[
        PlainNumber | None,
        "Instead of a number of requests: until 95 % confidence intervals of mean TTFT and latency are ± this share of "
        "them, `0.02`.",
    ] = None


def _each(run: Callable[..., Any], settings: Mapping[str, Any], names: Sequence[str]) -> Any:
    """`each`, except that rows can be written for a single simulation only."""
    if settings.get("written") is not None and any(isinstance(settings.get(name), (list, tuple)) for name in names):
        raise InputError("written", "lists of settings", "one simulation, whose requests are written")
    return each(run, settings, names)


@question(_each)
def simulate(
    model: Model | Source,
    where: Where,
    traffic: Requested = Requested(),
    extent: Extent = Extent(),
    slo: SLO = SLO(),  # noqa: B008
    *,
    router: Annotated[
        RouterName,
        "How replicas share requests: in turn, to the one with fewest, or to the one that has most of the "
        "prompt cached.",
    ] = "round-robin",
    prefill: PrefillPool | None = None,
    speculation: Speculation | None = None,
    lora: Annotated[
        Whole | None,
        "Rank of an adapter that every request uses: its weights take memory, and steps read them.",
    ] = None,
    images: Images | None = None,
    encoders: EncoderReplicas | None = None,
    bill: Bill | None = None,
    written: Callable[[Row], None] | None = None,
    progress: Callable[[int], None] | None = None,
) -> Simulation:
    """Simulate a server under traffic, request by request: a `Simulation`, or a `Grid` for lists of settings.

    The scheduler works as the engine's: chunked prefill, limits on sequences and tokens, preemption by recomputation,
    prefix cache. Replicas share requests by the `router`. `slo`: limits that define goodput, and the required
    attainment. `speculation`: decode steps verify drafts; the number accepted is random. `prefill`: prompts are
    computed by a separate pool, and `where` is that of the decode pool. `encoders`: images and sound are encoded by
    replicas of their own, before the others see the request. `written` receives a row for each counted
    request, in the order in which they finish; with a `Ledger`, a killed simulation resumes from its last checkpoint.
    `progress` receives the number of counted requests. The same seed gives the same answer.
    Replicas that share experts (`ep` over `dp`) step together, as long as the slowest of them takes; other replicas
    step independently.
    Raises InputError for invalid settings and lengths beyond the model's context, and `NoRoomError` for a memory that
    does not hold one request.
    """
    if router not in ROUTERS:
        raise not_one_of("router", router, ROUTERS)
    built, front = encoders_of(decoder_of(model, images), where, images, encoders, bill)
    asked = setup(built if lora is None else with_lora(built, lora), where, bill)
    drafting = None if speculation is None else Drafting(asked, speculation)
    read = asked.model
    seen = read.seen(images)
    stream = stream_of(traffic, (asked.model.context or UNBOUNDED) - (0 if seen is None else seen.tokens))
    if seen is not None:
        stream = with_tokens(stream, seen.tokens)
    if router != ROUTERS[0] and isinstance(stream, Workload) and isinstance(stream.arrivals, Closed):
        raise InputError("router", router, "no router beside a concurrency: users stay with their replica")
    if isinstance(stream, Workload):
        stream = begun(stream, asked)
    pool = None if prefill is None else prefilling_setup(asked, prefill, where, bill, seen)
    asked = asked if prefill is not None else replace(asked, seen=seen)
    run = SimulationRun(asked, stream, extent, router, slo, drafting, pool, lora, seen, front)
    return run.simulated(written, progress)


def stream_of(traffic: Requested, context: int) -> Workload | Trace:
    """The requests of the traffic; lengths that vary about a mean stay within the context.

    Raises InputError for settings that are missing, superfluous or invalid.
    """
    vary = group_settings(LengthSpread)
    given = {name: value for name, value in vars(traffic).items() if value is not None and name not in vary}
    if traffic.trace is not None:
        other = next((name for name in given if name not in ("trace", "speed")), None)
        if other is not None:
            raise InputError(other, given[other], "nothing beside a trace, which says it")
        return trace_named(traffic.trace, **({} if traffic.speed is None else {"speed": traffic.speed}))
    if traffic.speed is not None:
        raise InputError("speed", traffic.speed, "a trace as well")
    for name in ("input", "output_tokens"):
        if name not in given:
            raise InputError(name, "nothing", "tokens, or a distribution of them")
    arrivals = arrivals_named(
        traffic.arrivals, rate=traffic.rate, concurrency=traffic.concurrency,
        think=0.0 if traffic.think is None else traffic.think, ramp=traffic.ramp,
    )  # fmt: skip
    new, out = lengths_named(traffic.input, "input"), lengths_named(traffic.output_tokens, "output_tokens")
    times = (context + 1) / (new.mean + out.mean)
    if isinstance(new, Fixed):
        new = about(new.tokens, one_number("input_cv", traffic.input_cv), int(new.tokens * times))
    if isinstance(out, Fixed):
        out = about(out.tokens, one_number("output_cv", traffic.output_cv), int(out.tokens * times))
    return Workload(new, out, arrivals, prefixes_named(traffic.prefixes))


def begun(stream: Workload, asked: Setup) -> Workload:
    """The closed loop with its default ramp for the engine.

    Users with equally long requests who start together would stay in step for ever. With prompts first, as in SGLang,
    measured ones do. Where prompts and decodes share steps, hosts and clients break the step, as `serve` assumes: the
    ramp is then the time in which each user is answered once.
    """
    clients = stream.arrivals
    if not isinstance(clients, Closed) or clients.ramp is not None:
        return stream
    ramp = 0.0
    if stream.equally_long and not asked.engine.keeps_step:
        new, out = (int(each.mean) for each in (stream.lengths_in, stream.lengths_out))
        load = Load(input=new, output_tokens=out, concurrency=clients.concurrency, input_cv=0.0, output_cv=0.0)
        server = replace(server_of(asked, load), follows=False)
        ramp = clients.think + float(server.at(clients.concurrency).latency.expected)
    return replace(stream, arrivals=replace(clients, ramp=ramp))


def one_number(field: str, value: Count) -> float:
    """A scalar. Raises InputError for an array."""
    if is_array(value):
        raise InputError(field, value, "one number")
    return float(value)


def prefixes_named(value: Prefixes | str | None) -> Prefixes | None:
    """Parse `10x2048`: ten prefixes of 2,048 tokens. Raises InputError for anything else."""
    if value is None or isinstance(value, Prefixes):
        return value
    number, cross, tokens = str(value).replace("×", "x").partition("x")
    if not cross:
        raise InputError("prefixes", value, "so many prefixes of so many tokens, such as 10x2048")
    return Prefixes(whole_named("prefixes", number.strip()), whole_named("prefixes", tokens.strip()))


def with_tokens(stream: Workload | Trace, tokens: int) -> Workload:
    """The requests with `tokens` more in each prompt. Raises InputError for a trace."""
    if not isinstance(stream, Workload):
        raise InputError("images", "with a trace", "none: the lengths of its prompts are whole")
    return replace(stream, lengths_in=Longer(stream.lengths_in, tokens))


@dataclass(frozen=True)
class SimulationRun:
    """One simulation: a deployment, its traffic, its length, its router and its SLO."""

    asked: Setup
    stream: Workload | Trace
    extent: Extent
    router: str
    objective: SLO
    drafting: Drafting | None = None
    pool: Travel | None = None
    lora: int | None = None
    images: ImageTokens | None = None
    front: Encoders | None = None

    def simulated(self, written: Callable[[Row], None] | None, progress: Callable[[int], None] | None) -> Simulation:
        """Run the simulation."""
        recorder = self._recorder(written)
        requests, _ = self._numbers()
        replicas, until, position = self._replicas(recorder), self.extent.until, Position()
        position.front = None if self.front is None else EncoderQueue(self.front)
        ledger = written if isinstance(written, Ledger) else None
        pools = None if self.pool is None else self._pools(self.pool, replicas, recorder, position)
        if ledger is not None:
            first = replicas[0]
            who = (
                __version__,
                first.times,
                first.policy,
                first.room,
                len(replicas),
                self.stream,
                self.seen,
                self.extent,
                self.drafting and self.drafting.chances,
                *([] if pools is None else self._prefilling(pools)),
                *([] if position.front is None else position.front.behaviour),
            )
            state = ledger.begin(digest_of(*who, self.router, self.objective))
            if state is not None:
                restore(state, position, replicas, recorder, pools)

        def enough() -> bool:
            if progress is not None:
                progress(recorder.counted)
            if until is None:
                over = requests is not None and recorder.counted >= requests
            else:
                means = (recorder.ttft_means, recorder.latency_means)
                sure = all(m.within(until, self.drawn) for m in means)
                over = sure or recorder.counted >= MOST_REQUESTS
            if ledger is not None and not over and ledger.due(recorder.counted):
                ledger.save(state_of(position, replicas, recorder, pools))
            return over

        left_out = self._send(replicas, pools, position, enough)
        answer = self._answer(recorder, replicas, left_out, pools)
        if position.front is None:
            return answer
        pool = position.front.answer(answer.requests_per_second)
        spent = None if answer.spent is None else replace(answer.spent, encoding=pool.cost)
        return replace(answer, encoder=pool, images=position.front.front.images, spent=spent)

    @cached_property
    def seen(self) -> TraceSummary | None:
        """A summary of the trace, read once before it is sent; None for random traffic."""
        if isinstance(self.stream, Workload):
            return None
        return self.stream.summary(self._sent)

    @property
    def _sent(self) -> int | None:
        """Number of requests taken from a trace; None for all."""
        requests, warmup = self._numbers()
        return None if requests is None else (warmup or 0) + requests

    @property
    def drawn(self) -> bool:
        """Whether the traffic is random; a trace counts as a random sample."""
        return self.drafting is not None or not isinstance(self.stream, Workload) or self.stream.drawn

    def _recorder(self, written: Callable[[Row], None] | None) -> Recorder:
        """The recorder, with the default warm-up rule where no warm-up is given."""
        requests, warmup = self._numbers()
        number = inf if requests is None else requests
        if warmup is not None:
            return Recorder(warmup, warmup + number, self.objective, written)
        many = requests or REQUESTS
        settling = Settling(round(WARMUP * many), max(many, LONGEST_WARMUP), number)
        return Recorder(inf, inf, self.objective, written, settling)

    def _numbers(self) -> tuple[int | None, int | None]:
        """The number of requests that count, None for all; and the warm-up, None for the default rule."""
        extent, drawn = self.extent, isinstance(self.stream, Workload)
        requests = None if extent.requests is None else _extent("requests", extent.requests, 1)
        if extent.until is not None:
            until = real(extent.until)
            if until is None or not SUREST <= until < 1:
                raise InputError("until", extent.until, f"a share of the mean, from {SUREST:g} up to 1")
            if not drawn:
                raise InputError("until", extent.until, "nothing, with a trace: it ends where it ends")
            requests = None
        elif drawn and requests is None:
            requests = REQUESTS
        if self.at_once and extent.until is not None:
            raise InputError("until", extent.until, "a number of requests, with arrivals at once")
        if extent.warmup is not None:
            if self.at_once and extent.warmup:
                raise InputError("warmup", extent.warmup, "none with arrivals at once, of which all count")
            return requests, _extent("warmup", extent.warmup, 0)
        return requests, None if drawn and not self.at_once else 0

    @property
    def at_once(self) -> bool:
        """Whether all requests are sent at the start."""
        return isinstance(self.stream, Workload) and isinstance(self.stream.arrivals, AtOnce)

    @property
    def longest(self) -> int:
        """Tokens of the longest request that the server accepts."""
        context = self.asked.model.context or UNBOUNDED
        return self.certain or (context if self.seen is None else min(context, self.seen.longest))

    @property
    def certain(self) -> int | None:
        """Tokens of the longest possible request, if lengths have a maximum; else None.

        None for a trace too, and for lengths that vary about a mean: few of them are much longer. Raises InputError
        where it is longer than the context.
        """
        if not isinstance(self.stream, Workload):
            return None
        lengths = (self.stream.lengths_in, self.stream.lengths_out)
        new, out = (None if isinstance(each, About) else each.largest for each in lengths)
        if new is None or out is None:
            return None
        check_context(self.asked.model, prefill_step(1, new + out - 1))
        return new + out

    @property
    def fitting(self) -> int | None:
        """Tokens of a request that must fit in memory: the longest, or the mean where lengths vary about a mean."""
        stream = self.stream
        if not isinstance(stream, Workload) or not any(
            isinstance(x, About) for x in (stream.lengths_in, stream.lengths_out)
        ):
            return self.certain
        return round(stream.lengths_in.mean + stream.lengths_out.mean)

    def _replicas(self, recorder: Recorder) -> list[Replica]:
        asked, groups, drafting = self.asked, int(self.asked.layout.pp), self.drafting
        width, draft = (1, None) if drafting is None else (drafting.width, drafting.plan)
        block = asked.engine.block
        room = room_of(asked, groups, self.fitting or block, drafting)
        policy = policy_of(asked, groups, room, width)
        if self.pool is not None:
            policy = replace(policy, caches=False)
        times = step_times(asked.plan, policy.tokens, policy.running, self.longest, width, draft)
        encode_s = float(encoding(asked.plan, self.images).expected)
        needed = decodes_of if drafting is None else steps_of(drafting.speculation, self.extent.seed)
        watches = [Watch(recorder, i) for i in range(int(asked.layout.dp) * groups)]
        replicas = [Replica(times, policy, room, watch, needed, block, encode_s) for watch in watches]
        join_steps(replicas, locked_steps(asked.layout), groups, asked.engine.balanced)
        return replicas

    def _pools(self, travel: Travel, decodes: list[Replica], recorder: Recorder, position: Position) -> TwoPools:
        """Both pools; the prefill pool holds prompts only."""
        first = travel.first
        groups, block, deliveries = int(first.layout.pp), first.engine.block, list[tuple[float, int, Request]]()
        room = room_of(first, groups, self.fitting or block)
        policy = replace(policy_of(first, groups, room), reserves=False)
        times = step_times(first.plan, policy.tokens, min(policy.running, policy.tokens), self.longest)
        encode_s = float(encoding(first.plan, self.images).expected)
        prefills = []
        for _ in range(int(first.layout.dp) * groups):
            watch = Handover(recorder, travel, deliveries)
            watch.replica = Replica(times, policy, room, watch, decodes_of, block, encode_s)
            prefills.append(watch.replica)
        join_steps(prefills, locked_steps(first.layout), groups)
        return TwoPools(first, prefills, decodes, deliveries, recorder, self.router, position)

    def _prefilling(self, pools: TwoPools) -> tuple[object, ...]:
        """What determines the behaviour of the prefill pool and the duration of transfers, for the digest."""
        first, travel = pools.prefills[0], self.pool
        link = () if travel is None else (travel.seconds(1), travel.seconds(UNBOUNDED), travel.layers)
        return first.times, first.policy, first.room, len(pools.prefills), *link

    def _send(
        self, replicas: list[Replica], pools: TwoPools | None, position: Position, enough: Callable[[], bool]
    ) -> dict[str, int]:
        """Run all requests. Returns the number left out, by reason."""
        stream, engine, left_out = self.stream, self.asked.engine, dict[str, int]()
        endless = isinstance(stream, Workload) and not self.at_once
        blocks = stream.blocks(None if endless else self._sent, self.extent.seed)
        rooms = (replicas[0].room, *(() if pools is None else (pools.prefills[0].room,)))
        possible = self._possible(sent(blocks, engine, self.at_once and engine.queues), rooms, left_out)
        watcher = replicas[0].watcher
        assert isinstance(watcher, Watch)
        recorder = watcher.recorder
        closed = isinstance(stream, Workload) and isinstance(stream.arrivals, Closed)
        if self.front is not None and not closed:  # the stream is drawn anew from its beginning, and so is the queue
            position.front = EncoderQueue(self.front)
            possible = behind_encoders(possible, position.front)
        if pools is not None:
            if isinstance(stream, Workload) and isinstance(stream.arrivals, Closed):
                run_pools_closed(possible, pools, stream.arrivals, engine.before, enough)
            else:
                run_pools_open(possible, pools, enough)
        elif isinstance(stream, Workload) and isinstance(stream.arrivals, Closed):
            run_closed(
                possible, replicas, recorder, stream.arrivals, engine, enough, position, int(self.asked.layout.dp)
            )
        else:
            run_open(possible, replicas, recorder, self.router, enough, position)
        return left_out if self.seen is None else {**dict(self.seen.left_out), **left_out}

    def _possible(
        self, requests: Iterator[Request], rooms: Sequence[Room], left_out: dict[str, int]
    ) -> Iterator[Request]:
        """Number the requests that the server can hold; others are left out and counted by reason."""
        context, number = self.asked.model.context or UNBOUNDED, 0
        for request in requests:
            length = request.input + request.output
            if length - 1 <= context and all(room.held(length) <= 1 for room in rooms):
                request.number, number = number, number + 1
                yield request
                continue
            why = f"longer than the context, {context}" if length - 1 > context else "larger than the memory"
            left_out[why] = left_out.get(why, 0) + 1

    def _answer(
        self, recorder: Recorder, replicas: list[Replica], left_out: dict[str, int], pools: TwoPools | None
    ) -> Simulation:
        stream, asked = self.stream, self.asked
        closed = isinstance(stream, Workload) and isinstance(stream.arrivals, Closed)
        overloaded = not closed and falls_behind(recorder)
        ttft, tpot, latency = recorder.ttft_means, recorder.tpot_means, recorder.latency_means
        end = recorder.end if recorder.end < inf else max(replica.clock for replica in replicas)
        seconds = end - recorder.start if recorder.counted else 0.0
        offered = (
            stream.arrivals.rate if isinstance(stream, Workload) else recorder.counted / seconds if seconds else None
        )
        per = 1 / seconds if seconds > 0 else nan
        rate = recorder.finished * per
        before = recorder.sent if recorder.first == inf else int(recorder.first)
        return Simulation(
            asked=asked, traffic=stream.text, router=self.router, seed=self.extent.seed, warmup=before,
            requests=recorder.counted, seconds=seconds, offered=offered,
            ttft=distribution(recorder.ttft, ttft if self.drawn else None),
            tpot=distribution(recorder.tpot, tpot if self.drawn else None), inter_token=distribution(recorder.gap),
            latency=distribution(recorder.latency, latency if self.drawn else None), queue=distribution(recorder.queue),
            requests_per_second=rate,
            tokens_per_second=recorder.tokens * per, objective=dict(self.objective.limits),
            attainment=self.objective.share if self.objective.limits else None,
            attained=recorder.met / recorder.counted if recorder.counted else nan,
            attained_half_width=recorder.met_means.half_width,
            utilization=recorder.busy * per / len(replicas),
            running=recorder.decoding / recorder.busy if recorder.busy else 0.0, preemptions=recorder.preempted,
            cached_share=recorder.cached / max(1, recorder.prompts_done), steps=recorder.steps,
            overloaded=overloaded, left_out=left_out, at_once=self.at_once,
            settled=self.at_once or (not overloaded and long_enough(recorder, closed) and balanced(rate, offered)),
            timeline=time_course(recorder.timeline, len(replicas)),
            prefill=None if pools is None else pools.answer(seconds),
            speculation=None if self.drafting is None else self.drafting.speculation, lora=self.lora,
            images=self.images,
            spent=self._spent(recorder, seconds, replicas, pools),
            quantiles=Quantiles(*(sample.quantiles() for sample in (recorder.ttft, recorder.tpot, recorder.latency))),
        )  # fmt: skip

    def _spent(
        self, recorder: Recorder, seconds: float, replicas: list[Replica], pools: TwoPools | None
    ) -> Spending | None:
        """Cost and energy per second, at the mean lengths of requests; None where no request counts."""
        done, counted = recorder.finished, recorder.counted
        if not done or not counted or not seconds > 0 or not recorder.tokens:
            return None
        prompt = max(1, round(recorder.prompts_done / counted))
        known = min(prompt - 1, round(recorder.cached / counted))
        answer, context = max(1, round(recorder.tokens / done)), round(recorder.contexts / recorder.tokens)
        load = SteadyLoad(done / seconds, prompt, answer, context, known)
        if self.pool is None or pools is None:
            tpot = recorder.tpot.mean
            return server_spending(self.asked, load, tpot if tpot == tpot else 0.0, drafting=self.drafting)
        busy = recorder.busy / seconds / len(replicas)
        running = max(1, round(recorder.decoding / recorder.busy)) if recorder.busy else 1
        first = PhasePool(self.pool.first, 1, 1, min(1.0, pools.answer(seconds).utilization))
        return pools_spending(first, PhasePool(self.asked, 1, running, min(1.0, busy)), load, self.drafting)


def prefilling_setup(
    then: Setup, pool: PrefillPool, where: Where, bill: Bill | None, images: ImageTokens | None = None
) -> Travel:
    """The prefill pool, with the formats and the law of the decode pool, and the transfers between them."""
    engine = where.engine if pool.engine is None else pool.engine
    machine = where.on if pool.on is None else pool.on
    first = setup(then.model, replace(where, on=machine, layout=pool.layout, engine=engine), bill)
    return Travel(replace(first, seen=images), then, pool.bandwidth)


def decodes_of(request: Request) -> int:
    """Number of decode steps until a request's last token, without drafts."""
    return request.left
