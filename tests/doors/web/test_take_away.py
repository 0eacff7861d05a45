"""What is taken away from the page: launch files, configs, tables, reports; and models that files' headers say."""

from __future__ import annotations

import json
import struct
from base64 import b64encode
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import polars
import pytest
from fastapi.testclient import TestClient

import roofline as rl
from documented import installed
from roofline.declared.numbers.units import si
from roofline.doors.web.allow_list import NOTHING_MORE, Allowed
from roofline.doors.web.page.scenario import Scenario
from roofline.doors.web.questions import QUESTIONS, table_answer
from roofline.doors.web.request_models import TableAsked
from roofline.extras import install_line
from roofline.model.load import catalog
from roofline.training.emit.make import hand_over
from roofline.training.layouts.remedies import fixes
from roofline.whatif.search.what_fits import what_runs
from served_page import shared_app
from small_gguf import LAYERS, VOCABULARY, WIDTH, write_gguf

MODEL, ON = "meta-llama/Llama-3.1-8B", "h100-sxm"
LARGE = "meta-llama/Llama-3.3-70B-Instruct"
PLACE = {"model": MODEL, "on": ON}


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with TestClient(shared_app(), base_url="http://localhost") as client:
        yield client


def ask(client: TestClient, name: str, body: dict[str, Any]) -> Any:
    answer = client.post(f"/api/v1/{name}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_tables_have_a_row_for_each_point(client: TestClient) -> None:
    body = {**PLACE, "concurrency": [1, 8, 32]}
    given = client.post("/api/v1/table", json={"name": "serve", "body": body})
    frame = polars.read_parquet(BytesIO(given.content))
    assert frame["in_flight"].to_list() == [1, 8, 32]
    served = rl.serve(MODEL, on=ON, input=1024, output=256, concurrency=8)
    assert frame["tokens_per_second"][1] == pytest.approx(served.tokens_per_second, rel=1e-12)
    text = client.post("/api/v1/table", json={"name": "serve", "body": body, "form": "csv"}).text
    assert text.count("\n") == 4
    for wrong in ({"name": "table", "body": {}}, {"name": "serve", "body": {**PLACE, "input": 0}}):
        assert client.post("/api/v1/table", json=wrong).status_code == 422


def test_a_table_in_parquet_without_polars_is_refused_before_it_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    body = {"name": "serve", "body": {**PLACE, "concurrency": [1, 8]}}
    with installed(["web"]):
        whole = table_answer(TableAsked(**body, form="csv"), NOTHING_MORE)
        assert whole.count(b"\n") == 3
        monkeypatch.setattr(rl, "serve", None)
        with pytest.raises(rl.InputError) as caught:
            table_answer(TableAsked(**body), NOTHING_MORE)
    assert str(caught.value) == f"form: expected csv, or Polars: {install_line('frames')}, got 'parquet'"


def test_a_report_is_one_page(client: TestClient) -> None:
    body = {"model": "openai-community/gpt2", "on": "l4", "batch": 2, "input": 64, "output_tokens": 8}
    given = client.post("/api/v1/report", json=body)
    assert given.headers["content-type"].startswith("text/html")
    assert "gpt2" in given.text


def test_launch_files_are_those_of_the_search(client: TestClient) -> None:
    given = ask(client, "launch", {**PLACE, "on": "8xh100-sxm", "layout": "tp=2", "launcher": "sglang"})
    assert given["files"][0]["name"].endswith(".sh")
    assert "--tp" in given["files"][0]["text"]
    assert client.post("/api/v1/launch", json={**PLACE, "launcher": "none"}).status_code == 422


def test_a_layout_that_does_not_fit_is_not_launched(client: TestClient) -> None:
    answer = client.post("/api/v1/launch", json={**PLACE, "model": LARGE, "layout": "tp=1"})
    assert answer.status_code == 422
    assert answer.json()["message"] == f"on: expected a machine on which this model fits and can be served, got '{ON}'"


def test_a_framework_s_config(client: TestClient) -> None:
    place = {**PLACE, "on": "8xh100-sxm", "layout": "tp=2,dp=4"}
    given = ask(client, "recipe", {**place, "framework": "torchtitan"})
    estimate = rl.train(MODEL, on="8xh100-sxm", layout="tp=2,dp=4", batch=64, tokens=4096)
    assert given["text"] == hand_over(estimate, "torchtitan").text
    assert ask(client, "recipe", {**PLACE, "on": "8xh100-sxm"})["fits"] is True


def test_a_config_of_a_step_that_does_not_fit_says_so(client: TestClient) -> None:
    given = ask(client, "recipe", PLACE)
    memory = rl.train(MODEL, on=ON, batch=64, tokens=4096).memory
    assert memory.total > 2 * memory.capacity
    assert given["text"].splitlines()[2] == f"# does not fit: needs {si(memory.total, 'B')} of 85.90 GB a chip"
    assert given["fits"] is False
    assert ask(client, "recipe", {**PLACE, "framework": "deepspeed"})["fits"] is False


def test_what_would_make_a_step_fit(client: TestClient) -> None:
    given = ask(client, "remedies", PLACE)
    ways = fixes(rl.train(MODEL, on=ON, batch=64, tokens=4096), ON)
    assert [change["detail"] for change in given["changes"]] == [way.detail for way in ways]
    assert given["fits"] is False
    assert given["changes"]
    fitting = ask(client, "remedies", {**PLACE, "on": "8xh100-sxm"})
    assert fitting == {"fits": True, "changes": []}


def test_how_long_sequences_may_be(client: TestClient) -> None:
    assert ask(client, "limits", {"model": MODEL})["context"] == 131072
    limits = {"context": 1024, "steps": ["prefill", "decode"], "positions": None}
    assert ask(client, "limits", {"model": "openai-community/gpt2"}) == limits
    assert Scenario("openai-community/gpt2").swept == [512]
    assert Scenario().swept == [512, 2048, 8192, 32768]


def test_simulations_take_answers_of_every_length_that_the_page_offers(client: TestClient) -> None:
    body = {**PLACE, "concurrency": 2, "requests": 4, "input": 16, "output": 16384}
    assert ask(client, "simulate", body)["requests"] == 4


def test_a_timeline_adds_up(client: TestClient) -> None:
    place = {**PLACE, "on": "8xh100-sxm", "layout": "pp=2,dp=4"}
    given = ask(client, "timeline", place)
    assert given["stages"] == 2
    assert given["length"] == max(end for *_, end in given["items"])
    assert client.post("/api/v1/timeline", json={**place, "batch": 1_000_000}).status_code == 422


def test_layouts_of_training(client: TestClient) -> None:
    given = ask(client, "layouts", {**PLACE, "on": "8xh100-sxm", "top": 2})
    best = rl.search_training(MODEL, batch=64, tokens=4096, on="8xh100-sxm", top=2)
    assert given["plans"] == json.loads(json.dumps(best.to_dict()))["plans"]


def test_what_runs(client: TestClient) -> None:
    given = ask(client, "runs", {"on": "rtx-4090", "start": 5, "count": 3})
    runs = what_runs(tuple(catalog())[5:8], on="rtx-4090")
    assert given["running"] == json.loads(json.dumps(runs.to_dict()))["running"]
    assert given["of"] == len(catalog())
    formats = ask(client, "runs", {"on": "rtx-4090", "model": MODEL})["running"]
    assert {row["model"] for row in formats} == {MODEL}


def test_here_is_known_where_it_may_be(client: TestClient) -> None:
    assert client.post("/api/v1/fit", json={**PLACE, "on": "here"}).status_code == 422
    with TestClient(shared_app(Allowed(own_machine=True)), base_url="http://localhost") as local:
        assert ask(local, "fit", {**PLACE, "on": "here"})["memory"]["capacity"] > 0


def test_a_bill_is_the_library_s(client: TestClient) -> None:
    bill = {"price": "own(30000,electricity=0.2)", "pue": 1.2, "grid": "de", "utilisation": 0.5}
    given = ask(client, "serve", {**PLACE, "concurrency": 8, "bill": bill})
    own = rl.Bill(price=rl.Own(30000, electricity=0.2), pue=1.2, grid="de", utilisation=0.5)
    served = rl.serve(MODEL, on=ON, input=1024, output=256, concurrency=8, bill=own)
    assert given == json.loads(json.dumps(served.to_dict()))
    for wrong in ({"price": "cheap"}, {"grid": "atlantis"}, {"pue": 0.5}):
        assert client.post("/api/v1/serve", json={**PLACE, "concurrency": 8, "bill": wrong}).status_code == 422


def test_every_question_of_cost_takes_a_bill(client: TestClient) -> None:
    """The others have no field of that name: they would answer the same with any."""
    place = {**PLACE, "on": "8xh100-sxm", "bill": {"grid": "fr", "price": "2"}}
    more: dict[str, dict[str, Any]] = {
        "serve": {"concurrency": 4}, "simulate": {"concurrency": 4, "requests": 8},
        "sweep": {"batch": [1], "context": [64]}, "solve": {"find": "batch", "where": "fits"},
        "machines": {"users": 4},
    }  # fmt: skip
    for name, question in QUESTIONS.items():
        if "price" in question.body.model_fields and name not in ("search", "launch"):
            answer = client.post(f"/api/v1/{name}", json={**place, **more.get(name, {})})
            assert answer.status_code == 200, (name, answer.text)
        elif "layout" in question.body.model_fields and "price" not in question.body.model_fields:
            answer = client.post(f"/api/v1/{name}", json={**place, **more.get(name, {})})
            assert (answer.status_code, answer.json()["field"]) == (422, "bill"), name


# -- headers of GGUF files -----------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def gguf_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gguf") / "model.gguf"
    write_gguf(path)
    return path


def sent(head: bytes, size: int) -> dict[str, Any]:
    return {"head": b64encode(head).decode(), "size": size}


def test_a_header_is_the_model_of_its_file(client: TestClient, gguf_file: Path) -> None:
    whole = gguf_file.read_bytes()
    given = ask(client, "gguf", sent(whole[:50_000], len(whole)))
    model = rl.load(gguf_file)
    assert (given["name"], given["parameters"]) == ("Small", model.parameters)
    assert "t17" not in json.dumps(given)
    fit = ask(client, "fit", {"model": given["model"], "on": ON, "batch": 2, "context": 512})
    own = rl.fit(model, on=ON, batch=2, context=512)
    assert fit["memory"] == json.loads(json.dumps(own.to_dict()))["memory"]
    matrices = LAYERS * (2 * 256 * 256 + 2 * 128 * 256 + 3 * 512 * 256) + 2 * VOCABULARY * WIDTH
    assert fit["memory"]["weights"] == matrices * 34 // 32 + 4 * WIDTH * (2 * LAYERS + 1)


def test_hostile_headers_are_refused_in_one_line(client: TestClient, gguf_file: Path) -> None:
    whole = gguf_file.read_bytes()
    names = struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 2**63)
    arrays = struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1) + b"a" + struct.pack("<IIQ", 9, 4, 2**40)
    heads = [b"", b"GGUF", b"GGUF" + b"\xff" * 40, b"GGUF" + names, b"GGUF" + arrays, whole[:500], b"PK" + whole[2:900]]
    for head in heads:
        answer = client.post("/api/v1/gguf", json=sent(head, 10**9))
        assert answer.status_code == 422, head[:40]
        assert "\n" not in answer.json()["message"]
    for body in ({"head": "%%", "size": 9}, {"head": "", "size": 0}, sent(whole, 10), {"head": 1, "size": 1}):
        assert client.post("/api/v1/gguf", json=body).status_code == 422
    big = client.post("/api/v1/gguf", content=b" " * (26 * 2**20), headers={"content-type": "application/json"})
    assert big.status_code == 413


@pytest.mark.parametrize(
    "gguf",
    [
        1, {}, {"metadata": {}}, {"metadata": [], "tensors": []}, {"metadata": {}, "tensors": [[]]},
        {"metadata": {"general.architecture": "llama"}, "tensors": [["token_embd.weight", [0, 1], 0]]},
        {"metadata": {"general.architecture": "llama"}, "tensors": [["token_embd.weight", [10**30], 0]]},
        {"metadata": {"general.architecture": "llama"}, "tensors": [["token_embd.weight", [32, 2], 0]] * 2},
        {"metadata": {"general.architecture": ["llama"]}, "tensors": []},
        {"metadata": {"general.architecture": "llama", "split.count": 2}, "tensors": []},
        {"metadata": {"general.architecture": "llama", "split.count": []}, "tensors": []},
    ],
)  # fmt: skip
def test_hostile_models_of_files_are_refused(client: TestClient, gguf: Any) -> None:
    answer = client.post("/api/v1/analyze", json={"model": {"gguf": gguf}})
    assert answer.status_code == 422, answer.text
    assert "\n" not in answer.json()["message"]
