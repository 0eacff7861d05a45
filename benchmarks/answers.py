"""What commands and the REST API answer, kept as JSON, so that a change of the code shows which figures it moves.

    python benchmarks/answers.py record answers.json     asks 350 questions and keeps the answers
    python benchmarks/answers.py compare answers.json    asks again, and prints what differs by more than 1e-12

Questions are commands with `--json` and bodies of the API over models, machines, loads and options. A refusal is an
answer too: its exit code and its line. `compare` exits with 1 where anything differs.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DENSE, SMALL, BIG = "meta-llama/Llama-3.1-8B", "Qwen/Qwen2.5-0.5B", "meta-llama/Llama-3.1-70B"
MIXTURE, LATENT, WINDOWED = "Qwen/Qwen3-30B-A3B", "deepseek-ai/DeepSeek-V3", "openai/gpt-oss-20b"
SCAN, HYBRID, SEEING = "state-spaces/mamba-2.8b-hf", "Qwen/Qwen3-Next-80B-A3B-Instruct", "google/gemma-3-4b-it"
TOLERANCE = 1e-12
LOAD = "--input 1024 --output-tokens 256"


def commands() -> Iterator[str]:
    """Command lines, without `--json`."""
    for model in (DENSE, SMALL, MIXTURE, LATENT, WINDOWED, SCAN, HYBRID, SEEING):
        yield f"analyze {model}"
        yield f"analyze {model} --counting torch --batch 2 --context 300"
        yield f"analyze {model} --traffic unfused --batch 4"
        yield f"analyze {model} --on 8xh200-sxm --layout tp=2 --batch 16 --context 4096"
        yield f"fit {model} --on 8xh100-sxm --tp 2 --batch 8 --context 4096"
    for model in (DENSE, SMALL, MIXTURE, WINDOWED):
        for on in ("h100-sxm", "a100-sxm-80gb", "mi300x", "rtx-4090", "tpu-v5e", "peak=200TFLOP/s,bw=2TB/s,mem=80GB"):
            yield f"analyze {model} --on {on} --batch 8 --context 2048"
            yield f"fit {model} --on {on} --batch 4 --context 4096"
            yield f"generate {model} --on {on} --batch 4 {LOAD}"
            yield f"serve {model} --on {on} {LOAD} --concurrency 16"
        for engine in ("none", "vllm", "sglang", "trtllm"):
            yield f"serve {model} --on h100-sxm --engine {engine} {LOAD} --rate 2"
            yield f"serve {model} --on h200-sxm --engine {engine} --input 3000 --output-tokens 100 --concurrency 64"
    for precision in ("fp8", "weights=int4", "weights=fp8,kv=fp8"):
        yield f"generate {DENSE} --on h100-sxm --precision {precision} --batch 8 {LOAD}"
        yield f"serve {MIXTURE} --on h100-sxm --precision {precision} {LOAD} --concurrency 32"
    for layout in ("tp=8", "tp=4,pp=2", "tp=4,dp=2", "tp=8,ep=8", "dp=8,ep=8"):
        yield f"generate {LATENT} --on 8xb200 --layout {layout} --batch 16 {LOAD}"
        yield f"serve {LATENT} --on 8xb200 --layout {layout} {LOAD} --concurrency 64"
        yield f"fit {LATENT} --on 8xb200 --layout {layout} --batch 16 --context 8192"
    for extra in ("--rounds 5", "--prefix 0.5", "--no-formula", "--mtp --acceptance 0.7", "--law ideal", "--price 2.5"):
        yield f"serve {DENSE} --on h100-sxm {LOAD} --concurrency 24 {extra}"
    yield f"serve {SEEING} --on h100-sxm {LOAD} --concurrency 8 --images 2 --image-size 640x480"
    yield f"serve {DENSE} --on 8xh100-sxm {LOAD} --concurrency 64 --layout tp=2 --prefill-layout tp=1 --chips 8"
    for load in ("--rate 3", "--concurrency 12", "--rate 6 --seed 3"):
        for model in (DENSE, MIXTURE):
            yield f"simulate {model} --on h100-sxm {LOAD} {load} --requests 300"
    yield f"simulate {DENSE} --on h100-sxm --input uniform(100,900) --output-tokens 64 --rate 4 --requests 300"
    for model in (DENSE, SMALL, MIXTURE):
        for layout in ("dp=8,zero=1", "tp=2,dp=4,zero=3,sp", "tp=2,pp=2,dp=2,zero=1", "dp=4,cp=2,zero=2"):
            yield f"train {model} --on 8xh100-sxm --layout {layout} --batch 64 --tokens 4096"
    for schedule in ("gpipe", "1f1b", "zb-h1", "zb-h2", "dualpipe"):
        yield f"train {DENSE} --on 8xh100-sxm --layout pp=4,dp=2 --batch 32 --tokens 4096 --schedule {schedule}"
    for extra in ("--recompute full", "--optimizer muon", "--recipe fp8", "--run-tokens 1T", "--lora 16"):
        yield f"train {DENSE} --on 8xh100-sxm --layout dp=8,zero=1 --batch 64 --tokens 4096 {extra}"
    for options in ("--concurrency 16", "--concurrency 16 --ttft 1s --tpot 30ms", "--concurrency 8 --objective cost"):
        yield f"search {DENSE} --on h100-sxm --chips 4 {LOAD} {options}"
        yield f"search {MIXTURE} --on h200-sxm --chips 4 {LOAD} {options}"
    yield f"search {DENSE} --train --on 8xh100-sxm --batch 64 --tokens 4096"
    for find, where in (("batch", "tpot <= 20ms and fits"), ("input", "ttft <= 1s"), ("batch", "fits")):
        yield f"solve {DENSE} --find {find} --where '{where}' --on h100-sxm {LOAD}"
    yield f"solve {DENSE} --find concurrency --where 'ttft <= 1s and tpot <= 30ms' --on h100-sxm {LOAD}"
    for model in (DENSE, MIXTURE):
        yield f"sensitivity {model} --on h100-sxm --context 2048"
        yield f"diff {model}@h100-sxm {model}@b200"
        yield f"offload {model} --on rtx-4090 --host ryzen-9-7950x"
        yield f"explain {model} o_proj"
        yield f"models {model}"
        yield f"sweep {model} --on h100-sxm b200 --batch 1,8,64 --context 1024,8192"
    for chip in ("h100-sxm", "mi300x", "m3-max", "tpu-v5e"):
        yield f"chips {chip}"


def bodies() -> Iterator[tuple[str, dict[str, Any]]]:
    """Questions of the API."""
    for model in (DENSE, BIG, MIXTURE, WINDOWED, LATENT):
        for on, layout in (("8xh100-sxm", "tp=8"), ("8xb200", "tp=4,dp=2"), ("8xmi300x", "tp=8")):
            place = {"model": model, "on": on, "layout": layout}
            yield "estimate", {**place, "batch": 16, "context": 4096}
            yield "estimate", {**place, "phase": "prefill", "batch": 2, "context": 2048}
            yield "generate", {**place, "batch": 8}
            yield "serve", {**place, "concurrency": 32}
            yield "serve", {**place, "concurrency": [1, 8, 64], "prefix": 0.25}
            yield "fit", {**place, "batch": 8, "context": 8192}
            yield "train", {**place, "layout": "tp=8" if layout == "tp=8" else "tp=4,dp=2,zero=1", "batch": 32}
        yield "analyze", {"model": model, "phase": "prefill", "batch": 2}
        yield "sweep", {"model": model, "on": "8xh100-sxm", "layout": "tp=8", "batch": [1, 16], "context": [512, 4096]}
        yield "plot", {"model": model, "on": "8xh100-sxm", "layout": "tp=8"}
        yield "plot", {"model": model, "on": "8xh100-sxm", "layout": "tp=8", "kind": "memory"}
    yield "advice", {"model": DENSE, "on": "h100-sxm", "batch": 4}
    yield "simulate", {"model": DENSE, "on": "h100-sxm", "rate": 3.0}
    yield "search", {"model": DENSE, "on": "4xh100-sxm", "ttft": 2.0}
    yield "layouts", {"model": SMALL, "on": "8xh100-sxm"}
    yield "timeline", {"model": DENSE, "on": "8xh100-sxm", "layout": "pp=4,dp=2", "batch": 16}
    yield "launch", {"model": DENSE, "on": "h100-sxm"}
    yield "recipe", {"model": DENSE, "on": "8xh100-sxm", "layout": "dp=8,zero=1"}
    yield "runs", {"on": "rtx-4090", "model": DENSE}


def answers() -> dict[str, Any]:
    """Every question with its answer."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        os.environ["XDG_CONFIG_HOME"] = folder
        lines = {f"roofline {line}": by_command(line) for line in commands()}
        return lines | {f"{name} {json.dumps(body)}": by_api(name, body) for name, body in bodies()}


