"""Measured training: iteration times, peak memory and FLOPs per token."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import roofline as rl
from measured_serving import DEVICES, TPU, TPU_CHIPS, LeftOutError, chip_id, tpu_servers
from roofline.measured.accuracy.accuracy import Reader
from roofline.measured.accuracy.csvs import TableRow
from roofline.measured.accuracy.measurements import MeasuredRun, measured_run
from roofline.model.load import catalog_config
from training_settings import lora_settings

MEGATRON = "training_megatron_a100.csv"
SIMUMAX = "training_simumax_b200.csv"
FOUNDRY = "training_llm_foundry_mpt.csv"
BRIDGE = "training_megatron_bridge.csv"
MLPERF = "training_mlperf.csv"
TITAN = "training_torchtitan_h100.csv"
PRIME = "rl_prime.csv"

NODES = {"a100_80gb": "dgx-a100", "a100_40gb": "dgx-a100-40gb", "h100_80gb": "dgx-h100"}
SHARDING = {"FULL_SHARD": 3, "SHARD_GRAD_OP": 2, "NO_SHARD": 0}
LLAMA_70B = {
    "model_type": "llama", "hidden_size": 8192, "intermediate_size": 28672, "vocab_size": 128256,
    "num_attention_heads": 64, "num_key_value_heads": 8, "max_position_embeddings": 2**20, "dtype": "bfloat16",
}  # fmt: skip
LLAMA_405B = {**LLAMA_70B, "hidden_size": 16384, "intermediate_size": 53248, "num_attention_heads": 128}


def sliced(name: str, layers: int) -> dict[str, object]:
    """The config of the model of which so many layers were run; LeftOutError for one that is not known."""
    text = "".join(c for c in name.lower() if c.isalnum())
    known = {
        "llama370b": LLAMA_70B, "llama3405b": LLAMA_405B, "deepseekv2": "deepseek-ai/DeepSeek-V2",
        "deepseekv3": "deepseek-ai/DeepSeek-V3",
    }  # fmt: skip
    config = next((value for key, value in known.items() if text.startswith(key)), None)
    if config is None:
        raise LeftOutError("no such model in the catalog")
    raw = dict(catalog_config(config)) if isinstance(config, str) else config
    # docs/b200/b200_release_v1.2_summary.md of MooreThreads/SimuMax: "DeepSeekV3 formal rows use dense_layers=1"
    dense = {"first_k_dense_replace": 1} if "first_k_dense_replace" in raw else {}
    return {**raw, **dense, "num_hidden_layers": layers, "max_position_embeddings": 2**20}


@cache
def loaded(config: frozenset[tuple[str, Any]]) -> rl.Model:
    """The model of a flat config, loaded once."""
    return rl.load(dict(config))


def megatron(r: TableRow) -> Iterator[MeasuredRun]:
    """Megatron-LM on A100 (arXiv:2205.05198, table 5): attention kernel by kernel, nothing overlapped."""
    chunks = r.whole("interleaving", 1)
    layout = rl.Layout(
        tp=r.whole("tp"), pp=r.whole("pp"), dp=r.whole("dp"), vp=chunks, sp=r.text("sequence_parallel") == "True"
    )
    config = {
        "model_type": "gpt2", "n_embd": r.whole("hidden"), "n_layer": r.whole("layers"), "n_head": r.whole("heads"),
        "n_inner": r.whole("ffn"), "vocab_size": r.whole("vocab", 51200), "n_positions": r.whole("seq_len"),
        "activation_function": "gelu", "dtype": "float16",
    }  # fmt: skip
    options = {
        "recompute": r.text("recompute").partition("(")[0] or "none", "micro_batch": r.whole("micro_batch"),
        "recipe": "fp16" if r.text("dtype") == "float16" else "bf16", "flash": False, "overlap": "pp",
        "schedule": "interleaved" if chunks > 1 else "1f1b",
    }  # fmt: skip
    yield measured_run(
        quantity="training", seconds=r.number("iteration_s"), engine="megatron",
        model=loaded(frozenset(config.items())), layout=layout,
        on=f"{8 * -(-layout.chips // 8)}xa100-sxm-80gb", batch=r.whole("global_batch"), input=r.whole("seq_len"),
        system="a100-sxm-80gb", slices=("iteration",), **options,
    )  # fmt: skip


def simumax(r: TableRow) -> Iterator[MeasuredRun]:
    """SimuMax's runs of Megatron-LM on 8 B200: iteration time, and bytes that the allocator handed out at the peak."""
    model = rl.load(sliced(r.text("model"), r.whole("layers")))
    degrees = {k: r.whole(k, 1) for k in ("tp", "pp", "cp", "ep", "dp")}
    layout = rl.Layout(**degrees, sp=degrees["tp"] > 1, zero=0 if r.text("zero") == "0" else r.whole("zero", 1))
    run = {
        "model": model, "on": "8xb200", "layout": layout, "input": r.whole("seq_len"), "system": "b200",
        "batch": r.whole("micro_batch") * r.whole("num_micro_batches") * degrees["dp"],
        "micro_batch": r.whole("micro_batch"), "overlap": False,
    }  # fmt: skip
    yield measured_run(
        quantity="training",
        seconds=r.number("iteration_ms") / 1e3,
        engine="megatron-2025",
        slices=("iteration",),
        **run,
    )
    yield measured_run(
        quantity="training-bytes", seconds=r.number("peak_alloc_gib") * 2**30, slices=("peak memory",), **run
    )


