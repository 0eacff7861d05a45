"""A request on its way through a server."""

from __future__ import annotations


class Request:
    """A request in progress. Times are in seconds, −1 for events that have not happened.

    `arrival`: when it was sent; `ready`: when the scheduler sees it. `prompt`: tokens to compute before the next token
    is generated; `computed`: those already computed; `left`: tokens still to generate. `hit`: prompt tokens found in
    the prefix cache. `ends`: number of the decode step that generates its last token. `prefix`, `shared`, `kept`,
    `chain`: as in `Requests`; for a chain, `shared` is the tokens per key. `pins`, `pinned`: keys and tokens of the
    prefix cache in use. `growth`: mean tokens per decode step; `memory_growth`: share of memory that they take.
    `entered`, `order`: its position among the starts and restarts on its replica, and among the starts of decoding;
    `order` is 0 while it does not decode. `queued`: seconds from `ready` to its start. `hosted`: seconds by which the
    host delays the step that starts it, as it prepares simultaneous requests one by one. `encoded`: whether it has
    passed the encoder pool. With a prefill pool, `travelled`: seconds of the cache transfer; `parked`: seconds from
    then until a decode replica takes it.
    """

    __slots__ = (
        "arrival", "begun", "chain", "computed", "encoded", "ends", "entered", "finished", "first", "growth", "hit",
        "hosted", "input", "kept", "left", "memory_growth", "number", "order", "output", "parked", "pinned", "pins",
        "preempted", "prefix", "prompt", "queued", "ready", "shared", "source", "travelled",
    )  # fmt: skip

    def __init__(self, number: int, arrival: float, ready: float, input: int, output: int) -> None:
        self.number, self.arrival, self.ready = number, arrival, ready
        self.input, self.output = input, output
        self.prompt, self.computed, self.left = input, 0, output
        self.begun = self.first = self.finished = -1.0
        self.hit = self.preempted = self.ends = self.pinned = 0
        self.prefix, self.shared, self.kept = -1, 0, 0
        self.chain: tuple[int, ...] = ()
        self.pins: list[int] = []
        self.source = 0
        self.growth, self.memory_growth, self.order, self.entered = 1.0, 0.0, 0, -1
        self.queued = self.hosted = self.travelled = self.parked = 0.0
        self.encoded = False
