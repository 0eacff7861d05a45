# ruff: noqa: E501 - tables as their files have them
"""The benchmark's readers on rows made up in the format of every table, and that all rows of a folder are counted."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

import accuracy
import measured_training
import roofline as rl
from folded import folded
from roofline.measured.accuracy.csvs import TableRow

# File → its header and rows, made up; by each how many of the rows can be scored.
TABLES: dict[str, tuple[int, str]] = {
    "gemm_bf16_aic.csv": (1, """system,software,kernel_source,dtype,m,n,k,latency_ms,sample
h100_sxm,trtllm 9.9,torch_flow,bfloat16,"1,024",4096,4096,0.08,random
h100_sxm,trtllm 9.9,torch_flow,bfloat16,x,4096,4096,0.08,random
h999,trtllm 9.9,torch_flow,bfloat16,16,4096,4096,0.08,random
"""),
    "gemm_engines_aic.csv": (2, """system,backend,version,kernel_source,dtype,m,n,k,graph,latency_ms
h100_sxm,trtllm,9.9,x,bfloat16,1024,4096,4096,1,0.08
h100_sxm,vllm,9.9,x,fp8,64,4096,4096,1,0.02
h100_sxm,vllm,9.9,x,fp8,128,4096,4096,1,0.02
h100_sxm,vllm,9.9,x,fp8,64,4096,4096,0,0.2
"""),
    "attention_decode_aic.csv": (1, """system,software,kernel_source,attn_dtype,kv_cache_dtype,batch_size,past_kv_len,num_heads,num_kv_heads,head_dim,window_size,latency_ms
h200_sxm,vllm 9.9,flash,bfloat16,bfloat16,16,4096,32,8,128,0,0.11
"""),
    "attention_encoder_engines_aic.csv": (1, """system,backend,version,kernel_source,attn_dtype,batch_size,seq_len,num_heads,num_kv_heads,head_dim,window_size,latency_ms
b200_sxm,vllm,9.9,flash,bfloat16,4,1024,16,16,64,0,0.05
"""),
    "moe_engines_aic.csv": (2, """system,backend,version,kernel_source,moe_dtype,distribution,num_tokens,hidden_size,inter_size,topk,num_experts,moe_tp_size,moe_ep_size,gated,flag,latency_ms
h100_sxm,vllm,9.9,triton,bfloat16,balanced,64,2048,768,8,128,1,1,1,,0.5
h100_sxm,vllm,9.9,triton,bfloat16,balanced,64,2048,768,8,128,1,1,1,untuned,0.5
h100_sxm,vllm,9.9,triton,bfloat16,power_law_1.2,64,2048,768,8,128,1,8,1,,0.5
"""),
    "gemm_amd_aiter.csv": (2, """gpu,gfx,cu_num,kind,dtype,out_dtype,bias,preshuffled,m,n,k,us,library,path
MI300X/MI325X,gfx942,304,bf16,bf16,bf16,0,0,512,4096,4096,60,x,x
MI350X/MI355X,gfx950,256,mxfp4,mxfp4,bf16,0,0,512,4096,4096,20,x,x
"""),
    "moe_amd_aiter.csv": (1, """gpu,gfx,cu_num,num_tokens,hidden_size,inter_size,num_experts,topk,act,act_dtype,weight_dtype,quant,gated,us_up,us_down,us,one_stage,path
MI300X/MI325X,gfx942,304,64,4096,1536,64,4,Silu,fp8,fp8,per_Token,1,150,90,240,0,x
"""),
    "grouped_gemm_fp8_infersim.csv": (1, """gpu,phase,num_experts,num_gpus,num_local_experts,topk,hidden_size,intermediate_size,tokens_per_gpu,tokens_per_expert,up_proj_us,up_mfu,down_proj_us,down_mfu
h20,decode,64,8,8,4,4096,1024,128,64,90,0.2,50,0.2
"""),
    "gemm_fp8_deepgemm_h800.csv": (1, """kind,num_groups,m_per_group,n,k,tflops,mem_bw_GBps,speedup_vs_cutlass
