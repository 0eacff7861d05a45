"""The report: that its figures are the library's, that the page stands alone, and that a real browser shows it."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import polars
import pytest

import roofline as rl
from browser import CHROMIUM, needs_chromium, watched
from folded import folded
from roofline.doors.cli.main import main
from roofline.views.report.completed import Finished, finished
from roofline.views.report.mermaid import mermaid
from roofline.views.report.parts.first_page import guidance, summary_section
from roofline.views.report.parts.section import Section
from roofline.views.report.parts.sections import MAKERS
from roofline.views.report.parts.subject import Report, report_on
from roofline.views.report.parts.work_part import regimes
from roofline.whatif.search.recommendations import advice, served

LLAMA = "meta-llama/Llama-3.1-8B"
SEVEN = ("h100-sxm", "h100-pcie", "a100-sxm-80gb", "a100-pcie-40gb", "l40s", "a10", "v100-sxm2-32gb")
SHORT = ["--batch", "4", "--input", "512", "--output-tokens", "64"]
PICTURES = 10


@pytest.fixture(scope="module")
def llama() -> Finished:
    """Llama on one chip, compared with one that can and one that cannot run it."""
    model = rl.load(LLAMA)
    return rl.report(model, on=["h100-sxm", "l40s", "v100-sxm2-32gb"], batch=4, input=512, output_tokens=64)


@pytest.fixture(scope="module")
def trained() -> Finished:
    """The same with training steps, on one chip."""
    return rl.report(rl.load(LLAMA), on="h100-sxm", batch=4, input=512, output_tokens=64, train=True)


def of_sections(report: Report, *makers: Callable[[Report], Section | None]) -> Finished:
    """A report of these sections alone, where no other is looked at."""
    return Finished(report, tuple(section for make in makers if (section := make(report)) is not None))


def table(f: Finished, name: str) -> list[dict[str, object]]:
    """The rows of a table, by column."""
    (one,) = (t for part in f.sections for t in part.tables if t.name == name)
    return [dict(zip((c.name for c in one.columns), row, strict=True)) for row in one.rows]


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one line of an exit with 2."""
    with pytest.raises(SystemExit) as stop:
        main(["report", LLAMA, *words])
    assert stop.value.code == 2
    _, err = capsys.readouterr()
    assert len(err.splitlines()) == 1
    return err


# -- forms ---------------------------------------------------------------------------------------------------------
def test_the_page_stands_alone(v3_page: Path) -> None:
    text = v3_page.read_text(encoding="utf-8")
    assert len(text.encode()) < 3e6
    assert not re.findall(r'(?:src|href)="(?!#|data:)', text)
    assert "@import" not in text
    assert text.count("<figure>") == PICTURES
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    for heading in (
        "In one minute",
        "Guidance",
        "Regimes",
        "Communication",
        "Critical batch and length",
        "Sensitivity",
    ):
        assert f">{heading}</h2>" in text


def test_every_table_of_the_page_can_be_saved(v3_page: Path) -> None:
    saved = dict(re.findall(r'download="(\w+)\.csv" href="data:text/csv;base64,([^"]+)"', v3_page.read_text("utf-8")))
    assert {"guidance", "terms", "regimes", "sensitivity", "grid", "fingerprint"} <= set(saved)
    rows = list(csv.reader(io.StringIO(base64.b64decode(saved["grid"]).decode())))
    assert rows[0][:4] == ["Weights", "Cache", "Experts per token", "Keys and values"]
    assert len(rows) > 300


def test_markdown_has_pictures_tables_and_a_diagram_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "report.md"
    main(["report", LLAMA, "--on", "h100-sxm", *SHORT, "--out", str(path)])
    text = path.read_text(encoding="utf-8")
    model = rl.load(LLAMA)
    g = rl.generate(model, on="h100-sxm", batch=4, input=512, output=64)
    assert f"{g.tokens_per_second:,.0f} tokens/s" in text
    assert "```mermaid\nflowchart TB" in text
    files = tmp_path / "report_files"
    for target in re.findall(r"\]\(([^)]+)\)", text):
        assert (tmp_path / target).is_file(), target
    assert len(list(files.glob("*.png"))) == PICTURES
    rows = list(csv.reader((files / "parameters.csv").open(encoding="utf-8")))
    assert rows[-1][:2] == ["all", "8030261248"]


