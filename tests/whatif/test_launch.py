"""Launch files: they parse, their names are the engines', and the plan can be read back out of them."""

from __future__ import annotations

import argparse
import json
import shlex
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

import roofline as rl
from folded import folded
from roofline.doors.cli.main import main
from roofline.whatif.search import launch as serving
from roofline.whatif.search.demand import Demand, Limits
from roofline.whatif.search.launch import LAUNCHERS, launch_files
from roofline.whatif.search.search import search

NAMES = tomllib.loads(Path(serving.__file__).with_name("launch_names.toml").read_text(encoding="utf-8"))
DENSE, SPARSE = "meta-llama/Llama-3.1-70B", "Qwen/Qwen3-30B-A3B"
ALONE = {"--enable-expert-parallel", "--enable-dp-attention", "--enable_chunked_prefill"}
CASES: tuple[tuple[str, str, Mapping[str, Any]], ...] = (
    (DENSE, "tp=4", {}), (DENSE, "tp=4,pp=2", {"precision": "weights=fp8,kv=fp8"}),
    (DENSE, "tp=2", {"kinds": "disaggregated", "precision": "weights=fp8"}), (SPARSE, "tp=1,dp=4,ep=4", {}),
    (SPARSE, "tp=2,dp=2,ep=4", {"kinds": "disaggregated"}),
)  # fmt: skip


@cache
def planned(case: int, engine: str) -> Any:
    model, layout, options = CASES[case]
    where = {"kinds": "aggregated", **options, "engine": engine}
    return search(
        model, Demand(3000, 200), Limits(ttft=60, tpot=1), on="h100-sxm", chips=8, layouts=[layout], **where
    ).best


def parsed(engine: str, words: list[str]) -> dict[str, str]:
    """Arguments as a parser with the engine's own names reads them: none that it does not know."""
    parser = argparse.ArgumentParser(exit_on_error=False, allow_abbrev=False)
    for name in (*NAMES[engine]["names"], *NAMES["dynamo"]["names"]):
        if not any(name in action.option_strings for action in parser._actions):
            parser.add_argument(name, **({"action": "store_true"} if name in ALONE else {}))
    return {k: v for k, v in vars(parser.parse_args(words)).items() if v not in (None, False)}


def script(engine: str, text: str) -> dict[str, str]:
    lines = [shlex.split(line, comments=True) for line in text.splitlines()]
    words = [word for line in lines if line[:2] == ["set", "--"] for word in line[2:] if word != "$@"]
    assert lines[-1] == ["exec", "$@"]
    start = {"vllm": 3, "sglang": 3, "trtllm": 2}[engine]
    return parsed(engine, words[start:])


