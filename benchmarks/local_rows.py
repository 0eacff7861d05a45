"""llama.cpp on machines that people own: every row of local_machines.csv scored, or counted under a reason.

    python benchmarks/local_rows.py DIR

Prompts go in parts of 512 tokens. Of several cards, which llama.cpp splits by layer, an answer takes as long as on one;
parts of a prompt follow one another through them.
`benchmarks/fit_local.py` fits the constants and says how far machines left out fall.
"""

import csv
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import mean, median
from typing import Any

import roofline as rl
from roofline.declared.errors import InputError
from roofline.hardware.named_chip import chip_named
from roofline.model.checkpoints.gguf.mixes import mix_or_error
from roofline.model.load import catalog

NAMES = {
    "Llama-3-8B": "meta-llama/Meta-Llama-3-8B", "Llama-3-70B": "meta-llama/Meta-Llama-3-70B",
    "Llama-2-7B": "meta-llama/Llama-2-7b-hf", "llama-2-7b.Q4_0": "meta-llama/Llama-2-7b-hf",
    "gpt-oss-20b-mxfp4": "openai/gpt-oss-20b", "gpt-oss-120b-mxfp4": "openai/gpt-oss-120b",
    "gpt-oss 20b": "openai/gpt-oss-20b", "gpt-oss:20b": "openai/gpt-oss-20b", "DeepSeek R1 14b": "Qwen/Qwen2.5-14B",
    "DeepSeek R1 671b": "deepseek-ai/DeepSeek-R1", "Llama 3.2:3b": "meta-llama/Llama-3.2-3B",
    "Llama 3.1:70b": "meta-llama/Llama-3.1-70B", "Llama 3.1:405b": "meta-llama/Llama-3.1-405B",
    "llama3.2:3b": "meta-llama/Llama-3.2-3B", "llama3.2:1b": "meta-llama/Llama-3.2-1B",
    "llama3.1:8b": "meta-llama/Llama-3.1-8B", "qwen3:8b": "Qwen/Qwen3-8B", "qwen2.5-coder:14b": "Qwen/Qwen2.5-14B",
    "gemma3:4b": "google/gemma-3-4b-it", "gemma-3-4b-it-qat": "google/gemma-3-4b-it",
    "Qwen2.5-Coder-7B": "Qwen/Qwen2.5-7B", "Qwen2.5-Coder-7B-Instruct": "Qwen/Qwen2.5-7B",
    "Qwen2.5-Coder-3B-Instruct": "Qwen/Qwen2.5-3B", "Qwen2.5-Coder-14B-Instruct": "Qwen/Qwen2.5-14B",
    "Qwen3-Coder-30B-A3B": "Qwen/Qwen3-Coder-30B-A3B-Instruct", "DeepSeek-R1-Distill-Qwen-7B": "Qwen/Qwen2.5-7B",
    "DeepSeek-R1-Distill-Qwen-14B": "Qwen/Qwen2.5-14B", "DeepSeek-R1-Distill-Llama-8B": "meta-llama/Llama-3.1-8B",
    "Meta-Llama-3.1-8B-Instruct": "meta-llama/Llama-3.1-8B", "Qwen3.6-27B": "Qwen/Qwen3.5-27B",
    "Qwen3.6-35B-A3B": "Qwen/Qwen3.5-35B-A3B", "Qwen3.6-35B-A3B-BF16": "Qwen/Qwen3.5-35B-A3B",
    "GLM-4.7-Flash-BF16": "zai-org/GLM-4.7-Flash", "gemma-4-26B-A4B-it-BF16": "google/gemma-4-26B-A4B",
    "gemma-4-31B-it-BF16": "google/gemma-4-31B",
    "Ministral-3-14B-Instruct-2512-BF16": "mistralai/Ministral-3-14B-Base-2512",
    "qwen3.5:9b": "Qwen/Qwen3.5-9B",
}  # fmt: skip
"""Models of the rows → catalog names of the same sizes, where they are not found by their own."""
CHIPS = {
    "RTX PRO 6000": "rtx-pro-6000-workstation", "A100 PCIe": "a100-pcie-80gb", "5060 Ti": "rtx-5060-ti-16gb",
    "Pi 5 - 16GB": "raspberry-pi-5", "Pi 500+ - 16GB": "raspberry-pi-5", "Pi 400 - 4GB": "raspberry-pi-4",
    "GMKtek G3 Plus (Intel N150) - 16GB": "n150", "GMKtec G3 Plus (Intel N150) - 16GB": "n150",
    "AmpereOne A192-32X (512GB)": "ampereone-a192-32x", "RTX 5000 Ada": "rtx-5000-ada",
}  # fmt: skip
BACKENDS = {
    "CUDA": "llama.cpp", "Metal": "llama.cpp", "rocm-7_2_3": "llama.cpp", "vulkan_radv": "llama.cpp-vulkan",
    "Vulkan": "llama.cpp-vulkan", "CPU": "ollama", "GPU": "ollama",
}  # fmt: skip
BEFORE_FLASH = frozenset(("May 2024", "2023-11 and later"))
"""Builds whose tools used no flash attention unless asked to."""


