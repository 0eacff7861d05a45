"""`roofline report`: what it says, that it stands alone, and that a real browser shows it."""

from __future__ import annotations

import csv
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import roofline as rl
from roofline.cli.main import main
from roofline.explore.guidance import advice, served
from roofline.show.report import Report, html

LLAMA = "meta-llama/Llama-3.1-8B"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
SEVEN = ("h100-sxm", "h100-pcie", "a100-sxm-80gb", "a100-pcie-40gb", "l40s", "a10", "v100-sxm2-32gb")


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one line of an exit with 2."""
    with pytest.raises(SystemExit) as stop:
        main(["report", LLAMA, *words])
    assert stop.value.code == 2
    _, err = capsys.readouterr()
    assert len(err.splitlines()) == 1
    return err


def test_the_page_stands_alone(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    main(["report", "deepseek-ai/DeepSeek-V3", "--on", "8xh200-sxm", "--layout", "tp=8", "--output", str(page)])
    text = page.read_text(encoding="utf-8")
    assert len(text.encode()) < 3e6
    assert not re.findall(r'(?:src|href)="(?!#)', text)
    assert "@import" not in text
    assert text.count("<figure>") == 4
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    for heading in ("In one minute", "Regimes", "Guidance", "Communication", "Worked formulas"):
        assert f">{heading}</h2>" in text


def test_its_figures_are_the_librarys(tmp_path: Path) -> None:
    page = tmp_path / "report.md"
    main(
        [
            "report",
            LLAMA,
            "--on",
            "h100-sxm",
            "--batch",
            "4",
            "--input",
            "512",
            "--output-tokens",
            "64",
            "--output",
            str(page),
        ]
    )
    text = page.read_text(encoding="utf-8")
    model = rl.load(LLAMA)
    g = rl.generate(model, on="h100-sxm", batch=4, input=512, output=64)
    assert f"{g.tokens_per_second:,.0f} tokens/s" in text
    assert "8,030,261,248" in text
    files = tmp_path / "report_files"
    assert {p.name for p in files.glob("*.svg")} == {"roofline.svg", "shares.svg", "sweep.svg", "memory.svg"}
    rows = list(csv.reader((files / "parameters.csv").open(encoding="utf-8")))
    assert rows[-1][:2] == ["all", "8,030,261,248"]


def test_guidance_is_computed_and_sorted() -> None:
    model = rl.load(LLAMA)
    now = served(model, on="h100-sxm", batch=4, input=512, output=64)
    base = now.of(model)
    found = advice(model, now, base)
    gains = [a.per_chip for a in found]
    assert gains == sorted(gains, reverse=True)
    by = {a.option: a for a in found}
    narrow = rl.generate(model, on="h100-sxm", batch=4, input=512, output=64, precision="weights=fp8")
    assert by["--precision weights=fp8"].per_chip == pytest.approx(narrow.tokens_per_second / base.tokens_per_second)
    assert by["--batch 8"].per_chip > 1


@pytest.mark.parametrize("chip", SEVEN)
def test_prefill_is_compute_bound_and_decode_memory_bound(chip: str) -> None:
    """The conclusion of the note on prefill and decode, out of the report's own figures."""
    model = rl.load("meta-llama/Meta-Llama-3-8B")
    report = Report(model, served(model, on=chip, batch=32, input=1024, output=64, precision="fp16"))
    (_, first), (_, then) = report.estimates
    assert (first.bound, then.bound) == ("compute", "memory")
    assert first.analysis.intensity > report.where.chip.ridge("fp16") > then.analysis.intensity


def test_bad_input(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    on = ["--on", "h100-sxm", "--output"]
    assert ".html" in refused(capsys, *on, str(tmp_path / "report.txt"))
    there = tmp_path / "there.html"
    there.write_text("mine", encoding="utf-8")
    assert "--force" in refused(capsys, *on, str(there))
    assert there.read_text(encoding="utf-8") == "mine"
    assert "folder" in refused(capsys, *on, str(tmp_path / "no" / "report.html"))


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium here: apt-get install chromium, as .ci/run does")
def test_a_real_browser_draws_it_without_a_word_or_a_request(tmp_path: Path) -> None:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright, of the test extra, is not installed")
    page_file = tmp_path / "report.html"
    model = rl.load("deepseek-ai/DeepSeek-V3")
    page_file.write_text(html(Report(model, served(model, on="8xh200-sxm", layout="tp=8"))), encoding="utf-8")
    said: list[str] = []
    asked: list[str] = []
    with playwright.sync_playwright() as tool:
        browser = tool.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(page_file.as_uri())
        sizes = page.eval_on_selector_all("figure svg", "all => all.map(x => x.getBoundingClientRect().width)")
        wide = page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        browser.close()
    assert said == []
    assert asked == [page_file.as_uri()]
    assert len(sizes) == 4
    assert min(sizes) > 300
    assert wide


def test_chromium_alone_can_print_it(tmp_path: Path) -> None:
    if CHROMIUM is None:
        pytest.skip("no chromium here: apt-get install chromium, as .ci/run does")
    page_file = tmp_path / "report.html"
    model = rl.load(LLAMA)
    page_file.write_text(html(Report(model, served(model, on="h100-sxm"))), encoding="utf-8")
    shot = tmp_path / "shot.png"
    words = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--screenshot={shot}", "--window-size=1200,4000"]
    subprocess.run([*words, page_file.as_uri()], check=True, capture_output=True, timeout=120)
    assert shot.stat().st_size > 100_000
