"""One command fits every constant: how it puts values in place, and when it runs a step again."""

from __future__ import annotations

import csv
import json
import random
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("polars")
sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

import fit_all

TEXT = """\
# a comment
[vllm]
name = "vLLM"
request_s = 2.0e-3
step_s = 1.0e-4  # of a run

[vllm.slower.hopper]
latency = 2.5
wide = 1.2

[trtllm]
request_s = 6.5e-2
"""


def test_a_value_takes_the_place_of_another_and_nothing_else_moves() -> None:
    assert fit_all.with_values(TEXT, "vllm", {"request_s": 0.002, "step_s": 1e-4}) == TEXT
    changed = fit_all.with_values(TEXT, "vllm", {"request_s": 0.003, "step_s": 2e-4})
    assert changed == TEXT.replace("2.0e-3", "0.003").replace("1.0e-4  # of", "0.0002  # of")
    assert fit_all.with_values(TEXT, "vllm.slower.hopper", {"wide": None}) == TEXT.replace("wide = 1.2\n", "")
    assert "[vllm.slower.hopper]\nexperts = 2.0\nlatency" in fit_all.with_values(
        TEXT, "vllm.slower.hopper", {"experts": 2.0}
    )
    assert fit_all.with_values(TEXT, "sglang", {"step_s": 1.0}) == TEXT


def test_a_release_is_a_row_of_the_releases() -> None:
    before = "vllm.changes.before"
    assert fit_all.place_of("vllm") == ("engines.toml", "vllm", "")
    assert fit_all.place_of("nemo.slower.hopper") == ("engines.toml", "nemo.slower.hopper", "")
    assert fit_all.place_of("vllm@0.6.slower.cdna2") == ("releases.toml", f"{before}.slower.cdna2", "0.6")
    assert fit_all.place_of("vllm@0.6.generations.cdna3") == ("releases.toml", f"{before}.generations.cdna3", "0.6")
    assert fit_all.place_of("trtllm@0.9") == ("releases.toml", "trtllm.changes.before", "0.9")


RELEASES = """\
[[vllm.changes]]
release = "0.14"
before = { ahead = false }

[[vllm.changes]]
release = "0.8"
[vllm.changes.before]
step_s = 1.0

[[vllm.changes]]
release = "0.6"
source = "a page"
[vllm.changes.before]
step_s = 2.0
"""


@pytest.mark.parametrize(("release", "changed"), [("0.6", "step_s = 1.0"), ("0.5", "step_s = 2.0")])
def test_a_value_goes_to_the_row_of_the_next_change_that_has_a_table(
    release: str, changed: str, tmp_path: Path
) -> None:
    file = tmp_path / "releases.toml"
    file.write_text(RELEASES)
    fit_all.put_values(tmp_path, {f"vllm@{release}": {"step_s": 3.0}})
    assert file.read_text() == RELEASES.replace(changed, "step_s = 3.0")


def test_steps_that_do_not_run_keep_their_differences(tmp_path: Path) -> None:
    place = ("vllm", "request_s")
    today = fit_all.values_of(fit_all.PACKAGE / "engines" / "engines.toml")[place]
    file = tmp_path / "constants.csv"
    rows = [
        fit_all.Reproduced(step, "engines/engines.toml", place, value, 0.5)
        for step, value in (("servers", today), ("hosts", today), ("laws", 9.0))
    ]
    fit_all.write_differences(rows, file)
    chosen = [step for step in fit_all.STEPS if step.name == "hosts"]
    assert fit_all.earlier(file, chosen) == rows[:1]  # of another step, and of today's value


