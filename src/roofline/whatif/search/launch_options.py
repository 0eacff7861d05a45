"""Options of serving engines for a replica, each with the assumption behind it.

vLLM: `vllm serve`, vllm/engine/arg_utils.py. SGLang: `sglang.launch_server`, python/sglang/srt/server_args.py.
TensorRT-LLM: `trtllm-serve`, tensorrt_llm/commands/serve.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

from roofline.hardware.cluster import cluster_named
from roofline.inference.deployment import is_several, node_size
from roofline.inference.settings import setup
from roofline.whatif.search.serving.plans import Group, ServingPlan


class Option(NamedTuple):
    """An engine's option, its value (None for a flag), and the reason for it."""

    name: str
    value: int | float | str | None
    why: str


class Unsaid(NamedTuple):
    """A feature of a plan for which the engine has no option."""

    what: str


ToldOptions: TypeAlias = Iterator[Option | Unsaid]


@dataclass(frozen=True)
class Role:
    """A kind of replica: `server`, or `prefill` and `decode` for separate pools (`pooled`).

    `length`: tokens of a request, prompt and answer. `tokens`: most new tokens of a step. `sequences`: most concurrent
    requests per data-parallel rank. `quantised`: format that a 16-bit checkpoint is quantised to while loading, "" to
    keep its own. `kv`: format of the cache. `resource`: Kubernetes' name of a chip. `node`: chips of a machine.
    """

    name: str
    model: str
    replicas: int
    tp: int
    pp: int
    dp: int
    ep: int
    length: int
    tokens: int
    sequences: int
    share: float
    quantised: str
    kv: str
    resource: str
    node: int

    @property
    def chips(self) -> int:
        """Chips of one replica."""
        return self.tp * self.pp * self.dp

    @property
    def pooled(self) -> bool:
        """Whether it runs only one phase, prefill or decode."""
        return self.name != "server"


