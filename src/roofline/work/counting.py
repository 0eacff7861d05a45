"""FLOP counting conventions: for each, a table from the kind of op to a formula.

`standard`   a multiply-add is 2 FLOPs, attention counts the pairs the mask leaves, the head runs where logits are
             needed. Norms, RoPE and activations by the per-element counts below. Softmax is not counted.
`torch`      what `torch.utils.flop_counter` (2.13) counts on the published code: matrix products and convolutions only,
             attention over the full square, the head for every token. It has no formula for the grouped product of
             routed experts, so those count nothing (Llama-4's code multiplies every expert, and counts).
`original`   what the command `transformer-roofline-analyzer` counts, its slips included; layers only.
`llm-para`   what LLM-para counts: products over the full square, RoPE, the gate's product; layers only.

A formula is plain arithmetic on the fields of an op: ints give exact ints, arrays sweeps, symbols algebra.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from roofline.declared.errors import not_one_of
from roofline.declared.numbers.maths import Count, ceil_div, no_more
from roofline.model.kind_table import KindTable, OfKind
from roofline.work import ops as o
from roofline.work.step import Queries, adds_one

Formula = OfKind[Count]

ACTIVATION_FLOPS: Mapping[str, int] = MappingProxyType({
    "linear": 0, "relu": 1, "relu6": 2, "leaky_relu": 2, "prelu": 2, "relu2": 2, "relu_squared": 2,
    "silu": 4, "swish": 4, "sigmoid": 4, "quick_gelu": 5, "hardswish": 5, "tanh": 6, "mish": 8, "laplace": 6,
    "gelu": 8, "gelu_python": 8, "gelu_accurate": 9, "gelu_new": 9, "gelu_fast": 9, "gelu_pytorch_tanh": 9,
    "gelu_python_tanh": 9, "gelu_10": 9, "xielu": 8,
})  # fmt: skip
"""FLOPs per element; an exponential, a division, tanh or erf counts one. silu: negate, exp, add, divide."""


@dataclass(frozen=True)
class Counting:
    """A counting convention: its formulas, and the tokens and modules that it covers."""

    name: str
    about: str
    formulas: KindTable[Formula]
    all_logits: bool = False
    layers_only: bool = False

    def __reduce__(self) -> str | tuple[object, ...]:
        """Pickle built-in conventions by name."""
        return (counting_named, (self.name,)) if COUNTINGS.get(self.name) is self else object.__reduce_ex__(self, 2)

    def plain(self) -> str:
        """Name of the convention in results."""
        return self.name

    def flops(self, op: o.Op) -> Count:
        """FLOPs of one op."""
        return self.formulas[type(op)](op)


def not_counted(op: o.Op) -> Count:
    """0: not counted."""
    return 0


def matmul_flops(op: o.MatMul) -> Count:
    """2·m·k·n for each group, and m·n for a bias: a multiply-add is two FLOPs."""
    flops = 2 * op.groups * op.k * op.n * op.m
    return flops + op.groups * op.n * op.m if op.bias else flops


def expert_flops(op: o.ExpertMatMul) -> Count:
    """2·k·n·m for the m = tokens·top_k routed rows, and m·n for a bias."""
    flops = 2 * op.k * op.n * op.m
    return flops + op.n * op.m if op.bias else flops


def attend(op: o.Attend) -> Count:
    """2·heads·(qk_dim + v_dim)·pairs over the pairs the mask leaves (arXiv:2205.14135 §2); softmax not counted."""
    return 2 * op.heads * (op.qk_dim + op.v_dim) * op.pairs


def score(op: o.Score) -> Count:
    """2·heads·(dim + 1)·pairs: a product per head, then the weighted sum over heads (DeepSeek-V3.2, eq. 1), if any."""
    return 2 * op.heads * (op.dim + (1 if op.summed else 0)) * op.pairs


def normalise(op: o.Normalise) -> Count:
    """RMSNorm 3 per element (square, add, scale), LayerNorm 5 (also mean and its subtraction); +1 weight, +1 bias."""
    return ((5 if op.center else 3) + op.scaled + op.shifted) * op.width * op.rows


def rotate(op: o.Rotate) -> Count:
    """3 per rotated element: two products and a sum (arXiv:2104.09864, eq. 34)."""
    return 3 * op.elements


def activate(op: o.Activate) -> Count:
    """The function's FLOPs per element, +1 for the product with the second stream where gated."""
    return (ACTIVATION_FLOPS[op.function] + op.gated) * op.width * op.rows


def add_up(op: o.Sum) -> Count:
    """terms − 1 additions per element, terms products where weighted, and terms additions more where shifted."""
    return (op.terms - 1 + (op.weighted + op.shifted) * op.terms) * op.elements


