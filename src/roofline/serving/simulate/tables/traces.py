"""Recorded traffic: a file of timed requests, in Roofline's format or that of a public trace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roofline.declared.errors import InputError
from roofline.declared.numbers.arrays import Array
from roofline.declared.numbers.spelling import LONGEST_TIME
from roofline.extras import check_frames
from roofline.model.sources.untrusted import printable
from roofline.serving.simulate.load.workload import BLOCK, NO_PREFIX, Requests, check_blocks, in_blocks
from roofline.serving.simulate.tables.columns import chain_column, id_column, time_column, whole_column
from roofline.serving.simulate.tables.parsers import number_above
from roofline.serving.simulate.tables.parts import TablePart
from roofline.serving.simulate.tables.read import read_table
from roofline.serving.simulate.tables.trace_formats import TraceFormat, format_of

WINDOW = 2**16
"""Maximum number of rows by which a row may be out of order; fewer for rows with block ids."""
IDS_A_ROW = 16
"""Number of block ids that weigh as much as a row."""
MOST_IDS = 2**21
"""Maximum number of distinct prefixes and sessions in a trace."""
FASTEST_REPLAY = 1e9


@dataclass(frozen=True)
class TraceSummary:
    """A summary of a trace, from reading it once.

    rows: in the file. requests: that are sent. without_output, without_input: rows left out because they state 0
    tokens, as BurstGPT's failed requests do. seconds: from the first request to the last, at the trace's speed.
    restarted: session turns whose prompt is too short to begin with the conversation so far, and which share nothing.
    unused: columns that are not read.
    """

    format: str
    rows: int
    requests: int
    without_output: int
    without_input: int
    restarted: int
    seconds: float
    input_tokens: int
    output_tokens: int
    largest_input: int
    largest_output: int
    longest: int
    unused: tuple[str, ...]

    @property
    def left_out(self) -> tuple[tuple[str, int], ...]:
        """Number of rows left out, by reason; empty if there are none."""
        reasons = (("an answer of 0 tokens", self.without_output), ("a prompt of 0 tokens", self.without_input))
        return tuple((reason, rows) for reason, rows in reasons if rows)


@dataclass(frozen=True, eq=False)
class TraceRows:
    """Parsed rows of a trace. time: as in the file, float64 or int64 ns; ids and chains: arrays of objects.

    weight: the size of each row in the window, int64.
    """

    time: NDArray[Any]
    input: NDArray[np.int64]
    output: NDArray[np.int64]
    weight: NDArray[np.int64]
    shared: NDArray[np.int64] | None = None
    prefix: NDArray[np.object_] | None = None
    session: NDArray[np.object_] | None = None
    chains: NDArray[np.object_] | None = None

    def __len__(self) -> int:
        return len(self.time)

    @property
    def sent(self) -> NDArray[np.bool_]:
        """Whether each row has a prompt and an answer."""
        return (self.input > 0) & (self.output > 0)

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """The columns that are present."""
        return {name: array for name, array in vars(self).items() if array is not None}

    def at(self, index: Array | slice) -> TraceRows:
        """The rows of a slice, a mask or an index array."""
        return TraceRows(**{name: array[index] for name, array in self.arrays().items()})


@dataclass(frozen=True)
class Trace:
    """Requests from a file, ordered by time, the first at 0; `speed` 2 replays them in half of the time.

    The file is CSV, JSON lines (either may be gzipped) or Parquet, in one of `FORMATS`. Roofline's own has the columns
    `time` (s), `input` and `output` (tokens), and optionally `prefix` (an id) with `shared` (tokens that all prompts of
    that prefix begin with) and `session` (an id: each turn's prompt begins with the whole turn before, its answer
    included). Times are numbers, or dates and times. Rows may be up to 65,536 rows out of order, fewer where they have
    block ids; equal times keep the order of the file. Rows without a prompt or an answer are left out and counted in
    `summary`. With block ids, these determine what prompts share, and chat ids are not read.
    """

    path: Path
    speed: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))
        if self.path.suffix.lower() == ".parquet":
            check_frames("trace", self.name, "CSV or JSON lines")
        number_above("speed", self.speed, FASTEST_REPLAY)

    @property
    def name(self) -> str:
        """The name of the file."""
        return printable(self.path.name)

    @property
    def text(self) -> str:
        """The traffic in words."""
        return f"{self.name}, {self.speed:g} times as fast" if self.speed != 1 else self.name

    def blocks(self, requests: int | None = None, seed: int = 0, size: int = BLOCK) -> Iterator[Requests]:
        """The first `requests` requests, or all for None, in blocks of `size`; the seed has no effect.

        Memory does not grow with the file, except for about 100 bytes per prefix and session, of which there may be
        2,097,152. Raises InputError for what `read_table` refuses, unknown columns, invalid cells, times out of order
        or more than 68 years apart, and a file without requests.
        """
        del seed
        check_blocks(requests, size)
        names: list[tuple[str, ...]] = []
        return in_blocks(self._sent(names, self._rows(names)), requests, size)

    def summary(self, requests: int | None = None) -> TraceSummary:
        """Summarise the first `requests` requests, or all for None. Reads the file and raises what `blocks` raises."""
        check_blocks(requests, BLOCK)
        names: list[tuple[str, ...]] = []
        read, empty_out, empty_in = [0], [0], [0]

        def counted() -> Iterator[TraceRows]:
            left = requests
            for rows in self._rows(names):
                sent_so_far = np.cumsum(rows.sent)
                if left is not None and sent_so_far[-1] >= left:
                    rows = rows.at(slice(0, int(np.searchsorted(sent_so_far, left)) + 1))
                read.append(len(rows))
                empty_out.append(int((rows.output == 0).sum()))
                empty_in.append(int(((rows.input == 0) & (rows.output > 0)).sum()))
                yield rows
                left = None if left is None else left - int(rows.sent.sum())
                if left == 0:
                    return

        sent = inputs = outputs = largest_input = largest_output = longest = restarted = 0
        seconds, newest = 0.0, NO_PREFIX
        for block in self._sent(names, counted()):
            sent += len(block)
            inputs, outputs = inputs + int(block.input.sum()), outputs + int(block.output.sum())
            largest_input = max(largest_input, int(block.input.max()))
            largest_output = max(largest_output, int(block.output.max()))
            longest = max(longest, int((block.input + block.output).max()))
            before = np.maximum.accumulate(np.concatenate(([newest], block.prefix)))
            turns = (block.kept == block.input + block.output) & (block.prefix <= before[:-1])
            restarted += int((turns & (block.shared == 0)).sum())
            seconds, newest = float(block.arrival[-1]), int(before[-1])
        kind = format_of(self._named, names[0])
        unused = tuple(name for name in names[0] if name not in kind.columns(names[0]))
        return TraceSummary(
            kind.name, sum(read), sent, sum(empty_out), sum(empty_in), restarted, seconds, inputs, outputs,
            largest_input, largest_output, longest, unused,
        )  # fmt: skip

    @property
    def _named(self) -> str:
        return printable(str(self.path))

    def _rows(self, names: list[tuple[str, ...]]) -> Iterator[TraceRows]:
        """The rows ordered by time, including those to be left out; `names` receives the file's columns."""

        def choose(columns: tuple[str, ...]) -> tuple[str, ...]:
            names.append(columns)
            return format_of(self._named, columns).columns(columns)

        parts = read_table(self.path, choose)
        return in_order(self._named, (understood(part, format_of(self._named, names[0])) for part in parts))

    def _sent(self, names: list[tuple[str, ...]], ordered: Iterator[TraceRows]) -> Iterator[Requests]:
        """The requests of ordered rows, in non-empty blocks of any size."""
        ids, start = _Ids(self._named), None
        for rows in ordered:
            rows = rows.at(rows.sent)
            if not len(rows):
                continue
            kind = format_of(self._named, names[0])
            start = rows.time[0] if start is None else start
            units = kind.per_second if rows.time.dtype.kind == "f" else 1e9
            arrival = (rows.time - start) / units / self.speed
            if arrival[-1] > LONGEST_TIME:
                raise InputError(f"{self._named}: {kind.time}", rows.time[-1].item(), "times within 2^31 seconds")
            yield _requests(rows, arrival, ids, kind.chain_tokens)
        if start is None:
            raise InputError(self._named, "none", "at least one request, with a prompt and an answer")


