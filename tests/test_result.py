"""Every answer has one shape: short text, a table with units, JSON by its schema, a frame with one row a point."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

import roofline as rl
from folded import folded
from roofline import schema
from roofline.declared.groups import PlaceSettings
from roofline.declared.result import LINES, NONE, Axis, Grid, Result
from roofline.doors.compat.model_info.account import account
from roofline.doors.compat.model_info.rules import RULES
from roofline.hardware.cluster import clusters
from roofline.hardware.detect.probe import recorded_outputs
from roofline.hardware.detect.recognise import machine_of
from roofline.hardware.named_chip import chip_named
from roofline.inference.settings import setup
from roofline.measured.accuracy.accuracy import SAMPLE, accuracy
from roofline.measured.calibrate.cases import Calibration, Case, MeasuredMachine, Measurement, Measurements
from roofline.measured.calibrate.fitting import fit_laws
from roofline.measured.compare.bench_fit import bench_fit
from roofline.measured.compare.benchmarks import compared_results
from roofline.measured.compare.read import compare
from roofline.measured.compare.results import Measured
from roofline.model.checkpoints.headers import Tensor
from roofline.model.checkpoints.stored import placed_tensors
from roofline.model.families.registry import FAMILIES
from roofline.model.load import CATALOG, catalog
from roofline.model.sources.survey import checked_configs
from roofline.training.breakdown import breakdown
from roofline.training.memory.by_part import module_bytes
from roofline.views.plots.build import simulation_plot
from roofline.views.plots.build_front import front_plot
from roofline.views.plots.build_training import step_memory_plot
from roofline.views.plots.data import BarPanel, BarsPlot, Picture, RatioLine, RatiosPlot
from roofline.views.plots.rows import rows_plot
from roofline.views.text.catalogs.chips import ChipFacts, Chips, ClusterFacts, Clusters
from roofline.views.text.catalogs.here import Here
from roofline.views.text.catalogs.models import Catalog, ConfigChecks, ModelAnswer, ModelTypes, StoredTensors
from roofline.views.text.inference.analysis import NamedStep, Steps
from roofline.views.text.inference.explain import Explanations, NamedExplanation
from roofline.views.text.training.training import Trained
from roofline.whatif.codesign import Codesign, Design, Process
from roofline.whatif.search.what_fits import what_runs

PROFILES = Path(__file__).parent / "measured/compare/recorded"
GPT2 = "openai-community/gpt2"
QWEN = "Qwen/Qwen3-0.6B"
ON, NODE = "h100-sxm", "8xh100-sxm"
KINDS = ("roofline", "shares", "sweep", "memory", "parameters", "map", "tornado", "diagram", "energy")
BATCH, CONTEXT = np.array([[1], [8]]), np.array([64, 256, 512])


@cache
def trained() -> Any:
    return rl.train(GPT2, batch=8, tokens=256, on=NODE)


@cache
def simulated() -> Any:
    return rl.simulate(QWEN, on=ON, input=64, output=28, rate=5.0, extent=rl.Extent(requests=50))


@cache
def searched() -> Any:
    return rl.search(QWEN, rl.Demand(64, 28), rl.Limits(tpot=1.0), on=ON, chips=2)


@cache
def swept() -> Any:
    return rl.sweep(QWEN, on=["l4", ON], batch=[1, 8, 64], context=512, columns=["tpot", "bound", "fits"])


def calibration() -> Calibration:
    """That of a machine that was timed in a few cases."""
    machine = MeasuredMachine("cpu", "A CPU", "amd", 4, 32e9, 32 * 2.0**20, "NumPy 2", date="2025-01-01")
    cases = [Case("read", "fp32", (2**26,)), Case("copy", "fp32", (2**26,))]
    cases += [Case("matmul", "fp32", (m, 512, 512)) for m in (1, 8, 64, 512, 1024)]
    return fit_laws(
        Measurements(machine, tuple(Measurement(case, 1e-3 * (i + 1)) for i, case in enumerate(cases))), folds=0
    )


def steps() -> Steps:
    model, step = rl.load(GPT2), rl.decode(2, 64)
    return Steps(model, (NamedStep("decode", rl.analyze(model, step), rl.estimate(model, step, on=ON)),))


ONE: dict[str, Callable[[], Any]] = {
    "estimate": lambda: rl.estimate(QWEN, rl.decode(2, 64), on=ON),
    "estimate on a layout": lambda: rl.estimate(QWEN, rl.prefill(3, 64), on=NODE, layout="tp=2,pp=2,dp=2"),
    "analysis": lambda: rl.analyze(QWEN, rl.prefill(1, 64)),
    "explanation": lambda: rl.explain(QWEN, "attention", rl.decode(2, 64)),
    "generate": lambda: rl.generate(QWEN, on=ON, batch=2, input=64, output=28),
    "encode": lambda: rl.encode(QWEN, on=ON, batch=4, input=64),
    "speculative": lambda: rl.generate(
        "Qwen/Qwen3-32B", on=ON, batch=2, input=64, output=28, speculation=rl.Speculation(0.8, 4, rl.load(QWEN))
    ),
    "serve": lambda: rl.serve(QWEN, on=ON, input=64, output=28, concurrency=4),
    "pools": lambda: rl.pools(
        QWEN, on=NODE, chips=8, prefill_layout="tp=1", decode_layout="tp=2", input=64, output=28, concurrency=4
    ),
    "simulation": simulated,
    "picture of a simulation": lambda: simulation_plot(simulated()),
    "picture of a step's memory": lambda: step_memory_plot(trained()),
    "picture of a sweep": lambda: rows_plot(swept()),
    "fit": lambda: rl.fit(QWEN, on="l4", batch=4, context=1024),
    "offload": lambda: rl.offload(QWEN, on="rtx-3060-12gb", host="ryzen-9-7950x", precision="q4_k_m"),
    "what does not fit": lambda: rl.fit("meta-llama/Llama-3.1-405B", on=ON, batch=4),
    "training": trained,
    "training in stages": lambda: rl.train(GPT2, batch=8, tokens=256, on=NODE, layout="tp=2,pp=2,dp=2,zero=1"),
    "run": lambda: rl.run(trained(), 1e10),
    "answer": lambda: rl.answer(QWEN, on=[ON, "rtx-4090"]),
    "machines": lambda: rl.machines(QWEN, users=8, on=[ON, "l4"]),
    "diff": lambda: rl.diff(f"{QWEN}@l4", f"{QWEN}@{ON}:batch=8"),
    "search of training": lambda: rl.search_training(GPT2, batch=8, tokens=64, on=NODE),
    "picture of a front": lambda: front_plot(searched().front),
    "search": searched,
    "solve": lambda: rl.solve(QWEN, find="batch", where="tpot <= 9ms and fits", on=ON, input=64, output=28),
    "no solution": lambda: rl.solve(QWEN, find="bandwidth", where="time <= 1us", on=ON, context=64),
    "sensitivity": lambda: rl.sensitivity(QWEN, on=ON, batch=2, input=64, output=28, map=True),
    "codesign": lambda: Codesign(
        setup(rl.load(QWEN), on=ON), "tpot", "s", "usd", 1, 1, Process(),
        (Design(1e14, 2, 2.0**25, 1e11, Process(), 0.01),)
    ),
    "report": lambda: rl.report(GPT2, on=ON, input=64, output_tokens=28),
    **{f"picture of {kind}": lambda kind=kind: rl.plot(GPT2, on=ON, kind=kind, context=64) for kind in KINDS},
    "picture of bars": lambda: BarsPlot(
        "Bars", ("qkv_proj", "attention"), ("decode",), (BarPanel("FLOPs", "FLOP", ((1e9, None),)),)
    ),
    "picture of ratios": lambda: RatiosPlot(
        "Ratios", ("a call", "told"), (RatioLine("token, H100", (None, (0.9, 1.0, 1.1))),)
    ),
    "steps": steps,
    "explanations": lambda: Explanations(
        rl.load(GPT2), (NamedExplanation("decode", rl.explain(GPT2, "attention", rl.decode(1, 9))),)
    ),
    "breakdown": lambda: breakdown(trained()),
    "trained": lambda: Trained(trained(), (), rl.run(trained(), 1e10), breakdown(trained()), module_bytes(trained())),
    "catalog": lambda: Catalog(tuple(catalog().values())),
    "families": lambda: ModelTypes(tuple(sorted(FAMILIES))),
    "a model": lambda: ModelAnswer(rl.load("deepseek-ai/DeepSeek-V3")),
    "tensors": lambda: StoredTensors(placed_tensors(rl.load(QWEN), [Tensor("norm.weight", "F32", (1024,), 4096)])),
    "checked configs": lambda: ConfigChecks("openai", checked_configs(CATALOG / "openai")),
    "here": lambda: Here(machine_of(recorded_outputs(Path(__file__).parent / "hardware/recorded/laptop"))),
    "comparison": lambda: compare(PROFILES / "config.json", PROFILES / "decode.json.gz", on="l4"),
    "compared_results": lambda: compared_results(rl.load(QWEN), [Measured("prompt", 5e3, 64, 0)], PlaceSettings(on=ON)),
    "bench_fit": lambda: bench_fit(QWEN, [Measured("answer", 99.0, 0, 64)], "rtx-3090", precision="q4_0"),
    "running": lambda: what_runs([QWEN], on=ON),
    "chips": lambda: Chips(tuple(ChipFacts(chip_named(name)) for name in (ON, "l4"))),
    "clusters": lambda: Clusters(tuple(map(ClusterFacts, clusters().values()))),
    "calibration": calibration,
    "accuracy": lambda: accuracy(SAMPLE),
    "a step of an earlier tool": lambda: account(rl.load(QWEN), "decode", RULES["efficient"], batch=2, length=64),
}  # fmt: skip
MANY: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "estimate": (lambda: rl.estimate(QWEN, rl.decode(BATCH, CONTEXT), on=ON), (2, 3)),
    "degrees": (lambda: rl.estimate(QWEN, rl.decode(8, 64), on=NODE, layout={"tp": np.array([1, 2, 8])}), (3,)),
    "analysis": (lambda: rl.analyze(QWEN, rl.prefill(BATCH, CONTEXT)), (2, 3)),
    "generate": (lambda: rl.generate(QWEN, on=ON, batch=BATCH, input=CONTEXT, output=28), (2, 3)),
    "encode": (lambda: rl.encode(QWEN, on=ON, batch=BATCH, input=CONTEXT), (2, 3)),
    "serve": (lambda: rl.serve(QWEN, on=ON, input=CONTEXT, output=28, concurrency=BATCH), (2, 3)),
    "fit": (lambda: rl.fit(QWEN, on="l4", batch=BATCH, context=CONTEXT), (2, 3)),
    "training": (lambda: rl.train(GPT2, batch=8 * BATCH, tokens=CONTEXT, on=NODE), (2, 3)),
    "run": (lambda: rl.run(rl.train(GPT2, batch=8 * BATCH, tokens=CONTEXT, on=NODE), 1e10), (2, 3)),
}
GRIDS: dict[str, Callable[[], Grid]] = {
    "estimate": lambda: rl.estimate(QWEN, rl.decode(BATCH, CONTEXT), on=["l4", ON], precision=[None, "fp8"]),
    "generate": lambda: rl.generate([GPT2, QWEN], on=ON, batch=2, input=64, output=28),
    "serve": lambda: rl.serve(QWEN, on=ON, engine=["vllm", "trtllm"], input=64, output=28, concurrency=BATCH),
    "fit": lambda: rl.fit(QWEN, on=["l4", ON], batch=4, context=CONTEXT),
    "training": lambda: rl.train(GPT2, batch=8, tokens=256, on=NODE, recompute=["none", "full"]),
}
EVERY: dict[str, Callable[[], Any]] = {
    **ONE, **{f"{name} of arrays": build for name, (build, _) in MANY.items()},
    **{f"{name} grid": build for name, build in GRIDS.items()}, "sweep": swept,
}  # fmt: skip


@cache
def answer(name: str) -> Any:
    return EVERY[name]()


def test_every_kind_of_result_is_looked_at() -> None:
    kinds = set(schema.results())
    assert {type(answer(name)) for name in EVERY} == kinds
    assert all(issubclass(kind, Result) for kind in kinds)


# -- text ----------------------------------------------------------------------------------------------------------
@folded("name", EVERY)
def test_the_text_is_short(name: str) -> None:
    result = answer(name)
    lines = repr(result).splitlines()
    assert 1 < len(lines) <= LINES == 30
    assert lines[0].startswith(type(result).__name__)
    assert "object at 0x" not in repr(result)
    assert all(line == line.rstrip() and "array(" not in line for line in lines)


class Cells(HTMLParser):
    """The rows of a table, and the tags that are open."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.caption = ""
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("th", "td"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1] == "caption":
            self.caption += data
        else:
            self.rows[-1][-1] += data


