"""Measured collectives as calls of the laws, and how well the shipped constants predict them.

    python benchmarks/measured_collectives.py DIR [--json FILE] [--fold N] [--constants FILE]

The lines are those of accuracy.py: all in percent, `plain` the bytes at full bandwidth without latency, `floor exceeds`
the share of rows faster than that. A row of an engine's own all-reduce is predicted for the release it names (slice
`release`) and for the engine as such, whose constants are of its newest release (slice `engine`).
"""

import argparse
import json
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from measured_ops import Column, Shapes, column, known, read, shapes
from roofline.declared.errors import InputError
from roofline.hardware.cluster import Cluster, Level, cluster_named
from roofline.hardware.named_chip import chip_named
from roofline.kernels import collectives as laws
from roofline.kernels import links
from roofline.measured.accuracy.fitted import OF_COLLECTIVES
from roofline.measured.accuracy.scoring import GroupScore, Scored, pooled
from roofline.views.text.measured.accuracy import score_table
from roofline.views.text.tables import plain_text

NCCL, CUSTOM, VIDUR = "collectives_nccl_aic.csv", "allreduce_custom_aic.csv", "collectives_vidur.csv"
LOW_LATENCY, NORMAL, PUBLISHED = (
    "deepep_low_latency_aic.csv",
    "moe_alltoall_engines_aic.csv",
    "ep_alltoall_deepep.csv",
)
LLMCOMPASS = "allreduce_llmcompass.csv"
OPS = {"alltoall": "all_to_all", "send_recv": "p2p"}
NETWORK = {"a100_dgx": 10.6e9, "h100_dgx": 50e9}
"""B/s of a node's way to another, which the rows do not say. H100's is the NIC of one GPU in the node's datasheet, for
p2p alone. A100's is what p2p's own rows show, of which the largest reach 7.8 GB/s; all-reduces of one, two, four and
eight GPUs of a node send no more between them, 4 to 12 GB/s, so that the GPUs share it."""
NODES = {
    "a100_dgx": "a100_sxm",
    "h100_dgx": "h100_sxm",
    "a100_pairwise_nvlink": "a100-pcie-80gb",
    "a40_pairwise_nvlink": "a40",
    "h100_pairwise_nvlink": "h100-nvl",
}


@dataclass(frozen=True)
class Rows:
    """Rows of one file that differ in nothing but their size. shape: of each its hold-out fold and its number."""

    file: str
    system: str
    op: str
    software: str
    engine: str
    ranks: int
    cluster: Cluster
    size: Column
    seconds: Column
    shape: Shapes
    slices: tuple[str, ...]
    stride: int = 1
    routing: laws.Routing | None = None

    @property
    def fold(self) -> NDArray[np.int64]:
        """The hold-out fold of each row."""
        return self.shape.fold

    @property
    def single(self) -> bool:
        """Whether the group lies within one level."""
        return len(self.cluster.span(self.ranks, self.stride)) == 1


MOST_RANKS = 4096
FOLDS = 5
"""Parts of the sizes, each of which a fit leaves out in turn."""
COUNTS = ("num_gpus", "num_workers", "devices_per_node", "node_num", "bytes", "latency_ms", "latency_us")


def groups(frame: pl.DataFrame, names: list[str]) -> Iterator[tuple[Any, pl.DataFrame]]:
    """The frame by distinct values, without rows whose ranks, bytes or times are none."""
    if not frame.height or not all(frame[c].dtype.is_numeric() for c in COUNTS if c in frame.columns):
        return
    frame = frame.filter(pl.all_horizontal(pl.col(c) > 0 for c in COUNTS if c in frame.columns))
    few = [pl.col(c).cast(pl.Float64) <= MOST_RANKS for c in COUNTS[:4] if c in frame.columns]
    frame = frame.filter(pl.all_horizontal(few)).drop_nulls(names)
    whole = [pl.col(c).cast(pl.Int64) for c in COUNTS[:4] if c in frame.columns]
    yield from frame.with_columns(whole).group_by(names, maintain_order=True)


def joined(system: str, ranks: int) -> bool:
    """Whether so many chips of a known kind make a node."""
    try:
        node(system, ranks)
    except InputError:
        return False
    return True


