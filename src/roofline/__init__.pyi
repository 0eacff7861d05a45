"""Roofline's library. Generated: `python -m roofline.views.reference.stubs > src/roofline/__init__.pyi`."""

# fmt: off
# ruff: noqa: I001, RUF022
from os import PathLike
from typing import Any, Literal, TypeAlias, overload
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from roofline.declared.errors import InputError as InputError
from roofline.declared.groups import EncoderReplicas, PlaceSettings
from roofline.declared.groups import Load as Load
from roofline.declared.groups import PoolSizes as PoolSizes
from roofline.declared.groups import SLO as SLO
from roofline.declared.groups import StaticBatch as StaticBatch
from roofline.declared.groups import Where as Where
from roofline.declared.numbers.arrays import Array
from roofline.declared.numbers.maths import Symbol
from roofline.declared.result import Grid as Grid
from roofline.declared.result import Result as Result
from roofline.engines.engine import Engine as Engine
from roofline.engines.engine import engines as engines
from roofline.hardware.chip import Chip as Chip
from roofline.hardware.chip import chips as chips
from roofline.hardware.cluster import Cluster as Cluster
from roofline.hardware.cluster import clusters as clusters
from roofline.inference.cost.bill import Bill as Bill
from roofline.inference.cost.bill import MeanPower
from roofline.inference.cost.bill import Own as Own
from roofline.inference.deployment import Deployment as Deployment
from roofline.inference.encode import Encoding as Encoding
from roofline.inference.encode import WholeInputs
from roofline.inference.fit import Fit as Fit
from roofline.inference.generate import Generation as Generation
from roofline.inference.generate import Speculation as Speculation
from roofline.inference.memory.memory import Memory as Memory
from roofline.inference.offload import CardSettings, OffloadBatch
from roofline.inference.offload import Host as Host
from roofline.inference.offload import Offload as Offload
from roofline.inference.span import Span as Span
from roofline.inference.step import Estimate as Estimate
from roofline.kernels.target import Mode
from roofline.layout.layout import Layout as Layout
from roofline.layout.shard import shard as shard
from roofline.layout.shard import stages as stages
from roofline.measured.calibrate import Calibration as Calibration
from roofline.measured.calibrate import calibrate as calibrate
from roofline.measured.compare.benchmarks import ComparedResults as ComparedResults
from roofline.measured.compare.comparison import Comparison as Comparison
from roofline.measured.compare.read import ProfiledStep
from roofline.model.load import Source
from roofline.model.load import catalog as catalog
from roofline.model.load import load as load
from roofline.model.media.images import Images as Images
from roofline.model.model import Model as Model
from roofline.model.precision import Precision as Precision
from roofline.model.trace.make import trace as trace
from roofline.serving.pools import Pools as Pools
from roofline.serving.serve import SteadyState as SteadyState
from roofline.serving.server import Serving as Serving
from roofline.serving.simulate.disaggregated import PrefillPool as PrefillPool
from roofline.serving.simulate.load.arrivals import Arrivals
from roofline.serving.simulate.load.lengths import Lengths
from roofline.serving.simulate.load.workload import Prefixes as Prefixes
from roofline.serving.simulate.recorder import Objective as Objective
from roofline.serving.simulate.simulate import Extent as Extent
from roofline.serving.simulate.simulate import Requested
from roofline.serving.simulate.simulation import Simulation as Simulation
from roofline.serving.simulate.tables.traces import Trace as Trace
from roofline.training.breakdown import Breakdown as Breakdown
from roofline.training.breakdown import breakdown as breakdown
from roofline.training.emit.make import Emitted as Emitted
from roofline.training.emit.make import hand_over as hand_over
from roofline.training.estimate import TrainingEstimate as TrainingEstimate
from roofline.training.runs.run import Run as Run
from roofline.training.runs.run import RunOptions
from roofline.training.settings import Learner, TrainingWhere
from roofline.version import __version__ as __version__
from roofline.views.plots.data import BarsPlot, DiagramPlot, EnergyPlot, FrontPlot, MapPlot, MemoryPlot, ParametersPlot, RatiosPlot, RooflinePlot, RowsPlot, SharesPlot, SimulationPlot, StepMemoryPlot, SweepPlot, TornadoPlot
from roofline.views.plots.make import DrawnOn, PlotOptions
from roofline.views.report.completed import Finished
from roofline.whatif.answer import AnsweredLoad, AnsweredPlace, AnsweredSLO
from roofline.whatif.answer import FirstAnswer as FirstAnswer
from roofline.whatif.codesign import Bounds as Bounds
from roofline.whatif.codesign import Codesign as Codesign
from roofline.whatif.codesign import Process as Process
from roofline.whatif.codesign import codesign as codesign
from roofline.whatif.diff import Difference as Difference
from roofline.whatif.diff import Side
from roofline.whatif.machine_choice import MachineChoice as MachineChoice
from roofline.whatif.machine_choice import PeoplesDemand, RentedPlace
from roofline.whatif.search.demand import Demand as Demand
from roofline.whatif.search.demand import Limits as Limits
from roofline.whatif.search.recommendations import BatchSizes
from roofline.whatif.search.search import Choices as Choices
from roofline.whatif.search.search import Ranking as Ranking
from roofline.whatif.search.search import Search as Search
from roofline.whatif.search.training_search import ChosenOptions, TrainingMachine
from roofline.whatif.search.training_search import TrainingSearch as TrainingSearch
from roofline.whatif.sensitivity.sensitivity import Sensitivity as Sensitivity
from roofline.whatif.sensitivity.sensitivity import sensitivity as sensitivity
from roofline.whatif.solve.break_even import Owned as Owned
from roofline.whatif.solve.solution import Solution as Solution
from roofline.whatif.sweep.sweep import Sweep as Sweep
from roofline.whatif.sweep.sweep import sweep as sweep
from roofline.work.analysis import Analysis as Analysis
from roofline.work.explain import Explanation as Explanation
from roofline.work.step import Queries as Queries
from roofline.work.step import Step as Step
from roofline.work.step import decode as decode
from roofline.work.step import prefill as prefill
from roofline.work.training import Training as Training
from roofline.work.training import TrainingOptions
from roofline.work.training import training as training

_AboveZero: TypeAlias = float
_ArrivalsText: TypeAlias = str | Arrivals
_Attained: TypeAlias = float | str
_Bandwidth: TypeAlias = float | str
_ChipCount: TypeAlias = int | Array | Symbol | Sequence[int]
_CountingName: TypeAlias = Literal['standard', 'torch', 'original', 'llm-para']
_Duration: TypeAlias = float
_EngineName: TypeAlias = str | Engine
_ExtremeName: TypeAlias = Literal['greatest', 'least']
_FileName: TypeAlias = str | PathLike[str] | Trace
_Formats: TypeAlias = str | Precision | Mapping[str, Any]
_FromZero: TypeAlias = float
_ImageSize: TypeAlias = str
_KindName: TypeAlias = Literal['aggregated', 'disaggregated'] | Sequence[str]
_LawName: TypeAlias = str | Mode
_LayoutText: TypeAlias = str | Layout | Mapping[str, Any]
_LengthsText: TypeAlias = str | int | Sequence[int] | Lengths
_MachineName: TypeAlias = str | Chip | Cluster
_MachineNames: TypeAlias = str | Chip
_MeasuredFile: TypeAlias = str | PathLike[str]
_ModelName: TypeAlias = str | Model | Mapping[str, Any] | PathLike[str]
_Names: TypeAlias = str
_NamesOrLists: TypeAlias = str
_NewTokens: TypeAlias = int | Array | Symbol | Sequence[int]
_ObjectiveName: TypeAlias = Literal['throughput', 'total', 'interactivity', 'latency', 'cost', 'energy', 'chips', 'time', 'days', 'dollars', 'goodput']
_OneChipCount: TypeAlias = int
_OneRequests: TypeAlias = int
_OneSequences: TypeAlias = int
_OneTokens: TypeAlias = int
_OneTokensOrNone: TypeAlias = int
_OtherSide: TypeAlias = str | Mapping[str, Any] | Owned
_PackText: TypeAlias = str
_PerSecond: TypeAlias = float | Array | Symbol | Sequence[float]
_PhaseName: TypeAlias = Literal['prefill', 'decode']
_PlainCount: TypeAlias = int
_PlainNumber: TypeAlias = float
_PrefixesText: TypeAlias = str | Prefixes
_Probability: TypeAlias = float
_QueryTokens: TypeAlias = int | Array | Symbol | Sequence[int]
_RankCount: TypeAlias = int | Array | Symbol | Sequence[int]
_Replicas: TypeAlias = int | Array | Symbol | Sequence[int]
_Requests: TypeAlias = int | Array | Symbol | Sequence[int]
_RequestsOfDay: TypeAlias = float
_RouterName: TypeAlias = Literal['round-robin', 'least-loaded', 'prefix-aware']
_Seconds: TypeAlias = float | str
_Sequences: TypeAlias = int | Array | Symbol | Sequence[int]
_Share: TypeAlias = float | Array | Symbol | Sequence[float]
_Text: TypeAlias = str
_TimeText: TypeAlias = str | float
_Tokens: TypeAlias = int | Array | Symbol | Sequence[int]
_TokensOfRun: TypeAlias = float | Array | Symbol | Sequence[float]
_TokensOrNone: TypeAlias = int | Array | Symbol | Sequence[int]
_TrainingAim: TypeAlias = Literal['time', 'cost', 'chips', 'days', 'dollars', 'energy', 'goodput']
_Variation: TypeAlias = float | Array | Symbol | Sequence[float]
_Whole: TypeAlias = int
_WholeOrNone: TypeAlias = int
_Word: TypeAlias = str
_Words: TypeAlias = str
_WorkedShare: TypeAlias = float

def analyze(
    model: Model | Source, step: Step = ..., *, counting: _CountingName = 'standard', traffic: _ImageSize = 'fused',
    precision: _Formats | Sequence[_Formats] | None = None, images: Images | _Whole | None = None,
    phase: _PhaseName | None = None, batch: _Sequences | None = None, input: _Tokens | None = None,
    context: _TokensOrNone | None = None, cached: _QueryTokens | None = None, new: _NewTokens | None = None,
    image_size: _ImageSize | None = None, frames: _Whole | None = None, audio: _Seconds | None = None,
) -> Analysis: ...

def answer(
    model: Model | Source, load: AnsweredLoad = ..., limits: AnsweredSLO = ..., place: AnsweredPlace = ..., *,
    images: Images | _Whole | None = None, bill: Bill | None = None, progress: Callable[[str], None] | None = None,
    input_cv: _Variation = 0.96, output_cv: _Variation = 0.78, input: _OneTokens | None = None,
    output_tokens: _OneTokens | None = None, ttft: _Seconds = 2.0, tpot: _Seconds = 0.05, latency: _Seconds = ...,
    attainment: _Attained = 0.99, engine: _EngineName | Sequence[_EngineName] | None = None,
    precision: _Formats | Sequence[_Formats] | None = None, law: _LawName | Sequence[_LawName] = 'calibrated',
    on: _MachineName | Sequence[_MachineName] | None = None, image_size: _ImageSize | None = None,
    frames: _Whole | None = None, audio: _Seconds | None = None, price: str | float | Own | None = None,
    years: _PlainNumber | None = None, utilisation: _WorkedShare = 1.0, pue: _PlainNumber = 1.0,
    grid: str | float | None = None,
) -> FirstAnswer: ...

@overload
def compare(
    model: Model | Source, measured: _MeasuredFile, *, on: _MachineName, step: ProfiledStep = ...,
    layout: _LayoutText | None = None, tp: _RankCount | None = None, pp: _RankCount | None = None,
    dp: _RankCount | None = None, ep: _RankCount | None = None, engine: _EngineName | None = None,
    precision: _Formats | None = None, batch: _OneSequences | None = None, input: _OneTokens | None = None,
    context: _OneTokensOrNone | None = None,
) -> Comparison | ComparedResults: ...
@overload
def compare(
    model: Model | Source, measured: _MeasuredFile, where: PlaceSettings, step: ProfiledStep = ..., *,
    layout: _LayoutText | None = None, tp: _RankCount | None = None, pp: _RankCount | None = None,
    dp: _RankCount | None = None, ep: _RankCount | None = None, engine: _EngineName | None = None,
    precision: _Formats | None = None, batch: _OneSequences | None = None, input: _OneTokens | None = None,
    context: _OneTokensOrNone | None = None,
) -> Comparison | ComparedResults: ...
@overload
def compare(
    model: Model | Source | Sequence[Model | Source], measured: _MeasuredFile, *,
    on: _MachineName | Sequence[_MachineName], step: ProfiledStep = ...,
    layout: _LayoutText | Sequence[_LayoutText] | None = None, tp: _RankCount | None = None,
    pp: _RankCount | None = None, dp: _RankCount | None = None, ep: _RankCount | None = None,
    engine: _EngineName | Sequence[_EngineName] | None = None, precision: _Formats | Sequence[_Formats] | None = None,
    batch: _OneSequences | None = None, input: _OneTokens | None = None, context: _OneTokensOrNone | None = None,
) -> Grid | Any: ...
@overload
def compare(
    model: Model | Source | Sequence[Model | Source], measured: _MeasuredFile, where: PlaceSettings,
    step: ProfiledStep = ..., *, layout: _LayoutText | Sequence[_LayoutText] | None = None,
    tp: _RankCount | None = None, pp: _RankCount | None = None, dp: _RankCount | None = None,
    ep: _RankCount | None = None, engine: _EngineName | Sequence[_EngineName] | None = None,
    precision: _Formats | Sequence[_Formats] | None = None, batch: _OneSequences | None = None,
    input: _OneTokens | None = None, context: _OneTokensOrNone | None = None,
) -> Grid | Any: ...

def diff(
    a: str | Side | Model | Mapping[str, Any] | PathLike[str],
    b: str | Side | Model | Mapping[str, Any] | PathLike[str],
    engine: _EngineName | Sequence[_EngineName] | None = None,
) -> Difference: ...

