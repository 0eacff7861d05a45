"""What is handed over to training frameworks: it parses, its names are theirs, and it says the layout it is of."""

from __future__ import annotations

import argparse
import ast
import json
import shlex
import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

import roofline as rl
from folded import folded
from roofline.doors.cli.main import main
from roofline.training.emit import make
from roofline.training.emit.core import layout_text
from roofline.training.emit.make import FRAMEWORKS, Emitted, hand_over
from roofline.training.emit.sizes import sizes_of

NAMES = tomllib.loads((Path(make.__file__).with_name("names.toml")).read_text(encoding="utf-8"))
DENSE, SPARSE = "meta-llama/Llama-3.1-8B", "Qwen/Qwen3-30B-A3B"


@cache
def trained(model: str, layout: str, on: str = "64xh100-sxm", **options: Any) -> Any:
    return rl.train(model, batch=256, tokens=4096, on=on, layout=layout, **options)


LAYOUTS = (
    "dp=64", "dp=64,zero=1", "tp=8,dp=8,sp,zero=1", "tp=2,dp=32,zero=2", "dp=64,zero=3", "dp=64,zero=3,shard=8",
    "tp=4,pp=4,dp=4,sp,zero=1", "pp=4,dp=8,cp=2,zero=3", "tp=2,cp=4,dp=8,sp,zero=1,exchange=all_gather",
    "pp=3,dp=16,stages=10+12+10", "tp=8,pp=2,dp=4,sp,zero=1",
)  # fmt: skip
SPARSE_LAYOUTS = ("dp=64,ep=8,zero=1", "tp=2,pp=2,dp=16,ep=16,sp,zero=1", "dp=32,tp=2,ep=8,etp=2,zero=1,capacity=1.5")
OPTIONS: tuple[dict[str, Any], ...] = (
    {}, {"recompute": "full"}, {"recompute": "selective"}, {"recompute": ("attn_norm", "ffn_norm")},
    {"micro_batch": 2, "recipe": "fp8"}, {"recipe": "fp8-block"}, {"recipe": "mxfp8"}, {"recipe": "fp16"},
    {"recipe": "bf16-gradients"}, {"recipe": "nvfp4", "on": "64xb200"}, {"recipe": "fp32", "optimizer": "sgd"},
    {"optimizer": "muon"},
    {"offload": "optimizer"}, {"overlap": False}, {"fused_loss": True}, {"flash": False},
)  # fmt: skip
CASES = [
    *((DENSE, layout, {}) for layout in LAYOUTS), *((SPARSE, layout, {}) for layout in SPARSE_LAYOUTS),
    *((DENSE, "tp=2,pp=2,dp=16,sp,zero=1", options) for options in OPTIONS[1:]),
    (DENSE, "tp=2,pp=4,vp=4,dp=8,sp,zero=1", {"schedule": "interleaved"}),
    (DENSE, "pp=4,vp=3,dp=16,zero=1", {"schedule": "interleaved"}),
    (DENSE, "pp=4,dp=16", {"schedule": "zb-h1"}),
]  # fmt: skip


@pytest.fixture(params=CASES, ids=str)
def step(request: pytest.FixtureRequest) -> Any:
    model, layout, options = request.param
    return trained(model, layout, **options)


# -- reading it, by code that shares none with what wrote it -------------------------------------------------------
def arguments(text: str) -> dict[str, Any]:
    """Flags as a parser of their kind reads them: no flag that it does not know, every value of the type it has."""
    words = shlex.split(text, comments=True)
    parser = argparse.ArgumentParser(exit_on_error=False, allow_abbrev=False)
    alone = {
        "--bf16", "--fp16", "--sequence-parallel", "--use-distributed-optimizer", "--overlap-grad-reduce",
        "--overlap-param-gather", "--use-megatron-fsdp", "--no-gradient-accumulation-fusion", "--grad-reduce-in-bf16",
        "--accumulate-allreduce-grads-in-fp32", "--optimizer-cpu-offload", "--use-precision-aware-optimizer",
        "--tp-comm-overlap", "--overlap-moe-expert-parallel-comm",
    }  # fmt: skip
    for name in NAMES["megatron"]["names"]:
        if name in alone:
            parser.add_argument(name, action="store_true")
        elif name.endswith(("size", "-length", "-layers", "-rank", "-instances")):
            parser.add_argument(name, type=int)
        else:
            parser.add_argument(name, nargs="+" if name.endswith("modules") else None)
    return {name: value for name, value in vars(parser.parse_args(words)).items() if value not in (None, False)}


