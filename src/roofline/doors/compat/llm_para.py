"""The two functions of LLM-para: a table of one layer in three phases with charts, and the roofline of such a table.

https://github.com/dengls24/LLM-para
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from roofline.declared.checks import real
from roofline.declared.errors import InputError
from roofline.doors.compat.llm_para_table import COLUMNS, Layer, Operation, para_outline, para_rows
from roofline.doors.compat.numbers import number, whole_number
from roofline.model.configs.config import LARGEST_SIZE, MOST_LAYERS
from roofline.model.model import Model
from roofline.model.sources.pieces import csv_file
from roofline.model.sources.untrusted import LARGEST_TABLE, printable
from roofline.work.analysis import Analysis, analyze
from roofline.work.step import decode, prefill

if TYPE_CHECKING:
    from roofline.hardware.chip import Chip
    from roofline.views.plots.data import RooflinePlot

HARDWARE_KEYS = ("name", "peak_performance", "memory_bandwidth")
PEAK = "peak"
"""The only format of such hardware."""


# -- the two functions ---------------------------------------------------------------------------------------------
def compute_and_plot_transformer_analysis(
    hidden_size: int,
    num_heads: int,
    seq_len: int,
    batch_size: int,
    num_layers: int,
    quant_config: Mapping[str, float],
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
) -> list[Operation]:
    """Writes the table of one layer in three phases as CSV and its charts beside it; prints and returns them.

    Prefill: `seq_len` new tokens; Decode: one after them; Decode_Last: one after seq_len + max_gen_len − 1.
    `intermediate_size`: 4·hidden_size where not given; `use_rope`: whether `rope_theta` is given. The charts go to the
    CSV's name with `.png` in place of `.csv`. Both files are overwritten, as there. Raises InputError for what is not
    possible.
    """
    csv = _path("output_csv_path", output_csv_path)
    layer = _layer(
        hidden_size, num_heads, intermediate_size, num_key_value_heads, num_experts_per_tok, num_local_experts,
        use_gate_ffn, rope_theta is not None if use_rope is None else use_rope,
    )  # fmt: skip
    for name, value in (("rope_theta", rope_theta), ("rope_scaling_factor", rope_scaling_factor)):
        if value is not None:
            number(name, value)
    if csv.suffix.lower() == ".png":
        raise InputError("output_csv_path", str(csv), "a name for the CSV that does not end in .png")
    batch, tokens = whole_number("batch_size", batch_size), whole_number("seq_len", seq_len)
    generated = whole_number("max_gen_len", max_gen_len)
    model = para_outline(layer, whole_number("num_layers", num_layers, MOST_LAYERS), quant_config)
    steps = {
        "Prefill": prefill(batch, tokens),
        "Decode": decode(batch, tokens),
        "Decode_Last": decode(batch, tokens + generated - 1),
    }
    analyses = {phase: analyze(model, s, counting="llm-para", traffic="llm-para") for phase, s in steps.items()}
    table = [row for phase, analysis in analyses.items() for row in para_rows(layer, analysis, phase)]
    charts = csv.with_name(f"{csv.stem if csv.suffix.lower() == '.csv' else csv.name}.png")
    _write_csv(csv, table)
    _draw_charts(charts, table)
    print("\n".join(_summary(model, analyses, batch, tokens, generated)))
    print(f"wrote {csv} and {charts}")
    return table


def analyze_from_csv(
    csv_path: str | os.PathLike[str],
    hardware_config: Mapping[str, float | str],
    output_path: str | os.PathLike[str] = "roofline_model.png",
) -> list[Path]:
    """Draw the roofline of such a table for a machine, with a broken x axis and its legend in a file `…_legend`.

    `hardware_config`: name, peak_performance in FLOP/s, memory_bandwidth in bytes/s. A CSV holds no times, so that
    every point lies on the roof. As in LLM-para, both files are overwritten. Returns their paths. Raises InputError for
    a missing column, text in place of a number, or impossible hardware.
    """
    from roofline.views.plots.style import Style
    from roofline.views.plots.write import write

    chip, table, output = _hardware(hardware_config), _path("csv_path", csv_path), _path("output_path", output_path)
    style = Style(legend="separate", broken=True)
    return write(_roofline_plot(table, read_csv(table), chip, PEAK), output, style, force=True)


def _layer(
    hidden: int, heads: int, inner: int | None, kv_heads: int | None, top_k: int | None, experts: int | None,
    gated: bool, rope: bool,
) -> Layer:  # fmt: skip
    width, queries = whole_number("hidden_size", hidden, LARGEST_SIZE), whole_number("num_heads", heads, LARGEST_SIZE)
    if width % queries:
        raise InputError("num_heads", heads, f"a divisor of hidden_size = {width}")
    keys = queries if kv_heads is None else whole_number("num_key_value_heads", kv_heads, LARGEST_SIZE)
    if queries % keys:
        raise InputError("num_key_value_heads", kv_heads, f"a divisor of num_heads = {queries}")
    wide = 4 * width if inner is None else whole_number("intermediate_size", inner, LARGEST_SIZE)
    if (top_k is None) != (experts is None):
        missing = "num_local_experts" if experts is None else "num_experts_per_tok"
        raise InputError(missing, None, "a whole number, beside its partner")
    many = None if experts is None else whole_number("num_local_experts", experts, LARGEST_SIZE)
    chosen = None if top_k is None else whole_number("num_experts_per_tok", top_k, LARGEST_SIZE)
    if chosen is not None and many is not None and chosen > many:
        raise InputError("num_experts_per_tok", top_k, f"at most num_local_experts = {many}")
    return Layer(width, queries, keys, wide, many, chosen, bool(gated), rope)


def _path(field: str, value: object) -> Path:
    try:
        path = Path(value)  # type: ignore[arg-type]
    except TypeError:
        raise InputError(field, value, "a file's name") from None
    if not path.name or "\0" in str(path):
        raise InputError(field, str(path), "a file's name")
    return path


def _hardware(config: Mapping[str, float | str]) -> Chip:
    from roofline.doors.compat.chips import chip_of

    if not isinstance(config, Mapping):
        raise InputError("hardware_config", config, f"a dict with {', '.join(HARDWARE_KEYS)}")
    peak, bandwidth = (number(f"hardware_config[{key!r}]", config.get(key)) for key in HARDWARE_KEYS[1:])
    return chip_of(str(config.get("name", "hardware")), PEAK, peak, bandwidth)


def _summary(model: Model, analyses: Mapping[str, Analysis], batch: int, tokens: int, generated: int) -> list[str]:
    """FLOPs and bytes of each phase over all layers, parameters, weights and KV cache."""
    from roofline.declared.numbers.units import brief, whole

    each = int(batch * model.kv_bytes(1))
    lines = [f"{len(model.layers)} layers, {batch} × {tokens} tokens, {generated} generated"]
    for phase, a in analyses.items():
        lines.append(f"{phase:<12} {brief(float(a.flops), 'FLOP'):>12} {brief(float(a.bytes), 'B'):>10}")
    lines += [
        f"parameters   {whole(model.parameters)}, {brief(float(model.weight_bytes()), 'B')}",
        f"KV cache     {whole(each)} B per token position (batch of {batch}); prompt {_mib(each * tokens)}, generation "
        f"{_mib(each * generated)}, both {_mib(each * (tokens + generated))}",
    ]
    return lines


def _mib(value: float) -> str:
    return f"{value / 2**20:,.2f} MiB"


# -- files ---------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class CsvRow:
    """The columns of a CSV line that the roofline needs; `group` determines its colour."""

    phase: str
    operation: str
    flops: float
    total: float
    group: str


def _write_csv(path: Path, table: Sequence[Operation]) -> None:
    from roofline.views.files.atomic import whole_file
    from roofline.views.text.tables import csv_text

    text = csv_text(COLUMNS, [row.cells for row in table])
    whole_file(path, lambda beside: beside.write_text(text, encoding="utf-8"), "output_csv_path", force=True)


NEEDED = (("Phase", "Operation", "FLOPs", "Total Bytes"), ("step", "op", "flops", "bytes"))
"""Columns of LLM-para's table, and of `roofline analyze --csv`."""


