"""Measured generations and servers: which row is which model, chip, engine, layout and lengths."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import local_rows
import roofline as rl
from roofline.declared.errors import InputError
from roofline.engines.engine import engine_named
from roofline.engines.releases import nearest_release
from roofline.hardware.cluster import Cluster, Level
from roofline.hardware.named_chip import chip_named
from roofline.layout.layout import Layout
from roofline.measured.accuracy.accuracy import Reader
from roofline.measured.accuracy.csvs import TableRow
from roofline.measured.accuracy.measurements import MeasuredRun, measured_run
from roofline.model.load import catalog_config
from roofline.model.media.images import Images

STATIC = "e2e_static_batch_llm_inference_bench.csv"
FASTER = "e2e_static_batch_fastertransformer_a100.csv"
SERVING = "e2e_serving_silicon_aic.csv"
TRTLLM = "e2e_static_batch_trtllm.csv"
PREFILLS = "e2e_prefill_latency_trtllm.csv"
POOLS = "disaggregation_dstack.csv"
GPT_FAST = "e2e_decode_bs1_gptfast_a100.csv"
ROCM = "e2e_vllm_mi300x_rocm.csv"
RATES = "e2e_vllm_rate_h100.csv"
NEURON = "e2e_aws_neuron.csv"
LOCAL = "local_machines.csv"
SATURATED = "e2e_max_throughput_trtllm.csv"
PUBLISHED = "e2e_ep_published.csv"

# The chips of LLM-Inference-Bench; its A100 has 40 GB.
CHIPS = {
    "Nvidia A100 GPU": "a100-sxm-40gb",
    "Nvidia H100 GPU": "h100-sxm",
    "Nvidia GH200 GPU": "gh200",
    "AMD MI300X GPU": "mi300x",
    "AMD MI250 GPU": "mi250",
    "Habana Gaudi2": "gaudi2",
    "Intel Max 1550": "max-1550",
    "Intel PVC GPU": "max-1550",
    "SambaNova SN40L": "sn40l",
}
# Engines of 2024 as that benchmark ran them.
ENGINES = {"vLLM": "vllm@0.6", "TensorRT-LLM": "trtllm@0.9"}
COLD = ("Intel PVC GPU", 1)
"""Label and devices of LLM-Inference-Bench's rows that begin with the process: of one sequence they take 17 s and 14 ms
a token, where those labelled Intel Max 1550 take the 14 ms alone, and those of two and four devices begin at 0 too. The
script that was published (vLLM/Max1550/benchmark_latency.py) warms up with ten batches and writes the second label."""
QUANTISED = {"fp8": "fp8", "fp8_block": "fp8-block", "nvfp4": "nvfp4", "int4_wo": "int4"}
# Models that the catalog has under another name; of the same sizes, their formats are those that the row names.
ALIASES = {
    "zhipuai/GLM-5": "zai-org/GLM-5", "MiniMaxAI/MiniMax-M2.5": "MiniMaxAI/MiniMax-M2",
    "codellama/CodeLlama-34b-Instruct-hf": "codellama/CodeLlama-34b-hf",
    "LLaMA 70B": "meta-llama/Llama-2-70b-hf", "LLaMA 7B": "meta-llama/Llama-2-7b-hf",
    "Llama-2-7B": "meta-llama/Llama-2-7b-hf", "Llama-2-70B": "meta-llama/Llama-2-70b-hf",
    "Llama-2-13B": "meta-llama/Llama-2-13b-hf", "Llama-3.1-8B": "meta-llama/Llama-3.1-8B",
    "Llama-3.1-70B": "meta-llama/Llama-3.1-70B", "Llama-3.1-405B": "meta-llama/Llama-3.1-405B",
    "Llama 3.1 70B-Instruct": "meta-llama/Llama-3.1-70B-Instruct",
    "Llama 3.1 405B-Instruct": "meta-llama/Llama-3.1-405B-Instruct",
    "Llama-2-70b": "meta-llama/Llama-2-70b-hf", "Llama-2-13b": "meta-llama/Llama-2-13b-hf",
    "Llama-2-7b": "meta-llama/Llama-2-7b-hf", "Llama-3-8B": "meta-llama/Meta-Llama-3-8B",
    "Llama-3-70B": "meta-llama/Meta-Llama-3-70B", "CodeLlama-13b-hf": "meta-llama/Llama-2-13b-hf",
    "Mistral-7B-Instruct-v0.2": "mistralai/Mistral-7B-Instruct-v0.2", "gpt-oss-20b": "openai/gpt-oss-20b",
    "gpt-oss-120b": "openai/gpt-oss-120b", "gpt-oss-20b-mxfp4": "openai/gpt-oss-20b",
    "gpt-oss-120b-mxfp4": "openai/gpt-oss-120b", "llama-2-7b.Q4_0": "meta-llama/Llama-2-7b-hf",
    "Qwen3-Coder-30B-A3B": "Qwen/Qwen3-Coder-30B-A3B-Instruct", "Qwen2.5-Coder-7B": "Qwen/Qwen2.5-7B",
    "gemma-3-4b-it-qat": "google/gemma-3-4b-it", "gemma-4-31B-it-BF16": "google/gemma-4-31B",
    "gemma-4-26B-A4B-it-BF16": "google/gemma-4-26B-A4B", "GLM-4.7-Flash-BF16": "zai-org/GLM-4.7-Flash",
    "Ministral-3-14B-Instruct-2512-BF16": "mistralai/Ministral-3-14B-Base-2512",
    "Llama-3.3-70B": "meta-llama/Llama-3.3-70B-Instruct", "Llama-4-Scout": "meta-llama/Llama-4-Scout-17B-16E-Instruct",
    "Qwen3-30B-A3B": "Qwen/Qwen3-30B-A3B", "DeepSeek-R1-0528": "deepseek-ai/DeepSeek-R1-0528",
    "Meta-Llama-3.1-8B-Instruct-Q4_K_M": "meta-llama/Llama-3.1-8B-Instruct", "Qwen3-8B-Q4_K_M": "Qwen/Qwen3-8B",
    "Qwen3-4B-Q4_K_M": "Qwen/Qwen3-4B", "Llama-3.2-3B-Instruct-Q4_K_M": "meta-llama/Llama-3.2-3B-Instruct",
    "Llama-3.2-1B-Instruct-Q4_K_M": "meta-llama/Llama-3.2-1B-Instruct", "Qwen2.5-7B-Instruct-Q4_K_M": "Qwen/Qwen2.5-7B",
    "gemma-2-9b-it-Q4_K_M-fp16": "google/gemma-2-9b-it", "gemma-2-2b-it-Q4_K_M": "google/gemma-2-2b-it",
    "Mistral-7B-Instruct-v0.3-Q4_K_M": "mistralai/Mistral-7B-Instruct-v0.3",
    "Ministral-8B-Instruct-2410-Q4_K_M": "mistralai/Ministral-8B-Instruct-2410",
    "granite-3.1-8b-instruct-Q4_K_M": "ibm-granite/granite-3.1-8b-instruct",
    "Qwen2.5-Coder-7B-Instruct-Q4_K_M": "Qwen/Qwen2.5-7B", "Qwen2.5-Coder-3B-Instruct-Q4_K_M": "Qwen/Qwen2.5-3B",
}  # fmt: skip

os.environ.setdefault("HF_HUB_OFFLINE", "1")


class LeftOutError(InputError):
    """A row that is not scored, and why."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__("row", "", why)