def scale(op: o.Scale) -> Count:
    """One product per element, 4 for the sigmoid of each gate."""
    return op.elements + 4 * op.gates


def choose(op: o.Choose) -> Count:
    """5 per score: subtract, exp, sum, divide, compare."""
    return 5 * op.experts * op.rows


def convolve(op: o.Convolve) -> Count:
    """2·kernel·width·channels for each token, half as much again for taps that are sums."""
    return (2 + op.dynamic) * op.kernel * op.width * op.channels * op.tokens


def selective(op: o.Selective) -> Count:
    """Recurrent form, per token and channel: 7 per state (A·dt, exp, decay, ·B, add, C·h) + 3 (dt·x, D·x, add).

    arXiv:2312.00752, algorithm 2.
    """
    return op.channels * (7 * op.state_size + 3) * op.step.tokens


def dual(op: o.Dual) -> Count:
    """Recurrent form, per token and head: 5·head_dim·state_size (decay, x·B, add, C·h) + 3·head_dim (dt·x, D·x, add).

    arXiv:2405.21060 §2.
    """
    return op.heads * op.head_dim * (5 * op.state_size + 3) * op.step.tokens


def delta(op: o.Delta) -> Count:
    """Recurrent form, per token and head: 7·key_dim·value_dim (decay, k·S, update, q·S) + 3·value_dim (the error).

    arXiv:2412.06464, eq. 10.
    """
    return op.heads * op.value_dim * (7 * op.key_dim + 3) * op.step.tokens


def linear_attend(op: o.LinearAttend) -> Count:
    """Recurrent form, per token and head: 5·dim² (decay, k·vᵀ, add, q·S). arXiv:2401.04658, eq. 2."""
    return 5 * op.heads * op.dim * op.dim * op.step.tokens


def recur(op: o.Recur) -> Count:
    """`work` per token and channel."""
    return op.work * op.channels * op.step.tokens


def memorise(op: o.Memorise) -> Count:
    """Recurrent form, per token and head: 5·key_dim·value_dim (decay, k·vᵀ, add, q·C), and with the normaliser's.

    The normaliser: 5·key_dim (decay, i·k, add, q·n), the quotient value_dim. arXiv:2405.04517, eq. 19–21.
    """
    k, v = op.key_dim, op.value_dim
    return op.heads * (5 * k * v + 5 * k + v) * op.step.tokens


def shift(op: o.Shift) -> Count:
    """3 per interpolation: two products and a sum."""
    return 3 * op.elements


def lose(op: o.Loss) -> Count:
    """5 per logit: subtract the largest, exp, sum, divide; the gradient subtracts the target."""
    return 5 * op.width * op.rows


def update(op: o.Update) -> Count:
    """The optimizer's FLOPs per weight."""
    return op.work * op.elements


def twice_forward(formulas: KindTable[Formula]) -> Formula:
    """Formula of a gradient with respect to all inputs: twice the op's own FLOPs."""
    return lambda op: 2 * formulas[type(op.of)](op.of)


def add_formulas(table: KindTable[Formula], *formulas: tuple[type[o.Op], Formula]) -> None:
    """Add one or more formulas, each for a kind of op."""
    for kind, formula in formulas:
        table.add(formula, kind)


_STANDARD: KindTable[Formula] = KindTable("standard counting", o.Op)
add_formulas(
    _STANDARD,
    (o.MatMul, matmul_flops), (o.ExpertMatMul, expert_flops), (o.Attend, attend), (o.Score, score),
    (o.Normalise, normalise),
    (o.Rotate, rotate), (o.Activate, activate), (o.Sum, add_up), (o.Scale, scale), (o.Choose, choose),
    (o.Convolve, convolve), (o.Selective, selective), (o.Dual, dual), (o.Delta, delta),
    (o.LinearAttend, linear_attend), (o.Recur, recur), (o.Memorise, memorise), (o.Shift, shift),
    (o.Loss, lose), (o.Update, update),
)  # fmt: skip
_STANDARD.add(not_counted, o.Lookup, o.Communicate)
_STANDARD.add(twice_forward(_STANDARD), o.Backward)
STANDARD = Counting("standard", "multiply-add = 2, unmasked pairs only, logits where needed", _STANDARD)


def attend_square(op: o.Attend) -> Count:
    """2·heads·(qk_dim + v_dim)·square: no mask; 12·L·H·Q·T of a token, forward and back (arXiv:2204.02311, App. B)."""
    return 2 * op.heads * (op.qk_dim + op.v_dim) * op.square


_SQUARE: KindTable[Formula] = KindTable("counting of whole squares", o.Op, base=_STANDARD)
_SQUARE.add(attend_square, o.Attend)
_SQUARE.add(twice_forward(_SQUARE), o.Backward)
SQUARE = Counting("square", "as standard, attention over the whole square", _SQUARE)
"""Attention over the full square: what kernels without a mask multiply, and what PaLM's MFU counts."""