def foundry(r: TableRow) -> Iterator[MeasuredRun]:
    """MosaicML llm-foundry: MPT under FSDP, seconds a step from tokens per second and GPU.

    Its loss is flash-attention's `CrossEntropyLoss` (llmfoundry/models/mpt/modeling_mpt.py, `loss_fn`, by default
    fused_crossentropy), which keeps 16-bit logits and their gradient, as a compiled one does.
    """
    node, precision = NODES.get(r.text("gpu")), r.text("precision")
    if node is None:
        raise LeftOutError("no such chip in the catalog")
    if precision not in ("bf16", "amp_bf16", "amp_fp8"):
        raise LeftOutError("ambiguous: formats that have no name")
    chips, micro, tokens = r.whole("num_gpus"), r.whole("micro_batch_size"), r.whole("seq_len")
    config = {
        "model_type": "mpt", "d_model": r.whole("d_model"), "n_layers": r.whole("n_layers"), "dtype": "bfloat16",
        "n_heads": r.whole("n_heads"), "expansion_ratio": r.whole("expansion_ratio"),
        "vocab_size": r.whole("vocab_size"), "max_seq_len": tokens,
    }  # fmt: skip
    sequences = micro * r.whole("grad_accum")
    fp8 = precision == "amp_fp8"
    options = {
        "micro_batch": micro, "loss": "compiled",
        "recompute": "full" if r.text("activation_checkpointing") == "True" else "none",
    }  # fmt: skip
    yield measured_run(
        quantity="training", seconds=sequences * tokens / r.number("throughput_tok_s_gpu"),
        model=_mpt(frozenset(config.items())), on=node if chips <= 8 else f"{chips // 8}x{node}", engine="fsdp@2.1",
        layout=rl.Layout(dp=chips, zero=SHARDING.get(r.text("sharding_strategy"), 3)), batch=sequences * chips,
        input=tokens, system=node, **({**options, "recipe": "fp8"} if fp8 else options),
        slices=("fp8 step" if fp8 else "bf16 step",),
    )  # fmt: skip


@cache
def _mpt(config: frozenset[tuple[str, Any]]) -> rl.Model:
    """MPT, whose attention has biases by distance."""
    return rl.load({**dict(config), "attn_config": {"alibi": True}})


