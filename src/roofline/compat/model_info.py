"""dump_model_info: a model's report in Markdown, its naive and efficient figures and the physical ones beside them.

The figures come from `model_info_rules`; FLOPs, bytes and times without its rules from the library itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from roofline.compat.model_info_rules import (
    EFFICIENT,
    NAIVE,
    PHASES,
    Account,
    Phase,
    Point,
    Rules,
    account,
    beyond_floor,
    frontier,
    grid,
    on_chip,
    ranking,
)
from roofline.estimates.latency import Estimate, estimate_step
from roofline.estimates.training_memory import held
from roofline.machine.chip import Chip, chip_named
from roofline.model import modules as m
from roofline.model.checks import count
from roofline.model.errors import InputError
from roofline.model.load import load
from roofline.model.model import Model
from roofline.show.plots import build
from roofline.show.report.mermaid import mermaid
from roofline.show.report.model_part import fingerprint
from roofline.show.tables import Column, Table, csv_text, markdown
from roofline.show.units import ratio, seconds, share, si, whole
from roofline.work.analysis import analyze
from roofline.work.explain import explain
from roofline.work.step import Step, decode, prefill
from roofline.work.training import train

CSV_HEADER = (
    "exec_model", "kv_dtype_bytes", "top_k", "kv_rank_scale", "hidden_scale", "cache_len", "ai_hbm", "ai_total",
    "t_est_ms", "mfu_est", "regime",
)  # fmt: skip
ORIGINAL_CHIP = "like=h200-sxm,fp8=1979T,bf16=989.5T,bw=4.8T,link=450G"
"""An H200 with its figures rounded as that report rounds them."""
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)
LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768)


@dataclass(frozen=True)
class Asked:
    """What a report is of: the batch, the length (prompt, and context of a decode), the chips and the rules.

    `capacity`: bytes of memory. `state`: bytes of optimizer state and master copy a parameter.
    """

    model: Model
    chip: Chip
    batch: int
    length: int
    ep: int
    rules: tuple[Rules, Rules]
    figures: Mapping[str, float]
    batches: tuple[int, ...]
    lengths: tuple[int, ...]
    capacity: float
    state: float
    targets: tuple[Chip, ...]
    diagrams: bool

    def account(self, phase: Phase, rules: Rules, **changes: Any) -> Account:
        """One step under the rules."""
        given = {"batch": self.batch, "length": self.length, "ep": self.ep, **self.figures, **changes}
        return account(self.model, phase, rules, **given)


def dump_model_info(
    model: Any,
    report_path: str | os.PathLike[str] | None = None,
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
    training_flops_multiplier: int = 3,
    training_bytes_multiplier: int = 2,
    decode_batch_sizes: Sequence[int] = BATCHES,
    prefill_seq_lengths: Sequence[int] = LENGTHS,
    include_architecture_diagrams: bool = True,
    tensor_core_b_sat: float = 64,
    enable_tensor_core_model: bool = True,
    rules: tuple[Rules, Rules] = (NAIVE, EFFICIENT),
    ep_size: int = 1,
    sensitivity_enable: bool = True,
    sensitivity_csv: str | os.PathLike[str] | None = None,
    plot_roofline: bool = False,
    force: bool = False,
) -> str:
    """Writes the report of a model to `report_path` (nowhere where None) and returns it.

    `model`: a name, a path, a config, or a torch module with a `config`. `seq_len`: the model's context where not
    given. Bytes of parameters, activations, cache, optimizer state and master copy are those of one element.
    `hbm_capacity_gb` in 10⁹ bytes and `interconnect_bw_gbps` in 10⁹ bytes/s of both directions: the chip's where not
    given. `roofline`: the chip; the default has the round figures of the original; `roofline_targets` are drawn and
    listed beside it. `enable_tensor_core_model`: without it every FLOP runs at the peak. `rules`: two sets of settings
    side by side. `sensitivity_csv`: the 432 rows of the grid. `plot_roofline`: a picture beside the report. Raises
    InputError for what is not understood, a path that cannot be written, and a file that is there already without
    `force`.
    """
    built = _model(model)
    chip = chip_named(roofline)
    if roofline == ORIGINAL_CHIP:
        chip = replace(chip, name="H200 SXM, 1979 TFLOP/s fp8, 4.8 TB/s")
    cache = activation_bytes if kv_cache_bytes is None else kv_cache_bytes
    sizes = {
        "activation_bytes": activation_bytes, "kv_cache_bytes": cache, "param_bytes_assumed": param_bytes_assumed,
        "tensor_core_b_sat": tensor_core_b_sat, "optimizer_state_bytes": optimizer_state_bytes,
        "master_weight_bytes": master_weight_bytes, "hbm_capacity_gb": hbm_capacity_gb or 1,
        "interconnect_bw_gbps": interconnect_bw_gbps or 1,
    }  # fmt: skip
    for name, value in sizes.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
            raise InputError(name, value, "a positive number")

    def given(r: Rules) -> Rules:
        made = replace(
            r, weight_bytes=param_bytes_assumed, activation_bytes=activation_bytes, cache_bytes=cache,
            saturation=tensor_core_b_sat, training_flops=training_flops_multiplier,
            training_bytes=training_bytes_multiplier,
        )  # fmt: skip
        return made if enable_tensor_core_model else made.at_peak()

    fmt = "fp8" if param_bytes_assumed == 1 and "fp8" in chip.peaks else "bf16" if "bf16" in chip.peaks else "fp16"
    length = seq_len if seq_len is not None else built.context or 2048
    figures = on_chip(chip, fmt)
    if interconnect_bw_gbps is not None:
        figures["link"] = 1e9 * interconnect_bw_gbps
    asked = Asked(
        built, chip, batch_size, length, ep_size, (given(rules[0]), given(rules[1])), figures,
        tuple(count("decode_batch_sizes", b, 1) for b in decode_batch_sizes),
        tuple(count("prefill_seq_lengths", n, 1) for n in prefill_seq_lengths),
        chip.capacity if hbm_capacity_gb is None else 1e9 * hbm_capacity_gb,
        optimizer_state_bytes + master_weight_bytes, tuple(chip_named(c) for c in roofline_targets),
        include_architecture_diagrams,
    )  # fmt: skip
    points = list(grid(built, batch=batch_size, ep=ep_size, **asked.figures)) if sensitivity_enable else []
    parts = [*_sections(asked, points)]
    if plot_roofline:
        parts.append(f"![roofline]({_picture(asked, report_path, force)})")
    text = "\n\n".join(parts) + "\n"
    if report_path is not None:
        _write(Path(report_path), text, force)
    if sensitivity_csv is not None:
        _write(Path(sensitivity_csv), csv_text(CSV_HEADER, [csv_row(p) for p in points]), force)
    return text


def _model(model: Any) -> Model:
    """A model as it is, from a torch module's config, or from what `load` takes."""
    if isinstance(model, Model):
        return model
    config = getattr(model, "config", None)
    if config is not None:
        return load(config.to_dict() if hasattr(config, "to_dict") else dict(config))
    return load(model)