def test_tables_as_files_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "tables"
    words = ["report", LLAMA, "--on", "h100-sxm", *SHORT]
    main([*words, "--tables", str(folder), "--tables-form", "parquet", "--json"])
    data = json.loads(capsys.readouterr().out)
    assert data["schema"] == "roofline.report/2"
    tables = {t["name"]: t for s in data["sections"] for t in s["tables"]}
    assert {p.stem for p in folder.glob("*.parquet")} == set(tables)
    grid = polars.read_parquet(folder / "grid.parquet")
    assert grid.height == len(tables["grid"]["rows"])
    assert grid["Expected (s)"].to_list() == [row[9] for row in tables["grid"]["rows"]]


def test_a_json_file_is_what_json_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "report.json"
    words = ["report", "openai-community/gpt2", "--on", "l4", "--batch", "2", "--input", "64", "--output-tokens", "8"]
    main([*words, "--out", str(path)])
    assert capsys.readouterr().out == f"{path}\n"
    main([*words, "--json"])
    assert path.read_text(encoding="utf-8") == capsys.readouterr().out
    data = json.loads(path.read_text(encoding="utf-8"))
    (by_phase,) = (t for s in data["sections"] for t in s["tables"] if t["name"] == "regimes")
    (decode,) = (row for row in by_phase["rows"] if row[0] == "decode")
    assert decode[3] == rl.estimate(rl.load("openai-community/gpt2"), rl.decode(2, 68), on="l4").time


def test_mermaid_has_every_module_once(llama: Finished) -> None:
    (plot,) = (p for s in llama.sections for name, p in s.pictures if name == "Architecture")
    text = mermaid(plot)  # type: ignore[arg-type]
    model = llama.of.model
    for x in (*model.embedding, *model.layers[0].modules, *model.head):
        assert text.count(f"{x.name}<br/>") == 1
    assert text.count("subgraph") == text.count("  end") == 2
    assert text.count("s1nin --> s1n5") == 1  # the stream goes around attention


# -- figures -------------------------------------------------------------------------------------------------------
def test_regimes_are_the_librarys(llama: Finished) -> None:
    model = llama.of.model
    by = {row["Phase"]: row for row in table(llama, "regimes")}
    for name, step in (("prefill", rl.prefill(4, 512)), ("decode", rl.decode(4, 544))):
        e = rl.estimate(model, step, on="h100-sxm")
        assert (by[name]["FLOPs"], by[name]["Expected"], by[name]["Bound"]) == (e.analysis.flops, e.time, e.bound)
        assert by[name]["Tokens/s"] == pytest.approx(step.tokens / e.time)
        assert by[name]["MFU"] == pytest.approx(e.analysis.flops / e.time / e.chip.peak("bf16"))
    assert set(by) == {"prefill", "decode"}


def test_training_is_the_librarys_where_it_is_asked_for(trained: Finished) -> None:
    by = {row["Phase"]: row for row in table(trained, "regimes")}
    t = rl.train(trained.of.model, batch=4, tokens=512, on="h100-sxm")
    assert (by["training"]["Expected"], by["training"]["MFU"]) == (t.time, t.mfu)


def test_a_report_of_inference_says_nothing_of_training(llama: Finished) -> None:
    said = json.dumps(llama.to_dict(), default=str).lower()
    assert "train" not in said


def test_places_are_compared_and_what_cannot_run_says_why(llama: Finished) -> None:
    first, second, third = table(llama, "chips")
    g = rl.generate(llama.of.model, on="l40s", batch=4, input=512, output=64)
    assert first["Chip"] == "NVIDIA H100 SXM5 80GB"
    assert second["TPOT"] == g.tpot.expected
    assert third["TPOT"] is None
    assert "bf16" in str(third["Why not"])