BRIDGE_MODELS = {
    "llama3_8b": "meta-llama/Meta-Llama-3-8B", "llama3_70b": "meta-llama/Meta-Llama-3-70B",
    "llama3.1_405b": "meta-llama/Llama-3.1-405B", "qwen3_30b_a3b": "Qwen/Qwen3-30B-A3B",
    "qwen3_235b_a22b": "Qwen/Qwen3-235B-A22B", "deepseek_v3": "deepseek-ai/DeepSeek-V3",
    "deepseekv3": "deepseek-ai/DeepSeek-V3", "gpt_oss_120b": "openai/gpt-oss-120b",
    "gpt oss 120b": "openai/gpt-oss-120b", "kimi_k2": "moonshotai/Kimi-K2-Instruct",
}  # fmt: skip
LORA_RANK = 16
RECIPES = {"BF16": "bf16", "FP8": "fp8", "FP8-CS": "fp8", "FP8-MX": "mxfp8", "MXFP8": "mxfp8", "NVFP4": "nvfp4"}


def bridge(r: TableRow) -> Iterator[MeasuredRun]:
    """Megatron-Bridge: FLOPs of a token by its own counting, and seconds a step by the stack's default call.

    Formats of gradients, overlap, recomputation, offloading and dispatcher are those of its recipes by release, model,
    chip and formats (`engines/stacks.toml`).
    """
    label = r.text("model").lower()
    plain = label.partition(" (")[0]
    name = BRIDGE_MODELS.get(plain)
    if name is None:
        raise LeftOutError("no such model in the catalog")
    tokens, rate = r.whole("seq_len"), r.number("tokens_per_s_per_gpu")
    lora = LORA_RANK if r.text("section").startswith("LoRA") else None
    drafts = 1 if "deepseek" in name and "w/o mtp" not in label else None
    extra = {"lora": lora, "drafts": drafts}
    options: dict[str, Any] = {k: v for k, v in extra.items() if v is not None}
    if r.text("model_tflops_per_gpu"):
        yield measured_run(
            quantity="training-flops", seconds=1e12 * r.number("model_tflops_per_gpu") / rate * tokens,
            model=name, on="h100-sxm", batch=1, input=tokens, system=name.rpartition("/")[2],
            slices=("FLOPs per token", f"FLOPs per token,{r.text('section').partition(' ')[0]}"), **options,
        )  # fmt: skip
    recipe, chips = RECIPES.get(r.text("precision")), r.whole("num_gpus")
    chip = chip_id(r.text("system").removeprefix("DGX-").lower())
    if recipe is None or chip is None or "token" in label:
        return
    degrees = {k: 1 if r.text(k) in ("", "n/a", "0") else r.whole(k) for k in ("tp", "pp", "cp", "vp", "ep")}
    fsdp = r.text("fsdp") not in ("", "0", "n/a")
    replicas = chips // (degrees["tp"] * degrees["pp"] * degrees["cp"])
    layout = rl.Layout(dp=replicas, zero=3 if fsdp else 1, sp=degrees["tp"] > 1, **degrees)
    batch, release = r.whole("global_batch"), r.text("release").partition(" ")[0]
    yield measured_run(
        quantity="training", seconds=batch * tokens / (rate * chips), engine=f"megatron-bridge@{release}", model=name,
        on=_cluster(chip, chips), layout=layout, batch=batch, input=tokens, system=chip,
        slices=("step", f"step,{plain}"), micro_batch=r.whole("micro_batch"), recipe=recipe, **options,
    )  # fmt: skip


def _cluster(chip: str, chips: int) -> str:
    """That many chips: nodes of eight, or racks of 72 where they are Grace's."""
    if chip.startswith("gb"):
        return chip if chips == 1 else f"{chips}x{chip}" if chips <= 4 else f"{-(-chips // 72)}x{chip}-nvl72"
    return chip if chips == 1 else f"{chips}x{chip}" if chips <= 8 else f"{-(-chips // 8) * 8}x{chip}"