def _write(path: Path, text: str, force: bool) -> None:
    try:
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise InputError("report_path", str(path), "a new file, or force=True to overwrite it") from None
    except OSError as error:
        raise InputError("report_path", str(path), f"a file that can be written ({error.strerror})") from None


def _picture(a: Asked, report: str | os.PathLike[str] | None, force: bool) -> str:
    from roofline.show.plots.make import plot

    if report is None:
        raise InputError("plot_roofline", True, "a report_path, beside which the picture goes")
    path = Path(report).with_name(f"{Path(report).stem}_roofline.png")
    plot(a.model, dict(_steps(a)), on=(a.chip, *a.targets), kind="roofline", output=path, force=force)
    return path.name


def csv_row(p: Point) -> tuple[object, ...]:
    """One row of the grid, in the columns of that report."""
    a = p.account
    return (
        p.exec_model, p.kv_dtype_bytes, p.top_k, p.kv_rank_scale, p.hidden_scale, p.cache_len, a.intensity,
        a.flops / (a.bytes + a.network_bytes), 1e3 * a.time, a.mfu, a.regime,
    )  # fmt: skip


# -- sections ------------------------------------------------------------------------------------------------------
def _sections(a: Asked, points: Sequence[Point]) -> Iterator[str]:
    yield f"# {a.model.name}"
    yield from _summary(a)
    yield "## Fingerprint"
    yield markdown(_pairs(_fingerprint(a.model)))
    if a.diagrams:
        yield f"## Diagrams\n\n```mermaid\n{mermaid(build.diagram(a.model))}\n```"
    yield "## Parameters by module"
    yield markdown(_parameters(a.model))
    yield "## Assumptions"
    yield markdown(_assumptions(a))
    yield "## Formulas"
    yield markdown(_formulas(a))
    yield "## Bytes by term"
    yield markdown(_decomposition(a))
    yield "## Chips"
    yield markdown(_chips(a))
    yield "## Regimes"
    yield markdown(_regimes(a))
    yield _why(a)
    yield "## Categories"
    yield markdown(_categories(a))
    yield "## Decode over batch"
    yield markdown(_decode_sweep(a))
    yield _critical(a)
    if any(isinstance(x, m.Experts) for x, _ in a.model.modules()):
        yield "## Decode, compute bound"
        yield markdown(_frontier(a))
    yield "## Prefill over length"
    yield markdown(_prefill_sweep(a))
    yield "## Memory"
    yield markdown(_pairs(_memory(a)))
    yield "## Communication"
    yield markdown(_communication(a))
    if points:
        yield "## Sensitivity"
        yield markdown(_ranking(points))