class LeftOutError(Exception):
    """Why a row is no measurement of ours."""


@dataclass(frozen=True)
class LocalRow:
    """A rate, tokens a second: of a prompt of `prompt` tokens after `depth`, or of an answer of `generated`."""

    machine: str
    chip: str
    engine: str
    model: str
    mix: str
    prompt: int
    generated: int
    depth: int
    rate: float
    gpus: int
    source: str
    flash: bool

    @property
    def test(self) -> str:
        """What is measured."""
        return "prompt" if self.prompt else "answer"

    @property
    def piped(self) -> bool:
        """Whether parts of a prompt go through several cards."""
        return self.gpus > 1 and self.prompt > 0

    @property
    def context(self) -> int:
        """Tokens in the cache in the middle of the answer."""
        return self.depth + max(1, self.generated // 2)


@cache
def model_named(text: str, quant: str) -> str:
    """The catalog's name of a row's model."""
    bare = re.sub(rf"[-.](UD-)?{re.escape(quant)}(-fp16)?$", "", text)
    for name in (text, bare):
        if name in NAMES:
            return NAMES[name]
    names = {n.rpartition("/")[2].lower(): n for n in catalog()}
    for tried in (bare, bare.removesuffix("-Instruct"), f"{bare}-Instruct", bare.removesuffix("-it"), f"{bare}-Base"):
        if tried.lower() in names:
            return names[tried.lower()]
    raise LeftOutError("no such model in the catalog")


def mix_named(text: str, quant: str, model: str) -> str:
    """The mix of a row's file."""
    if "UD-" in text:
        raise LeftOutError("a recipe of the publisher's, whose types are not given")
    if quant.startswith(("Ollama default", "tag default")):
        if "mlx" in text:
            raise LeftOutError("MLX's format is not given")
        quant = "MXFP4" if "gpt-oss" in text else "Q4_K_M"
    name = {"MXFP4": "mxfp4_moe", "BF16": "bf16", "F16": "f16"}.get(quant, quant.lower())
    if name not in ("bf16", "f16"):
        try:
            mix_or_error(name)
        except InputError as error:
            raise LeftOutError("a mix that has no name") from error
    return name


def local_row(r: dict[str, str]) -> LocalRow:
    """A row as a measurement. Raises LeftOutError with the reason."""
    machine, gpus = r["machine"], int(r["num_gpus"] or 1)
    name = CHIPS.get(machine, machine)
    if machine == "M1" and r["gpu_cores"] == "7":
        name = "m1-7c"
    if machine == "M3 Max" and r["gpu_cores"] == "30":
        name = "m3-max-30c"
    try:
        chip = chip_named(name).id
    except InputError as error:
        raise LeftOutError("no such chip in the catalog") from error
    test = r["test"]
    if " " in test or int(r["batch"] or 1) != 1:
        raise LeftOutError("several sequences, or prompt and answer mixed")
    prompt, generated = int(r["n_prompt"] or 0), int(r["n_gen"] or 0)
    ollama = r["engine"].lower() == "ollama"
    if ollama and not prompt and not generated:
        generated = 128
    if not prompt and not generated:
        raise LeftOutError("no length is given")
    if prompt and generated:
        raise LeftOutError("several sequences, or prompt and answer mixed")
    if gpus > 1 and prompt and float(r["depth"] or 0):
        raise LeftOutError("a prompt behind others whose layers are spread over several cards")
    model = model_named(r["model"], r["quant"])
    engine = "ollama" if ollama else BACKENDS.get(r["backend"], "llama.cpp")
    return LocalRow(
        machine, chip, engine, model, mix_named(r["model"], r["quant"], model), prompt, generated,
        int(float(r["depth"] or 0)), float(r["tok_per_s"]), gpus, r["quality"], r["build"] not in BEFORE_FLASH,
    )  # fmt: skip


def local_rows(folder: Path) -> Iterator[LocalRow | str]:
    """Every row, or why it is left out."""
    with (folder / "local_machines.csv").open(encoding="utf-8", newline="") as lines:
        for r in csv.DictReader(lines):
            try:
                yield local_row(r)
            except LeftOutError as error:
                yield str(error)


def precision_of(row: LocalRow) -> str:
    """The formats of a row's file, its activations and its cache in fp16."""
    if row.model == "google/gemma-3-4b-it":  # trained for q4_0, its table kept in q8_0
        return "q4_0,head=q8_0,embedding=q8_0"
    return WHOLE.get(row.mix, row.mix)


WHOLE = {"f16": "weights=fp16,router=fp16,head=fp16,embedding=fp16,other=fp16", "bf16": "weights=bf16"}


def load(row: LocalRow) -> rl.Model:
    """The row's model."""
    return rl.load(row.model)


def engine_of(row: LocalRow) -> str:
    """The engine whose kernels a row ran, and its setting."""
    name = "llama-cpp-vulkan" if row.engine == "llama.cpp-vulkan" else "llama-cpp"
    return name if row.flash else f"{name}(flash_attn=off)"


UBATCH = 512


def step_of(row: LocalRow) -> tuple[rl.Step, float]:
    """A step that stands for a row, and the tokens that it makes or takes."""
    if not row.prompt:
        return rl.decode(1, row.context), 1.0
    part = min(UBATCH, row.prompt)
    return rl.prefill(1, part, cached=row.depth + (row.prompt // part - 1) * part // 2), float(part)


def main() -> None:
    every = list(local_rows(Path(sys.argv[1])))
    scored: dict[tuple[str, str], list[tuple[float, bool]]] = defaultdict(list)
    for row in (r for r in every if not isinstance(r, str)):
        engine = engine_of(row)
        step, tokens = step_of(row)
        where: Any = {"on": row.chip, "engine": engine, "precision": precision_of(row)}
        if row.piped:
            where |= {"on": f"{row.gpus}x{row.chip}", "layout": f"pp={row.gpus}"}
            span, tokens = rl.generate(load(row), batch=1, input=row.prompt, output_tokens=1, **where).ttft, row.prompt
        else:
            span = rl.estimate(load(row), step, within=False, **where).span
        inside = tokens / float(span.high) <= row.rate <= tokens / float(span.low)
        test = f"{row.test}, cards" if row.piped else row.test
        scored[f"{chip_named(row.chip).vendor} {engine.partition('(')[0]}", test].append(
            (tokens / float(span.expected) / row.rate, inside)
        )
    print(f"{'backend':26}{'test':14}{'rows':>5}{'median':>9}{'mean':>8}{'bias':>8}{'in 80 %':>9}")
    for (backend, test), values in sorted(scored.items()):
        errors = [abs(ratio - 1) for ratio, _ in values]
        bias, share = median(ratio for ratio, _ in values) - 1, mean(inside for _, inside in values)
        print(f"{backend:26}{test:14}{len(values):5}{median(errors):9.1%}{mean(errors):8.1%}{bias:+8.1%}{share:9.0%}")
    for reason, count in Counter(r for r in every if isinstance(r, str)).most_common():
        print(f"{count:5} left out: {reason}")
    print(f"{len(every):5} rows")


if __name__ == "__main__":
    main()
