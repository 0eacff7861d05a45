"""Fills in the recipes of other package managers: `python release/recipes.py SOURCE_ARCHIVE FOLDER [--example]`.

Both point to the source archive among the files of the repository's release. Version and hash are those of the
archive given; addresses stand in `addresses.toml`. With `--example` one that is not known is made up, for a linter.
Where py-rattler-build is installed, it reads conda-forge's recipe as conda-forge does, and fails on what is wrong.
"""

from __future__ import annotations

import hashlib
import re
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
RECIPES = ("conda-forge/recipe.yaml", "homebrew/roofline.rb")


def filled(template: str, archive: Path, example: bool = False) -> str:
    """A recipe with `@NAMES@` replaced; fails on a name that nothing is known for."""
    known = tomllib.loads((HERE / "addresses.toml").read_text(encoding="utf-8"))
    if example:
        known = {name: value or f"https://{name}.invalid" for name, value in known.items()}
    version = re.fullmatch(rf"{known['name']}-(\d[\w.+]*)\.tar\.gz", archive.name)
    if version is None:
        raise SystemExit(f"{archive.name}: expected {known['name']}-VERSION.tar.gz")
    values = {
        "VERSION": version[1],
        "SHA256": hashlib.sha256(archive.read_bytes()).hexdigest(),
        **{name.upper(): value for name, value in known.items()},
    }
    missing = sorted({name for name in re.findall(r"@([A-Z0-9]+)@", template) if not values.get(name)})
    if missing:
        raise SystemExit(f"not known: {', '.join(missing).lower()}; see release/addresses.toml")
    text = re.sub(r"\A(#.*\n)+", "", template)  # what it says of itself
    return re.sub(r"@([A-Z0-9]+)@", lambda m: values[m[1]], text)


def read_as_conda_forge_does(recipe: Path) -> None:
    """Fails on a recipe that cannot be rendered."""
    try:
        from rattler_build import Stage0Recipe, VariantConfig
    except ImportError:
        return
    Stage0Recipe.from_file(recipe).render(VariantConfig())


def main(archive: Path, folder: Path, example: bool = False) -> None:
    """Writes the recipes into a folder."""
    for name in RECIPES:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(filled((HERE / name).read_text(encoding="utf-8"), archive, example), encoding="utf-8")
    read_as_conda_forge_does(folder / RECIPES[0])


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), "--example" in sys.argv)
