from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from folded import folded
from roofline.declared.errors import InputError
from roofline.doors.cli.commands.measure import calibrate as command
from roofline.hardware.named_chip import chip_named
from roofline.kernels.constants import constants_for
from roofline.kernels.law import RECORDS
from roofline.measured import calibrate as c
from roofline.measured.calibrate import measuring
from roofline.measured.calibrate.benches import NumpyBench, TorchBench
from roofline.measured.calibrate.fitting import CPU_SETTINGS, FREE, bare_chip, predicted
from roofline.measured.calibrate.host import describe

MACHINE = c.MeasuredMachine("cpu", "Test CPU", "amd", 4, 32e9, 32 * 2.0**20, "PyTorch 0", date="2025-01-01")
PEAKS = {"fp32": 2e11, "bf16": 8e11}
BANDWIDTH = 4e10
TRUE: dict[str, dict[str, float]] = {
    "matmul": {"t0": 6e-6, "compute": 0.9, "memory": 0.5, "sharp": 1.4, "pack": 0.6},
    "prefill": {"t0": 2e-5, "compute": 0.3, "memory": 0.4, "fixed": 0.2, "pad": 60.0},
    "decode": {"t0": 3e-5, "memory": 0.3, "l2": 0.8, "again": 0.5, "head": 2e-6, "block": 1e-6, "sharp": 1.5},
    "experts": {"t0": 2e-4, "compute": 0.7, "memory": 0.5, "sharp": 1.2, "passes": 0.3, "expert": 2e-5},
    "stream": {"t0": 1e-5, "memory": 0.2, "l2": 0.6},
}


def truth(kind: str) -> Any:
    names = RECORDS[kind].__dataclass_fields__
    return RECORDS[kind](**{k: v for k, v in {**CPU_SETTINGS[kind], **TRUE[kind]}.items() if k in names})


def synthetic(dtypes: tuple[str, ...] = ("fp32", "bf16")) -> c.Measurements:
    """What a machine that follows the laws to the letter would measure."""
    cases = c.planned_cases("cpu", dtypes)
    rows = [c.Measurement(k, k.size("bytes") / BANDWIDTH) for k in cases if k.kind in ("read", "copy")]
    rows += [c.Measurement(c.Case("matmul", d, (4096, 4096, 4096)), 2 * 4096**3 / PEAKS[d]) for d in dtypes]
    chip = bare_chip(c.Measurements(MACHINE, tuple(rows)))
    for dtype in dtypes:
        for kind in FREE:
            chosen = [c.Measurement(case, 1.0) for case in cases if case.kind == kind and case.dtype == dtype]
            times = predicted(kind, chosen, chip, truth(kind))
            rows += [c.Measurement(r.case, float(t)) for r, t in zip(chosen, times, strict=True)]
    return c.Measurements(MACHINE, tuple(rows))


@pytest.fixture(scope="module")
def calibration() -> c.Calibration:
    return c.fit_laws(synthetic(), folds=0)


def test_the_plan_is_whole_and_smaller_when_quick() -> None:
    full, quick = c.planned_cases(), c.planned_cases(quick=True)
    assert len(quick) < len(full) / 2
    assert {case.kind for case in quick} == set(c.SHAPES)
    assert {case.dtype for case in full} == {"fp32", "bf16", "fp16"}
    assert {case.kind for case in c.planned_cases(torch=False)} == {"read", "copy", "matmul"}
    assert all(len(case.shape) == len(c.SHAPES[case.kind]) for case in c.planned_cases("cuda"))


def test_an_unknown_dtype_names_the_nearest() -> None:
    with pytest.raises(InputError, match=r"--dtype.*bf16"):
        c.planned_cases(dtypes=["bf61"])


def test_the_fit_finds_what_made_the_times(calibration: c.Calibration) -> None:
    assert calibration.chip.bandwidth == pytest.approx(BANDWIDTH)
    assert dict(calibration.chip.peaks) == pytest.approx(PEAKS)
    assert {(f.dtype, f.kind) for f in calibration.fits} == {(d, k) for d in PEAKS for k in FREE}
    for f in calibration.fits:
        assert f.median < 0.02, f
        assert f.mape < 0.05, f


@pytest.mark.parametrize(("kind", "names"), [("stream", ("t0",)), ("prefill", ("compute",)), ("experts", ("t0",))])
def test_constants_that_the_times_tell_apart_come_back(
    calibration: c.Calibration, kind: str, names: tuple[str, ...]
) -> None:
    for f in calibration.fits:
        if f.kind == kind:
            for name in names:
                assert f.constants[name] == pytest.approx(TRUE[kind][name], rel=0.15)


