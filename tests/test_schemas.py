"""The JSON of every command has the schema that is published, and nothing that the schema does not name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import roofline as rl
from folded import folded
from hub import CONFIG
from roofline import schema
from roofline.doors.cli.main import main
from roofline.doors.compat.model_info.account import account
from roofline.model.checkpoints.headers import Tensor
from roofline.model.checkpoints.stored import placed_tensors
from roofline.views.text.catalogs.models import StoredTensors

FOLDER = Path(__file__).parents[1] / "docs" / "schema"
LLAMA = "meta-llama/Llama-3.1-8B"
ON = [LLAMA, "--on", "l4"]
LENGTHS = ["--input", "10", "--output-tokens", "24"]
KINDS = ("roofline", "shares", "sweep", "memory", "parameters", "map", "tornado", "diagram", "energy")
SHORT = {
    **{kind: ["--context", "64"] for kind in ("roofline", "shares", "tornado", "sweep")},
    **{kind: ["--most-context", "512"] for kind in ("memory", "map")},
}
COMMANDS = [
    ["analyze", LLAMA], ["analyze", *ON, "--context", "9"], ["explain", "openai-community/gpt2", "attention"],
    ["models"], ["models", "openai-community/gpt2"], ["models", "--types"],
    ["models", "--check", str(Path(__file__).parents[1] / "src" / "roofline" / "model" / "catalog" / "openai")],
    ["diff", ON[0], "openai-community/gpt2"], ["diff", f"{LLAMA}@l4", "Qwen/Qwen3-32B@l4"], ["chips"],
    ["models", "openai-community/gpt2", "--on", "l4", "--context", "512"], ["here"],
    ["chips", "--clusters"], ["generate", *ON, *LENGTHS, "--draft", "openai-community/gpt2"],
    ["generate", *ON, "--input", "9", "--output-tokens", "1"], ["serve", *ON, *LENGTHS, "--concurrency", "2"],
    ["serve", LLAMA, *"--on 8xh100-sxm --input 9 --output-tokens 29 --concurrency 2".split(),
     "--prefill-layout", "tp=2", "--chips", "4"],
    ["simulate", *ON, *LENGTHS, "--rate", "2", "--requests", "50", "--ttft", "1s"],
    ["simulate", *ON, *LENGTHS, *"--rate 2 --requests 50 --draft-length 2 --lora 8".split(),
     *"--prefill-on h100-sxm --prefill-bandwidth 10GB/s".split()],
    ["train", LLAMA, *"--on 8xh100-sxm --batch 8 --tokens 8192 --layout dp=8 --run-tokens 1e9".split()],
    *(["plot", *ON, "--kind", kind, *SHORT.get(kind, [])] for kind in KINDS),
    ["solve", *ON, *LENGTHS, "--find", "batch", "--where", "tpot <= 99ms and fits"],
    ["solve", *ON, *LENGTHS, "--find", "price", "--against", "on=h100-sxm"],
    ["solve", *ON, "--context", "9", "--find", "bandwidth", "--where", "time <= 1us"],
    ["sensitivity", *ON, *LENGTHS, "--map"],
    ["accuracy"], ["report", *ON, "--output-tokens", "24"], ["fit", *ON, "--batch", "400"],
]  # fmt: skip
ARRAYS = {
    "estimate": lambda: rl.estimate(LLAMA, rl.decode([1, 2], [[5], [9]]), on="h100-sxm"),
    "analysis": lambda: rl.analyze(LLAMA, rl.prefill([1, 2], 9)),
    "explanation": lambda: rl.explain(LLAMA, "attention", rl.decode(1, 9)),
    "generate": lambda: rl.generate(LLAMA, on="h100-sxm", batch=[1, 2], input=9, output=3),
    "serve": lambda: rl.serve(LLAMA, on="h100-sxm", input=9, output=23, concurrency=[1, 2]),
    "fit": lambda: rl.fit(LLAMA, on="h100-sxm", batch=[1, 900], context=4096),
    "training": lambda: rl.train(LLAMA, batch=[8, 16], tokens=512, on="8xh100-sxm"),
    "grid": lambda: rl.fit(LLAMA, on=["l4", "h100-sxm"], context=4096),
    "account": lambda: account(rl.load(LLAMA), "decode", "naive", batch=8, length=255),
    "tensors": lambda: tensors(),
    "run": lambda: rl.run(rl.train(LLAMA, batch=8, tokens=512, on="8xh100-sxm"), 1e12),
}


def tensors() -> StoredTensors:
    """Of a checkpoint of one matrix and a norm."""
    model = rl.load(CONFIG)
    stored = (
        Tensor("model.norm.weight", "F32", (64,), 256),
        Tensor("model.layers.0.mlp.up_proj.weight", "I8", (128, 64), 8192),
    )
    return StoredTensors(placed_tensors(model, stored))


@pytest.fixture(scope="module")
def schemas() -> dict[str, Any]:
    return dict(schema.schemas())


def test_the_published_schemas_are_those_of_the_types(schemas: dict[str, Any]) -> None:
    published = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in FOLDER.glob("*.json")}
    assert published == schemas, "run: python -m roofline.schema docs/schema"


def test_every_schema_is_one(schemas: dict[str, Any]) -> None:
    for document in schemas.values():
        jsonschema.Draft202012Validator.check_schema(document)


def test_the_page_names_every_schema(schemas: dict[str, Any]) -> None:
    page = (FOLDER.parent / "json.md").read_text(encoding="utf-8")
    linked = set(re.findall(r"\[`([^`]+)`\]\((schema/\w+\.json)\)", page))
    assert linked == {(schema["title"], f"schema/{name}.json") for name, schema in schemas.items()}


def printed(words: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What a command prints, whatever its exit code."""
    try:
        main([*words, "--json"])
    except SystemExit as stop:
        assert stop.code == 1  # noqa: PT017 - it does not fit, and is printed all the same
    return json.loads(capsys.readouterr().out)  # type: ignore[no-any-return]


