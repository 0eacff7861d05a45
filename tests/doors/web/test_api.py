"""The REST API: its figures are the library's, its bodies bounded, its errors one line, its headers strict."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from multiprocessing import active_children
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import httpx
import jsonschema
import numpy as np
import pytest
from fastapi.testclient import TestClient

import roofline as rl
from folded import folded
from roofline.declared.errors import InputError
from roofline.doors.web.allow_list import NOTHING_MORE
from roofline.doors.web.app import page_app
from roofline.doors.web.page.files import plotly_name
from roofline.doors.web.questions import QUESTIONS
from roofline.doors.web.server.dispatcher import KeptAnswers
from roofline.doors.web.server.workers import Workers
from served_page import shared_app, started

MODEL, ON = "meta-llama/Llama-3.1-8B", "h100-sxm"
PLACE = {"model": MODEL, "on": ON}
SCHEMAS = Path(__file__).parents[3] / "docs" / "schema"
SCHEMA_OF = {"analyze": "analysis", "explain": "explanation", "train": "training", "sweep": "estimate"}


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with TestClient(shared_app(), base_url="http://localhost") as client:
        yield client


def ask(client: TestClient, name: str, body: dict[str, Any]) -> Any:
    answer = client.post(f"/api/v1/{name}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def as_json(result: Any) -> Any:
    return json.loads(json.dumps(result.to_dict()))


def test_an_engine_s_release_is_taken_and_said(client: TestClient) -> None:
    body = {**PLACE, "concurrency": 32, "engine": "vllm@2025-10"}
    assert ask(client, "serve", body)["engine"] == "vllm@0.11"
    refused = client.post("/api/v1/serve", json={**body, "engine": "vllm@0.99"})
    assert refused.status_code == 422
    assert "vllm@0.33" in refused.text


def test_answers_are_the_library_s(client: TestClient) -> None:
    model = rl.load(MODEL)
    same: dict[str, tuple[dict[str, Any], Any]] = {
        "analyze": ({"model": MODEL, "batch": 32, "context": 4096}, rl.analyze(model, rl.decode(32, 4096))),
        "explain": ({"model": MODEL, "op": "attention"}, rl.explain(model, "attention", rl.decode(1, 1024))),
        "estimate": ({**PLACE, "batch": 8, "phase": "prefill"}, rl.estimate(model, rl.prefill(8, 1024), on=ON)),
        "generate": ({**PLACE, "batch": 8}, rl.generate(model, on=ON, batch=8, input=1024, output=256)),
        "serve": ({**PLACE, "concurrency": 32}, rl.serve(model, on=ON, input=1024, output=256, concurrency=32)),
        "diff": (
            {"a": {"model": MODEL, "on": ON, "batch": 8}, "b": {"model": MODEL, "on": "2xH200", "layout": "tp=2"}},
            rl.diff(f"{MODEL}@{ON}:batch=8", f"{MODEL}@2xh200:layout=tp=2"),
        ),
        "fit": ({**PLACE, "batch": 8, "context": 8192}, rl.fit(model, on=ON, batch=8, context=8192)),
        "train": ({**PLACE, "on": "8xh100-sxm"}, rl.train(model, on="8xh100-sxm", batch=64, tokens=4096)),
        "plot": (PLACE, rl.plot(model, {"decode": rl.decode(1, 1024)}, on=ON)),
        "simulate": (
            {**PLACE, "rate": 2.0, "requests": 20},
            rl.simulate(model, on=ON, input=1024, output=256, rate=2.0, extent=rl.Extent(requests=20)),
        ),
        "sweep": (
            {**PLACE, "batch": [1, 8], "context": [128, 4096]},
            rl.estimate(model, rl.decode(np.array([[1], [8]]), np.array([[128, 4096]])), on=ON),
        ),
    }
    for name, (body, result) in same.items():
        given = ask(client, name, body)
        assert given == as_json(result), name
        jsonschema.validate(given, json.loads((SCHEMAS / f"{SCHEMA_OF.get(name, name)}.json").read_text()))


def test_towers_may_be_left_out(client: TestClient) -> None:
    sizes = []
    for more in ({}, {"text_only": True}, {"text_only": False}):
        answer = client.post("/api/v1/fit", json={"model": "Qwen/Qwen3-VL-8B-Instruct", "on": "h100-sxm", **more})
        sizes.append(answer.json()["memory"]["weights"])
    towers = rl.load("Qwen/Qwen3-VL-8B-Instruct").parts
    assert sizes[0] - sizes[1] == 2 * (towers["vision"] + towers["projector"])
    assert sizes[2] == sizes[0]


def test_search_and_advice(client: TestClient) -> None:
    searched = rl.search(rl.load(MODEL), rl.Demand(input=1024, output=256, concurrency=32), on=ON, top=3)
    assert ask(client, "search", {**PLACE, "top": 3})["plans"] == as_json(searched)["plans"]
    advised = ask(client, "advice", PLACE)
    helping = [c for c in advised["changes"] if c["gain"] > 1.005]
    best = list({c["lever"]: c for c in reversed(helping)}.values())[::-1]  # the first of each lever
    assert len(best) >= 2
    assert advised["changes"][: len(best)] == best == sorted(best, key=lambda c: -c["gain"])
    assert (advised["command"], {c["option"].split()[0] for c in helping if c["lever"] == "batch"}) == (
        "serve", {"--concurrency"},
    )  # fmt: skip


def test_a_rate_stands_for_the_requests_in_flight_that_are_usual(client: TestClient) -> None:
    """Whatever the worker is sent; both in a body are refused."""
    place = {"model": MODEL, "on": "h100-sxm", "input": 1024, "output_tokens": 256, "kind": "aggregated"}
    searched = rl.search(**{**place, "rate": 2.5, "objective": "chips"})
    assert ask(client, "search", {**place, "rate": 2.5})["plans"] == as_json(searched)["plans"]
    both = client.post("/api/v1/search", json={**place, "rate": 2.5, "concurrency": 32})
    assert (both.status_code, both.json()["field"]) == (422, "concurrency and rate")


def test_a_pasted_config_is_a_model(client: TestClient) -> None:
    config = json.loads((Path(rl.__file__).parent / "model" / "catalog" / f"{MODEL}.json").read_text())
    body = {"model": config, "context": 128}
    assert ask(client, "analyze", body)["flops"] == rl.analyze(config, rl.decode(1, 128)).flops


@folded(
    ("name", "change", "field"),
    [
        ("estimate", {"model": "/etc/passwd"}, "model"),
        ("estimate", {"model": "../config.json"}, "model"),
        ("estimate", {"model": "https://example.org/config.json"}, "model"),
        ("estimate", {"model": "someone/unknown"}, "model"),
        ("estimate", {"on": "pyproject.toml"}, "on"),
        ("estimate", {"on": "peak=1T,bw=/etc/passwd"}, "on"),
        ("estimate", {"on": "99999999xh100-sxm"}, "on"),
        ("estimate", {"batch": 0}, "batch"),
        ("estimate", {"batch": "8"}, "batch"),
        ("estimate", {"batch": 10**30}, "batch"),
        ("estimate", {"unknown": 1}, "unknown"),
        ("serve", {}, "concurrency and rate"),
        ("serve", {"concurrency": [1] * 65}, "concurrency"),
        ("simulate", {"rate": 1.0, "requests": 2000, "output": 8192}, "requests"),
        ("estimate", {"model": {"model_type": "llama", "hidden_size": 10**40}}, "hidden_size"),
    ],
)
def test_what_cannot_be_is_one_line(client: TestClient, name: str, change: dict[str, Any], field: str) -> None:
    answer = client.post(f"/api/v1/{name}", json={**PLACE, **change})
    assert answer.status_code == 422, answer.text
    problem = answer.json()
    assert field in problem["field"]
    assert "\n" not in problem["message"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"on": "../x"}, "on"),
        ({"layout": "tp=3"}, "layout"),
        ({"model": "/etc/passwd"}, "model"),
        ({"batch": 0}, "batch"),
    ],
)
def test_a_side_that_cannot_be_is_one_line(client: TestClient, change: dict[str, Any], field: str) -> None:
    other = {"model": MODEL, "on": ON}
    answer = client.post("/api/v1/diff", json={"a": {**other, **change}, "b": other})
    assert answer.status_code == 422, answer.text
    assert field in answer.json()["field"]


def test_bodies_are_bounded(client: TestClient) -> None:
    assert client.post("/api/v1/analyze", content=b"[" * 100_000).status_code in (400, 422)
    assert client.post("/api/v1/analyze", content=b"{").status_code in (400, 422)
    assert client.post("/api/v1/analyze", content=b" " * 600_000).status_code == 413
    deep: dict[str, Any] = {}
    for _ in range(200):
        deep = {"a": deep}
    assert client.post("/api/v1/analyze", json={"model": deep}).status_code == 422


def test_headers_and_no_cookies(client: TestClient) -> None:
    for path in ("/", "/static/app.js", "/api/v1/chips", "/nothing"):
        headers = client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert "set-cookie" not in headers


def test_only_the_page_s_own_files(client: TestClient) -> None:
    assert client.get("/static/..%2fapp.py").status_code == 404
    assert client.get("/static/app.py").status_code == 404
    assert client.get(f"/static/{plotly_name()}").status_code == 200


def test_token_and_host() -> None:
    with TestClient(page_app(token="long-enough", hosts=frozenset({"localhost"}))) as client:
        local = {"host": "localhost:8600"}
        assert client.get("/api/v1/chips", headers=local).status_code == 401
        bearer = {"authorization": "Bearer long-enough"}
        assert client.get("/api/v1/chips", headers={**local, **bearer}).status_code == 200
        assert client.get("/api/v1/chips", headers={"host": "elsewhere.example", **bearer}).status_code == 403


@pytest.mark.parametrize("host", ["[::1]", "[::1]:8600", "localhost", "localhost:8600", "127.0.0.1"])
def test_a_host_with_and_without_a_port(host: str) -> None:
    guarded = TestClient(page_app(hosts=frozenset({"localhost", "127.0.0.1", "[::1]"})))
    assert guarded.get("/api/v1/engines", headers={"host": host}).status_code == 200
    for other in (f"{host}.example", "[::2]", "::1", "[:"):
        assert guarded.get("/api/v1/engines", headers={"host": other}).status_code == 403


def test_what_a_route_allows_is_said(client: TestClient) -> None:
    refused = client.get("/api/v1/fit")
    assert (refused.status_code, refused.headers["allow"]) == (405, "POST")


def test_every_question_is_documented(client: TestClient) -> None:
    paths = client.get("/api/v1/openapi.json").json()["paths"]
    assert {f"/api/v1/{name}" for name in QUESTIONS} <= set(paths)


def test_quick_questions_together(client: TestClient) -> None:
    serve = {"name": "serve", "body": {**PLACE, "concurrency": 32}}
    asked = [serve, {"name": "fit", "body": {**PLACE, "batch": 0}}, {"name": "fit", "body": {**PLACE, "on": "h1000"}}]
    one, two, three = ask(client, "batch", {"questions": asked})["answers"]
    assert one == {"status": 200, "answer": ask(client, "serve", serve["body"])}  # type: ignore[arg-type]
    assert (two["status"], two["problem"]["field"]) == (422, "batch")
    assert (three["status"], three["problem"]["field"]) == (422, "on")
    for wrong in ("simulate", "nothing"):
        (only,) = ask(client, "batch", {"questions": [{"name": wrong, "body": PLACE}]})["answers"]
        assert (only["status"], only["problem"]["field"]) == (422, "name")
    assert client.post("/api/v1/batch", json={"questions": [serve] * 13}).status_code == 422


def test_files_are_compressed_and_kept_by_the_browser(client: TestClient) -> None:
    plotly = client.get(f"/static/{plotly_name()}")
    assert "immutable" in plotly.headers["cache-control"]
    assert plotly.headers["content-encoding"] == "gzip"
    page = client.get("/", headers={"accept-encoding": "identity"})
    assert plotly_name() in page.text
    assert page.headers["cache-control"] == "no-cache"
    assert client.get("/", headers={"if-none-match": page.headers["etag"]}).status_code == 304


def test_what_is_remembered_is_bounded() -> None:
    kept = KeptAnswers(most=1000)
    for i in range(100):
        kept.put(("serve", str(i)), b"x" * 60)
    assert kept.size <= 1000
    assert [body for _, body in kept.answers] == [str(i) for i in range(84, 100)]
    assert kept.get(("serve", "84")) == b"x" * 60
    kept.put(("serve", "a"), b"x" * 60)
    assert kept.get(("serve", "85")) is None


def test_one_who_left_is_not_worked_for() -> None:
    async def left() -> bool:
        return True

    workers = Workers(1)
    with pytest.raises(InputError):
        asyncio.run(workers.ask([("serve", "{}")], NOTHING_MORE, left))
    assert workers.idle == []


def test_work_ends_when_the_client_leaves() -> None:
    """A search that nobody waits for any longer: its process, which would stay for the next one, is no more."""
    server = started()
    address = server.address
    try:
        httpx.post(f"{address}api/v1/fit", json={**PLACE}, timeout=30)
        sleep(0.5)  # both quick processes have been started
        before = {child.pid for child in active_children()}
        body = {"model": "deepseek-ai/DeepSeek-V3", "on": "512xh100-sxm", "concurrency": 16_384}
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{address}api/v1/search", json=body, timeout=1)
        at_work = {child.pid for child in active_children()} - before
        assert at_work
        end = monotonic() + 10
        while at_work & {child.pid for child in active_children()}:
            assert monotonic() < end, "still at work"
            sleep(0.05)
        assert httpx.get(f"{address}api/v1/engines").status_code == 200
    finally:
        server.stop()


def test_an_idle_process_that_was_killed_is_replaced() -> None:
    """The next question is answered as if nothing had been."""

    async def stays() -> bool:
        return False

    async def asked() -> list[Any]:
        workers, answers = Workers(1), []
        for _ in range(2):
            answers += await workers.ask([("fit", json.dumps(PLACE))], NOTHING_MORE, stays)
            for worker in workers.idle:
                worker.process.kill()
                worker.process.join()
        workers.close()
        return answers

    first, second = asyncio.run(asked())
    assert isinstance(first, bytes)
    assert first == second


def test_a_process_that_lived_long_is_replaced(whole: bool) -> None:
    """By day once, with `--whole` twice."""

    async def stays() -> bool:
        return False

    async def lives() -> list[list[int]]:
        workers = Workers(1, life=2, first=[("fit", json.dumps(PLACE))])
        pids = []
        for i in range(5 if whole else 3):
            (answer,) = await workers.ask([("fit", json.dumps({**PLACE, "batch": i + 1}))], NOTHING_MORE, stays)
            assert isinstance(answer, bytes)
            pids.append([worker.process.pid for worker in workers.idle])
            await asyncio.gather(*workers.renewals)
        workers.close()
        return pids

    pids = asyncio.run(lives())
    assert [len({pid for (pid,) in pids[:i]}) for i in (2, 3)] == [1, 2]
    if whole:
        assert [len({pid for (pid,) in pids[:i]}) for i in (4, 5)] == [2, 3]
