"""Sixty and more things that people mistype, and the one line each of them gets."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from folded import folded
from roofline.doors.cli.main import main

TYPOS = [
    (
        "analyze meta-lama/Llama-3.1-8B",
        "model 'meta-lama/Llama-3.1-8B': no such path, its config.json is not in the cache, and "
        "HF_HUB_OFFLINE is set; nearest: meta-llama/Llama-3.1-8B",
    ),
    (
        "analyze Llama-3.1-9B",
        "model 'Llama-3.1-9B': no such path, its config.json is not in the cache, and HF_HUB_OFFLINE is set; "
        "nearest: meta-llama/Llama-3.1-8B",
    ),
    (
        "analyze llama",
        "model 'llama': no such path, its config.json is not in the cache, and HF_HUB_OFFLINE is set; "
        "nearest: meta-llama/Llama-3.2-3B",
    ),
    (
        "analyze deepseek",
        "model 'deepseek': no such path, its config.json is not in the cache, and HF_HUB_OFFLINE is set; "
        "nearest: deepseek-ai/DeepSeek-V3",
    ),
    (
        "analyze qwen3",
        "model 'qwen3': no such path, its config.json is not in the cache, and HF_HUB_OFFLINE is set; "
        "nearest: Qwen/Qwen3-8B",
    ),
    (
        "analyze gpt3",
        "model 'gpt3': no such path, its config.json is not in the cache, and HF_HUB_OFFLINE is set; "
        "nearest: openai-community/gpt2",
    ),
    (
        "analyze meta-llama/Llama-3.1-8B/",
        "model: expected a config.json or its folder, a name of the catalog or a Hub id, got "
        "'meta-llama/Llama-3.1-8B/'; nearest: meta-llama/Llama-3.1-8B",
    ),
    (
        "analyze mistral",
        "model 'mistral': no such path, its config.json is not in the cache, and HF_HUB_OFFLINE is set; "
        "nearest: mistralai/Mistral-7B-v0.3",
    ),
    (
        "analyze ./config.jsn",
        "./config.jsn: expected a file that can be read, got 'No such file or directory'; nearest: config.json",
    ),
    (
        "analyze /nonexistent/config.json",
        "/nonexistent/config.json: expected a file that can be read, got 'No such file or directory'",
    ),
    (
        "fit gpt2 --on h100-sxn",
        "chip: expected a chip or a cluster by name, a .toml file or peak=…,bw=…, got 'h100-sxn'; nearest: "
        "h100-sxm, h100-sxm5, v100-sxm",
    ),
    (
        "fit gpt2 --on H1000",
        "chip: expected a chip or a cluster by name, a .toml file or peak=…,bw=…, got 'H1000'; nearest: "
        "h100, a1000, h100-80gb",
    ),
    (
        "fit gpt2 --on a100-80g",
        "chip: expected a chip or a cluster by name, a .toml file or peak=…,bw=…, got 'a100-80g'; nearest: "
        "a100-80gb, h100-80gb, a100-40gb",
    ),
    (
        "fit gpt2 --on mi300",
        "chip: expected a chip or a cluster by name, a .toml file or peak=…,bw=…, got 'mi300'; nearest: "
        "mi300x, mi300a, mi100",
    ),
    (
        "fit gpt2 --on rtx4091",
        "chip: expected a chip or a cluster by name, a .toml file or peak=…,bw=…, got 'rtx4091'; nearest: "
        "rtx4090, rtx4090d, rtx-4090",
    ),
    (
        "fit gpt2 --on tpu-v9",
        "chip: expected a chip or a cluster by name, a .toml file or peak=…,bw=…, got 'tpu-v9'; nearest: "
        "tpu-v7, tpu-v4, tpu-v7x",
    ),
    (
        "fit gpt2 --on dgx-h1000",
        "chip: expected a chip or a cluster by name, a .toml file or peak=…,bw=…, got 'dgx-h1000'; nearest: "
        "dgx-h100, dgx-h200, dgx-a100",
    ),
    (
        "fit gpt2 --on 8xh10",
        "cluster: expected a preset, COUNTxCHIP such as 8xh100-sxm, or a .toml file, got '8xh10'; nearest: "
        "8xh20, 8xa10, 8xn150",
    ),
    (
        "fit gpt2 --on 0xh100",
        "cluster: expected at least one chip, got '0xh100'",
    ),
    (
        "fit gpt2 --on h100x8",
        "chip: expected a chip or a cluster by name, a .toml file or peak=…,bw=…, got 'h100x8'; nearest: "
        "h100, h100-sxm, h100-dgx",
    ),
    (
        "fit gpt2 --on mein.toml",
        "mein.toml: expected a file that can be read, got 'No such file or directory'; nearest: mine.toml",
    ),
    (
        "fit gpt2 --on like=h10",
        "chip: expected a chip of the catalog, a .toml file or peak=…,bw=…, got 'h10'; nearest: h100, h20, a10",
    ),
    (
        "fit gpt2 --on peak=1000,bw=4.8T,mem=141G",
        "chip peak: expected a number with its unit, such as peak=989TFLOP/s, got '1000'",
    ),
    (
        "fit gpt2 --on peak=1000T,bw=4.8TB,mem=141G",
        "chip bw: expected a positive number with an optional prefix (k M G T P) in B/s or Bps, got '4.8TB'",
    ),
    (
        "fit gpt2 --on peek=1000T,bw=4.8T,mem=141G",
        "chip peek: expected one of like, peak, vector, fp64, fp32, tf32, bf16, fp16, fp8, fp6, int8, fp4, "
        "int4, bw, mem,..., got '1000T'; nearest: peak, price",
    ),
    (
        "fit gpt2 --on peak=1000T,bw=4.8T",
        "chip mem: expected a figure, as in peak=1000T,bw=4.8T,mem=141G: peak=1000T,bw=4.8T, got 'nothing (missing)'",
    ),
    (
        "chips h100-smx",
        "chip: expected a chip or a cluster by name, a .toml file or peak=…,bw=…, got 'h100-smx'; nearest: "
        "h100-sxm, h100-sxm5, v100-sxm",
    ),
    (
        "chips --clusters dgx-h10",
        "cluster: expected a preset, COUNTxCHIP such as 8xh100-sxm, or a .toml file, got 'dgx-h10'; nearest: "
        "dgx-h100, dgx-h20, dgx-1",
    ),
    (
        "chips --vendor nvida",
        "--vendor: expected one of amd, ampere, apple, aws, broadcom, cerebras, generic, google, groq, huawei, intel, "
        "nvidia, ..., got 'nvida'; nearest: nvidia",
    ),
    (
        "chips --kind gpus",
        "--kind: expected one of cpu, gpu, npu, pim, tpu, wafer, got 'gpus'; nearest: gpu, tpu, npu",
    ),
    (
        "chips --memory 80",
        "--memory: expected a memory with its unit, such as 80GB, or a range such as 24GB-48GB, got '80'",
    ),
    (
        "models --family lamma",
        "--family: expected a part of a model_type of the catalog, got 'lamma'; nearest: llama, jamba, gemma",
    ),
    (
        "models --size 7",
        "--size: expected a range such as 7B-80B, in M, B or T parameters, got '7'",
    ),
    (
        "models Llama-3.1-9B",
        "model 'Llama-3.1-9B': no such path, its config.json is not in the cache, and HF_HUB_OFFLINE is set; "
        "nearest: meta-llama/Llama-3.1-8B",
    ),
    (
        "analyse gpt2",
        'Unknown command "analyse". Did you mean "analyze"? Available commands: answer, machines, analyze, '
        "explain, fit, generate, encode, offload, ...",
    ),
    (
        "generat gpt2",
        'Unknown command "generat". Did you mean "generate"? Available commands: answer, machines, analyze, '
        "explain, fit, generate, encode, offload, ...",
    ),
    (
        "analyze gpt2 --bach 3",
        "Unknown option: --bach. Did you mean --batch?",
    ),
    (
        "analyze gpt2 --batch ten",
        "--batch: expected a whole number, such as 4096, 4k or 4Ki, got 'ten'",
    ),
    (
        "analyze gpt2 --batch 1.5",
        "--batch: expected a whole number, such as 4096, 4k or 4Ki, got '1.5'",
    ),
    (
        "analyze gpt2 --contxt 9",
        "Unknown option: --contxt. Did you mean --context?",
    ),
    (
        "analyze gpt2 --context 4K",
        "--context: expected a whole number, such as 4096, 4k or 4Ki, got '4K'",
    ),
    (
        "analyze gpt2 --counting tourch",
        'Invalid value "tourch" for --counting. Choose from: "standard", "torch", "original", "llm-para". '
        'Did you mean "torch"?',
    ),
    (
        "analyze gpt2 --traffic fusd",
        "--traffic: expected one of floor, fused, unfused, original, llm-para, got 'fusd'; nearest: fused, unfused",
    ),
    (
        "analyze gpt2 --precision fp88",
        "--precision: expected a number format, got 'fp88'; nearest: fp8, mxfp8, fp4",
    ),
    (
        "analyze gpt2 --precision wieghts=fp8",
        "--precision: expected a role, got 'wieghts'; nearest: weights, experts",
    ),
    (
        "analyze gpt2 --out ops.xls",
        "--out: expected a file that ends in .json, .csv, .parquet, .md, .txt, got 'ops.xls'",
    ),
    (
        "fit gpt2 --on l4 --engine vlm",
        "--engine: expected one of none, vllm, trtllm, sglang, llama-cpp, llama-cpp-vulkan, mlx, "
        "exllama, ollama, ..., got 'vlm'; nearest: vllm, trtllm, ollama",
    ),
    (
        "fit gpt2 --on l4 --engine vllm(max_num_seq=1)",
        "engine.max_num_seq: expected one of share, chunk, most_runnin..., got "
        "'max_num_seq=1'; nearest: max_num_seqs, max_num_batched_tokens, mxfp4_use_marlin",
    ),
    (
        "fit gpt2 --on l4 --layout tpp=2",
        "--layout: expected one of tp, pp, dp, cp, ep, etp, sp, zero, shard, vp, stages, exchange, "
        "imbalance, capacity, red..., got 'tpp'; nearest: tp, pp, etp",
    ),
    (
        "fit gpt2 --on l4 --layout tp=two",
        "layout.tp: expected a whole number, got 'two'",
    ),
    (
        "fit gpt2 --on l4 --tp 0",
        "--tp: expected a whole number from 1 to 2^40, got 0",
    ),
    (
        "fit gpt2 --on l4 --tp 5",
        "layout.tp: expected a divisor of attention heads, 12, got 5; nearest: 3, 4, 6",
    ),
    (
        "fit gpt2 --on l4 --layout tp=2 --tp 2",
        "--tp: expected tp in the layout or as an option, not in both, got 2",
    ),
    (
        "generate gpt2 --on l4 --input 9 --output-token 9",
        'Command "generate" parameter --output-tokens requires an argument. Did you mean --output-tokens '
        "instead of --output-token?",
    ),
    (
        "generate gpt2 --on l4 --input 9 --output-tokens 9 --law calibrted",
        "--law: expected calibrated, ideal or fixed(mfu,mbu) with shares in (0, 1], got 'calibrted'; "
        "nearest: calibrated",
    ),
    (
        "generate gpt2 --on l4 --input 9 --output-tokens 9 --price cheap",
        "--price: expected USD an hour of a chip, or own(USD,years=4,rest=0,electricity=0.1), got 'cheap'",
    ),
    (
        "generate gpt2 --on l4 --input 9 --output-tokens 9 --grid frr",
        "--grid: expected kg of CO2 equivalent a kWh, at most 2 (400 g are 0.4), or one of au, at, "
        "be, br, ca, ch, cn, de, d..., got 'frr'; nearest: fr, kr, fi",
    ),
    (
        "serve gpt2 --on l4 --input 9 --output-tokens 9 --rate fast",
        "--rate: expected a number, got 'fast'",
    ),
    (
        "serve gpt2 --on l4 --input 9 --output-tokens 9 --concurency 3",
        "Unknown option: --concurency. Did you mean --concurrency?",
    ),
    (
        "simulate gpt2 --on l4 --input unifrom(1,2) --output-tokens 9 --rate 1",
        "--input: expected a number of tokens, uniform(low,high), lognormal(mean,cv), lognormal(mean,cv,max=n) "
        "or file..., got 'unifrom(1,2)'; nearest: uniform",
    ),
    (
        "simulate gpt2 --on l4 --input 9 --output-tokens 9 --rate 1 --slo ttf=1s",
        "--slo: expected one of ttft, tpot, latency, got 'ttf'; nearest: ttft, tpot",
    ),
    (
        "simulate gpt2 --on l4 --input 9 --output-tokens 9 --rate 1 --slo ttft=1",
        "--slo ttft: expected a time such as 1s or 200ms, got '1'",
    ),
    (
        "simulate gpt2 --on l4 --trace rows.cvs",
        "rows.cvs: expected a file that can be read, got 'No such file or directory'",
    ),
    (
        "train gpt2 --on l4 --batch 8 --tokens 64 --optimizer adamv",
        "--optimizer: expected one of adamw, adamw-bf16, adam8bit, paged-adamw, paged-adam8bit, adafactor, "
        "muon, soap, lion, sgd, momentum, got 'adamv'; nearest: adamw",
    ),
    (
        "train gpt2 --on l4 --batch 8 --tokens 64 --recipe fp9",
        "--recipe: expected one of bf16, bf16-gradients, bf16-pure, fp16, fp32, fp8, fp8-block, mxfp8, qlora, "
        "nvfp4, bf..., got 'fp9'; nearest: fp8, fp32, fp16",
    ),
    (
        "train gpt2 --on l4 --batch 8 --tokens 64 --schedule 1f2b",
        "--schedule: expected one of gpipe, 1f1b, interleaved, zb-h1, zb-h2, zb-v, dualpipe, dualpipev, "
        "got '1f2b'; nearest: 1f1b",
    ),
    (
        "solve gpt2 --on l4 --find bach --where fits",
        "--find: expected one of batch, context, input, output, concurrency, rate, tokens, bandwidth, "
        "peak, ve..., got 'bach'; nearest: batch, bandwidth, chips",
    ),
    (
        "solve gpt2 --on l4 --find batch --context 9 --where tpott<1ms",
        "--where: expected the name of a figure, got 'tpott'; nearest: tpot, tpot_low, tpot_high",
    ),
    (
        "plot gpt2 --on l4 --kind rofline --out r.png",
        'Invalid value "rofline" for --kind. Did you mean "roofline"?',
    ),
    (
        "plot gpt2 --on l4 --out r.pgn",
        "--out: expected a file that ends in .png, .svg, .pdf, .html, got 'r.pgn'; nearest: .png, .svg, .pdf",
    ),
    (
        "sweep gpt2 --on l4 --batch 1..8:y2",
        "--batch: expected numbers such as 8, 4Ki, 1,2,4, 1..512, 1..512:x2 or 16..256:+16, got '1..8:y2'",
    ),
    (
        "sweep gpt2 --on l4 --batch 1 --context 9 --where bacth>1",
        "where: expected the name of a figure, got 'bacth'; nearest: batch, chip, chips",
    ),
    (
        "diff gpt2@l4 gpt2@l44",
        "chip: expected a chip or a cluster by name, a .toml file or peak=…,bw=…, got 'l44'; nearest: l4, l40, l40s",
    ),
    (
        "diff gpt2@l4 gpt2@l4:bach=3",
        "spec: expected one of on, layout, precision, engine, batch, context, prompt, train, step, input, "
        "tokens, got 'bach'; nearest: batch",
    ),
    (
        "explain gpt2 attentoin",
        "op: expected an op of this model, got 'attentoin'; nearest: attention, attn_norm, attn_residual",
    ),
    (
        "search gpt2 --on l4 --input 9 --output-tokens 9 --ttft 300",
        "--ttft: expected a time such as 1s or 200ms, got '300'",
    ),
    (
        "report gpt2 --on l4 --out r.htm",
        "--out: expected a file that ends in .html, .md, .json, got 'r.htm'; nearest: .html, .md",
    ),
    (
        "accuracy measurements.cvs",
        "measurements.cvs: expected a file that can be read, got 'No such file or directory'; nearest: "
        "measurements.csv, rows.csv",
    ),
    (
        "sensitivity gpt2 --on l4 --context 9 --of tpott",
        "of: expected one of flops, bytes, intensity, time, time_floor, time_low, time_high, overlap_floor,..., "
        "got 'tpott'; nearest: tpot, tpot_low, tpot_high",
    ),
    (
        "generate gpt2 --on l4 --input 9 --output-tokens 9 --engine vllm --precision fp8x",
        "--precision: expected a number format, got 'fp8x'; nearest: fp8, mxfp8, fp4",
    ),
    (
        "serve gpt2 --on l4 --input 9 --output-tokens 9",
        "--concurrency and --rate: expected one of them: requests in flight, or requests a second, got 'neither'",
    ),
    (
        "train gpt2 --on l4 --batch 8 --tokens 64 --recompute ful",
        "--recompute: expected none, selective, op, full, or names of modules, a comma behind each, got 'ful'; "
        "nearest: full",
    ),
    (
        "plot gpt2 --on l4 --theme drak --out r.png",
        'Invalid value "drak" for --theme. Choose from: "light", "dark". Did you mean "dark"?',
    ),
    (
        "models --size 7b-8q",
        "--size: expected a range such as 7B-80B, in M, B or T parameters, got '7b-8q'",
    ),
]
FILES = ("config.json", "mine.toml", "measurements.csv", "rows.csv")
"""What stands in the folder where they are typed."""


class Nobody(BaseHTTPRequestHandler):
    """A Hub without a model."""

    def do_HEAD(self) -> None:
        self.send_response(404)
        self.send_header("X-Error-Code", "RepoNotFound")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing on stderr."""


