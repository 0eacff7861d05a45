"""Whether each option of training changes what it should and nothing else, on layouts that are drawn.

    python benchmarks/drawn_layouts.py [LAYOUTS] [SEED]

A layout, a model, a machine and a batch are drawn (3,000), and one option is changed. Figures that the option has
nothing to do with stay equal; those that it is for move the way it says. Exits with 1 where one does not.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import roofline as rl
from roofline.declared.errors import InputError
from roofline.hardware.cluster import cluster_named

MODELS = ("meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.2-1B", "Qwen/Qwen3-30B-A3B", "deepseek-ai/DeepSeek-V2-Lite")
MACHINES = ("8xh100-sxm", "4xdgx-a100", "16xb200", "8xmi300x")
LEFT = 1e-9
"""Relative difference that rounding may leave."""


def figures(e: Any) -> Mapping[str, float]:
    """The figures of a step that options move: of all stages, or of the rank of the fullest."""
    stages = e.stages
    return {
        "model FLOPs": float(e.model_flops), "FLOPs": float(e.hardware_flops),
        "forward": sum(float(s.passes.forward.expected) for s in stages),
        "backward": sum(float(s.passes.backward.expected) for s in stages),
        "weight": sum(float(s.passes.weight.expected) for s in stages),
        "passes": float(e.passes.expected), "reduction": float(e.reduction.expected),
        "gathering": float(e.gathering.expected), "update": float(e.update.expected),
        "weights": sum(float(s.memory.weights) for s in stages),
        "gradients": sum(float(s.memory.gradients) for s in stages),
        "optimizer": sum(float(s.memory.optimizer) for s in stages),
        "kept": sum(float(s.memory.each) for s in stages),
        "in flight": sum(float(s.memory.in_flight) for s in stages),
        "working": sum(float(s.memory.working) for s in stages),
    }  # fmt: skip


@dataclass(frozen=True)
class Change:
    """An option and what it changes.

    `less`, `more`: figures that never rise, and never fall. `free`: figures that may do either. All others stay equal.
    `base`: the value before. `layout`: whether it is an option of the layout.
    """

    name: str
    value: Any
    less: tuple[str, ...] = ()
    more: tuple[str, ...] = ()
    free: tuple[str, ...] = ()
    layout: bool = False
    base: Any = None

    def wrong(self, before: Mapping[str, float], after: Mapping[str, float]) -> Iterator[str]:
        """The figures that move and should not, or move the wrong way."""
        for name, old in before.items():
            new, room = after[name], LEFT * max(abs(old), abs(after[name]))
            rises, falls = new > old + room, new < old - room
            if (rises and name not in (*self.more, *self.free)) or (falls and name not in (*self.less, *self.free)):
                yield f"{name}: {old:.6g} → {new:.6g}"

    def moves(self, before: Mapping[str, float], after: Mapping[str, float]) -> bool:
        """Whether a figure that it is for moves."""
        named = (*self.less, *self.more)
        return any(abs(after[n] - before[n]) > LEFT * max(abs(before[n]), abs(after[n])) for n in named)


TIMES = ("reduction", "gathering", "passes")
"""What is exposed depends on what it has beside it."""
CHANGES = (
    Change("zero", 1, less=("optimizer", "update"), free=TIMES, layout=True, base=0),
    Change("zero", 2, less=("gradients",), free=(*TIMES, "update", "working"), layout=True, base=1),
    Change("zero", 3, less=("weights",), more=("working",), free=(*TIMES, "update", "working"), layout=True, base=2),
    Change("recompute", "full", less=("kept",), more=("FLOPs", "backward"), free=(*TIMES, "working"), base="none"),
    Change("recompute", "op", less=("kept",), more=("FLOPs", "backward"), free=(*TIMES, "working"), base="none"),
    Change("optimizer", "sgd", less=("optimizer", "update"), base="adamw"),
    Change("optimizer", "adamw-bf16", less=("optimizer", "update"), base="adamw"),
    Change("schedule", "gpipe", more=("in flight",), free=("reduction", "gathering", "passes"), base="1f1b"),
    Change("schedule", "zb-h1", less=("passes",), more=("in flight",), free=("reduction", "gathering"), base="1f1b"),
    Change("schedule", "zb-h2", less=("passes",), more=("in flight",), free=("reduction", "gathering"), base="zb-h1"),
    Change("overlap", "dp", less=("reduction", "gathering"), free=("passes",), base="none"),
    Change("offload", "optimizer", less=("optimizer",), more=("update",)),
    Change("loss", "fused", less=("working",), free=("forward", "backward", "weight", "kept", *TIMES), base="eager"),
    # short sequences are as fast kernel by kernel
    Change("flash", False, more=("kept", "FLOPs"), free=("forward", "backward", *TIMES, "working"), base=True),
    # a product writes its gradient of weights in half the bytes; what then waits for the host counts as backward
    Change("recipe", "bf16-gradients", less=("gradients", "weight", "update"), free=("backward", *TIMES), base="bf16"),
    Change("reduce_format", "bf16", less=("reduction",), free=("passes",), base="fp32"),
)  # fmt: skip


def drawn(rng: np.random.Generator) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings of a call, and the degrees of its layout."""
    on = str(rng.choice(MACHINES))
    left, degrees = cluster_named(on).chips, {}
    for name in ("pp", "tp", "cp"):
        degrees[name] = int(rng.choice([d for d in (1, 1, 2, 4) if left % d == 0]))
        left //= degrees[name]
    degrees["dp"] = left
    micro = int(rng.choice([1, 2]))
    batch = left * micro * 2 * degrees["pp"] * int(rng.choice([1, 2, 3]))
    call = {"model": str(rng.choice(MODELS)), "on": on, "batch": batch, "tokens": int(rng.choice([1024, 4096]))}
    call |= {"micro_batch": micro, "engine": str(rng.choice(["none", "megatron"])), "schedule": "1f1b"}
    call |= {"recompute": "none", "overlap": "none" if rng.random() < 0.5 else "dp,pp", "loss": "in-place"}
    if "A3B" in call["model"] or "Lite" in call["model"]:
        degrees["ep"] = int(rng.choice([d for d in (1, 2, 4) if (degrees["tp"] * degrees["cp"] * left) % d == 0]))
    return call, degrees


