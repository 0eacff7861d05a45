"""Memory traffic conventions: for each, a table from the kind of op to the elements that move.

`floor`     a lower bound: each weight touched is read once, the cache is read and written once, the embedding rows
            are read and the logits written.
`fused`     as flash attention and fused elementwise kernels do: every matrix product, attention, scan and convolution
            reads its inputs and writes its output; an elementwise op reads only what it takes in beyond its output
            (the second stream of a gate, the residual); scores and probabilities stay on the chip.
`unfused`   every op reads and writes everything, scores and probabilities included.
`original`  as transformer-roofline-analyzer counts: layers only, keys and values of the whole context as attention's
            input, one weight more in a norm, weights once for every routed choice.
`llm-para`  as LLM-para counts: layers only; scores leave one kernel and enter the next, keys and values of the whole
            context come from the cache, RoPE reads its angles, a gated product writes the gated half, all experts in
            a prefill and top-k of them in a decode; norms, residuals and activations move nothing.

Each convention accepts factors on its bytes by role, `fused(weights=0.5,activations=0.8)`, for example for weights that
stay on the chip from step to step, or for more fusion. The result may be below `floor`; `Analysis.below_floor` reports
that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from types import MappingProxyType

from roofline.declared.errors import InputError, not_one_of
from roofline.declared.numbers.maths import Count, half, most
from roofline.model.kind_table import KindTable, OfKind
from roofline.model.precision import Precision
from roofline.work import ops as o


@dataclass(frozen=True)
class Moved:
    """Elements or bytes that cross memory, by role."""

    weight: Count = 0
    vector: Count = 0
    input: Count = 0
    output: Count = 0
    cache_read: Count = 0
    cache_write: Count = 0
    scratch: Count = 0

    @property
    def weights(self) -> Count:
        """Matrices, biases and norms."""
        return self.weight + self.vector

    @property
    def activations(self) -> Count:
        """Inputs, outputs and scratch."""
        return self.input + self.output + self.scratch

    @property
    def cache(self) -> Count:
        """KV cache and recurrent state, read and written."""
        return self.cache_read + self.cache_write

    @property
    def total(self) -> Count:
        """Sum of all roles."""
        return self.weights + self.activations + self.cache


TrafficRule = OfKind[Moved]


@dataclass(frozen=True)
class Factors:
    """Factors on the bytes of each role: weights, inputs and outputs, cache and state, scores."""

    weights: float = 1.0
    activations: float = 1.0
    cache: float = 1.0
    scratch: float = 1.0

    def of(self, moved: Moved) -> Moved:
        """The bytes times the factors; exact ints where a factor is 1."""

        def times(factor: float, value: Count) -> Count:
            return value if factor == 1 else factor * value

        w, a, c = self.weights, self.activations, self.cache
        return Moved(
            times(w, moved.weight), times(w, moved.vector), times(a, moved.input), times(a, moved.output),
            times(c, moved.cache_read), times(c, moved.cache_write), times(self.scratch, moved.scratch),
        )  # fmt: skip


@dataclass(frozen=True)
class Traffic:
    """A traffic convention: its rule for each kind of op, whether it covers layers only, and factors on its bytes."""

    name: str
    about: str
    rules: KindTable[TrafficRule]
    layers_only: bool = False
    factors: Factors | None = None

    def __reduce__(self) -> str | tuple[object, ...]:
        """Pickle built-in conventions by name."""
        ours = TRAFFICS.get(self.name.partition("(")[0])
        if ours is not None and ours.rules is self.rules:
            return traffic_named, (self.name,)
        return object.__reduce_ex__(self, 2)

    def plain(self) -> str:
        """Name of the convention in results."""
        return self.name

    @property
    def unfused(self) -> bool:
        """Whether every op moves everything that it reads and writes."""
        return self.rules is UNFUSED.rules

    def elements(self, op: o.Op) -> Moved:
        """Elements of one op by role."""
        return self.rules[type(op)](op)

    def bytes(self, op: o.Op, precision: Precision) -> Moved:
        """Bytes of one op by role: the elements moved times the width of the role's format."""
        moved, activations = self.elements(op), precision.activations
        cache = getattr(precision, op.store)
        stored = Moved(
            weight=precision.chosen(op.part, op.format).bytes(moved.weight),
            vector=precision.other.bytes(moved.vector),
            input=activations.bytes(moved.input),
            output=activations.bytes(moved.output),
            cache_read=cache.bytes(moved.cache_read),
            cache_write=cache.bytes(moved.cache_write),
            scratch=activations.bytes(moved.scratch),
        )
        return stored if self.factors is None else self.factors.of(stored)


