"""Why rows of operator tables are not scored: repeated or corrected elsewhere, flagged, or nothing speaks of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from measured_ops import LYING, Case, known, read
from measured_other_ops import AITER, CALLED, FP32_CHIPS

SUPERSEDED = "superseded by section F, which corrects it"
REPEATED = "the very row of section A"
BROKEN = "a value is missing or is no number"
NO_CHIP = "no such chip in the catalog"
TOO_FAST = "faster than the speed of light: other work than the row says"
HOST = "timed from the host: its launch floor is no kernel's"

GEMM = ("dtype", "m", "n", "k")
HEADS = ("num_heads", "num_kv_heads", "head_dim", "window_size")
# Section A's table → the same of section F, and the columns that say that it is the same run.
SECTIONS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "gemm_bf16_aic.csv": ("gemm_engines_aic.csv", GEMM),
    "gemm_lowprec_aic.csv": ("gemm_engines_aic.csv", GEMM),
    "gemm_cross_software_aic.csv": ("gemm_engines_aic.csv", GEMM),
    "attention_prefill_aic.csv": (
        "attention_prefill_engines_aic.csv", ("attn_dtype", "kv_cache_dtype", "batch_size", "seq_len", *HEADS),
    ),
    "attention_decode_aic.csv": (
        "attention_decode_engines_aic.csv", ("attn_dtype", "kv_cache_dtype", "batch_size", "past_kv_len", *HEADS),
    ),
    "moe_aic.csv": (
        "moe_engines_aic.csv",
        ("kernel_source", "moe_dtype", "distribution", "num_tokens", "hidden_size", "inter_size", "topk",
         "num_experts", "moe_tp_size", "moe_ep_size"),
    ),
    "mla_aic.csv": (
        "mla_engines_aic.csv", ("table", "mla_dtype", "kv_cache_dtype", "num_heads", "batch_size", "isl", "step"),
    ),
    "elementwise_quant_aic.csv": ("quantize_engines_aic.csv", ("op_name", "m", "k")),
    "gdn_linear_attention_aic.csv": (
        "linear_attention_engines_aic.csv",
        ("kernel_source", "phase", "batch_size", "seq_len", "num_k_heads", "num_v_heads", "d_model"),
    ),
    "allreduce_custom_aic.csv": ("allreduce_custom_engines_aic.csv", ("kernel_source", "num_gpus", "bytes")),
    "collectives_nccl_aic.csv": ("collectives_engines_aic.csv", ("op", "num_gpus", "bytes")),
}  # fmt: skip
SAME = 1e-4
"""Section F rounds to six digits: two times further apart than that are of two runs."""


@dataclass(frozen=True)
class Sections:
    """File → rows of it that another section repeats or corrects."""

    repeated: Mapping[str, NDArray[np.int64]]
    superseded: Mapping[str, NDArray[np.int64]]


def rows_of(cases: Iterable[Case], apart: Sections) -> dict[str, NDArray[np.int64]]:
    """The rows of each file that are in cases or repeat another section's."""
    rows = defaultdict(list, {file: [numbers] for file, numbers in apart.repeated.items()})
    for case in cases:
        rows[case.file].append(case.row)
    return {file: np.unique(np.concatenate(numbers)) for file, numbers in rows.items()}


def sections(folder: Path) -> Sections:
    """What sections A and F say of the same runs."""
    repeated: dict[str, list[NDArray[np.int64]]] = {}
    superseded: dict[str, list[NDArray[np.int64]]] = {}
    for old, (new, names) in SECTIONS.items():
        ours, theirs = _run(read(folder, old)), _run(read(folder, new))
        keys = ["system", "software", *names]
        if not all(set(keys) <= set(f.columns) for f in (ours, theirs)):
            continue
        ours, theirs = (f.with_columns(pl.col(k).cast(pl.String) for k in keys) for f in (ours, theirs))
        pairs = ours.join(theirs.select(*keys, newer="row", after="latency_ms"), on=keys, nulls_equal=True)
        same = ((pl.col("after") / pl.col("latency_ms")) - 1).abs() < SAME
        known_again = pairs.filter(same)
        changed = pairs.filter(~same).join(known_again.select("row"), on="row", how="anti")
        repeated.setdefault(new, []).append(known_again["newer"].to_numpy().astype(np.int64))
        superseded.setdefault(old, []).append(changed["row"].to_numpy().astype(np.int64))
        superseded[old].append(_packed(ours))
    return Sections(*({f: np.unique(np.concatenate(rows)) for f, rows in t.items()} for t in (repeated, superseded)))


