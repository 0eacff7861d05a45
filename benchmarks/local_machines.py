"""llama.cpp on workstations and laptops against what Roofline expects of the same model in the same number of bits.

    python benchmarks/local_machines.py DIR [--rows]

One line for each chip, format and test (pp: a prompt, tg: generation of one sequence): how many rows, and expected over
measured tokens per second, median, least and most.  Of several GPUs, of mixtures of experts and of files of unknown
formats there are no lines.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from statistics import median

import polars as pl

import roofline as rl
from roofline.model.formats import Format, format_named, integers
from roofline.model.precision import Precision

MODELS = {
    "Llama-2-7B": "meta-llama/Llama-2-7b-hf",
    "llama-2-7b.Q4_0": "meta-llama/Llama-2-7b-hf",
    "Llama-3-8B": "meta-llama/Meta-Llama-3-8B",
    "Llama-3-70B": "meta-llama/Meta-Llama-3-70B",
    "Qwen2.5-Coder-7B": "Qwen/Qwen2.5-7B",
}
MACHINES = {
    "3090": "rtx-3090", "5090": "rtx-5090", "GB10": "gb10", "RTX 6000 Ada": "rtx-6000-ada",
    "A100 PCIe": "a100-pcie-80gb", "RTX PRO 6000": "rtx-pro-6000-workstation", "M1": "m1", "M1 Pro": "m1-pro",
    "M2": "m2", "M2 Pro": "m2-pro", "M2 Ultra": "m2-ultra", "M3 Pro": "m3-pro", "M3 Max": "m3-max",
    "M3 Ultra": "m3-ultra",
}  # fmt: skip
CORES = {"M1": 8, "M3 Max": 40}
"""Cores of the GPU, of chips that are sold with several numbers of them."""


@dataclass(frozen=True)
class Row:
    """A measured rate: on which chip, of which model in which format, at which test."""

    chip: str
    model: str
    quant: str
    test: str
    file_gib: float
    parameters: float
    prompt: int
    generated: int
    depth: int
    measured: float

    @property
    def weights(self) -> Format:
        """The stored format: blocks of 32 values with an fp16 scale; K-quants mix widths, which the file's size says."""
        if self.quant in ("F16", "BF16"):
            return format_named("fp16")
        if self.quant in ("Q8_0", "Q4_0"):
            return integers(int(self.quant[1]), 32, zeros=False)
        whole = int(self.quant[1])
        bits = Fraction(round(self.file_gib * 2**30 * 8 / (self.parameters * 1e9) * 256), 256)
        return Format(self.quant, Fraction(whole), bits - whole, None, "group")

    @property
    def expected(self) -> float:
        """Tokens per second that Roofline expects."""
        half, kept = format_named("fp16"), self.weights
        precision = Precision(
            attention=kept, ffn=kept, experts=kept, router=half, embedding=half, head=kept, other=half,
            activations=half, kv=half, state=half,
        )  # fmt: skip
        step = (
            rl.prefill(1, self.prompt, cached=self.depth)
            if self.prompt
            else rl.decode(1, self.depth + max(1, self.generated // 2))
        )
        return (self.prompt or 1) / float(rl.estimate(self.model, step, on=self.chip, precision=precision).time)


def rows(folder: Path) -> Iterator[Row]:
    """The rows of one GPU with one dense model of a known format."""
    frame = pl.read_csv(folder / "local_machines.csv", infer_schema_length=None)
    for r in frame.iter_rows(named=True):
        chip, model, quant, test = MACHINES.get(r["machine"]), MODELS.get(r["model"]), r["quant"], r["test"]
        if chip is None or model is None or r["engine"] != "llama.cpp" or int(r["num_gpus"] or 1) != 1:
            continue
        if (r["gpu_cores"] and int(r["gpu_cores"]) != CORES.get(r["machine"], int(r["gpu_cores"]))) or not quant:
            continue
        if quant not in ("F16", "BF16", "Q8_0", "Q4_0", "Q4_K_M") or " " in test or int(r["batch"] or 1) != 1:
            continue
        if r["backend"] == "Vulkan" and chip in ("rtx-3090", "rtx-5090"):
            continue  # not what anybody runs there
        yield Row(
            chip, model, quant, test, float(r["file_gib"] or 0), float(r["params_b"]), int(r["n_prompt"] or 0),
            int(r["n_gen"] or 0), int(r["depth"] or 0), float(r["tok_per_s"]),
        )  # fmt: skip


def main(argv: Iterable[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", action="store_true", help="every row")
    options = parser.parse_args(list(argv))
    ratios: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for row in rows(options.folder):
        ratio = row.expected / row.measured
        ratios[row.chip, row.quant, "pp" if row.prompt else "tg"].append(ratio)
        if options.rows:
            print(f"{row.chip:22}{row.model:30}{row.quant:8}{row.test:10}{row.measured:10.1f}{ratio:7.2f}")
    print(f"{'chip':24}{'format':8}{'test':6}{'rows':>4}{'median':>8}{'least':>7}{'most':>7}")
    for (chip, quant, test), values in sorted(ratios.items()):
        print(f"{chip:24}{quant:8}{test:6}{len(values):4}{median(values):8.2f}{min(values):7.2f}{max(values):7.2f}")


if __name__ == "__main__":
    main(sys.argv[1:])
