"""The benchmark's readers read a row as what its source says was run; rows made up."""

from __future__ import annotations

import csv
import dataclasses
import io
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import roofline as rl
from roofline.engines.engine import engine_named
from roofline.layout.layout import Layout, layout_named
from roofline.measured.accuracy.csvs import TableRow
from roofline.measured.accuracy.measurements import MeasuredRun, measured_run
from roofline.serving.simulate.load.arrivals import AtOnce
from roofline.serving.simulate.load.lengths import Empirical
from roofline.serving.simulate.load.workload import Workload

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

import accuracy
import fit_engines
import fit_training
import measured_mlperf
import measured_serving as serving
import measured_traffic
import measured_training as training


def row(text: str, number: int = 1) -> TableRow:
    """One line below a header."""
    (cells,) = csv.DictReader(io.StringIO(text))
    return TableRow(number, cells)


def read(file: str, text: str) -> MeasuredRun:
    """What the first measurement of a row is read as."""
    return next(iter(serving.READERS[file](row(text))))


PAGE = "doc,model,moe,gpu,precision,num_gpus,layout,tp,attention_dp,ep,pp,in_len,out_len,output_tokens_per_s\n"


@pytest.mark.parametrize(
    ("line", "layout"),
    [
        ("v1.0,Qwen/Qwen3-235B-A22B,1,B200,fp4,8,TP8,8,0,,1,128,128,60000", Layout(dp=8, ep=8)),
        ("v1.0,Llama-4-Scout,1,RTX PRO 6000,fp4,8,TP4PP2,4,0,,2,128,128,20000", Layout(dp=4, ep=4, pp=2)),
        ("v1.2,Qwen3-30B-A3B,1,RTX PRO 6000,fp4,4,DEP2PP2,1,1,2,2,128,128,20000", Layout(dp=2, ep=2, pp=2)),
        ("v1.0,Qwen3-30B-A3B,1,B200,fp4,1,TP1,1,0,,1,128,128,40000", Layout()),
        ("v1.0,Llama-3.3-70B,0,H100,fp8,2,TP2,2,0,,1,128,128,6000", Layout(tp=2)),
        ("v1.0,Llama-3.3-70B,0,RTX PRO 6000,fp4,4,TP1PP4,1,0,,4,128,128,9000", Layout(pp=4)),
    ],
)
def test_mixtures_of_trtllms_pages_run_attention_data_parallel_whatever_the_label(line: str, layout: Layout) -> None:
    """Both pages run "MoE models" by --tp, --pp and --ep under enable_attention_dp: the rule is of the source."""
    run = read(serving.SATURATED, PAGE + line)
    assert layout_named(run.where.layout) == layout
    assert run.settings["concurrency"] == serving.SATURATING * layout.dp


def test_a_label_that_contradicts_its_chips_is_left_out() -> None:
    with pytest.raises(serving.LeftOutError, match="contradict"):
        read(serving.SATURATED, PAGE + "v1.0,Qwen3-30B-A3B,1,B200,fp4,8,TP4,4,0,,1,128,128,40000")


GUIDE = (
    "software,model,head_num,size_per_head,num_layers,vocab_size,dtype,tp,pp,batch_size,in_len,out_len,latency_ms,oom\n"
)


def test_rows_of_another_software_than_fastertransformer_are_left_out_with_its_name() -> None:
    line = ",GPT-20B,48,128,44,51200,fp16,1,1,1,20,8,225,False"
    assert read(serving.FASTER, GUIDE + "FasterTransformer" + line).where.engine == "fastertransformer"
    with pytest.raises(serving.LeftOutError) as error:
        read(serving.FASTER, GUIDE + "Megatron" + line)
    assert error.value.why == "no engine in the catalog for Megatron: the guide's column of another software"


