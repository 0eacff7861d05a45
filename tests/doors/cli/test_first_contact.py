"""What a newcomer tries first, and what once answered wrongly."""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
from contextlib import redirect_stdout, suppress
from functools import cache
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from time import sleep

import pytest

import roofline as rl
from documented import ROOT
from folded import by_day, folded
from roofline.doors.cli.main import main
from roofline.doors.cli.old_names import RENAMED
from roofline.doors.cli.waiting import waiting
from terminal import escaped, sent

LLAMA, LARGE, GPT2 = "meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-70B", "openai-community/gpt2"


def run(capsys: pytest.CaptureFixture[str], words: str) -> tuple[int, str, str]:
    """Exit code, stdout, stderr."""
    code = 0
    try:
        main(words.split())
    except SystemExit as stop:
        code = int(stop.code or 0)
    return code, *capsys.readouterr()


# -- severe --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("machine", ["8xh100-sxm", "1xdgx-h100"])
def test_a_machine_of_several_chips_is_all_of_them(machine: str, capsys: pytest.CaptureFixture[str]) -> None:
    served = f"serve {LLAMA} --on {machine} --input 1024 --output-tokens 256 --concurrency 64"
    code, out, _ = run(capsys, f"{served} --json")
    answer = json.loads(out)
    assert (code, answer["deployment"]["chips"], answer["deployment"]["layout"]) == (0, 8, "tp=8")
    assert "the whole machine as tp=8" in run(capsys, served)[1]
    code, out, _ = run(capsys, f"fit {LARGE} --on {machine} --json")
    assert (code, json.loads(out)["fits"]) == (0, True)
    one = json.loads(run(capsys, f"{served.replace(machine, 'h100-sxm')} --json")[1])
    assert answer["tokens_per_second"] > 2 * one["tokens_per_second"]


def test_a_dgx_is_one_box_and_costs_as_much(capsys: pytest.CaptureFixture[str]) -> None:
    """Eight H100 at 2.99 USD/h, the catalog's price: not the 765 of a SuperPOD, which has a name of its own."""
    served = f"serve {LLAMA} --input 1024 --output-tokens 256 --concurrency 32 --json --on"
    code, out, err = run(capsys, f"{served} dgx-h100")
    box = json.loads(out)
    assert (code, box["deployment"]["chips"], box["deployment"]["cluster"]) == (0, 8, "dgx-h100")
    assert box["usd_per_hour"] == pytest.approx(8 * 2.99)
    assert err == (
        "warning: dgx-h100 now means 8 chips, not a cluster: that is superpod-h100 (256 chips); "
        "1xdgx-h100 avoids this line\n"
    )
    again = json.loads(run(capsys, f"{served} 1xdgx-h100")[1])
    assert (again["tpot"], again["usd_per_hour"]) == (box["tpot"], box["usd_per_hour"])
    pod = json.loads(run(capsys, f"{served} superpod-h100")[1])
    assert (pod["deployment"]["chips"], pod["usd_per_hour"]) == (256, pytest.approx(256 * 2.99))


def test_a_batch_is_trained_on_the_eight_chips_of_a_dgx(capsys: pytest.CaptureFixture[str]) -> None:
    """100 sequences divide among four replicas of two stages, 96 among eight chips."""
    words = "train Qwen/Qwen2.5-0.5B --on dgx-h100 --tokens 1024 --json --batch"
    for batch, layout in ((96, "dp=8, zero=1"), (100, "pp=2, dp=4, zero=1")):
        code, out, _ = run(capsys, f"{words} {batch}")
        step = json.loads(out)
        assert (code, step["deployment"]["layout"], step["deployment"]["chips"]) == (0, layout, 8)
        assert (step["bubble"] == 0) is (batch == 96)


def test_chips_knows_boxes_and_clusters(capsys: pytest.CaptureFixture[str]) -> None:
    for name, count, more in (
        ("dgx-h100", "8 × NVIDIA H100", "4xdgx-h100"),
        ("superpod-h100", "256 × NVIDIA H100", "32 by"),
    ):
        code, out, _ = run(capsys, f"chips {name}")
        assert code == 0
        assert all(word in out for word in (count, more, "450.00 GB/s", "50.00 GB/s", "source")), out
    (box,) = json.loads(run(capsys, "chips dgx-h100 --json")[1])["clusters"]
    assert (box["chips"], len(box["levels"]), box["network"]["bandwidth"]) == (8, 1, 50e9)
    (pod,) = json.loads(run(capsys, "chips superpod-h100 --json")[1])["clusters"]
    assert (pod["chips"], [x["size"] for x in pod["levels"]], pod["network"]) == (256, [8, 32], None)
    assert "--clusters" in run(capsys, "chips")[2]


