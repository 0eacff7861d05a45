"""What is declared of other packages: each has a least and a most version, and those installed lie between them."""

from __future__ import annotations

import re
import shlex
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import roofline as rl
from documented import installed
from roofline.doors.cli.main import main
from roofline.extras import install_line

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
LINES = sorted(
    {*PROJECT["dependencies"], *(line for extra, lines in EXTRAS.items() if extra != "oracle" for line in lines)}
)


def numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text.split("+")[0])[:4])


@pytest.mark.parametrize("line", LINES)
def test_bounds(line: str) -> None:
    bounds = re.fullmatch(r"([\w.-]+)>=(\d+(?:\.\d+)*),<(\d+(?:\.\d+)*)", line)
    assert bounds, f"{line}: no least and most version"
    name, least, most = bounds.groups()
    assert numbers(least) < numbers(most)
    try:
        installed = version(name)
    except PackageNotFoundError:
        pytest.skip(f"{name} is not installed")
    assert numbers(least) <= numbers(installed) < numbers(most), f"{name} {installed}"


def test_what_the_oracle_compares_with_is_pinned() -> None:
    assert all(re.fullmatch(r"[\w.-]+==[\d.]+(?:\*)?", line) for line in EXTRAS["oracle"])


def test_an_extra_and_the_tests_agree() -> None:
    """What tests install beside the package is what its extras ask for, by the same bounds."""
    bounds: dict[str, set[str]] = {}
    for extra, lines in EXTRAS.items():
        if extra != "oracle":
            for line in lines:
                bounds.setdefault(re.split(r"[<>=]", line)[0], set()).add(line)
    assert {name: lines for name, lines in bounds.items() if len(lines) > 1} == {}


