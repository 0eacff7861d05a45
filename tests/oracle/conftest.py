"""Which types the oracle checks: all of them, or those that changed since a commit and a drawn tenth of the others."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Collection, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from roofline.model.trace.installed import real_code

if TYPE_CHECKING:
    from grimp import ImportGraph

if find_spec("transformers") is not None:
    real_code()  # before any test imports a part of it

ROOT = Path(__file__).parents[2]
PACKAGE, FAMILIES = "src/roofline/", "roofline.model.families."
TENTH = 10


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--since", metavar="COMMIT", help="check types that changed since COMMIT and a tenth of the rest")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects the tests of types that did not change and were not drawn; tests of no type always run."""
    since = config.getoption("--since")
    if not since:
        return
    from oracle import cases

    changed = changed_types(since, cases.TYPES)
    rest = sorted(set(cases.TYPES) - changed)
    drawn = random.Random(_output("git", "rev-parse", "HEAD")).sample(rest, -(-len(rest) // TENTH))
    passed_over = set(rest) - set(drawn)
    left_out = [item for item in items if _type_of(item) in passed_over]
    print(
        f"oracle: {len(changed)} types changed since {since[:12] or 'nobody knows'}, {len(drawn)} of {len(rest)} drawn"
    )
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in set(left_out)]


def changed_types(since: str, types: Collection[str]) -> set[str]:
    """Types whose family, or anything that it imports, changed since a commit; all where shared code or data did.

    A commit that this clone does not have means all.
    """
    try:
        files = _output("git", "diff", "--name-only", since, "--", "src/roofline", "tests/oracle").split()
    except subprocess.CalledProcessError:
        return set(types)
    if any(not name.startswith(PACKAGE) for name in files):
        return set(types)
    changed = {
        name.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in files
    }
    needed = {name: set(_needed(name)) for name in types}
    shared = set.intersection(*needed.values())
    data = any(not name.endswith(".py") and name.startswith(f"{PACKAGE}model/") for name in files)
    return set(types) if data or changed & shared else {name for name in types if changed & needed[name]}


def _needed(model_type: str) -> Iterator[str]:
    """The modules that decide a type's parameters and FLOPs, as their imports say."""
    from roofline.model.families.registry import FAMILIES as BUILDERS
    from roofline.model.families.wholes import SAME

    graph = _graph()
    counting = graph.find_upstream_modules("roofline.work.analysis") | {"roofline.work.analysis"}
    loading = graph.find_upstream_modules("roofline.model.load") | {"roofline.model.load"}
    yield from (name for name in counting | loading if not name.startswith(FAMILIES))
    yield from (f"{FAMILIES}{name}" for name in ("wholes", "wrappers", "refused", "registry"))
    build = BUILDERS.get(SAME.get(model_type, model_type))
    if build is not None:
        yield build.__module__
        yield from graph.find_upstream_modules(build.__module__)


@cache
def _graph() -> ImportGraph:
    import grimp

    return grimp.build_graph("roofline")


def _type_of(item: pytest.Item) -> str | None:
    callspec = getattr(item, "callspec", None)
    return None if callspec is None else callspec.params.get("model_type")


def _output(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