def _run(frame: pl.DataFrame) -> pl.DataFrame:
    """With the software as both sections could call it: `sglang 0.5.14`."""
    if not frame.height or "latency_ms" not in frame.columns:
        return pl.DataFrame()
    if "backend" in frame.columns:
        return frame.with_columns(software=pl.col("backend") + " " + pl.col("version"))
    first = pl.col("software").str.replace("_", " ")
    return frame.with_columns(software=first.str.replace_all("_", "."))


def _packed(frame: pl.DataFrame) -> NDArray[np.int64]:
    """Rows of section A whose kernel packed its scales within the time, which F measured again (README F, trap 2)."""
    if "dtype" not in frame.columns:
        return np.array([], dtype=np.int64)
    packed = (pl.col("software") == "sglang 0.5.14") & (pl.col("dtype") == "fp8_block")
    return frame.filter(packed)["row"].to_numpy().astype(np.int64)


def says(column: str, *words: str) -> pl.Expr:
    """Rows whose column has one of these words."""
    return pl.col(column).cast(pl.String).str.contains("|".join(words))


Why = tuple[str, pl.Expr]
FLAGGED = says("flag", *LYING.split("|")).fill_null(False)
MODULES = "no reader: an attention block in formats that have no name, or of a layer alone of DeepSeek-V4"
# File → reasons in order: the first that is true of a row holds. A last one without a condition holds of the others.
REASONS: Mapping[str, tuple[Why, ...]] = {
    "gemm_engines_aic.csv": ((HOST, pl.col("graph") == 0),),
    "mla_engines_aic.csv": (
        (HOST, pl.col("graph") == 0), ("no such model in the catalog: MiniMax-M3", says("table", "^msa_")),
        ("no such model in the catalog: GLM-5.2, whose layers share an indexer", says("model", r"GLM-5\.2")),
        (MODULES, says("table", "_module$")),
        ("no law: the wide-EP attention of one engine", says("table", "^wideep_")),
    ),
    "mla_aic.csv": ((MODULES, says("table", "_module$")),),
    "moe_aic.csv": (
        ("not the kernel that the engine chooses on that chip", says("moe_dtype", "^w4a16_mxfp4$")),
    ),
    "moe_engines_aic.csv": (
        ("flagged: not the op it names, or its kernel was not tuned", FLAGGED),
        ("flagged: min_latency kernels, whose routing is forced", says("kernel_source", "min_latency")),
        ("not the kernel that the engine runs first on that chip", pl.lit(True)),
    ),
    "attention_prefill_aic.csv": (
        ("silently another kernel: 16-bit attention on an fp8 cache is fp8 on TensorRT-LLM",
         says("software", "^trtllm") & (pl.col("attn_dtype") != pl.col("kv_cache_dtype"))),
    ),
    "attention_prefill_engines_aic.csv": (
        ("silently another kernel: 16-bit attention on an fp8 cache is fp8 on TensorRT-LLM",
         says("backend", "^trtllm") & (pl.col("attn_dtype") != pl.col("kv_cache_dtype"))),
    ),
    "gdn_linear_attention_aic.csv": (
        ("up to four times the bandwidth of the chip: not the op that it names", pl.col("system") == "a100_sxm"),
    ),
    "linear_attention_engines_aic.csv": (
        ("up to four times the bandwidth of the chip: not the op that it names", pl.col("system") == "a100_sxm"),
        ("no law: a Mamba-2 convolution alone", pl.col("table") == "mamba2"),
    ),
    "quantize_engines_aic.csv": (("a difference of two kernels' times, and no op", says("kernel_source", "_minus_")),),
    "moe_wideep_aic.csv": (
        ("no law: experts and their exchange in one kernel", says("table", "megamoe")),
        ("ambiguous: the load of the most loaded of several ranks is not given", pl.col("distribution") != "balanced"),
    ),
    "gemm_fp8_deepgemm_h800.csv": (("no law: grouped products apart from their layer", pl.col("num_groups") != 1),),
    "ops_fp32_neusight.csv": (
        ("no law: batched products whose both sides are activations", pl.col("op") == "bmm"), (HOST, CALLED),
    ),
    "elementwise_llmcompass.csv": ((HOST, pl.col("hardware") == "MI210"),),
    "layer_ops_vidur.csv": (
        (NO_CHIP, ~pl.col("gpu").is_in(["a100", "h100", "a40"])),
        ("no law: an op whose bytes the table does not give", pl.lit(True)),
    ),
    "layer_ops_llmservingsim.csv": (
        ("no law: sampling, or a layer whose bytes the table does not give", pl.lit(True)),
    ),
    "attention_llmservingsim.csv": (
        ("no law: prompts and generations in one kernel", (pl.col("prefill_chunk") > 0) & (pl.col("n_decode") > 0)),
        ("no law: nothing was run", pl.lit(True)),
    ),
    "collectives_vidur.csv": (
        ("another machine's numbers: repeats the H100 pairs'",
         (pl.col("node") == "a100_pairwise_nvlink") & (pl.col("op") == "send_recv")),
        ("ambiguous: between two machines whose network is not told",
         pl.col("node").str.ends_with("pairwise_nvlink") & (pl.col("num_workers") > pl.col("devices_per_node"))),
    ),
    "deepep_low_latency_aic.csv": (
        ("another machine's numbers: the H200 rows of that release repeat the H100's",
         (pl.col("system") == "h200_sxm") & says("software", "0.5.6.post2")),
    ),
    "moe_alltoall_engines_aic.csv": (
        ("timed from the host: a layer's preparation and launches are in it", says("op", "^moe_a2a$")),
        ("the very kernel of deepep_low_latency_aic.csv", says("op", "^deepep_ll$")),
        ("not the kernel that the engine chooses in a rack", says("comm_backend", "^NVLinkTwoSided$")),
        ("another share of multiprocessors than DeepEP's, or eight nodes that wait", pl.lit(True)),
    ),
    "ep_alltoall_deepep.csv": (
        ("ambiguous: its bandwidths exceed the link's; what is counted is not said", pl.lit(True)),
    ),
    "elementwise_quant_aic.csv": ((BROKEN, ~(pl.col("latency_ms") > 0)),),
}  # fmt: skip
# Files of which no row can be scored, and why.
WHOLE_FILES: Mapping[str, str] = {
    "hardware_peaks_used.csv": "no measurement: data-sheet figures",
    "e2e_fp32_neusight.csv": "no engine runs so: eager attention in 32 bits (ops_fp32_neusight has its kernels)",
    "training_maxtext_tpu.csv": "ambiguous: a model by its size alone, neither batch nor recomputation given",
    "rl_nemo.csv": "no model of a step of reinforcement learning: rollout, scoring, training in one figure",
}
OTHERS = (
    "allreduce_custom_engines_aic.csv", "allreduce_llmcompass.csv", "attention_encoder_engines_aic.csv",
    "attention_infersim.csv", "collectives_engines_aic.csv", "gemm_amd_aiter.csv",
    "gemm_fp8_infersim.csv", "gemm_llmcompass.csv", "grouped_gemm_fp8_infersim.csv", "moe_amd_aiter.csv",
)  # fmt: skip
KNOWN = frozenset((*REASONS, *SECTIONS, *OTHERS))
"""The tables of operators that something reads."""
CHIP_COLUMNS = ("system", "gpu", "hardware")
ALIASES = {**AITER, **FP32_CHIPS, "RTXPRO6000": "rtx_pro_6000_server", "RTX4090": "rtx_4090", "a100": "a100_sxm",
           "h100": "h100_sxm", "A100": "a100_sxm"}  # fmt: skip


def reasons(frame: pl.DataFrame, file: str) -> list[str]:
    """Of each row of a table why it would not be scored."""
    texts = [""] * frame.height
    for why, condition in REASONS.get(file, ()):
        try:
            holds = frame.select(condition.fill_null(False).alias("holds"))["holds"].to_list()
        except (pl.exceptions.PolarsError, TypeError):
            continue  # a column is not there, or is of words
        holds = holds * frame.height if len(holds) == 1 else holds
        texts = [t or (why if h else "") for t, h in zip(texts, holds, strict=True)]
    column = next((c for c in CHIP_COLUMNS if c in frame.columns), None)
    chips = frame[column].cast(pl.String).to_list() if column else [""] * frame.height
    missing = {c for c in set(chips) if column and not known(ALIASES.get(str(c), str(c)))}
    return [NO_CHIP if chip in missing else text or BROKEN for chip, text in zip(chips, texts, strict=True)]
