"""What all tests share: signals as a terminal leaves them, and how many cases of long tests run by day."""

from __future__ import annotations

import gc
import os
import random
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

import folded

SHARED = ("watched", "shared_app", "page_server")
"""What a test's module imports that has a browser, or a server and its processes, for all its tests."""
ALL_ORACLE = "\npytestmark = pytest.mark.oracle\n"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--whole", action="store_true", help="run all cases of tests of which a few are drawn by day")


def pytest_configure(config: pytest.Config) -> None:
    os.environ["COLUMNS"] = "120"  # the width of a pipe, whatever window the tests run in
    if config.getoption("--whole"):
        os.environ[folded.WHOLE] = "1"
    # no deadline: how long a case takes hangs on what else runs
    settings.register_profile("tests", deadline=None, max_examples=folded.by_day(30, 100))
    settings.load_profile("tests")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves out files of oracle tests alone where these are not asked for: their thousands of cases take seconds."""
    if config.option.markexpr != "not oracle" or not collection_path.match("oracle/test_*.py"):
        return None
    return True if ALL_ORACLE in collection_path.read_text(encoding="utf-8") else None


def pytest_collection_finish() -> None:
    """Keeps the collector of cycles from walking over what was collected and imported, again and again."""
    gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keeps of each test that is marked `drawn(n)` n cases, always the same; `--whole` keeps all.

    Tests with a browser or a server come first: an idle worker takes over what stands last, and would start its own.
    """
    items.sort(key=lambda item: not any(hasattr(getattr(item, "module", None), name) for name in SHARED))
    if config.getoption("--whole"):
        return
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("drawn"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    left_out: set[pytest.Item] = set()
    for test, all_cases in cases.items():
        (number,) = all_cases[0].get_closest_marker("drawn").args  # type: ignore[union-attr]
        left_out |= set(all_cases) - set(random.Random(test).sample(all_cases, min(number, len(all_cases))))
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = [item for item in items if item not in left_out]


def pytest_sessionfinish() -> None:
    """Stops the page's servers, where a test started any."""
    if served := sys.modules.get("served_page"):
        served.stop_servers()


@pytest.fixture(scope="session")
def whole(request: pytest.FixtureRequest) -> bool:
    """Whether all cases are asked for: long draws are shorter by day, and what they show is less sharp."""
    return bool(request.config.getoption("--whole"))


@pytest.fixture(scope="session", autouse=True)
def signals_of_a_terminal() -> Iterator[None]:
    """Signals as a terminal leaves them: `nohup` and jobs in the background ignore some, and children inherit that."""
    ending = {signal.SIGTERM: signal.SIG_DFL, signal.SIGHUP: signal.SIG_DFL}
    defaults = {signal.SIGINT: signal.default_int_handler, **ending}
    before = {number: signal.signal(number, handler) for number, handler in defaults.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