@overload
def encode(
    model: Model | Source, *, on: _MachineName, read: WholeInputs = ..., bill: Bill | None = None,
    layout: _LayoutText | None = None, tp: _RankCount | None = None, pp: _RankCount | None = None,
    dp: _RankCount | None = None, ep: _RankCount | None = None, engine: _EngineName | None = None,
    precision: _Formats | None = None, law: _LawName = 'calibrated', batch: _Sequences | None = None,
    rate: _PerSecond | None = None, latency: _Seconds | None = None, input: _Tokens | None = None,
    size: _ImageSize | None = None, frames: _Whole | None = None, seconds: _Seconds | None = None,
    tower: _Text | None = None, passes: _Whole | None = None, guidance: bool = False,
    price: str | float | Own | None = None, years: _PlainNumber | None = None, utilisation: _WorkedShare = 1.0,
    pue: _PlainNumber = 1.0, grid: str | float | None = None,
) -> Encoding: ...
@overload
def encode(
    model: Model | Source, where: Where, read: WholeInputs = ..., *, bill: Bill | None = None,
    layout: _LayoutText | None = None, tp: _RankCount | None = None, pp: _RankCount | None = None,
    dp: _RankCount | None = None, ep: _RankCount | None = None, engine: _EngineName | None = None,
    precision: _Formats | None = None, law: _LawName = 'calibrated', batch: _Sequences | None = None,
    rate: _PerSecond | None = None, latency: _Seconds | None = None, input: _Tokens | None = None,
    size: _ImageSize | None = None, frames: _Whole | None = None, seconds: _Seconds | None = None,
    tower: _Text | None = None, passes: _Whole | None = None, guidance: bool = False,
    price: str | float | Own | None = None, years: _PlainNumber | None = None, utilisation: _WorkedShare = 1.0,
    pue: _PlainNumber = 1.0, grid: str | float | None = None,
) -> Encoding: ...
@overload
def encode(
    model: Model | Source | Sequence[Model | Source], *, on: _MachineName | Sequence[_MachineName],
    read: WholeInputs = ..., bill: Bill | None = None, layout: _LayoutText | Sequence[_LayoutText] | None = None,
    tp: _RankCount | None = None, pp: _RankCount | None = None, dp: _RankCount | None = None,
    ep: _RankCount | None = None, engine: _EngineName | Sequence[_EngineName] | None = None,
    precision: _Formats | Sequence[_Formats] | None = None, law: _LawName | Sequence[_LawName] = 'calibrated',
    batch: _Sequences | None = None, rate: _PerSecond | None = None, latency: _Seconds | None = None,
    input: _Tokens | None = None, size: _ImageSize | None = None, frames: _Whole | None = None,
    seconds: _Seconds | None = None, tower: _Text | None = None, passes: _Whole | None = None, guidance: bool = False,
    price: str | float | Own | None = None, years: _PlainNumber | None = None, utilisation: _WorkedShare = 1.0,
    pue: _PlainNumber = 1.0, grid: str | float | None = None,
) -> Grid | Any: ...
@overload
def encode(
    model: Model | Source | Sequence[Model | Source], where: Where, read: WholeInputs = ..., *,
    bill: Bill | None = None, layout: _LayoutText | Sequence[_LayoutText] | None = None, tp: _RankCount | None = None,
    pp: _RankCount | None = None, dp: _RankCount | None = None, ep: _RankCount | None = None,
    engine: _EngineName | Sequence[_EngineName] | None = None, precision: _Formats | Sequence[_Formats] | None = None,
    law: _LawName | Sequence[_LawName] = 'calibrated', batch: _Sequences | None = None, rate: _PerSecond | None = None,
    latency: _Seconds | None = None, input: _Tokens | None = None, size: _ImageSize | None = None,
    frames: _Whole | None = None, seconds: _Seconds | None = None, tower: _Text | None = None,
    passes: _Whole | None = None, guidance: bool = False, price: str | float | Own | None = None,
    years: _PlainNumber | None = None, utilisation: _WorkedShare = 1.0, pue: _PlainNumber = 1.0,
    grid: str | float | None = None,
) -> Grid | Any: ...

@overload
def estimate(
    model: Model | Source, *, on: _MachineName, counting: _CountingName = 'standard', traffic: _ImageSize = 'fused',
    within: bool = True, images: Images | _Whole | None = None, bill: Bill | None = None,
    phase: _PhaseName | None = None, batch: _Sequences | None = None, input: _Tokens | None = None,
    context: _TokensOrNone | None = None, cached: _QueryTokens | None = None, new: _NewTokens | None = None,
    layout: _LayoutText | None = None, tp: _RankCount | None = None, pp: _RankCount | None = None,
    dp: _RankCount | None = None, ep: _RankCount | None = None, engine: _EngineName | None = None,
    precision: _Formats | None = None, law: _LawName = 'calibrated', image_size: _ImageSize | None = None,
    frames: _Whole | None = None, audio: _Seconds | None = None, price: str | float | Own | None = None,
    years: _PlainNumber | None = None, utilisation: _WorkedShare = 1.0, pue: _PlainNumber = 1.0,
    grid: str | float | None = None,
) -> Any: ...
@overload
def estimate(
    model: Model | Source, *, where: Where, counting: _CountingName = 'standard', traffic: _ImageSize = 'fused',
    within: bool = True, images: Images | _Whole | None = None, bill: Bill | None = None,
    phase: _PhaseName | None = None, batch: _Sequences | None = None, input: _Tokens | None = None,
    context: _TokensOrNone | None = None, cached: _QueryTokens | None = None, new: _NewTokens | None = None,
    layout: _LayoutText | None = None, tp: _RankCount | None = None, pp: _RankCount | None = None,
    dp: _RankCount | None = None, ep: _RankCount | None = None, engine: _EngineName | None = None,
    precision: _Formats | None = None, law: _LawName = 'calibrated', image_size: _ImageSize | None = None,
    frames: _Whole | None = None, audio: _Seconds | None = None, price: str | float | Own | None = None,
    years: _PlainNumber | None = None, utilisation: _WorkedShare = 1.0, pue: _PlainNumber = 1.0,
    grid: str | float | None = None,
) -> Any: ...
@overload
def estimate(
    model: Model | Source, step: Step, *, on: _MachineName, counting: _CountingName = 'standard',
    traffic: _ImageSize = 'fused', within: bool = True, images: Images | _Whole | None = None, bill: Bill | None = None,
    phase: _PhaseName | None = None, batch: _Sequences | None = None, input: _Tokens | None = None,
    context: _TokensOrNone | None = None, cached: _QueryTokens | None = None, new: _NewTokens | None = None,
    layout: _LayoutText | None = None, tp: _RankCount | None = None, pp: _RankCount | None = None,
    dp: _RankCount | None = None, ep: _RankCount | None = None, engine: _EngineName | None = None,
    precision: _Formats | None = None, law: _LawName = 'calibrated', image_size: _ImageSize | None = None,
    frames: _Whole | None = None, audio: _Seconds | None = None, price: str | float | Own | None = None,
    years: _PlainNumber | None = None, utilisation: _WorkedShare = 1.0, pue: _PlainNumber = 1.0,
    grid: str | float | None = None,
) -> Any: ...
@overload
def estimate(
    model: Model | Source, step: Step, where: Where, *, counting: _CountingName = 'standard',
    traffic: _ImageSize = 'fused', within: bool = True, images: Images | _Whole | None = None, bill: Bill | None = None,
    phase: _PhaseName | None = None, batch: _Sequences | None = None, input: _Tokens | None = None,
    context: _TokensOrNone | None = None, cached: _QueryTokens | None = None, new: _NewTokens | None = None,
    layout: _LayoutText | None = None, tp: _RankCount | None = None, pp: _RankCount | None = None,
    dp: _RankCount | None = None, ep: _RankCount | None = None, engine: _EngineName | None = None,
    precision: _Formats | None = None, law: _LawName = 'calibrated', image_size: _ImageSize | None = None,
    frames: _Whole | None = None, audio: _Seconds | None = None, price: str | float | Own | None = None,
    years: _PlainNumber | None = None, utilisation: _WorkedShare = 1.0, pue: _PlainNumber = 1.0,
    grid: str | float | None = None,
) -> Any: ...
@overload
def estimate(
    model: Model | Source | Sequence[Model | Source], *, on: _MachineName | Sequence[_MachineName],
    counting: _CountingName = 'standard', traffic: _ImageSize = 'fused', within: bool = True,
    images: Images | _Whole | None = None, bill: Bill | None = None, phase: _PhaseName | None = None,
    batch: _Sequences | None = None, input: _Tokens | None = None, context: _TokensOrNone | None = None,
    cached: _QueryTokens | None = None, new: _NewTokens | None = None,
    layout: _LayoutText | Sequence[_LayoutText] | None = None, tp: _RankCount | None = None,
    pp: _RankCount | None = None, dp: _RankCount | None = None, ep: _RankCount | None = None,
    engine: _EngineName | Sequence[_EngineName] | None = None, precision: _Formats | Sequence[_Formats] | None = None,
    law: _LawName | Sequence[_LawName] = 'calibrated', image_size: _ImageSize | None = None,
    frames: _Whole | None = None, audio: _Seconds | None = None, price: str | float | Own | None = None,
    years: _PlainNumber | None = None, utilisation: _WorkedShare = 1.0, pue: _PlainNumber = 1.0,
    grid: str | float | None = None,
) -> Grid | Any: ...
@overload
def estimate(
    model: Model | Source | Sequence[Model | Source], *, where: Where, counting: _CountingName = 'standard',
    traffic: _ImageSize = 'fused', within: bool = True, images: Images | _Whole | None = None, bill: Bill | None = None,
    phase: _PhaseName | None = None, batch: _Sequences | None = None, input: _Tokens | None = None,
    context: _TokensOrNone | None = None, cached: _QueryTokens | None = None, new: _NewTokens | None = None,
    layout: _LayoutText | Sequence[_LayoutText] | None = None, tp: _RankCount | None = None,
    pp: _RankCount | None = None, dp: _RankCount | None = None, ep: _RankCount | None = None,
    engine: _EngineName | Sequence[_EngineName] | None = None, precision: _Formats | Sequence[_Formats] | None = None,
    law: _LawName | Sequence[_LawName] = 'calibrated', image_size: _ImageSize | None = None,
    frames: _Whole | None = None, audio: _Seconds | None = None, price: str | float | Own | None = None,
    years: _PlainNumber | None = None, utilisation: _WorkedShare = 1.0, pue: _PlainNumber = 1.0,
    grid: str | float | None = None,
) -> Grid | Any: ...
@overload
def estimate(
    model: Model | Source | Sequence[Model | Source], step: Step, *, on: _MachineName | Sequence[_MachineName],
    counting: _CountingName = 'standard', traffic: _ImageSize = 'fused', within: bool = True,
    images: Images | _Whole | None = None, bill: Bill | None = None, phase: _PhaseName | None = None,
    batch: _Sequences | None = None, input: _Tokens | None = None, context: _TokensOrNone | None = None,
    cached: _QueryTokens | None = None, new: _NewTokens | None = None,
    layout: _LayoutText | Sequence[_LayoutText] | None = None, tp: _RankCount | None = None,
    pp: _RankCount | None = None, dp: _RankCount | None = None, ep: _RankCount | None = None,
    engine: _EngineName | Sequence[_EngineName] | None = None, precision: _Formats | Sequence[_Formats] | None = None,
    law: _LawName | Sequence[_LawName] = 'calibrated', image_size: _ImageSize | None = None,
    frames: _Whole | None = None, audio: _Seconds | None = None, price: str | float | Own | None = None,
    years: _PlainNumber | None = None, utilisation: _WorkedShare = 1.0, pue: _PlainNumber = 1.0,
    grid: str | float | None = None,
) -> Grid | Any: ...
@overload
def estimate(
    model: Model | Source | Sequence[Model | Source], step: Step, where: Where, *, counting: _CountingName = 'standard',
    traffic: _ImageSize = 'fused', within: bool = True, images: Images | _Whole | None = None, bill: Bill | None = None,
    phase: _PhaseName | None = None, batch: _Sequences | None = None, input: _Tokens | None = None,
    context: _TokensOrNone | None = None, cached: _QueryTokens | None = None, new: _NewTokens | None = None,
    layout: _LayoutText | Sequence[_LayoutText] | None = None, tp: _RankCount | None = None,
    pp: _RankCount | None = None, dp: _RankCount | None = None, ep: _RankCount | None = None,
    engine: _EngineName | Sequence[_EngineName] | None = None, precision: _Formats | Sequence[_Formats] | None = None,
    law: _LawName | Sequence[_LawName] = 'calibrated', image_size: _ImageSize | None = None,
    frames: _Whole | None = None, audio: _Seconds | None = None, price: str | float | Own | None = None,
    years: _PlainNumber | None = None, utilisation: _WorkedShare = 1.0, pue: _PlainNumber = 1.0,
    grid: str | float | None = None,
) -> Grid | Any: ...

def explain(
    model: Model | Source, op: _Text, step: Step = ..., *, counting: _CountingName = 'standard',
    traffic: _ImageSize = 'fused', precision: _Formats | Sequence[_Formats] | None = None,
    phase: _PhaseName | None = None, batch: _Sequences | None = None, input: _Tokens | None = None,
    context: _TokensOrNone | None = None, cached: _QueryTokens | None = None, new: _NewTokens | None = None,
) -> Explanation: ...

