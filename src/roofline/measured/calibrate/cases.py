"""The benchmark cases of a calibration, and the data types of measurements and fits."""

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
"""Kind of case → names of its sizes.

read, copy: bytes that cross memory.  matmul: y[m,n] = x[m,k]·w[n,k]ᵀ.  stream: elementwise work of one layer (two
norms, two residual sums, RoPE, a gated activation).  prefill, decode: attention with its cache; `length` includes the
new token.  experts: a gated mixture of experts with random routing.  layer: one whole layer, so small that launches
dominate.
"""


@dataclass(frozen=True)
class Case:
    """A benchmark case. `shape`: its sizes, in the order of `SHAPES[kind]`."""

    kind: str
    dtype: str
    shape: tuple[int, ...]

    def size(self, name: str) -> int:
        """A size by name."""
        return self.shape[SHAPES[self.kind].index(name)]


@dataclass(frozen=True)
class Measurement(Figured):
    """A case and its time in seconds, the median of the repeats."""

    FIGURES: ClassVar[Units] = {"kind": "", "dtype": "", "shape": "", "seconds": "s", "repeats": ""}

    case: Case
    seconds: float
    repeats: int = 1

    @property
    def kind(self) -> str:
        """Kind of case, a key of `SHAPES`."""
        return self.case.kind

    @property
    def dtype(self) -> str:
        """Number format of the case."""
        return self.case.dtype

    @property
    def shape(self) -> Mapping[str, int]:
        """Sizes of the case by name."""
        return dict(zip(SHAPES[self.case.kind], self.case.shape, strict=True))


@dataclass(frozen=True)
class MeasuredMachine:
    """The measured machine. `capacity`, `cache`: bytes; `clock`: `wall` or `cpu` (CPU time of one thread)."""

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
    """A machine and the cases timed on it."""

    machine: MeasuredMachine
    rows: tuple[Measurement, ...]


@dataclass(frozen=True)
class Fitted(Figured):
    """A law fitted to the measurements of one kind in one dtype. Errors are |predicted/measured − 1|.

    `held_out`: mean error in cross-validation; `median`, `mape`: median and mean error of the fit to all rows.
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
    """Result of a calibration: the chip with its fitted constants, and the fits."""

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
        """Number of threads of a CPU, or SMs of a GPU."""
        return self.chip.units

    @property
    def peaks(self) -> Mapping[str, float]:
        """Format → FLOP/s of the fastest product."""
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
        """Software used for the measurement, with its version."""
        return self.measurements.machine.software

    @property
    def clock(self) -> str:
        """Clock of the measured times: `wall` or `cpu`."""
        return self.measurements.machine.clock

    @property
    def date(self) -> str:
        """Date of the measurement."""
        return self.measurements.machine.date

    @property
    def rows(self) -> tuple[Measurement, ...]:
        """The timed cases, with their times."""
        return self.measurements.rows


def planned_cases(
    device: Device = "cpu", dtypes: Sequence[str] | None = None, quick: bool = False, torch: bool = True
) -> tuple[Case, ...]:
    """List the cases in the order in which they run.

    Without PyTorch there are only products (fp32, fp64), reads and copies. For fp16 there are only products unless
    `dtypes` includes it or the device is a GPU. Raises InputError for a dtype that cannot be measured.
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
    """Cases of elementwise work, attention and experts, and the tiny layer."""
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
