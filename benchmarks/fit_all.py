"""Fits every constant from a folder of measurements, in order, and says which of today's it does not come to.

    python benchmarks/fit_all.py DIR [--work FOLDER] [--only STEP,...] [--check] [--out FILE] [--write]

Each step of STEPS is a script that runs in a process of its own on a copy of the package, whose constants the steps
before it have written; what it read is recorded by content. A second run goes on where the first stopped, and runs a
step again only where something that it read is another. Then the constants are compared with the package's own:
FILE, by default results/constants.csv, lists each that differs, and results/constants.md the steps, the hashes of what
they read, and what comes from other sources than a fit. With --check each step starts from today's constants instead of
those of the steps before it, so that a difference is of the step that it is listed under. With --only, too, steps that
do not run keep their lines in both files.

--write puts the fitted constants in the package's place, and the hashes of the tables into
measured/accuracy/fitted_on.toml. Files whose values are the same are left as they are.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from roofline.engines.releases import version

HERE = Path(__file__).resolve().parent
PACKAGE = HERE.parent / "src" / "roofline"
MUTABLE = (
    "kernels/constants/*.toml", "kernels/collective_constants.toml", "kernels/exchange_constants.toml",
    "kernels/power.toml", "engines/engines.toml", "engines/releases.toml", "engines/first_token.toml",
)  # fmt: skip
"""The files with fitted values."""
LAWS = "# Written by benchmarks/fit_laws.py"
"""How a file begins whose tables the laws' fit writes."""
Value = float | str | bool | Sequence[object]
Flat = Mapping[tuple[str, ...], Value]


@dataclass(frozen=True)
class FitStep:
    """A script and its arguments.

    {folder}: of measurements. {package}: the copy's. {work}: a folder of the step's own. {cache}: of fits for any run.

    values: the script writes {values}, a JSON file of tables and their values, which go to the engines' files.
    """

    name: str
    script: str
    arguments: tuple[str, ...]
    values: bool = False


