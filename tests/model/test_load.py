from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from folded import folded
from headed import write, write_all
from hub import COMMIT, CONFIG, FILES, OLDER, TOKEN, Hub
from roofline.declared.errors import InputError
from roofline.model import load as loading
from roofline.model.checkpoints.checkpoint import tensors_of
from roofline.model.load import CatalogEntry, catalog, catalog_config, config_of, load, origin_of
from roofline.model.sources.hub import HubError

SOURCE = str(Path(loading.__file__).parents[2])


def refused(source: Any, *parts: str, **options: Any) -> InputError:
    """The error of loading `source`, which has to be one printable line with all `parts` in it."""
    with pytest.raises(InputError) as caught:
        load(source, **options)
    line = str(caught.value)
    assert line.isprintable()
    for part in parts:
        assert part in line
    return caught.value


def no_network(*args: object, **options: object) -> None:
    raise AssertionError("the network was asked")


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, name, no_network)
    monkeypatch.setattr(socket, "create_connection", no_network)
    monkeypatch.setattr(loading, "_fetch", no_network)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "tiny").mkdir()
    path = tmp_path / "tiny" / "config.json"
    path.write_text(json.dumps(CONFIG))
    return path


def written(folder: Path, content: str | bytes) -> Path:
    path = folder / "config.json"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


# -- dicts, files, folders -----------------------------------------------------------------------------------------
def test_dict() -> None:
    model = load(CONFIG)
    assert (model.name, len(model.layers), model.vocab) == ("llama", 2, 128)
    assert config_of(CONFIG) == ("", CONFIG)


@pytest.mark.parametrize("kind", [str, Path])
def test_file_and_folder(config: Path, kind: type) -> None:
    for path in (config, config.parent):
        assert load(kind(path)) == replace(load(CONFIG), name="tiny")
    assert config_of(kind(config)) == ("tiny", CONFIG)


def test_file_of_any_name(config: Path) -> None:
    other = config.rename(config.with_name("my-model.json"))
    assert load(other).name == "my-model"


def test_relative_paths_and_home(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(config.parent)
    assert load("config.json").name == load(".").name == load("./config.json").name == "tiny"
    monkeypatch.setenv("HOME", str(config.parent))
    monkeypatch.setenv("USERPROFILE", str(config.parent))
    assert load("~/config.json").name == "tiny"


def test_path_comes_before_catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, offline: None) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "meta-llama" / "Llama-3.1-8B"
    folder.mkdir(parents=True)
    refused("meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-8B: ", "a folder with a config.json")
    written(folder, json.dumps(CONFIG))
    assert load("meta-llama/Llama-3.1-8B").vocab == 128


def test_nothing_there(tmp_path: Path) -> None:
    refused(tmp_path, f"{tmp_path}: expected a folder with a config.json")
    for path in ("./nothing", "nothing.json", "~/nothing/config.json", "/nothing", "..\\nothing"):
        refused(path, f"{path}: ", "No such file")
    refused(Path("nothing"), "nothing: ", "No such file")


def test_config_that_is_a_folder_or_a_dead_link(tmp_path: Path) -> None:
    (tmp_path / "config.json").mkdir()
    refused(tmp_path, "expected a regular file")
    (tmp_path / "config.json").rmdir()
    (tmp_path / "config.json").symlink_to("gone")
    refused(tmp_path, "No such file")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_pipe_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "config.json")
    refused(tmp_path, "expected a regular file")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_unreadable(config: Path) -> None:
    config.chmod(0)
    refused(config, f"{config}: expected a file that can be read", "Permission denied")


def test_unprintable_path(tmp_path: Path) -> None:
    refused(tmp_path / "a\nb.json", r"a\nb.json", "No such file")
    refused("\0.json", r"\x00.json", "null")
    refused("./" + "x" * 5000, "too long")


