"""Model types that other software supports, for the comparison in `tests/model/test_supported_types.py`.

    python benchmarks/supported_types.py                  # newest releases from the package index
    python benchmarks/supported_types.py --wheels FOLDER  # wheels that are here already

Names are read out of the wheels, none of which is installed or imported: vLLM's registry of text and multimodal models
(architectures), SGLang's entry classes (architectures), mlx-lm's modules and transformers' configurations (types).
"""

from __future__ import annotations

import argparse
import ast
import datetime
import json
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

KEPT = Path(__file__).parents[1] / "tests" / "model" / "supported_types.json"
PACKAGES = {"vllm": "vllm", "sglang": "sglang", "mlx-lm": "mlx_lm", "transformers": "transformers"}
REGISTRY = "vllm/model_executor/models/registry.py"
SECTIONS = ("_TEXT_GENERATION_MODELS", "_MULTIMODAL_MODELS")
MAPPINGS = ("transformers/models/auto/auto_mappings.py", "transformers/models/auto/configuration_auto.py")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wheels", type=Path, help="folder with wheels, instead of downloading them")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        wheels = chosen.wheels or Path(folder)
        if chosen.wheels is None:
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, *PACKAGES]
            subprocess.run(command, check=True)
        lists = {name: read(wheels, name) for name in PACKAGES}
    before = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    KEPT.write_text(json.dumps({"read": today, **lists}, indent=1) + "\n")
    for name, kept in lists.items():
        new = sorted({*kept["names"]} - {*before.get(name, {}).get("names", ())})
        print(f"{name} {kept['version']}: {len(kept['names'])} names, {len(new)} new", *new, sep="\n  ")


def read(wheels: Path, package: str) -> dict[str, object]:
    """Version and names of a package's wheel in a folder, the newest where there are several."""
    wheel = max(wheels.glob(f"{PACKAGES[package]}-*.whl"), key=lambda path: path.stat().st_mtime)
    with zipfile.ZipFile(wheel) as archive:
        return {"version": wheel.name.split("-")[1], "names": sorted({*NAMES[package](archive)})}


def _text(archive: zipfile.ZipFile, name: str) -> str:
    return archive.read(name).decode()


def _assigned(source: str, *names: str) -> Iterator[ast.expr]:
    """Values that a module assigns to these names, or updates them with."""
    for node in ast.parse(source).body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name in names:
                yield value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value) if name in names:
                yield value
            case ast.Expr(ast.Call(ast.Attribute(ast.Name(id=name), "update"), args=[value])) if name in names:
                yield value


def _keys(value: ast.expr) -> Iterator[str]:
    """Keys of a dict that is written out, or of pairs that are."""
    for node in ast.walk(value):
        first = node.elts[:1] if isinstance(node, ast.Tuple) else node.keys if isinstance(node, ast.Dict) else []
        yield from (x.value for x in first if isinstance(x, ast.Constant) and isinstance(x.value, str))


def _of_vllm(archive: zipfile.ZipFile) -> Iterator[str]:
    for value in _assigned(_text(archive, REGISTRY), *SECTIONS):
        assert isinstance(value, ast.Dict)
        yield from (x.value for x in value.keys if isinstance(x, ast.Constant) and isinstance(x.value, str))


def _of_sglang(archive: zipfile.ZipFile) -> Iterator[str]:
    for path in archive.namelist():
        if re.fullmatch(r"sglang/srt/models/\w+\.py", path):
            for value in _assigned(_text(archive, path), "EntryClass"):
                yield from (node.id for node in ast.walk(value) if isinstance(node, ast.Name))


def _of_mlx(archive: zipfile.ZipFile) -> Iterator[str]:
    for path in archive.namelist():
        module = re.fullmatch(r"mlx_lm/models/([\w-]+)\.py", path)
        if module and re.search(r"^class ModelArgs\b", _text(archive, path), re.MULTILINE):
            yield module[1]


def _of_transformers(archive: zipfile.ZipFile) -> Iterator[str]:
    for path in MAPPINGS:
        for value in _assigned(_text(archive, path), "CONFIG_MAPPING_NAMES"):
            yield from _keys(value)


NAMES = {"vllm": _of_vllm, "sglang": _of_sglang, "mlx-lm": _of_mlx, "transformers": _of_transformers}
"""Package → reader of the names in its wheel."""

if __name__ == "__main__":
    main()
