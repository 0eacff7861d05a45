"""A seeded draw of sentences from help, output, messages and docstrings, each with its command or name.

    python benchmarks/sentences.py [COUNT] [SEED]

Give the list to someone who has not seen the code, who restates each sentence in own words, and count those that were
misunderstood. As many are drawn of each of the four kinds: help of commands and their options; lines of text in the
output that README and the pages show; messages of errors, as the tests have them; docstrings of modules, classes,
functions and attributes. Prints one line each: number, kind, where it stands, the sentence, between tabs.
"""

from __future__ import annotations

import ast
import random
import re
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from documented import PAGES, README, ROOT
from plain import length, spoken
from roofline.doors.cli.main import app
from roofline.doors.cli.table import COMMANDS

Sentences = Iterator[tuple[str, str]]
SHORTEST = 5
"""Words of the shortest sentence that says something."""


def help_sentences() -> Sentences:
    """What `COMMAND --help` says."""
    for command in COMMANDS:
        one = app()[command]
        yield from ((f"roofline {command} --help", s) for s in spoken((one.help or "").partition("Parameters\n")[0]))
        for argument in one.assemble_argument_collection(parse_docstring=True):
            where = f"roofline {command} --help, {argument.name}"
            yield from ((where, s) for s in spoken(argument.parameter.help or ""))


def output_sentences() -> Sentences:
    """Lines of text in what the pages show below a command; a line of a table has wide gaps, and is none."""
    for page in (README, *PAGES):
        for block in re.findall(r"^```console\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
            command, _, output = block.partition("\n")
            for line in output.splitlines():
                if not re.search(r"\S {3,}\S|[┃━─│]{2}|^[$#]", line):
                    yield command.removeprefix("$ "), line.strip(" │╭╰─╮╯")


def message_sentences() -> Sentences:
    """Whole messages of errors that the tests compare with what was said."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and ": expected " in node.value:
                yield "an error, exit code 2", " ".join(node.value.split())


def docstring_sentences() -> Sentences:
    """What modules, classes, functions and attributes say of themselves."""
    for path in sorted((ROOT / "src").rglob("*.py")):
        module = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                where = module if isinstance(node, ast.Module) else f"{module}.{node.name}"
                yield from ((where, s) for s in spoken(ast.get_docstring(node) or ""))
            if isinstance(node, ast.Module | ast.ClassDef):
                for before, after in pairwise(node.body):
                    if isinstance(before, ast.Assign | ast.AnnAssign) and isinstance(after, ast.Expr):
                        target = before.targets[0] if isinstance(before, ast.Assign) else before.target
                        text = ast.literal_eval(after.value) if isinstance(after.value, ast.Constant) else ""
                        yield from ((f"{module}.{ast.unparse(target)}", s) for s in spoken(str(text)))


KINDS: dict[str, Callable[[], Sentences]] = {
    "help": help_sentences,
    "output": output_sentences,
    "message": message_sentences,
    "docstring": docstring_sentences,
}


def main(count: int = 200, seed: int = 17) -> None:
    """Prints the draw."""
    number = 0
    for kind, sentences in KINDS.items():
        once = {s: where for where, s in sentences() if length(s) >= SHORTEST}
        whole = sorted((where, s) for s, where in once.items())
        for where, sentence in random.Random(seed).sample(whole, min(count // len(KINDS), len(whole))):
            number += 1
            print(number, kind, where, sentence, sep="\t")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
