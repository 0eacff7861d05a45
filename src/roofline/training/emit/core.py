"""Fields of Megatron Core's configs, which Megatron-LM takes as flags and Megatron Bridge as YAML.

Names and meanings: NVIDIA/Megatron-LM, megatron/training/arguments.py, core/model_parallel_config.py and
core/distributed/distributed_data_parallel_config.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from roofline.model import modules as m
from roofline.training.emit.sizes import (
    ConfigEntry,
    LayoutSizes,
    Missing,
    Told,
    not_of_layout,
    overlaps,
    recompute_words,
)
from roofline.training.estimate import TrainingEstimate

SHARDING: Mapping[int, str] = {2: "optim_grads", 3: "optim_grads_params"}
"""ZeRO stage → sharding strategy of Megatron FSDP."""
EXCHANGES: Mapping[str, str] = {"ring": "p2p", "all_gather": "allgather", "ulysses": "a2a"}
"""Exchange of keys and values in context parallelism → `cp_comm_type`."""
MODULES: tuple[tuple[frozenset[str], str], ...] = (
    (frozenset({"router", "experts_gate_up_proj", "experts_act", "experts_down_proj"}), "moe"),
    (frozenset({"shared_gate_up_proj", "shared_act", "shared_down_proj"}), "shared_experts"),
    (frozenset({"gate_up_proj", "act", "down_proj"}), "mlp"), (frozenset({"up_proj", "act", "down_proj"}), "mlp"),
    (frozenset({"q_b_proj", "attention_kv_b", "rope"}), "mla_up_proj"), (frozenset({"attention"}), "core_attn"),
    (frozenset({"attn_norm", "ffn_norm"}), "layernorm"), (frozenset({"experts_act"}), "moe_act"),
)  # fmt: skip
"""Recomputed modules → Megatron Core's name for the set (core/transformer/transformer_config.py, recompute_modules)."""
OPTIMIZERS: Mapping[str, str] = {"adamw": "adam", "adamw-bf16": "adam", "momentum": "sgd", "muon": "muon"}
"""Optimizer → Megatron Core's name; its SGD has momentum."""
DRAFTED = "mtp_proj"
"""Product by which a layer of multi-token prediction begins."""

FLEX: Mapping[str, str] = {"deepep": "deepep", "nvlink": "hybridep"}
"""Library that dispatches experts' tokens → backend of Megatron Core's flexible dispatcher."""


def core_told(e: TrainingEstimate, n: LayoutSizes) -> Told:
    """Degrees, batch, state, recomputation, schedule and overlap, under the fields' names."""
    layout = e.asked.layout
    yield ConfigEntry("tensor_model_parallel_size", n.tp)
    yield ConfigEntry("pipeline_model_parallel_size", n.pp)
    yield ConfigEntry("context_parallel_size", n.cp)
    if any(isinstance(x, m.Experts) for x, _ in e.model.modules()):
        yield ConfigEntry("expert_model_parallel_size", n.ep)
        yield ConfigEntry("expert_tensor_parallel_size", n.etp)
        if n.ep > 1:
            backend = FLEX.get(e.engine.dispatcher)
            yield ConfigEntry("moe_token_dispatcher_type", "alltoall" if backend is None else "flex")
            if backend is not None:
                yield ConfigEntry("moe_flex_dispatcher_backend", backend)
        if layout.capacity is not None:
            yield ConfigEntry("moe_expert_capacity_factor", float(layout.capacity))
    if layout.sp and n.tp > 1:
        yield ConfigEntry("sequence_parallel", True)
    if n.cp > 1:
        yield ConfigEntry("cp_comm_type", EXCHANGES[layout.exchange])
    yield ConfigEntry("micro_batch_size", n.micro_batch)
    yield ConfigEntry("global_batch_size", n.batch)
    yield ConfigEntry("seq_length", n.tokens)
    yield from _pipeline(e, n)
    yield from _state(e, n)
    yield from _recomputation(e, n)
    yield from _overlap(e, n)
    yield from not_of_layout(e, "Megatron")
    if e.loss != "in-place":
        yield Missing(f"loss {e.loss}: Megatron Core keeps logits in place")
    if e.step.offload and set(e.step.offload) != {"optimizer"}:
        away = ", ".join(name for name in e.step.offload if name != "optimizer")
        yield Missing(f"offload {away}: Megatron Core moves a number of layers, as Transformer Engine's version allows")


def _pipeline(e: TrainingEstimate, n: LayoutSizes) -> Told:
    """Layers of stages and chunks, and the schedule: 1F1B, interleaved if stages have several chunks."""
    drafts = sum(any(x.name == DRAFTED for x in layer.modules) for layer in e.model.layers)
    if drafts:
        yield ConfigEntry("mtp_num_layers", drafts)
    if n.pp > 1 and (drafts or not n.even):
        yield ConfigEntry("pipeline_model_parallel_layout", layout_text(n.chunks, drafts))
    elif n.vp > 1:
        yield ConfigEntry("virtual_pipeline_model_parallel_size", n.vp)
    if n.pp > 1 and e.schedule not in ("1f1b", "interleaved"):
        yield Missing(f"schedule {e.schedule}: Megatron Core has 1F1B, interleaved where stages have chunks")