def node(system: str, ranks: int) -> Cluster:
    """One node of `ranks` chips."""
    return cluster_named(f"{ranks}x{chip_named(system).id}")


def nccl(folder: Path, file: str = NCCL, only: Sequence[str] = (), but: Sequence[str] = ()) -> Iterator[Rows]:
    """Rows of a library: of the systems `only`, where any is named, and not of those in `but`."""
    for (system, op, n), part in groups(read(folder, file), ["system", "op", "num_gpus"]):
        if system in but or (only and system not in only):
            continue
        if joined(system, n):
            op = OPS.get(op, op)
            seconds = column(part, "latency_ms") / 1e3
            fold = shapes(part, ["bytes", "num_gpus"])
            label = ("all", op, f"{op},n={n}", "pcie" if "switch" not in kind_of(system, n) else "nvlink")
            size = column(part, "bytes")
            yield Rows(file, system, op, "nccl", "nccl", n, node(system, n), size, seconds, fold, label)


def kind_of(system: str, n: int) -> str:
    return node(system, n).levels[0].kind


def engine_of(kernel: str) -> str:
    """`vLLM_custom_graph` → vllm, `vLLM_custom_eager` → vllm-eager, `TRTLLM` → trtllm."""
    name = kernel.partition("_")[0].lower()
    return f"{name}-eager" if kernel.endswith("eager") else name


def release_of(kernel: str, software: str) -> str:
    """The key of one release: `vllm 0.14.0`; `trtllm sglang-0.5.9` where another engine carries the kernel."""
    family, _, version = software.partition(" ")
    engine = engine_of(kernel)
    return f"{engine} {version}" if engine.startswith(family) else f"{engine} {family}-{version}"


def version_key(release: str) -> list[tuple[int, str]]:
    """Releases in order: numbers as numbers, rc before the release; carried kernels before the engine's own."""
    tail = release.partition(" ")[2]
    carried = [(-1 if "-" in tail else 0, "")]
    return carried + [(int(x), "") if x.isdigit() else (-1, x) for x in re.findall(r"\d+|rc|post", tail)]


def custom(folder: Path, file: str = CUSTOM) -> Iterator[Rows]:
    names = ["system", "kernel_source", "software", "num_gpus"]
    frame = read(folder, file)
    if frame.height and "software" not in frame.columns:
        frame = frame.with_columns(software=pl.col("backend") + " " + pl.col("version"))
    for (system, kernel, software, n), part in groups(frame, names):
        if joined(system, n):
            release, engine = release_of(kernel, software), engine_of(kernel)
            seconds, size = column(part, "latency_ms") / 1e3, column(part, "bytes")
            fold = shapes(part, ["bytes", "num_gpus"])
            label = ("all", engine, "eager" if engine.endswith("eager") else "graph")
            yield Rows(file, system, "all_reduce", release, engine, n, node(system, n), size, seconds, fold, label)


