"""The target that ops run on: a chip, number formats, an engine and a cluster."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

from roofline.declared.errors import InputError, nearest
from roofline.declared.frozen_mapping import frozen
from roofline.engines.engine import Engine
from roofline.hardware.chip import Chip
from roofline.hardware.cluster import Cluster, of_chips
from roofline.hardware.tiers import MAIN, MemoryTier, TierPlaces
from roofline.kernels import law
from roofline.kernels.constants import Constants, constants_for, marlin_constants, worse
from roofline.model.formats import Format
from roofline.model.precision import Precision
from roofline.work import ops as o

Known = TypeVar("Known")
NOWHERE: TierPlaces = frozen({})
"""The placement of a chip that keeps everything in its main memory."""


@dataclass(frozen=True)
class Mode:
    """How times are predicted: `calibrated`, `ideal` (the floor), or `fixed` fractions of peak and bandwidth."""

    name: str
    mfu: float = 1.0
    mbu: float = 1.0


CALIBRATED, IDEAL = Mode("calibrated"), Mode("ideal")


@dataclass(frozen=True)
class Target:
    """A chip with the number formats in use, the engine that provides the kernels, and its cluster."""

    chip: Chip
    precision: Precision
    engine: Engine
    mode: Mode
    cluster: Cluster | None = None
    _known: dict[object, object] = field(default_factory=dict, init=False, compare=False, repr=False)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the inputs only: another process looks up the constants itself."""
        return type(self), (self.chip, self.precision, self.engine, self.mode, self.cluster)

    def constants(self, dtype: str, kind: str, software: str | None = None) -> Constants:
        """The fitted constants, with their grade. `software`: whose kernel, if not the engine's own."""
        return self._once((dtype, kind, software), lambda: self._constants(dtype, kind, software))

    def _constants(self, dtype: str, kind: str, software: str | None) -> Constants:
        software = software or self.engine.software
        if dtype.endswith(MARLIN):
            fitted = marlin_constants(self.chip, dtype.removesuffix(MARLIN), software)
        else:
            fitted = constants_for(self.chip, dtype, kind, software)
        slower = self.engine.factor(self.chip.generation, "arithmetic")
        if slower != 1 and kind in PRODUCTS:
            fitted = replace(fitted, record=replace(fitted.record, compute=fitted.record.compute / slower))
        if kind == "decode" and self.engine.rereads:
            record = replace(fitted.record, group=1.0, l2=self.engine.rereads)
            return replace(fitted, record=record, grade=worse(fitted.grade, "B"))
        return fitted

    def roof(self, fmt: str) -> law.Roof:
        """The chip with the peak of one format."""
        return self._once(fmt, lambda: roof_of(self.chip, fmt))

    def path(self, product: o.MatMul | o.ExpertMatMul) -> Path:
        """Execution path of a product, which depends on the format of its part of the model."""
        stored, activations = self.precision.chosen(product.part, product.format), self.precision.activations
        weights = stored
        if isinstance(product, o.MatMul) and product.absorbs and self.engine.widens:
            weights = activations
        weights = self.engine.multiplied(weights, self.chip)
        if isinstance(product, o.ExpertMatMul):
            return self._once(
                ("experts", weights),
                lambda: integer_path(experts_path(weights, activations, self.kernel(weights)), self.engine, self.chip),
            )
        fused, head = self.engine.fuses, self.engine.head
        marlin = self.engine.runs_marlin(stored, self.chip)
        wide = product.part == "head" and product.phase in ("forward", "recompute") and head in self.chip.peaks

        def running() -> Path:
            path = integer_path(path_of(weights, activations), self.engine, self.chip)
            path = unfused_path(kernel_path(path, self.kernel(weights)), weights, fused)
            path = marlin_path(path, weights) if marlin else path
            return replace(path, compute=head, weight=4.0, activation=4.0) if wide else path

        return self._once(("path", weights, marlin, wide), running)

    def quantising(self, dtype: str) -> Constants | None:
        """Constants of the quantise pass before products in a dtype, or fp8's if that dtype was measured without one.

        None if neither was measured with a pass, which is then an ordinary element-wise op. Without an engine, the pass
        is one kernel with per-token scales: constants over the rows of all engines would include TensorRT-LLM's two
        kernels with per-tensor scales, which no engine runs.
        """
        software = self.engine.software or ONE_PASS
        known = (constants_for(self.chip, each, "quantised_matmul", software) for each in (dtype, "fp8"))
        return next((c for c in known if c.record.passes), None)

    def reading(self, tier: MemoryTier | None, inside: bool = False) -> Target:
        """This target with one memory, from which all bytes come; `inside`: with the arithmetic at its own banks."""
        return self._once((tier, inside), lambda: replace(self, chip=_of_one_memory(self.chip, tier, inside)))

    def kernel(self, weights: Format) -> str | None:
        """Dtype of the engine's MoE kernel for weights in a format on this chip; None: the format's default kernel."""
        return self.engine.kernel(weights.name, self.chip.generation)

    @cached_property
    def joined(self) -> Cluster:
        """The cluster, or the chip alone."""
        return self.cluster or of_chips(1, self.chip)

    def _once(self, key: object, make: Callable[[], Known]) -> Known:
        """The cached result for a key, computed on first use."""
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]  # type: ignore[return-value]


