"""Commands that are killed before every step that they take on files: what is there is whole, and they can be repeated.

A child installs an audit hook, which counts what Python does to files of a folder (opens, renames, links, removals) and
kills the process, as `kill -9` does, before the step of a number. So every state between two steps is seen.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from folded import by_day

KILLED = -9
STEPS = ("open", "os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "shutil.rmtree")
CHILD = """
import os, signal, sys
folder, steps, work = sys.argv[1], sys.argv[2].split(), sys.argv[3]
exec(work)  # defines `do`
do(folder)  # loads what it needs, once for all runs
print("ready", flush=True)

def run(kill_at):
    count = 0

    def watch(event, arguments):
        nonlocal count
        if event in steps and isinstance(arguments[0], (str, bytes, os.PathLike)):
            path = os.path.abspath(os.fsdecode(arguments[0]))
            writes = event != "open" or (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            if path.startswith(folder + os.sep) and writes:
                count += 1
                if count == kill_at:
                    os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)
    do(folder)
    print(count, flush=True)

for line in sys.stdin:  # each in a process of its own, which is killed
    number = int(line)
    child = os.fork()
    if child == 0:
        try:
            run(number)
        except BaseException as error:
            print(repr(error), flush=True)
            os._exit(1)
        os._exit(0)
    print("ended", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Runs:
    """Runs `work` again and again, in forks of one process that has loaded what it needs."""

    def __init__(self, folder: Path, work: str) -> None:
        argv = [sys.executable, "-c", CHILD, str(folder), " ".join(STEPS), work]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"

    def run(self, kill_at: int = 0) -> tuple[int, int]:
        """How it ended, and how many steps it took where it was not killed."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{kill_at}\n")
        self.process.stdin.flush()
        said = self.process.stdout.readline().split()
        steps = 0
        if said[0] != "ended":
            assert said[0].isdigit(), said
            steps = int(said[0])
            said = self.process.stdout.readline().split()
        return int(said[1]), steps

    def close(self) -> None:
        self.process.communicate()


def killed_everywhere(
    folder: Path, work: str, clean: Callable[[], None], check: Callable[[int], None], apart: int = 1
) -> int:
    """Kills a run before each of its steps, or those so far `apart`, from a clean state; returns how many there are.

    `check` sees what a run leaves that was killed at a step, and with 0 what one leaves that was not.
    """
    runs = Runs(folder, work)
    try:
        clean()
        ended, steps = runs.run()
        assert ended == 0
        check(0)
        for step in range(1, steps + 1, apart):
            clean()
            assert runs.run(step)[0] == KILLED
            check(step)
            assert runs.run()[0] == 0  # what is left is in nobody's way
            check(0)
    finally:
        runs.close()
    return steps


def removed(*paths: Path) -> None:
    import shutil

    for path in paths:
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


def beside(folder: Path) -> list[Path]:
    """Whole names in a folder: those that are in the making begin with a dot."""
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))


EXPORT = """
from pathlib import Path
from roofline.doors.web.page.export import export_grid, export_page
from roofline.doors.web.page.scenario import Scenario
import roofline.doors.web.page.export as export
export.plotly_file = lambda: export.STATIC / "icon.svg"  # which is 4 MB
data = export._data(export_grid(Scenario(), {"on": ["h100-sxm"], "input": [512], "concurrency": [8]}))
export._data = lambda grid: data

def do(folder):
    grid = export_grid(Scenario(), {"on": ["h100-sxm"], "input": [512], "concurrency": [8]})
    export_page(Path(folder, "page"), grid, force=True)
"""
PAGE = {"index.html", "page.js", "data.js", "style.css", "icon.svg", "theme.js", "plotly.js"}


@pytest.mark.parametrize("before", [False, True])
def test_an_exported_page_is_whole_wherever_it_is_killed(tmp_path: Path, before: bool) -> None:
    """A new folder is there with every file or not at all; in one that is there each file is the old or the new one."""
    page, whole = tmp_path / "page", dict[str, bytes]()

    def clean() -> None:
        removed(*tmp_path.iterdir())
        if before:
            page.mkdir()
            for name in PAGE:
                (page / name).write_bytes(b"old")

    def check(step: int) -> None:
        if not step:
            whole.update({path.name: path.read_bytes() for path in page.iterdir()})
            assert whole.keys() == PAGE
            assert b"old" not in whole.values()
            return
        assert beside(tmp_path) in ([], [page])
        if page.exists():
            assert {path.name for path in page.iterdir()} == PAGE
            old = {b"old"} if before else set()
            assert all(path.read_bytes() in {whole[path.name], *old} for path in page.iterdir())
        else:
            assert not before

    assert killed_everywhere(tmp_path, EXPORT, clean, check) >= len(PAGE)


CALIBRATE = """
import os, sys
from roofline.doors.cli.main import main
import roofline.measured.compare.bench_fit as bench
from functools import cache
bench.bench_fit = cache(bench.bench_fit)  # seconds, once for all runs

def do(folder):
    os.chdir(folder)
    sys.stdout = open(os.devnull, "w")
    sys.stderr = sys.stdout
    main("calibrate --llama-bench bench.json --model meta-llama/Llama-3.1-8B --precision q4_0 --on rtx-3090 "
         "--out chip.toml --force".split())
    sys.stdout = sys.__stdout__
"""
BENCH = [
    {"model_type": "llama 8B Q4_0", "n_prompt": 512, "n_gen": 0, "n_depth": 0, "avg_ts": 3000.0},
    {"model_type": "llama 8B Q4_0", "n_prompt": 0, "n_gen": 128, "n_depth": 0, "avg_ts": 100.0},
]


@pytest.mark.parametrize("before", [False, True])
def test_a_chip_file_of_calibrate_is_whole_wherever_it_is_killed(tmp_path: Path, before: bool) -> None:
    (tmp_path / "bench.json").write_text(json.dumps(BENCH))
    chip, whole = tmp_path / "chip.toml", list[bytes]()

    def clean() -> None:
        removed(chip, *tmp_path.glob(".*"))
        if before:
            chip.write_bytes(b"old")

    def check(step: int) -> None:
        if not step:
            whole.append(chip.read_bytes())
            assert whole[-1] != b"old"
            assert len(set(whole)) == 1
        elif before or chip.exists():
            assert chip.read_bytes() in (whole[0], b"old" if before else whole[0])

    assert killed_everywhere(tmp_path, CALIBRATE, clean, check) >= 2


SIMULATE = """
import os, sys
import roofline.views.files.requests as requests
requests.EVERY_ROWS, requests.PART = 30, 16
from roofline.doors.cli.main import main

def do(folder):
    os.chdir(folder)
    sys.stdout = open(os.devnull, "w")
    sys.stderr = sys.stdout
    main("simulate openai-community/gpt2 --on h100-sxm --input 9 --output-tokens 9 --rate 1 --requests 70 --warmup 0 "
         "-o r.csv".split())
    sys.stdout = sys.__stdout__
"""


def test_a_simulation_that_is_killed_at_its_checkpoints_ends_with_the_same_bytes(tmp_path: Path) -> None:
    rows, whole = tmp_path / "r.csv", list[bytes]()

    def check(step: int) -> None:
        if not step:
            whole.append(rows.read_bytes())
            assert len(set(whole)) == 1
            assert beside(tmp_path) == [rows]
        else:
            assert not rows.exists() or not whole or rows.read_bytes() == whole[0]
            if rows.exists():  # all of it was written, and only what was kept for going on remains
                rows.unlink()

    def clean() -> None:
        removed(*tmp_path.iterdir())

    assert killed_everywhere(tmp_path, SIMULATE, clean, check, by_day(9, 1)) > 10