def by_command(line: str) -> Any:
    """What a command prints with `--json`; where it fails its exit code and the line that says why."""
    from roofline.doors.cli.main import main

    out, err, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main([*shlex.split(line), "--json"])
        except SystemExit as stop:
            code = int(stop.code or 0)
    if code == 2:
        return {"exit": code, "line": err.getvalue().strip().splitlines()[-1:]}
    return {"exit": code, "answer": json.loads(out.getvalue())}


def by_api(name: str, body: dict[str, Any]) -> Any:
    """What the API answers to a body."""
    from pydantic import ValidationError

    from roofline.declared.errors import InputError
    from roofline.doors.web.questions import answered

    try:
        answer = answered(name, body)
    except (InputError, ValidationError) as error:
        return {"refused": str(error)}
    return json.loads(json.dumps(answer))


def differences(before: Any, after: Any, path: str = "") -> Iterator[str]:
    """Paths at which two answers differ, with both values."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in before.keys() | after.keys():
            if key not in before:
                yield f"{path}/{key}: new"
            elif key not in after:
                yield f"{path}/{key}: gone"
            else:
                yield from differences(before[key], after[key], f"{path}/{key}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from differences(one, other, f"{path}/{index}")
    elif not _same(before, after):
        yield f"{path}: {_short(before)} -> {_short(after)}"


def _same(one: Any, other: Any) -> bool:
    numbers = all(isinstance(x, (int, float)) and not isinstance(x, bool) for x in (one, other))
    return abs(one - other) <= TOLERANCE * max(abs(one), abs(other)) if numbers else bool(one == other)


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 120 else f"{text[:120]}…"


def main() -> None:
    """Records or compares."""
    match sys.argv[1:]:
        case ["record", file]:
            kept = answers()
            Path(file).write_text(json.dumps(kept, indent=0), encoding="utf-8")
            refused = sum("line" in a or "refused" in a for a in kept.values())
            print(f"{len(kept)} answers, {refused} of them refusals")
        case ["compare", file, *rest]:
            before, most = json.loads(Path(file).read_text(encoding="utf-8")), int(rest[0]) if rest else 5
            now, moved = answers(), 0
            for question in before.keys() | now.keys():
                lines = sorted(differences(before.get(question), now.get(question)))
                moved += bool(lines)
                if lines:
                    print(question, *lines[:most], f"({len(lines)} in all)", sep="\n  ")
            print(f"{moved} of {len(before)} answers differ")
            sys.exit(moved > 0)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
