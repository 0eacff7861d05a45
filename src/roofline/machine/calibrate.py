"""Measure this machine, fit the laws to it, write its chip file.

Three steps, each a function of the one before: `plan` says what is timed, `measure` times it (NumPy, or PyTorch where
it is there), `fit` turns the times into a `Chip` with constants of its own. Nothing here runs a transformer: only
products, copies, attention and the elementwise work of a layer, each by itself and as eager PyTorch runs it.
"""

from __future__ import annotations

import os
import platform
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields, replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import count, product
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from roofline.machine import law
from roofline.machine.chip import Chip
from roofline.machine.law import RECORDS
from roofline.machine.timing import roof_of
from roofline.model.errors import InputError, nearest, not_one_of

Device: TypeAlias = Literal["cpu", "cuda"]
Array: TypeAlias = NDArray[np.float64]
Run: TypeAlias = Callable[[], object]
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
LAYER_LAUNCHES: Mapping[str, int] = MappingProxyType({"matmul": 4, "stream": 4, "decode": 1})
"""Ops that are launched in one dense layer of a model: products of q, k and v as one and gate and up as one."""
SUMS = 2
"""Residual sums of a layer, which ride on the norms behind them."""
FALLBACK_CACHE = 32 * 2**20
FASTEST_CALL = 2e-4
"""Calls shorter than this many seconds are timed several at once."""


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
class Row:
    """A case and the seconds it took: the median of the repeats."""

    case: Case
    seconds: float
    repeats: int = 1


@dataclass(frozen=True)
class Machine:
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

    machine: Machine
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Fitted:
    """How well a law's constants describe the rows of one kind in one dtype. Errors are |predicted/measured − 1|.

    `held_out`: mean error on rows that were left out in turn; `median`, `mape`: of the fit to all of them.
    """

    dtype: str
    kind: str
    rows: int
    median: float
    mape: float
    held_out: float
    constants: Mapping[str, float]


@dataclass(frozen=True)
class Calibration:
    """The chip, with constants of its own, and the fits behind them."""

    chip: Chip
    fits: tuple[Fitted, ...]
    measurements: Measurements


