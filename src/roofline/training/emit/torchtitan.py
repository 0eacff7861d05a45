"""torchtitan 0.3: a function that sets fields of its `Trainer.Config`, by its config/configs.py and trainer.py."""

from __future__ import annotations

from collections.abc import Mapping

from roofline.training.emit.sizes import (
    ConfigEntry,
    LayoutSizes,
    MadeBy,
    Missing,
    Told,
    not_of_layout,
    overlaps,
    recompute_words,
)
from roofline.training.estimate import TrainingEstimate

SCHEDULES: Mapping[str, str] = {"gpipe": "GPipe", "1f1b": "1F1B", "interleaved": "Interleaved1F1B",
                                  "zb-v": "ZBVZeroBubble", "dualpipev": "DualPipeV"}  # fmt: skip
BACKENDS: Mapping[str, str] = {"deepep": "deepep", "nvlink": "hybridep", "alltoall": "standard"}
"""Library that dispatches experts' tokens → `moe_comm_backend` of the function that makes a model's config."""
CONVERTERS: Mapping[str, str] = {
    "fp8": "Float8LinearConverter, tensorwise", "fp8-mixed": "Float8LinearConverter, tensorwise",
    "mxfp8": "MXLinearConverter, mxfp8_cublas",
}  # fmt: skip
"""Recipe → the converter of products, and its recipe."""
CHECKPOINTING = "torchtitan.distributed.activation_checkpoint"
"""Module of the classes whose configs say what runs again."""


IMPLEMENTATIONS: Mapping[str, str] = {"adamw": "fused", "adamw-bf16": "fused_opt_states_bf16"}
"""Optimizer → implementation of the config's AdamW."""


def torchtitan_told(e: TrainingEstimate, n: LayoutSizes) -> Told:
    """Settings of torchtitan, section by section."""
    yield ConfigEntry("training.seq_len", n.tokens)
    yield ConfigEntry("training.local_batch_size", n.micro_batch if n.pp == 1 else n.micro_batch * n.micro_batches)
    yield ConfigEntry("training.global_batch_size", n.batch)
    yield from _sharding(e, n)
    yield ConfigEntry("parallelism.tensor_parallel_degree", n.tp)
    yield ConfigEntry("parallelism.context_parallel_degree", n.cp)
    if n.cp > 1 and e.asked.layout.exchange != "all_gather":
        yield Missing(f"exchange {e.asked.layout.exchange}: torchtitan gathers keys and values (exchange=all_gather)")
    if n.ep > 1:
        yield ConfigEntry("parallelism.expert_parallel_degree", n.ep)
        backend = BACKENDS.get(e.engine.dispatcher)
        where = "torchtitan has an all-to-all, DeepEP and HybridEP"
        if backend is not None:
            where = f"moe_comm_backend={backend!r} of the function that makes the model's config"
        yield Missing(f"dispatcher {e.engine.dispatcher}: {where}")
    yield from _pipeline(e, n)
    yield from _recomputation(e)
    yield from _precision(e)
    yield from _rest(e, n)