@overload
def fit(
    model: Model | Source, *, on: _MachineName, batch: _Sequences = 1, context: _Tokens | None = None,
    chunk: _Whole | None = None, images: Images | _Whole | None = None, layout: _LayoutText | None = None,
    tp: _RankCount | None = None, pp: _RankCount | None = None, dp: _RankCount | None = None,
    ep: _RankCount | None = None, engine: _EngineName | None = None, precision: _Formats | None = None,
    image_size: _ImageSize | None = None, frames: _Whole | None = None, audio: _Seconds | None = None,
) -> Fit: ...
@overload
def fit(
    model: Model | Source, place: PlaceSettings, *, batch: _Sequences = 1, context: _Tokens | None = None,
    chunk: _Whole | None = None, images: Images | _Whole | None = None, layout: _LayoutText | None = None,
    tp: _RankCount | None = None, pp: _RankCount | None = None, dp: _RankCount | None = None,
    ep: _RankCount | None = None, engine: _EngineName | None = None, precision: _Formats | None = None,
    image_size: _ImageSize | None = None, frames: _Whole | None = None, audio: _Seconds | None = None,
) -> Fit: ...
@overload
def fit(
    model: Model | Source | Sequence[Model | Source], *, on: _MachineName | Sequence[_MachineName],
    batch: _Sequences = 1, context: _Tokens | None = None, chunk: _Whole | None = None,
    images: Images | _Whole | None = None, layout: _LayoutText | Sequence[_LayoutText] | None = None,
    tp: _RankCount | None = None, pp: _RankCount | None = None, dp: _RankCount | None = None,
    ep: _RankCount | None = None, engine: _EngineName | Sequence[_EngineName] | None = None,
    precision: _Formats | Sequence[_Formats] | None = None, image_size: _ImageSize | None = None,
    frames: _Whole | None = None, audio: _Seconds | None = None,
) -> Grid | Any: ...
@overload
def fit(
    model: Model | Source | Sequence[Model | Source], place: PlaceSettings, *, batch: _Sequences = 1,
    context: _Tokens | None = None, chunk: _Whole | None = None, images: Images | _Whole | None = None,
    layout: _LayoutText | Sequence[_LayoutText] | None = None, tp: _RankCount | None = None,
    pp: _RankCount | None = None, dp: _RankCount | None = None, ep: _RankCount | None = None,
    engine: _EngineName | Sequence[_EngineName] | None = None, precision: _Formats | Sequence[_Formats] | None = None,
    image_size: _ImageSize | None = None, frames: _Whole | None = None, audio: _Seconds | None = None,
) -> Grid | Any: ...

@overload
def generate(
    model: Model | Source, *, on: _MachineName, input: _Tokens, output_tokens: _Tokens,
    speculation: Speculation | None = None, images: Images | _Whole | None = None, bill: Bill | None = None,
    layout: _LayoutText | None = None, tp: _RankCount | None = None, pp: _RankCount | None = None,
    dp: _RankCount | None = None, ep: _RankCount | None = None, engine: _EngineName | None = None,
    precision: _Formats | None = None, law: _LawName = 'calibrated', batch: _Sequences = 1,
    draft: _ModelName | None = None, mtp: bool = False, draft_length: _Whole | None = None,
    acceptance: _Probability | None = None, image_size: _ImageSize | None = None, frames: _Whole | None = None,
    audio: _Seconds | None = None, price: str | float | Own | None = None, years: _PlainNumber | None = None,
    utilisation: _WorkedShare = 1.0, pue: _PlainNumber = 1.0, grid: str | float | None = None,
) -> Generation: ...
@overload
def generate(
    model: Model | Source, *, load: StaticBatch, on: _MachineName, speculation: Speculation | None = None,
    images: Images | _Whole | None = None, bill: Bill | None = None, layout: _LayoutText | None = None,
    tp: _RankCount | None = None, pp: _RankCount | None = None, dp: _RankCount | None = None,
    ep: _RankCount | None = None, engine: _EngineName | None = None, precision: _Formats | None = None,
    law: _LawName = 'calibrated', batch: _Sequences = 1, draft: _ModelName | None = None, mtp: bool = False,
    draft_length: _Whole | None = None, acceptance: _Probability | None = None, image_size: _ImageSize | None = None,
    frames: _Whole | None = None, audio: _Seconds | None = None, price: str | float | Own | None = None,
    years: _PlainNumber | None = None, utilisation: _WorkedShare = 1.0, pue: _PlainNumber = 1.0,
    grid: str | float | None = None,
) -> Generation: ...
@overload
def generate(
    model: Model | Source, where: Where, *, input: _Tokens, output_tokens: _Tokens,
    speculation: Speculation | None = None, images: Images | _Whole | None = None, bill: Bill | None = None,
    layout: _LayoutText | None = None, tp: _RankCount | None = None, pp: _RankCount | None = None,
    dp: _RankCount | None = None, ep: _RankCount | None = None, engine: _EngineName | None = None,
    precision: _Formats | None = None, law: _LawName = 'calibrated', batch: _Sequences = 1,
    draft: _ModelName | None = None, mtp: bool = False, draft_length: _Whole | None = None,
    acceptance: _Probability | None = None, image_size: _ImageSize | None = None, frames: _Whole | None = None,
    audio: _Seconds | None = None, price: str | float | Own | None = None, years: _PlainNumber | None = None,
    utilisation: _WorkedShare = 1.0, pue: _PlainNumber = 1.0, grid: str | float | None = None,
) -> Generation: ...
@overload
def generate(
    model: Model | Source, where: Where, load: StaticBatch, *, speculation: Speculation | None = None,
    images: Images | _Whole | None = None, bill: Bill | None = None, layout: _LayoutText | None = None,
    tp: _RankCount | None = None, pp: _RankCount | None = None, dp: _RankCount | None = None,
    ep: _RankCount | None = None, engine: _EngineName | None = None, precision: _Formats | None = None,
    law: _LawName = 'calibrated', batch: _Sequences = 1, draft: _ModelName | None = None, mtp: bool = False,
    draft_length: _Whole | None = None, acceptance: _Probability | None = None, image_size: _ImageSize | None = None,
    frames: _Whole | None = None, audio: _Seconds | None = None, price: str | float | Own | None = None,
    years: _PlainNumber | None = None, utilisation: _WorkedShare = 1.0, pue: _PlainNumber = 1.0,
    grid: str | float | None = None,
) -> Generation: ...
@overload
def generate(
    model: Model | Source | Sequence[Model | Source], *, on: _MachineName | Sequence[_MachineName], input: _Tokens,
    output_tokens: _Tokens, speculation: Speculation | None = None, images: Images | _Whole | None = None,
    bill: Bill | None = None, layout: _LayoutText | Sequence[_LayoutText] | None = None, tp: _RankCount | None = None,
    pp: _RankCount | None = None, dp: _RankCount | None = None, ep: _RankCount | None = None,
    engine: _EngineName | Sequence[_EngineName] | None = None, precision: _Formats | Sequence[_Formats] | None = None,
    law: _LawName | Sequence[_LawName] = 'calibrated', batch: _Sequences = 1, draft: _ModelName | None = None,
    mtp: bool = False, draft_length: _Whole | None = None, acceptance: _Probability | None = None,
    image_size: _ImageSize | None = None, frames: _Whole | None = None, audio: _Seconds | None = None,
    price: str | float | Own | None = None, years: _PlainNumber | None = None, utilisation: _WorkedShare = 1.0,
    pue: _PlainNumber = 1.0, grid: str | float | None = None,
) -> Grid | Any: ...
@overload
def generate(
    model: Model | Source | Sequence[Model | Source], *, load: StaticBatch, on: _MachineName | Sequence[_MachineName],
    speculation: Speculation | None = None, images: Images | _Whole | None = None, bill: Bill | None = None,
    layout: _LayoutText | Sequence[_LayoutText] | None = None, tp: _RankCount | None = None,
    pp: _RankCount | None = None, dp: _RankCount | None = None, ep: _RankCount | None = None,
    engine: _EngineName | Sequence[_EngineName] | None = None, precision: _Formats | Sequence[_Formats] | None = None,
    law: _LawName | Sequence[_LawName] = 'calibrated', batch: _Sequences = 1, draft: _ModelName | None = None,
    mtp: bool = False, draft_length: _Whole | None = None, acceptance: _Probability | None = None,
    image_size: _ImageSize | None = None, frames: _Whole | None = None, audio: _Seconds | None = None,
    price: str | float | Own | None = None, years: _PlainNumber | None = None, utilisation: _WorkedShare = 1.0,
    pue: _PlainNumber = 1.0, grid: str | float | None = None,
) -> Grid | Any: ...
@overload
def generate(
    model: Model | Source | Sequence[Model | Source], where: Where, *, input: _Tokens, output_tokens: _Tokens,
    speculation: Speculation | None = None, images: Images | _Whole | None = None, bill: Bill | None = None,
    layout: _LayoutText | Sequence[_LayoutText] | None = None, tp: _RankCount | None = None,
    pp: _RankCount | None = None, dp: _RankCount | None = None, ep: _RankCount | None = None,
    engine: _EngineName | Sequence[_EngineName] | None = None, precision: _Formats | Sequence[_Formats] | None = None,
    law: _LawName | Sequence[_LawName] = 'calibrated', batch: _Sequences = 1, draft: _ModelName | None = None,
    mtp: bool = False, draft_length: _Whole | None = None, acceptance: _Probability | None = None,
    image_size: _ImageSize | None = None, frames: _Whole | None = None, audio: _Seconds | None = None,
    price: str | float | Own | None = None, years: _PlainNumber | None = None, utilisation: _WorkedShare = 1.0,
    pue: _PlainNumber = 1.0, grid: str | float | None = None,
) -> Grid | Any: ...
@overload
def generate(
    model: Model | Source | Sequence[Model | Source], where: Where, load: StaticBatch, *,
    speculation: Speculation | None = None, images: Images | _Whole | None = None, bill: Bill | None = None,
    layout: _LayoutText | Sequence[_LayoutText] | None = None, tp: _RankCount | None = None,
    pp: _RankCount | None = None, dp: _RankCount | None = None, ep: _RankCount | None = None,
    engine: _EngineName | Sequence[_EngineName] | None = None, precision: _Formats | Sequence[_Formats] | None = None,
    law: _LawName | Sequence[_LawName] = 'calibrated', batch: _Sequences = 1, draft: _ModelName | None = None,
    mtp: bool = False, draft_length: _Whole | None = None, acceptance: _Probability | None = None,
    image_size: _ImageSize | None = None, frames: _Whole | None = None, audio: _Seconds | None = None,
    price: str | float | Own | None = None, years: _PlainNumber | None = None, utilisation: _WorkedShare = 1.0,
    pue: _PlainNumber = 1.0, grid: str | float | None = None,
) -> Grid | Any: ...

def machines(
    model: Model | Source, demand: PeoplesDemand = ..., limits: AnsweredSLO = ..., place: RentedPlace = ..., *,
    reading_speed: bool = False, images: Images | _Whole | None = None, bill: Bill | None = None,
    progress: Callable[[str], None] | None = None, input_cv: _Variation = 0.96, output_cv: _Variation = 0.78,
    users: _OneRequests | None = None, requests_a_day: _RequestsOfDay | None = None, peak: _PlainNumber | None = None,
    work: Literal['chat', 'code', 'documents', 'agents'] = 'chat', input: _OneTokens | None = None,
    output_tokens: _OneTokens | None = None, prefix: _Share | None = None, ttft: _Seconds = 2.0, tpot: _Seconds = 0.05,
    latency: _Seconds = ..., attainment: _Attained = 0.99, engine: _EngineName | Sequence[_EngineName] | None = None,
    precision: _Formats | Sequence[_Formats] | None = None, law: _LawName | Sequence[_LawName] = 'calibrated',
    on: _MachineName | Sequence[_MachineName] | None = None, chips: _ChipCount = 8,
    image_size: _ImageSize | None = None, frames: _Whole | None = None, audio: _Seconds | None = None,
    price: str | float | Own | None = None, years: _PlainNumber | None = None, utilisation: _WorkedShare = 1.0,
    pue: _PlainNumber = 1.0, grid: str | float | None = None,
) -> MachineChoice: ...

@overload
def offload(
    model: Model | Source, *, on: _MachineNames, load: OffloadBatch = ..., gpu_layers: _WholeOrNone | None = None,
    cpu_experts: _WholeOrNone | None = None, engine: _EngineName | Sequence[_EngineName] | None = None,
    precision: _Formats | Sequence[_Formats] | None = None, law: _LawName | Sequence[_LawName] = 'calibrated',
    ram: _Text | None = None, ram_bw: _Text | None = None, pcie: _Text | None = None, drive: _Text | None = None,
    no_kv_offload: bool = False, input: _OneTokens = 512, output_tokens: _OneTokens = 128, batch: _OneSequences = 1,
) -> Offload: ...
@overload
def offload(
    model: Model | Source, *, host: Host, on: _MachineNames, load: OffloadBatch = ...,
    gpu_layers: _WholeOrNone | None = None, cpu_experts: _WholeOrNone | None = None,
    engine: _EngineName | Sequence[_EngineName] | None = None, precision: _Formats | Sequence[_Formats] | None = None,
    law: _LawName | Sequence[_LawName] = 'calibrated', ram: _Text | None = None, ram_bw: _Text | None = None,
    pcie: _Text | None = None, drive: _Text | None = None, no_kv_offload: bool = False, input: _OneTokens = 512,
    output_tokens: _OneTokens = 128, batch: _OneSequences = 1,
) -> Offload: ...
@overload
def offload(
    model: Model | Source, where: CardSettings, *, load: OffloadBatch = ..., gpu_layers: _WholeOrNone | None = None,
    cpu_experts: _WholeOrNone | None = None, engine: _EngineName | Sequence[_EngineName] | None = None,
    precision: _Formats | Sequence[_Formats] | None = None, law: _LawName | Sequence[_LawName] = 'calibrated',
    ram: _Text | None = None, ram_bw: _Text | None = None, pcie: _Text | None = None, drive: _Text | None = None,
    no_kv_offload: bool = False, input: _OneTokens = 512, output_tokens: _OneTokens = 128, batch: _OneSequences = 1,
) -> Offload: ...
@overload
def offload(
    model: Model | Source, where: CardSettings, host: Host, load: OffloadBatch = ..., *,
    gpu_layers: _WholeOrNone | None = None, cpu_experts: _WholeOrNone | None = None,
    engine: _EngineName | Sequence[_EngineName] | None = None, precision: _Formats | Sequence[_Formats] | None = None,
    law: _LawName | Sequence[_LawName] = 'calibrated', ram: _Text | None = None, ram_bw: _Text | None = None,
    pcie: _Text | None = None, drive: _Text | None = None, no_kv_offload: bool = False, input: _OneTokens = 512,
    output_tokens: _OneTokens = 128, batch: _OneSequences = 1,
) -> Offload: ...

