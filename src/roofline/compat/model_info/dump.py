"""dump_model_info itself: what it is given, checked; the files it writes, all or none of them there before."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from roofline.compat.model_info import parts
from roofline.compat.model_info.asked import ORIGINAL_CHIP, Asked, model_of, two_rules, whole_numbers
from roofline.compat.model_info.knobs import COLUMNS, Point, grid
from roofline.compat.model_info.physical import near_format, wanted_format
from roofline.compat.model_info.picture import picture
from roofline.compat.model_info.rules import EFFICIENT, NAIVE, Peaks, Rules, number, on_chip
from roofline.compat.model_info.sections import sections
from roofline.machine.chip import Chip, chip_named
from roofline.model.errors import InputError
from roofline.show.files import check_file, whole_file
from roofline.show.plots.style import Style
from roofline.show.plots.write import write
from roofline.show.tables import csv_text

CSV_HEADER = COLUMNS
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)
LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768)
AnyPath = str | os.PathLike[str]


def dump_model_info(
    model: Any,
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
    paths = _paths(report_path, sensitivity_csv, plot_roofline, force)
    if sensitivity_csv is not None and not sensitivity_enable:
        raise InputError("sensitivity_csv", str(sensitivity_csv), "none, or sensitivity_enable=True")
    for name, size in (("optimizer_state_bytes", optimizer_state_bytes), ("master_weight_bytes", master_weight_bytes)):
        number(name, size, zero=True)
    built = model_of(model)
    pair = _given(
        two_rules(rules), enable_tensor_core_model, param_bytes_assumed, activation_bytes,
        activation_bytes if kv_cache_bytes is None else kv_cache_bytes, tensor_core_b_sat, training_flops_multiplier,
        training_bytes_multiplier,
    )  # fmt: skip
    chip, fmt, on = _machine(roofline, param_bytes_assumed, interconnect_bw_gbps)
    ranks = parts.checked_ranks(built, ep_size, "ep_size")
    if ranks > 1 and on.link is None and any(r.network for r in pair):
        raise InputError("interconnect_bw_gbps", None, f"GB/s of the link; {chip.name} has none in the catalog")
    length = parts.whole_number("seq_len", seq_len if seq_len is not None else built.context or 2048)
    lengths = whole_numbers("prefill_seq_lengths", prefill_seq_lengths)
    inside = tuple(n for n in lengths if built.context is None or n <= built.context)
    asked = Asked(
        built, chip, fmt, on, None if interconnect_bw_gbps is None else on.link,
        parts.whole_number("batch_size", batch_size), length, ranks, pair,
        whole_numbers("decode_batch_sizes", decode_batch_sizes), tuple(sorted({*inside, length})),
        tuple(n for n in lengths if n not in inside and n != length),
        chip.capacity if hbm_capacity_gb is None else 1e9 * number("hbm_capacity_gb", hbm_capacity_gb),
        optimizer_state_bytes + master_weight_bytes, _targets(roofline_targets), include_architecture_diagrams,
    )  # fmt: skip
    points = list(grid(built, batch=batch_size, ep=ranks, on=on, rules=pair)) if sensitivity_enable else []
    shown = [*sections(asked, points)]
    if "plot_roofline" in paths:
        shown.append(f"![roofline]({paths['plot_roofline'].name})")
    text = "\n\n".join(shown) + "\n"
    _write(paths, asked, text, points)
    return text


def _given(
    rules: tuple[Rules, Rules], tensor_cores: bool, weights: float, activations: float, cache: float,
    saturation: float, flops: float, moved: float,
) -> tuple[Rules, Rules]:  # fmt: skip
    """The rules with the widths, the saturation and the multiples that the caller gives."""
    for name, value in (
        ("param_bytes_assumed", weights), ("activation_bytes", activations), ("kv_cache_bytes", cache),
        ("tensor_core_b_sat", saturation), ("training_flops_multiplier", flops), ("training_bytes_multiplier", moved),
    ):  # fmt: skip
        number(name, value)

    def made(r: Rules) -> Rules:
        own = replace(
            r, weight_bytes=weights, activation_bytes=activations, cache_bytes=cache, saturation=saturation,
            training_flops=flops, training_bytes=moved,
        )  # fmt: skip
        return own if tensor_cores and not r.all_at_peak else own.at_peak()

    return made(rules[0]), made(rules[1])


def _machine(roofline: str | Chip, weights: float, link: float | None) -> tuple[Chip, str, Peaks]:
    """The chip, the format of its peak, and its figures, with the caller's link."""
    original = isinstance(roofline, str) and roofline == ORIGINAL_CHIP
    chip = chip_named(roofline)
    if original:
        chip = replace(chip, name="H200 SXM, 1979 TFLOP/s fp8, 4.8 TB/s")
    fmt = "fp8" if original else near_format(chip, wanted_format(weights))
    on = on_chip(chip, fmt)
    return chip, fmt, on if link is None else replace(on, link=1e9 * number("interconnect_bw_gbps", link))


def _targets(targets: Any) -> tuple[Chip, ...]:
    if isinstance(targets, (str, Chip)) or not isinstance(targets, Sequence):
        raise InputError("roofline_targets", targets, "a list of chips")
    return tuple(chip_named(c) for c in targets)


# -- files ---------------------------------------------------------------------------------------------------------
def _paths(report: Any, csv: Any, pictured: bool, force: bool) -> dict[str, Path]:
    """What will be written, by the parameter that asks for it. Raises InputError for a path that cannot be."""
    found: dict[str, Path] = {}
    for name, given in (("report_path", report), ("sensitivity_csv", csv)):
        if given is not None:
            try:
                found[name] = Path(os.fsdecode(given))
            except TypeError:
                raise InputError(name, given, "a path") from None
    if pictured:
        if report is None:
            raise InputError("plot_roofline", True, "a report_path, beside which the picture goes")
        beside = found["report_path"]
        found["plot_roofline"] = beside.with_name(f"{beside.stem}_roofline.png")
    for name, path in found.items():
        _named(name, path, lambda path=path: check_file(path, force))  # type: ignore[misc]
    if len({p.resolve() for p in found.values()}) < len(found):
        raise InputError("sensitivity_csv", str(csv), "a file of its own")
    return found


def _named(name: str, path: Path, act: Callable[[], object]) -> None:
    """Does something to a file; an InputError about it names the parameter that asked for it."""
    try:
        act()
    except InputError as error:
        raise InputError(name, str(path), error.expected.replace("--force", "force=True")) from None


def _write(paths: dict[str, Path], asked: Asked, text: str, points: Sequence[Point]) -> None:
    texts = {"report_path": text, "sensitivity_csv": csv_text(CSV_HEADER, [p.row for p in points])}
    for name, path in paths.items():
        if name in texts:
            _named(name, path, lambda p=path, t=texts[name]: whole_file(p, lambda f: f.write_text(t, encoding="utf-8")))  # type: ignore[misc]
        else:
            _named(name, path, lambda p=path: write(picture(asked), p, Style(), force=True))  # type: ignore[misc]
