"""Parallel branches of a layer: modules that read the same input and whose outputs a later module reads together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

QUERIES = ("q_proj", "q_a_proj", "q_a_norm", "q_b_proj", "q_norm")
KEYS = ("kv_a_proj", "kv_a_norm", "kv_proj", "kv_norm", "k_proj", "k_norm")
VALUES = ("v_proj", "v_norm")
ROUTED = ("router", "experts")
SHARED = ("shared_gate_up_proj", "shared_up_proj", "shared_act", "shared_down_proj", "shared_gate_proj", "shared_gate")
FORKS: tuple[tuple[Sequence[str], ...], ...] = ((QUERIES, KEYS, VALUES), (ROUTED, SHARED))
"""Branches of each fork, by module name: queries, keys and values (arXiv:2405.04434 §2.1); routed and shared
experts (arXiv:2401.06066 §3.2).
"""


def lanes(names: Iterable[str]) -> tuple[int, ...]:
    """The branch of each module of a layer, in order: 0 outside forks, else 1, 2, … for parallel branches.

    >>> lanes(["attn_norm", "q_proj", "kv_a_proj", "kv_a_norm", "rope", "attention"])
    (0, 1, 2, 2, 0, 0)
    >>> lanes(["ffn_norm", "router", "experts", "ffn_residual"])
    (0, 0, 0, 0)
    """
    every: list[int] = []
    for _, run in groupby(((_place(name)) for name in names), key=lambda place: place[0]):
        paths = [path for _, path in run]
        every += paths if {1, 2} <= set(paths) else [0] * len(paths)
    return tuple(every)


def _place(name: str) -> tuple[int, int]:
    """The fork of a module and its branch, both from 1; zeros where it belongs to no fork."""
    for fork, paths in enumerate(FORKS, start=1):
        for path, members in enumerate(paths, start=1):
            if name in members:
                return fork, path
    return 0, 0