def test_guidance_is_computed_and_sorted() -> None:
    model = rl.load(LLAMA)
    now = served(model, on="h100-sxm", batch=4, input=512, output_tokens=64)
    base = now.generation
    every = advice(now)
    gains = [a.gain for a in every]
    assert gains == sorted(gains, reverse=True)
    by = {a.option: a for a in every}
    narrow = rl.generate(model, on="h100-sxm", batch=4, input=512, output=64, precision="weights=fp8")
    fp8 = by["--precision weights=fp8"]
    assert fp8.per_chip == pytest.approx(narrow.tokens_per_second / base.tokens_per_second)
    assert fp8.decode == pytest.approx(base.tpot.expected / narrow.tpot.expected)
    assert fp8.prefill == pytest.approx(base.ttft.expected / narrow.ttft.expected)
    two = by["--layout dp=2"]
    assert two.decode == pytest.approx(
        4 / two.generation.tpot.expected / 2 / (4 / base.tpot.expected), rel=1e-9
    )  # two replicas of two


def test_guidance_has_three_levers_a_phase_none_that_loses() -> None:
    sizes = {"batch": 4, "input": 512, "output_tokens": 64}
    done = of_sections(report_on(rl.load("Qwen/Qwen3-1.7B"), on="h100-sxm", train=True, **sizes), guidance)
    rows = table(done, "guidance")
    lever = {a.option: a.lever for a in done.of.advice}
    lever |= {f"train {a.option}": a.lever for a in done.of.training_advice}
    for phase in ("training", "prefill", "decode"):
        mine = [row for row in rows if row["Phase"] == phase]
        gains = [float(str(row["Tokens/s per chip"])) for row in mine]
        assert 1 <= len(mine) <= 3
        assert gains == sorted(gains, reverse=True)
        assert min(gains) > 1
        levers = [lever[str(row["Option"])] for row in mine]
        assert len(set(levers)) == len(levers)


def test_training_that_does_not_fit_is_told_what_would_make_it(trained: Finished) -> None:
    guided = next(s for s in trained.sections if s.title == "Guidance")
    (line,) = (x for x in guided.text if x.startswith("A training step does not fit"))
    fixed = rl.train(trained.of.model, batch=4, tokens=512, on="h100-sxm", layout="pp=2")
    assert "pp=2" in line
    assert fixed.fits


def test_training_is_in_the_chips_main_format() -> None:
    model = rl.load("google/gemma-3-270m")
    how = {"batch": 2, "input": 64, "output_tokens": 8, "precision": "fp32"}
    trained = report_on(model, on="xeon-platinum", train=True, **how).training
    assert isinstance(trained, rl.TrainingEstimate)
    assert trained.time == rl.train(model, batch=2, tokens=64, recipe="fp32", on="xeon-platinum").time
    bare = ["fp64=1T,fp32=2T,bw=1T,mem=99G"]
    none = report_on(model, on=bare, train=True, batch=2, input=64, output_tokens=8, precision="fp32").training
    assert isinstance(none, rl.InputError)
    assert none.field == "recipe"


def test_what_does_not_fit_is_told_what_would_make_it() -> None:
    report = report_on(rl.load("deepseek-ai/DeepSeek-V3"), on=["h200-sxm"], batch=4)
    done = of_sections(report, summary_section, guidance)
    guided = next(s for s in done.sections if s.title == "Guidance")
    assert any("8 chips" in line for line in guided.text)
    options = [str(row["Option"]) for row in table(done, "changes")]
    assert options == ["--layout tp=8"]


def test_replicas_share_the_batch() -> None:
    report = report_on(rl.load(LLAMA), on=["8xh100-sxm"], layout="dp=4,tp=2", batch=16, input=512, output_tokens=64)
    assert report.batch == 4
    (_, first), _ = report.estimates
    assert first.analysis.step.tokens == 4 * 512
    done = of_sections(report, regimes)
    by = {row["Phase"]: row for row in table(done, "regimes")}
    assert by["prefill"]["Tokens/s"] == pytest.approx(16 * 512 / first.time)