STEPS = (
    FitStep("laws", "fit_laws.py", ("{folder}", "--workers", "1", "--done", "{cache}/laws", "--out", "{work}/out")),
    FitStep("older", "fit_older.py", ("{folder}", "--write")),
    FitStep("sparse", "fit_sparse.py", ("{folder}", "--write")),
    FitStep("collectives", "fit_collectives.py", ("{folder}", "--out", "{package}/kernels/collective_constants.toml")),
    FitStep("exchanges", "fit_exchanges.py", ("{folder}", "--out", "{package}/kernels/exchange_constants.toml")),
    FitStep("later", "fit_later.py", ("{folder}",)),
    FitStep("local", "fit_local.py", ("{folder}", "--write")),
    FitStep("hosts", "fit_engines.py", ("{folder}", "--only", "hosts", "--values", "{values}"), values=True),
    FitStep("slower", "fit_engines.py", ("{folder}", "--only", "slower", "--values", "{values}"), values=True),
    FitStep("servers", "fit_servers.py", ("{folder}", "--values", "{values}"), values=True),
    FitStep("untuned", "fit_untuned.py", ("{folder}", "--values", "{values}"), values=True),
    FitStep("tpu", "fit_tpu.py", ("{folder}", "--write")),
    FitStep("neuron", "fit_neuron.py", ("{folder}", "--write", "--values", "{values}"), values=True),
    FitStep("training", "fit_training.py", ("{folder}", "--values", "{values}"), values=True),
    FitStep("power", "fit_power.py", ("{folder}", "--out", "{package}/kernels/power.toml")),
    FitStep("first token", "fit_first_token.py", ("{folder}", "--out", "{package}/engines/first_token.toml")),
)
"""The laws first, for all others are fitted on what they predict; engines behind the kernels, intervals last."""
BASES = ("laws", "collectives")
"""Steps that write whole files, to which steps behind them add."""
OTHERS: Mapping[str, str] = {
    "kernels/constants/mlx.toml": "figures that people published, named in the file; no fit",
    "kernels/constants/llama.cpp-cpu.toml": "benchmarks/llama_cpp_here.py on one machine; no table has its rows",
    "kernels/constants/vendor-apple.toml": "a fit of an engine that llama.cpp's kernels replaced; no script makes it",
    "kernels/target.py: MARLIN_FLOATS": "benchmarks/fit_marlin.py, which prints it",
    "inference/settings.py: ROUTED": "benchmarks/fit_popularity.py, which prints it",
    "inference/plan.py: UNSERVED": "benchmarks/fit_mixtures.py, which prints it",
    "inference/plan.py: HOSTED": "benchmarks/fit_hosts.py, which prints it",
    "kernels/constants.py: ELSEWHERE": "benchmarks/fit_other_engines.py, which prints it",
    "kernels/links.py: LONE": "benchmarks/fit_links.py, which prints it",
    "kernels/power.toml: default": "data sheets and papers, named in the file; benchmarks/energy.py only compares",
    "hardware/grids.toml": "published carbon intensities and prices, named in the file",
    "hardware/catalog": "data sheets, named with each chip",
    "engines/engines.toml, engines/releases.toml: fields that `fitted_on` does not name":
        "the engines' sources and documentation, named beside them",
    "engines/engines.toml, megatron: slower.hopper.wide, spread.hopper": "assumed to be those of nemo and fsdp",
    "engines/engines.toml, deepspeed: slower.ampere.wide": "assumed to be that of megatron",
    "engines/engines.toml, scatter and between_s": "chosen by hand between fits, see SCATTER in fit_training.py",
}  # fmt: skip
"""Values that no fit of STEPS makes, and their source."""
KEPT: Mapping[str, str] = {
    "laws": "today's products, experts and decode are of a fit before the law's last terms; the mean held-out error "
        "of a table is another by -1.6 to 0.7 points of a percent, by 0.0 in the median",
    "servers: sglang, request_s and request_token_s": "of 38 other served rows the median error of TTFT is 35 % with "
        "today's and 37 % with the fitted",
    "servers: trtllm, request_s": "the median error of TTFT on the rows of the fit is 27 % with today's and "
        "25 % with the fitted",
    "servers: sequence_s, step_s, launch_s and latency": "today's error is within a point of the fitted one's, but for "
        "FasterTransformer's latency: 6.3 and 3.8 %, 16 % with each layout left out",
    "training: nemo, spread": "the ends of an interval, by 0.04",
    "first token: wait, and the host of vllm": "the fit comes to 0.23 and 0.97, by which vLLM's TTFT would be known "
        "less of an idle server than of one at half its load; its mean score is 1.693, with today's 1.702",
    "first token: the others": "the third digit",
}  # fmt: skip
"""Step, and table where it is of one, whose values of today are kept against the fit's, and why."""


def mutable(package: Path) -> list[Path]:
    """The files with fitted values."""
    return sorted(path for pattern in MUTABLE for path in package.glob(pattern))


def digest(path: Path) -> str:
    """SHA-256 of a file; empty where there is none."""
    return sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def fresh(work: Path) -> Path:
    """A copy of the package and the scripts as they are now; its package."""
    tree = work / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    ignored = shutil.ignore_patterns("__pycache__", "results")
    shutil.copytree(PACKAGE.parent, tree / "src", ignore=ignored)
    shutil.copytree(HERE, tree / "benchmarks", ignore=ignored)
    return tree / "src" / "roofline"


def run(step: FitStep, folder: Path, work: Path, package: Path, kind: str = "chain") -> Mapping[str, str]:
    """Run a step on the copy, or take up what it wrote if all that it read is the same; the hashes of what it read."""
    tree, own = work / "tree", work / kind / step.name.replace(" ", "_")
    own.mkdir(parents=True, exist_ok=True)
    stamp, values = own / "read.json", own / "values.json"
    places = {"tree": tree, "tables": folder}

    def hashes(paths: Sequence[str]) -> dict[str, str]:
        return {path: digest(places[path.partition("/")[0]] / path.partition("/")[2]) for path in paths}

    if stamp.exists():
        known: dict[str, str] = json.loads(stamp.read_text())
        if hashes(list(known)) == known:
            replaced(package, own / "after")
            print(f"{step.name}: as before", file=sys.stderr)
            return known
    before = {f"tree/{path.relative_to(tree)}": digest(path) for path in mutable(package)}
    print(f"{step.name}: {step.script}", file=sys.stderr, flush=True)
    named = {"folder": folder, "package": package, "work": own, "values": values, "cache": work / "cache"}
    arguments = [x.format(**named) for x in step.arguments]
    script = tree / "benchmarks" / step.script
    command = [sys.executable, "-W", "ignore", str(tree / "benchmarks" / "recorded.py"), str(own / "log.json"),
               str(tree), str(folder), str(script), *arguments]  # fmt: skip
    single = {"PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with (own / "said.txt").open("w") as said:
        subprocess.run(command, check=True, stdout=said, stderr=subprocess.STDOUT, env=os.environ | single)
    if step.name == "laws":
        take_laws(own / "out", package / "kernels" / "constants")
    if step.values:
        put_values(package / "engines", json.loads(values.read_text()))
    read = [path for path in json.loads((own / "log.json").read_text()) if digest_place(path, places)]
    stamp.write_text(json.dumps(hashes(read) | {path: h for path, h in before.items() if path in read}, indent=0))
    shutil.rmtree(own / "after", ignore_errors=True)
    kept(package, own / "after")
    read_now: dict[str, str] = json.loads(stamp.read_text())
    return read_now


def digest_place(path: str, places: Mapping[str, Path]) -> bool:
    """Whether a recorded path is a file that still exists."""
    place, _, rest = path.partition("/")
    return (places[place] / rest).is_file()


def kept(package: Path, to: Path) -> None:
    """Copy the files with fitted values away."""
    for path in mutable(package):
        target = to / path.relative_to(package)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)


