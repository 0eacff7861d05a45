"""The tools of `roofline mcp`, called by the official client over stdin and stdout."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import anyio
import jsonschema
import pytest

import roofline as rl

if TYPE_CHECKING:
    from mcp import ClientSession  # a second to import, which not every worker needs

pytestmark = pytest.mark.skipif(find_spec("mcp") is None, reason="the extra mcp is not installed")

MODEL = "meta-llama/Llama-3.1-8B"
PLACE = {"model": MODEL, "on": "h100-sxm"}
CALLS: dict[str, dict[str, Any]] = {
    "models": {"find": "llama-3.1"},
    "chips": {"find": "h100"},
    "answer": PLACE,
    "machines": {**PLACE, "users": 8},
    "analyze": {"model": MODEL},
    "explain": {"model": MODEL, "op": "down_proj"},
    "estimate": PLACE,
    "generate": PLACE,
    "encode": {**PLACE, "input": 64},
    "fit": {**PLACE, "context": 8192},
    "offload": {**PLACE, "on": ["rtx-4090"], "host": "ryzen-9-7950x"},
    "serve": {**PLACE, "concurrency": 16},
    "simulate": {**PLACE, "rate": 2.0, "requests": 20},
    "search": {**PLACE, "on": "8xh100-sxm", "top": 2},
    "solve": {**PLACE, "find": "batch", "where": "tpot <= 20ms and fits", "input": 1024, "output_tokens": 64},
    "train": {**PLACE, "on": "8xh100-sxm"},
    "diff": {"a": PLACE, "b": {**PLACE, "precision": "fp8"}},
    "report": PLACE,
    "advice": PLACE,
}
"""One call of every tool."""
WRONG: dict[str, tuple[str, dict[str, Any], str]] = {
    "no such model": ("fit", {"model": "meta-llama/Llama-3.1-8", "on": "h100-sxm"}, "Llama-3.1-8B"),
    "no such chip": ("fit", {"model": MODEL, "on": "h100-sx"}, "h100-sxm"),
    "no such release": ("fit", {**PLACE, "engine": "vllm@0.99"}, "vllm@0.33"),
    "a path": ("fit", {"model": "/etc/passwd", "on": "h100-sxm"}, "model"),
    "a word for a number": ("fit", {**PLACE, "batch": "many"}, "batch"),
    "an option that there is not": ("fit", {**PLACE, "flash": True}, "flash"),
    "work without end": ("simulate", {**PLACE, "rate": 2.0, "requests": 2000, "output": 8192}, "requests"),
    "a host that is a path": ("offload", {**PLACE, "host": "/etc/passwd"}, "host"),
    "several chips for one": ("offload", {**PLACE, "host": "8xh100-sxm"}, "host"),
    "another side that is a path": (
        "solve",
        {**PLACE, "find": "batch", "where": "time <= against", "context": 64, "against": "on=/etc/passwd"},
        "against",
    ),
    "a page": ("report", {**PLACE, "form": "html"}, "form"),
    "neither rate nor concurrency": ("serve", PLACE, "concurrency"),
}


async def _session(asked: Any) -> Any:
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    server = StdioServerParameters(command=sys.executable, args=["-m", "roofline", "mcp"])
    async with stdio_client(server) as (incoming, outgoing), ClientSession(incoming, outgoing) as session:
        await session.initialize()
        return await asked(session)


@pytest.fixture(scope="module")
def answered() -> Any:
    """The tools, the answers to right questions, then to wrong ones, and to a right one once more: of one server."""
    from mcp.shared.exceptions import MCPError

    async def every(session: ClientSession) -> Any:
        listed = (await session.list_tools()).tools
        given = {name: await session.call_tool(name, body) for name, body in CALLS.items()}
        with pytest.raises(MCPError, match="no tool 'nothing'"):
            await session.call_tool("nothing", {})
        wrong = {case: await session.call_tool(name, body) for case, (name, body, _) in WRONG.items()}
        return listed, given, wrong, await session.call_tool("fit", CALLS["fit"])

    return anyio.run(_session, every)


def test_every_tool_answers_by_its_schema_with_the_librarys_figures(answered: Any) -> None:
    listed, given, _, _ = answered
    assert [tool.name for tool in listed] == list(CALLS)
    for tool in listed:
        answer = given[tool.name]
        assert not answer.is_error, answer.content
        assert json.loads(answer.content[0].text) == answer.structured_content
        jsonschema.validate(CALLS[tool.name], tool.input_schema)
        if tool.output_schema:
            jsonschema.validate(answer.structured_content, tool.output_schema)
    fit, served = given["fit"].structured_content, given["serve"].structured_content
    assert fit == rl.fit(MODEL, on="h100-sxm", context=8192).to_dict()
    assert served == rl.serve(MODEL, on="h100-sxm", input=1024, output=256, concurrency=16).to_dict()


def test_what_cannot_be_is_told_in_one_line_and_the_server_goes_on(answered: Any) -> None:
    _, _, wrong, right = answered
    for case, answer in wrong.items():
        line = answer.content[0].text
        assert answer.is_error, case
        assert WRONG[case][2] in line, line
        assert "\n" not in line, case
        assert len(line) <= 300, case
    assert not right.is_error
