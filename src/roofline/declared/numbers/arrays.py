"""NumPy, loaded on first use: questions about plain numbers start without it.

>>> from roofline.declared.numbers.arrays import np
>>> np.shape([1, 2])
(2,)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

__all__ = ["Array", "np"]

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array: TypeAlias = NDArray[Any]
else:

    class Array:
        """A NumPy array."""

    class _NumPy:
        def __getattr__(self, name: str) -> object:
            import numpy

            value = self.__dict__[name] = getattr(numpy, name)
            return value

    np = _NumPy()