def replaced(package: Path, by: Path) -> None:
    """Put the files with fitted values in the place of the package's."""
    for path in mutable(package):
        path.unlink()
    for path in mutable(by):
        shutil.copy(path, package / path.relative_to(by))


def take_laws(fitted: Path, constants: Path) -> None:
    """The tables of the laws, in place of all that stood in their files."""
    for path in constants.glob("*.toml"):
        if path.read_text(encoding="utf-8").startswith(LAWS):
            path.unlink()
    for path in fitted.glob("*.toml"):
        shutil.copy(path, constants / path.name)


def place_of(table: str) -> tuple[str, str, str]:
    """The file and the heading of an engine's table, and its release where it is a row of releases.toml.

    >>> place_of("vllm@0.6.slower.cdna2"), place_of("sglang.slower.hopper")
    (('releases.toml', 'vllm.changes.before.slower.cdna2', '0.6'), ('engines.toml', 'sglang.slower.hopper', ''))
    """
    match = re.fullmatch(r"([\w-]+)@([\d.]*\d)((?:\.[a-z][\w-]*)*)", table)
    return ("releases.toml", f"{match[1]}.changes.before{match[3]}", match[2]) if match else ("engines.toml", table, "")


def row_of(text: str, heading: str, release: str) -> int:
    """Where the row of releases.toml begins that says what an engine had before the next change with a table."""
    engine, table = heading.partition(".")[0], f"[{heading.partition('.before')[0]}.before"
    rows = re.finditer(rf'^\[\[{engine}\.changes\]\]\nrelease = "([\d.]+)"\n[^[]*', text, re.MULTILINE)
    known = [(version(row[1]), row.start()) for row in rows if text.startswith(table, row.end())]
    return min((numbers, start) for numbers, start in known if numbers > version(release))[1]


def put_values(folder: Path, tables: Mapping[str, Mapping[str, Value | None]]) -> None:
    """Write values of engines where the package has such a table; None removes one."""
    for table, values in tables.items():
        file, heading, release = place_of(table)
        path = folder / file
        text = path.read_text(encoding="utf-8")
        start = row_of(text, heading, release) if release else 0
        path.write_text(text[:start] + with_values(text[start:], heading, values), encoding="utf-8")


def with_values(text: str, heading: str, values: Mapping[str, Value | None]) -> str:
    """The text of a file with other values in a table. Lines of equal values stay, and comments behind a value."""
    before, head, rest = text.partition(f"\n[{heading}]")
    if not head:
        return text
    first, line, body = rest.partition("\n")
    ending = re.search(r"^\[", body, re.MULTILINE)
    inside, after = (body[: ending.start()], body[ending.start() :]) if ending else (body, "")
    for key, value in values.items():
        found = re.search(rf"^{re.escape(key)} = ([^#\n]*?)( *#[^\n]*)?\n", inside, re.MULTILINE)
        if value is None:
            inside = inside.replace(found[0], "") if found else inside
        elif found is None:
            inside = f"{key} = {value}\n{inside}"
        elif tomllib.loads(f"x = {found[1]}")["x"] != value:
            inside = inside.replace(found[0], f"{key} = {value}{found[2] or ''}\n")
    return before + head + first + line + inside + after