def plot(
    model: Model | Source, steps: Mapping[str, Step] | None = None, where: DrawnOn = ..., *,
    kind: Literal['roofline', 'shares', 'sweep', 'memory', 'parameters', 'map', 'tornado', 'diagram', 'energy'] = 'roofline',
    batch: int = 1, context: int | None = None, counting: _CountingName = 'standard', traffic: _ImageSize = 'fused',
    how: PlotOptions = ..., output: str | PathLike[str] | None = None, force: bool = False,
    on: _MachineName | Sequence[_MachineName] | None = None, layout: _LayoutText | Sequence[_LayoutText] | None = None,
    tp: _RankCount | None = None, pp: _RankCount | None = None, dp: _RankCount | None = None,
    ep: _RankCount | None = None, engine: _EngineName | Sequence[_EngineName] | None = None,
    precision: _Formats | Sequence[_Formats] | None = None, law: _LawName | Sequence[_LawName] = 'calibrated',
    points: str = 'ops', links: bool = False, over: str = 'batch', phase: str = 'decode',
    most_batch: _Whole | None = None, most_context: _Whole | None = None, theme: str = 'light', legend: str = 'beside',
    broken: bool = False, dpi: _Whole = 150,
) -> RooflinePlot | SharesPlot | SweepPlot | MemoryPlot | ParametersPlot | MapPlot | BarsPlot | TornadoPlot | DiagramPlot | SimulationPlot | StepMemoryPlot | FrontPlot | RowsPlot | RatiosPlot | EnergyPlot: ...

@overload
def pools(
    model: Model | Source, *, on: _MachineName, input: _Tokens, output_tokens: _Tokens, pools: PoolSizes = ...,
    speculation: Speculation | None = None, images: Images | _Whole | None = None,
    encoders: EncoderReplicas | _Replicas | None = None, bill: Bill | None = None, layout: _LayoutText | None = None,
    tp: _RankCount | None = None, pp: _RankCount | None = None, dp: _RankCount | None = None,
    ep: _RankCount | None = None, engine: _EngineName | None = None, precision: _Formats | None = None,
    law: _LawName = 'calibrated', prefix: _Share = 0.0, concurrency: _Requests | None = None,
    rate: _PerSecond | None = None, input_cv: _Variation = 0.96, output_cv: _Variation = 0.78,
    prefill_layout: _LayoutText | None = None, prefill_on: _MachineName | None = None,
    prefill_engine: _EngineName | None = None, chips: _ChipCount | None = None, prefills: _Replicas | None = None,
    decodes: _Replicas | None = None, draft: _ModelName | None = None, mtp: bool = False,
    draft_length: _Whole | None = None, acceptance: _Probability | None = None, image_size: _ImageSize | None = None,
    frames: _Whole | None = None, audio: _Seconds | None = None, encoder_layout: _LayoutText | None = None,
    encoder_on: _MachineName | None = None, encoder_bandwidth: _Bandwidth | None = None,
    price: str | float | Own | None = None, years: _PlainNumber | None = None, utilisation: _WorkedShare = 1.0,
    pue: _PlainNumber = 1.0, grid: str | float | None = None,
) -> Pools: ...
@overload
def pools(
    model: Model | Source, *, load: Load, on: _MachineName, pools: PoolSizes = ...,
    speculation: Speculation | None = None, images: Images | _Whole | None = None,
    encoders: EncoderReplicas | _Replicas | None = None, bill: Bill | None = None, layout: _LayoutText | None = None,
    tp: _RankCount | None = None, pp: _RankCount | None = None, dp: _RankCount | None = None,
    ep: _RankCount | None = None, engine: _EngineName | None = None, precision: _Formats | None = None,
    law: _LawName = 'calibrated', prefix: _Share = 0.0, concurrency: _Requests | None = None,
    rate: _PerSecond | None = None, input_cv: _Variation = 0.96, output_cv: _Variation = 0.78,
    prefill_layout: _LayoutText | None = None, prefill_on: _MachineName | None = None,
    prefill_engine: _EngineName | None = None, chips: _ChipCount | None = None, prefills: _Replicas | None = None,
    decodes: _Replicas | None = None, draft: _ModelName | None = None, mtp: bool = False,
    draft_length: _Whole | None = None, acceptance: _Probability | None = None, image_size: _ImageSize | None = None,
    frames: _Whole | None = None, audio: _Seconds | None = None, encoder_layout: _LayoutText | None = None,
    encoder_on: _MachineName | None = None, encoder_bandwidth: _Bandwidth | None = None,
    price: str | float | Own | None = None, years: _PlainNumber | None = None, utilisation: _WorkedShare = 1.0,
    pue: _PlainNumber = 1.0, grid: str | float | None = None,
) -> Pools: ...
@overload
def pools(
    model: Model | Source, where: Where, *, input: _Tokens, output_tokens: _Tokens, pools: PoolSizes = ...,
    speculation: Speculation | None = None, images: Images | _Whole | None = None,
    encoders: EncoderReplicas | _Replicas | None = None, bill: Bill | None = None, layout: _LayoutText | None = None,
    tp: _RankCount | None = None, pp: _RankCount | None = None, dp: _RankCount | None = None,
    ep: _RankCount | None = None, engine: _EngineName | None = None, precision: _Formats | None = None,
    law: _LawName = 'calibrated', prefix: _Share = 0.0, concurrency: _Requests | None = None,
    rate: _PerSecond | None = None, input_cv: _Variation = 0.96, output_cv: _Variation = 0.78,
    prefill_layout: _LayoutText | None = None, prefill_on: _MachineName | None = None,
    prefill_engine: _EngineName | None = None, chips: _ChipCount | None = None, prefills: _Replicas | None = None,
    decodes: _Replicas | None = None, draft: _ModelName | None = None, mtp: bool = False,
    draft_length: _Whole | None = None, acceptance: _Probability | None = None, image_size: _ImageSize | None = None,
    frames: _Whole | None = None, audio: _Seconds | None = None, encoder_layout: _LayoutText | None = None,
    encoder_on: _MachineName | None = None, encoder_bandwidth: _Bandwidth | None = None,
    price: str | float | Own | None = None, years: _PlainNumber | None = None, utilisation: _WorkedShare = 1.0,
    pue: _PlainNumber = 1.0, grid: str | float | None = None,
) -> Pools: ...
@overload
def pools(
    model: Model | Source, where: Where, load: Load, pools: PoolSizes = ..., *, speculation: Speculation | None = None,
    images: Images | _Whole | None = None, encoders: EncoderReplicas | _Replicas | None = None,
    bill: Bill | None = None, layout: _LayoutText | None = None, tp: _RankCount | None = None,
    pp: _RankCount | None = None, dp: _RankCount | None = None, ep: _RankCount | None = None,
    engine: _EngineName | None = None, precision: _Formats | None = None, law: _LawName = 'calibrated',
    prefix: _Share = 0.0, concurrency: _Requests | None = None, rate: _PerSecond | None = None,
    input_cv: _Variation = 0.96, output_cv: _Variation = 0.78, prefill_layout: _LayoutText | None = None,
    prefill_on: _MachineName | None = None, prefill_engine: _EngineName | None = None, chips: _ChipCount | None = None,
    prefills: _Replicas | None = None, decodes: _Replicas | None = None, draft: _ModelName | None = None,
    mtp: bool = False, draft_length: _Whole | None = None, acceptance: _Probability | None = None,
    image_size: _ImageSize | None = None, frames: _Whole | None = None, audio: _Seconds | None = None,
    encoder_layout: _LayoutText | None = None, encoder_on: _MachineName | None = None,
    encoder_bandwidth: _Bandwidth | None = None, price: str | float | Own | None = None,
    years: _PlainNumber | None = None, utilisation: _WorkedShare = 1.0, pue: _PlainNumber = 1.0,
    grid: str | float | None = None,
) -> Pools: ...
@overload
def pools(
    model: Model | Source | Sequence[Model | Source], *, on: _MachineName | Sequence[_MachineName], input: _Tokens,
    output_tokens: _Tokens, pools: PoolSizes = ..., speculation: Speculation | None = None,
    images: Images | _Whole | None = None, encoders: EncoderReplicas | _Replicas | None = None,
    bill: Bill | None = None, layout: _LayoutText | Sequence[_LayoutText] | None = None, tp: _RankCount | None = None,
    pp: _RankCount | None = None, dp: _RankCount | None = None, ep: _RankCount | None = None,
    engine: _EngineName | Sequence[_EngineName] | None = None, precision: _Formats | Sequence[_Formats] | None = None,
    law: _LawName | Sequence[_LawName] = 'calibrated', prefix: _Share = 0.0, concurrency: _Requests | None = None,
    rate: _PerSecond | None = None, input_cv: _Variation = 0.96, output_cv: _Variation = 0.78,
    prefill_layout: _LayoutText | Sequence[_LayoutText] | None = None,
    prefill_on: _MachineName | Sequence[_MachineName] | None = None,
    prefill_engine: _EngineName | Sequence[_EngineName] | None = None, chips: _ChipCount | None = None,
    prefills: _Replicas | None = None, decodes: _Replicas | None = None, draft: _ModelName | None = None,
    mtp: bool = False, draft_length: _Whole | None = None, acceptance: _Probability | None = None,
    image_size: _ImageSize | None = None, frames: _Whole | None = None, audio: _Seconds | None = None,
    encoder_layout: _LayoutText | Sequence[_LayoutText] | None = None,
    encoder_on: _MachineName | Sequence[_MachineName] | None = None, encoder_bandwidth: _Bandwidth | None = None,
    price: str | float | Own | None = None, years: _PlainNumber | None = None, utilisation: _WorkedShare = 1.0,
    pue: _PlainNumber = 1.0, grid: str | float | None = None,
) -> Grid | Any: ...
@overload
def pools(
    model: Model | Source | Sequence[Model | Source], *, load: Load, on: _MachineName | Sequence[_MachineName],
    pools: PoolSizes = ..., speculation: Speculation | None = None, images: Images | _Whole | None = None,
    encoders: EncoderReplicas | _Replicas | None = None, bill: Bill | None = None,
    layout: _LayoutText | Sequence[_LayoutText] | None = None, tp: _RankCount | None = None,
    pp: _RankCount | None = None, dp: _RankCount | None = None, ep: _RankCount | None = None,
    engine: _EngineName | Sequence[_EngineName] | None = None, precision: _Formats | Sequence[_Formats] | None = None,
    law: _LawName | Sequence[_LawName] = 'calibrated', prefix: _Share = 0.0, concurrency: _Requests | None = None,
    rate: _PerSecond | None = None, input_cv: _Variation = 0.96, output_cv: _Variation = 0.78,
    prefill_layout: _LayoutText | Sequence[_LayoutText] | None = None,
    prefill_on: _MachineName | Sequence[_MachineName] | None = None,
    prefill_engine: _EngineName | Sequence[_EngineName] | None = None, chips: _ChipCount | None = None,
    prefills: _Replicas | None = None, decodes: _Replicas | None = None, draft: _ModelName | None = None,
    mtp: bool = False, draft_length: _Whole | None = None, acceptance: _Probability | None = None,
    image_size: _ImageSize | None = None, frames: _Whole | None = None, audio: _Seconds | None = None,
    encoder_layout: _LayoutText | Sequence[_LayoutText] | None = None,
    encoder_on: _MachineName | Sequence[_MachineName] | None = None, encoder_bandwidth: _Bandwidth | None = None,
    price: str | float | Own | None = None, years: _PlainNumber | None = None, utilisation: _WorkedShare = 1.0,
    pue: _PlainNumber = 1.0, grid: str | float | None = None,
) -> Grid | Any: ...
@overload
def pools(
    model: Model | Source | Sequence[Model | Source], where: Where, *, input: _Tokens, output_tokens: _Tokens,
    pools: PoolSizes = ..., speculation: Speculation | None = None, images: Images | _Whole | None = None,
    encoders: EncoderReplicas | _Replicas | None = None, bill: Bill | None = None,
    layout: _LayoutText | Sequence[_LayoutText] | None = None, tp: _RankCount | None = None,
    pp: _RankCount | None = None, dp: _RankCount | None = None, ep: _RankCount | None = None,
    engine: _EngineName | Sequence[_EngineName] | None = None, precision: _Formats | Sequence[_Formats] | None = None,
    law: _LawName | Sequence[_LawName] = 'calibrated', prefix: _Share = 0.0, concurrency: _Requests | None = None,
    rate: _PerSecond | None = None, input_cv: _Variation = 0.96, output_cv: _Variation = 0.78,
    prefill_layout: _LayoutText | Sequence[_LayoutText] | None = None,
    prefill_on: _MachineName | Sequence[_MachineName] | None = None,
    prefill_engine: _EngineName | Sequence[_EngineName] | None = None, chips: _ChipCount | None = None,
    prefills: _Replicas | None = None, decodes: _Replicas | None = None, draft: _ModelName | None = None,
    mtp: bool = False, draft_length: _Whole | None = None, acceptance: _Probability | None = None,
    image_size: _ImageSize | None = None, frames: _Whole | None = None, audio: _Seconds | None = None,
    encoder_layout: _LayoutText | Sequence[_LayoutText] | None = None,
    encoder_on: _MachineName | Sequence[_MachineName] | None = None, encoder_bandwidth: _Bandwidth | None = None,
    price: str | float | Own | None = None, years: _PlainNumber | None = None, utilisation: _WorkedShare = 1.0,
    pue: _PlainNumber = 1.0, grid: str | float | None = None,
) -> Grid | Any: ...
@overload
def pools(
    model: Model | Source | Sequence[Model | Source], where: Where, load: Load, pools: PoolSizes = ..., *,
    speculation: Speculation | None = None, images: Images | _Whole | None = None,
    encoders: EncoderReplicas | _Replicas | None = None, bill: Bill | None = None,
    layout: _LayoutText | Sequence[_LayoutText] | None = None, tp: _RankCount | None = None,
    pp: _RankCount | None = None, dp: _RankCount | None = None, ep: _RankCount | None = None,
    engine: _EngineName | Sequence[_EngineName] | None = None, precision: _Formats | Sequence[_Formats] | None = None,
    law: _LawName | Sequence[_LawName] = 'calibrated', prefix: _Share = 0.0, concurrency: _Requests | None = None,
    rate: _PerSecond | None = None, input_cv: _Variation = 0.96, output_cv: _Variation = 0.78,
    prefill_layout: _LayoutText | Sequence[_LayoutText] | None = None,
    prefill_on: _MachineName | Sequence[_MachineName] | None = None,
    prefill_engine: _EngineName | Sequence[_EngineName] | None = None, chips: _ChipCount | None = None,
    prefills: _Replicas | None = None, decodes: _Replicas | None = None, draft: _ModelName | None = None,
    mtp: bool = False, draft_length: _Whole | None = None, acceptance: _Probability | None = None,
    image_size: _ImageSize | None = None, frames: _Whole | None = None, audio: _Seconds | None = None,
    encoder_layout: _LayoutText | Sequence[_LayoutText] | None = None,
    encoder_on: _MachineName | Sequence[_MachineName] | None = None, encoder_bandwidth: _Bandwidth | None = None,
    price: str | float | Own | None = None, years: _PlainNumber | None = None, utilisation: _WorkedShare = 1.0,
    pue: _PlainNumber = 1.0, grid: str | float | None = None,
) -> Grid | Any: ...

