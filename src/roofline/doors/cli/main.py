"""Entry point of the `roofline` program: dispatch commands and report errors.

Results go to stdout, everything else to stderr. Exit codes: 0 success, 1 the answer is no, 2 invalid input (one line).
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, NoReturn

from roofline.declared.errors import InputError, error_line, nearest
from roofline.declared.sanitize import WIDEST_LINE, inert_line, shortened
from roofline.doors.cli.table import COMMANDS, FOLDER_OF
from roofline.doors.cli.waiting import waiting
from roofline.version import __version__
from roofline.views.stdout import printing

if TYPE_CHECKING:
    from cyclopts import App

PROGRAM = "roofline: "
BOUNDED = frozenset({"search", "simulate", "sweep", "solve", "sensitivity", "codesign", "machines"})
MOST_MEMORY = 4 * 2**30
"""Commands that may take long, and the bytes that each may write to: twice what docs/limits.md says that they take."""
WELCOME = """\
Roofline says how much compute and memory a transformer needs, how fast a machine runs it,
what limits it and what it costs, from its config.json alone.

  roofline meta-llama/Llama-3.1-8B --on h100-sxm    fits? how fast? what limits it? what does it cost?
  roofline analyze meta-llama/Llama-3.1-8B          FLOPs and bytes, op by op
  roofline search Qwen/Qwen3-32B --on h200-sxm --input 4000 --output-tokens 500 --ttft 1s --tpot 20ms

All commands: roofline --help"""
"""What `roofline` prints without arguments."""


@cache
def app(installable: bool = True) -> App:
    """Create the Cyclopts app. `installable`: include the command that installs shell completion."""
    from cyclopts import App

    from roofline.doors.cli.defaults import apply_defaults

    commands = App(
        name="roofline",
        help="""How much compute a transformer needs, by its config.json, how long it takes on a chip, what limits it.

        Example: `roofline analyze meta-llama/Llama-3.1-8B --on h100-sxm`
        """,
        version=__version__,
        config=apply_defaults,
        result_action="return_value",
        suppress_keyboard_interrupt=False,
    )
    for place, (name, usage) in enumerate(COMMANDS.items()):
        commands.command(
            f"roofline.doors.cli.commands.{FOLDER_OF[name]}.{name}:{name}",
            usage=f"Usage: roofline {name} {usage}",
            sort_key=place,
        )
    if installable:
        commands.register_install_completion_command()
    return commands


def main(argv: Sequence[str] | None = None) -> None:
    """Run one command and exit with its code."""
    if argv is None:
        _limit_own_memory()
    gc.set_threshold(100_000)  # imports leave little garbage, and collecting it takes 10 % of a short command's time
    words = sys.argv[1:] if argv is None else argv
    with printing("roofline"):
        try:
            if words:
                _run(words)
            else:
                print(WELCOME)
        except InputError as error:
            _refuse(error)
        except MemoryError:
            _fail("memory: this computer has too little for the question; ask for fewer points")


def _limit_own_memory() -> None:
    """A limit on the memory of a command of `BOUNDED`, which has this process for itself."""
    if set(sys.argv[1:2]) & BOUNDED:
        from roofline.doors.memory_limit import limit_memory

        limit_memory(MOST_MEMORY)


def _run(words: Sequence[str]) -> None:
    """Run a command line after printing one line on stderr for each renamed option in it."""
    from roofline.doors.cli.old_names import names_that_changed, renamed

    words, told = renamed(with_command(words))
    for line in told:
        print(line, file=sys.stderr)
    with names_that_changed(), waiting(words[0] if words else ""):
        _command(words)


def with_command(words: Sequence[str]) -> Sequence[str]:
    """The words, with the command of the first answer before a model: a path, or `owner/name`.

    Raises InputError for a word that is neither a model nor near the name of a command.
    >>> with_command(["meta-llama/Llama-3.1-8B", "--on", "l4"])
    ['answer', 'meta-llama/Llama-3.1-8B', '--on', 'l4']
    """
    first = words[0] if words else ""
    if not first or first in COMMANDS or first.startswith("-"):
        return words
    if "/" in first or os.path.exists(first):
        return ["answer", *words]
    if not nearest(first, COMMANDS):
        raise InputError(
            "command", first, "a command (`roofline --help` lists them) or a model, as owner/name or a path"
        )
    return words


def _command(words: Sequence[str]) -> None:
    """Run a command; parse errors of Cyclopts become a one-line message and exit code 2."""
    from cyclopts import CycloptsError, UnusedCliTokensError

    commands = app(not words or words[0] not in COMMANDS)
    if not words or words[0] in commands.help_flags:
        for name in COMMANDS:
            commands[name]  # import every command, as the help page lists their descriptions
    if not words or set(words) & set(commands.help_flags):
        _keep_narrow(commands)
    try:
        commands(words, exit_on_error=False, print_error=False)
    except UnusedCliTokensError as error:
        _refuse(InputError("arguments", " ".join(error.unused_tokens or []), "nothing more"))
    except CycloptsError as error:
        if isinstance(error.__cause__, InputError):
            _refuse(error.__cause__)
        _fail(_without_choices(str(error)))
    except InputError as error:
        if error.field == "output" and words[0] in ("plot", "report"):
            raise InputError("--out", error.value, error.expected, error.nearest) from error
        raise


def _keep_narrow(commands: App) -> None:
    """Print help no wider than other text."""
    from rich.console import Console

    from roofline.views.text.tables import WIDEST

    commands.console = Console(width=min(Console().width, WIDEST))


def _without_choices(message: str) -> str:
    """Shorten a Cyclopts message: drop the list of choices if the message is too long and names the nearest choice."""
    choices, hint = message.find("Choose from: "), message.find("Did you mean ")
    long = len(PROGRAM) + len(message) > WIDEST_LINE
    return f"{message[:choices]}{message[hint:]}" if long and 0 <= choices < hint else message


def _refuse(error: InputError) -> NoReturn:
    _fail(error_line(error, WIDEST_LINE - len(PROGRAM)))


def _fail(message: str) -> NoReturn:
    words = " ".join(inert_line(message).split())
    print(shortened(f"{PROGRAM}{words}", WIDEST_LINE), file=sys.stderr)
    raise SystemExit(2)


if __name__ == "__main__":
    main()