def _steps(a: Asked) -> list[tuple[str, Step]]:
    return [("prefill", prefill(a.batch, a.length)), ("decode", decode(a.batch, a.length))]


def _pairs(rows: Iterable[tuple[str, str]]) -> Table:
    return Table((Column("Property", False), Column("Value", False)), tuple(rows))


def _summary(a: Asked) -> Iterator[str]:
    """What the figures below come to, in sentences made of them."""
    naive, efficient = a.rules
    limits = []
    for phase in PHASES:
        one, other = a.account(phase, naive), a.account(phase, efficient)
        limits.append(
            f"- {phase}: {one.intensity:.2f} FLOP/B naive, {other.intensity:.2f} efficient; "
            f"{one.regime} and {other.regime} bound, {seconds(one.time)} and {seconds(other.time)}"
        )
    knee = a.figures["peak"] / a.figures["bandwidth"]
    yield f"{a.batch} × {a.length} tokens on {a.chip.name}, knee {knee:.2f} FLOP/B:"
    yield "\n".join(limits)
    decoding = a.account("decode", naive)
    parts = {t.category: t.bytes for t in decoding.terms}
    heaviest = max(parts, key=lambda k: parts[k])
    weights = sum(t.weights for t in decoding.terms)
    yield (
        f"In decode {heaviest} moves {share(parts[heaviest], decoding.bytes)} of the bytes; weights are "
        f"{share(weights, decoding.bytes)}, the cache {share(sum(t.cache for t in decoding.terms), decoding.bytes)}."
    )


def _fingerprint(model: Model) -> list[tuple[str, str]]:
    """The report's own fingerprint, and what experts hold of the parameters, with and without the shared ones."""
    rows = [(str(name), str(value)) for name, value in fingerprint(model).rows]
    if any(isinstance(x, m.Experts) for x, _ in model.modules()):
        routed = held(model.modules()).experts
        beside = sum(n * x.parameters for x, n in model.modules() if x.name.startswith("shared_"))
        rows += [
            ("routed experts' share of the parameters", share(routed, model.parameters)),
            ("routed and shared experts' share", share(routed + beside, model.parameters)),
        ]
    return rows


