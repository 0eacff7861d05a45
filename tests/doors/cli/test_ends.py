"""How a command ends: by a signal, without streams, on a full disk; nothing is left half-written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from roofline.doors.cli.common import deliver
from roofline.doors.cli.main import main
from roofline.views.files import atomic
from roofline.views.stdout import printing

COMMAND = [sys.executable, "-m", "roofline.doors.cli.main"]
SIMULATE = [
    "simulate",
    "openai-community/gpt2",
    "--on",
    "h100-sxm",
    "--input",
    "9",
    "--output-tokens",
    "9",
    "--rate",
    "1",
]
SOON = """
import roofline.views.files.requests as requests
from roofline.doors.cli.main import main
import sys
requests.EVERY_ROWS = 2000
main(sys.argv[1:])
"""
"""A command that writes its first checkpoint after 2000 requests."""
ENDLESS = ["--requests", "20M", "--warmup", "0", "-o", "r.csv"]


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_a_signal_ends_a_command_by_its_number(name: str, code: int) -> None:
    before = signal.getsignal(getattr(signal, name))

    def signalled() -> None:
        with printing("roofline"):
            os.kill(os.getpid(), getattr(signal, name))
            time.sleep(5)

    with pytest.raises(SystemExit) as ended:
        signalled()
    assert ended.value.code == code
    assert signal.getsignal(getattr(signal, name)) == before


def test_a_signal_that_is_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with printing("roofline"):
            os.kill(os.getpid(), signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_simulation_that_is_told_to_end_says_what_is_kept(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", SOON, *SIMULATE, *ENDLESS]
    running = subprocess.Popen(argv, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    checkpoint, start = tmp_path / "r.csv.part" / "checkpoint.json", time.monotonic()
    while not checkpoint.exists() and time.monotonic() - start < 60:
        time.sleep(0.1)
    running.send_signal(signal.SIGTERM)
    said = running.communicate(timeout=60)[1]
    assert running.returncode == 143
    assert said.startswith("interrupted: r.csv.part keeps ")
    assert [p.name for p in tmp_path.iterdir()] == ["r.csv.part"]
    assert not [p.name for p in (tmp_path / "r.csv.part").iterdir() if p.name.startswith(".")]


@pytest.mark.drawn(1)
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_sweep_that_is_told_to_end_says_what_is_kept_and_goes_on(tmp_path: Path, name: str) -> None:
    words = [
        "sweep",
        "openai-community/gpt2",
        "--on",
        "h100-sxm",
        "--batch",
        "1..20000",
        "--context",
        "1..1000",
        "-o",
        "r.csv",
    ]
    running = subprocess.Popen(
        [*COMMAND, *words], cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    log, start = tmp_path / "r.csv.part.log", time.monotonic()
    while (not log.exists() or log.read_bytes().count(b"\n") < 2) and time.monotonic() - start < 60:
        time.sleep(0.05)
    running.send_signal(getattr(signal, name))
    said = running.communicate(timeout=60)[1]
    assert running.returncode == 128 + getattr(signal, name)
    assert said.splitlines()[-1].startswith("r.csv.part keeps ")
    assert "Traceback" not in said
    assert sorted(p.name for p in tmp_path.iterdir()) == ["r.csv.part", "r.csv.part.log"]


WRITERS = {
    "analyze": "analyze openai-community/gpt2 --output a.csv",
    "train": "train openai-community/gpt2 --on dgx-h100 --batch 8 --tokens 64 --layout pp=2 --trace a.json",
    "plot": "plot openai-community/gpt2 --on h100-sxm --output a.svg",
    "report": "report openai-community/gpt2 --on h100-sxm --output a.html",
    "search": "search openai-community/gpt2 --on h100-sxm --chips 1 --input 9 --output 29 --concurrency 2 --out a.json",
    "sweep": "sweep openai-community/gpt2 --on h100-sxm --batch 1,2 --context 1..9 --plot a.png",
    "simulate": "simulate openai-community/gpt2 --on h100-sxm --input 9 --output 9 --rate 1 --requests 9 --plot a.svg",
    "calibrate": "",
}


@pytest.mark.drawn(4)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("command", WRITERS)
def test_a_writer_that_is_told_to_end_as_it_puts_its_file_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, number: signal.Signals
) -> None:
    """The worst moment: the file is whole, beside its place. Of `calibrate` what it does behind its measurements."""

    def told(beside: Path, target: Path, force: bool) -> None:
        if target.parent != tmp_path:  # a picture within a page, drawn elsewhere
            return place(beside, target, force)
        assert beside.parent == tmp_path
        assert beside.exists()
        os.kill(os.getpid(), number)
        return time.sleep(5)

    place = atomic._place
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("roofline.views.files.atomic._place", told)
    if command == "calibrate":
        with pytest.raises(SystemExit) as ended, printing("roofline"):
            deliver("[mine]", Path("a.toml"), force=False)
    else:
        with pytest.raises(SystemExit) as ended:
            main(WRITERS[command].split())
    assert ended.value.code == 128 + number
    assert list(tmp_path.iterdir()) == []


def test_streams_that_are_closed(tmp_path: Path) -> None:
    shell = f"{sys.executable} -m roofline.doors.cli.main models openai-community/gpt2"
    out = subprocess.run(["sh", "-c", f"{shell} >&-"], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert out.returncode == 2
    said = "roofline: stdout: expected something that can be written to, got 'Bad file descriptor'"
    assert said in out.stderr.splitlines()
    err = subprocess.run(["sh", "-c", f"{shell} 2>&-"], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert err.returncode == 0
    assert "warning" not in err.stdout


@pytest.mark.drawn(1)
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
@pytest.mark.parametrize("words", ["--help", "fit --help", "models"])
def test_a_full_disk(words: str) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*COMMAND, *words.split()], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "No space left" in done.stderr


def test_memory_that_does_not_suffice_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(words: object) -> None:
        raise MemoryError

    monkeypatch.setattr("roofline.doors.cli.main._run", run)
    with pytest.raises(SystemExit) as ended:
        main(["analyze"])
    assert ended.value.code == 2
    assert (
        capsys.readouterr().err
        == "roofline: memory: this computer has too little for the question; ask for fewer points\n"
    )
