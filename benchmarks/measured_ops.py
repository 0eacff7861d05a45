"""Measured rows as calls of the laws: which file holds which op, on which chip, in which dtype, of which shape."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from hashlib import blake2b
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from drawn_loads import loads_of
from roofline.declared.errors import InputError
from roofline.hardware.named_chip import chip_named
from roofline.kernels import constants
from roofline.kernels import law as laws
from roofline.kernels.law import Roof
from roofline.kernels.target import roof_of

Column = NDArray[np.float64]
Args = dict[str, Column]

# The format whose peak a dtype of the tables is held against.
PEAK = {
    "bf16": "bf16",
    "bf16_triton": "bf16",
    "fp8": "fp8",
    "fp8_block": "fp8",
    "nvfp4": "fp4",
    "int8_wo": "bf16",
    "int4_wo": "bf16",
    "sq": "int8",
    "w4a16_mxfp4": "bf16",
    "w4a8_mxfp4_mxfp8": "fp8",
    "mxfp4": "fp4",
    "fp32": "fp32",
}
BLOCK8 = (1 + 4 / 128, 1 + 4 / 128**2)
# bytes per element of activations and weights, and of the pass that quantises the activations
BYTES = {
    "bf16": (2, 2, 0),
    "fp8": (1, 1, 5),
    "fp8_block": (*BLOCK8, 3 + 4 / 128),
    "nvfp4": (0.5625, 0.5625, 2.5625),
    "int8_wo": (2, 1, 0),
    "int4_wo": (2, 0.5, 0),
    "sq": (1, 1, 0),
    "w4a16_mxfp4": (2, 0.53125, 0),
    "w4a8_mxfp4_mxfp8": (1.03125, 0.53125, 0),
    "mxfp4": (0.53125, 0.53125, 2.53125),
}
NAMES = {"bfloat16": "bf16", "float16": "bf16"}


def known(system: str) -> bool:
    """Whether the catalog has the chip under this name."""
    try:
        chip_named(system)
    except InputError:
        return False
    return True


def chip(system: str, dtype: str) -> Roof:
    """The roof of a catalog chip for a dtype of the tables; 16 bits where it has no such peak."""
    known_chip = chip_named(system)
    fmt, peaks = PEAK[dtype.partition("_kv_")[0]], known_chip.peaks
    return roof_of(known_chip, next(f for f in (fmt, "bf16", "fp16", *peaks) if f in peaks))


def last_level(system: str) -> float:
    """Bytes of the last-level cache."""
    return (chip_named(system).cache or 1.0) if known(system) else 1.0


def other_sort(c: Case) -> NDArray[np.bool_]:
    """Of a case's rows, those of the other sort by SORTS."""
    if c.kind == "experts":
        return np.asarray(c.args["remote"] > 0)
    if c.kind == "decode":
        return np.asarray(c.footprint > last_level(c.system))
    return np.asarray(c.args["new"] >= constants.FEW if c.kind == "prefill" else np.zeros(len(c.seconds), dtype=bool))


def generation(system: str) -> str:
    """The chip's generation."""
    return chip_named(system).generation


def stacked(chips: list[Roof], counts: list[int]) -> Roof:
    """One chip record whose fields are columns: chips[i] repeated counts[i] times."""
    return Roof(*(np.repeat([float(getattr(c, f.name)) for c in chips], counts) for f in fields(Roof)))


@dataclass(frozen=True)
class Case:
    """Rows of one file that share chip, dtype, kind and software.

    shape: the hold-out fold of each row's shape. row: its number in the file.
    """

    file: str
    system: str
    dtype: str
    kind: str
    software: str
    args: Args
    seconds: Column
    flops: Column
    size: Column
    footprint: Column
    shape: NDArray[np.int64]
    row: NDArray[np.int64]
    slices: dict[str, NDArray[np.bool_]]

    def take(self, keep: NDArray[np.bool_]) -> Case:
        """Some of the rows."""
        columns = {n: getattr(self, n)[keep] for n in ("seconds", "flops", "size", "footprint", "shape", "row")}
        args = {name: values[keep] for name, values in self.args.items()}
        return replace(self, args=args, slices={k: v[keep] for k, v in self.slices.items()}, **columns)


Source = tuple[str, str, str]
"""File, chip and software."""


@dataclass(frozen=True)
class Shapes:
    """Of each row the hold-out fold of its shape, and its number in the file."""

    fold: NDArray[np.int64]
    row: NDArray[np.int64]

    def take(self, keep: NDArray[np.bool_]) -> Shapes:
        """Those of some rows."""
        return Shapes(self.fold[keep], self.row[keep])


def case(
    source: Source, dtype: str, kind: str, args: Args, seconds: Column, flops: Column, size: Column, shape: Shapes,
    footprint: Column | None = None, slices: dict[str, NDArray[np.bool_]] | None = None,
) -> Case:  # fmt: skip
    """Rows alike, their footprint the bytes of the floor and all of them in one slice where not said otherwise."""
    file, system, software = source
    reused = size if footprint is None else footprint
    every = {"all": np.ones(seconds.shape, dtype=bool)} if slices is None else slices
    whole = Case(file, system, dtype, kind, software, args, seconds, flops, size, reused, shape.fold, shape.row, every)
    known_values = (*args.values(), flops, size, reused)
    keep = np.logical_and.reduce([np.isfinite(np.broadcast_to(v, seconds.shape)) for v in known_values])
    keep &= np.isfinite(seconds) & (seconds > 0)
    return whole if keep.all() else whole.take(keep)


