"""Bad input at the command line: exit 2, nothing on stdout, one line on stderr that says what was expected."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from folded import folded
from roofline.doors.cli.main import main
from roofline.doors.compat.transformer_roofline_analyzer import main as first_tool
from roofline.model.load import catalog_config

LLAMA = "meta-llama/Llama-3.1-8B"
Fail = Callable[..., str]


def ended(command: Callable[[Sequence[str]], None], capsys: pytest.CaptureFixture[str], argv: Sequence[str]) -> Any:
    """Exit code and stderr of a command that has to fail without a word on stdout."""
    with pytest.raises(SystemExit) as caught:
        command(argv)
    out, err = capsys.readouterr()
    assert out == ""
    return caught.value.code, err


@pytest.fixture
def fail(capsys: pytest.CaptureFixture[str]) -> Fail:
    """The one line, without the name of the program."""

    def run(*argv: str) -> str:
        code, err = ended(main, capsys, argv)
        assert code == 2
        assert err.count("\n") == 1
        assert err.rstrip("\n").isprintable()
        assert err.startswith("roofline: ")
        return err.removeprefix("roofline: ").rstrip("\n")

    return run


def write(folder: Path, content: str | dict[str, Any]) -> str:
    path = folder / "model.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


# -- the file ------------------------------------------------------------------------------------------------------
@pytest.mark.drawn(5)
@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"hidden_size": -1}, "hidden_size: expected a whole number from 1 to 67108864, got -1"),
        ({"hidden_size": "4096"}, "hidden_size: expected a whole number from 1 to 67108864, got '4096'"),
        ({"hidden_size": 10**30}, "hidden_size: expected a whole number from 1 to 67108864, got 1" + 30 * "0"),
        ({"num_hidden_layers": float("nan")}, "num_hidden_layers: expected a whole number from 1 to 8192, got nan"),
        ({"num_attention_heads": None}, "num_attention_heads: expected a whole number from 1 to 67108864, got None"),
        ({"num_key_value_heads": 5}, "got 5; nearest: 1, 2, 4, 8, 16, 32"),
        ({"model_type": "lama"}, "model_type: expected a known model_type (of others that transformers has"),
        ({"hidden_act": "sillu"}, "got 'sillu'; nearest: silu"),
        ({"tie_word_embeddings": "true"}, "tie_word_embeddings: expected true or false, got 'true'"),
        ({"rope_theta": "abc"}, "rope_theta: expected a number above 0, got 'abc'"),
        ({"rope_scaling": []}, "rope_scaling: expected an object, got []"),
        ({"torch_dtype": "bfloat61"}, "torch_dtype: expected a dtype such as bfloat16, got 'bfloat61'; nearest"),
        (
            {"quantization_config": {"quant_method": "gptqq"}},
            "quantization_config.quant_method: expected a known method, got 'gptqq'; nearest: gptq",
        ),
        ({"text_config": 3}, "text_config: expected an object, got 3"),
    ],
)  # fmt: skip
def test_a_config_that_is_wrong(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    """Through the real command, so that nothing else writes a line either."""
    config = write(tmp_path, {**catalog_config(LLAMA), **changes})
    done = subprocess.run(
        [sys.executable, "-m", "roofline.doors.cli.main", "analyze", config],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("roofline: ")
    assert done.stderr.count("\n") == 1
    assert says in done.stderr


@folded(
    ("content", "says"),
    [
        ("", "JSON at line 1"), ("{", "JSON at line 1"), ("[1]", "a JSON object, got 'a list'"), ("{}", "model_type"),
        ("3", "a JSON object"), ('"llama"', "a JSON object"), ("null", "a JSON object"), ("nope", "JSON at line 1"),
        ('{"model_type": "llama", "model_type": "gpt2"}', "each key once"), ("[" * 5000, "64 levels"),
        ('{"a\\nb": 1}', "printable"), ('{"hidden_size": ' + "9" * 101 + "}", "at most 100 characters"),
    ],
)  # fmt: skip
@folded("command", ["analyze", "models"])
def test_a_file_that_is_no_config(fail: Fail, tmp_path: Path, command: str, content: str, says: str) -> None:
    assert says in fail(command, write(tmp_path, content))


def test_no_such_model(fail: Fail, tmp_path: Path) -> None:
    missing = str(tmp_path / "nothing.json")
    assert fail("analyze", missing).startswith(f"{missing}: expected a file that can be read")
    assert (
        fail("analyze", str(tmp_path))
        == f"{tmp_path}: expected a folder with a config.json, got 'a folder without one'"
    )
    assert "model: expected a config.json" in fail("analyze", "")
    assert "model: expected a config.json" in fail("models", "a\nb")
    assert "nearest: meta-llama/Llama-3.1-8B" in fail("explain", "Llama-3.1--8B", "attention")


# -- options -------------------------------------------------------------------------------------------------------
@folded(
    ("options", "says"),
    [
        ("--batch 0", "--batch: expected a whole number from 1 to 2^40, got 0"),
        ("--batch x", "--batch: expected a whole number, such as 4096, 4k or 4Ki, got 'x'"),
        ("--batch 1e3", "--batch: expected a whole number, such as 4096, 4k or 4Ki, got '1e3'"),
        ("--batch 3.0", "--batch: expected a whole number, such as 4096, 4k or 4Ki, got '3.0'"),
        ("--batch " + "9" * 200, "--batch: expected a whole number, such as 4096, 4k or 4Ki, got '9999"),
        ("--batch 9999999999999", "--batch: expected a whole number from 1 to 2^40, got 9999999999999"),
        ("--input -1", "--input: expected a whole number from 1 to 2^40, got -1"),
        ("--input 0", "--input: expected a whole number from 1 to 2^40, got 0"),
        ("--context 1.5", "--context: expected a whole number, such as 4096, 4k or 4Ki, got '1.5'"),
        ("--context -1", "--context: expected a whole number from 0 to 2^40, got -1"),
        ("--context nan", "--context: expected a whole number, such as 4096, 4k or 4Ki, got 'nan'"),
        ("--cached 1 2 --new 1", "--new: expected 2 values, as many as --cached, got [1]"),
        ("--cached 1 x", "--cached: expected a whole number, such as 4096, 4k or 4Ki, got 'x'"),
        ("--cached 1 -2", "--cached: expected whole numbers from 0 to 2^40, got -2"),
        ("--new 0 2", "--new: expected whole numbers from 1 to 2^40, got 0"),
        ("--cached 1 2 --batch 3", "--batch: expected a multiple of the 2 queries listed, got 3"),
        ("--cached 1 --context 4", "--cached: expected either --input and --context or --cached and --new"),
        ("--counting foo", 'Invalid value "foo" for --counting. Choose from: "standard", "torch", "original"'),
        (
            "--traffic flor",
            "traffic: expected one of floor, fused, unfused, original, llm-para, got 'flor'; nearest: floor",
        ),
        (
            "--traffic fused(weight=2)",
            "traffic factor: expected one of weights, activations, cache, scratch, got 'weight'",
        ),
        ("--traffic fused(weights=0)", "traffic factor weights: expected a positive number, got '0'"),
        ("--precision fp99", "precision: expected a number format, got 'fp99'; nearest: fp8"),
        ("--precision weights=foo", "weights: expected a number format, got 'foo'"),
        ("--precision wieghts=fp8", "precision: expected a role, got 'wieghts'; nearest: weights"),
        ("--precision ,", "precision: expected a number format, got ','"),
        ("--bach 3", "Unknown option: --bach. Did you mean --batch?"),
        ("--revision ..", "revision: expected a branch, a tag or a commit, got '..'"),
        ("extra words", "arguments: expected nothing more, got 'extra words'"),
        ("--batch 1 2", "arguments: expected nothing more, got '2'"),
        ("--batch", "--batch requires an argument"),
        ("--json --csv", "Mutually exclusive arguments: {--json, --csv}"),
        ("--csv --md", "Mutually exclusive arguments: {--csv, --md}"),
    ],
)
def test_options(fail: Fail, options: str, says: str) -> None:
    assert says in fail("analyze", LLAMA, *options.split())


def test_commands(fail: Fail) -> None:
    assert fail("analyse", LLAMA).startswith('Unknown command "analyse". Did you mean "analyze"?')
    assert "MODEL requires an argument" in fail("analyze")
    assert "Unknown option: --foo" in fail("models", "--foo")


def test_a_terminal_gets_no_control_characters(fail: Fail) -> None:
    assert "foo" in fail("analyze", LLAMA, "--counting", "\x1b[31mfoo\r\n")


def test_explain(fail: Fail) -> None:
    assert fail("explain", LLAMA, "atention").startswith(
        "op: expected an op of this model, got 'atention'; nearest: attention"
    )
    assert "op: expected an op of this model: embedding, attn_norm" in fail("explain", LLAMA)
    assert "queries that are all alike" in fail("explain", LLAMA, "attention", "--cached", "1", "2")


def test_output(fail: Fail, tmp_path: Path) -> None:
    there = tmp_path / "there.md"
    there.write_text("mine")
    assert fail("analyze", LLAMA, "--out", str(there)) == (
        f"--out: expected a new file, or --force to overwrite it, got '{there}'"
    )
    assert there.read_text() == "mine"
    lost = str(tmp_path / "no" / "there.md")
    assert fail("analyze", LLAMA, "--out", lost).startswith("--out: expected a file that can be written")
    for force in ([], ["--force"]):
        message = fail("analyze", LLAMA, "--out", str(tmp_path), *force)
        assert message.startswith("--out: expected a file, not a folder")


def test_warnings_do_not_come_before_an_error(fail: Fail, tmp_path: Path) -> None:
    there = tmp_path / "there.md"
    there.touch()
    fail("explain", "openai-community/gpt2", "atention")
    fail("analyze", "openai-community/gpt2", "--out", str(there))


def test_a_huge_step_is_no_work(capsys: pytest.CaptureFixture[str]) -> None:
    start = time.process_time()
    main(["analyze", LLAMA, "--batch", "1_000_000", "--context", "1000000000", "--json"])
    assert time.process_time() - start < 2
    (step,) = json.loads(capsys.readouterr().out)["steps"]
    assert step["flops"] > 10**20
    assert type(step["bytes"]) is int


# -- the first tool's command ----------------------------------------------------------------------------------------
@folded(
    ("content", "says"),
    [
        ("", "JSON at line 1"), ("[1]", "expected a JSON object"), ({"model_type": "llama"}, "hidden_size"),
        ({"model_type": "lama"}, "model_type: expected llama or llama4, got 'lama'; nearest: llama"),
        ({"model_type": 3}, "model_type: expected text, got 3"),
        ({"model_type": "llama4", "text_config": 3}, "text_config: expected an object, got 3"),
        ({**catalog_config(LLAMA), "hidden_size": -1}, "hidden_size: expected a whole number"),
        ({**catalog_config(LLAMA), "torch_dtype": "bf17"}, "torch_dtype"),
    ],
)  # fmt: skip
def test_first_tool_config(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, content: str | dict[str, Any], says: str
) -> None:
    code, err = ended(first_tool, capsys, [write(tmp_path, content)])
    assert code == 1
    assert err.startswith("Error loading config: ")
    assert err.count("\n") == 1
    assert says in err


def test_first_tool_more_heads_than_width(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    config = write(tmp_path, {**catalog_config(LLAMA), "num_attention_heads": 8192, "num_key_value_heads": 8192})
    assert ended(first_tool, capsys, [config])[0] == 1


def test_first_tool_folder(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, err = ended(first_tool, capsys, [str(tmp_path)])
    assert code == 1
    assert err.startswith("Error loading config: model_name_or_config: expected a file or a Hub id, not a folder, got ")
    assert err.count("\n") == 1


@folded(
    ("options", "says"),
    [
        (
            "--cached-tokens 1 2 --input-tokens 1",
            "--cached-tokens and --input-tokens: expected the same number of values",
        ),
        ("--cached-tokens 1 2 --input-tokens 1 1 --batch-size 3", "--batch-size: expected a multiple of 2"),
        (
            "--cached-tokens -1",
            "--cached-tokens and --input-tokens: expected at least 0 cached tokens and 1 input token",
        ),
        ("--input-tokens 0", "--cached-tokens and --input-tokens: expected at least 0 cached tokens and 1 input token"),
        ("--batch-size 0", "--batch-size: expected a multiple of 1"),
        ("--batch-size x", "argument --batch-size: invalid int value: 'x'"),
        ("--cached-tokens 1.5", "argument --cached-tokens: invalid int value: '1.5'"),
        ("--cached-tokens 9999999999999999", "expected a whole number from 0 to 2^40, got 9999999999999999"),
        ("--counting foo", "argument --counting: invalid choice: 'foo'"),
        ("--foo", "unrecognized arguments: --foo"),
    ],
)
def test_first_tool_options(capsys: pytest.CaptureFixture[str], options: str, says: str) -> None:
    code, err = ended(first_tool, capsys, [*options.split(), "--", LLAMA])
    assert code == 2
    assert err.startswith("usage: transformer-roofline-analyzer")
    assert says in err.splitlines()[-1]


@folded(
    ("words", "message"),
    [
        ("analyze gpt2 --out x.png", "--out: expected a file that ends in .json, .csv, .parquet, .md, .txt"),
        ("analyze gpt2 --json --out x.csv", "--out: expected a file that ends in .json"),
        ("analyze gpt2 --csv --out x.parquet", "--out: expected a file that ends in .csv"),
        ("analyze gpt2 --law ideal", "--law: expected --on CHIP as well"),
        (
            "serve gpt2 --on l4 --input 9 --output-tokens 9 --concurrency 2 --chips 4",
            "--chips: expected --prefill-layout",
        ),
        ("train gpt2 --on l4 --batch 1 --tokens 64 --mtbf-hours 5", "--mtbf-hours: expected --run-tokens as well"),
        ("train gpt2 --on l4 --batch 1 --tokens 64 --json --timeline", "--timeline: expected one of them"),
    ],
)
def test_options_that_do_not_go_together(fail: Fail, words: str, message: str) -> None:
    assert fail(*words.replace("gpt2", "openai-community/gpt2").split()).startswith(message)


def test_a_ranks_table_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    main(["analyze", LLAMA, "--layout", "tp=2"])
    assert " · one rank of tp=2 · counting standard" in capsys.readouterr().out
    main(["analyze", LLAMA, "--layout", "tp=2", "--on", "l4"])
    assert " · one rank of tp=2 · NVIDIA L4" in capsys.readouterr().out
