"""Says what stands between this checkout and a release: `python release/check.py [FOLDER OF THE BUILT FILES]`.

One line for each thing that is missing; it fails if there is one. With a folder it looks at the wheel and the source
archive there too.
"""

from __future__ import annotations

import email
import re
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
RELEASED = re.compile(r"\d+\.\d+\.\d+((a|b|rc)\d+)?")
DIGEST = re.compile(r"\S+:\S+@sha256:[0-9a-f]{64}")
PINNED = re.compile(r"[\w.-]+(/[\w.-]+)+@[0-9a-f]{40}")


def text(name: str) -> str:
    """A file of the repository."""
    return (ROOT / name).read_text(encoding="utf-8")


def unknown_addresses() -> Iterator[str]:
    """What `addresses.toml` does not say."""
    known = tomllib.loads(text("release/addresses.toml"))
    for name, value in known.items():
        if not value:
            yield f"release/addresses.toml: {name} is not known"
        elif name in ("repository", "documents") and not re.fullmatch(r"https://[^\s]+[^/\s]", value):
            yield f"release/addresses.toml: {name} is no address with https and without a slash at its end: {value}"


def unpinned() -> Iterator[str]:
    """Images without a digest, and actions without a commit."""
    for base in re.findall(r"^FROM (\S+)", text("Dockerfile"), re.MULTILINE):
        if not DIGEST.fullmatch(base):
            yield f"Dockerfile: {base} has no digest"
    for path in sorted((ROOT / ".github" / "workflows").glob("*.yml")):
        for action in re.findall(r"\buses: (\S+)", path.read_text(encoding="utf-8")):
            if not PINNED.fullmatch(action):
                yield f"{path.name}: {action} has no commit"


def releases() -> dict[str, str]:
    """Version → its date, as the changelog's headings say them."""
    return dict(re.findall(r"^## (\d+\.\d+\.\d+\S*) - (\d{4}-\d\d-\d\d)$", text("CHANGELOG.md"), re.MULTILINE))


def unsaid(version: str) -> Iterator[str]:
    """What the changelog and the citation do not say of a version."""
    date = releases().get(version)
    if date is None:
        yield f"CHANGELOG.md: no heading `## {version} - YEAR-MONTH-DAY`"
    for key, value in (("version", version), ("date-released", date)):
        if value and not re.search(rf"^{key}: ['\"]?{re.escape(value)}['\"]?$", text("CITATION.cff"), re.MULTILINE):
            yield f"CITATION.cff: {key} is not {value}"


def built(folder: Path) -> Iterator[str]:
    """What is wrong with a wheel and a source archive."""
    wheels, archives = sorted(folder.glob("*.whl")), sorted(folder.glob("*.tar.gz"))
    if (len(wheels), len(archives)) != (1, 1):
        yield f"{folder}: {len(wheels)} wheels and {len(archives)} source archives, expected one of each"
        return
    with zipfile.ZipFile(wheels[0]) as wheel:
        name = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(wheel.read(name))
    with tarfile.open(archives[0]) as archive:
        top = {name.partition("/")[0] for name in archive.getnames()}
    version = metadata["Version"]
    if top != {f"{metadata['Name']}-{version}"}:
        yield f"{archives[0].name}: holds {', '.join(sorted(top))}, not the version of the wheel"
    if not RELEASED.fullmatch(version):
        yield f"{version} is no release: tag the commit with `v` and the version"
        return
    description = str(metadata.get_payload())
    for target in re.findall(r"\]\((?!https://|#)([^)\s]+)\)", description):
        yield f"the description leads to {target}, which is no absolute address"
    if not metadata.get_all("Project-URL"):
        yield "the metadata has no addresses"
    yield from unsaid(version)


def main(words: list[str]) -> None:
    """Prints what is missing."""
    lines = [*unknown_addresses(), *unpinned(), *(line for folder in words for line in built(Path(folder)))]
    print("\n".join(lines) or "ready")
    sys.exit(bool(lines))


if __name__ == "__main__":
    main(sys.argv[1:])
