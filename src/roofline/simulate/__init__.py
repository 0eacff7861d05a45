"""A server under traffic, request by request.

The library lends the function `simulate` under the name that this package has. So the package can be called, too: what
`roofline.simulate` is after something of the package was imported gives the same answer.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Called(ModuleType):
    def __call__(self, *args: Any, **options: Any) -> Any:
        from roofline.simulate.simulate import simulate

        return simulate(*args, **options)


sys.modules[__name__].__class__ = _Called
