"""Classify kernels by the words in their names."""

from __future__ import annotations

import re
from collections.abc import Mapping

from roofline.declared.frozen_mapping import frozen
from roofline.measured.compare.kernels import ProfiledKernel

PRODUCT = re.compile(
    r"aten::(?:linear|matmul|mm|addmm|addmv|mv|_scaled_mm|_int_mm)\b|gemm|gemv|cutlass|nvjet|splitk|cublas|ampere_\w*s\d+"
    r"|marlin|machete|deep_gemm|matmul|wvsplitk|linear"
)
ATTENTION = re.compile(
    r"scaled_dot_product|flash|fmha|paged_attention|unified_attention|attention|_fwd_kernel|mla|decode_attention"
)
EXPERTS = re.compile(r"grouped_mm|grouped_gemm|fused_moe|moe_gemm|moe::|moe_kernel|bmm_.*_routed")
OWN: Mapping[str, re.Pattern[str]] = frozen({
    "embedding": re.compile(r"aten::embedding|gather|index_select|vectorized_gather"),
    "norm": re.compile(
        r"norm|rsqrt|reduce_kernel|variance|aten::(?:pow|mean|add|mul|div_?|sub|sum|sqrt|to|_to_copy)\b"
    ),
    "rope": re.compile(r"rope|rotary|cossin|aten::(?:cos|sin|neg|mul|cat|add|stack)\b"),
    "activation": re.compile(r"silu|gelu|swiglu|act_and_mul|aten::(?:relu|tanh|sigmoid|softplus|mul)\b"),
    "add": re.compile(r"aten::add_?\b|add_kernel|cudafunctor_add"),
    "attention": re.compile(
        r"softmax|bmm|reshape_and_cache|kv_cache|aten::(?:cat|masked_fill|where|index_copy_?|index_put_?)"
    ),
    "choose": re.compile(r"topk|router|gating|aten::(?:softmax|topk|sort|scatter|one_hot)|moe_align|sigmoid"),
    "convolution": re.compile(r"conv1d|causal_conv"),
    "quantise": re.compile(r"quant|scale_kernel|absmax|amax"),
    "communicate": re.compile(r"nccl|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|cross_device_reduce"),
})  # fmt: skip
"""Kind of op → words that indicate it."""
SHARED = re.compile(
    r"aten::(?:mul|add|div|sub|to|_to_copy|copy_|clone|contiguous|cat|expand|view|reshape|transpose|t|slice|unsqueeze"
    r"|squeeze|permute|split|chunk|select|narrow|detach|alias|stack|empty|empty_like|zeros|ones|fill_|arange|type_as|"
    r"rsub|sqrt|pow|clamp|where|sum|index|full|lift_fresh|item|is_nonzero|eq|ne|lt|le|gt|ge|bitwise_\w+|logical_\w+|any|all"
    r"|_local_scalar_dense|repeat_interleave|bool|cumsum|max|min|mean|exp|log)_?\b"
    r"|elementwise|vectorized|copy|memcpy|memset|triton_|catarray|unrolled|index"
)
"""Words of elementwise work, copies and views, which belong to the op around them."""


def is_product(kernel: ProfiledKernel) -> bool:
    """Whether a kernel multiplies by a weight matrix: its second input has two dimensions, if shapes are known."""
    if not PRODUCT.search(kernel.words) or ATTENTION.search(kernel.words) or EXPERTS.search(kernel.words):
        return False
    return not kernel.shapes or product_sizes(kernel) is not None


def is_attention(kernel: ProfiledKernel) -> bool:
    """Whether a kernel computes attention as a whole."""
    return bool(ATTENTION.search(kernel.words)) and "cache" not in kernel.words


def is_experts(kernel: ProfiledKernel) -> bool:
    """Whether a kernel multiplies by the matrices of several experts."""
    return bool(EXPERTS.search(kernel.words))


def product_sizes(kernel: ProfiledKernel) -> tuple[int, int, int] | None:
    """m, k, n of a product with a weight matrix, from the shapes of its inputs; None if they do not fit."""
    dims = [d for d in kernel.shapes if d]
    if "addmm" in kernel.call and len(dims) >= 3:
        dims = dims[1:]
    if len(dims) < 2 or len(dims[1]) != 2 or len(dims[0]) < 1:
        return None
    rows, k = 1, dims[0][-1]
    for size in dims[0][:-1]:
        rows *= size
    if "linear" in kernel.call:
        return (rows, k, dims[1][0]) if dims[1][1] == k else None
    return (rows, k, dims[1][1]) if dims[1][0] == k else None


def owns(kind: str, kernel: ProfiledKernel) -> bool:
    """Whether a kernel's name indicates a kind of op."""
    rule = OWN.get(kind)
    return rule is not None and bool(rule.search(kernel.words))


def is_shared(kernel: ProfiledKernel) -> bool:
    """Whether a kernel is elementwise work, a copy or a view."""
    return bool(SHARED.search(kernel.words))


def attention_sizes(kernel: ProfiledKernel) -> tuple[int, int, int] | None:
    """Sequences, new tokens and keys of attention, from its queries and keys [b, h, s, d]; None without shapes."""
    dims = [d for d in kernel.shapes if len(d) == 4]
    if "scaled_dot_product" not in kernel.call or len(dims) < 2:
        return None
    return dims[0][0], dims[0][2], dims[1][2]
