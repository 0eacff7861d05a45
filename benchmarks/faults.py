"""Whether the tests of a commit find the faults that the tests of an earlier commit found.

    python benchmarks/faults.py BEFORE AFTER [--seed 30] [--faults 300] [--out build/faults] [--jobs 2] [--seconds 40]

Draws faults of one expression (an operator, a constant, a dropped term, a negated condition) in statements of BEFORE
that compute and that AFTER still has: the same text in a function of the same name, in whatever module. A working tree
of each commit holds all faults, each behind the number of the one that is on. The whole test suite runs once with none
on, and records which tests run which of these statements. Then every fault is on in turn, in a process forked after
collection, and the tests that run its statement run until one fails or hangs. Such a test has to pass with no fault.

A fault that no test of those `--seconds` allows fails on is a survivor, and so is one that no test covers. The table
of BEFORE stays in `--out`, one folder for each commit: another AFTER reuses it, and a stopped run goes on. Exits with
1 where a fault found before is not found after. The tests run in the environment of this interpreter.
"""

from __future__ import annotations

import argparse
import ast
import copy
import gc
import json
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

PACKAGES = (
    "inference", "serving", "training", "work", "layout", "model", "hardware", "kernels", "engines", "whatif",
    "estimates", "machine", "simulation", "explore",
)  # fmt: skip
"""Packages that compute, those of commits before the rooms moved in the second line."""
WORDS = ("errors", "names", "spelling", "text", "words")
"""Modules of words in them."""
NUMBER, RECORD, JOBS, DURATIONS = (f"DRAWN_FAULT{name}" for name in ("", "_RECORD", "_JOBS", "_DURATIONS"))
"""Environment variables: the fault that is on; where covering tests, what to run and times of tests are written."""
MOST_BYTES = 3 << 30
"""Memory of a process at which its test counts as hung."""
FIRST, ALL = "first.jsonl", "all.jsonl"
"""Results of the tests that found a fault in the other tree, and of all tests that cover it."""
NONE = -1
"""The number of no fault."""
CONTROLS = 10
"""Tests that run without a fault in one child."""
THREADS_OF_THEIR_OWN = ("tests/serving/simulate/test_traces.py", "tests/simulation/test_traces.py")
"""Files that start threads when they are collected (of Polars), which a forked child lacks and would wait for."""
SLOW_IMPORTS = ("matplotlib.pyplot", "polars", "scipy.optimize", "scipy.special", "sympy")
"""What children would import one by one."""
PLUGIN = "roofline_faults_plugin"
SWITCH = f'''"""Which fault is on, and which tests run which statements."""
import os

number = int(os.environ.get("{NUMBER}", "-1"))
_record = os.environ.get("{RECORD}")
_pairs = set()


def at(fault):
    """Whether this fault is on."""
    if _record is not None:
        pair = fault, os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
        if pair not in _pairs:
            _pairs.add(pair)
            with open(_record, "a") as file:
                file.write(f"{{pair[0]}}\\t{{pair[1]}}\\n")
    return fault == number
'''
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Mod: ast.FloorDiv,
    ast.FloorDiv: ast.Mod, ast.Pow: ast.Mult,
}  # fmt: skip
COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
OPPOSITES = {"min": "max", "max": "min", "any": "all", "all": "any"}
OPPOSITE_METHODS = {"minimum": "maximum", "maximum": "minimum", "ceil": "floor", "floor": "ceil", **OPPOSITES}
OF_SEVERAL = ("min", "max", "least", "most")


# -- faults of a statement -----------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Statement:
    """A statement of a function, or what is evaluated at the head of one: its place, and its text without layout."""

    module: str
    function: str
    text: str
    occurrence: int
    node: ast.stmt = field(compare=False, repr=False)

    @property
    def key(self) -> tuple[str, str, int]:
        return self.function, self.text, self.occurrence

    @cached_property
    def changes(self) -> list[Change]:
        """Changes of one expression, always in the same order."""
        whole = evaluated(self.node)
        assert whole is not None
        some = list(changes(whole))
        match self.node:
            case ast.If() | ast.While():
                some.append(Change("negated", whole, f"not ({ast.unparse(whole)})"))
            case ast.AugAssign(op=ast.Add() | ast.Sub()) if not is_words(whole):
                some.append(Change("operator", whole, f"-({ast.unparse(whole)})"))
        return some