def vidur(folder: Path) -> Iterator[Rows]:
    """Kernel times, whole microseconds; an all-reduce is PyTorch's of 2023, what a rank waits for the others included.

    The send_recv rows of the A100 pairs repeat the H100 pairs': left out. So are those between machines of pairs: one
    device of each of two nodes (num_nodes = num_workers // devices_per_node in vidur/profiling/collectives of
    github.com/microsoft/vidur), whose network nobody tells.
    """
    for (name, op, n, each), part in groups(read(folder, VIDUR), ["node", "op", "num_workers", "devices_per_node"]):
        if name not in NODES or (name == "a100_pairwise_nvlink" and op == "send_recv"):
            continue
        if n > each and name not in NETWORK:
            continue
        system = NODES[name]
        chip = chip_named(system)
        link = float(chip.link or 0.0)
        op = OPS.get(op, op)
        if name.endswith("dgx"):
            levels = [Level("node", each, link, 1e-6, "switch", system.startswith("h100"))]
            if n > each:
                levels.append(Level("cluster", n // each, NETWORK[name] / each, 5e-6, "network"))
            where = "node" if n <= each else "across nodes"
        else:  # pairs joined by NVLink, the pairs by PCIe
            pair = min(n, each, 2)
            levels = [Level("bridge", pair, link, 1e-6, "switch")]
            if n > pair:
                levels.append(Level("node", n // pair, float(chip.host or 32e9), 2e-6, "pcie"))
            where = "pair" if n <= pair else "across pairs"
        cluster = Cluster(f"{name} {n}x{each}", chip.id, tuple(levels))
        seconds, fold = column(part, "latency_ms") / 1e3, shapes(part, ["bytes", "num_workers"])
        label = ("all", f"{op},{where}")
        library = "pytorch" if op == "all_reduce" else "nccl"
        yield Rows(VIDUR, name, op, library, library, n, cluster, column(part, "bytes"), seconds, fold, label)


def llmcompass(folder: Path) -> Iterator[Rows]:
    """Timed from the host."""
    part = read(folder, LLMCOMPASS)
    if part.height:
        cluster, fold = node("a100_sxm", 4), shapes(part, ["bytes"])
        size, seconds = column(part, "bytes"), column(part, "latency_us") / 1e6
        yield Rows(
            LLMCOMPASS, "a100_sxm", "all_reduce", "nccl", "nccl", 4, cluster, size, seconds, fold, ("all",)
        )  # fmt: skip


def joined_nodes(system: str, nodes: int, inside: int = 8) -> Cluster:
    """So many nodes, a NIC of 400 Gb/s for each GPU."""
    one = node(system, inside)
    if nodes == 1:
        return one
    return Cluster(f"{nodes} nodes", one.chip, (one.levels[0], Level("cluster", nodes, 50e9, 5e-6, "network")))


def exchange_bytes(op: str, hidden: Any, scales: float = 4 / 128) -> Any:
    """Bytes of a token's copy: in 8 bits with a scale for every 128 values there, in 16 bits back."""
    return hidden * (1 + scales) if op == "dispatch" else 2.0 * hidden


def low_latency(folder: Path) -> Iterator[Rows]:
    """DeepEP's low-latency kernels: a copy to each expert.

    The H200 rows of the older release repeat the H100's digit for digit: left out. A node has 8 GPUs, one of GB200 4.
    """
    kinds = ["system", "software", "node_num", "num_topk", "num_experts"]
    for (system, software, nodes, top_k, experts), part in groups(read(folder, LOW_LATENCY), kinds):
        if not known(system) or (system == "h200_sxm" and software == "sglang 0.5.6.post2"):
            continue
        inside = 4 if system == "gb200" else 8
        fold = shapes(part, ["num_token", "num_topk", "hidden_size"])
        for op in ("dispatch", "combine"):
            each = exchange_bytes(op, column(part, "hidden_size"))
            yield Rows(
                LOW_LATENCY, system, op, "low_latency", "low_latency", inside * nodes,
                joined_nodes(system, nodes, inside), column(part, "num_token") * top_k * each,
                column(part, f"{op}_avg_t_us") / 1e6, fold, ("all", op, f"{op},nodes={nodes}"),
                routing=laws.Routing(top_k, experts, kernel="low_latency"),
            )  # fmt: skip


SMS, MOST_NODES = (20, 24), 4
"""DeepEP's own choice of multiprocessors, and the most nodes whose rows of normal kernels are used: on eight, times of
12 ms for 4,096 tokens, most of them waiting, contradict DeepEP's own 4.3."""


def normal(folder: Path) -> Iterator[Rows]:
    """DeepEP's normal kernels as SGLang calls them: a copy to each node, forwarded to each rank; uniform routing."""
    table = read(folder, NORMAL)
    if not table.height:
        return
    table = table.filter(
        (pl.col("op") == "deepep_normal") & pl.col("sms").is_in(SMS) & (pl.col("node_num") <= MOST_NODES)
    )
    for (system, op, nodes, top_k, experts), part in groups(
        table, ["system", "phase", "node_num", "topk", "num_experts"]
    ):
        if not known(system):
            continue
        inside = 4 if system == "gb200" else 8
        fold = shapes(part, ["num_tokens", "topk", "hidden_size"])
        each = exchange_bytes(op, column(part, "hidden_size"))
        yield Rows(
            NORMAL, system, op, "normal", "normal", inside * nodes, joined_nodes(system, nodes, inside),
            column(part, "num_tokens") * top_k * each, column(part, "latency_us") / 1e6, fold,
            ("all", op, f"{op},nodes={nodes}"), routing=laws.Routing(top_k, experts),
        )  # fmt: skip


ONE_SIDED, PAYLOADS = "NVLinkOneSided", {"bfloat16": 2.0, "fp8": 1.0, "nvfp4": 0.5625}
"""TensorRT-LLM's choice where one rack is joined by NVLink, and bytes of a value by the format that is sent."""


def nvlink(folder: Path) -> Iterator[Rows]:
    """TensorRT-LLM's exchange in a rack of GB200: a copy to each rank; tokens come back in 16 bits; uniform routing."""
    table = read(folder, NORMAL)
    if not table.height:
        return
    table = table.filter((pl.col("comm_backend") == ONE_SIDED) & pl.col("phase").is_in(["dispatch", "combine"]))
    table = table.with_columns(node_num=pl.lit(1))  # the rack counts as none
    kinds = ["system", "phase", "comm_dtype", "ep_size", "topk", "num_experts"]
    for (system, op, sent, ranks, top_k, experts), part in groups(table, kinds):
        if not known(system) or sent not in PAYLOADS:
            continue
        each = column(part, "hidden_size") * (PAYLOADS[sent] if op == "dispatch" else 2.0)
        yield Rows(
            NORMAL, system, op, "nvlink", "nvlink", ranks, node(system, ranks),
            column(part, "num_tokens") * top_k * each, column(part, "latency_us") / 1e6,
            shapes(part, ["num_tokens", "topk", "hidden_size"]), ("all", f"nvlink,{op}"),
            routing=laws.Routing(top_k, experts, kernel="nvlink"),
        )  # fmt: skip


def published(folder: Path) -> Iterator[Rows]:
    """DeepEP's own figures for H800, 256 experts: seconds, or bytes over bandwidth as its benchmark counts them.

    For normal kernels these are the copies that a rank receives from all nodes (or, in one node, from all ranks), its
    own among them: at EP 32 a token's 8 experts are on 3.61 nodes, at EP 64 on 3.63 of the at most 4 that are chosen,
    so that 58 and 51 GB/s are 1.89 and 2.15 ms, and 43.5 and 44.6 GB/s over the NIC.
    """
    table = read(folder, PUBLISHED)
    if not table.height:
        return
    for row in table.filter(pl.col("version") == "V1").iter_rows(named=True):
        ranks, op, top_k, kernel = int(row["ep"]), row["op"], int(row["topk"]), row["kernel"]
        nodes = ranks // 8
        grouped = (nodes, min(nodes, 4)) if kernel == "normal" and nodes > 1 else (1, 1)
        routing = laws.Routing(top_k, 256, *grouped, kernel=kernel)
        size = row["tokens_per_rank"] * top_k * exchange_bytes(op, row["hidden"])
        counted = size * routing.sent(nodes if nodes > 1 else ranks)
        seconds = row["latency_us"] / 1e6 if row["latency_us"] else counted / (row["bandwidth_GBps"] * 1e9)
        yield Rows(
            PUBLISHED, "h800_sxm", op, kernel, kernel, ranks, joined_nodes("h800_sxm", nodes), np.array([size]),
            np.array([seconds]), Shapes(np.array([0]), np.array([row["row"]])), ("all", f"{kernel},{op}"),
            routing=routing,
        )  # fmt: skip


def exchanges(folder: Path) -> Iterator[Rows]:
    """Every row of expert parallelism's exchanges."""
    yield from (*low_latency(folder), *normal(folder), *nvlink(folder), *published(folder))


NCCL_ENGINES, CUSTOM_ENGINES = "collectives_engines_aic.csv", "allreduce_custom_engines_aic.csv"
ONE_CCL = ("b60",)
"""Systems whose library is oneCCL, of which the later table alone has rows."""


def rows(folder: Path) -> list[Rows]:
    """Every row of `folder` that the constants were fitted to, or to others of the same tables."""
    library = (*nccl(folder), *nccl(folder, NCCL_ENGINES, only=ONE_CCL))
    return usable([*library, *custom(folder), *vidur(folder), *llmcompass(folder), *exchanges(folder)])


def newer_rows(folder: Path) -> list[Rows]:
    """Rows that took no part in any fit."""
    return usable([*nccl(folder, NCCL_ENGINES, but=ONE_CCL), *custom(folder, CUSTOM_ENGINES)])


def usable(every: list[Rows]) -> list[Rows]:
    """Those that have rows, of an op and among ranks that a law speaks of."""
    return [r for r in every if len(r.seconds) and r.op in laws.OPS and r.ranks > 1]


def predict(r: Rows, software: str) -> laws.Transfer:
    return laws.collective(r.op, r.size, r.ranks, r.cluster, stride=r.stride, software=software, routing=r.routing)


def scored(r: Rows, fitted: str = OF_COLLECTIVES) -> Iterator[tuple[tuple[str, ...], Scored]]:
    """The rows with their predictions, and the slices of these.

    A row is predicted for its own release: of one that was not fitted, by the engine's newest, which is a prediction of
    a later release. What the newest says of an older one is no prediction that anybody asks for.
    """
    t = predict(r, r.software)
    ends = (np.broadcast_to(end, r.size.shape).astype(float) for end in (t.expected, r.seconds, t.floor, t.low, t.high))
    grade = "".join(sorted({str(g) for g in np.ravel(t.grade)}))
    error = links.held_out_error(r.cluster.chip, r.cluster.levels[0].kind, r.op, r.software) if r.single else None
    apart = None if error is None else 100 * error
    yield r.slices, Scored(*ends, np.ones(r.size.shape, dtype=bool), grade, fitted, apart)


@contextmanager
def constants_from(file: Path) -> Iterator[None]:
    """Within it, collectives have the constants of another file."""
    shipped = links.FILE

    def use(path: Path) -> None:
        links.FILE = path
        for cached in (links._tables, laws.route, laws._flat, laws._of_few):
            cached.cache_clear()

    use(file)
    try:
        yield
    finally:
        use(shipped)


def judged_apart(every: Sequence[Rows], folder: Path) -> list[tuple[Column, Column]]:
    """The interval's ends of each of the rows, by constants that were fitted without its size.

    folder: `collectives-N.toml` for each N, as `fit_collectives.py --without-fold N` writes it.
    """
    ends = [(np.full(len(r.size), np.nan), np.full(len(r.size), np.nan)) for r in every]
    for n in range(FOLDS):
        with constants_from(folder / f"collectives-{n}.toml"):
            for r, (low, high) in zip(every, ends, strict=True):
                out = r.fold == n
                if out.any():
                    t = predict(r, r.software)
                    for part, end in ((low, t.low), (high, t.high)):
                        part[out] = np.broadcast_to(end, r.size.shape)[out]
    return ends


def collectives(folder: Path, fold: int = -1) -> list[GroupScore]:
    """The lines of the table; the pseudo-system `all` pools the systems of a file. fold: only the rows of that fold."""
    every: dict[tuple[str, str, str], list[Scored]] = {}
    for r in rows(folder):
        keep = r.shape.fold == fold if fold >= 0 else np.ones(len(r.size), dtype=bool)
        for names, one in scored(r):
            for name in names if keep.any() else ():
                every.setdefault((r.file, r.system, name), []).append(one.take(keep))
    return pooled(every)


def main(argv: list[str]) -> None:
    """Prints the table, and writes the JSON list where asked."""
    parser = argparse.ArgumentParser(description="Scores the constants of collectives on a folder of measurements.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", type=Path, help="write the list of objects here")
    parser.add_argument("--fold", type=int, default=-1, help="only the rows of this fifth of the sizes")
    parser.add_argument("--constants", type=Path, default=links.FILE, help="a file that fit_collectives.py wrote")
    options = parser.parse_args(argv)
    links.FILE = options.constants
    lines = collectives(options.folder, options.fold)
    print(plain_text(score_table(lines)))
    if options.json:
        options.json.write_text(json.dumps([asdict(s) for s in lines], indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
