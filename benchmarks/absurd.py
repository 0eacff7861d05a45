"""What every command makes of absurd numbers in every option that takes one: an answer, or one line why not, in bounds.

`python benchmarks/absurd.py [COMMAND ... | NUMBER]` puts numbers that nobody means into every option of every command,
one at a time (or so many of each kind, drawn with a seed), each in a process of its own with 2 GB beyond what imports
take. Whatever ends otherwise than with 0, 1 or 2, says more than one line of 160 characters when it refuses, takes more
than twenty seconds of a processor or more than 2 GB is a fault: it is listed, and the exit code is 1.
"""

from __future__ import annotations

import os
import random
import resource
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from roofline.doors.cli.main import app, main
from roofline.doors.cli.table import COMMANDS, FOLDER_OF

MODEL = "openai-community/gpt2"
SLOWEST = 20
"""Seconds of a processor that a command may take."""
LARGEST = 2 * 10**9
"""Bytes that it may take."""
WIDEST = 160
WHOLE = ("0", "-1", "1000000000000", "1" + 18 * "0", "1" + 40 * "0", "1e12", "1e308", "nan", "inf", "9" * 5000, "1.5")
REAL = ("0", "-1", "1e-320", "1e12", "1e18", "1e308", "1e400", "nan", "inf", "-inf", "9" * 5000)
LISTED = (
    "1..1000000000000000000", "1..99999999", "1..1000000000:2", "1e308", "nan", "0", "-1", "inf",
    "1000000000000", ",".join(map(str, range(1, 5000))), "9" * 5000, "tp=1..1000000000", "tp=1000000000000",
    "1" + 18 * "0", "lognormal(1e308,1e308)", "uniform(1,1e18)", "1" + 18 * "0" + "x" + "1" + 18 * "0", "1e308ms",
    "vllm(max_num_seqs=1e18)", "bw=1e308", "gamma(1e308,1e308)", "fixed(1e308,1e-308)", "x" * 5000, "(" * 5000,
)  # fmt: skip
"""Words for options that take a text, some of which every such option has to refuse."""
BASES = {
    "analyze": (f"{MODEL} --prefill 64", f"{MODEL} --decode 64 --on h100-sxm"),
    "explain": (f"{MODEL} qkv_proj --decode 64",),
    "fit": (f"{MODEL} --on h100-sxm",),
    "generate": (f"{MODEL} --on h100-sxm --input 64 --output 8",),
    "train": (
        f"{MODEL} --on dgx-h100 --batch 64 --tokens 512 --layout pp=4,dp=2",
        f"{MODEL} --on dgx-h100 --batch 64 --tokens 512 --layout pp=4,dp=2 --run-tokens 1e9",
    ),
    "serve": (
        f"{MODEL} --on h100-sxm --input 64 --output 8 --concurrency 4",
        f"{MODEL} --on h100-sxm --input 64 --output 8 --rate 2",
    ),
    "simulate": (
        f"{MODEL} --on h100-sxm --input 9 --output 9 --rate 1 --requests 20 --warmup 0",
        f"{MODEL} --on h100-sxm --input 9 --output 9 --concurrency 2 --requests 20 --warmup 0",
    ),
    "search": (
        f"{MODEL} --on h100-sxm --chips 2 --input 64 --output 8 --concurrency 4 --layout tp=1",
        f"{MODEL} --train --on dgx-h100 --batch 64 --tokens 512",
    ),
    "solve": (
        f"{MODEL} --find batch --where fits --on h100-sxm --context 64",
        f"{MODEL} --find batch --where fits --on h100-sxm --input 64 --output 8",
        f"{MODEL} --find concurrency --where tpot<=30ms --on h100-sxm --input 64 --output 8",
    ),
    "sensitivity": (f"{MODEL} --on h100-sxm --context 64", f"{MODEL} --on h100-sxm --input 64 --output 8"),
    "sweep": (
        f"{MODEL} --on h100-sxm --batch 1,2 --context 64", f"{MODEL} --on dgx-h100 --phase train --batch 8 --tokens 64",
        f"{MODEL} --on h100-sxm --phase serve --input 64 --output-tokens 8 --concurrency 4",
    ),
    "report": (f"{MODEL} --on h100-sxm --json",),
    "diff": ("Qwen/Qwen3-0.6B:on=h100-sxm Qwen/Qwen3-0.6B:on=b200",),
    "plot": (
        f"{MODEL} --on h100-sxm --kind sweep --json", f"{MODEL} --on h100-sxm --kind map --json",
        f"{MODEL} --on h100-sxm --kind memory --json", f"{MODEL} --on h100-sxm --output a.png",
    ),
    "models": (MODEL,),
    "chips": ("",),
    "accuracy": ("",),
}  # fmt: skip
"""Commands as they are meant, one line for each way in which an option may be used."""
LONG = (
    ["diff", f"{MODEL}:batch=1000000000000000000,on=h100-sxm", f"{MODEL}:on=b200"],
    ["diff", f"{MODEL}:context=1e308,on=h100-sxm", f"{MODEL}:on=b200"],
    ["diff", f"{MODEL}:layout=tp={10**18},on=h100-sxm", f"{MODEL}:on=b200"],
    ["chips", "x" * 10**5], ["models", "x" * 10**5], ["models", "--size", "1e308-1e309"],
    ["models", f"a/{'9' * 10**5}"], ["explain", MODEL, "x" * 10**5], ["accuracy", "x" * 10**5],
    ["analyze", MODEL, "--new", *(["1"] * 5000)], ["analyze", MODEL, "--cached", *(["1"] * 5000)],
    ["analyze", MODEL, "--on", f"{10**18}xh100-sxm"], ["analyze", MODEL, "--on", f"{10**6}xh100-sxm"],
    ["fit", MODEL, "--on", f"{10**12}xdgx-h100"], ["train", MODEL, "--on", f"{10**9}xdgx-h100", "--batch", "8",
     "--tokens", "8"],
    ["analyze", MODEL, "--on", "peak=1e308,bw=1e308,mem=1e308"], ["analyze", MODEL, "--on", "peak=1e-300,bw=1,mem=1"],
    ["sweep", *([MODEL] * 3000), "--on", "h100-sxm", "--batch", "1..100000", "--context", "64"],
    ["sweep", MODEL, "--on", *(["h100-sxm"] * 3000), "--batch", "1..100000", "--context", "64"],
    ["sweep", MODEL, "--on", "h100-sxm", "--batch", "1..1000000", "--context", "1..1000000"],
    ["sweep", MODEL, "--on", "h100-sxm", "--batch", "1..10000000", "--context", "1..1000000", "--out", "a.csv"],
    ["sweep", MODEL, "--on", "h100-sxm", "--tp", "1..1000000", "--pp", "1..1000000", "--dp", "1..1000000",
     "--batch", "1", "--context", "64"],
    ["simulate", MODEL, "--on", "h100-sxm", "--input", "9", "--output", "1e12", "--rate", "1", "--requests", "20"],
    ["simulate", MODEL, "--on", "h100-sxm", "--input", "9", "--output", "9", "--rate", "1e18", "--requests", "20"],
    ["plot", MODEL, "--on", *(["h100-sxm"] * 40), "--output", "a.svg"],
    ["serve", MODEL, "--on", "h100-sxm", "--input", "64", "--output", "8", "--rate", "1e-320"],
    ["serve", MODEL, "--on", "h100-sxm", "--input", "64", "--output", "8", "--rate", "1e-9"],
    ["sensitivity", MODEL, "--on", "h100-sxm", "--input", "64", "--output", "8", "--rate", "1e-320"],
    ["simulate", MODEL, "--on", "h100-sxm", "--input", "9", "--output", "9", "--rate", "1e-12", "--requests", "20"],
    ["simulate", MODEL, "--on", "h100-sxm", "--input", "9", "--output", "9", "--rate", "1", "--until", "1e-320"],
    ["train", MODEL, "--on", "dgx-h100", "--batch", "64", "--tokens", "512", "--run-tokens", "1e-320"],
    ["search", MODEL, "--on", "h100-sxm", "--input", "64", "--output", "8", "--concurrency", "4", "--budget", "inf"],
    ["search", MODEL, "--on", "h100-sxm", "--input", "64", "--output", "8", "--concurrency", "4", "--power", "inf"],
)  # fmt: skip
"""Lines that are absurd as a whole."""