SIGNS = {
    "s": "s", "B": "B", "FLOP": "FLOP", "FLOP/s": "FLOP/s", "B/s": "B/s", "FLOP/B": "FLOP/B", "share": "%",
    "USD": "USD", "J": "J", "W": "W", "tokens/s": "tokens/s", "requests/s": "requests/s", "inputs/s": "inputs/s",
}  # fmt: skip
"""What a cell of each unit shows."""


@folded("name", EVERY)
def test_the_table_for_notebooks_has_units(name: str) -> None:
    result = answer(name)
    if isinstance(result, Picture):
        assert re.fullmatch(r'<img src="data:image/svg\+xml;base64,[\w+/=]+" alt="kind [^"<>]+">', result._repr_html_())
        return
    page = Cells()
    page.feed(result._repr_html_())
    page.close()
    assert page.open == []
    assert page.caption == type(result).__name__
    assert [tuple(row) for row in page.rows] == result.lines()
    cells = {row[0]: row[1] for row in page.rows}
    for leaf, _, unit in result.leaves():
        if unit and leaf in cells:
            long = unit == "s" and cells[leaf].endswith((" h", " days"))
            assert long or SIGNS[unit] in cells[leaf] or cells[leaf] == NONE, (leaf, unit, cells[leaf])


# -- data ----------------------------------------------------------------------------------------------------------
@cache
def validator(name: str) -> Any:
    """Of a schema, made once: each answer of a kind has the same."""
    return jsonschema.Draft202012Validator(_schemas()[name])


