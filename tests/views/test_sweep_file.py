"""Rows in a file: readable by others, and with the same bytes however often the run was killed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest

import roofline as rl
from folded import by_day
from hub import CONFIG
from roofline.declared.errors import InputError
from roofline.views.files.append_parquet import Typed, footer_of, written_fields
from roofline.views.files.sweep_file import SweepFile
from roofline.views.text.whatif.sweep import Order, PieceTask
from roofline.whatif.query.axes import space_of
from roofline.whatif.query.columns import dicts_of
from roofline.whatif.query.evaluate import Sweeper, sweeper_of
from roofline.whatif.sweep.sweep import collected, sweep_digest
from roofline.whatif.sweep.workers import each_in_order

ENDINGS = (".parquet", ".csv", ".arrow")
READ: dict[str, Any] = {
    ".parquet": polars.read_parquet, ".csv": polars.read_csv, ".arrow": polars.read_ipc_stream,
}  # fmt: skip


class KilledError(BaseException):
    """Stands for the end of a process."""


@pytest.fixture
def sweeper() -> Sweeper:
    """Eight pieces, the third of which has no row."""
    axes = {"on": ["h100-sxm", "l4"], "layout": "tp=1,2", "batch": "1..10", "context": "10..40:+10"}
    where = "not (batch < 6 and layout == 'tp=2' and on == 'h100-sxm')"
    asked = sweeper_of(replace(space_of(rl.load(CONFIG), "decode", axes), most=20), None, where)
    assert asked.space.pieces == 8
    assert [asked.piece(i).size for i in range(8)] == [20, 20, 0, 20, 20, 20, 20, 20]
    return asked


def write(path: Path, sweeper: Sweeper, killed: int | None = None, cluster: Any = None, **how: bool) -> None:
    """As the command does it; `killed`: before the piece of that number."""
    file = SweepFile(path, sweeper.no_rows(), sweep_digest(sweeper), **how)
    try:
        first, task = file.pieces, PieceTask(sweeper, file.ending, Order(3))
        for number, piece in enumerate(each_in_order(task, range(first, sweeper.space.pieces), cluster), first):
            if number == killed:
                raise KilledError
            file.add(piece.content, piece.rows, {"best": dicts_of(piece.best)})
    finally:
        file.close()
    if killed == sweeper.space.pieces:
        raise KilledError
    again = SweepFile(path, sweeper.no_rows(), sweep_digest(sweeper), resume=True)
    assert again.pieces == sweeper.space.pieces
    again.finish()


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_rows(tmp_path: Path, sweeper: Sweeper, ending: str) -> None:
    path = tmp_path / f"rows{ending}"
    write(path, sweeper)
    assert list(tmp_path.iterdir()) == [path]
    rows = collected(sweeper, map(sweeper.piece, range(8))).to_frame()
    read = READ[ending](path)
    assert read.columns == rows.columns
    assert read.height == rows.height == 140
    for name in rows.columns:
        assert read[name].to_list() == rows[name].to_list(), name
    if ending == ".parquet":
        fast = rows["time"].median()
        scanned = polars.scan_parquet(path).filter(polars.col("time") < fast, polars.col("on") == "l4").collect()
        assert scanned.equals(rows.filter(polars.col("time") < fast, polars.col("on") == "l4"))
        assert polars.scan_parquet(path).slice(95, 9).select("layout", "batch").collect().equals(
            rows.slice(95, 9).select("layout", "batch")
        )  # fmt: skip


@pytest.mark.drawn(1)
@pytest.mark.parametrize("ending", ENDINGS)
def test_killed_at_every_boundary(tmp_path: Path, sweeper: Sweeper, ending: str) -> None:
    whole, path = tmp_path / f"whole{ending}", tmp_path / f"killed{ending}"
    write(whole, sweeper)
    for killed in range(0, 9, by_day(2, every=1)):
        with pytest.raises(KilledError):
            write(path, sweeper, killed)
        write(path, sweeper, resume=True)
        assert path.read_bytes() == whole.read_bytes()
        path.unlink()
    for killed in range(9):  # each time a little further
        with pytest.raises(KilledError):
            write(path, sweeper, killed, resume=killed > 0)
    write(path, sweeper, resume=True)
    assert path.read_bytes() == whole.read_bytes()


@pytest.mark.drawn(2)
@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("torn", ["rows", "line", "digest", "both", "gone"])
def test_what_was_half_written(tmp_path: Path, sweeper: Sweeper, ending: str, torn: str) -> None:
    whole, path = tmp_path / f"whole{ending}", tmp_path / f"torn{ending}"
    write(whole, sweeper)
    with pytest.raises(KilledError):
        write(path, sweeper, 5)
    part, log = Path(f"{path}.part"), Path(f"{path}.part.log")
    if torn in ("rows", "both"):
        part.write_bytes(part.read_bytes() + b"half a piece")
    if torn in ("line", "both"):
        log.write_bytes(log.read_bytes()[:-40])
    if torn == "digest":
        log.write_bytes(log.read_bytes().replace(b'"rows": 20', b'"rows": 21', 2))
    if torn == "gone":
        part.write_bytes(part.read_bytes()[:-9])
    write(path, sweeper, resume=True)
    assert path.read_bytes() == whole.read_bytes()


def test_finished_but_for_its_log(tmp_path: Path, sweeper: Sweeper) -> None:
    path = tmp_path / "rows.parquet"
    with pytest.raises(KilledError):
        write(path, sweeper, 8)
    log = Path(f"{path}.part.log").read_bytes()
    write(path, sweeper, resume=True)
    content = path.read_bytes()
    Path(f"{path}.part.log").write_bytes(log)
    write(path, sweeper, resume=True)
    assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


def test_another_sweep_or_file_is_left_alone(tmp_path: Path, sweeper: Sweeper) -> None:
    path, empty = tmp_path / "rows.csv", sweeper.no_rows()
    with pytest.raises(KilledError):
        write(path, sweeper, 3)
    kept = Path(f"{path}.part").read_bytes()
    with pytest.raises(InputError, match="--resume"):
        SweepFile(path, empty, sweep_digest(sweeper))
    with pytest.raises(InputError, match="the part of this same sweep"):
        SweepFile(path, empty, "another", resume=True)
    assert Path(f"{path}.part").read_bytes() == kept
    write(path, sweeper, force=True)
    with pytest.raises(InputError, match="--force"):
        SweepFile(path, empty, sweep_digest(sweeper))
    with pytest.raises(InputError, match="ends in"):
        SweepFile(tmp_path / "rows.txt", empty, "")


def test_a_file_without_rows(tmp_path: Path, sweeper: Sweeper) -> None:
    for ending in ENDINGS:
        path = tmp_path / f"none{ending}"
        SweepFile(path, sweeper.no_rows(), "").finish()
        assert READ[ending](path).height == 0
        assert READ[ending](path).columns == [column.name for column in sweeper.columns]


def test_a_footer_is_written_as_it_was_read(tmp_path: Path) -> None:
    frame = polars.DataFrame({f"c{i}": np.arange(30) * (i - 9) for i in range(20)} | {"w": ["a", None] * 15})
    frame.write_parquet(tmp_path / "f.parquet")
    content = (tmp_path / "f.parquet").read_bytes()
    length = int.from_bytes(content[-8:-4], "little")
    assert written_fields(footer_of(content)) == content[-8 - length : -8]
    for number in (0, 1, -1, 2**31, -(2**63), 2**63 - 1):
        assert Typed(written_fields({40: (6, number)})).fields() == {40: (6, number)}


@pytest.mark.drawn(0)
def test_workers_one_of_which_is_killed(tmp_path: Path, sweeper: Sweeper) -> None:
    """Three Dask workers, one of them killed on the way: the same bytes as without."""
    distributed = pytest.importorskip("distributed", reason="the extra cluster is not installed")
    whole, path = tmp_path / "whole.parquet", tmp_path / "spread.parquet"
    write(whole, sweeper)
    sources = str(Path(rl.__file__).parents[1])
    with distributed.LocalCluster(
        3, threads_per_worker=1, dashboard_address=None, silence_logs=50, env={"PYTHONPATH": sources}
    ) as workers:
        file = SweepFile(path, sweeper.no_rows(), sweep_digest(sweeper))
        task = PieceTask(sweeper, ".parquet", Order(3))
        for number, piece in enumerate(each_in_order(task, range(8), workers)):
            if number == 1:
                next(iter(workers.workers.values())).process.process._process.kill()
            file.add(piece.content, piece.rows, {})
        file.finish()
    assert path.read_bytes() == whole.read_bytes()
