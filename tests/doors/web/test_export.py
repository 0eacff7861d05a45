"""The page in a folder: a browser opens it without a server, its sliders move, its figures are the library's."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

import roofline as rl
from browser import needs_chromium, watched
from roofline.declared.errors import InputError
from roofline.doors.cli.main import main
from roofline.doors.web.page.bundle import bundled
from roofline.doors.web.page.export import VIEWS, ExportGrid, export_grid, export_page
from roofline.doors.web.page.files import STATIC
from roofline.doors.web.page.scenario import Scenario, scenario_of
from small_gguf import write_gguf

CONFIG = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 2048, "vocab_size": 32000,
    "intermediate_size": 8192, "num_hidden_layers": 4, "num_attention_heads": 32, "num_key_value_heads": 8,
    "rms_norm_eps": 1e-05,
}  # fmt: skip


def grid(on: list[str], input: Sequence[int], concurrency: Sequence[int]) -> ExportGrid:
    """A grid of a fresh page."""
    return export_grid(Scenario(), {"on": on, "input": input, "concurrency": concurrency})


GRID = grid(["h100-sxm", "h200"], [512, 1024], [8, 32, 8])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("exported") / "page"
    export_page(place, GRID)
    return place


def test_nothing_is_overwritten_unasked(tmp_path: Path) -> None:
    folder, one = tmp_path / "page", grid(["h100-sxm"], [512], [8])
    export_page(folder, one)
    with pytest.raises(InputError, match="--force"):
        export_page(folder, one)
    (folder / "mine.txt").write_text("kept")
    export_page(folder, one, force=True)
    assert (folder / "mine.txt").read_text() == "kept"


def test_a_grid_is_bounded_and_can_be_served(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at most 1000"):
        export_page(tmp_path / "a", grid(["h100-sxm"], range(1, 101), range(1, 101)))
    with pytest.raises(InputError, match="h1000"):
        export_page(tmp_path / "b", grid(["h1000"], [1], [1]))
    assert list(tmp_path.iterdir()) == []


def test_answers_are_the_library_s(folder: Path) -> None:
    data = json.loads((folder / "data.js").read_text().removeprefix("globalThis.ROOFLINE_EXPORT = ").rstrip(";\n"))
    name, body = scenario_of(on="h200", input=512, concurrency=8).body("serve")
    key = name + json.dumps({**body, "model": 0}, separators=(",", ":"))
    served = rl.serve("meta-llama/Llama-3.1-8B", on="h200", input=512, output_tokens=256, concurrency=8)
    assert data["answers"][key] == json.loads(json.dumps(served.to_dict()))
    assert data["axes"]["concurrency"] == [8, 32]


def test_modules_are_one_script() -> None:
    script = bundled(STATIC, "app")
    assert script.count("module_words = ") == 1
    assert "\nimport " not in script
    assert "\nexport " not in script


def test_the_command_writes_a_config_s_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    words = ["web", "--export", str(tmp_path / "page"), "--model", str(tmp_path / "config.json")]
    main([*words, "--input", "128", "--concurrency", "2"])
    assert "answers, for a browser without a server" in capsys.readouterr().err
    assert '"config":{"model_type":"llama"' in (tmp_path / "page" / "index.html").read_text()


def test_a_gguf_file_s_page_has_its_own_bytes(tmp_path: Path) -> None:
    write_gguf(tmp_path / "model.gguf")
    words = ["web", "--export", str(tmp_path / "page"), "--model", str(tmp_path / "model.gguf")]
    main([*words, "--input", "128", "--concurrency", "2"])
    text = (tmp_path / "page" / "data.js").read_text().removeprefix("globalThis.ROOFLINE_EXPORT = ")
    fits = [v for k, v in json.loads(text.rstrip(";\n"))["answers"].items() if k.startswith("fit")]
    own = rl.fit(rl.load(tmp_path / "model.gguf"), on="h100-sxm", batch=2, context=384)
    assert fits[0]["memory"]["weights"] == own.memory.weights


@pytest.fixture(scope="module")
def tab(folder: Path) -> Iterator[tuple[Any, list[str], list[str]]]:
    with watched() as seen:
        seen.tab.goto((folder / "index.html").as_uri())
        yield seen.tab, seen.said, seen.asked


@needs_chromium
def test_a_browser_needs_no_server(folder: Path, tab: tuple[Any, list[str], list[str]]) -> None:
    page, said, asked = tab

    def answers(script: str) -> None:
        before = int(page.evaluate("document.body.dataset.ready ?? 0"))
        page.evaluate(script)
        end = monotonic() + 20
        while int(page.evaluate("document.body.dataset.ready ?? 0")) <= before:
            assert monotonic() < end, (script, said)
            page.wait_for_timeout(15)
        assert not page.is_visible("#problem"), page.inner_text("#problem")

    def card(i: int) -> str:
        return str(page.locator("#verdict .card").nth(i).inner_text())

    end = monotonic() + 20
    while not page.evaluate("document.body.dataset.ready ?? 0"):
        assert monotonic() < end, said
        page.wait_for_timeout(20)
    for view in VIEWS:
        answers(f"document.getElementById('tab-{view}').click()")
        assert page.inner_text("#view").strip(), view
        assert page.evaluate("[...document.querySelectorAll('#view .plot')].every((p) => p.data?.length)"), view
    answers("(() => { const s = document.getElementById('concurrency'); s.value = 1; "
            "s.dispatchEvent(new Event('input', { bubbles: true })); })()")  # fmt: skip
    answers("(() => { const s = document.getElementById('on'); s.value = 'h200'; "
            "s.dispatchEvent(new Event('change', { bubbles: true })); })()")  # fmt: skip
    served = rl.serve("meta-llama/Llama-3.1-8B", on="h200", input=512, output_tokens=256, concurrency=32)
    assert f"{served.tokens_per_second:,.0f}" in card(3)
    assert page.evaluate("location.hash").startswith("#s=")
    assert said == []
    assert all(url.startswith(folder.as_uri()) for url in asked)
