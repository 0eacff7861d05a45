"""A file of requests: killed at any write and run again it has the same bytes, and two runs never share it."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import roofline as rl
from folded import by_day
from roofline.views.files import lock, requests
from roofline.views.files.atomic import whole_file
from roofline.views.files.requests import RequestFile

LLAMA = "meta-llama/Llama-3.1-8B"
SMALL = {"on": "h100-sxm", "engine": "vllm(max_num_batched_tokens=256,max_num_seqs=16)"}
TRAFFIC = {"input": "uniform(20,200)", "output": "uniform(1,60)", "concurrency": 24, "extent": rl.Extent(120, 10)}
STREAMS: dict[str, dict[str, Any]] = {
    "one pool": {**SMALL, **TRAFFIC},
    "two pools": {**SMALL, **TRAFFIC, "prefill": rl.PrefillPool("2xh100-sxm", layout="dp=2")},
    "shared experts": {**SMALL, **TRAFFIC, "model": "Qwen/Qwen3-30B-A3B", "on": "2xh100-sxm", "layout": "dp=2,ep=2"},
}
WHEN = ("before", "half", "after")


class KilledError(Exception):
    """The process ends."""


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "PART", 25)
    monkeypatch.setattr(requests, "EVERY_ROWS", 40)


def kill_at(monkeypatch: pytest.MonkeyPatch, number: int, when: str) -> list[str]:
    """Ends the run at a write: before it, with half of it beside its place, or after it. The files written so far."""
    files: list[str] = []

    def write(path: Path, fill: Callable[[Path], object], field: str = "output", *, force: bool) -> None:
        files.append(path.name)
        if len(files) != number:
            whole_file(path, fill, field, force=force)
            return
        if when == "half":
            (path.parent / f".{path.stem}.1{path.suffix}").write_bytes(b"half")
        if when == "after":
            whole_file(path, fill, field, force=force)
        raise KilledError

    monkeypatch.setattr(requests, "whole_file", write)
    return files


def simulated(path: Path, stream: str) -> dict[str, Any]:
    """A run from its start, or from what a killed one kept, to its end."""
    file = RequestFile(path)
    try:
        answer = rl.simulate(**{"model": LLAMA, **STREAMS[stream]}, written=file)
        file.finish()
    finally:
        if file.lock.file is not None:
            file.lock.file.close()  # as the system does for a process that ends
    return dict(answer.to_dict())


@pytest.mark.drawn(1)
@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("stream", STREAMS)
def test_a_run_killed_at_any_write_goes_on_to_the_same_bytes(
    stream: str, when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = kill_at(monkeypatch, 0, when)
    answer = simulated(tmp_path / "whole.parquet", stream)
    whole, writes = (tmp_path / "whole.parquet").read_bytes(), len(files)
    assert files.count("checkpoint.json") == 2
    assert writes == 2 + 5 + 1
    for number in range(writes, 0, -by_day(2, every=1)):
        path = tmp_path / f"{number}.parquet"
        kill_at(monkeypatch, number, when)
        with pytest.raises(KilledError):
            simulated(path, stream)
        kill_at(monkeypatch, 0, when)
        if (number, when) == (writes, "after"):  # all is there but its parts are left, too
            assert path.read_bytes() == whole
            with pytest.raises(rl.InputError, match="a new file"):
                simulated(path, stream)
            continue
        assert simulated(path, stream) == answer
        assert path.read_bytes() == whole
        assert not path.with_name(f"{path.name}.part").exists()
        assert not path.with_name(f"{path.name}.lock").exists()


# -- one run at a time ---------------------------------------------------------------------------------------------
HOLDS = """
import sys
from pathlib import Path
from roofline.views.files.lock import FileLock
kept = FileLock(Path(sys.argv[1]), "out")
kept.take()
print(flush=True)
input()
"""


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that has the lock."""
    argv = [sys.executable, "-c", HOLDS, str(tmp_path / "a.parquet.lock")]
    run = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert run.stdout is not None
    run.stdout.readline()
    yield run
    run.kill()
    run.communicate()


def test_two_runs_do_not_write_one_file(owner: subprocess.Popen[bytes], tmp_path: Path) -> None:
    file = RequestFile(tmp_path / "a.parquet")
    with pytest.raises(rl.InputError, match=r"one run at a time, got 'a.parquet.lock of another run'"):
        file.begin("x")
    assert not file.folder.exists()


def test_the_lock_of_a_dead_run_is_taken_over(owner: subprocess.Popen[bytes], tmp_path: Path) -> None:
    owner.kill()
    owner.wait()
    assert (tmp_path / "a.parquet.lock").exists()
    with RequestFile(tmp_path / "a.parquet") as file:
        assert file.begin("x") is None
    assert not (tmp_path / "a.parquet.lock").exists()


def test_a_lock_whose_owner_removed_it_meanwhile_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opened before the owner's end, locked after it: the file is no longer the one that others would open."""
    path, flock = tmp_path / "a.lock", fcntl.flock
    calls: list[int] = []

    def late(*args: Any) -> None:
        if not calls:
            path.unlink()
        calls.append(1)
        flock(*args)

    monkeypatch.setattr(fcntl, "flock", late)
    mine = lock.FileLock(path, "out")
    mine.take()
    assert len(calls) == 2
    assert path.exists()
    mine.release()
    assert not path.exists()


def test_where_the_system_has_no_locks_the_file_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "fcntl", None)
    first, second = (lock.FileLock(tmp_path / "a.lock", "out") for _ in range(2))
    first.take()
    with pytest.raises(rl.InputError, match=r"or no a.lock where it was killed"):
        second.take()
    first.release()
    second.take()
    second.release()


def test_a_file_that_came_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    file = RequestFile(tmp_path / "a.parquet")
    (tmp_path / "a.parquet").write_bytes(b"another run's")
    with pytest.raises(rl.InputError, match="a new file"), file:
        file.begin("x")
    assert (tmp_path / "a.parquet").read_bytes() == b"another run's"
