"""Feed-forward networks: dense networks, mixtures of experts, and which layers have experts."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from roofline.model.configs.config import Config
from roofline.model.families.blocks.projections import column_product, row_product
from roofline.model.modules import Activation, Add, Experts, Gate, Linear, Module, Modules, Router

ACTIVATIONS = (
    "silu", "swish", "gelu", "gelu_new", "gelu_fast", "gelu_python", "gelu_pytorch_tanh", "quick_gelu",
    "gelu_accurate", "relu", "relu2", "relu_squared", "relu6", "tanh", "sigmoid", "xielu", "mish", "laplace",
    "linear", "leaky_relu", "hardswish", "gelu_10", "gelu_python_tanh", "prelu",
)  # fmt: skip


def activation(c: Config, keys: str = "hidden_act", default: str = "silu") -> str:
    """Name of the activation function."""
    return c.text(keys, default, ACTIVATIONS)


def mlp(
    width: int,
    inner: int,
    act: str,
    *,
    gated: bool = True,
    bias: bool = False,
    learned: int = 0,
    prefix: str = "",
    middle: Modules = (),
) -> Modules:
    """Feed-forward network: down(f(gate(x)) · up(x)), or down(f(up(x))) if not gated."""
    up = ("gate_up_proj", 2 * inner) if gated else ("up_proj", inner)
    return (
        replace(column_product(prefix + up[0], width, up[1], bias, "ffn"), gated=gated),
        Activation(name=f"{prefix}act", width=inner, function=act, gated=gated, learned=learned),
        *middle,
        row_product(f"{prefix}down_proj", inner, width, bias, "ffn"),
    )


# -- experts -------------------------------------------------------------------------------------------------------
def moe(
    c: Config,
    width: int,
    experts: int,
    top_k: int | None,
    inner: int,
    *,
    act: str | None = None,
    gated: bool = True,
    shared: int = 0,
    shared_gate: bool = False,
    shared_bias: bool = False,
    router_bias: bool = False,
    expert_bias: bool = False,
    correction: bool = False,
    reference: Literal["grouped", "each", "all"] = "grouped",
    top_k_key: str = "num_experts_per_tok",
    identities: int = 0,
) -> Modules:
    """Mixture of experts: router, routed experts of width `inner`, and a shared expert of width `shared`.

    `correction`: the router's load-balancing bias is a parameter. `shared_gate`: a sigmoid gates the shared expert.
    `identities`: additional experts that compute nothing.
    """
    choices = experts + identities
    if top_k is not None and top_k > choices:
        raise c.error(top_k_key, f"at most the number of experts, {choices}")
    act = act or activation(c)
    parts: list[Module] = [
        Router(name="router", inputs=width, experts=choices, bias=router_bias, correction=correction),
        Experts(
            name="experts", hidden=width, inner=inner, experts=experts, top_k=top_k, function=act, gated=gated,
            bias=expert_bias, reference=reference, identities=identities,
        ),
    ]  # fmt: skip
    if shared:
        parts += mlp(width, shared, act, gated=gated, prefix="shared_", bias=shared_bias)
        if shared_gate:
            parts.append(Linear(name="shared_gate_proj", inputs=width, outputs=1, beside=True))
            parts.append(Gate(name="shared_gate", width=width, gates=1))
        parts.append(Add(name="shared_add", width=width))
    return tuple(parts)


def fine_moe(
    c: Config, width: int, *, correction: bool = False, shared_bias: bool = False, shared_inner: int | None = None
) -> Modules:
    """Many narrow experts of `moe_intermediate_size` with shared experts (DeepSeekMoE, arXiv:2401.06066).

    `shared_inner`: width of a shared expert where it differs from that of a routed one.
    """
    inner, top_k = c.size("moe_intermediate_size"), c.size("num_experts_per_tok|num_experts_per_token", None)
    shared = (shared_inner or inner) * c.size("n_shared_experts|num_shared_experts", 0, least=0)
    count = c.size("n_routed_experts|num_experts|num_local_experts")
    modules = moe(c, width, count, top_k, inner, shared=shared, shared_bias=shared_bias, correction=correction)
    groups, top = (c.get(key) for key in ("n_group", "topk_group"))
    if not (isinstance(groups, int) and isinstance(top, int) and 1 < top < groups):
        return modules
    return tuple(replace(m, groups=groups, top_groups=top) if isinstance(m, Experts) else m for m in modules)


def mlp_layer_types(c: Config, layers: int, first_dense: int, every: int = 1) -> list[bool]:
    """Whether each layer has experts: from `mlp_layer_types`, or every `every`-th layer from `first_dense` on."""
    default = ["sparse" if i >= first_dense and i % every == 0 else "dense" for i in range(layers)]
    return [t == "sparse" for t in c.per_layer("mlp_layer_types", layers, ("dense", "sparse"), default)]
