"""The `roofline mcp` server: the REST API's questions as Model Context Protocol tools, over stdin and stdout.

A tool's input and output are the request body and the JSON of the API route of the same name
(https://modelcontextprotocol.io).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Annotated

import anyio
from mcp import types
from mcp.server import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from roofline.declared.errors import InputError, error_line
from roofline.declared.trees import JsonObject, JsonValue
from roofline.doors.web.allow_list import Allowed
from roofline.doors.web.questions import EXPECTED, QUESTIONS, invalid_body
from roofline.doors.web.request_models import PlainObject
from roofline.doors.web.server.fair_queue import BusyError
from roofline.doors.web.server.workers import Workers
from roofline.hardware.chip_choice import chosen_chips
from roofline.model.sources.choice import chosen_models
from roofline.schema import schemas
from roofline.version import __version__
from roofline.views.text.catalogs.chips import ChipFacts, Chips
from roofline.views.text.catalogs.models import Catalog

MOST_NAMED = 40
"""Maximum number of models or chips in one answer."""
INSTRUCTIONS = (
    "Work, memory, time and cost of transformers on machines, worked out from config.json without weights or a GPU. "
    "Sizes are tokens, sequences, bytes and seconds. A time has an expected value, an interval (low, high) and a floor "
    "that no kernel can beat. `models` and `chips` find the names that the other tools take."
)


class FindAsked(BaseModel):
    """Input of the catalog tools: a substring of a name, kind or source."""

    model_config = ConfigDict(extra="forbid", strict=True)

    find: Annotated[str, Field(max_length=80, description="Part of a name; empty: the first of the list.")] = ""


def models_answer(asked: FindAsked) -> dict[str, JsonValue]:
    """List the first `MOST_NAMED` catalog models that match the text."""
    return Catalog(chosen_models(text=asked.find)[:MOST_NAMED]).to_dict()


def chips_answer(asked: FindAsked) -> dict[str, JsonValue]:
    """List the first `MOST_NAMED` catalog chips that match the text."""
    return Chips(tuple(map(ChipFacts, chosen_chips(text=asked.find).values()))[:MOST_NAMED]).to_dict()


@dataclass(frozen=True)
class Catalogue:
    """A catalog lookup tool: its input model and the function that answers it."""

    body: type[FindAsked]
    answer: Callable[[FindAsked], dict[str, JsonValue]]


CATALOGUES = MappingProxyType({
    "models": Catalogue(FindAsked, models_answer),
    "chips": Catalogue(FindAsked, chips_answer),
})  # fmt: skip


@dataclass(frozen=True)
class ToolFacts:
    """A tool's description; `schema` names the schema of its output, if the output always has the same one.

    `form`: the output format to request from an API route that offers several.
    """

    about: str
    schema: str = ""
    form: str = ""


TOOLS = MappingProxyType({
    "models": ToolFacts(f"Names of models that come along, at most {MOST_NAMED}, with their parameters.", "models"),
    "chips": ToolFacts(f"Names and figures of chips, at most {MOST_NAMED}: peaks, bandwidth, memory, power.", "chips"),
    "answer": ToolFacts("First: does it fit, how fast is it, what limits it, what does it cost, what would help.",
                        "answer"),
    "machines": ToolFacts("Which machine to rent for so many users or requests a day, one row each.", "machines"),
    "analyze": ToolFacts("FLOPs, bytes and arithmetic intensity of a prefill or decode step, op by op.", "analysis"),
    "explain": ToolFacts("The formulas of one op with this model's numbers put in, and their sources.", "explanation"),
    "estimate": ToolFacts("Time of a prefill or decode step on a machine, op by op, and what bounds it.", "estimate"),
    "generate": ToolFacts("TTFT, TPOT, throughput, memory and cost of a static batch of prompts.", "generate"),
    "encode": ToolFacts("Latency, rate and cost of texts, images, sound that are read as a whole, or denoised.",
                        "encode"),
    "fit": ToolFacts("Whether sequences fit in a machine's memory, term by term, and how many would.", "fit"),
    "offload": ToolFacts("A batch on cards too small for the model: layers on cards, the rest on the host.", "offload"),
    "serve": ToolFacts("A server in its steady state, at a concurrency or at a rate: TTFT, TPOT, throughput.", "serve"),
    "simulate": ToolFacts("A server under random traffic, request by request: percentiles, queue, memory.", "simulate"),
    "search": ToolFacts("The best layouts, batches and counts of chips that serve a load within its limits.", "search"),
    "solve": ToolFacts("The batch, rate, bandwidth, price or number of chips at which a target is met.", "solve"),
    "train": ToolFacts("Time, memory, MFU and cost of an optimizer step on a machine.", "training"),
    "diff": ToolFacts("Two models, places, formats or layouts side by side, and what the change comes from.", "diff"),
    "report": ToolFacts("All of that for one batch: memory, times, limits, what would help, other machines.", "report",
                        form="json"),
    "advice": ToolFacts("Changes that would make it faster, each with what it does to time and memory."),
})  # fmt: skip
"""Tool name → description, in the order in which clients list the tools."""


@cache
def tools() -> tuple[types.Tool, ...]:
    """Build the tool definitions with their input and output schemas."""
    given = schemas()
    return tuple(
        types.Tool(
            name=name,
            description=facts.about,
            input_schema=_taken(name),
            output_schema={"type": "object", **given[facts.schema]} if facts.schema else None,
            annotations=types.ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False),
        )
        for name, facts in TOOLS.items()
    )


def _taken(name: str) -> dict[str, JsonValue]:
    """Input schema of a tool: the request body without the `form` field."""
    schema = _body(name).model_json_schema()
    return {**schema, "properties": {n: field for n, field in schema["properties"].items() if n != "form"}}


def _body(name: str) -> type[BaseModel]:
    return CATALOGUES[name].body if name in CATALOGUES else QUESTIONS[name].body


async def tool_answer(name: str, arguments: JsonObject, workers: Workers, allowed: Allowed) -> dict[str, JsonValue]:
    """Run a tool and return its JSON; cancelling the call stops the work. Raises InputError for invalid arguments."""
    form = TOOLS[name].form
    if form and "form" in arguments:
        raise InputError("form", arguments["form"], EXPECTED["extra_forbidden"])
    try:
        asked = _body(name).model_validate({**arguments, **({"form": form} if form else {})})
    except ValidationError as error:
        raise invalid_body(error, _body(name)) from error
    if isinstance(asked, FindAsked):
        return dict(await anyio.to_thread.run_sync(CATALOGUES[name].answer, asked))
    (answer,) = await workers.ask([(name, asked.model_dump_json(exclude_unset=True))], allowed, _never)
    if isinstance(answer, Exception):
        raise answer
    return dict(json.loads(answer))


async def _never() -> bool:
    return False


def agent_server(workers: Workers, hub: bool = False) -> Server[PlainObject]:
    """Create the MCP server. Invalid input gives a result with `is_error` set, so that an agent can correct the call.

    `hub`: whether to fetch configs from the Hub for ids outside the catalog. The machine name `here` is allowed.
    """
    allowed = Allowed(hub, own_machine=True)

    async def listed(
        _: ServerRequestContext[PlainObject], __: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=list(await anyio.to_thread.run_sync(tools)))

    async def called(_: ServerRequestContext[PlainObject], params: types.CallToolRequestParams) -> types.CallToolResult:
        if params.name not in TOOLS:
            raise MCPError(types.INVALID_PARAMS, f"no tool {params.name[:80]!r}; there are {', '.join(TOOLS)}")
        try:
            answer = await tool_answer(params.name, params.arguments or {}, workers, allowed)
        except InputError as error:
            return _refused(error_line(error))
        except BusyError as error:
            return _refused(str(error))
        except (ArithmeticError, RecursionError, MemoryError):
            return _refused("sizes: expected work that fits in numbers and memory, got more")
        said = json.dumps(answer, allow_nan=False, separators=(",", ":"), ensure_ascii=False)
        return types.CallToolResult(content=[types.TextContent(text=said)], structured_content=answer)

    return Server("roofline", version=__version__, instructions=INSTRUCTIONS, on_list_tools=listed, on_call_tool=called)


def _refused(line: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=line)], is_error=True)


def run_agent_server(hub: bool = False) -> None:
    """Serve on stdin and stdout until the client disconnects."""

    async def run() -> None:
        workers = Workers()
        server = agent_server(workers, hub)
        try:
            async with stdio_server() as (incoming, outgoing):
                await server.run(incoming, outgoing, server.create_initialization_options())
        finally:
            workers.close()

    anyio.run(run)