NO_MODEL = "no such model in the catalog"
NO_CHIP = "no such chip in the catalog"


@cache
def known_model(name: str) -> rl.Model | None:
    """A published model, None where neither the catalog nor the Hub's cache has it."""
    if name == "GPT-J 6B":  # was run beyond the context that it was trained for
        return rl.load({**catalog_config("EleutherAI/gpt-j-6b"), "n_positions": 4096})
    for other in dict.fromkeys((name, ALIASES.get(name, name))):
        try:
            return rl.load(other)
        except InputError:
            continue
    return None


@cache
def chip_id(name: str) -> str | None:
    """The catalog's id for a system, None where it has none."""
    try:
        return chip_named(name).id
    except InputError:
        return None


def model_of_row(name: str) -> rl.Model:
    """The model; LeftOutError where there is none."""
    model = known_model(name) if name else None
    if model is None:
        raise LeftOutError(NO_MODEL)
    return model


def chip_of_row(name: str | None) -> str:
    """The chip's id; LeftOutError where there is none."""
    chip = chip_id(name) if name else None
    if chip is None:
        raise LeftOutError(NO_CHIP)
    return chip


def rows_of(folder: Path, file: str) -> list[dict[str, str]]:
    path = folder / file
    if not path.exists():
        return []
    with path.open(newline="") as handle:
        return list(csv.DictReader(handle))


def of_release(engine: str, version: str = "", date: str = "") -> str:
    """The engine as of a row's release, or else of its date; as of the newest known where neither says one."""
    release = nearest_release(engine, version) or nearest_release(engine, date[:7])
    return f"{engine}@{release}" if release else engine


def degree(r: TableRow, column: str) -> int:
    """A degree of parallelism; 1 where the cell is empty or 0."""
    return 1 if r.text(column) in ("0", "0.0", "n/a") else r.whole(column, 1)


def several(chip: str, chips: int) -> str:
    """That many chips: in nodes of eight where they are more."""
    return chip if chips == 1 else f"{chips}x{chip}" if chips <= 8 else f"{-(-chips // 8) * 8}x{chip}"


def static_batches(r: TableRow) -> Iterator[MeasuredRun]:
    """LLM-Inference-Bench: whole latency of a batch whose prompts and outputs are equally long, fp16."""
    framework, split = r.text("framework"), r.text("parallelism")
    engine = ENGINES.get(framework)
    if framework == "llama.cpp":
        yield llama_bench(r)
        return
    if engine is None:
        raise LeftOutError(f"no engine in the catalog for {framework}")
    chip, model = chip_of_row(CHIPS.get(r.text("hardware"))), model_of_row(r.text("model"))
    if r.text("consistent") != "True":
        raise LeftOutError("ambiguous: its latency and its throughput contradict each other")
    ways, stages = r.whole("num_devices"), 1
    if ways > 1 and split in ("PP", "Pipeline Parallelism"):
        ways, stages = 1, ways
    elif ways > 1 and split not in ("TP", "tensor"):
        raise LeftOutError("ambiguous: a mixed layout whose order is not given")
    if (r.text("hardware"), r.whole("num_devices")) == COLD and framework == "vLLM":
        engine = f"{engine}(cold=1)"
    yield measured_run(
        quantity="latency", seconds=r.number("latency_s"), model=model, on=several(chip, ways * stages),
        layout=None if ways * stages == 1 else f"tp={ways},pp={stages}", engine=engine, precision="fp16",
        batch=r.whole("batch_size"), input=r.whole("in_len"), output=r.whole("out_len"), system=chip,
        slices=(framework, "all") if ways * stages == 1 else (f"{framework},tp={ways},pp={stages}", "many chips"),
    )  # fmt: skip


def faster_transformer(r: TableRow) -> Iterator[MeasuredRun]:
    """FasterTransformer's GPT guide: latency of a batch, fp16, nodes of A100 80 GB."""
    if (software := r.text("software")) != "FasterTransformer":
        raise LeftOutError(f"no engine in the catalog for {software}: the guide's column of another software")
    if r.text("oom") == "True" or not r.text("latency_ms"):
        raise LeftOutError("ran out of memory: no time")
    tp, pp, heads = r.whole("tp"), r.whole("pp"), r.whole("head_num")
    model = gpt_of(heads * r.whole("size_per_head"), r.whole("num_layers"), heads, r.whole("vocab_size"))
    spread = "" if tp * pp == 1 else f",tp={tp}" if pp == 1 else f",tp={tp},pp={pp}"
    yield measured_run(
        quantity="latency", seconds=r.number("latency_ms") / 1e3, model=model, engine="fastertransformer",
        on="a100-sxm-80gb" if tp * pp <= 8 else f"{-(-tp * pp // 8)}xdgx-a100", layout=f"tp={tp},pp={pp}",
        batch=r.whole("batch_size"), input=r.whole("in_len"), output=r.whole("out_len"), system="a100-sxm-80gb",
        slices=(f"{r.text('model')}{spread}", "many chips" if spread else "all"),
    )  # fmt: skip


HALVES = {"mi250": "mi250@1/2"}
"""Card of two GPUs → one of them. llama.cpp's devices in LLM-Inference-Bench's rows are cards, by CUDA_VISIBLE_DEVICES
of its scripts (llama.cpp/MI250/llama2-7b.sh: "0,1" for one)."""


