"""The pictures as interactive HTML files with Plotly; the script is embedded, so that nothing is fetched."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from math import log10
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from roofline.declared.errors import InputError
from roofline.declared.numbers.maths import ceil_div
from roofline.declared.numbers.units import binary, brief, seconds, share, whole
from roofline.declared.sanitize import each_text, inert_html, inert_line
from roofline.declared.trees import JsonObject, JsonValue
from roofline.extras import install_line
from roofline.views.plots import data as d
from roofline.views.plots.draw.canvas import even_ticks, powers_of_two
from roofline.views.plots.draw.energy import reach
from roofline.views.plots.draw.roofline import Range, frame
from roofline.views.plots.style import GROUP_ORDER, MAP_COLOURS, PLOTLY_MARKERS, Style, colours_of, marker_of

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

TITLE, NOTE = 100, 150
"""Characters of a line of the title and of the note."""
PLAIN = ",~r"
"""D3 format of a number without prefix."""
TIMES = ((1.0, "s"), (1e3, "ms"), (1e6, "µs"))
"""Units of time per second."""


def page(plot: d.Plot, style: Style) -> str:
    """A whole HTML page. Raises InputError if Plotly is not installed."""
    try:
        import plotly.io
    except ImportError:
        raise InputError("output", ".html", f"Plotly: {install_line('web', 'plotly')}") from None
    figure = DRAWN[type(plot)](each_text(plot, inert_html), style)
    theme = style.colours
    figure.update_layout(
        title={"text": _lines(plot.title, TITLE), "x": 0.01, "font": {"size": 18}},
        font={"family": "DejaVu Sans, Verdana, sans-serif", "color": theme.ink},
        paper_bgcolor=theme.paper, plot_bgcolor=theme.paper, margin={"l": 70, "r": 20, "t": 90, "b": 110},
        legend={"tracegroupgap": 4}, showlegend=style.legend != "none",
        hoverlabel={"font": {"size": 13}, "namelength": -1},
    )  # fmt: skip
    figure.update_xaxes(gridcolor=theme.grid, zerolinecolor=theme.grid, linecolor=theme.muted)
    figure.update_yaxes(gridcolor=theme.grid, zerolinecolor=theme.grid, linecolor=theme.muted)
    if plot.note:
        figure.add_annotation(
            text=_lines(plot.note, NOTE), xref="paper", yref="paper", x=0, y=0, yshift=-90, showarrow=False,
            align="left", xanchor="left", font={"size": 11, "color": theme.muted},
        )  # fmt: skip
    body = plotly.io.to_html(
        figure, include_plotlyjs=True, full_html=False, div_id="roofline",
        config={"displaylogo": False, "responsive": True},
    )  # fmt: skip
    title = escape(inert_line(plot.title))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>\n'
        f"<style>html,body{{margin:0;height:100%;background:{theme.paper}}}body>div{{height:100%}}</style></head>\n"
        f"<body>{body}</body></html>\n"
    )


def _lines(text: str, characters: int) -> str:
    return "<br>".join(map(inert_html, wrap(text, characters)))


def _folded(text: str, characters: int, most: int | None = None) -> str:
    """Lines of an escaped text, at most `most`."""
    return "<br>".join(wrap(text, characters, max_lines=most, placeholder=" …", break_long_words=False))


def _grid(rows: int, columns: int, **options: JsonValue) -> Figure:
    from plotly.subplots import make_subplots

    return make_subplots(rows=rows, cols=columns, **options)


def _log_axis(values: Iterable[float], most: int, tickformat: str = "~s") -> JsonObject:
    """A logarithmic axis of positive values with ticks at 1, 2 and 5 of each decade, or only at decades if there are
    more than `most`. Plotly adds finer ticks when zoomed."""
    ordered = sorted(values)
    decades = log10(ordered[-1] / ordered[0])
    # Of a decade Plotly marks 1 to 9, but 1, 2 and 5 where there are over 0.3 decades a tick, and 1 where over 0.7.
    each = 0.31 if 3 * decades < most else 0.71
    return {"type": "log", "nticks": max(4 if decades < 1 else 2, int(decades / each)), "tickformat": tickformat}


def _power_axis(low: int, high: int) -> JsonObject:
    """A logarithmic axis of whole numbers, with ticks at powers of two."""
    powers = powers_of_two(low, high)
    return {"type": "log", "tickvals": powers, "ticktext": [binary(p) for p in powers]}


# -- roofline ------------------------------------------------------------------------------------------------------
def roofline_page(plot: d.RooflinePlot, style: Style) -> Figure:
    """Every roof with its points; hovering shows a point's figures."""
    columns = 1 if len(plot.panels) == 1 else 2
    rows = ceil_div(len(plot.panels), columns)
    titles = [p.roof.chip for p in plot.panels] if columns > 1 else None
    shared = {"shared_xaxes": "all", "shared_yaxes": "all"}
    figure = _grid(rows, columns, subplot_titles=titles, vertical_spacing=0.28 / rows, **shared)
    points = [p for panel in plot.panels for p in panel.points]
    colours = colours_of((p.group for p in points), style.colours)
    markers = marker_of((p.phase for p in points), PLOTLY_MARKERS)
    across, up = frame(plot)
    # A range of its own: Plotly finds none for logarithmic axes that match each other.
    figure.update_xaxes(**_log_axis(across, 14 // columns, PLAIN), range=list(map(log10, across)))
    figure.update_yaxes(**_log_axis(up, 20 // rows), range=list(map(log10, up)))
    figure.update_yaxes(title="Performance (FLOP/s)", col=1)
    seen: set[tuple[str, str]] = set()
    for i, panel in enumerate(plot.panels):
        at = {"row": i // columns + 1, "col": i % columns + 1}
        if i + columns >= len(plot.panels):
            figure.update_xaxes(title="Arithmetic intensity (FLOP/B)", showticklabels=True, **at)
        _roof(figure, panel.roof, across, up[0], style, at)
        for group, phase in dict.fromkeys((p.group, p.phase) for p in panel.points):
            marks = [p for p in panel.points if (p.group, p.phase) == (group, phase)]
            name = group if group == phase else f"{group} · {phase}"
            shown = (group, phase) not in seen
            seen.add((group, phase))
            _points(figure, marks, name, colours[group], markers[phase], shown, at)
    return figure


def _roof(figure: Figure, roof: d.DrawnRoof, span: Range, low: float, style: Style, at: Mapping[str, int]) -> None:
    """Lines of a roof in the frame: intensities in `span`, performance from `low`."""
    theme, top = style.colours, roof.ceilings[0]
    line = {"mode": "lines", "showlegend": False}
    for slope in roof.slopes:
        start, end = max(span[0], low / slope.bandwidth), min(span[1], top.peak / slope.bandwidth)
        if start >= end:
            continue
        text = f"{slope.label} {brief(slope.bandwidth, 'B/s')}"
        figure.add_scatter(
            x=[start, end], y=[start * slope.bandwidth, end * slope.bandwidth], name=text, hoverinfo="name",
            line={"color": theme.ink, "width": 2, "dash": "dot" if slope.link else "solid"}, **line, **at,
        )  # fmt: skip
    for ceiling in roof.levels:
        text = f"{ceiling.label} {brief(ceiling.peak, 'FLOP/s')}, ridge {brief(ceiling.ridge)} FLOP/B"
        figure.add_scatter(
            x=[ceiling.ridge, span[1]], y=[ceiling.peak] * 2, name=text, hoverinfo="name",
            line={"color": theme.ink, "width": 2, "dash": "dash" if ceiling.vector else "solid"}, **line, **at,
        )  # fmt: skip
        figure.add_annotation(
            x=log10(span[1]), y=log10(ceiling.peak), text=text, showarrow=False, xanchor="right", yanchor="bottom",
            font={"size": 11}, **at,
        )  # fmt: skip


def energy_page(plot: d.EnergyPlot, style: Style) -> Figure:
    """Every chip's arches with its points; hovering shows a point's figures."""
    columns = 1 if len(plot.panels) == 1 else 2
    rows = ceil_div(len(plot.panels), columns)
    titles = [p.chip for p in plot.panels] if columns > 1 else None
    shared = {"shared_xaxes": "all", "shared_yaxes": "all"}
    figure = _grid(rows, columns, subplot_titles=titles, vertical_spacing=0.28 / rows, **shared)
    across, up = reach(plot)
    figure.update_xaxes(**_log_axis(across, 14 // columns, PLAIN), range=list(map(log10, across)))
    figure.update_yaxes(**_log_axis(up, 20 // rows), range=list(map(log10, up)))
    figure.update_yaxes(title="Work per joule (FLOP/J)", col=1)
    for i, panel in enumerate(plot.panels):
        at = {"row": i // columns + 1, "col": i % columns + 1}
        figure.update_xaxes(title="Arithmetic intensity (FLOP/B)", showticklabels=True, **at)
        for arch in panel.arches:
            text = f"{arch.label} at most {brief(arch.most, 'FLOP/J')}, as many joules at {brief(arch.balance)} FLOP/B"
            figure.add_scatter(
                x=list(arch.intensity), y=list(arch.work_per_joule), name=text, hoverinfo="name", mode="lines",
                showlegend=False, line={"color": style.colours.ink, "width": 2}, **at,
            )  # fmt: skip
        _grouped(figure, panel.points, [p for other in plot.panels for p in other.points], style, at, i == 0, "FLOP/J")
    return figure


def _grouped(
    figure: Figure, points: Sequence[d.RooflinePoint], every: Sequence[d.RooflinePoint], style: Style,
    at: Mapping[str, int], shown: bool, unit: str,
) -> None:  # fmt: skip
    """The points of a panel by group and phase, in the colours and markers that `every` point has."""
    colours = colours_of((p.group for p in every), style.colours)
    markers = marker_of((p.phase for p in every), PLOTLY_MARKERS)
    for group, phase in dict.fromkeys((p.group, p.phase) for p in points):
        marks = [p for p in points if (p.group, p.phase) == (group, phase)]
        name = group if group == phase else f"{group} · {phase}"
        _points(figure, marks, name, colours[group], markers[phase], shown, at, unit)


def _points(
    figure: Figure,
    points: list[d.RooflinePoint],
    name: str,
    colour: str,
    marker: str,
    shown: bool,
    at: Mapping[str, int],
    unit: str = "FLOP/s",
) -> None:
    light_x: list[float | None] = []
    light_y: list[float | None] = []
    for p in points:
        light_x += [p.intensity, p.intensity, None]
        light_y += [p.performance, p.light, None]
    common = {"legendgroup": name, **at}
    figure.add_scatter(
        x=light_x, y=light_y, mode="lines+markers", line={"color": colour, "width": 1}, hoverinfo="skip",
        marker={"symbol": f"{marker}-open", "size": [0, 7, 0] * len(points)}, showlegend=False, **common,
    )  # fmt: skip
    figure.add_scatter(
        x=[p.intensity for p in points], y=[p.performance for p in points], mode="markers", name=name, showlegend=shown,
        marker={"symbol": marker, "color": colour, "size": [8 + 30 * p.share**0.5 for p in points], "opacity": 0.85},
        text=[
            f"<b>{p.label}</b> · {p.phase}<br>expected {brief(p.performance, unit)}<br>"
            f"speed of light {brief(p.light, unit)}<br>{p.intensity:.4g} FLOP/B<br>"
            f"{share(p.share, 1)} of the step's time"
            for p in points
        ], hovertemplate="%{text}<extra></extra>", **common,
    )  # fmt: skip


# -- bars ----------------------------------------------------------------------------------------------------------
def shares_page(plot: d.SharesPlot, style: Style) -> Figure:
    """A stacked bar for each quantity of each phase."""
    figure = _grid(1, 1)
    groups = list(dict.fromkeys(g for b in plot.bars for g, _ in b.parts))
    colours = colours_of(groups, style.colours)
    names = [[b.phase for b in plot.bars], [b.quantity for b in plot.bars]]
    for group in groups:
        values = [100 * dict(b.parts).get(group, 0.0) for b in plot.bars]
        figure.add_bar(
            y=names, x=values, orientation="h", name=group, marker={"color": colours[group]},
            text=[f"{v:.0f} %" if v >= 3 else "" for v in values], insidetextanchor="middle",
            hovertemplate=f"{group} %{{x:.2f}} %<extra></extra>",
        )  # fmt: skip
    figure.update_layout(barmode="stack")
    figure.update_yaxes(autorange="reversed")
    figure.update_xaxes(title="share (%)", range=[0, 100])
    return figure


def parameters_page(plot: d.ParametersPlot, style: Style) -> Figure:
    """A bar for each part."""
    figure = _grid(1, 1)
    figure.add_bar(
        y=[name for name, _, _ in plot.parts], x=[100 * part for _, _, part in plot.parts], orientation="h",
        marker={"color": style.colours.palette[0]}, text=[whole(n) for _, n, _ in plot.parts],
        textposition=["inside" if part > 0.5 else "outside" for _, _, part in plot.parts], cliponaxis=False,
        hovertemplate="%{y}: %{text}, %{x:.4g} %<extra></extra>", showlegend=False,
    )  # fmt: skip
    figure.update_yaxes(autorange="reversed")
    figure.update_xaxes(title="share of the parameters (%)", range=[0, 100])
    return figure


def bars(plot: d.BarsPlot, style: Style) -> Figure:
    """A panel for each quantity."""
    titles = [f"{p.label} ({p.unit})" if p.unit else p.label for p in plot.panels]
    figure = _grid(1, len(plot.panels), shared_yaxes=True, subplot_titles=titles)
    for i, panel in enumerate(plot.panels):
        for j, phase in enumerate(plot.phases):
            figure.add_bar(
                y=list(plot.operations), x=list(panel.values[j]), orientation="h", name=phase, legendgroup=phase,
                showlegend=i == 0, marker={"color": style.colours.palette[j]}, row=1, col=i + 1,
                hovertemplate=f"%{{y}} · {phase}: %{{x:.4g}} {panel.unit}<extra></extra>",
            )  # fmt: skip
        known = [v for row in panel.values for v in row if v] or [1.0]
        figure.update_xaxes(**_log_axis(known, 12 // len(plot.panels)), row=1, col=i + 1)
    figure.update_yaxes(autorange="reversed")
    return figure


def tornado_page(plot: d.TornadoPlot, style: Style) -> Figure:
    """A panel for each phase and kind of knob; bars from no change to the time at either end."""
    titles = [f"{p.phase}: {p.kind}" for p in plot.panels]
    figure = _grid(len(plot.panels), 1, subplot_titles=titles, shared_xaxes=True, vertical_spacing=0.07)
    for i, panel in enumerate(plot.panels):
        names = [s.label for s in panel.swings]
        for j, (end, value) in enumerate((("low", "at_low"), ("high", "at_high"))):
            at = [getattr(s, value) for s in panel.swings]
            figure.add_bar(
                y=names, x=[v - 1 for v in at], base=1, orientation="h", marker={"color": style.colours.palette[j]},
                name=f"the {end} end", legendgroup=end, showlegend=i == 0, row=i + 1, col=1,
                text=[f"{s.knob} {getattr(s, end)}: time × {v:.3f}" for s, v in zip(panel.swings, at, strict=True)],
                textposition="none", hovertemplate="%{text}<extra></extra>",
            )  # fmt: skip
    figure.update_layout(barmode="overlay")
    figure.update_yaxes(autorange="reversed")
    figure.update_xaxes(title=plot.AXIS, row=len(plot.panels))
    return figure


def diagram_page(plot: d.DiagramPlot, style: Style) -> Figure:
    """Columns of boxes, top to bottom; hovering shows a box's sizes."""
    figure, theme = _grid(1, 1), style.colours
    columns = (plot.model, *plot.layers)
    colours = {b.group: theme.muted for c in columns for b in c.boxes}
    colours |= {g: theme.palette[GROUP_ORDER.index(g)] for g in colours if g in GROUP_ORDER}
    roomy, wide = len(columns) <= 4, 150 // len(columns)
    for i, column in enumerate(columns):
        figure.add_annotation(x=i, y=0.6, text=f"<b>{column.title}</b>", showarrow=False, yanchor="bottom")
        start = 0
        half, apart = 0.42 / column.lanes, 0.84 / column.lanes
        middles = [i - 0.42 + half + max(0, box.lane - 1) * apart for box in column.boxes]
        for box, j, x in zip(column.boxes, column.rows, middles, strict=True):
            if box.adds:
                path = f"M {i - 0.42} {-start + 0.5} L {i - 0.47} {-start + 0.5} L {i - 0.47} {-j} L {i - 0.42} {-j}"
                figure.add_shape(type="path", path=path, line={"color": theme.muted, "width": 1})
                start = j + 1
            figure.add_shape(
                type="rect", x0=x - 0.96 * half, x1=x + 0.96 * half, y0=-j - 0.4, y1=-j + 0.4,
                line={"color": colours[box.group]},
            )  # fmt: skip
        figure.add_scatter(
            x=middles, y=[-j for j in column.rows], mode="text", showlegend=False,
            text=[
                _folded(f"{'+ ' * b.adds}{b.label}{f' · {b.detail}' * roomy}", wide // column.lanes, 2)
                for b in column.boxes
            ],
            textfont={"size": 10, "color": theme.ink},
            hovertext=[f"{b.label}<br>{b.detail}" for b in column.boxes], hoverinfo="text",
        )  # fmt: skip
    deepest = max(max(c.rows) + 1 for c in columns)
    figure.update_xaxes(visible=False, range=[-0.6, len(columns) - 0.4])
    figure.update_yaxes(visible=False, range=[-deepest, 1.5])
    return figure


# -- curves --------------------------------------------------------------------------------------------------------
def sweep_page(plot: d.SweepPlot, style: Style) -> Figure:
    """Throughput above, time per token with interval and floor below."""
    figure = _grid(2, 1, shared_xaxes=True, vertical_spacing=0.06)
    longest = max(v for c in plot.curves for v in c.latency)
    second, unit = next((many, unit) for many, unit in TIMES if longest * many >= 1 or unit == "µs")
    colours = [style.colours.palette[i % len(style.colours.palette)] for i in range(len(plot.curves))]
    for c, colour in zip(plot.curves, colours, strict=True):  # bands first, so that none dims a line
        band = {"mode": "lines", "line": {"width": 0}, "showlegend": False, "hoverinfo": "skip", "row": 2, "col": 1}
        group = {"legendgroup": c.chip, "x": list(c.values)}
        figure.add_scatter(y=[second * v for v in c.high], **band, **group)
        figure.add_scatter(y=[second * v for v in c.low], fill="tonexty", fillcolor=_faint(colour), **band, **group)
    for c, colour in zip(plot.curves, colours, strict=True):
        line, dotted = {"color": colour, "width": 2.5}, {"color": colour, "width": 1, "dash": "dot"}
        above = {"legendgroup": c.chip, "x": list(c.values), "row": 1, "col": 1}
        below = {**above, "row": 2, "showlegend": False}
        says = {"hovertemplate": f"%{{x}}: %{{y:.4g}} tokens/s<extra>{c.chip}</extra>"}
        figure.add_scatter(y=list(c.tokens_per_second), name=c.chip, line=line, **says, **above)
        says = {"hovertemplate": f"%{{x}}: %{{y:.4g}} {unit}<extra>{c.chip}</extra>"}
        figure.add_scatter(y=[second * v for v in c.latency], line=line, **says, **below)
        figure.add_scatter(y=[second * v for v in c.floor], line=dotted, **says, **below)
        if c.unfit_from is not None:
            text = f"{c.memory_ends} ({c.chip})"
            figure.add_vline(x=c.unfit_from, line={"color": colour, "dash": "dot", "width": 2})
            figure.add_annotation(
                x=log10(c.unfit_from), y=1, yref="y domain", text=text, textangle=-90, showarrow=False,
                xanchor="left", yanchor="top", font={"size": 10}, row=1, col=1,
            )  # fmt: skip
        for crossing in c.crossings:
            dash = "solid" if crossing.floor else "dash"
            figure.add_vline(x=crossing.at, line={"color": colour, "dash": dash, "width": 1}, row=1, col=1)
            figure.add_annotation(
                x=log10(crossing.at), y=0, yref="y domain", text=f"{crossing.label} ({c.chip})", textangle=-90,
                showarrow=False, xanchor="right", yanchor="bottom", font={"size": 10}, row=1, col=1,
            )  # fmt: skip
    swept = plot.curves[0].values
    figure.update_xaxes(**_power_axis(swept[0], swept[-1]))
    figure.update_xaxes(title=plot.axis_label, row=2)
    rates = [v for c in plot.curves for v in c.tokens_per_second]
    times = [second * v for c in plot.curves for v in (*c.floor, *c.high)]
    figure.update_yaxes(**_log_axis(rates, 12), title="Throughput (tokens/s)", row=1)
    figure.update_yaxes(**_log_axis(times, 12, PLAIN), title=f"{plot.step_label} ({unit})", row=2)
    return figure


def _faint(colour: str) -> str:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.2)"


def memory_page(plot: d.MemoryPlot, style: Style) -> Figure:
    """Stacked terms, and a line for each chip."""
    figure = _grid(1, 1)
    colours = colours_of((name for name, _ in plot.terms), style.colours)
    for name, values in plot.terms:
        figure.add_scatter(
            x=list(plot.context), y=list(values), name=name, stackgroup="terms", mode="lines",
            line={"width": 0.5, "color": colours[name]},
            hovertemplate=f"%{{x}} tokens: %{{y:.4s}}B<extra>{name}</extra>",
        )  # fmt: skip
    for level in plot.levels:
        figure.add_hline(
            y=level.bytes, line={"color": style.colours.ink, "dash": "dash"}, annotation_position="top left",
            annotation={"text": _folded(f"{level.chip} · {brief(level.bytes, 'B')} · {level.says}", NOTE)},
        )  # fmt: skip
        if level.longest:
            figure.add_scatter(
                x=[level.longest], y=[level.bytes], showlegend=False, marker={"size": 9, "color": style.colours.ink}
            )
    ticks = even_ticks(plot.context[0], plot.context[-1])
    figure.update_xaxes(tickvals=ticks, ticktext=[binary(t) for t in ticks], title="Context (tokens)")
    figure.update_yaxes(title="Memory", tickformat="~s", ticksuffix="B", rangemode="tozero")
    return figure


def decode_map_page(plot: d.MapPlot, style: Style) -> Figure:
    """Cells shaded by tokens/s; cells that do not fit in memory are blank."""
    figure = _grid(1, 1)
    figure.add_heatmap(
        z=[[log10(c.tokens_per_second) if c.fits else None for c in row] for row in plot.rows],
        x=[binary(c.context) for c in plot.rows[0]], y=[whole(row[0].batch) for row in plot.rows],
        colorscale=list(MAP_COLOURS[style.theme]), showscale=False, xgap=1, ygap=1, hoverinfo="skip",
    )  # fmt: skip
    figure.add_heatmap(
        z=[[0 for _ in row] for row in plot.rows], x=[binary(c.context) for c in plot.rows[0]],
        y=[whole(row[0].batch) for row in plot.rows], opacity=0, showscale=False,
        text=[[_cell(c) for c in row] for row in plot.rows], hovertemplate="%{text}<extra></extra>",
    )  # fmt: skip
    for i, row in enumerate(plot.rows):
        for j, c in enumerate(row):
            colour = style.colours.muted if not c.fits else style.colours.ink
            figure.add_annotation(
                x=j, y=i, showarrow=False, font={"size": 11, "color": colour}, opacity=0.85,
                bgcolor=style.colours.paper, text=f"{brief(c.tokens_per_second)}{'' if c.fits else ' ✗'}",
            )  # fmt: skip
    figure.update_xaxes(type="category", title="Context (tokens)")
    figure.update_yaxes(type="category", title="Batch (sequences)")
    return figure


def _cell(c: d.Cell) -> str:
    fits = "" if c.fits else "<br>does not fit"
    return (
        f"batch {whole(c.batch)}, context {whole(c.context)}<br>{brief(c.tokens_per_second)} tokens/s<br>"
        f"{seconds(c.latency)} per token<br>{c.bound} bound{fits}"
    )


def simulation_page(plot: d.SimulationPlot, style: Style) -> Figure:
    """Requests and shares over time, and the distributions of times below."""
    columns, palette = len(plot.distributions), style.colours.palette
    whole_row: list[JsonValue] = [{"colspan": columns}, *[None] * (columns - 1)]
    figure = _grid(
        3, columns, specs=[whole_row, whole_row, [{}] * columns], vertical_spacing=0.1, row_heights=[3, 2, 4]
    )
    panels = ((1, plot.requests, 1.0, "Requests", ""), (2, plot.shares, 100.0, "Share (%)", " %"))
    for row, traces, scale, title, unit in panels:
        for i, traced in enumerate(traces):
            figure.add_scatter(
                x=list(plot.seconds), y=[scale * v for v in traced.values], name=traced.label, row=row, col=1,
                line={"color": palette[2 * (row - 1) + i], "width": 1.5, "shape": "vh"},
                hovertemplate=f"%{{x:.4g}} s: %{{y:.4g}}{unit}<extra>{traced.label}</extra>",
            )  # fmt: skip
        figure.update_xaxes(title="Time (s)", row=row, col=1)
        figure.update_yaxes(title=title, rangemode="tozero", row=row, col=1)
    for column, drawn in enumerate(plot.distributions, 1):
        figure.add_scatter(
            x=list(drawn.seconds), y=[100 * s for s in drawn.shares], name=drawn.label, showlegend=False, row=3,
            col=column, line={"color": palette[0], "width": 2, "shape": "hv"},
            hovertemplate=f"%{{x:.4g}} s: %{{y:.4g}} %<extra>{drawn.label}</extra>",
        )  # fmt: skip
        if drawn.most is not None:
            figure.add_vline(x=drawn.most, line={"color": palette[1], "dash": "dash", "width": 1}, row=3, col=column)
        figure.update_xaxes(title=f"{drawn.label} (s)", type="log", row=3, col=column)
    figure.update_yaxes(title="Requests (%)", row=3, col=1)
    return figure


def step_memory_page(plot: d.StepMemoryPlot, style: Style) -> Figure:
    """Memory over the time of a step, with a panel for each stage."""
    figure = _grid(len(plot.stages), 1, subplot_titles=[s.label for s in plot.stages], vertical_spacing=0.08)
    palette = style.colours.palette
    for row, stage in enumerate(plot.stages, 1):
        times, totals = [*stage.seconds, plot.length], [*stage.total, stage.state]
        figure.add_scatter(
            x=[0, plot.length], y=[stage.state, stage.state], name="always there", row=row, col=1, fill="tozeroy",
            line={"color": palette[0], "width": 1}, showlegend=row == 1, hovertemplate="%{y:.4s}B<extra></extra>",
        )  # fmt: skip
        figure.add_scatter(
            x=times, y=totals, name="with the passes", row=row, col=1, showlegend=row == 1,
            line={"color": palette[1], "width": 1.5, "shape": "hv"},
            hovertemplate="%{x:.4g} s: %{y:.4s}B<extra></extra>",
        )  # fmt: skip
        figure.add_hline(y=plot.capacity, line={"color": palette[3], "dash": "dash", "width": 1}, row=row, col=1)
        figure.update_yaxes(title="Memory (B)", rangemode="tozero", row=row, col=1)
    figure.update_xaxes(title="Time (s)", row=len(plot.stages), col=1)
    return figure


def front_page(plot: d.FrontPlot, style: Style) -> Figure:
    """Tokens/s per chip over tokens/s per user."""
    figure = _grid(1, 1)
    for i, kind in enumerate(dict.fromkeys(p.kind for p in plot.plans)):
        of_kind = [p for p in plot.plans if p.kind == kind]
        figure.add_scatter(
            x=[p.user for p in of_kind], y=[p.chip for p in of_kind], name=kind, text=[p.label for p in of_kind],
            mode="markers", marker={"color": style.colours.palette[i], "size": 9},
            hovertemplate="%{text}<br>%{x:.4g} tokens/s for a user<br>%{y:.4g} per chip<extra></extra>",
        )  # fmt: skip
    figure.update_xaxes(title="Tokens/s for a user (1 / TPOT)", type="log")
    figure.update_yaxes(title="Tokens/s per chip", rangemode="tozero")


def rows_page(plot: d.RowsPlot, style: Style) -> Figure:
    """A line for each combination; both axes are logarithmic if all values are positive."""
    import plotly.graph_objects as go

    figure = go.Figure()
    factor, unit = 1.0, plot.ticks
    if unit == "s":
        most = max(v for line in plot.curves for v in line.y)
        factor, unit = next((many, name) for many, name in TIMES if most * many >= 1 or name == "µs")
    for i, line in enumerate(plot.curves):
        figure.add_scatter(
            x=list(line.x), y=[factor * v for v in line.y], name=line.label, mode="lines",
            line={"color": style.colours.palette[i % len(style.colours.palette)], "width": 2.5},
            hovertemplate=f"%{{x}}: %{{y:.4g}} {unit}<extra>{line.label}</extra>",
        )  # fmt: skip
    across, up = ([v for line in plot.curves for v in getattr(line, axis)] for axis in ("x", "y"))
    figure.update_xaxes(title=plot.x_label, **(_log_axis(across, 12) if plot.logarithmic("x") else {}))
    label = f"{plot.y_label} ({unit})" if unit else plot.y_label
    scaled = [factor * v for v in up]
    figure.update_yaxes(title=label, **(_log_axis(scaled, 12, PLAIN) if plot.logarithmic("y") else {}))
    return figure


def ratios_page(plot: d.RatiosPlot, style: Style) -> Figure:
    """A bar of each system from 10 to 90 % of its rows, with a mark at the median; hovering shows the values."""
    import plotly.graph_objects as go

    figure = go.Figure()
    for k, name in enumerate(plot.series):
        known = [(line.label, line.ratios[k]) for line in plot.systems]
        drawn = [(label, ratios) for label, ratios in known if ratios is not None]
        figure.add_scatter(
            x=[middle for _, (_, middle, _) in drawn], y=[label for label, _ in drawn], name=name, mode="markers",
            marker={"color": style.colours.palette[k], "symbol": PLOTLY_MARKERS[k], "size": 8},
            error_x={
                "array": [high - middle for _, (_, middle, high) in drawn],
                "arrayminus": [middle - low for _, (low, middle, _) in drawn], "width": 0,
            },
            customdata=[(low, high) for _, (low, _, high) in drawn],
            hovertemplate="%{y}<br>median %{x:.3g}, 10 to 90 % %{customdata[0]:.3g} to %{customdata[1]:.3g}"
            f"<extra>{name}</extra>",
        )  # fmt: skip
    ends = [end for line in plot.systems for ratios in line.ratios if ratios is not None for end in ratios]
    figure.add_vline(x=1.0, line={"color": style.colours.ink, "width": 1})
    figure.update_xaxes(title="Predicted / measured", **_log_axis([0.5, 2.0, *ends], 12, PLAIN))
    figure.update_yaxes(autorange="reversed", automargin=True)
    return figure


DRAWN: Mapping[type, Callable[[Any, Style], Figure]] = {
    d.RooflinePlot: roofline_page, d.SharesPlot: shares_page, d.SweepPlot: sweep_page, d.MemoryPlot: memory_page,
    d.ParametersPlot: parameters_page, d.MapPlot: decode_map_page, d.BarsPlot: bars, d.TornadoPlot: tornado_page,
    d.DiagramPlot: diagram_page, d.SimulationPlot: simulation_page,
    d.StepMemoryPlot: step_memory_page, d.FrontPlot: front_page, d.RowsPlot: rows_page,
    d.RatiosPlot: ratios_page, d.EnergyPlot: energy_page,
}  # fmt: skip