@pytest.fixture
def empty_hub() -> Iterator[str]:
    """The address of that Hub."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Nobody)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(autouse=True)
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a few files, no defaults of anybody, and no Hub."""
    for name in FILES:
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "nobody"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))


def line_of(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What a mistyped command says: one line, exit 2 and nothing on stdout."""
    with pytest.raises(SystemExit) as stop:
        main(command.split())
    out, err = capsys.readouterr()
    assert (stop.value.code, out, err.count("\n")) == (2, "", 1)
    assert len(err) <= 161
    return err.removeprefix("roofline: ").rstrip("\n")


@folded(("command", "line"), TYPOS, ids=[command for command, _ in TYPOS], drawn=30)
def test_a_typo_gets_its_line(command: str, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert line_of(command, capsys) == line


def test_there_are_sixty() -> None:
    assert len({command for command, _ in TYPOS}) >= 60


NAMES = {
    "meta-llama/Llama-3.1-9B": "meta-llama/Llama-3.1-8B", "Llama-3.1-9B": "meta-llama/Llama-3.1-8B",
    "deepseek": "deepseek-ai/DeepSeek-V3", "gpt3": "openai-community/gpt2",
}  # fmt: skip
"""A name that is none → the nearest one."""


def point_at(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Online, with a Hub of that address."""
    import huggingface_hub

    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    huggingface_hub.close_session()
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", url)
    template = url + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr("time.sleep", lambda seconds: None)


@pytest.mark.parametrize("name", NAMES)
def test_online_too(
    name: str, empty_hub: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    point_at(empty_hub, monkeypatch)
    line = line_of(f"analyze {name}", capsys)
    assert line.startswith(f"model '{name}': no such path, and {empty_hub} has no such model or it is private")
    assert NAMES[name] in line.partition("; nearest")[2]


@pytest.mark.parametrize("name", NAMES)
def test_where_no_hub_is_reached(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    point_at(url, monkeypatch)
    line = line_of(f"analyze {name}", capsys)
    assert line.startswith(f"model '{name}': cannot reach {url}")
    assert NAMES[name] in line.partition("; nearest")[2]
