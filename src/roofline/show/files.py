"""Files that are asked for: checked before the work, written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from roofline.model.errors import InputError, nearest


def check_ending(path: Path, endings: Sequence[str]) -> None:
    """Raises InputError for a file whose ending is none of these."""
    ending = path.suffix.lower()
    if ending not in endings:
        raise InputError("output", str(path), f"a file that ends in {', '.join(endings)}", nearest(ending, endings))


def check_file(path: Path, force: bool) -> None:
    """Raises InputError for a folder, a file that is there without `force`, and one that cannot be written."""
    if path.is_dir():
        raise InputError("output", str(path), "a file, not a folder")
    if path.exists() and not force:
        raise InputError("output", str(path), "a new file, or --force to overwrite it")
    if not path.parent.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise InputError("output", str(path), "a file in a folder that is there and can be written")


def check_folder(path: Path, force: bool) -> None:
    """Raises InputError for a folder that cannot be made or written, and for one with files in it without `force`."""
    there = path.exists()
    if (there and not path.is_dir()) or not os.access(path if there else path.parent, os.W_OK):
        raise InputError("folder", str(path), "a folder that can be written")
    if there and any(path.iterdir()) and not force:
        raise InputError("folder", str(path), "an empty folder, or --force to write into it")


def whole_file(path: Path, fill: Callable[[Path], object]) -> None:
    """All of the file or none of it: beside it first, then in its place."""
    beside = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        fill(beside)
        beside.replace(path)
    except OSError as error:
        raise InputError("output", str(path), f"a file that can be written ({error.strerror})") from None
    finally:
        beside.unlink(missing_ok=True)
