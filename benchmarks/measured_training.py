"""Public measurements of training beside their predictions: iteration times and peak memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import roofline as rl
from measured_serving import Row, rows_of
from roofline.estimates.span import Span
from roofline.model.adapters import with_drafts, with_lora
from roofline.model.errors import InputError
from roofline.model.load import catalog_config

MEGATRON = "training_megatron_a100.csv"
SIMUMAX = "training_simumax_b200.csv"
FOUNDRY = "training_llm_foundry_mpt.csv"
NODES = {"a100_80gb": "dgx-a100", "a100_40gb": "dgx-a100-40gb", "h100_80gb": "dgx-h100"}
SHARDING = {"FULL_SHARD": 3, "SHARD_GRAD_OP": 2, "NO_SHARD": 0}
LLAMA_70B = {
    "model_type": "llama", "hidden_size": 8192, "intermediate_size": 28672, "vocab_size": 128256,
    "num_attention_heads": 64, "num_key_value_heads": 8, "max_position_embeddings": 2**20, "dtype": "bfloat16",
}  # fmt: skip
LLAMA_405B = {**LLAMA_70B, "hidden_size": 16384, "intermediate_size": 53248, "num_attention_heads": 128}


def _whole(text: str) -> int:
    return int(float(text)) if text else 1


def _row(file: str, e: rl.TrainingEstimate, slices: tuple[str, ...], measured: float) -> Row:
    return Row(file, e.chip.id, slices, e.span, measured)


def sliced(name: str, layers: int) -> dict[str, object] | None:
    """The config of the model of which so many layers were run; None for one that is not known."""
    text = "".join(c for c in name.lower() if c.isalnum())
    known = {
        "llama370b": LLAMA_70B, "llama3405b": LLAMA_405B, "deepseekv2": "deepseek-ai/DeepSeek-V2",
        "deepseekv3": "deepseek-ai/DeepSeek-V3",
    }  # fmt: skip
    config = next((value for key, value in known.items() if text.startswith(key)), None)
    if config is None:
        return None
    raw = dict(catalog_config(config)) if isinstance(config, str) else config
    return {**raw, "num_hidden_layers": layers, "max_position_embeddings": 2**20}


def gpt(hidden: int, layers: int, heads: int, inner: int, vocab: int, tokens: int) -> rl.Model:
    """A GPT with learned positions."""
    return rl.load({
        "model_type": "gpt2", "n_embd": hidden, "n_layer": layers, "n_head": heads, "n_inner": inner,
        "vocab_size": vocab, "n_positions": tokens, "activation_function": "gelu", "dtype": "float16",
    })  # fmt: skip


def megatron(folder: Path) -> Iterator[Row]:
    """Megatron-LM on A100 (arXiv:2205.05198, table 5): attention kernel by kernel, nothing overlapped."""
    for r in rows_of(folder, MEGATRON):
        size = {k: _whole(r[k]) for k in r if k not in ("model", "gpu", "dtype", "recompute", "source")
                and r[k].replace(".", "", 1).isdigit()}  # fmt: skip
        chunks = size.get("interleaving", 1)
        recompute = r["recompute"].partition("(")[0] or "none"
        layout = rl.Layout(tp=size["tp"], pp=size["pp"], dp=size["dp"], vp=chunks, sp=r["sequence_parallel"] == "True")
        step = rl.training(
            size["global_batch"], size["seq_len"], recompute=recompute, micro_batch=size["micro_batch"],
            recipe="fp16" if r["dtype"] == "float16" else "bf16", flash=False, overlap=False,
            schedule="interleaved" if chunks > 1 else "1f1b",
        )  # fmt: skip
        model = gpt(
            size["hidden"], size["layers"], size["heads"], size["ffn"], size.get("vocab", 51200), size["seq_len"]
        )
        e = rl.estimate(model, step, on=f"{8 * -(-layout.chips // 8)}xa100-sxm-80gb", layout=layout)
        yield _row(MEGATRON, e, ("iteration",), float(r["iteration_s"]))


def simumax(folder: Path) -> Iterator[Row]:
    """SimuMax's runs of Megatron-LM on 8 B200: iteration time, and GiB that the allocator handed out at the peak."""
    for r in rows_of(folder, SIMUMAX):
        raw = sliced(r["model"], _whole(r["layers"]))
        if raw is None:
            continue
        size = {k: _whole(r[k]) for k in ("tp", "pp", "cp", "ep", "dp", "seq_len", "micro_batch", "num_micro_batches")}
        model = rl.load(raw)
        layout = rl.Layout(
            tp=size["tp"], pp=size["pp"], cp=size["cp"], ep=size["ep"], dp=size["dp"], sp=size["tp"] > 1,
            zero=_whole(r["zero"]),
        )  # fmt: skip
        batch = size["micro_batch"] * size["num_micro_batches"] * size["dp"]
        step = rl.training(batch, size["seq_len"], micro_batch=size["micro_batch"], overlap=False)
        e = rl.estimate(model, step, on="8xb200", layout=layout)
        yield _row(SIMUMAX, e, ("iteration",), float(r["iteration_ms"]) / 1e3)
        peak = max(float(s.memory.allocated) for s in e.stages) / 2**30
        whole = Span(0.0, peak, 0.97 * peak, 1.03 * peak)
        yield Row(SIMUMAX, "b200", ("peak memory, GiB",), whole, float(r["peak_alloc_gib"]))


