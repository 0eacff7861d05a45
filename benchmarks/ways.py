"""The way of a question through the rooms of the house.

    python benchmarks/ways.py [COMMAND ...] [--functions]

Runs each command in a fresh process and writes down the first call of each function with its caller. A way goes down
through the rooms; a call from a room up to one above it, through a callback or a method, is a return to a room that
the way has left. Prints the rooms, how many of their functions a way calls, and the returns. `--functions`: with every
first call, indented by its depth.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import roofline

PACKAGE = f"{Path(roofline.__file__).parent}/"
ROOMS = (
    "doors", "views", "measured", "whatif", "programs", "training", "serving", "inference", "kernels", "engines",
    "hardware", "work", "layout", "model", "declared",
)  # fmt: skip
"""The rooms, from the top down, as `lint-imports` holds them."""
LLAMA = "meta-llama/Llama-3.1-8B"
LOAD = ("--input", "1024", "--output-tokens", "256")
WAYS = {
    "analyze": ["analyze", LLAMA, "--on", "h100-sxm", "--context", "4096", "--batch", "32"],
    "serve": ["serve", LLAMA, "--on", "h100-sxm", *LOAD, "--concurrency", "32"],
    "train": ["train", LLAMA, "--on", "8xh100-sxm", "--batch", "64", "--tokens", "4096", "--layout", "dp=8,zero=1"],
    "search": ["search", LLAMA, "--on", "h100-sxm", "--chips", "2", *LOAD, "--ttft", "2s", "--tpot", "50ms"],
    "answer": [LLAMA, "--on", "h100-sxm"],
}
"""Commands whose way is written down."""


@dataclass(frozen=True)
class FirstCall:
    """The first call of a function: its name, its room, the room of its caller, and how deep it is."""

    name: str
    room: str
    caller: str
    depth: int

    @property
    def returns(self) -> bool:
        """Whether it goes up, to a room that the way has left."""
        return ROOMS.index(self.room) < ROOMS.index(self.caller)


def room_of(frame: FrameType | None, below: bool = True) -> str:
    """The room of the nearest frame of the package; `doors` where there is none, and for the files beside the rooms.

    Not `below`: `declared` is looked through, whose wrappers check settings and remember answers for all rooms.
    """
    while frame is not None:
        name = frame.f_code.co_filename
        room = name.removeprefix(PACKAGE).partition("/")[0] if name.startswith(PACKAGE) else ""
        if room in ROOMS and (below or room != "declared"):
            return room
        frame = frame.f_back
    return "doors"


def first_calls(words: Sequence[str]) -> list[FirstCall]:
    """The functions of the package that a command calls, each once, in the order of their first calls."""
    from roofline.doors.cli.main import main

    known: set[str] = set()
    calls: list[FirstCall] = []

    def note(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(PACKAGE) or code.co_name.startswith("<"):
            return
        name = f"{code.co_filename.removeprefix(PACKAGE).removesuffix('.py')}:{code.co_qualname}"
        if name not in known:
            known.add(name)
            depth, above = 0, frame.f_back
            while above is not None:
                depth, above = depth + above.f_code.co_filename.startswith(PACKAGE), above.f_back
            calls.append(FirstCall(name, room_of(frame), room_of(frame.f_back, below=False), depth))

    sys.setprofile(note)
    try:
        main(words)
    except SystemExit as stop:
        if stop.code not in (None, 0, 1):
            raise
    finally:
        sys.setprofile(None)
    return calls


def main() -> int:
    """Prints the ways."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commands", nargs="*", help=f"all by default: {', '.join(WAYS)}")
    parser.add_argument("--functions", action="store_true", help="with every first call")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    names = asked.commands or list(WAYS)
    if not asked.one:
        more = ["--functions"] * asked.functions
        return max(
            subprocess.run([sys.executable, __file__, name, "--one", *more], check=False).returncode for name in names
        )
    (name,) = names
    stdout = sys.stdout
    with open(os.devnull, "w") as sys.stdout:
        calls = first_calls(WAYS[name])
    sys.stdout = stdout
    returns = Counter(f"{call.caller} → {call.room}" for call in calls if call.returns)
    counts = Counter(call.room for call in calls)
    print(f"{name}: {len(calls)} functions, {sum(returns.values())} returns")
    print("  " + ", ".join(f"{room} {counts[room]}" for room in ROOMS if counts[room]))
    for way, count in returns.most_common():
        some = [call.name for call in calls if call.returns and f"{call.caller} → {call.room}" == way]
        print(f"  {way} {count}: {', '.join(some[:4])}{' …' if len(some) > 4 else ''}")
    if asked.functions:
        print(*(f"  {'  ' * call.depth}{call.name}{'  ↑' if call.returns else ''}" for call in calls), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
