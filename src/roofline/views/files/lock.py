"""A lock file that admits one run at a time and dies with its owner."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from roofline.declared.errors import InputError
from roofline.views.files.atomic import own_file

try:
    import fcntl
except ImportError:  # not of this system
    fcntl = None  # type: ignore[assignment]


class FileLock:
    """A lock file that the operating system releases when its owner exits, in whatever way.

    A file left by a dead run is taken over. On systems without such locks the file itself is the lock: only one run can
    create it, and a leftover file must be removed by hand.
    """

    def __init__(self, path: Path, field: str) -> None:
        self.path, self.field = path, field
        self.file: BinaryIO | None = None

    def take(self) -> None:
        """Take the lock. Raises InputError if another run holds it, and if the file cannot be written."""
        while self.file is None:
            try:
                self.file = self._opened()
            except (BlockingIOError, FileExistsError):
                remedy = "" if fcntl else f", or no {self.path.name} where it was killed"
                raise InputError(self.field, f"{self.path.name} of another run", f"one run at a time{remedy}") from None
            except OSError as error:
                reason = f"a file that can be written ({error.strerror})"
                raise InputError(self.field, str(self.path), reason) from None

    def _opened(self) -> BinaryIO | None:
        """The locked file; None if its last owner removed it in the meantime."""
        if fcntl is None:
            return own_file(self.path, "xb")
        file = own_file(self.path, "ab")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(file.fileno()), self.path.stat()):
                return file
        except FileNotFoundError:
            pass
        except OSError:
            file.close()
            raise
        file.close()
        return None

    def release(self) -> None:
        """Release the lock and remove its file; does nothing if it was not taken."""
        if self.file is not None:
            self.path.unlink(missing_ok=True)
            self.file.close()
            self.file = None
