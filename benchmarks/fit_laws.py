"""Fit the constants of the laws to a folder of measurements.

    python benchmarks/fit_laws.py DIR [--out FOLDER] [--without system,system] [--only kind] [--systems system] [--wide]
        [--workers N] [--done FOLDER] [--tables NAME,NAME]

Every group (chip, dtype, kind, software) is fitted by robust least squares on log(predicted/measured); the error beside
the constants is of rows whose shape took no part in the fit (5 folds by a hash of the shape).  A generation is fitted
to all its chips, and its error is of a chip that took no part; so is the generic default, over generations.
"""

import argparse
import hashlib
import os
import pickle
import sys
from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares  # type: ignore[import-untyped]

from left_out import rows_of, sections
from measured_ops import FA4, LAWS, Args, Case, Column, cases, chip, generation, stacked
from measured_other_ops import streams
from roofline.hardware.named_chip import chip_named
from roofline.kernels import law as laws
from roofline.kernels.constants import FOLDER
from roofline.kernels.law import Roof

Record = laws.MatmulLaw | laws.PrefillLaw | laws.DecodeLaw | laws.Latent | laws.ExpertsLaw | laws.StreamLaw | laws.Scan
Range = tuple[float, float, float]  # start, least, most

LAUNCH = (3e-7, 3e-4)
SHARE = (0.02, 1.0)
FREE: dict[str, dict[str, Range]] = {
    "matmul": {
        "t0": (3e-6, *LAUNCH),
        "compute": (0.75, *SHARE),
        "memory": (0.8, *SHARE),
        "sharp": (2.5, 1, 12),
        "split": (2.5e-6, 1e-8, 1e-4),
        "l2": (2, 0.3, 20),
    },
    "prefill": {
        "t0": (1.2e-5, *LAUNCH),
        "compute": (0.55, *SHARE),
        "memory": (0.5, 0.02, 5),
        "fixed": (0.3, 0.01, 0.95),
        "pad": (150, 1, 3000),
        "tail": (0.7, 0.05, 3),
        "l2": (1.5, 0.3, 20),
    },
    "decode": {
        "t0": (9e-6, *LAUNCH),
        "memory": (0.85, *SHARE),
        "sharp": (2, 1, 8),
        "block": (3e-6, 1e-9, 1e-3),
        "head": (2e-6, 1e-9, 1e-3),
        "walk": (2e-8, 1e-11, 1e-6),
        "reach": (256, 30, 1e7),
        "l2": (2, 0.3, 20),
    },
    "latent_decode": {
        "t0": (1.1e-5, *LAUNCH),
        "compute": (0.6, *SHARE),
        "memory": (0.8, *SHARE),
        "sharp": (2, 1, 12),
        "block": (5e-6, 1e-9, 1e-4),
        "walk": (5e-9, 1e-11, 1e-6),
        "reach": (3000, 50, 1e7),
    },
    "experts": {
        "t0": (2.5e-5, *LAUNCH),
        "compute": (0.8, *SHARE),
        "memory": (0.85, *SHARE),
        "sharp": (2, 1, 12),
        "passes": (0.5, 0.01, 5),
        "expert": (1e-7, 1e-10, 1e-5),
        "apart": (1e-5, 1e-8, 1e-3),
        "remote": (2, 1e-3, 50),
        "stage": (8, 0.1, 500),
    },
    "stream": {"t0": (2e-6, *LAUNCH), "memory": (0.8, 0.01, 1.2), "l2": (3, 0.3, 20)},
    "scan": {"t0": (2e-5, *LAUNCH), "compute": (0.2, 0.005, 1), "memory": (0.5, 0.02, 5), "chunk": (1e-6, 1e-9, 1e-4)},
}
FREE["quantised_matmul"] = FREE["matmul"] | {"quantise_memory": (0.5, 0.02, 10)}
FREE["latent_prefill"] = {k: v for k, v in FREE["prefill"].items() if k != "fixed"}
RECORDS: dict[str, Record] = {
    "matmul": laws.MatmulLaw(),
    "quantised_matmul": laws.Quantised(),
    "prefill": laws.PrefillLaw(),
    "decode": laws.DecodeLaw(),
    "latent_prefill": laws.PrefillLaw(),
    "latent_decode": laws.Latent(),
    "experts": laws.ExpertsLaw(),
    "stream": laws.StreamLaw(),
    "scan": laws.Scan(),
}
STEP: Range = (5e-10, 1e-13, 1e-6)
FOLDS = 5
LEAST = 15  # rows without which nothing is fitted
FEWEST = 40  # rows of AMD's experts without which nothing is fitted
CAP = 4000  # rows of one fit at most


