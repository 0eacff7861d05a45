"""Sizes of GGUF files, counted from a config and the mix's name, against those of real files.

    python benchmarks/gguf_sizes.py DIR [--rows]

DIR: a folder with `local_machines.csv`, whose `file_gib` are what llama-bench prints: all tensors, without metadata.
Besides: published sizes of `tests/model/gguf_published.csv`. Files whose recipe is not llama.cpp's own (UD: types
chosen by hand for each model) or whose config is not in the catalog are named and left out.
"""

import argparse
import csv
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import roofline as rl
from roofline.model.checkpoints.gguf.mixes import TypeMix, mix_or_error
from roofline.model.checkpoints.gguf.tensors import gguf_size
from roofline.model.formats import GGML_TYPES

UNITS = {"GB": 1e9, "GiB": 2.0**30}
CITED = Path(__file__).parents[1] / "tests" / "model" / "gguf_published.csv"
MODELS = {
    "GLM-4.7-Flash-BF16": "zai-org/GLM-4.7-Flash",
    "Llama-2-7B": "meta-llama/Llama-2-7b-hf",
    "llama-2-7b.Q4_0": "meta-llama/Llama-2-7b-hf",
    "Llama-3-8B": "meta-llama/Meta-Llama-3-8B",
    "Llama-3-70B": "meta-llama/Meta-Llama-3-70B",
    "Ministral-3-14B-Instruct-2512-BF16": "mistralai/Ministral-3-14B-Base-2512",
    "Qwen2.5-Coder-7B": "Qwen/Qwen2.5-7B",
    "Qwen3-Coder-30B-A3B": "Qwen/Qwen3-Coder-30B-A3B-Instruct",
    "Qwen3.6-35B-A3B-BF16": "Qwen/Qwen3.5-35B-A3B",
    "gemma-3-4b-it-qat": "google/gemma-3-4b-it",
    "gemma-4-26B-A4B-it-BF16": "google/gemma-4-26B-A4B",
    "gemma-4-31B-it-BF16": "google/gemma-4-31B",
    "gpt-oss-120b": "openai/gpt-oss-120b",
    "gpt-oss-120b-mxfp4": "openai/gpt-oss-120b",
    "gpt-oss-20b": "openai/gpt-oss-20b",
    "gpt-oss-20b-mxfp4": "openai/gpt-oss-20b",
}
"""Models of the measured files → configs of the same sizes."""
GIVEN = {
    "gemma-3-4b-it-qat": TypeMix("q4_0", tables=GGML_TYPES["q8_0"]),  # trained for q4_0, its table kept in q8_0
}
"""Files whose recipe their publisher states, by model."""


@dataclass(frozen=True)
class File:
    """A file: its model, its mix as called, the bytes that are known of it, and those that are counted."""

    model: str
    mix: str
    bytes: float
    counted: int

    @property
    def error(self) -> float:
        """Counted over known, less one."""
        return self.counted / self.bytes - 1


def measured(folder: Path) -> tuple[list[File], list[str]]:
    """The files of `local_machines.csv`, each once, and those that are left out."""
    files, left = [], []
    with (folder / "local_machines.csv").open(encoding="utf-8") as table:
        keys = {(r["model"], r["quant"], r["file_gib"]) for r in csv.DictReader(table) if r["file_gib"]}
    for model, quant, gib in sorted(keys):
        if model not in MODELS:
            left.append(f"{model} ({quant}, {gib} GiB)")
            continue
        mix = GIVEN.get(model) or mix_or_error("mxfp4_moe" if quant == "MXFP4" else quant.lower())
        files.append(File(model, quant, float(gib) * UNITS["GiB"], gguf_size(rl.load(MODELS[model]), mix).bytes))
    return files, left


def cited() -> list[File]:
    """The published ones."""
    with CITED.open(encoding="utf-8") as table:
        return [
            File(
                r["model"],
                r["mix"],
                float(r["size"]) * UNITS[r["unit"]],
                gguf_size(rl.load(r["model"]), r["mix"]).bytes,
            )
            for r in csv.DictReader(table)
        ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", action="store_true", help="every file")
    given = parser.parse_args()
    files, left = measured(given.folder)
    for what, some in (("measured", files), ("published", cited())):
        errors = [abs(f.error) for f in some]
        print(f"{what}: {len(some)} files, error median {median(errors):.3%}, largest {max(errors):.3%}")
        for file in some if given.rows else ():
            print(f"  {file.model:38} {file.mix:15} {file.counted:>15} B  {file.error:+.3%}")
    print(f"left out: {', '.join(left)}")


if __name__ == "__main__":
    main()