def llama_bench(r: TableRow) -> MeasuredRun:
    """LLM-Inference-Bench's llama.cpp: seconds of one prompt and its answer, fp16 files on devices that share layers.

    By its scripts (llama.cpp/H100/llama2-7b.sh and others) a row is llama-bench -pg IN,OUT -b BATCH -r 1: one sequence,
    whose prompt goes in parts of BATCH tokens, with what is usual in 2024: --split-mode layer, no flash attention. So
    the table's throughput counts one sequence.
    """
    if r.text("hardware") == "Intel PVC GPU":
        raise LeftOutError("no kernels of llama.cpp's SYCL")
    chip, model, devices = (
        chip_of_row(CHIPS.get(r.text("hardware"))),
        model_of_row(r.text("model")),
        r.whole("num_devices"),
    )
    gpu, gpus = HALVES.get(chip, chip), devices * (2 if chip in HALVES else 1)
    return measured_run(
        quantity="latency", seconds=r.number("latency_s"), model=model, on=several(gpu, gpus),
        layout=None if gpus == 1 else f"pp={gpus}",
        engine=f"llama-cpp(n_ubatch={r.whole('batch_size')},flash_attn=off)", precision=local_rows.WHOLE["f16"],
        batch=1, input=r.whole("in_len"), output=r.whole("out_len"), system=chip,
        slices=("llama.cpp", "all") if devices == 1 else (f"llama.cpp,devices={devices}", "many chips"),
    )  # fmt: skip


@cache
def gpt_of(width: int, layers: int, heads: int, vocabulary: int) -> rl.Model:
    """A GPT with learned positions, in fp16."""
    return rl.load({
        "model_type": "gpt2", "n_embd": width, "n_head": heads, "n_layer": layers, "vocab_size": vocabulary,
        "n_positions": 4096, "dtype": "float16",
    })  # fmt: skip


EVENLY = 0.2 / 12**0.5 / 0.9
"""Coefficient of variation of lengths drawn evenly from [0.8·L, L]."""
CAPPED = 2
"""Times its decode that a request waits where no more than a third of all are in the steps, by Little's law."""
CAPPED_FROM = 512


def servers(r: TableRow) -> Iterator[MeasuredRun]:
    """Serving: TPOT and TTFT at a concurrency. Lengths of origin `inferencex` are drawn from [0.8·L, L]."""
    theirs = r.text("origin") == "inferencex"
    name, engine = r.text("model"), r.text("backend")
    if r.text("source").startswith("nvidia_"):
        raise LeftOutError("ambiguous: mixes the concurrency of one replica and of a fleet")
    if "deepseek" in name.lower():
        raise LeftOutError("ambiguous: multi-token prediction is on in some rows and none says so")
    model, chip, layout = model_of_row(name), chip_of_row(r.text("system")), layout_of(r)
    if theirs and r.text("image").endswith(PREDICTING) and "qwen3.5" in name.lower():
        raise LeftOutError("ambiguous: multi-token prediction is on, and nothing says how much is accepted")
    if theirs and layout.dp > 1:
        raise LeftOutError("ambiguous: a data-parallel label that repeats runs on fewer chips")
    concurrency = r.whole("concurrency")
    if theirs and concurrency >= CAPPED_FROM and r.number("ttft_ms") > CAPPED * r.whole("osl") * r.number("tpot_ms"):
        raise LeftOutError("ambiguous: a server that holds a third or less of what it was sent")
    (share, varied), mode = (0.9, EVENLY) if theirs else (1.0, 0.0), r.text("gemm_quant_mode")
    if problem := contradiction(r, model, layout, theirs):
        raise LeftOutError(f"ambiguous: {problem}")
    dense = "dense" if model.active_parameters == model.parameters else "moe"
    spread = "" if layout.alone else ",many chips"
    own = f"{name.rpartition('/')[2]},{engine},{mode}"
    script = launched_by(r)
    released = of_release(engine, r.text("backend_version"), r.text("measured"))
    formats, runs = _precision(model, mode, engine), released
    if script is not None:
        settings = script.settings.format(input=2 * r.whole("isl"), concurrency=concurrency)
        formats, runs = _with_formats(formats, script.formats), f"{released}({settings})"
    sent = SENT if script is None else script.sent
    in_step = (name, r.text("system")) == EQUAL and engine_named(engine).keeps_step
    for what in ("tpot", "ttft"):
        if what == "ttft" and not r.text("ttft_ms"):
            continue
        slices = (f"{what},{own}", f"{what},{dense}{spread}", f"{what}{spread}")
        yield measured_run(
            quantity=f"served-{what}", seconds=r.number(f"{what}_ms") / 1e3, model=model, layout=layout,
            on=several(chip, layout.chips), input=max(1, int(share * r.whole("isl"))),
            output=max(2, int(share * r.whole("osl"))), concurrency=concurrency, engine=runs, system=chip,
            precision=formats, rounds=None if in_step else sent, input_cv=varied, output_cv=varied,
            slices=(*slices, f"{what},{dense},tp={layout.tp}") if spread and dense == "dense" else slices,
        )  # fmt: skip


@dataclass(frozen=True)
class LaunchScript:
    """What a published script sets besides the layout, of the rows whose columns begin so.

    settings: the engine's, in its own words, with twice the row's {input} and its {concurrency}. formats: instead of
    the checkpoint's. sent: requests of each user.
    """

    model: str
    chip: str
    engine: str
    version: str
    format: str
    settings: str
    formats: str = ""
    sent: int = 10


SCRIPTS = (
    LaunchScript(
        "Llama-3.1-70B", "b200", "vllm", "", "nvfp4",
        "max_num_seqs=512,max_num_batched_tokens=8192,async_scheduling=1", "kv=fp8",
    ),
    LaunchScript("MiniMax-M2.5", "b200", "vllm", "0.17.0", "fp8", "gpu_memory_utilization=0.95,block_size=32"),
    LaunchScript(
        "MiniMax-M2.5", "b200", "vllm", "0.19.0", "fp8", "max_num_batched_tokens={input},block_size=32", "kv=fp8",
    ),
    LaunchScript("MiniMax-M2.5", "b200", "vllm", "0.19.0", "nvfp4", "max_num_batched_tokens={input}", "kv=fp8"),
    LaunchScript("MiniMax-M2.5", "b200", "vllm", "nightly", "nvfp4", "max_num_seqs={concurrency}"),
    LaunchScript("Kimi-K2.5", "h200", "vllm", "", "int4_wo", "gpu_memory_utilization=0.95,max_num_seqs={concurrency}"),
    LaunchScript(
        "gpt-oss-120b", "h100", "vllm", "", "",
        "max_num_batched_tokens=8192,max_num_seqs={concurrency},async_scheduling=1",
    ),
    LaunchScript(
        "gpt-oss-120b", "h200", "vllm", "", "",
        "max_num_batched_tokens=8192,max_num_seqs={concurrency},async_scheduling=1",
    ),
    LaunchScript("gpt-oss-120b", "h200", "trtllm", "", "", "free_gpu_memory_fraction=0.85,max_num_tokens=20000"),
    LaunchScript(
        "gpt-oss-120b", "b200", "trtllm", "", "", "free_gpu_memory_fraction=0.85,max_num_tokens=20000", "kv=fp8",
    ),
    LaunchScript("Llama-3.1-70B", "b200", "trtllm", "", "fp8", "max_num_tokens=16384"),
    LaunchScript("GLM-5", "h200", "sglang", "", "fp8", "mem_fraction_static=0.85", "weights=fp8-block", sent=5),
    LaunchScript(
        "Qwen3.5-397B-A17B", "b200", "sglang", "", "fp8", "mem_fraction_static=0.82,chunked_prefill_size=32768",
        "weights=fp8-block,kv=fp8",
    ),
)  # fmt: skip
"""The scripts of InferenceX's rows (github.com/SemiAnalysisAI/InferenceX, benchmarks, of the date of the rows; pull
requests 947 and 996 for vLLM 0.19, 804 and 918 for Qwen3.5, 914 for GLM-5). The checkpoints of Qwen3.5 and GLM-5 are
their publishers', whose fp8 has a scale for each block."""

