"""Token exchanges of expert parallelism (dispatch and combine): where tokens go, and the law of the kernels.

    t = α + max(inside / (e_in·W_in), across / (e_out·W_out))

`inside`: bytes that a rank sends or forwards over the scale-up link. `across`: bytes over its NIC to other nodes, at
the slowest level crossed. DeepEP has two kernels (github.com/deepseek-ai/DeepEP, README), and racks have a third:

normal: for prompts and training. A token crosses to each node once, however many of its experts are there, and is
handed from there over the scale-up link to each rank once.
low_latency: for decode. Each copy of a token, one per expert, is sent separately: over the scale-up link within the
node, over the NIC to another.
nvlink: for both, where the scale-up link spans a rack. Tokens are written once into the memory of each rank, as in
TensorRT-LLM's one-sided NVLink kernels (tensorrt_llm/_torch/modules/fused_moe) and Megatron Core's HybridEP.

Let S be the bytes of all copies of a rank's tokens, on N nodes of g ranks, n = gN, and `Routing.sent` the share of
copies that remain. normal and nvlink send S·sent(n)·(g−1)/g inside and S·sent(N)·(N−1)/N across; low_latency sends
S·(g−1)/n and S·(N−1)/N. `exchange_constants.toml` holds α and e, fitted by `benchmarks/fit_exchanges.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import comb
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import numpy as np

from roofline.declared.errors import not_one_of
from roofline.declared.numbers.maths import ceil_div
from roofline.declared.trees import TomlTable
from roofline.hardware.chip_files import Tables, raw
from roofline.hardware.named_chip import chip_named
from roofline.kernels.constants import Grade, places
from roofline.kernels.links import WIDER

FILE = Path(__file__).with_name("exchange_constants.toml")
ExchangeKernel: TypeAlias = Literal["normal", "low_latency", "nvlink"]
KERNEL_NAMES: tuple[ExchangeKernel, ...] = get_args(ExchangeKernel)


@dataclass(frozen=True)
class Routing:
    """Routing of tokens in expert parallelism: each goes to `top_k` of `experts` experts, in `top_groups` of `groups`.

    Choices of one of the `identities` stay on their rank. Copies of an expert count as experts.
    """

    top_k: int = 1
    experts: int = 1
    groups: int = 1
    top_groups: int = 1
    identities: int = 0
    kernel: ExchangeKernel = "normal"

    def __post_init__(self) -> None:
        if self.kernel not in KERNEL_NAMES:
            raise not_one_of("kernel", self.kernel, KERNEL_NAMES)

    def sent(self, places: int) -> float:
        """Nodes, or ranks, that a token is sent to: to each once, however many of its experts are there; over the
        experts that it is sent to, k·E/A of A experts and identities.

        N·(1 − C(A − E/N, k)/C(A, k)) of N places. Where only some of G groups are chosen, a token sees the E·t/G
        experts of its t groups alone: N·t/G places with as many experts each as before, or where a group spans no whole
        place, at most so many.
        """
        if places <= 1 or self.top_k < 1 or self.experts % places:
            return 1.0
        share = self.experts // places
        seen, within = self.experts, places
        if self.groups > self.top_groups and places % self.groups == 0 and not self.identities:
            seen, within = self.experts * self.top_groups // self.groups, places * self.top_groups // self.groups
        every = seen + self.identities
        absent = comb(every - share, self.top_k) / comb(every, self.top_k)
        most = places if self.groups <= 1 else self.top_groups * ceil_div(places, self.groups)
        over = self.top_k * self.experts / (self.experts + self.identities)
        return float(min(within * (1 - absent), most) / over)

    def inside(self, ranks: int, nodes: int) -> float:
        """Bytes over the scale-up link, per byte of all copies."""
        each = ranks // nodes
        return (each - 1) / ranks if self.kernel == "low_latency" else self.sent(ranks) * (each - 1) / each

    def across(self, nodes: int) -> float:
        """Bytes over the NIC, per byte of all copies."""
        return (1.0 if self.kernel == "low_latency" else self.sent(nodes)) * (nodes - 1) / nodes


@dataclass(frozen=True)
class ExchangeConstants:
    """Constants of one kernel and op on a number of nodes. alpha: s. inside, across: shares of the bandwidths. grade,
    small, large: as in `Link`.
    """

    alpha: float
    inside: float
    across: float
    grade: Grade
    small: tuple[float, float]
    large: tuple[float, float]


@cache
def _tables() -> TomlTable:
    return Tables(raw, FILE) if FILE.exists() else {}


def exchange_constants(chip: str, op: str, kernel: str, nodes: int) -> ExchangeConstants | None:
    """The fitted constants: the chip's, its generation's, or any chip's; None where none were fitted."""
    for place, grade in places(chip_named(chip)):
        entry = _tables().get(place, {}).get(kernel, {}).get(op)
        if entry:
            return constants_of(entry, nodes, grade)
    return None


def constants_of(entry: TomlTable, nodes: int, grade: str) -> ExchangeConstants:
    """The constants of an entry on a number of nodes; grade B at best beyond those `measured`.

    α follows log₂ of the nodes and is extrapolated beyond those of the entry. The interval widens by WIDER for each
    doubling beyond those measured.
    """
    known = [float(np.log2(n)) for n in entry["nodes"]]
    at, values = float(np.log2(nodes)), entry["alpha"]
    alpha = float(np.interp(at, known, values))
    if at > known[-1] and len(known) > 1:
        alpha += max(0.0, (values[-1] - values[-2]) / (known[-1] - known[-2])) * (at - known[-1])
    beyond = max(0.0, at - float(np.log2(entry["measured"])))
    wide = WIDER**beyond
    low, high, low_small, high_small = (entry[k] for k in ("low", "high", "low_small", "high_small"))
    return ExchangeConstants(
        alpha, entry["inside"][min(nodes, 2) - 1], entry["across"], "B" if grade == "A" and beyond else grade,
        (low_small / wide, high_small * wide), (low / wide, high * wide),
    )  # fmt: skip