Normal,1,128,4096,4096,300,1500,1
Grouped,4,128,4096,4096,300,1500,1
"""),
    "quantize_engines_aic.csv": (1, """system,backend,version,op_name,kernel_source,m,k,quant_dtype,latency_ms
l40s,trtllm,9.9,scale_matrix,x,1024,4096,fp8,0.02
l40s,vllm,9.9,computescale,a_minus_b,1024,4096,fp8,0.02
"""),
    "linear_attention_engines_aic.csv": (1, """system,backend,version,table,kernel_source,phase,batch_size,seq_len,num_tokens,d_model,d_conv,num_k_heads,head_k_dim,num_v_heads,head_v_dim,d_state,nheads,head_dim,n_groups,chunk_size,model_name,latency_ms
h100_sxm,vllm,9.9,gdn,chunk_gated_delta_rule,context,2,2048,4096,2048,4,16,128,32,128,,,,,,x,0.9
h100_sxm,vllm,9.9,mamba2,causal_conv1d_fn,context,2,2048,4096,2048,4,,,,,128,64,64,8,,x,0.9
"""),
    "ops_fp32_neusight.csv": (2, """op,gpu,dtype,batch,m,n_inner,k_out,h,latency_ms,unit_used,software,part,path
linear,T4,fp32,8,128,1024,1024,,0.9,,x,x,x
add,T4,fp32,4096,,,,1024,0.3,,x,x,x
bmm,T4,fp32,8,128,64,128,,0.2,,x,x,x
"""),
    "mla_aic.csv": (2, """system,software,table,mla_dtype,kv_cache_dtype,gemm_type,num_heads,batch_size,isl,step,latency_ms
h100_sxm,trtllm 9.9,generation_mla,bfloat16,bfloat16,,16,8,1,4096,0.05
h100_sxm,trtllm 9.9,mla_generation_module,bfloat16,bfloat16,fp8_block,16,8,1,4096,0.12
"""),
    "collectives_engines_aic.csv": (1, """system,backend,version,op,num_gpus,bytes,latency_ms
h100_sxm,nccl,9.9,all_reduce,8,1048576,0.05
h100_sxm,nccl,9.9,all_reduce,,1048576,0.05
"""),
    "e2e_static_batch_llm_inference_bench.csv": (3, """hardware,num_devices,framework,model,parallelism,in_len,out_len,batch_size,latency_s,throughput_tok_s,consistent,src
Nvidia H100 GPU,1,vLLM,mistralai/Mistral-7B-v0.1,tensor,128,128,1,1.2,200,True,x
Nvidia H100 GPU,4,vLLM,mistralai/Mistral-7B-v0.1,tensor,128,128,16,1.5,200,True,x
Nvidia H100 GPU,1,llama.cpp,mistralai/Mistral-7B-v0.1,tensor,128,128,1,1.2,200,False,x
Intel PVC GPU,1,llama.cpp,mistralai/Mistral-7B-v0.1,tensor,128,128,1,1.2,200,False,x
"""),
    "e2e_serving_silicon_aic.csv": (2, """origin,source,measured,image,model,system,backend,backend_version,precision,gemm_quant_mode,moe_quant_mode,isl,osl,concurrency,batch_size,tp_size,pp_size,attention_dp_size,moe_tp_size,moe_ep_size,ttft_ms,tpot_ms
inferencex,x,x,x,zhipuai/GLM-5,b200_sxm,sglang,9,fp8,fp8,fp8,1024,256,8,8,8,1,0,1,8,300,15
aic-internal,x,x,x,meta-llama/Llama-3.1-8B-Instruct,h100_sxm,trtllm,9,,,,1024,256,8,8,1,1,,1,1,60,8
aic-internal,x,x,x,meta-llama/Llama-3.1-8B-Instruct,h100_sxm,trtllm,9,,,,1024,256,,8,1,1,,1,1,60,8
inferencex,x,x,x,openai/gpt-oss-120b,b200_sxm,vllm,9,,,,1024,256,512,8,2,1,1,1,1,25000,15
inferencex,x,x,x,nobody/nothing,b200_sxm,vllm,9,,,,1024,256,8,8,2,1,1,1,1,500,15
"""),
    "e2e_static_batch_trtllm.csv": (1, """gpu,precision,model,batch_size,tp,in_len,out_len,throughput,unit_in_doc,trtllm_version