@cache
def _schemas() -> dict[str, Any]:
    return dict(schema.schemas())


@folded("name", EVERY)
def test_the_json_is_valid(name: str) -> None:
    data = json.loads(json.dumps(answer(name).to_dict(), allow_nan=False))
    validator(data["schema"].removeprefix("roofline.").partition("/")[0]).validate(data)
    assert set(data) == {"schema", *answer(name).FIGURES}


@folded("name", MANY)
def test_a_frame_has_one_row_for_each_point(name: str) -> None:
    build, shape = MANY[name]
    result = build()
    assert result.shape == shape
    frame = result.to_frame()
    assert frame.height == np.prod(shape)
    names = [leaf for leaf, _, _ in result.leaves()]
    assert frame.columns == names
    assert len(names) == len(set(names))
    for leaf, value, _ in result.leaves():
        flat = np.broadcast_to(np.asarray(value, dtype=object), shape).reshape(-1).tolist()
        assert frame[leaf].to_list() == flat, leaf


@folded("name", ["estimate", "analysis", "generate", "serve", "fit", "training"])
def test_one_point_is_one_row(name: str) -> None:
    result = answer(name)
    assert result.shape == ()
    frame = result.to_frame()
    assert frame.height == 1
    for leaf, value, _ in result.leaves():
        assert frame[leaf].item() == (pytest.approx(value) if isinstance(value, float) else value)


