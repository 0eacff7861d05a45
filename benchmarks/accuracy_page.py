"""The README's table, the tables and the picture beside docs/accuracy.md, and that page's part made from figures."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from statistics import median

import measured_mlperf as mlperf
import measured_serving as serving
import measured_training as training
from roofline.declared.numbers.units import whole
from roofline.engines.engine import engines
from roofline.hardware.named_chip import chip_named
from roofline.measured.accuracy.fitted import NOTHING, fits_of
from roofline.measured.accuracy.scoring import ENOUGH, GroupScore
from roofline.measured.accuracy.tally import Reason, Tally, tally_of_all
from roofline.views.plots import write as plots
from roofline.views.plots.data import RatioLine, RatiosPlot

MARK = "<!-- what follows is written by benchmarks/accuracy.py DIR --page docs/accuracy.md -->"
SYSTEMS = "systems"
"""The file of groups over all files: what was measured on a chip, of all engines and of each."""
SHOWN = 10
"""Fewest rows of a system that the picture shows."""
WORST = 8
"""Systems that the README and the page show."""
HELD_OUT = Path(__file__).with_name("results") / "engines_held_out.md"
"""What fit_engines.py found with rows, models and chips left out."""
EACH = {
    "h100_sxm": "H100", "h200_sxm": "H200", "a100_sxm": "A100", "b200_sxm": "B200", "gb200": "GB200", "l40s": "L40S",
    "rtx_pro_6000_server": "RTX PRO 6000", "b60": "Arc B60",
}  # fmt: skip
# The lines of the tables in short, section by section: what it is, file, systems (each, or all pooled), slice.
KERNELS = (
    *((f"bf16 GEMM, {name}", "gemm_bf16_aic.csv", s, "n,k>=256") for s, name in EACH.items()),
    ("fp8 GEMM", "gemm_lowprec_aic.csv", "all", "fp8,all"),
    ("fp8-block GEMM", "gemm_lowprec_aic.csv", "all", "fp8_block,all"),
    ("nvfp4 GEMM", "gemm_lowprec_aic.csv", "all", "nvfp4,all"),
    ("GEMM by engine, all formats", "gemm_engines_aic.csv", "all", "all"),
    ("GEMM of ROCm, bf16", "gemm_amd_aiter.csv", "all", "bf16,all"),
    ("prefill attention, b·s ≥ 4096", "attention_prefill_aic.csv", "all", "b*s>=4096"),
    ("prefill attention by engine, b·s ≥ 4096", "attention_prefill_engines_aic.csv", "all", "b*s>=4096"),
    ("decode attention, KV beyond L2", "attention_decode_aic.csv", "all", "KV>L2"),
    ("decode attention", "attention_decode_aic.csv", "all", "all"),
    ("decode attention by engine", "attention_decode_engines_aic.csv", "all", "all"),
    ("MoE layer, bf16", "moe_aic.csv", "all", "bf16,all"),
    ("MoE layer by engine, all formats", "moe_engines_aic.csv", "all", "all"),
    ("MoE layer of ROCm", "moe_amd_aiter.csv", "all", "all"),
    ("MLA kernels", "mla_aic.csv", "all", "all"),
    ("attention blocks of MLA, projections included", "mla_aic.csv", "all", "blocks"),
    ("gated delta net kernels", "gdn_linear_attention_aic.csv", "all", "all"),
    ("linear attention by engine", "linear_attention_engines_aic.csv", "all", "all"),
    ("NCCL on a node", "collectives_nccl_aic.csv", "all", "all"),
    ("engines' own all-reduce", "allreduce_custom_aic.csv", "all", "all"),
)
MODELS = (
    ("static batch, all, TP and PP 2 to 8", serving.STATIC, "all", "many chips"),
    ("static batch, FasterTransformer, A100 80 GB", serving.FASTER, "all", "all"),
    ("static batch, FasterTransformer, A100, TP 2 to 8", serving.FASTER, "all", "many chips"),
    ("static batch, TensorRT-LLM of 2023", serving.TRTLLM, "all", "all"),
    ("static batch, vLLM, 8 MI300X", serving.ROCM, "all", "latency"),
    ("one sequence, gpt-fast, A100", serving.GPT_FAST, "all", "all"),
    ("one sequence, gpt-fast, A100, TP 2 to 8", serving.GPT_FAST, "all", "many chips"),
    ("one machine, llama.cpp, generation", serving.LOCAL, "all", "generation"),
    ("one machine, llama.cpp, prompt", serving.LOCAL, "all", "prompt"),
    ("first token, TensorRT-LLM of 2023", serving.PREFILLS, "all", "all"),
    ("serving, TPOT, dense, one chip", serving.SERVING, "all", "tpot,dense"),
    ("serving, TPOT, mixtures of experts, one chip", serving.SERVING, "all", "tpot,moe"),
    ("serving, TPOT, dense, many chips", serving.SERVING, "all", "tpot,dense,many chips"),
    ("serving, TPOT, mixtures of experts, many chips", serving.SERVING, "all", "tpot,moe,many chips"),
    ("serving, TTFT, one chip", serving.SERVING, "all", "ttft"),
    ("serving, TTFT, many chips", serving.SERVING, "all", "ttft,many chips"),
    ("serving at a rate, TPOT, vLLM, H100", serving.RATES, "all", "tpot"),
    ("saturated TensorRT-LLM, tokens/s, one chip", serving.SATURATED, "all", "one chip"),
    ("saturated TensorRT-LLM, tokens/s, many chips", serving.SATURATED, "all", "many chips"),
    ("vLLM 0.11, users in flight, tokens/s, dense", serving.ENERGY, "all", "dense"),
    ("vLLM 0.11, users in flight, tokens/s, mixtures of experts", serving.ENERGY, "all", "moe"),
    ("vLLM 0.11, image chat, tokens/s", serving.ENERGY, "all", "moe,image-chat"),
    ("SGLang, DeepSeek-R1, 8 H200, TPOT", serving.NEBIUS, "all", "tpot"),
    ("MLPerf Inference, Offline, requests/s", mlperf.FILE, "all", "Offline"),
    ("MLPerf Inference, highest rate within limits", mlperf.FILE, "all", "within limits"),
    ("MLPerf Inference 6.0, Offline, requests/s", mlperf.SIXTH, "all", "Offline"),
    ("MLPerf Inference 6.0, highest rate within limits", mlperf.SIXTH, "all", "within limits"),
    ("DeepSeek-V3 by expert parallelism, tokens/s of a node", serving.PUBLISHED, "all", "all"),
)
TRAINING = (
    ("Megatron-LM on A100, iteration", training.MEGATRON, "all", "iteration"),
    ("Megatron-LM on 8 B200, iteration", training.SIMUMAX, "all", "iteration"),
    ("Megatron-LM on 8 B200, peak memory of a rank", training.SIMUMAX, "all", "peak memory"),
    ("llm-foundry FSDP, bf16, step", training.FOUNDRY, "all", "bf16 step"),
    ("Megatron-Bridge, step", training.BRIDGE, "all", "step"),
    ("Megatron-Bridge, FLOPs per token", training.BRIDGE, "all", "FLOPs per token,Pre-Training"),
    ("MLPerf, pre-training step", training.MLPERF, "all", "pre-training"),
    ("MLPerf, LoRA step", training.MLPERF, "all", "LoRA fine-tuning"),
)
Line = tuple[str, str, str, str]
SECTIONS: tuple[tuple[str, tuple[Line, ...]], ...] = (
    ("kernels and collectives", KERNELS), ("whole models", MODELS), ("training", TRAINING),
)  # fmt: skip
"""The lines in short."""


@dataclass(frozen=True)
class Both:
    """A group by all that its rows tell, and the same rows by default calls; None where a call says less than a row.

    A call that is refused is missing in the second.
    """

    what: str
    told: GroupScore
    called: GroupScore | None

    @property
    def error(self) -> float:
        """What lines are ordered by: the median error of a default call, else of all that is told."""
        return (self.called or self.told).median


def lines(scores: Iterable[GroupScore], called: Iterable[GroupScore]) -> Iterator[tuple[str, Both]]:
    """The lines in short with their section, in each the worst first."""
    told, calls = _by_name(scores), _by_name(called)
    for title, section in SECTIONS:
        names = [(what, (file, system, part)) for what, file, system, part in section]
        known = [Both(what, told[name], calls.get(name)) for what, name in names if name in told]
        yield from ((title, both) for both in sorted(known, key=lambda both: -both.error))


def systems(scores: Iterable[GroupScore], called: Iterable[GroupScore]) -> list[Both]:
    """Every system: what was measured on a chip, and with which engine; the worst first."""
    calls = _by_name(called)

    def both(s: GroupScore) -> Both:
        chip = chip_named(s.system).name.removesuffix(", one GPU")
        return Both(f"{s.slice}, {chip}", s, calls.get((s.file, s.system, s.slice)))

    every = (both(s) for s in scores if s.file == SYSTEMS and s.system != "all")
    return sorted(every, key=lambda both: (-both.error, both.what))


def chips(every: Iterable[Both]) -> list[Both]:
    """Systems of all engines together."""
    return [both for both in every if "," not in both.told.slice]


def readme(scores: Sequence[GroupScore], called: Sequence[GroupScore]) -> str:
    """The README's table: the systems whose default calls are furthest off, of those with ten rows and more."""
    enough = [both for both in chips(systems(scores, called)) if both.told.n >= SHOWN]
    return "\n".join([*HEAD, *map(row, enough[:WORST]), "", sentence(enough)])


