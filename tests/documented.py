"""What a page of the documentation tells its reader to install and to run, and what it says comes out.

`python tests/documented.py` runs every command whose output a page shows, and puts what is printed now in the place of
each line that is printed no longer, and runs the notebook anew. `python tests/documented.py --walk VENV [EXTRA ...]`
runs the commands of all pages as a newcomer would, by the programs of a virtual environment that has the package with
these extras; with `--readme` in place of an extra it runs those of the README alone.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.abc import MetaPathFinder
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = sorted((ROOT / "docs").glob("*.md"))
NOTEBOOK = ROOT / "docs" / "notebook.ipynb"
FOR_DEVELOPERS = frozenset({"test", "docs", "oracle"})
"""Extras that no command may need: who only uses the package never installs them."""
COLUMNS = 120
"""Width of the terminal in which the pages' output was printed."""
RUNNER = ("pytest", "pytest-xdist", "hypothesis", "packaging")
"""What runs the tests cannot be hidden from them."""


@dataclass(frozen=True)
class Told:
    """A command or a snippet of a page, the extras that the install lines above it name, and the output it shows."""

    page: str
    text: str
    extras: frozenset[str]
    output: tuple[str, ...] = ()


COMMAND = re.compile(r"^\$ (?!.*\bpip install\b)(.+)\n((?:(?!\$ |```).*\n)*)", re.MULTILINE)
SNIPPET = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def commands(page: Path) -> list[Told]:
    """The lines of a page that a prompt stands before, those that install apart."""
    return _told(page, COMMAND)


def snippets(page: Path) -> list[Told]:
    """The Python of a page."""
    return _told(page, SNIPPET)


def _told(page: Path, what: re.Pattern[str]) -> list[Told]:
    text = page.read_text(encoding="utf-8")
    return [
        Told(page.name, m[1], installs(text[: m.start()]), tuple((*m.groups(), "")[1].splitlines()))
        for m in what.finditer(text)
    ]


def differences(shown: Sequence[str], printed: str) -> list[str]:
    """Lines that a page shows and that are not printed in this order.

    A line `…` stands for any lines, a line that ends in `…` for one that begins so. Trailing spaces do not count.
    """
    lines, after, missing = [line.rstrip() for line in printed.splitlines()], 0, []
    for line in shown:
        if line == "…":
            continue
        place = next((i for i in range(after, len(lines)) if _is(line, lines[i])), None)
        if place is None:
            missing.append(line)
        else:
            after = place + 1
    return missing


def _is(shown: str, printed: str) -> bool:
    return printed.startswith(shown[:-1].rstrip()) if shown.endswith("…") else shown.rstrip() == printed


def files(page: Path) -> dict[str, str]:
    """Files that a page shows and its commands read: TOML by its table's name, JSON by its title."""
    text = page.read_text(encoding="utf-8")
    tables = re.findall(r"^```toml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    titled = re.findall(r'^```json title="([\w.]+)"\n(.*?)^```', text, re.MULTILINE | re.DOTALL)
    return {f"{re.findall(r'[a-z-]+', toml)[0]}.toml": toml for toml in tables} | dict(titled)


def installs(text: str) -> frozenset[str]:
    """The extras that lines of code in a text install, those for developers apart."""
    lines = re.findall(r"^(?:    |\$ ).*\bpip install .*\[([\w,]+)\]", text, re.MULTILINE)
    return frozenset(extra for names in lines for extra in names.split(",")) - FOR_DEVELOPERS


@contextmanager
def installed(extras: Iterable[str]) -> Iterator[None]:
    """A Python that has the package with these extras: an import of what only others bring fails."""
    hidden = modules(extras)
    kept = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] in hidden}
    finder = _Hidden(hidden)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        sys.modules.update(kept)


class _Hidden(MetaPathFinder):
    """Says of some packages that they are not there."""

    def __init__(self, names: frozenset[str]) -> None:
        self.names = names

    def find_spec(self, name: str, path: Sequence[str] | None, target: object = None) -> None:
        """Fails for a hidden package, and leaves the others to Python."""
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def modules(extras: Iterable[str]) -> frozenset[str]:
    """Top-level modules in this Python that extras of the package brought, but not these nor the package itself."""
    return _brought_by_others(frozenset(extras))