@folded("chip", SEVEN)
def test_prefill_is_compute_bound_and_decode_memory_bound(chip: str) -> None:
    """The conclusion of the note on prefill and decode, out of the report's own figures."""
    model = rl.load("meta-llama/Meta-Llama-3-8B")
    report = Report(served(model, on=chip, batch=32, input=1024, output_tokens=64, precision="fp16"))
    (_, first), (_, then) = report.estimates
    assert (first.bound, then.bound) == ("compute", "memory")
    assert first.analysis.intensity > report.deployment.chip.ridge("fp16") > then.analysis.intensity


@pytest.mark.drawn(1)
@pytest.mark.parametrize("name", ["state-spaces/mamba-2.8b-hf", "ai21labs/Jamba-v0.1", "openai-community/gpt2"])
def test_any_family_has_a_report(name: str) -> None:
    model = rl.load(name)
    done = finished(report_on(model, on=["h100-sxm"], batch=2, input=256, output_tokens=32))
    text = " ".join(line for part in done.sections for line in part.text)
    assert not re.search(r"\bnan\b|\binf\b|None", text)
    assert len(done.sections) == len(MAKERS) - 2  # no other chips, no communication


def test_progress_names_every_section() -> None:
    said: list[tuple[int, int, str]] = []
    report = report_on(rl.load(LLAMA), on=["h100-sxm"], batch=2, input=64, output_tokens=8)
    done = finished(report, lambda number, total, title: said.append((number, total, title)))
    assert [title for _, _, title in said] == [s.title for s in done.sections]
    assert all(total == len(MAKERS) for _, total, _ in said)


def test_lengths_that_are_not_given_stay_within_the_context() -> None:
    gpt2 = report_on(rl.load("openai-community/gpt2"), on=["l4"])
    assert (gpt2.now.batch, gpt2.now.input, gpt2.now.output) == (16, 768, 256)
    llama = report_on(rl.load(LLAMA), on=["h100-sxm"])
    assert (llama.now.input, llama.now.output) == (1024, 256)


# -- errors --------------------------------------------------------------------------------------------------------
def test_bad_input(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    on = ["--on", "h100-sxm", "--out"]
    assert ".html" in refused(capsys, *on, str(tmp_path / "report.txt"))
    there = tmp_path / "there.html"
    there.write_text("mine", encoding="utf-8")
    assert "--force" in refused(capsys, *on, str(there))
    assert there.read_text(encoding="utf-8") == "mine"
    assert "folder" in refused(capsys, *on, str(tmp_path / "no" / "report.html"))
    assert "--out" in refused(capsys, "--on", "h100-sxm")
    (tmp_path / "mine_files").mkdir()
    (tmp_path / "mine_files" / "note.txt").write_text("mine", encoding="utf-8")
    assert "--force" in refused(capsys, *on, str(tmp_path / "mine.md"))
    assert not (tmp_path / "mine.md").exists()
    assert "layout.tp" in refused(capsys, *on, str(tmp_path / "new.html"), "--layout", "tp=3")
    assert not (tmp_path / "new.html").exists()


# -- a real browser ------------------------------------------------------------------------------------------------
@needs_chromium
def test_a_real_browser_draws_it_without_a_word_or_a_request(v3_page: Path) -> None:
    with watched() as seen:
        seen.tab.goto(v3_page.as_uri())
        sizes = seen.tab.eval_on_selector_all("figure svg", "all => all.map(x => x.getBoundingClientRect().width)")
        wide = seen.tab.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        with seen.tab.expect_download() as saved:
            seen.tab.click("a[download='grid.csv']")
        lines = Path(saved.value.path()).read_text(encoding="utf-8").splitlines()
    assert seen.said == []
    assert seen.asked == [v3_page.as_uri()]
    assert len(sizes) == PICTURES
    assert min(sizes) > 300
    assert wide
    assert len(lines) > 300


@needs_chromium
def test_chromium_alone_can_print_it(tmp_path: Path, v3_page: Path) -> None:
    shot = tmp_path / "shot.png"
    words = [
        str(CHROMIUM),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--screenshot={shot}",
        "--window-size=1200,4000",
    ]
    subprocess.run([*words, v3_page.as_uri()], check=True, capture_output=True, timeout=120)
    assert shot.stat().st_size > 100_000