@pytest.mark.drawn(6)
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_what_a_command_prints(words: list[str], capsys: pytest.CaptureFixture[str], schemas: dict[str, Any]) -> None:
    check(printed(words, capsys), schemas)


@folded("name", ARRAYS)
def test_what_the_library_gives(name: str, schemas: dict[str, Any]) -> None:
    data = ARRAYS[name]().to_dict()
    assert data["schema"].partition("/")[0] == f"roofline.{name}"
    check(json.loads(json.dumps(data, allow_nan=False)), schemas)


def check(data: dict[str, Any], schemas: dict[str, Any]) -> None:
    """Valid, and without a key that its schema does not name."""
    document = schemas[data["schema"].removeprefix("roofline.").partition("/")[0]]
    jsonschema.validate(data, document, cls=jsonschema.Draft202012Validator)
    assert list(strangers(data, document, document)) == []


def strangers(data: Any, part: dict[str, Any], document: dict[str, Any]) -> Iterator[str]:
    """Keys of objects that the schema does not name; where it says nothing at all, anything goes."""
    part = resolved(part, document)
    if not part:
        return
    for choice in part.get("anyOf", ()):
        if jsonschema.Draft202012Validator({**choice, "$defs": document["$defs"]}).is_valid(data):
            yield from strangers(data, choice, document)
            return
    if isinstance(data, dict):
        for key, value in data.items():
            inner = part.get("properties", {}).get(key, part.get("additionalProperties"))
            if inner is None:
                yield key
            else:
                yield from strangers(value, inner, document)
    elif isinstance(data, list):
        for value in data:
            yield from strangers(value, part.get("items", {}), document)


def resolved(part: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    """What a reference stands for."""
    while "$ref" in part:
        part = document["$defs"][part["$ref"].rpartition("/")[2]]
    return part
