"""torchtitan: a function that sets fields of its `Trainer.Config` of 2026-02, by torchtitan/config/configs.py."""

from __future__ import annotations

from collections.abc import Mapping

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

SCHEDULES: Mapping[str, str] = {"gpipe": "GPipe", "1f1b": "1F1B", "interleaved": "Interleaved1F1B",
                                  "zb-v": "ZBVZeroBubble", "dualpipev": "DualPipeV"}  # fmt: skip
BACKENDS: Mapping[str, str] = {"deepep": "deepep", "alltoall": "standard"}
"""Library that dispatches experts' tokens → `expert_parallel_comm_backend`."""
CONVERTERS: Mapping[str, str] = {
    "fp8": "Float8LinearConverter, tensorwise", "fp8-mixed": "Float8LinearConverter, tensorwise",
    "mxfp8": "MXLinearConverter, mxfp8_cublas",
}  # fmt: skip
"""Recipe → the converter of products, and its recipe."""
ROTATIONS: Mapping[str, str] = {"ring": "alltoall", "all_gather": "allgather"}
"""Exchange of keys and values in context parallelism → `context_parallel_rotate_method`."""


def torchtitan_told(e: TrainingEstimate, n: LayoutSizes) -> Told:
    """Settings of torchtitan, section by section."""
    yield ConfigEntry("training.seq_len", n.tokens)
    yield ConfigEntry("training.local_batch_size", n.micro_batch if n.pp == 1 else n.micro_batch * n.micro_batches)
    yield ConfigEntry("training.global_batch_size", n.batch)
    yield from _sharding(e, n)
    yield ConfigEntry("parallelism.tensor_parallel_degree", n.tp)
    yield ConfigEntry("parallelism.context_parallel_degree", n.cp)
    if n.cp > 1 and e.asked.layout.exchange in ROTATIONS:
        yield ConfigEntry("parallelism.context_parallel_rotate_method", ROTATIONS[e.asked.layout.exchange])
    elif n.cp > 1:
        yield Missing(f"exchange {e.asked.layout.exchange}: torchtitan rotates or gathers keys and values")
    if n.ep > 1:
        yield ConfigEntry("parallelism.expert_parallel_degree", n.ep)
        if n.etp in (1, n.tp):
            yield ConfigEntry("parallelism.expert_tensor_parallel_degree", n.etp)
        backend = BACKENDS.get(e.engine.dispatcher)
        if backend is None:
            yield Missing(f"dispatcher {e.engine.dispatcher}: torchtitan has an all-to-all and DeepEP")
        else:
            yield ConfigEntry("parallelism.expert_parallel_comm_backend", backend)
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
    (('tok_embeddings', 'layers.0'), ('layers.1', 'layers.2', 'norm', 'output'))
    """
    starts = [sum(chunks[:i]) for i in range(len(chunks))]
    parts = [[f"layers.{k}" for k in range(start, start + many)] for start, many in zip(starts, chunks, strict=True)]
    parts[0].insert(0, "tok_embeddings")
    parts[-1] += ["norm", "output"]
    return tuple(tuple(part) for part in parts)


def _recomputation(e: TrainingEstimate) -> Told:
    """Activation recomputation: whole layers, every n-th layer, or every second product (`op`)."""
    what, every = recompute_words(e.step), getattr(e.step, "recompute_every", None)
    if what == "full" and every is not None:
        yield ConfigEntry("activation_checkpoint.mode", "selective")
        yield ConfigEntry("activation_checkpoint.selective_ac_option", str(every))
    elif what == "op":
        yield ConfigEntry("activation_checkpoint.mode", "selective")
        yield ConfigEntry("activation_checkpoint.selective_ac_option", "op")
    elif what in ("none", "full"):
        yield ConfigEntry("activation_checkpoint.mode", what)
    else:
        yield ConfigEntry("activation_checkpoint.mode", "none")
        yield Missing(f"recompute {what}: torchtitan runs whole layers again, every so many, or op by op")


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
    if e.optimizer == "adamw":
        yield ConfigEntry("optimizer.name", "AdamW")
    else:
        yield Missing(f"optimizer {e.optimizer}: torchtitan has AdamW")
    if getattr(step, "optimizer_in_backward", False):
        yield Missing("optimizer in the backward pass: OptimizersInBackwardContainer.Config, a Python object")
    if overlaps(step, "tp") and n.tp > 1:
        yield ConfigEntry("parallelism.enable_async_tensor_parallel", True)
        yield ConfigEntry("compile.enable", True)
    if set(step.offload) == {"parameters", "gradients", "optimizer"}:
        yield ConfigEntry("training.enable_cpu_offload", True)
    elif step.offload:
        yield Missing(f"offload {', '.join(step.offload)}: torchtitan moves weights, gradients and state together")
    if not overlaps(step, "dp") and n.dp > 1:
        yield Missing("no overlap: FSDP sends beside the passes")
    if n.tp > 1 and not layout.sp:
        yield Missing("tp without sp: torchtitan's tensor parallelism splits norms and residuals too")
    if n.ep > 1 and n.etp not in (1, n.tp):
        yield Missing(f"etp={n.etp}: torchtitan's experts have no tensor parallelism or that of the rest, {n.tp}")
    if layout.capacity is not None:
        yield Missing(f"capacity {layout.capacity:g}: torchtitan drops no tokens")
    if e.loss != "eager":
        yield Missing(f"loss {e.loss}: torchtitan's is eager")
    if not step.flash:
        yield Missing("attention kernel by kernel: torchtitan calls PyTorch's attention")
    yield from not_of_layout(e, "torchtitan")