PRODUCTS = (o.MatMul, o.ExpertMatMul)
SCANS = (o.Selective, o.Dual, o.Delta, o.LinearAttend, o.Recur, o.Memorise)
ELEMENTWISE = (o.Normalise, o.Rotate, o.Activate, o.Sum, o.Scale, o.Choose)
REST = (o.Score, o.Lookup, o.Convolve, o.Shift, *SCANS, o.Communicate, o.Backward, o.Loss, o.Update)
KINDS = (*PRODUCTS, o.Attend, *ELEMENTWISE, *REST)


def everything(op: o.Op) -> Moved:
    """Everything that the op reads and writes; scratch is both written and read."""
    return Moved(op.weight, op.vector, op.input, op.output, op.cache_read, op.cache_write, 2 * op.scratch)


_UNFUSED: KindTable[TrafficRule] = KindTable("unfused traffic", o.Op)
_UNFUSED.add(everything, *KINDS)
UNFUSED = Traffic("unfused", "every module reads and writes everything", _UNFUSED)


# -- fused ---------------------------------------------------------------------------------------------------------
def through_memory(op: o.Op) -> Moved:
    """Inputs and output; scratch, such as attention scores, stays on the chip."""
    return Moved(op.weight, op.vector, op.input, op.output, op.cache_read, op.cache_write)


def with_neighbours(op: o.Op) -> Moved:
    """Elementwise work is fused with its neighbours: it reads input − output elements more, and writes nothing."""
    return Moved(op.weight, op.vector, op.input - op.output)


def flash(op: o.Attend) -> Moved:
    """Attention, with or without its scores kept on the chip."""
    return through_memory(op) if op.flash else everything(op)


_FUSED: KindTable[TrafficRule] = KindTable("fused traffic", o.Op)
_FUSED.add(through_memory, *PRODUCTS, *REST)
_FUSED.add(with_neighbours, *ELEMENTWISE)
_FUSED.add(flash, o.Attend)
FUSED = Traffic("fused", "flash attention, elementwise work fused into its neighbours", _FUSED)


# -- floor ---------------------------------------------------------------------------------------------------------
def weights_and_cache(op: o.Op) -> Moved:
    """Weights and cache, which no fusion can avoid."""
    return Moved(op.weight, op.vector, cache_read=op.cache_read, cache_write=op.cache_write)


def and_logits(op: o.MatMul) -> Moved:
    """Weights and cache, and the output where it is the model's own."""
    moved = weights_and_cache(op)
    return replace(moved, output=op.output) if op.part == "head" else moved


def rows_once(op: o.Lookup) -> Moved:
    """The looked-up rows of a table, unless the head reads the whole table anyway."""
    return replace(weights_and_cache(op), weight=0 if op.shared else op.weight)


_FLOOR: KindTable[TrafficRule] = KindTable("floor traffic", o.Op)
_FLOOR.add(and_logits, o.MatMul)
_FLOOR.add(rows_once, o.Lookup)
_FLOOR.add(weights_and_cache, *(kind for kind in KINDS if kind not in _FLOOR))
FLOOR = Traffic("floor", "each weight, cache entry and logit once", _FLOOR)


# -- transformer-roofline-analyzer ---------------------------------------------------------------------------------
def original_attend_moved(op: o.Attend) -> Moved:
    """Queries, and keys and values of the whole context as input."""
    keys = op.kv_width * op.kv_tokens
    return Moved(input=op.heads * op.qk_dim * op.tokens + keys, output=op.output)


def original_norm(op: o.Normalise) -> Moved:
    """Input, output, and one weight more than the norm's width."""
    return Moved(vector=op.width + 1, input=op.input, output=op.output)


def original_experts_moved(op: o.ExpertMatMul) -> Moved:
    """Weights read once for every routed choice."""
    return Moved(weight=op.k * op.n * op.top_k, input=op.input, output=op.output)


def original_op(op: o.Op) -> Moved:
    """Weight matrices, inputs and outputs."""
    return Moved(weight=op.weight, input=op.input, output=op.output)


