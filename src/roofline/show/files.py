"""Files that are asked for: checked before the work, written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from roofline.model.errors import InputError, nearest


def check_ending(path: Path, endings: Sequence[str], field: str = "output") -> None:
    """Raises InputError for a file whose ending is none of these; `field` is what the error is of."""
    ending = path.suffix.lower()
    if ending not in endings:
        raise InputError(field, str(path), f"a file that ends in {', '.join(endings)}", nearest(ending, endings))


def check_new(path: Path, force: bool, field: str = "output") -> None:
    """Raises InputError for a folder, and for a file that is there without `force`."""
    if path.is_dir():
        raise InputError(field, str(path), "a file, not a folder")
    if path.exists() and not force:
        raise InputError(field, str(path), "a new file, or --force to overwrite it")


def check_file(path: Path, force: bool, field: str = "output") -> None:
    """Raises InputError for a folder, a file that is there without `force`, and one that cannot be written."""
    check_new(path, force, field)
    if not path.parent.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise InputError(field, str(path), "a file in a folder that is there and can be written")


def check_folder(path: Path, force: bool) -> None:
    """Raises InputError for a folder that cannot be made or written, and for one with files in it without `force`."""
    there = path.exists()
    folder = path if there else path.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise InputError("folder", str(path), "a folder that can be written")
    if there and any(path.iterdir()) and not force:
        raise InputError("folder", str(path), "an empty folder, or --force to write into it")


def whole_file(path: Path, fill: Callable[[Path], object], field: str = "output") -> None:
    """All of the file or none of it: beside it first, then in its place; a device or a pipe is filled as it is.

    Raises InputError where it cannot be written.
    """
    device = path.exists() and not path.is_file()
    target = path if device else Path(os.path.realpath(path))
    beside = path if device else target.with_name(f".{target.stem}.{os.getpid()}{target.suffix}")
    try:
        fill(beside)
        if not device:
            beside.replace(target)
    except OSError as error:
        raise InputError(field, str(path), f"a file that can be written ({error.strerror})") from None
    finally:
        if not device:
            beside.unlink(missing_ok=True)