def test_noise_shows_as_error() -> None:
    random, exact = np.random.default_rng(0), synthetic(("fp32",))
    spread = {"stream": 0.1}
    noisy = [
        c.Measurement(r.case, r.seconds * float(random.lognormal(0, spread.get(r.case.kind, 0.0)))) for r in exact.rows
    ]
    fitted = {f.kind: f for f in c.fit_laws(c.Measurements(MACHINE, tuple(noisy))).fits}
    assert 0.03 < fitted["stream"].mape < 0.2
    assert fitted["stream"].held_out > 0.03
    assert fitted["stream"].constants["low"] < 0.97
    assert fitted["stream"].constants["high"] > 1.03


def test_a_layer_sets_the_launch_floor_of_elementwise_ops() -> None:
    rows = (*synthetic(("fp32",)).rows, c.Measurement(c.Case("layer", "fp32", (1, 64, 2, 2, 32, 128)), 5e-4))
    tables = c.fit_laws(c.Measurements(MACHINE, rows), folds=0).chip.constants
    assert tables is not None
    t0 = {kind: tables["fp32"][kind]["default"]["t0"] for kind in ("matmul", "decode", "stream")}
    assert 4 * t0["matmul"] + t0["decode"] + 4 * t0["stream"] == pytest.approx(5e-4)


def test_the_file_comes_back(calibration: c.Calibration, tmp_path: Path) -> None:
    path = tmp_path / "this.toml"
    path.write_text(c.chip_toml(calibration), encoding="utf-8")
    chip, written = chip_named(path), calibration.chip
    assert (chip.id, chip.name, chip.kind, chip.units, chip.date) == (written.id, written.name, "cpu", 4, written.date)
    assert chip.bandwidth == pytest.approx(written.bandwidth, rel=1e-4)
    assert dict(chip.peaks) == pytest.approx(dict(written.peaks), rel=1e-4)
    for dtype in PEAKS:
        for kind in FREE:
            read, kept = constants_for(chip, dtype, kind), constants_for(written, dtype, kind)
            assert read.grade == "A"
            assert read.rows == kept.rows
            assert read.large == pytest.approx(kept.large, rel=1e-4)
            for name in RECORDS[kind].__dataclass_fields__:
                assert getattr(read.record, name) == pytest.approx(getattr(kept.record, name), rel=1e-4)


def test_fp32_alone_serves_whatever_is_looked_up() -> None:
    chip = c.fit_laws(synthetic(("fp32",)), folds=0).chip
    assert constants_for(chip, "bf16", "matmul").grade == "A"


def test_nothing_measured_is_an_error() -> None:
    with pytest.raises(InputError, match="measurements"):
        c.fit_laws(c.Measurements(MACHINE, ()))


@folded(
    ("old", "new", "key"),
    [
        ("t0 = ", "tO = ", "constants.fp32.matmul.default.tO"),
        ("high_small = ", "high_smal = ", "constants.fp32.matmul.default.high_smal"),
        ("compute = ", "compute = -", "constants.fp32.matmul.default.compute"),
        ("low = ", "low = 0 #", "constants.fp32.matmul.default.low"),
        ("rows = ", "rows = 'x' #", "constants.fp32.matmul.default.rows"),
        ("fp32.matmul.default", "fp32.matmull.default", "constants.fp32.matmull"),
    ],
)
def test_a_bad_file_names_the_key(calibration: c.Calibration, tmp_path: Path, old: str, new: str, key: str) -> None:
    text = c.chip_toml(calibration)
    at = text.index("constants.fp32.matmul.default")
    path = tmp_path / "bad.toml"
    path.write_text(text[:at] + text[at:].replace(old, new, 1), encoding="utf-8")
    if "matmull" in new:
        path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(InputError) as error:
        chip_named(path)
    assert key in str(error.value)