def _of_one_memory(chip: Chip, tier: MemoryTier | None, inside: bool) -> Chip:
    """A chip whose memory is one of its own: the main one or a tier."""
    name = MAIN if tier is None else f"{tier.name}{' inside' * inside}"
    one = replace(
        chip, id=f"{chip.id} {name}", tiers=(), placement=NOWHERE, like=chip.like or chip.id,
        bandwidth=chip.bandwidth if tier is None else tier.bandwidth,
    )  # fmt: skip
    if not inside or tier is None or tier.inside is None or tier.inside_flops is None:
        return one
    return replace(one, bandwidth=tier.inside, peaks=frozen(dict.fromkeys(chip.peaks, tier.inside_flops)))


def mode_named(spec: str | Mode) -> Mode:
    """`calibrated`, `ideal`, or `fixed(mfu,mbu)` such as `fixed(0.5,0.8)`.

    Raises InputError for anything else, and for shares outside (0, 1].
    """
    if isinstance(spec, Mode):
        return spec
    text = spec.strip().lower().replace(" ", "") if isinstance(spec, str) else ""
    if text in ("calibrated", "ideal"):
        return CALIBRATED if text == "calibrated" else IDEAL
    expected = "calibrated, ideal or fixed(mfu,mbu) with shares in (0, 1]"
    if text.startswith("fixed(") and text.endswith(")"):
        parts = [p.partition("=")[2] or p for p in text[6:-1].split(",")]
        try:
            mfu, mbu = (float(p) for p in parts)
        except ValueError:
            raise InputError("law", spec, expected) from None
        if 0 < mfu <= 1 and 0 < mbu <= 1:
            return Mode("fixed", mfu, mbu)
    raise InputError("law", spec, expected, nearest(text, ("calibrated", "ideal")))


USUAL_UNITS, MOST_UNITS = 100, 2000
"""Units of a chip that gives none, and the most for which a unit is what a kernel's block runs on.

A wafer's 900,000 cores are each far smaller than a block, which takes many of them.
"""


def roof_of(chip: Chip, fmt: str) -> law.Roof:
    """The chip properties that the laws use, for work in a format.

    Data survives between kernels in a single last-level cache (Ada, GB202, CPUs), not in one split into two halves.
    """
    keeps = 1.0 if chip.kind == "cpu" or chip.generation in ("ada", "blackwell-rtx") else 0.0
    units = USUAL_UNITS if chip.units is None or chip.units > MOST_UNITS else chip.units
    return law.Roof(chip.peak(fmt), chip.bandwidth, chip.cache or 1.0, units, keeps)


# -- formats -------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Path:
    """How a product runs: the dtype of its constants, the compute format, bytes per value of weights and activations.

    `quantise`: bytes per activation moved by the quantise pass before the product, 0 without a pass. `slower`: factor
    on the time of a kernel that was measured with other weights.
    """

    dtype: str
    compute: str
    weight: float
    activation: float
    quantise: float = 0.0
    slower: float = 1.0


WIDE = ("fp32", "bf16", "fp16")
WEIGHT_ONLY = ("int8_wo", "int4_wo", "w4a16_mxfp4")
MARLIN = "_marlin"
"""End of the dtype of a product of weights in few bits that Marlin runs."""
MARLIN_FLOATS = 1.18
"""Time of Marlin's grouped products with mxfp4 weights over that by the law of its products with int4 weights: between
1.11 and 1.25 on six chips under two engines (`benchmarks/fit_marlin.py`). Assumed of its other floats, which are
widened by such bit operations too (csrc/quantization/marlin/dequant.h of vLLM), and of products one after another."""
PRODUCTS = ("matmul", "quantised_matmul", "experts")
"""Kinds of laws whose arithmetic an engine's factor slows."""
MXFP8 = 1 + 1 / 32
"""Bytes of an 8-bit activation with one scale for every 32 values."""
ONE_PASS = "sglang"
"""The software whose quantise pass is a single kernel."""
MXFP4 = 0.5 + 1 / 32
"""Bytes of a 4-bit activation with one scale for every 32 values."""