@cache
def _brought_by_others(extras: frozenset[str]) -> frozenset[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    optional = project["optional-dependencies"]
    there = _needed((*project["dependencies"], *RUNNER, *(r for e in extras for r in optional[e])))
    away = _needed(r for needs in optional.values() for r in needs) - there
    return frozenset(
        module for module, names in _distributions().items() if {canonicalize_name(n) for n in names} <= away
    )


@cache
def _distributions() -> dict[str, list[str]]:
    return dict(packages_distributions())


def _needed(texts: Iterable[str]) -> frozenset[str]:
    """The distributions that requirements bring, those they need in turn included."""
    visited: set[tuple[str, frozenset[str]]] = set()
    left = [(Requirement(text), frozenset[str]()) for text in texts]
    while left:
        need, of = left.pop()
        key = canonicalize_name(need.name), frozenset(need.extras)
        if key in visited or not (need.marker is None or any(need.marker.evaluate({"extra": e}) for e in ("", *of))):
            continue
        visited.add(key)
        try:
            left += [(Requirement(text), key[1]) for text in requires(need.name) or ()]
        except PackageNotFoundError:
            continue
    return frozenset(name for name, _ in visited)


def refresh(page: Path) -> None:
    """Writes a page with the output that its commands have now: of each line that changed the closest one printed."""
    text = page.read_text(encoding="utf-8")
    for told in commands(page):
        if not told.output:
            continue
        words = [sys.executable, "-m", *shlex.split(told.text)]
        environment = {**os.environ, "COLUMNS": str(COLUMNS)}
        with TemporaryDirectory() as folder:
            for name, content in files(page).items():
                Path(folder, name).write_text(content, encoding="utf-8")
            printed = subprocess.run(
                words, cwd=folder, capture_output=True, text=True, check=False, env=environment
            ).stdout
        for line in differences(told.output, printed):
            tail = " …" if line.endswith("…") else ""
            lines = [p.rstrip()[: len(line) - len(tail)].rstrip() if tail else p.rstrip() for p in printed.splitlines()]
            closest = get_close_matches(line.removesuffix(tail), lines, 1, 0.3)
            print(f"{page.name}: {line}\n -> {closest[0] if closest else 'nothing like it'}")
            if closest:
                text = text.replace(f"\n{line}\n", f"\n{closest[0]}{tail}\n", 1)
    page.write_text(text, encoding="utf-8")


def walk(page: Path, programs: Path, extras: frozenset[str]) -> int:
    """Runs a page's commands that need exactly these extras, and prints each that fails or prints something else."""
    failures = 0
    with TemporaryDirectory() as folder:
        for name, text in files(page).items():
            Path(folder, name).write_text(text, encoding="utf-8")
        for told in (t for t in commands(page) if t.extras == extras):
            program, *words = shlex.split(told.text)
            environment = {**os.environ, "COLUMNS": str(COLUMNS)}
            done = subprocess.run(
                [programs / program, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False
            )
            wrong = differences(told.output, done.stdout)
            if done.returncode or wrong:
                failures += 1
                print(f"{page.name}: {told.text}", *done.stderr.splitlines()[-3:], *wrong, sep="\n  ", flush=True)
    return failures


def executed(notebook: Path) -> Any:
    """A notebook with the outputs that it has now. Raises CellExecutionError where a cell fails."""
    from nbclient import NotebookClient

    content = stored(notebook)
    NotebookClient(content, timeout=120, kernel_name="python3", record_timing=False).execute()
    content.metadata.pop("language_info", None)
    return content


def stored(notebook: Path) -> Any:
    """A notebook with the outputs that stand in its file."""
    import nbformat

    return nbformat.reads(notebook.read_text(encoding="utf-8"), as_version=4)  # type: ignore[no-untyped-call]


def texts(notebook: Any) -> list[str]:
    """What the outputs of a notebook say in plain text, output by output."""
    outputs = (o for cell in notebook.cells if cell.cell_type == "code" for o in cell.outputs)
    return [o.get("data", o).get("text/plain", o.get("text", "")) for o in outputs]


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--walk", venv, *names]:
            programs = Path(venv).resolve() / "bin"
            pages = (README,) if "--readme" in names else (README, *PAGES)
            sys.exit(min(1, sum(walk(page, programs, frozenset(names) - {"--readme"}) for page in pages)))
        case _:
            import nbformat

            for each in (README, *PAGES):
                refresh(each)
            NOTEBOOK.write_text(nbformat.writes(executed(NOTEBOOK)) + "\n", encoding="utf-8")  # type: ignore[no-untyped-call]