def test_every_value_of_the_package_has_a_path() -> None:
    for path in fit_all.mutable(fit_all.PACKAGE):
        assert fit_all.values_of(path), path
    values = fit_all.values_of(fit_all.PACKAGE / "engines" / "releases.toml")
    assert values["vllm", "changes", "0.14", "before", "ahead"] is False


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of two files, a script that fits one value to a table, and the folder of the table."""
    package, scripts, tables = tmp_path / "src" / "roofline", tmp_path / "benchmarks", tmp_path / "tables"
    for folder in (package / "engines", scripts, tables):
        folder.mkdir(parents=True)
    (package / "engines" / "engines.toml").write_text(TEXT)
    (package / "__init__.py").write_text("")
    (scripts / "recorded.py").write_text((fit_all.HERE / "recorded.py").read_text())
    (scripts / "fit_one.py").write_text(
        "import json, sys\nfrom pathlib import Path\n"
        "value = float(open(Path(sys.argv[1]) / 'one.csv').read())\n"
        "Path(sys.argv[2]).write_text(json.dumps({'vllm': {'request_s': value}}))\nprint('ran')\n"
    )
    (tables / "one.csv").write_text("0.004")
    monkeypatch.setattr(fit_all, "HERE", scripts)
    monkeypatch.setattr(fit_all, "PACKAGE", package)
    step = fit_all.FitStep("one", "fit_one.py", ("{folder}", "{values}"), values=True)
    monkeypatch.setattr(fit_all, "STEPS", (step,))
    return tables


def test_a_step_runs_again_only_where_what_it_read_is_another(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = [str(small), "--work", str(tmp_path / "work"), "--out", str(tmp_path / "out" / "constants.csv")]
    fit_all.main(argv)
    first = capsys.readouterr()
    assert "one: fit_one.py" in first.err
    assert "differ: engines/engines.toml" in first.out
    rows = list(csv.DictReader((tmp_path / "out" / "constants.csv").open()))
    assert [(r["table"], r["value"], r["today"], r["fitted"]) for r in rows] == [
        ("vllm", "request_s", "0.002", "0.004")
    ]
    read = json.loads((tmp_path / "work" / "chain" / "one" / "read.json").read_text())
    assert "tables/one.csv" in read
    assert "tree/benchmarks/fit_one.py" in read
    fit_all.main(argv)
    assert "one: as before" in capsys.readouterr().err
    (small / "one.csv").write_text("0.002")
    fit_all.main(argv)
    again = capsys.readouterr()
    assert "one: fit_one.py" in again.err
    assert "differ: none" in again.out


def test_written_constants_are_the_fitted_ones_and_stay(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fit_all, "write_hashes", lambda *_: None)
    argv = [str(small), "--work", str(tmp_path / "work"), "--out", str(tmp_path / "out.csv")]
    fit_all.main([*argv, "--write"])
    path = fit_all.PACKAGE / "engines" / "engines.toml"
    text = path.read_text()
    assert text == TEXT.replace("2.0e-3", "0.004")
    capsys.readouterr()
    fit_all.main([*argv, "--write"])
    assert "differ: none" in capsys.readouterr().out
    assert path.read_text() == text


def drawn_rows() -> Iterator[str]:
    """Passes of a V100 (900 GB/s) at 0.8 of its bandwidth and products at 0.6 of its 14 TFLOP/s, within a few percent.

    In the format of NeuSight's table: size of the pass, or m, n_inner and k_out of the product.
    """
    draw, chip = random.Random(34), "V100-PCIE-32GB"
    yield "op,gpu,dtype,batch,m,n_inner,k_out,h,latency_ms,unit_used,software,part,path"
    for _ in range(60):
        batch, h = draw.randrange(20_000, 200_000), draw.choice((1024, 2048, 4096))
        seconds = 3 * 4 * batch * h / (0.8 * 900e9) * draw.gauss(1, 0.02)
        yield f"add,{chip},fp32,{batch},,,,{h},{1e3 * seconds:.6f},,drawn,,"
    for _ in range(60):
        m, inner, out = draw.randrange(4096, 16_384), draw.choice((2048, 4096)), draw.choice((3072, 8192))
        seconds = 2 * m * inner * out / (0.6 * 14e12) * draw.gauss(1, 0.02)
        yield f"linear,{chip},fp32,1,{m},{inner},{out},,{1e3 * seconds:.6f},,drawn,,"


def drawn_collectives() -> Iterator[str]:
    """NCCL's all-reduce on H100s: 10 µs at 2 ranks and 20 µs at 8, twice that beyond 1 MiB, 0.8 of 450 GB/s."""
    draw = random.Random(35)
    yield "system,software,op,num_gpus,bytes,latency_ms"
    for ranks, alpha in ((2, 10e-6), (8, 20e-6)):
        for k in range(9, 31):
            rises = (2**k / 2**20) ** 2
            latency, sent = alpha * (1 + rises / (1 + rises)), 2 * (ranks - 1) / ranks * 2**k / (0.8 * 450e9)
            yield f"h100_sxm,nccl 2.27.3,all_reduce,{ranks},{2**k},{1e3 * (latency + sent) * draw.gauss(1, 0.01):.6f}"


REAL = {
    "older": ("ops_fp32_neusight.csv", drawn_rows, "kernels/constants/v100-pcie-32gb.toml", {
        ("bf16", "stream", "default", "memory"): 0.8, ("fp32", "matmul", "default", "compute"): 0.6,
    }),
    "collectives": ("collectives_nccl_aic.csv", drawn_collectives, "kernels/collective_constants.toml", {
        ("h100-sxm", "switch", "all_reduce", "nccl", "alpha"): [10e-6, 20e-6],
        ("h100-sxm", "switch", "all_reduce", "nccl", "share"): [0.8, 0.8],
    }),
}  # fmt: skip
"""Step → the table that it reads, its rows, and the file and the values that it should come to."""


@pytest.mark.drawn(1)
@pytest.mark.parametrize("step", REAL)
def test_a_real_step_comes_to_what_was_drawn_and_run_twice_changes_nothing(
    step: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    package, tables = tmp_path / "src" / "roofline", tmp_path / "tables"
    shutil.copytree(fit_all.PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(fit_all, "PACKAGE", package)
    tables.mkdir()
    table, rows, file, wanted = REAL[step]
    (tables / table).write_text("\n".join(rows()) + "\n")
    texts = []
    for turn in ("first", "second"):  # each in a folder of its own, so that the second takes up nothing of the first
        fit_all.main([
            str(tables), "--work", str(tmp_path / turn), "--only", step, "--out", str(tmp_path / f"{turn}.csv"),
            "--write",
        ])  # fmt: skip
        texts.append({path: path.read_bytes() for path in fit_all.mutable(package)})
    assert texts[0] == texts[1]
    assert "differ: none" in capsys.readouterr().out.splitlines()[-1]
    values = fit_all.values_of(package / file)
    for path, value in wanted.items():
        assert values[path] == pytest.approx(value, rel=0.05), path
