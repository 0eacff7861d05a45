"""Run real code on shapes: weights and activations have none but sizes, whole numbers have their values.

Code asks for values where sizes follow from them: positions, the grid of an image, which tokens stand for an image.
What is made without a weight stays in memory with its values; all that meets a weight is a shape on the meta device.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from torch import Tensor
    from torch._ops import OpOverload
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

Operand: TypeAlias = Any
"""An argument or result of a torch operator: a tensor, a number, or a list or mapping of these."""
MOST_WHOLE, MOST_REAL = 1 << 24, 1 << 20
"""Most whole numbers, and most real ones, of a tensor that keeps its values."""
_WITHOUT_VALUES = ("aten.empty", "aten.empty_strided", "aten.new_empty", "aten.new_empty_strided", "aten.empty_like")
_ALIKE = ("aten.zeros", "aten.rand", "aten.randn")
"""What makes real numbers that say nothing: sums and states to begin with, noise."""
_DRAWN = ("aten.normal_", "aten.uniform_", "aten.random_", "aten.exponential_", "aten.erfinv_")
"""What draws the values of weights, which none asks for."""


def dispatching(run: Callable[[OpOverload, Operand, Operand], Operand]) -> TorchDispatchMode:
    """A dispatch mode for that function; torch wants a plain function, not a method."""

    def each(
        mode: Operand, function: OpOverload, types: Operand, args: Operand = (), kwargs: Operand = None
    ) -> Operand:
        del mode, types
        return run(function, args, kwargs or {})

    base = import_module("torch.utils._python_dispatch").TorchDispatchMode
    mode: TorchDispatchMode = type("Dispatching", (base,), {"__torch_dispatch__": each})()
    return mode


def in_memory() -> TorchFunctionMode:
    """A mode in which tensors that are made of given numbers stay in memory with them, whatever device is asked for."""
    torch = import_module("torch")
    constructors = (torch.tensor, torch.as_tensor, torch.asarray, torch.scalar_tensor)

    def each(mode: Operand, function: Operand, types: Operand, args: Operand = (), kwargs: Operand = None) -> Operand:
        del mode, types
        kwargs = kwargs or {}
        if function in constructors and args and not isinstance(args[0], torch.Tensor):
            kwargs = {**kwargs, "device": "cpu"}
        return function(*args, **kwargs)

    base = import_module("torch.overrides").TorchFunctionMode
    mode: TorchFunctionMode = type("InMemory", (base,), {"__torch_function__": each})()
    return mode


class KnownValues:
    """Runs each function of torch with values where all of its tensors have them, and on shapes elsewhere.

    `moved`: what to do with a tensor and its shape, where one takes the place of the other.
    """

    def __init__(self, moved: Callable[[Tensor, Tensor], None] = lambda tensor, shape: None) -> None:
        self.moved = moved
        self.torch, self.tree = import_module("torch"), import_module("torch.utils._pytree")

    def run(self, function: OpOverload, args: Operand, kwargs: Operand) -> Operand:
        """The result of the function, with values or without."""
        name = str(function.overloadpacket)
        if name in _DRAWN:
            return args[0]
        tensors = self.tensors((args, kwargs))
        if all(tensor.device.type != "meta" for tensor in tensors):
            return self._with_values(function, name, tensors, args, kwargs)
        args, kwargs = self.shapes(name, args, kwargs)
        return function(*args, **kwargs)

    def tensors(self, values: Operand) -> list[Tensor]:
        """The tensors among these values, however nested."""
        return [x for x in self.tree.tree_leaves(values) if isinstance(x, self.torch.Tensor)]

    def shapes(self, name: str, args: Operand, kwargs: Operand) -> tuple[Operand, Operand]:
        """The arguments without values, as one of them has none; a mask of known values becomes the places it names."""
        if "device" in kwargs:
            kwargs = {**kwargs, "device": "meta"}
        if name in ("aten.index", "aten.index_put", "aten.index_put_", "aten._unsafe_index") and len(args) > 1:
            args = (args[0], self._places(args[1]), *args[2:])
        elif name == "aten.masked_select" and args[1].device.type != "meta":
            return (args[0].new_empty(int(args[1].expand(args[0].shape).sum())),), {}

        def shape_of(x: Operand) -> Operand:
            if not isinstance(x, self.torch.Tensor) or x.device.type == "meta":
                return x
            shape = self.torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta")
            self.moved(x, shape)
            return shape

        changed: tuple[Operand, Operand] = self.tree.tree_map(shape_of, (args, kwargs))
        return changed

    def _places(self, indices: Operand) -> list[Operand]:
        """Indices in which no mask of known values is left."""
        places: list[Operand] = []
        for index in indices:
            if index is not None and index.dtype == self.torch.bool and index.device.type != "meta":
                places.extend(index.nonzero(as_tuple=True))
            else:
                places.append(index)
        return places

    def _with_values(
        self, function: OpOverload, name: str, tensors: list[Tensor], args: Operand, kwargs: Operand
    ) -> Operand:
        """The result in memory, unless it is a weight, or too large."""
        device = kwargs.get("device")
        on_shapes = device is not None and self.torch.device(device).type == "meta"
        if on_shapes and not tensors:
            shape = function(*args, **kwargs)
            whole = not (shape.dtype.is_floating_point or shape.dtype.is_complex)
            if shape.numel() > (MOST_WHOLE if whole else MOST_REAL):
                return shape
            if name in _WITHOUT_VALUES:
                return self.torch.zeros(shape.shape, dtype=shape.dtype) if whole else shape
            if name in _ALIKE and not whole:
                return shape
        if on_shapes and sum(tensor.numel() for tensor in tensors) > MOST_WHOLE:
            return function(*args, **kwargs)
        return function(*args, **({**kwargs, "device": "cpu"} if on_shapes else kwargs))
