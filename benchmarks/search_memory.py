"""Seconds and memory of searches whose cross of replica counts would fill a machine.

    python benchmarks/search_memory.py [LETTER …]

Each runs in a process of its own, whose address space is bounded. Prints the plans counted, those worked out, seconds
of processor and the peak of resident memory; exits with 1 where one needs more than `MOST` bytes.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from time import process_time
from typing import Any

import roofline as rl
from machine_description import describe, peak_bytes

MOST = 2 * 2**30
GPT2, DEEPSEEK, RACKS = "openai-community/gpt2", "deepseek-ai/DeepSeek-V3", "1024xgb200-nvl72"
SHORT, LONG = {"input": 512, "output_tokens": 128}, {"input": 1024, "output_tokens": 256}
SEARCHES: dict[str, tuple[str, dict[str, Any], dict[str, Any], dict[str, float]]] = {
    "a": (GPT2, {**SHORT, "concurrency": 64}, {"on": "h100-sxm", "chips": 2000}, {}),
    "b": (GPT2, {**SHORT, "concurrency": 64}, {"on": "h100-sxm", "chips": 2**20}, {}),
    "c": (GPT2, SHORT, {"on": "h100-sxm", "chips": 2000}, {}),
    "d": (GPT2, SHORT, {"on": "h100-sxm", "chips": 2**20}, {}),
    "e": (GPT2, {**SHORT, "rate": 5000.0}, {"on": "h100-sxm", "chips": 2**20}, {"ttft": 0.1, "tpot": 0.005}),
    "f": (DEEPSEEK, {**LONG, "concurrency": 256}, {"on": "gb200-nvl72"}, {}),
    "g": (DEEPSEEK, {**LONG, "concurrency": 256}, {"on": RACKS}, {}),
    "h": (DEEPSEEK, LONG, {"on": RACKS}, {}),
    "i": (DEEPSEEK, {"input": 4000, "output_tokens": 500}, {"on": RACKS}, {"ttft": 1.0, "tpot": 0.03}),
}
TRAINED: dict[str, dict[str, Any]] = {
    "t": {"on": RACKS, "batch": 73_728, "tokens": 4096},
    "u": {"on": RACKS, "batch": 73_728, "tokens": 4096, "objective": "energy"},
    "v": {"on": "superpod-h100", "batch": 4096, "tokens": 4096, "objective": "days", "run_tokens": 15e12},
}
"""Searches of training layouts of DeepSeek-V3."""


def one(letter: str) -> None:
    """Runs a search in this process."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST, MOST))
    if letter in TRAINED:
        start, asked = process_time(), TRAINED[letter]
        found = rl.search_training(DEEPSEEK, **asked)
        said = f"{found.considered:,} layouts, left out {dict(found.left_out)}, best {found.best.layout}"
        print(f"{letter} {asked}: {said}; {process_time() - start:.1f} s, {peak_bytes() / 2**20:,.0f} MiB")
        return
    model, demand, options, limits = SEARCHES[letter]
    start = process_time()
    try:
        s = rl.search(model, rl.Load(**demand), rl.Limits(**limits), **options)
        said = f"{s.deployments:,} plans, {s.considered:,} considered, the best on {s.best.chips:,} chips"
        if s.unseen:
            gain = "unknown" if s.unseen_gain is None else f"{100 * s.unseen_gain:.2g} % better at most"
            said += f", {s.best.tokens_per_second_per_chip:,.1f} tokens/s per chip, {s.unseen:,} unseen ({gain})"
    except rl.InputError as error:
        said = f"refused: {error}"
    took = f"{process_time() - start:.1f} s, {peak_bytes() / 2**20:,.0f} MiB"
    print(f"{letter} {model} {demand} {options} {limits}: {said}; {took}")


def main(words: list[str]) -> int:
    """Every search in a process of its own."""
    if words[:1] == ["--one"]:
        one(words[1])
        return 0
    print(describe())
    ended = [
        subprocess.run([sys.executable, __file__, "--one", x], check=False) for x in words or (*SEARCHES, *TRAINED)
    ]
    return int(any(process.returncode for process in ended))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