@overload
def report(
    model: Model | Source, *, on: _MachineName | Sequence[_MachineName], sizes: BatchSizes = ..., train: bool = False,
    images: Images | _Whole | None = None, output: str | PathLike[str] | None = None,
    tables: str | PathLike[str] | None = None, tables_form: Literal['csv', 'parquet'] = 'csv', force: bool = False,
    progress: Callable[[int, int, str], None] | None = None, layout: _LayoutText | Sequence[_LayoutText] | None = None,
    tp: _RankCount | None = None, pp: _RankCount | None = None, dp: _RankCount | None = None,
    ep: _RankCount | None = None, engine: _EngineName | Sequence[_EngineName] | None = None,
    precision: _Formats | Sequence[_Formats] | None = None, batch: _OneSequences = 16, input: _OneTokens | None = None,
    output_tokens: _OneTokens | None = None, image_size: _ImageSize | None = None, frames: _Whole | None = None,
    audio: _Seconds | None = None,
) -> Finished: ...
@overload
def report(
    model: Model | Source, place: PlaceSettings, sizes: BatchSizes = ..., *, train: bool = False,
    images: Images | _Whole | None = None, output: str | PathLike[str] | None = None,
    tables: str | PathLike[str] | None = None, tables_form: Literal['csv', 'parquet'] = 'csv', force: bool = False,
    progress: Callable[[int, int, str], None] | None = None, layout: _LayoutText | Sequence[_LayoutText] | None = None,
    tp: _RankCount | None = None, pp: _RankCount | None = None, dp: _RankCount | None = None,
    ep: _RankCount | None = None, engine: _EngineName | Sequence[_EngineName] | None = None,
    precision: _Formats | Sequence[_Formats] | None = None, batch: _OneSequences = 16, input: _OneTokens | None = None,
    output_tokens: _OneTokens | None = None, image_size: _ImageSize | None = None, frames: _Whole | None = None,
    audio: _Seconds | None = None,
) -> Finished: ...

def run(
    estimate: TrainingEstimate, run_tokens: _TokensOfRun, how: RunOptions = ..., *, bill: Bill | None = None,
    drawn: MeanPower = ..., failures: _Text | None = None, mtbf_hours: _AboveZero | None = None,
    save_seconds: _FromZero | None = None, storage: _AboveZero | None = None, asynchronous: bool = False,
    save_every: _AboveZero | None = None, restart_seconds: _FromZero = 600.0, spare_nodes: _WholeOrNone | None = None,
    repair_hours: _FromZero | None = None, stall_seconds: _FromZero = 0.0, evaluation_tokens: _FromZero = 0.0,
    evaluation_every: _Whole | None = None, dataset_tokens: _AboveZero | None = None,
    rampup_batch_size: _PackText | None = None, price: str | float | Own | None = None,
    years: _PlainNumber | None = None, utilisation: _WorkedShare = 1.0, pue: _PlainNumber = 1.0,
    grid: str | float | None = None, power: _PlainNumber | None = None, power_share: _PlainNumber | None = None,
) -> Run: ...

@overload
def search(
    model: Model | Source, *, input: _Tokens, output_tokens: _Tokens, on: _MachineName | Sequence[_MachineName],
    ranking: Ranking = ..., images: Images | _Whole | None = None, bill: Bill | None = None,
    counted: Callable[[int], None] | None = None, progress: Callable[[int], None] | None = None, prefix: _Share = 0.0,
    concurrency: _Requests | None = None, rate: _PerSecond | None = None, input_cv: _Variation = 0.96,
    output_cv: _Variation = 0.78, ttft: _Seconds = ..., tpot: _Seconds = ..., latency: _Seconds = ...,
    attainment: _Attained = 0.99, strict: bool = False, layout: _LayoutText | Sequence[_LayoutText] | None = None,
    tp: _RankCount | None = None, pp: _RankCount | None = None, dp: _RankCount | None = None,
    ep: _RankCount | None = None, engine: _EngineName | Sequence[_EngineName] | None = None,
    precision: _Formats | Sequence[_Formats] | None = None, law: _LawName | Sequence[_LawName] = 'calibrated',
    chips: _ChipCount | None = None, kind: _KindName | None = None, budget: _PlainNumber | None = None,
    power: _PlainNumber | None = None, seconds: _Duration = 60.0, objective: _ObjectiveName | None = None,
    top: _Whole = 10, confirm: _WholeOrNone = 0, image_size: _ImageSize | None = None, frames: _Whole | None = None,
    audio: _Seconds | None = None, price: str | float | Own | None = None, years: _PlainNumber | None = None,
    utilisation: _WorkedShare = 1.0, pue: _PlainNumber = 1.0, grid: str | float | None = None,
) -> Search: ...
@overload
def search(
    model: Model | Source, *, choices: Choices, input: _Tokens, output_tokens: _Tokens, ranking: Ranking = ...,
    images: Images | _Whole | None = None, bill: Bill | None = None, counted: Callable[[int], None] | None = None,
    progress: Callable[[int], None] | None = None, prefix: _Share = 0.0, concurrency: _Requests | None = None,
    rate: _PerSecond | None = None, input_cv: _Variation = 0.96, output_cv: _Variation = 0.78, ttft: _Seconds = ...,
    tpot: _Seconds = ..., latency: _Seconds = ..., attainment: _Attained = 0.99, strict: bool = False,
    layout: _LayoutText | Sequence[_LayoutText] | None = None, tp: _RankCount | None = None,
    pp: _RankCount | None = None, dp: _RankCount | None = None, ep: _RankCount | None = None,
    engine: _EngineName | Sequence[_EngineName] | None = None, precision: _Formats | Sequence[_Formats] | None = None,
    law: _LawName | Sequence[_LawName] = 'calibrated', chips: _ChipCount | None = None, kind: _KindName | None = None,
    budget: _PlainNumber | None = None, power: _PlainNumber | None = None, seconds: _Duration = 60.0,
    objective: _ObjectiveName | None = None, top: _Whole = 10, confirm: _WholeOrNone = 0,
    image_size: _ImageSize | None = None, frames: _Whole | None = None, audio: _Seconds | None = None,
    price: str | float | Own | None = None, years: _PlainNumber | None = None, utilisation: _WorkedShare = 1.0,
    pue: _PlainNumber = 1.0, grid: str | float | None = None,
) -> Search: ...
@overload
def search(
    model: Model | Source, *, limits: Limits, input: _Tokens, output_tokens: _Tokens,
    on: _MachineName | Sequence[_MachineName], ranking: Ranking = ..., images: Images | _Whole | None = None,
    bill: Bill | None = None, counted: Callable[[int], None] | None = None,
    progress: Callable[[int], None] | None = None, prefix: _Share = 0.0, concurrency: _Requests | None = None,
    rate: _PerSecond | None = None, input_cv: _Variation = 0.96, output_cv: _Variation = 0.78, ttft: _Seconds = ...,
    tpot: _Seconds = ..., latency: _Seconds = ..., attainment: _Attained = 0.99, strict: bool = False,
    layout: _LayoutText | Sequence[_LayoutText] | None = None, tp: _RankCount | None = None,
    pp: _RankCount | None = None, dp: _RankCount | None = None, ep: _RankCount | None = None,
    engine: _EngineName | Sequence[_EngineName] | None = None, precision: _Formats | Sequence[_Formats] | None = None,
    law: _LawName | Sequence[_LawName] = 'calibrated', chips: _ChipCount | None = None, kind: _KindName | None = None,
    budget: _PlainNumber | None = None, power: _PlainNumber | None = None, seconds: _Duration = 60.0,
    objective: _ObjectiveName | None = None, top: _Whole = 10, confirm: _WholeOrNone = 0,
    image_size: _ImageSize | None = None, frames: _Whole | None = None, audio: _Seconds | None = None,
    price: str | float | Own | None = None, years: _PlainNumber | None = None, utilisation: _WorkedShare = 1.0,
    pue: _PlainNumber = 1.0, grid: str | float | None = None,
) -> Search: ...
@overload
def search(
    model: Model | Source, *, limits: Limits, choices: Choices, input: _Tokens, output_tokens: _Tokens,
    ranking: Ranking = ..., images: Images | _Whole | None = None, bill: Bill | None = None,
    counted: Callable[[int], None] | None = None, progress: Callable[[int], None] | None = None, prefix: _Share = 0.0,
    concurrency: _Requests | None = None, rate: _PerSecond | None = None, input_cv: _Variation = 0.96,
    output_cv: _Variation = 0.78, ttft: _Seconds = ..., tpot: _Seconds = ..., latency: _Seconds = ...,
    attainment: _Attained = 0.99, strict: bool = False, layout: _LayoutText | Sequence[_LayoutText] | None = None,
    tp: _RankCount | None = None, pp: _RankCount | None = None, dp: _RankCount | None = None,
    ep: _RankCount | None = None, engine: _EngineName | Sequence[_EngineName] | None = None,
    precision: _Formats | Sequence[_Formats] | None = None, law: _LawName | Sequence[_LawName] = 'calibrated',
    chips: _ChipCount | None = None, kind: _KindName | None = None, budget: _PlainNumber | None = None,
    power: _PlainNumber | None = None, seconds: _Duration = 60.0, objective: _ObjectiveName | None = None,
    top: _Whole = 10, confirm: _WholeOrNone = 0, image_size: _ImageSize | None = None, frames: _Whole | None = None,
    audio: _Seconds | None = None, price: str | float | Own | None = None, years: _PlainNumber | None = None,
    utilisation: _WorkedShare = 1.0, pue: _PlainNumber = 1.0, grid: str | float | None = None,
) -> Search: ...
@overload
def search(
    model: Model | Source, demand: Load, *, on: _MachineName | Sequence[_MachineName], ranking: Ranking = ...,
    images: Images | _Whole | None = None, bill: Bill | None = None, counted: Callable[[int], None] | None = None,
    progress: Callable[[int], None] | None = None, prefix: _Share = 0.0, concurrency: _Requests | None = None,
    rate: _PerSecond | None = None, input_cv: _Variation = 0.96, output_cv: _Variation = 0.78, ttft: _Seconds = ...,
    tpot: _Seconds = ..., latency: _Seconds = ..., attainment: _Attained = 0.99, strict: bool = False,
    layout: _LayoutText | Sequence[_LayoutText] | None = None, tp: _RankCount | None = None,
    pp: _RankCount | None = None, dp: _RankCount | None = None, ep: _RankCount | None = None,
    engine: _EngineName | Sequence[_EngineName] | None = None, precision: _Formats | Sequence[_Formats] | None = None,
    law: _LawName | Sequence[_LawName] = 'calibrated', chips: _ChipCount | None = None, kind: _KindName | None = None,
    budget: _PlainNumber | None = None, power: _PlainNumber | None = None, seconds: _Duration = 60.0,
    objective: _ObjectiveName | None = None, top: _Whole = 10, confirm: _WholeOrNone = 0,
    image_size: _ImageSize | None = None, frames: _Whole | None = None, audio: _Seconds | None = None,
    price: str | float | Own | None = None, years: _PlainNumber | None = None, utilisation: _WorkedShare = 1.0,
    pue: _PlainNumber = 1.0, grid: str | float | None = None,
) -> Search: ...
@overload
def search(
    model: Model | Source, demand: Load, *, choices: Choices, ranking: Ranking = ...,
    images: Images | _Whole | None = None, bill: Bill | None = None, counted: Callable[[int], None] | None = None,
    progress: Callable[[int], None] | None = None, prefix: _Share = 0.0, concurrency: _Requests | None = None,
    rate: _PerSecond | None = None, input_cv: _Variation = 0.96, output_cv: _Variation = 0.78, ttft: _Seconds = ...,
    tpot: _Seconds = ..., latency: _Seconds = ..., attainment: _Attained = 0.99, strict: bool = False,
    layout: _LayoutText | Sequence[_LayoutText] | None = None, tp: _RankCount | None = None,
    pp: _RankCount | None = None, dp: _RankCount | None = None, ep: _RankCount | None = None,
    engine: _EngineName | Sequence[_EngineName] | None = None, precision: _Formats | Sequence[_Formats] | None = None,
    law: _LawName | Sequence[_LawName] = 'calibrated', chips: _ChipCount | None = None, kind: _KindName | None = None,
    budget: _PlainNumber | None = None, power: _PlainNumber | None = None, seconds: _Duration = 60.0,
    objective: _ObjectiveName | None = None, top: _Whole = 10, confirm: _WholeOrNone = 0,
    image_size: _ImageSize | None = None, frames: _Whole | None = None, audio: _Seconds | None = None,
    price: str | float | Own | None = None, years: _PlainNumber | None = None, utilisation: _WorkedShare = 1.0,
    pue: _PlainNumber = 1.0, grid: str | float | None = None,
) -> Search: ...
@overload
def search(
    model: Model | Source, demand: Load, limits: Limits, *, on: _MachineName | Sequence[_MachineName],
    ranking: Ranking = ..., images: Images | _Whole | None = None, bill: Bill | None = None,
    counted: Callable[[int], None] | None = None, progress: Callable[[int], None] | None = None, prefix: _Share = 0.0,
    concurrency: _Requests | None = None, rate: _PerSecond | None = None, input_cv: _Variation = 0.96,
    output_cv: _Variation = 0.78, ttft: _Seconds = ..., tpot: _Seconds = ..., latency: _Seconds = ...,
    attainment: _Attained = 0.99, strict: bool = False, layout: _LayoutText | Sequence[_LayoutText] | None = None,
    tp: _RankCount | None = None, pp: _RankCount | None = None, dp: _RankCount | None = None,
    ep: _RankCount | None = None, engine: _EngineName | Sequence[_EngineName] | None = None,
    precision: _Formats | Sequence[_Formats] | None = None, law: _LawName | Sequence[_LawName] = 'calibrated',
    chips: _ChipCount | None = None, kind: _KindName | None = None, budget: _PlainNumber | None = None,
    power: _PlainNumber | None = None, seconds: _Duration = 60.0, objective: _ObjectiveName | None = None,
    top: _Whole = 10, confirm: _WholeOrNone = 0, image_size: _ImageSize | None = None, frames: _Whole | None = None,
    audio: _Seconds | None = None, price: str | float | Own | None = None, years: _PlainNumber | None = None,
    utilisation: _WorkedShare = 1.0, pue: _PlainNumber = 1.0, grid: str | float | None = None,
) -> Search: ...
@overload
def search(
    model: Model | Source, demand: Load, limits: Limits, *, choices: Choices, ranking: Ranking = ...,
    images: Images | _Whole | None = None, bill: Bill | None = None, counted: Callable[[int], None] | None = None,
    progress: Callable[[int], None] | None = None, prefix: _Share = 0.0, concurrency: _Requests | None = None,
    rate: _PerSecond | None = None, input_cv: _Variation = 0.96, output_cv: _Variation = 0.78, ttft: _Seconds = ...,
    tpot: _Seconds = ..., latency: _Seconds = ..., attainment: _Attained = 0.99, strict: bool = False,
    layout: _LayoutText | Sequence[_LayoutText] | None = None, tp: _RankCount | None = None,
    pp: _RankCount | None = None, dp: _RankCount | None = None, ep: _RankCount | None = None,
    engine: _EngineName | Sequence[_EngineName] | None = None, precision: _Formats | Sequence[_Formats] | None = None,
    law: _LawName | Sequence[_LawName] = 'calibrated', chips: _ChipCount | None = None, kind: _KindName | None = None,
    budget: _PlainNumber | None = None, power: _PlainNumber | None = None, seconds: _Duration = 60.0,
    objective: _ObjectiveName | None = None, top: _Whole = 10, confirm: _WholeOrNone = 0,
    image_size: _ImageSize | None = None, frames: _Whole | None = None, audio: _Seconds | None = None,
    price: str | float | Own | None = None, years: _PlainNumber | None = None, utilisation: _WorkedShare = 1.0,
    pue: _PlainNumber = 1.0, grid: str | float | None = None,
) -> Search: ...