def flat(tree: Mapping[str, object], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Value]]:
    """Every value of a TOML tree by its path; entries of lists of tables by `release` or their number."""
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from flat(value, (*path, key))
        elif isinstance(value, list) and value and all(isinstance(v, dict) for v in value):
            for i, entry in enumerate(value):
                yield from flat(entry, (*path, key, str(entry.get("release", i))))
        else:
            yield (*path, key), value  # type: ignore[misc]


def values_of(path: Path) -> dict[tuple[str, ...], Value]:
    """Every value of a file."""
    return dict(flat(tomllib.loads(path.read_text(encoding="utf-8")))) if path.is_file() else {}


@dataclass(frozen=True)
class Reproduced:
    """A value of today beside the fitted one; None where one side has none. step: whose fit it is, empty for all."""

    step: str
    file: str
    path: tuple[str, ...]
    today: Value | None
    fitted: Value | None

    @property
    def change(self) -> str:
        """By how much it differs, in percent; empty for what is no number, or was 0 or infinite."""
        one, other = self.today, self.fitted
        if not (isinstance(one, (int, float)) and isinstance(other, (int, float))) or not one or one in (inf, -inf):
            return ""
        return "" if other in (inf, -inf) else f"{100 * (other / one - 1):+.2f}"


inf = float("inf")


def compared(package: Path, step: str = "") -> list[Reproduced]:
    """Every value of the fitted files, of today and as fitted."""
    rows: list[Reproduced] = []
    files = sorted({str(p.relative_to(base)) for base in (package, PACKAGE) for p in mutable(base)})
    for file in files:
        today, fitted = values_of(PACKAGE / file), values_of(package / file)
        paths = dict.fromkeys((*today, *fitted))
        rows += [Reproduced(step, file, path, today.get(path), fitted.get(path)) for path in paths]
    return rows


def write_differences(rows: Sequence[Reproduced], path: Path) -> None:
    """A CSV file with each value that differs."""
    with path.open("w", newline="", encoding="utf-8") as handle:
        out = csv.writer(handle, lineterminator="\n")
        out.writerow(["step", "file", "table", "value", "today", "fitted", "change_percent"])
        for row in rows:
            if row.today != row.fitted:
                table = ".".join(row.path[:-1])
                out.writerow([row.step, row.file, table, row.path[-1], row.today, row.fitted, row.change])


def earlier(path: Path, chosen: Sequence[FitStep]) -> list[Reproduced]:
    """Differences that a file of them has of other steps, of values that are still the same today."""
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as handle:
        lines = [r for r in csv.DictReader(handle) if r["step"] not in {step.name for step in chosen}]
    today = {file: values_of(PACKAGE / file) for file in {r["file"] for r in lines}}
    rows = []
    for r in lines:
        place = next((p for p in today[r["file"]] if ".".join(p) == f"{r['table']}.{r['value']}"), None)
        if place and str(today[r["file"]][place]) == r["today"] and r["fitted"]:
            known = today[r["file"]][place]
            fitted = float(r["fitted"]) if isinstance(known, float) else r["fitted"]
            rows.append(Reproduced(r["step"], r["file"], place, known, fitted))
    return rows


def step_lines(read: Mapping[str, Mapping[str, str]], before: str) -> Iterator[str]:
    """A line for each step, of the page as it was for those that did not run."""
    old = {m[1]: m[0] for m in re.finditer(r"^\| ([a-z ]+) \| \w+\.py \| .*$", before, re.MULTILINE)}
    for step in STEPS:
        if (known := read.get(step.name)) is not None:
            tables = {path: content for path, content in known.items() if path.startswith("tables/")}
            whole = sha256("".join(f"{p}={h}\n" for p, h in sorted(tables.items())).encode()).hexdigest()
            yield f"| {step.name} | {step.script} | {len(tables)} | `{whole[:16]}` |"
        elif step.name in old:
            yield old[step.name]


