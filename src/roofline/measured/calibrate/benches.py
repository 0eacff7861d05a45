"""Implementations of the benchmark cases in NumPy and in eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import count
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from roofline.declared.numbers.arrays import Array
from roofline.measured.calibrate.cases import BYTES, Case, Device, Runner

if TYPE_CHECKING:
    from torch import Tensor, dtype


class NumpyBench:
    """The cases that NumPy supports: reads, copies and products."""

    def __init__(self, cache: float) -> None:
        self.pools: dict[str, Array] = {}
        self.least = int(4 * cache)

    def quiet(self) -> AbstractContextManager[object]:
        """No-op: there is nothing to switch off."""
        return nullcontext()

    def runner(self, case: Case) -> Runner:
        """The call to time, with its arrays already allocated."""
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


class TorchBench:
    """The cases in eager PyTorch. Weights and KV caches are taken from a pool larger than the last-level cache."""

    def __init__(self, torch: ModuleType, device: Device, cache: float) -> None:
        self.torch, self.device = torch, device
        self.least = int(4 * cache)
        self.pool: Tensor | None = None
        self.dtypes = {"fp64": torch.float64, "fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}

    def quiet(self) -> AbstractContextManager[object]:
        """Disable gradients."""
        mode: AbstractContextManager[object] = self.torch.no_grad()
        return mode

    def runner(self, case: Case) -> Runner:
        """The call to time, with its tensors already allocated."""
        dtype = self.dtypes[case.dtype]
        run: Runner = getattr(self, f"_{case.kind}")(dtype, *case.shape)
        return run

    def _cold(self, dtype: dtype, *shape: int) -> Callable[[], Tensor]:
        """A function that returns a tensor of the given shape from a different part of the pool at each call."""
        size = int(np.prod(shape))
        if self.pool is None or self.pool.dtype != dtype or self.pool.numel() < size:
            self.pool = None
            elements = max(self.least // dtype.itemsize, size)
            self.pool = self.torch.empty(elements, dtype=dtype, device=self.device).uniform_(-0.1, 0.1)
        pool, turn, places = self.pool, count(), max(1, self.pool.numel() // size)

        def next_one() -> Tensor:
            at = next(turn) % places * size
            return pool[at : at + size].view(*shape)

        return next_one

    def _new(self, dtype: dtype, *shape: int) -> Tensor:
        return self.torch.ones(*shape, dtype=dtype, device=self.device) / 8

    def _read(self, dtype: dtype, size: int) -> Runner:
        data = self._new(dtype, size // dtype.itemsize)
        return lambda: data.sum()

    def _copy(self, dtype: dtype, size: int) -> Runner:
        data = self._new(dtype, size // dtype.itemsize // 2)
        other = data.clone()
        return lambda: other.copy_(data)

    def _matmul(self, dtype: dtype, m: int, n: int, k: int) -> Runner:
        x, weight, linear = self._new(dtype, 1, m, k), self._cold(dtype, n, k), self.torch.nn.functional.linear
        return lambda: linear(x, weight())

    def _rms(self, x: Tensor, weight: Tensor) -> Tensor:
        wide = x.to(self.torch.float32)
        wide = wide * self.torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return weight * wide.to(x.dtype)

    def _turn(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        half = x.shape[-1] // 2
        return x * cos + self.torch.cat((-x[..., half:], x[..., :half]), dim=-1) * sin

    def _stream(
        self, dtype: dtype, tokens: int, hidden: int, heads: int, kv_heads: int, head: int, inner: int
    ) -> Runner:
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

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, causal: bool) -> Tensor:
        attention = self.torch.nn.functional.scaled_dot_product_attention
        out = attention(query, key, value, is_causal=causal, enable_gqa=query.shape[1] != key.shape[1])
        return out.transpose(1, 2).contiguous()

    def _prefill(self, dtype: dtype, batch: int, new: int, heads: int, kv_heads: int, head: int) -> Runner:
        query = self._new(dtype, batch, new, heads, head).transpose(1, 2)
        key, value = (self._new(dtype, batch, new, kv_heads, head).transpose(1, 2) for _ in range(2))
        nothing = self._new(dtype, 0)
        append = partial(self.torch.cat, dim=-2)
        return lambda: self._attend(query, append([nothing, key]), append([nothing, value]), True)

    def _decode(self, dtype: dtype, batch: int, length: int, heads: int, kv_heads: int, head: int) -> Runner:
        query = self._new(dtype, batch, 1, heads, head).transpose(1, 2)
        key, value = (self._new(dtype, batch, 1, kv_heads, head).transpose(1, 2) for _ in range(2))
        cached, append = self._cold(dtype, batch, kv_heads, length, head), partial(self.torch.cat, dim=-2)
        layers = max(1, self.least // (2 * batch * kv_heads * length * head * dtype.itemsize))
        caches, turn = [(cached().clone(), cached().clone()) for _ in range(layers)], count()

        def run() -> object:
            i = next(turn) % layers
            keys, values = caches[i]
            keys, values = append([keys[:, :, 1:], key]), append([values[:, :, 1:], value])
            caches[i] = keys, values
            return self._attend(query, keys, values, False)

        for _ in range(layers):
            run()
        return run

    def _experts(self, dtype: dtype, tokens: int, top_k: int, experts: int, hidden: int, inner: int) -> Runner:
        """Sort tokens by expert, two grouped products (a loop if PyTorch lacks `grouped_mm`), weight and sum."""
        torch = self.torch
        x, silu = self._new(dtype, tokens, hidden), torch.nn.functional.silu
        up, down = self._cold(dtype, experts, 2 * inner, hidden), self._cold(dtype, experts, hidden, inner)
        generator = torch.Generator().manual_seed(0)
        scores = torch.rand(tokens, experts, generator=generator).to(self.device)
        weights, chosen = (t.contiguous() for t in scores.topk(top_k))
        grouped = getattr(torch.nn.functional, "grouped_mm", None)

        def multiply(rows: Tensor, matrices: Tensor, ends: Tensor) -> Tensor:
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

    def _layer(
        self, dtype: dtype, tokens: int, hidden: int, heads: int, kv_heads: int, head: int, inner: int
    ) -> Runner:
        """A tiny decoder layer made of modules, for one token: measures launch overhead."""
        nn, bench = self.torch.nn, self
        sizes = {
            "q": (hidden, heads * head), "k": (hidden, kv_heads * head), "v": (hidden, kv_heads * head),
            "o": (heads * head, hidden), "gate": (hidden, inner), "up": (hidden, inner), "down": (inner, hidden),
        }  # fmt: skip

        class Norm(nn.Module):  # type: ignore[misc, name-defined]
            def __init__(self) -> None:
                super().__init__()
                self.weight = nn.Parameter(bench._new(dtype, hidden))

            def forward(self, x: Tensor) -> Tensor:
                return bench._rms(x, self.weight)

        linear = nn.ModuleDict({
            name: nn.Linear(a, b, bias=False, dtype=dtype, device=self.device) for name, (a, b) in sizes.items()
        })  # fmt: skip
        first, second, silu = Norm(), Norm(), nn.SiLU()
        x, cos = self._new(dtype, 1, tokens, hidden), self._new(dtype, 1, 1, tokens, head)
        cached = self._new(dtype, 1, kv_heads, 16, head)

        def split(y: Tensor) -> Tensor:
            return y.view(1, tokens, -1, head).transpose(1, 2)

        def run() -> object:
            y = first(x)
            query, key, value = (split(linear[name](y)) for name in "qkv")
            query, key = self._turn(query, cos, cos), self._turn(key, cos, cos)
            keys, values = self.torch.cat([cached, key], dim=-2), self.torch.cat([cached, value], dim=-2)
            z = x + linear["o"](self._attend(query, keys, values, False).reshape(1, tokens, -1))
            y = second(z)
            return z + linear["down"](silu(linear["gate"](y)) * linear["up"](y))

        return run