MLPERF_MODELS = {
    "llama31_405b": "meta-llama/Llama-3.1-405B", "llama31_8b": "meta-llama/Llama-3.1-8B",
    "llama2_70b_lora": "meta-llama/Llama-2-70b-hf",
}  # fmt: skip
PRECISIONS = {"bf16": "bf16", "fp8": "fp8", "nvfp4": "nvfp4", "mxfp8": "mxfp8", "mxfp4": "mxfp4"}
SURE = ("named by the", "only config")


def mlperf(r: TableRow) -> Iterator[MeasuredRun]:
    """MLPerf Training: an optimizer step of the submission's layout."""
    chip = chip_id(r.text("accelerator").replace(" ", "-").lower())
    if chip is None:
        raise LeftOutError("no such chip in the catalog")
    if not r.text("layout_source").startswith(SURE):
        raise LeftOutError("ambiguous: several configs of the submission fit, or none")
    recipe, task = PRECISIONS.get(r.text("precision")), r.text("task")
    if recipe is None:
        raise LeftOutError("ambiguous: formats that have no name")
    if r.text("benchmark") == "gpt3":
        config = {
            "model_type": "gpt2", "n_embd": 12288, "n_layer": 96, "n_head": 96, "n_inner": 49152, "vocab_size": 51200,
            "n_positions": 2048, "activation_function": "gelu", "dtype": "bfloat16",
        }  # fmt: skip
        model: Any = loaded(frozenset(config.items()))
    else:
        named = MLPERF_MODELS.get(r.text("benchmark"))
        if named is None:
            raise LeftOutError("no such model in the catalog")
        model = _long(named)
    batch, tokens, chips = r.whole("global_batch"), r.whole("seq_len"), r.whole("num_accelerators")
    degrees = {k: r.whole(k, 1) for k in ("tp", "pp", "cp", "vp")}
    layout = rl.Layout(
        dp=chips // (degrees["tp"] * degrees["pp"] * degrees["cp"]), zero=1, sp=degrees["tp"] > 1, **degrees
    )
    tuned = task.startswith("LoRA")
    told = lora_settings(chip, degrees["cp"], recipe) if tuned else {}
    lora = {"lora": LORA_RANK} if tuned else {}
    options = {"micro_batch": r.whole("micro_batch"), "recipe": recipe}
    yield measured_run(
        quantity="training", seconds=_step(r, batch), engine="nemo", model=model, on=_cluster(chip, chips),
        layout=layout, batch=batch, input=tokens, system=chip, **{**options, **lora, **told},
        slices=(task, r.text("benchmark")),
    )  # fmt: skip


@cache
def _long(name: str) -> rl.Model:
    """A model at sequences beyond the context that it was published with."""
    return rl.load({**catalog_config(name), "max_position_embeddings": 2**20})


def _step(r: TableRow, batch: int) -> float:
    """Seconds a step: as logged, else from the logged throughput, else from the log's clock."""
    if r.text("train_step_s_logged"):
        return r.number("train_step_s_logged")
    return batch / r.number("samples_per_s_logged") if r.text("samples_per_s_logged") else r.number("step_s_blocks")


TITAN_MODELS = {
    "Llama-3.1-8B": "meta-llama/Llama-3.1-8B", "Llama-3.1-70B": "meta-llama/Llama-3.1-70B",
    "Llama-3.1-405B": "meta-llama/Llama-3.1-405B",
}  # fmt: skip


