"""Real transformers on this machine, prefill and decode, beside what the calibrated chip predicts.

    python benchmarks/this_machine.py [--chip FILE] [--device cpu|cuda] [--quick] [--json FILE]

Models are built from configs with random weights, in several families and sizes, and run eagerly as the library ships
them (SDPA attention, DynamicCache). The chip's constants come from `roofline calibrate`, which sees none of them.
Contexts are put into the cache rather than computed: a decode step takes as long after any tokens.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM, DynamicCache
from transformers.initialization import no_init_weights

import roofline as rl
from machine_description import describe
from roofline.hardware.chip import Chip
from roofline.hardware.named_chip import chip_named
from roofline.measured.calibrate.file import chip_toml
from roofline.measured.calibrate.fitting import fit_laws
from roofline.measured.calibrate.measuring import clock_for, measure
from roofline.views.text.tables import Column, Table, plain_text

LONGEST = 5.0
"""Points predicted to take longer than this many seconds are left out."""


@dataclass(frozen=True)
class Case:
    """A model to build: a name for its size and the config, as keys of its family."""

    family: str
    size: str
    config: dict[str, Any]


@dataclass(frozen=True)
class Point:
    """A step of a model: seconds measured (the median of repeats) and predicted."""

    family: str
    size: str
    parameters: int
    dtype: str
    phase: str
    batch: int
    tokens: int
    measured: float
    predicted: float

    @property
    def error(self) -> float:
        """predicted / measured − 1."""
        return self.predicted / self.measured - 1


def _llama(
    hidden: int, inner: int, layers: int, heads: int, kv: int, vocab: int = 32000, **more: Any
) -> dict[str, Any]:
    return {
        "hidden_size": hidden, "intermediate_size": inner, "num_hidden_layers": layers, "num_attention_heads": heads,
        "num_key_value_heads": kv, "vocab_size": vocab, "max_position_embeddings": 8192, **more,
    }  # fmt: skip


CASES = (
    Case("llama", "60M", _llama(512, 1536, 12, 8, 8, tie_word_embeddings=True)),
    Case("llama", "250M", _llama(1024, 2816, 16, 16, 4)),
    Case("llama", "1B", _llama(2048, 8192, 16, 32, 8, 64000, tie_word_embeddings=True)),
    Case("qwen2", "500M", _llama(896, 4864, 24, 14, 2, 64000, tie_word_embeddings=True)),
    Case("qwen3", "400M", _llama(1024, 3072, 20, 16, 8, 64000, head_dim=128, tie_word_embeddings=True)),
    Case("gpt2", "124M", {"n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 4096, "vocab_size": 50257}),
    Case("gpt2", "355M", {"n_embd": 1024, "n_layer": 24, "n_head": 16, "n_positions": 4096, "vocab_size": 50257}),
    Case("gemma", "350M", _llama(1024, 4096, 14, 4, 1, 64000, head_dim=256, tie_word_embeddings=True)),
    Case("phi", "300M", _llama(1024, 4096, 20, 16, 16, 51200)),
    Case("mixtral", "8x40M", _llama(768, 2048, 8, 12, 4, num_local_experts=8, num_experts_per_tok=2)),
)
QUICK = ("60M", "124M", "250M")


def grid(quick: bool) -> Iterator[tuple[str, int, int]]:
    """Phase, batch, and new tokens of a prefill or cached ones of a decode."""
    for batch in (1, 4):
        for tokens in (64, 256) if quick else (64, 256, 1024):
            yield "prefill", batch, tokens
    for batch in (1, 4) if quick else (1, 2, 8):
        for tokens in (128, 1024) if quick else (128, 512, 2048):
            yield "decode", batch, tokens


def build(case: Case, dtype: str, device: str) -> tuple[Any, Any]:
    """The real model with uniform random weights, and ours from the same config."""
    config = AutoConfig.for_model(case.family, **case.config)
    kind = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[dtype]
    with no_init_weights():
        real = AutoModelForCausalLM.from_config(config, dtype=kind).eval().to(device)
    with torch.no_grad():
        for weight in real.parameters():
            weight.uniform_(-0.03, 0.03)
    return real, rl.load({**config.to_dict(), "dtype": str(kind).removeprefix("torch.")})


def step_of(real: Any, phase: str, batch: int, tokens: int, device: str) -> Callable[[], object]:
    """The call to time."""
    if phase == "prefill":
        ids = torch.randint(0, 1000, (batch, tokens), device=device)
        return lambda: real(input_ids=ids, use_cache=True, logits_to_keep=1)
    config = real.config
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    cache = DynamicCache(config=config)
    for layer in range(config.num_hidden_layers):
        keys, values = (torch.rand(batch, heads, tokens, head, device=device).to(real.dtype) for _ in range(2))
        cache.update(keys, values, layer)
    token = torch.randint(0, 1000, (batch, 1), device=device)
    return lambda: real(input_ids=token, past_key_values=cache, use_cache=True)


def run(chip: Chip, dtypes: Iterable[str], device: str, quick: bool, cpu_clock: bool) -> Iterator[Point]:
    """Every model, dtype and step."""
    clock = replace(clock_for("cuda" if device == "cuda" else "cpu", quick, cpu_clock), most=12)
    for case in CASES:
        if quick and case.size not in QUICK:
            continue
        for dtype in dtypes:
            real, ours = build(case, dtype, device)
            for phase, batch, tokens in grid(quick):
                step = rl.prefill(batch, tokens) if phase == "prefill" else rl.decode(batch, tokens)
                predicted = float(rl.estimate(ours, step, on=chip, engine="none").time)
                if predicted > LONGEST:
                    continue
                with torch.no_grad():
                    measured, calls = clock(step_of(real, phase, batch, tokens, device))
                if phase == "decode":
                    predicted = float(
                        rl.estimate(ours, rl.decode(batch, tokens + calls // 2), on=chip, engine="none").time
                    )
                yield Point(case.family, case.size, ours.parameters, dtype, phase, batch, tokens, measured, predicted)
                gc.collect()


COLUMNS = (
    Column("Family"), Column("Size"), Column("Dtype"), Column("Phase"), Column("Batch", "count"),
    Column("Tokens", "count"), Column("Predicted", "s"), Column("Measured", "s"), Column("Error", "change"),
)  # fmt: skip


def table(points: Iterable[Point]) -> Table:
    """A row for each point."""
    rows = (
        (p.family, p.size, p.dtype, p.phase, p.batch, p.tokens, p.predicted, p.measured, 1 + p.error) for p in points
    )
    return Table(COLUMNS, tuple(rows), title="Predicted and measured")


def median_error(points: Iterable[Point]) -> float:
    return statistics.median(abs(p.error) for p in points)


def summary(points: list[Point]) -> dict[str, float]:
    """Median |error| over everything, and by family, dtype and phase."""
    medians = {"all": median_error(points)}
    for field in ("family", "dtype", "phase"):
        for value in dict.fromkeys(getattr(p, field) for p in points):
            medians[value] = median_error(p for p in points if getattr(p, field) == value)
    for dtype in dict.fromkeys(p.dtype for p in points):
        for phase in dict.fromkeys(p.phase for p in points):
            chosen = [p for p in points if p.dtype == dtype and p.phase == phase]
            if chosen:
                medians[f"{phase} {dtype}"] = median_error(chosen)
    return medians


def main() -> None:
    """Prints a row as it is measured, then the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--chip", help="a chip file of `roofline calibrate`; calibrates first where none is given")
    parser.add_argument("--dtype", nargs="*", default=["fp32", "bf16"], choices=("fp32", "bf16", "fp16"))
    parser.add_argument("--quick", action="store_true", help="fewer models and steps")
    parser.add_argument("--cpu-clock", action="store_true", help="one thread, timed by its CPU clock")
    parser.add_argument("--json", type=Path, help="write the rows and medians here")
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    calibrated = None
    if options.chip:
        chip = chip_named(options.chip)
    else:
        show: Any = lambda done, all_, what: print(f"\rcalibrating {done}/{all_} {what:20}", end="", file=sys.stderr)  # noqa: E731
        calibrated = fit_laws(measure(options.device, quick=options.quick, cpu_clock=options.cpu_clock, progress=show))
        chip = calibrated.chip
        print(file=sys.stderr)
    if options.cpu_clock:
        torch.set_num_threads(1)
    threads = f"{torch.get_num_threads()} threads" if options.device == "cpu" else torch.cuda.get_device_name()
    clock = "CPU clock" if options.cpu_clock else "wall clock"
    versions = f"PyTorch {torch.__version__}, transformers {transformers.__version__}"
    about = f"{describe()}; {threads}, {clock}; {versions}"
    print(about)
    points: list[Point] = []
    for point in run(chip, options.dtype, options.device, options.quick, options.cpu_clock):
        points.append(point)
        print("  ".join(table([point]).cells[0]), file=sys.stderr, flush=True)
    print(plain_text(table(points)))
    medians = summary(points)
    for name, value in medians.items():
        print(f"median error {name}: {100 * value:.1f} %")
    print(f"target: median over all ≤ 15 % — {'met' if medians['all'] <= 0.15 else 'missed'} ({len(points)} points)")
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        rows = [{**asdict(p), "error": p.error} for p in points]
        data = {
            "schema": "roofline.this_machine/1",
            "machine": about,
            "chip": chip.name,
            "median_error": medians,
            "rows": rows,
        }
        if calibrated:
            data["chip_file"] = chip_toml(calibrated)
        options.json.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
