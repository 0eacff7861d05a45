"""LLM-para's two functions: the table of one layer in three phases, its charts, and the roofline of such a table.

Rows are modules of ours in its own plan of a layer (no norms, no residuals, no head), counted and moved by the
`llm-para` conventions. https://github.com/dengls24/LLM-para
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofline.model.checks import count
from roofline.model.config import LARGEST_SIZE, MOST_LAYERS
from roofline.model.errors import InputError
from roofline.model.families.parts import Modules
from roofline.model.model import Block, Model
from roofline.model.modules import Activation, Attention, Experts, Linear, Rope, Router
from roofline.model.precision import Format, Precision
from roofline.work.analysis import Analysis, OpCost, analyze
from roofline.work.step import Step, decode, prefill

if TYPE_CHECKING:
    from roofline.show.plots.data import RooflinePlot

COLUMNS = (
    "Phase", "Operation", "FLOPs", "Param Count", "Input1 Bytes", "Input2 Bytes", "Output Bytes", "Total Bytes",
    "Density (Op/Byte)", "input_shape", "weight_shape",
)  # fmt: skip
QUANT_KEYS = ("activation", "weight_attn", "weight_ffn", "kv_cache", "rope_bit")
HARDWARE_KEYS = ("name", "peak_performance", "memory_bandwidth")
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Layer:
    """The sizes that LLM-para takes. `top_k` None: a dense feed-forward."""

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
class Row:
    """One operation of one layer in one phase: FLOPs, the parameters it reads, bytes, and the shapes it names."""

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
        """Bytes in all."""
        return self.input + self.second + self.output

    @property
    def density(self) -> float | str:
        """FLOPs per byte to two digits, `-` where no byte moves."""
        return round(self.flops / self.total, 2) if self.total else "-"

    @property
    def cells(self) -> tuple[object, ...]:
        """The values under COLUMNS."""
        moved = (self.input, self.second, self.output, self.total)
        shapes = (str(self.input_shape), str(self.weight_shape))
        return (self.phase, self.operation, self.flops, self.parameters, *moved, self.density, *shapes)


# -- the plan ------------------------------------------------------------------------------------------------------
def plan(layer: Layer, layers: int, bits: Mapping[str, Any]) -> Model:
    """The model whose ops are LLM-para's operations, in their order; q·kᵀ and the product with v stand apart."""
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
"""Operation → the ops that it is, in the order of the table."""


def precision(bits: Mapping[str, Any]) -> Precision:
    """Formats of that many bits by role; RoPE's angles have `rope_bit`. Raises InputError for a key or a width."""
    if not isinstance(bits, Mapping):
        raise InputError("quant_config", bits, f"bits of {', '.join(QUANT_KEYS)}")
    a, attention, ffn, kv, rope = (_format(bits, key) for key in QUANT_KEYS)
    return Precision(
        attention=attention, ffn=ffn, experts=ffn, router=ffn, embedding=ffn, head=ffn, other=rope, activations=a,
        kv=kv, state=a,
    )  # fmt: skip


def _format(bits: Mapping[str, Any], key: str) -> Format:
    value = bits.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 64:
        raise InputError(f"quant_config[{key!r}]", value, "a number of bits from above 0 to 64")
    return Format(f"{value:g} bits", Fraction(str(value)))


def rows(layer: Layer, analysis: Analysis, phase: str) -> list[Row]:
    """The table of one phase: each operation's ops added up."""
    costs = {cost.name: cost for cost in analysis.ops}
    shapes = _shapes(layer, analysis.step)
    return [
        _row(phase, name, [costs[part] for part in parts], layer, shapes)
        for name, parts in ROWS.items()
        if parts[0] in costs
    ]


def _row(
    phase: str, name: str, costs: Sequence[OpCost], layer: Layer, shapes: Mapping[str, tuple[Shape, Shape]]
) -> Row:
    shown = f"{name} (with Gate)" if name == "FFN-1" and layer.gated else name
    moved = [cost.each_moved for cost in costs]
    return Row(
        phase, shown, int(sum(cost.each_flops for cost in costs)),
        int(sum(costs[0].analysis.traffic.rule(cost.op).weight for cost in costs)),
        int(sum(m.input for m in moved)), int(sum(m.weights + m.cache_read for m in moved)),
        int(sum(m.output for m in moved)), *shapes[name],
    )  # fmt: skip


