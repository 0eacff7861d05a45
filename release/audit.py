"""Looks for known advisories: `python release/audit.py`, by a Python that has the package with its extras.

It asks pip-audit about every package installed. Where no database can be reached, or pip-audit is not there, it
compares them with `advisories.toml`. The least versions that pyproject.toml allows are always compared with that file.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from importlib.metadata import distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]


def recorded() -> Mapping[str, list[list[str]]]:
    """Name of a package → its advisories, each with the first release that is not affected."""
    return tomllib.loads((ROOT / "release" / "advisories.toml").read_text(encoding="utf-8"))


def least_versions() -> dict[str, Version]:
    """The least version of each package that pyproject.toml allows in any extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = {*project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra)}
    least: dict[str, Version] = {}
    for requirement in map(Requirement, lines):
        lowest = min(Version(s.version.removesuffix(".*")) for s in requirement.specifier if s.operator in (">=", "=="))
        name = canonicalize_name(requirement.name)
        least[name] = min(lowest, least.get(name, lowest))
    return least


def affected(versions: Mapping[str, Version]) -> Iterator[str]:
    """A line for each recorded advisory of these versions."""
    for name, advisories in recorded().items():
        for identifier, fixed in advisories:
            if name in versions and versions[name] < Version(fixed):
                yield f"{name} {versions[name]}: {identifier}, fixed in {fixed}"


def asked_of_a_database() -> list[str] | None:
    """What pip-audit says of the packages installed; None if it cannot say."""
    words = [sys.executable, "-m", "pip_audit", "--local", "--format", "json", "--progress-spinner", "off"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    try:
        packages = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError, TypeError):
        return None
    told = [package for package in packages if "vulns" in package]
    if not any(package["name"] in ("numpy", "jinja2") for package in told):
        return None
    return [f"{p['name']} {p['version']}: {v['id']}, fixed in {', '.join(v['fix_versions'])}"
            for p in told for v in p["vulns"]]  # fmt: skip


def installed() -> dict[str, Version]:
    """Name of a package → its version in this Python."""
    names = ((d.metadata["Name"], d.version) for d in distributions())
    return {canonicalize_name(n): Version(v) for n, v in names if n and re.match(r"\d", v)}


def main() -> None:
    """Prints a line for each advisory, and fails if there is one."""
    lines = [f"pyproject.toml allows {line}" for line in affected(least_versions())]
    told = asked_of_a_database()
    if told is None:
        print("no database of advisories can be reached: compared with release/advisories.toml")
        told = list(affected(installed()))
    lines += told
    print("\n".join(lines) or "no known advisory")
    sys.exit(bool(lines))


if __name__ == "__main__":
    main()
