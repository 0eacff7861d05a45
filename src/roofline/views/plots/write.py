"""Writes a picture to a file with the renderer of its ending, atomically, and without overwriting unless requested."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from roofline.declared.sanitize import each_text, inert_line
from roofline.views.files.atomic import check_ending, check_file, whole_file
from roofline.views.plots import data as d
from roofline.views.plots.style import Style

ENDINGS = (".png", ".svg", ".pdf", ".html")


def check_output(output: str | os.PathLike[str], style: Style, plots_a_roofline: bool, force: bool) -> list[Path]:
    """The files that will be written. Raises InputError for an invalid ending, folder or file."""
    path = Path(output)
    check_ending(path, ENDINGS)
    wanted = [path]
    if style.legend == "separate" and plots_a_roofline and path.suffix.lower() != ".html":
        wanted.append(legend_path(path))
    for file in wanted:
        check_file(file, force)
    return wanted


def legend_path(path: Path) -> Path:
    """Path of a separate legend: `roof.png` → `roof_legend.png`."""
    return path.with_name(f"{path.stem}_legend{path.suffix}")


def write(
    plot: d.Plot, output: str | os.PathLike[str], style: Style | None = None, force: bool = False, letters: bool = False
) -> list[Path]:
    """Draw a plot as PNG, SVG, PDF (Matplotlib) or HTML (Plotly), by the file's ending; return the paths written.

    With a separate legend a roofline gets a second file, `…_legend`. `letters`: as in `canvas.settings`. Raises
    InputError if a file cannot be written, or already exists without `force`.
    """
    style, plot = style or Style(), each_text(plot, inert_line)
    paths = check_output(output, style, isinstance(plot, d.RooflinePlot), force)
    if paths[0].suffix.lower() == ".html":
        from roofline.views.plots.plotly import page

        text = page(plot, style)
        whole_file(paths[0], lambda beside: beside.write_text(text, encoding="utf-8"), force=force)
        return paths
    from roofline.views.plots.draw import canvas
    from roofline.views.plots.draw.roofline import draw_legend

    with canvas.settings(letters):
        figure = renderers()[type(plot)](plot, style)
        whole_file(paths[0], lambda beside: canvas.save(figure, beside, style), force=force)
        if isinstance(plot, d.RooflinePlot) and len(paths) > 1:
            legend = draw_legend(plot, style)
            whole_file(paths[1], lambda beside: canvas.save(legend, beside, style), force=force)
    return paths


def svg_text(plot: d.Plot, style: Style | None = None, letters: bool = False) -> str:
    """The SVG of a plot with all text escaped; `letters`: as in `canvas.settings`."""
    from roofline.views.plots.draw import canvas

    style, plot = style or Style(), each_text(plot, inert_line)
    with canvas.settings(letters):
        return canvas.svg(renderers()[type(plot)](plot, style), style)


d.IN_NOTEBOOKS.append(svg_text)


def renderers() -> Mapping[type, Callable[[Any, Style], Any]]:
    """Kind of plot → Matplotlib function that draws it."""
    from roofline.views.plots.draw import charts
    from roofline.views.plots.draw import diagram as draw_diagram
    from roofline.views.plots.draw import energy as draw_energy
    from roofline.views.plots.draw import front as draw_front
    from roofline.views.plots.draw import ratios as draw_ratios
    from roofline.views.plots.draw import roofline as draw_roofline
    from roofline.views.plots.draw import rows as draw_rows
    from roofline.views.plots.draw import simulation as draw_simulation
    from roofline.views.plots.draw import step_memory as draw_step_memory
    from roofline.views.plots.draw import sweep as draw_sweep
    from roofline.views.plots.draw import tornado as draw_tornado

    return {
        d.RooflinePlot: draw_roofline.draw_roofline, d.SharesPlot: charts.draw_shares,
        d.SweepPlot: draw_sweep.draw_sweep, d.MemoryPlot: charts.draw_memory, d.ParametersPlot: charts.draw_parameters,
        d.MapPlot: draw_sweep.draw_map, d.BarsPlot: charts.draw_bars, d.TornadoPlot: draw_tornado.draw_tornado,
        d.DiagramPlot: draw_diagram.draw_diagram, d.SimulationPlot: draw_simulation.draw_simulation,
        d.StepMemoryPlot: draw_step_memory.draw_step_memory, d.FrontPlot: draw_front.draw_front,
        d.RowsPlot: draw_rows.draw_rows, d.RatiosPlot: draw_ratios.draw_ratios,
        d.EnergyPlot: draw_energy.draw_energy,
    }  # fmt: skip