PREDICTING = "sglang:v0.5.9-cu130"
"""The image of InferenceX's runs of Qwen3.5 with multi-token prediction, on four chips without expert parallelism;
those without it ran on four with it, or on eight, in images for amd64 (its pull requests 804, 897, 898 and 918)."""
EQUAL = ("Qwen/Qwen3-32B", "h100_sxm")
"""Model and system of rows of fixed lengths, as the tables' notes say: users stay in step there in SGLang, not in vLLM.
Of other rows it is not known how much lengths vary; they are taken to be in no order, with the opening of a benchmark.
"""
SENT = 10
"""Requests that each user of these tables sent, as InferenceMAX's benchmarks do: num_prompts = 10 · concurrency."""
NODE = 8
"""Chips that a server of these tables has."""


def launched_by(r: TableRow) -> LaunchScript | None:
    """The published script of a row, None where there is none."""
    name, chip = r.text("model").rpartition("/")[2], r.text("system")
    for script in SCRIPTS if r.text("origin") == "inferencex" else ():
        begins = (
            (chip, script.chip),
            (r.text("backend_version"), script.version),
            (r.text("gemm_quant_mode"), script.format),
        )
        same = (name, r.text("backend")) == (script.model, script.engine)
        if same and all(text.startswith(start) for text, start in begins):
            return script
    return None


def contradiction(r: TableRow, model: rl.Model, layout: Layout, theirs: bool) -> str | None:
    """What the labels of a row say against each other, None where they agree.

    The tables' own rule: tensor times data parallelism of attention are the experts' ranks. InferenceX's labels of more
    tensor parallelism than a node has chips are n·n, of runs on n: 9 of the 36 stand there again, digit by digit, under
    n. In the others the quant modes name kernels, and fp8 with a scale for each tensor is not fp8 with one for a block.
    """
    if layout.tp > NODE:
        return "a label of more chips than the node has, which repeats runs on fewer"
    own = model.precision.weights("experts" if model.active_parameters != model.parameters else "ffn")
    if theirs:
        return None
    ranks = degree(r, "moe_tp_size") * degree(r, "moe_ep_size")
    if ranks != 1 and ranks != layout.tp * layout.dp:
        return "attention's ranks and the experts' are not as many"
    kernel = QUANTISED.get(r.text("moe_quant_mode"))
    if own.bits < 16 and kernel is not None and kernel != own.name:
        return "names a kernel of another format than the checkpoint's"
    return None


def _precision(model: rl.Model, mode: str, backend: str) -> str | None:
    """The formats of a row: the checkpoint's own where it is quantised, else those the row names.

    NVIDIA quantises the experts alone in its fp4 mixtures; its checkpoints for TensorRT-LLM ask for an fp8 cache.
    """
    own = model.precision.weights("experts" if model.active_parameters != model.parameters else "ffn")
    if mode not in QUANTISED or (own.bits < 16 and mode != "nvfp4") or own.name == "mxfp4":
        return None
    role = "experts" if mode in ("nvfp4", "int4_wo") and model.active_parameters != model.parameters else "weights"
    cached = ",kv=fp8" if backend == "trtllm" and mode in ("fp8", "nvfp4") else ""
    return f"{role}={QUANTISED[mode]}{cached}"


def _with_formats(own: str | None, others: str) -> str | None:
    """Formats, of which others take the place of those of the same role."""
    roles = dict(part.split("=") for part in (own or "").split(",") + others.split(",") if part)
    return ",".join(f"{role}={format}" for role, format in roles.items()) or None


def layout_of(r: TableRow) -> Layout:
    """Attention's tensor and data parallelism, and the experts' over the same chips."""
    tp, dp, pp, etp, ep = (
        degree(r, k) for k in ("tp_size", "attention_dp_size", "pp_size", "moe_tp_size", "moe_ep_size")
    )
    if ep * etp == tp * dp:
        return Layout(tp=tp, dp=dp, pp=pp, ep=ep, etp=etp)
    return Layout(tp=tp, dp=dp, pp=pp)


# TensorRT-LLM's own pages of 2023. fp8 there means an fp8 cache too.
PAGES = {"H100-SXM": "h100-sxm", "A100-SXM": "a100-sxm-80gb", "L40S": "l40s", "H200-SXM": "h200-sxm"}
PAGE_FORMATS = {"fp8": "weights=fp8,kv=fp8", "fp16": "fp16"}


def trtllm_page(r: TableRow, quantity: str, seconds: float, output: int) -> MeasuredRun:
    """A batch of TensorRT-LLM's pages."""
    chip, tp = chip_of_row(PAGES.get(r.text("gpu"))), r.whole("tp")
    formats = PAGE_FORMATS.get(r.text("precision"))
    if formats is None:
        raise LeftOutError("ambiguous: formats that have no name")
    return measured_run(
        quantity=quantity, seconds=seconds, model=model_of_row(r.text("model")), on=several(chip, tp),
        layout=f"tp={tp}", engine="trtllm@0.9", precision=formats, batch=r.whole("batch_size"),
        input=r.whole("in_len"), output=output, system=chip,
    )  # fmt: skip


def trtllm_batches(r: TableRow) -> Iterator[MeasuredRun]:
    """Whole latency of a batch, from generated tokens a second (and GPU)."""
    unit = r.text("unit_in_doc")
    if not unit.startswith("tok/s"):
        raise LeftOutError("ambiguous: a rate in an unknown unit")
    rate = r.number("throughput") * (r.whole("tp") if unit.endswith("/GPU") else 1)
    output = r.whole("out_len")
    yield trtllm_page(r, "latency", r.whole("batch_size") * output / rate, output)


