"""Runs a script against another copy of the package, and records what it read: tables, data files and code.

    python recorded.py LOG TREE FOLDER SCRIPT ARGUMENT ...

TREE has `src` and `benchmarks`, FOLDER the measurements; the LOG is a JSON list of paths that begin with `tree/` or
`tables/`. Part of fit_all.py.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
from pathlib import Path


def main() -> None:
    """Run the script; write the log even where it fails."""
    log, tree, folder, script, *arguments = sys.argv[1:]
    places = {"tree": Path(tree).resolve(), "tables": Path(folder).resolve()}
    seen: set[str] = set()

    def note(path: object) -> None:
        if not isinstance(path, (str, os.PathLike)):
            return
        place = Path(os.path.abspath(os.fspath(path)))
        for name, root in places.items():
            if place.is_relative_to(root) and place.suffix in (".csv", ".toml", ".py", ".json"):
                seen.add(f"{name}/{place.relative_to(root)}")

    def hook(event: str, values: tuple[object, ...]) -> None:
        if event == "open" and isinstance(values[0], str):
            note(values[0])

    sys.path[:0] = [str(places["tree"] / "benchmarks"), str(places["tree"] / "src")]
    sys.addaudithook(hook)
    _polars(note)
    sys.argv = [script, *arguments]
    try:
        runpy.run_path(script, run_name="__main__")
    finally:
        for module in list(sys.modules.values()):
            note(getattr(module, "__file__", None))
        Path(log).write_text(json.dumps(sorted(seen), indent=0), encoding="utf-8")


def _polars(note: object) -> None:
    """Polars opens files by itself, which no hook of Python sees."""
    import polars as pl

    plain = pl.read_csv

    def read_csv(source: object, *values: object, **named: object) -> pl.DataFrame:
        note(source)  # type: ignore[operator]
        return plain(source, *values, **named)  # type: ignore[arg-type]

    pl.read_csv = read_csv  # type: ignore[assignment]


if __name__ == "__main__":
    main()