@dataclass(frozen=True)
class Rows:
    """Rows to fit together: law arguments, the chip of each row, seconds, hold-out fold, weight."""

    kind: str
    dtype: str
    args: Args
    chip: Roof
    seconds: Column
    fold: NDArray[np.int64]
    weight: Column
    software: str

    def take(self, keep: NDArray[np.bool_]) -> "Rows":
        part = Roof(*(np.asarray(getattr(self.chip, f.name))[keep] for f in fields(Roof)))
        args = {k: v[keep] for k, v in self.args.items()}
        return Rows(
            self.kind, self.dtype, args, part, self.seconds[keep], self.fold[keep], self.weight[keep], self.software
        )


@dataclass(frozen=True)
class Fitted:
    """Constants with what is known of them on rows that took no part."""

    record: Record
    rows: int
    mape: float
    median: float
    bias: float
    small: tuple[float, float]
    large: tuple[float, float]
    within: float  # share of rows inside the interval


def predict(rows: Rows, record: Record) -> Column:
    return np.asarray(LAWS[rows.kind](**rows.args, chip=rows.chip, c=record), dtype=float)


def solve(rows: Rows, base: Record, free: dict[str, Range]) -> Record:
    """The constants that fit `rows`; those not in `free` stay as they are in `base`."""
    names = list(free)
    start, low, high = (np.log([free[n][i] for n in names]) for i in range(3))

    def residual(point: Column) -> Column:
        record = replace(base, **dict(zip(names, np.exp(point).tolist(), strict=True)))
        return rows.weight * np.log(predict(rows, record) / rows.seconds)

    solution = least_squares(
        residual, start, bounds=(low, high), loss="soft_l1", f_scale=0.1, max_nfev=40, diff_step=1e-3
    )
    return replace(base, **dict(zip(names, np.exp(solution.x).tolist(), strict=True)))


def free_of(rows: Rows, base: Record) -> dict[str, Range]:
    """What these rows can tell: no L2 speed where the L2 keeps nothing, no quantise pass where there is none."""
    free = dict(FREE[rows.kind])
    ungrouped = isinstance(base, laws.DecodeLaw) and np.isfinite(base.group)
    if "l2" in free and not (np.any(np.asarray(rows.chip.keeps) > 0) or ungrouped):
        del free["l2"]
    if "quantise_memory" in free and not np.any(rows.args["quantise"] > 0):
        del free["quantise_memory"]
    elif rows.dtype == "fp8_block" and isinstance(base, laws.Quantised):
        free["quantise_row"] = (1e-9, 1e-13, 1e-7)
    if isinstance(base, laws.MatmulLaw) and np.isinf(base.split):
        del free["split"]
        free["step"] = STEP
    if "apart" in free and not np.any(rows.args["remote"] > 0):
        del free["apart"], free["remote"]
    if isinstance(base, laws.ExpertsLaw) and base.stage == 0:
        del free["stage"]
    if "fixed" in free and np.ptp(rows.args["key"]) == 0:
        del free["fixed"]  # one head size cannot tell
    if isinstance(base, laws.PrefillLaw) and base.other != 1:
        free["other"] = (2.0, 0.5, 10)
    if len(rows.seconds) < 40:
        free = {k: v for k, v in free.items() if k in ("t0", "compute", "memory")}
    return free


def variants(kind: str, dtype: str) -> list[Record]:
    """Kernels to choose from: rows in 16s or 64s or 128s, k split over blocks or not, MQA served together or not."""
    base = RECORDS[kind]
    if isinstance(base, laws.ExpertsLaw):
        fixed = [base, replace(base, height=16.0), replace(base, tile=128.0)]
        chosen = [(8.0, 64.0), (16.0, 64.0), (16.0, 128.0), (32.0, 128.0)]
        return [*fixed, *(replace(base, height=h, tile=t, stage=8.0) for h, t in chosen)]
    if isinstance(base, laws.MatmulLaw) and not isinstance(base, laws.Quantised):
        return [base, replace(base, height=16.0)]
    if isinstance(base, laws.Quantised):
        return [
            base,
            replace(base, height=16.0),
            replace(base, split=np.inf),
            replace(base, split=np.inf, height=128.0),
        ]
    if isinstance(base, laws.DecodeLaw):
        return [base, replace(base, group=32.0)]
    if kind == "prefill" and dtype == "fp8":  # a tuned kernel for one head size only, maybe
        return [base, laws.PrefillLaw(other=2.0)]
    return [base]


