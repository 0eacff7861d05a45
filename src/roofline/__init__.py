"""Roofline: how much work a transformer is, from its config.json alone.

>>> import roofline as rl
>>> model = rl.load({"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "vocab_size": 100,
...                  "num_hidden_layers": 2, "num_attention_heads": 4, "dtype": "bfloat16"})
>>> model.parameters
95040
>>> rl.analyze(model, rl.decode(batch=1, context=128)).flops
246272
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from roofline.estimates.estimate import estimate as estimate
    from roofline.estimates.generate import generate as generate
    from roofline.estimates.latency import Estimate as Estimate
    from roofline.estimates.memory import fit as fit
    from roofline.estimates.pools import pools as pools
    from roofline.estimates.serve import serve as serve
    from roofline.layout.layout import Layout as Layout
    from roofline.layout.shard import shard as shard
    from roofline.layout.shard import stages as stages
    from roofline.machine.chip import Chip as Chip
    from roofline.machine.chip import chips as chips
    from roofline.machine.fabric import clusters as clusters
    from roofline.model.errors import InputError as InputError
    from roofline.model.load import catalog as catalog
    from roofline.model.load import load as load
    from roofline.model.model import Model as Model
    from roofline.model.precision import Precision as Precision
    from roofline.show.plots.make import plot as plot
    from roofline.show.report.make import report as report
    from roofline.work.analysis import Analysis as Analysis
    from roofline.work.analysis import analyze as analyze
    from roofline.work.step import Queries as Queries
    from roofline.work.step import Step as Step
    from roofline.work.step import decode as decode
    from roofline.work.step import prefill as prefill
    from roofline.work.training import train as train

__version__ = "0.1.0"

_WHERE = {
    "generate": "estimates.generate",
    "Estimate": "estimates.latency",
    "estimate": "estimates.estimate",
    "fit": "estimates.memory",
    "serve": "estimates.serve",
    "pools": "estimates.pools",
    "Chip": "machine.chip",
    "chips": "machine.chip",
    "InputError": "model.errors",
    "catalog": "model.load",
    "load": "model.load",
    "Model": "model.model",
    "Precision": "model.precision",
    "plot": "show.plots.make",
    "report": "show.report.make",
    "Analysis": "work.analysis",
    "analyze": "work.analysis",
    "Queries": "work.step",
    "Step": "work.step",
    "decode": "work.step",
    "prefill": "work.step",
    "train": "work.training",
    "Layout": "layout.layout",
    "shard": "layout.shard",
    "stages": "layout.shard",
    "clusters": "machine.fabric",
}
__all__ = ["__version__", *_WHERE]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'roofline' has no attribute {name!r}")
    return getattr(import_module(f"roofline.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
