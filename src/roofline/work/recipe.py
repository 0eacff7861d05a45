"""Training recipes and optimizers: bytes per weight, and FLOPs of an update.

A recipe gives the formats of the products, the weights, the gradients and the master copy. An optimizer gives the state
of a weight and the FLOPs to update it. For example, bf16 with fp32 gradients, master copy and Adam takes 2 + 4 + 4 + 8
= 18 bytes a weight (Megatron-LM); with bf16 gradients 16 (arXiv:1910.02054 §3.1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from types import MappingProxyType

from roofline.declared.errors import InputError, not_one_of
from roofline.declared.numbers.maths import Count
from roofline.declared.question import Settings
from roofline.model.formats import FORMATS, Format
from roofline.model.precision import ROLES, Precision, uniform

TRAINABLE = 8
"""Fewest bits of a weight that an optimizer can update."""


@dataclass(frozen=True)
class TrainingPrecision(Precision):
    """A precision that also has the formats of gradients and optimizer state."""

    gradients: Format = field(default=FORMATS["fp32"])
    optimizer: Format = field(default=FORMATS["fp32"])


@dataclass(frozen=True)
class Recipe:
    """Number formats of training. `products`: of the products of layers. `stream`: of the activations between them, the
    embedding and the head.

    `weights`: storage format for the passes. `gradients`: accumulation format. `master`: format of the copy that the
    optimizer updates, None where it updates the weights themselves. `gathers`: format in which sharded weights are
    gathered, None for the storage format. `matrices`: storage format of the matrices of layers, None for that of all
    weights; matrices in a format that cannot be trained are frozen. `activated`: format in which inputs of activation
    functions are kept for the backward pass, None for the stream's (Megatron-LM, `activation_func_fp8_input_store`).
    `attended`: format in which attention's output is kept once, for its own backward pass and for the next product
    (arXiv:2412.19437 §3.3.3), None where each keeps its own copy.
    """

    name: str
    about: str
    products: str
    stream: str
    weights: str
    gradients: str
    master: str | None
    gathers: str | None = None
    matrices: str | None = None
    activated: str | None = None
    attended: str | None = None

    def precision(self, optimizer: Optimizer) -> TrainingPrecision:
        """The formats of every role, including gradients and optimizer state."""
        base = uniform(FORMATS[self.stream]).with_roles(weights=FORMATS[self.products])
        roles = {role: getattr(base, role) for role in ROLES}
        return TrainingPrecision(
            **roles, own=frozenset(), gradients=FORMATS[self.gradients], optimizer=self.state(optimizer)
        )

    def state(self, optimizer: Optimizer) -> Format:
        """All optimizer state of one weight as a single format: its moments and the master copy."""
        master = Fraction(0) if self.master is None else FORMATS[self.master].stored_bits
        return Format(optimizer.name, master + optimizer.bits)


RECIPES: Mapping[str, Recipe] = MappingProxyType({
    r.name: r
    for r in (
        Recipe("bf16", "bf16 throughout, gradients and master in fp32", "bf16", "bf16", "bf16", "fp32", "fp32"),
        Recipe("bf16-gradients", "bf16 gradients, master in fp32", "bf16", "bf16", "bf16", "bf16", "fp32"),
        Recipe("bf16-pure", "bf16 throughout, no master copy", "bf16", "bf16", "bf16", "bf16", None),
        Recipe("fp16", "fp16 with fp32 gradients and master", "fp16", "fp16", "fp16", "fp32", "fp32"),
        Recipe("fp32", "fp32 throughout", "fp32", "fp32", "fp32", "fp32", None),
        Recipe("fp8", "products in fp8, per tensor; weights kept in bf16", "fp8", "bf16", "bf16", "fp32", "fp32"),
        Recipe(
            "fp8-block", "products in fp8, in blocks (DeepSeek-V3)", "fp8-block", "bf16", "bf16", "fp32", "fp32",
            attended="bf16",
        ),
        Recipe("mxfp8", "products in mxfp8", "mxfp8", "bf16", "bf16", "fp32", "fp32"),
        Recipe("qlora", "frozen nf4 weights (arXiv:2305.14314)", "nf4-double", "bf16", "nf4-double", "fp32", "fp32"),
        Recipe("nvfp4", "products in nvfp4", "nvfp4", "bf16", "bf16", "fp32", "fp32"),
        # The optimizer updates fp32 shards themselves, which are gathered in bf16 (torch/distributed/fsdp,
        # `MixedPrecisionPolicy`: param_dtype of what is gathered, reduce_dtype of gradients).
        Recipe("bf16-mixed", "bf16, weights kept in fp32", "bf16", "bf16", "fp32", "fp32", None, gathers="bf16"),
        Recipe("fp8-mixed", "fp8 products, weights kept in fp32", "fp8", "bf16", "fp32", "fp32", None, gathers="bf16"),
        # TransformerEngine's `fp8_model_init`: matrices of layers in fp8 with no copy in bf16; the transposed copy that
        # kernels of Hopper want too is not counted.
        Recipe("fp8-primary", "layers kept in fp8", "fp8", "bf16", "bf16", "fp32", "fp32", matrices="fp8"),
    )
})  # fmt: skip


@dataclass(frozen=True)
class Optimizer:
    """`bits` of state per weight besides a master copy; `flops` per update of a weight; Newton–Schulz `rounds`.

    `paged`: its moments move to host memory where the device lacks room (unified memory, arXiv:2305.14314 §3).
    Optimizers of matrices: `other_bits` of state for a weight outside matrices, None for the same; `factors` bits for
    each row and each column; `sides` bits for each element of a square of either side; `ends`: embeddings and heads are
    among the matrices.
    """

    name: str
    about: str
    bits: Fraction
    flops: int
    rounds: int = 0
    paged: bool = False
    other_bits: Fraction | None = None
    factors: int = 0
    sides: int = 0
    ends: bool = True

    @property
    def others(self) -> Fraction:
        """Bits of state of a weight outside matrices."""
        return self.bits if self.other_bits is None else self.other_bits

    @property
    def elementwise(self) -> bool:
        """Whether the state is the same for every weight, whatever matrix it is in."""
        return not (self.factors or self.sides) and self.others == self.bits


LARGEST_SIDE = 10_000
"""Longest side of a matrix that SOAP preconditions (its authors' soap.py, max_precond_dim)."""
EIGENVECTORS_EVERY = 10
"""Steps between updates of SOAP's eigenvectors (arXiv:2409.11321 §5, the frequency of most of its runs)."""
EIGHT_BITS = 2 * (8 + Fraction(32, 2048))
"""Two 8-bit moments, each with an fp32 scale for 2048 values (arXiv:2110.02861 §2.1)."""
OPTIMIZERS: Mapping[str, Optimizer] = MappingProxyType({
    x.name: x
    for x in (
        Optimizer("adamw", "two moments in fp32 (arXiv:1711.05101)", Fraction(64), 15),
        Optimizer("adamw-bf16", "two moments in bf16", Fraction(32), 15),
        Optimizer("adam8bit", "two moments in 8 bits (arXiv:2110.02861)", EIGHT_BITS, 21),
        Optimizer("paged-adamw", "two moments in fp32, paged", Fraction(64), 15, paged=True),
        Optimizer("paged-adam8bit", "two moments in 8 bits, paged (arXiv:2305.14314)", EIGHT_BITS, 21, paged=True),
        Optimizer(
            "adafactor", "second moment by rows and columns, no first (arXiv:1804.04235)", Fraction(0), 12,
            other_bits=Fraction(32), factors=32,
        ),
        Optimizer(
            "muon", "one momentum, orthogonalised in 5 rounds; else AdamW (Jordan et al. 2024)", Fraction(32), 6, 5,
            other_bits=Fraction(64), ends=False,
        ),
        Optimizer(
            "soap", "Adam in the eigenbasis of Shampoo's preconditioner (arXiv:2409.11321)", Fraction(64), 15, sides=64
        ),
        Optimizer("lion", "one momentum in fp32, whose sign is the update (arXiv:2302.06675)", Fraction(32), 11),
        Optimizer("sgd", "no state", Fraction(0), 2),
        Optimizer("momentum", "SGD with momentum in fp32", Fraction(32), 4),
    )
})  # fmt: skip
"""FLOPs per weight: AdamW 3 + 4 for the moments, 2 bias corrections, root, sum, quotient, 2 decay and 2 update.
Lion 3 + 3 for what is updated by and what is kept, a sign, 2 decay and 2 update."""


CHANGES: Mapping[str, tuple[str, ...]] = MappingProxyType({
    "gradients": ("fp32", "bf16", "fp16"), "master": ("fp32", "none"), "matrices": ("bf16", "fp8", "nvfp4"),
    "activated": ("fp8",), "attended": ("bf16",),
})  # fmt: skip
"""Formats of a recipe that may be changed: `fp8(gradients=bf16,matrices=fp8)`; the master copy may be none."""


def recipe_named(name: str | Recipe) -> Recipe:
    """The recipe of that name, with some of its formats changed: `fp8`, or `fp8(gradients=bf16,matrices=fp8)`.

    Raises InputError, with the nearest, for a name, a setting or a format that is not known.
    """
    if isinstance(name, Recipe):
        return name
    base, bracket, inside = name.strip().partition("(") if isinstance(name, str) else (name, "", "")
    if base not in RECIPES:
        raise not_one_of("recipe", name, RECIPES)
    if not bracket:
        return RECIPES[base]
    if not inside.endswith(")"):
        raise InputError("recipe", name, f"{base} or {base}(gradients=bf16,matrices=fp8,activated=fp8)")
    return _changed(RECIPES[base], inside[:-1])


def _changed(recipe: Recipe, inside: str) -> Recipe:
    """The recipe with comma-separated changes such as gradients=bf16. Its name lists the effective ones in the order of
    CHANGES."""
    given: dict[str, str] = {}
    for word in inside.split(","):
        key, _, value = (part.strip() for part in word.partition("="))
        if key not in CHANGES:
            raise not_one_of("recipe", key, CHANGES)
        if value not in CHANGES[key]:
            raise not_one_of(f"recipe.{key}", value, CHANGES[key])
        if given.setdefault(key, value) != value:
            raise InputError(f"recipe.{key}", value, "given once")
    usual = {
        "gradients": recipe.gradients, "master": recipe.master or "none", "matrices": recipe.matrices or recipe.weights,
        "attended": recipe.attended,
    }  # fmt: skip
    new = {key: given[key] for key in CHANGES if key in given and given[key] != usual.get(key)}
    if not new:
        return recipe
    settings = ",".join(f"{key}={value}" for key, value in new.items())
    values: Settings = {key: None if value == "none" else value for key, value in new.items()}
    return replace(recipe, name=f"{recipe.name}({settings})", **values)


def optimizer_named(name: str | Optimizer) -> Optimizer:
    """The optimizer of that name, or an InputError with the nearest."""
    if isinstance(name, Optimizer):
        return name
    if name not in OPTIMIZERS:
        raise not_one_of("optimizer", name, OPTIMIZERS)
    return OPTIMIZERS[name]


def soap_flops(rows: Count, columns: Count, left: Count, right: Count) -> Count:
    """FLOPs of SOAP's products for an r × c matrix, of whose sides `left` and `right` are preconditioned, else 0.

    8·r·c·(l + r') with l and r' the sides kept: gradient and momentum into the eigenbasis, the update out of it, and
    the covariance (arXiv:2409.11321, algorithm 3, lines 3, 5, 8, 10). A side s has 2·s³ for the power iteration and
    8/3·s³ for its QR decomposition with Q, every f-th step (algorithm 4; Golub and Van Loan, §5.2).
    """
    power = 14 * (left * left * left + right * right * right)
    return 8 * rows * columns * (left + right) + power / (3 * EIGENVECTORS_EVERY)


def newton_schulz_flops(rows: Count, columns: Count, rounds: int) -> Count:
    """FLOPs of orthogonalising a matrix: a round is X·Xᵀ, (X·Xᵀ)², and their product with X, on the shorter side.

    rounds · 2·(2·s²·l + s³) for an s × l matrix with s ≤ l (Muon, Jordan et al. 2024, quintic iteration).
    """
    from roofline.declared.numbers.maths import least, most

    short, long = least(rows, columns), most(rows, columns)
    return rounds * 2 * (2 * short * short * long + short * short * short)
