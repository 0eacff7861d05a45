"""Fourier mixing (FNet, arXiv:2105.03824): a kind of module and a kind of op, from their sizes to their law."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import log2
from typing import Any

from roofline.declared.errors import InputError
from roofline.declared.numbers.maths import Count, is_array, is_symbol
from roofline.declared.numbers.units import whole
from roofline.kernels.kernels import GRADIENT_LAWS, of_no_backward, one_pass, runs
from roofline.layout.shard import SHARDING, Stream, gather
from roofline.model import summary
from roofline.model.checkpoints.tensor_names import PIECES
from roofline.model.modules import Module
from roofline.model.precision import PARTS_OF
from roofline.model.record import record
from roofline.whatif import markers
from roofline.work import counting, traffic
from roofline.work.lower import lowers
from roofline.work.ops import NAMES, Op
from roofline.work.step import Queries, Step, whole_step
from roofline.work.training import FLOWS, GRADIENTS, KEPT, Flow, nothing_kept


# -- what it is ----------------------------------------------------------------------------------------------------
@record(frozen=True, kw_only=True, eq=False)
class FourierMixing(Module):
    """The real part of a Fourier transform over `width` and over the tokens of a sequence. It has no weights."""

    width: int

    @property
    def cache_width(self) -> int:
        """Cached elements per token: the transform over the tokens reads all of them."""
        return self.width


PARTS_OF.add(lambda _: "other", FourierMixing)
PIECES.add(lambda module, layer: (), FourierMixing)


# -- what it does at a step ----------------------------------------------------------------------------------------
@record(frozen=True, kw_only=True, eq=False)
class Transform(Op):
    """Transforms of `width` values for each new token of `step`, and of each sequence's tokens for each channel."""

    step: Step
    width: Count


NAMES.add("fourier", Transform)


@lowers(FourierMixing, whole_step)
def _mixing(f: FourierMixing, step: Step) -> Iterator[Op]:
    moved = f.width * step.tokens
    yield Transform(
        name=f.name, step=step, width=f.width, input=moved, output=moved,
        cache_read=f.width * step.cache_reads(), cache_write=moved,
    )  # fmt: skip


# -- FLOPs and bytes -----------------------------------------------------------------------------------------------
def transform(op: Transform) -> Count:
    """5·n·log₂ n for a transform of n values (Van Loan 1992, §1.4): n = width a new token, n = P + T a channel."""

    def each(q: Queries) -> Count:
        tokens = q.cached + q.new
        return 5 * op.width * (q.new * _log2(op.width) + tokens * _log2(tokens))

    return op.step.total(each)


def _log2(value: Count) -> Any:
    if is_symbol(value):
        import sympy

        return sympy.log(value, 2)
    if is_array(value):
        import numpy

        return numpy.log2(value)
    return log2(value)


counting.STANDARD.formulas.add(transform, Transform)
counting.TORCH.formulas.add(counting.not_counted, Transform)  # torch.utils.flop_counter has no formula for a transform
traffic.UNFUSED.rules.add(traffic.everything, Transform)
traffic.FUSED.rules.add(traffic.through_memory, Transform)
traffic.FLOOR.rules.add(traffic.weights_and_cache, Transform)
traffic.ORIGINAL.rules.add(traffic.original_op, Transform)
traffic.LLM_PARA.rules.add(traffic.everything, Transform)


# -- in training ---------------------------------------------------------------------------------------------------
@GRADIENTS.of(Transform)
def _adjoint(op: Transform) -> Iterator[Op]:
    """The transform is its own adjoint."""
    yield replace(op, name=f"{op.name}_backward", phase="backward")


KEPT.add(nothing_kept, Transform)
FLOWS.add(Flow(), Transform)


# -- on many chips -------------------------------------------------------------------------------------------------
@SHARDING.of(FourierMixing)
def _sharding(f: FourierMixing, rank: Any, stream: Stream) -> tuple[Iterable[Module], Stream]:
    """Every rank mixes all tokens, which sequence parallelism brings together before."""
    if rank.several(rank.layout.cp):
        raise InputError("layout.cp", rank.layout.cp, f"1, because {f.name} needs all tokens of a sequence")
    before, stream = gather(f.name, f.width, rank, stream)
    return (*before, replace(f, copies=rank.layout.ranks)), replace(stream, pieces=False)


# -- how long it takes ---------------------------------------------------------------------------------------------
@runs(Transform)
def _passes(op: Transform, target: Any) -> Any:
    """One pass through memory for each of the two directions."""
    seconds, constants = one_pass(op, target)
    return 2 * seconds, constants


GRADIENT_LAWS.add(of_no_backward, Transform)


# -- in pictures and words -----------------------------------------------------------------------------------------
markers.GROUPS.add("attention", Transform)
summary.GROUPS.add("attention", FourierMixing)
summary.WORDS.add(lambda f: f"Fourier, {whole(f.width)}", FourierMixing)