NODES = "source,engine,model,gpu,num_gpus,phase,layout,in_len,out_len,tokens_per_s_per_node,note\n"
LMSYS = "lmsys.org/blog/2025-05-05-large-scale-ep,SGLang,DeepSeek-V3/R1,H100"


def test_ep_72_is_read_with_the_copies_that_its_source_kept() -> None:
    """256 experts and 32 copies are four on each of 72 ranks; 256 sequences a rank, nine nodes of eight."""
    run = read(serving.PUBLISHED, NODES + f"{LMSYS},72,decode,EP72 DP72 (9 nodes),2000,,20000,x")
    layout = layout_named(run.where.layout)
    assert (layout.ep, layout.dp, layout.redundant) == (72, 72, 32)
    assert (256 + layout.redundant) / layout.ep == 4
    assert (run.quantity, run.settings["batch"], run.settings["input"]) == ("decode", 256 * 72, 2000)
    assert run.seconds == pytest.approx(256 * 72 / (20000 * 9))
    assert rl.shard(run.model, layout).parameters > 0


def test_a_prefill_node_is_read_with_the_tokens_of_a_rank() -> None:
    run = read(serving.PUBLISHED, NODES + f"{LMSYS},32,prefill,EP32 DP32 (4 nodes),4096,,50000,x")
    assert (run.quantity, run.settings["batch"], run.settings["input"]) == ("prefill", 4 * 32, 4096)
    assert run.seconds == pytest.approx(16384 * 32 / (50000 * 4))


def test_the_mean_of_a_day_in_production_is_left_out() -> None:
    with pytest.raises(serving.LeftOutError, match="mean of a day"):
        read(
            serving.PUBLISHED,
            NODES + "DeepSeek open-infra-index day 6,DeepSeek,DeepSeek-V3/R1,H800,,prefill,EP32,,,70000,x",
        )


# -- start-up ------------------------------------------------------------------------------------------------------
BENCH = (
    "hardware,num_devices,framework,model,parallelism,in_len,out_len,batch_size,latency_s,throughput_tok_s,consistent\n"
)


@pytest.mark.parametrize(
    ("hardware", "devices", "engine"),
    [
        ("Intel PVC GPU", 1, "vllm@0.6(cold=1)"), ("Intel PVC GPU", 2, "vllm@0.6"), ("Intel PVC GPU", 4, "vllm@0.6"),
        ("Intel Max 1550", 1, "vllm@0.6"), ("Nvidia H100 GPU", 1, "vllm@0.6"),
    ],
)  # fmt: skip
def test_rows_that_begin_with_the_process_are_read_as_cold(hardware: str, devices: int, engine: str) -> None:
    line = f"{hardware},{devices},vLLM,meta-llama/Llama-2-7b-hf,tensor,128,128,1,9,28,True"
    assert read(serving.STATIC, BENCH + line).where.engine == engine


def test_llama_bench_has_one_sequence_whose_prompt_goes_in_parts_of_its_batch() -> None:
    line = "{},{},llama.cpp,meta-llama/Llama-2-7b-hf,tensor,128,128,{},2,128,False"
    run = read(serving.STATIC, BENCH + line.format("Nvidia H100 GPU", 4, 16))
    assert (run.where.on, run.where.layout, run.settings["batch"]) == ("4xh100-sxm", "pp=4", 1)
    assert run.where.engine == "llama-cpp(n_ubatch=16,flash_attn=off)"
    halves = read(serving.STATIC, BENCH + line.format("AMD MI250 GPU", 1, 64))
    assert (halves.where.on, halves.where.layout) == ("2xmi250@1/2", "pp=2")
    with pytest.raises(serving.LeftOutError, match="SYCL"):
        read(serving.STATIC, BENCH + line.format("Intel PVC GPU", 1, 64))


