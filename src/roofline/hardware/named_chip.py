"""Look up a chip by name: from the catalog, this machine, a file, or figures."""

from __future__ import annotations

import os
from pathlib import Path

from roofline.declared.checks import names_a_file
from roofline.declared.errors import InputError, nearest
from roofline.hardware.chip import Chip, chip_from, chip_id, chip_names, chip_of_figures, chips
from roofline.hardware.chip_files import one_table, plain_name


def chip_named(spec: str | os.PathLike[str] | Chip) -> Chip:
    """A chip by its catalog name or alias, `here` for this machine's, the path of a TOML file, or figures such as
    `peak=1000T,bw=4.8T,mem=141G`.

    Raises InputError with the nearest names for an unknown name.
    """
    if isinstance(spec, Chip):
        return spec
    if isinstance(spec, str):
        id = chip_id(spec)
        if id is not None:
            return chips()[id]
        if plain_name(spec) == "here":
            from roofline.hardware.detect.recognise import this_machine

            return this_machine().chip
        if "=" in spec:
            return chip_of_figures(spec, chip_named)
    path = Path(spec)
    if path.suffix == ".toml" or names_a_file(path):
        return chip_from(*one_table("chip", path))
    raise InputError(
        "chip", spec, "a chip of the catalog, a .toml file or peak=…,bw=…", nearest(plain_name(str(spec)), chip_names())
    )
