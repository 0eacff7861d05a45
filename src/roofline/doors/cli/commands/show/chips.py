"""`roofline chips`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from roofline.declared.errors import InputError
from roofline.doors.cli.common import CLUSTER, Form, Switch, say
from roofline.doors.cli.derived import with_tables


@with_tables
def chips(
    name: Annotated[str | None, Parameter(help=f"One to show: {CLUSTER}")] = None,
    /,
    *,
    vendor: str | None = None,
    kind: str | None = None,
    memory: str | None = None,
    find: str | None = None,
    clusters: Switch = False,
    json: Form = False,
    md: Form = False,
) -> None:
    """The catalog of chips, or all figures of one chip or cluster.

    Example: `roofline chips dgx-h100`

    Parameters
    ----------
    vendor:
        Only chips of a vendor: `nvidia`, `amd`, `intel`, `google`, `apple`, …
    kind:
        Only chips of a kind: `gpu`, `tpu`, `cpu`, …
    memory:
        Only chips with this much memory: `80GB-`, `24GB-48GB`, or `80GB` for 80 GB ± 10 %.
    find:
        Only chips with this text in their name, generation, memory, aliases or note.
    clusters:
        List the catalog's servers, racks, pods and clusters instead, level by level.
    json:
        JSON, as docs/json.md has it.
    md:
        Markdown.
    """
    from roofline.hardware.chip_choice import chosen_chips
    from roofline.hardware.cluster import is_cluster
    from roofline.inference.deployment import machine_chip
    from roofline.views.text.catalogs import chips as views
    from roofline.views.text.tables import markdown, print_json, print_line, print_table

    for option, value in {"--vendor": vendor, "--kind": kind, "--memory": memory, "--find": find}.items():
        if value is not None and (name is not None or clusters):
            raise InputError(option, value, "no chip and no --clusters with it: it is of the catalog of chips")
    if clusters or (name is not None and is_cluster(name)):
        _clusters(name, json, md)
        return
    shown = chosen_chips(vendor, kind, memory, find) if name is None else {name: machine_chip(name)}
    if json:
        print_json(views.Chips(tuple(views.ChipFacts(c) for c in shown.values())).to_dict())
        return
    table = views.chips_table(shown) if name is None else views.chip_table(shown[name])
    if md:
        print_line(markdown(table))
    else:
        print_table(table)
        if name is None:
            say("boxes, racks, pods and clusters: roofline chips --clusters; one of them: roofline chips dgx-h100")


def _clusters(name: str | None, json: bool, md: bool) -> None:
    """Print the catalog's clusters, or one of them."""
    from roofline.hardware.cluster import cluster_named
    from roofline.hardware.cluster import clusters as presets
    from roofline.views.text.catalogs.chips import ClusterFacts, Clusters, cluster_table, clusters_table
    from roofline.views.text.tables import markdown, print_json, print_line, print_table

    shown = list(presets().values()) if name is None else [cluster_named(name)]
    if json:
        print_json(Clusters(tuple(map(ClusterFacts, shown))).to_dict())
        return
    table = clusters_table(shown) if name is None else cluster_table(shown[0])
    if md:
        print_line(markdown(table))
    else:
        print_table(table)
