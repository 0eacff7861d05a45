"""The README's table and the generated part of docs/accuracy.md."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import measured_mlperf as mlperf
import measured_serving as serving
import measured_training as training
from roofline.declared.units import whole
from roofline.hardware.named_chip import chip_named
from roofline.measured.accuracy.scoring import AIM, ENOUGH, GroupScore
from roofline.measured.accuracy.tally import Tally
from roofline.views.text.measured.accuracy import score_table, tally_table
from roofline.views.text.tables import markdown

MARK = "<!-- what follows is written by benchmarks/accuracy.py DIR --page docs/accuracy.md -->"
HELD_OUT = Path(__file__).with_name("results") / "engines_held_out.md"
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
LABELS = {
    "a100-sxm-40gb": "A100 40 GB", "h100-sxm": "H100", "gh200": "GH200", "mi300x": "MI300X", "mi250": "MI250",
    "max-1550": "Max 1550", "trainium1": "Trainium", "inferentia2": "Inferentia2",
}  # fmt: skip
"""Systems of EVERY_SYSTEM as lines call them; others by their names in the catalog."""
EVERY_SYSTEM = (
    ("static batch, {}", serving.STATIC, "all"),
    ("static batch, {}, several chips", serving.STATIC, "many chips"),
    ("static batch, {}, TPOT", serving.NEURON, "tpot"),
)
"""Lines of which every system has its own: what it is, file, slice."""
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
    ("serving, TTFT, users alone, one chip", serving.SERVING, "all", serving.UNTOLD),
    ("serving, TTFT, users alone, many chips", serving.SERVING, "all", f"{serving.UNTOLD},many chips"),
    ("serving at a rate, TPOT, vLLM, H100", serving.RATES, "all", "tpot"),
    ("saturated TensorRT-LLM, tokens/s, one chip", serving.SATURATED, "all", "one chip"),
    ("saturated TensorRT-LLM, tokens/s, many chips", serving.SATURATED, "all", "many chips"),
    ("vLLM 0.11, users in flight, tokens/s, dense", serving.ENERGY, "all", "dense"),
    ("vLLM 0.11, users in flight, tokens/s, mixtures of experts", serving.ENERGY, "all", "moe"),
    ("vLLM 0.11, image chat, tokens/s", serving.ENERGY, "all", "moe,image-chat"),
    ("SGLang, DeepSeek-R1, 8 H200, TPOT", serving.NEBIUS, "all", "tpot"),
    ("MLPerf Inference, Offline, requests/s", mlperf.FILE, "all", "Offline"),
    ("MLPerf Inference, highest rate within limits", mlperf.FILE, "all", "within limits"),
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


def summary(scores: Iterable[GroupScore]) -> tuple[tuple[str, Sequence[Line]], ...]:
    """The tables in short: their titles and lines."""
    return (
        ("Kernels and collectives", KERNELS),
        ("Whole models", (*_each_system(scores), *MODELS)),
        ("Training", TRAINING),
    )


def _each_system(scores: Iterable[GroupScore]) -> Iterator[Line]:
    """The lines of EVERY_SYSTEM, of all systems that were scored."""
    for s in scores:
        for what, file, part in EVERY_SYSTEM:
            if (s.file, s.slice) == (file, part) and s.system != "all":
                yield what.format(LABELS.get(s.system) or chip_named(s.system).name), file, s.system, part


def readme(scores: Sequence[GroupScore]) -> str:
    """The README's table and sentence: of each section the worst line and the middle one, by mean error."""
    by_name = _by_name(scores)
    tables = [list(_table(section, by_name)) for _, section in summary(scores)]
    chosen = [rows[place] for _, _, *rows in tables if rows for place in (0, (len(rows) - 1) // 2)]
    return "\n".join([*tables[0][:2], *chosen, "", sentence(chosen)])


def sentence(rows: Iterable[str]) -> str:
    """What the README says below its table, of the worst line of all: rows as Markdown has them."""
    cells = [[cell.strip() for cell in row.split("|")[1:-1]] for row in rows]
    worst = max(cells, key=lambda row: float(row[2].removesuffix(" %")))
    return f"The worst line of all is “{worst[0]}”: {worst[2]} off in the mean, {worst[3]} in the median."


def in_short(scores: Sequence[GroupScore]) -> str:
    """Every section's table, in each the worst first."""
    by_name = _by_name(scores)
    lines = []
    for title, section in summary(scores):
        lines += ["", f"{title}:", "", *_table(section, by_name)]
    return "\n".join(lines[1:])


def _by_name(scores: Iterable[GroupScore]) -> dict[tuple[str, str, str], GroupScore]:
    return {(s.file, s.system, s.slice): s for s in scores}


def _table(section: Sequence[Line], by_name: dict[tuple[str, str, str], GroupScore]) -> Iterator[str]:
    yield "| what | rows | mean error | median | held out | plain roofline | in 80 % | fitted on these rows? |"
    yield "|---|--:|--:|--:|--:|--:|--:|---|"
    known = [(what, by_name[key]) for what, *names in section if (key := (names[0], names[1], names[2])) in by_name]
    for what, s in sorted(known, key=lambda line: -line[1].mape):
        figures = (f"{s.mape:.1f} %", f"{s.median:.1f} %", _share(s.held_out, 1), _share(s.plain_mape, 0))
        yield f"| {what} | {whole(s.n)} | {' | '.join(figures)} | {s.covered:.0f} % | {s.fitted} |"


def _share(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f} %"


def page(tallies: Sequence[Tally], total: Tally, scores: Sequence[GroupScore]) -> str:
    """The generated part: the rows, the summary, all groups over systems, those outside the aim."""
    together = [s for s in scores if s.system == "all"]
    outside = sorted((s for s in together if s.outside), key=lambda s: (s.file, s.covered))
    each = sorted(together, key=lambda s: (s.file, -s.mape))
    parts = [
        f"## What became of every row\n\n{whole(total.rows)} rows of {len(tallies)} files: {whole(total.scored)} "
        f"scored, {whole(total.left)} left out.",
        markdown(tally_table(tallies, total)),
        "## In short\n\nThe worst line of each table first.",
        in_short(scores),
        f"## The interval\n\nGroups of {ENOUGH} rows and more, systems together, of which the 80 % interval holds less "
        f"than {AIM[0]:.0f} or more than {AIM[1]:.0f} %: {len(outside)} of "
        f"{sum(s.n >= ENOUGH for s in together)}.",
        markdown(score_table(outside)),
        "## Every group, systems together\n\nThe worst of each file first.",
        markdown(score_table(each)),
    ]
    if HELD_OUT.exists():
        parts.insert(4, HELD_OUT.read_text(encoding="utf-8").strip())
    return "\n\n".join(parts) + "\n"


def write(path: Path, tallies: Sequence[Tally], total: Tally, scores: Sequence[GroupScore]) -> None:
    """Keeps what people wrote above the mark, and writes the rest."""
    written = path.read_text(encoding="utf-8").partition(MARK)[0] if path.exists() else "# Accuracy\n\n"
    path.write_text(f"{written}{MARK}\n\n{page(tallies, total, scores)}", encoding="utf-8")