@dataclass(frozen=True)
class Outcome:
    """A change on a drawn layout: what it got wrong, and whether it moved what it is for."""

    change: Change
    call: str
    wrong: tuple[str, ...]
    moved: bool


def outcome(rng: np.random.Generator) -> Outcome | None:
    """One option of one layout; None where the stack refuses the layout with either."""
    call, degrees = drawn(rng)
    change = CHANGES[int(rng.integers(len(CHANGES)))]
    values = [change.base, change.value]
    calls = [
        {**call, "layout": {**degrees, "zero": v}} if change.layout else {**call, "layout": degrees, change.name: v}
        for v in values
    ]
    try:
        before, after = (figures(rl.train(**c)) for c in calls)
    except InputError:
        return None
    return Outcome(change, str(calls[1]), tuple(change.wrong(before, after)), change.moves(before, after))


def outcomes(layouts: int, seed: int) -> Iterator[Outcome]:
    """So many outcomes."""
    rng, number = np.random.default_rng(seed), 0
    while number < layouts:
        one = outcome(rng)
        if one is not None:
            number += 1
            yield one


def main(words: list[str]) -> int:
    """Prints what is wrong, and how often each option moves what it is for."""
    numbers = [int(word) for word in words]
    layouts, seed = (*numbers, *(3000, 38)[len(numbers) :])
    moved, asked, wrong = Counter[str](), Counter[str](), 0
    for one in outcomes(layouts, seed):
        name = f"{one.change.name}={one.change.value}"
        asked[name] += 1
        moved[name] += one.moved
        if one.wrong:
            wrong += 1
            print(f"{name}: {'; '.join(one.wrong)}\n  {one.call}", flush=True)
    print(", ".join(f"{name} {moved[name]} of {number}" for name, number in sorted(asked.items())))
    print(f"{wrong} of {layouts:,} wrong")
    return 1 if wrong or any(not moved[name] for name in asked) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
