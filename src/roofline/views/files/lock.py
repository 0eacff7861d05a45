"""One run at a time on a file: a lock beside it that dies with its owner."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from roofline.declared.errors import InputError

try:
    import fcntl
except ImportError:  # not of this system
    fcntl = None  # type: ignore[assignment]


class FileLock:
    """A lock file, which the system lets go of when its owner ends, however it does.

    A file that a dead run left is taken over. Where the system has no such locks, the file itself is the lock: only one
    run can create it, and that of a dead one is to be removed by hand.
    """

    def __init__(self, path: Path, field: str) -> None:
        self.path, self.field = path, field
        self.file: BinaryIO | None = None

    def take(self) -> None:
        """Raises InputError where another run has it, and where it cannot be written."""
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
        """The file, locked; None where its last owner removed it meanwhile."""
        if fcntl is None:
            return self.path.open("xb")
        file = self.path.open("ab")
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
        """Nobody has it, and the file is gone; nothing where it was not taken."""
        if self.file is not None:
            self.path.unlink(missing_ok=True)
            self.file.close()
            self.file = None