def test_python_versions() -> None:
    named = {c.rsplit(" ", 1)[1] for c in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+", c)}
    assert PROJECT["requires-python"] == ">=3.11"
    full = (Path(__file__).parents[1] / ".ci" / "full").read_text(encoding="utf-8")
    assert named == {"3.11", *re.findall(r"\b3\.\d+\b", re.search(r"for version in ([\d. ]+);", full)[1])}  # type: ignore[index]


@pytest.mark.parametrize("extra", sorted(set(EXTRAS) - {"test", "docs"}))
def test_the_line_that_is_printed_installs_what_an_extra_needs(extra: str) -> None:
    """There is no package of this name to install yet: the line names what is needed, by the bounds of pyproject."""
    pip, install, *printed = shlex.split(install_line(extra))
    assert (pip, install) == ("pip", "install")
    assert set(map(Requirement, printed)) == set(map(Requirement, EXTRAS[extra]))


def test_what_a_command_without_its_extra_prints_can_be_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole, and on one line of at most 160 characters."""
    for extra, words in (("web", ["web", "--port", "1"]), ("mcp", ["mcp"])):
        for module in [name for name in sys.modules if name.startswith(("roofline.doors.web", "roofline.doors.mcp"))]:
            monkeypatch.delitem(sys.modules, module)  # which another test may have imported with the extra
        with installed([]), pytest.raises(SystemExit) as stop:
            main(words)
        (line,) = capsys.readouterr().err.splitlines()
        assert (stop.value.code, install_line(extra) in line, "roofline[" in line) == (2, True, False)
    assert install_line("web", "plotly") == "pip install 'plotly<7,>=6.0'"


def test_no_document_names_a_package_that_there_is_not() -> None:
    root = Path(__file__).parents[1]
    pages = [root / "README.md", *root.glob("docs/*.md"), *root.glob("src/roofline/**/*.py")]
    assert [page.name for page in pages if "pip install 'roofline" in page.read_text(encoding="utf-8")] == []


def test_explain_has_numbers_without_sympy(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["explain", "meta-llama/Llama-3.1-8B", "attention", "--context", "4096"]
    main(words)
    with_symbols = capsys.readouterr()
    assert "2*B*" in with_symbols.out or "4*B*" in with_symbols.out
    with installed([]):
        main(words)
    without = capsys.readouterr()
    assert f"formulas in symbols need SymPy: {install_line('algebra')}" in without.err
    value = re.search(r"FLOPs of one layer\n.*\n.*\n  = ([\d,]+), ×", with_symbols.out)
    assert value is not None
    assert f"= {value[1]}, × 32 layers" in without.out


def test_a_command_without_scipy_and_sympy(capsys: pytest.CaptureFixture[str]) -> None:
    """Neither is of the core."""
    with installed([]):
        assert "scipy" not in sys.modules
        main(["solve", "meta-llama/Llama-3.1-8B", "--find", "batch", "--where", "tpot <= 20ms and fits", "--on",
              "h100-sxm", "--input", "1024", "--output-tokens", "256"])  # fmt: skip
        main(["solve", "meta-llama/Llama-3.1-8B", "--find", "bandwidth", "--where", "tpot <= 10ms", "--on", "h100-sxm",
              "--batch", "8", "--input", "1024", "--output-tokens", "256"])  # fmt: skip
        assert not {"scipy", "sympy"} & {name.partition(".")[0] for name in sys.modules}
    assert "batch = 222 sequences" in capsys.readouterr().out


# -- without frames ------------------------------------------------------------------------------------------------
LLAMA = "meta-llama/Llama-3.1-8B"
SWEEP = f"sweep {LLAMA} --on h100-sxm b200 --tp 1,2 --batch 1,8 --context 1Ki"
SERVED = f"{LLAMA} --on h100-sxm --input 1024 --output-tokens 256"
WITHOUT_FRAMES = (
    f"analyze {LLAMA}", f"analyze {LLAMA} --on h100-sxm --csv", f"analyze {LLAMA} -o ops.csv", f"{LLAMA} --on h100-sxm",
    f"explain {LLAMA} attention --context 4096", f"machines {LLAMA} --users 20 --on h100-sxm l4",
    f"fit {LLAMA} --on l4 --batch 4",
    f"generate {SERVED} --batch 16", f"serve {SERVED} --concurrency 32", f"search {SERVED} --concurrency 32",
    f"solve {SERVED} --find batch --where fits", f"simulate {SERVED} --rate 4 --requests 50 -o requests.csv",
    f"simulate {LLAMA} --on h100-sxm --trace trace.csv --json",
    f"train {LLAMA} --on dgx-h100 --batch 128 --tokens 8192", SWEEP, f"{SWEEP} --json", f"{SWEEP} -o rows.csv",
    f"{SWEEP} --sort=-tpot --columns all --plot tpot.svg",
    f"report {LLAMA} --on h100-sxm -o report.html --tables tables", f"diff {LLAMA}@l4 {LLAMA}@h100-sxm",
)  # fmt: skip


@pytest.mark.drawn(7)
@pytest.mark.parametrize("words", WITHOUT_FRAMES)
def test_a_command_without_polars(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It prints and writes the same as with it."""
    trace = "time,input,output\n" + "".join(f"{i},100,20\n" for i in range(20))
    said: list[tuple[str, dict[str, bytes]]] = []
    for folder, extras in ((tmp_path / "without", []), (tmp_path / "with", ["frames"])):
        folder.mkdir()
        monkeypatch.chdir(folder)
        Path("trace.csv").write_text(trace, encoding="utf-8")
        with installed(extras):
            main(words.split())
            assert extras or "polars" not in sys.modules
        written = {p.name: p.read_bytes() for p in folder.rglob("*") if p.suffix in (".csv", ".svg", ".html")}
        said.append((capsys.readouterr().out, written))
    assert said[0] == said[1]
    assert said[0][0] or len(said[0][1]) > 1


@pytest.mark.parametrize(
    ("words", "later"),
    [
        (f"{SWEEP} -o rows.parquet", "model.load.load"), (f"{SWEEP} -o rows.arrow", "model.load.load"),
        (f"simulate {SERVED} --rate 4 -o requests.parquet", "model.load.load"),
        (f"simulate {LLAMA} --on h100-sxm --trace trace.parquet", "serving.simulate.simulate.SimulationRun"),
        (f"analyze {LLAMA} -o ops.parquet", "model.load.load"),
        (f"report {LLAMA} --on h100-sxm --tables tables --tables-form parquet", "views.report.make.report_on"),
    ],
)  # fmt: skip
def test_what_needs_polars_says_so_before_anything_is_computed(
    words: str, later: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("trace.parquet").write_bytes(b"PAR1")

    def never(*args: object, **settings: object) -> None:
        raise AssertionError(later)

    monkeypatch.setattr(f"roofline.{later}", never)
    with installed([]), pytest.raises(SystemExit) as stop:
        main(words.split())
    out, err = capsys.readouterr()
    (line,) = err.splitlines()
    assert (stop.value.code, out, len(line) <= 160) == (2, "", True)
    assert re.search(r"expected (a file that ends in \.csv|csv|CSV or JSON lines), or Polars: pip install", line)
    assert install_line("frames") == "pip install 'polars<2,>=1.30'"
    assert install_line("frames") in line
    assert [path.name for path in tmp_path.iterdir()] == ["trace.parquet"]


def test_a_frame_without_polars_is_an_error_that_names_columns() -> None:
    swept = rl.sweep(LLAMA, on="h100-sxm", batch=[1, 2], context=64)
    answers: tuple[rl.Result, ...] = (swept, rl.fit(LLAMA, on="h100-sxm"))
    with installed([]):
        for answer in answers:
            with pytest.raises(rl.InputError) as caught:
                answer.to_frame()
            assert str(caught.value) == (
                f"to_frame: expected columns(), or Polars: {install_line('frames')}, got 'no polars'"
            )
            assert len(answer.columns()) > 5
