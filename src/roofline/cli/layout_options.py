"""Options that say how a model is spread over chips."""

from __future__ import annotations

import re
from dataclasses import dataclass

from cyclopts import Parameter

from roofline.cli.common import LayoutText, Whole
from roofline.declared.checks import count
from roofline.declared.errors import InputError

SHORTCUTS = ("tp", "pp", "dp", "ep")


@Parameter(name="*")
@dataclass(frozen=True)
class LayoutOptions:
    """A layout in full, or the usual degrees by themselves."""

    layout: LayoutText = None
    tp: Whole = None
    "Tensor-parallel ranks: the same as `--layout tp=…`; likewise the next three, alone or beside --layout."
    pp: Whole = None
    "Pipeline stages."
    dp: Whole = None
    "Data-parallel replicas."
    ep: Whole = None
    "Expert-parallel ranks."

    def text(self) -> str | None:
        """The layout as `--layout` has it, None where nothing is said of it.

        Raises InputError for a degree that is given twice, and for one below 1.
        """
        degrees = {name: getattr(self, name) for name in SHORTCUTS if getattr(self, name) is not None}
        for name, degree in degrees.items():
            count(f"--{name}", degree, 1)
            if self.layout is not None and re.search(rf"(?<![a-z]){name}\s*=", self.layout):
                raise InputError(f"--{name}", degree, f"{name} in --layout or by itself, not both")
        parts = [*([] if self.layout is None else [self.layout]), *(f"{k}={v}" for k, v in degrees.items())]
        return ",".join(parts) if parts else None
