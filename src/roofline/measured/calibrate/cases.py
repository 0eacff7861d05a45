"""What is timed on a machine, and the records that measuring and fitting hand on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from types import MappingProxyType
from typing import ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from roofline.declared.errors import not_one_of
from roofline.declared.result import Figured, Result, Units
from roofline.hardware.chip import Chip

Device: TypeAlias = Literal["cpu", "cuda"]
Floats: TypeAlias = NDArray[np.float64]
Runner: TypeAlias = Callable[[], object]
Progress: TypeAlias = Callable[[int, int, str], None]

BYTES: Mapping[str, int] = MappingProxyType({"fp64": 8, "fp32": 4, "bf16": 2, "fp16": 2})
SHAPES: Mapping[str, tuple[str, ...]] = MappingProxyType({
    "read": ("bytes",),
    "copy": ("bytes",),
    "matmul": ("m", "n", "k"),
    "stream": ("tokens", "hidden", "heads", "kv_heads", "head", "inner"),
    "prefill": ("batch", "new", "heads", "kv_heads", "head"),
    "decode": ("batch", "length", "heads", "kv_heads", "head"),
    "experts": ("tokens", "top_k", "experts", "hidden", "inner"),
    "layer": ("tokens", "hidden", "heads", "kv_heads", "head", "inner"),
})  # fmt: skip
"""What is timed, and the sizes that say which.