def _shapes(layer: Layer, step: Step) -> dict[str, tuple[Shape, Shape]]:
    """Input and weight (or cache) shapes by operation, for t new tokens after p cached ones."""
    (query,) = step.queries
    b, t, held = query.count, query.new, query.cached + query.new
    h, n, g, d, wide = layer.hidden, layer.heads, layer.kv_heads, layer.head_dim, layer.inner
    stream = (b, t, h)
    found: dict[str, tuple[Shape, Shape]] = {
        "xW_Q": (stream, (h, h)), "xW_K": (stream, (h, g * d)), "xW_V": (stream, (h, g * d)),
        "RoPE-Q": ((b, n, t, d), (t, d)), "RoPE-K": ((b, g, t, d), (t, d)),
        "Q × Kᵀ": ((b, n, t, d), (b, g, d, held)), "Attn × V": ((b, n, t, held), (b, g, held, d)),
        "xW_O": (stream, (h, h)), "FFN-2": ((b, t, wide), (wide, h)),
        "FFN-1": (stream, (2, h, wide) if layer.gated else (h, wide)),
    }  # fmt: skip
    if layer.top_k is not None and layer.experts is not None:
        read, rows = layer.top_k if t == 1 else layer.experts, t * layer.top_k
        found["Router"] = (stream, (h, layer.experts))
        found["FFN-1(with MoE)"] = ((b, rows, h), (h, 2 * wide * read))
        found["FFN-2(with MoE)"] = ((b, rows, wide), (read, wide, h))
    return found


# -- the two functions ---------------------------------------------------------------------------------------------
def compute_and_plot_transformer_analysis(
    hidden_size: int,
    num_heads: int,
    seq_len: int,
    batch_size: int,
    num_layers: int,
    quant_config: Mapping[str, Any],
    intermediate_size: int | None = None,
    num_key_value_heads: int | None = None,
    num_experts_per_tok: int | None = None,
    num_local_experts: int | None = None,
    max_gen_len: int = 4096,
    output_csv_path: str | os.PathLike[str] = "transformer_analysis.csv",
    use_gate_ffn: bool = False,
    use_rope: bool | None = None,
    rope_theta: float | None = None,
    rope_scaling_factor: float | None = None,
) -> list[Row]:
    """Writes the table of one layer in three phases as CSV and its charts beside it; prints and returns them.

    Prefill: `seq_len` new tokens; Decode: one after them; Decode_Last: one after seq_len + max_gen_len − 1.
    `intermediate_size`: 4·hidden_size where not given; `use_rope`: whether `rope_theta` is given. The charts go to the
    CSV's name with `.png`. Both files are overwritten, as there. Raises InputError for what is not possible.
    """
    layer = _layer(
        hidden_size, num_heads, intermediate_size, num_key_value_heads, num_experts_per_tok, num_local_experts,
        use_gate_ffn, rope_theta is not None if use_rope is None else use_rope,
    )  # fmt: skip
    for name, value in (("rope_theta", rope_theta), ("rope_scaling_factor", rope_scaling_factor)):
        if value is not None and not (_is_number(value) and value > 0):
            raise InputError(name, value, "a positive number")
    if Path(output_csv_path).suffix.lower() == ".png":
        raise InputError("output_csv_path", str(output_csv_path), "a name for the CSV that does not end in .png")
    batch, tokens = count("batch_size", batch_size, 1), count("seq_len", seq_len, 1)
    generated = count("max_gen_len", max_gen_len, 1)
    model = plan(layer, _size("num_layers", num_layers, MOST_LAYERS), quant_config)
    steps = {
        "Prefill": prefill(batch, tokens),
        "Decode": decode(batch, tokens),
        "Decode_Last": decode(batch, tokens + generated - 1),
    }
    analyses = {phase: analyze(model, s, counting="llm-para", traffic="llm-para") for phase, s in steps.items()}
    table = [row for phase, analysis in analyses.items() for row in rows(layer, analysis, phase)]
    csv, charts = Path(output_csv_path), Path(output_csv_path).with_suffix(".png")
    _write_csv(csv, table)
    _draw_charts(charts, table)
    print("\n".join(_summary(model, analyses, batch, tokens, generated)))
    print(f"wrote {csv} and {charts}")
    return table


