"""`roofline codesign`: the same front as `rl.codesign`, and errors in one line."""

from __future__ import annotations

import json

import pytest

import roofline as rl
from folded import by_day, folded
from roofline.doors.cli.main import main
from roofline.whatif.codesign import Bounds, Process

ASKED = ["codesign", "meta-llama/Llama-3.1-8B", "--on", "h100-sxm", "--batch", "8", "--context", "512"]


def test_the_command_gives_what_the_library_gives(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pymoo", reason="pymoo, of the codesign extra, is not installed")
    words = "--peak 100T..1000TFLOP/s --stacks 2..8 --cache 50MiB --link 25GB/s..0.9TB/s --power 700W --seed 3"
    generations = by_day(1, every=2)
    main([*ASKED, *words.split(), "--process", "wafer=12000,defects=0.2", f"--generations={generations}", "--json"])
    said = json.loads(capsys.readouterr().out)
    bounds = Bounds((100e12, 1000e12), (2, 8), (50 * 2**20, 50 * 2**20), (25e9, 900e9), 700.0)
    alone = rl.codesign(
        "meta-llama/Llama-3.1-8B", bounds=bounds, process=Process(wafer=12000.0, defects=0.2), seed=3,
        generations=generations, on="h100-sxm", batch=8, context=512,
    )  # fmt: skip
    assert said == json.loads(json.dumps(alone.to_dict()))
    assert said["of"] == "time"
    for design in said["designs"]:
        assert design["power"] <= 700
        assert design["cache"] == pytest.approx(50 * 2**20, rel=1e-12)
    main([*ASKED, "--generations", "1", "--against", "area"])
    assert "time against area: " in capsys.readouterr().out


@folded(
    ("words", "field"),
    [
        ("--stacks 0", "--stacks"), ("--stacks 3..2", "--stacks"), ("--peak 5..3", "--peak"), ("--peak 1X", "--peak"),
        ("--cache 1Mi..b", "--cache"), ("--link 0", "--link"), ("--process foo=1", "--process"),
        ("--process wafer=x", "--process wafer"), ("--process wafer=-1", "process wafer"), ("--of bound", "of"),
        ("--process wafer=1,wafer=2", "--process wafer"), ("--generations 0", "generations"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(words: str, field: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main([*ASKED, *words.split()])
    assert left.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"roofline: {field}: expected ")
