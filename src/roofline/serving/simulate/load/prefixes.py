"""The prefix cache of a replica: tokens that stay in memory until others need the space."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from roofline.serving.simulate.load.request import Request
from roofline.serving.simulate.policy import Room


class Entry:
    """A cache entry of `tokens`. `pins`: requests that use the first `used` of them; the rest can be evicted."""

    __slots__ = ("pins", "tokens", "used")

    def __init__(self) -> None:
        self.pins = self.tokens = self.used = 0


class Prefixed:
    """An LRU prefix cache, least recently used entry first.

    The front of a prompt is a sequence of keys with a number of tokens each: a shared prefix or a session is one key, a
    chain of hashed blocks has one key per block. `pinned`: share of memory used by requests, counted once for all of
    them. `loose`: share of the rest, which is evicted on demand, the last tokens of the oldest entry first.
    """

    def __init__(self, room: Room, block: int) -> None:
        self.token = room.later if room.full < float("inf") else room.token
        self.block = block
        self.entries: OrderedDict[int, Entry] = OrderedDict()
        self.pinned = self.loose = 0.0

    def share(self, tokens: int) -> float:
        """The share of memory of cached tokens."""
        return self.token * tokens

    def matching(self, request: Request) -> int:
        """Cached tokens of a prompt, in whole blocks; the last token of a prompt is always computed."""
        tokens = 0
        for key, wanted in fronts(request):
            entry = self.entries.get(key)
            if entry is None:
                break
            tokens += min(entry.tokens, wanted)
            if entry.tokens < wanted:
                break
        return min(tokens, request.prompt - 1) // self.block * self.block

    def awakened(self, request: Request, tokens: int) -> float:
        """The share of memory of the cached tokens that a request would use and that no other request uses."""
        share = 0.0
        for key, wanted in fronts(request):
            if tokens <= 0:
                break
            share += self.share(max(0, min(wanted, tokens) - self.entries[key].used))
            tokens -= wanted
        return share

    def pin(self, request: Request, tokens: int) -> None:
        """Mark the first `tokens` cached tokens of a request's prompt as used by it."""
        for key, wanted in fronts(request):
            if tokens <= 0:
                break
            used = min(wanted, tokens)
            self.entries[key].pins += 1
            request.pins.append(key)
            self._use(self.entries[key], used)
            request.pinned += used
            tokens -= used

    def _use(self, entry: Entry, tokens: int) -> None:
        """Mark the first tokens of an entry as used."""
        if tokens > entry.used:
            share = self.share(tokens - entry.used)
            self.pinned, self.loose = self.pinned + share, self.loose - share
            entry.used = tokens

    def keep(self, request: Request) -> None:
        """Cache the front of a request's computed prompt; it counts as used by this request too."""
        known, total = set(request.pins), 0
        for key, tokens in fronts(request):
            entry = self.entries.setdefault(key, Entry())
            if key not in known:
                entry.pins += 1
                request.pins.append(key)
                known.add(key)
            self._extend(entry, tokens)
            self._use(entry, tokens)
            total += tokens
        request.pinned = max(request.pinned, total)

    def _extend(self, entry: Entry, tokens: int) -> None:
        """Extend an entry to at least this many tokens."""
        if entry.tokens < tokens:
            self.loose += self.share(tokens - entry.tokens)
            entry.tokens = tokens

    def unpin(self, request: Request) -> None:
        """Release all entries of a request; its last entry becomes the least recently used of them."""
        for key in reversed(request.pins):
            entry = self.entries[key]
            entry.pins -= 1
            if not entry.pins:
                share, entry.used = self.share(entry.used), 0
                self.pinned, self.loose = self.pinned - share, self.loose + share
            self.entries.move_to_end(key)
        request.pins.clear()
        request.pinned = 0

    def leave(self, request: Request) -> None:
        """Release a finished request; in a session its answer is cached as well."""
        self.unpin(request)
        if request.kept and request.prefix >= 0 and not request.chain:
            self._extend(self.entries.setdefault(request.prefix, Entry()), request.kept)

    def shrink(self, room: float) -> None:
        """Evict unused tokens until they take at most this share of memory."""
        while self.loose > max(room, 0.0) and self.token > 0:
            key = next((k for k, e in self.entries.items() if e.tokens > e.used), None)
            if key is None:
                break
            entry = self.entries[key]
            tokens = min(entry.tokens - entry.used, int((self.loose - max(room, 0.0)) / self.token) + 1)
            entry.tokens -= tokens
            self.loose -= self.share(tokens)
            if not entry.tokens and not entry.pins:
                del self.entries[key]


def fronts(request: Request) -> Iterator[tuple[int, int]]:
    """The keys of a prompt's front, each with its tokens."""
    if request.chain:
        each = request.shared
        yield from ((key, each) for key in request.chain[: request.input // each])
    elif request.prefix >= 0 and request.shared:
        yield request.prefix, min(request.shared, request.input)