def test_a_row_is_the_answer_to_its_point() -> None:
    many = rl.generate(QWEN, on=ON, batch=BATCH, input=CONTEXT, output=28).to_frame()
    one = rl.generate(QWEN, on=ON, batch=8, input=256, output=28).to_frame()
    assert many.columns == one.columns
    for name in one.columns:
        value = one[name].item()
        assert many[name][4] == (pytest.approx(value, rel=1e-12) if isinstance(value, float) else value), name


# -- grids ---------------------------------------------------------------------------------------------------------
def test_a_grid_has_labelled_axes_then_the_points() -> None:
    grid = GRIDS["estimate"]()
    assert grid.axes == (Axis("on", ("l4", ON)), Axis("precision", ("none", "fp8")))
    assert grid.shape == grid.time.shape == grid.bound.shape == grid.memory.fits.shape == (2, 2, 2, 3)
    for i, on in enumerate(("l4", ON)):
        for j, precision in enumerate((None, "fp8")):
            one = rl.estimate(QWEN, rl.decode(BATCH, CONTEXT), on=on, precision=precision)
            assert np.array_equal(grid.time[i, j], one.time)
            assert np.array_equal(grid.span.low[i, j], one.span.low)
            assert np.array_equal(grid.memory.weights[i, j], np.broadcast_to(one.memory.weights, (2, 3)))
            assert np.array_equal(grid.bound[i, j], one.bound)


