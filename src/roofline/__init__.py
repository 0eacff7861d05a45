"""Roofline: how much work a transformer is, from its config.json alone, and how long it takes on a machine.

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
from typing import Any

from roofline.version import __version__

_PLACES = {
    "model.load": "load catalog",
    "model.model": "Model",
    "model.images": "Images",
    "tracing.make": "trace",
    "model.precision": "Precision",
    "declared.errors": "InputError",
    "declared.groups": "Where Load SLO PoolSizes StaticBatch",
    "declared.result": "Result Grid",
    "work.step": "Step Queries prefill decode",
    "work.training": "Training training",
    "work.analysis": "Analysis analyze",
    "work.explain": "Explanation explain",
    "layout.layout": "Layout",
    "layout.shard": "shard stages",
    "machine.chip": "Chip chips",
    "machine.fabric": "Cluster clusters",
    "machine.engine": "Engine engines",
    "machine.calibrate": "Calibration calibrate",
    "estimates.span": "Span",
    "estimates.bill": "Bill Own",
    "estimates.deployment": "Deployment",
    "estimates.memory": "Memory",
    "estimates.estimate": "estimate",
    "estimates.step": "Estimate",
    "estimates.generate": "Generation Speculation generate",
    "estimates.server": "Serving",
    "estimates.serve": "SteadyState serve",
    "estimates.pools": "Pools pools",
    "estimates.fit": "Fit fit",
    "estimates.offload": "Host Offload offload",
    "estimates.train": "TrainingEstimate train",
    "estimates.run": "Run run",
    "simulation.simulate": "Extent simulate",
    "simulation.simulation": "Simulation",
    "simulation.pooled": "PrefillPool",
    "simulation.recorder": "Objective",
    "simulation.workload": "Prefixes",
    "simulation.traces": "Trace",
    "explore.difference": "Difference diff",
    "explore.demand": "Demand Limits",
    "explore.search": "Choices Ranking Search search",
    "explore.training_search": "TrainingSearch search_training",
    "explore.break_even": "Owned",
    "explore.codesign": "Bounds Codesign Process codesign",
    "explore.elasticity": "Sensitivity sensitivity",
    "explore.solution": "Solution",
    "explore.solve": "solve",
    "explore.training_breakdown": "Breakdown breakdown",
    "comparison.read": "compare",
    "comparison.comparison": "Comparison",
    "comparison.benchmarks": "ComparedResults",
    "emit.make": "Emitted hand_over",
    "explore.swept": "Sweep sweep",
    "show.plots.make": "plot",
    "show.report.make": "report",
}
"""Module → the names that it lends, each imported when it is used. For type checkers they stand in `__init__.pyi`."""
_WHERE = {name: module for module, names in _PLACES.items() for name in names.split()}
__all__ = ["__version__", *_WHERE]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'roofline' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"roofline.{_WHERE[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