def analyze_from_csv(
    csv_path: str | os.PathLike[str],
    hardware_config: Mapping[str, Any],
    output_path: str | os.PathLike[str] = "roofline_model.png",
) -> list[Path]:
    """Draws the roofline of a table as above on a machine, with a broken x axis, and its legend as `…_legend`.

    `hardware_config`: name, peak_performance in FLOP/s, memory_bandwidth in bytes/s. A CSV knows no times: every
    point is at the speed of light. Both files are overwritten, as there; returns their paths. Raises InputError for a
    missing column, text for a number, or hardware that cannot be.
    """
    from roofline.show.plots.style import Style
    from roofline.show.plots.write import write

    name, peak, bandwidth = _hardware(hardware_config)
    marks = read_csv(csv_path)
    style = Style(legend="separate", broken=True)
    return write(_roofline_plot(Path(csv_path), marks, name, peak, bandwidth), output_path, style, force=True)


def _layer(
    hidden: int, heads: int, inner: int | None, kv_heads: int | None, top_k: int | None, experts: int | None,
    gated: bool, rope: bool,
) -> Layer:  # fmt: skip
    width, queries = _size("hidden_size", hidden), _size("num_heads", heads)
    if width % queries:
        raise InputError("num_heads", heads, f"a divisor of hidden_size = {width}")
    keys = queries if kv_heads is None else _size("num_key_value_heads", kv_heads)
    if queries % keys:
        raise InputError("num_key_value_heads", kv_heads, f"a divisor of num_heads = {queries}")
    wide = 4 * width if inner is None else _size("intermediate_size", inner)
    if (top_k is None) != (experts is None):
        missing = "num_local_experts" if experts is None else "num_experts_per_tok"
        raise InputError(missing, None, "a whole number, beside its partner")
    many = None if experts is None else _size("num_local_experts", experts)
    chosen = None if top_k is None else _size("num_experts_per_tok", top_k)
    if chosen is not None and many is not None and chosen > many:
        raise InputError("num_experts_per_tok", top_k, f"at most num_local_experts = {many}")
    return Layer(width, queries, keys, wide, many, chosen, bool(gated), rope)


def _size(field: str, value: Any, most: int = LARGEST_SIZE) -> int:
    if type(value) is not int or not 1 <= value <= most:
        raise InputError(field, value, f"a whole number from 1 to {most}")
    return value


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _hardware(config: Mapping[str, Any]) -> tuple[str, float, float]:
    if not isinstance(config, Mapping):
        raise InputError("hardware_config", config, f"a dict with {', '.join(HARDWARE_KEYS)}")
    peak, bandwidth = (config.get(key) for key in HARDWARE_KEYS[1:])
    for key, value in zip(HARDWARE_KEYS[1:], (peak, bandwidth), strict=True):
        if not _is_number(value) or not 0 < value < float("inf"):  # type: ignore[operator]
            raise InputError(f"hardware_config[{key!r}]", value, "a positive number")
    return str(config.get("name", "hardware")), float(peak), float(bandwidth)  # type: ignore[arg-type]


def _summary(model: Model, analyses: Mapping[str, Analysis], batch: int, tokens: int, generated: int) -> list[str]:
    """FLOPs and bytes of each phase over all layers, parameters, weights and KV cache."""
    from roofline.show.units import brief, whole

    each = batch * model.kv_bytes(1)
    lines = [f"{len(model.layers)} layers, {batch} × {tokens} tokens, {generated} generated"]
    for phase, a in analyses.items():
        table_flops = sum(c.flops for c in a.ops)
        lines.append(f"{phase:<12} {brief(table_flops, 'FLOP'):>12} {brief(a.bytes, 'B'):>10}")
    lines += [
        f"parameters   {whole(model.parameters)}, {brief(model.weight_bytes(), 'B')}",
        f"KV cache     {whole(each)} B per token of the batch; prompt {_mib(each * tokens)}, generation "
        f"{_mib(each * generated)}, both {_mib(each * (tokens + generated))}",
    ]
    return lines