def made_up(start: float, each: float) -> list[MeasuredRun]:
    """Cold batches of one sequence on a line, and others that are not looked at."""

    def run(engine: str, batch: int, tokens: int, seconds: float) -> MeasuredRun:
        return measured_run(
            quantity="latency", seconds=seconds, model="openai-community/gpt2", on="max-1550", engine=engine,
            batch=batch, input=tokens, output=tokens,
        )  # fmt: skip

    cold = [run("vllm-2024(cold=1)", 1, n, start + each * n) for n in (128, 256, 512, 1024)]
    return [*cold, run("vllm-2024(cold=1)", 16, 128, 99.0), run("vllm-2024", 1, 128, 2.0)]


def test_the_start_up_is_fitted_apart_from_the_arithmetic() -> None:
    assert fit_engines.start_up(made_up(17.0, 0.014)) == pytest.approx(17.0)
    assert fit_engines.start_up(made_up(17.0, 0.014)[5:]) == 0.0


DSTACK = "kind,model,checkpoint,chip,tp,engine_version,launch,batch_size,input_len,output_len,e2e_latency_s\n"


@pytest.mark.parametrize(
    ("line", "on", "engine", "formats"),
    [
        ("meta-llama/x,H100 SXM5,8,0.6.3.post2.dev308,steps", "8xh100-sxm", "vllm@0.6.3", "ffn=fp8"),
        ("amd/x,MI300X,8,0.6.4.dev4,--enforce-eager", "8xmi300x", "vllm@0.6.4(eager=1)", "weights=fp8"),
    ],
)
def test_batches_of_late_2024_run_by_their_release_and_checkpoint(
    line: str, on: str, engine: str, formats: str
) -> None:
    run = read(serving.DSTACK, f"{DSTACK}static batch,Llama-3.1-405B,{line},4,2048,2048,70")
    assert (run.where.on, run.where.engine, run.where.precision) == (on, engine, formats)
    assert (run.quantity, run.settings["batch"], run.seconds) == ("latency", 4, 70.0)
    with pytest.raises(serving.LeftOutError, match="overloaded"):
        read(serving.DSTACK, f"{DSTACK}request rate,Llama-3.1-405B,{line},4,2048,2048,70")


RECIPES = (
    "kind,chip,model,num_chips,precision,parallelism,global_batch,seq_len,remat_policy,remat_items,step_s,input_len,output_len,"
    "max_concurrency,max_num_seqs,max_num_batched_tokens,output_tokens_per_s,tpot_mean_ms,note,anomaly\n"
)


def test_tpu_recipes_are_training_by_what_is_kept_and_servers_by_their_ranks() -> None:
    """Two devices of a chip of v7 are one rank; with data-parallel attention each device holds its own sequences."""
    text = "context=device; decoder_layer_input=offload; query_proj=device"
    step = next(iter(training.maxtext(row(
        f"{RECIPES}training,TPU v7,llama3.1-70b,256,fp8_full,ici_context=8 ici_fsdp=-1,64,131072,custom,{text},30"
        ",,,,,,,,,"
    ))))  # fmt: skip
    layout = layout_named(step.where.layout)
    assert (layout.dp, layout.cp, layout.zero, step.settings["micro_batch"], step.settings["recipe"]) == (
        64,
        4,
        3,
        1,
        "fp8",
    )
    assert "o_proj" in step.settings["recompute"]
    assert not {"qkv_proj", "attention"} & set(step.settings["recompute"])
    assert "offload" not in step.settings
    server = next(iter(training.maxtext(row(
        f"{RECIPES}serving,TPU v7,Qwen3.5-397B-A17B-FP8,4,fp8,tp=8 (devices) expert-parallel dp-attention,,,,,,1024,"
        '8192,1000,64,1024,5000,,"lengths drawn in [0.8 x, x]",'
    ))))  # fmt: skip
    assert (server.where.layout, server.where.precision) == ("dp=4,ep=4", "weights=fp8-block,kv=fp8")
    assert (server.settings["concurrency"], server.settings["input"], server.seconds) == (512, 921, 1 / 5000)