def _parameters(model: Model) -> Table:
    places = [
        ("embedding", model.embedding, 1),
        *((b.name, b.modules, n) for b, n in model.blocks),
        ("head", model.head, 1),
    ]
    rows = [
        (
            f"{place}.{x.name}",
            str(n),
            whole(x.parameters),
            whole(n * x.parameters),
            share(n * x.parameters, model.parameters),
        )
        for place, modules, n in places
        for x in modules
        if x.parameters
    ]
    rows.sort(key=lambda row: -int(row[3].replace(",", "")))
    columns = (Column("Module", False), Column("Instances"), Column("Each"), Column("Total"), Column("Share"))
    return Table(columns, tuple(rows[:20]), (("All", "", "", whole(model.parameters), "100.0 %"),))


def _assumptions(a: Asked) -> Table:
    rows = [
        (
            r.name, "/".join(f"{v:g}" for v in r.residency), f"{r.fusion:g}", f"{r.elementwise:g}",
            "flash" if r.flash else "scores", f"{r.saturation:g}", f"{r.scalar:g}",
        )
        for r in a.rules
    ]  # fmt: skip
    columns = (
        Column("Rules", False), Column("Weight residency (attention/dense/experts)"), Column("Fusion"),
        Column("Elementwise"), Column("Attention", False), Column("Saturation, rows"), Column("Scalar efficiency"),
    )  # fmt: skip
    return Table(columns, tuple(rows))


def _formulas(a: Asked) -> Table:
    """The library's own formulas of the heaviest ops, with their numbers."""
    rows = []
    for name, step in _steps(a):
        analysis = analyze(a.model, step)
        for cost in sorted(analysis.ops, key=lambda c: -c.flops)[:3]:
            figure = explain(analysis, cost.name).figures[0]
            rows.append((name, cost.name, str(figure.formula), figure.filled, whole(int(figure.value))))
    names = ("Phase", "Op", "FLOPs of a layer", "With numbers", "FLOPs")
    return Table(tuple(Column(n, n == "FLOPs") for n in names), tuple(rows))


TERMS = (("weights", "weights"), ("activations", "activations"), ("KV cache", "cache"), ("temporary", "temporary"))


def _decomposition(a: Asked) -> Table:
    rows = []
    for phase in PHASES:
        for rules in a.rules:
            one = a.account(phase, rules)
            sums = [sum(getattr(t, field) for t in one.terms) for _, field in TERMS]
            shares = [f"{si(v, 'B')} ({share(v, one.bytes)})" for v in sums]
            rows.append((phase, rules.name, *shares, si(one.bytes, "B")))
    columns = (Column("Phase", False), Column("Rules", False), *(Column(n) for n, _ in TERMS), Column("All"))
    return Table(columns, tuple(rows))


def _physical(a: Asked, phase: Phase) -> tuple[int, float, Estimate | None]:
    """FLOPs and bytes of the library's own counting, and its times where a chip has the formats."""
    if phase == "training":
        analysis = analyze(a.model, train(a.batch, a.length))
        return int(analysis.flops), float(analysis.bytes), None
    step = dict(_steps(a))[phase]
    roles = (
        "bf16"
        if a.rules[0].weight_bytes > 1
        else {"weights": "fp8", "kv": "fp8" if a.rules[0].cache_bytes == 1 else "bf16"}
    )
    try:
        e = estimate_step(a.model, step, on=a.chip, precision=roles, within=False)
    except InputError:
        analysis = analyze(a.model, step, precision=roles)
        return int(analysis.flops), float(analysis.bytes), None
    return int(e.analysis.flops), float(e.analysis.bytes), e


