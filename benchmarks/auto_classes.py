"""Which types of each Auto class of transformers, and which classes of diffusers, are counted, and how many exactly.

    python benchmarks/auto_classes.py RESULTS            # count what RESULTS lacks, then print the tables
    python benchmarks/auto_classes.py RESULTS --refused  # and what refuses each type that is not counted

For every type that a mapping of `transformers.models.auto.modeling_auto` has, the mapping's class is built with its
default config on torch's meta device. That config is loaded here with `architectures` naming the class: it is `exact`
where both have the same number of parameters, `refused` where it is refused in one line. RESULTS keeps what is known, a
line for each class. Needs torch, transformers and diffusers (`.[oracle]`).
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from oracle.auto_classes import OF_DIFFUSERS, Row, classes, row_of


def tables(rows: list[Row]) -> Iterator[str]:
    """Lines of the tables: a row for each mapping, then all types."""
    by_mapping: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_mapping[row.mapping].append(row)
    yield "| Auto class | types | counted | exact | parts set aside | otherwise | refused |"
    yield "|---|--:|--:|--:|--:|--:|--:|"
    for mapping, its in sorted(by_mapping.items(), key=lambda item: (item[0] == OF_DIFFUSERS, -len(item[1]))):
        yield f"| {mapping.lower().replace('_', ' ')} | {' | '.join(map(str, _counts(its)))} |"
    types: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row.mapping != OF_DIFFUSERS:
            types[row.type].append(row)
    counted = sum(any(r.ours is not None for r in its) for its in types.values())
    exact = sum(any(r.exact for r in its) for its in types.values())
    built = [[r for r in its if r.real is not None] for its in types.values()]
    whole = sum(bool(its) and all(r.exact for r in its) for its in built)
    yield "\nexact: of the classes that their default config builds, others are counted without a class to compare."
    yield f"{len(types)} types that an Auto class builds: {counted} counted, {exact} exact, {whole} by every class."


def refused(rows: list[Row]) -> Iterator[str]:
    """Lines of a table of the types that no class of transformers counts, by what they are."""
    counted = {row.type for row in rows if row.ours is not None}
    why = {row.type: row.why for row in rows if row.type not in counted and row.mapping != OF_DIFFUSERS}
    kinds: dict[str, list[str]] = defaultdict(list)
    for kind, line in sorted(why.items()):
        _, named, what = line.partition("(this is ")
        kinds[what.partition(")")[0] if named else "refused for a setting, or without a default config"].append(kind)
    yield "| what they are | types |"
    yield "|---|---|"
    for what, names in sorted(kinds.items(), key=lambda item: -len(item[1])):
        yield f"| {what.partition('; ')[0]} | {len(names)}: {', '.join(names)} |"


def _counts(rows: list[Row]) -> tuple[int, int, int, int, int, int]:
    counted = [row for row in rows if row.ours is not None]
    other = [row for row in counted if row.real is not None and not row.exact]
    aside = sum(bool(row.why) for row in other)
    exact = sum(row.exact for row in counted)
    return len(rows), len(counted), exact, aside, len(other) - aside, len(rows) - len(counted)


def main(results: str, *words: str) -> None:
    """Count what is missing in the file, and print."""
    kept = Path(results)
    known = [Row(**json.loads(line)) for line in kept.read_text("utf-8").splitlines()] if kept.exists() else []
    have = {(row.mapping, row.type, row.name) for row in known}
    with kept.open("a", encoding="utf-8") as out:
        for each in classes():
            if each not in have:
                known.append(row_of(*each))
                out.write(json.dumps(asdict(known[-1])) + "\n")
                out.flush()
    print("\n".join((*tables(known), "", *refused(known))))
    if "--refused" in words:
        for row in known:
            if row.ours is None or (row.real is not None and not row.exact):
                print(f"{row.mapping} {row.type} {row.name}: {row.why or f'{row.ours:,} for {row.real:,}'}")


if __name__ == "__main__":
    main(*sys.argv[1:])
