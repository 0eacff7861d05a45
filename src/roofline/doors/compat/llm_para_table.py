"""LLM-para's table, computed from our modules arranged in its outline of a layer.

The outline has no norms, no residual sums and no head; the conventions `llm-para` count its FLOPs and traffic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from roofline.declared.checks import real
from roofline.declared.errors import InputError
from roofline.declared.numbers.maths import Count
from roofline.model.formats import Format
from roofline.model.model import Block, Model
from roofline.model.modules import Activation, Attention, Experts, Linear, Modules, Rope, Router
from roofline.model.precision import Precision
from roofline.work.analysis import Analysis, OpCost
from roofline.work.ops import ExpertMatMul
from roofline.work.step import Step
from roofline.work.traffic import experts_read

COLUMNS = (
    "Phase", "Operation", "FLOPs", "Param Count", "Input1 Bytes", "Input2 Bytes", "Output Bytes", "Total Bytes",
    "Density (Op/Byte)", "input_shape", "weight_shape",
)  # fmt: skip
QUANT_KEYS = ("activation", "weight_attn", "weight_ffn", "kv_cache", "rope_bit")
Shape: TypeAlias = tuple[Count, ...]


@dataclass(frozen=True)
class Layer:
    """Sizes that LLM-para takes. `top_k` None: a dense feed-forward layer."""

    hidden: int
    heads: int
    kv_heads: int
    inner: int
    experts: int | None
    top_k: int | None
    gated: bool
    rope: bool

    @property
    def head_dim(self) -> int:
        """hidden / heads."""
        return self.hidden // self.heads


@dataclass(frozen=True)
class Operation:
    """An operation of one layer in one phase: FLOPs, parameters read, bytes, and shapes."""

    phase: str
    operation: str
    flops: int
    parameters: int
    input: int
    second: int
    output: int
    input_shape: Shape
    weight_shape: Shape

    @property
    def total(self) -> int:
        """Total bytes."""
        return self.input + self.second + self.output

    @property
    def density(self) -> float | str:
        """FLOPs per byte to two digits; `-` if no bytes move."""
        return round(self.flops / self.total, 2) if self.total else "-"

    @property
    def cells(self) -> tuple[object, ...]:
        """Values under COLUMNS."""
        moved = (self.input, self.second, self.output, self.total)
        shapes = (str(self.input_shape), str(self.weight_shape))
        return (self.phase, self.operation, self.flops, self.parameters, *moved, self.density, *shapes)


# -- the outline ---------------------------------------------------------------------------------------------------
def para_outline(layer: Layer, layers: int, bits: Mapping[str, float]) -> Model:
    """Model whose ops are LLM-para's operations in their order; q·kᵀ and the product with v are separate."""
    h, d, n, g = layer.hidden, layer.head_dim, layer.heads, layer.kv_heads

    def linear(name: str, outputs: int) -> Linear:
        return Linear(name=name, inputs=h, outputs=outputs, part="attention")

    ropes = (Rope(name="RoPE-Q", heads=n, dims=d), Rope(name="RoPE-K", heads=g, dims=d)) if layer.rope else ()
    attention: Modules = (
        linear("xW_Q", h), linear("xW_K", g * d), linear("xW_V", g * d), *ropes,
        Attention(name="Q × Kᵀ", heads=n, kv_heads=g, head_dim=d, v_head_dim=0),
        Attention(name="Attn × V", heads=n, kv_heads=g, head_dim=0, v_head_dim=d),
        linear("xW_O", h),
    )  # fmt: skip
    block = Block("layer", (*attention, *_feed_forward(layer)))
    return Model(
        name="LLM-para", model_type="llm-para", vocab=1, hidden=h, embedding=(), layers=(block,) * layers, head=(),
        precision=precision(bits),
    )  # fmt: skip


def _feed_forward(layer: Layer) -> Modules:
    h, wide = layer.hidden, layer.inner
    if layer.top_k is not None and layer.experts is not None:
        routed = Experts(
            name="experts", hidden=h, inner=wide, experts=layer.experts, top_k=layer.top_k, function="silu"
        )
        return Router(name="Router", inputs=h, experts=layer.experts), routed
    return (
        Linear(name="FFN-1", inputs=h, outputs=wide * (1 + layer.gated), gated=layer.gated),
        Activation(name="act", width=wide, function="silu", gated=layer.gated),
        Linear(name="FFN-2", inputs=wide, outputs=h),
    )