def _regimes(a: Asked) -> Table:
    rows: list[tuple[str, ...]] = []
    for phase in PHASES:
        for rules in a.rules:
            one = a.account(phase, rules)
            rows.append((
                phase, rules.name, si(one.flops, "FLOP"), si(one.bytes, "B"), f"{one.intensity:.2f}",
                seconds(one.time), f"{100 * one.mfu:.1f} %", f"{one.tokens_per_second:,.1f}", one.regime,
            ))  # fmt: skip
        flops, moved, e = _physical(a, phase)
        tokens = a.account(phase, a.rules[0]).tokens
        timed = ("", "", "", "") if e is None else (
            seconds(e.time), share(flops / a.figures["peak"], e.time), f"{tokens / e.time:,.1f}", e.bound
        )  # fmt: skip
        rows.append((phase, "physical", si(flops, "FLOP"), si(moved, "B"), ratio(flops / moved), *timed))
    columns = (
        Column("Phase", False), Column("Rules", False), Column("FLOPs"), Column("Bytes"), Column("FLOP/B"),
        Column("Time"), Column("MFU"), Column("Tokens/s"), Column("Bound", False),
    )  # fmt: skip
    return Table(columns, tuple(rows))


def _why(a: Asked) -> str:
    """Where the rules leave the floor, and why the physical rows differ, by this report's own numbers."""
    lines = []
    for phase in PHASES:
        for rules in a.rules:
            below = beyond_floor(a.model, a.account(phase, rules), batch=a.batch, length=a.length)
            if below is not None and a.ep == 1:
                lines.append(
                    f"- {phase}, {rules.name}: {si(below.bytes, 'B')} is {100 * below.share:.0f} % of the "
                    f"{si(below.floor, 'B')} that must cross memory when each weight touched is read once."
                )
        flops, _, _ = _physical(a, phase)
        counted = a.account(phase, a.rules[0]).flops
        lines.append(
            f"- {phase}: {si(flops, 'FLOP')} physical, {100 * (flops / counted - 1):+.1f} % of the rules' "
            f"{si(counted, 'FLOP')}: masked pairs are not counted, the head runs for the logits needed, latents are "
            f"expanded or absorbed whichever is less."
        )
    return "\n".join(lines)


def _categories(a: Asked) -> Table:
    rows = []
    for phase in PHASES:
        pair = [a.account(phase, r) for r in a.rules]
        for term in pair[0].terms:
            other = pair[1].term(term.category)
            first, second = term.flops / term.bytes, other.flops / other.bytes
            rows.append((
                phase, term.category, f"{first:.4g}", f"{second:.4g}", f"{100 * (second / first - 1):+.1f} %",
                si(term.bytes, "B"), si(other.bytes, "B"), share(term.flops, pair[0].flops),
                share(term.bytes, pair[0].bytes),
            ))  # fmt: skip
    columns = (
        Column("Phase", False), Column("Category", False), Column("FLOP/B naive"), Column("FLOP/B efficient"),
        Column("Change"), Column("Bytes naive"), Column("Bytes efficient"), Column("FLOPs share"),
        Column("Bytes share"),
    )  # fmt: skip
    return Table(columns, tuple(rows))


def _sweep(a: Asked, phase: Phase, name: str, values: Sequence[int]) -> Table:
    rows = []
    for value in values:
        pair = [a.account(phase, r, **{name: value}) for r in a.rules]
        rows.append((whole(value), *(t for p in pair for t in (f"{p.intensity:.2f}", seconds(p.time), p.regime))))
    kinds = [f"{what} {r.name}" for r in a.rules for what in ("FLOP/B", "time", "bound")]
    return Table((Column(name), *(Column(k) for k in kinds)), tuple(rows))


def _decode_sweep(a: Asked) -> Table:
    return _sweep(a, "decode", "batch", a.batches)


def _prefill_sweep(a: Asked) -> Table:
    return _sweep(a, "prefill", "length", [n for n in a.lengths if n <= (a.model.context or n)])


def critical_batch(a: Asked, rules: Rules) -> float | None:
    """The batch at which decode's intensity crosses the knee, between two of the sweep; None where it does not."""
    knee = a.figures["peak"] / a.figures["bandwidth"]
    found = [(b, a.account("decode", rules, batch=b).intensity) for b in a.batches]
    for (b0, i0), (b1, i1) in pairwise(found):
        if i0 < knee <= i1:
            return b0 + (b1 - b0) * (knee - i0) / (i1 - i0)
    return None