def table_roofline(csv_path: str | os.PathLike[str], chips: Sequence[Chip], fmt: str | None = None) -> RooflinePlot:
    """Roofline of a table on one or several chips, each with its peak in a format, by default bf16 or fp16.

    Raises the errors of `read_csv`, and InputError for a chip without the format.
    """
    marks, path = read_csv(csv_path), Path(csv_path)
    drawn = [_roofline_plot(path, marks, chip, fmt or chip.main_format) for chip in chips]
    return replace(drawn[0], title=path.stem, panels=tuple(panel for plot in drawn for panel in plot.panels))


MOST_ROWS = 100_000
"""Most rows of a CSV of such a table."""


def read_csv(path: str | os.PathLike[str]) -> list[CsvRow]:
    """Rows of such a CSV that do work on bytes. Quantization passes in our own CSV files have only times and are left
    out.

    Raises InputError naming the line and the column at fault.
    """
    rows = csv_file(Path(path), printable(str(path)), LARGEST_TABLE, MOST_ROWS)
    filled = [(i, cells) for i, cells in rows if any(cells)]
    names = filled[0][1] if filled else []
    needed = next((n for n in NEEDED if set(n) <= set(names)), None)
    if needed is None:
        missing = min(([n for n in columns if n not in names] for columns in NEEDED), key=len)
        raise InputError("csv_path", str(path), f"a CSV with the columns {', '.join(missing)}")
    phase, operation, flops, total = needed
    wanted = {names.index(name): name for name in (*needed, "kind") if name in names}
    lines = [(i, {n: cells[at] if at < len(cells) else "" for at, n in wanted.items()}) for i, cells in filled[1:]]
    operations = [
        CsvRow(line[phase], line[operation], _number(i, line, flops), _number(i, line, total), _group(line, operation))
        for i, line in lines
        if line.get("kind") != "quantise"
    ]
    working = [row for row in operations if row.flops > 0 and row.total > 0 and row.group not in RIDING]
    if not working:
        raise InputError("csv_path", str(path), "a CSV with at least one operation that has FLOPs and bytes")
    return working


