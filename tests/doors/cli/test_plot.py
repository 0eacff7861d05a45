"""`roofline plot`: what it prints, writes and refuses; every command and snippet of docs/plots.md."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

import roofline as rl
from documented import ROOT, Told, commands, installed, snippets
from folded import folded
from roofline.doors.cli.main import main

PAGE = ROOT / "docs" / "plots.md"
LLAMA = "meta-llama/Llama-3.1-8B"
(TABLE,) = (t for t in commands(PAGE) if t.text.startswith("roofline analyze"))
"""What writes the table that another command draws."""


@pytest.mark.drawn(2)
@pytest.mark.parametrize("told", [t for t in commands(PAGE) if t != TABLE], ids=lambda t: t.text)
def test_the_pages_commands(
    told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    before = set()
    command = told.text
    if "ops.csv" in command:
        main(shlex.split(TABLE.text)[1:])
        before = {"ops.csv"}
    with installed(told.extras):
        main(shlex.split(command)[1:])
    output = re.search(r"--out (\S+)", command)
    assert output
    assert capsys.readouterr().out.splitlines()[0] == output[1]
    files = {p.name for p in tmp_path.iterdir()} - before
    legend = {"deepseek_legend.svg"} if "separate" in command else set()
    assert files == {output[1]} | legend


def test_the_pages_snippet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for told in snippets(PAGE):
        with installed(told.extras):
            exec(compile(told.text, "plots.md", "exec"), {})
    assert {p.name for p in tmp_path.iterdir()} == {
        "llama.csv", "llama.png", "llama_roofline.png", "llama_roofline_legend.png"
    }  # fmt: skip


def test_the_page_names_every_kind() -> None:
    from roofline.views.plots.make import KINDS

    assert set(re.findall(r"^\| `(\w+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)) == set(KINDS)


@folded(
    ("options", "says"),
    [
        ("--out roof.png", "--on: expected a chip, for a roofline"),
        ("--kind map --on h100-sxm l4 --out m.png", "on: expected one chip"),
        ("--on h100-sxm --out roof.gif", "--out: expected a file that ends in .png, .svg, .pdf, .html"),
        ("--on h100-sxm --out there.png", "--out: expected a new file, or --force to overwrite it, got 'there"),
        ("--on h100-sxm --out no/folder.png", "--out: expected a file in a folder that is there"),
        ("--on h99 --out roof.png", "chip: expected a chip or a cluster by name"),
        ("--on h100-sxm --dpi 3 --out roof.png", "dpi: expected a whole number from 20 to 1200"),
        ("--on h100-sxm --input 0 --out roof.png", "--input: expected a whole number from 1"),
        ("--on h100-sxm --context 999999 --out roof.png", "context: expected at most 131072 tokens"),
        ("--on v100-sxm2-32gb --precision bf16 --out roof.png", "expected a format it multiplies in"),
        ("--on h100-sxm --kind sweep --most-batch 0 --out roof.png", "batch: expected a whole number from 1"),
        ("--on h100-sxm --kind pie --out roof.png", "pie"), ("--on h100-sxm --over depth --out r.png", "depth"),
        ("--on h100-sxm", "--out: expected a file that ends in .png"),
    ],
)  # fmt: skip
def test_bad_requests_end_with_2_and_a_line(
    options: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.png").write_text("mine")
    with pytest.raises(SystemExit) as stop:
        main(["plot", LLAMA, *options.split()])
    out, err = capsys.readouterr()
    assert (stop.value.code, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1
    assert [p.name for p in tmp_path.iterdir()] == ["there.png"]
    assert (tmp_path / "there.png").read_text() == "mine"


def test_force_overwrites(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "p.png"
    path.write_text("mine")
    main(["plot", LLAMA, "--kind", "parameters", "--out", str(path), "--force"])
    assert path.read_bytes().startswith(b"\x89PNG")
    assert [p.name for p in tmp_path.iterdir()] == ["p.png"]


def test_a_table_of_ops_is_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "ops.csv"
    main(["analyze", "meta-llama/Llama-3.1-8B", "--context", "512", "--out", str(table)])
    main(["plot", str(table), "--on", "h100-sxm", "l40s", "--out", str(tmp_path / "a.png"), "--json"])
    data = json.loads(capsys.readouterr().out)
    assert [p["roof"]["chip"] for p in data["panels"]] == ["NVIDIA H100 SXM5 80GB", "NVIDIA L40S"]
    model = rl.load("meta-llama/Llama-3.1-8B")
    cost = rl.analyze(model, rl.decode(batch=1, context=512)).op("attention")
    point = next(p for p in data["panels"][0]["points"] if p["label"] == "attention")
    assert point["intensity"] == pytest.approx(cost.intensity)
    assert point["light"] == pytest.approx(cost.intensity * 3.35e12)
    assert (tmp_path / "a.png").stat().st_size > 10_000


def test_a_timed_table_in_fp8_is_drawn_without_its_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What quantises has times alone: no FLOPs, no bytes, no point."""
    table = tmp_path / "ops.csv"
    main(["analyze", LLAMA, "--on", "h100-sxm", "--precision", "fp8", "--context", "512", "--out", str(table)])
    assert table.read_text(encoding="utf-8").count(",quantise,") == 4
    main(["plot", str(table), "--on", "h100-sxm", "--precision", "fp8", "--json"])
    (panel,) = json.loads(capsys.readouterr().out)["panels"]
    a = rl.analyze(rl.load(LLAMA), rl.decode(batch=1, context=512), precision="fp8")
    assert [(p["label"], p["intensity"]) for p in panel["points"]] == [
        (c.name, c.intensity) for c in a.ops if c.kind in ("matmul", "attention")
    ]
    assert panel["roof"]["ceilings"][0]["peak"] == rl.chips()["h100-sxm"].peak("fp8")