@dataclass(frozen=True)
class Change:
    """An expression, and what stands there instead."""

    kind: str
    node: ast.expr = field(repr=False)
    instead: str

    @property
    def text(self) -> str:
        return f"{ast.unparse(self.node)} → {self.instead}"


@dataclass(frozen=True)
class Fault:
    """A change of a statement; `number`: its place in the draw, which does not depend on AFTER."""

    number: int
    before: Statement
    after: Statement | None
    site: int

    def change(self, statement: Statement) -> Change:
        return statement.changes[self.site]


def changes(root: ast.expr) -> Iterator[Change]:
    """Faults of an expression, those left out that change nothing: the factor one, the term nought, words."""
    for node in expressions(root):
        match node:
            case ast.BinOp(left, op, right) if type(op) in OPERATORS and not (is_words(left) or is_words(right)):
                neutral = isinstance(right, ast.Constant) and right.value == int(not isinstance(op, (ast.Add, ast.Sub)))
                if not neutral:
                    yield _changed("operator", node, op=OPERATORS[type(op)]())
                    if not isinstance(op, (ast.Mod, ast.Pow)):
                        yield Change("dropped", node, ast.unparse(left))
                    if isinstance(op, (ast.Add, ast.Mult)):
                        yield Change("dropped", node, ast.unparse(right))
            case ast.Compare(ops=[first, *others]) if type(first) in COMPARISONS:
                yield _changed("operator", node, ops=[COMPARISONS[type(first)](), *others])
            case ast.BoolOp(op, values):
                yield _changed("operator", node, op=ast.Or() if isinstance(op, ast.And) else ast.And())
                for left_out in range(len(values)):
                    rest = values[:left_out] + values[left_out + 1 :]
                    whole = rest[0] if len(rest) == 1 else ast.BoolOp(op, rest)
                    yield Change("dropped", node, ast.unparse(whole))
            case ast.UnaryOp(op, operand) if isinstance(op, (ast.Not, ast.USub, ast.Invert)):
                yield Change("negated", node, ast.unparse(operand))
            case ast.Call(func=ast.Name(id=name), args=values) if name in {*OPPOSITES, *OF_SEVERAL}:
                if name in OPPOSITES:
                    yield _changed("operator", node, func=ast.Name(OPPOSITES[name]))
                if len(values) == 2 and not node.keywords:
                    yield from (Change("dropped", node, ast.unparse(value)) for value in reversed(values))
            case ast.Call(func=ast.Attribute(value=ast.Name() as value, attr=name)) if name in OPPOSITE_METHODS:
                yield _changed("operator", node, func=ast.Attribute(value, OPPOSITE_METHODS[name]))
            case ast.Constant(value=bool(value)):
                yield Change("constant", node, repr(not value))
            case ast.Constant(value=int() | float() as value):
                yield Change("constant", node, repr(value + 1))
                if value:
                    yield Change("constant", node, repr(value * 2))
            case ast.IfExp(test=test):
                yield _changed("negated", node, test=ast.UnaryOp(ast.Not(), test))


def expressions(node: ast.AST) -> Iterator[ast.expr]:
    """An expression and those in it, but not what is printed, nor checks of two lengths."""
    if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Call) and is_message(node.func)):
        return
    if isinstance(node, ast.keyword) and node.arg == "strict":
        return
    if isinstance(node, ast.expr):
        yield node
    for child in ast.iter_child_nodes(node):
        yield from expressions(child)