def fit(rows: Rows) -> Fitted:
    best: tuple[float, Record, Column] | None = None
    for base in variants(rows.kind, rows.dtype):
        free = free_of(rows, base)
        held_out = np.empty_like(rows.seconds)
        present = np.unique(rows.fold)
        if len(present) < 2:  # a lone chip: its own shapes
            held_out = predict(rows, solve(rows, base, free))
        else:
            for fold in present:
                out = rows.fold == fold
                held_out[out] = predict(rows.take(out), solve(rows.take(~out), base, free))
        error = float(np.average(np.abs(held_out / rows.seconds - 1), weights=rows.weight**2))
        if best is None or error < best[0] - 0.002:
            best = (error, base, held_out)
    assert best is not None
    error, base, held_out = best
    record = solve(rows, base, free_of(rows, base))
    ratio = rows.seconds / held_out
    small = minor(rows.args, held_out, record)
    both = []
    for part in (small, ~small):
        chosen = ratio[part] if part.sum() >= 20 else ratio
        both.append((float(np.quantile(chosen, 0.1)), float(np.quantile(chosen, 0.9))))
    low, high = (np.where(small, both[0][i], both[1][i]) for i in (0, 1))
    return Fitted(
        record,
        len(ratio),
        error,
        float(np.median(np.abs(1 / ratio - 1))),
        float(np.mean(np.log(1 / ratio))),
        both[0],
        both[1],
        float(np.mean((ratio >= low) & (ratio <= high))),
    )


def minor(args: Args, seconds: Column, record: Record) -> NDArray[np.bool_]:
    """Rows with the wider interval: where the launch floor rules, and thin GEMMs (n or k under 256)."""
    floor = float(np.asarray(record.t0)) + float(np.asarray(getattr(record, "quantise_t0", 0.0)))
    small = seconds < 3 * floor
    return small | (args["n"] < 256) | (args["k"] < 256) if "n" in args else small


def pool(group: list[Case], fold: str) -> Rows:
    """One table of several cases; every chip weighs the same.  fold: 'shape', 'system' or 'generation'."""
    names = sorted(set.intersection(*(set(c.args) for c in group)))
    counts = [len(c.seconds) for c in group]
    per: dict[str, int] = defaultdict(int)
    for c, n in zip(group, counts, strict=True):
        per[c.system] += n
    ids = {s: i for i, s in enumerate(sorted(per))}
    gens = {g: i for i, g in enumerate(sorted({generation(s) for s in per}))}
    mean = sum(counts) / len(per)

    def label(c: Case) -> NDArray[np.int64]:
        if fold == "shape":
            return c.shape
        return np.full(len(c.seconds), ids[c.system] if fold == "system" else gens[generation(c.system)])

    rows = Rows(
        group[0].kind.partition(".")[0],
        group[0].dtype,
        {n: np.concatenate([c.args[n] for c in group]) for n in names},
        stacked([chip(c.system, c.dtype) for c in group], counts),
        np.concatenate([c.seconds for c in group]),
        np.concatenate([label(c) for c in group]),
        np.concatenate([np.full(n, np.sqrt(mean / per[c.system])) for c, n in zip(group, counts, strict=True)]),
        " ".join(sorted({c.software for c in group})),
    )
    if len(rows.seconds) > CAP:
        keep = np.random.default_rng(0).random(len(rows.seconds)) < CAP / len(rows.seconds)
        rows = rows.take(keep)
    return rows


Key = tuple[str, str, str, str]  # chip, generation or "generic"; dtype; kind; software
HOST = ("host", "triton")  # timed from the host, or kernels nobody chooses: of their chip alone
SERVING = ("trtllm", "vllm", "sglang", "aiter")  # what a user who names no software may be running
ALONE = ("b60", "mi300x", "mi355x")  # of their generations alone: other software, or the best kernel of each shape
APART = (("bf16_triton", "blackwell"),)  # a dtype's kernel that runs at a tenth of its rate elsewhere on a generation
COMMON = (
    "add",
    "input_layernorm",
    "post_attention_layernorm",
    "mlp_act",
    "attn_rope",
    "scale_matrix",
    "act_fn",
    "layernorm",
    "final_layernorm",
    "qk_norm",
    "rotary_emb",
)
GROUPED = 32  # query heads per KV head beyond which only some software serves them together


def common(c: Case) -> Case:
    """The rows on which all software does the same work: decode without the large groups that TRT-LLM takes apart."""
    if c.kind != "decode":
        return c
    return c.take(c.args["heads"] / c.args["kv_heads"] <= GROUPED)


