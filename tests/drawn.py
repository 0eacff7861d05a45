"""Drawn settings of every estimate, some of them arrays: the answer, and the answers one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

import roofline as rl
from roofline.engines.engine import engines
from roofline.inference.fit import Fit
from roofline.work.recipe import OPTIMIZERS, RECIPES
from roofline.work.training import CHUNKED, RECOMPUTE

MODELS = (
    "meta-llama/Llama-3.2-1B", "Qwen/Qwen1.5-MoE-A2.7B", "deepseek-ai/DeepSeek-V2-Lite",
    "Qwen/Qwen3-Next-80B-A3B-Instruct", "google/gemma-3-1b-it", "ibm-granite/granite-4.0-h-tiny", "openai/gpt-oss-20b",
    "AntonV/mamba2-130m-hf", "deepseek-ai/DeepSeek-V3",
)  # fmt: skip
"""Dense and windowed, mixtures, latent attention, hybrids with state, a state alone, and one that is large."""
MACHINES = (
    "64xh100-sxm",
    "8xdgx-h100",
    "64xb200",
    "gb200-nvl72",
    "64xa100-sxm-80gb",
    "64xmi300x",
    "64xl40s",
    "h200-sxm",
)
PRECISIONS = (None, None, "fp8", "weights=int4", "weights=int4,kv=fp8", "kv=fp8", "weights=nvfp4", "fp8-block")
LAWS = ("calibrated", "calibrated", "calibrated", "ideal", "fixed(0.5,0.8)")
SHAPES = ((4,), (2, 2), (96,), (3, 40))
"""Few points, and so many that only the distinct ones are worked out."""
RELATIVE = 1e-12
NOTHING = 1e-15
"""What the difference of two equal times may leave, of a second or of a share."""


@dataclass(frozen=True)
class Case:
    """One draw: an estimate, its settings that are one thing, and those that are arrays, which broadcast together."""

    run: Callable[[Mapping[str, Any]], rl.Result]
    fixed: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]]

    def __str__(self) -> str:
        shapes = {name: (v.shape, sorted(set(v.reshape(-1).tolist()))) for name, v in self.arrays.items()}
        return f"{self.run.__name__}({dict(self.fixed)}, {shapes})"

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape that the arrays have together."""
        return np.broadcast_shapes(*(v.shape for v in self.arrays.values()))

    def together(self) -> rl.Result:
        """The answer to all points at once."""
        return self.run({**self.fixed, **self.arrays})

    def points(self) -> Iterator[tuple[tuple[int, ...], Mapping[str, Any]]]:
        """The distinct points: where each stands first, and its settings as plain numbers."""
        wide = {name: np.broadcast_to(v, self.shape) for name, v in self.arrays.items()}
        known = set()
        for place in np.ndindex(self.shape):
            numbers = {name: v[place].item() for name, v in wide.items()}
            key = tuple(numbers.values())
            if key not in known:
                known.add(key)
                yield place, {**self.fixed, **numbers}


def check(case: Case) -> int:
    """Compares all points at once with each by itself: how many were. Where one of them is an error, so are all."""
    points = list(case.points())
    alone: list[tuple[tuple[int, ...], list[tuple[str, Any]]]] = []
    errors: list[str] = []
    for place, settings in points:
        try:
            alone.append((place, list(figures(case.run(settings)))))
        except rl.InputError as error:
            errors.append(error.field)
    if errors:
        try:
            together = list(figures(case.together()))
        except rl.InputError:
            return 0
        raise AssertionError(f"{case}: {errors} alone, but {together} together")
    answer = case.together()
    assert not (wrong := disordered(answer)), f"{case}: {wrong}"
    many = list(figures(answer))
    for place, one in alone:
        for (name, values), (same, value) in zip(many, one, strict=True):
            assert name == same, f"{case}: {name} beside {same}"
            there = np.broadcast_to(np.asarray(values), case.shape)[place]
            rounding = NOTHING * (1e6 if "per_million" in name else 1)  # a million times that of one
            assert equal(there, value, rounding), f"{case}: {name} at {place} is {there!r}, alone {value!r}"
    return len(alone)


def figures(result: Any) -> Iterator[tuple[str, Any]]:
    """The numbers and words of an answer but for what says which chips, and those of a training step's stages."""
    places = {name: result.figure(name) for name in result.FIGURES}
    described = {leaf for name, v in places.items() if isinstance(v, rl.Deployment) for leaf, *_ in v.leaves(name, "")}
    yield from ((name, value) for name, value, _ in result.leaves() if name not in described)
    if isinstance(result, Fit):
        yield "batch_fits", result.largest_batch >= result.batch
    for stage in getattr(result, "stages", ()):
        yield from ((f"stage memory {name}", getattr(stage.memory, name)) for name in stage.memory.FIGURES)
        yield from ((f"stage passes {i}", v) for i, v in enumerate(stage.passes.busy.ends()))
        yield from ((f"stage send {i}", v) for i, v in enumerate(stage.passes.send.ends()))