@folded(
    "options",
    [
        "--kind diagram", "--kind sweep", "--layout tp=4", "--law ideal", "--engine vllm", "--counting torch",
        "--traffic floor", "--train 64", "--points layers", "--links", "--over context", "--phase prefill",
        "--most-batch 4", "--most-context 64", "--revision main", "--input 8", "--context 8", "--batch 2",
        "--cached 1 2", "--new 1 2", "--kind diagram --layout tp=4 --law ideal",
    ],
)  # fmt: skip
def test_what_a_table_does_not_take_is_refused(
    options: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, picture = tmp_path / "ops.csv", tmp_path / "a.png"
    table.write_text("step,op,flops,bytes\ndecode,x,6,3\n", encoding="utf-8")
    with pytest.raises(SystemExit) as stop:
        main(["plot", str(table), "--on", "h100-sxm", "--out", str(picture), *options.split()])
    (line,) = capsys.readouterr().err.splitlines()
    assert stop.value.code == 2
    assert f"{options.split()[0]}: expected no such option with a table, got" in line
    assert not picture.exists()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a,b\n1,2\n", "a CSV with the columns"), ("step,op,flops,bytes\ndecode,x,many,3\n", "line 2, flops"),
        ("Phase,Operation,FLOPs,Total Bytes\nDecode,x,3,-1\n", "line 2, Total Bytes"),
        ("step,op,flops,bytes\n", "at least one operation"),
    ],
)  # fmt: skip
def test_a_bad_table_ends_with_2_and_a_line(
    text: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "bad.csv"
    table.write_text(text, encoding="utf-8")
    with pytest.raises(SystemExit) as stop:
        main(["plot", str(table), "--on", "h100-sxm", "--out", str(tmp_path / "a.png")])
    assert stop.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line
    assert not (tmp_path / "a.png").exists()


@folded(
    ("kind", "options"),
    [
        ("roofline", "--over context"), ("roofline", "--phase prefill"), ("roofline", "--most-batch 3"),
        ("shares", "--points layers"), ("shares", "--links"), ("memory", "--over context"), ("memory", "--context 9"),
        ("memory", "--law ideal"), ("sweep", "--train 100"), ("sweep", "--cached 4"), ("sweep", "--broken"),
        ("map", "--context 9"), ("map", "--batch 4"), ("tornado", "--counting torch"), ("tornado", "--traffic unfused"),
        ("diagram", "--train 9"), ("diagram", "--points layers"), ("parameters", "--layout tp=2"),
    ],
)  # fmt: skip
def test_an_option_that_a_picture_does_not_answer_to_is_refused(
    kind: str, options: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "a.png"
    with pytest.raises(SystemExit) as stop:
        main(["plot", "openai-community/gpt2", "--on", "l4", "--kind", kind, "--out", str(picture), *options.split()])
    (line,) = capsys.readouterr().err.splitlines()
    assert stop.value.code == 2
    assert f"{options.split()[0]}: expected no such option with a {kind}, got" in line
    assert not picture.exists()


def test_a_tornado_is_of_its_law(capsys: pytest.CaptureFixture[str]) -> None:
    printed = []
    for law in ("calibrated", "ideal"):
        main(["plot", "openai-community/gpt2", "--on", "l4", "--kind", "tornado", "--law", law, "--json"])
        printed.append(capsys.readouterr().out)
    assert printed[0] != printed[1]