H100-SXM,fp8,GPT-J 6B,64,1,2048,1024,3000,tok/s/GPU,0.6
"""),
    "e2e_prefill_latency_trtllm.csv": (1, """gpu,precision,model,batch_size,tp,in_len,first_token_latency_ms,trtllm_version
H100-SXM,fp8,LLaMA 70B,1,4,512,40,0.5
"""),
    "e2e_decode_bs1_gptfast_a100.csv": (1, """gpu,model,weight_dtype,tp,tokens_per_s,reported_mem_bw_GBps,batch_size,prompt_len
A100,Llama-2-7B,int4 g32,1,190,1000,1,5
"""),
    "e2e_vllm_mi300x_rocm.csv": (2, """kind,model,gpu,num_gpus,tp,weight_dtype,kv_dtype,software,batch,num_prompts,in_len,out_len,latency_s,output_tokens_per_s,path
latency,Llama 3.1 70B-Instruct,MI300X,8,8,fp8,x,x,4,,128,512,5,,x
throughput,Llama 3.1 70B-Instruct,MI300X,8,8,fp8,fp8,x,,500,128,512,,9000,x
"""),
    "e2e_vllm_rate_h100.csv": (1, """model,gpu,tp,requested_rate,failed,tokens_generated_each,input_len_mean,ttft_mean_ms,tpot_mean_ms
meta-llama/Llama-2-7b-hf,H100-SXM,1,3,0,200,500,30,8
meta-llama/Llama-2-7b-hf,H100-SXM,1,30,7,200,500,30,8
"""),
    "e2e_aws_neuron.csv": (1, """instance,chip,num_chips,tp_cores,model,batch,in_len,out_len,max_len,weight_storage,compute,neuron,ttft_p50_ms,ttft_p99_ms,tpot_p50_ms,tpot_p99_ms,output_tokens_per_s,path
trn1.32xlarge,Trainium1,16,32,Llama-3-8B,1,1024,512,2048,bf16,bf16 matmul,2,50,50,9,9,100,x
"""),
    "local_machines.csv": (3, """machine,gpu_cores,num_gpus,memory_gb,bandwidth_GBps_spec,engine,backend,build,model,params_b,quant,file_gib,test,n_prompt,n_gen,batch,depth,tok_per_s,std,power_w,source,quality
3090,,1,24,936,llama.cpp,CUDA,x,Llama-3-8B,8.03,F16,15,tg128,,128,1,0,50,,,x,x
3090,,1,24,936,llama.cpp,CUDA,x,Llama-3-8B,8.03,F16,15,pp512,512,,1,0,3000,,,x,x
3090,,4,24,936,llama.cpp,CUDA,x,Llama-3-8B,8.03,F16,15,pp512,512,,1,0,3000,,,x,x
3090,,1,24,936,llama.cpp,CUDA,x,Llama-3-8B,8.03,Q9_X,15,pp512,512,,1,0,3000,,,x,x
"""),
    "e2e_max_throughput_trtllm.csv": (2, """doc,model,moe,gpu,precision,num_gpus,layout,tp,attention_dp,ep,pp,in_len,out_len,output_tokens_per_s,output_tokens_per_s_per_gpu
x,Llama-3.3-70B,0,H100,fp8,4,TP4,4,0,,1,1024,1024,7000,1750
x,DeepSeek-R1-0528,1,B200,fp4,8,DEP8,1,1,8,1,1024,1024,30000,3750
"""),
    "training_mlperf.csv": (1, """mlperf,benchmark,task,submitter,system,accelerator,num_accelerators,num_nodes,seq_len,global_batch,micro_batch,tp,pp,cp,vp,precision,train_step_s_logged,samples_per_s_logged,step_s_blocks,layout_source