def _critical(a: Asked) -> str:
    said = []
    for rules in a.rules:
        batch = critical_batch(a, rules)
        said.append(f"{rules.name}: {f'none up to {max(a.batches)}' if batch is None else f'{batch:.3f}'}")
    return f"Batch at which decode's intensity crosses the knee, {'; '.join(said)}."


DEGREES = (1, 2, 4, 8, 16, 32, 64)
FRONTIER = (2048, 4096, 8192, 16384)


def _frontier(a: Asked) -> Table:
    """From which batch of a rank on arithmetic keeps up, over expert parallelism and length."""
    figures = {**a.figures, "width": a.rules[0].weight_bytes}
    experts = max(x.experts for x, _ in a.model.modules() if isinstance(x, m.Experts))
    degrees = [d for d in DEGREES if not experts % d]
    found = [frontier(a.model, ep=ep, length=n, **figures) for ep in degrees for n in FRONTIER]
    rows = [
        (
            str(f.ep), whole(f.length), f"{f.memory:.1f}", f"{f.network:,.0f}",
            f"none: {f.limiter}" if f.batch is None else whole(f.batch),
        )
        for f in found
    ]  # fmt: skip
    names = ("EP", "Length", "FLOP/B of cache, batch → ∞", "FLOP/B of dispatch", "Smallest batch of a rank")
    return Table(tuple(Column(n) for n in names), tuple(rows))


def _memory(a: Asked) -> list[tuple[str, str]]:
    """One rank's, as that report adds it up: inference, and training with gradients, state and saved activations."""
    parts, rules = held(a.model.modules()), a.rules[0]
    params = parts.dense + parts.experts / a.ep
    cache = rules.cache_bytes * a.batch * a.model.kv_elements(a.length)
    saved = 10 * a.batch * a.length * a.model.hidden * len(a.model.layers) * rules.activation_bytes
    weights = rules.weight_bytes * params
    inference, training = weights + cache, 2 * weights + a.state * params + saved
    return [
        ("parameters but routed experts", si(rules.weight_bytes * parts.dense, "B")),
        ("routed experts of a rank", si(rules.weight_bytes * parts.experts / a.ep, "B")),
        ("KV cache", si(cache, "B")), ("gradients", si(weights, "B")),
        ("optimizer state and master copy", si(a.state * params, "B")), ("saved activations", si(saved, "B")),
        ("inference", si(inference, "B")), ("training", si(training, "B")), ("memory of the chip", si(a.capacity, "B")),
        ("inference fits", "yes" if inference <= a.capacity else "no"),
        ("training fits", "yes" if training <= a.capacity else "no"),
    ]  # fmt: skip


def _chips(a: Asked) -> Table:
    """Peaks, bandwidths and knees of the chip and its targets, in the chip's format."""
    rows = [(a.chip.name, si(a.figures["peak"], "FLOP/s"), si(a.figures["bandwidth"], "B/s"),
             f"{a.figures['peak'] / a.figures['bandwidth']:.2f}")]  # fmt: skip
    for chip in a.targets:
        fmt = next(f for f in ("fp8", "bf16", "fp16", *chip.peaks) if f in chip.peaks)
        rows.append((chip.name, si(chip.peak(fmt), "FLOP/s"), si(chip.bandwidth, "B/s"), f"{chip.ridge(fmt):.2f}"))
    return Table((Column("Chip", False), Column("Peak"), Column("Bandwidth"), Column("Knee, FLOP/B")), tuple(rows))


def _communication(a: Asked) -> Table:
    rows = []
    for phase in PHASES:
        one = a.account(phase, a.rules[0])
        rows.append((phase, si(one.dispatch_bytes, "B"), si(one.network_bytes, "B"), seconds(one.network)))
    names = ("Phase", "Dispatched and combined", "To other chips", "Time")
    return Table(tuple(Column(n, n != "Phase") for n in names), tuple(rows))


def _ranking(points: Sequence[Point]) -> Table:
    rows = [(knob, f"{100 * effect:.1f} %") for knob, effect in ranking(points)]
    return Table((Column("Knob", False), Column("Effect on the median decode time")), tuple(rows))
