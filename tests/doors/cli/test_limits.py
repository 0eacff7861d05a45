"""What a command is asked has a size, and beyond the limits of docs/limits.md it is refused before the work begins."""

from __future__ import annotations

import re
import time
from importlib import import_module
from pathlib import Path

import pytest

import roofline as rl
from folded import by_day, folded
from roofline.doors.cli.main import main
from roofline.work import step

SIMULATE = "simulate gpt2 --on h100-sxm --input 9 --output-tokens 9"
TRAIN = "train gpt2 --on dgx-h100 --tokens 512 --layout pp=4,dp=2"


@folded("size", [10**13, 10**18, 10**30], drawn=1)
@folded(
    "words",
    [
        "analyze gpt2 --batch N", "analyze gpt2 --input N", "analyze gpt2 --context N", "analyze gpt2 --new N",
        "generate gpt2 --on h100-sxm --input N --output-tokens 9",
        "generate gpt2 --on h100-sxm --input 9 --output-tokens N",
        "serve gpt2 --on h100-sxm --input 9 --output-tokens 9 --concurrency N", "fit gpt2 --on h100-sxm --batch N",
        "fit gpt2 --on h100-sxm --context N", f"{TRAIN} --batch N", f"{SIMULATE} --concurrency N",
        f"{SIMULATE} --rate 1 --requests N", f"{SIMULATE} --rate 1 --warmup N", f"{SIMULATE} --rate N",
        f"{SIMULATE} --rate 1 --prefixes NxN", "plot gpt2 --on h100-sxm --kind sweep --most-batch N --out a.svg",
        "plot gpt2 --on h100-sxm --kind map --most-context N --out a.svg",
        "report gpt2 --on h100-sxm --batch N --json",
    ],
)  # fmt: skip
def test_absurd_sizes_are_refused_at_once(capsys: pytest.CaptureFixture[str], words: str, size: int) -> None:
    start = time.process_time()
    with pytest.raises(SystemExit) as ended:
        main(words.replace("N", str(size)).split())
    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (2, "")
    assert err.count("\n") == 1
    assert len(err) <= 161
    assert time.process_time() - start < 5


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (f"{SIMULATE} --rate 1 --requests 1G", "requests: expected a whole number from 1 to 20000000, got 1000000000"),
        (f"{SIMULATE} --rate 1 --warmup 1G", "warmup: expected a whole number from 0 to 20000000, got 1000000000"),
        (
            "codesign gpt2 --on h100-sxm --context 9 --generations 1000000000",
            "generations: expected a whole number from 1 to 1000, got 1000000000",
        ),
    ],
)
def test_what_would_not_end_is_refused(capsys: pytest.CaptureFixture[str], words: str, says: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words.split())
    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (2, "")
    assert says in err


def test_a_million_and_a_trillion_micro_batches(capsys: pytest.CaptureFixture[str]) -> None:
    start = time.process_time()
    for batch in (10**6, 10**12):
        for schedule in ("1f1b", "zb-h1", "gpipe"):
            rl.train(
                "openai-community/gpt2", batch=batch, tokens=512, on="dgx-h100", layout="pp=4,dp=2", schedule=schedule
            )
    assert time.process_time() - start < 10
    for option in ("--timeline", "--trace"):
        with pytest.raises(SystemExit):
            main([*TRAIN.split(), "--batch", str(10**12), option, *(["t.json"] if option == "--trace" else [])])
        out, err = capsys.readouterr()
        assert out == ""
        assert "expected at most 10922 for a timeline of 4 stages, which draws every one, got 500000000000" in err
    assert not Path("t.json").exists()


def test_too_many_machines(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["plot", "gpt2", "--out", "a.svg", "--on", *(33 * ["l4"])])
    assert ended.value.code == 2
    assert "on: expected at most 32 machines and 32 steps" in capsys.readouterr().err


def test_too_many_queries(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """By day beyond a lower limit: a command line is read in a time that grows with the square of its words."""
    most = by_day(256, every=step.MOST_QUERIES)
    monkeypatch.setattr(step, "MOST_QUERIES", most)
    with pytest.raises(SystemExit) as ended:
        main(["analyze", "gpt2", "--new", *((most + 1) * ["1"])])
    assert ended.value.code == 2
    assert f"--new: expected at most {most}, got '{most + 1} queries'" in capsys.readouterr().err


def test_a_server_with_too_many_requests_at_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("roofline.serving.simulate.run.MOST_PRESENT", 4096)
    with pytest.raises(SystemExit) as ended:
        main(f"{SIMULATE} --rate 1e6 --requests 20M --warmup 0".split())
    assert ended.value.code == 2
    assert "at once" in capsys.readouterr().err


def test_the_page_has_the_limits_of_the_code() -> None:
    page = (Path(__file__).parents[3] / "docs" / "limits.md").read_text(encoding="utf-8")
    rows = re.findall(r"\| ([\d,]+) \| `([\w.]+)\.(\w+)` \|", page)
    assert len(rows) == 49
    for number, module, name in rows:
        assert int(number.replace(",", "")) == getattr(import_module(f"roofline.{module}"), name)