def trtllm_prefills(r: TableRow) -> Iterator[MeasuredRun]:
    """Time to the first token of one prompt."""
    yield trtllm_page(r, "ttft", r.number("first_token_latency_ms") / 1e3, 2)


FAST_FORMATS = {"bf16": "bf16", "int8": "weights=int8", "int4 g32": "weights=int4-g32", "int4": "weights=int4-g32"}


def gpt_fast(r: TableRow) -> Iterator[MeasuredRun]:
    """gpt-fast: one sequence, compiled; 200 tokens after a prompt of 5, so 105 cached in the mean."""
    tp, formats = r.whole("tp"), FAST_FORMATS.get(r.text("weight_dtype"))
    if formats is None:
        raise LeftOutError("ambiguous: formats that have no name")
    yield measured_run(
        quantity="decode", seconds=1 / r.number("tokens_per_s"), model=model_of_row(r.text("model")),
        on=several("a100-sxm-80gb", tp), layout=f"tp={tp}", precision=formats, batch=1, input=105,
        system="a100-sxm-80gb", slices=("all",) if tp == 1 else ("many chips",),
    )  # fmt: skip


def rocm(r: TableRow) -> Iterator[MeasuredRun]:
    """vLLM on eight MI300X: whole latency of a batch, or of many prompts at once."""
    chip, tp, output = chip_of_row(r.text("gpu")), r.whole("tp"), r.whole("out_len")
    formats = "weights=fp8,kv=fp8" if r.text("kv_dtype") == "fp8" else "weights=fp8"
    batch = r.whole("batch") if r.text("kind") == "latency" else r.whole("num_prompts")
    rate = "latency_s" if r.text("kind") == "latency" else "output_tokens_per_s"
    seconds = r.number(rate) if rate == "latency_s" else batch * output / r.number(rate)
    release = r.text("software").removeprefix("vLLM ").partition(" ")[0]
    yield measured_run(
        quantity="latency", seconds=seconds, model=model_of_row(r.text("model")), on=several(chip, tp),
        layout=f"tp={tp}", engine=of_release("vllm", release), precision=formats, batch=batch,
        input=r.whole("in_len"), output=output,
        system=chip, slices=(r.text("kind"),),
    )  # fmt: skip


VLLM_BLOCK = 16
"""Tokens of a block of vLLM's cache, in which prefixes are looked for."""


def rates(r: TableRow) -> Iterator[MeasuredRun]:
    """vLLM at a rate: TPOT and TTFT.

    The runs send some dozens of prompts again and again, and TPOT at twice the rate shows that none was computed again:
    all whole blocks of a prompt before its last token come from the prefix cache.
    """
    if r.text("failed") not in ("", "0") or r.number("ttft_mean_ms") > 10e3:
        raise LeftOutError("ambiguous: an overloaded server, whose queue never was in a steady state")
    chip, tp, prompt = chip_of_row(r.text("gpu")), r.whole("tp"), round(r.number("input_len_mean"))
    names = [name for name in ("max_num_seqs", "max_num_batched_tokens") if r.text(name)]
    engine = of_release("vllm", date=f"{r.text('date')[:4]}-{r.text('date')[4:6]}")
    engine = f"{engine}({','.join(f'{name}={r.whole(name)}' for name in names)})" if names else engine
    known = (prompt - 1) // VLLM_BLOCK * VLLM_BLOCK
    for what in ("tpot", "ttft"):
        yield measured_run(
            quantity=f"served-{what}", seconds=r.number(f"{what}_mean_ms") / 1e3, model=model_of_row(r.text("model")),
            on=several(chip, tp), layout=f"tp={tp}", engine=engine, input=prompt,
            output=r.whole("tokens_generated_each"), rate=r.number("requested_rate"), output_cv=0.0, system=chip,
            slices=(what,),
            prefix=(known + 0.5) / prompt,
        )  # fmt: skip


NEURON_LEVELS: Mapping[str, tuple[str, tuple[int, ...]]] = {
    "trn1.32xlarge": ("torus", (4, 4)), "inf2.48xlarge": ("ring", ()),
}  # fmt: skip
"""Instance → how NeuronLink joins its chips (AWS Neuron documentation, Trn1 and Inf2 architecture)."""
CORES = 2
"""NeuronCores of a chip, each of which is a rank of its own to Transformers NeuronX."""