@overload
def search_training(
    model: Model | Source, *, batch: _OneSequences, tokens: _OneTokens, on: _MachineName | Sequence[_MachineName],
    how: ChosenOptions = ..., learner: Learner = ..., objective: _TrainingAim = 'time',
    chips: _OneChipCount | None = None, site_power: _PlainNumber | None = None, run_tokens: _TokensOfRun | None = None,
    over: RunOptions = ..., top: _Whole = 10, seconds: _Duration = 60.0, bill: Bill | None = None,
    drawn: MeanPower = ..., progress: Callable[[int], None] | None = None,
    engine: _EngineName | Sequence[_EngineName] | None = None, precision: _Formats | Sequence[_Formats] | None = None,
    stragglers: _Text | None = None, law: _LawName | Sequence[_LawName] = 'calibrated',
    recipe: _Word | Sequence[_Word] | None = None, optimizer: _Word | Sequence[_Word] | None = None,
    offload: _NamesOrLists | Sequence[_NamesOrLists] | None = None, offload_layers: _Whole | None = None,
    flash: bool = True, loss: _Word | Sequence[_Word] | None = None, fused_loss: bool = False,
    overlap: _Names | None = None, recompute_layers: _Whole | None = None, recompute_every: _Whole | None = None,
    lengths: _PackText | None = None, reshard: bool = True, no_sync: bool = False, gather_format: _Text | None = None,
    reduce_format: _Text | None = None, optimizer_in_backward: bool = False,
    schedule: _Word | Sequence[_Word] | None = None, recompute: _Words | Sequence[_Words] | None = None,
    lora: _Whole | None = None, lora_targets: _Names | None = None, dora: bool = False,
    drafts: _WholeOrNone | None = None, context_length: _OneTokens | None = None, teacher: _ModelName | None = None,
    reference: bool = False, failures: _Text | None = None, mtbf_hours: _AboveZero | None = None,
    save_seconds: _FromZero | None = None, storage: _AboveZero | None = None, asynchronous: bool = False,
    save_every: _AboveZero | None = None, restart_seconds: _FromZero = 600.0, spare_nodes: _WholeOrNone | None = None,
    repair_hours: _FromZero | None = None, stall_seconds: _FromZero = 0.0, evaluation_tokens: _FromZero = 0.0,
    evaluation_every: _Whole | None = None, dataset_tokens: _AboveZero | None = None,
    rampup_batch_size: _PackText | None = None, price: str | float | Own | None = None,
    years: _PlainNumber | None = None, utilisation: _WorkedShare = 1.0, pue: _PlainNumber = 1.0,
    grid: str | float | None = None, power: _PlainNumber | None = None, power_share: _PlainNumber | None = None,
) -> TrainingSearch: ...
@overload
def search_training(
    model: Model | Source, where: TrainingMachine, *, batch: _OneSequences, tokens: _OneTokens,
    how: ChosenOptions = ..., learner: Learner = ..., objective: _TrainingAim = 'time',
    chips: _OneChipCount | None = None, site_power: _PlainNumber | None = None, run_tokens: _TokensOfRun | None = None,
    over: RunOptions = ..., top: _Whole = 10, seconds: _Duration = 60.0, bill: Bill | None = None,
    drawn: MeanPower = ..., progress: Callable[[int], None] | None = None,
    engine: _EngineName | Sequence[_EngineName] | None = None, precision: _Formats | Sequence[_Formats] | None = None,
    stragglers: _Text | None = None, law: _LawName | Sequence[_LawName] = 'calibrated',
    recipe: _Word | Sequence[_Word] | None = None, optimizer: _Word | Sequence[_Word] | None = None,
    offload: _NamesOrLists | Sequence[_NamesOrLists] | None = None, offload_layers: _Whole | None = None,
    flash: bool = True, loss: _Word | Sequence[_Word] | None = None, fused_loss: bool = False,
    overlap: _Names | None = None, recompute_layers: _Whole | None = None, recompute_every: _Whole | None = None,
    lengths: _PackText | None = None, reshard: bool = True, no_sync: bool = False, gather_format: _Text | None = None,
    reduce_format: _Text | None = None, optimizer_in_backward: bool = False,
    schedule: _Word | Sequence[_Word] | None = None, recompute: _Words | Sequence[_Words] | None = None,
    lora: _Whole | None = None, lora_targets: _Names | None = None, dora: bool = False,
    drafts: _WholeOrNone | None = None, context_length: _OneTokens | None = None, teacher: _ModelName | None = None,
    reference: bool = False, failures: _Text | None = None, mtbf_hours: _AboveZero | None = None,
    save_seconds: _FromZero | None = None, storage: _AboveZero | None = None, asynchronous: bool = False,
    save_every: _AboveZero | None = None, restart_seconds: _FromZero = 600.0, spare_nodes: _WholeOrNone | None = None,
    repair_hours: _FromZero | None = None, stall_seconds: _FromZero = 0.0, evaluation_tokens: _FromZero = 0.0,
    evaluation_every: _Whole | None = None, dataset_tokens: _AboveZero | None = None,
    rampup_batch_size: _PackText | None = None, price: str | float | Own | None = None,
    years: _PlainNumber | None = None, utilisation: _WorkedShare = 1.0, pue: _PlainNumber = 1.0,
    grid: str | float | None = None, power: _PlainNumber | None = None, power_share: _PlainNumber | None = None,
) -> TrainingSearch: ...