def jobs(measured: list[Case]) -> dict[Key, Rows]:
    """What to fit: every group, by chip, by generation and over all; 'default' is all serving software together."""
    groups: dict[Key, list[Case]] = defaultdict(list)
    for c in measured:
        if c.file == "gemm_cross_software_aic.csv" and c.software == "trtllm":
            continue  # the other GEMM files hold these
        if c.software == "aiter" and c.kind == "experts" and (len(c.seconds) < FEWEST or c.dtype == "fp8"):
            continue  # all rows far above a launch: they cannot tell it from the rest
        kind, _, op = c.kind.partition(".")
        place = (c.system, c.dtype, kind)
        groups[(*place, op or c.software)].append(c)
        if c.software in SERVING if kind != "stream" else op in COMMON:
            groups[(*place, "default")].append(common(c))
    wide: dict[Key, list[Case]] = defaultdict(list)
    for (system, dtype, kind, soft), group in groups.items():
        if group[0].software not in HOST and not (kind == "stream" and soft.endswith(SERVING)):
            wide[(f"generation.{generation(system)}", dtype, kind, soft)] += group
            if system not in ALONE and soft != FA4 and (dtype, generation(system)) not in APART:
                wide[("generic", dtype, kind, soft)] += group
    tables: dict[Key, Rows] = {}
    for key, group in distinct(groups).items():
        tables[key] = pool(group, "shape")
    for key, group in distinct(wide).items():
        lone = len({c.system for c in group}) == 1
        many = len({generation(c.system) for c in group}) > 1
        tables[key] = pool(group, "shape" if lone else "generation" if key[0] == "generic" and many else "system")
    return {k: r for k, r in tables.items() if len(r.seconds) >= LEAST}


def distinct(groups: dict[Key, list[Case]]) -> dict[Key, list[Case]]:
    """The groups less those whose rows are all the default's: a look-up that misses them finds the default."""
    rows = {k: (sum(len(c.seconds) for c in g), sum(float(c.seconds.sum()) for c in g)) for k, g in groups.items()}
    return {k: g for k, g in groups.items() if k[3] == "default" or rows[k] != rows.get((*k[:3], "default"))}


def fit_one(job: tuple[Key, Rows], done: Path | None = None) -> tuple[Key, Fitted]:
    """The constants of a group; those of the same rows and the same law that `done` has are not fitted again."""
    if done is None:
        return job[0], fit(job[1])
    path = done / f"{fingerprint(*job)}.pickle"
    if path.exists():
        known: Fitted = pickle.loads(path.read_bytes())
        return job[0], known
    fitted = fit(job[1])
    part = path.with_suffix(f".{os.getpid()}")
    part.write_bytes(pickle.dumps(fitted))
    part.replace(path)
    return job[0], fitted


def fingerprint(key: Key, rows: Rows) -> str:
    """A hash of a group's rows and of the code that fits them."""
    digest = hashlib.sha256(repr((key, rows.kind, rows.dtype, sorted(rows.args))).encode())
    for column in (
        *(rows.args[name] for name in sorted(rows.args)),
        *(np.asarray(getattr(rows.chip, f.name)) for f in fields(Roof)),
        rows.seconds, rows.fold, rows.weight,
    ):  # fmt: skip
        digest.update(np.ascontiguousarray(column).tobytes())
    for code in (Path(__file__), Path(laws.__file__)):
        digest.update(code.read_bytes())
    return digest.hexdigest()[:32]


def separate(results: dict[Key, Fitted], passes: set[Key]) -> dict[Key, Fitted]:
    """Quantised GEMM of rows with a quantise pass (`passes`): take the bf16 GEMM's launch floor out of t0; the rest is
    the floor of the pass."""
    done = dict(results)
    for key, fitted in results.items():
        record = fitted.record
        if isinstance(record, laws.Quantised) and key in passes:
            plain = results.get((key[0], "bf16", "matmul", "default"))
            base = min(float(record.t0), float(plain.record.t0)) if plain else float(record.t0)
            done[key] = replace(fitted, record=replace(record, t0=base, quantise_t0=float(record.t0) - base))
    return done


def file_of(place: str) -> str:
    """The name of the file with the constants of a chip, a generation or any chip."""
    return place.replace("generation.", "generation-") if place.startswith("gener") else chip_named(place).id


def places_of(systems: set[str]) -> set[str]:
    """The chips and their generations, as keys name them."""
    return systems | {f"generation.{generation(s)}" for s in systems}