def disordered(result: Any) -> list[str]:
    """The spans of an answer that are not speed of light ≤ low ≤ expected ≤ high somewhere, and by what share."""
    wrong = []
    for name in result.FIGURES:
        span = result.figure(name)
        if not isinstance(span, rl.Span):
            continue
        for lower, upper in pairwise(("floor", "low", "expected", "high")):
            least, most = (np.asarray(getattr(span, end), dtype=float) for end in (lower, upper))
            beyond = np.broadcast_to(least > most * (1 + RELATIVE), np.broadcast_shapes(least.shape, most.shape))
            if beyond.any():
                wrong.append(f"{name}: {lower} {np.max(least / np.where(most > 0, most, np.nan)):.6g} times {upper}")
    return wrong


def equal(there: Any, value: Any, rounding: float = NOTHING) -> bool:
    """The same word, or the same number but for rounding, never finer than `rounding`; no number is none."""
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return there is None or bool(np.isnan(there))
    if isinstance(value, (str, bool, np.bool_)) or there is None:
        return bool(there == value)
    if isinstance(value, (int, float, np.number)):
        return bool(there == value or np.abs(there - value) <= max(RELATIVE * np.abs(value), rounding))
    return bool(there == value) or str(there) == str(value)


# -- drawing -------------------------------------------------------------------------------------------------------
def cases(seed: int, number: int, kinds: Sequence[str] = ()) -> Iterator[Case]:
    """So many draws: of every kind of estimate, or of those named."""
    rng = np.random.default_rng(seed)
    drawing = [KINDS[name] for name in (kinds or KINDS)]
    for i in range(number):
        yield drawing[i % len(drawing)](rng)


def pick(rng: Generator, values: Sequence[Any]) -> Any:
    """One of several."""
    return values[int(rng.integers(len(values)))]


Drawn = Callable[[], Any]


def columns(
    rng: Generator, drawn: Mapping[str, Drawn], layouts: Callable[[], Mapping[str, Any]], few: bool = False
) -> Any:
    """Settings that are numbers and settings that are arrays: of one axis, or of all of the shape drawn.

    The degrees of a layout are drawn together, because they must divide one another.
    """
    shape = pick(rng, SHAPES[:2] if few else SHAPES)
    levels = (4,) if len(shape) == 1 else (2, 2)
    index = [rng.integers(level, size=size) for level, size in zip(levels, shape, strict=True)]
    for axis, level in enumerate(levels):
        index[axis][:level] = np.arange(min(level, shape[axis]))
    numbers: dict[str, Any] = {}
    arrays: dict[str, NDArray[Any]] = {}

    def place(values: NDArray[Any], axes: Sequence[int]) -> NDArray[Any]:
        chosen = np.ix_(*(index[a] if a in axes else np.zeros(1, dtype=int) for a in range(len(shape))))
        placed: NDArray[Any] = np.broadcast_to(values, levels)[chosen]
        return placed

    for name, draw in drawn.items():
        if rng.random() < 0.4:
            numbers[name] = draw()
            continue
        axes: tuple[int, ...] = pick(rng, ((0,),) if len(shape) == 1 else ((0,), (1,), (0, 1)))
        count = [levels[a] if a in axes else 1 for a in range(len(shape))]
        values = np.array([draw() for _ in range(int(np.prod(count)))]).reshape(count)
        arrays[name] = place(values, axes)
    axis = pick(rng, range(len(shape)))
    several = rng.random() < 0.6
    spreads = [layouts() for _ in range(levels[axis] if several else 1)]
    for name in spreads[0]:
        if several and any(s[name] != spreads[0][name] for s in spreads):
            values = np.array([s[name] for s in spreads]).reshape([-1 if a == axis else 1 for a in range(len(shape))])
            arrays[name] = place(values, (axis,))
        else:
            numbers[name] = spreads[0][name]
    if not arrays:
        name = next(iter(drawn))
        arrays[name] = np.broadcast_to(numbers.pop(name), shape)
    return numbers, arrays