def test_a_grid_is_taken_apart_by_its_labels() -> None:
    grid = GRIDS["estimate"]()
    row = grid.at(on="l4")
    assert isinstance(row, Grid)
    assert row.axes == (Axis("precision", ("none", "fp8")),)
    assert np.array_equal(row.time, grid.time[0])
    column = grid.at(precision="fp8")
    assert column.axes == (Axis("on", ("l4", ON)),)
    assert np.array_equal(column.time, grid.time[:, 1])
    one = grid.at(precision="fp8", on=ON)
    assert isinstance(one, rl.Estimate)
    assert one.chip.id == ON
    assert np.array_equal(one.time, grid.time[1, 1])
    assert grid.at() == grid


@pytest.mark.parametrize(
    ("labels", "field", "expected"),
    [({"on": "l5"}, "on", "l4, h100-sxm"), ({"onn": "l4"}, "onn", "on"), ({"batch": "4"}, "batch", "on")],
)
def test_a_label_that_is_not_there(labels: dict[str, str], field: str, expected: str) -> None:
    with pytest.raises(rl.InputError) as error:
        GRIDS["fit"]().at(**labels)
    assert (error.value.field, error.value.expected) == (field, f"one of {expected}")


def test_a_grid_has_no_other_attributes() -> None:
    with pytest.raises(AttributeError, match="latencyy"):
        _ = GRIDS["generate"]().latencyy


def test_a_frame_of_a_grid_says_which() -> None:
    grid = GRIDS["estimate"]()
    frame = grid.to_frame()
    assert frame.height == 24
    assert frame["on"].to_list() == ["l4"] * 12 + [ON] * 12
    assert frame["precision"].to_list() == (["none"] * 6 + ["fp8"] * 6) * 2
    assert frame["time"].to_list() == grid.time.reshape(-1).tolist()
    training = GRIDS["training"]()
    assert training.to_frame()["recompute"].to_list() == ["none", "full"]
    assert training.axes == (Axis("recompute", ("none", "full")),)


def test_models_and_engines_are_axes_too() -> None:
    assert GRIDS["generate"]().axes == (Axis("model", (GPT2, QWEN)),)
    assert GRIDS["serve"]().axes == (Axis("engine", ("vllm", "trtllm")),)
    assert GRIDS["serve"]().shape == (2, 2, 1)


def test_equal_labels_are_told_apart() -> None:
    grid = rl.fit(GPT2, on=["l4", "l4"], context=64)
    assert grid.axes == (Axis("on", ("l4 (1)", "l4 (2)")),)
    assert grid.at(on="l4 (2)").chip.id == "l4"