read, copy: bytes that cross memory.  matmul: y[m,n] = x[m,k]·w[n,k]ᵀ.  stream: what one layer does element by element
(two norms, two residual sums, RoPE, a gated activation).  prefill, decode: attention with its cache; `length` counts
the new token.  experts: a gated mixture of experts, routed at random.  layer: one whole layer, so small that only its
launches count.
"""


@dataclass(frozen=True)
class Case:
    """One thing to time: `shape` holds the sizes that SHAPES names for its kind."""

    kind: str
    dtype: str
    shape: tuple[int, ...]

    def size(self, name: str) -> int:
        """One of its sizes."""
        return self.shape[SHAPES[self.kind].index(name)]


@dataclass(frozen=True)
class Measurement(Figured):
    """A case and the seconds it took: the median of the repeats."""

    FIGURES: ClassVar[Units] = {"kind": "", "dtype": "", "shape": "", "seconds": "s", "repeats": ""}

    case: Case
    seconds: float
    repeats: int = 1

    @property
    def kind(self) -> str:
        """What was timed."""
        return self.case.kind

    @property
    def dtype(self) -> str:
        """In which format."""
        return self.case.dtype

    @property
    def shape(self) -> Mapping[str, int]:
        """Its sizes by name."""
        return dict(zip(SHAPES[self.case.kind], self.case.shape, strict=True))


@dataclass(frozen=True)
class MeasuredMachine:
    """What was measured, as the system describes it. `capacity` and `cache` in bytes; `clock`: whose seconds."""

    device: Device
    name: str
    vendor: str
    units: int
    capacity: float
    cache: float
    software: str
    generation: str = ""
    clock: str = "wall"
    date: str = ""


@dataclass(frozen=True)
class Measurements:
    """A machine and what was timed on it."""

    machine: MeasuredMachine
    rows: tuple[Measurement, ...]


@dataclass(frozen=True)
class Fitted(Figured):
    """How well a law's constants describe the rows of one kind in one dtype. Errors are |predicted/measured − 1|.

    `held_out`: mean error on rows that were left out in turn; `median`, `mape`: of the fit to all of them.
    """

    FIGURES: ClassVar[Units] = {
        "dtype": "", "kind": "", "cases": "", "median_error": "share", "mean_error": "share",
        "held_out_error": "share", "constants": "",
    }  # fmt: skip
    NAMES: ClassVar[Mapping[str, str]] = {
        "cases": "rows", "median_error": "median", "mean_error": "mape", "held_out_error": "held_out",
    }  # fmt: skip

    dtype: str
    kind: str
    rows: int
    median: float
    mape: float
    held_out: float
    constants: Mapping[str, float]


@dataclass(frozen=True, repr=False)
class Calibration(Result):
    """The chip, with constants of its own, and the fits behind them."""

    SCHEMA: ClassVar[str] = "roofline.calibrate/2"
    FIGURES: ClassVar[Units] = {
        "chip": "", "units": "", "peaks": "FLOP/s", "bandwidth": "B/s", "capacity": "B", "cache": "B", "software": "",
        "clock": "", "date": "", "fits": "", "rows": "",
    }  # fmt: skip

    chip: Chip
    fits: tuple[Fitted, ...]
    measurements: Measurements

    @property
    def units(self) -> int | None:
        """Cores, or SMs."""
        return self.chip.units

    @property
    def peaks(self) -> Mapping[str, float]:
        """FLOP/s of products as sustained, by format."""
        return self.chip.peaks

    @property
    def bandwidth(self) -> float:
        """Bytes/s of main memory."""
        return self.chip.bandwidth

    @property
    def capacity(self) -> float:
        """Bytes of main memory."""
        return self.chip.capacity

    @property
    def cache(self) -> float | None:
        """Bytes of the last-level cache."""
        return self.chip.cache

    @property
    def software(self) -> str:
        """With what it was measured."""
        return self.measurements.machine.software

    @property
    def clock(self) -> str:
        """Whose seconds they are: wall or cpu."""
        return self.measurements.machine.clock

    @property
    def date(self) -> str:
        """When."""
        return self.measurements.machine.date

    @property
    def rows(self) -> tuple[Measurement, ...]:
        """What was timed."""
        return self.measurements.rows


def planned_cases(
    device: Device = "cpu", dtypes: Sequence[str] | None = None, quick: bool = False, torch: bool = True
) -> tuple[Case, ...]:
    """The cases, in the order they run.

    Without PyTorch there are only products (fp32, fp64), reads and copies. fp16 is only multiplied unless it is named
    in `dtypes` or the device is a GPU. Raises InputError for a dtype that cannot be measured.
    """
    known = tuple(BYTES) if torch else ("fp32", "fp64")
    for dtype in dtypes or ():
        if dtype not in known:
            raise not_one_of("--dtype", dtype, known)
    kinds = tuple(
        dict.fromkeys(
            dtypes or (("bf16", "fp16", "fp32") if device == "cuda" else ("fp32", "bf16") if torch else known)
        )
    )
    sizes = (2**26, 2**28) if quick else (2**22, 2**24, 2**26, 2**28, 2**29)
    every = [Case(kind, "fp32", (size,)) for kind, size in product(("read", "copy"), sizes)]
    for dtype in kinds:
        every += _matmuls(dtype, device, quick)
        if torch and dtype != "fp64":
            every += _layers(dtype, device, quick)
    if torch and device == "cpu" and dtypes is None:
        every += _matmuls("fp16", device, True)
    return tuple(every)


def _matmuls(dtype: str, device: Device, quick: bool) -> list[Case]:
    rows = (1, 2, 8, 64, 512) if quick else (1, 2, 4, 8, 16, 32, 64, 256, 1024)
    shapes = [(64, 64), (512, 512), (2048, 2048), (8192, 1024)]
    if not quick:
        shapes += [(1536, 768), (1024, 4096), (8192, 2048), (2048, 8192), (32000, 1024)]
    if device == "cuda":
        rows, shapes = (*rows, 4096), [*shapes, (4096, 14336), (28672, 4096)]
    most = (2e13 if device == "cuda" else 4e10) / (5 if quick else 1)
    return [Case("matmul", dtype, (m, n, k)) for (n, k), m in product(shapes, rows) if 2 * m * n * k <= most]


def _layers(dtype: str, device: Device, quick: bool) -> list[Case]:
    """Elementwise work, attention, experts, and the smallest layer."""
    wide = 8 if device == "cuda" else 1
    layers = [(512, 8, 8, 64, 1536), (2048, 32, 8, 64, 8192)]
    tokens = (1, 64, 512) if quick else (1, 4, 16, 64, 256, 1024, 2048 * wide)
    prompts = [(1, 64, 8, 8, 64), (1, 256, 16, 4, 64), (1, 512, 16, 8, 128), (2, 512, 12, 12, 64)]
    caches = list(product((1, 8), (128, 1024), ((8, 8, 64), (32, 8, 64))))
    mixtures = [(1, 2, 8, 512, 1024), (8, 2, 8, 512, 1024), (128, 2, 8, 512, 1024)]
    if not quick:
        prompts += [
            (1, 32, 8, 8, 64),
            (4, 64, 32, 8, 64),
            (4, 256, 16, 4, 64),
            (1, 1024, 8, 2, 128),
            (1, 1024, 16, 16, 64),
        ]
        prompts += [(1, 2048 * wide, 8, 8, 64), (1, 512, 8, 4, 256), (2, 1024, 32, 8, 64), (1, 128, 32, 32, 80)]
        caches = list(product((1, 2, 4, 8 * wide), (128, 512, 2048), ((8, 8, 64), (32, 8, 64), (16, 8, 128))))
        caches += list(product((1, 4), (1024,), ((8, 4, 256), (32, 32, 80), (12, 12, 64))))
        mixtures += [(1, 8, 64, 512, 256), (16, 8, 64, 512, 256), (256, 8, 64, 512, 256)]
        mixtures += [(1, 2, 8, 1024, 2816), (4, 2, 8, 1024, 2816), (64, 2, 8, 1024, 2816), (512, 2, 8, 1024, 2816)]
    return [
        Case("layer", dtype, (1, 64, 2, 2, 32, 128)),
        *(Case("stream", dtype, (t, *layer)) for layer, t in product(layers, tokens)),
        *(Case("prefill", dtype, p) for p in prompts),
        *(Case("decode", dtype, (batch, length, *heads)) for batch, length, heads in caches),
        *(Case("experts", dtype, m) for m in mixtures),
    ]