def trace_named(value: object, speed: float = 1.0) -> Trace:
    """The trace in a file; a Trace is returned as is. Raises InputError for an invalid path, or a speed not above 0."""
    if isinstance(value, Trace):
        return value
    if not isinstance(value, (str, Path)) or not str(value).strip():
        raise InputError("trace", value, "the path of a trace: CSV, JSON lines or Parquet")
    return Trace(Path(value), speed)


def understood(part: TablePart, kind: TraceFormat) -> TraceRows:
    """Parse the rows of a part. Raises InputError for an invalid cell."""
    columns = part.columns
    time, new, out = time_column(part, kind.time), whole_column(part, kind.input), whole_column(part, kind.output)
    if kind.chains in columns:
        most = (-(-new // kind.chain_tokens)).tolist()
        chains = chain_column(part, kind.chains, most)
        weight = 1 + np.array(list(map(len, chains)), dtype=np.int64) // IDS_A_ROW
        return TraceRows(time, new, out, weight, chains=_objects(chains))
    weight = np.ones(len(part), dtype=np.int64)
    session = id_column(part, kind.session) if kind.session in columns else None
    if kind.prefix not in columns:
        return TraceRows(time, new, out, weight, session=None if session is None else _objects(session))
    prefix = id_column(part, kind.prefix)
    values = columns[kind.shared].tolist() if isinstance(columns[kind.shared], np.ndarray) else columns[kind.shared]
    blank = (None, "")
    known = [0 if p is None and v in blank else v for p, v in zip(prefix, values, strict=True)]
    shared = whole_column(part, kind.shared, values=known)
    for row, (p, tokens) in enumerate(zip(prefix, shared.tolist(), strict=True)):
        if tokens > new[row]:
            raise part.wrong(row, kind.shared, tokens, f"at most the prompt's {new[row]} tokens")
        if p is None and tokens:
            raise part.wrong(row, kind.shared, tokens, "0 tokens, or a prefix that they belong to")
        if p is not None and session is not None and session[row] is not None:
            raise part.wrong(row, kind.prefix, p, "a prefix or a session, not both")
    return TraceRows(time, new, out, weight, shared, _objects(prefix), None if session is None else _objects(session))


def _objects(values: list[Any]) -> NDArray[np.object_]:
    return np.fromiter(values, dtype=object, count=len(values))


def in_order(path: str, parts: Iterator[TraceRows]) -> Iterator[TraceRows]:
    """Sort rows by time in a bounded window; equal times keep their order.

    At most twice the window waits in memory. Raises InputError for a row further out of order than the window, and for
    dates among numbers.
    """
    waiting: TraceRows | None = None
    last: Any = None
    for part in parts:
        waiting = part if waiting is None else _together(path, waiting, part)
        if len(waiting) and waiting.weight.sum() > 2 * WINDOW:
            waiting = _sorted(waiting)
            fits = int(np.searchsorted(np.cumsum(waiting.weight[::-1]), WINDOW, side="right"))
            ready, waiting = waiting.at(slice(0, len(waiting) - fits)), waiting.at(slice(len(waiting) - fits, None))
            last = _later(path, ready, last)
            yield ready
    if waiting is not None and len(waiting):
        waiting = _sorted(waiting)
        _later(path, waiting, last)
        yield waiting


def _later(path: str, rows: TraceRows, last: Any) -> Any:
    """The time of the last row. Raises InputError where the first row is before `last`."""
    if last is not None and rows.time[0] < last:
        expected = f"rows in order of time, none of them more than {WINDOW} rows too late"
        raise InputError(f"{path}: time", rows.time[0].item(), expected)
    return rows.time[-1]


def _sorted(rows: TraceRows) -> TraceRows:
    if (rows.time[1:] >= rows.time[:-1]).all():
        return rows
    return rows.at(np.argsort(rows.time, kind="stable"))


def _together(path: str, first: TraceRows, then: TraceRows) -> TraceRows:
    if first.time.dtype != then.time.dtype:
        raise InputError(f"{path}: time", "both", "numbers, or dates and times, all the way")
    others = then.arrays()
    return TraceRows(**{name: np.concatenate((array, others[name])) for name, array in first.arrays().items()})


class _Ids:
    """Numbers prefixes and sessions in order of first appearance, and tracks conversations."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.numbers: dict[tuple[bool, str], int] = {}
        self.tokens: dict[int, int] = {}

    def number(self, is_session: bool, name: str) -> int:
        """The number of a prefix or session, from 0."""
        number = self.numbers.setdefault((is_session, name), len(self.numbers))
        if number >= MOST_IDS:
            raise InputError(self.path, "more", f"at most {MOST_IDS} different prefixes and sessions")
        return number

    def turn(self, name: str, new: int, out: int) -> tuple[int, int, int]:
        """The next turn of a session: its number, the tokens shared with the turn before, and the tokens it leaves."""
        session = self.number(True, name)
        before = self.tokens.get(session, 0)
        self.tokens[session] = new + out
        return session, before if before <= new else 0, new + out


def _requests(rows: TraceRows, arrival: NDArray[np.float64], ids: _Ids, chain_tokens: int) -> Requests:
    number = len(rows)
    prefix, shared = np.full(number, NO_PREFIX, dtype=np.int64), np.zeros(number, dtype=np.int64)
    if rows.chains is not None:
        return Requests(arrival, rows.input, rows.output, prefix, shared, shared, tuple(rows.chains), chain_tokens)
    kept = shared.copy()
    nobody = np.full(number, None, dtype=object)
    fronts = nobody if rows.prefix is None else rows.prefix
    sessions = nobody if rows.session is None else rows.session
    if rows.shared is not None:
        shared, kept = rows.shared.copy(), rows.shared.copy()
    for row in np.flatnonzero((fronts != nobody) | (sessions != nobody)).tolist():
        if fronts[row] is not None:
            prefix[row] = ids.number(False, fronts[row])
        else:
            turn = ids.turn(sessions[row], int(rows.input[row]), int(rows.output[row]))
            prefix[row], shared[row], kept[row] = turn
    return Requests(arrival, rows.input, rows.output, prefix, shared, kept)
