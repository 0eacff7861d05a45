"""A request on its way through a server."""

from __future__ import annotations


class Request:
    """A request under way. Times are seconds, −1 where they have not come.

    `arrival`: when it was sent; `ready`: when the scheduler sees it. `prompt`: tokens to compute before the next token
    is generated, `computed` of them done; `left`: tokens still to generate. `hit`: prompt tokens found in the cache.
    `ends`: the number of the decode step that generates its last token. `prefix`, `shared`, `kept`, `chain`: as in
    `Requests`, of a chain `shared` is the tokens of each key; `pins`, `pinned`: the keys and tokens of the prefix cache
    that it uses. `growth`: tokens that each of its decode steps adds, on average over those that it needs,
    `memory_growth` the share of the memory that they take. `entered`, `order`: which of its replica's requests it was
    to begin, or begin again, and to decode; `order` is 0 while it does not. `queued`: seconds from `ready` until it
    began; `travelled`, `parked`: where it decodes elsewhere, those until its cache was there, and until a replica took
    it.
    """

    __slots__ = (
        "arrival", "begun", "chain", "computed", "ends", "entered", "finished", "first", "growth", "hit", "input",
        "kept", "left", "memory_growth", "number", "order", "output", "parked", "pinned", "pins", "preempted",
        "prefix", "prompt", "queued", "ready", "shared", "source", "travelled",
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
        self.queued = self.travelled = self.parked = 0.0
