"""Default options from the environment, a project's `roofline.toml` and a user's `roofline.toml`.

Precedence: the command line, then `ROOFLINE_<OPTION>`, then the nearest `roofline.toml` in the working folder or a
parent, then `$XDG_CONFIG_HOME/roofline/roofline.toml` (`~/.config` if that variable is not set). Top-level keys of a
file apply to every command with such an option; a table named after a command applies to that command only. Applied
defaults are reported on stderr, as they can change every number. Options that write files or run code cannot be set.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from roofline.declared.errors import InputError, nearest
from roofline.declared.question import question_settings
from roofline.declared.sanitize import WIDEST_LINE, inert_line, shortened
from roofline.doors.cli.table import COMMANDS
from roofline.model.sources.untrusted import LARGEST_MACHINE, parse_toml, printable, read_text

if TYPE_CHECKING:
    from cyclopts import App
    from cyclopts.argument import ArgumentCollection

FILE_NAME = "roofline.toml"
PREFIX = "ROOFLINE_"
FURTHER = ("counting", "traffic", "slo", "theme", "dpi", "rows")
"""Options that may be set although they are not settings of a declared question."""


@cache
def settable() -> tuple[str, ...]:
    """Options that may be set: every declared setting except files and draft models, and those in `FURTHER`.

    None of them writes a file, contacts another machine or runs code. Called only when a default is set, as it imports
    all questions.
    """
    from roofline.views.reference.settings import questions

    declared = {
        name.replace("_", "-"): None
        for _, question in questions()
        for name, setting in question_settings(question).items()
        if setting.kind.names not in ("file", "model") and name not in ("op", "within")
    }
    return (*declared, *(name for name in FURTHER if name not in declared))


INSTEAD: tuple[frozenset[str], ...] = (
    frozenset({"layout", "tp", "pp", "dp", "ep"}), frozenset({"concurrency", "rate"}),
    frozenset({"cached", "new", "input", "context"}),
)  # fmt: skip
"""Groups of alternatives: an option from a source of higher precedence overrides the others of its group."""
MOST_VALUES = 64
_DEFAULTED: ContextVar[frozenset[str]] = ContextVar("_DEFAULTED", default=frozenset())


@dataclass(frozen=True)
class Defaults:
    """Defaults from one source: its display name, and the values of each option as command-line words."""

    source: str
    values: Mapping[str, tuple[str, ...]]


def is_default(name: str) -> bool:
    """Whether an option of the running command comes from a file or the environment, and may have no effect."""
    return name in _DEFAULTED.get()


def apply_defaults(app: App, commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
    """Fill in options missing from the command line and report them on stderr. Used as Cyclopts' `config` hook.

    Raises InputError for an unreadable file and for unknown keys or invalid values.
    """
    from cyclopts import Token

    del app
    by_name = {name.removeprefix("--"): a for a in arguments for name in a.names if name.startswith("--")}
    known: set[str] = set()
    for source in sources(commands[0] if commands else ""):
        given = {name for name, argument in by_name.items() if argument.has_tokens}
        used: list[str] = []
        for name, words in source.values.items():
            if name not in by_name or given & _rivals(name):
                continue
            several = by_name[name].token_count()[1]
            parts = [part for word in words for part in word.split()] if several else list(words)
            if len(parts) != 1 and not several:
                raise InputError(f"{source.source}, {name}", words, "one value")
            for index, part in enumerate(parts):
                by_name[name].append(Token(keyword=f"--{name}", value=part, source=source.source, index=index))
            used.append(name)
        if used:
            known.update(used)
            _tell(source, used)
    _DEFAULTED.set(frozenset(known))


def _rivals(name: str) -> set[str]:
    """An option and the alternatives it overrides."""
    return {name}.union(*(group for group in INSTEAD if name in group and name not in ("input", "context"))) | (
        {"cached", "new"} if name in ("input", "context") else set()
    )


def _tell(source: Defaults, names: Iterable[str]) -> None:
    pairs = ", ".join(f"--{name} {' '.join(source.values[name])}" for name in names)
    print(shortened(inert_line(f"{source.source} sets {pairs}"), WIDEST_LINE), file=sys.stderr)


# -- sources of defaults -------------------------------------------------------------------------------------------
def sources(command: str) -> Iterator[Defaults]:
    """Defaults of a command from the environment, project file and user file, highest precedence first."""
    for variable in sorted(v for v in os.environ if v.startswith(PREFIX) and os.environ[v]):
        name = variable.removeprefix(PREFIX).lower().replace("_", "-")
        if name in settable():
            yield Defaults(variable, {name: (os.environ[variable],)})
        else:
            near = ", ".join(PREFIX + n.upper().replace("-", "_") for n in nearest(name, settable(), 1))
            print(inert_line(f"{variable} sets nothing{near and f'; nearest: {near}'}"), file=sys.stderr)
    for path in (_project_file(), _user_file()):
        if path is not None:
            shown = _shown(path)
            yield Defaults(shown, _settings(path, shown, command))


def _project_file() -> Path | None:
    """Path of the nearest `roofline.toml`; world-writable parent folders such as `/tmp` are skipped."""
    try:
        start = Path.cwd()
    except OSError:
        return None
    for folder in (start, *start.parents):
        path = folder / FILE_NAME
        try:
            shared = folder != start and folder.stat().st_mode & stat.S_IWOTH
        except OSError:
            continue
        if not shared and os.path.lexists(path):
            return path
    return None


def _user_file() -> Path | None:
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    path = Path(home) / "roofline" / FILE_NAME
    return path if path.is_absolute() and os.path.lexists(path) else None


def _shown(path: Path) -> str:
    """The shortest form of a path: absolute, relative to the working folder, or relative to `~`."""
    home = os.path.expanduser("~")
    tilde = [f"~{str(path)[len(home) :]}"] if str(path).startswith(f"{home}{os.sep}") else []
    return printable(min(str(path), os.path.relpath(path), *tilde, key=len))


def _settings(path: Path, field: str, command: str) -> dict[str, tuple[str, ...]]:
    """Defaults in a file for a command; its table overrides top-level keys. `field`: name of the file in errors."""
    tables = parse_toml(read_text(path, LARGEST_MACHINE, field), field)
    values: dict[str, tuple[str, ...]] = {}
    for key, value in tables.items():
        if not isinstance(value, dict):
            name = _option(field, key)
            values[name] = _words(f"{field}, {key}", value)
        elif key not in COMMANDS:
            raise InputError(field, f"[{key}]", "a table of a command's name", nearest(key, COMMANDS))
    own = tables.get(command, {})
    names = [_option(f"{field} [{command}]", key) for key in own]
    return values | {name: _words(f"{field}, {name}", value) for name, value in zip(names, own.values(), strict=True)}


def _option(field: str, key: str) -> str:
    name = key.replace("_", "-")
    if name not in settable():
        raise InputError(field, key, "an option that may be set", nearest(name, settable()))
    return name


def _words(field: str, value: object) -> tuple[str, ...]:
    """Convert a string, a number or a list of these to command-line words. Raises InputError for anything else."""
    parts = value if isinstance(value, list) else [value]
    if not parts or len(parts) > MOST_VALUES or any(isinstance(p, bool) or not isinstance(p, (str, int, float))
                                                    for p in parts):  # fmt: skip
        raise InputError(field, value, "a text, a number or a list of them")
    return tuple(str(part) for part in parts)
