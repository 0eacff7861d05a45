"""Files that are asked for: what is refused, and that all of it is written or nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from roofline.cli.main import main
from roofline.model.errors import InputError
from roofline.show.files import check_ending, check_file, check_folder, check_new, whole_file


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
    assert refused(lambda: check_file(tmp_path, True, "--output")) == ("--output", "a file, not a folder")
    assert refused(lambda: check_file(lost, True)) == ("output", "a file in a folder that is there and can be written")
    assert refused(lambda: check_ending(there, (".md", ".csv"))) == ("output", "a file that ends in .md, .csv")


def test_a_file_that_breaks_off_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "there.txt"
    path.write_text("mine")

    def breaks(beside: Path) -> None:
        beside.write_text("half")
        raise OSError(28, "No space left on device")

    said = ("--output", "a file that can be written (No space left on device)")
    assert refused(lambda: whole_file(path, breaks, "--output")) == said
    assert path.read_text() == "mine"
    assert [p.name for p in tmp_path.iterdir()] == ["there.txt"]


def test_what_a_link_points_to_is_written(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("file")
    whole_file(tmp_path / "link", lambda beside: beside.write_text("new"))
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "new"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes of POSIX")
def test_a_pipe_is_written_to_and_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        main(["analyze", "openai-community/gpt2", "--decode", "9", "--output", str(pipe), "--md", "--force"])
        assert os.read(reader, 2**16).startswith(b"openai-community/gpt2")
    finally:
        os.close(reader)
    assert pipe.is_fifo()
