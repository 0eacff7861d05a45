"""What happens to configs, quantisations, indexes and headers that somebody changed: a right number, or one line.

`python benchmarks/mutations.py [COUNT] [SEED]` changes published quantisation sections and small checkpoints at random,
loads them, and reports outcomes. A model that loads has to have sound bytes; what does not load has to be an InputError
of one printable line; of a file nothing behind its header may be read. Anything else is a fault, listed, and exit 1.
"""

from __future__ import annotations

import copy
import json
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from roofline.declared.errors import InputError
from roofline.model.checkpoints.headers import LARGEST_HEADER, check_index, header_tensors, index_files
from roofline.model.checkpoints.stored import as_stored, placed_tensors
from roofline.model.load import catalog_config, load
from roofline.model.sources.untrusted import parse_json

BASE = {**catalog_config("Qwen/Qwen3-0.6B"), "num_hidden_layers": 2}
SECTIONS: tuple[dict[str, Any], ...] = (
    {"quant_method": "fp8", "weight_block_size": [128, 128], "modules_to_not_convert": ["lm_head", "model.layers.0"]},
    {"quant_method": "fbgemm_fp8", "modules_to_not_convert": ["model.layers.1.self_attn"], "activation_scale_ub": 1200},
    {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": True, "dynamic": {"-:.*down.*": {}}},
    {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "version": "gemm"},
    {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head", "*self_attn*"], "kv_cache_scheme":
        {"type": "float", "num_bits": 8}},
    {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers":
        {"model.layers.0.mlp.down_proj": {"quant_algo": "FP8"}}},
    {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"targets": ["Linear"], "weights":
        {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32, "symmetric": True}}},
        "ignore": ["lm_head", "re:.*self_attn.*"]},
    {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_use_double_quant": True,
        "llm_int8_skip_modules": ["lm_head"]},
    {"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp8_e4m3", "qscheme": "per_tensor"}}},
    {"quant_method": "auto-round", "bits": 4, "group_size": 128, "extra_config": {"lm_head": {"bits": 8}}},
    {"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 4, "group_size": 64}}},
    {"quant_method": "torchao", "quant_type": {"default": {"_type": "Int4WeightOnlyConfig", "_data":
        {"group_size": 128}}}},
)  # fmt: skip
"""Sections as they are published, one of each kind."""
STRANGE: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 3, 2**31, 2**63, 10**99, 1.5, -0.0, float("nan"), float("inf"), "", " ", "*",
    "re:(", "re:(a+)+$", r"re:(\w|.)*!", "re:" + ".*" * 12 + "x", "re:a{99999999999999}", "re:" + "(" * 900,
    "re:.*", "re:.*mlp.*", "model.layers.0", "model.layers.9.mlp",
    "\n", "\x1b[2J", "é" * 50, "x" * 5000, "..", [], [[]],
    {}, {"": {}}, [None], "FP8", "int4", [128, 0], [128, 128, 128], "F32",
)  # fmt: skip
"""Values that no section has, expressions that would take for ever among them."""
BYTES = {"F32": 4, "BF16": 2, "F8_E4M3": 1, "U8": 1, "I32": 4}


@dataclass(frozen=True)
class Trial:
    """What was changed, in JSON, and what came of it: loaded, warned, refused, or a fault in words."""

    kind: str
    outcome: str
    changed: str = ""
    fault: str = ""