def test_heads_are_padded_to_the_cores_that_do_not_divide_them() -> None:
    """Llama-2-70B on 24 cores: 64 heads are 72, 28,672 inner outputs 28,680, and 8 heads of keys one for each core."""
    text = (
        "chip,instance,num_chips,model,batch,in_len,out_len,weight_storage,tpot_p50_ms,ttft_p50_ms\n"
        "Inferentia2,inf2.48xlarge,12,Llama-2-70b,1,128,128,bf16,30,70"
    )
    run = read(serving.NEURON, text)
    attention, inner = (next(m for m in run.model.layers[0].modules if m.name == n) for n in ("attention", "down_proj"))
    assert (attention.heads, attention.kv_heads, inner.inputs) == (72, 24, 28680)
    assert run.where.on.levels[0].kind == "ring"


# -- MLPerf Inference ----------------------------------------------------------------------------------------------
MLPERF = (
    "model,variant,division,submitter,accelerator,mixed_accelerators,num_accelerators,nodes,software,weight_dtype,scenario,"
    "tokens_per_s,samples_per_s,ttft_limit_ms,tpot_limit_ms\n"
    "Llama-2-70B-chat,x,closed,a,H100-SXM-80GB,0,8,1,TensorRT-LLM 1,fp8,Offline,24000,80,,\n"
    "Llama-2-70B-chat,x,closed,b,H100-SXM-80GB,0,8,1,TensorRT-LLM 1,fp8,Offline,24300,81,,\n"
    "Llama-2-70B-chat,x,open,c,H100-SXM-80GB,0,8,1,TensorRT-LLM 1,fp8,Offline,24300,81,,\n"
)


def test_mlperf_inference_is_scored_by_the_reader_that_scores_its_traffic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two submissions of one contest, predicted once; the open division is left out. The rate is made up."""
    asked: list[measured_mlperf.Contest] = []

    def predicted(contest: measured_mlperf.Contest) -> measured_mlperf.Prediction:
        asked.append(contest)
        return measured_mlperf.Prediction(100.0, measured_mlperf.Choice(8, "tp=8", 8192))

    monkeypatch.setattr(measured_mlperf, "predicted", predicted)
    (tmp_path / measured_mlperf.FILE).write_text(MLPERF, encoding="utf-8")
    books = accuracy.Books()
    accuracy.mlperf_inference(tmp_path, books)
    parts = books.groups[measured_mlperf.FILE, "h100-sxm", "Offline"]
    ratios = np.concatenate([p.predicted / p.measured for p in parts])
    assert ratios == pytest.approx([0.8, 0.81])
    assert all(p.plain < p.low < p.predicted < p.high for p in parts)
    assert (books.scored[measured_mlperf.FILE], len(asked)) == ({0, 1}, 1)
    assert list(books.left[measured_mlperf.FILE]) == [2]
    assert "open division" in books.left[measured_mlperf.FILE][2]


def test_the_lengths_of_a_set_are_those_of_its_files_and_its_parts() -> None:
    """A file of padded prompts has 4 bytes for each token of the longest; a mixture's mean is that of its parts."""
    names = ("gpt-oss-120b", "Mixtral-8x7B-Instruct", "Llama-2-70B-chat")
    summaries, mixture, orca = (measured_mlperf.DATA_SETS[name] for name in names)
    assert 4 * 6396 * summaries.most_input == pytest.approx(375e6, rel=0.01)
    assert orca.input == round(5_463_976 / 24_576)
    thirds = [(orca.input, orca.input_cv * orca.input), (750, 50.0), (190, 100.0)]  # mean and deviation, GSM8K, MBXP
    mean = sum(m for m, _ in thirds) / 3
    deviation = (sum(m**2 + d**2 for m, d in thirds) / 3 - mean**2) ** 0.5
    assert (mixture.input, mixture.input_cv) == (
        pytest.approx(mean, rel=0.01),
        pytest.approx(deviation / mean, abs=0.02),
    )


