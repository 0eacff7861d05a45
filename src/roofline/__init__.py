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
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from roofline.declared.errors import InputError as InputError
    from roofline.declared.groups import SLO as SLO
    from roofline.declared.groups import Load as Load
    from roofline.declared.groups import PoolSizes as PoolSizes
    from roofline.declared.groups import StaticBatch as StaticBatch
    from roofline.declared.groups import Where as Where
    from roofline.declared.result import Grid as Grid
    from roofline.declared.result import Result as Result
    from roofline.emit.make import Emitted as Emitted
    from roofline.emit.make import hand_over as hand_over
    from roofline.estimates.bill import Bill as Bill
    from roofline.estimates.bill import Own as Own
    from roofline.estimates.deployment import Deployment as Deployment
    from roofline.estimates.estimate import estimate as estimate
    from roofline.estimates.fit import Fit as Fit
    from roofline.estimates.fit import fit as fit
    from roofline.estimates.generate import Generation as Generation
    from roofline.estimates.generate import Speculation as Speculation
    from roofline.estimates.generate import generate as generate
    from roofline.estimates.memory import Memory as Memory
    from roofline.estimates.offload import Host as Host
    from roofline.estimates.offload import Offload as Offload
    from roofline.estimates.offload import offload as offload
    from roofline.estimates.pools import Pools as Pools
    from roofline.estimates.pools import pools as pools
    from roofline.estimates.run import Run as Run
    from roofline.estimates.run import run as run
    from roofline.estimates.serve import SteadyState as SteadyState
    from roofline.estimates.serve import serve as serve
    from roofline.estimates.server import Serving as Serving
    from roofline.estimates.span import Span as Span
    from roofline.estimates.step import Estimate as Estimate
    from roofline.estimates.train import TrainingEstimate as TrainingEstimate
    from roofline.estimates.train import train as train
    from roofline.explore.break_even import Owned as Owned
    from roofline.explore.codesign import Bounds as Bounds
    from roofline.explore.codesign import Codesign as Codesign
    from roofline.explore.codesign import Process as Process
    from roofline.explore.codesign import codesign as codesign
    from roofline.explore.demand import Demand as Demand
    from roofline.explore.demand import Limits as Limits
    from roofline.explore.difference import Difference as Difference
    from roofline.explore.difference import diff as diff
    from roofline.explore.elasticity import Sensitivity as Sensitivity
    from roofline.explore.elasticity import sensitivity as sensitivity
    from roofline.explore.search import Choices as Choices
    from roofline.explore.search import Ranking as Ranking
    from roofline.explore.search import Search as Search
    from roofline.explore.search import search as search
    from roofline.explore.solution import Solution as Solution
    from roofline.explore.solve import solve as solve
    from roofline.explore.swept import Sweep as Sweep
    from roofline.explore.swept import sweep as sweep
    from roofline.explore.training_breakdown import Breakdown as Breakdown
    from roofline.explore.training_breakdown import breakdown as breakdown
    from roofline.explore.training_search import TrainingSearch as TrainingSearch
    from roofline.explore.training_search import search_training as search_training
    from roofline.layout.layout import Layout as Layout
    from roofline.layout.shard import shard as shard
    from roofline.layout.shard import stages as stages
    from roofline.machine.calibrate import Calibration as Calibration
    from roofline.machine.calibrate import calibrate as calibrate
    from roofline.machine.chip import Chip as Chip
    from roofline.machine.chip import chips as chips
    from roofline.machine.engine import Engine as Engine
    from roofline.machine.engine import engines as engines
    from roofline.machine.fabric import Cluster as Cluster
    from roofline.machine.fabric import clusters as clusters
    from roofline.model.images import Images as Images
    from roofline.model.load import catalog as catalog
    from roofline.model.load import load as load
    from roofline.model.model import Model as Model
    from roofline.model.precision import Precision as Precision
    from roofline.show.plots.make import plot as plot
    from roofline.show.report.make import report as report
    from roofline.simulation.pooled import PrefillPool as PrefillPool
    from roofline.simulation.recorder import Objective as Objective
    from roofline.simulation.simulate import Extent as Extent
    from roofline.simulation.simulate import simulate as simulate
    from roofline.simulation.simulation import Simulation as Simulation
    from roofline.simulation.traces import Trace as Trace
    from roofline.simulation.workload import Prefixes as Prefixes
    from roofline.tracing.make import trace as trace
    from roofline.work.analysis import Analysis as Analysis
    from roofline.work.analysis import analyze as analyze
    from roofline.work.explain import Explanation as Explanation
    from roofline.work.explain import explain as explain
    from roofline.work.step import Queries as Queries
    from roofline.work.step import Step as Step
    from roofline.work.step import decode as decode
    from roofline.work.step import prefill as prefill
    from roofline.work.training import Training as Training
    from roofline.work.training import training as training

from roofline.version import __version__ as __version__

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
    "emit.make": "Emitted hand_over",
    "explore.swept": "Sweep sweep",
    "show.plots.make": "plot",
    "show.report.make": "report",
}
"""Module → the names that it lends, each imported when it is used."""
_WHERE = {name: module for module, names in _PLACES.items() for name in names.split()}
__all__ = ["__version__", *_WHERE]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'roofline' has no attribute {name!r}")
    return getattr(import_module(f"roofline.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
