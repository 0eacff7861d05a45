"""Pages made when the site is built: formulas from docstrings, pictures."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LLAMA, V3, QWEN = "meta-llama/Llama-3.1-8B", "deepseek-ai/DeepSeek-V3", "Qwen/Qwen3-30B-A3B"
PICTURES = (
    ("Llama-3.1-8B on two chips", "roofline", LLAMA, ("h100-sxm", "a100-sxm-80gb"), {}),
    ("DeepSeek-V3, the empty middle left out", "broken", V3, ("h200-sxm",), {"broken": True}),
    ("Shares of work and time", "shares", QWEN, ("h100-sxm",), {"kind": "shares"}),
    ("Decode over batch", "sweep", LLAMA, ("h100-sxm", "l40s"), {"kind": "sweep"}),
    ("Memory over context", "memory", LLAMA, ("h100-sxm",), {"kind": "memory"}),
    ("Decode over batch and context", "map", LLAMA, ("h100-sxm",), {"kind": "map"}),
    ("Parameters", "parameters", V3, (), {"kind": "parameters"}),
    ("Prefill over the prompt, on eight chips", "prefill", V3, ("8xh200-sxm",),
     {"kind": "sweep", "phase": "prefill", "over": "context", "layout": "tp=8", "batch": 4}),
    ("What each knob does", "tornado", QWEN, ("8xh100-sxm",), {"kind": "tornado", "layout": "tp=4", "batch": 16}),
    ("Architecture", "diagram", V3, (), {"kind": "diagram"}),
)  # fmt: skip


def formulas() -> str:
    """Every convention's formula of every kind of op, in the words of its docstring."""
    from roofline.work.counting import COUNTINGS
    from roofline.work.ops import NAMES

    lines = ["# Formulas", "", "From the docstrings of the very functions that count."]
    for counting in COUNTINGS.values():
        lines += ["", f"## Counting `{counting.name}`", "", f"{counting.about}.", "", "| op | FLOPs |", "|---|---|"]
        for kind in NAMES:
            text = " ".join((counting.formulas[kind].__doc__ or "").split()).replace("|", "\\|")
            lines.append(f"| {NAMES[kind]} ({kind.__name__}) | {text} |")
    return "\n".join(lines) + "\n"


def gallery(folder: Path) -> str:
    """Draws the pictures into a folder, and names them."""
    import roofline as rl
    from roofline.views.plots.rows import rows_plot
    from roofline.views.plots.write import write

    lines = ["# Gallery", "", "Drawn by `roofline plot` when this site was built."]
    for title, name, model, on, options in PICTURES:
        steps = {"prefill": rl.prefill(1, 1024), "decode": rl.decode(16, 1024)}
        rl.plot(rl.load(model), steps, on=on, output=folder / f"{name}.svg", force=True, **options)
        lines += ["", f"## {title}", "", f"![{title}](gallery/{name}.svg)"]
    lines += ["", f"## {STEP_MEMORY}", "", f"![{STEP_MEMORY}](gallery/step-memory.svg)"]
    step_memory(folder / "step-memory.svg")
    swept = rl.sweep(
        LLAMA, on=["h100-sxm", "b200"], tp=[1, 2, 4], batch="1..512:x2", context=8192, where="fits", columns="tpot"
    )
    write(rows_plot(swept), folder / "rows.svg", force=True)
    title = "Time per output token over batch, by `roofline sweep`"
    lines += ["", f"## {title}", "", f"![{title}](gallery/rows.svg)"]
    rl.report(V3, on="8xh200-sxm", layout="tp=8", output=folder / "report.html", force=True)
    lines += ["", "## A whole report", "", "[DeepSeek-V3 on eight H200](gallery/report.html), by `roofline report`."]
    return "\n".join(lines) + "\n"


STEP_MEMORY = "Memory of a training step, stage by stage"


def step_memory(path: Path) -> None:
    """Draws the memory of ranks over a training step."""
    import roofline as rl
    from roofline.views.plots.build_training import step_memory_plot
    from roofline.views.plots.write import write

    layout = "tp=8,pp=4,dp=2,sp,zero=1"
    step = rl.train("meta-llama/Llama-3.1-70B", batch=32, tokens=8192, on="8xdgx-h100", layout=layout)
    write(step_memory_plot(step), path, force=True)


def on_files(files: Any, config: Any) -> Any:
    """MkDocs calls it with the files of the site, and gets them with the pages made here."""
    from mkdocs.structure.files import File

    with tempfile.TemporaryDirectory() as folder:
        pages = {"formulas.md": formulas(), "gallery.md": gallery(Path(folder))}
        for name, text in pages.items():
            files.append(File.generated(config, name, content=text))
        for path in _made(Path(folder)):
            files.append(File.generated(config, f"gallery/{path.name}", content=path.read_bytes()))
    return files


def on_post_page(output: str, **_: Any) -> str:
    """MkDocs calls it with the HTML of each page: the theme's search is a dialog without a name."""
    return output.replace('role="dialog"', 'role="dialog" aria-label="Search"', 1)


def _made(folder: Path) -> Iterator[Path]:
    yield from sorted((*folder.glob("*.svg"), *folder.glob("*.html")))