_ORIGINAL: KindTable[TrafficRule] = KindTable("original traffic", o.Op)
_ORIGINAL.add(original_attend_moved, o.Attend)
_ORIGINAL.add(original_norm, o.Normalise)
_ORIGINAL.add(original_experts_moved, o.ExpertMatMul)
_ORIGINAL.add(original_op, *(kind for kind in KINDS if kind not in _ORIGINAL))
ORIGINAL = Traffic("original", "transformer-roofline-analyzer's, layers only", _ORIGINAL, layers_only=True)


# -- LLM-para ------------------------------------------------------------------------------------------------------
def llm_para_attend(op: o.Attend) -> Moved:
    """Scores leave one kernel and enter the next. q·kᵀ alone has no v_dim, the product with the values no qk_dim."""
    queries, values = op.heads * op.qk_dim * op.tokens, op.heads * op.v_dim * op.tokens
    scores = op.heads * op.square
    return Moved(
        input=queries + (scores if op.v_dim else 0),
        output=values + (scores if op.qk_dim else 0),
        cache_read=op.kv_width * op.kv_tokens,
    )


def llm_para_experts(op: o.ExpertMatMul) -> Moved:
    """All experts in a prefill, top-k of them in a decode; half of a gated product's output is written."""
    output = _gated_half(op, op.gated and op.up)
    return Moved(weight=op.k * op.n * experts_read(op), input=op.input, output=output)


def llm_para_matmul(op: o.MatMul) -> Moved:
    """As `fused`, but half of a gated product's output is written."""
    return Moved(op.weight, op.vector, op.input, _gated_half(op, op.gated))


def llm_para_rotate_moved(op: o.Rotate) -> Moved:
    """RoPE reads its angles."""
    return Moved(vector=op.angles, input=op.input, output=op.output)


def nothing_moved(op: o.Op) -> Moved:
    """No byte."""
    return Moved()


def experts_read(op: o.ExpertMatMul) -> Count:
    """Experts whose weights LLM-para reads: all in a prefill, at most top-k in a decode with any batch size."""
    return op.experts - op.decoding * most(op.experts - op.top_k, 0)


def _gated_half(op: o.Op, gated: bool) -> Count:
    """The output of a product; half of it where the product makes a gate and its partner."""
    return half(op.output) if gated and op.phase in ("forward", "recompute") else op.output


_LLM_PARA: KindTable[TrafficRule] = KindTable("llm-para traffic", o.Op)
_LLM_PARA.add(llm_para_attend, o.Attend)
_LLM_PARA.add(llm_para_experts, o.ExpertMatMul)
_LLM_PARA.add(llm_para_matmul, o.MatMul)
_LLM_PARA.add(llm_para_rotate_moved, o.Rotate)
_LLM_PARA.add(nothing_moved, o.Normalise, o.Activate, o.Sum, o.Scale, o.Choose)
_LLM_PARA.add(everything, *REST)
LLM_PARA = Traffic("llm-para", "LLM-para's: scores in memory, top-k experts in decode; layers only", _LLM_PARA, True)

TRAFFICS: Mapping[str, Traffic] = MappingProxyType({t.name: t for t in (FLOOR, FUSED, UNFUSED, ORIGINAL, LLM_PARA)})


def traffic_named(name: str | Traffic) -> Traffic:
    """The convention of that name, with factors in brackets where given; an InputError for any other."""
    if isinstance(name, Traffic):
        return name
    base, bracket, rest = str(name).partition("(")
    if base not in TRAFFICS:
        raise not_one_of("traffic", base, TRAFFICS)
    if not bracket:
        return TRAFFICS[base]
    given = dict(_factor(pair) for pair in rest.removesuffix(")").split(","))
    factors = Factors(**given)
    text = ",".join(f"{role}={value:g}" for role, value in given.items())
    return replace(
        TRAFFICS[base], name=f"{base}({text})", about=f"{TRAFFICS[base].about}; times {text}", factors=factors
    )


def _factor(pair: str) -> tuple[str, float]:
    role, _, text = (word.strip() for word in pair.partition("="))
    roles = [f.name for f in fields(Factors)]
    if role not in roles:
        raise not_one_of("traffic factor", role, roles)
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < float("inf"):
        raise InputError(f"traffic factor {role}", text, "a positive number")
    return role, value