@cache
def padded_model(name: str, ranks: int) -> rl.Model:
    """A model whose heads and inner width are padded to a multiple of the ranks, and keys' and values' copied to each.

    Transformers NeuronX does so where the ranks do not divide them (its developer guide, grouped-query attention).
    CodeLlama is Llama 2 with a context of 16,384 tokens (arXiv:2308.12950).
    """
    own = model_of_row(name)
    raw = dict(catalog_config(ALIASES.get(name, name)))
    heads, width = int(raw["num_attention_heads"]), int(raw["hidden_size"])
    kv, longer = int(raw.get("num_key_value_heads", heads)), {"max_position_embeddings": 16384}
    raw |= longer if name.startswith("CodeLlama") else {}
    if heads % ranks == 0:
        return rl.load(raw) if name.startswith("CodeLlama") else own
    whole, inner = (-(-n // ranks) * ranks for n in (heads, int(raw["intermediate_size"])))
    return rl.load({
        **raw, "num_attention_heads": whole, "intermediate_size": inner,
        "num_key_value_heads": whole if kv == heads else max(kv, ranks),
        "head_dim": width // heads,
    })  # fmt: skip


def neuron(r: TableRow) -> Iterator[MeasuredRun]:
    """AWS Neuron: a static batch on all chips of an instance, two cores of a chip being one rank here."""
    chip, chips = chip_of_row(r.text("chip")), r.whole("num_chips")
    formats = {"bf16": "bf16", "int8": "weights=int8-g4096", "fp16": "fp16"}.get(r.text("weight_storage"))
    if formats is None:
        raise LeftOutError("ambiguous: formats that have no name")
    kind, axes = NEURON_LEVELS[r.text("instance")]
    level = Level("node", chips, chip_named(chip).link or 0.0, 2e-6, kind, axes=axes)
    model_of_row(r.text("model"))
    for what in ("tpot", "ttft"):
        yield measured_run(
            quantity=what, seconds=r.number(f"{what}_p50_ms") / 1e3, model=padded_model(r.text("model"), chips * CORES),
            on=Cluster(r.text("instance"), chip, (level,)), layout=f"tp={chips}", precision=formats,
            batch=r.whole("batch"), input=r.whole("in_len"), output=r.whole("out_len"), system=chip, slices=(what,),
        )  # fmt: skip


def local_machines(r: TableRow) -> Iterator[MeasuredRun]:
    """llama.cpp and Ollama on machines that people own: a step that stands for a prompt, or for a generation.

    A prompt on several cards is the first token's time of a pipeline.
    """
    try:
        row = local_rows.local_row(dict(r.values))
    except local_rows.LeftOutError as error:
        raise LeftOutError(str(error)) from error
    step, tokens = local_rows.step_of(row)
    (query,) = step.queries
    engine = local_rows.engine_of(row)
    backend = engine.partition("(")[0].replace("llama-cpp", "llama.cpp")
    software = "ollama" if row.engine == "ollama" else ""
    if row.piped:
        yield measured_run(
            quantity="ttft", seconds=row.prompt / row.rate, model=row.model, on=several(row.chip, row.gpus),
            layout=f"pp={row.gpus}", engine=engine, precision=local_rows.precision_of(row), batch=1, input=row.prompt,
            output_tokens=1, system=row.chip, slices=("prompt, several cards", f"{backend}, {row.machine}"),
            software=software,
        )  # fmt: skip
        return
    yield measured_run(
        quantity="prefill" if row.prompt else "decode", seconds=tokens / row.rate, model=row.model, on=row.chip,
        engine=engine, precision=local_rows.precision_of(row), batch=1,
        input=query.new if row.prompt else query.cached,
        system=row.chip, slices=("prompt" if row.prompt else "generation", f"{backend}, {row.machine}"),
        software=software, within=False, cached=(row.prompt and query.cached) or None,
    )  # fmt: skip


SATURATING = 4096
"""Requests of a replica that keep any server of the page full; those that memory does not hold wait."""
SATURATED_CHIPS = {"H100": "h100-sxm", "H200": "h200-sxm", "B200": "b200", "GB200": "gb200",
                   "RTX PRO 6000": "rtx-pro-6000-server"}  # fmt: skip


REQUESTS: Mapping[tuple[int, int], int] = {
    (128, 128): 30000, (128, 2048): 3000, (128, 4096): 1500, (500, 2000): 3000, (1000, 1000): 3000, (1000, 2000): 1500,
    (2048, 128): 3000, (2048, 2048): 1500, (5000, 500): 1500, (20000, 2000): 1000, (1024, 1024): 3000,
    (8192, 1024): 1500, (1024, 8192): 1500, (32768, 1024): 1000, (1024, 32768): 1000,
}  # fmt: skip
"""Tokens of a prompt and an answer → the requests of a run, all queued at once (both pages, "Preparing a Dataset")."""


def saturated_layout(model: rl.Model, chips: int, stages: int) -> Layout:
    """How TensorRT-LLM's pages run a model whose label is TPn, PPm or DEPn.

    By both pages' section "Running the benchmark": dense models by --tp and --pp. Mixtures by --tp, --pp and --ep under
    enable_attention_dp, whatever the label: the n ranks of a stage that TPn names hold whole sequences' attention each,
    and share out the experts. (v1.0, docs/source/performance/perf-overview.md, "For MoE models"; v1.2,
    docs/source/developer-guide/perf-overview.md, where the options of GPT-OSS, DeepSeek R1, Qwen3 and Llama 4 all have
    it, and the label is DEPn.)
    """
    ways = chips // stages
    if model.active_parameters == model.parameters:
        return Layout(tp=ways, pp=stages)
    return Layout(dp=ways, ep=ways, pp=stages)


def saturated(r: TableRow) -> Iterator[MeasuredRun]:
    """TensorRT-LLM's pages: generated tokens a second of a server that always has requests waiting."""
    chip, chips, stages = chip_of_row(SATURATED_CHIPS.get(r.text("gpu"))), r.whole("num_gpus"), r.whole("pp", 1)
    name, fp4, model = r.text("model"), r.text("precision") == "fp4", model_of_row(r.text("model"))
    formats = _precision(model, "nvfp4" if fp4 else "fp8", "trtllm")
    if name.startswith("gpt-oss") and fp4:
        formats = "kv=fp8"
    if r.whole("ep" if r.text("attention_dp") == "1" else "tp", 1) * stages != chips:
        raise LeftOutError("ambiguous: its layout and its chips contradict each other")
    layout = saturated_layout(model, chips, stages)
    yield measured_run(
        quantity="served-token", seconds=1 / r.number("output_tokens_per_s"), model=model, on=several(chip, chips),
        layout=layout, engine=of_release("trtllm", r.text("doc")), precision=formats, input=r.whole("in_len"),
        output=r.whole("out_len"),
        concurrency=SATURATING * layout.dp, input_cv=0.0, output_cv=0.0, system=chip,
        slices=("one chip" if chips == 1 else "many chips", f"{name},{'fp4' if fp4 else 'fp8'}"),
    )  # fmt: skip


@dataclass(frozen=True)
class Fleet:
    """What a source says of its nodes beside the row: the engine, formats, copies of experts, and tokens of a rank.

    redundant: copies of experts, where the row itself does not say. prompts: new tokens of a rank in a step of prefill;
    answers: sequences of one in a step of decode; None where it does not say. Both overlap two micro-batches.
    """

    engine: str
    precision: str | None = None
    redundant: int = 0
    prompts: int | None = None
    answers: int | None = None


FLEETS: Mapping[str, Fleet] = {
    "lmsys.org/blog/2025-05-05-large-scale-ep": Fleet("sglang", redundant=32, prompts=16384, answers=256),
    "deepseek-ai/profile-data": Fleet("none", "dispatch=fp8-group", answers=128),
}
"""How a source begins → its fleet. LMSYS: 32 redundant experts in prefill and in decode (288 over 72 ranks are four
each), 16,384 tokens of a device in prefill, 256 sequences in decode. DeepSeek: 128 sequences a device."""
FLEET_NODES = {"H100": ("h100-sxm", "dgx-h100"), "H800": ("h800-sxm", "hgx-h800")}
PUBLISHED_LENGTH = 4096
"""Tokens of a prompt in DeepSeek's profile-data, whose row has no length."""


def published_nodes(r: TableRow) -> Iterator[MeasuredRun]:
    """Nodes of eight chips that serve DeepSeek-V3 by expert parallelism: seconds of a step of the whole layout.

    EPn is dp=n, ep=n. Experts that n does not divide are n's with the copies that the source says it kept, and a row
    whose source says of none is left out.
    """
    chip, node = FLEET_NODES.get(r.text("gpu"), (None, None))
    fleet = next((f for start, f in FLEETS.items() if r.text("source").startswith(start)), None)
    if node is None:
        raise LeftOutError(NO_CHIP)
    degree = re.search(r"EP(\d+)", f"{r.text('layout')} {r.text('note')}")
    if fleet is None or degree is None:
        raise LeftOutError("ambiguous: the mean of a day in production, neither batch nor load are given")
    model, ranks, prefill = model_of_row("deepseek-ai/DeepSeek-V3"), int(degree[1]), r.text("phase") == "prefill"
    length = r.whole("in_len", PUBLISHED_LENGTH)
    each = fleet.prompts if prefill else fleet.answers
    if each is None:
        raise LeftOutError("ambiguous: neither the batch of a rank nor its tokens are given")
    sequences = max(1, each // length) if prefill else each
    layout = f"dp={ranks},ep={ranks},overlap" + (f",redundant={fleet.redundant}" if fleet.redundant else "")
    tokens = sequences * ranks * (length if prefill else 1)
    yield measured_run(
        quantity="prefill" if prefill else "decode", seconds=tokens / (r.number("tokens_per_s_per_node") * ranks / 8),
        model=model, on=f"{-(-ranks // 8)}x{node}", layout=layout, engine=fleet.engine, precision=fleet.precision,
        batch=sequences * ranks, input=length, system=chip_of_row(chip), slices=("all", r.text("phase")),
    )  # fmt: skip


ENERGY, NEBIUS = "serving_mlenergy.csv", "power_serving_nebius.csv"
PROMPTS: Mapping[str, int] = {
    "lm-arena-chat": 300, "text chat": 300, "gpqa": 300, "text code": 200, "sourcegraph-fim": 2000,
    "image-chat": 300, "video-chat": 5000,
}  # fmt: skip
"""Assumed tokens of ML.ENERGY's prompts, which no table tells: of a conversation a turn or two, at 70 a question and
215 an answer (LMSYS-Chat-1M, arXiv:2309.11998); of GPQA a question with four choices and what is asked
(arXiv:2311.12022); of code a function's head; of completions a file around the gap; of a video 32 frames."""
SEEN = Images(1, 1024, 1024)
"""Assumed image of ML.ENERGY's image chat: its source says one of VisionArena, not how large."""
BLOCKS = "weights=fp8-block"
QWEN, MAVERICK = "Qwen/Qwen3-235B-A22B", "meta-llama/Llama-4-Maverick-17B-128E-Instruct"
CHECKPOINTS: Mapping[str, tuple[str, str | None]] = {
    **{f"{QWEN}-{kind}-2507": (QWEN, None) for kind in ("Instruct", "Thinking")},
    **{f"{QWEN}-{kind}-2507-FP8": (QWEN, BLOCKS) for kind in ("Instruct", "Thinking")},
    "Qwen/Qwen3-VL-235B-A22B-Instruct-FP8": ("Qwen/Qwen3-VL-235B-A22B-Instruct", BLOCKS),
    "Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8": ("Qwen/Qwen3-Coder-480B-A35B-Instruct", BLOCKS),
    f"{MAVERICK}-FP8": (MAVERICK, "experts=fp8"),
    **{f"meta-llama/Meta-Llama-3.1-{n}B-Instruct": (f"meta-llama/Llama-3.1-{n}B-Instruct", None) for n in (8, 70)},
    **{f"codellama/CodeLlama-{n}b-hf": (f"meta-llama/Llama-2-{n}b-hf", None) for n in (7, 13, 70)},
}  # fmt: skip
"""Checkpoints that the catalog has under another name, and their formats."""
ENERGY_RELEASE = "0.5"
"""Assumed release of ML.ENERGY 2.0's vLLM: it runs Llama 3.1, which came with 0.5.3 (July 2024), and its leaderboard is
of September 2024, when 0.6 came out."""
ENERGY_CHIPS: Mapping[str, str] = {"A100-SXM4-40GB": "a100-sxm-40gb", "H100": "h100-sxm", "B200": "b200"}


DIFFERENT: Mapping[str, int] = {
    "lm-arena-chat": 1024, "gpqa": 198, "sourcegraph-fim": 1024, "image-chat": 1024, "video-chat": 512,
}  # fmt: skip
"""Task of ML.ENERGY 3.0 → its prompts that differ. The requests of a run are one, two or more rounds of the same ones
(`num_request_repeats` in sweeps.yaml of github.com/ml-energy/benchmark), and vLLM caches prefixes by default."""
HIT = 16
"""Tokens of a block of vLLM's cache: a prompt asked again is found up to the last whole block before its last token."""


def asked_again(r: TableRow) -> float | None:
    """Share of the prompts in the prefix cache, None where no prompt was asked twice.

    Figures are of the time in which all users are in flight: of the requests that begin in it, those after the first
    round are found.
    """
    if not r.text("num_requests"):
        return None
    requests, users = r.whole("num_requests"), r.whole("max_num_seqs")
    first, tokens = max(DIFFERENT[r.text("task")], users), PROMPTS[r.text("task")]
    if requests <= first:
        return None
    return (requests - first) / (requests - users) * ((tokens - 1) // HIT * HIT) / tokens


def energy_servers(r: TableRow) -> Iterator[MeasuredRun]:
    """ML.ENERGY 2.0 and 3.0: seconds of a generated token of vLLM with so many users in flight.

    The flags in the table are of configs that are later than the runs, and say asynchronous scheduling; the release's
    own default, without, is as measured where a step is short. Experts are spread over all boards of a replica.
    """
    if r.text("anomaly"):
        raise LeftOutError(f"ambiguous: {re.sub(r' *[=0-9.]+ *| *[(].*', ' ', r.text('anomaly')).strip()}")
    name, formats = CHECKPOINTS.get(r.text("model"), (r.text("model"), None))
    model, boards, replicas = model_of_row(name), r.whole("num_gpus"), r.whole("dp", 1)
    chip, kind = chip_of_row(ENERGY_CHIPS.get(r.text("gpu"))), "dense"
    layout = f"tp={boards // replicas},dp={replicas}"
    if model.active_parameters != model.parameters:
        kind, layout = "moe", f"{layout},ep={boards}" if boards > 1 else layout
    yield measured_run(
        quantity="served-token", seconds=1 / r.number("output_tokens_per_s"), model=model, on=several(chip, boards),
        layout=layout, engine=of_release("vllm", r.text("engine_version") or ENERGY_RELEASE), precision=formats,
        input=PROMPTS[r.text("task")], output=max(2, round(r.number("output_len_mean"))),
        images=SEEN if r.text("task") == "image-chat" else None,
        concurrency=r.whole("max_num_seqs"), prefix=asked_again(r), system=chip,
        slices=("all", kind, f"{kind},{r.text('task')}"),
    )  # fmt: skip


def nebius(r: TableRow) -> Iterator[MeasuredRun]:
    """DeepSeek-R1 by SGLang on eight H200: TPOT and TTFT of so many users, of lengths drawn from [0.8·L, L]."""
    chip, tp = chip_of_row("h200-sxm"), r.whole("tp")
    for what in ("tpot", "ttft"):
        yield measured_run(
            quantity=f"served-{what}", seconds=r.number(f"{what}_mean_ms") / 1e3, model=model_of_row(r.text("model")),
            on=several(chip, tp), layout=f"tp={tp}", engine=of_release("sglang", "0.5.12"),
            input=round(r.number("input_len_mean")), output=round(r.number("output_len_mean")),
            concurrency=r.whole("max_concurrency"), rounds=r.whole("num_requests") // r.whole("max_concurrency"),
            input_cv=EVENLY, output_cv=EVENLY, system=chip, slices=(what,),
        )  # fmt: skip


def pools(r: TableRow) -> Iterator[MeasuredRun]:
    """gpt-oss-120b by SGLang with workers that only prefill and workers that only decode: TPOT and TTFT.

    The engine is that of September 2025, the date of the page. Answers are as long as they were, not as was asked.
    """
    if r.text("completed") != r.text("num_requests"):
        raise LeftOutError("not every request was answered")
    if not r.text("num_chips"):
        raise LeftOutError("ambiguous: chips of a worker are not stated")
    chip, tp, users = chip_of_row("h200-sxm"), r.whole("tp_per_worker"), r.whole("max_concurrency")
    ahead, after = r.whole("prefill_workers"), r.whole("decode_workers")
    for what in ("tpot", "ttft"):
        yield measured_run(
            quantity=f"served-{what}", seconds=r.number(f"{what}_mean_ms") / 1e3,
            model=model_of_row(f"openai/{r.text('model')}"), on=several(chip, tp * (ahead + after)),
            layout=f"tp={tp}", prefill_layout=f"tp={tp}", prefills=ahead, decodes=after,
            engine=of_release("sglang", date="2025-09"), input=round(r.number("input_len_mean")),
            output=round(r.number("output_len_mean")), concurrency=users,
            system=chip, slices=(what, f"{what},{ahead}:{after}"),
        )  # fmt: skip


DSTACK, TPU = "serving_dstack.csv", "tpu_recipes.csv"
DSTACK_CHIPS: Mapping[str, str] = {"H100 SXM5": "h100-sxm", "MI300X": "mi300x"}
DSTACK_FORMATS: Mapping[str, str] = {"meta-llama": "ffn=fp8", "amd": "weights=fp8"}
"""Publisher of a checkpoint → its formats: Meta's leaves attention in bf16 (arXiv:2407.21783 §6.2), AMD's does not.
Neither run names a cache in fp8."""


def dstack(r: TableRow) -> Iterator[MeasuredRun]:
    """Llama-3.1-405B by vLLM of late 2024 on eight chips: a whole batch of equal requests, all sent at once."""
    if r.text("kind") != "static batch":
        raise LeftOutError("ambiguous: an overloaded server, whose queue never was in a steady state")
    chip, tp = chip_of_row(DSTACK_CHIPS.get(r.text("chip"))), r.whole("tp")
    engine = of_release("vllm", r.text("engine_version").partition(".post")[0].partition(".dev")[0])
    formats = DSTACK_FORMATS[r.text("checkpoint").partition("/")[0]]
    yield measured_run(
        quantity="latency", seconds=r.number("e2e_latency_s"), model=model_of_row(r.text("model")),
        on=several(chip, tp), layout=f"tp={tp}", precision=formats,
        engine=f"{engine}(eager=1)" if "--enforce-eager" in r.text("launch") else engine,
        batch=r.whole("batch_size"), input=r.whole("input_len"), output_tokens=r.whole("output_len"), system=chip,
        slices=("all",),
    )  # fmt: skip


TPU_CHIPS: Mapping[str, str] = {"TPU v5p": "tpu-v5p", "TPU v6e": "tpu-v6e", "TPU v7": "tpu-v7"}
DEVICES = {"tpu-v7": 2}
"""Chip → the devices that JAX sees of one, which recipes count; 1 of others."""


def tpu_servers(r: TableRow) -> Iterator[MeasuredRun]:
    """vLLM on TPUs: TPOT, or seconds of a generated token where the recipe has no more.

    Two devices of one chip are taken for one, so that tp = 2 on a chip of v7 is no parallelism. With data-parallel
    attention every device holds `max_num_seqs` sequences. Prompts and answers of v7 are drawn from [0.8·L, L].
    """
    if not r.text("output_tokens_per_s") or not r.text("output_len"):
        raise LeftOutError("no answers: a model that reads prompts alone")
    chip, chips = chip_of_row(TPU_CHIPS.get(r.text("chip"))), r.whole("num_chips")
    apart = "dp-attention" in r.text("parallelism")
    drawn = "[0.8 x, x]" in r.text("note") + r.text("anomaly")
    share, varied = (0.9, EVENLY) if drawn else (1.0, 0.0)
    places = r.whole("max_num_seqs") * (chips * DEVICES.get(chip, 1) if apart else 1)
    name = r.text("model").removesuffix("-FP8")
    model = model_of_row(name if known_model(name) else f"Qwen/{name}")
    fp8 = r.text("precision").startswith("fp8")
    eight = "fp8-block" if r.text("model").endswith("-FP8") else "fp8,activations=fp8"
    formats = f"weights={eight},kv=fp8" if fp8 else None
    most, budget = places // (chips if apart else 1), r.whole("max_num_batched_tokens")
    told = "tpot" if r.text("tpot_mean_ms") else "token"
    yield measured_run(
        quantity=f"served-{told}", model=model, on=several(chip, chips),
        seconds=r.number("tpot_mean_ms") / 1e3 if told == "tpot" else 1 / r.number("output_tokens_per_s"),
        layout=f"dp={chips},ep={chips}" if apart else f"tp={chips}", precision=formats,
        engine=f"vllm(max_num_seqs={most},max_num_batched_tokens={budget})",
        input=int(share * r.whole("input_len")), output_tokens=int(share * r.whole("output_len")),
        concurrency=min(r.whole("max_concurrency"), places), input_cv=varied, output_cv=varied, system=chip,
        slices=("serving", f"serving,{chip}"),
    )  # fmt: skip


READERS: Mapping[str, Reader] = {
    STATIC: static_batches, FASTER: faster_transformer, SERVING: servers, TRTLLM: trtllm_batches,
    PREFILLS: trtllm_prefills, GPT_FAST: gpt_fast, ROCM: rocm, RATES: rates, NEURON: neuron, LOCAL: local_machines,
    SATURATED: saturated, PUBLISHED: published_nodes, ENERGY: energy_servers, NEBIUS: nebius,
    POOLS: pools, DSTACK: dstack,
}  # fmt: skip