9,llama31_8b,pre-training,x,x,B200,8,1,8192,32,2,1,1,1,,fp8,,10,,only config of the submission that fits
9,llama31_8b,pre-training,x,x,B200,8,1,8192,32,2,1,1,1,,fp8,,10,,one of 9 configs that fit
"""),
    "training_megatron_bridge.csv": (1, """release,section,system,model,num_gpus,precision,global_batch,micro_batch,seq_len,fsdp,tp,pp,cp,vp,ep,grad_accum,tokens_per_s_per_gpu,model_tflops_per_gpu
x,Pre-Training Performance,DGX-H100,LLAMA3_8B,8,FP8,128,,8192,0,1,1,1,n/a,n/a,,14000 (13000),720 (700)
x,Pre-Training Performance,DGX-H100,Nobody_9,8,FP8,128,1,8192,0,1,1,1,n/a,n/a,,14000,720
"""),
    "training_simumax_b200.csv": (1, """case,model,layers,gpu,num_gpus,tp,pp,cp,ep,dp,seq_len,micro_batch,num_micro_batches,dtype,recompute,zero,iteration_ms,peak_alloc_gib
x,llama3-70b,8,B200,8,2,1,1,1,4,4096,1,4,bf16,none,1,500,45
"""),
    "training_llm_foundry_mpt.csv": (1, """gpu,model,seq_len,num_gpus,micro_batch_size,grad_accum,throughput_tok_s_gpu,precision,sharding_strategy,activation_checkpointing,d_model,n_heads,n_layers,expansion_ratio,vocab_size
