"""Output files and folders: checked before any work starts, written whole or not at all, and never through a link."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from secrets import token_hex
from shutil import rmtree
from typing import BinaryIO, Literal

from roofline.declared.errors import InputError, nearest
from roofline.extras import check_frames

NEW_FILE = "a new file, or --force to overwrite it"


def check_ending(path: Path, endings: Sequence[str], field: str = "output") -> None:
    """Raise InputError for a file with another ending, and for Parquet and Arrow if Polars is missing.

    `field`: name of the setting in the error.
    """
    ending = path.suffix.lower()
    if ending not in endings:
        raise InputError(field, str(path), f"a file that ends in {', '.join(endings)}", nearest(ending, endings))
    if ending in (".parquet", ".arrow"):
        check_frames(field, str(path), "a file that ends in .csv")


def pours(path: Path) -> bool:
    """Whether a path is a stream that replaces nothing: a terminal, a null device, a pipe."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return stat.S_ISCHR(mode) or stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def check_no_link(path: Path, field: str) -> None:
    """Raise InputError for a link, unless it leads to a stream: to `/dev/stdout` as it is, or to a pipe."""
    if path.is_symlink() and not pours(path):
        raise InputError(field, str(path), "a name that is no link")


def check_new(path: Path, force: bool, field: str = "output") -> None:
    """Raise InputError for a folder, a link, and for an existing file without `force`."""
    check_no_link(path, field)
    if path.is_dir():
        raise InputError(field, str(path), "a file, not a folder")
    if path.exists() and not force and not pours(path):
        raise InputError(field, str(path), NEW_FILE)


def check_file(path: Path, force: bool, field: str = "output") -> None:
    """Raise InputError for a folder, an existing file without `force`, and a file that cannot be written."""
    check_new(path, force, field)
    if not path.parent.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise InputError(field, str(path), "a file in a folder that is there and can be written")


def check_folder(path: Path, force: bool) -> None:
    """Raise InputError for a folder that cannot be created or written, and for one with files in it without `force`."""
    check_no_link(path, "folder")
    there = path.exists()
    folder = path if there else path.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise InputError("folder", str(path), "a folder that can be written")
    if there and any(path.iterdir()) and not force:
        raise InputError("folder", str(path), "an empty folder, or --force to write into it")


def whole_file(path: Path, fill: Callable[[Path], object], field: str = "output", *, force: bool) -> None:
    """Write a file atomically: to a temporary file beside it, then renamed; a device or pipe is written directly.

    Without `force`, a file that appears in the meantime is kept: of several writers one succeeds. Raises InputError if
    the file cannot be written, and for a link.
    """
    device = path.exists() and not path.is_file()
    check_no_link(path, field)
    target = Path(os.path.realpath(path.parent), path.name)
    beside = path if device else _beside(target)
    try:
        fill(beside)
        if not device:
            _place(beside, target, force)
    except FileExistsError:
        raise InputError(field, str(path), NEW_FILE) from None
    except OSError as error:
        raise InputError(field, str(path), f"a file that can be written ({error.strerror})") from None
    finally:
        if not device:
            beside.unlink(missing_ok=True)


def _beside(target: Path) -> Path:
    """A new name in the same folder, unique to this process and thread."""
    return target.with_name(f".{target.stem[:32]}.{token_hex(6)}{target.suffix}")


def own_file(path: Path, mode: Literal["ab", "r+b", "w+b", "wb", "xb"]) -> BinaryIO:
    """Open a file of this run's own. Raises OSError for a link, which somebody may have put in its place."""
    return open(path, mode, opener=_no_link)


def _no_link(name: str, flags: int) -> int:
    return os.open(name, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)


def _place(beside: Path, target: Path, force: bool) -> None:
    """Give the temporary file its final name; without `force`, raise FileExistsError if that name is taken."""
    if force:
        beside.replace(target)
        return
    try:
        os.link(beside, target)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links: the name is taken first, by an empty file of ours
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        beside.replace(target)


def whole_folder(folder: Path, fill: Callable[[Path], object], force: bool, field: str = "folder") -> None:
    """Write all files of a folder or none: to a temporary folder beside it, then renamed.

    Into a folder that has files, they are placed one by one, each atomically, and only with `force`. Raises InputError
    if the folder cannot be written.
    """
    check_folder(folder, force)
    beside = _beside(folder)
    try:
        beside.mkdir()
        fill(beside)
        if folder.is_dir() and force:
            for file in sorted(beside.iterdir()):
                file.replace(folder / file.name)
        else:
            beside.replace(folder)
    except OSError as error:
        raise InputError(field, str(folder), f"a folder that can be written ({error.strerror})") from None
    finally:
        rmtree(beside, ignore_errors=True)