def is_message(function: ast.expr) -> bool:
    """Whether a call makes an error, a warning or words."""
    name = ast.unparse(function).rpartition(".")[2]
    return name.endswith(("Error", "Warning")) or name in ("warn", "cast", "TypeVar", "format", "join", "field")


def is_words(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr | ast.List | ast.Tuple) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def _changed(kind: str, node: ast.expr, **parts: Any) -> Change:
    other = copy.copy(node)
    for name, part in parts.items():
        setattr(other, name, part)
    return Change(kind, node, ast.unparse(other))


# -- statements of a tree ------------------------------------------------------------------------------------------
def statements(repository: Path, commit: str, whole: bool) -> list[Statement]:
    """Statements of a commit's functions, in the order of their places: of all modules, or of those that compute."""
    collected = []
    for name in _git(repository, "ls-tree", "-r", "--name-only", commit, "src/roofline").splitlines():
        parts = Path(name).relative_to("src/roofline").with_suffix("").parts
        if not name.endswith(".py"):
            continue
        if whole or (parts[0] in PACKAGES and not set(parts) & set(WORDS)):
            counts: Counter[tuple[str, str]] = Counter()
            for function, node in in_functions(ast.parse(_git(repository, "show", f"{commit}:{name}")), ""):
                text = head(node)
                collected.append(Statement(".".join(parts), function, text, counts[function, text], node))
                counts[function, text] += 1
    return collected


