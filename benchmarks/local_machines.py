"""llama.cpp on workstations and laptops against what Roofline expects of the same model in the same number of bits.

    python benchmarks/local_machines.py DIR [--rows] [--fit VENDOR]

One line for each chip, format and test (pp: a prompt, tg: generation of one sequence): how many rows, and expected over
measured tokens per second, median, least and most.  Of several GPUs, of mixtures of experts and of files of unknown
formats there are no lines.

--fit: constants of a vendor's chips, from the generation of one sequence: what a kernel's launch takes more than the
generic floors, and the fraction of the bandwidth that products with weights in 16, 8 and 4 bits reach.  The error
beside them is of chips that took no part.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from pathlib import Path
from statistics import median

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.optimize import least_squares  # type: ignore[import-untyped]

import roofline as rl
from roofline.machine.chip import Chip, chip_named
from roofline.machine.constants import FOLDER, constants_for
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
        """The stored format: blocks of 32 values with an fp16 scale; K-quants mix widths, as the file's size says."""
        if self.quant in ("F16", "BF16"):
            return format_named("fp16")
        if self.quant in ("Q8_0", "Q4_0"):
            return integers(int(self.quant[1]), 32, zeros=False)
        whole = int(self.quant[1])
        bits = Fraction(round(self.file_gib * 2**30 * 8 / (self.parameters * 1e9) * 256), 256)
        return Format(self.quant, Fraction(whole), bits - whole, None, "group")

    def expected(self, on: Chip) -> float:
        """Tokens per second that Roofline expects of a chip."""
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
        return (self.prompt or 1) / float(rl.estimate(self.model, step, on=on, precision=precision).time)


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


FITTED = (
    ("bf16", "matmul"), ("int8_wo", "quantised_matmul"), ("int4_wo", "quantised_matmul"), ("bf16", "stream"),
    ("bf16", "decode"),
)  # fmt: skip
"""Dtype and kind of the ops of a step that adds one token; products first, each with a share of its own."""
START, LEAST, MOST = (5e-6, 0.8, 0.8, 0.8), (1e-8, 0.3, 0.3, 0.3), (4e-5, 1.0, 1.0, 1.0)
Tables = dict[str, dict[str, dict[str, dict[str, float]]]]


def tables(point: NDArray[np.float64], interval: tuple[float, float] = (1.0, 1.0)) -> Tables:
    """The generic constants with a longer launch, and shares of the bandwidth for products."""
    nobody = replace(chip_named("m1"), id="nobody", generation="nothing", vendor="nobody")
    made: Tables = {}
    for i, (dtype, kind) in enumerate(FITTED):
        record = constants_for(nobody, dtype, kind).record
        share = {"memory": float(point[1 + i])} if i < 3 else {}
        record = replace(record, t0=record.t0 + float(point[0]), **share)
        low, high = interval
        values = {f.name: float(getattr(record, f.name)) for f in fields(record)}
        values |= {"low": low, "high": high, "low_small": low, "high_small": high}
        made.setdefault(dtype, {})[kind] = {"default": values}
    return made


def ratios_of(point: NDArray[np.float64], several: list[Row]) -> NDArray[np.float64]:
    """Measured over expected seconds."""
    chips = {name: replace(chip_named(name), constants=tables(point)) for name in {r.chip for r in several}}
    return np.array([r.expected(chips[r.chip]) / r.measured for r in several])


def solved(several: list[Row]) -> NDArray[np.float64]:
    """The launch and the shares that fit some rows; every chip and format weighs the same."""
    many: dict[tuple[str, str], int] = defaultdict(int)
    for r in several:
        many[r.chip, r.quant] += 1
    weight = np.array([many[r.chip, r.quant] ** -0.5 for r in several])

    def residual(point: NDArray[np.float64]) -> NDArray[np.float64]:
        return weight * np.log(ratios_of(np.exp(point), several))

    bounds = np.log(LEAST), np.log(MOST)
    return np.exp(least_squares(residual, np.log(START), bounds=bounds, diff_step=1e-3, max_nfev=15).x)


def fit(several: list[Row], vendor: str) -> None:
    """Fits a vendor's constants and writes them, with the error on chips that took no part."""
    chips = sorted({r.chip for r in several})
    left_out: list[float] = []
    for out in chips:
        point = solved([r for r in several if r.chip != out])
        left_out += ratios_of(point, [r for r in several if r.chip == out]).tolist()
    low, high = (float(np.quantile(left_out, q)) for q in (0.1, 0.9))
    error = float(np.mean(np.abs(1 / np.array(left_out) - 1)))
    lines = [
        f"# Written by benchmarks/local_machines.py --fit {vendor}: llama.cpp's generation of one sequence on",
        f"# {', '.join(chips)}.",
        "# mape: of the tokens per second on a chip that took no part; low, high: what 80 % of those rows lie within.",
    ]
    for dtype, kinds in tables(solved(several), (low, high)).items():
        for kind, software in kinds.items():
            lines += ["", f"[{dtype}.{kind}.default]", 'software = "llama.cpp"']
            lines += [f"{name} = {value:.4g}" for name, value in software["default"].items()]
            lines += [f"rows = {len(several)}", f"mape = {error:.4f}"]
    (FOLDER / f"vendor-{vendor}.toml").write_text("\n".join(lines) + "\n")


def main(argv: Iterable[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", action="store_true", help="every row")
    parser.add_argument("--fit", default="", help="vendor whose constants to fit")
    options = parser.parse_args(list(argv))
    if options.fit:
        of_vendor = [r for r in rows(options.folder) if chip_named(r.chip).vendor == options.fit and not r.prompt]
        fit(of_vendor, options.fit)
        return
    ratios: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for row in rows(options.folder):
        ratio = row.expected(chip_named(row.chip)) / row.measured
        ratios[row.chip, row.quant, "pp" if row.prompt else "tg"].append(ratio)
        if options.rows:
            print(f"{row.chip:22}{row.model:30}{row.quant:8}{row.test:10}{row.measured:10.1f}{ratio:7.2f}")
    print(f"{'chip':24}{'format':8}{'test':6}{'rows':>4}{'median':>8}{'least':>7}{'most':>7}")
    for (chip, quant, test), values in sorted(ratios.items()):
        print(f"{chip:24}{quant:8}{test:6}{len(values):4}{median(values):8.2f}{min(values):7.2f}{max(values):7.2f}")


if __name__ == "__main__":
    main(sys.argv[1:])