# -- what is passed wrongly ----------------------------------------------------------------------------------------
TWO = {"tp": np.array([1, 2])}
RAGGED: dict[str, Callable[[], Any]] = {
    "estimate": lambda: rl.estimate(QWEN, rl.decode([1, 2], [1, 2, 3]), on=ON),
    "analysis": lambda: rl.analyze(QWEN, rl.prefill([1, 2], [[1, 2, 3]] * 3)),
    "generate": lambda: rl.generate(QWEN, on=ON, batch=[1, 2], input=[8, 9, 10], output=24),
    "serve": lambda: rl.serve(QWEN, on=ON, concurrency=[1, 2], input=[8, 9, 10], output=24),
    "pools": lambda: rl.pools(
        QWEN, on=NODE, chips=8, prefill_layout="tp=1", decode_layout="tp=2", input=[8, 9, 10], output=[24, 25],
        concurrency=4,
    ),
    "fit": lambda: rl.fit(QWEN, on="l4", batch=[1, 2], context=[8, 9, 10]),
    "training": lambda: rl.train(GPT2, batch=[8, 16], tokens=[8, 9, 10], on=NODE),
    "estimate of degrees": lambda: rl.estimate(QWEN, rl.decode([1, 2, 3], 64), on=NODE, layout=TWO),
    "generate of degrees": lambda: rl.generate(QWEN, on=NODE, batch=[1, 2, 3], input=8, output=24, layout=TWO),
    "serve of degrees": lambda: rl.serve(QWEN, on=NODE, concurrency=[1, 2, 3], input=8, output=24, layout=TWO),
    "fit of degrees": lambda: rl.fit(QWEN, on=NODE, batch=[1, 2, 3], context=8, layout=TWO),
    "training of degrees": lambda: rl.train(GPT2, batch=[8, 16, 32], tokens=8, on=NODE, layout=TWO),
    "degrees": lambda: rl.Layout(tp=[1, 2], dp=[1, 2, 4]),
    "degrees of a mapping": lambda: rl.fit(QWEN, on=NODE, layout={"tp": [1, 2], "dp": [1, 2, 4]}),
    "nested": lambda: rl.estimate(QWEN, rl.decode([[1, 2], [3]], 8), on=ON),
}  # fmt: skip


@folded("name", RAGGED)
def test_arrays_that_do_not_broadcast_are_bad_input(name: str) -> None:
    with pytest.raises(rl.InputError):
        RAGGED[name]()


LISTS: dict[str, Callable[[], Any]] = {
    "an empty list": lambda: rl.estimate(QWEN, rl.decode(1, 8), on=[]),
    "an empty list of formats": lambda: rl.generate(QWEN, on=ON, precision=[], batch=1, input=8, output=24),
    "flash": lambda: rl.train(GPT2, batch=8, tokens=64, on=NODE, flash=[True, False]),
    "counting": lambda: rl.analyze(QWEN, rl.decode(1, 8), counting=["standard", "torch"]),
    "traffic": lambda: rl.analyze(QWEN, rl.decode(1, 8), traffic=["fused", "floor"]),
    "counting of an estimate": lambda: rl.estimate(QWEN, rl.decode(1, 8), on=ON, counting=["standard", "torch"]),
    "a word among numbers": lambda: rl.generate(QWEN, on=ON, batch=["one", "two"], input=8, output=24),
    "booleans": lambda: rl.serve(QWEN, on=ON, concurrency=[True, False], input=8, output=24),
    "halves": lambda: rl.fit(QWEN, on=ON, batch=[1.5, 2], context=8),
    "a chunk": lambda: rl.fit(QWEN, on=ON, batch=1, context=8, chunk=["a"]),
    "a model in analysis": lambda: rl.analyze([GPT2, QWEN], rl.decode(1, 8)),
    "within": lambda: rl.estimate(QWEN, rl.decode(1, 8), on=ON, within=[True, False]),
}


@folded("name", LISTS)
def test_a_list_where_none_may_be_is_bad_input(name: str) -> None:
    with pytest.raises(rl.InputError):
        LISTS[name]()


def test_a_sweep_is_the_frame_of_its_rows() -> None:
    result = swept()
    assert result.shape == (6,)
    assert result.to_frame().columns == list(result.columns_of) == list(result.table)
    assert result.to_frame().height == result.rows == 6