def product(
    source: Source, m: Column, n: laws.Number, k: laws.Number, seconds: Column, shape: Shapes, beyond: float = 0.0
) -> Case:
    """A product in 16 bits; `beyond`: bytes that are read between two runs of it."""
    one = np.ones_like(m)
    size = 2 * (m * k + n * k + m * n)
    args = {"m": m, "n": n * one, "k": k * one, "x": 2 * one, "w": 2 * one, "y": 2 * one}
    return case(source, "bf16", "matmul", args, seconds, 2 * m * n * k, size, shape, size + beyond)


def stream(source: Source, op: str, size: Column, seconds: Column, shape: Shapes, least: Column | None = None) -> Case:
    """An op that moves `size` bytes and computes next to nothing; `least`: those of the floor."""
    floor = size if least is None else least
    return case(source, "bf16", f"stream.{op}", {"size": size}, seconds, 0 * size, floor, shape, size)


LAWS: dict[str, Callable[..., laws.Number]] = {
    "matmul": laws.matmul_seconds,
    "quantised_matmul": laws.quantised_matmul_seconds,
    "prefill": laws.prefill_seconds,
    "decode": laws.decode_seconds,
    "latent_prefill": laws.prefill_seconds,
    "latent_decode": laws.latent_decode,
    "experts": laws.experts_seconds,
    "stream": laws.stream,
    "scan": laws.scan,
}


def folds(frame: pl.DataFrame, names: list[str], count: int = 5) -> NDArray[np.int64]:
    """Fold of each row by a hash of its shape, the same everywhere and always."""
    rows = frame.select(names).rows()
    return np.array([int.from_bytes(blake2b(repr(r).encode(), digest_size=4).digest(), "big") % count for r in rows])


def shapes(frame: pl.DataFrame, names: list[str]) -> Shapes:
    """The folds of the rows by those columns, and their numbers."""
    return Shapes(folds(frame, names), frame["row"].to_numpy().astype(np.int64))


def column(frame: pl.DataFrame, name: str) -> Column:
    return frame[name].cast(pl.Float64, strict=False).to_numpy()


def family(name: str) -> str:
    return name.replace("_", " ").split()[0]


def read(folder: Path, name: str) -> pl.DataFrame:
    """A table with its rows numbered; a cell that is no number in a column of numbers is null."""
    path = folder / name
    if not path.exists() or not path.stat().st_size:
        return pl.DataFrame()
    text = pl.read_csv(path, infer_schema=False, truncate_ragged_lines=True)
    return text.with_columns(numeric(text[c]) for c in text.columns if c not in WORDS).with_row_index("row")


WORDS = frozenset(
    """system software backend version kernel_source dtype attn_dtype kv_cache_dtype moe_dtype mla_dtype gemm_type quant
    out_dtype act_dtype weight_dtype kv_dtype quant_dtype distribution flag table phase kind op op_name gpu hardware
    model model_name node layer dims software_name comm_backend path""".split()
)
"""Columns of words, even where they look like numbers."""


def numeric(values: pl.Series) -> pl.Series:
    """A column of numbers where most of its cells are: of `1933 (1858)` the first, thousands set off with commas."""
    said = values.drop_nulls()
    bare = values.str.strip_chars().str.replace(r" \(.*\)$", "").str.replace_all(r"(\d),(\d{3})", "$1$2")
    numbers = bare.cast(pl.Float64, strict=False)
    numbers = numbers.set(~numbers.is_finite(), None)
    if not len(said) or numbers.drop_nulls().len() < 0.5 * len(said):
        return values
    whole = said.str.contains(r"^\s*[+-]?[\d,]+(\s*\(.*\))?\s*$") | numbers.filter(values.is_not_null()).is_null()
    return numbers.cast(pl.Int64, strict=False) if whole.all() else numbers


def parts(frame: pl.DataFrame, keys: list[str]) -> Iterator[tuple[tuple[str, ...], pl.DataFrame]]:
    """The frame by distinct values of `keys`, in sorted order."""
    if frame.height:
        for key, part in sorted(frame.partition_by(keys, as_dict=True).items(), key=lambda item: str(item[0])):
            yield tuple(str(k) for k in key), part


Done = Mapping[str, NDArray[np.int64]]
"""File → the rows of it that are read already."""


FEWEST = 40
"""Rows of an older table below which the newer one's are fitted too: a few tell little of a kernel."""
APART = "apart"
"""Column of attention's rows: the software of their kernel where it is not the engine's usual one, or nothing."""
FA4, FA4_APART = "fa4", ("h100_sxm", "h200_sxm")
"""FlashAttention 4, which vLLM runs on Hopper for heads of 512 alone, the other kernels' most being 256."""