@overload
def serve(
    model: Model | Source, *, on: _MachineName, input: _Tokens, output_tokens: _Tokens, how: SteadyState = ...,
    speculation: Speculation | None = None, images: Images | _Whole | None = None,
    encoders: EncoderReplicas | _Replicas | None = None, pools: PoolSizes | None = None, bill: Bill | None = None,
    layout: _LayoutText | None = None, tp: _RankCount | None = None, pp: _RankCount | None = None,
    dp: _RankCount | None = None, ep: _RankCount | None = None, engine: _EngineName | None = None,
    precision: _Formats | None = None, law: _LawName = 'calibrated', prefix: _Share = 0.0,
    concurrency: _Requests | None = None, rate: _PerSecond | None = None, input_cv: _Variation = 0.96,
    output_cv: _Variation = 0.78, rounds: _Requests | None = None, formula: bool = True,
    draft: _ModelName | None = None, mtp: bool = False, draft_length: _Whole | None = None,
    acceptance: _Probability | None = None, image_size: _ImageSize | None = None, frames: _Whole | None = None,
    audio: _Seconds | None = None, encoder_layout: _LayoutText | None = None, encoder_on: _MachineName | None = None,
    encoder_bandwidth: _Bandwidth | None = None, prefill_layout: _LayoutText | None = None,
    prefill_on: _MachineName | None = None, prefill_engine: _EngineName | None = None, chips: _ChipCount | None = None,
    prefills: _Replicas | None = None, decodes: _Replicas | None = None, price: str | float | Own | None = None,
    years: _PlainNumber | None = None, utilisation: _WorkedShare = 1.0, pue: _PlainNumber = 1.0,
    grid: str | float | None = None,
) -> Serving | Pools: ...
@overload
def serve(
    model: Model | Source, *, load: Load, on: _MachineName, how: SteadyState = ...,
    speculation: Speculation | None = None, images: Images | _Whole | None = None,
    encoders: EncoderReplicas | _Replicas | None = None, pools: PoolSizes | None = None, bill: Bill | None = None,
    layout: _LayoutText | None = None, tp: _RankCount | None = None, pp: _RankCount | None = None,
    dp: _RankCount | None = None, ep: _RankCount | None = None, engine: _EngineName | None = None,
    precision: _Formats | None = None, law: _LawName = 'calibrated', prefix: _Share = 0.0,
    concurrency: _Requests | None = None, rate: _PerSecond | None = None, input_cv: _Variation = 0.96,
    output_cv: _Variation = 0.78, rounds: _Requests | None = None, formula: bool = True,
    draft: _ModelName | None = None, mtp: bool = False, draft_length: _Whole | None = None,
    acceptance: _Probability | None = None, image_size: _ImageSize | None = None, frames: _Whole | None = None,
    audio: _Seconds | None = None, encoder_layout: _LayoutText | None = None, encoder_on: _MachineName | None = None,
    encoder_bandwidth: _Bandwidth | None = None, prefill_layout: _LayoutText | None = None,
    prefill_on: _MachineName | None = None, prefill_engine: _EngineName | None = None, chips: _ChipCount | None = None,
    prefills: _Replicas | None = None, decodes: _Replicas | None = None, price: str | float | Own | None = None,
    years: _PlainNumber | None = None, utilisation: _WorkedShare = 1.0, pue: _PlainNumber = 1.0,
    grid: str | float | None = None,
) -> Serving | Pools: ...
@overload
def serve(
    model: Model | Source, where: Where, *, input: _Tokens, output_tokens: _Tokens, how: SteadyState = ...,
    speculation: Speculation | None = None, images: Images | _Whole | None = None,
    encoders: EncoderReplicas | _Replicas | None = None, pools: PoolSizes | None = None, bill: Bill | None = None,
    layout: _LayoutText | None = None, tp: _RankCount | None = None, pp: _RankCount | None = None,
    dp: _RankCount | None = None, ep: _RankCount | None = None, engine: _EngineName | None = None,
    precision: _Formats | None = None, law: _LawName = 'calibrated', prefix: _Share = 0.0,
    concurrency: _Requests | None = None, rate: _PerSecond | None = None, input_cv: _Variation = 0.96,
    output_cv: _Variation = 0.78, rounds: _Requests | None = None, formula: bool = True,
    draft: _ModelName | None = None, mtp: bool = False, draft_length: _Whole | None = None,
    acceptance: _Probability | None = None, image_size: _ImageSize | None = None, frames: _Whole | None = None,
    audio: _Seconds | None = None, encoder_layout: _LayoutText | None = None, encoder_on: _MachineName | None = None,
    encoder_bandwidth: _Bandwidth | None = None, prefill_layout: _LayoutText | None = None,
    prefill_on: _MachineName | None = None, prefill_engine: _EngineName | None = None, chips: _ChipCount | None = None,
    prefills: _Replicas | None = None, decodes: _Replicas | None = None, price: str | float | Own | None = None,
    years: _PlainNumber | None = None, utilisation: _WorkedShare = 1.0, pue: _PlainNumber = 1.0,
    grid: str | float | None = None,
) -> Serving | Pools: ...
@overload
def serve(
    model: Model | Source, where: Where, load: Load, *, how: SteadyState = ..., speculation: Speculation | None = None,
    images: Images | _Whole | None = None, encoders: EncoderReplicas | _Replicas | None = None,
    pools: PoolSizes | None = None, bill: Bill | None = None, layout: _LayoutText | None = None,
    tp: _RankCount | None = None, pp: _RankCount | None = None, dp: _RankCount | None = None,
    ep: _RankCount | None = None, engine: _EngineName | None = None, precision: _Formats | None = None,
    law: _LawName = 'calibrated', prefix: _Share = 0.0, concurrency: _Requests | None = None,
    rate: _PerSecond | None = None, input_cv: _Variation = 0.96, output_cv: _Variation = 0.78,
    rounds: _Requests | None = None, formula: bool = True, draft: _ModelName | None = None, mtp: bool = False,
    draft_length: _Whole | None = None, acceptance: _Probability | None = None, image_size: _ImageSize | None = None,
    frames: _Whole | None = None, audio: _Seconds | None = None, encoder_layout: _LayoutText | None = None,
    encoder_on: _MachineName | None = None, encoder_bandwidth: _Bandwidth | None = None,
    prefill_layout: _LayoutText | None = None, prefill_on: _MachineName | None = None,
    prefill_engine: _EngineName | None = None, chips: _ChipCount | None = None, prefills: _Replicas | None = None,
    decodes: _Replicas | None = None, price: str | float | Own | None = None, years: _PlainNumber | None = None,
    utilisation: _WorkedShare = 1.0, pue: _PlainNumber = 1.0, grid: str | float | None = None,
) -> Serving | Pools: ...
@overload
def serve(
    model: Model | Source | Sequence[Model | Source], *, on: _MachineName | Sequence[_MachineName], input: _Tokens,
    output_tokens: _Tokens, how: SteadyState = ..., speculation: Speculation | None = None,
    images: Images | _Whole | None = None, encoders: EncoderReplicas | _Replicas | None = None,
    pools: PoolSizes | None = None, bill: Bill | None = None, layout: _LayoutText | Sequence[_LayoutText] | None = None,
    tp: _RankCount | None = None, pp: _RankCount | None = None, dp: _RankCount | None = None,
    ep: _RankCount | None = None, engine: _EngineName | Sequence[_EngineName] | None = None,
    precision: _Formats | Sequence[_Formats] | None = None, law: _LawName | Sequence[_LawName] = 'calibrated',
    prefix: _Share = 0.0, concurrency: _Requests | None = None, rate: _PerSecond | None = None,
    input_cv: _Variation = 0.96, output_cv: _Variation = 0.78, rounds: _Requests | None = None, formula: bool = True,
    draft: _ModelName | None = None, mtp: bool = False, draft_length: _Whole | None = None,
    acceptance: _Probability | None = None, image_size: _ImageSize | None = None, frames: _Whole | None = None,
    audio: _Seconds | None = None, encoder_layout: _LayoutText | Sequence[_LayoutText] | None = None,
    encoder_on: _MachineName | Sequence[_MachineName] | None = None, encoder_bandwidth: _Bandwidth | None = None,
    prefill_layout: _LayoutText | Sequence[_LayoutText] | None = None,
    prefill_on: _MachineName | Sequence[_MachineName] | None = None,
    prefill_engine: _EngineName | Sequence[_EngineName] | None = None, chips: _ChipCount | None = None,
    prefills: _Replicas | None = None, decodes: _Replicas | None = None, price: str | float | Own | None = None,
    years: _PlainNumber | None = None, utilisation: _WorkedShare = 1.0, pue: _PlainNumber = 1.0,
    grid: str | float | None = None,
) -> Grid | Any: ...
@overload
def serve(
    model: Model | Source | Sequence[Model | Source], *, load: Load, on: _MachineName | Sequence[_MachineName],
    how: SteadyState = ..., speculation: Speculation | None = None, images: Images | _Whole | None = None,
    encoders: EncoderReplicas | _Replicas | None = None, pools: PoolSizes | None = None, bill: Bill | None = None,
    layout: _LayoutText | Sequence[_LayoutText] | None = None, tp: _RankCount | None = None,
    pp: _RankCount | None = None, dp: _RankCount | None = None, ep: _RankCount | None = None,
    engine: _EngineName | Sequence[_EngineName] | None = None, precision: _Formats | Sequence[_Formats] | None = None,
    law: _LawName | Sequence[_LawName] = 'calibrated', prefix: _Share = 0.0, concurrency: _Requests | None = None,
    rate: _PerSecond | None = None, input_cv: _Variation = 0.96, output_cv: _Variation = 0.78,
    rounds: _Requests | None = None, formula: bool = True, draft: _ModelName | None = None, mtp: bool = False,
    draft_length: _Whole | None = None, acceptance: _Probability | None = None, image_size: _ImageSize | None = None,
    frames: _Whole | None = None, audio: _Seconds | None = None,
    encoder_layout: _LayoutText | Sequence[_LayoutText] | None = None,
    encoder_on: _MachineName | Sequence[_MachineName] | None = None, encoder_bandwidth: _Bandwidth | None = None,
    prefill_layout: _LayoutText | Sequence[_LayoutText] | None = None,
    prefill_on: _MachineName | Sequence[_MachineName] | None = None,
    prefill_engine: _EngineName | Sequence[_EngineName] | None = None, chips: _ChipCount | None = None,
    prefills: _Replicas | None = None, decodes: _Replicas | None = None, price: str | float | Own | None = None,
    years: _PlainNumber | None = None, utilisation: _WorkedShare = 1.0, pue: _PlainNumber = 1.0,
    grid: str | float | None = None,
) -> Grid | Any: ...
@overload
def serve(
    model: Model | Source | Sequence[Model | Source], where: Where, *, input: _Tokens, output_tokens: _Tokens,
    how: SteadyState = ..., speculation: Speculation | None = None, images: Images | _Whole | None = None,
    encoders: EncoderReplicas | _Replicas | None = None, pools: PoolSizes | None = None, bill: Bill | None = None,
    layout: _LayoutText | Sequence[_LayoutText] | None = None, tp: _RankCount | None = None,
    pp: _RankCount | None = None, dp: _RankCount | None = None, ep: _RankCount | None = None,
    engine: _EngineName | Sequence[_EngineName] | None = None, precision: _Formats | Sequence[_Formats] | None = None,
    law: _LawName | Sequence[_LawName] = 'calibrated', prefix: _Share = 0.0, concurrency: _Requests | None = None,
    rate: _PerSecond | None = None, input_cv: _Variation = 0.96, output_cv: _Variation = 0.78,
    rounds: _Requests | None = None, formula: bool = True, draft: _ModelName | None = None, mtp: bool = False,
    draft_length: _Whole | None = None, acceptance: _Probability | None = None, image_size: _ImageSize | None = None,
    frames: _Whole | None = None, audio: _Seconds | None = None,
    encoder_layout: _LayoutText | Sequence[_LayoutText] | None = None,
    encoder_on: _MachineName | Sequence[_MachineName] | None = None, encoder_bandwidth: _Bandwidth | None = None,
    prefill_layout: _LayoutText | Sequence[_LayoutText] | None = None,
    prefill_on: _MachineName | Sequence[_MachineName] | None = None,
    prefill_engine: _EngineName | Sequence[_EngineName] | None = None, chips: _ChipCount | None = None,
    prefills: _Replicas | None = None, decodes: _Replicas | None = None, price: str | float | Own | None = None,
    years: _PlainNumber | None = None, utilisation: _WorkedShare = 1.0, pue: _PlainNumber = 1.0,
    grid: str | float | None = None,
) -> Grid | Any: ...
@overload
def serve(
    model: Model | Source | Sequence[Model | Source], where: Where, load: Load, *, how: SteadyState = ...,
    speculation: Speculation | None = None, images: Images | _Whole | None = None,
    encoders: EncoderReplicas | _Replicas | None = None, pools: PoolSizes | None = None, bill: Bill | None = None,
    layout: _LayoutText | Sequence[_LayoutText] | None = None, tp: _RankCount | None = None,
    pp: _RankCount | None = None, dp: _RankCount | None = None, ep: _RankCount | None = None,
    engine: _EngineName | Sequence[_EngineName] | None = None, precision: _Formats | Sequence[_Formats] | None = None,
    law: _LawName | Sequence[_LawName] = 'calibrated', prefix: _Share = 0.0, concurrency: _Requests | None = None,
    rate: _PerSecond | None = None, input_cv: _Variation = 0.96, output_cv: _Variation = 0.78,
    rounds: _Requests | None = None, formula: bool = True, draft: _ModelName | None = None, mtp: bool = False,
    draft_length: _Whole | None = None, acceptance: _Probability | None = None, image_size: _ImageSize | None = None,
    frames: _Whole | None = None, audio: _Seconds | None = None,
    encoder_layout: _LayoutText | Sequence[_LayoutText] | None = None,
    encoder_on: _MachineName | Sequence[_MachineName] | None = None, encoder_bandwidth: _Bandwidth | None = None,
    prefill_layout: _LayoutText | Sequence[_LayoutText] | None = None,
    prefill_on: _MachineName | Sequence[_MachineName] | None = None,
    prefill_engine: _EngineName | Sequence[_EngineName] | None = None, chips: _ChipCount | None = None,
    prefills: _Replicas | None = None, decodes: _Replicas | None = None, price: str | float | Own | None = None,
    years: _PlainNumber | None = None, utilisation: _WorkedShare = 1.0, pue: _PlainNumber = 1.0,
    grid: str | float | None = None,
) -> Grid | Any: ...

@overload
def simulate(
    model: Model | Source, *, on: _MachineName, traffic: Requested = ..., extent: Extent = ..., slo: SLO = ...,
    router: _RouterName = 'round-robin', prefill: PrefillPool | None = None, speculation: Speculation | None = None,
    lora: _Whole | None = None, images: Images | _Whole | None = None,
    encoders: EncoderReplicas | _Replicas | None = None, bill: Bill | None = None,
    written: Callable[[tuple[float | None, ...]], None] | None = None, progress: Callable[[int], None] | None = None,
    layout: _LayoutText | None = None, tp: _RankCount | None = None, pp: _RankCount | None = None,
    dp: _RankCount | None = None, ep: _RankCount | None = None, engine: _EngineName | None = None,
    precision: _Formats | None = None, law: _LawName = 'calibrated', input_cv: _Variation = 0.96,
    output_cv: _Variation = 0.78, input: _LengthsText | None = None, output_tokens: _LengthsText | None = None,
    rate: _PlainNumber | None = None, arrivals: _ArrivalsText | None = None, concurrency: _PlainCount | None = None,
    think: _TimeText | None = None, ramp: _TimeText | None = None, prefixes: _PrefixesText | None = None,
    trace: _FileName | None = None, speed: _PlainNumber | None = None, requests: _PlainCount | None = None,
    warmup: _PlainCount | None = None, seed: _PlainCount = 0, until: _PlainNumber | None = None, ttft: _Seconds = ...,
    tpot: _Seconds = ..., latency: _Seconds = ..., attainment: _Attained = 0.99,
    prefill_layout: _LayoutText | None = None, prefill_on: _MachineName | None = None,
    prefill_engine: _EngineName | None = None, prefill_bandwidth: _Bandwidth | None = None,
    draft: _ModelName | None = None, mtp: bool = False, draft_length: _Whole | None = None,
    acceptance: _Probability | None = None, image_size: _ImageSize | None = None, frames: _Whole | None = None,
    audio: _Seconds | None = None, encoder_layout: _LayoutText | None = None, encoder_on: _MachineName | None = None,
    encoder_bandwidth: _Bandwidth | None = None, price: str | float | Own | None = None,
    years: _PlainNumber | None = None, utilisation: _WorkedShare = 1.0, pue: _PlainNumber = 1.0,
    grid: str | float | None = None,
) -> Simulation: ...
@overload
def simulate(
    model: Model | Source, where: Where, traffic: Requested = ..., extent: Extent = ..., slo: SLO = ..., *,
    router: _RouterName = 'round-robin', prefill: PrefillPool | None = None, speculation: Speculation | None = None,
    lora: _Whole | None = None, images: Images | _Whole | None = None,
    encoders: EncoderReplicas | _Replicas | None = None, bill: Bill | None = None,
    written: Callable[[tuple[float | None, ...]], None] | None = None, progress: Callable[[int], None] | None = None,
    layout: _LayoutText | None = None, tp: _RankCount | None = None, pp: _RankCount | None = None,
    dp: _RankCount | None = None, ep: _RankCount | None = None, engine: _EngineName | None = None,
    precision: _Formats | None = None, law: _LawName = 'calibrated', input_cv: _Variation = 0.96,
    output_cv: _Variation = 0.78, input: _LengthsText | None = None, output_tokens: _LengthsText | None = None,
    rate: _PlainNumber | None = None, arrivals: _ArrivalsText | None = None, concurrency: _PlainCount | None = None,
    think: _TimeText | None = None, ramp: _TimeText | None = None, prefixes: _PrefixesText | None = None,
    trace: _FileName | None = None, speed: _PlainNumber | None = None, requests: _PlainCount | None = None,
    warmup: _PlainCount | None = None, seed: _PlainCount = 0, until: _PlainNumber | None = None, ttft: _Seconds = ...,
    tpot: _Seconds = ..., latency: _Seconds = ..., attainment: _Attained = 0.99,
    prefill_layout: _LayoutText | None = None, prefill_on: _MachineName | None = None,
    prefill_engine: _EngineName | None = None, prefill_bandwidth: _Bandwidth | None = None,
    draft: _ModelName | None = None, mtp: bool = False, draft_length: _Whole | None = None,
    acceptance: _Probability | None = None, image_size: _ImageSize | None = None, frames: _Whole | None = None,
    audio: _Seconds | None = None, encoder_layout: _LayoutText | None = None, encoder_on: _MachineName | None = None,
    encoder_bandwidth: _Bandwidth | None = None, price: str | float | Own | None = None,
    years: _PlainNumber | None = None, utilisation: _WorkedShare = 1.0, pue: _PlainNumber = 1.0,
    grid: str | float | None = None,
) -> Simulation: ...
@overload
def simulate(
    model: Model | Source | Sequence[Model | Source], *, on: _MachineName | Sequence[_MachineName],
    traffic: Requested = ..., extent: Extent = ..., slo: SLO = ..., router: _RouterName = 'round-robin',
    prefill: PrefillPool | None = None, speculation: Speculation | None = None, lora: _Whole | None = None,
    images: Images | _Whole | None = None, encoders: EncoderReplicas | _Replicas | None = None,
    bill: Bill | None = None, written: Callable[[tuple[float | None, ...]], None] | None = None,
    progress: Callable[[int], None] | None = None, layout: _LayoutText | Sequence[_LayoutText] | None = None,
    tp: _RankCount | None = None, pp: _RankCount | None = None, dp: _RankCount | None = None,
    ep: _RankCount | None = None, engine: _EngineName | Sequence[_EngineName] | None = None,
    precision: _Formats | Sequence[_Formats] | None = None, law: _LawName | Sequence[_LawName] = 'calibrated',
    input_cv: _Variation = 0.96, output_cv: _Variation = 0.78, input: _LengthsText | None = None,
    output_tokens: _LengthsText | None = None, rate: _PlainNumber | None = None, arrivals: _ArrivalsText | None = None,
    concurrency: _PlainCount | None = None, think: _TimeText | None = None, ramp: _TimeText | None = None,
    prefixes: _PrefixesText | None = None, trace: _FileName | None = None, speed: _PlainNumber | None = None,
    requests: _PlainCount | None = None, warmup: _PlainCount | None = None, seed: _PlainCount = 0,
    until: _PlainNumber | None = None, ttft: _Seconds = ..., tpot: _Seconds = ..., latency: _Seconds = ...,
    attainment: _Attained = 0.99, prefill_layout: _LayoutText | Sequence[_LayoutText] | None = None,
    prefill_on: _MachineName | Sequence[_MachineName] | None = None,
    prefill_engine: _EngineName | Sequence[_EngineName] | None = None, prefill_bandwidth: _Bandwidth | None = None,
    draft: _ModelName | None = None, mtp: bool = False, draft_length: _Whole | None = None,
    acceptance: _Probability | None = None, image_size: _ImageSize | None = None, frames: _Whole | None = None,
    audio: _Seconds | None = None, encoder_layout: _LayoutText | Sequence[_LayoutText] | None = None,
    encoder_on: _MachineName | Sequence[_MachineName] | None = None, encoder_bandwidth: _Bandwidth | None = None,
    price: str | float | Own | None = None, years: _PlainNumber | None = None, utilisation: _WorkedShare = 1.0,
    pue: _PlainNumber = 1.0, grid: str | float | None = None,
) -> Grid | Any: ...
@overload
def simulate(
    model: Model | Source | Sequence[Model | Source], where: Where, traffic: Requested = ..., extent: Extent = ...,
    slo: SLO = ..., *, router: _RouterName = 'round-robin', prefill: PrefillPool | None = None,
    speculation: Speculation | None = None, lora: _Whole | None = None, images: Images | _Whole | None = None,
    encoders: EncoderReplicas | _Replicas | None = None, bill: Bill | None = None,
    written: Callable[[tuple[float | None, ...]], None] | None = None, progress: Callable[[int], None] | None = None,
    layout: _LayoutText | Sequence[_LayoutText] | None = None, tp: _RankCount | None = None,
    pp: _RankCount | None = None, dp: _RankCount | None = None, ep: _RankCount | None = None,
    engine: _EngineName | Sequence[_EngineName] | None = None, precision: _Formats | Sequence[_Formats] | None = None,
    law: _LawName | Sequence[_LawName] = 'calibrated', input_cv: _Variation = 0.96, output_cv: _Variation = 0.78,
    input: _LengthsText | None = None, output_tokens: _LengthsText | None = None, rate: _PlainNumber | None = None,
    arrivals: _ArrivalsText | None = None, concurrency: _PlainCount | None = None, think: _TimeText | None = None,
    ramp: _TimeText | None = None, prefixes: _PrefixesText | None = None, trace: _FileName | None = None,
    speed: _PlainNumber | None = None, requests: _PlainCount | None = None, warmup: _PlainCount | None = None,
    seed: _PlainCount = 0, until: _PlainNumber | None = None, ttft: _Seconds = ..., tpot: _Seconds = ...,
    latency: _Seconds = ..., attainment: _Attained = 0.99,
    prefill_layout: _LayoutText | Sequence[_LayoutText] | None = None,
    prefill_on: _MachineName | Sequence[_MachineName] | None = None,
    prefill_engine: _EngineName | Sequence[_EngineName] | None = None, prefill_bandwidth: _Bandwidth | None = None,
    draft: _ModelName | None = None, mtp: bool = False, draft_length: _Whole | None = None,
    acceptance: _Probability | None = None, image_size: _ImageSize | None = None, frames: _Whole | None = None,
    audio: _Seconds | None = None, encoder_layout: _LayoutText | Sequence[_LayoutText] | None = None,
    encoder_on: _MachineName | Sequence[_MachineName] | None = None, encoder_bandwidth: _Bandwidth | None = None,
    price: str | float | Own | None = None, years: _PlainNumber | None = None, utilisation: _WorkedShare = 1.0,
    pue: _PlainNumber = 1.0, grid: str | float | None = None,
) -> Grid | Any: ...

