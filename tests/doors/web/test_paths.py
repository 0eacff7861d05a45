"""No client opens a file: no text of any body of the API, and of no tool, reaches what looks for a path."""

from __future__ import annotations

import builtins
import io
import os
import re
import sys
import sysconfig
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, get_args

import anyio
import pytest
from fastapi.testclient import TestClient
from pydantic import BaseModel, ValidationError

import roofline as rl
from folded import by_day
from question_bodies import BASES, MODEL
from roofline.declared.errors import InputError, error_line
from roofline.doors import mcp as agents
from roofline.doors.web.allow_list import Allowed, chosen_machine
from roofline.doors.web.app import page_app
from roofline.doors.web.page.scenario import scenario_of
from roofline.doors.web.questions import QUESTIONS, Answered, answered, answered_all, first_fault
from roofline.doors.web.server.workers import Workers
from roofline.hardware.cluster import cluster_named

SECRET = "AKIA-HIDDEN-0123"
NAMES = ("marked", "marked.toml", "marked.json", "marked.csv", "marked.gguf", "marked.link", "8xmarked")
"""Files in the server's folder that hold the secret: all are real, one is a link to another."""
SPELT = (
    "marked", "marked.toml", "./marked.link", "../marked.toml", "8xmarked", "like=marked.toml", "LIKE=marked.link",
    "peak=1T,bw=1TB/s,mem=1GB,like=../marked.toml", "8xlike=marked", "file(marked.csv)", "own(marked.toml)",
    "vllm(marked.toml)", "weights=marked.json", "popularity=marked.csv", "marked.gguf,",
)  # fmt: skip
"""Texts that name one of them, as any text of a body could be meant."""
FREE = frozenset({("models", "find"), ("chips", "find")})
"""Fields that any text may stand in."""
SHADOWS = ("here", "h100-sxm", "8xh100-sxm", "4xdgx-h100", "dgx-h100", "gpt2", "vllm", "bf16", "generic")
"""Names of catalogs, of which there are files too."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in (*NAMES, *SHADOWS):
        if name != "marked.link":
            (tmp_path / name).write_text(f'AWS_SECRET = "{SECRET}"\n')
    (tmp_path / "marked.link").symlink_to(tmp_path / "marked.toml")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def touched(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Paths of the folder that anything looked at, opened or listed."""
    every: list[str] = []

    def watched(function: Any) -> Any:
        def call(*given: Any, **named: Any) -> Any:
            path = given[0] if given else "."
            if isinstance(path, (str, bytes, os.PathLike)):
                text = os.fsdecode(path)
                if os.path.abspath(text).startswith((str(folder), str(folder.parent / "marked"))) or "marked" in text:
                    every.append(f"{getattr(function, '__name__', function)} {text}")
            return function(*given, **named)

        return call

    for place, names in (
        (builtins, ("open",)), (io, ("open",)), (os, ("open", "stat", "lstat", "listdir", "scandir", "readlink")),
        (os.path, ("isfile", "isdir", "exists", "lexists")),
        (Path, ("open", "read_text", "read_bytes", "is_file", "is_dir", "exists", "stat", "iterdir", "glob")),
    ):  # fmt: skip
        for name in names:
            monkeypatch.setattr(place, name, watched(getattr(place, name)))
    return every


def in_process(
    self: Workers, asked: Sequence[Any], allowed: Allowed, gone: Callable[[], Awaitable[bool]], asker: Any = None
) -> Any:
    async def answers() -> list[Answered]:
        return answered_all(asked, allowed)

    return answers()


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> TestClient:
    """The API, whose questions this process answers, where what is opened can be seen."""
    monkeypatch.setattr(Workers, "ask", in_process)
    return TestClient(page_app(Allowed(own_machine=True)), base_url="http://localhost")


