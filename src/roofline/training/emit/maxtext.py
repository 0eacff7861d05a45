"""MaxText: the YAML of a run, by src/MaxText/configs/base.yml."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import gcd, inf, nextafter

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
from roofline.training.layouts.candidates import cheap_modules

OPTIMIZERS: Mapping[str, str] = {"adamw": "adamw", "sgd": "sgd", "muon": "muon"}


def maxtext_told(e: TrainingEstimate, n: LayoutSizes) -> Told:
    """Settings of MaxText. The global batch is per_device_batch_size · devices · gradient_accumulation_steps."""
    yield ConfigEntry("max_target_length", n.tokens)
    at_once = n.micro_batch * n.dp * (n.micro_batches if n.pp > 1 else 1)
    yield ConfigEntry("per_device_batch_size", each_device(at_once, n.chips))
    yield ConfigEntry("gradient_accumulation_steps", 1 if n.pp > 1 else n.micro_batches)
    yield from _mesh(e, n)
    yield from _pipeline(e, n)
    yield from _precision(e, n)
    yield from _rest(e, n)


def each_device(sequences: int, devices: int) -> float:
    """Sequences per device, rounded so that MaxText's `int(num_devices · …)` gives the exact number of sequences.

    >>> each_device(16, 64), int(49 * each_device(1, 49))
    (0.25, 1)
    """
    share = sequences / devices
    return share if int(devices * share) == sequences else nextafter(share, inf)


def _mesh(e: TrainingEstimate, n: LayoutSizes) -> Told:
    """Axes of the mesh, within a slice or node (ici) and between them (dcn), filled from the innermost outwards.

    `tensor_sequence` also splits norms, as sequence parallelism does (base.yml, `activation_norm_length`).
    """
    zero, replicas = e.asked.layout.zero, n.dp
    if n.dp % n.ep:
        yield Missing(f"ep={n.ep}: MaxText's expert axis is a part of the {n.dp} replicas")
    else:
        replicas = n.dp // n.ep
    fsdp = 1
    if zero == 3:
        share = n.sharers // n.cp // n.ep if n.sharers % (n.cp * n.ep) == 0 else 0
        fsdp = share if share and replicas % share == 0 else replicas
        if fsdp != share:
            yield Missing(f"shard {n.sharers}: MaxText shares out over whole fsdp, context and expert axes")
    elif zero == 2:
        yield Missing("zero=2: MaxText shares out the optimizer's state, or all of it")
    if zero in (1, 2):
        yield ConfigEntry("shard_optimizer_over_data", True)
    if zero < 3 and (n.cp > 1 or n.ep > 1):
        yield Missing(f"zero={zero}: MaxText shares weights out over the context and expert axes too")
    tensor = "tensor_sequence" if e.asked.layout.sp and n.tp > 1 else "tensor"
    expert = n.dp // replicas
    axes = {
        tensor: n.tp, "context": n.cp, "expert": expert, "fsdp": fsdp, "data": replicas // fsdp, "pipeline": n.pp,
    }  # fmt: skip
    inner = n.chips if e.chip.kind == "tpu" else n.domain
    for name, within, between in placed(axes, inner):
        yield ConfigEntry(f"ici_{name}_parallelism", within)
        yield ConfigEntry(f"dcn_{name}_parallelism", between)


def placed(axes: Mapping[str, int], inner: int) -> Iterator[tuple[str, int, int]]:
    """Degree of each axis within a node of `inner` devices and between nodes; the innermost axes fill the node first.

    >>> list(placed({"tensor": 4, "fsdp": 16, "pipeline": 2}, 8))
    [('tensor', 4, 1), ('fsdp', 2, 8), ('pipeline', 1, 2)]
    """
    for name, degree in axes.items():
        within = gcd(degree, inner)
        yield name, within, degree // within
        inner //= within


def _pipeline(e: TrainingEstimate, n: LayoutSizes) -> Told:
    """Pipeline stages and their repeats."""
    if n.pp == 1:
        return
    if n.even:
        yield ConfigEntry("num_layers_per_pipeline_stage", n.chunks[0])
        yield ConfigEntry("num_pipeline_repeats", n.vp)
    else:
        yield Missing(f"stages of {'+'.join(map(str, n.chunks))} layers: MaxText's are equal")
    yield ConfigEntry("num_pipeline_microbatches", n.micro_batches)
    if e.schedule != "gpipe":
        yield Missing(f"schedule {e.schedule}: MaxText runs all forwards, then all backwards, circularly with repeats")


def _precision(e: TrainingEstimate, n: LayoutSizes) -> Told:
    """Number formats: MaxText keeps weights in `weight_dtype` and multiplies in `dtype` or quantised.

    It refuses fp8 with accumulated gradients (configs/types.py).
    """
    recipe = e.recipe
    pure = recipe == "bf16-pure"
    yield ConfigEntry("dtype", "float32" if recipe == "fp32" else "bfloat16")
    yield ConfigEntry("weight_dtype", "bfloat16" if pure else "float32")
    yield ConfigEntry("grad_dtype", "bfloat16" if pure or recipe == "bf16-gradients" else "float32")
    if recipe in ("fp8", "fp8-mixed") and n.pp == 1 and n.micro_batches > 1:
        yield Missing(f"recipe {recipe} over {n.micro_batches} micro-batches: MaxText accumulates no gradients in fp8")
    elif recipe in ("fp8", "fp8-mixed"):
        yield ConfigEntry("quantization", "fp8")
    if recipe not in ("fp32", "bf16-pure", "bf16-mixed", "fp8-mixed"):
        yield Missing(f"recipe {recipe}: MaxText keeps weights in one format, here fp32, and no copy beside")


def _rest(e: TrainingEstimate, n: LayoutSizes) -> Told:
    """Recomputation, optimizer, experts and offloading to the host."""
    layout, step = e.asked.layout, e.step
    if recompute_words(step) == "full":
        yield ConfigEntry("remat_policy", "full")
    else:
        yield ConfigEntry("remat_policy", "minimal_with_context")
        if set(step.recompute) != set(cheap_modules(e.model)):
            told = f"recompute {recompute_words(step)}"
            yield Missing(f"{told}: MaxText keeps products and attention at most, and makes the rest again")
    if e.optimizer in OPTIMIZERS:
        yield ConfigEntry("opt_type", OPTIMIZERS[e.optimizer])
    else:
        yield Missing(f"optimizer {e.optimizer}: MaxText has AdamW, SGD and Muon")
    if layout.capacity is not None:
        yield ConfigEntry("capacity_factor", float(layout.capacity))
    if "optimizer" in step.offload:
        yield ConfigEntry("optimizer_memory_host_offload", True)
    if "parameters" in step.offload:
        yield ConfigEntry("parameter_memory_host_offload", True)
    left = [name for name in step.offload if name not in ("optimizer", "parameters")]
    if left:
        yield Missing(f"offload {', '.join(left)}: a matter of the policy of single tensors")
    if n.ep > 1 and n.etp > 1:
        yield Missing(f"etp={n.etp}: MaxText splits experts along its tensor axis")
    if n.cp > 1 and layout.exchange != "all_gather":
        yield Missing(f"exchange {layout.exchange}: MaxText's context axis gathers keys and values")
    if not overlaps(step, "dp") and n.dp > 1:
        yield Missing("no overlap: XLA's, by its own flags")
    yield from not_of_layout(e, "MaxText")
