"""The library's stub is that of the code, and a type checker knows by it what a question is asked."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import roofline as rl
from roofline.views.reference.settings import questions
from roofline.views.reference.stubs import stub

ROOT = Path(__file__).parents[1]
STUB = Path(rl.__file__).with_suffix(".pyi")
RIGHT = """
import roofline as rl

model = rl.load("meta-llama/Llama-3.1-8B")
where, load = rl.Where(on="h100-sxm"), rl.Load(1024, 256, concurrency=32)
served: rl.Serving | rl.Pools = rl.serve(model, on="h100-sxm", input=1024, output_tokens=256, concurrency=[1, 2, 4])
rl.serve(model, where, load, formula=True, tp=2, bill=rl.Bill(price=2.0), price="own(30000)").ttft
rl.serve(model, where, input=1024, output_tokens=256, rate=2.5, prefix=0.5, prefill_layout="tp=2", chips=8)
rl.serve("openai-community/gpt2", load=load, on=rl.chips()["h100-sxm"], layout={"tp": 2})
rl.serve(model, on=["h100-sxm", "b200"], input=1024, output_tokens=256, concurrency=8, images=2, image_size="9x9").axes
rl.serve(["meta-llama/Llama-3.1-8B", "openai-community/gpt2"], where, load).axes
rl.estimate(model, rl.decode(batch=1, context=1024), rl.Where(on="h100-sxm", law="ideal")).time
rl.simulate(model, where, input="uniform(1,9)", output_tokens=9, rate=1, slo=rl.SLO(ttft=0.3), tpot="20ms")
rl.search(model, on=["h100-sxm"], input=9, output_tokens=9, rate=1, ttft="300ms", objective="cost").plans
rl.search(model, load, choices=rl.Choices(on="h100-sxm"), top=3).plans
rl.generate(model, on="h100-sxm", input=1, output_tokens=2, batch=range(1, 3)).tpot
fit: rl.Fit = rl.fit(model, where, context=4096)
"""
WRONG = (
    'rl.serve(model, on="h100-sxm", input=1024, output_tokens=256, concurency=32)',
    'rl.serve(model, on="h100-sxm", input=1024, concurrency=32)',
    'rl.serve(model, on="h100-sxm", input="many", output_tokens=256, concurrency=32)',
    "rl.serve(model, where, load, formula=3)",
    "rl.serve(3, where, load)",
    "rl.serve(model, load, where)",
    "rl.fit(model, on=3)",
    "rl.fit(model)",
    'rl.search(model, load, on="h100-sxm", objective="cheapest")',
    "rl.generate(model, where, input=1, output_tokens=2, load=load)",
    "rl.nothing",
)

QUICK = """
[tool.mypy]
strict = true
mypy_path = "{path}"

[[tool.mypy.overrides]]
module = ["cyclopts.*", "huggingface_hub.*", "jinja2.*", "matplotlib.*", "polars.*", "pydantic.*", "rich.*"]
follow_imports = "skip"

[[tool.mypy.overrides]]
module = ["plotly.*", "prefixed.*", "pymoo.*", "scipy.*", "sympy.*", "transformers.*"]
ignore_missing_imports = true
"""


def test_the_stub_is_made_from_the_code() -> None:
    run = "run: python -m roofline.views.reference.stubs > src/roofline/__init__.pyi"
    assert STUB.read_text(encoding="utf-8") == stub(), run


def test_the_stub_has_every_name_and_question() -> None:
    text = STUB.read_text(encoding="utf-8")
    defined = set(re.findall(r"^def (\w+)\(", text, re.MULTILINE))
    assert defined == {name for name, _ in questions()}
    assert defined | set(re.findall(r" as (\w+)$", text, re.MULTILINE)) == set(rl.__all__)


def test_a_type_checker_knows_what_a_question_is_asked(tmp_path: Path, whole: bool) -> None:
    """By day it reads no package that a question has no types of, which takes a third of the time."""
    api = pytest.importorskip("mypy.api", reason="types need mypy")
    program, config, cache = tmp_path / "program.py", ROOT / "pyproject.toml", ROOT / ".mypy_cache"
    program.write_text(RIGHT + "\n".join(WRONG) + "\n", encoding="utf-8")
    if not whole:
        config, cache = tmp_path / "mypy.toml", cache / "quick"
        config.write_text(QUICK.format(path=ROOT / "src"), encoding="utf-8")
    told, _, _ = api.run(["--config-file", str(config), "--cache-dir", str(cache), str(program)])
    first = RIGHT.count("\n") + 1
    lines = {int(line) for line in re.findall(r"program\.py:(\d+): error", told)}
    assert lines == set(range(first, first + len(WRONG))), [x[:200] for x in told.splitlines() if ": error" in x]
