"""A training step: forward pass, gradients of inputs and weights, recomputation, and the activations kept meanwhile.

The backward pass of an op follows from its kind, so a new family of models needs nothing here. FLOPs follow the
counting convention: each of a product's two gradients costs as much as the product, and attention's backward twice its
forward (dV, dP, dQ, dK). What flash attention recomputes inside its kernel counts as time, not as model FLOPs.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Annotated, Literal, TypeAlias, get_args

from roofline.declared.checks import count
from roofline.declared.errors import InputError, nearest, not_one_of
from roofline.declared.kinds import Given, Names, NamesOrLists, PackText, Sequences, Switch, Text, Whole, Word, Words
from roofline.declared.numbers.maths import Count, ceil_div, least, some
from roofline.declared.question import Settings, group
from roofline.model.formats import Format
from roofline.model.kind_table import KindTable, OfKind
from roofline.model.modules import Module
from roofline.work import ops as o
from roofline.work.checkpointing import again_by_op, check_layers, check_offloaded
from roofline.work.lower import lower
from roofline.work.packing import Packed, packed, packs
from roofline.work.recipe import Optimizer, Recipe, TrainingPrecision, optimizer_named, recipe_named
from roofline.work.step import Queries, Step
from roofline.work.step import replace as changed

Recompute: TypeAlias = Literal["none", "selective", "op", "full"]
RECOMPUTE: tuple[Recompute, ...] = get_args(Recompute)
OFFLOADS = ("optimizer", "activations", "parameters", "gradients")
OVERLAPS = ("dp", "tp", "ep", "cp", "pp")
"""Layout axes whose communication may overlap with work."""
TRAVELS = ("fp32", "bf16", "fp16", "fp8")
"""Formats in which weights may be gathered; gradients may be reduced in all but the last."""
LossKind: TypeAlias = Literal["in-place", "eager", "compiled", "chunked", "fused", "cut"]
CHUNKS = 8
"""Parts of a chunked loss (torchtune, modules/loss/ce_chunked_output_loss.py)."""
LOSSES: tuple[LossKind, ...] = get_args(LossKind)
UNSTORED: tuple[LossKind, ...] = ("fused", "cut")
"""Losses whose logits are made and used piece by piece."""
SCHEDULES = ("gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "zb-v", "dualpipe", "dualpipev")
V_SHAPED = ("zb-v", "dualpipev")
"""Schedules of two chunks per stage in the shape of a V: stage i of p has chunks i and 2p − 1 − i, so that the first
stage has both ends of the model."""
CHUNKED = ("interleaved", *V_SHAPED)
"""Schedules whose stages have several chunks."""
FACING = ("dualpipe", "dualpipev")
"""Schedules that run the forward of one micro-batch beside the backward of another, so that each hides the other's
exchange of tokens with the experts (arXiv:2412.19437 §3.2.1)."""


@dataclass(frozen=True, init=False)
class Training(Step):
    """Sequences to train on: a step with a backward pass, and logits for every token.

    `recompute`: what is recomputed in the backward pass: none; selective, the core of attention; op, everything except
    every second product, attention and reduce-scatters; full, whole layers; or the modules listed by name. It applies
    to `recompute_layers` layers of a stage, or to every `recompute_every`-th layer, else to all. `flash`: attention
    keeps its scores on the chip (FlashAttention); otherwise it runs kernel by kernel. `loss`: how cross-entropy stores
    its logits; None is the engine's way, in place by default. in place: the logits, and an fp32 copy that becomes
    softmax and gradient (Megatron-LM, core/tensor_parallel/cross_entropy.py). eager: three fp32 copies at the peak, in
    its backward pass: the log-softmax, its gradient and that of the logits (PyTorch's `cross_entropy(logits.float(),
    …)`). compiled: the logits and their gradient, with fp32 values in registers (Inductor's fused kernels, and
    flash-attention's `CrossEntropyLoss`, which llm-foundry runs). chunked: the logits and an eighth of their gradient
    (torchtune's `CEWithChunkedOutputLoss`, compiled). fused: none, as logits are made and used piece by piece, with
    their gradient at once (arXiv:2410.10989 §3.2). cut: none, but the head's product runs again in the backward pass
    (arXiv:2411.09009 §4). `recipe` and `optimizer`: formats of weights, gradients and optimizer state. `micro_batch`:
    sequences processed together. `schedule`: the order in which pipeline stages process micro-batches. `overlap`: the
    axes whose communication overlaps with work, None for the engine's own: `dp`, gradients and gathered weights with
    the passes; `tp`, collectives in pieces with the products that use or make them; `ep`, the token exchange with
    another micro-batch's work; `cp`, a ring's keys and values with attention; `pp`, sends to the next stage with work.
    `offload`: what is stored in host memory: the `optimizer` state, `activations` (of `offload_layers` layers of a
    stage, else of all), `parameters` (a rank's share) or `gradients`.

    `lengths`: the sequences packed into each sequence of the batch, as (length, number), the mean number where lengths
    are drawn; tokens attend within their own. `reshard`: free gathered weights after the forward pass and gather them
    again for the backward (FSDP's reshard_after_forward). `no_sync`: keep whole gradients over the micro-batches of a
    step and reduce once. `gather_format`, `reduce_format`: communication formats of weights and gradients, None for the
    recipe's; fp8 applies to matrices of layers (torchao's float8 all-gather). `optimizer_in_backward`: apply and free
    each gradient as soon as it is computed.
    """

    recompute: Recompute | tuple[str, ...]
    flash: bool
    loss: LossKind | None
    recipe: Recipe
    optimizer: Optimizer
    micro_batch: Count
    schedule: str
    overlap: tuple[str, ...] | None
    offload: tuple[str, ...]
    recompute_layers: int | None
    recompute_every: int | None
    offload_layers: int | None
    lengths: Packed
    reshard: bool
    no_sync: bool
    gather_format: str | None
    reduce_format: str | None
    optimizer_in_backward: bool

    @property
    def batch(self) -> Count:
        """Sequences of the step; packs where sequences are packed."""
        first = self.queries[0]
        return packs(first.count, self.lengths[0][1]) if self.lengths else first.count

    @property
    def tokens_each(self) -> Count:
        """Tokens of a sequence, or of a pack."""
        return round(sum(length * n for length, n in self.lengths)) if self.lengths else self.queries[0].new

    @property
    def fused_loss(self) -> bool:
        """Whether the loss is fused with the head, so that logits are never stored."""
        return self.loss in UNSTORED

    @cached_property
    def precision(self) -> TrainingPrecision:
        """The formats of every role."""
        return self.recipe.precision(self.optimizer)


@group
@dataclass(frozen=True, kw_only=True)
class PassOptions:
    """Options of a replica's passes: micro-batch size, schedule and recomputation."""

    micro_batch: Annotated[Sequences, "Sequences that pass through a replica together."] = 1
    schedule: Annotated[
        Word | None,
        "Of the pipeline: `gpipe`, `1f1b`, `interleaved` (with vp in the layout), `zb-h1`, `zb-h2`, "
        "`dualpipe`, `zb-v` and `dualpipev` (both with vp=2). Default: the stack's own, else `interleaved` where the "
        "layout has `vp`, else `1f1b`.",
    ] = None
    recompute: Annotated[
        Words | None,
        "`none`, `selective` (attention's core), `op` (every second product, and everything but products and "
        "attention), `full`, or names of modules, each followed by a comma. Default: what the stack does, else `none`; "
        "without a layout what is fastest.",
    ] = None


@group
@dataclass(frozen=True, kw_only=True)
class StepOptions:
    """Options of a training step other than those of its passes, with their defaults.

    `overlap`: None or True for the engine's own, False or `none` for none, or a list of axes.
    """

    recipe: Annotated[
        Word | Recipe | None,
        "Formats of products, weights, gradients and master: `bf16`, `bf16-gradients`, `bf16-pure`, `fp16`, `fp32`, "
        "`fp8`, `fp8-block`, `mxfp8`, `nvfp4`, `qlora` (with lora). With FSDP also `bf16-mixed` and `fp8-mixed`: "
        "fp32 weights, gathered in bf16. `fp8-primary` keeps matrices of layers in fp8. Formats of a recipe can be "
        "changed: `fp8(gradients=bf16,matrices=fp8,activated=fp8)`; `activated` is the format of the inputs of "
        "activation functions. `attended=bf16` keeps attention's output once, as `fp8-block` does (default: the "
        "stack's, or `bf16`).",
    ] = None
    optimizer: Annotated[
        Word | Optimizer | None,
        "`adamw`, `adamw-bf16`, `adam8bit`, `adafactor`, `muon`, `soap`, `lion`, `momentum`, `sgd`; `paged-adamw`, "
        "`paged-adam8bit` (state in the host's memory where there is no room) (default: the stack's, or `adamw`).",
    ] = None
    offload: Annotated[
        NamesOrLists | None,
        "What lives in the host's memory: `optimizer`, `activations`, `parameters` (zero=3), `gradients` (zero=2, 3).",
    ] = None
    offload_layers: Annotated[
        Whole | None, "Layers of each stage whose activations live there, with `offload=activations` (default: all)."
    ] = None
    flash: Annotated[Switch, "Attention keeps its scores on the chip; without, it runs kernel by kernel."] = True
    loss: Annotated[
        Word | None,
        "How cross-entropy keeps its logits: `in-place` (6 bytes each, Megatron-LM), `eager` (12, PyTorch), `compiled` "
        "(4), `chunked` (2.25), `fused` and `cut` (0; `cut` runs the head twice). Default: as the engine does.",
    ] = None
    fused_loss: Annotated[Switch, "The same as `loss=fused`."] = False
    overlap: Annotated[
        bool | Names | None,
        "Communication that overlaps with compute, separated by commas, or `none` (default: as the engine does). `dp`: "
        "gradients and gathered weights. `tp`: collectives in pieces, during their products. `ep`: exchanges of "
        "tokens, during another micro-batch. `cp`: a ring's keys and values. `pp`: activations between stages.",
    ] = None
    recompute_layers: Annotated[Whole | None, "Layers of each stage that are run again, the others not."] = None
    recompute_every: Annotated[Whole | None, "The same of each second, third … layer."] = None
    lengths: Annotated[
        PackText | None,
        "Sequences that are packed into one, such as `4096,512x8`, which add up to `tokens`; or how their lengths are "
        "drawn: `lognormal(MEAN,CV)` or `uniform(LOW,HIGH)`, where longer ones are cut.",
    ] = None
    reshard: Annotated[
        Switch,
        "With zero=3, weights gathered for the forward pass are freed and gathered again for the backward; if "
        "off, they stay (reshard_after_forward=False).",
    ] = True
    no_sync: Annotated[
        Switch, "With zero=2 or 3, gradients are kept whole over the micro-batches of a step, and reduced once."
    ] = False
    gather_format: Annotated[
        Text | None,
        "Format in which weights are gathered: `fp32`, `bf16`, `fp16`, or `fp8` for matrices of layers (default: the "
        "recipe's).",
    ] = None
    reduce_format: Annotated[
        Text | None, "Format in which gradients are reduced: `fp32`, `bf16`, `fp16` (default: the recipe's)."
    ] = None
    optimizer_in_backward: Annotated[
        Switch, "Each gradient is applied at once and freed; needs one micro-batch per step."
    ] = False


@group
@dataclass(frozen=True, kw_only=True)
class TrainingOptions(StepOptions, PassOptions):
    """All options of a training step, with their defaults; `Training` describes each."""


USUAL_OPTIONS = TrainingOptions()
USUAL: Settings = {"schedule": "1f1b", "recompute": "none", "recipe": "bf16", "optimizer": "adamw"}
"""Options of a step that neither a call nor a stack sets."""


def training(batch: Count = 1, tokens: Count = None, **options: Given) -> Training:
    """A step on `batch` sequences of `tokens` tokens each, forward and backward.

    The batch is over all data-parallel replicas; `options` are those of `TrainingOptions`.

    Raises InputError for sizes that are not whole and a recompute that is none of none, selective, full or a list of
    module names.
    """
    return training_step(batch, tokens, TrainingOptions(**options))


def training_step(batch: Count, tokens: Count, how: TrainingOptions) -> Training:
    """`training` with its options as one value."""
    usual: Settings = {name: value for name, value in USUAL.items() if getattr(how, name) is None}
    how = replace(how, **usual) if usual else how
    entry = Queries(0, count("tokens", tokens, 1), count("batch", batch, 1))
    lengths = packed(how.lengths, entry.new)
    if how.schedule not in SCHEDULES:
        raise not_one_of("schedule", how.schedule, SCHEDULES)
    if how.loss is not None and how.loss not in LOSSES:
        raise not_one_of("loss", how.loss, LOSSES)
    if how.fused_loss and how.loss not in (None, "fused"):
        raise InputError("loss", how.loss, "fused, as fused_loss says", ["fused"])
    again = how.recompute if how.recompute in RECOMPUTE else _words("recompute", how.recompute)
    away = _words("offload", how.offload)
    beside = _axes(how.overlap)
    for name, choices in (("gather_format", TRAVELS), ("reduce_format", TRAVELS[:-1])):
        if getattr(how, name) is not None and getattr(how, name) not in choices:
            raise not_one_of(name, getattr(how, name), choices)
    if isinstance(how.recompute, str) and again not in RECOMPUTE and "," not in how.recompute:
        expected = "none, selective, op, full, or names of modules, a comma behind each"
        raise InputError("recompute", how.recompute, expected, nearest(how.recompute, RECOMPUTE))
    check_layers(again, how.recompute_layers, how.recompute_every)
    for name in away:
        if name not in OFFLOADS:
            raise not_one_of("offload", name, OFFLOADS)
    check_offloaded(how.offload_layers, away)
    recipe = recipe_named(how.recipe or USUAL["recipe"])
    optimizer = optimizer_named(how.optimizer or USUAL["optimizer"])
    given: Settings = {
        **{name: getattr(how, name) for name in AS_GIVEN},
        "queries": _queries(entry, lengths), "lengths": lengths, "logits": "all", "parts": 1, "beside": (),
        "stream": "", "recompute": again,
        "loss": "fused" if how.fused_loss else how.loss, "recipe": recipe,
        "optimizer": optimizer, "schedule": how.schedule, "offload": away, "flash": how.flash,
        "micro_batch": how.micro_batch, "overlap": beside,
    }  # fmt: skip
    step = object.__new__(Training)
    for name, value in given.items():
        object.__setattr__(step, name, value)
    return step


def _axes(overlap: Given) -> tuple[str, ...] | None:
    """The axes named, in the order of OVERLAPS; None for the engine's. Raises InputError for what is no axis."""
    if overlap is None or overlap is True:
        return None
    named = () if overlap is False else _words("overlap", overlap)
    named = () if named == ("none",) else named
    for axis in named:
        if axis not in OVERLAPS:
            raise not_one_of("overlap", axis, OVERLAPS)
    return tuple(axis for axis in OVERLAPS if axis in named)


def _words(field: str, value: Given) -> tuple[str, ...]:
    """A list of words, or a comma-separated string, as a tuple; empty for None. Raises InputError for anything else."""
    parts = () if value is None else (value,) if isinstance(value, str) else value
    if not isinstance(parts, (list, tuple)) or not all(isinstance(part, str) for part in parts):
        raise InputError(field, value, "words, or a list of them")
    return tuple(word.strip() for part in parts for word in part.split(",") if word.strip())


AS_GIVEN = (
    "recompute_layers", "recompute_every", "offload_layers", "reshard", "no_sync", "gather_format", "reduce_format",
    "optimizer_in_backward",
)  # fmt: skip
"""Options that a step stores unchanged."""


def _queries(each: Queries, lengths: Packed) -> tuple[Queries, ...]:
    """Queries of a batch of sequences, or of packs."""
    return tuple(Queries(0, length, each.count * n) for length, n in lengths) or (each,)


def with_batch(step: Training, batch: Count) -> Training:
    """A copy of the step with another number of sequences."""
    return changed(step, _queries(Queries(0, step.tokens_each, batch), step.lengths))


def options_of(step: Training) -> TrainingOptions:
    """The options that a step was made of."""
    names = (f.name for f in fields(TrainingOptions) if f.name != "fused_loss")
    return TrainingOptions(**{name: getattr(step, name) for name in names})


def with_options(step: Training, **options: Given) -> Training:
    """A copy of the step with some options of `training` changed."""
    if "fused_loss" in options:
        options = {"loss": None, **options}
    if options.get("recompute") == "none":
        options = {"recompute_layers": None, "recompute_every": None, **options}
    if "activations" not in options.get("offload", step.offload):
        options = {"offload_layers": None, **options}
    return training_step(step.batch, step.tokens_each, replace(options_of(step), **options))


# -- passes --------------------------------------------------------------------------------------------------------
def step_ops(modules: Iterable[Module], step: Step, whole: bool = True) -> tuple[o.Op, ...]:
    """The ops of modules at a step: the forward pass, and in training recomputation and the backward pass.

    `whole`: whether full recomputation covers these modules (layers, but not embedding and head).
    """
    if not isinstance(step, Training):
        return tuple(op for module in modules for op in lower(module, step))
    forward = forward_ops(modules, step)
    repeated: Iterable[o.Op] = (op for op in forward if run_again(op, step, whole))
    if step.recompute == "op" and whole:
        repeated = again_by_op(forward)
    again = tuple(replace(op, phase="recompute") for op in repeated)
    return (*forward, *again, *(back for op in reversed(forward) for back in backward(op)))


def forward_ops(modules: Iterable[Module], step: Training) -> tuple[o.Op, ...]:
    """The forward pass of modules in training; after the head, the loss."""
    ops = [op for module in modules for op in lower(module, step)]
    if not step.flash:
        ops = [replace(op, flash=False) if isinstance(op, o.Attend) else op for op in ops]
    if ops and isinstance(ops[-1], o.MatMul) and ops[-1].part == "head":
        ops.append(loss(ops[-1], step))
    return tuple(ops)


def run_again(op: o.Op, step: Training, whole: bool) -> bool:
    """Whether an op is recomputed in the backward pass; with the loss `cut` the head always is."""
    if step.loss == "cut" and isinstance(op, o.MatMul) and op.part == "head":
        return True
    if step.recompute == "full":
        return whole and not (isinstance(op, o.Communicate) and op.collective == "p2p")
    if step.recompute == "selective":
        return FLOWS[type(op)].core
    if not isinstance(step.recompute, tuple):
        return False
    again = isinstance(op, o.Communicate) and op.again and op.name.removesuffix("_gather") in step.recompute
    return op.name in step.recompute or again


def loss(head: o.MatMul, step: Training) -> o.Op:
    """Cross-entropy over the logits in fp32: cast, log-softmax, and the same back. Fused: read once, written once.

    In units of the logits: cast reads 1 and writes 2, log-softmax reads 2 and writes 2; back, it reads 4 and writes 2,
    and the cast reads 2 and writes 1. What is kept: see `Training`; logits that are in fp32 already have no copy of it.
    """
    once = 1 if step.fused_loss else 4
    kinds = {"fused": (0, 0), "cut": (0, 0), "compiled": (2, 0), "chunked": (1, 0), "eager": (0, 3)}
    stream, single = kinds.get(step.loss or "in-place", (1, 1))
    if single == 1 and step.precision.activations.bits >= 32:
        single = 0
    part = ceil_div(head.output, CHUNKS) if step.loss == "chunked" else 0
    return o.Loss(
        name="loss", rows=head.m, width=head.n, way=step.loss or "in-place",
        input=once * head.output, output=(once - 1) * head.output,
        kept=stream * head.output + part, single=single * head.output,
    )  # fmt: skip


Gradients = OfKind[Iterator[o.Op]]
GRADIENTS: KindTable[Gradients] = KindTable("gradients", o.Op)


def backward(op: o.Op) -> Iterator[o.Op]:
    """The ops of one op's backward pass."""
    return iter(()) if op.detached else GRADIENTS[type(op)](op)


@GRADIENTS.of(o.MatMul, o.ExpertMatMul)
def _product(op: o.MatMul | o.ExpertMatMul) -> Iterator[o.Op]:
    """dX[m,k] = dY[m,n]·W[n,k]; dW[n,k] = dYᵀ[n,m]·X[m,k], added to the gradient kept so far."""
    shared: Settings = {"input": op.output, "output": op.input, "vector": 0, "bias": False}
    yield replace(op, name=f"{op.name}_dgrad", phase="backward", k=op.n, n=op.k, **shared)
    if op.frozen:
        return
    gradient: Settings = {
        "name": f"{op.name}_wgrad", "phase": "weight", "weight": 0, "vector": 0, "bias": False,
        "input": op.input + op.output, "output": 0, "store": "gradients", "cache_read": op.weight,
        "cache_write": op.weight,
    }  # fmt: skip
    if isinstance(op, o.ExpertMatMul):
        yield replace(op, **gradient)
    else:
        yield replace(op, m=op.n, n=op.k, k=op.m, **gradient)


@GRADIENTS.of(o.Attend)
def _attend(op: o.Attend) -> Iterator[o.Op]:
    """Reads q, k, v, the output and its gradient; writes dQ, dK, dV."""
    moved: Settings = {"input": op.input + 2 * op.output, "output": op.input, "vector": 0}
    yield o.Backward(name=f"{op.name}_backward", phase="backward", of=op, scratch=2 * op.scratch, **moved)


@GRADIENTS.of(o.Score, o.Normalise, o.Rotate, o.Activate, o.Sum, o.Scale, o.Choose, o.Convolve, o.Shift, o.Loss)
@GRADIENTS.of(o.Selective, o.Dual, o.Delta, o.LinearAttend, o.Recur, o.Memorise)
def same_again(op: o.Op) -> Iterator[o.Op]:
    """Backward of the same kind: read the inputs and the output's gradient, write the inputs' gradients."""
    moved: Settings = {"input": op.input + op.output, "output": op.input, "vector": 2 * op.vector}
    yield o.Backward(name=f"{op.name}_backward", phase="backward", of=op, rides=op.rides, scratch=op.scratch, **moved)


@GRADIENTS.of(o.Lookup)
def _lookup(op: o.Lookup) -> Iterator[o.Op]:
    """Adds the tokens' gradients to the rows they came from."""
    yield o.Backward(
        name=f"{op.name}_backward", phase="weight", of=op, input=op.output, store="gradients", cache_read=op.weight,
        cache_write=op.weight,
    )  # fmt: skip


OPPOSITE = {
    "all_gather": "reduce_scatter", "reduce_scatter": "all_gather", "dispatch": "combine", "combine": "dispatch",
}  # fmt: skip


@GRADIENTS.of(o.Communicate)
def _communicate(op: o.Communicate) -> Iterator[o.Op]:
    """The adjoint: a gather becomes a reduce-scatter and a reduce-scatter a gather.

    Gathered tensors that are not kept are gathered `again`. For the inputs of a product this runs beside the product of
    their gradient, and the reduce-scatter of that gradient beside the product of the weight gradient (arXiv:2205.05198
    §4.2.2; Megatron-LM, core/tensor_parallel/layers.py, where linear layers communicate asynchronously): of ten
    collectives per layer six are exposed. The keys and values of other ranks circulate again beside their gradients
    (ring attention, arXiv:2310.01889 §3).
    """
    product = op.again and op.axis == "tp"
    if op.again:
        name = f"{op.name}_again"
        yield replace(op, name=name, phase="backward", again=False, beside="backward" if product else "")
    adjoint = OPPOSITE.get(op.collective, op.collective)
    yield replace(
        op, name=f"{op.name}_backward", phase="backward", collective=adjoint, beside="weight" if product else ""
    )


@GRADIENTS.of(o.Backward, o.Update)
def _none(op: o.Op) -> Iterator[o.Op]:
    """No backward: gradients and updates are not part of a forward pass."""
    return iter(())


# -- what is kept --------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Kept:
    """Elements that one op keeps for the backward pass: in its products' format, in the stream's format, and in
    fp32."""

    products: Count = 0
    stream: Count = 0
    single: Count = 0


Keeping = OfKind[Kept]
KEPT: KindTable[Keeping] = KindTable("kept activations", o.Op)


def kept(op: o.Op) -> Kept:
    """What an op keeps for its backward pass: its own inputs, where its derivative depends on them."""
    return Kept() if op.detached else KEPT[type(op)](op)


@KEPT.of(o.MatMul, o.ExpertMatMul)
def _inputs_of_product(op: o.MatMul | o.ExpertMatMul) -> Kept:
    """A product's own share of the input tokens, if an all-gather came before; nothing where its weights are frozen."""
    gathered = op.gathered if isinstance(op, o.MatMul) else 1
    return Kept(products=0 if op.frozen else op.input // gathered)


@KEPT.of(o.Attend)
def _queries_keys_values(op: o.Attend) -> Kept:
    """q, k, v of its own tokens and a log-sum-exp for each row; the next product keeps its output."""
    each = op.heads * op.qk_dim + op.kv_width
    if not op.flash:  # softmax and dropout each keep what they produced, dropout a byte of mask
        return Kept(stream=each * op.tokens + op.scratch, single=op.scratch // 8)
    return Kept(stream=each * op.tokens, single=op.heads * op.tokens)


@KEPT.of(o.Score, o.Normalise, o.Activate, o.Scale, o.Convolve, o.Shift)
@KEPT.of(o.Selective, o.Dual, o.Delta, o.LinearAttend, o.Recur, o.Memorise)
def inputs_kept(op: o.Op) -> Kept:
    """Everything that the op reads."""
    return Kept(stream=op.input)


@KEPT.of(o.Sum)
def _weighted(op: o.Sum) -> Kept:
    return Kept(stream=op.input if op.weighted and not op.rides else 0)


@KEPT.of(o.Choose)
def _scores(op: o.Choose) -> Kept:
    return Kept(single=op.output)


@KEPT.of(o.Loss)
def _logits(op: o.Loss) -> Kept:
    return Kept(stream=op.kept, single=op.single)


@KEPT.of(o.Rotate, o.Lookup, o.Communicate, o.Backward, o.Update)
def nothing_kept(op: o.Op) -> Kept:
    """Nothing: the derivative does not depend on the inputs, or there is none."""
    return Kept()


@dataclass(frozen=True)
class Flow:
    """How an op affects the streams of a layer; a stream is kept once for all ops that read it.

    `product`: it reads a stream that other ops may read too. `makes`: its output is a new stream that only one product
    reads. `restarts`: it starts the next stream. `core`: it is part of attention's core, which selective recomputation
    recomputes (arXiv:2205.05198 §5).
    """

    product: bool = False
    makes: bool = False
    restarts: bool = False
    core: bool = False


FLOWS: KindTable[Flow] = KindTable("streams of a layer", o.Op)
FLOWS.add(Flow(product=True), o.MatMul, o.ExpertMatMul)
FLOWS.add(Flow(makes=True, core=True), o.Attend)
FLOWS.add(Flow(core=True), o.Score)
FLOWS.add(Flow(makes=True), o.Activate, o.Selective, o.Dual, o.Delta, o.LinearAttend, o.Recur, o.Memorise)
FLOWS.add(Flow(restarts=True), o.Normalise, o.Sum, o.Shift)
FLOWS.add(Flow(), o.Rotate, o.Scale, o.Choose, o.Lookup, o.Convolve, o.Communicate, o.Backward, o.Loss, o.Update)


def kept_by(modules: Iterable[Module], step: Training) -> Iterator[tuple[o.Op, Kept]]:
    """The ops of a layer that keep something, and what: products that read one stream keep it once per format.

    A stream is identified by its width. A norm starts the next stream of its own width, so norms of latents leave the
    layer's stream alone. A residual sum starts every stream; a weighted sum of experts starts none, since no product
    reads it. The output of attention, a scan or an activation is read by one product only. A recomputed op keeps what
    it reads, and whatever reads its recomputed output keeps nothing. For attention the output is kept, while its scores
    and their sums are not.
    """
    streams: dict[tuple[Hashable, bool], StreamRead] = {}
    own = False
    earlier: list[tuple[o.Op, bool]] = []
    ops = [op for op in forward_ops(modules, step) if not isinstance(op, o.Communicate) and not op.detached]
    for op, reader in zip(ops, (*ops[1:], None), strict=False):  # no ops, no reader
        flow, repeated = FLOWS[type(op)], run_again(op, step, whole=False)
        if flow.restarts:
            streams = {key: read for key, read in streams.items() if not _restarted(key[0], op)}
        needs, remade = _needs(op, reader, repeated, earlier), _reads_remade(op, earlier)
        earlier.append((op, repeated and not flow.core))
        if isinstance(op, o.MatMul) and op.groups == 1 and not (op.frozen and not repeated) and not own:
            key = (op.k if isinstance(op.k, int) else (id(op.k),), op.part == "head")
            read = streams.setdefault(key, StreamRead(remade))
            fmt = product_format(op, step)
            if read.remade or fmt in read.formats:
                needs = replace(needs, products=0)
            read.formats.add(fmt)
        own = flow.makes or (own and not flow.product)
        yield op, needs


@dataclass(frozen=True)
class StreamRead:
    """A stream that products have read so far: whether it is recomputed, and the formats in which it is kept."""

    remade: bool
    formats: set[Format] = field(default_factory=set)


def product_format(op: o.Op, step: Training) -> Format:
    """The format in which a product keeps its input."""
    weights = step.precision.chosen(op.part, op.format)
    return weights if weights.compute is not None and weights.bits < 16 else step.precision.activations


def _restarted(width: Count, op: o.Op) -> bool:
    """Whether an op starts a new stream of a given width."""
    if isinstance(op, o.Sum):
        return not op.weighted
    return not isinstance(op, o.Normalise) or not isinstance(width, int) or not some(op.width - width)


Earlier: TypeAlias = Sequence[tuple[o.Op, bool]]
"""The ops of a layer so far, each with whether its output is recomputed."""


def _needs(op: o.Op, reader: o.Op | None, repeated: bool, earlier: Earlier) -> Kept:
    """What an op keeps: less where its input is recomputed, more where the op itself is recomputed for its reader."""
    if isinstance(op, o.Attend):
        needs = kept(replace(op, flash=True) if repeated else op)
        single = 0 if repeated else needs.single
        inputs = op.tokens * (op.heads * op.qk_dim + op.kv_width)
        return replace(needs, stream=needs.stream - _remade(inputs, earlier), single=single)
    needs = kept(op)
    if repeated and isinstance(op, (o.MatMul, o.ExpertMatMul)) and op.frozen:
        needs = kept(replace(op, frozen=False))
    if repeated and isinstance(op, o.Rotate):
        return Kept(stream=op.input - _remade(op.input, earlier))
    if repeated and isinstance(op, o.Sum) and isinstance(reader, o.Normalise):  # the norm keeps a term
        needs = replace(needs, stream=op.input - (0 if op.weighted else op.output))
    remade = _reads_remade(op, earlier)
    return replace(needs, products=0, stream=0) if remade else needs


def _reads_remade(op: o.Op, earlier: Earlier) -> bool:
    """Whether an op's input is recomputed; in general the input is the output of the op before.

    Exceptions: norms of queries and keys run side by side; consecutive products read another stream, and none reads
    what RoPE rotated; experts read tokens that came from elsewhere.
    positions turned, and experts read tokens that came from elsewhere.
    """
    if isinstance(op, o.ExpertMatMul) and op.up:
        return False
    before = list(earlier)
    aside = o.Normalise if isinstance(op, o.Normalise) else o.Rotate if isinstance(op, o.MatMul) else ()
    while before and isinstance(before[-1][0], aside):
        before.pop()
    if not before:
        return False
    last, remade = before[-1]
    chained = not isinstance(op, o.MatMul) or not isinstance(last, o.MatMul) or op.k is last.n or _alike(op.k, last.n)
    return remade and chained


def _alike(one: Count, other: Count) -> bool:
    return isinstance(one, int) and isinstance(other, int) and one == other


def _remade(needed: Count, earlier: Earlier) -> Count:
    """Elements of queries, keys and values that are recomputed, from the last op that makes any of them onwards.

    RoPE rotates queries and keys, so only the rest is as the products or norms before left it. Values that are copied
    to every head (the positional keys of latent attention) are recomputed if all that the heads share is.
    """
    left, remade, turned, normed, products, whole = needed, 0 * needed, 0 * needed, 0 * needed, 0, True
    for source, again in reversed(earlier):
        if products == 3 or not isinstance(source, (o.Rotate, o.Normalise, o.MatMul)):
            break
        behind = least(turned if isinstance(source, o.Normalise) else turned + normed, source.output)
        share = least(source.output - behind, left)
        whole = whole and (again or not some(share > 0))
        left, remade = left - share, remade + share * again
        if isinstance(source, o.MatMul):
            turned, normed, products = turned + normed - behind, 0 * normed, products + 1
        elif isinstance(source, o.Normalise):
            normed = normed + share
        else:
            turned = turned + share
    return needed if whole and products else remade