def roles_of(plan: ServingPlan) -> tuple[Role, ...]:
    """Kinds of replicas of a plan."""
    if plan.prefill is None:
        return (_role(plan, "server", plan.group, plan.batch),)
    engine = plan.prefill.site.how.on(plan.prefill.site.chip)
    prompts = max(1, engine.chunk // int(plan.requests.input))
    dp = int(plan.prefill.layout.dp)
    return (
        _role(plan, "prefill", plan.prefill, prompts * dp), _role(plan, "decode", plan.group, plan.batch),
    )  # fmt: skip


def _role(plan: ServingPlan, name: str, group: Group, requests: int) -> Role:
    layout, site = group.layout, group.site
    asked = site.setup(plan.model, layout)
    own = setup(plan.model, replace(site.under(layout), precision=None), site.bill)
    changed = asked.formats.ffn if asked.formats.ffn != own.formats.ffn else None
    dp = int(layout.dp)
    vendor = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu", "intel": "gpu.intel.com/i915"}
    chip = site.chip
    node = node_size(cluster_named(site.on)) if is_several(site.on) else 8
    return Role(
        name, plan.model.name, group.replicas, int(layout.tp), layout.pp, dp, int(layout.ep),
        int(plan.requests.input + plan.demand.output_tokens), asked.engine.chunk, -(-requests // dp),
        round(float(asked.engine.share), 4), "" if changed is None else changed.name, asked.formats.kv.name,
        vendor.get(chip.vendor.lower(), "google.com/tpu"), node,
    )  # fmt: skip


def _common(role: Role) -> ToldOptions:
    """Features that no engine has an option for."""
    if role.chips > role.node:
        yield Unsaid(
            f"{role.name}: {role.chips} chips of a replica on machines of {role.node}: the processes of each machine"
        )
    if role.quantised not in ("", "fp8"):
        yield Unsaid(f"{role.name}: weights in {role.quantised} need a checkpoint that has them")
    if role.kv not in ("bf16", "fp16", "fp8"):
        yield Unsaid(f"{role.name}: a cache in {role.kv}")
    if role.pooled:
        yield Unsaid("the router that sends each request to a replica of either pool")
    elif role.replicas > 1:
        yield Unsaid("the balancer that shares requests out evenly")


def _vllm(role: Role) -> ToldOptions:
    yield Option("--tensor-parallel-size", role.tp, "ranks that share each layer")
    yield Option("--pipeline-parallel-size", role.pp, "stages of layers")
    if role.dp > 1:
        yield Option("--data-parallel-size", role.dp, "ranks whose attention has requests of its own")
    if role.ep > 1:
        yield Option("--enable-expert-parallel", None, f"experts on all {role.ep} ranks of a stage")
    yield Option("--max-model-len", role.length, "prompt and answer, the longest request that was estimated")
    yield Option("--max-num-batched-tokens", role.tokens, "most new tokens of a step")
    yield Option("--max-num-seqs", role.sequences, "requests at once of a rank of data parallelism, as estimated")
    yield Option("--gpu-memory-utilization", role.share, "share of memory for weights, activations and cache")
    if role.quantised == "fp8":
        yield Option("--quantization", "fp8", "weights quantised while a checkpoint of 16 bits loads")
    if role.kv == "fp8":
        yield Option("--kv-cache-dtype", "fp8", "the cache's format")
    if role.pooled:
        sends = {"kv_connector": "NixlConnector", "kv_role": "kv_both"}
        yield Option("--kv-transfer-config", json.dumps(sends), "caches travel from prefill to decode")
        yield Unsaid("VLLM_NIXL_SIDE_CHANNEL_HOST and VLLM_NIXL_SIDE_CHANNEL_PORT of each replica")
    yield from _common(role)


def _sglang(role: Role) -> ToldOptions:
    yield Option("--tp-size", role.tp * role.dp, "all ranks of a stage, those of data-parallel attention included")
    yield Option("--pp-size", role.pp, "stages of layers")
    if role.dp > 1:
        yield Option("--dp-size", role.dp, "ranks whose attention has requests of its own")
        yield Option("--enable-dp-attention", None, "as dp with experts in common means")
    if role.ep > 1:
        yield Option("--ep-size", role.ep, "ranks that experts are spread over")
    yield Option("--context-length", role.length, "prompt and answer, the longest request that was estimated")
    yield Option("--chunked-prefill-size", role.tokens, "most new tokens of a step")
    yield Option("--max-running-requests", role.sequences * role.dp, "requests at once of a replica, as estimated")
    yield Option("--mem-fraction-static", role.share, "share of memory for weights and cache")
    if role.quantised == "fp8":
        yield Option("--quantization", "fp8", "weights quantised while a checkpoint of 16 bits loads")
    if role.kv == "fp8":
        yield Option("--kv-cache-dtype", "fp8_e4m3", "the cache's format")
    if role.pooled:
        yield Option("--disaggregation-mode", role.name, "this pool's phase")
        yield Option("--disaggregation-transfer-backend", "nixl", "caches travel from prefill to decode")
    yield from _common(role)


def _trtllm(role: Role) -> ToldOptions:
    yield Option("--tensor_parallel_size", role.tp * role.dp, "all ranks of a stage")
    yield Option("--pipeline_parallel_size", role.pp, "stages of layers")
    if role.ep > 1:
        yield Option("--moe_expert_parallel_size", role.ep, "ranks that experts are spread over")
    yield Option("--max_seq_len", role.length, "prompt and answer, the longest request that was estimated")
    yield Option("--max_num_tokens", role.tokens, "most new tokens of a step")
    yield Option("--max_batch_size", role.sequences, "requests at once of a rank, as estimated")
    yield Option("--free_gpu_memory_fraction", role.share, "share for the cache of what weights and activations leave")
    if role.length > role.tokens:
        yield Option("--enable_chunked_prefill", None, "prompts longer than a step")
    if role.dp > 1 or role.kv != "bf16" or role.pooled:
        yield Option("--config", f"{role.name}.yaml", "what has no option: attention, cache and its transfer")
    if role.dp > 1 and role.tp > 1:
        yield Unsaid(
            f"{role.name}: attention with tp={role.tp} within dp={role.dp}: there it is data or tensor parallel"
        )
    if role.quantised == "fp8":
        yield Unsaid(f"{role.name}: weights in fp8 need a checkpoint that has them")
    yield from _common(role)


@dataclass(frozen=True)
class ServingSoftware:
    """A serving engine: its `command` for a model, and the options it is `told`."""

    command: Callable[[str], tuple[str, ...]]
    told: Callable[[Role], ToldOptions]


ENGINES: Mapping[str, ServingSoftware] = {
    "vllm": ServingSoftware(lambda model: ("vllm", "serve", model), _vllm),
    "sglang": ServingSoftware(lambda m: ("python3", "-m", "sglang.launch_server", "--model-path", m), _sglang),
    "trtllm": ServingSoftware(lambda model: ("trtllm-serve", model), _trtllm),
}