HEAD = (
    "| system | rows | error of a default call | in 80 % | of all that is told | in 80 % | fitted on these rows? |",
    "|---|--:|--:|--:|--:|--:|---|",
)


def row(both: Both) -> str:
    """A line of the tables of systems: median errors and shares inside the interval."""

    def shown(s: GroupScore | None) -> tuple[str, str]:
        return ("–", "–") if s is None else (f"{s.median:.1f} %", f"{s.covered:.0f} %")

    told = both.told
    words = "in part" if told.fitted.startswith("in part") else "no" if told.fitted == NOTHING else "yes"
    return f"| {' | '.join((both.what, whole(told.n), *shown(both.called), *shown(told), words))} |"


def sentence(every: Sequence[Both]) -> str:
    """What the README says below its table."""
    if not every:
        return f"No system has {SHOWN} rows."
    middle = [median(figures) for figures in ([b.error for b in every], [b.told.median for b in every])]
    return (
        f"The median error of the middle one of all {len(every)} systems is {middle[0]:.1f} % by a default call, and "
        f"{middle[1]:.1f} % by all that is told."
    )


def picture(every: Sequence[Both]) -> RatiosPlot:
    """Predicted over measured, each system with ten rows and more."""
    drawn = [
        RatioLine(f"{both.what} ({whole(both.told.n)})", (both.called and both.called.ratios, both.told.ratios))
        for both in chips(every) if both.told.n >= SHOWN
    ]  # fmt: skip
    note = "from 10 to 90 % of the rows, a mark at the median · in brackets: rows · the worst default call on top"
    return RatiosPlot("Predicted over measured", ("a default call", "all that a row tells"), tuple(drawn), note)


