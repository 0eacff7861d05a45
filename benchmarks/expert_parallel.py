"""Published nodes of 8 that serve DeepSeek-V3 by expert parallelism, against their estimates.

    python benchmarks/expert_parallel.py

DeepSeek: its open-infra index of day 6 and its profile-data; SGLang: lmsys.org/blog/2025-05-05-large-scale-ep. Both
overlap two micro-batches and keep copies of 32 experts where the source says so. Figures are of kernels, without the
host. DeepSeek's prefill is a mean over a day of production, most of which is not saturated: no estimate is of that, and
its line is for comparison alone.
"""

import sys
from dataclasses import dataclass

import roofline as rl
from roofline.work.step import Step


@dataclass(frozen=True)
class Node:
    """One published figure: new tokens/s of a node of 8, those found in a cache not counted."""

    what: str
    figure: float
    step: Step
    on: str
    layout: str
    engine: str = "none"
    precision: str | None = None
    saturated: bool = True

    def estimate(self) -> "rl.Estimate":
        """The step's estimate."""
        where = {"on": self.on, "layout": self.layout, "engine": self.engine, "precision": self.precision}
        estimate: rl.Estimate = rl.estimate(rl.load("deepseek-ai/DeepSeek-V3"), self.step, **where)
        return estimate


DEEPSEEK = "dispatch=fp8-group"
NODES = (
    Node("SGLang, H100, prefill, EP 32, prompts of 4,096", 50_302, rl.prefill(4 * 32, 4096), "4xdgx-h100",
         "dp=32,ep=32,redundant=32,overlap", "sglang"),
    Node("SGLang, H100, prefill, EP 32, prompts of 2,000", 52_300, rl.prefill(8 * 32, 2000), "4xdgx-h100",
         "dp=32,ep=32,redundant=32,overlap", "sglang"),
    Node("SGLang, H100, decode, EP 72, batch 256, prompts of 2,000", 22_300, rl.decode(256 * 72, 2000), "9xdgx-h100",
         "dp=72,ep=72,redundant=32,overlap", "sglang"),
    Node("DeepSeek, H800, decode, EP 128, batch 128, prompts of 4,096", 18_592, rl.decode(128 * 128, 4096),
         "16xhgx-h800", "dp=128,ep=128,overlap", precision=DEEPSEEK),
    Node("DeepSeek, H800, decode, EP 144, batch 88, context of 4,989", 14_800, rl.decode(88 * 144, 4989),
         "18xhgx-h800", "dp=144,ep=144,redundant=32,overlap", precision=DEEPSEEK),
    Node("DeepSeek, H800, prefill, EP 32, mean of a day", 32_200, rl.prefill(4 * 32, 4096), "4xhgx-h800",
         "dp=32,ep=32,redundant=32,overlap", precision=DEEPSEEK, saturated=False),
)  # fmt: skip


def main() -> None:
    for node in NODES:
        e = node.estimate()
        rates = [node.step.new_tokens / t * 8 / e.deployment.chips for t in (e.time, e.interval[1], e.interval[0])]
        error = rates[0] / node.figure - 1
        within = rates[1] <= node.figure <= rates[2]
        print(
            f"{node.what:64} {node.figure:7,.0f}  {rates[0]:7,.0f}  {100 * error:+4.0f} %"
            f"  [{rates[1]:7,.0f}, {rates[2]:7,.0f}] {'' if within else 'outside'}"
        )


if __name__ == "__main__":
    sys.exit(main())