def degrees(engine: str, told: Mapping[str, str]) -> dict[str, int]:
    """The layout out of an engine's words."""
    if engine == "vllm":
        tp, dp = int(told["tensor_parallel_size"]), int(told.get("data_parallel_size", 1))
        pp = int(told["pipeline_parallel_size"])
        return {"tp": tp, "pp": pp, "dp": dp, "ep": tp * dp if "enable_expert_parallel" in told else 1}
    tp, dp = int(told["tp_size"]), int(told.get("dp_size", 1))
    assert ("enable_dp_attention" in told) == (dp > 1)
    return {"tp": tp // dp, "pp": int(told["pp_size"]), "dp": dp, "ep": int(told.get("ep_size", 1))}


def wanted(group: Any) -> dict[str, int]:
    return {name: int(getattr(group.layout, name)) for name in ("tp", "pp", "dp", "ep")}


@folded("case", range(len(CASES)))
@folded("engine", ["vllm", "sglang"])
def test_scripts_say_the_plan(case: int, engine: str) -> None:
    plan = planned(case, engine)
    files = {file.name: file.text for file in launch_files(plan, engine).files}
    groups = (
        {"server.sh": plan.group} if plan.prefill is None else {"prefill.sh": plan.prefill, "decode.sh": plan.group}
    )
    assert set(files) == set(groups)
    for name, group in groups.items():
        told = script(engine, files[name])
        assert degrees(engine, told) == wanted(group)
        assert int(told.get("max_model_len") or told["context_length"]) == 3200
        sequences = int(told.get("max_num_seqs") or told["max_running_requests"])
        if group is plan.group:
            dp = int(group.layout.dp)
            assert sequences * (dp if engine == "vllm" else 1) >= plan.batch
        assert ("quantization" in told) == (plan.precision != "")
        assert ("kv_cache_dtype" in told) == ("kv=fp8" in plan.precision)
        pooled = (
            "kv_transfer_config" in told if engine == "vllm" else told.get("disaggregation_mode") in files_modes(name)
        )
        assert pooled == (plan.prefill is not None)
        if engine == "vllm" and pooled:
            assert json.loads(told["kv_transfer_config"])["kv_connector"] == "NixlConnector"


def files_modes(name: str) -> tuple[str, ...]:
    return (name.removesuffix(".sh"),)


@pytest.mark.parametrize("case", range(len(CASES)))
def test_tensorrt_llm(case: int) -> None:
    plan = planned(case, "trtllm")
    emitted = launch_files(plan, "trtllm")
    files = {file.name: file.text for file in emitted.files}
    for name, text in files.items():
        if name.endswith(".sh"):
            told = script("trtllm", text)
            group = plan.prefill if name == "prefill.sh" else plan.group
            assert int(told["tensor_parallel_size"]) == group.layout.tp * group.layout.dp
            assert int(told["max_seq_len"]) == 3200
            assert ("config" in told) == (f"{name.removesuffix('.sh')}.yaml" in files)
        else:
            tree = yaml.safe_load(text)
            known = NAMES["trtllm-config"]["names"]
            assert all(key in known for key in tree)
            assert all(key in known for table in tree.values() if isinstance(table, dict) for key in table)
    if plan.prefill is not None:
        where = yaml.safe_load(files["disagg.yaml"])
        assert where["context_servers"]["num_instances"] == plan.prefills == len(where["context_servers"]["urls"])
        assert where["generation_servers"]["num_instances"] == plan.replicas
    mixed = plan.group.layout.dp > 1 and plan.group.layout.tp > 1
    assert any("data or tensor parallel" in what for what in emitted.missing) == mixed


@folded("case", range(len(CASES)))
@folded("engine", ["vllm", "sglang"])
def test_manifests(case: int, engine: str) -> None:
    plan = planned(case, engine)
    groups = {"server": plan.group} if plan.prefill is None else {"prefill": plan.prefill, "decode": plan.group}
    (file,) = launch_files(plan, "k8s").files
    documents = {d["metadata"]["name"]: d for d in yaml.safe_load_all(file.text) if d["kind"] == "Deployment"}
    graph = yaml.safe_load(launch_files(plan, "dynamo").files[0].text)["spec"]["services"]
    for name, group in groups.items():
        spec = documents[f"{engine}-{name}"]["spec"]
        (container,) = spec["template"]["spec"]["containers"]
        worker = graph[f"{name.capitalize()}Worker"]
        assert spec["replicas"] == worker["replicas"] == group.replicas
        assert container["resources"]["limits"]["nvidia.com/gpu"] == group.layout.chips
        assert worker["resources"]["limits"]["gpu"] == str(group.layout.chips)
        for arguments in (container["args"], worker["extraPodSpec"]["mainContainer"]["args"]):
            told = parsed(engine, arguments)
            assert degrees(engine, told) == wanted(group)
        assert (told.get("disaggregation_mode") == name) == (plan.prefill is not None)


def test_every_line_says_what_it_assumes() -> None:
    for launcher in LAUNCHERS:
        for file in launch_files(planned(2, "vllm"), launcher).files:
            options = [
                line for line in file.text.splitlines() if "--" in line.partition("set -- ")[2] or '- "--' in line
            ]
            assert all("  # " in line for line in options)
    assert "figures are those of" in launch_files(planned(0, "vllm"), "sglang").missing[0]
    with pytest.raises(rl.InputError):
        launch_files(planned(0, "vllm"), "ollama")
    with pytest.raises(rl.InputError):
        launch_files(planned(0, "trtllm"), "dynamo")


def test_nothing_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "launch"
    words = ["search", "Qwen/Qwen3-8B", "--on", "h100-sxm", "--chips", "2", "--input", "1000", "--output-tokens", "100",
             "--kind", "aggregated", "--layout", "tp=1", "--emit", "vllm", "-o", str(folder)]  # fmt: skip
    main(words)
    assert (folder / "server.sh").read_text().startswith("#!/bin/sh\n")
    assert "not expressed" in capsys.readouterr().err
    with pytest.raises(SystemExit) as left:
        main(words)
    assert left.value.code == 2
    main([*words, "--force"])