def in_functions(node: ast.AST, prefix: str, inside: bool = False) -> Iterator[tuple[str, ast.stmt]]:
    """Statements with the name of their function; functions that return words are left out."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.ClassDef(name=name):
                yield from in_functions(child, f"{prefix}{name}.")
            case ast.FunctionDef(name=name, returns=returns) | ast.AsyncFunctionDef(name=name, returns=returns):
                words = returns is not None and "str" in ast.unparse(returns)
                if not words and not name.startswith(("__repr", "__str", "__hash", "__getattr")):
                    yield from in_functions(ast.Module(child.body, []), f"{prefix}{name}.", True)
            case ast.stmt() | ast.ExceptHandler() | ast.match_case():
                if inside and isinstance(child, ast.stmt) and evaluated(child) is not None:
                    yield prefix.rstrip("."), child
                yield from in_functions(child, prefix, inside)


def evaluated(node: ast.stmt) -> ast.expr | None:
    """What a statement evaluates, or one with others in it at its head; of asserts and errors nothing."""
    match node:
        case ast.Expr(value=ast.Constant()):
            return None
        case ast.Assign(value=value) | ast.AugAssign(value=value) | ast.Expr(value=value):
            return value
        case ast.AnnAssign(value=value) | ast.Return(value=value):
            return value
        case ast.If(test=value) | ast.While(test=value) | ast.For(iter=value):
            return value
    return None


def head(node: ast.stmt) -> str:
    """The text of a statement, without those in it."""
    match node:
        case ast.If(test=test):
            return f"if {ast.unparse(test)}"
        case ast.While(test=test):
            return f"while {ast.unparse(test)}"
        case ast.For(target=target, iter=values):
            return f"for {ast.unparse(target)} in {ast.unparse(values)}"
    return ast.unparse(node)


def drawn(before: list[Statement], after: list[Statement], seed: int) -> list[Fault]:
    """A fault of each statement, in the order of the draw."""
    places: dict[tuple[str, str, int], list[Statement]] = defaultdict(list)
    for statement in after:
        places[statement.key].append(statement)
    chance = random.Random(seed)
    order = [statement for statement in before if statement.changes]
    chance.shuffle(order)
    faults = []
    for number, statement in enumerate(order):
        kind = chance.choice(sorted({change.kind for change in statement.changes}))
        site = chance.choice([i for i, change in enumerate(statement.changes) if change.kind == kind])
        faults.append(Fault(number, statement, same_place(statement, places[statement.key]), site))
    return faults


def same_place(statement: Statement, others: list[Statement]) -> Statement | None:
    """Where the statement stands now: in the same module, or one of its last name, or the only one that has it."""
    for near in (statement.module, statement.module.rpartition(".")[2]):
        for other in others:
            if near in (other.module, other.module.rpartition(".")[2]):
                return other
    return others[0] if len(others) == 1 else None


# -- a tree that holds faults --------------------------------------------------------------------------------------
def place_faults(tree: Path, places: list[tuple[int, Statement, Change]]) -> None:
    """Writes each change beside what it changes, behind its number."""
    package = tree / "src/roofline"
    (package / "_faults.py").write_text(SWITCH, encoding="utf-8")
    modules: dict[str, list[tuple[int, Change]]] = defaultdict(list)
    for number, statement, change in places:
        modules[statement.module].append((number, change))
    for module, inside in modules.items():
        path = package / (module.replace(".", "/") + ".py")
        lines = path.read_bytes().splitlines(keepends=True)
        starts = [0]
        for line in lines:
            starts.append(starts[-1] + len(line))
        content = b"".join(lines)

        def span(node: ast.expr, starts: list[int] = starts) -> tuple[int, int]:
            assert node.end_lineno is not None
            assert node.end_col_offset is not None
            return starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset

        for number, change in sorted(inside, key=lambda pair: span(pair[1].node), reverse=True):
            first, last = span(change.node)
            one = f"(({change.instead}) if _faults_at({number}) else (".encode()
            content = content[:first] + one + content[first:last] + b"))" + content[last:]
        first_import = next(
            node
            for node in ast.parse(content).body
            if not (isinstance(node, ast.Expr) or (isinstance(node, ast.ImportFrom) and node.module == "__future__"))
        )
        split = content.splitlines(keepends=True)
        split.insert(first_import.lineno - 1, b"from roofline._faults import at as _faults_at\n")
        content = b"".join(split)
        ast.parse(content)
        path.write_bytes(content)


@dataclass
class Tree:
    """A commit's working tree with its faults, and what was measured on it, which goes when the faults change."""

    commit: str
    folder: Path
    repository: Path
    places: list[tuple[int, Statement, Change]]

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        held = self.folder / "faults.json"
        content = json.dumps([(n, s.module, s.function, s.text, s.occurrence, c.text) for n, s, c in self.places])
        if not held.exists() or held.read_text(encoding="utf-8") != content:
            self.remove()
            for name in (FIRST, ALL, "coverage.tsv", "durations.json"):
                (self.folder / name).unlink(missing_ok=True)
            held.write_text(content, encoding="utf-8")

    @property
    def source(self) -> Path:
        return self.folder / "tree"

    def make(self) -> None:
        """The working tree, where it is not there from a run that was stopped."""
        if not (self.source / "src/roofline/_faults.py").exists():
            self.remove()
            _git(self.repository, "worktree", "add", "--force", "--detach", str(self.source), self.commit)
            place_faults(self.source, self.places)

    def remove(self) -> None:
        if self.source.exists():
            _git(self.repository, "worktree", "remove", "--force", "--force", str(self.source))

    def environment(self, **variables: str) -> dict[str, str]:
        plugin = self.folder / "plugin"
        plugin.mkdir(exist_ok=True)
        shutil.copy(__file__, plugin / f"{PLUGIN}.py")
        return {**os.environ, "PYTHONPATH": f"{self.source / 'src'}:{plugin}", **variables}

    def cover(self, jobs: int) -> None:
        """Runs the suite once, and writes which tests run which statements, and how long each test takes."""
        if (self.folder / "durations.json").exists():
            return
        self.make()
        coverage = self.folder / "coverage.tsv"
        coverage.unlink(missing_ok=True)
        variables = {RECORD: str(coverage), DURATIONS: str(self.folder / "durations.json")}
        command = [sys.executable, "-m", "pytest", "-q", "-n", str(jobs), "--dist", "worksteal", "-p", PLUGIN]
        with (self.folder / "coverage.log").open("w") as log:
            subprocess.run(
                command, cwd=self.source, env=self.environment(**variables), stdout=log, stderr=log, check=False
            )

    @cached_property
    def durations(self) -> dict[str, float]:
        """Seconds of each test."""
        content: dict[str, float] = json.loads((self.folder / "durations.json").read_text(encoding="utf-8"))
        return content

    @cached_property
    def covering(self) -> dict[int, list[str]]:
        """The tests that run the statement of each fault."""
        tests: dict[int, set[str]] = defaultdict(set)
        if not (self.folder / "durations.json").exists():
            return {}
        for line in (self.folder / "coverage.tsv").read_text(encoding="utf-8").splitlines():
            number, _, test = line.partition("\t")
            if test in self.durations:
                tests[int(number)].add(test)
        return {number: sorted(some) for number, some in tests.items()}

    def outcomes(self) -> dict[int, dict[str, Any]]:
        """What came of each fault that has run; of a first look only what it found."""
        rows: dict[int, dict[str, Any]] = {}
        for stage in (FIRST, ALL):
            path = self.folder / stage
            lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
            told = [json.loads(line) for line in lines]
            rows |= {row["fault"]: row for row in told if stage == ALL or row["outcome"] != "survived"}
        return rows

    def run(self, tests: dict[int, list[str]], durations: dict[str, float], stage: str, jobs: int) -> None:
        """Has each fault on in turn while its tests run; results are written as they come."""
        done, results = self.outcomes(), self.folder / stage
        work = [{"fault": number, "tests": some} for number, some in tests.items() if number not in done]
        if not work:
            return
        self.make()
        told = {"work": work, "jobs": jobs, "results": str(results), "seconds": durations}
        (self.folder / "jobs.json").write_text(json.dumps(told), encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-q", "-p", PLUGIN, "-p", "no:cacheprovider", "--hypothesis-seed=0"]
        command += [f"--ignore={path}" for path in THREADS_OF_THEIR_OWN]
        environment = self.environment(**{JOBS: str(self.folder / "jobs.json")})
        with (self.folder / "run.log").open("w") as log:
            subprocess.run(command, cwd=self.source, env=environment, stdout=log, stderr=log, check=False)
        for number, some in tests.items():
            own = [test for test in some if test.partition("::")[0] in THREADS_OF_THEIR_OWN]
            if own and number not in done and not self.outcomes().get(number, {}).get("by"):
                failing = self.failing(number, own)
                if failing and not self.failing(NONE, [failing]):
                    with results.open("a") as file:
                        file.write(json.dumps({"fault": number, "outcome": "failed", "by": failing}) + "\n")

    def failing(self, number: int, tests: list[str]) -> str:
        """The first of these tests that fails with this fault, in a process of its own, or nothing."""
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-rf", "-p", "no:cacheprovider", *tests]
        environment = self.environment(**{NUMBER: str(number)})
        run = subprocess.run(command, cwd=self.source, env=environment, capture_output=True, text=True, check=False)
        lines = [line for line in run.stdout.splitlines() if line.startswith("FAILED ")]
        return lines[0].removeprefix("FAILED ").partition(" - ")[0] if lines else ""

    def covering_first(self, number: int, statement: Statement, first: str, seconds: float) -> list[str]:
        """The tests that cover a fault, as many as time allows: `first`, then quick ones before slow ones, those of
        the module's own file before others."""
        module = statement.module.rpartition(".")[2]
        package = statement.module.partition(".")[0]

        def rank(test: str) -> tuple[bool, int, int, str, float]:
            path = test.partition("::")[0]
            near = 0 if module in path else 1 if f"/{package}/" in path else 2
            time_of = self.durations[test]
            slow = sum(time_of > limit for limit in (0.2, 0.6, 2, 6, 20))
            return test != first, slow, near, path, time_of

        chosen, total = [], 0.0
        for test in sorted(self.covering.get(number, []), key=rank):
            total += self.durations[test] + 0.01
            if total > seconds and chosen:
                break
            chosen.append(test)
        return chosen


def _git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True, text=True).stdout.strip()


