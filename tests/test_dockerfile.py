"""The Dockerfile, read as a linter would, as no daemon runs where the tests do: a pinned base, no root, no secrets."""

from __future__ import annotations

import json
import re
import tomllib
from inspect import signature
from pathlib import Path

import pytest

from roofline.doors.cli.commands.show.web import web
from roofline.doors.cli.main import main

ROOT = Path(__file__).parents[1]
LINES = [line.split(maxsplit=1) for line in (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines() if line]


def said(word: str) -> list[str]:
    """What stands behind an instruction."""
    return [rest for name, rest in LINES if name == word]


def test_the_base_is_pinned_and_new_enough() -> None:
    (base,) = said("FROM")
    version = re.fullmatch(r"python:(3)\.(\d+)\.\d+-slim-[a-z]+@sha256:[0-9a-f]{64}", base)
    assert version is not None, base
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    least = re.search(r">=3\.(\d+)", project["requires-python"])
    assert least is not None
    assert int(version[2]) >= int(least[1])


def test_what_is_copied_is_there_and_what_is_not_wanted_stays() -> None:
    copied = [name for line in said("COPY") for name in line.split()[:-1]]
    assert copied
    assert all((ROOT / name).exists() for name in copied)
    assert not set(copied) & {".", "*", "tests", ".git"}


def test_a_build_of_the_package_has_what_it_reads() -> None:
    """What pyproject.toml and its hook name, and no file that .dockerignore keeps away."""
    copied = {name.rstrip("/") for line in said("COPY") for name in line.split()[:-1]}
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    licences = tomllib.loads(text)["project"]["license-files"]
    assert {"pyproject.toml", "hatch_build.py", ".git_archival.txt", "README.md", "src", *licences} <= copied
    assert "release/addresses.toml" in copied
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    assert not {name.partition("/")[0] for name in copied} & set(ignored)


def test_nobody_is_root_and_nothing_is_secret() -> None:
    names = [name for name, _ in LINES]
    (user,) = said("USER")
    assert int(user) > 0  # a number: a cluster that refuses root cannot look up a name
    assert max(i for i, name in enumerate(names) if name == "RUN") < names.index("USER") < names.index("ENTRYPOINT")
    assert not set(names) & {"ENV", "ARG", "ADD", "VOLUME"}
    assert not re.search("token|secret|password|api.?key|sudo|curl|wget", (ROOT / "Dockerfile").read_text(), re.I)
    assert all("--no-cache-dir" in line for line in said("RUN") if "pip install" in line)


def test_it_starts_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    words = json.loads(said("ENTRYPOINT")[0])
    port = signature(web).parameters["port"].default
    assert said("EXPOSE") == [str(port)]
    assert words[words.index("--port") + 1] == str(port)
    assert words[0] == "roofline"
    with pytest.raises(SystemExit) as ended:
        main(words[1:])
    assert ended.value.code == 2
    assert "--token" in capsys.readouterr().err  # all that is left to say: others reach it