@dataclass(frozen=True)
class AbsurdTrial:
    """A command that was run. code: its exit code, or minus the signal that ended it; said: what stood on stderr."""

    words: tuple[str, ...]
    code: int
    said: str
    seconds: float
    size: int

    @property
    def fault(self) -> str:
        """What is wrong with it, empty where nothing is."""
        if " ".join(self.words[1:]) in BASES[self.words[0]] and self.code == 2:
            return "not answered"
        if self.code not in (0, 1, 2):
            return f"ended by {self.code}"
        refused = [line for line in self.said.splitlines() if line.startswith("roofline: ")]
        if self.code == 2 and (
            len(refused) != 1 or not self.said.endswith(f"{refused[0]}\n") or len(refused[0]) > WIDEST
        ):
            return "no line"
        if "Traceback" in self.said or "Warning" in self.said:
            return "traceback"
        if self.code == 0 and any(len(line) > 450 for line in self.said.splitlines()):
            return "long warning"
        return "slow" if self.seconds > SLOWEST else "large" if self.size > LARGEST else ""


def lines(commands: Sequence[str] = ()) -> Iterator[tuple[str, ...]]:
    """Every command with every absurd value of every option that takes a value, then those absurd as a whole."""
    for command, bases in BASES.items():
        if commands and command not in commands:
            continue
        yield from ((command, *base.split()) for base in bases)
        for option, values in _options(command):
            for base in bases:
                words = _without(base.split(), option)
                yield from ((command, *words, f"{option}={value}") for value in values)
    yield from (tuple(line) for line in LONG if not commands or line[0] in commands)