def _mib(value: float) -> str:
    return f"{value / 2**20:,.2f} MiB"


# -- files ---------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class CsvRow:
    """What the roofline needs of a line of the CSV."""

    phase: str
    operation: str
    flops: float
    total: float


def _write_csv(path: Path, table: Sequence[Row]) -> None:
    from roofline.show.tables import csv_text

    try:
        path.write_text(csv_text(COLUMNS, [row.cells for row in table]), encoding="utf-8")
    except OSError as error:
        raise InputError("output_csv_path", str(path), f"a file that can be written ({error.strerror})") from None


def read_csv(path: str | os.PathLike[str]) -> list[CsvRow]:
    """The rows of such a CSV that do work on bytes. Raises InputError naming the line and the column at fault."""
    from csv import DictReader, Error

    try:
        with Path(path).open(encoding="utf-8", newline="") as file:
            reader = DictReader(file)
            lines, names = list(reader), reader.fieldnames or []
    except (OSError, UnicodeDecodeError, Error) as error:
        raise InputError("csv_path", str(path), f"a CSV file that can be read ({error})") from None
    needed = ("Phase", "Operation", "FLOPs", "Total Bytes")
    missing = [name for name in needed if name not in names]
    if missing:
        raise InputError("csv_path", str(path), f"a CSV with the columns {', '.join(missing)}")
    found = [
        CsvRow(line["Phase"], line["Operation"], _number(i, line, "FLOPs"), _number(i, line, "Total Bytes"))
        for i, line in enumerate(lines, start=2)
    ]
    working = [row for row in found if row.flops > 0 and row.total > 0]
    if not working:
        raise InputError("csv_path", str(path), "a CSV with at least one operation that has FLOPs and bytes")
    return working


def _number(line: int, cells: Mapping[str, Any], column: str) -> float:
    try:
        value = float(cells[column])
    except (TypeError, ValueError):
        value = -1.0
    if not 0 <= value < float("inf"):
        raise InputError(f"line {line}, {column}", cells[column], "a number that is not negative")
    return value


def _draw_charts(path: Path, table: Sequence[Row]) -> None:
    """FLOPs, bytes and density by operation and phase."""
    from roofline.show.plots.data import BarPanel, BarsPlot
    from roofline.show.plots.style import Style
    from roofline.show.plots.write import write

    phases = tuple(dict.fromkeys(row.phase for row in table))
    operations = tuple(dict.fromkeys(row.operation for row in table))
    by = {(row.phase, row.operation): row for row in table}

    def panel(label: str, unit: str, field: str) -> BarPanel:
        def cell(key: tuple[str, str]) -> float | None:
            value = getattr(by[key], field)
            return value if _is_number(value) else None

        return BarPanel(label, unit, tuple(tuple(cell((p, o)) for o in operations) for p in phases))

    panels = (panel("FLOPs", "", "flops"), panel("Bytes", "B", "total"), panel("Density", "FLOP/B", "density"))
    plot = BarsPlot("One layer, operation by operation", operations, phases, panels)
    write(plot, path, Style(), force=True)


def _roofline_plot(path: Path, marks: Sequence[CsvRow], name: str, peak: float, bandwidth: float) -> RooflinePlot:
    """Every operation in every phase at the speed of light of the machine."""
    from roofline.show.plots.data import Ceiling, Panel, Point, Roof, RooflinePlot, Slope

    points = []
    for m in marks:
        light = m.flops / max(m.flops / peak, m.total / bandwidth)
        points.append(Point(m.operation, m.operation, m.phase, m.flops / m.total, light, light, 0.0))
    roof = Roof(name, (Ceiling("peak", peak, peak / bandwidth),), (Slope("memory", bandwidth),))
    note = "one layer · a table knows no times: every point is at the speed of light"
    return RooflinePlot(f"{path.stem} · {name}", (Panel(roof, tuple(points)),), note)