def layout_text(chunks: tuple[int, ...], drafts: int = 0) -> str:
    """Megatron Core's notation for a pipeline: E embedding, t layer, m multi-token prediction, L loss, | after a stage.

    >>> layout_text((3, 4, 1)), layout_text((4, 4, 3), 1)
    ('Et*3|t*4|t*1L', 'Et*4|t*4|t*2mL')
    """
    stages = [f"t*{layers}" if layers else "" for layers in chunks]
    if drafts:
        layers = chunks[-1] - drafts
        stages[-1] = f"{f't*{layers}' if layers else ''}{'m' * drafts}"
    stages[0], stages[-1] = f"E{stages[0]}", f"{stages[-1]}L"
    return "|".join(stages)


def _state(e: TrainingEstimate, n: LayoutSizes) -> Told:
    """The optimizer, and how its state, gradients and weights are sharded."""
    zero, optimizer = e.asked.layout.zero, e.optimizer
    if zero:
        yield ConfigEntry("use_distributed_optimizer", True)
        if n.sharers < n.dp * n.cp:
            yield ConfigEntry("num_distributed_optimizer_instances", n.dp * n.cp // n.sharers)
    if zero in SHARDING:
        yield ConfigEntry("use_megatron_fsdp", True)
        yield ConfigEntry("data_parallel_sharding_strategy", SHARDING[zero])
        yield ConfigEntry("gradient_accumulation_fusion", False)
        yield ConfigEntry("ckpt_format", "fsdp_dtensor")
    if optimizer in OPTIMIZERS:
        yield ConfigEntry("optimizer", OPTIMIZERS[optimizer])
        if optimizer == "muon" and zero in SHARDING:
            yield Missing(f"muon with zero={zero}: Megatron-FSDP asserts that the optimizer is no Muon")
    else:
        yield Missing(f"optimizer {optimizer}: Megatron Core has Adam, SGD with momentum and Muon")
    narrow, away = optimizer == "adamw-bf16", "optimizer" in e.step.offload
    if away:
        yield ConfigEntry("optimizer_cpu_offload", True)
    if narrow or away:
        yield ConfigEntry("use_precision_aware_optimizer", True)
    if narrow:
        yield ConfigEntry("exp_avg_dtype", "bf16")
        yield ConfigEntry("exp_avg_sq_dtype", "bf16")
        if not zero:
            yield Missing("moments in bf16 without ZeRO: Megatron Core's need its distributed optimizer")


def _recomputation(e: TrainingEstimate, n: LayoutSizes) -> Told:
    """Settings of activation recomputation."""
    what = recompute_words(e.step)
    if what == "none":
        return
    if e.step.recompute_every is not None:
        yield Missing(
            f"recompute {what} of every {e.step.recompute_every} layers: Megatron Core takes the first so many"
        )
    some = e.step.recompute_layers
    if some is not None and (what != "full" or n.vp > 1):
        yield Missing(f"recompute {what} of {some} layers a stage: Megatron Core takes whole layers, so many a chunk")
    if what == "full":
        block = some is not None and n.vp == 1
        yield ConfigEntry("recompute_granularity", "full")
        yield ConfigEntry("recompute_method", "block" if block else "uniform")
        yield ConfigEntry("recompute_num_layers", some if block and some is not None else 1)
        return
    names, rest = recompute_modules(frozenset({"attention"} if what == "selective" else what.split(",")))
    if rest:
        every = ", ".join(name for _, name in MODULES if name != "mlp")
        yield Missing(f"recompute {', '.join(sorted(rest))}: Megatron Core runs mlp, {every} again")
    if names:
        yield ConfigEntry("recompute_granularity", "selective")
        yield ConfigEntry("recompute_modules", names)


def recompute_modules(again: frozenset[str]) -> tuple[tuple[str, ...], frozenset[str]]:
    """Megatron Core's names for modules that run again, larger sets first, and the modules that it has no name for.

    >>> recompute_modules(frozenset({"attn_norm", "ffn_norm", "experts_act"}))
    (('layernorm', 'moe_act'), frozenset())
    """
    names, rest = [], again
    for modules, name in MODULES:
        if modules <= rest:
            names.append(name)
            rest = rest - modules
    return tuple(names), rest


def _overlap(e: TrainingEstimate, n: LayoutSizes) -> Told:
    """Settings of the overlap of communication and computation."""
    zero, spread = e.asked.layout.zero, n.dp * n.cp > 1
    if overlaps(e.step, "dp") and spread:
        yield ConfigEntry("overlap_grad_reduce", True)
        if zero:
            yield ConfigEntry("overlap_param_gather", True)
    if overlaps(e.step, "tp") and n.tp > 1:
        if e.asked.layout.sp:
            yield ConfigEntry("tp_comm_overlap", True)
        else:
            yield Missing("overlap of tensor parallelism without sp: Megatron Core needs sequence parallelism for it")
    if overlaps(e.step, "ep") and n.ep > 1:
        yield ConfigEntry("overlap_moe_expert_parallel_comm", True)
