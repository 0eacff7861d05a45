"""Resolve model and machine names from clients: catalog names, figures, configs; never file paths or addresses."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from roofline.declared.caching import remembered
from roofline.declared.errors import InputError, nearest
from roofline.declared.trees import JsonObject
from roofline.doors.web.page.gguf_model import model_of_file
from roofline.hardware.chip import Chip, chip_id, chip_of_figures, chips
from roofline.hardware.cluster import Cluster, catalog_cluster, cluster_named, clusters, is_catalogued, is_cluster
from roofline.hardware.named_chip import chip_named
from roofline.model.load import catalog, load
from roofline.model.model import Model
from roofline.model.sources.untrusted import parse_json, read_config

LARGEST_CONFIG = 256 * 1024
"""Maximum size in bytes of a config sent by a client."""
_FIGURES = re.compile(r"[A-Za-z0-9_]+=(?:[A-Za-z0-9_.+,=:]|/s)*", re.ASCII)
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)


@dataclass(frozen=True)
class Allowed:
    """Names accepted beyond the catalogs: Hub ids (`hub`), this machine as `here` (`own_machine`), and machine files
    (`files`). `files` is for commands run by a local user, never for clients of a server.
    """

    hub: bool = False
    own_machine: bool = False
    files: bool = False


NOTHING_MORE = Allowed()


def chosen_model(asked: str | JsonObject, allowed: Allowed = NOTHING_MORE, *, text_only: bool = False) -> Model:
    """Load a model from the catalog, a config, a GGUF header or, if `allowed`, the Hub; `text_only` without its towers.

    Raises InputError.
    """
    if isinstance(asked, str):
        return _named(asked, allowed.hub, text_only)
    text = json.dumps(asked, sort_keys=True)
    if len(text) > LARGEST_CONFIG:
        raise InputError("model", f"{len(text)} characters", f"a config of at most {LARGEST_CONFIG} characters")
    return _pasted(text, text_only)


@remembered(64)
def _named(name: str, hub: bool, text_only: bool) -> Model:
    known = {id.lower(): id for id in catalog()}
    lasts: dict[str, list[str]] = {}
    for lower, id in known.items():
        lasts.setdefault(lower.rpartition("/")[2], []).append(id)
    lower = name.lower()
    same = [known[lower]] if lower in known else lasts.get(lower, [])
    if len(same) == 1:
        from roofline.model.load import catalog_config

        return _built(catalog_config(same[0]), same[0], text_only)
    if len(same) > 1:
        raise InputError("model", name, "the whole id, as more than one model has this name", same)
    if hub and _HUB_ID.fullmatch(name) and ".." not in name:
        from roofline.model.sources.hub import CONFIG_NAME, hub_file

        return _built(read_config(hub_file(name, CONFIG_NAME, None), name), name, text_only)
    where = "a model of the catalog, a Hub id or a config" if hub else "a model of the catalog or a config"
    raise InputError("model", name, where, nearest(name, known.values()))


def _built(config: JsonObject, name: str, text_only: bool) -> Model:
    """Build a model from a parsed config, as `load` does."""
    from roofline.model.load import model_from
    from roofline.model.sources.origin import Origin

    return model_from(Origin(name, config), text_only=text_only)


@remembered(64)
def _pasted(text: str, text_only: bool) -> Model:
    given = parse_json(text.encode(), "model")
    return model_of_file(given["gguf"]) if given.keys() == {"gguf"} else load(given, text_only=text_only)


@remembered(256)
def chosen_machine(asked: str, allowed: Allowed = NOTHING_MORE) -> str | Chip | Cluster:
    """Resolve a machine: a chip or cluster of the catalogs, COUNTxCHIP, a chip's figures, or `here`.

    Returns a catalog id, a Chip or a Cluster, so that no later code interprets the name as a file. Raises InputError
    for anything else, including `like=`, which may refer to a chip file.
    """
    name = asked.strip()
    if allowed.own_machine and name.lower() == "here":
        return cluster_named("here")
    if allowed.files and ("=" in name or name.lower().endswith(".toml")):
        return cluster_named(name) if is_cluster(name) else chip_named(name)
    if _FIGURES.fullmatch(name):
        return chip_of_figures(name)
    if id := chip_id(name):
        return id
    lower = name.lower()
    if is_catalogued(lower) and (known := catalog_cluster(lower)) is not None:
        return known
    words = (*chips(), *clusters())
    raise InputError("on", asked, "a chip or cluster of the catalog, COUNTxCHIP, or peak=…,bw=…", nearest(lower, words))


def chosen_chip(asked: str, allowed: Allowed = NOTHING_MORE) -> str | Chip:
    """Resolve a single chip; `here` is this machine's chip. Raises InputError for a machine of several chips."""
    machine = chosen_machine(asked, allowed)
    if not isinstance(machine, Cluster):
        return machine
    if asked.strip().lower() == "here":
        return chip_named(machine.chip)
    raise InputError("on", asked, "a chip of the catalog or peak=…,bw=…", nearest(asked.lower(), chips()))