def test_every_door_knows_boxes_and_clusters(capsys: pytest.CaptureFixture[str]) -> None:
    from roofline.doors.web.allow_list import chosen_machine

    for name, count in (("dgx-h100", 8), ("superpod-h100", 256), ("2xsuperpod-h100", 512), ("hgx-h800", 8)):
        assert rl.fit(GPT2, on=chosen_machine(name), context=64).deployment.chips == count
    _, out, err = run(capsys, f"sweep {GPT2} --on dgx-h100 superpod-h100 --context 64 --json")
    assert json.loads(out)["table"]["layout"] == ["tp=4, dp=2", "tp=4, dp=64"]
    assert err.count("superpod-h100") == 1


def test_fit_counts_the_memory_that_ecc_leaves(capsys: pytest.CaptureFixture[str]) -> None:
    """22.5 GiB less 10 %: 8B in bf16 with four times 4,096 tokens needs more, of 24 GiB it would not."""
    code, out, _ = run(capsys, f"fit {LLAMA} --on l4 --batch 4 --context 4096 --json")
    memory = json.loads(out)["memory"]
    assert memory["capacity"] == rl.chips()["l4"].capacity < 22.5 * 2**30
    assert (code == 0) == json.loads(out)["fits"]


def test_what_prints_is_short() -> None:
    model = rl.load(LLAMA)
    estimate = rl.estimate(model, rl.decode(batch=32, context=4096), on="h100-sxm")
    generation = rl.generate(model, on="h100-sxm", input=10, output=10)
    assert repr(model) == (
        "Model('meta-llama/Llama-3.1-8B', model_type='llama', layers=32, hidden=4096, vocab=128256, "
        "parameters=8030261248, context=131072)"
    )
    for result in (estimate, generation):
        assert len(repr(result)) < 2000
        assert result._repr_html_().startswith("<table>")
        assert result.to_frame().height == 1
    assert len(repr(rl.shard(model, rl.Layout(tp=2)))) < 300


def test_generate_of_what_does_not_fit_is_no_answer(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, f"generate {LARGE} --on h100-sxm --input 128 --output-tokens 128")
    assert code == 1
    assert "does not fit" in out.splitlines()[0]


# -- medium --------------------------------------------------------------------------------------------------------
def test_a_name_is_a_model() -> None:
    step = rl.decode(batch=1, context=64)
    assert rl.estimate(GPT2, step, on="l4").time == rl.estimate(rl.load(GPT2), step, on="l4").time


def test_an_addition_is_bound_by_memory() -> None:
    for step in (rl.prefill(1, 1024), rl.decode(1, 1024)):
        ops = {op.name: op for op in rl.estimate(LLAMA, step, on="h100-sxm").ops}
        assert ops["attn_residual"].cost.intensity == 0.5
        assert ops["attn_residual"].bound == "memory"
        assert ops["down_proj"].bound == ("compute" if step.new_tokens > 1 else "memory")