# -- torch.utils.flop_counter --------------------------------------------------------------------------------------
def torch_matmul(op: o.MatMul) -> Count:
    """2·m·k·n for each group; a bias adds nothing (`mm`, `addmm`, `bmm`).

    Nothing for products that absorb a latent's up-projection: the published code has none (`torch_attend`).
    """
    return 0 if op.absorbs else 2 * op.groups * op.k * op.n * op.m


def torch_experts(op: o.ExpertMatMul) -> Count:
    """0 for `_grouped_mm`, which has no formula in torch 2.13; the rows that run where the code runs experts singly."""
    rows = {"grouped": 0, "each": op.m, "all": op.experts * op.tokens}[op.reference]
    return 2 * op.k * op.n * rows


def torch_attend(op: o.Attend) -> Count:
    """2·heads·(qk_dim + v_dim)·kept_pairs: eager attention multiplies masked pairs too, q·kᵀ as often as its code does.

    Behind a cache a window's keys are those that the cache keeps. Where latents are absorbed, the published code makes
    keys and values of all of them first.
    """
    if op.plain_dims:
        return 2 * op.heads * op.plain_dims * op.kept_pairs + 2 * op.expanding
    return 2 * op.heads * (op.keys_per_value * op.qk_dim + op.v_dim) * op.kept_pairs


def torch_score(op: o.Score) -> Count:
    """2·heads·dim·square, and 2·heads·square where the heads are summed by a product."""
    return 2 * op.heads * (op.dim + (1 if op.sum_by_product else 0)) * op.square


def torch_convolve(op: o.Convolve) -> Count:
    """2·kernel·width·channels·(tokens + padding): the output of the padded convolution is cut afterwards.

    0 for taps that differ from token to token.
    """
    if op.dynamic:
        return 0
    return 2 * op.kernel * op.width * op.channels * (op.tokens + op.padding)


def torch_selective(op: o.Selective) -> Count:
    """2·channels·state_size a token: of the step-by-step loop only h·C is a matrix product."""
    return 2 * op.channels * op.state_size * op.step.tokens


def torch_dual(op: o.Dual) -> Count:
    """The chunked reference: C·Bᵀ, M·x, chunk states, C·states over whole chunks, then chunk by chunk.

    For one token behind a cache only C·h: 2·heads·head_dim·state_size.
    """
    c, p, n = op.chunk, op.head_dim, op.state_size
    inside = c * c * (n + p) + 2 * c * n * p

    def inside_and_across(q: Queries) -> Count:
        chunks = ceil_div(q.new, c)
        steps = (chunks + 1) * (chunks + 1)
        alone = adds_one(q)
        return alone * p * n + (1 - alone) * (inside * chunks + p * n * steps)

    return 2 * op.heads * op.step.total(inside_and_across)


def torch_delta(op: o.Delta) -> Count:
    """The chunked reference over whole chunks of 64; its triangular solves count nothing.

    One token behind a cache counts nothing either, since its sums are not matrix products.
    """
    c, k, v = op.chunk, op.key_dim, op.value_dim
    chunks = op.step.total(lambda q: (1 - adds_one(q)) * ceil_div(q.new, c))
    return 2 * op.heads * (2 * c * c * k + 3 * c * k * v + c * c * v) * chunks