# -- what stands in a file -----------------------------------------------------------------------------------------
@folded(
    ("content", "parts"),
    [
        (b"", ["expected JSON at line 1, column 1"]),
        ("{", ["expected JSON at line 1, column 2"]),
        ('{"a": 1,\n "b" 2}', ["expected JSON at line 2, column 6"]),
        ("{'a': 1}", ["expected JSON at line 1"]),
        ("[1]", ["expected a JSON object", "a list"]),
        ("null", ["expected a JSON object"]),
        ("1", ["expected a JSON object"]),
        ('{"a": 1} trailing', ["expected JSON", "Extra data"]),
        (b"\x89PNG\r\n\x1a\n\0\0", ["expected JSON in UTF-8", "0x89 at offset 0"]),
        (json.dumps(CONFIG).encode("utf-16"), ["expected JSON in UTF-8"]),
        ('{"a": 1, "a": 1}', ["expected each key once", "'a' twice"]),
        ('{"a": {"b": 1, "b": 2}}', ["expected each key once"]),
        ('{"\\u001b[2Ja": 1}', ["printable"]),
        ('{"a": ' + "9" * 101 + "}", ["at most 100 characters"]),
        ('{"a": ' + "9" * 10_000_000 + "}", ["at most 100 characters"]),
        ('{"a": -1.' + "0" * 1_000_000 + "}", ["at most 100 characters"]),
        ("[" * 1_000_000, ["levels of nesting"]),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, ["levels of nesting"]),
        ('{"a":' + "[" * 64 + "]" * 64 + "}", ["at most 64 levels of nesting"]),
    ],
    ids=lambda value: None if isinstance(value, list) else f"{value[:12]!r}",
)
def test_refused_content(tmp_path: Path, content: str | bytes, parts: list[str]) -> None:
    path = written(tmp_path, content)
    assert refused(path, *parts).field == str(path)


def test_largest_file(tmp_path: Path) -> None:
    os.truncate(written(tmp_path, ""), 20 * 2**20)
    refused(tmp_path, f"expected at most {16 * 2**20} bytes, got '{20 * 2**20} bytes'")
    text = json.dumps(CONFIG)
    load(written(tmp_path, text + " " * (16 * 2**20 - len(text))))
    refused(written(tmp_path, text + " " * (16 * 2**20 - len(text) + 1)), "bytes")


def test_accepted_content(tmp_path: Path) -> None:
    text = '\ufeff{"a": Infinity, "b": -Infinity, "c": 1e999, "d": ' + "[" * 63 + "]" * 63 + "}"
    raw = config_of(written(tmp_path, text))[1]
    assert (raw["a"], raw["b"], raw["c"]) == (float("inf"), float("-inf"), float("inf"))
    assert config_of(written(tmp_path, '{"a": NaN}'))[1]["a"] != 0


def test_infinity_is_left_to_the_reader(tmp_path: Path) -> None:
    infinite = json.dumps({**CONFIG, "hidden_size": float("inf")})
    assert refused(written(tmp_path, infinite), "hidden_size").field == "hidden_size"


def test_remote_code_is_not_run(tmp_path: Path) -> None:
    (tmp_path / "modeling.py").write_text("raise SystemExit('run')")
    auto_map = {"AutoConfig": "modeling.Config", "AutoModelForCausalLM": "modeling.Model"}
    assert load(written(tmp_path, json.dumps({**CONFIG, "auto_map": auto_map}))).vocab == 128


# -- the catalog ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["meta-llama/Llama-3.1-8B", "META-LLAMA/llama-3.1-8b", "Llama-3.1-8B", "llama-3.1-8b"])
def test_catalog_names(name: str, offline: None) -> None:
    model = load(name)
    assert model.name == "meta-llama/Llama-3.1-8B"
    assert model.parameters == catalog()[model.name].parameters == 8_030_261_248


def test_catalog_is_whole() -> None:
    files = {p.relative_to(loading.CATALOG).as_posix()[:-5] for p in loading.CATALOG.glob("*/*.json")}
    assert files == set(catalog())
    configs = [catalog_config(name) for name in catalog()]
    assert all(isinstance(config.get("model_type", config.get("_class_name")), str) for config in configs)


def test_catalog_needs_no_huggingface_hub() -> None:
    code = "import sys, roofline; roofline.load('llama-3.1-8b'); print('huggingface_hub' in sys.modules)"
    env = {**os.environ, "PYTHONPATH": SOURCE}
    assert subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True).stdout == "False\n"


