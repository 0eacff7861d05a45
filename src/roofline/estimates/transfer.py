"""A prompt's cache on its way from the replica that prefilled it to the one that decodes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from roofline.declared.errors import InputError
from roofline.declared.maths import Count, most
from roofline.estimates.deployment import Machine, deploy, is_several, machine_chip, node_size
from roofline.estimates.settings import Setup
from roofline.estimates.span import Span
from roofline.machine.collectives import collective
from roofline.machine.fabric import Cluster, cluster_named, joined_copies

NETWORKED = (16, 32, 144)
"""Chips of a kind that are more than one node of it."""


@dataclass(frozen=True)
class Network:
    """Chips between which a cache travels: so many of a cluster, whose outermost links it crosses."""

    cluster: Cluster
    chips: Count

    def seconds(self, size: Count) -> Span:
        """Seconds of so many bytes from one chip to another."""
        t = collective("p2p", size, self.chips, self.cluster)
        return Span(t.floor, t.expected, t.low, t.high)


def rank_cache(asked: Setup, tokens: Count) -> Count:
    """Bytes that the fullest rank of a replica holds of one sequence: KV cache of so many tokens and recurrent state.

    Tensor parallelism shares out KV heads, so far as there are any; latent caches (MLA) lie whole on each of its ranks,
    as a sequence's does on one rank of attention data parallelism. Pipeline stages share out layers, context parallel
    ranks tokens.
    """
    ranks = asked.deployment.ranks(asked.model)
    return reduce(most, (rank.kv_bytes(tokens, asked.formats) + rank.state_bytes(asked.formats) for rank in ranks))


def moved_bytes(first: Setup, then: Setup, tokens: Count) -> Count:
    """Bytes of one prompt's cache on the busiest link: what a rank that prefilled sends or one that decodes receives.

    Ranks that hold the same send one copy between them: copies for others of the same replica go by its own links.
    """
    return most(rank_cache(first, tokens), rank_cache(then, tokens))


def networks(on: Machine, prefill_on: Machine, chips: Count) -> tuple[Network, ...]:
    """What the cache of a prompt crosses: the links between so many chips of one machine, or those of two machines.

    Raises InputError for machines of unlike chips of which one has no known network, and for too few chips.
    """
    if prefill_on is on or prefill_on == on:
        return (_joined(on, chips),)
    return _outside("prefill_on", prefill_on), _outside("on", on)


def _joined(on: Machine, chips: Count) -> Network:
    return Network(deploy(on, {"dp": int(np.max(np.asarray(chips)))}).cluster, chips)


def _outside(field: str, on: Machine) -> Network:
    """The links of a machine's chips beyond their node."""
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
