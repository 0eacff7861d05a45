"""Everything that is written is the same bytes again: in any thread, under any hash seed, whatever was drawn before."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack
from hashlib import sha256
from multiprocessing import get_context
from pathlib import Path

import pytest

import roofline as rl
from roofline.declared.caching import remembered
from roofline.model.load import catalog_config
from roofline.views.files.timeline import chrome_trace, timeline_text
from roofline.views.plots.make import plot
from roofline.views.report.make import report
from roofline.views.text.tables import json_text

MODEL, CHIP = "openai-community/gpt2", "h100-sxm"
PICTURES = [("roofline", e) for e in (".svg", ".png", ".pdf", ".html")] + [("diagram", ".svg"), ("memory", ".html")]
MODELS = ("openai-community/gpt2", "meta-llama/Llama-3.1-8B", "Qwen/Qwen3-0.6B", "mistralai/Mixtral-8x7B-v0.1")


def digests(folder: Path, whole: bool) -> dict[str, str]:
    """Every writer once; by day without reports, and of pictures one of each library."""
    for kind, ending in PICTURES if whole else PICTURES[-2:]:
        plot(MODEL, on=CHIP, kind=kind, output=folder / f"{kind}{ending}")
    if whole:
        report(MODEL, on=[CHIP], batch=2, output=folder / "report.html")
        told = report(MODEL, on=[CHIP], batch=2, output=folder / "r.md", tables=folder / "p", tables_form="parquet")
        (folder / "report.json").write_text(json_text(told.to_dict()))
    step = rl.train(MODEL, batch=16, tokens=512, on="dgx-h100", layout="pp=4,dp=2")
    (folder / "train.json").write_text(json_text(step.to_dict()))
    (folder / "trace.json").write_text(json.dumps(chrome_trace(step.timeline, "t")) + timeline_text(step.timeline))
    simulated = rl.simulate(MODEL, on=CHIP, input=100, output=20, rate=4.0, extent=rl.Extent(requests=200))
    (folder / "simulated.json").write_text(json_text(simulated.to_dict()))
    (folder / "fit.json").write_text(json_text(rl.fit(MODEL, on=CHIP, batch=2).to_dict()))
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    return {str(p.relative_to(folder)): sha256(p.read_bytes()).hexdigest() for p in files}


def in_threads(number: int, whole: bool) -> list[dict[str, str]]:
    """The digests of threads that write at the same time."""
    with ExitStack() as stack, ThreadPoolExecutor(number) as pool:
        folders = [Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in range(number)]
        return list(pool.map(digests, folders, number * [whole]))


def test_every_writer_in_two_threads_under_two_hash_seeds(whole: bool) -> None:
    """Two processes, whose names have another order in sets, of two threads each; by day the second has one thread."""
    path = os.pathsep.join([str(Path(rl.__file__).parents[1]), str(Path(__file__).parent)])
    written = []
    for seed, threads in (("1", 2), ("2", 2 if whole else 1)):
        code = f"import json, test_same_bytes as t; print(json.dumps(t.in_threads({threads}, {whole})))"
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path}
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        written += json.loads(done.stdout.splitlines()[-1])
    first = written[0]
    assert len(first) > (20 if whole else 5)
    names = {name for other in written for name in other if first.get(name) != other[name]}
    assert names == set()
    assert all(other.keys() == first.keys() for other in written)


def answers(name: str) -> tuple[int, float, float]:
    """Some figures of a model, through most of the caches."""
    model = rl.load(name)
    estimate = rl.estimate(model, rl.decode(4, 512), on=CHIP)
    trained = rl.train(model, batch=8, tokens=256, on="dgx-h100", layout="tp=2,dp=4")
    return model.parameters, float(estimate.span.expected), float(trained.span.expected)


def test_eight_threads_agree() -> None:
    alone = {name: answers(name) for name in MODELS}
    with ThreadPoolExecutor(8) as pool:
        for name, answer in zip(MODELS * 6, pool.map(answers, MODELS * 6), strict=True):
            assert answer == alone[name]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes of POSIX")
def test_a_process_that_was_forked_may_draw_and_estimate(tmp_path: Path) -> None:
    from roofline.views.plots.draw import canvas

    with canvas.settings(), ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool:
        drawn = pool.submit(plot, MODEL, kind="parameters", output=tmp_path / "a.svg")
        drawn.exception(timeout=60)
        assert (tmp_path / "a.svg").stat().st_size > 1000
        assert pool.submit(answers, MODELS[0]).result(timeout=60) == answers(MODELS[0])


def loaded(number: int) -> int | str:
    """The parameters of a model, of every tenth the line that says why it is none."""
    config = {**catalog_config(MODELS[1]), "num_hidden_layers": number + 1}
    if number % 10 == 3:
        config["hidden_size"] = -1
    try:
        return rl.load(config).parameters
    except rl.InputError as error:
        return str(error)


def test_a_pool_of_processes_over_fifty_models_five_of_them_broken() -> None:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        results = list(pool.map(loaded, range(50), chunksize=25))
    each = rl.load(catalog_config(MODELS[1])).parameters
    assert results == [loaded(i) for i in range(50)]
    assert sum(isinstance(r, int) for r in results) == 45
    assert [r for r in results if isinstance(r, str)] == 5 * [loaded(3)]
    assert results[31] == each


def test_a_cache_is_safe_in_threads() -> None:
    @remembered(4)
    def squared(values: int) -> list[int]:
        return [values, values * values]

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(squared, list(range(9)) * 50)) == [[i, i * i] for i in range(9)] * 50