def page(rows: Sequence[Reproduced], read: Mapping[str, Mapping[str, str]], folder: Path, before: str = "") -> str:
    """What was read and how much was reproduced, as Markdown. before: the page as it was."""
    lines = [
        "# Constants, fitted again", "",
        "Written by `python benchmarks/fit_all.py DIR`: every constant fitted from the folder of measurements, beside",
        "the package's. Each that differs is a row of `constants.csv`.", "",
        "| step | script | tables read | sha256 of them |", "|---|---|--:|---|",
    ]  # fmt: skip
    lines += step_lines(read, before)
    lines += ["", "| file | values | as today | differ |", "|---|--:|--:|--:|"]
    counts, same = Counter(r.file for r in rows), Counter(r.file for r in rows if r.today == r.fitted)
    lines += [f"| {f} | {n:,} | {same[f]:,} | {n - same[f]:,} |" for f, n in counts.items()]
    total, equal = sum(counts.values()), sum(same.values())
    lines += [f"| all | {total:,} | {equal:,} | {total - equal:,} |", "", "Not by a fit:", ""]
    lines += [f"- {what}: {source}." for what, source in OTHERS.items()]
    lines += ["", "Kept against the fit:", ""]
    lines += [f"- {what}: {reason}." for what, reason in KEPT.items()]
    every = {path for known in read.values() for path in known if path.startswith("tables/")}
    every |= {f"tables/{name}" for name in re.findall(r"^\| ([\w.]+\.csv) \|", before, re.MULTILINE)}
    lines += ["", "| table | sha256 |", "|---|---|"]
    lines += [
        f"| {p.removeprefix('tables/')} | `{digest(folder / p.removeprefix('tables/'))[:16]}` |" for p in sorted(every)
    ]
    return "\n".join(lines) + "\n"


def write_hashes(path: Path, read: Mapping[str, Mapping[str, str]]) -> None:
    """The hashes of the tables that were read, in the declaration of what was fitted on what."""
    text = path.read_text(encoding="utf-8")
    for known in read.values():
        for name, content in known.items():
            file = name.removeprefix("tables/")
            text = re.sub(rf'^"{re.escape(file)}" = "\w+"$', f'"{file}" = "{content}"', text, flags=re.MULTILINE)
    path.write_text(text, encoding="utf-8")


def _of_step(step: FitStep, package: Path) -> list[Reproduced]:
    """Today's values and those that differ by a step. What it leaves to steps behind it is no difference."""
    rows = compared(package, step.name)
    return [row for row in rows if row.fitted is not None] if step.name in BASES else rows


def _merged(rows: Sequence[Reproduced]) -> list[Reproduced]:
    """One row for each value: that of the step that changes it, else of no step."""
    merged: dict[tuple[str, tuple[str, ...]], Reproduced] = {}
    for row in rows:
        key = (row.file, row.path)
        if key not in merged or row.today != row.fitted:
            merged[key] = row
    return list(merged.values())


def main(argv: Sequence[str]) -> None:
    """Run the steps, compare, and write what was asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--work", type=Path, default=Path("build/fit_all"), help="a folder that keeps what was done")
    parser.add_argument("--only", default="", help="steps to run, by comma; the others' constants stay today's")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "constants.csv")
    parser.add_argument("--check", action="store_true", help="start each step from today's constants")
    parser.add_argument("--write", action="store_true", help="put the fitted constants in the package's place")
    given = parser.parse_args(argv)
    folder, work = given.folder.resolve(), given.work.resolve()
    chosen = [step for step in STEPS if not given.only or step.name in given.only.split(",")]
    package = fresh(work)
    read: dict[str, Mapping[str, str]] = {}
    rows: list[Reproduced] = []
    for step in chosen:
        read[step.name] = run(step, folder, work, package, "check" if given.check else "chain")
        if given.check:
            rows += _of_step(step, package)
            replaced(package, PACKAGE)
    rows = _merged([*rows, *earlier(given.out, chosen)]) if given.check else compared(package)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    write_differences(rows, given.out)
    summary = given.out.with_suffix(".md")
    before = summary.read_text(encoding="utf-8") if given.check and summary.is_file() else ""
    summary.write_text(page(rows, read, folder, before), encoding="utf-8")
    differ = sorted({row.file for row in rows if row.today != row.fitted})
    print(
        f"{len(rows)} values, {sum(r.today == r.fitted for r in rows)} as today; differ: {', '.join(differ) or 'none'}"
    )
    if given.write and not given.check:
        for file in differ:
            if (package / file).is_file():
                shutil.copy(package / file, PACKAGE / file)
        write_hashes(PACKAGE / "measured" / "accuracy" / "fitted_on.toml", read)


if __name__ == "__main__":
    main(sys.argv[1:])