def by_engine(folder: Path, old: str, new: str, keys: list[str], done: Done | None = None) -> pl.DataFrame:
    """The rows of an older table, and those of the newer table by engine of what the older one has few of by `keys`.

    With `done` the other rows of the newer table. What was timed from the host is left out: its launch floor is no
    engine's. `file`: whose row it is.
    """
    frames = [_named_apart(read(folder, file)) for file in (old, new)]
    if frames[0].height:
        frames[0] = frames[0].with_columns(backend=pl.col("software").str.split(" ").list.first(), file=pl.lit(old))
    if frames[1].height:
        frames[1] = frames[1].with_columns(software=pl.col("backend") + " " + pl.col("version"), file=pl.lit(new))
        if "graph" in frames[1].columns:
            frames[1] = frames[1].filter(pl.col("graph") == 1)
        if done is not None:
            return without(frames[1], done.get(new))
        if frames[0].height:
            many = frames[0].group_by(keys).len().filter(pl.col("len") >= FEWEST)
            frames[1] = frames[1].join(many.select(keys), on=keys, how="anti")
    present = [f for f in frames if f.height] if done is None else []
    return pl.concat(present, how="diagonal_relaxed") if present else pl.DataFrame()


def _named_apart(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with the column APART, where it names kernels of attention."""
    if "kernel_source" not in frame.columns or "head_dim" not in frame.columns:
        return frame
    kernel = pl.col("kernel_source")
    fa4 = kernel.str.ends_with(FA4) & pl.col("system").is_in(FA4_APART)
    named = pl.when(fa4).then(pl.lit(FA4)).when(kernel.str.contains("triton")).then(pl.lit("triton"))
    return frame.with_columns(named.otherwise(pl.lit("")).alias(APART))


def without(frame: pl.DataFrame, rows: NDArray[np.int64] | None) -> pl.DataFrame:
    """The frame without rows of some numbers."""
    return frame if rows is None else frame.filter(~pl.col("row").is_in(pl.Series(rows, dtype=pl.UInt32).implode()))


def gemm(folder: Path, file: str, newer: str = "", done: Done | None = None) -> Iterator[Case]:
    frame = by_engine(folder, file, newer, ["system", "backend", "dtype"], done) if newer else read(folder, file)
    if frame.height:
        frame = frame.filter(pl.col("latency_ms") > 0)
        if newer and done is None:
            frame = frame.filter(pl.col("dtype") != "bfloat16")
    for (system, software, name), part in parts(frame, ["system", "software", "dtype"]):
        dtype = NAMES.get(name, name)
        if dtype not in BYTES:
            continue
        m, n, k = (column(part, c) for c in "mnk")
        x, w, q = BYTES[dtype]
        weights = w * n * k
        copies = np.minimum(5, np.ceil(last_level(system) / weights))
        args = {
            "m": m, "n": n, "k": k, "x": np.full_like(m, x), "w": np.full_like(m, w), "y": np.full_like(m, 2.0),
            "cycle": copies * weights,
        }  # fmt: skip
        kind = "matmul"
        if dtype != "bf16":
            rows_apart = dtype == "fp8" and family(software) != "trtllm"  # one pass by token instead of two by tensor
            kind, args["quantise"] = "quantised_matmul", np.full_like(m, 3.0 if rows_apart else q)
        size = x * m * k + weights + 2 * m * n
        big = (n >= 256) & (k >= 256)
        source = part["file"][0] if newer else file
        yield case(
            (source, system, family(software)), dtype, kind, args, column(part, "latency_ms") / 1e3, 2 * m * n * k,
            size, shapes(part, ["n", "k"]), footprint=args["cycle"] + size - weights,
            slices={"n,k>=256": big, "all": big | True},
        )  # fmt: skip


def attention_prefill(folder: Path, done: Done | None = None) -> Iterator[Case]:
    keys = ["system", "backend", "attn_dtype", "kv_cache_dtype", APART]
    frame = by_engine(folder, "attention_prefill_aic.csv", "attention_prefill_engines_aic.csv", keys, done)
    for (file, system, software, q8, kv8, kernel, apart), part in parts(
        frame, ["file", "system", "software", "attn_dtype", "kv_cache_dtype", "kernel_source", APART]
    ):
        soft = family(software)
        if soft == "trtllm" and q8 != kv8:
            continue  # silently an fp8 kernel
        dtype = "fp8" if q8 == "fp8" else "bf16"
        if kernel == "triton" or apart == FA4:
            soft = apart
        elif kernel == "vllm_triton_attn":  # which vLLM runs where a mask has sinks, and no other kernel of it has them
            dtype += "_triton"
        b, s, h, kv, d, w = (
            column(part, c) for c in ("batch_size", "seq_len", "num_heads", "num_kv_heads", "head_dim", "window_size")
        )
        skipped = np.zeros_like(w) if soft == "triton" or system == "b60" else w  # kernels that compute every pair
        two = np.full_like(b, 2.0)
        args = {
            "batch": b, "new": s, "cached": 0 * s, "heads": h, "kv_heads": kv, "key": d, "value": d,
            "window": skipped, "q": two, "kv": two,
        }  # fmt: skip
        bytes_ = 1.0 if dtype.startswith("fp8") else 2.0
        size = b * s * d * 2 * (h + kv) * bytes_
        large = b * s >= 4096
        yield case(
            (file, system, soft), dtype, "prefill", args, column(part, "latency_ms") / 1e3,
            4 * b * h * d * laws.causal_pairs(s, 0 * s, w), size,
            shapes(part, ["batch_size", "seq_len", "num_heads"]), footprint=2 * size / bytes_,
            slices={"b*s>=4096": large, "all": large | True},
        )  # fmt: skip


def attention_decode(folder: Path, done: Done | None = None) -> Iterator[Case]:
    keys = ["system", "backend", "kv_cache_dtype", APART]
    frame = by_engine(folder, "attention_decode_aic.csv", "attention_decode_engines_aic.csv", keys, done)
    for (file, system, software, cache, hand), part in parts(
        frame, ["file", "system", "software", "kv_cache_dtype", APART]
    ):
        b, p, h, kv, d, w = (
            column(part, c)
            for c in ("batch_size", "past_kv_len", "num_heads", "num_kv_heads", "head_dim", "window_size")
        )
        bytes_ = np.full_like(b, 1.0 if cache == "fp8" else 2.0)
        args = {"batch": b, "length": p + 1, "heads": h, "kv_heads": kv, "head": d, "window": w, "kv": bytes_}
        span = np.where(w > 0, np.minimum(p + 1, w), p + 1)
        cached_bytes = 2 * b * span * kv * d * bytes_
        far = cached_bytes > last_level(system)
        yield case(
            (file, system, hand or family(software)), "fp8" if cache == "fp8" else "bf16",
            "decode", args, column(part, "latency_ms") / 1e3, 4 * b * span * h * d, cached_bytes + 4 * b * h * d,
            shapes(part, ["batch_size", "past_kv_len", "num_heads"]), footprint=cached_bytes,
            slices={"KV>L2": far, "all": far | True},
        )  # fmt: skip


LYING = "grouped|rank0|untuned|nofinal"
"""Flags of rows that are not the op they name, or whose kernel was not tuned."""


def first_choice(frame: pl.DataFrame) -> pl.DataFrame:
    """The rows of the kernel that an engine runs first, of those timed on a chip in a dtype.

    On data-centre Blackwell vLLM and SGLang take the TensorRT-LLM kernels where these support the format; a marlin
    kernel stands in for one model whose activation the others lack.
    """
    kernel = pl.col("kernel_source")
    blackwell = pl.col("system").is_in(["b200_sxm", "gb200", "b300_sxm", "gb300"]) & (pl.col("backend") != "trtllm")
    here = ["system", "backend", "moe_dtype"]
    theirs = kernel.str.contains("trtllm").any().over(here)
    alone = kernel.str.contains("marlin").all().over(here)
    other = kernel.str.contains("marlin") & ~alone
    return frame.filter(~(blackwell & theirs & ~kernel.str.contains("trtllm")) & ~other)


def experts_frame(folder: Path, done: Done | None = None) -> pl.DataFrame:
    """The rows of both tables of experts; the newer table's of a chip, engine and dtype where the older has none.

    With `done` the other rows of the newer table that are the op they name. TensorRT-LLM's 16-bit activations beside
    mxfp4 are no kernel that it chooses on Blackwell: left out.
    """
    old, new = read(folder, "moe_aic.csv"), read(folder, "moe_engines_aic.csv")
    keys = ["system", "backend", "moe_dtype"]
    parts_ = []
    if old.height:
        parts_.append(
            old.with_columns(
                backend=pl.col("software").str.split(" ").list.first(),
                gated=1 - pl.col("kernel_source").str.contains("nongated").cast(pl.Int64),
                file=pl.lit("moe_aic.csv"),
            ).filter(~((pl.col("moe_dtype") == "w4a16_mxfp4") & pl.col("system").is_in(["b200_sxm", "gb200"])))
        )
    if new.height:
        sound = new.filter(
            ~pl.col("flag").fill_null("").str.contains(LYING) & ~pl.col("kernel_source").str.contains("min_latency")
        )
        wide = pl.col("flag").fill_null("").str.contains("bf16w")  # multiplied as 16-bit weights
        extra = first_choice(sound).with_columns(
            file=pl.lit("moe_engines_aic.csv"),
            moe_dtype=pl.when(wide).then(pl.lit("bfloat16")).otherwise(pl.col("moe_dtype")),
        )
        if done is not None:
            return without(extra, done.get("moe_engines_aic.csv"))
        parts_.append(extra.join(parts_[0].select(keys).unique(), on=keys, how="anti") if parts_ else extra)
    present = [p for p in parts_ if p.height] if done is None else []
    return pl.concat(present, how="diagonal_relaxed") if present else pl.DataFrame()


MOST_EXPERTS = 2**16
HEAPED = ("b60",)
"""Chips whose collector is of a time when it gave the most popular experts what was left over."""
EXPERTS = ["num_tokens", "hidden_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size", "inter_size"]


def moe(folder: Path, done: Done | None = None) -> Iterator[Case]:
    frame = experts_frame(folder, done)
    if frame.height:
        sizes = pl.all_horizontal(pl.col(c).is_not_null() & (pl.col(c) > 0) for c in EXPERTS)
        sound = (pl.col("topk") <= pl.col("num_experts")) & (pl.col("num_experts") <= MOST_EXPERTS)
        loads = pl.col("distribution").str.contains(r"^(balanced|power_law_\d+(\.\d+)?)$")
        frame = frame.filter((pl.col("latency_ms") > 0) & sizes & sound & loads)
    yield from expert_cases(frame)


def expert_cases(frame: pl.DataFrame) -> Iterator[Case]:
    """Rows of experts as calls of their law."""
    for (file, system, software, name), part in parts(frame, ["file", "system", "backend", "moe_dtype"]):
        dtype = NAMES.get(name, name)
        if dtype not in BYTES:
            continue
        t, hidden, k, e, tp, ep = (
            column(part, c) for c in ("num_tokens", "hidden_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size")
        )
        inner = column(part, "inter_size") / tp
        even = (part["distribution"] == "balanced").to_numpy()
        whole = (a.astype(int).tolist() for a in (t, k, e, ep))
        touched, rows = loads_of(zip(part["distribution"], *whole, strict=True), heaped=system in HEAPED)
        rows, touched = np.maximum(rows, 1), np.maximum(touched, 1)
        x, w, _ = BYTES[dtype]
        gated = column(part, "gated")
        weights = touched * (2 + gated) * hidden * inner * w
        remote = np.where(ep > 1, np.maximum(t * k - rows, 1.0), 0.0)
        args = {
            "tokens": t, "rows": rows, "touched": touched, "hidden": hidden, "inner": inner, "gated": gated,
            "x": np.full_like(t, x), "w": np.full_like(t, w), "cycle": weights, "even": even.astype(float),
            "remote": remote,
        }  # fmt: skip
        yield case(
            (file, system, software), dtype, "experts", args, column(part, "latency_ms") / 1e3,
            2 * rows * (2 + gated) * hidden * inner, weights + 4 * t * hidden,
            shapes(part, ["hidden_size", "inter_size", "num_experts", "topk"]), footprint=weights,
            slices={"all": even | True, "one rank": ep == 1},
        )  # fmt: skip


def mla(folder: Path, done: Done | None = None) -> Iterator[Case]:
    frame = by_engine(folder, "mla_aic.csv", "mla_engines_aic.csv", ["system", "backend"], done)
    if frame.height:
        frame = frame.filter(pl.col("table").is_in(["context_mla", "generation_mla"]))
    for (file, system, software, table, cache), part in parts(
        frame, ["file", "system", "software", "table", "kv_cache_dtype"]
    ):
        b, s, p, h = (column(part, c) for c in ("batch_size", "isl", "step", "num_heads"))
        bytes_ = np.full_like(b, 1.0 if cache == "fp8" else 2.0)
        dtype = "fp8" if cache == "fp8" else "bf16"
        measured, soft = column(part, "latency_ms") / 1e3, family(software)
        if table == "context_mla":
            two = np.full_like(b, 2.0)
            args = {
                "batch": b, "new": s, "cached": 0 * s, "heads": h, "kv_heads": h, "key": 0 * s + 192,
                "value": 0 * s + 128, "window": 0 * s, "q": two, "kv": two,
            }  # fmt: skip
            # the cache dtype may make the products fp8 too: peak of fp8 on the floor, of bf16 in the law
            flops = 2 * b * h * 320 * laws.causal_pairs(s, 0 * s, 0 * s) * (0.5 if cache == "fp8" else 1.0)
            size = b * s * h * 640 * bytes_
            yield case(
                (file, system, soft), f"bf16_kv_{dtype}", "latent_prefill", args, measured, flops, size,
                shapes(part, ["batch_size", "isl", "num_heads"]),
            )  # fmt: skip
        elif table == "generation_mla":
            args = {"batch": b, "length": p + 1, "heads": h, "rank": 0 * b + 512, "rope": 0 * b + 64, "kv": bytes_}
            size = b * (p + 1) * 576 * bytes_
            flops = 2 * b * (p + 1) * h * 1088 * (0.5 if cache == "fp8" else 1.0)
            yield case(
                (file, system, soft), f"bf16_kv_{dtype}", "latent_decode", args, measured, flops, size,
                shapes(part, ["batch_size", "step", "num_heads"]),
            )  # fmt: skip


def quantise(folder: Path) -> Iterator[Case]:
    file = "elementwise_quant_aic.csv"
    frame = read(folder, file)
    if frame.height:
        frame = frame.filter(pl.col("latency_ms") > 0)
    for (system, software, op), part in parts(frame, ["system", "software", "op_name"]):
        m, k = column(part, "m"), column(part, "k")
        size = m * k * (3.0 if op == "scale_matrix" else 2.0)
        yield stream(
            (file, system, family(software)), op, size, column(part, "latency_ms") / 1e3, shapes(part, ["m", "k"]),
        )  # fmt: skip


def vidur(folder: Path) -> Iterator[Case]:
    file = "layer_ops_vidur.csv"
    frame = read(folder, file)
    if not frame.height:
        return
    shape = {
        (r["model"], r["tp"], r["op"]): (r["n"], r["k"])
        for r in frame.filter(pl.col("n").is_not_null()).iter_rows(named=True)
    }

    def moved(model: str, tp: int, op: str) -> float | None:
        """Bytes per token of an element-wise op, from the shapes of its neighbours."""
        qkv, out = shape.get((model, tp, "attn_pre_proj")), shape.get((model, tp, "attn_post_proj"))
        up, down = shape.get((model, tp, "mlp_up_proj")), shape.get((model, tp, "mlp_down_proj"))
        if qkv is None or out is None or up is None or down is None:
            return None
        width, query = qkv[1], out[1]
        return {
            "add": 6 * width,
            "input_layernorm": 4 * width,
            "post_attention_layernorm": 4 * width,
            "mlp_act": 2 * (up[0] + down[1]),
            "attn_rope": 4 * (query + (qkv[0] - query) / 2),
            "emb": 4 * width,
        }.get(op)

    for (gpu,), part in parts(frame, ["gpu"]):
        system = {"a100": "a100_sxm", "h100": "h100_sxm"}.get(gpu, gpu)
        if not known(system):
            continue
        products = part.filter(pl.col("n").is_not_null())
        m, n, k = (column(products, c) for c in ("num_tokens", "n", "k"))
        yield product(
            (file, system, "vidur"), m, n, k, column(products, "latency_ms") / 1e3, shapes(products, ["n", "k"]),
        )  # fmt: skip
        for op in ("add", "input_layernorm", "post_attention_layernorm", "mlp_act", "attn_rope", "emb"):
            rows = part.filter(pl.col("op") == op)
            each = [moved(r[0], r[1], op) for r in rows.select("model", "tp").rows()]
            keep = np.array([e is not None for e in each], dtype=bool)
            if not keep.any():
                continue
            rows = rows.filter(pl.Series(keep))
            size = column(rows, "num_tokens") * np.array([e for e in each if e is not None], dtype=float)
            yield stream(
                (file, system, "vidur"), op, size, column(rows, "latency_ms") / 1e3, shapes(rows, ["model", "tp"]),
            )  # fmt: skip


DIMS = {  # hidden, heads, kv heads, head size, inner, vocabulary
    "Qwen/Qwen3-30B-A3B-Instruct-2507": (2048, 32, 4, 128, 768, 151936),
    "Qwen/Qwen3-32B": (5120, 64, 8, 128, 25600, 151936),
    "meta-llama/Llama-3.1-8B": (4096, 32, 8, 128, 14336, 128256),
}
GPUS = {"RTXPRO6000": "rtx_pro_6000_server", "RTX4090": "rtx_4090"}


def servingsim(folder: Path) -> Iterator[Case]:
    file = "layer_ops_llmservingsim.csv"
    frame = read(folder, file)
    if frame.height:
        frame = frame.filter(pl.col("tp").cast(pl.String).str.contains(r"^tp[1-9]\d{0,3}$"))
    for (gpu, model, tp), part in parts(frame, ["gpu", "model", "tp"]):
        system, dims = GPUS.get(gpu), DIMS.get(model)
        if system is None or dims is None:
            continue
        d, h, g, size_, f, v = dims
        ways = int(tp.removeprefix("tp"))
        products = {
            "qkv_proj": ((h + 2 * g) * size_ / ways, d),
            "o_proj": (d, h * size_ / ways),
            "gate_up_proj": (2 * f / ways, d),
            "down_proj": (d, f / ways),
            "lm_head": (v / ways, d),
        }
        streams = {
            "layernorm": 8 * d,
            "final_layernorm": 8 * d,
            "act_fn": 6 * f / ways,
            "embedding": 4 * d,
            "qk_norm": 4 * (h + g) * size_,
            "rotary_emb": 4 * (h + g) * size_ / ways,
        }
        for (layer,), rows in parts(part, ["layer"]):
            t = column(rows, "tokens")
            seconds = column(rows, "time_us") / 1e6
            if layer in products:
                n, k = products[layer]
                yield product(
                    (file, system, "vllm_layers"), t, n, k, seconds, shapes(rows, ["model", "layer"]), beyond=1e9,
                )  # fmt: skip
            elif layer in streams:
                size = t * streams[layer]
                yield stream((file, system, "vllm_layers"), layer, size, seconds, shapes(rows, ["model", "tokens"]))


def servingsim_attention(folder: Path) -> Iterator[Case]:
    file = "attention_llmservingsim.csv"
    frame = read(folder, file)
    if frame.height:
        frame = frame.filter(pl.col("tp").cast(pl.String).str.contains(r"^tp[1-9]\d{0,3}$"))
    for (gpu, model, tp), part in parts(frame, ["gpu", "model", "tp"]):
        system, dims = GPUS.get(gpu), DIMS.get(model)
        if system is None or dims is None:
            continue
        _, h, g, d, *_ = dims
        ways = int(tp.removeprefix("tp"))
        for new in (True, False):
            rows = part.filter((pl.col("prefill_chunk") > 0) == new, (pl.col("n_decode") > 0) != new)
            if not rows.height:
                continue
            c, past, b, length = (column(rows, n) for n in ("prefill_chunk", "kv_prefill", "n_decode", "kv_decode"))
            one = np.ones_like(c)
            common = {"heads": h / ways * one, "kv_heads": max(1, g / ways) * one, "window": 0 * c, "kv": 2 * one}
            seconds = column(rows, "time_us") / 1e6
            if new:
                args = common | {"batch": one, "new": c, "cached": past, "key": d * one, "value": d * one, "q": 2 * one}
                size = 4 * d * (c * common["heads"] + (c + past) * common["kv_heads"])
                flops = 4 * common["heads"] * d * laws.causal_pairs(c, past, 0 * c)
                yield case(
                    (file, system, "vllm_layers"), "bf16", "prefill", args, seconds, flops, size,
                    shapes(rows, ["prefill_chunk", "kv_prefill"]), slices={"all": c > 0, "new>=512": c >= 512},
                )  # fmt: skip
            else:
                args = common | {"batch": b, "length": length + 1, "head": d * one}
                size = 4 * b * (length + 1) * common["kv_heads"] * d
                yield case(
                    (file, system, "vllm_layers"), "bf16", "decode", args, seconds,
                    4 * b * (length + 1) * common["heads"] * d, size, shapes(rows, ["n_decode", "kv_decode"]),
                )  # fmt: skip


def infersim(folder: Path) -> Iterator[Case]:
    file = "gemm_fp8_infersim.csv"
    x, w, _ = BYTES["fp8_block"]
    for (gpu,), part in parts(read(folder, file), ["gpu"]):
        m, n, k = (column(part, c) for c in "mnk")
        full = np.ones_like(m)
        size = x * m * k + w * n * k + 2 * m * n
        yield case(
            (file, gpu, "deepgemm"), "fp8_block", "quantised_matmul",
            {"m": m, "n": n, "k": k, "x": x * full, "w": w * full, "y": 2 * full, "quantise": 0 * full},
            column(part, "latency_us") / 1e6, 2 * m * n * k, size, shapes(part, ["n", "k"]),
        )  # fmt: skip
    file = "attention_infersim.csv"
    frame = read(folder, file)
    if not frame.height:
        return
    for (gpu, kind, phase, _, cache), part in parts(frame, ["gpu", "kind", "phase", "dtype", "kv_dtype"]):
        part = part.filter(pl.col("dims").str.contains(r"^\d+-\d+-\d+$"))
        if not part.height:
            continue
        dims = np.array([list(map(int, r.split("-"))) for r in part["dims"]], dtype=float)
        seconds, one = column(part, "latency_us") / 1e6, np.ones(part.height)
        kv = one * (1.0 if cache == "fp8" else 2.0)
        if phase == "decode":
            b, length = column(part, "batch_size"), column(part, "kv_len")
            if kind == "mla":
                args = {
                    "batch": b, "length": length, "heads": dims[:, 0], "rank": dims[:, 1], "rope": dims[:, 2],
                    "kv": kv,
                }  # fmt: skip
                size, flops = b * length * 576 * kv, 2 * b * length * dims[:, 0] * 1088
                name, dtype = "latent_decode", "bf16_kv_fp8" if cache == "fp8" else "bf16_kv_bf16"
            else:
                args = {
                    "batch": b, "length": length, "heads": dims[:, 0], "kv_heads": dims[:, 1], "head": dims[:, 2],
                    "window": 0 * b, "kv": kv,
                }  # fmt: skip
                size, flops = 2 * b * length * dims[:, 1] * dims[:, 2] * kv, 4 * b * length * dims[:, 0] * dims[:, 2]
                name, dtype = "decode", "fp8" if cache == "fp8" else "bf16"
            slow = seconds > 60e-6
            yield case(
                (file, gpu, "host"), dtype, name, args, seconds, flops, size, shapes(part, ["dims", "kv_len"]),
                slices={">60us": slow, "all": slow | True},
            )  # fmt: skip
        else:
            s = column(part, "seq_len")
            args = {
                "batch": one, "new": s, "cached": 0 * s, "heads": dims[:, 0], "kv_heads": dims[:, 1],
                "key": dims[:, 2], "value": dims[:, 2], "window": 0 * s, "q": 2 * one, "kv": 2 * one,
            }  # fmt: skip
            yield case(
                (file, gpu, "host"), "bf16", "prefill", args, seconds,
                4 * dims[:, 0] * dims[:, 2] * laws.causal_pairs(s, 0 * s, 0 * s),
                4 * s * dims[:, 2] * (dims[:, 0] + dims[:, 1]), shapes(part, ["dims"]), footprint=s * 1e9,
            )  # fmt: skip


def llmcompass(folder: Path) -> Iterator[Case]:
    file = "gemm_llmcompass.csv"
    for (name,), part in parts(read(folder, file), ["hardware"]):
        system = {"A100": "a100_sxm", "MI210": "mi210"}.get(name)
        if system is None:
            continue
        m, n, k = (column(part, c) for c in "mnk")
        yield product((file, system, "host"), m, n, k, column(part, "latency_ms") / 1e3, shapes(part, ["m", "n"]))
    file = "elementwise_llmcompass.csv"
    for (name, op), part in parts(read(folder, file), ["hardware", "op"]):
        system = {"A100": "a100_sxm"}.get(name)  # MI210's take less than two calls from the host, of 40 µs
        if system is None:
            continue
        size = 4 * column(part, "m") * column(part, "n")
        yield stream((file, system, "host"), op, size, column(part, "latency_us") / 1e6, shapes(part, ["m", "n"]))


def gdn(folder: Path) -> Iterator[Case]:
    file = "gdn_linear_attention_aic.csv"
    for (system, software, kernel), part in parts(read(folder, file), ["system", "software", "kernel_source"]):
        if system == "a100_sxm" and kernel == "causal_conv1d_fn":
            continue  # up to four times the chip's bandwidth: not the op that the row says
        b, s, qk, dk, hv, dv = (
            column(part, c) for c in ("batch_size", "seq_len", "num_k_heads", "head_k_dim", "num_v_heads", "head_v_dim")
        )
        tokens = b * s
        width = 2 * qk * dk + hv * dv
        seconds, soft = column(part, "latency_ms") / 1e3, family(software)
        fold = shapes(part, ["batch_size", "seq_len", "num_v_heads"])
        if kernel == "chunk_gated_delta_rule":
            args = {"batch": b, "tokens": s, "key_heads": qk, "value_heads": hv, "key": dk, "value": dv}
            size = 2 * tokens * (2 * qk * dk + 2 * hv * dv)
            flops = 6 * tokens * hv * dk * dv
            yield case((file, system, soft), "bf16", "scan", args, seconds, flops, size, fold)
        else:
            state = 8 * b * hv * dk * dv if "recurrent" in kernel else 4 * b * width * 3
            size = 4 * tokens * width + state
            yield stream((file, system, soft), kernel, size, seconds, fold, least=2 * tokens * width)


AMD = {304: "mi300x", 256: "mi355x"}
"""Catalog chip by compute units; MI325X and MI350X have as many, and the tables do not tell them apart."""
AMD_PRODUCTS = {
    ("bf16", "bf16"): "bf16",
    ("a8w8_per_token", "fp8"): "fp8",
    ("a8w8_per_token", "int8"): "sq",
    ("fp8_block", "fp8"): "fp8_block",
    ("mxfp4", "mxfp4"): "mxfp4",
}
AMD_EXPERTS = {
    ("bf16", "bf16", "No"): "bf16",
    ("fp8", "fp8", "per_Token"): "fp8",
    ("fp8", "fp8", "per_1x128"): "fp8_block",
    ("bf16", "int4", "per_1x32"): "int4_wo",
    ("bf16", "fp4", "per_1x32"): "w4a16_mxfp4",
    ("fp8", "fp4", "per_1x32"): "w4a8_mxfp4_mxfp8",
    ("fp4", "fp4", "per_1x32"): "mxfp4",
}


def aiter_products(folder: Path) -> Iterator[Case]:
    """The fastest of AMD's kernels for each shape, weights cold, activations quantised beforehand."""
    file = "gemm_amd_aiter.csv"
    for (units, kind, name, out), part in parts(read(folder, file), ["cu_num", "kind", "dtype", "out_dtype"]):
        system, dtype = AMD.get(int(units)), AMD_PRODUCTS.get((kind, name))
        if system is None or dtype is None:
            continue
        m, n, k = (column(part, c) for c in "mnk")
        x, w, _ = BYTES[dtype]
        one, y = np.ones_like(m), 4.0 if out == "fp32" else 2.0
        args = {"m": m, "n": n, "k": k, "x": x * one, "w": w * one, "y": y * one}
        if dtype != "bf16":
            args["quantise"] = 0 * one
        big = (n >= 256) & (k >= 256)
        yield case(
            (file, system, "aiter"), dtype, "matmul" if dtype == "bf16" else "quantised_matmul", args,
            column(part, "us") / 1e6, 2 * m * n * k, x * m * k + w * n * k + y * m * n, shapes(part, ["n", "k"]),
            slices={"n,k>=256": big, "all": big | True},
        )  # fmt: skip


def aiter_experts(folder: Path) -> Iterator[Case]:
    """The fastest of AMD's two grouped products for each shape: routing, permutation and combining are outside.

    Every token chooses at random. Of 257 experts, one is shared and serves every token.
    """
    file = "moe_amd_aiter.csv"
    for (units, *formats), part in parts(read(folder, file), ["cu_num", "act_dtype", "weight_dtype", "quant"]):
        system, dtype = AMD.get(int(units)), AMD_EXPERTS.get((formats[0], formats[1], formats[2]))
        if system is None or dtype is None:
            continue
        t, hidden, inner, k, e, gated = (
            column(part, c) for c in ("num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "gated")
        )
        shared = (e == 257).astype(float)
        touched = shared + (e - shared) * (1 - (1 - (k - shared) / (e - shared)) ** t)
        x, w, _ = BYTES[dtype]
        weights = touched * (2 + gated) * hidden * inner * w
        args = {
            "tokens": 0 * t, "rows": t * k, "touched": touched, "hidden": hidden, "inner": inner,
            "gated": gated, "x": np.full_like(t, x), "w": np.full_like(t, w), "even": 0 * t, "remote": 0 * t,
        }  # fmt: skip
        yield case(
            (file, system, "aiter"), dtype, "experts", args, column(part, "us") / 1e6,
            2 * t * k * (2 + gated) * hidden * inner, weights,
            shapes(part, ["hidden_size", "inter_size", "num_experts", "topk"]),
        )  # fmt: skip


def cases(folder: Path) -> list[Case]:
    """Every row of `folder` that the shipped constants were fitted to, or to others of the same tables."""
    every = [
        *gemm(folder, "gemm_bf16_aic.csv"),
        *gemm(folder, "gemm_lowprec_aic.csv", "gemm_engines_aic.csv"),
        *gemm(folder, "gemm_cross_software_aic.csv"),
        *attention_prefill(folder),
        *attention_decode(folder),
        *moe(folder),
        *mla(folder),
        *quantise(folder),
        *vidur(folder),
        *servingsim(folder),
        *servingsim_attention(folder),
        *infersim(folder),
        *llmcompass(folder),
        *gdn(folder),
        *aiter_products(folder),
        *aiter_experts(folder),
    ]
    return usable(every)


def usable(every: list[Case]) -> list[Case]:
    """Those that have rows, on a chip of the catalog."""
    return [c for c in every if len(c.seconds) and known(c.system)]