def solve(
    model: Model | Source, *, find: _Text, on: _MachineName | Sequence[_MachineName], where: _Names | None = None,
    against: _OtherSide | None = None, utilisation: _PlainNumber | None = None, extreme: _ExtremeName | None = None,
    most_chips: _OneChipCount | None = None, strict: bool = False,
    layout: _LayoutText | Sequence[_LayoutText] | None = None, tp: _RankCount | None = None,
    pp: _RankCount | None = None, dp: _RankCount | None = None, ep: _RankCount | None = None,
    engine: _EngineName | Sequence[_EngineName] | None = None, precision: _Formats | Sequence[_Formats] | None = None,
    law: _LawName | Sequence[_LawName] = 'calibrated', batch: _Sequences | None = None, context: int | None = None,
    input: _Tokens | None = None, output_tokens: _Tokens | None = None, concurrency: _Requests | None = None,
    rate: _PerSecond | None = None, tokens: int | None = None, prefix: _Share | None = None,
    input_cv: _Variation | None = None, output_cv: _Variation | None = None, rounds: _Requests | None = None,
    formula: bool | None = None, draft: _ModelName | None = None, mtp: bool | None = None,
    draft_length: _Whole | None = None, acceptance: _Probability | None = None, images: _Whole | None = None,
    image_size: _ImageSize | None = None, frames: _Whole | None = None, audio: _Seconds | None = None,
    micro_batch: _Sequences | None = None, schedule: _Word | Sequence[_Word] | None = None,
    recompute: _Words | Sequence[_Words] | None = None, recipe: _Word | Sequence[_Word] | None = None,
    optimizer: _Word | Sequence[_Word] | None = None, offload: _NamesOrLists | Sequence[_NamesOrLists] | None = None,
    offload_layers: _Whole | None = None, flash: bool | None = None, loss: _Word | Sequence[_Word] | None = None,
    fused_loss: bool | None = None, overlap: _Names | None = None, recompute_layers: _Whole | None = None,
    recompute_every: _Whole | None = None, lengths: _PackText | None = None, reshard: bool | None = None,
    no_sync: bool | None = None, gather_format: _Text | None = None, reduce_format: _Text | None = None,
    optimizer_in_backward: bool | None = None,
) -> Solution: ...

@overload
def train(
    model: Model | Source, *, batch: _Sequences, tokens: _Tokens, on: _MachineName, how: TrainingOptions = ...,
    learner: Learner = ..., bill: Bill | None = None, drawn: MeanPower = ..., layout: _LayoutText | None = None,
    tp: _RankCount | None = None, pp: _RankCount | None = None, dp: _RankCount | None = None,
    ep: _RankCount | None = None, engine: _EngineName | None = None, precision: _Formats | None = None,
    law: _LawName = 'calibrated', stragglers: _Text | None = None, micro_batch: _Sequences = 1,
    schedule: _Word | None = None, recompute: _Words | None = None, recipe: _Word | None = None,
    optimizer: _Word | None = None, offload: _NamesOrLists | None = None, offload_layers: _Whole | None = None,
    flash: bool = True, loss: _Word | None = None, fused_loss: bool = False, overlap: _Names | None = None,
    recompute_layers: _Whole | None = None, recompute_every: _Whole | None = None, lengths: _PackText | None = None,
    reshard: bool = True, no_sync: bool = False, gather_format: _Text | None = None, reduce_format: _Text | None = None,
    optimizer_in_backward: bool = False, lora: _Whole | None = None, lora_targets: _Names | None = None,
    dora: bool = False, drafts: _WholeOrNone | None = None, context_length: _OneTokens | None = None,
    teacher: _ModelName | None = None, reference: bool = False, price: str | float | Own | None = None,
    years: _PlainNumber | None = None, utilisation: _WorkedShare = 1.0, pue: _PlainNumber = 1.0,
    grid: str | float | None = None, power: _PlainNumber | None = None, power_share: _PlainNumber | None = None,
) -> TrainingEstimate: ...
@overload
def train(
    model: Model | Source, where: TrainingWhere, *, batch: _Sequences, tokens: _Tokens, how: TrainingOptions = ...,
    learner: Learner = ..., bill: Bill | None = None, drawn: MeanPower = ..., layout: _LayoutText | None = None,
    tp: _RankCount | None = None, pp: _RankCount | None = None, dp: _RankCount | None = None,
    ep: _RankCount | None = None, engine: _EngineName | None = None, precision: _Formats | None = None,
    law: _LawName = 'calibrated', stragglers: _Text | None = None, micro_batch: _Sequences = 1,
    schedule: _Word | None = None, recompute: _Words | None = None, recipe: _Word | None = None,
    optimizer: _Word | None = None, offload: _NamesOrLists | None = None, offload_layers: _Whole | None = None,
    flash: bool = True, loss: _Word | None = None, fused_loss: bool = False, overlap: _Names | None = None,
    recompute_layers: _Whole | None = None, recompute_every: _Whole | None = None, lengths: _PackText | None = None,
    reshard: bool = True, no_sync: bool = False, gather_format: _Text | None = None, reduce_format: _Text | None = None,
    optimizer_in_backward: bool = False, lora: _Whole | None = None, lora_targets: _Names | None = None,
    dora: bool = False, drafts: _WholeOrNone | None = None, context_length: _OneTokens | None = None,
    teacher: _ModelName | None = None, reference: bool = False, price: str | float | Own | None = None,
    years: _PlainNumber | None = None, utilisation: _WorkedShare = 1.0, pue: _PlainNumber = 1.0,
    grid: str | float | None = None, power: _PlainNumber | None = None, power_share: _PlainNumber | None = None,
) -> TrainingEstimate: ...
@overload
def train(
    model: Model | Source | Sequence[Model | Source], *, batch: _Sequences, tokens: _Tokens,
    on: _MachineName | Sequence[_MachineName], how: TrainingOptions = ..., learner: Learner = ...,
    bill: Bill | None = None, drawn: MeanPower = ..., layout: _LayoutText | Sequence[_LayoutText] | None = None,
    tp: _RankCount | None = None, pp: _RankCount | None = None, dp: _RankCount | None = None,
    ep: _RankCount | None = None, engine: _EngineName | Sequence[_EngineName] | None = None,
    precision: _Formats | Sequence[_Formats] | None = None, law: _LawName | Sequence[_LawName] = 'calibrated',
    stragglers: _Text | None = None, micro_batch: _Sequences = 1, schedule: _Word | Sequence[_Word] | None = None,
    recompute: _Words | Sequence[_Words] | None = None, recipe: _Word | Sequence[_Word] | None = None,
    optimizer: _Word | Sequence[_Word] | None = None, offload: _NamesOrLists | Sequence[_NamesOrLists] | None = None,
    offload_layers: _Whole | None = None, flash: bool = True, loss: _Word | Sequence[_Word] | None = None,
    fused_loss: bool = False, overlap: _Names | None = None, recompute_layers: _Whole | None = None,
    recompute_every: _Whole | None = None, lengths: _PackText | None = None, reshard: bool = True,
    no_sync: bool = False, gather_format: _Text | None = None, reduce_format: _Text | None = None,
    optimizer_in_backward: bool = False, lora: _Whole | None = None, lora_targets: _Names | None = None,
    dora: bool = False, drafts: _WholeOrNone | None = None, context_length: _OneTokens | None = None,
    teacher: _ModelName | None = None, reference: bool = False, price: str | float | Own | None = None,
    years: _PlainNumber | None = None, utilisation: _WorkedShare = 1.0, pue: _PlainNumber = 1.0,
    grid: str | float | None = None, power: _PlainNumber | None = None, power_share: _PlainNumber | None = None,
) -> Grid | Any: ...
@overload
def train(
    model: Model | Source | Sequence[Model | Source], where: TrainingWhere, *, batch: _Sequences, tokens: _Tokens,
    how: TrainingOptions = ..., learner: Learner = ..., bill: Bill | None = None, drawn: MeanPower = ...,
    layout: _LayoutText | Sequence[_LayoutText] | None = None, tp: _RankCount | None = None,
    pp: _RankCount | None = None, dp: _RankCount | None = None, ep: _RankCount | None = None,
    engine: _EngineName | Sequence[_EngineName] | None = None, precision: _Formats | Sequence[_Formats] | None = None,
    law: _LawName | Sequence[_LawName] = 'calibrated', stragglers: _Text | None = None, micro_batch: _Sequences = 1,
    schedule: _Word | Sequence[_Word] | None = None, recompute: _Words | Sequence[_Words] | None = None,
    recipe: _Word | Sequence[_Word] | None = None, optimizer: _Word | Sequence[_Word] | None = None,
    offload: _NamesOrLists | Sequence[_NamesOrLists] | None = None, offload_layers: _Whole | None = None,
    flash: bool = True, loss: _Word | Sequence[_Word] | None = None, fused_loss: bool = False,
    overlap: _Names | None = None, recompute_layers: _Whole | None = None, recompute_every: _Whole | None = None,
    lengths: _PackText | None = None, reshard: bool = True, no_sync: bool = False, gather_format: _Text | None = None,
    reduce_format: _Text | None = None, optimizer_in_backward: bool = False, lora: _Whole | None = None,
    lora_targets: _Names | None = None, dora: bool = False, drafts: _WholeOrNone | None = None,
    context_length: _OneTokens | None = None, teacher: _ModelName | None = None, reference: bool = False,
    price: str | float | Own | None = None, years: _PlainNumber | None = None, utilisation: _WorkedShare = 1.0,
    pue: _PlainNumber = 1.0, grid: str | float | None = None, power: _PlainNumber | None = None,
    power_share: _PlainNumber | None = None,
) -> Grid | Any: ...


__all__ = [
    "__version__", "load", "catalog", "Model", "Images", "trace", "Precision", "InputError", "Where", "Load", "SLO",
    "PoolSizes", "StaticBatch", "Result", "Grid", "Step", "Queries", "prefill", "decode", "Training", "training",
    "Analysis", "analyze", "Explanation", "explain", "Layout", "shard", "stages", "Chip", "chips", "Cluster",
    "clusters", "Engine", "engines", "Calibration", "calibrate", "Span", "Bill", "Own", "Deployment", "Memory",
    "estimate", "Estimate", "Generation", "Speculation", "generate", "Encoding", "encode", "Serving", "SteadyState",
    "serve", "Pools", "pools", "Fit", "fit", "Host", "Offload", "offload", "TrainingEstimate", "train", "Run", "run",
    "Extent", "simulate", "Simulation", "PrefillPool", "Objective", "Prefixes", "Trace", "FirstAnswer", "answer",
    "Difference", "diff", "MachineChoice", "machines", "Demand", "Limits", "Choices", "Ranking", "Search", "search",
    "TrainingSearch", "search_training", "Owned", "Bounds", "Codesign", "Process", "codesign", "Sensitivity",
    "sensitivity", "Solution", "solve", "Breakdown", "breakdown", "compare", "Comparison", "ComparedResults", "Emitted",
    "hand_over", "Sweep", "sweep", "plot", "report",
]