LATER = (
    "model,accelerator,mixed_accelerators,num_accelerators,nodes,engine,software,weight_dtype,scenario,tokens_per_s,"
    "samples_per_s,ttft_limit_ms,tpot_limit_ms,tp,pp,moe_ep,attention_dp,max_batch_per_rank,max_num_tokens,"
    "weight_precision_config,kv_memory_fraction,chunked_prefill,disaggregated\n"
)


@pytest.mark.parametrize(
    ("line", "chip", "chips", "engine", "formats", "choice"),
    [
        (
            "DeepSeek-R1,NVIDIA GB200,0,72,18,TensorRT-LLM,TensorRT 10.14,fp4,Offline,7e5,190,,,8,1,8,True,512,"
            "4608,fp4,0.9,False,", "gb200", 72, "trtllm@1.2", "experts=nvfp4,kv=fp8",
            measured_mlperf.Choice(8, "dp=8,ep=8", 4608, 512, 0.9),
        ),
        (
            "Llama-3.1-405B-Instruct,NVIDIA B300-SXM-270GB,0,8,1,TensorRT-LLM,TensorRT 10.14,fp4,Server,2000,3,6000,"
            "175,2,2,,,128,1536,fp4,0.95,True,", "b300", 8, "trtllm@1.2", "weights=nvfp4,kv=fp8",
            measured_mlperf.Choice(4, "tp=2,pp=2", 1536, 128, 0.95, True),
        ),
        (
            "Llama-2-70B-chat,AMD Instinct MI355X 288GB HBM3e (Power Cap 1000 W),0,8,1,vLLM,vLLM 0.14.0rc3,fp4,Offline,"
            "9e4,300,,,1,,,,3392,65536,mxfp4,0.95,True,", "mi355x@1000w", 8, "vllm@0.14.0", "weights=mxfp4,kv=fp8",
            measured_mlperf.Choice(1, "tp=1", 65536, 3392, 0.95, True),
        ),
    ],
)  # fmt: skip
def test_a_later_round_of_mlperf_runs_as_its_submission_was_configured(
    line: str, chip: str, chips: int, engine: str, formats: str, choice: measured_mlperf.Choice
) -> None:
    """Ranks of data parallel attention have batches of their own; chips of all nodes are counted once."""
    contest = measured_mlperf.contest(row(LATER + line), "2026-02")
    assert (contest.chip, contest.chips, contest.engine, contest.formats) == (chip, chips, engine, formats)
    assert list(measured_mlperf.choices(contest)) == [choice]
    trial = measured_mlperf.Trial(contest, choice)
    assert ("enable_chunked_prefill=1" in trial.engine()) is (choice.chunked and engine.startswith("trtllm"))
    assert engine_named(trial.engine()).reserves is False  # NVIDIA's configs say so, and vLLM reserves nothing
    handed = trial.settings()["engine"]
    assert handed == dataclasses.replace(engine_named(trial.engine()), request_s=0.0, request_token_s=0.0)
    assert rl.estimate(contest.data.model, rl.decode(8, 64), on=f"8x{chip.partition('@')[0]}", engine=handed).time > 0


def test_a_row_without_samples_is_the_seconds_of_a_mean_answer() -> None:
    """In round 6.1 some entries have tokens a second alone; workers apart and unknown images are left out."""
    line = "gpt-oss-120b,NVIDIA GB200,0,72,18,,TensorRT 10.14,fp4,Offline,880000,,,,,,,,,,,,,"
    contest = measured_mlperf.contest(row(LATER + line), "2026-07")
    assert (contest.output, contest.engine, contest.told) == (1300, "trtllm@1.3", None)
    assert measured_mlperf.seconds_of(row(LATER + line), contest) == pytest.approx(1300 / 880000)
    for changed in (line.replace("gpt-oss-120b", "Qwen3-VL-235B-A22B-Instruct"), line + "2 prefill workers"):
        with pytest.raises(serving.LeftOutError, match="ambiguous"):
            measured_mlperf.contest(row(LATER + changed), "2026-07")