a100_80gb,7b,2048,8,4,4,2500,bf16,FULL_SHARD,True,4096,32,32,4,50368
"""),
    "e2e_mlperf_inference.csv": (0, "model,tokens_per_s\nx,1\n"),
    "training_maxtext_tpu.csv": (0, "model,num_chips\nx,1\n"),
    "of_nobody.csv": (0, "a,b\n1,2\n3,4\n"),
    "empty.csv": (0, ""),
}  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> accuracy.Report:
    folder = tmp_path_factory.mktemp("measured")
    for name, (_, text) in TABLES.items():
        (folder / name).write_text(text, encoding="utf-8")
    return accuracy.report(folder)


@folded("name", TABLES)
def test_a_table(whole: accuracy.Report, name: str) -> None:
    (t,) = [t for t in whole.tallies if t.file == name]
    rows = max(0, len(TABLES[name][1].splitlines()) - 1)
    assert t.rows == rows == t.scored + t.left
    assert t.scored == TABLES[name][0], t.reasons
    assert any(s.file == name for s in whole.scores) == bool(t.scored)


def test_a_slice_of_deepseek_v3_has_one_dense_layer() -> None:
    """MooreThreads/SimuMax, docs/b200/b200_release_v1.2_summary.md: dense_layers=1; four layers take 104.30 GiB."""
    config = measured_training.sliced("deepseekv3", 4)
    assert (config["num_hidden_layers"], config["first_k_dense_replace"]) == (4, 1)
    assert "first_k_dense_replace" not in measured_training.sliced("llama3-70b", 12)
    e = rl.train(rl.load(config), batch=32, tokens=4096, on="8xb200", layout="dp=8,ep=8,zero=1", overlap=False)
    assert e.stages[0].memory.allocated / 2**30 == pytest.approx(104.30, rel=0.01)


def test_llm_foundry_runs_the_loss_of_flash_attention() -> None:
    """By default (llmfoundry/models/mpt/modeling_mpt.py): 16-bit logits and their gradient, 4 bytes and not 12."""
    head, row = TABLES[measured_training.FOUNDRY][1].splitlines()
    values = dict(zip(head.split(","), row.split(","), strict=True))
    (run,) = measured_training.foundry(TableRow(0, values))
    e = rl.train(
        run.model,
        batch=run.settings["batch"],
        tokens=run.settings["input"],
        on=run.where.on,
        engine=run.where.engine,
        layout=run.where.layout,
        **run.options,
    )
    eager = rl.train(
        run.model, batch=run.settings["batch"], tokens=run.settings["input"], on=run.where.on, engine=run.where.engine, layout=run.where.layout,
        **{**run.options, "loss": "eager"},
    )  # fmt: skip
    assert (e.loss, e.time) == ("compiled", eager.time)
    assert eager.fullest.working - e.fullest.working > 0


def test_the_rows_of_all_files_add_up(whole: accuracy.Report) -> None:
    total = whole.total
    assert total.rows == sum(t.rows for t in whole.tallies) == total.scored + sum(r.rows for r in total.reasons)
    assert all(r.why for t in whole.tallies for r in t.reasons)


def test_why_rows_are_left_out(whole: accuracy.Report) -> None:
    reasons = {(t.file, r.why): r.rows for t in whole.tallies for r in t.reasons}
    serving = "e2e_serving_silicon_aic.csv"
    assert reasons[serving, "concurrency cannot be read"] == 1
    assert reasons[serving, "no such model in the catalog"] == 1
    assert any(file == serving and "a third or less" in why for file, why in reasons)
    assert reasons["gemm_bf16_aic.csv", "no such chip in the catalog"] == 1
    assert reasons["of_nobody.csv", "nothing reads such a file"] == 2


def test_a_result_is_kept_and_a_page_is_made_of_it(whole: accuracy.Report, tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    kept.write_text(whole.text(), encoding="utf-8")
    assert accuracy.read_report(kept) == whole
    page = tmp_path / "accuracy.md"
    page.write_text(f"by hand\n{accuracy.accuracy_page.MARK}\nof before", encoding="utf-8")
    (tmp_path / "pictures").mkdir()
    accuracy.main([str(kept), "--page", str(page), "--coverage"])
    text = page.read_text(encoding="utf-8")
    assert text.startswith("by hand\n")
    assert "of before" not in text
    names = {path.name for path in (tmp_path / "accuracy").iterdir()}
    assert names == {f"{name}.csv" for name in ("rows", "groups", "systems", "lines", "fitted", "left_out")}
    assert (tmp_path / "pictures" / "accuracy.svg").read_text(encoding="utf-8").startswith("<?xml")


def test_the_same_rows_are_scored_by_default_calls(whole: accuracy.Report) -> None:
    told, called = ({(s.file, s.system, s.slice): s for s in scores} for scores in (whole.scores, whole.called))
    assert called.keys() <= told.keys()
    step = ("training_mlperf.csv", "b200", "pre-training")
    assert told[step].n == called[step].n == 1
    assert (accuracy.SYSTEMS, "b200", "training step, nemo") in told
    assert not any(s.slice.startswith("FLOPs") for s in whole.called)


def test_a_part_is_scored_over_another(whole: accuracy.Report) -> None:
    part = accuracy.Report(whole.tallies[:1], whole.scores[:1], ())
    assert part.over(whole) == whole
    assert accuracy.Report().over(whole) == whole


def test_a_row_of_section_a_that_f_corrects_is_superseded_and_one_that_f_repeats_is_scored_once(tmp_path: Path) -> None:
    head = "system,software,kernel_source,dtype,m,n,k,latency_ms,sample\n"
    old = [f"l40s,trtllm 9.9,x,fp8,{m},4096,4096,{t},random" for m, t in ((64, 0.05), (128, 0.06), (256, 0.07))]
    new = [f"l40s,trtllm,9.9,x,fp8,{m},4096,4096,1,{t}" for m, t in ((64, 0.05), (128, 0.09))]
    (tmp_path / "gemm_lowprec_aic.csv").write_text(head + "\n".join(old) + "\n")
    newer = "system,backend,version,kernel_source,dtype,m,n,k,graph,latency_ms\n"
    (tmp_path / "gemm_engines_aic.csv").write_text(newer + "\n".join(new) + "\n")
    done = accuracy.report(tmp_path)
    first, second = sorted(done.tallies, key=lambda t: t.file)
    assert (first.file, first.scored, [r.why for r in first.reasons]) == (
        "gemm_engines_aic.csv",
        1,
        [accuracy.REPEATED],
    )
    assert (second.scored, [r.why for r in second.reasons]) == (2, [accuracy.SUPERSEDED])
