"""Match kernels to ops: products, attention and experts by shape and order, kernels between them by name and order.

The kernels of a forward pass come in the order of the model's ops, layer after layer. Anchors, which are products with
weights, attention and experts, are matched first: among the ops with their sizes, to the one that comes soonest after
the previous anchor. Any other kernel lies between two anchors and is matched to an op between them: to the first one,
starting at its predecessor's, whose kind its name indicates; otherwise, if it is elementwise work, a copy or a view, to
its predecessor's op.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from roofline.inference.step import OpTime
from roofline.measured.compare.kernels import ProfiledKernel
from roofline.measured.compare.rules import is_attention, is_experts, is_product, is_shared, owns, product_sizes
from roofline.work import ops as o

ANCHORS = ("matmul", "attention", "experts")
_MERGED = {"qkv": 3, "gate_up": 2}
"""Products that published code may run separately: words in their names → number of parts."""


@dataclass
class _Place:
    """Position in the model's order: op of the last anchor, how much of the op's width is done, and layers begun."""

    op: int = -1
    width: int = 0
    layers: int = 0


def matched_ops(ops: Sequence[OpTime], kernels: Sequence[ProfiledKernel]) -> list[int | None]:
    """Index of the op of each kernel, None if there is none."""
    anchors = _anchors(ops, kernels)
    places: list[int | None] = [None] * len(kernels)
    marks = [i for i, kernel_op in enumerate(anchors) if kernel_op is not None]
    for before, after in zip([None, *marks], [*marks, None], strict=True):
        first = 0 if before is None else before + 1
        last = len(kernels) if after is None else after
        window = _window(ops, None if before is None else anchors[before], None if after is None else anchors[after])
        at = 0
        for i in range(first, last):
            at, places[i] = _between(ops, window, at, kernels[i])
        if after is not None:
            places[after] = anchors[after]
    return places


def _anchors(ops: Sequence[OpTime], kernels: Sequence[ProfiledKernel]) -> list[int | None]:
    """Op indices of products, attention and experts; None for other kernels and for sizes that no op has."""
    parts = _parts(ops, kernels)
    place = _Place()
    result: list[int | None] = []
    for kernel in kernels:
        candidates = _candidates(ops, kernel)
        if not candidates:
            result.append(None)
            continue
        sizes = product_sizes(kernel)
        width = sizes[2] if sizes else 0
        chosen = min(candidates, key=lambda i: _steps(ops, place, i, width, parts))
        again = chosen == place.op
        place = _Place(chosen, (place.width if again else 0) + (width or 1), _layers(ops, place, chosen))
        result.append(chosen)
    return result


def _candidates(ops: Sequence[OpTime], kernel: ProfiledKernel) -> list[int]:
    """Ops that a kernel may belong to: of its class, and with its sizes if it has any."""
    if is_attention(kernel):
        return [i for i, op in enumerate(ops) if op.kind == "attention"]
    if is_experts(kernel):
        return [i for i, op in enumerate(ops) if op.kind == "experts"]
    if not is_product(kernel):
        return []
    sizes = product_sizes(kernel)
    products = [(i, op.cost.op) for i, op in enumerate(ops) if op.kind in ("matmul", "experts")]
    if sizes is None:
        return [i for i, product in products if isinstance(product, o.MatMul)]
    _, k, n = sizes
    whole = [i for i, p in products if (p.k, p.n) == (k, n)]  # type: ignore[attr-defined]
    part = [i for i, p in products if p.k == k and n < p.n and _merged(ops[i]) > 1]  # type: ignore[attr-defined]
    return whole or part if not (whole and part) else [*whole, *part]


def _merged(op: OpTime) -> int:
    return next((count for word, count in _MERGED.items() if word in op.name), 1)


def _parts(ops: Sequence[OpTime], kernels: Sequence[ProfiledKernel]) -> bool:
    """Whether there are more products without shapes than ops, which means that merged products run separately."""
    products = sum(1 for kernel in kernels if is_product(kernel) and product_sizes(kernel) is None)
    attentions = sum(1 for kernel in kernels if is_attention(kernel))
    layers = sum(op.layers for op in ops if op.kind == "attention") or 1
    each = sum(op.layers for op in ops if op.kind == "matmul" and op.block != "head") / layers
    return attentions > 0 and products / attentions > each + 1.5


def _layers(ops: Sequence[OpTime], place: _Place, i: int) -> int:
    """Number of layers begun if op `i` comes next."""
    if ops[i].block in ("embedding", "head"):
        return 0
    entered = place.op < 0 or ops[place.op].block != ops[i].block or i < place.op
    return place.layers + (1 if entered else 0)


def _steps(ops: Sequence[OpTime], place: _Place, i: int, width: int, parts: bool) -> float:
    """Distance from the last anchor to op `i`, in the same layer or in the next."""
    if place.op < 0:
        return i
    last, op = ops[place.op], ops[i]
    if i == place.op:
        full = int(getattr(op.cost.op, "n", 0)) if width else (_merged(op) if parts else 1)
        if place.width + (width or 1) <= full or op.kind == "experts":
            return 0.0
    start = {op.block: j for j, op in reversed(list(enumerate(ops)))}
    every = sum(ops[j].layers for block, j in start.items() if block not in ("embedding", "head"))
    early = 0 if width or (op.block == "head") == (place.layers >= every) else len(ops)
    end = {op.block: j for j, op in enumerate(ops)}
    if op.block == last.block and i > place.op and op.block != "embedding":
        return i - place.op
    return early + end[last.block] - place.op + 1 + i - start[op.block] + (len(ops) if op.block == "embedding" else 0)


def _window(ops: Sequence[OpTime], before: int | None, after: int | None) -> list[int]:
    """Ops from one anchor to the next in the model's order, across the end of a layer if need be."""
    if before is None and after is None:
        return list(range(len(ops)))
    if before is None:
        return list(range((after or 0) + 1))
    if after is None:
        return list(range(before, len(ops)))
    if before == after:  # parts of a merged product, and what may stand between them
        rest = [j for j in range(before + 1, len(ops)) if ops[j].block == ops[before].block]
        return [before, *takewhile(lambda j: ops[j].kind not in ANCHORS, rest)]
    if before < after and ops[before].block == ops[after].block:
        return list(range(before, after + 1))
    rest = [j for j in range(before, len(ops)) if ops[j].block == ops[before].block]
    if ops[before].block == "head":  # the next step begins
        rest += [j for j, op in enumerate(ops) if op.block == "embedding"]
    return [*rest, *(j for j in range(after + 1) if ops[j].block == ops[after].block)]


def _between(ops: Sequence[OpTime], window: list[int], at: int, kernel: ProfiledKernel) -> tuple[int, int | None]:
    """Position of a kernel in the window, and its op; None if neither name nor order determine it."""
    for place in (*range(at, len(window)), *range(at)):
        op = ops[window[place]]
        if owns(_KINDS.get(op.kind, op.kind), kernel) and (place >= at or op.kind != "add"):
            return max(at, place), window[place]
    if is_shared(kernel):
        return at, window[at]
    far = next((i for i, op in enumerate(ops) if owns(_KINDS.get(op.kind, op.kind), kernel)), None)
    return at, far


_KINDS = {"route": "choose", "conv": "convolution", "gate": "activation"}