def flattened(tree: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in tree.items():
        flat |= flattened(value, f"{before}{name}.") if isinstance(value, Mapping) else {f"{before}{name}": value}
    return flat


def core(told: Mapping[str, Any], vp: str, chips: int) -> dict[str, Any]:
    """Degrees out of Megatron Core's fields; replicas are what is left of the chips."""
    pp, cp = told["pipeline_model_parallel_size"], told["context_parallel_size"]
    tp = told["tensor_model_parallel_size"]
    dp = chips // (tp * pp * cp)
    strategy = {"optim_grads": 2, "optim_grads_params": 3}
    zero = strategy.get(told.get("data_parallel_sharding_strategy", ""), int("use_distributed_optimizer" in told))
    stages = [s.strip("EmL") for s in told.get("pipeline_model_parallel_layout", "").split("|")]
    counts = tuple(int(s.removeprefix("t*") or 0) for s in stages) if stages != [""] else ()
    return {
        "tp": tp, "pp": pp, "cp": cp, "dp": dp, "zero": zero, "sp": "sequence_parallel" in told,
        "ep": told.get("expert_model_parallel_size", 1), "vp": len(counts) // pp if counts else told.get(vp, 1),
        "sharers": dp * cp // told.get("num_distributed_optimizer_instances", 1), "counts": counts,
        "exchange": {"p2p": "ring", "allgather": "all_gather"}[told.get("cp_comm_type", "p2p")],
        "batch": told["global_batch_size"], "micro_batch": told["micro_batch_size"], "tokens": told["seq_length"],
        "recompute": told.get("recompute_granularity", "none"),
    }  # fmt: skip


def of_megatron(text: str, chips: int) -> dict[str, Any]:
    return core(arguments(text), "num_virtual_stages_per_pipeline_rank", chips)


def of_bridge(text: str, chips: int) -> dict[str, Any]:
    tree = yaml.safe_load(text)
    assert tree["model"]["seq_length"] == tree["dataset"]["seq_length"]
    told = {key: value for section in tree.values() if isinstance(section, dict) for key, value in section.items()}
    return core(told, "virtual_pipeline_model_parallel_size", chips)


def assigned(text: str) -> dict[str, Any]:
    """The fields that a function sets on a config, by their names."""
    function = ast.parse(text).body[0]
    assert isinstance(function, ast.FunctionDef)
    *lines, last = function.body
    assert ast.unparse(last) == "return config"
    fields = [x for x in lines if isinstance(x, ast.Assign)]
    return {ast.unparse(x.targets[0]).removeprefix("config."): _value(x.value) for x in fields}


def _value(value: ast.expr) -> Any:
    """A literal, or the class whose config is made."""
    return ast.unparse(value) if isinstance(value, ast.Call) else ast.literal_eval(value)


def sections(text: str) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for name, value in assigned(text).items():
        section, dot, field = name.partition(".")
        if dot:
            tree.setdefault(section, {})[field] = value
        else:
            tree[section] = value
    return tree


def of_torchtitan(text: str, chips: int) -> dict[str, Any]:
    tree = sections(text)
    p, t = tree["parallelism"], tree["training"]
    shard, copies = p["data_parallel_shard_degree"], p["data_parallel_replicate_degree"]
    pp, cp, dp = p["pipeline_parallel_degree"], p["context_parallel_degree"], shard * copies
    parts = p.get("module_fqns_per_model_part", [])
    counts = tuple(sum(name.startswith("layers.") for name in part) for part in parts)
    each = p.get("pipeline_parallel_layers_per_stage")
    chunks = len(parts) or (1 if each is None else 32 // each)
    assert shard * copies * pp * cp * p["tensor_parallel_degree"] == chips
    return {
        "tp": p["tensor_parallel_degree"], "pp": pp, "cp": cp, "dp": dp, "ep": p.get("expert_parallel_degree", 1),
        "vp": max(1, chunks // pp), "counts": counts, "batch": t["global_batch_size"], "tokens": t["seq_len"],
        "micro_batch": p.get("pipeline_parallel_microbatch_size", t["local_batch_size"]), "sharers": shard * cp,
        "recompute": {None: "none", "FullAC.Config()": "full", "SelectiveAC.Config()": "op"}[
            tree["activation_checkpoint"]
        ],
    }  # fmt: skip


def of_deepspeed(text: str, chips: int) -> dict[str, Any]:
    tree = json.loads(text)
    assert chips % 8 == 0
    micro, batch = tree["train_micro_batch_size_per_gpu"], tree["train_batch_size"]
    return {
        "tp": tree.get("tensor_parallel", {}).get("autotp_size", 1), "batch": batch, "micro_batch": micro,
        "dp": batch // (micro * tree["gradient_accumulation_steps"]), "zero": tree["zero_optimization"]["stage"],
    }  # fmt: skip


def of_maxtext(text: str, chips: int) -> dict[str, Any]:
    tree = yaml.safe_load(text)

    def degree(axis: str) -> int:
        return int(tree.get(f"ici_{axis}_parallelism", 1) * tree.get(f"dcn_{axis}_parallelism", 1))

    axes = ("tensor", "tensor_sequence", "context", "expert", "fsdp", "data", "pipeline")
    sizes = {axis: degree(axis) for axis in axes}
    within = {axis: tree.get(f"ici_{axis}_parallelism", 1) for axis in axes}
    product = 1
    for axis in axes:
        product *= within[axis]
    assert product == 8, "a node of eight is full"
    dp = sizes["data"] * sizes["fsdp"] * sizes["expert"]
    batch = int(tree["per_device_batch_size"] * chips) * tree["gradient_accumulation_steps"]
    passing = tree.get("num_pipeline_microbatches", tree["gradient_accumulation_steps"])
    return {
        "tp": sizes["tensor"] * sizes["tensor_sequence"], "sp": sizes["tensor_sequence"] > 1, "dp": dp,
        "cp": sizes["context"], "ep": sizes["expert"], "pp": sizes["pipeline"], "batch": batch,
        "micro_batch": batch // (dp * passing), "tokens": tree["max_target_length"],
    }  # fmt: skip


READERS: Mapping[str, Callable[[str, int], dict[str, Any]]] = {
    "megatron": of_megatron, "bridge": of_bridge, "torchtitan": of_torchtitan, "deepspeed": of_deepspeed,
    "maxtext": of_maxtext,
}  # fmt: skip


def asked(e: Any) -> dict[str, Any]:
    """What the estimate was asked, in the same words."""
    layout, sizes = e.asked.layout, sizes_of(e)
    names = ("tp", "pp", "vp", "cp", "dp", "ep", "zero", "sp", "exchange")
    again = e.step.recompute
    return {
        **{name: getattr(layout, name) for name in names}, "sharers": layout.sharers, "batch": e.batch,
        "micro_batch": e.micro_batch, "tokens": e.tokens_each, "counts": sizes.chunks if not sizes.even else (),
        "recompute": "selective" if isinstance(again, tuple) else again,
    }  # fmt: skip


def says(handed: Emitted, *words: str) -> bool:
    return any(word in what for what in handed.missing for word in words)


# -- tests ---------------------------------------------------------------------------------------------------------
@folded("framework", FRAMEWORKS)
def test_every_name_is_the_framework_s_own(step: Any, framework: str) -> None:
    handed = hand_over(step, framework)
    assert {s.name for s in handed.settings} <= set(NAMES[framework]["names"])
    assert len({s.name for s in handed.settings}) == len(handed.settings)
    if framework == "megatron":
        there = {f"--{name.replace('_', '-')}" for name in arguments(handed.text)}
    else:
        parse = {"torchtitan": sections, "deepspeed": json.loads}.get(framework, yaml.safe_load)
        there = set(flattened(parse(handed.text)))
    assert there == {s.name for s in handed.settings}


@folded("framework", FRAMEWORKS)
def test_the_layout_that_is_read_back_is_the_same(step: Any, framework: str) -> None:
    """All that a framework has a word for; what it does in another way it has said."""
    handed, wanted = hand_over(step, framework), asked(step)
    layout = step.asked.layout
    read = READERS[framework](handed.text, layout.chips)
    excused = {
        "vp": says(handed, "vp=", "stages of"), "sharers": says(handed, "shard ", "zero="),
        "counts": says(handed, "stages of"), "recompute": says(handed, "recompute "),
    }  # fmt: skip
    if framework == "torchtitan" and layout.zero == 0:
        read.pop("sharers")
        assert layout.cp > 1 or "data_parallel_shard_degree = 1\n" in handed.text
    if layout.pp > 1 and layout.vp == 1 and framework == "torchtitan" and not read["counts"]:
        assert read["vp"] == 1
    for name, value in read.items():
        if not excused.get(name):
            assert value == wanted[name], name


def test_names_have_a_source_and_a_day() -> None:
    assert set(NAMES) == set(FRAMEWORKS)
    for table in NAMES.values():
        assert table["source"]
        assert len(table["commit"]) == 40
        assert table["read"].year >= 2026
        assert table["names"] == sorted(table["names"])


def test_the_example_of_megatron_by_hand() -> None:
    """Llama-3 70B as its users run it."""
    e = trained(DENSE, "tp=8,pp=2,dp=4,sp,zero=1", recompute="full")
    lines = hand_over(e, "megatron").text.splitlines()
    assert lines[2:] == [
        "--tensor-model-parallel-size 8", "--pipeline-model-parallel-size 2", "--context-parallel-size 1",
        "--sequence-parallel", "--micro-batch-size 1", "--global-batch-size 256", "--seq-length 4096",
        "--use-distributed-optimizer", "--optimizer adam", "--recompute-granularity full", "--recompute-method uniform",
        "--recompute-num-layers 1", "--overlap-grad-reduce", "--overlap-param-gather", "--bf16",
        "--attention-backend flash",
    ]  # fmt: skip


def test_some_layers_run_again_and_gradients_in_bf16() -> None:
    e = trained(DENSE, "tp=8,dp=8,sp,zero=1", recompute="full", recompute_layers=21, recipe="fp8(gradients=bf16)")
    handed = hand_over(e, "megatron")
    told = {s.name: s.value for s in handed.settings}
    assert (told["--recompute-method"], told["--recompute-num-layers"]) == ("block", 21)
    assert told["--grad-reduce-in-bf16"] is True
    assert told["--fp8-format"] == "hybrid"
    chunks = trained(
        DENSE, "tp=8,pp=2,vp=2,dp=4,sp,zero=1", recompute="full", recompute_layers=2, schedule="interleaved"
    )
    assert says(hand_over(chunks, "megatron"), "2 layers a stage")
    every = trained(DENSE, "tp=8,dp=8,sp,zero=1", recompute="full", recompute_every=2)
    assert says(hand_over(every, "bridge"), "every 2 layers")
    kept = trained(DENSE, "tp=8,dp=8,sp,zero=1", recipe="fp8(matrices=fp8)")
    for framework in ("megatron", "bridge"):
        assert says(hand_over(kept, framework), "matrices=fp8")


def test_recomputed_sets_states_and_drafts_have_megatron_s_words() -> None:
    """DeepSeek-V3 as Bridge trains it: a layer of multi-token prediction, moments in bf16, up-projections run again."""
    again = "q_b_proj,attention_kv_b,rope,attn_norm,ffn_norm,experts_act"
    e = trained("deepseek-ai/DeepSeek-V3", "pp=8,dp=8,ep=8,zero=1", drafts=1, optimizer="adamw-bf16", recompute=again)
    lines = hand_over(e, "megatron").text.splitlines()
    for line in (
        "--mtp-num-layers 1", "--pipeline-model-parallel-layout 'Et*7|t*8|t*8|t*8|t*8|t*8|t*8|t*6mL'",
        "--use-precision-aware-optimizer", "--exp-avg-dtype bf16", "--exp-avg-sq-dtype bf16",
        "--recompute-granularity selective", "--recompute-modules mla_up_proj layernorm moe_act",
    ):  # fmt: skip
        assert line in lines, line
    assert not says(hand_over(e, "megatron"), "recompute", "optimizer")
    bridge = hand_over(e, "bridge")
    assert {"model.mtp_num_layers", "optimizer.exp_avg_dtype"} <= {s.name for s in bridge.settings}


@pytest.mark.parametrize(("zero", "refused"), [(1, False), (2, True), (3, True)])
def test_muon_has_a_distributed_optimizer_but_no_fsdp(zero: int, refused: bool) -> None:
    handed = hand_over(trained(DENSE, f"dp=64,zero={zero}", optimizer="muon"), "megatron")
    assert "--optimizer muon" in handed.text
    assert says(handed, "muon with zero") is refused


def test_torchtitan_s_function_sets_fields_of_its_config() -> None:
    """Classes of 2026 have these sections; what became a Python object is said."""
    handed = hand_over(trained(DENSE, "tp=2,dp=32,sp,zero=3", recipe="fp8", engine="torchtitan"), "torchtitan")
    assert handed.text.splitlines()[-1] == "    return config"
    assert set(sections(handed.text)) == {"training", "parallelism", "activation_checkpoint", "optimizer"}
    assert says(handed, "Float8LinearConverter")


def test_a_pipeline_of_unequal_stages() -> None:
    """10, 12 and 10 layers: Megatron Core's text of it, and torchtitan's modules of each part."""
    e = trained(DENSE, "pp=3,dp=16,stages=10+12+10")
    assert "--pipeline-model-parallel-layout 'Et*10|t*12|t*10L'" in hand_over(e, "megatron").text
    parts = sections(hand_over(e, "torchtitan").text)["parallelism"]["module_fqns_per_model_part"]
    assert [len(part) for part in parts] == [11, 12, 12]
    assert (parts[0][0], parts[2][-2:]) == ("tok_embeddings", ["norm", "lm_head"])
    assert says(hand_over(e, "maxtext"), "stages of 10+12+10 layers")
    assert layout_text((0, 2, 2, 0)) == "E|t*2|t*2|L"


def test_an_empty_first_chunk_keeps_its_place() -> None:
    """126 layers over 16 stages of 8 chunks: embedding and loss count as layers, so the ends have none besides."""
    e = rl.train(
        "meta-llama/Llama-3.1-405B", batch=512, tokens=8192, on="4096xh100-sxm", schedule="interleaved",
        layout="tp=8,pp=16,vp=8,dp=32,sp,zero=1",
    )  # fmt: skip
    chunks = sizes_of(e).chunks
    assert (len(chunks), sum(chunks), chunks[0], chunks[-1]) == (128, 126, 0, 0)


def test_what_cannot_be_expressed_is_said() -> None:
    e = trained(DENSE, "pp=4,dp=16", schedule="zb-h1", recipe="bf16-pure", optimizer="adafactor", recompute=("rope",))
    for framework in ("megatron", "bridge"):
        handed = hand_over(e, framework)
        for word in ("zb-h1", "bf16-pure", "adafactor", "recompute rope"):
            assert says(handed, word)
    assert says(hand_over(e, "torchtitan"), "zb-h1")
    assert says(hand_over(e, "deepspeed"), "PipelineModule")
    assert "# not expressed: schedule zb-h1" in hand_over(e, "megatron").text


@pytest.mark.parametrize(
    ("dispatcher", "told"),
    [
        ("deepep", "--moe-token-dispatcher-type flex\n--moe-flex-dispatcher-backend deepep"),
        ("hybridep", "--moe-token-dispatcher-type flex\n--moe-flex-dispatcher-backend hybridep"),
        ("alltoall", "--moe-token-dispatcher-type alltoall\n--"),
    ],
)
def test_experts_exchange_as_they_were_timed(dispatcher: str, told: str) -> None:
    """Megatron's dispatcher is all-gather where nothing is said."""
    engine = f"megatron(moe_token_dispatcher_type={dispatcher})"
    text = hand_over(trained(SPARSE, "dp=64,ep=8,zero=1", engine=engine), "megatron").text
    assert told in text
    assert ("flex-dispatcher" in text) == ("flex" in told)
    assert "--expert-model-parallel-size 8\n--expert-tensor-parallel-size 1" in text


def test_unknown_frameworks_and_arrays() -> None:
    e = trained(DENSE, "dp=64")
    with pytest.raises(rl.InputError, match="megatron"):
        hand_over(e, "megatorn")
    many = rl.train(DENSE, batch=[64, 128], tokens=4096, on="64xh100-sxm", layout="dp=64")
    with pytest.raises(rl.InputError, match="emit"):
        hand_over(many, "megatron")


# -- the command ---------------------------------------------------------------------------------------------------
def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = 0
    try:
        main(["train", DENSE, *"--on 8xh100-sxm --batch 16 --tokens 4096 --layout tp=2,dp=4,zero=1".split(), *words])
    except SystemExit as stop:
        code = int(stop.code or 0)
    out, err = capsys.readouterr()
    return code, out, err


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, err = run(capsys, "--emit", "megatron")
    assert (code, err) == (0, "")
    assert arguments(out)["tensor_model_parallel_size"] == 2
    path = tmp_path / "job.toml"
    code, out, err = run(capsys, "--emit", "torchtitan", "-o", str(path))
    assert (code, out) == (0, "")
    assert "not expressed: zero=1" in err
    sections(path.read_text())
    code, _, err = run(capsys, "--emit", "torchtitan", "-o", str(path))
    assert (code, err.count("\n"), "--force" in err) == (2, 1, True)
    assert run(capsys, "--emit", "torchtitan", "-o", str(path), "--force")[0] == 0


@pytest.mark.parametrize(
    "words", ["-o x.toml", "--emit megatorn", "--emit bridge --json", "--emit bridge --trace x.json"]
)
def test_what_the_command_refuses(capsys: pytest.CaptureFixture[str], words: str) -> None:
    code, out, err = run(capsys, *words.split())
    assert (code, out) == (2, "")
    assert "Traceback" not in err