def wide_key(fmt: str | None) -> str:
    """The dtype whose constants a format of 16 bits or more uses: its own, or bf16 if it was not measured."""
    return fmt if fmt in WIDE else "bf16"


def path_of(weights: Format, activations: Format) -> Path:
    """Path of a product: weight-only formats compute at the activations' peak, others quantise the activations."""
    stored, wide = float(weights.stored_bits) / 8, float(activations.stored_bits) / 8
    plain = activations.compute or "bf16"
    if weights.compute is None:
        dtype = "int8_wo" if weights.bits >= 8 else "w4a16_mxfp4" if weights.name == "mxfp4" else "int4_wo"
        return Path(dtype, plain, stored, wide)
    if weights.compute == plain or weights.bits >= 16:
        return Path(wide_key(plain) if weights.bits >= 16 else weights.compute, plain, stored, wide)
    fmt = weights.compute
    if fmt == "fp8" and weights.scales == "block":
        return Path("fp8_block", fmt, stored, 1 + 4 / 128, 3 + 4 / 128)
    if fmt == "fp8":
        return Path("fp8", fmt, stored, 1.0, 3.0)
    if fmt == "int8":
        return Path("sq", fmt, stored, 1.0, 3.0)
    if fmt == "fp4":
        return Path("nvfp4", fmt, stored, 0.5625, 2.5625)
    return Path(wide_key(plain), plain, stored, wide)


def unfused_path(path: Path, weights: Format, fused: Collection[str]) -> Path:
    """Drop the quantise pass if the checkpoint has static scales or the engine fuses quantisation with the kernel
    before."""
    return replace(path, quantise=0.0) if weights.static or path.dtype in fused else path


def integer_path(path: Path, engine: Engine, chip: Chip) -> Path:
    """Compute in int8 if the engine rounds activations to 8 bits on this kind of chip.

    llama.cpp does so on CPUs for every quantised type (`vec_dot_type` in ggml/src/ggml-cpu/ggml-cpu.c).
    """
    quantised = path.dtype in WEIGHT_ONLY
    return (
        replace(path, compute="int8") if quantised and chip.kind in engine.integers and "int8" in chip.peaks else path
    )


def kernel_path(path: Path, kernel: str | None) -> Path:
    """Path of a product with native mxfp4 arithmetic (mxfp4 weights by mxfp4 activations); other paths unchanged."""
    if kernel != "mxfp4":
        return path
    return replace(path, dtype=kernel, compute="fp4", activation=MXFP4, quantise=2 + MXFP4)


def marlin_factor(weights: Format) -> float:
    """Time of Marlin's kernel with weights in a format over that with integers, which was measured."""
    return MARLIN_FLOATS if "fp" in weights.name else 1.0


def marlin_path(path: Path, weights: Format) -> Path:
    """Path of a product that Marlin runs; other paths unchanged."""
    if path.dtype not in WEIGHT_ONLY:
        return path
    dtype = path.dtype.replace("w4a16_mxfp4", "int4_wo")
    return replace(path, dtype=f"{dtype}{MARLIN}", slower=marlin_factor(weights))


def experts_path(weights: Format, activations: Format, kernel: str | None) -> Path:
    """Path of routed experts, with the engine's kernel or the format's default one; the kernel itself quantises.

    `w4a8_mxfp4_mxfp8` multiplies mxfp4 weights by 8-bit activations, `mxfp4` by mxfp4 activations; `bf16` first unpacks
    the weights to 16 bits; `marlin` widens them within the product. Of 8-bit weights alone no grouped product was
    measured: engines that have one run Marlin, which was with 4 bits.
    """
    own = kernel_path(path_of(weights, activations), kernel)
    if kernel == "w4a8_mxfp4_mxfp8":
        return replace(own, dtype=kernel, compute="fp8", activation=MXFP8)
    if kernel == "marlin" or own.dtype == "int8_wo":
        return replace(own, dtype="int4_wo", slower=marlin_factor(weights))
    if kernel == "bf16":
        return replace(own, dtype=wide_key(own.compute), weight=own.activation)
    return own
