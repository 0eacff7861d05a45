"""Transfer of a prompt's KV cache from the replica that prefilled it to the one that decodes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from roofline.declared.errors import InputError
from roofline.declared.numbers.maths import Count, most
from roofline.hardware.cluster import Cluster, cluster_named, joined_copies
from roofline.inference.deployment import Machine, deploy, is_several, machine_chip, node_size
from roofline.inference.settings import Setup
from roofline.inference.span import Span
from roofline.kernels.collectives import collective

NETWORKED = (16, 32, 144)
"""Numbers of chips that span more than one node."""


@dataclass(frozen=True)
class Network:
    """The chips between which a cache is sent: `chips` chips of a cluster, across its outermost links."""

    cluster: Cluster
    chips: Count

    def seconds(self, size: Count) -> Span:
        """Seconds to send `size` bytes from one chip to another."""
        t = collective("p2p", size, self.chips, self.cluster)
        return Span(t.floor, t.expected, t.low, t.high)


def rank_cache(asked: Setup, tokens: Count) -> Count:
    """Bytes of one sequence on the fullest rank of a replica: KV cache of `tokens` tokens and recurrent state.

    Tensor parallelism divides KV heads, as far as there are enough. Latent caches (MLA) are replicated on its ranks;
    with attention data parallelism one rank holds a whole sequence. Pipeline stages divide the layers, context-parallel
    ranks the tokens.
    """
    ranks = asked.deployment.ranks(asked.model)
    return reduce(most, (rank.kv_bytes(tokens, asked.formats) + rank.state_bytes(asked.formats) for rank in ranks))


def moved_bytes(first: Setup, then: Setup, tokens: Count) -> Count:
    """Bytes of one prompt's cache on the busiest link: those that a prefill rank sends or a decode rank receives.

    Ranks that hold the same data send one copy; copies for other ranks of the receiving replica use its own links.
    """
    return most(rank_cache(first, tokens), rank_cache(then, tokens))


def networks(on: Machine, prefill_on: Machine, chips: Count) -> tuple[Network, ...]:
    """The networks that a prompt's cache crosses: that of one machine, or those of the two machines.

    Raises InputError where prefill and decode run on different machines and the network of one is unknown, and for too
    few chips.
    """
    if prefill_on is on or prefill_on == on:
        return (_joined(on, chips),)
    return outside("prefill_on", prefill_on), outside("on", on)


def _joined(on: Machine, chips: Count) -> Network:
    return Network(deploy(on, {"dp": int(np.max(np.asarray(chips)))}).cluster, chips)


def outside(field: str, on: Machine) -> Network:
    """The links of a machine's chips beyond their node. Raises InputError where these are unknown."""
    clusters = []
    if is_several(on):
        machine = cluster_named(on)
        clusters.append(machine if machine.network is None else joined_copies(2, machine))
    for number in NETWORKED:
        try:
            clusters.append(deploy(machine_chip(on), {"dp": number}).cluster)
        except InputError:
            continue
    for cluster in clusters:
        if any(level.kind == "network" for level in cluster.levels) and node_size(cluster) < cluster.chips:
            return Network(cluster, cluster.chips)
    name: Any = on if isinstance(on, str) else machine_chip(on).id
    raise InputError(field, name, "chips whose network is known, such as those of a cluster of several nodes")