@pytest.mark.parametrize("command", ["serve", "generate"])
def test_servers_say_what_a_million_tokens_cost(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    load = " --concurrency 4" if command == "serve" else ""
    words = f"{command} {LLAMA} --on h100-sxm --input 64 --output-tokens 64{load}"
    out, answer = run(capsys, words)[1], json.loads(run(capsys, f"{words} --json")[1])
    each = 2.99 / 3600 / answer["tokens_per_second"] * 1e6
    assert answer["usd_per_million_tokens"] == pytest.approx(each)
    assert f"{each:.3g} USD per million generated tokens; " in out
    assert f"{answer['usd_per_million_input']:.3g} per million prompt tokens" in out
    assert "J per generated token" in out


def test_python_runs_the_package(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "roofline", "--version"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.strip()) == (0, rl.__version__)


def test_a_short_command_starts_without_what_it_does_not_need() -> None:
    program = f"""
import sys
from roofline.doors.cli.main import main
main(["analyze", {LLAMA!r}])
print(*sys.modules, file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    idle = ("numpy", "rich", "huggingface_hub", "matplotlib", "polars", "pydantic", "asyncio", "email", "tomllib",
            "cyclopts.completion", "roofline.model.checkpoints.gguf.tensors", "roofline.hardware", "roofline.kernels",
            "roofline.inference", "roofline.serving", "roofline.training", "roofline.whatif",
            "roofline.doors.web")  # fmt: skip
    loaded = set(done.stderr.split())
    assert "roofline.views.text.inference.analysis" in loaded
    assert sorted(loaded & set(idle)) == []


def test_the_shell_completes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from roofline.doors.cli.main import app

    script = app().generate_completion(prog_name="roofline", shell="bash")
    assert "analyze" in script
    assert "--output-tokens" in script
    assert "--install-completion" in run(capsys, "--help")[1]


def test_chips_are_filtered(capsys: pytest.CaptureFixture[str]) -> None:
    def chosen(options: str) -> set[str]:
        return {chip["id"] for chip in json.loads(run(capsys, f"chips {options} --json")[1])["chips"]}

    assert chosen("--vendor google") == {id for id, c in rl.chips().items() if c.vendor == "google"}
    assert chosen("--kind wafer") == {id for id, c in rl.chips().items() if c.kind == "wafer"}
    assert {"l4", "l40s", "rtx-4090", "a40"} <= chosen("--vendor nvidia --memory 24GB-48GB")
    assert not {"t4", "h100-sxm"} & chosen("--vendor nvidia --memory 24GB-48GB")
    assert {"h100-sxm", "a100-sxm-80gb"} <= chosen("--memory 80GB")
    assert "b200" in chosen("--memory 180GB-")
    assert chosen("--find l40s") >= {"l40s"}


# -- names of options ----------------------------------------------------------------------------------------------
OLD = {
    f"generate {GPT2} --on l4 --input 9 --output 9": f"generate {GPT2} --on l4 --input 9 --output-tokens 9",
    f"serve {GPT2} --on l4 --input 9 --output=29 --rate 1": (
        f"serve {GPT2} --on l4 --input 9 --output-tokens 29 --rate 1"
    ),
    f"analyze {GPT2} --prefill 9 --decode 9": f"analyze {GPT2} --input 9 --context 9",
    f"explain {GPT2} attention --decode 9": f"explain {GPT2} attention --context 9",
    f"sensitivity {GPT2} --on l4 --input 9 --output 9": f"sensitivity {GPT2} --on l4 --input 9 --output-tokens 9",
}


@pytest.mark.parametrize("old", OLD)
def test_old_names_work_and_say_the_new_ones(old: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, f"{old} --json")
    assert (code, out) == run(capsys, f"{OLD[old]} --json")[:2]
    assert "is now called --" in err.splitlines()[0]


def test_old_names_of_files(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for option in ("--output", "--out", "-o"):
        path = tmp_path / f"{option.strip('-')}.json"
        code, _, err = run(capsys, f"analyze {GPT2} {option} {path}")
        assert (code, path.exists()) == (0, True)
        assert ("--output is now called --out\n" in err) == (option == "--output")


def test_every_new_name_is_an_option() -> None:
    from roofline.doors.cli.main import app

    for command, names in RENAMED.items():
        options = {name for a in app()[command].assemble_argument_collection() for name in a.names}
        assert {new.partition("=")[0] for new in names.values()} <= options, command
        assert not set(names) & options, command


def test_degrees_by_themselves(capsys: pytest.CaptureFixture[str]) -> None:
    place = f"generate {GPT2} --on 8xh100-sxm --input 9 --output-tokens 9 --json"
    short = json.loads(run(capsys, f"{place} --tp 2 --dp 4 --batch 4")[1])
    assert short == json.loads(run(capsys, f"{place} --layout tp=2,dp=4 --batch 4")[1])
    assert short == json.loads(run(capsys, f"{place} --layout tp=2 --dp 4 --batch 4")[1])


@pytest.mark.parametrize(("text", "number"), [("4Ki", 4096), ("4k", 4000), ("1.5k", 1500), ("1_000", 1000)])
def test_counts_take_prefixes(text: str, number: int, capsys: pytest.CaptureFixture[str]) -> None:
    told = json.loads(run(capsys, f"fit {GPT2} --on l4 --engine none --context {text} --json")[1])
    assert told["context"] == number


# -- what a second newcomer found ----------------------------------------------------------------------------------
def test_models_on_names_its_engines_and_agrees_with_generate(capsys: pytest.CaptureFixture[str]) -> None:
    """It was llama.cpp's speed of a checkpoint, and did not say so."""
    out = run(capsys, f"models {LLAMA} --on h100-sxm")[1].splitlines()
    rows = {line.split()[0]: line for line in out[3:]}
    assert "vLLM" in rows["checkpoint"]
    assert "llama.cpp" in rows["q4_k_m"]
    shown = float(re.search(r"(\d+) \(\d+ to \d+\)", rows["checkpoint"])[1])  # type: ignore[index]
    words = f"generate {LLAMA} --on h100-sxm --input 3840 --output-tokens 256"
    said = re.search(r"([\d.]+) tokens/s per user", run(capsys, words)[1])
    assert said
    assert float(said[1]) == pytest.approx(shown, rel=0.01)
    assert "vLLM" in run(capsys, words)[1].splitlines()[0]


def test_models_by_default_has_the_engine_of_every_other_command(capsys: pytest.CaptureFixture[str]) -> None:
    told = " ".join(re.sub("[│\n]", " ", run(capsys, "models --help")[1]).split())
    assert "Default: as generate has it, vllm on the chips that it supports; llama.cpp on others" in told


@cache
def report_of(model: str) -> str:
    """A report on one chip, in Markdown."""
    with TemporaryDirectory() as folder, redirect_stdout(StringIO()):
        path = Path(folder) / "report.md"
        with suppress(SystemExit):  # one that does not fit ends with 1
            main(["report", model, "--on", "h100-sxm", "--out", str(path)])
        return path.read_text(encoding="utf-8")


def test_advice_of_a_report_has_fp8_weights_of_the_better_grade_first() -> None:
    """int4 (grade C) stood where fp8 (grade A) helps as much; an inference report spoke of a training step."""
    text = report_of(LLAMA)
    (options,) = [line for line in text.splitlines() if line.startswith("| Option | ")]
    assert "--precision weights=fp8" in options
    assert "int4" not in options
    assert re.search(r"^\| weights in 8 bits \| .* \| A \|$", text, re.MULTILINE)


@pytest.mark.parametrize("model", by_day([LLAMA], [LLAMA, LARGE]))
def test_a_report_of_inference_says_nothing_of_a_training_step(model: str) -> None:
    assert "training" not in report_of(model).lower()


SOURCES = [
    path
    for folder in ("src", "docs")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in (".py", ".md", ".toml", ".html", ".js", ".txt") and "__pycache__" not in path.parts
]


@folded("path", [ROOT / "README.md", *SOURCES], ids=lambda path: path.name)
def test_nobody_is_told_to_install_a_package_that_is_not_published(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"pip3? install[^\n`]*[\s'\"=]roofline\b(?!/)", text)
    assert not re.search(r"roofline\[\w+(,\w+)*\]['\"]", text)


PLAINER = (
    "how much work the model is", "how much work a transformer is", "which vLLM tries out", "tries out a step",
    "communicators, as logs", "those of chips with more", "approximations, of requests in no order",
    "prefills begins together", "cache of the prompt is for nothing", "faint\\nbeyond as if it did not",
    "what the others leave on average",
)  # fmt: skip
"""Words of which newcomers did not know what they mean."""


@folded("path", [ROOT / "README.md", *SOURCES], ids=lambda path: path.name)
def test_words_that_newcomers_did_not_understand_are_gone(path: Path) -> None:
    text = " ".join(path.read_text(encoding="utf-8").split())
    assert [words for words in PLAINER if words.lower() in text.lower()] == []


COSTS = [
    f"{LLAMA} --on h100-sxm", f"serve {LLAMA} --on h100-sxm --input 64 --output-tokens 64 --concurrency 4",
    f"train {LLAMA} --on 8xh100-sxm --batch 64 --tokens 1024 --run-tokens 1T",
    f"machines {LLAMA} --users 4 --on h100-sxm",
    f"serve {LLAMA} --on h100-sxm --input 64 --output-tokens 64 --concurrency 4 --grid fr",
    f"search {LLAMA} --on l4 --chips 1 --input 64 --output-tokens 64 --concurrency 1",
]  # fmt: skip


@pytest.mark.parametrize("words", COSTS)
def test_a_price_says_of_which_tokens_it_is(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    out = " ".join(run(capsys, words)[1].split())
    amounts = re.findall(r"per million (\S+)", out)
    assert amounts
    assert set(amounts) <= {"generated", "prompt", "trained"}
    assert not re.search(r"J per token\b", out)


def test_fit_judges_no_context_that_nobody_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    """It said "does not fit", of 131,072 tokens; the cure was the last line."""
    code, out, _ = run(capsys, f"fit {LLAMA} --on rtx-4090")
    assert code == 0
    assert "does not fit" not in out
    lines = out.splitlines()
    assert lines[3].startswith("the weights fit, and 1 × ")
    assert "the longest context that fits" in lines[3]
    assert run(capsys, f"fit {LLAMA} --on rtx-4090 --context 131072")[0] == 1


def test_which_machine_to_rent_has_a_row_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    """Ten plans on one machine within 0.8 % of each other, and no other machine's price, were the answer of search."""
    rows = json.loads(run(capsys, "machines Qwen/Qwen3-8B --users 20 --json")[1])["machines"]
    names = [row["machine"] for row in rows]
    assert len(set(names)) == len(names) >= 8
    prices = [row["plan"]["usd_per_hour"] for row in rows if row["plan"]]
    assert prices == sorted(prices)


# -- by the clock --------------------------------------------------------------------------------------------------
def test_models_on_a_machine_says_how_far_it_is() -> None:
    """58 seconds without a word; a terminal sees the model that is looked at."""
    assert re.search(r"models: \S*gpt2", sent(100, "models", "--on", "l4", "--family", "gpt2"))


@pytest.fixture(scope="module")
def one_answer() -> float:
    """CPU seconds of the command that answers least, here and now: what else runs on the machine slows both."""
    return sum(cpu_seconds(f"fit {GPT2} --on l4") for _ in range(3)) / 3


@pytest.mark.drawn(1)
@pytest.mark.parametrize(
    ("words", "times"),
    [("models --on rtx-4090", 35), (f"report {GPT2} --on h100-sxm --out {{}}/report.html", 25),
     (f"plot {LLAMA} --on h100-sxm --out {{}}/roofline.svg", 12)],
)  # fmt: skip
def test_it_does_not_take_long(words: str, times: float, one_answer: float, tmp_path: Path) -> None:
    """CPU seconds over those of one `fit`: about half of these. They were 140, 40 to 50 and 10 to 20."""
    assert cpu_seconds(words.format(tmp_path)) < times * one_answer


def cpu_seconds(words: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    subprocess.run([sys.executable, "-m", "roofline", *words.split()], check=True, capture_output=True, timeout=240)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def test_a_terminal_hears_of_a_command_before_it_is_done() -> None:
    """The first word came with the answer; the line goes when that comes."""
    words = "search", GPT2, *"--on l4 --chips 2 --input 64 --output-tokens 64 --concurrency 2".split()
    text = sent(100, *words)
    assert text.startswith("\r\x1b[Ksearch …")
    assert not any("search …" in line for line in escaped(text))


def test_the_line_of_a_waiting_command_counts_seconds_and_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(StringIO):
        def isatty(self) -> bool:
            return True

    out, err = Terminal(), Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    monkeypatch.setattr("roofline.doors.cli.waiting.FIRST", 0.01)
    monkeypatch.setattr("roofline.doors.cli.waiting.EVERY", 0.01)
    with waiting("search"):
        while "search …" not in err.getvalue():
            sleep(0.01)
        print("done")
    shown = err.getvalue()
    assert shown.endswith("\r\x1b[K")
    assert shown.count("search …") >= 1
    assert out.getvalue() == "done\n"
    assert (sys.stdout, sys.stderr) == (out, err)
    with waiting("mcp"):
        sleep(0.05)
    assert err.getvalue() == shown


def test_models_on_is_the_same_on_one_core_and_on_all() -> None:
    program = """
import sys
import roofline.doors.cli.processes as processes
from roofline.doors.cli.main import main
processes.LEAST = int(sys.argv[1])
main(["models", "--on", "l4", "--family", "qwen3", "--json"])
"""
    outputs = {
        subprocess.run([sys.executable, "-c", program, least], check=True, capture_output=True, timeout=120).stdout
        for least in ("1", "1000")
    }
    assert len(outputs) == 1
    assert len(json.loads(outputs.pop())["running"]) > 5
