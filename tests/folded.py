"""Many small cases in one test: every case runs, and each one that fails is named."""

from __future__ import annotations

import inspect
import os
import random
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any, TypeVar

import pytest

Test = TypeVar("Test", bound=Callable[..., None])
Some = TypeVar("Some")
LONGEST_NAME = 80
WHOLE = "TESTS_OF_ROOFLINE_WHOLE"
"""Set where all cases are asked for, by `--whole`; workers inherit it."""


class CaseError(AssertionError):
    """One case of a folded test failed; its cause is what the test raised."""


def folded(
    names: str | Sequence[str],
    cases: Iterable[Any],
    *,
    ids: Callable[[Any], Any] | Sequence[Any] | None = None,
    drawn: int | None = None,
) -> Any:
    """`pytest.mark.parametrize` without a test id for each case: for cases of milliseconds, of which there are many.

    A thousand ids cost more to collect, to schedule and to report than such cases cost to run. All cases run; then the
    test fails with an `ExceptionGroup` that has every failing case by name. Cases share the fixtures of the test. A
    case that skips is an error: what may be skipped has an id of its own. With `drawn` so many of the cases run by day,
    always the same, and all of them with `--whole`.
    """
    arguments = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    listed = [case if hasattr(case, "marks") else pytest.param(*_values(case, len(arguments))) for case in cases]
    assert listed, f"no cases of {names}"
    assert not any(case.marks for case in listed), "a folded case has no marks of its own"
    labels = [_label(index, case, ids) for index, case in enumerate(listed)]

    def decorate(test: Test) -> Test:
        @wraps(test)
        def every_case(**fixtures: Any) -> None:
            failures, named = [], list(zip(labels, listed, strict=True))
            if drawn is not None:
                named = random.Random(test.__name__).sample(named, by_day(min(drawn, len(named)), len(named)))
            for label, case in named:
                try:
                    test(**dict(zip(arguments, case.values, strict=True)), **fixtures)
                except (Exception, pytest.fail.Exception, pytest.skip.Exception) as error:
                    failure = CaseError(f"[{label}] {type(error).__name__}: {error}")
                    failure.__cause__ = error
                    failures.append(failure)
            if failures:
                raise ExceptionGroup(f"{len(failures)} of {len(named)} cases of {test.__name__} failed", failures)

        signature = inspect.signature(test)
        fixtures = [p for p in signature.parameters.values() if p.name not in arguments]
        every_case.__signature__ = signature.replace(parameters=fixtures)  # type: ignore[attr-defined]
        return every_case  # type: ignore[return-value]

    return decorate


def by_day(few: Some, every: Some) -> Some:
    """So few of what is drawn by day, and all of it with `--whole`."""
    return every if os.environ.get(WHOLE) else few


def _values(case: Any, number: int) -> Sequence[Any]:
    return (case,) if number == 1 else case


def _label(index: int, case: Any, ids: Callable[[Any], Any] | Sequence[Any] | None) -> str:
    """A case's name, as pytest would make it."""
    if case.id is not None:
        return str(case.id)
    if ids is not None and not callable(ids):
        return str(ids[index])
    words = [(ids(value) if callable(ids) else None) for value in case.values]
    texts = [str(word) if word is not None else repr(value) for word, value in zip(words, case.values, strict=True)]
    return ", ".join(text if len(text) <= LONGEST_NAME else f"{text[:LONGEST_NAME]}…" for text in texts)