# -- inside pytest: the plugin -------------------------------------------------------------------------------------
_SECONDS: dict[str, float] = defaultdict(float)
_LAST: list[str] = []
"""Tests that failed since a fork."""


def pytest_runtest_logreport(report: Any) -> None:
    """Notes how long a test takes, and whether it fails."""
    _SECONDS[report.nodeid] += report.duration
    if report.failed:
        _LAST.append(report.nodeid)


def pytest_sessionfinish(session: Any) -> None:
    """Writes what was noted, where all tests report."""
    if DURATIONS in os.environ and not hasattr(session.config, "workerinput"):
        Path(os.environ[DURATIONS]).write_text(json.dumps(_SECONDS), encoding="utf-8")


def pytest_runtestloop(session: Any) -> bool | None:
    """Runs the faults instead of the tests."""
    if JOBS not in os.environ or hasattr(session.config, "workerinput"):
        return None
    told = json.loads(Path(os.environ[JOBS]).read_text(encoding="utf-8"))
    items = {item.nodeid: item for item in session.items}
    Server(items, told["seconds"], Path(told["results"])).serve(told["work"], told["jobs"])
    return True


@dataclass
class Run:
    """A child that runs tests with a fault, or with none."""

    fault: int
    tests: list[str]
    child: int
    pipe: int
    temporary: Path
    test: str = ""
    since: float = field(default_factory=time.monotonic)
    spent: float = 0.0
    failed: bool = False
    ended: bool = False

    def hangs(self, seconds: float) -> bool:
        """Whether its test takes much longer than it does without a fault, or far more memory."""
        spent, resident = usage(self.child)
        late = spent - self.spent > 20 + 10 * seconds or time.monotonic() - self.since > 100 + 20 * seconds
        return late or resident > MOST_BYTES