def test_a_predicted_rate_has_the_interval_of_the_time_between_tokens() -> None:
    contest = measured_mlperf.contest(row("\n".join(MLPERF.splitlines()[:2])))
    choice = measured_mlperf.Choice(8, "tp=8", 8192)
    span = measured_mlperf.Prediction(50.0, choice).span(contest)
    tpot: Any = measured_mlperf.Trial(contest, choice).served(50.0)
    assert span.expected == pytest.approx(1 / 50)
    assert span.high / span.expected == pytest.approx(float(tpot.high / tpot.expected))
    with pytest.raises(serving.LeftOutError, match="do not fit"):
        measured_mlperf.Prediction(math.inf, None).span(contest)


PRIME_RL = (
    "model,kind,lora_rank,full_or_lora,chip,num_chips,seq_len_tokens,micro_batches_per_step,activation_checkpointing,"
    "attention,cp,ep,success,out_of_memory,step_time_mean_s\n"
)


@pytest.mark.parametrize(
    ("line", "settings"),
    [
        ("rl,,full,NVIDIA H200,8,16384,2,Recompute,flash_attention_3,1,1,yes,,7.5", {"loss": "cut", "batch": 16}),
        ("sft,,full,NVIDIA H200,8,16384,2,Recompute,flash_attention_3,1,1,yes,,7.5", {"loss": "eager", "batch": 16}),
        (
            "rl,16,LoRA,NVIDIA H200,8,65536,2,Offload,flash_attention_3,1,1,yes,,7.5",
            {"lora": 16, "offload": ("activations",), "input": 65536},
        ),
    ],
)
def test_a_trainers_step_is_two_full_sequences_a_chip_by_prime_rl(line: str, settings: dict[str, Any]) -> None:
    (run,) = training.prime(row(PRIME_RL + "Qwen/Qwen3-30B-A3B-Instruct-2507," + line))
    assert (run.seconds, run.where.engine, run.where.on) == (7.5, "prime-rl", "8xh200-sxm")
    assert layout_named(run.where.layout) == Layout(dp=8, zero=3)
    told = {"micro_batch": 1, "recompute": "full", "recipe": "bf16-mixed", **settings}
    assert {name: run.settings[name] for name in told} == told


def test_a_trainer_that_ran_out_of_memory_has_no_time() -> None:
    line = "Qwen/Qwen3-0.6B,sft,,full,NVIDIA H200,1,65536,2,Recompute,flash_attention_3,1,1,no,yes,"
    with pytest.raises(serving.LeftOutError, match="ran out of memory"):
        next(training.prime(row(PRIME_RL + line)))


def test_no_constant_is_fitted_on_a_table_that_is_only_scored(tmp_path: Path) -> None:
    line = "Qwen/Qwen3-0.6B,rl,,full,NVIDIA H200,1,16384,2,Recompute,flash_attention_3,1,1,yes,,2"
    (tmp_path / training.PRIME).write_text(PRIME_RL + line + "\n")
    assert list(fit_training.rows(tmp_path)) == []


POOLS = (
    "model,num_chips,prefill_workers,decode_workers,tp_per_worker,max_concurrency,num_requests,completed,"
    "input_len_mean,output_len_mean,tpot_mean_ms,ttft_mean_ms\n"
)