def _sharding(e: TrainingEstimate, n: LayoutSizes) -> Told:
    """Replicas: FSDP shards weights, gradients and state over `shard` of them and all context-parallel ranks."""
    zero = e.asked.layout.zero
    shard = n.sharers // n.cp if zero and n.sharers % n.cp == 0 and n.dp % (n.sharers // n.cp) == 0 else 0
    if zero and not shard:
        yield Missing(f"shard {n.sharers}: FSDP shares out over whole groups of the {n.cp} context ranks")
    shard = max(shard, 1)
    yield ConfigEntry("parallelism.data_parallel_replicate_degree", n.dp // shard)
    yield ConfigEntry("parallelism.data_parallel_shard_degree", shard)
    if zero == 3:
        kept = "always" if getattr(e.step, "reshard", True) else "never"
        yield ConfigEntry("parallelism.fsdp_reshard_after_forward", kept)
    elif zero:
        yield ConfigEntry("parallelism.fsdp_reshard_after_forward", "never")
        yield Missing(
            f"zero={zero}: FSDP shares out weights too, here gathered once for both passes (zero=3, no reshard)"
        )
    if zero == 0 and n.cp > 1:
        yield Missing("zero=0 with context parallelism: FSDP shares out over the context ranks")


def _pipeline(e: TrainingEstimate, n: LayoutSizes) -> Told:
    """Pipeline stages: equal chunks, with embedding and head counted as no layers; otherwise a list of modules."""
    yield ConfigEntry("parallelism.pipeline_parallel_degree", n.pp)
    if n.pp == 1:
        return
    yield ConfigEntry("parallelism.pipeline_parallel_microbatch_size", n.micro_batch)
    if e.schedule in SCHEDULES:
        yield ConfigEntry("parallelism.pipeline_parallel_schedule", SCHEDULES[e.schedule])
    else:
        yield Missing(f"schedule {e.schedule}: torchtitan's of that kind hold a stage in two pieces (ZBV, DualPipeV)")
    if n.even:
        yield ConfigEntry("parallelism.pipeline_parallel_layers_per_stage", n.chunks[0])
        yield ConfigEntry("parallelism.pipeline_parallel_first_stage_less_layers", 0)
        yield ConfigEntry("parallelism.pipeline_parallel_last_stage_less_layers", 0)
    else:
        yield ConfigEntry("parallelism.module_fqns_per_model_part", model_parts(n.chunks))


def model_parts(chunks: tuple[int, ...]) -> tuple[tuple[str, ...], ...]:
    """Names of torchtitan's modules in each chunk.

    >>> model_parts((1, 2))
    (('tok_embeddings', 'layers.0'), ('layers.1', 'layers.2', 'norm', 'lm_head'))
    """
    starts = [sum(chunks[:i]) for i in range(len(chunks))]
    parts = [[f"layers.{k}" for k in range(start, start + many)] for start, many in zip(starts, chunks, strict=True)]
    parts[0].insert(0, "tok_embeddings")
    parts[-1] += ["norm", "lm_head"]
    return tuple(tuple(part) for part in parts)


def _recomputation(e: TrainingEstimate) -> Told:
    """Activation recomputation: whole layers, or every second product (`op`)."""
    what, step = recompute_words(e.step), e.step
    classes = {"full": "FullAC.Config", "op": "SelectiveAC.Config"}
    if what in classes:
        yield ConfigEntry("activation_checkpoint", MadeBy(CHECKPOINTING, classes[what]))
    else:
        yield ConfigEntry("activation_checkpoint", None)
        if what != "none":
            yield Missing(f"recompute {what}: torchtitan runs whole layers again, or op by op")
    for name in ("recompute_every", "recompute_layers"):
        if getattr(step, name) is not None:
            yield Missing(f"{name} {getattr(step, name)}: torchtitan runs all layers again or none")


def _precision(e: TrainingEstimate) -> Told:
    """Number formats: products in bf16, fp8 or mxfp8; torchtitan keeps weights in fp32, without a master copy."""
    recipe = e.recipe
    single = recipe == "fp32"
    yield ConfigEntry("training.mixed_precision_param", "float32" if single else "bfloat16")
    yield ConfigEntry("training.mixed_precision_reduce", "float32")
    if recipe in CONVERTERS:
        yield Missing(f"products of {recipe}: model_converters, a Python object of torchtitan ({CONVERTERS[recipe]})")
    if recipe not in ("fp32", "bf16-mixed", "fp8-mixed"):
        yield Missing(f"recipe {recipe}: torchtitan keeps weights in fp32 and gathers them in bf16, no master beside")


def _rest(e: TrainingEstimate, n: LayoutSizes) -> Told:
    """Optimizer, overlap, loss and offloading to the host."""
    layout, step = e.asked.layout, e.step
    if e.optimizer in IMPLEMENTATIONS:
        yield ConfigEntry("optimizer.implementation", IMPLEMENTATIONS[e.optimizer])
    else:
        yield Missing(f"optimizer {e.optimizer}: AdamW, or DistMuon in optimizer.param_groups")
    if getattr(step, "optimizer_in_backward", False):
        yield Missing("optimizer in the backward pass: of no setting")
    if overlaps(step, "tp") and n.tp > 1:
        yield ConfigEntry("compile.enable_async_tensor_parallel", True)
        yield ConfigEntry("compile.enable", True)
    if set(step.offload) == {"parameters", "gradients", "optimizer"}:
        yield ConfigEntry("training.enable_cpu_offload", True)
    elif step.offload:
        yield Missing(f"offload {', '.join(step.offload)}: torchtitan moves weights, gradients and state together")
    if not overlaps(step, "dp") and n.dp > 1:
        yield Missing("no overlap: FSDP sends beside the passes")
    if n.tp > 1 and not layout.sp:
        yield Missing("tp without sp: torchtitan's tensor parallelism splits norms and residuals too")
    if n.ep > 1 and n.etp > 1:
        yield Missing(f"etp={n.etp}: torchtitan's experts that are shared out have no tensor parallelism")
    if layout.capacity is not None:
        yield Missing(f"capacity {layout.capacity:g}: torchtitan drops no tokens")
    if e.loss != "eager":
        yield Missing(f"loss {e.loss}: torchtitan's is eager")
    if not step.flash:
        yield Missing("attention kernel by kernel: torchtitan calls PyTorch's attention")
    yield from not_of_layout(e, "torchtitan")
