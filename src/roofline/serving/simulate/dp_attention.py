"""Lock-step replicas: data-parallel attention ranks that share experts and therefore step together.

With data-parallel attention and expert parallelism, each layer's exchange needs every rank. The ranks therefore begin a
step together, and it lasts as long as the slowest one. Engines pad all ranks to the tokens of the fullest, and a rank
without requests runs a dummy step (vllm/v1/worker/dp_utils.py and DPEngineCoreProc.run_busy_loop of
vllm/v1/engine/core.py; SGLang, python/sglang/srt/managers/scheduler_dp_attn_mixin.py; TensorRT-LLM's attention data
parallelism). A replica's step is timed as if all ranks did the same work, which padding makes true for the slowest.

So a prompt on one rank delays all of them. With TensorRT-LLM's `enable_balance` a rank that has one waits until every
rank has, or for `timeout_iters` steps (nvidia.github.io/TensorRT-LLM, tech blog 10, ADP Balance Strategy).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from roofline.layout.layout import Layout
from roofline.serving.simulate.replica import Replica


def locked_steps(layout: Layout) -> int:
    """The number of replicas of a layout that share experts and so step together; 1 where each has its own."""
    return int(layout.in_step)


def join_steps(replicas: Sequence[Replica], size: int, groups: int, balanced: int = 0) -> None:
    """Join groups of `size` consecutive replicas into lock step, each replica with those of the same pipeline turn.

    balanced: steps for which a rank's prompts wait for those of the others.
    """
    if size == 1:
        return
    for turn in range(groups):
        ranks = replicas[turn::groups]
        for first in range(0, len(ranks), size):
            together = LockStep(ranks[first : first + size], balanced)
            for replica in together.replicas:
                replica.together = together.advance


@dataclass(eq=False)
class LockStep:
    """Replicas that step together. Their clocks are equal after every step.

    balanced: steps for which prompts wait until every rank has some; waited: those that they have waited so far.
    """

    replicas: Sequence[Replica]
    balanced: int = 0
    waited: int = 0

    def advance(self, until: float) -> None:
        """Run all steps that begin before `until`, or before an earlier `horizon` that a finished request has set."""
        for replica in self.replicas:
            replica.horizon = until
        while True:
            busy = [r for r in self.replicas if r.present]
            if not busy:
                return
            running = [r for r in busy if r.running]
            clock = max(r.clock for r in running) if running else min(max(r.clock, r.waiting[0].ready) for r in busy)
            if clock >= min(r.horizon for r in self.replicas):
                return
            for replica in self.replicas:
                replica.clock = clock
            self._step([r for r in busy if r.running or r.waiting[0].ready <= clock], clock)

    def _step(self, busy: list[Replica], clock: float) -> None:
        """One step with prompts on any replica, or a run of decode-only steps."""
        chunks = {i: chosen for i, replica in enumerate(busy) if (chosen := replica.chunks())}
        waits = bool(chunks) and self._waits(busy, len(chunks))
        if waits:
            chunks = {}
        if chunks or waits:
            decoding = [i for i, r in enumerate(busy) if i not in chunks and r.ending]
            alone = {i: busy[i].alone(clock) for i in decoding}  # one step, if memory has room for it
            seconds = max(
                0.0, *(busy[i].mixed_seconds(chosen) for i, chosen in chunks.items()),
                *(busy[i].row_seconds(1)[0] for i, (number, _) in alone.items() if number),
            )  # fmt: skip
            for i, chosen in chunks.items():
                busy[i].compute(chosen, seconds)
            for i, (number, _) in alone.items():
                if number:
                    busy[i].decode(1, seconds, seconds)
        else:
            horizon = min(r.horizon for r in self.replicas)
            number = min(replica.alone(horizon)[0] for replica in busy)
            if not number:
                return
            rows = [replica.row_seconds(number) for replica in busy]
            seconds, last = (max(values) for values in zip(*rows, strict=True))
            for replica in busy:
                replica.decode(number, seconds, last)
        for replica in self.replicas:  # idle replicas took part in the step too
            replica.clock = max(replica.clock, clock + seconds)

    def _waits(self, busy: Sequence[Replica], ready: int) -> bool:
        """Whether the prompts of some ranks wait for those of the others, while all that have any decode."""
        if ready == len(self.replicas) or self.waited >= self.balanced or not all(r.ending for r in busy):
            self.waited = 0
            return False
        self.waited += 1
        return True
