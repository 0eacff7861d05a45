"""`roofline report`."""

from __future__ import annotations

import sys
from pathlib import Path

from roofline.cli.common import (
    ChipName,
    Flag,
    Formats,
    LayoutText,
    ModelArgument,
    Needed,
    Revision,
    deliver,
    warn,
)
from roofline.model.errors import InputError


def report(
    model: ModelArgument,
    /,
    *,
    on: ChipName,
    output: Path,
    layout: LayoutText = None,
    batch: Needed = 16,
    input: Needed = 1024,
    output_tokens: Needed = 256,
    engine: str = "none",
    precision: Formats = None,
    revision: Revision = None,
    force: Flag = False,
) -> None:
    """The whole story of a model on a machine: one HTML page, or Markdown with pictures and tables beside it.

    Example: `roofline report meta-llama/Llama-3.1-8B --on h100-sxm --output report.html`

    Parameters
    ----------
    output:
        The file: `.html` is one page that asks nothing of any other, `.md` has a folder `…_files` beside it.
    batch:
        Sequences together.
    input:
        Prompt tokens of each.
    output_tokens:
        Generated tokens of each.
    engine:
        Adds its host time and memory rule: `vllm`, `trtllm`, `sglang`; `none` is kernels only.
    force:
        Overwrite the file.
    """
    from roofline.explore.guidance import served
    from roofline.model.load import load
    from roofline.show.report import Report, as_markdown, html

    ending = output.suffix.lower()
    if ending not in (".html", ".md"):
        raise InputError("--output", str(output), "a file that ends in .html or .md")
    if output.exists() and not force:
        raise InputError("--output", str(output), "a new file, or --force to overwrite it")
    if not output.parent.is_dir():
        raise InputError("--output", str(output), "a file in a folder that is there")
    built = load(model, revision=revision)
    now = served(
        built, on=on, layout=layout, batch=batch, input=input, output=output_tokens, precision=precision,
        engine=None if engine == "none" else engine,
    )  # fmt: skip
    if sys.stderr.isatty():
        print(f"writing {output} …", file=sys.stderr)
    made = Report(built, now)
    text = html(made) if ending == ".html" else as_markdown(made, output.with_name(f"{output.stem}_files"))
    deliver(text, output, force)
    sys.stdout.write(f"{output}\n")
    warn(built)