def foundry(folder: Path) -> Iterator[Row]:
    """MosaicML llm-foundry: MPT under FSDP, seconds a step from tokens per second and GPU."""
    for r in rows_of(folder, FOUNDRY):
        node = NODES.get(r["gpu"])
        if node is None or r["precision"] not in ("bf16", "amp_bf16"):
            continue
        chips, micro, tokens = int(r["num_gpus"]), int(r["micro_batch_size"]), int(r["seq_len"])
        model = rl.load({
            "model_type": "mpt", "d_model": int(r["d_model"]), "n_layers": int(r["n_layers"]), "dtype": "bfloat16",
            "n_heads": int(r["n_heads"]), "expansion_ratio": int(r["expansion_ratio"]), "attn_config": {"alibi": True},
            "vocab_size": int(r["vocab_size"]), "max_seq_len": tokens,
        })  # fmt: skip
        sequences = micro * int(r["grad_accum"])
        step = rl.training(
            sequences * chips, tokens, micro_batch=micro,
            recompute="full" if r["activation_checkpointing"] == "True" else "none",
        )  # fmt: skip
        on = node if chips <= 8 else f"{chips // 8}x{node}"
        try:
            layout = rl.Layout(dp=chips, zero=SHARDING.get(r["sharding_strategy"], 3))
            e = rl.estimate(model, step, on=on, layout=layout, engine="fsdp")
        except InputError:
            continue
        seconds = sequences * tokens / float(r["throughput_tok_s_gpu"])
        yield _row(FOUNDRY, e, ("bf16 step",), seconds)


BRIDGE = "training_megatron_bridge.csv"
BRIDGE_MODELS = {
    "llama3_8b": "meta-llama/Meta-Llama-3-8B", "llama3_70b": "meta-llama/Meta-Llama-3-70B",
    "llama3.1_405b": "meta-llama/Llama-3.1-405B", "qwen3_30b_a3b": "Qwen/Qwen3-30B-A3B",
    "qwen3_235b_a22b": "Qwen/Qwen3-235B-A22B", "deepseek_v3": "deepseek-ai/DeepSeek-V3",
    "deepseekv3": "deepseek-ai/DeepSeek-V3", "gpt_oss_120b": "openai/gpt-oss-120b",
    "kimi_k2": "moonshotai/Kimi-K2-Instruct",
}  # fmt: skip

LORA_RANK = 16


def flops(folder: Path) -> Iterator[Row]:
    """Megatron-Bridge: model FLOPs of a token, GFLOP, from its TFLOP/s and tokens/s; its own counting."""
    for r in rows_of(folder, BRIDGE):
        name = BRIDGE_MODELS.get(r["model"].lower())
        if name is None or not r["tokens_per_s_per_gpu"] or not r["model_tflops_per_gpu"]:
            continue
        model, tokens = rl.load(name), int(r["seq_len"])
        model = with_drafts(model) if "deepseek" in name else model
        model = with_lora(model, LORA_RANK) if r["section"].startswith("LoRA") else model
        counted = rl.analyze(model, rl.training(1, tokens)).flops / tokens / 1e9
        tflops, rate = (float(r[k].partition(" ")[0]) for k in ("model_tflops_per_gpu", "tokens_per_s_per_gpu"))
        measured = 1e3 * tflops / rate
        yield Row(
            BRIDGE, r["model"], ("GFLOP per token",), Span(0.0, counted, 0.99 * counted, 1.01 * counted), measured
        )
