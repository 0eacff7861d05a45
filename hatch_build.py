"""The parts of the package's metadata that hold addresses: its URLs, and its description with absolute links.

Addresses stand in `release/addresses.toml`. While the repository's is not known, there are no URLs, and links of the
description stay as they are in README.md.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

PICTURES = re.compile(r"(!\[[^\]]*\]\()(?!https?://)([^)\s]+)\)")
LINKS = re.compile(r"((?<!!)\[[^\]]*\]\()(?!https?://|#)([^)\s]+)\)")


def addresses(root: Path) -> Mapping[str, str]:
    """What `release/addresses.toml` says; empty where it is not known."""
    return tomllib.loads((root / "release" / "addresses.toml").read_text(encoding="utf-8"))


def urls(known: Mapping[str, str]) -> dict[str, str]:
    """The links of the package's page."""
    repository, documents = known["repository"], known["documents"]
    of_repository = {
        "Repository": repository,
        "Issues": f"{repository}/issues",
        "Changelog": f"{repository}/blob/main/CHANGELOG.md",
    }
    return (of_repository if repository else {}) | ({"Documentation": documents} if documents else {})


def described(readme: str, repository: str, ref: str) -> str:
    """README.md with absolute links: pictures as raw files, the rest as pages, both of one commit or tag."""
    if not repository:
        return readme
    pictures = PICTURES.sub(rf"\g<1>{repository}/raw/{ref}/\g<2>)", readme)
    return LINKS.sub(rf"\g<1>{repository}/blob/{ref}/\g<2>)", pictures)


def ref_of(version: str) -> str:
    """The tag of a released version; the main branch for any other."""
    return f"v{version}" if re.fullmatch(r"\d+(\.\d+)*((a|b|rc)\d+)?", version) else "main"


class Addresses(MetadataHookInterface):
    """Fills in what depends on the addresses."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Called by hatchling with the table `project`."""
        root = Path(self.root)
        known = addresses(root)
        text = described(
            (root / "README.md").read_text(encoding="utf-8"), known["repository"], ref_of(metadata["version"])
        )
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        if links := urls(known):
            metadata["urls"] = links