def _options(command: str) -> Iterator[tuple[str, Sequence[str]]]:
    for argument in app()[command].assemble_argument_collection():
        name = next((n for n in argument.names if n.startswith("--")), None)
        kinds = {argument.hint, *get_args(argument.hint)}
        if name is None or bool in kinds or name in ("--revision", "--json", "--force"):
            continue
        if int in kinds or any(int in get_args(k) for k in kinds):
            yield name, WHOLE
        elif float in kinds:
            yield name, REAL
        elif str in kinds or any(str in get_args(k) for k in kinds):
            yield name, LISTED


def _without(words: list[str], option: str) -> list[str]:
    """A line without an option and its value."""
    aliases = {"--output-tokens": "--output"}
    names = (option, aliases.get(option, option))
    at = next((i for i, word in enumerate(words) if word in names), None)
    return words if at is None else words[:at] + words[at + 2 :]


def ran(words: Sequence[str], folder: Path) -> AbsurdTrial:
    """One command in a fork of this process, in that folder."""
    said = folder / "stderr"
    child = os.fork()
    if child == 0:
        _child(words, folder, said)
    _, status, used = os.wait4(child, 0)
    code = os.waitstatus_to_exitcode(status)
    text = said.read_bytes()[: 10**6].decode("utf-8", "replace")
    return AbsurdTrial(tuple(words), code, text, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)


def _child(words: Sequence[str], folder: Path, said: Path) -> Any:
    code = 99
    try:
        os.chdir(folder)
        for number, place in ((1, os.devnull), (2, str(said))):
            os.dup2(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        room = pages * resource.getpagesize() + LARGEST
        resource.setrlimit(resource.RLIMIT_AS, (room, room))
        resource.setrlimit(resource.RLIMIT_CPU, (2 * SLOWEST, 2 * SLOWEST))
        resource.setrlimit(resource.RLIMIT_FSIZE, (10**9, 10**9))
        signal.alarm(4 * SLOWEST)
        main(words)
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 98
    except BaseException as error:
        with suppress(Exception):
            print(f"Traceback {type(error).__name__}: {error}"[:2000], file=sys.stderr)
    finally:
        with suppress(Exception):
            sys.stderr.flush()
        os._exit(code)


def trials(commands: Sequence[str] = (), most: int = 0) -> Iterator[AbsurdTrial]:
    """Every line's trial, in turn; `most`: of so many of the bases, of those absurd as a whole and of all, drawn."""
    warm()
    chosen = list(lines(commands))
    if most:
        meant = [(c, *base.split()) for c, bases in BASES.items() for base in bases]
        kinds, draw = (meant, [tuple(line) for line in LONG], chosen), random.Random(5)
        chosen = [line for kind in kinds for line in draw.sample(kind, min(most, len(kind)))]
    with tempfile.TemporaryDirectory() as place:
        for words in chosen:
            trial = ran(words, Path(place))
            for path in Path(place).glob("a.*"):
                path.unlink()
            yield trial


def warm() -> None:
    """Imports what the commands import and reads what they read, so that each fork needs not."""
    from contextlib import redirect_stderr, redirect_stdout
    from importlib import import_module
    from io import StringIO

    for name in COMMANDS:
        import_module(f"roofline.doors.cli.commands.{FOLDER_OF[name]}.{name}")
    for command in ("analyze", "generate", "train", "serve", "solve"):
        with suppress(SystemExit), redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            main([command, *BASES[command][0].split()])


def report(commands: Sequence[str] = (), most: int = 0) -> int:
    """Runs the trials, prints how they ended and lists the faults; 1 where there are any."""
    ended, faults, slowest, largest = Counter[tuple[str, int]](), 0, 0.0, 0
    for trial in trials(commands, most):
        ended[trial.words[0], trial.code] += 1
        slowest, largest = max(slowest, trial.seconds), max(largest, trial.size)
        if trial.fault:
            faults += 1
            words = " ".join(word if len(word) < 40 else f"{word[:36]}…" for word in trial.words)[:300]
            said = " ".join(trial.said.split())[:300]
            print(f"{trial.fault}: {words}: {said} ({trial.seconds:.1f} s, {trial.size / 1e6:.0f} MB)", flush=True)
    for (command, code), number in sorted(ended.items()):
        print(f"{command:12} exit {code:3} {number}")
    print(f"slowest {slowest:.1f} s, largest {largest / 1e6:.0f} MB, faults {faults}")
    return int(bool(faults))


if __name__ == "__main__":
    given = sys.argv[1:]
    sys.exit(report([], int(given[0])) if given and given[0].isdigit() else report(given))