def titan(r: TableRow) -> Iterator[MeasuredRun]:
    """torchtitan on H100 whose memory is HBM2e (2.4 TB/s): taken for the usual one.

    FSDP over the replicas and the ranks of a context; selective checkpointing (torchtitan,
    distributed/activation_checkpoint.py) runs every second product again: keys' and the up-projection too, which are
    parts of others here. `local_batch`: sequences of a replica; with
    pipeline stages each is a micro-batch, and weights are not gathered again for each of them.
    """
    words = dict(re.findall(r"([A-Z]+)([0-9]+)", r.text("parallelism")))
    dp, tp, cp, pp = (int(words.get(name, 1)) for name in ("FSDP", "TP", "CP", "PP"))
    technique, local = r.text("technique"), r.whole("local_batch")
    again = {"full": "full", "selective": ("o_proj",)}.get(r.text("activation_ckpt"), "none")
    layout = rl.Layout(
        dp=dp, tp=tp, cp=cp, pp=pp, zero=3 if pp == 1 else 1, sp=tp > 1, exchange="all_gather" if cp > 1 else "ring"
    )
    overlap = ("dp", "cp", "pp", *(("tp",) if "asyncTP" in technique else ()))
    name = TITAN_MODELS.get(r.text("model"))
    if name is None:
        raise LeftOutError("no such model in the catalog")
    tokens, chips = r.whole("seq_len"), r.whole("num_gpus")
    yield measured_run(
        quantity="training", seconds=local * dp * tokens / (r.number("tokens_per_s_per_gpu") * chips),
        engine="torchtitan",
        model=_long(name), on=_cluster("h100-sxm", chips), layout=layout, batch=local * dp, input=tokens,
        system="h100-sxm", slices=("step", r.text("parallelism")),
        micro_batch=local if pp == 1 else 1, recompute=again, overlap=overlap,
        recipe="fp8" if "fp8" in technique else "bf16",
    )  # fmt: skip


DRIVER_NAMES = {"H100 80GB HBM3": "h100-sxm", "RTX A6000": "rtx-a6000", "H200": "h200-sxm", "B200": "b200"}


def prime(r: TableRow) -> Iterator[MeasuredRun]:
    """prime-rl's trainer, without rollouts: seconds of an optimizer step of full sequences, one a micro-batch.

    FSDP2 over all chips; weights are fp32 and gathered in bf16, gradients reduced in fp32 (`optimization_dtype` and
    `reduce_dtype` by default). Each layer is run again in the backward pass, and `Offload` also keeps its input in the
    host's memory. RL never holds all logits (`auto_setup_fused_lm_head_chunk_size`); SFT keeps them in fp32, as its
    failure to allocate tokens x vocabulary x 4 bytes shows. The benchmark's sequences are made up, each as long as
    the step's limit (`FakeDataLoader`). A logged rate may cover more than the step, so the step's time is read.
    """
    if r.text("success") != "yes":
        raise LeftOutError("ran out of memory: no time")
    yield prime_run(r, r.number("step_time_mean_s"))


def prime_run(r: TableRow, seconds: float) -> MeasuredRun:
    """A row of prime-rl, whether it ran or not."""
    name = r.text("chip").removeprefix("NVIDIA ")
    chip, chips, tokens = chip_id(DRIVER_NAMES.get(name, name)), r.whole("num_chips"), r.whole("seq_len_tokens")
    if chip is None:
        raise LeftOutError("no such chip in the catalog")
    kind, rank = r.text("kind"), r.text("lora_rank")
    layout = rl.Layout(dp=chips, zero=3, ep=r.whole("ep", 1), cp=r.whole("cp", 1))
    options: dict[str, Any] = {"lora": int(rank)} if rank else {}
    if r.text("activation_checkpointing") == "Offload":
        options["offload"] = ("activations",)
    return measured_run(
        quantity="training", seconds=seconds, engine="prime-rl", model=_long(r.text("model")),
        on=_cluster(chip, chips), layout=layout, batch=r.whole("micro_batches_per_step") * chips, input=tokens,
        system=chip, slices=("step", f"step,{kind} {r.text('full_or_lora')}", f"step,{r.text('attention')}"),
        micro_batch=1, recompute="full", recipe="bf16-mixed", loss="cut" if kind == "rl" else "eager", **options,
    )  # fmt: skip