RIDING = ("norm", "elementwise", "embedding", "optimizer")
"""Groups of ops that are fused into others, or that do not run on matrix units."""


def _group(line: Mapping[str, str], operation: str) -> str:
    """Group of the op in our own tables; the operation itself in others."""
    from roofline.whatif.markers import GROUPS
    from roofline.work.ops import NAMES

    groups = {NAMES[kind]: GROUPS[kind] for kind in GROUPS}
    return groups.get(line.get("kind", "")) or str(line[operation])


def _number(line: int, cells: Mapping[str, str], column: str) -> float:
    try:
        value = float(cells[column])
    except (TypeError, ValueError):
        value = -1.0
    if not 0 <= value < float("inf"):
        raise InputError(f"line {line}, {column}", cells[column], "a number that is not negative")
    return value


def _draw_charts(path: Path, table: Sequence[Operation]) -> None:
    """Draw FLOPs, bytes and arithmetic intensity by operation and phase."""
    from roofline.views.plots.data import BarPanel, BarsPlot
    from roofline.views.plots.style import Style
    from roofline.views.plots.write import write

    phases = tuple(dict.fromkeys(row.phase for row in table))
    operations = tuple(dict.fromkeys(row.operation for row in table))
    by = {(row.phase, row.operation): row for row in table}

    def panel(label: str, unit: str, field: str) -> BarPanel:
        def cell(key: tuple[str, str]) -> float | None:
            return real(getattr(by[key], field))

        return BarPanel(label, unit, tuple(tuple(cell((p, o)) for o in operations) for p in phases))

    panels = (panel("FLOPs", "", "flops"), panel("Bytes", "B", "total"), panel("Density", "FLOP/B", "density"))
    plot = BarsPlot("One layer, operation by operation", operations, phases, panels)
    write(plot, path, Style(), force=True)


def _roofline_plot(path: Path, marks: Sequence[CsvRow], chip: Chip, fmt: str) -> RooflinePlot:
    """Plot every operation in every phase on the roof of the machine in a format."""
    from roofline.views.plots.build import roof
    from roofline.views.plots.data import Panel, RooflinePlot, RooflinePoint

    points = []
    for m in marks:
        light = chip.attainable(m.flops, m.total, fmt)
        points.append(RooflinePoint(m.operation, m.group, m.phase, m.flops / m.total, light, light, 0.0))
    whose = "one layer" if all(m.group == m.operation for m in marks) else "every layer, what rides on others left out"
    note = f"{whose} · a table knows no times: every point is at the speed of light"
    return RooflinePlot(f"{path.stem} · {chip.name}", (Panel(roof(chip, (fmt,)), tuple(points)),), note)