def degrees(rng: Generator, training: bool) -> Callable[[], Mapping[str, Any]]:
    """Draws degrees that divide one another; whether experts are shared out, and how unevenly, is drawn once."""
    experts, uneven, hybrid = rng.random() < 0.4, rng.random() < 0.4, training and rng.random() < 0.3

    def draw() -> Mapping[str, Any]:
        tp, cp, dp = pick(rng, (1, 2, 4)), pick(rng, (1, 1, 2)), pick(rng, (1, 2, 4))
        spread = {"layout.tp": tp, "layout.cp": cp, "layout.dp": dp}
        if experts:
            spread["layout.ep"] = pick(rng, [n for n in (1, 2, 4) if (tp * cp * dp) % n == 0])
        if experts and uneven:
            spread |= {"layout.imbalance": 1 + rng.integers(4) / 4, "layout.capacity": 1 + rng.integers(1, 4) / 4}
        if hybrid:
            spread["layout.shard"] = pick(rng, [n for n in (1, 2, 4) if (cp * dp) % n == 0])
        return spread

    return draw


def setting(rng: Generator, machines: Sequence[str] = MACHINES) -> dict[str, Any]:
    """The model, the machine, formats and the law."""
    return {
        "model": pick(rng, MODELS[:-1] if rng.random() < 0.9 else MODELS[-1:]), "on": pick(rng, machines),
        "precision": pick(rng, PRECISIONS), "law": pick(rng, LAWS),
    }  # fmt: skip


def place(rng: Generator) -> dict[str, Any]:
    """The same without the law, which what takes no time does not have."""
    return {name: value for name, value in setting(rng).items() if name != "law"}


def engine(rng: Generator) -> dict[str, Any]:
    return {"engine": pick(rng, [name for name in engines() if name not in ("megatron", "fsdp")])}


def stages(rng: Generator) -> dict[str, Any]:
    """What of a layout is no number."""
    pp = pick(rng, (1, 1, 2, 3))
    return {"layout.pp": pp, "layout.sp": bool(rng.random() < 0.3), "layout.exchange": pick(rng, EXCHANGES)}


EXCHANGES = ("ring", "all_gather", "ulysses")


