"""The prefix cache of a replica: what requests leave in memory until others need the place."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from roofline.simulate.policy import Room

if TYPE_CHECKING:
    from roofline.simulate.replica import Request


class Entry:
    """`tokens` that are cached under a key. `pins`: requests that use them; without any it may be evicted."""

    __slots__ = ("pins", "tokens")

    def __init__(self) -> None:
        self.pins = self.tokens = 0


class Prefixed:
    """Cached pieces of prompts, the one used longest ago first.

    A prompt's front is a row of keys of so many tokens each: a shared prefix or a session is one key, a chain of hashed
    blocks one key a block. `pinned`: the share of memory of what requests use, once for all of them; `loose`: that of
    the rest, which is evicted, the last tokens of the oldest first, as soon as others need the place.
    """

    def __init__(self, room: Room, block: int) -> None:
        self.token = room.later if room.full < float("inf") else room.token
        self.block = block
        self.entries: OrderedDict[int, Entry] = OrderedDict()
        self.pinned = self.loose = 0.0

    def share(self, tokens: int) -> float:
        """The share of memory of so many cached tokens."""
        return self.token * tokens

    def matching(self, request: Request) -> int:
        """Prompt tokens that are there, in whole blocks; the last token of a prompt is always computed."""
        tokens = 0
        for key, wanted in fronts(request):
            entry = self.entries.get(key)
            if entry is None:
                break
            tokens += min(entry.tokens, wanted)
            if entry.tokens < wanted:
                break
        return min(tokens, request.prompt - 1) // self.block * self.block

    def pin(self, request: Request, tokens: int) -> None:
        """A request uses so many tokens of what is there."""
        for key, wanted in fronts(request):
            if tokens <= 0:
                break
            self._pin(request, key, self.entries[key])
            used = min(wanted, tokens)
            request.pinned += used
            tokens -= used

    def _pin(self, request: Request, key: int, entry: Entry) -> None:
        if not entry.pins:
            self.loose -= self.share(entry.tokens)
            self.pinned += self.share(entry.tokens)
        entry.pins += 1
        request.pins.append(key)
        self.entries.move_to_end(key)

    def keep(self, request: Request) -> None:
        """A request has computed its prompt: others find its front from now on, which counts as theirs too."""
        for key, tokens in fronts(request):
            entry = self.entries.setdefault(key, Entry())
            if key not in request.pins:
                self._pin(request, key, entry)
            if entry.tokens < tokens:
                self.pinned += self.share(tokens - entry.tokens)
                entry.tokens = tokens
        request.pinned = max(request.pinned, sum(tokens for _, tokens in fronts(request)))

    def unpin(self, request: Request) -> None:
        """A request uses nothing any more."""
        for key in request.pins:
            entry = self.entries[key]
            entry.pins -= 1
            if not entry.pins:
                self.pinned -= self.share(entry.tokens)
                self.loose += self.share(entry.tokens)
        request.pins.clear()
        request.pinned = 0

    def leave(self, request: Request) -> None:
        """A request is done; of a session its answer stays as well."""
        self.unpin(request)
        if request.kept and request.prefix >= 0 and not request.chain:
            entry = self.entries.setdefault(request.prefix, Entry())
            if not entry.pins and entry.tokens < request.kept:
                self.loose += self.share(request.kept - entry.tokens)
                entry.tokens = request.kept

    def shrink(self, room: float) -> None:
        """Evicts until what nobody uses takes at most so much."""
        while self.loose > max(room, 0.0) and self.token > 0:
            key = next((k for k, e in self.entries.items() if not e.pins), None)
            if key is None:
                break
            entry = self.entries[key]
            tokens = min(entry.tokens, int((self.loose - max(room, 0.0)) / self.token) + 1)
            entry.tokens -= tokens
            self.loose -= self.share(tokens)
            if not entry.tokens:
                del self.entries[key]


def fronts(request: Request) -> Iterator[tuple[int, int]]:
    """The keys of a prompt's front, each with its tokens."""
    if request.chain:
        each = request.shared
        yield from ((key, each) for key in request.chain[: request.input // each])
    elif request.prefix >= 0 and request.shared:
        yield request.prefix, min(request.shared, request.input)
