"""Roofline: how much compute a transformer needs, from its config.json alone, and how long it takes on a machine.

>>> import roofline as rl
>>> model = rl.load({"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "vocab_size": 100,
...                  "num_hidden_layers": 2, "num_attention_heads": 4, "dtype": "bfloat16"})
>>> model.parameters
95040
>>> rl.analyze(model, rl.decode(batch=1, context=128)).flops
246272
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

from roofline.version import __version__

_PLACES = {
    "model.load": "load catalog",
    "model.model": "Model",
    "model.media.images": "Images",
    "model.trace.make": "trace",
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
    "hardware.chip": "Chip chips",
    "hardware.cluster": "Cluster clusters",
    "engines.engine": "Engine engines",
    "measured.calibrate": "Calibration calibrate",
    "inference.span": "Span",
    "inference.cost.bill": "Bill Own",
    "inference.deployment": "Deployment",
    "inference.memory.memory": "Memory",
    "programs.estimate": "estimate",
    "inference.step": "Estimate",
    "inference.generate": "Generation Speculation generate",
    "inference.encode": "Encoding encode",
    "serving.server": "Serving",
    "serving.serve": "SteadyState serve",
    "serving.pools": "Pools pools",
    "inference.fit": "Fit fit",
    "inference.offload": "Host Offload offload",
    "training.estimate": "TrainingEstimate",
    "training.train": "train",
    "training.runs.run": "Run run",
    "serving.simulate.simulate": "Extent simulate",
    "serving.simulate.simulation": "Simulation",
    "serving.simulate.disaggregated": "PrefillPool",
    "serving.simulate.recorder": "Objective",
    "serving.simulate.load.workload": "Prefixes",
    "serving.simulate.tables.traces": "Trace",
    "whatif.answer": "FirstAnswer answer",
    "whatif.diff": "Difference diff",
    "whatif.machine_choice": "MachineChoice machines",
    "whatif.search.demand": "Demand Limits",
    "whatif.search.search": "Choices Ranking Search search",
    "whatif.search.training_search": "TrainingSearch search_training",
    "whatif.solve.break_even": "Owned",
    "whatif.codesign": "Bounds Codesign Process codesign",
    "whatif.sensitivity.sensitivity": "Sensitivity sensitivity",
    "whatif.solve.solution": "Solution",
    "whatif.solve.solve": "solve",
    "training.breakdown": "Breakdown breakdown",
    "measured.compare.read": "compare",
    "measured.compare.comparison": "Comparison",
    "measured.compare.benchmarks": "ComparedResults",
    "training.emit.make": "Emitted hand_over",
    "whatif.sweep.sweep": "Sweep sweep",
    "views.plots.make": "plot",
    "views.report.make": "report",
}
"""Module → public names, imported on first use. Type checkers read them from `__init__.pyi`."""
_WHERE = {name: module for module, names in _PLACES.items() for name in names.split()}
__all__ = ["__version__", *_WHERE]


class _Library(ModuleType):
    """Module type that keeps `rl.training` and `rl.engines` functions after packages of these names are imported."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _WHERE and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Library


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'roofline' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"roofline.{_WHERE[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