def split(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with `layout.tp` and its like put together as a layout."""
    rest = {name: value for name, value in settings.items() if not name.startswith("layout.")}
    spread = {name[7:]: value for name, value in settings.items() if name.startswith("layout.")}
    return {**rest, "layout": rl.Layout(**spread)}


def number(rng: Generator, low: int, high: int) -> Drawn:
    """Whole numbers, small ones as often as large ones."""
    return lambda: int(np.exp(rng.uniform(np.log(low), np.log(high + 1))))


def run_estimate(settings: Mapping[str, Any]) -> rl.Result:
    given = split(settings)
    first = (given.pop("cached"), given.pop("new"), given.pop("batch"))
    other = (given.pop("context"), 1, given.pop("others"))
    queries = [first, other] if given.pop("mixed") else [first]
    result: rl.Result = rl.estimate(step=rl.Step(queries, logits=given.pop("logits")), **given)
    return result


def draw_estimate(rng: Generator) -> Case:
    drawn = {
        "cached": lambda: int(rng.integers(2)) * number(rng, 1, 4000)(), "new": number(rng, 1, 3000),
        "batch": number(rng, 1, 300), "context": number(rng, 1, 6000), "others": number(rng, 1, 200),
    }  # fmt: skip
    numbers, arrays = columns(rng, drawn, degrees(rng, False))
    options = {
        "mixed": bool(rng.random() < 0.3), "logits": pick(rng, ("last", "last", "all")),
        "counting": pick(rng, ("standard", "torch")), "traffic": pick(rng, ("fused", "unfused", "floor")),
    }  # fmt: skip
    return Case(run_estimate, {**setting(rng), **engine(rng), **stages(rng), **options, **numbers}, arrays)


def run_generate(settings: Mapping[str, Any]) -> rl.Result:
    result: rl.Result = rl.generate(**split(settings))
    return result


def draw_generate(rng: Generator) -> Case:
    drawn = {"batch": number(rng, 1, 400), "input": number(rng, 1, 4000), "output_tokens": number(rng, 1, 60)}
    numbers, arrays = columns(rng, drawn, degrees(rng, False))
    draft = pick(rng, (None, rl.load("meta-llama/Llama-3.2-1B")))
    speculation = rl.Speculation(0.7, 3, draft) if rng.random() < 0.25 else None
    fixed = {**setting(rng), **engine(rng), **stages(rng), **numbers, "speculation": speculation}
    return Case(run_generate, fixed, arrays)


def run_serve(settings: Mapping[str, Any]) -> rl.Result:
    result: rl.Result = rl.serve(**split(settings))
    return result


def draw_serve(rng: Generator) -> Case:
    steady = rng.random() < 0.7
    load = {"concurrency": number(rng, 1, 500)} if steady else {"rate": lambda: float(rng.uniform(0.01, 0.2))}
    drawn = {"input": number(rng, 1, 4000), "output_tokens": number(rng, 1, 400), **load}
    if rng.random() < 0.4:
        drawn["prefix"] = lambda: float(rng.integers(4) / 4)
    numbers, arrays = columns(rng, drawn, degrees(rng, False), few=not steady)
    return Case(run_serve, {**setting(rng), **engine(rng), **stages(rng), **numbers}, arrays)


def run_fit(settings: Mapping[str, Any]) -> rl.Result:
    result: rl.Result = rl.fit(**split(settings))
    return result


def draw_fit(rng: Generator) -> Case:
    drawn = {"batch": number(rng, 1, 1000), "context": number(rng, 1, 100_000)}
    numbers, arrays = columns(rng, drawn, degrees(rng, False))
    chunk = {"chunk": number(rng, 1, 20_000)()} if rng.random() < 0.3 else {}
    return Case(run_fit, {**place(rng), **engine(rng), **stages(rng), **chunk, **numbers}, arrays)


def run_pools(settings: Mapping[str, Any]) -> rl.Result:
    def layout(kind: str) -> rl.Layout:
        names = [name for name in given if name.startswith(f"{kind}.")]
        return rl.Layout(**{name.removeprefix(f"{kind}."): given.pop(name) for name in names})

    given = dict(settings)
    result: rl.Result = rl.pools(prefill_layout=layout("prefill"), decode_layout=layout("decode"), **given)
    return result


def draw_pools(rng: Generator) -> Case:
    drawn = {
        "input": number(rng, 1, 4000), "output_tokens": number(rng, 1, 400), "concurrency": number(rng, 1, 200),
        "chips": lambda: int(rng.integers(16, 65)), "prefill.tp": lambda: pick(rng, (1, 2, 4)),
        "decode.tp": lambda: pick(rng, (1, 2, 4)), "decode.dp": lambda: pick(rng, (1, 2)),
    }  # fmt: skip
    numbers, arrays = columns(rng, drawn, lambda: {"prefill.pp": 1})
    fixed = {**setting(rng, MACHINES), **engine(rng), "decode.pp": pick(rng, (1, 2))}
    return Case(run_pools, {**fixed, **numbers}, arrays)


def run_train(settings: Mapping[str, Any]) -> rl.Result:
    result: rl.Result = rl.train(**split(settings))
    return result


def draw_train(rng: Generator) -> Case:
    drawn = {
        "batch": lambda: 96 * int(rng.integers(1, 5)), "tokens": lambda: 128 * int(rng.integers(1, 17)),
        "micro_batch": lambda: pick(rng, (1, 2)),
    }  # fmt: skip
    numbers, arrays = columns(rng, drawn, degrees(rng, True))
    fixed = {**setting(rng, MACHINES[:-1]), **stages(rng)}
    fixed |= {
        "precision": pick(rng, (None, None, None, "weights=fp8")),
        "engine": pick(rng, ("megatron", "fsdp", "none")),
    }
    model, pp = fixed["model"], fixed["layout.pp"]
    schedule = pick(rng, ("1f1b", "1f1b", "gpipe", "zb-h1", "zb-h2", *CHUNKED, "dualpipe")) if pp > 1 else "1f1b"
    if schedule == "dualpipe":
        fixed["layout.pp"] = pp = 2
    if schedule in CHUNKED:
        fixed["layout.vp"] = 2
    layers = len(rl.load(model).layers)
    if pp > 1 and rng.random() < 0.4:
        runs = pp * fixed.get("layout.vp", 1)
        uneven = [layers // runs] * runs
        uneven[-1] += layers - sum(uneven) - 1
        uneven[0] += 1
        fixed["layout.stages"] = tuple(uneven)
    recipe = pick(rng, tuple(RECIPES)) if rng.random() < 0.5 else "bf16"
    options = {
        "recompute": pick(rng, (*RECOMPUTE, ("attention",))), "recipe": recipe,
        "optimizer": pick(rng, tuple(OPTIMIZERS)),
        "offload": pick(rng, ((), (), (), ("optimizer",), ("activations",), ("optimizer", "activations"))),
        "overlap": bool(rng.random() < 0.7), "flash": bool(rng.random() < 0.8), "fused_loss": bool(rng.random() < 0.3),
        "schedule": schedule, "lora": 8 if recipe == "qlora" or rng.random() < 0.15 else None,
        "layout.zero": pick(rng, (0, 1, 2, 3)),
    }  # fmt: skip
    return Case(run_train, {**fixed, **options, **numbers}, arrays)


KINDS: Mapping[str, Callable[[Generator], Case]] = {
    "estimate": draw_estimate, "generate": draw_generate, "serve": draw_serve, "fit": draw_fit, "pools": draw_pools,
    "train": draw_train,
}  # fmt: skip
"""Every kind of estimate."""