# -- changes -------------------------------------------------------------------------------------------------------
def mutated(value: Any, chance: random.Random) -> Any:
    """A copy with one to three changes: a value made strange, a key lost, renamed or doubled into its list."""
    value = copy.deepcopy(value)
    for _ in range(chance.randint(1, 3)):
        places = list(_places(value))
        if not places:
            break
        parent, key = chance.choice(places)
        match chance.randrange(5):
            case 0 if isinstance(parent, dict):
                del parent[key]
            case 1 if isinstance(parent, dict):
                parent[str(key) + chance.choice(("", "x", "_"))] = parent.pop(key)
            case 2 if isinstance(parent, list):
                parent.append(copy.deepcopy(parent[key]))
            case 3 if isinstance(parent[key], int):
                parent[key] += chance.choice((-1, 1, 7, 2**40))
            case _:
                parent[key] = copy.deepcopy(chance.choice(STRANGE))
    return value


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every member of an object or a list, within others too."""
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(members):
        yield value, key
        yield from _places(inner)


# -- what is tried -------------------------------------------------------------------------------------------------
def quantisation(chance: random.Random) -> tuple[str, Callable[[], str]]:
    """A section of a config.json, or what TensorRT Model Optimizer writes beside one."""
    section = mutated(chance.choice(SECTIONS), chance)
    key = chance.choice(("quantization_config", "quantization_config", "compression_config", "hf_quant_config"))
    config = {**BASE, key: {"quantization": section} if key == "hf_quant_config" else section}

    def run() -> str:
        model = load(config)
        assert model.parameters == _PARAMETERS, "the parameters changed"
        _check_bytes(model.weight_bytes())
        assert all(line.isprintable() for line in model.warnings), f"{model.warnings!r}"
        return "warned" if model.warnings else "loaded"

    return _text(section), run


def index(chance: random.Random) -> tuple[str, Callable[[], str]]:
    """An index of two files."""
    names = [f"model.layers.{i}.mlp.down_proj.weight" for i in range(4)]
    files = {name: f"model-0000{i % 2 + 1}-of-00002.safetensors" for i, name in enumerate(names)}
    changed = mutated({"metadata": {"total_size": 64}, "weight_map": files}, chance)

    def run() -> str:
        told = index_files(changed, "index")
        headers = {
            file: header_tensors(file, reader(_header([n for n in names if files[n] == file]), 32))
            for file in sorted(set(told.values()) & set(files.values()))
        }
        if set(told.values()) - set(headers):
            raise InputError("index", "files", "files that are there")
        check_index("index", told, headers)
        return "loaded"

    return _text(changed), run


def header(chance: random.Random) -> tuple[str, Callable[[], str]]:
    """The header of a file of four tensors, as JSON or byte by byte."""
    names = [f"model.layers.{i}.mlp.down_proj.weight" for i in range(4)]
    content, size = _header(names), 64
    if chance.random() < 0.6:
        entries = mutated(json.loads(content[8:]), chance)
        text = json.dumps(entries).encode()
        content = len(text).to_bytes(8, "little") + text
    else:
        raw = bytearray(content)
        for _ in range(chance.randint(1, 4)):
            raw[chance.randrange(len(raw))] = chance.randrange(256)
        content = bytes(raw[: chance.choice((len(raw), len(raw), chance.randrange(len(raw))))])
    read = reader(content, size)

    def run() -> str:
        tensors = header_tensors("a.safetensors", read)
        assert sum(t.bytes for t in tensors) + len(content) <= len(content) + size, "more bytes than the file has"
        assert all(t.bytes == t.elements * BYTES.get(t.dtype, 0) or t.dtype not in BYTES for t in tensors), "bytes"
        model = as_stored(placed_tensors(_MODEL, tensors))
        _check_bytes(model.weight_bytes())
        return "warned"

    return repr(content), run


def untrusted(chance: random.Random) -> tuple[str, Callable[[], str]]:
    """The text of a config, byte by byte."""
    raw = bytearray(json.dumps({**BASE, "quantization_config": chance.choice(SECTIONS)}).encode())
    for _ in range(chance.randint(1, 4)):
        raw[chance.randrange(len(raw))] = chance.choice(b'{}[]",:0129.eE-+ntf\\\x00\xff ')
    content = bytes(raw)

    def run() -> str:
        model = load(parse_json(content, "config.json"))
        _check_bytes(model.weight_bytes())
        return "warned" if model.warnings else "loaded"

    return repr(content), run


KINDS = (quantisation, quantisation, index, header, untrusted)
_PARAMETERS = load(BASE).parameters
_MODEL = load(BASE)


def _header(names: list[str]) -> bytes:
    entries = {
        n: {"dtype": "BF16", "shape": [2, 4], "data_offsets": [16 * i, 16 * i + 16]} for i, n in enumerate(names)
    }
    text = json.dumps(entries).encode()
    return len(text).to_bytes(8, "little") + text


def reader(start: bytes, behind: int) -> Callable[[int, int], tuple[bytes, int]]:
    """Reads a file that begins so, with so many bytes behind; a read that goes beyond what its header needs fails."""
    length = int.from_bytes(start[:8], "little")

    def read(offset: int, most: int) -> tuple[bytes, int]:
        assert offset == 0 or offset + most <= 8 + length, "it read behind the header"
        assert most <= LARGEST_HEADER, "it read without a limit"
        return (start + bytes(behind))[offset : offset + most], len(start) + behind

    return read


def _check_bytes(size: Any) -> None:
    """Bytes of weights have to be a number that so many parameters can take: 1 bit to 16 bytes each."""
    assert isinstance(size, (int, Fraction)), f"{size!r} bytes"
    assert size > 0, f"{size} bytes"


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True)[:2000]


def trials(count: int, seed: int) -> Iterator[Trial]:
    """So many of all kinds, the same for the same seed."""
    chance = random.Random(seed)
    for number in range(count):
        kind = KINDS[number % len(KINDS)]
        changed, run = kind(chance)
        try:
            yield Trial(kind.__name__, run())
        except InputError as error:
            line = str(error)
            sound = line.isprintable() and len(line) < 2000
            yield Trial(kind.__name__, "refused" if sound else "fault", changed, "" if sound else repr(line[:300]))
        except Exception as error:
            yield Trial(kind.__name__, "fault", changed, f"{type(error).__name__}: {error}")


def main(count: int = 2000, seed: int = 0) -> int:
    """Prints what came of the trials, and every fault."""
    results = list(trials(count, seed))
    for (kind, outcome), number in sorted(Counter((t.kind, t.outcome) for t in results).items()):
        print(f"{kind:<14}{outcome:<9}{number:>6}")
    faults = [t for t in results if t.outcome == "fault"]
    for trial in faults:
        print(f"{trial.kind}: {trial.fault}\n    {trial.changed}")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