@pytest.fixture
def small_catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    entry = {
        "model_type": "llama",
        "parameters": 1,
        "active_parameters": 1,
        "published": "1",
        "active": None,
        "source": "here",
        "scope": "all",
    }
    for name in ("a/twin", "b/Twin"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / f"{name}.json").write_text(json.dumps(CONFIG))
    (tmp_path / "index.json").write_text(json.dumps({"a/twin": entry, "b/Twin": entry}))
    monkeypatch.setattr(loading, "CATALOG", tmp_path)
    catalog.cache_clear()
    yield
    catalog.cache_clear()


def test_name_of_two_models(small_catalog: None, offline: None) -> None:
    assert dict(catalog())["a/twin"] == CatalogEntry("a/twin", "llama", 1, 1, "1", None, "here", "all")
    assert load("B/twin").name == "b/Twin"
    assert refused("twin", "more than one").nearest == ("a/twin", "b/Twin")


def test_catalog_config_wants_the_id() -> None:
    with pytest.raises(InputError, match=r"nearest: meta-llama/Llama-3\.1-8B"):
        catalog_config("Llama-3.1-8B")
    first = catalog_config("meta-llama/Llama-3.1-8B")
    first.clear()
    assert catalog_config("meta-llama/Llama-3.1-8B")


# -- names that are none -------------------------------------------------------------------------------------------
@folded(
    "name",
    ["", " ", "a/b/c", "a b", "a..b", "a--b", "org/", "-a", "a.", "a/b.git", "org/na\nme", "café", "x" * 97, "\0"],
)
def test_invalid_names(name: str, offline: None) -> None:
    assert refused(name, "model: expected a config.json or its folder", "Hub id").field == "model"


def test_invalid_name_suggests(offline: None) -> None:
    assert "meta-llama/Llama-3.1-8B" in refused("https://huggingface.co/meta-llama/Llama-3.1-8B").nearest


@pytest.mark.parametrize("source", [None, 5, b"gpt2", ["gpt2"]])
def test_other_types(source: object) -> None:
    refused(source, "model: expected ", "or a dict")


@folded("revision", ["", "../../x", "a b", "a\nb", "/a", "a/", "-x", 5])
def test_invalid_revisions(revision: Any, offline: None) -> None:
    assert refused("org/good", "expected a branch", revision=revision).field == "revision"


def test_revision_is_for_names(config: Path) -> None:
    for source in (CONFIG, config):
        assert refused(source, "only a name", revision="main").field == "revision"


# -- the Hub -------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def server() -> Iterator[Hub]:
    import huggingface_hub

    with Hub() as hub, pytest.MonkeyPatch.context() as patch:
        for name in ("NO_PROXY", "no_proxy"):
            patch.setenv(name, "127.0.0.1")
        huggingface_hub.close_session()  # one made before would not know NO_PROXY
        yield hub
        huggingface_hub.close_session()