# -- what is timed -------------------------------------------------------------------------------------------------
def plan(
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
    every = tuple(
        dict.fromkeys(
            dtypes or (("bf16", "fp16", "fp32") if device == "cuda" else ("fp32", "bf16") if torch else known)
        )
    )
    sizes = (2**26, 2**28) if quick else (2**22, 2**24, 2**26, 2**28, 2**29)
    cases = [Case(kind, "fp32", (size,)) for kind, size in product(("read", "copy"), sizes)]
    for dtype in every:
        cases += _matmuls(dtype, device, quick)
        if torch and dtype != "fp64":
            cases += _layers(dtype, device, quick)
    if torch and device == "cpu" and dtypes is None:
        cases += _matmuls("fp16", device, True)
    return tuple(cases)


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


# -- timing --------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Clock:
    """Times calls. `now`: seconds of a host clock; `torch`: the module where a CUDA device is timed by its events.

    `budget`: seconds to spend on one case, when it can be done with at least `least` samples.
    """

    now: Callable[[], float] = time.perf_counter
    torch: Any = None
    budget: float = 0.25
    least: int = 3
    most: int = 40

    def __call__(self, run: Run) -> tuple[float, int]:
        """The median of the seconds a call takes, and the number of samples."""
        first = self._sample(run, 1)
        if first < self.budget / 3:
            first = self._sample(run, 1)
        inner = max(1, int(FASTEST_CALL / max(first, 1e-7)))
        samples = [self._sample(run, inner)]
        while len(samples) < self.least or (sum(samples) * inner < self.budget and len(samples) < self.most):
            samples.append(self._sample(run, inner))
        return float(np.median(samples)), len(samples)

    def _sample(self, run: Run, inner: int) -> float:
        if self.torch is None:
            start = self.now()
            for _ in range(inner):
                run()
            return (self.now() - start) / inner
        cuda = self.torch.cuda
        begin, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        cuda.synchronize()
        begin.record()
        for _ in range(inner):
            run()
        end.record()
        cuda.synchronize()
        return float(begin.elapsed_time(end)) / 1e3 / inner


def clock_for(device: Device = "cpu", quick: bool = False, cpu_clock: bool = False) -> Clock:
    """The clock of a device; `cpu_clock` counts only the seconds this thread runs."""
    torch = import_module("torch") if device == "cuda" else None
    return Clock(time.thread_time if cpu_clock else time.perf_counter, torch, budget=0.06 if quick else 0.25)


def measure(
    device: Device = "cpu",
    dtypes: Sequence[str] | None = None,
    quick: bool = False,
    cpu_clock: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Measurements:
    """Times every case of the plan: about a minute and a half on a CPU, a fifth of it with `quick`.

    `threads`: CPU threads (PyTorch's own number). `cpu_clock`: one thread, timed by the seconds it ran rather than the
    wall's, for a machine that is busy with other work. `progress` is called with cases done, cases in all, and the
    next. Raises InputError where the device is not there.
    """
    torch: Any = import_module("torch") if find_spec("torch") else None
    if device == "cuda" and (torch is None or not torch.cuda.is_available()):
        raise InputError(
            "--device", device, "a CUDA device that PyTorch can use" if torch else "PyTorch, which is not installed"
        )
    if device not in ("cpu", "cuda"):
        raise InputError("--device", device, "cpu or cuda", nearest(device, ("cpu", "cuda")))
    if cpu_clock and device == "cuda":
        raise InputError("--cpu-clock", True, "--device cpu")
    cases, clock = plan(device, dtypes, quick, torch is not None), clock_for(device, quick, cpu_clock)
    before = torch.get_num_threads() if torch else None
    wanted = 1 if cpu_clock else threads
    if torch and wanted:
        torch.set_num_threads(wanted)
    try:
        machine = replace(describe(device, torch), clock="cpu" if cpu_clock else "wall")
        bench = _TorchBench(torch, device, machine.cache) if torch else _NumpyBench(machine.cache)
        rows = []
        for i, case in enumerate(cases):
            if progress:
                progress(i, len(cases), f"{case.kind} {case.dtype}")
            with bench.quiet():
                seconds, repeats = clock(bench.runner(case))
            rows.append(Row(case, seconds, repeats))
        if progress:
            progress(len(cases), len(cases), "fit")
    finally:
        if torch and wanted:
            torch.set_num_threads(before)
    return Measurements(machine, tuple(rows))


class _NumpyBench:
    """Cases that NumPy can run."""

    def __init__(self, cache: float) -> None:
        self.pools: dict[str, NDArray[Any]] = {}
        self.least = int(4 * cache)

    def quiet(self) -> AbstractContextManager[object]:
        """Nothing that has to be switched off."""
        return nullcontext()

    def runner(self, case: Case) -> Run:
        """The call to time; its arrays are there already."""
        kind = np.float64 if case.dtype == "fp64" else np.float32
        if case.kind == "read":
            data = np.ones(case.size("bytes") // 4, kind)
            return lambda: np.max(data)
        if case.kind == "copy":
            data = np.ones(case.size("bytes") // 8, kind)
            other = np.ones_like(data)
            return lambda: np.copyto(other, data)
        m, n, k = case.shape
        size = max(self.least // BYTES[case.dtype], n * k)
        pool = self.pools.setdefault(case.dtype, np.random.default_rng(0).random(size, kind))
        if pool.size < n * k:
            pool = self.pools[case.dtype] = np.resize(pool, n * k)
        x, turn, places = np.ones((m, k), kind), count(), pool.size // (n * k)

        def run() -> object:
            at = next(turn) % places * n * k
            return x @ pool[at : at + n * k].reshape(n, k).T

        return run


class _TorchBench:
    """Cases as eager PyTorch runs them. Weights and caches come from a pool too large for the last-level cache."""

    def __init__(self, torch: Any, device: Device, cache: float) -> None:
        self.torch, self.device = torch, device
        self.least = int(4 * cache)
        self.pool: Any = None
        self.dtypes = {"fp64": torch.float64, "fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}

    def quiet(self) -> AbstractContextManager[object]:
        """No gradients."""
        mode: AbstractContextManager[object] = self.torch.no_grad()
        return mode

    def runner(self, case: Case) -> Run:
        """The call to time; its tensors are there already."""
        dtype = self.dtypes[case.dtype]
        run: Run = getattr(self, f"_{case.kind}")(dtype, *case.shape)
        return run

    def _cold(self, dtype: Any, *shape: int) -> Callable[[], Any]:
        """Tensors of a shape, each call from another place of the pool."""
        size = int(np.prod(shape))
        if self.pool is None or self.pool.dtype != dtype or self.pool.numel() < size:
            self.pool = None
            elements = max(self.least // dtype.itemsize, size)
            self.pool = self.torch.empty(elements, dtype=dtype, device=self.device).uniform_(-0.1, 0.1)
        pool, turn, places = self.pool, count(), max(1, self.pool.numel() // size)

        def next_one() -> Any:
            at = next(turn) % places * size
            return pool[at : at + size].view(*shape)

        return next_one

    def _new(self, dtype: Any, *shape: int) -> Any:
        return self.torch.ones(*shape, dtype=dtype, device=self.device) / 8

    def _read(self, dtype: Any, size: int) -> Run:
        data = self._new(dtype, size // dtype.itemsize)
        return lambda: data.sum()

    def _copy(self, dtype: Any, size: int) -> Run:
        data = self._new(dtype, size // dtype.itemsize // 2)
        other = data.clone()
        return lambda: other.copy_(data)

    def _matmul(self, dtype: Any, m: int, n: int, k: int) -> Run:
        x, weight, linear = self._new(dtype, 1, m, k), self._cold(dtype, n, k), self.torch.nn.functional.linear
        return lambda: linear(x, weight())

    def _rms(self, x: Any, weight: Any) -> Any:
        wide = x.to(self.torch.float32)
        wide = wide * self.torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return weight * wide.to(x.dtype)

    def _turn(self, x: Any, cos: Any, sin: Any) -> Any:
        half = x.shape[-1] // 2
        return x * cos + self.torch.cat((-x[..., half:], x[..., :half]), dim=-1) * sin

    def _stream(self, dtype: Any, tokens: int, hidden: int, heads: int, kv_heads: int, head: int, inner: int) -> Run:
        x, other, gate, up = (self._new(dtype, 1, tokens, n) for n in (hidden, hidden, inner, inner))
        query, key = (self._new(dtype, 1, tokens, n, head).transpose(1, 2) for n in (heads, kv_heads))
        cos, sin, weight = (
            self._new(dtype, 1, 1, tokens, head),
            self._new(dtype, 1, 1, tokens, head),
            self._new(dtype, hidden),
        )
        silu = self.torch.nn.functional.silu

        def run() -> object:
            self._rms(x, weight)
            self._turn(query, cos, sin)
            self._turn(key, cos, sin)
            self._rms(x + other, weight)
            product_ = silu(gate) * up
            return x + other, product_

        return run

    def _attend(self, query: Any, key: Any, value: Any, causal: bool) -> Any:
        attention = self.torch.nn.functional.scaled_dot_product_attention
        out = attention(query, key, value, is_causal=causal, enable_gqa=query.shape[1] != key.shape[1])
        return out.transpose(1, 2).contiguous()

    def _prefill(self, dtype: Any, batch: int, new: int, heads: int, kv_heads: int, head: int) -> Run:
        query = self._new(dtype, batch, new, heads, head).transpose(1, 2)
        key, value = (self._new(dtype, batch, new, kv_heads, head).transpose(1, 2) for _ in range(2))
        nothing = self._new(dtype, 0)
        append = partial(self.torch.cat, dim=-2)
        return lambda: self._attend(query, append([nothing, key]), append([nothing, value]), True)

    def _decode(self, dtype: Any, batch: int, length: int, heads: int, kv_heads: int, head: int) -> Run:
        query = self._new(dtype, batch, 1, heads, head).transpose(1, 2)
        key, value = (self._new(dtype, batch, 1, kv_heads, head).transpose(1, 2) for _ in range(2))
        held, append = self._cold(dtype, batch, kv_heads, length, head), partial(self.torch.cat, dim=-2)
        layers = max(1, self.least // (2 * batch * kv_heads * length * head * dtype.itemsize))
        caches, turn = [(held().clone(), held().clone()) for _ in range(layers)], count()

        def run() -> object:
            i = next(turn) % layers
            keys, values = caches[i]
            keys, values = append([keys[:, :, 1:], key]), append([values[:, :, 1:], value])
            caches[i] = keys, values
            return self._attend(query, keys, values, False)

        for _ in range(layers):
            run()
        return run

    def _experts(self, dtype: Any, tokens: int, top_k: int, experts: int, hidden: int, inner: int) -> Run:
        """Sorted by expert, two grouped products (a loop where PyTorch has none), weighted and summed."""
        torch = self.torch
        x, silu = self._new(dtype, tokens, hidden), torch.nn.functional.silu
        up, down = self._cold(dtype, experts, 2 * inner, hidden), self._cold(dtype, experts, hidden, inner)
        made = torch.Generator().manual_seed(0)
        scores = torch.rand(tokens, experts, generator=made).to(self.device)
        weights, chosen = (t.contiguous() for t in scores.topk(top_k))
        grouped = getattr(torch.nn.functional, "grouped_mm", None)

        def multiply(rows: Any, matrices: Any, ends: Any) -> Any:
            if grouped is not None:
                return grouped(rows, matrices.transpose(-2, -1), offs=ends)
            out, start = rows.new_empty(rows.shape[0], matrices.shape[1]), 0
            for matrix, end in zip(matrices, ends.tolist(), strict=True):
                out[start:end] = rows[start:end] @ matrix.T
                start = end
            return out

        def run() -> object:
            ids, order = torch.sort(chosen.reshape(-1))
            counts = torch.histc(
                ids.float() if self.device == "cpu" else ids.int(), bins=experts, min=0, max=experts - 1
            )
            ends = torch.cumsum(counts, dim=0, dtype=torch.int32)
            gate, linear = multiply(x[order // top_k], up(), ends).chunk(2, dim=-1)
            out = multiply(silu(gate) * linear, down(), ends) * weights.reshape(-1)[order].to(dtype).unsqueeze(-1)
            back = torch.empty_like(order)
            back[order] = torch.arange(order.numel(), device=order.device)
            return out[back].view(tokens, top_k, hidden).sum(dim=1)

        return run

    def _layer(self, dtype: Any, tokens: int, hidden: int, heads: int, kv_heads: int, head: int, inner: int) -> Run:
        """A decoder layer of modules, one token: what is left when there is next to nothing to compute."""
        nn, bench = self.torch.nn, self
        sizes = {
            "q": (hidden, heads * head), "k": (hidden, kv_heads * head), "v": (hidden, kv_heads * head),
            "o": (heads * head, hidden), "gate": (hidden, inner), "up": (hidden, inner), "down": (inner, hidden),
        }  # fmt: skip

        class Norm(nn.Module):  # type: ignore[misc, name-defined]
            def __init__(self) -> None:
                super().__init__()
                self.weight = nn.Parameter(bench._new(dtype, hidden))

            def forward(self, x: Any) -> Any:
                return bench._rms(x, self.weight)

        linear = nn.ModuleDict({
            name: nn.Linear(a, b, bias=False, dtype=dtype, device=self.device) for name, (a, b) in sizes.items()
        })  # fmt: skip
        first, second, silu = Norm(), Norm(), nn.SiLU()
        x, cos = self._new(dtype, 1, tokens, hidden), self._new(dtype, 1, 1, tokens, head)
        held = self._new(dtype, 1, kv_heads, 16, head)

        def split(y: Any) -> Any:
            return y.view(1, tokens, -1, head).transpose(1, 2)

        def run() -> object:
            y = first(x)
            query, key, value = (split(linear[name](y)) for name in "qkv")
            query, key = self._turn(query, cos, cos), self._turn(key, cos, cos)
            keys, values = self.torch.cat([held, key], dim=-2), self.torch.cat([held, value], dim=-2)
            z = x + linear["o"](self._attend(query, keys, values, False).reshape(1, tokens, -1))
            y = second(z)
            return z + linear["down"](silu(linear["gate"](y)) * linear["up"](y))

        return run


# -- the machine ---------------------------------------------------------------------------------------------------
_GENERATIONS = {
    (8, 0): "ampere",
    (8, 6): "ampere",
    (8, 9): "ada",
    (9, 0): "hopper",
    (10, 0): "blackwell",
    (10, 3): "blackwell",
}


def describe(device: Device, torch: Any = None) -> Machine:
    """Name, cores, memory and last-level cache as the system gives them."""
    software = f"PyTorch {torch.__version__}" if torch else f"NumPy {np.__version__}"
    date = time.strftime("%Y-%m-%d")
    if device == "cuda":
        p = torch.cuda.get_device_properties(0)
        generation = _GENERATIONS.get((p.major, p.minor), "blackwell-rtx" if p.major == 12 else "")
        cache = float(getattr(p, "L2_cache_size", 0) or FALLBACK_CACHE)
        units, memory = p.multi_processor_count, float(p.total_memory)
        return Machine("cuda", p.name, "nvidia", units, memory, cache, software, generation, date=date)
    name = _processor()
    vendor = next((v for v in ("amd", "intel", "apple", "arm") if v in name.lower()), "")
    threads = torch.get_num_threads() if torch else os.cpu_count() or 1
    return Machine("cpu", name, vendor, threads, _memory(), _last_level(), software, date=date)


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    text = info.read_text(encoding="utf-8", errors="replace") if info.exists() else ""
    found = re.search(r"model name\s*:\s*(.+)", text)
    return " ".join((found[1] if found else platform.processor() or platform.machine() or "CPU").split())


def _memory() -> float:
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):
        return 16 * 2.0**30


def _last_level() -> float:
    """Bytes of the largest cache that sysfs lists; 32 MiB where there is none."""
    sizes = [_sized(p.read_text()) for p in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")]
    return float(max(sizes, default=0) or FALLBACK_CACHE)


def _sized(text: str) -> int:
    found = re.fullmatch(r"(\d+)([KMG]?)", text.strip())
    return int(found[1]) * {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}[found[2]] if found else 0


# -- fitting -------------------------------------------------------------------------------------------------------
FREE: Mapping[str, Mapping[str, tuple[float, float, float]]] = MappingProxyType({
    "matmul": {
        "t0": (3e-6, 1e-7, 1e-3), "compute": (0.8, 0.05, 1e3), "memory": (0.7, 0.02, 1.0), "sharp": (1.5, 1.0, 8.0),
        "pack": (1.0, 0.05, 1e3),
    },
    "prefill": {
        "t0": (1e-5, 1e-7, 1e-3), "compute": (0.4, 0.01, 2.0), "memory": (0.5, 0.02, 10.0), "fixed": (0.3, 0.01, 0.95),
        "pad": (30.0, 0.1, 1e3), "l2": (1.5, 0.05, 30.0),
    },
    "decode": {
        "t0": (1e-5, 1e-7, 1e-3), "memory": (0.4, 0.01, 10.0), "sharp": (1.5, 1.0, 8.0), "block": (1e-6, 1e-9, 1e-3),
        "head": (1e-6, 1e-9, 1e-3), "l2": (1.0, 0.01, 10.0), "again": (1.0, 0.01, 10.0),
    },
    "experts": {
        "t0": (5e-5, 1e-6, 1e-2), "compute": (0.8, 0.05, 1e3), "memory": (0.7, 0.02, 1.0), "sharp": (1.5, 1.0, 8.0),
        "passes": (0.3, 0.01, 10.0), "expert": (1e-6, 1e-9, 1e-3),
    },
    "stream": {"t0": (1e-5, 1e-7, 1e-3), "memory": (0.4, 0.01, 10.0), "l2": (2.0, 0.05, 30.0)},
})  # fmt: skip
"""What is fitted of each law: start, least and most. Names that the law does not have are passed over."""
CPU_ONLY = ("pack", "again")
OTHERS = (("compute", 30.0), ("pad", 90.0), ("pad", 250.0))
"""Constants that the fit also starts from other values of, since their errors have more than one valley."""
CPU_SETTINGS: Mapping[str, Mapping[str, float]] = MappingProxyType({
    "matmul": {"split": np.inf, "step": 0.0, "tile": 1.0, "height": 1.0},
    "prefill": {"tail": 0.0, "other": 1.0, "capped": 1.0},
    "decode": {"walk": 0.0, "group": 1.0},
    "experts": {"tile": 1.0},
    "stream": {},
})  # fmt: skip
"""What a CPU has none of: products split over k, blocks that end last, walks that blocks share, query heads served
together, tiles. Names that the law does not have are passed over."""
FORMAT_KEY = "bf16"
"""The dtype whose tables the laws of attention and elementwise work are looked up in, whatever the activations."""


def fit(measured: Measurements, folds: int = 4) -> Calibration:
    """The chip and its constants.

    Peaks: the fastest product of each dtype. Bandwidth: the fastest read, copy or matrix-vector product from beyond the
    cache. Constants: least squares of log(predicted / measured) for each dtype and kind, the floor of physics included;
    the error of rows left out in turn beside them. The elementwise launch floor is what a whole small layer takes
    beyond its products and attention. Raises InputError where no product was timed.
    """
    chip = _bare(measured)
    tables: dict[str, dict[str, dict[str, dict[str, float]]]] = {}
    fits: list[Fitted] = []
    for dtype in chip.peaks:
        for kind in FREE:
            rows = tuple(r for r in measured.rows if r.case.kind == kind and r.case.dtype == dtype)
            if not rows:
                continue
            found = _fit_kind(kind, rows, chip, folds)
            tables.setdefault(dtype, {})[kind] = {"default": dict(found.constants)}
            fits.append(found)
        _share_launches(dtype, measured, tables.get(dtype, {}))
    if tables and FORMAT_KEY not in tables:
        tables[FORMAT_KEY] = tables["fp32" if "fp32" in tables else next(iter(tables))]
    return Calibration(replace(chip, constants=_frozen(tables)), tuple(fits), measured)


def _share_launches(dtype: str, measured: Measurements, kinds: dict[str, dict[str, dict[str, float]]]) -> None:
    """The launch floor of elementwise ops: (layer − 4·matmul − decode) / 4, never under the one fitted."""
    layers = [r.seconds for r in measured.rows if r.case.kind == "layer" and r.case.dtype == dtype]
    if not layers or any(kind not in kinds for kind in LAYER_LAUNCHES):
        return
    others = sum(n * kinds[kind]["default"]["t0"] for kind, n in LAYER_LAUNCHES.items() if kind != "stream")
    stream = kinds["stream"]["default"]
    stream["t0"] = max(stream["t0"], (min(layers) - others) / LAYER_LAUNCHES["stream"])


def _frozen(table: Mapping[str, Any]) -> Mapping[str, Any]:
    return MappingProxyType({k: _frozen(v) if isinstance(v, Mapping) else v for k, v in table.items()})


def _bare(measured: Measurements) -> Chip:
    machine = measured.machine
    peaks: dict[str, float] = {}
    rates: list[float] = []
    for row in measured.rows:
        case = row.case
        if case.kind == "matmul":
            m, n, k = case.shape
            peaks[case.dtype] = max(peaks.get(case.dtype, 0.0), 2 * m * n * k / row.seconds)
            if m == 1 and n * k * BYTES[case.dtype] > 0.25 * machine.cache:
                rates.append(n * k * BYTES[case.dtype] / row.seconds)
        if case.kind in ("read", "copy") and case.size("bytes") >= 2 * machine.cache:
            rates.append(case.size("bytes") / row.seconds)
    if not peaks or not rates:
        raise InputError("measurements", "nothing of a kind", "products, and reads or copies beyond the cache")
    how = (
        "one thread, CPU clock"
        if machine.clock == "cpu"
        else f"{machine.units} {'SMs' if machine.device == 'cuda' else 'threads'}"
    )
    return Chip(
        id=slug(machine), name=f"{machine.name} ({how})", vendor=machine.vendor, generation=machine.generation,
        kind="gpu" if machine.device == "cuda" else "cpu", peaks=MappingProxyType(peaks), bandwidth=max(rates),
        capacity=machine.capacity, cache=machine.cache, units=machine.units,
        source=f"roofline calibrate: {machine.software}, {len(measured.rows)} measurements", date=machine.date,
    )  # fmt: skip


def slug(machine: Machine) -> str:
    """An id for the file: the name in small letters and hyphens."""
    return "-".join(re.findall(r"[a-z0-9]+", f"{machine.name} {machine.units}".lower())) or "this-machine"


def predicted(kind: str, rows: Sequence[Row], chip: Chip, record: Any) -> Array:
    """Seconds of rows of one kind and dtype by the law: what an estimate of the same ops says, its floor included."""
    dtype = rows[0].case.dtype
    columns = np.array([r.case.shape for r in rows], dtype=float).T
    seconds, floor = _LAWS[kind](columns, float(BYTES[dtype]), roof_of(chip, dtype), record)
    return np.asarray(np.maximum(seconds, floor), dtype=float)


Both: TypeAlias = tuple[Any, Any]


def _matmul_law(c: Array, width: float, roof: law.Roof, record: Any) -> Both:
    m, n, k = c
    floor = np.maximum(2 * m * n * k / roof.peak, n * k * width / roof.bandwidth)
    return law.matmul(m, n, k, width, width, width, roof, record), floor


def _stream_law(c: Array, width: float, roof: law.Roof, record: Any) -> Both:
    """Two norms, RoPE and an activation, in and out; two sums that ride on them and pay for their bytes alone."""
    tokens, hidden, heads, kv_heads, head, inner = c
    per_token = (2 * hidden, 2 * hidden, 2 * (heads + kv_heads) * head, 3 * inner, 2 * hidden, 2 * hidden)
    return sum(law.stream(n * tokens * width, roof, record) for n in per_token) - SUMS * record.t0, 0.0


def _prefill_law(c: Array, width: float, roof: law.Roof, record: Any) -> Both:
    batch, new, heads, kv_heads, head = c
    floor = 4 * batch * heads * head * new * (new + 1) / 2 / roof.peak
    zero = np.zeros_like(new)
    return law.prefill(batch, new, zero, heads, kv_heads, head, head, 0.0, 2.0, width, roof, record), floor


def _decode_law(c: Array, width: float, roof: law.Roof, record: Any) -> Both:
    batch, length, heads, kv_heads, head = c
    floor = 2 * batch * kv_heads * head * length * width / roof.bandwidth
    return law.decode(batch, length, heads, kv_heads, head, 0.0, width, roof, record), floor


def _experts_law(c: Array, width: float, roof: law.Roof, record: Any) -> Both:
    tokens, top_k, experts, hidden, inner = c
    rows, touched = tokens * top_k, experts * (1 - (1 - top_k / experts) ** tokens)
    floor = np.maximum(6 * rows * hidden * inner / roof.peak, 3 * touched * hidden * inner * width / roof.bandwidth)
    one = np.ones_like(tokens)
    return law.experts(tokens, rows, rows, touched, hidden, inner, one, width, width, roof, record), floor


_LAWS: Mapping[str, Callable[[Array, float, law.Roof, Any], Both]] = MappingProxyType({
    "matmul": _matmul_law, "stream": _stream_law, "prefill": _prefill_law, "decode": _decode_law,
    "experts": _experts_law,
})  # fmt: skip


def _fit_kind(kind: str, rows: Sequence[Row], chip: Chip, folds: int) -> Fitted:
    """Constants from all rows, and the error on each fold of them from the others."""
    seconds = np.array([r.seconds for r in rows])
    record = _solve(kind, rows, chip)
    ratio = predicted(kind, rows, chip, record) / seconds
    errors = np.abs(ratio - 1)
    held = []
    parts = min(folds, len(rows) // 4)
    for part in range(parts if parts > 1 else 0):
        known = [r for i, r in enumerate(rows) if i % parts != part]
        left = [r for i, r in enumerate(rows) if i % parts == part]
        guess = predicted(kind, left, chip, _solve(kind, known, chip))
        held += [abs(g / r.seconds - 1) for g, r in zip(guess, left, strict=True)]
    held_out = float(np.mean(held)) if held else float(np.mean(errors))
    constants = {f.name: float(getattr(record, f.name)) for f in fields(record)}
    short = predicted(kind, rows, chip, record) < 3 * record.t0
    small, large = _spread(ratio[short], ratio), _spread(ratio[~short], ratio)
    known_error = {"low": large[0], "high": large[1], "low_small": small[0], "high_small": small[1]}
    constants |= {"rows": float(len(rows)), "mape": held_out, "median": float(np.median(errors)), **known_error}
    mape = float(np.mean(errors))
    return Fitted(
        rows[0].case.dtype, kind, len(rows), float(np.median(errors)), mape, held_out, MappingProxyType(constants)
    )


def _spread(ratio: Array, every: Array) -> tuple[float, float]:
    """Factors on a prediction between which 80 % of the measurements fall; of all rows where these are few."""
    chosen = 1 / (ratio if ratio.size >= 5 else every)
    low, high = np.quantile(chosen, (0.1, 0.9))
    return min(1.0, float(low)), max(1.0, float(high))


def _solve(kind: str, rows: Sequence[Row], chip: Chip) -> Any:
    """The record with the least Σ log²(predicted / measured): damped Gauss-Newton on the constants' logarithms."""
    record, names = RECORDS[kind], {f.name for f in fields(RECORDS[kind])}
    base = record() if chip.kind == "gpu" else record(**{k: v for k, v in CPU_SETTINGS[kind].items() if k in names})
    left_out = CPU_ONLY if chip.kind == "gpu" else ()
    free = {name: limits for name, limits in FREE[kind].items() if name in names and name not in left_out}
    target = np.log([r.seconds for r in rows])
    lowest, highest = (np.log([limits[i] for limits in free.values()]) for i in (1, 2))

    def made(point: Array) -> Any:
        return replace(base, **dict(zip(free, np.exp(point).tolist(), strict=True)))

    def residual(point: Array) -> Array:
        return np.asarray(np.log(predicted(kind, rows, chip, made(point))) - target)

    first = np.log([limits[0] for limits in free.values()])
    starts = [
        first,
        *(np.where([n == name for n in free], np.log(other), first) for name, other in OTHERS if name in free),
    ]
    best = min(
        (_least_squares(residual, s, lowest, highest) for s in starts), key=lambda p: float(np.sum(residual(p) ** 2))
    )
    return made(best)


def _least_squares(
    residual: Callable[[Array], Array], start: Array, lowest: Array, highest: Array, steps: int = 60
) -> Array:
    """Levenberg and Marquardt's damping, a Jacobian by differences, points kept within the bounds."""
    point, damping, nudge = np.clip(start, lowest, highest), 1e-2, 1e-3
    here = residual(point)
    for _ in range(steps):
        signs = np.where(point + nudge > highest, -nudge, nudge)
        jacobian = np.stack(
            [(residual(point + s * e) - here) / s for s, e in zip(signs, np.eye(point.size), strict=True)], axis=1
        )
        square = jacobian.T @ jacobian
        for _ in range(8):
            step = np.linalg.solve(
                square + damping * (np.diag(np.diag(square)) + 1e-9 * np.eye(point.size)), jacobian.T @ here
            )
            tried = np.clip(point - step, lowest, highest)
            there = residual(tried)
            if np.sum(there**2) < np.sum(here**2):
                break
            damping *= 4
        else:
            return point
        gained = float(np.sum(here**2) - np.sum(there**2))
        point, here, damping = tried, there, max(damping / 4, 1e-9)
        if gained < 1e-9 * max(1e-9, float(np.sum(here**2))):
            return point
    return point


# -- the file ------------------------------------------------------------------------------------------------------
_CLOCKS = {"cpu": "the CPU time of one thread", "wall": "wall clock"}


def chip_toml(calibration: Calibration) -> str:
    """The chip file: peaks in TFLOP/s, bandwidth in GB/s, the constants of each dtype and kind with their error."""
    chip, machine = calibration.chip, calibration.measurements.machine
    lines = [
        "# Written by `roofline calibrate`. Peaks are dense, TFLOP/s, as sustained here; t0 and the like in seconds.",
        *_table(chip.id, {
            "name": chip.name, "vendor": chip.vendor, "generation": chip.generation, "kind": chip.kind,
            "note": f"Measured with {machine.software}, {_CLOCKS[machine.clock]}.",
        }),
        *_table(f"{chip.id}.peak", {f: peak / 1e12 for f, peak in chip.peaks.items()}),
        *_table(f"{chip.id}.memory", {
            "bandwidth_gbs": chip.bandwidth / 1e9, "capacity_gb": chip.capacity / 1e9,
            "l2_mib": (chip.cache or 1) / 2**20, "units": chip.units or 1,
        }),
        *_table(f"{chip.id}.sources", {"figures": chip.source, "date": chip.date}),
    ]  # fmt: skip
    for dtype, kinds in (chip.constants or {}).items():
        for kind, softwares in kinds.items():
            for software, entry in softwares.items():
                lines += _table(f"{chip.id}.constants.{dtype}.{kind}.{software}", entry)
    return "\n".join(lines) + "\n"


def _table(name: str, entries: Mapping[str, object]) -> Iterable[str]:
    return [f"\n[{name}]", *(f"{key} = {_value(value)}" for key, value in entries.items())]


def _value(value: object) -> str:
    if isinstance(value, str):
        plain = "".join(c if c.isprintable() else " " for c in value)
        return '"' + plain.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, float) and not value.is_integer():
        return f"{value:.5g}"
    if isinstance(value, float) and np.isinf(value):
        return "inf"
    return str(int(value)) if isinstance(value, (int, float)) else str(value)