def torch_linear_attend(op: o.LinearAttend) -> Count:
    """The chunked reference: q·kᵀ and its product with v in each chunk (the last one short), and q·S and kᵀ·v.

    Behind a cache it goes token by token, with kᵀ·v and q·S only.
    """
    c, d = op.chunk, op.dim

    def squares(q: Queries) -> Count:
        return no_more(q.cached, 0) * ((q.new // c) * c * c + (q.new % c) * (q.new % c))

    return 4 * op.heads * (d * op.step.total(squares) + d * d * op.step.tokens)


def torch_memorise(op: o.Memorise) -> Count:
    """Whole chunks: q·kᵀ, its product with v, q·C, kᵀ·v, q·n. The remainder goes token by token: k·vᵀ, q·C, q·n."""
    c, k, v = op.chunk, op.key_dim, op.value_dim
    square, state = c * c * (k + v), 2 * k * v + k

    def whole_and_rest(q: Queries) -> Count:
        whole = q.new // c
        return square * whole + state * q.new

    return 2 * op.heads * op.step.total(whole_and_rest)


def torch_shift(op: o.Shift) -> Count:
    """2·inputs·width for each zero that the published code projects."""
    return 2 * op.inputs * op.width * op.zeros


_TORCH: KindTable[Formula] = KindTable("torch counting", o.Op)
add_formulas(
    _TORCH,
    (o.MatMul, torch_matmul), (o.ExpertMatMul, torch_experts), (o.Attend, torch_attend), (o.Score, torch_score),
    (o.Convolve, torch_convolve), (o.Selective, torch_selective), (o.Dual, torch_dual), (o.Delta, torch_delta),
    (o.LinearAttend, torch_linear_attend), (o.Memorise, torch_memorise), (o.Shift, torch_shift),
)  # fmt: skip
_TORCH.add(not_counted, o.Normalise, o.Rotate, o.Activate, o.Sum, o.Scale, o.Choose, o.Lookup)
_TORCH.add(not_counted, o.Recur, o.Communicate, o.Loss, o.Update)
_TORCH.add(twice_forward(_TORCH), o.Backward)
TORCH = Counting(
    "torch",
    "torch.utils.flop_counter on the published code: matrix products, no masking, all logits",
    _TORCH,
    all_logits=True,
)


# -- transformer-roofline-analyzer ---------------------------------------------------------------------------------
def original_matmul(op: o.MatMul) -> Count:
    """m·n·(2k − 1) for each group: k products and k − 1 sums."""
    return op.groups * op.n * (2 * op.k - 1) * op.m


def original_experts_flops(op: o.ExpertMatMul) -> Count:
    """m·n·(2k − 1)."""
    return op.n * (2 * op.k - 1) * op.m


def original_attend_flops(op: o.Attend) -> Count:
    """q·L·(2d − 1) + q·kv_heads·v_dim·(2L − 1) a query, d = heads·qk_dim: no mask, values over the KV width."""
    return op.square * (2 * op.heads * op.qk_dim - 1) + op.kv_heads * op.v_dim * (2 * op.square - op.tokens)


def original_normalise(op: o.Normalise) -> Count:
    """(4·width + 2) a row."""
    return (4 * op.width + 2) * op.rows


def original_activate(op: o.Activate) -> Count:
    """(f + 1)·width + rows: adds the rows where it should multiply by them (a slip)."""
    return (ACTIVATION_FLOPS[op.function] + op.gated) * op.width + op.rows


_ORIGINAL = KindTable("original counting", o.Op, base=_STANDARD)
add_formulas(
    _ORIGINAL,
    (o.MatMul, original_matmul), (o.ExpertMatMul, original_experts_flops), (o.Attend, original_attend_flops),
    (o.Normalise, original_normalise), (o.Activate, original_activate),
)  # fmt: skip
_ORIGINAL.add(twice_forward(_ORIGINAL), o.Backward)
ORIGINAL = Counting(
    "original", "transformer-roofline-analyzer's counts, its slips included; layers only", _ORIGINAL, layers_only=True
)


# -- LLM-para ------------------------------------------------------------------------------------------------------
def llm_para_matmul_flops(op: o.MatMul) -> Count:
    """2·m·k·n for each group."""
    return 2 * op.groups * op.k * op.n * op.m


def llm_para_attend_flops(op: o.Attend) -> Count:
    """2·heads·(qk_dim + v_dim)·square: masked pairs too, whatever a cache keeps."""
    return 2 * op.heads * (op.keys_per_value * op.qk_dim + op.v_dim) * op.square


def llm_para_rotate_flops(op: o.Rotate) -> Count:
    """4 for each pair of elements."""
    return 2 * op.elements


def llm_para_activate(op: o.Activate) -> Count:
    """1 per element for the product with the second stream where gated; the function itself counts nothing."""
    return op.width * op.rows if op.gated else 0


_LLM_PARA = KindTable("llm-para counting", o.Op, base=_TORCH)
_LLM_PARA.add(expert_flops, o.ExpertMatMul)
_LLM_PARA.add(llm_para_matmul_flops, o.MatMul)
_LLM_PARA.add(llm_para_attend_flops, o.Attend)
_LLM_PARA.add(llm_para_rotate_flops, o.Rotate)
_LLM_PARA.add(llm_para_activate, o.Activate)
_LLM_PARA.add(twice_forward(_LLM_PARA), o.Backward)
LLM_PARA = Counting(
    "llm-para", "LLM-para's: full square, RoPE and the gate's product; layers only", _LLM_PARA, layers_only=True
)

COUNTINGS: Mapping[str, Counting] = MappingProxyType({c.name: c for c in (STANDARD, TORCH, ORIGINAL, LLM_PARA)})


def counting_named(name: str | Counting) -> Counting:
    """The convention of that name, or an InputError with the nearest."""
    if isinstance(name, Counting):
        return name
    if not isinstance(name, str) or name not in COUNTINGS:
        raise not_one_of("counting", name, COUNTINGS)
    return COUNTINGS[name]
