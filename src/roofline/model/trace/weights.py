"""Which weight a tensor is: views share its storage, copies are followed, and a product tells the weight's sizes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor, nn

LAYER = re.compile(r"^((?:.*?\.)?\d+)\.(.+)$")
"""The layer of a parameter's name, and its name within the layer."""
PRODUCTS: Mapping[str, tuple[int, int, int | None]] = {
    "aten.mm": (0, 1, None), "aten.bmm": (0, 1, None), "aten.addmm": (1, 2, 0), "aten.baddbmm": (1, 2, 0),
}  # fmt: skip
"""Product → positions of its two factors and of the added term."""
OTHER_PRODUCTS = ("aten.convolution", "aten._grouped_mm", "aten.mv", "aten.addmv", "aten.dot")
COPIES = ("aten._to_copy", "aten.clone")
"""Operators that copy values to another storage: for example a router's weight in single precision."""


@dataclass(frozen=True)
class WeightProduct:
    """A product of `rows` rows with a weight [inputs, outputs], or with one such weight for each of `groups`."""

    owner: str
    inputs: int
    outputs: int
    groups: int
    rows: int
    bias: bool


@dataclass
class Weights:
    """The parameters of a model by storage, and those that ran.

    `copies`: copies of weights, kept alive so that their storage is not reused.
    """

    model: nn.Module
    used: set[str] = field(default_factory=set)
    copies: list[Tensor] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.owners: dict[int, str] = {_storage(p): name for name, p in self.model.named_parameters()}

    def owner(self, tensor: Tensor) -> str:
        """Name of the parameter that a tensor is a view or a copy of; empty if it is none."""
        return self.owners.get(_storage(tensor), "")

    def use(self, tensors: Iterable[Tensor]) -> None:
        """Record that these ran."""
        self.used.update(owner for tensor in tensors if (owner := self.owner(tensor)))

    def copy(self, source: Tensor, copied: Tensor) -> None:
        """A copy of a weight is that weight."""
        if owner := self.owner(source):
            self.owners[_storage(copied)] = owner
            self.copies.append(copied)

    @property
    def unused(self) -> dict[str, int]:
        """The parameters that did not run, and their numbers of values."""
        return {n: p.numel() for n, p in self.model.named_parameters() if self.owner(p) not in self.used}

    def product(self, a: Tensor, b: Tensor, added: Tensor | None) -> WeightProduct | None:
        """What a·b multiplies if one of the two is a weight, None if both are activations.

        A weight that is expanded over the groups counts once, with the rows of all of them.
        """
        owner, weight, rows = self.owner(b), b, a.shape[-2]
        if not owner:
            owner, weight, rows = self.owner(a), a.mT, b.shape[-1]
        if not owner:
            return None
        inputs, outputs = weight.shape[-2:]
        groups = prod(weight.shape[:-2])
        if groups > 1 and weight.stride(0) == 0:
            rows, groups = rows * groups, 1
        bias = added is not None and bool(self.owner(added)) and added.numel() == outputs * groups
        return WeightProduct(owner, inputs * groups, outputs * groups, groups, rows, bias)


def leaf(name: str) -> str:
    """Name of a parameter or module within its layer."""
    place = LAYER.match(name)
    return (place.group(2) if place else name).removesuffix(".weight").rstrip(".")


def _storage(tensor: Tensor) -> int:
    """The storage that a tensor shares with its views."""
    return int(tensor.untyped_storage()._cdata)