def test_workers_that_only_prefill_are_a_pool_beside_those_that_decode() -> None:
    tpot, ttft = serving.READERS[serving.POOLS](row(POOLS + "gpt-oss-120b,8,3,1,2,32,500,500,2046.2,538.6,8.5,113.8"))
    assert (tpot.quantity, tpot.seconds) == ("served-tpot", 0.0085)
    assert (ttft.quantity, ttft.seconds) == ("served-ttft", 0.1138)
    told = {"prefill_layout": "tp=2", "prefills": 3, "decodes": 1, "concurrency": 32, "input": 2046}
    assert (tpot.where.on, tpot.where.layout) == ("8xh200-sxm", "tp=2")
    assert {name: tpot.settings[name] for name in told} == told


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("gpt-oss-120b,,1,1,,32,500,500,2046,539,8.5,114", "chips of a worker are not stated"),
        ("gpt-oss-120b,8,2,2,2,32,500,380,2046,36,8.5,114", "not every request was answered"),
    ],
)
def test_pools_of_unknown_size_and_unanswered_requests_are_left_out(line: str, why: str) -> None:
    with pytest.raises(serving.LeftOutError) as error:
        read(serving.POOLS, POOLS + line)
    assert why in error.value.why


@pytest.mark.parametrize(
    ("task", "users", "requests", "share"),
    [
        ("lm-arena-chat", 256, "1024", None),  # all differ
        ("lm-arena-chat", 1024, "2048", 288 / 300),  # whoever comes later was there before
        ("lm-arena-chat", 512, "2048", 1024 / 1536 * 288 / 300),
        ("gpqa", 64, "198", None),
        ("gpqa", 2048, "2178", 288 / 300),
        ("text chat", 64, "", None),  # 2.0 does not tell
    ],
)
def test_prompts_that_are_asked_again_are_in_the_prefix_cache(
    task: str, users: int, requests: str, share: float | None
) -> None:
    """A round of GPQA has 198 prompts; whole blocks of 16 tokens before the last of 300 are found."""
    r = TableRow(0, {"task": task, "max_num_seqs": str(users), "num_requests": requests})
    assert serving.asked_again(r) == (share if share is None else pytest.approx(share))


@pytest.mark.parametrize(("dp", "layout"), [("", "tp=8"), ("8", "dp=8,ep=8"), ("4", "tp=2,dp=4,ep=8")])
def test_copies_of_attention_are_as_many_as_the_command_says(
    dp: str, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SGLang turns --enable-dp-attention off where --dp is not given (ServerArgs._handle_data_parallelism)."""
    cells = {
        "model": "deepseek-ai/DeepSeek-R1-0528", "engine": "SGLang", "engine_version": "v0.5.3", "chip": "H200 SXM",
        "tp": "8", "dp": dp, "dp_attention": "yes", "dataset": "random", "num_requests": "500",
        "input_len_mean": "4000", "output_len_mean": "200",
    }  # fmt: skip
    asked: dict[str, Any] = {}
    monkeypatch.setattr(measured_traffic, "simulate", lambda model, **settings: asked.update(settings))
    measured_traffic.at_once(TableRow(0, cells))
    assert (asked["layout"], asked["engine"]) == (layout, "sglang@0.5.3")


def test_requests_of_sharegpt_have_the_means_of_their_row_and_its_short_answers() -> None:
    lengths = measured_traffic.sharegpt(1000, 217.4, 201.4)
    drawn = next(Workload(*(Empirical(np.array(each)) for each in lengths.values()), AtOnce()).blocks(1000, 0))
    assert (drawn.input.mean(), drawn.output.mean()) == pytest.approx((217.4, 201.4), rel=1e-3)
    assert (drawn.output < 12).mean() == pytest.approx(0.11, abs=0.02)


def test_a_command_tells_the_settings_that_the_engine_has_words_for() -> None:
    command = "vllm serve a/b -tp 2 --async-scheduling --max-num-batched-tokens=16384 --max-model-len 32768"
    told = measured_traffic.with_flags("vllm@0.11", command)
    assert told == "vllm@0.11(async_scheduling=1,max_num_batched_tokens=16384)"
    assert measured_traffic.with_flags("sglang", "python3 -m sglang.launch_server --tp 8") == "sglang"
