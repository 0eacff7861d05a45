"""Files that are asked for: what is refused, and that all of it is written or nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from roofline.declared.errors import InputError
from roofline.doors.cli.main import main
from roofline.views.files.atomic import check_ending, check_file, check_folder, check_new, whole_file, whole_folder
from roofline.views.plots.make import plot


def refused(check: Callable[[], object]) -> tuple[str, str]:
    """The field of an error, and what was expected."""
    with pytest.raises(InputError) as error:
        check()
    return error.value.field, str(error.value).partition(": expected ")[2].partition(", got ")[0]


def test_a_folder_has_room_for_files_or_is_told_to_take_them(tmp_path: Path) -> None:
    new, full, file = tmp_path / "new", tmp_path / "full", tmp_path / "file"
    full.mkdir()
    (full / "mine").touch()
    file.touch()
    check_folder(new, force=False)
    check_folder(full, force=True)
    said = "an empty folder, or --force to write into it"
    assert refused(lambda: check_folder(full, force=False)) == ("folder", said)
    for wrong in (file, file / "below", tmp_path / "no" / "such"):
        assert refused(lambda wrong=wrong: check_folder(wrong, force=True)) == (  # type: ignore[misc]
            "folder", "a folder that can be written",
        )  # fmt: skip
    assert not new.exists()


def test_a_file_is_new_or_may_be_overwritten(tmp_path: Path) -> None:
    there, lost = tmp_path / "there", tmp_path / "no" / "file"
    there.touch()
    check_file(tmp_path / "new", force=False)
    check_file(there, force=True)
    check_new(lost, force=False)
    assert refused(lambda: check_file(there, False)) == ("output", "a new file, or --force to overwrite it")
    assert refused(lambda: check_file(tmp_path, True, "--out")) == ("--out", "a file, not a folder")
    assert refused(lambda: check_file(lost, True)) == ("output", "a file in a folder that is there and can be written")
    assert refused(lambda: check_ending(there, (".md", ".csv"))) == ("output", "a file that ends in .md, .csv")


def test_a_file_that_breaks_off_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "there.txt"
    path.write_text("mine")

    def breaks(beside: Path) -> None:
        beside.write_text("half")
        raise OSError(28, "No space left on device")

    said = ("--out", "a file that can be written (No space left on device)")
    assert refused(lambda: whole_file(path, breaks, "--out", force=True)) == said
    assert path.read_text() == "mine"
    assert [p.name for p in tmp_path.iterdir()] == ["there.txt"]


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("there", [False, True])
def test_no_link_is_followed(tmp_path: Path, force: bool, there: bool) -> None:
    """Neither where its file is there nor where it is not: somebody else may have put it."""
    (tmp_path / "link").symlink_to("file")
    if there:
        (tmp_path / "file").write_text("mine")
    for write in (
        lambda: whole_file(tmp_path / "link", lambda beside: beside.write_text("new"), force=force),
        lambda: check_file(tmp_path / "link", force),
    ):
        assert refused(write) == ("output", "a name that is no link")
    assert (tmp_path / "link").is_symlink()
    assert [p.read_text() for p in tmp_path.glob("file")] == ["mine"] * there
    assert len(list(tmp_path.iterdir())) == 1 + there


def test_no_link_to_a_folder_is_followed(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "link").symlink_to("other")
    said = ("folder", "a name that is no link")
    assert refused(lambda: whole_folder(tmp_path / "link", lambda f: (f / "a").write_text("x"), force=True)) == said
    assert list((tmp_path / "other").iterdir()) == []


def test_a_link_within_a_folder_is_replaced_by_the_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "page").mkdir()
    (tmp_path / "page" / "index.html").symlink_to("../file")
    whole_folder(tmp_path / "page", lambda f: (f / "index.html").write_text("page"), force=True)
    assert (tmp_path / "page" / "index.html").read_text() == "page"
    assert not (tmp_path / "page" / "index.html").is_symlink()
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("ending", [".part", ".part.log"])
def test_what_a_sweep_keeps_is_not_written_through_a_link(tmp_path: Path, ending: str) -> None:
    (tmp_path / "victim").write_text("mine")
    (tmp_path / f"rows.csv{ending}").symlink_to("victim")
    words = f"sweep openai-community/gpt2 --on h100-sxm --batch 1 --context 1..9 --force -o {tmp_path / 'rows.csv'}"
    with pytest.raises(SystemExit):
        main(words.split())
    assert (tmp_path / "victim").read_text() == "mine"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes of POSIX")
def test_a_pipe_is_written_to_and_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        main(["analyze", "openai-community/gpt2", "--context", "9", "--out", str(pipe), "--md", "--force"])
        assert os.read(reader, 2**16).startswith(b"openai-community/gpt2")
    finally:
        os.close(reader)
    assert pipe.is_fifo()


# -- several writers -----------------------------------------------------------------------------------------------
def test_of_several_writers_without_force_one_succeeds(tmp_path: Path) -> None:
    """All of them saw no file when they began; each has a name of its own for what it writes."""
    path, all_written = tmp_path / "one.txt", Barrier(8)

    def writer(number: int) -> str:
        def fill(beside: Path) -> None:
            beside.write_text(str(number))
            all_written.wait()

        try:
            whole_file(path, fill, force=False)
        except InputError as error:
            return error.expected
        return "written"

    with ThreadPoolExecutor(8) as pool:
        ended = list(pool.map(writer, range(8)))
    assert sorted(ended) == 7 * ["a new file, or --force to overwrite it"] + ["written"]
    assert path.read_text() == str(ended.index("written"))
    assert [p.name for p in tmp_path.iterdir()] == ["one.txt"]


def test_a_file_is_exclusive_without_hard_links_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*names: object) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    path = tmp_path / "one.txt"
    whole_file(path, lambda beside: beside.write_text("mine"), force=False)
    with pytest.raises(InputError, match="a new file"):
        whole_file(path, lambda beside: beside.write_text("other"), force=False)
    assert path.read_text() == "mine"
    assert [p.name for p in tmp_path.iterdir()] == ["one.txt"]


def test_a_picture_does_not_go_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "plain.txt").write_text("mine")
    (tmp_path / "link.svg").symlink_to("plain.txt")
    with pytest.raises(InputError, match="a name that is no link"):
        plot("openai-community/gpt2", kind="parameters", output=tmp_path / "link.svg", force=True)
    assert (tmp_path / "plain.txt").read_text() == "mine"


def test_a_device_needs_no_force() -> None:
    check_new(Path(os.devnull), force=False)
    whole_file(Path(os.devnull), lambda beside: beside.write_text("lost"), force=False)
    assert Path(os.devnull).is_char_device()


def test_a_folder_is_all_there_or_not_at_all(tmp_path: Path) -> None:
    folder = tmp_path / "page_files"

    def breaks(beside: Path) -> None:
        (beside / "half.csv").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        whole_folder(folder, breaks, force=False)
    assert list(tmp_path.iterdir()) == []
    whole_folder(folder, lambda beside: (beside / "a.csv").write_text("a"), force=False)
    with pytest.raises(InputError, match="an empty folder"):
        whole_folder(folder, lambda beside: (beside / "b.csv").write_text("b"), force=False)
    whole_folder(folder, lambda beside: (beside / "b.csv").write_text("b"), force=True)
    assert sorted(p.name for p in folder.iterdir()) == ["a.csv", "b.csv"]
    assert [p.name for p in tmp_path.iterdir()] == ["page_files"]
