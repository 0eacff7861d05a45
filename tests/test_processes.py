"""Results and errors go to other processes and come back; copies are equal."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np
import pytest

import roofline as rl
from folded import folded
from roofline.declared.frozen_mapping import frozen, frozen_tree
from roofline.model.sources.hub import HubError
from roofline.work.counting import COUNTINGS
from roofline.work.traffic import TRAFFICS, traffic_named

LLAMA, DEEPSEEK, ON = "meta-llama/Llama-3.1-8B", "deepseek-ai/DeepSeek-V3", "8xh100-sxm"
THINGS: dict[str, Callable[[], Any]] = {
    "model": lambda: rl.load(DEEPSEEK),
    "chip": lambda: rl.chips()["h100-sxm"],
    "cluster": lambda: next(iter(rl.clusters().values())),
    "engine": lambda: rl.engines()["vllm"],
    "layout": lambda: rl.Layout(tp=2),
    "step": lambda: rl.decode(batch=1, context=10),
    "training": lambda: rl.training(batch=1, tokens=10),
    "analysis": lambda: rl.analyze(rl.load(LLAMA), rl.decode(batch=1, context=100), traffic="fused(weights=2)"),
    "estimate": lambda: rl.estimate(rl.load(DEEPSEEK), rl.decode(batch=64, context=100), on=ON, layout="tp=8,ep=8"),
    "grid": lambda: rl.estimate(rl.load(LLAMA), rl.decode(batch=1, context=100), on=["h100-sxm", "b200"]),
    "generation": lambda: rl.generate(rl.load(LLAMA), batch=2, input=100, output=20, on="h100-sxm"),
    "serving": lambda: rl.serve(rl.load(LLAMA), concurrency=4, input=100, output=20, on="h100-sxm"),
    "fit": lambda: rl.fit(rl.load(LLAMA), on="h100-sxm"),
    "explanation": lambda: rl.explain(LLAMA, "qkv_proj", rl.decode(batch=1, context=10)),
    "difference": lambda: rl.diff(LLAMA, f"{LLAMA}:layout=tp=2,on={ON}", engine="none"),
}


@folded("name", THINGS)
@folded("again", [lambda x: pickle.loads(pickle.dumps(x)), copy.deepcopy, copy.copy])
def test_comes_back_equal(name: str, again: Callable[[Any], Any]) -> None:
    thing = THINGS[name]()
    text = str(thing)
    other = again(thing)
    assert other == thing
    assert str(other) == text


def test_arrays_come_back() -> None:
    e = rl.estimate(rl.load(LLAMA), rl.decode(batch=np.array([1, 2, 4]), context=100), on="h100-sxm")
    other = pickle.loads(pickle.dumps(e))
    np.testing.assert_array_equal(other.time, e.time)


def test_a_training_step_and_a_simulation_come_back() -> None:
    t = rl.train(rl.load(LLAMA), batch=64, tokens=4096, on=ON)
    assert pickle.loads(pickle.dumps(t)).to_dict() == t.to_dict()
    s = rl.simulate(rl.load(LLAMA), on="h100-sxm", input=100, output=20, rate=1, extent=rl.Extent(requests=50))
    assert str(pickle.loads(pickle.dumps(s))) == str(s)


def test_conventions_go_by_name() -> None:
    for convention in (*COUNTINGS.values(), *TRAFFICS.values()):
        assert pickle.loads(pickle.dumps(convention)) is convention
    scaled = traffic_named("fused(weights=2)")
    assert pickle.loads(pickle.dumps(scaled)) == scaled


def test_frozen() -> None:
    values = frozen_tree({"a": {"b": 1}})
    with pytest.raises(TypeError):
        values["a"]["b"] = 2
    assert copy.deepcopy(values) == values == {"a": frozen({"b": 1})}


@folded(
    "error",
    [
        rl.InputError("batch", 0, "at least 1", ["1"]),
        rl.InputError("value", lambda: 1, "what can be pickled"),
        HubError("org/name", "it is gone", "look elsewhere", ["org/near"], lost=True),
    ],
)
@folded("again", [lambda x: pickle.loads(pickle.dumps(x)), copy.copy, copy.deepcopy])
def test_errors_come_back(error: rl.InputError, again: Callable[[Any], Any]) -> None:
    other = again(error)
    assert type(other) is type(error)
    assert (str(other), other.field, other.nearest) == (str(error), error.field, error.nearest)
    assert getattr(other, "lost", None) == getattr(error, "lost", None)


def parameters(config: dict[str, Any]) -> int:
    return rl.load(config).parameters


def test_a_pool_gets_its_results_and_its_errors() -> None:
    whole = {"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "vocab_size": 100,
             "num_hidden_layers": 2, "num_attention_heads": 4, "dtype": "bfloat16"}  # fmt: skip
    configs = [{**whole, "num_hidden_layers": 1 + n} for n in range(50)]
    for n in range(0, 50, 10):
        configs[n] = {**configs[n], "hidden_size": -1}
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        waiting = [pool.submit(parameters, c) for c in configs]
        errors = [f.exception() for f in waiting]
    right = [f.result() for f, e in zip(waiting, errors, strict=True) if e is None]
    assert len(right) == 45
    assert right == [parameters(c) for c in configs if c["hidden_size"] != -1]
    assert [type(e) for e in errors if e is not None] == [rl.InputError] * 5