def texts_of(kind: type[BaseModel], base: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """The places of a body where a text may stand, those within other bodies too."""
    for name, field in kind.model_fields.items():
        kinds = [field.annotation, *get_args(field.annotation)]
        inner = next((k for k in kinds if isinstance(k, type) and issubclass(k, BaseModel)), None)
        if inner is not None:
            yield from ((name, *place) for place in texts_of(inner, base.get(name) or {}))
        elif name != "body" and name != "head":
            yield (name,)


def changed(base: Any, place: Sequence[str], text: object) -> Any:
    first, *rest = place
    own = dict(base or {})
    return {**own, first: changed(own.get(first), rest, text) if rest else text}


def spelt(place: int) -> Sequence[str]:
    """The texts for the place of that number: by day every third, others for the next place."""
    apart = by_day(3, 1)
    return SPELT[place % apart :: apart]


def check(status: int, text: str, what: object) -> None:
    assert 400 <= status < 500, (what, text)
    line = text.replace("\\n", "\n")
    assert "\n" not in line, what
    assert SECRET not in line, what
    assert "AWS_SECRET" not in line, what


OPENED: list[str] | None = None
"""Paths that Python opened or listed, while somebody looks."""
OWN = tuple(
    os.path.realpath(path) + os.sep
    for path in (Path(rl.__file__).parent, sys.prefix, sys.base_prefix, *sysconfig.get_paths().values())
)
"""What is installed: this package with its catalogs, Python and its libraries."""
PICTURES = re.compile(re.escape(tempfile.gettempdir()) + r"/tmp[a-z0-9_]{8}(/|$)")
"""Folders of Python's `tempfile`, in which a report is drawn."""


def _heard(event: str, arguments: tuple[Any, ...]) -> None:
    if OPENED is not None and event in ("open", "os.listdir", "os.scandir", "glob.glob", "sqlite3.connect"):
        path = arguments[0]
        if isinstance(path, (str, bytes, os.PathLike)):
            OPENED.append(os.fsdecode(path))


sys.addaudithook(_heard)  # it stays until the process ends, and is silent but in the test below


@contextmanager
def heard() -> Iterator[list[str]]:
    global OPENED
    OPENED = []
    try:
        yield OPENED
    finally:
        OPENED = None


def absolute(folder: Path) -> Sequence[str]:
    """Texts that name a file wherever the server runs."""
    return (
        f"{folder}/marked.toml", f"like={folder}/marked.toml", f"file({folder}/marked.csv)", f"file://{folder}/marked",
        "/etc/passwd", "~/marked.toml", "/proc/self/environ", "/dev/stdin", "8x/etc/passwd", "..", "/", "",
    )  # fmt: skip


@pytest.mark.drawn(9)
@pytest.mark.parametrize("name", BASES)
def test_whatever_a_body_says_only_what_is_installed_is_opened(name: str, client: TestClient, folder: Path) -> None:
    """By Python's own record of what it opens, so that no way to open a file is left out."""
    texts, apart = absolute(folder), by_day(3, 1)
    answered(name, BASES[name], Allowed())  # loads what it needs, from wherever libraries keep it
    for i, place in enumerate(texts_of(QUESTIONS[name].body, BASES[name])):
        for text in texts[i % apart :: apart]:
            with heard() as opened, suppress(InputError, ValidationError):
                answered(name, changed(BASES[name], place, text), Allowed())
            outside = [path for path in opened if not (os.path.realpath(path).startswith(OWN) or PICTURES.match(path))]
            assert outside == [], (place, text)


@pytest.mark.drawn(9)
@pytest.mark.parametrize("name", BASES)
def test_no_text_of_a_body_opens_a_file(name: str, client: TestClient, folder: Path, touched: list[str]) -> None:
    for i, place in enumerate(texts_of(QUESTIONS[name].body, BASES[name])):
        given = client.post(f"/api/v1/{name}", json=changed(BASES[name], place, "like=marked.toml"))
        check(given.status_code, given.text, place)
        for text in spelt(i):
            with pytest.raises((InputError, ValidationError)) as refused:
                answered(name, changed(BASES[name], place, text), Allowed(own_machine=True))
            error = refused.value
            line = error_line(error) if isinstance(error, InputError) else ": ".join(first_fault(error))
            check(422, line, (place, text))
            assert [each for each in NAMES if each in line and each not in text] == [], (place, text)
            assert not touched, (place, text, touched)


@pytest.mark.drawn(6)
@pytest.mark.parametrize("tool", agents.TOOLS)
def test_no_text_of_a_tool_opens_a_file(
    tool: str, client: TestClient, folder: Path, touched: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = agents.CATALOGUES[tool].body if tool in agents.CATALOGUES else QUESTIONS[tool].body
    for i, place in enumerate(texts_of(kind, BASES.get(tool, {}))):
        for text in spelt(i):
            try:
                given = anyio.run(
                    agents.tool_answer, tool, changed(BASES.get(tool, {}), place, text), Workers(),
                    Allowed(own_machine=True),
                )  # fmt: skip
            except InputError as error:
                check(422, error_line(error), (place, text))
            else:
                assert (tool, *place) in FREE, (place, text, given)
            assert not touched, (place, text, touched)


@pytest.mark.parametrize("within", ["table", "batch"])
def test_no_text_of_a_body_within_a_body_opens_a_file(within: str, client: TestClient, touched: list[str]) -> None:
    for i, field in enumerate(("model", "on", "layout", "precision", "engine")):
        for text in spelt(i):
            inner = {**BASES["fit"], field: text}
            one = {"name": "fit", "body": inner}
            body = one if within == "table" else {"questions": [one]}
            given = client.post(f"/api/v1/{within}", json=body)
            status = given.status_code if within == "table" else given.json()["answers"][0]["status"]
            check(status, given.text, text)
            assert not touched, (field, text, touched)


CONFIG = {
    "model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "vocab_size": 1000, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 4,
}  # fmt: skip


def test_no_text_of_a_config_opens_a_file(client: TestClient, touched: list[str]) -> None:
    """Of keys that nothing reads any text is taken; no key's is ever a path."""
    scheme = {"quant_method": "marked.json", "modules_to_not_convert": ["marked.json"], "config_file": "marked.json"}
    hostile: list[dict[str, Any]] = [
        *({key: text} for text in NAMES for key in (
            "model_type", "dtype", "torch_dtype", "hidden_act", "_name_or_path", "tokenizer_file", "text_config",
            "auto_map", "quantization_config", "hf_quant_config", "hidden_size", "layer_types", "rope_scaling",
        )), {"quantization_config": scheme}, {"quantization_config": {**scheme, "quant_method": "fp8"}},
        {"text_config": {"model_type": "marked.json"}}, {"architectures": ["marked.json"]},
    ]  # fmt: skip
    for more in hostile:
        given = client.post("/api/v1/analyze", json={"model": {**CONFIG, **more}})
        assert given.status_code in (200, 422), (more, given.text)
        assert SECRET not in given.text
        assert not touched, (more, touched)
    for gguf in ({"metadata": {"general.architecture": "marked.json"}, "tensors": []}, {"path": "marked.gguf"}):
        given = client.post("/api/v1/analyze", json={"model": {"gguf": gguf}})
        check(given.status_code, given.text, gguf)
        assert not touched


def test_like_is_refused_whatever_is_behind_it(client: TestClient, touched: list[str]) -> None:
    for text in ("like=here", "like=h100-sxm,bw=4.8TB/s", "peak=1T,bw=1TB/s,mem=1GB,like=here", "like=.env"):
        for name, body in (("fit", {**BASES["fit"], "on": text}), ("diff", changed(BASES["diff"], ("b", "on"), text))):
            given = client.post(f"/api/v1/{name}", json=body)
            check(given.status_code, given.text, text)
            assert "like" in given.json()["message"]
    assert not touched


def test_files_do_not_stand_in_for_what_comes_along(client: TestClient, touched: list[str]) -> None:
    """Files in the server's folder that are called as chips, clusters, models and engines are."""
    for on in ("h100-sxm", "8xh100-sxm", "4xdgx-h100", "dgx-h100", "peak=1000T,bw=4.8T,mem=141G"):
        body = {"model": MODEL, "on": on, "engine": "vllm", "precision": "bf16"}
        assert client.post("/api/v1/fit", json=body).status_code == 200, on
        diff = client.post(
            "/api/v1/diff", json={"a": body, "b": {**body, "model": "gpt2", "context": 512, "prompt": 512}}
        )
        assert diff.status_code == 200, diff.text
        assert diff.json()["a"]["on"] == on
    assert not touched


def test_a_side_of_figures_is_that_of_the_library() -> None:
    on = "peak=1000T,bw=4.8T,mem=141G"
    given = answered("diff", {"a": {"model": MODEL, "on": on}, "b": {"model": MODEL, "on": "h200-sxm"}})
    assert given == rl.diff(f"{MODEL}@{on}", f"{MODEL}@h200-sxm").to_dict()


def test_a_person_s_files_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the library, of commands and of an exported page; names that come along are theirs, whatever lies beside."""
    monkeypatch.chdir(tmp_path)
    chip = '[own]\nname = "Own"\n[own.peak]\nbf16 = 100\n[own.memory]\nbandwidth_gbs = 1000\ncapacity_gb = 64\n'
    Path("own.toml").write_text(chip)
    Path("8xh100-sxm").write_text(chip)
    assert cluster_named("8xh100-sxm").chips == 8
    assert rl.fit(MODEL, on="like=own.toml").memory.capacity == 64e9
    assert rl.fit(MODEL, on="own.toml").memory.capacity == 64e9
    for on in ("own.toml", "like=own.toml,mem=32GB"):
        name, body = scenario_of(on=on).body("fit")
        given = answered(name, body, Allowed(files=True))
        assert given["memory"]["capacity"] == (64e9 if on == "own.toml" else 32e9)
        with pytest.raises(InputError, match=r"^(on|chip like): "):
            chosen_machine(on)
