"""One rank's step as the library counts and times it, for comparison with the rules."""

from __future__ import annotations

from dataclasses import dataclass, replace

from roofline.declared.errors import InputError
from roofline.doors.compat.chips import near_format, wanted_format
from roofline.doors.compat.model_info.floor import rank_layout, rank_of, rank_step
from roofline.doors.compat.model_info.rules import ReportPhase, Rules
from roofline.engines.engine import engine_named
from roofline.hardware.chip import Chip
from roofline.hardware.named_chip import chip_named
from roofline.inference.deployment import Deployment, deploy
from roofline.inference.settings import Setup
from roofline.inference.step import step_estimate
from roofline.kernels.target import CALIBRATED, path_of
from roofline.model.formats import FORMATS, Format
from roofline.model.model import Model
from roofline.model.precision import ROLES, Precision
from roofline.training.estimate import TrainingEstimate
from roofline.training.train import train_step
from roofline.work.analysis import Analysis, analyze
from roofline.work.training import training

RECIPES = {"fp4": "nvfp4"}
"""Training recipes whose name differs from that of their format."""


def formats_on(chip: Chip, model: Model, rules: Rules) -> Precision:
    """Formats with the rules' widths that the chip supports, with the checkpoint's activations if the chip multiplies
    them.

    Weights narrower than any format of the chip's units are multiplied in the format of the activations.
    """
    wide = near_format(chip, "bf16")

    def stored(width: float) -> Format:
        name = "fp32" if width >= 4 else wide if width >= 2 else wanted_format(width)
        return FORMATS[name] if name in chip.peaks else replace(FORMATS[name], compute=None)

    foreign = model.precision.activations.name not in chip.peaks
    base = dict.fromkeys(ROLES, wide) if rules.weight_bytes >= 2 or foreign else {}
    weights, kv = stored(rules.weight_bytes), FORMATS[stored(rules.cache_bytes).name]
    return model.precision.with_roles(**base).with_roles(weights=weights, kv=kv)


@dataclass(frozen=True)
class Physical:
    """A rank's step: `analysis` and, if the chips have times, `time` in seconds, `bound` and the `peak` of `fmt`.

    `reason`: why there is no time.
    """

    analysis: Analysis
    fmt: str
    time: float | None = None
    peak: float = 0.0
    bound: str = ""
    reason: str = ""

    @property
    def flops(self) -> float:
        """FLOPs of the rank."""
        return float(self.analysis.flops)

    @property
    def bytes(self) -> float:
        """Bytes of the rank's memory traffic."""
        return float(self.analysis.bytes)

    @property
    def mfu(self) -> float | None:
        """FLOPs over peak · time, with the peak of the step's own format."""
        return None if self.time is None else self.flops / (self.peak * self.time)


def deployment(chip: Chip, ep: int, link: float | None) -> Deployment:
    """The ranks on a cluster of the chip or of the chip that it derives from; `link`: bytes/s in both directions.

    Raises InputError if no known cluster joins that many chips.
    """
    own = chip if link is None else replace(chip, link=link / 2)
    try:
        joined = deploy(own, rank_layout(ep))
    except InputError:
        if chip.like is None:
            raise
        joined = replace(deploy(chip.like, rank_layout(ep)), chip=own)
    if link is None or ep == 1:
        return joined
    inner, *outer = joined.cluster.levels
    cluster = replace(joined.cluster, levels=(replace(inner, bandwidth=link / 2), *outer))
    return replace(joined, cluster=cluster)


def physical(
    model: Model, phase: ReportPhase, rules: Rules, *, chip: Chip, batch: int, length: int, ep: int = 1,
    link: float | None = None,
) -> Physical:  # fmt: skip
    """One rank's step of `batch` sequences on a chip, or on `ep` chips.

    Raises InputError if the experts do not divide over the ranks.
    """
    rank = rank_of(model, ep)
    if phase == "training":
        return _training(model, rank, rules, chip, batch, length, ep, link)
    precision = formats_on(chip, model, rules)
    fmt = path_of(precision.ffn, precision.activations).compute
    analysis = analyze(rank, rank_step(phase, batch, length), precision=precision)
    try:
        asked = Setup(model, deployment(chip, ep, link), precision, engine_named("none"), CALIBRATED)
        e = step_estimate(asked, rank_step(phase, batch * ep, length), within=False)
        return Physical(analysis, fmt, float(e.time), chip.peak(fmt), str(e.bound))
    except InputError as error:
        return Physical(analysis, fmt, reason=str(error))


def _training(
    model: Model, rank: Model, rules: Rules, chip: Chip, batch: int, length: int, ep: int, link: float | None
) -> Physical:
    """All of a rank's sequences as one micro-batch, as in the rules."""
    fmt = near_format(chip, wanted_format(rules.weight_bytes))
    recipe = RECIPES.get(fmt, fmt)
    analysis = analyze(rank, training(batch, length, recipe=recipe, micro_batch=batch))
    step = training(batch * ep, length, recipe=recipe, micro_batch=batch)
    free = replace(model, context=None)  # as the rules, it asks for any length
    try:
        where = deployment(chip, ep, link)
        on = chip if ep == 1 else replace(where.cluster, chip=_known(where.chip).id)
        e = train_step(free, step, on=on, layout=where.layout)
    except InputError as error:
        return Physical(analysis, fmt, reason=str(error))
    return Physical(analysis, fmt, e.time, chip.peak(fmt), _bound(e))


def _known(chip: Chip) -> Chip:
    """The chip, if a cluster can name it. Raises InputError for a chip whose figures differ from those of its name."""
    named = chip_named(chip.id)
    if replace(named, name=chip.name, link=chip.link) != chip:
        raise InputError("roofline", chip.id, "a chip that a cluster can name, for a step of training on several")
    return chip


def _bound(e: TrainingEstimate) -> str:
    """What limits the passes, or what takes longer than they do."""
    between = e.reduction.expected + e.gathering.expected
    seconds = {"passes": e.passes.expected, "gradients": between, "optimizer": e.update.expected}
    longest = max(seconds, key=lambda name: float(seconds[name]))
    return str(e.micro(e.stages[0]).bound) if longest == "passes" else longest
