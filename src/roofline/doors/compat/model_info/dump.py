"""The function dump_model_info and its files, which are written all or none."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVarTuple

from roofline.declared.errors import InputError
from roofline.declared.kinds import Given
from roofline.doors.compat.chips import ORIGINAL_CHIP
from roofline.doors.compat.model_info.knobs import COLUMNS, KnobPoint, knob_grid
from roofline.doors.compat.model_info.picture import picture
from roofline.doors.compat.model_info.request import AnyPath, Options, ReportRequest, request
from roofline.doors.compat.model_info.rules import EFFICIENT, NAIVE, Rules
from roofline.hardware.chip import Chip

Parameters = TypeVarTuple("Parameters")
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)
LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768)


def dump_model_info(
    model: Given,
    report_path: AnyPath | None = None,
    *,
    batch_size: int = 1,
    seq_len: int | None = None,
    activation_bytes: float = 1,
    kv_cache_bytes: float | None = None,
    param_bytes_assumed: float = 1,
    optimizer_state_bytes: float = 8,
    master_weight_bytes: float = 4,
    hbm_capacity_gb: float | None = None,
    interconnect_bw_gbps: float | None = None,
    roofline: str | Chip = ORIGINAL_CHIP,
    roofline_targets: Sequence[str | Chip] = ("b200",),
    training_flops_multiplier: float = 3,
    training_bytes_multiplier: float = 2,
    decode_batch_sizes: Sequence[int] = BATCHES,
    prefill_seq_lengths: Sequence[int] = LENGTHS,
    include_architecture_diagrams: bool = True,
    tensor_core_b_sat: float = 64,
    enable_tensor_core_model: bool = True,
    rules: tuple[Rules | str, Rules | str] = (NAIVE, EFFICIENT),
    ep_size: int = 1,
    sensitivity_enable: bool = True,
    sensitivity_csv: AnyPath | None = None,
    plot_roofline: bool = False,
    force: bool = False,
) -> str:
    """Writes the report of a model to `report_path` (nowhere where None) and returns it.

    `model`: a name, a path, a config as a mapping or an object, or a torch module with a `config`. `batch_size`: of
    each of `ep_size` ranks. `seq_len`: the model's context where not given. Bytes of parameters, activations, cache,
    optimizer state and master copy are those of one element. `hbm_capacity_gb` in 10⁹ bytes and `interconnect_bw_gbps`
    in 10⁹ bytes/s of both directions: the chip's where not given. `roofline`: the chip; the default has the round
    figures of the original and its peak in fp8 always, another its peak in the format of the parameters' width or the
    nearest that it has; `roofline_targets` are drawn and listed beside it. `enable_tensor_core_model`: without it every
    FLOP runs at the peak. `rules`: two sets of settings side by side, whose widths, saturation and multiples of
    training are the ones given here. `sensitivity_csv`: the 432 rows of the grid. `plot_roofline`: a picture beside the
    report. Raises InputError for what is not understood or not possible, and, before anything is written, for a path
    that cannot be and a file that is there already without `force`.
    """
    given = locals()
    return _report(given.pop("model"), Options(**given))


def _report(model: Given, options: Options) -> str:
    from roofline.doors.compat.model_info.sections import markdown_sections
    from roofline.views.text.tables import csv_text

    paths = _paths(options)
    asked = request(model, options)
    points: list[KnobPoint] = []
    if options.sensitivity_enable:
        points = list(knob_grid(asked.model, batch=asked.batch, ep=asked.ep, on=asked.on, rules=asked.rules))
    shown = [*markdown_sections(asked, points)]
    if "plot_roofline" in paths:
        shown.append(f"![roofline]({paths['plot_roofline'].name})")
    text = "\n\n".join(shown) + "\n"
    texts = {"report_path": text, "sensitivity_csv": csv_text(COLUMNS, [p.row for p in points])}
    _write(paths, asked, texts, options.force)
    return text


# -- files ---------------------------------------------------------------------------------------------------------
def _paths(o: Options) -> dict[str, Path]:
    """Files to write, by the parameter that requests each. Raises InputError for an impossible path."""
    from roofline.views.files.atomic import check_file

    paths: dict[str, Path] = {}
    for name, given in (("report_path", o.report_path), ("sensitivity_csv", o.sensitivity_csv)):
        if given is not None:
            try:
                paths[name] = Path(os.fsdecode(given))
            except TypeError:
                raise InputError(name, given, "a path") from None
    if o.plot_roofline:
        if o.report_path is None:
            raise InputError("plot_roofline", True, "a report_path, beside which the picture goes")
        beside = paths["report_path"]
        paths["plot_roofline"] = beside.with_name(f"{beside.stem}_roofline.png")
    for name, path in paths.items():
        _for(name, path, check_file, path, o.force)
    if len({p.resolve() for p in paths.values()}) < len(paths):
        raise InputError("sensitivity_csv", str(o.sensitivity_csv), "a file of its own")
    return paths


def _for(name: str, path: Path, act: Callable[[*Parameters], object], *arguments: *Parameters) -> None:
    """Apply `act` to a file; an InputError names the parameter that requested it."""
    try:
        act(*arguments)
    except InputError as error:
        raise InputError(name, str(path), error.expected.replace("--force", "force=True")) from None


def _write(paths: dict[str, Path], asked: ReportRequest, texts: Mapping[str, str], force: bool) -> None:
    for name, path in paths.items():
        if name in texts:
            _for(name, path, _fill, path, texts[name], force)
        else:
            _for(name, path, _draw, asked, path, force)


def _fill(path: Path, text: str, force: bool) -> None:
    from roofline.views.files.atomic import whole_file

    whole_file(path, lambda beside: beside.write_text(text, encoding="utf-8"), force=force)


def _draw(asked: ReportRequest, path: Path, force: bool) -> None:
    from roofline.views.plots.style import Style
    from roofline.views.plots.write import write

    write(picture(asked), path, Style(), force=force)