def point_at(url: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes huggingface_hub, which reads its environment when imported, use `url` and keep its files in `home`."""
    from huggingface_hub import constants

    values = {
        "ENDPOINT": url,
        "HUGGINGFACE_CO_URL_TEMPLATE": url + "/{repo_id}/resolve/{revision}/{filename}",
        "HF_HOME": str(home),
        "HF_HUB_CACHE": str(home / "hub"),
        "HF_TOKEN_PATH": str(home / "token"),
        "HF_STORED_TOKENS_PATH": str(home / "stored_tokens"),
        "AGENT_HARNESSES_PATH": str(home / "harnesses.json"),
        "HF_HUB_OFFLINE": False,
        "HF_HUB_DISABLE_TELEMETRY": True,
        "HF_HUB_DISABLE_IMPLICIT_TOKEN": False,
        "HF_HUB_ETAG_TIMEOUT": 5,
        "HF_HUB_DOWNLOAD_TIMEOUT": 5,
    }
    for name, value in values.items():
        monkeypatch.setattr(constants, name, value, raising=False)
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("time.sleep", lambda seconds: None)


@pytest.fixture
def hub(
    server: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Iterator[Hub]:
    """The server, asked by huggingface_hub; whatever fails, nothing may reach stdout or stderr."""
    server.asked.clear()
    server.others.clear()
    point_at(server.url, tmp_path / "home", monkeypatch)
    yield server
    assert capfd.readouterr() == ("", "")


def go_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


def test_download(hub: Hub, tmp_path: Path) -> None:
    model = load("org/good")
    assert (model.name, len(model.layers)) == ("org/good", 2)
    assert config_of("org/good") == ("org/good", CONFIG)
    assert {token for _, _, token in hub.asked} == {None}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["home"]


def test_second_time_only_asks_whether_it_changed(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    load("org/good")
    hub.asked.clear()
    load("org/good")
    assert hub.asked == [("HEAD", "org/good", None)]
    go_offline(monkeypatch)
    assert len(load("org/good").layers) == 2
    assert len(hub.asked) == 1


def test_cached_copy_serves_where_the_hub_fails(hub: Hub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    load("org/good")
    for url in ("http://127.0.0.1:9", f"{hub.url}/org/broken/resolve/main/config.json?"):
        point_at(url, tmp_path / "home", monkeypatch)
        assert load("org/good").name == "org/good"


QUANTIZED = json.dumps({"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8"}}).encode()


def test_quantization_beside_the_config(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorRT Model Optimizer's file, asked once for each commit."""
    monkeypatch.setitem(FILES, "org/fp8", {"hf_quant_config.json": QUANTIZED})
    model = load("org/fp8")
    assert (model.precision.ffn.name, model.precision.head.name, model.warnings) == ("fp8", "bf16", ())
    asked = len(hub.others)
    assert load("org/fp8") == model
    go_offline(monkeypatch)
    assert load("org/fp8") == model
    assert len(hub.others) == asked


def test_absent_quantization_is_asked_once(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load("org/good").warnings == ()
    assert hub.others == [("HEAD", "org/good", "hf_quant_config.json", "")]
    assert load("org/good").precision.ffn.name == "bf16"
    go_offline(monkeypatch)
    assert load("org/good").warnings == ()
    assert len(hub.others) == 1


def test_quantization_that_cannot_be_asked_is_said(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_ETAG_TIMEOUT", 1.5)  # a busy machine answers within it
    (warning,) = load("org/slow").warnings
    assert "hf_quant_config.json could not be asked" in warning
    assert "did not answer in time" in warning
    go_offline(monkeypatch)
    (warning,) = load("org/slow").warnings
    assert "HF_HUB_OFFLINE is set" in warning


def test_quantization_beside_is_checked_as_a_config_is(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    for n, (content, said) in enumerate([(b"[1]", "a JSON object"), (b"{}", "quantization"), (b" " * 2**25, "bytes")]):
        monkeypatch.setitem(FILES, f"org/bad{n}", {"hf_quant_config.json": content})
        refused(f"org/bad{n}", "hf_quant_config", said)


def test_headers_are_read_in_ranges(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The index whole, of each file its beginning; then nothing of them is asked but by who wants headers."""
    shapes = {f"model.layers.{i}.mlp.down_proj.weight": ("BF16", (64, 128)) for i in range(2)}
    folder = write_all(tmp_path / "files", CONFIG, shapes, 2)
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "config.json"}
    monkeypatch.setitem(FILES, "org/stored", files)
    assert not any("safetensors" in name for _, _, name, _ in hub.others if load("org/stored"))
    model = load("org/stored", headers=True)
    here = load(folder, headers=True)
    assert (model.precision, model.warnings) == (here.precision, here.warnings)
    spans = sorted((name, span) for method, _, name, span in hub.others if name.endswith(".safetensors"))
    assert spans == [(f"model-0000{i}-of-00002.safetensors", "bytes=0-65535") for i in (1, 2)]
    go_offline(monkeypatch)
    refused("org/stored", "HF_HUB_OFFLINE is set", headers=True)


def test_headers_of_a_single_file_and_of_none(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = {f"model.layers.0.mlp.experts.{e}.w1.weight": ("BF16", (8, 8)) for e in range(2000)}
    content = write(tmp_path / "a.safetensors", many).read_bytes()
    monkeypatch.setitem(FILES, "org/single", {"model.safetensors": content})
    assert len(tensors_of(origin_of("org/single"))) == 2000
    length = 8 + int.from_bytes(content[:8], "little")
    spans = [span for _, _, name, span in hub.others if name == "model.safetensors"]
    assert spans == ["bytes=0-65535", f"bytes=65536-{length - 1}"]
    refused("org/good", "no model.safetensors (HTTP 404)", "transformers format", headers=True)
    assert refused("llama-3.1-8b", "a config alone", headers=True).field == "headers"


def test_headers_of_a_cached_file_need_no_hub(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import hf_hub_download

    content = write(tmp_path / "a.safetensors", {"model.norm.weight": ("BF16", (64,))}).read_bytes()
    monkeypatch.setitem(FILES, "org/whole", {"model.safetensors": content})
    load("org/whole")
    hf_hub_download("org/whole", "model.safetensors")
    go_offline(monkeypatch)
    hub.others.clear()
    assert [t.name for t in tensors_of(origin_of("org/whole"))] == ["model.norm.weight"]
    assert hub.others == []


def test_a_gguf_file_is_read_piece_by_piece(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its header is longer than what is asked for first; of what follows nothing is read."""
    from roofline.model.checkpoints.gguf.header import gguf_header
    from roofline.model.sources.hub import hub_ranges

    text = b"x" * 1_500_000
    entry = (1).to_bytes(8, "little") + b"k" + (8).to_bytes(4, "little") + len(text).to_bytes(8, "little") + text
    content = b"GGUF" + (3).to_bytes(4, "little") + (0).to_bytes(8, "little") + (1).to_bytes(8, "little") + entry
    monkeypatch.setitem(FILES, "org/gguf", {"small.gguf": content + bytes(3_000_000)})
    (header,) = hub_ranges("org/gguf", ["small.gguf"], "main", gguf_header)
    assert header.metadata == {"k": text.decode()}
    spans = [span for _, _, name, span in hub.others if name == "small.gguf"]
    assert spans == ["bytes=0-1048575", f"bytes=45-{45 + len(text) - 1}"]
    refused("org/gguf/small.gguf", "general.architecture")
    refused("hf://org/gguf/other.gguf", "no other.gguf (HTTP 404)")


def test_hostile_headers_of_the_hub(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    for n, content in enumerate([b"", b"short", b"\xff" * 64, (20).to_bytes(8, "little") + b"x" * 20]):
        monkeypatch.setitem(FILES, f"org/hostile{n}", {"model.safetensors": content})
        refused(f"org/hostile{n}", f"org/hostile{n}", headers=True)


def test_revisions(hub: Hub) -> None:
    assert len(load("org/good", revision="main").layers) == 2
    for revision in ("v1", "refs/pr/1", OLDER):
        assert len(load("org/good", revision=revision).layers) == 1
    hub.asked.clear()
    assert len(load("org/good", revision=COMMIT).layers) == 2
    assert hub.asked == []
    refused("org/good", "no revision 'v9'", f"{hub.url}/org/good/tree/main", revision="v9")


def test_revision_of_a_catalog_model_asks_the_hub(hub: Hub) -> None:
    refused("llama-3.1-8b", "'meta-llama/Llama-3.1-8B'", "no such model", revision="main")
    assert hub.asked


def test_renamed(hub: Hub) -> None:
    assert load("old-name").vocab == 128


def test_token_is_sent(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    refused("org/private", "private", "HTTP 401", "set HF_TOKEN")
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    hub.asked.clear()
    assert load("org/private").vocab == load("org/gated").vocab == 128
    assert {token for _, _, token in hub.asked} == {TOKEN}


def test_gated(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    page = f"ask for access at {hub.url}/org/gated and set HF_TOKEN"
    refused("org/gated", "model 'org/gated': gated", "does not let this request in (HTTP 401)", page)
    monkeypatch.setenv("HF_TOKEN", "hf_stranger")
    assert not refused("org/gated", "does not let this token in (HTTP 403)", page).nearest


@pytest.mark.parametrize("token", ["hf_wrong", "hf_\x01secret", "hf_secr\u20act"])
def test_bad_token(hub: Hub, monkeypatch: pytest.MonkeyPatch, token: str) -> None:
    monkeypatch.setenv("HF_TOKEN", token)
    error = refused("org/good", "token", "set HF_TOKEN to a valid token")
    assert "hf_" not in str(error)


@pytest.mark.parametrize("token", [None, TOKEN])
def test_unknown_suggests(hub: Hub, monkeypatch: pytest.MonkeyPatch, token: str | None) -> None:
    if token:
        monkeypatch.setenv("HF_TOKEN", token)
    error = refused("meta-lama/Lama-3.1-8B", "no such path", "no such model or it is private", "check the name")
    assert isinstance(error, HubError)
    assert error.field == "model"
    assert error.nearest[0] == "meta-llama/Llama-3.1-8B"
    assert refused("lama-3.1-8b", "no such model").nearest[0] == "meta-llama/Llama-3.1-8B"


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("org/empty", ["no config.json (HTTP 404)", "transformers format"]),
        ("org/disabled", ["disabled", "HTTP 403"]),
        ("org/text", ["org/text/config.json: expected JSON at line 1, column 1"]),
        ("org/list", ["org/list/config.json: expected a JSON object"]),
        ("org/huge", ["org/huge/config.json: expected at most 16777216 bytes"]),
        ("org/cut", ["broke off its answer", "try again"]),
        ("org/portal", ["does not answer as a Hub does", "check HF_ENDPOINT"]),
        ("org/broken", ["answers HTTP 500", "try again later"]),
        ("org/busy", ["too many requests (HTTP 429)", "wait"]),
    ],
)
def test_failures(hub: Hub, name: str, parts: list[str]) -> None:
    refused(name, *parts)
    assert len(hub.asked) <= 8


def test_huge_file_is_not_fetched(hub: Hub) -> None:
    refused("org/huge", "bytes")
    assert hub.asked == [("HEAD", "org/huge", None)]


@pytest.mark.parametrize("name", ["org/hangs", "org/hangs-later"])
def test_timeout(hub: Hub, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_ETAG_TIMEOUT", 0.1)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DOWNLOAD_TIMEOUT", 0.1)
    refused(name, f"{hub.url} did not answer in time", "HF_HUB_ETAG_TIMEOUT")
    assert len(hub.asked) <= 8


def test_connection_refused(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    point_at(f"http://me:secret@127.0.0.1:{port}", tmp_path / "home", monkeypatch)
    error = refused("org/good", f"cannot reach http://127.0.0.1:{port} (", "refused", "HF_ENDPOINT")
    assert "secret" not in str(error)


@pytest.mark.parametrize("url", ["nonsense", "ftp://127.0.0.1", "http://127.0.0.1:99999"])
def test_bad_endpoint(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    point_at(url, tmp_path / "home", monkeypatch)
    refused("org/good", "org/good", "check")


def test_offline_and_not_cached(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    go_offline(monkeypatch)
    error = refused("mistral-7b-v0.2", "not in the cache, and HF_HUB_OFFLINE is set", "path of a config.json")
    assert any("mistral" in name.lower() for name in error.nearest)
    assert hub.asked == []


def test_cache_that_cannot_be_written(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "home").write_text("a file")
    refused("org/good", "cannot be used", "set HF_HOME")


def test_log_and_progress_bars_are_as_before(hub: Hub) -> None:
    import logging

    from huggingface_hub.utils import are_progress_bars_disabled

    log = logging.getLogger("huggingface_hub")
    before = log.level, are_progress_bars_disabled()
    load("org/good")
    refused("org/broken", "500")
    assert (log.level, are_progress_bars_disabled()) == before


def test_whole_process(server: Hub, tmp_path: Path) -> None:
    """The environment as a user sets it: download, then offline from the cache, then offline without it."""
    code = "import sys; from roofline.model.load import load; print(load(sys.argv[1]).name)"
    env = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": SOURCE,
        "HF_HOME": str(tmp_path / "home"),
        "HF_ENDPOINT": server.url,
        "HF_TOKEN": TOKEN,
        "NO_PROXY": "127.0.0.1",
    }

    def run(name: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-c", code, name], env=env | more, capture_output=True, text=True)

    server.asked.clear()
    for more in ({}, {"HF_HUB_OFFLINE": "1"}):
        done = run("org/private", **more)
        assert (done.stdout, done.stderr) == ("org/private\n", "")
    assert {token for _, _, token in server.asked} == {TOKEN}
    wrong = run("org/gated", HF_HUB_OFFLINE="1").stderr.splitlines()
    assert "not in the cache" in wrong[-1]
    wrong = run("org/good", HF_HUB_ETAG_TIMEOUT="soon").stderr.splitlines()
    assert "environment: expected HF_* variables" in wrong[-1]