def write(results: dict[Key, Fitted], names: dict[Key, str], folder: Path, only: set[str], systems: set[str]) -> None:
    """One file for each chip, generation, and the generic default: [dtype.kind.software] tables.

    Where `only` some kinds or `systems` were fitted, the tables of the others stay as they are.
    """
    files: dict[str, list[str]] = defaultdict(list)
    again = {file_of(place) for place in places_of(systems)}
    before = [file for file in folder.glob("*.toml") if not systems or file.stem in again]
    for file in before if only else ():
        tables = file.read_text().split("\n\n[")[1:]
        files[file.stem] = [f"\n[{t.strip()}" for t in tables if t.partition("]")[0].split(".")[1] not in only]
    for key in sorted(results):
        f, (place, *rest) = results[key], key
        file = file_of(place)
        lines = ["", f"[{'.'.join(rest)}]", f'software = "{names[key]}"']
        lines += [f"{x.name} = {float(getattr(f.record, x.name)):.4g}" for x in fields(f.record)]
        lines += [f"rows = {f.rows}", f"mape = {f.mape:.4f}", f"median = {f.median:.4f}", f"bias = {f.bias:.4f}"]
        lines += [f"low_small = {f.small[0]:.3f}", f"high_small = {f.small[1]:.3f}"]
        files[file] += [*lines, f"low = {f.large[0]:.3f}", f"high = {f.large[1]:.3f}"]
    folder.mkdir(parents=True, exist_ok=True)
    for old in before:
        old.unlink()
    for file, lines in files.items():
        (folder / f"{file}.toml").write_text("\n".join([HEAD, *lines]) + "\n")


HEAD = """\
# Written by benchmarks/fit_laws.py from measurements of aiconfigurator (Apache-2.0), vidur (MIT), LLMServingSim (MIT),
# InferSim (Apache-2.0) and LLMCompass (BSD-3); MI300X and MI355X: of aiter's tuning tables (MIT), the fastest kernel of
# each shape, activations already quantised, experts without permutation: a lower envelope. mape, median, bias: on rows
# whose shape took no part in the fit (for a generation: on a chip that took no part). low, high: factors of the
# interval that holds 80 % of those rows; *_small where the launch floor rules."""


def main(argv: Iterable[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=FOLDER)
    parser.add_argument("--without", default="", help="systems to leave out, by comma")
    parser.add_argument("--only", default="", help="kinds to fit, by comma")
    parser.add_argument("--systems", default="", help="chips to fit with their generations, by comma")
    parser.add_argument("--tables", default="", help="begins of tables to fit into an empty --out, by comma")
    parser.add_argument("--wide", action="store_true", help="only the generations and the generic default")
    parser.add_argument("--fold", type=int, default=-1, help="leave this fold of shapes out")
    parser.add_argument("--workers", type=int, default=2, help="processes that fit")
    parser.add_argument("--done", type=Path, help="a folder that keeps each group's fit, so that a second run goes on")
    options = parser.parse_args(list(argv))
    left, only = set(options.without.split(",")), set(filter(None, options.only.split(",")))
    systems = set(filter(None, options.systems.split(",")))
    older = cases(options.folder)
    measured = [*older, *streams(options.folder, rows_of(older, sections(options.folder)))]
    measured = [c for c in measured if c.system not in left]
    if systems:
        near = {generation(s) for s in systems}
        measured = [c for c in measured if generation(c.system) in near]
    if only:
        measured = [c for c in measured if c.kind.partition(".")[0] in only]
    if options.fold >= 0:
        measured = [c for c in (c.take(c.shape != options.fold) for c in measured) if len(c.seconds)]
    todo = sorted(jobs(measured).items(), key=lambda item: -len(item[1].seconds))
    if options.wide:
        todo = [(k, r) for k, r in todo if k[0].startswith("gener")]
    if systems:
        todo = [(k, r) for k, r in todo if k[0] in places_of(systems)]
    tables = tuple(filter(None, options.tables.split(",")))
    if tables:
        todo = [(k, r) for k, r in todo if ".".join(k[1:]).startswith(tables)]
    passes = {k for k, r in todo if "quantise" in r.args and np.any(r.args["quantise"] > 0)}
    if options.done:
        options.done.mkdir(parents=True, exist_ok=True)
    one = partial(fit_one, done=options.done)
    if options.workers > 1:
        with ProcessPoolExecutor(options.workers) as workers:
            results = separate(dict(workers.map(one, todo, chunksize=1)), passes)
    else:
        results = separate(dict(map(one, todo)), passes)
    write(results, {k: r.software for k, r in todo}, options.out, only, systems)
    print(f"{len(results)} sets of constants to {options.out}", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