# -- files ---------------------------------------------------------------------------------------------------------
FIGURES = (
    "n", "mape", "median", "bias", "held_out", "plain_mape", "floor_exceeds", "covered", "fitted", "grade",
)  # fmt: skip
CALLED = ("n", "mape", "median", "bias", "covered")
COLUMNS = (
    "rows", "mean error", "median error", "bias", "held out", "plain roofline", "faster than it", "in 80 %",
    "fitted on these", "grade", "ratio 10 %", "ratio 50 %", "ratio 90 %", "call: rows", "call: mean error",
    "call: median error", "call: bias", "call: in 80 %",
)  # fmt: skip


def cells(both: Both) -> tuple[object, ...]:
    """A line of a file: errors and shares in percent, ratios of predicted over measured."""
    call = [None] * len(CALLED) if both.called is None else [getattr(both.called, name) for name in CALLED]
    return tuple(map(_short, (*(getattr(both.told, name) for name in FIGURES), *both.told.ratios, *call)))


def _short(value: object) -> object:
    if value is None or value != value:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else value


def write(page: Path, tallies: Sequence[Tally], scores: Sequence[GroupScore], called: Sequence[GroupScore]) -> None:
    """The tables beside the page, its picture, and the part of the page that follows the mark."""
    folder, every, calls = page.parent / page.stem, systems(scores, called), _by_name(called)
    folder.mkdir(exist_ok=True)
    table(folder / "rows.csv", ("file", "rows", "scored", "left out", "of these", "why"), _rows(tallies))
    groups = ((s, calls.get((s.file, s.system, s.slice))) for s in scores if s.file != SYSTEMS)
    table(folder / "groups.csv", ("file", "system", "slice", *COLUMNS),
          ((s.file, s.system, s.slice, *cells(Both("", s, call))) for s, call in groups))  # fmt: skip
    table(folder / "systems.csv", ("measured", "chip", *COLUMNS),
          ((both.told.slice, both.told.system, *cells(both)) for both in every))  # fmt: skip
    table(folder / "lines.csv", ("section", "what", *COLUMNS),
          ((title, both.what, *cells(both)) for title, both in lines(scores, called)))  # fmt: skip
    table(folder / "fitted.csv", FITS, fits())
    lines_of = [line for line in HELD_OUT.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    head, *rest = ([cell.strip() for cell in line.split("|")[1:-1]] for line in lines_of)
    table(folder / "left_out.csv", head, rest)
    plots.write(picture(every), page.parent / "pictures" / f"{page.stem}.svg", force=True)
    written = page.read_text(encoding="utf-8").partition(MARK)[0] if page.exists() else "# Accuracy\n\n"
    page.write_text(f"{written}{MARK}\n\n{summary(tallies, scores, every)}", encoding="utf-8")


def read_tables(folder: Path) -> tuple[tuple[Tally, ...], tuple[GroupScore, ...], tuple[GroupScore, ...]]:
    """What the tables beside a page hold: the rows of each file, the scores, and those of default calls.

    Of default calls the tables have no ratios.
    """
    reasons: dict[tuple[str, int, int], list[Reason]] = {}
    for line in _lines(folder / "rows.csv"):
        name = (line["file"], int(line["rows"]), int(line["scored"]))
        reasons.setdefault(name, []).append(Reason(line["why"], int(line["of these"])))
    tallies = tuple(Tally(*name, tuple(r for r in each if r.rows)) for name, each in reasons.items())
    named = [((r["file"], r["system"], r["slice"]), r) for r in _lines(folder / "groups.csv")]
    named += [((SYSTEMS, r["chip"], r["measured"]), r) for r in _lines(folder / "systems.csv")]
    called = (_read(name, {k.removeprefix("call: "): v for k, v in r.items() if k.startswith("call: ")})
              for name, r in named if r["call: rows"])  # fmt: skip
    return tallies, tuple(_read(*pair) for pair in named), tuple(called)


def _lines(path: Path) -> Iterator[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        yield from csv.DictReader(file)


def _read(name: tuple[str, str, str], line: Mapping[str, str]) -> GroupScore:
    """A score of a line's cells; ratios that it lacks are NaN."""
    cells = ("mean error", "median error", "bias", "in 80 %", *(f"ratio {p} %" for p in (10, 50, 90)))
    mean, middle, bias, inside, *ratios = (float(line.get(cell) or "nan") for cell in cells)
    may = (float(line[cell]) if line.get(cell) else None for cell in ("held out", "plain roofline", "faster than it"))
    fitted, grade = line.get("fitted on these", NOTHING), line.get("grade", "-")
    return GroupScore(*name, int(line["rows"]), mean, middle, bias, *may, inside, fitted, grade, tuple(ratios))  # type: ignore[arg-type]


def table(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A CSV file."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)


def _rows(tallies: Iterable[Tally]) -> Iterator[tuple[object, ...]]:
    """What became of every row: a line for each reason, one without where all were scored."""
    for t in tallies:
        for reason in t.reasons or (Reason("", 0),):
            yield t.file, t.rows, t.scored, t.left, reason.rows, reason.why


FITS = ("engine", "values", "table", "rows of")


def fits() -> Iterator[tuple[object, ...]]:
    """Which values of which engine were fitted on which rows of which table."""
    for engine in engines().values():
        for fit in fits_of(engine):
            conditions = {f.name: getattr(fit, f.name) for f in fields(fit)[2:]}
            said = "; ".join(
                f"{name} = {' '.join(value) if isinstance(value, tuple) else str(value).lower()}"
                for name, value in conditions.items() if value not in ((), None)
            )  # fmt: skip
            yield engine.id, " ".join(fit.values), fit.table, said or "all"


def summary(tallies: Sequence[Tally], scores: Sequence[GroupScore], every: Sequence[Both]) -> str:
    """The part of the page that is made from the figures."""
    total = tally_of_all(tallies)
    one = [both for both in chips(every) if both.told.n >= SHOWN]
    together = [s for s in scores if s.system == "all" and s.file != SYSTEMS and s.n >= ENOUGH]
    off = sum(s.outside for s in together)
    return "\n".join([
        f"## Every system\n\n{whole(total.rows)} rows of {len(tallies)} files: {whole(total.scored)} scored, "
        f"{whole(total.left)} left out.",
        f"Of {len(together)} groups of {ENOUGH} rows and more the interval of {off} holds too few or too many.\n",
        "![Predicted over measured, by system](pictures/accuracy.svg)\n",
        f"The worst systems of {SHOWN} rows and more; all stand in [systems.csv](accuracy/systems.csv).\n",
        *HEAD, *map(row, one[:WORST]), "", sentence(one), "",
    ])  # fmt: skip


def _by_name(scores: Iterable[GroupScore]) -> dict[tuple[str, ...], GroupScore]:
    return {(s.file, s.system, s.slice): s for s in scores}