ROWS: Mapping[str, tuple[str, ...]] = {
    **{name: (name,) for name in ("xW_Q", "xW_K", "xW_V", "RoPE-Q", "RoPE-K", "Q × Kᵀ", "Attn × V", "xW_O", "Router")},
    "FFN-1(with MoE)": ("experts_gate_up_proj", "experts_act"), "FFN-2(with MoE)": ("experts_down_proj",),
    "FFN-1": ("FFN-1", "act"), "FFN-2": ("FFN-2",),
}  # fmt: skip
"""Operation → its ops, in the order of the table."""


def precision(bits: Mapping[str, float]) -> Precision:
    """Formats with these numbers of bits, by role; `rope_bit` applies to RoPE's angles. Raises InputError for an
    unknown key or width."""
    if not isinstance(bits, Mapping):
        raise InputError("quant_config", bits, f"bits of {', '.join(QUANT_KEYS)}")
    a, attention, ffn, kv, rope = (_format(bits, key) for key in QUANT_KEYS)
    return Precision(
        attention=attention, ffn=ffn, experts=ffn, router=ffn, embedding=ffn, head=ffn, other=rope, activations=a,
        kv=kv, state=a,
    )  # fmt: skip


def _format(bits: Mapping[str, float], key: str) -> Format:
    value = bits.get(key)
    number = real(value)
    if number is None or not 0 < number <= 64:
        raise InputError(f"quant_config[{key!r}]", value, "a number of bits from above 0 to 64")
    return Format(f"{number:g} bits", Fraction(str(value)))  # of a float32 too the digits it shows


def para_rows(layer: Layer, analysis: Analysis, phase: str) -> list[Operation]:
    """Table of one phase, with the ops of each operation added up."""
    costs = {cost.name: cost for cost in analysis.ops}
    read = next((experts_read(cost.op) for cost in analysis.ops if isinstance(cost.op, ExpertMatMul)), 0)
    shapes = _shapes(layer, analysis.step, read)
    return [
        _row(phase, name, [costs[part] for part in parts], layer, shapes)
        for name, parts in ROWS.items()
        if parts[0] in costs
    ]


def _row(
    phase: str, name: str, costs: Sequence[OpCost], layer: Layer, shapes: Mapping[str, tuple[Shape, Shape]]
) -> Operation:
    shown = f"{name} (with Gate)" if name == "FFN-1" and layer.gated else name
    moved = [cost.each_moved for cost in costs]
    return Operation(
        phase, shown, int(sum(cost.each_flops for cost in costs)),
        int(sum(costs[0].analysis.traffic.elements(cost.op).weight for cost in costs)),
        int(sum(m.input for m in moved)), int(sum(m.weights + m.cache_read for m in moved)),
        int(sum(m.output for m in moved)), *shapes[name],
    )  # fmt: skip


def _shapes(layer: Layer, step: Step, read: Count) -> dict[str, tuple[Shape, Shape]]:
    """Input and weight (or cache) shapes by operation, for t new tokens after p cached ones and `read` experts that are
    read."""
    (query,) = step.queries
    b, t, seen = query.count, query.new, query.cached + query.new
    h, n, g, d, wide = layer.hidden, layer.heads, layer.kv_heads, layer.head_dim, layer.inner
    stream = (b, t, h)
    shapes: dict[str, tuple[Shape, Shape]] = {
        "xW_Q": (stream, (h, h)), "xW_K": (stream, (h, g * d)), "xW_V": (stream, (h, g * d)),
        "RoPE-Q": ((b, n, t, d), (t, d)), "RoPE-K": ((b, g, t, d), (t, d)),
        "Q × Kᵀ": ((b, n, t, d), (b, g, d, seen)), "Attn × V": ((b, n, t, seen), (b, g, seen, d)),
        "xW_O": (stream, (h, h)), "FFN-2": ((b, t, wide), (wide, h)),
        "FFN-1": (stream, (2, h, wide) if layer.gated else (h, wide)),
    }  # fmt: skip
    if layer.top_k is not None and layer.experts is not None:
        rows = t * layer.top_k
        shapes["Router"] = (stream, (h, layer.experts))
        shapes["FFN-1(with MoE)"] = ((b, rows, h), (h, 2 * wide * read))
        shapes["FFN-2(with MoE)"] = ((b, rows, wide), (read, wide, h))
    return shapes