def usage(process: int) -> tuple[float, int]:
    """Seconds of a processor, and bytes of memory, of a process of Linux."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return 0.0, 0
    return sum(map(int, stat[11:15])) / os.sysconf("SC_CLK_TCK"), int(stat[21]) * os.sysconf("SC_PAGE_SIZE")


@dataclass
class Server:
    """Forks a child for each fault, after everything is imported and collected.

    A test that fails on a fault has found it only if it passes with none: such tests run so in one child, many at once.
    """

    items: dict[str, Any]
    seconds: dict[str, float]
    results: Path
    passes: dict[str, bool] = field(default_factory=dict)

    def serve(self, work: list[dict[str, Any]], jobs: int) -> None:
        waiting = deque((job["fault"], [t for t in job["tests"] if t in self.items]) for job in work)
        running: list[Run] = []
        unsure: list[Run] = []
        for name in SLOW_IMPORTS:
            import_module(name)
        gc.collect()
        gc.freeze()
        while waiting or running or unsure:
            unknown = list(dict.fromkeys(run.test for run in unsure if run.test not in self.passes))
            enough = len(unknown) >= CONTROLS or not (waiting or running)
            if unknown and enough and all(run.fault != NONE for run in running):
                running.append(self.start(NONE, unknown))
            while waiting and len(running) < jobs:
                fault, tests = waiting.popleft()
                tests = [test for test in tests if self.passes.get(test, True)]
                if tests:
                    running.append(self.start(fault, tests))
                else:
                    self.write(fault, "", "survived")
            ready, _, _ = select.select([run.pipe for run in running], [], [], 1.0)
            for run in list(running):
                if run.pipe in ready:
                    self.read(run)
                hangs = not run.failed and not run.ended and run.hangs(self.seconds.get(run.test, 0))
                if not (run.ended or run.failed or hangs):
                    continue
                self.stop(run)
                running.remove(run)
                if run.fault == NONE and not run.ended:
                    self.passes[run.test] = False
                elif run.fault != NONE and run.ended:
                    self.write(run.fault, "", "survived")
                elif run.fault != NONE:
                    unsure.append(run)
            for run in [run for run in unsure if run.test in self.passes]:
                unsure.remove(run)
                if self.passes[run.test]:
                    self.write(run.fault, run.test, "failed" if run.failed else "hung")
                else:
                    waiting.appendleft((run.fault, run.tests[run.tests.index(run.test) + 1 :]))
        print("\nfail with no fault:", *sorted(test for test, passes in self.passes.items() if not passes), sep="\n  ")

    def write(self, fault: int, test: str, outcome: str) -> None:
        with self.results.open("a") as file:
            file.write(json.dumps({"fault": fault, "outcome": outcome, "by": test}) + "\n")

    def start(self, fault: int, tests: list[str]) -> Run:
        source, sink = os.pipe()
        temporary = self.results.parent / f"temporary-{time.monotonic_ns()}"
        temporary.mkdir()
        child = os.fork()
        if child:
            os.close(sink)
            return Run(fault, tests, child, source, temporary)
        os.close(source)
        os.setsid()
        os.environ[NUMBER] = str(fault)
        os.environ["PYTEST_DEBUG_TEMPROOT"] = str(temporary)
        try:
            import_module("roofline._faults").number = fault  # type: ignore[attr-defined]
            for test, following in zip(tests, [*tests[1:], None], strict=True):
                os.write(sink, f"starts {test}\n".encode())
                item = self.items[test]
                behind = None if following is None else self.items[following]
                _LAST.clear()
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=behind)
                os.write(sink, b"fails\n" if _LAST else b"passes\n")
                if _LAST and fault != NONE:
                    break
            else:
                os.write(sink, b"ends\n")
        finally:
            os._exit(0)

    def read(self, run: Run) -> None:
        """What the child says of its tests. One that is gone without a word failed its test."""
        content = os.read(run.pipe, 1 << 20).decode()
        if not content:
            run.failed = True
        for line in content.splitlines():
            run.since, run.spent = time.monotonic(), usage(run.child)[0]
            match line.partition(" "):
                case "starts", _, test:
                    run.test = test
                case "fails" | "passes" as outcome, _, _ if run.fault == NONE:
                    self.passes[run.test] = outcome == "passes"
                case "fails", _, _:
                    run.failed = True
                case "ends", _, _:
                    run.ended = True

    def stop(self, run: Run) -> None:
        """Ends the child and what it started."""
        try:
            os.killpg(run.child, signal.SIGKILL)
        except ProcessLookupError:
            os.kill(run.child, signal.SIGKILL)
        os.waitpid(run.child, 0)
        os.close(run.pipe)
        shutil.rmtree(run.temporary, ignore_errors=True)


# -- the table -----------------------------------------------------------------------------------------------------
def table(faults: list[Fault], before: Tree, after: Tree) -> list[dict[str, Any]]:
    """A row for each fault, with what found it in each tree."""
    rows = []
    for fault in faults:
        assert fault.after is not None
        change = fault.change(fault.before)
        row: dict[str, Any] = {
            "fault": fault.number,
            "kind": change.kind,
            "place": f"{fault.before.module}:{fault.before.function}",
            "place_after": f"{fault.after.module}:{fault.after.function}",
            "statement": fault.before.text,
            "change": change.text,
        }
        for name, tree in (("before", before), ("after", after)):
            result = tree.outcomes().get(fault.number, {"outcome": "not run", "by": ""})
            tests = len(tree.covering.get(fault.number, []))
            outcome = "uncovered" if result["outcome"] == "survived" and not tests else result["outcome"]
            row[name] = {"outcome": outcome, "by": result["by"], "covering": tests}
        rows.append(row)
    return rows


def is_found(row: dict[str, Any], name: str) -> bool:
    return row[name]["outcome"] in ("failed", "hung")


def summary(rows: list[dict[str, Any]], before: Tree, after: Tree) -> tuple[str, bool]:
    """The shares found, and each fault that was found and is not any more; and whether there is none of these."""
    lines = [f"{len(rows)} faults in statements of {before.commit[:7]} that {after.commit[:7]} has too"]
    for name, tree in (("before", before), ("after", after)):
        outcomes = Counter(row[name]["outcome"] for row in rows)
        share = sum(is_found(row, name) for row in rows) / max(1, len(rows))
        parts = ", ".join(f"{outcome} {count}" for outcome, count in sorted(outcomes.items()))
        lines.append(f"{name:<7}{tree.commit[:7]}  found {share:.1%} ({parts})")
    for kind in sorted({row["kind"] for row in rows}):
        some = [row for row in rows if row["kind"] == kind]
        figures = " ".join(f"{name} {sum(is_found(row, name) for row in some)}" for name in ("before", "after"))
        lines.append(f"  {kind:<9} {len(some):>4} faults: found {figures}")
    lost = [row for row in rows if is_found(row, "before") and not is_found(row, "after")]
    lines.append(f"found before and not after: {len(lost)}")
    lines += [
        f"  {row['fault']} {row['place']} [{row['change']}] before by {row['before']['by']}, "
        f"after {row['after']['outcome']} with {row['after']['covering']} covering tests"
        for row in lost
    ]
    return "\n".join(lines), not lost


def main() -> int:
    """Runs what is left to run, writes the tables and prints the summary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", help="the commit whose faults and tests count")
    parser.add_argument("after", help="the commit whose tests have to find as many")
    parser.add_argument("--seed", type=int, default=30)
    parser.add_argument("--faults", type=int, default=300)
    parser.add_argument("--out", type=Path, default=Path("build/faults"), help="folder of trees, tables and logs")
    parser.add_argument("--jobs", type=int, default=2, help="processes at once")
    parser.add_argument("--seconds", type=float, default=40, help="time of tests for one fault, at most")
    parser.add_argument("--quick", action="store_true", help="cover AFTER only where tests of BEFORE miss a fault")
    parser.add_argument("--only-before", action="store_true", help="end when BEFORE is measured")
    asked = parser.parse_args()
    repository = Path(__file__).resolve().parents[1]
    first, then = (_git(repository, "rev-parse", f"{name}^{{commit}}") for name in (asked.before, asked.after))
    places = drawn(statements(repository, first, False), statements(repository, then, True), asked.seed)
    spares = places[: asked.faults * 3 // 2]
    faults = [fault for fault in spares if fault.after is not None][: asked.faults]
    print(f"{len(places):,} statements, of which {sum(f.after is not None for f in places):,} survive", flush=True)
    out = asked.out.resolve()
    before = Tree(first, out / first[:10], repository, [(f.number, f.before, f.change(f.before)) for f in spares])
    moved = [(f.number, f.after, f.change(f.after)) for f in faults if f.after is not None]
    after = Tree(then, out / then[:10], repository, moved)
    before.cover(asked.jobs)
    tests = {f.number: before.covering_first(f.number, f.before, "", asked.seconds) for f in faults}
    before.run(tests, before.durations, ALL, asked.jobs)
    if asked.only_before:
        return 0
    finders = {number: row["by"] for number, row in before.outcomes().items() if row["by"]}
    firsts = {
        f.number: before.covering_first(f.number, f.before, finders[f.number], asked.seconds / 8)
        for f in faults
        if f.number in finders
    }
    after.run(firsts, before.durations, FIRST, asked.jobs)
    left = {f.number: f.after for f in faults if f.after and f.number not in after.outcomes()}
    if not asked.quick or set(left) & set(finders):
        after.cover(asked.jobs)
        tests = {n: after.covering_first(n, place, finders.get(n, ""), asked.seconds) for n, place in left.items()}
        after.run(tests, after.durations, ALL, asked.jobs)
    rows = table(faults, before, after)
    text, kept = summary(rows, before, after)
    name = f"{before.commit[:10]}-{after.commit[:10]}"
    (out / f"{name}.json").write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (out / f"{name}.txt").write_text(text + "\n", encoding="utf-8")
    print(text)
    before.remove()
    after.remove()
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