TPU_MODELS: Mapping[str, str] = {
    "Llama2-70B": "meta-llama/Llama-2-70b-hf", "Llama3.1-8B": "meta-llama/Llama-3.1-8B",
    "Llama3.1-70B": "meta-llama/Llama-3.1-70B", "llama3.1-70b": "meta-llama/Llama-3.1-70B",
    "gemma4-26b": "google/gemma-4-26B-A4B", "qwen3-235b-a22b": "Qwen/Qwen3-235B-A22B",
}  # fmt: skip
STORED: Mapping[str, tuple[str, ...]] = {
    "qkv_proj": ("qkv_proj", "query_proj", "key_proj", "value_proj"), "attention": ("context",),
    "o_proj": ("out_proj",), "down_proj": ("mlpwo",),
}  # fmt: skip
"""Module → MaxText's names of outputs: where one is kept, on the device or the host, it does not run again."""
EXPERTS = ("experts_gate_up_proj", "experts_act", "experts_down_proj", "experts_combine")
"""What runs again of routed experts."""


def maxtext(r: TableRow) -> Iterator[MeasuredRun]:
    """MaxText on TPUs: seconds of a step of FSDP over all chips, context parallelism apart.

    A chip of v7, two devices to JAX, is one rank with both of their sequences. What a policy does not keep is run
    again. Layer inputs that it offloads are in the host's memory; of v7, whose link to it is not published, on the
    chip. Weights are fp32 and multiplied in bf16 or fp8.
    """
    if r.text("kind") == "serving":
        yield from tpu_servers(r)
        return
    if not r.text("global_batch"):
        raise LeftOutError("ambiguous: neither batch nor layout given")
    if "not the logged run" in r.text("anomaly"):
        raise LeftOutError("ambiguous: the shown config is not the logged run")
    chip, chips, name = TPU_CHIPS.get(r.text("chip")), r.whole("num_chips"), TPU_MODELS.get(r.text("model"))
    if chip is None or name is None:
        raise LeftOutError("no such model in the catalog" if chip else "no such chip in the catalog")
    degrees = dict(re.findall(r"ici_(context)=(\d+)", r.text("parallelism")))
    cp = max(1, int(degrees.get("context", 1)) // DEVICES.get(chip, 1))
    layout = rl.Layout(dp=chips // cp, cp=cp, zero=3, exchange="all_gather" if cp > 1 else "ring")
    model, items = _long(name), dict(re.findall(r"(\w+)=(\w+)", r.text("remat_items")))
    kept = {item for item, where in items.items() if where in ("offload", "device")}
    names = [m.name for m in model.layers[-1].modules if "norm" not in m.name]
    ops = [op for name in names for op in (EXPERTS if name == "experts" else (name,))]
    again = tuple(op for op in ops if not kept.intersection(STORED.get(op, ())))
    to_host = items.get("decoder_layer_input") == "offload" and chip not in DEVICES
    options: dict[str, Any] = {"offload": ("activations",)} if to_host else {}
    batch = r.whole("global_batch")
    yield measured_run(
        quantity="training", seconds=r.number("step_s"), engine="maxtext", model=model, on=_cluster(chip, chips),
        layout=layout, batch=batch, input=r.whole("seq_len"), system=chip, slices=("training", f"training,{chip}"),
        micro_batch=batch // layout.dp, recompute="full" if r.text("remat_policy") == "full" else again,
        recipe="fp8" if r.text("precision").startswith("fp8") else "bf16", **options,
    )  # fmt: skip


READERS: Mapping[str, Reader] = {
    MEGATRON: megatron, SIMUMAX: simumax, FOUNDRY: foundry, BRIDGE: bridge, MLPERF: mlperf, TITAN: titan, PRIME: prime,
    TPU: maxtext,
}  # fmt: skip
ONLY_SCORED = frozenset({PRIME, TPU})
"""Tables that no constant is fitted on."""