@pytest.mark.parametrize("table", ["constants = 3", "constants.fp32 = 3", "constants.fp32.matmul.default = 3"])
def test_constants_that_are_no_tables(tmp_path: Path, table: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(
        f"[x]\npeak.fp32 = 1\nmemory.bandwidth_gbs = 1\nmemory.capacity_gb = 1\n{table}\n", encoding="utf-8"
    )
    with pytest.raises(InputError, match=r"x\.constants"):
        chip_named(path)


def test_a_clock_takes_the_median_and_stops() -> None:
    ticks = iter(np.cumsum([0.0, *[1.0] * 200]).tolist())
    seconds, samples = measuring.Clock(now=lambda: next(ticks), budget=0.5, least=3)(lambda: None)
    assert (seconds, samples) == (1.0, 3)


def test_numpy_measures_without_torch() -> None:
    bench, clock = NumpyBench(2.0**16), measuring.Clock(budget=1e-4, least=1, most=1)
    for case in (
        c.Case("matmul", "fp32", (2, 8, 4)),
        c.Case("matmul", "fp64", (1, 8, 4)),
        c.Case("read", "fp32", (4096,)),
        c.Case("copy", "fp32", (4096,)),
    ):
        assert clock(bench.runner(case))[0] > 0


def test_torch_runs_every_kind() -> None:
    torch = pytest.importorskip("torch")
    bench, small = TorchBench(torch, "cpu", 2.0**12), {
        "read": (4096,), "copy": (4096,), "matmul": (2, 8, 4), "stream": (2, 16, 2, 1, 8, 32),
        "prefill": (1, 4, 4, 2, 8), "decode": (2, 5, 4, 2, 8), "experts": (3, 2, 4, 16, 16),
        "layer": (1, 16, 2, 1, 8, 32),
    }  # fmt: skip
    assert set(small) == set(c.SHAPES)
    with bench.quiet():
        for kind, shape in small.items():
            bench.runner(c.Case(kind, "fp32", shape))()


def test_cuda_is_timed_by_its_events() -> None:
    class Event:
        def __init__(self, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None: ...

        def elapsed_time(self, other: object) -> float:
            return 5.0

    torch = SimpleNamespace(cuda=SimpleNamespace(Event=Event, synchronize=lambda: None))
    assert measuring.Clock(torch=torch)(lambda: None)[0] == pytest.approx(5e-3)


def test_a_gpu_is_described_by_its_properties() -> None:
    known = SimpleNamespace(
        name="NVIDIA Test",
        major=9,
        minor=0,
        multi_processor_count=132,
        total_memory=80 * 2**30,
        L2_cache_size=50 * 2**20,
    )
    torch = SimpleNamespace(__version__="2", cuda=SimpleNamespace(get_device_properties=lambda i: known))
    machine = describe("cuda", torch)
    assert (machine.generation, machine.units, machine.cache) == ("hopper", 132, 50 * 2**20)


def test_no_cuda_is_bad_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "find_spec", lambda name: None)
    with pytest.raises(InputError, match="--device"):
        c.measure("cuda")


def test_the_command_overwrites_only_when_told(
    calibration: c.Calibration, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "this.toml"
    path.write_text("mine", encoding="utf-8")
    monkeypatch.setattr(c, "measure", lambda *a, **k: pytest.fail("measured before the file was looked at"))
    with pytest.raises(InputError, match="--force"):
        command.calibrate(out=path)
    assert path.read_text(encoding="utf-8") == "mine"
    monkeypatch.setattr(c, "measure", lambda *a, **k: calibration.measurements)
    monkeypatch.setattr(c, "fit_laws", lambda m: calibration)
    command.calibrate(out=path, force=True)
    assert chip_named(path).id == calibration.chip.id
    assert [p.name for p in tmp_path.iterdir()] == ["this.toml"]
    out, err = capsys.readouterr()
    assert "held out" in out.lower()
    assert "wrote" in err


def test_the_command_prints_json_and_says_that_nothing_was_written(
    calibration: c.Calibration, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import json

    monkeypatch.setattr(c, "measure", lambda *a, **k: calibration.measurements)
    monkeypatch.setattr(c, "fit_laws", lambda m: calibration)
    command.calibrate(json=True)
    out, err = capsys.readouterr()
    data = json.loads(out)
    assert data["schema"] == "roofline.calibrate/2"
    assert len(data["rows"]) == len(calibration.measurements.rows)
    assert "nothing written" in err


@pytest.mark.parametrize("name", ["this.txt", "missing/this.toml", "."])
def test_an_output_that_cannot_be(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="--out"):
        command.calibrate(out=tmp_path / name)


def test_an_interrupt_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*a: object, **k: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(c, "measure", interrupted)
    with pytest.raises(KeyboardInterrupt):
        command.calibrate(out=tmp_path / "this.toml")
    assert list(tmp_path.iterdir()) == []


def test_torch_is_not_loaded_to_import_the_command() -> None:
    import subprocess

    modules = "roofline.doors.cli.commands.measure.calibrate, roofline.measured.calibrate"
    code = f"import {modules}, sys; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
