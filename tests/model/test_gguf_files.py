"""GGUF files: those that the gguf package writes come back as they were; hostile headers are refused in one line."""

from __future__ import annotations

import random
import struct
import tracemalloc
from contextlib import suppress
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

import roofline as rl
from folded import folded
from roofline.model.checkpoints.gguf.files import on_hub
from roofline.model.checkpoints.gguf.header import gguf_header
from roofline.model.checkpoints.gguf.metadata import architectures
from roofline.model.checkpoints.gguf.mixes import mix_or_error, types_of
from roofline.model.checkpoints.gguf.tensors import gguf_size, matrices_of, traits_of
from roofline.model.formats import GGML_TYPES

COMMON = {
    "num_hidden_layers": 2, "max_position_embeddings": 2048, "hidden_size": 256, "intermediate_size": 512,
    "num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "vocab_size": 300,
    "tie_word_embeddings": False,
}  # fmt: skip
KEYS = {
    "block_count": 2, "context_length": 2048, "embedding_length": 256, "feed_forward_length": 512,
    "attention.head_count": 4, "attention.head_count_kv": 2, "attention.layer_norm_rms_epsilon": 1e-5,
    "rope.freq_base": 10000.0,
}  # fmt: skip
EXPERTS = {"expert_count": 8, "expert_used_count": 2}
# architecture, config, metadata beside what all have, tensors beside those of matrices
KINDS: dict[str, tuple[str, dict[str, Any], dict[str, Any], tuple[str, ...]]] = {
    "llama": ("llama", {"model_type": "llama"}, {}, ()),
    "mixtral": ("llama", {"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2}, EXPERTS, ()),
    "ministral": ("mistral3", {"model_type": "ministral3", "head_dim": 128}, {"attention.key_length": 128}, ()),
    "qwen2": ("qwen2", {"model_type": "qwen2"}, {}, ("blk.0.attn_q.bias",)),
    "qwen3": ("qwen3", {"model_type": "qwen3", "head_dim": 128}, {"attention.key_length": 128}, ()),
    "qwen2moe": (
        "qwen2moe",
        {"model_type": "qwen2_moe", "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 256,
         "shared_expert_intermediate_size": 512},
        {**EXPERTS, "expert_feed_forward_length": 256, "expert_shared_feed_forward_length": 512},
        ("blk.0.attn_q.bias",),
    ),
    "qwen3moe": (
        "qwen3moe",
        {"model_type": "qwen3_moe", "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 256,
         "head_dim": 64},
        {**EXPERTS, "expert_feed_forward_length": 256, "attention.key_length": 64},
        (),
    ),
    "gemma": ("gemma", {"model_type": "gemma", "head_dim": 256, "tie_word_embeddings": True},
              {"attention.key_length": 256}, ()),
    "gemma2": (
        "gemma2",
        {"model_type": "gemma2", "head_dim": 256, "sliding_window": 512, "tie_word_embeddings": True},
        {"attention.key_length": 256, "attention.sliding_window": 512},
        (),
    ),
    "gemma3": (
        "gemma3",
        {"model_type": "gemma3_text", "head_dim": 256, "sliding_window": 512, "tie_word_embeddings": True},
        {"attention.key_length": 256, "attention.sliding_window": 512},
        (),
    ),
    "phi3": ("phi3", {"model_type": "phi3"}, {}, ()),
    "deepseek2": (
        "deepseek2",
        {"model_type": "deepseek_v2", "num_key_value_heads": 4, "first_k_dense_replace": 1, "kv_lora_rank": 256,
         "q_lora_rank": None, "qk_nope_head_dim": 64, "qk_rope_head_dim": 32, "v_head_dim": 64, "n_routed_experts": 8,
         "num_experts_per_tok": 2, "n_shared_experts": 1, "moe_intermediate_size": 256},
        {**EXPERTS, "leading_dense_block_count": 1, "attention.kv_lora_rank": 256, "attention.key_length_mla": 96,
         "attention.value_length_mla": 64, "rope.dimension_count": 32, "expert_shared_count": 1,
         "expert_feed_forward_length": 256, "attention.head_count_kv": 1},
        (),
    ),
    "gpt-oss": (
        "gpt-oss",
        {"model_type": "gpt_oss", "num_local_experts": 8, "num_experts_per_tok": 2, "head_dim": 64,
         "sliding_window": 128, "intermediate_size": 512, "attention_bias": True},
        {**EXPERTS, "expert_feed_forward_length": 512, "attention.key_length": 64, "attention.sliding_window": 128},
        ("blk.0.attn_q.bias",),
    ),
    "falcon": (
        "falcon",
        {"model_type": "falcon", "num_kv_heads": 2, "new_decoder_architecture": True, "parallel_attn": True,
         "bias": False, "alibi": False, "multi_query": False},
        {},
        ("blk.0.attn_norm_2.weight",),
    ),
    "mamba": (
        "mamba",
        {"model_type": "mamba", "intermediate_size": 512, "state_size": 16, "conv_kernel": 4, "time_step_rank": 16,
         "use_conv_bias": True, "use_bias": False, "tie_word_embeddings": True},
        {"ssm.inner_size": 512, "ssm.state_size": 16, "ssm.conv_kernel": 4, "ssm.time_step_rank": 16},
        ("blk.0.ssm_conv1d.bias",),
    ),
}  # fmt: skip


def write(path: Path, architecture: str, keys: dict[str, Any], tensors: list[tuple[str, int, int, str]]) -> None:
    """A GGUF file by the gguf package: tensors by name, rows, values of a row, type."""
    writer = gguf.GGUFWriter(path, architecture)
    for key, value in keys.items():
        (writer.add_float32 if isinstance(value, float) else writer.add_uint32)(f"{architecture}.{key}", value)
    writer.add_array("tokenizer.ggml.tokens", [f"t{i}" for i in range(300)])
    writer.add_array("tokenizer.ggml.scores", [float(i) for i in range(300)])
    for name, rows, row, kind in tensors:
        number = gguf.GGMLQuantizationType(GGML_TYPES[kind].number)
        values, size = gguf.GGML_QUANT_SIZES[number]
        if kind == "fp32":
            writer.add_tensor(name, np.zeros((rows, row) if rows > 1 else row, np.float32))
        else:
            writer.add_tensor(name, np.zeros((rows, row // values * size), np.uint8), raw_dtype=number)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def tensors_of(model: rl.Model, mix: str, besides: tuple[str, ...]) -> list[tuple[str, int, int, str]]:
    size = gguf_size(model, mix)
    matrices = {t.name: t for t in matrices_of(model)}
    named = [(t.name, matrices[t.name].rows, matrices[t.name].row, t.type.name) for t in size.tensors]
    rest = size.vectors - 8 * len(besides)
    return [*named, *((name, 1, 8, "fp32") for name in besides), ("output_norm.weight", 1, rest, "fp32")]


@folded("kind", KINDS)
@folded("mix", ["q4_k_m", "q8_0", "iq2_xs"])
def test_round_trip(kind: str, mix: str, tmp_path: Path) -> None:
    architecture, config, keys, besides = KINDS[kind]
    known = rl.load({**COMMON, **config, "torch_dtype": "float16"})
    file = tmp_path / "small.gguf"
    write(file, architecture, {**KEYS, **keys}, tensors_of(known, mix, besides))
    model = rl.load(str(file))
    assert [w for w in model.warnings if w.startswith("gguf")] == []
    assert model.parameters == known.parameters
    assert model.weight_bytes() == rl.load(str(file), headers=True).weight_bytes()
    assert model.weight_bytes() == gguf_size(known, mix).bytes
    assert model.kv_bytes(1000) == known.kv_bytes(1000)
    types = {t.name: t.type.name for t in gguf_header("", reading(file.read_bytes())).tensors}
    assert all(types[t.name] == k.name for t, k in types_of(mix_or_error(mix), matrices_of(known), traits_of(known)))


def test_every_architecture_is_tried() -> None:
    assert {kind[0] for kind in KINDS.values()} == set(architectures())


def test_parts(tmp_path: Path) -> None:
    model = rl.load({**COMMON, "model_type": "llama"})
    tensors = tensors_of(model, "q6_k", ())
    for i, some in enumerate((tensors[:5], tensors[5:]), 1):
        write(tmp_path / f"small-{i:05}-of-00002.gguf", "llama", KEYS, some)
    assert rl.load(str(tmp_path / "small-00001-of-00002.gguf")).weight_bytes() == gguf_size(model, "q6_k").bytes
    (tmp_path / "small-00002-of-00002.gguf").unlink()
    with pytest.raises(rl.InputError, match="00002-of-00002"):
        rl.load(str(tmp_path / "small-00001-of-00002.gguf"))


def test_a_file_whose_tensors_are_others_says_so(tmp_path: Path) -> None:
    tensors = tensors_of(rl.load({**COMMON, "model_type": "llama"}), "q4_0", ())
    write(tmp_path / "odd.gguf", "llama", KEYS, [*tensors, ("blk.0.extra.weight", 4, 32, "q4_0")])
    assert [w for w in rl.load(str(tmp_path / "odd.gguf")).warnings if w.startswith("gguf: tensors take")]


def test_experts_of_older_files_stand_apart(tmp_path: Path) -> None:
    known = rl.load({**COMMON, "model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2})
    whole = tensors_of(known, "q4_0", ())
    apart = [
        (name.replace("_exps", f".{e}"), rows // 8 if "_exps" in name else rows, row, kind)
        for name, rows, row, kind in whole
        for e in (range(8) if "_exps" in name else (0,))
    ]
    write(tmp_path / "old.gguf", "llama", {**KEYS, **EXPERTS}, apart)
    model = rl.load(str(tmp_path / "old.gguf"))
    assert [w for w in model.warnings if w.startswith("gguf")] == []
    assert model.weight_bytes() == gguf_size(known, "q4_0").bytes


def test_names_on_the_hub() -> None:
    assert on_hub("hf://a/b/c.gguf") == on_hub("a/b/c.gguf") == ("a/b", "c.gguf")
    assert on_hub("a/b/Q4/c-00001-of-00002.gguf") == ("a/b", "Q4/c-00001-of-00002.gguf")
    assert on_hub("a/b/../c.gguf") is None
    assert on_hub("c.gguf") is None


# -- what is refused -----------------------------------------------------------------------------------------------
def reading(content: bytes) -> Any:
    return lambda offset, length: (content[offset : offset + length], len(content))


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def header(entries: bytes = b"", tensors: bytes = b"", counts: tuple[int, int] = (0, 0), version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, *counts) + entries + tensors


def tensor(shape: tuple[int, ...] = (32,), kind: int = 0, offset: int = 0, name: str = "x") -> bytes:
    sides = struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
    return text(name) + sides + struct.pack("<IQ", kind, offset)


HOSTILE = {
    "empty": b"",
    "no magic": b"GGML" + bytes(40),
    "version 1": header(version=1),
    "big-endian": header(version=0x03000000),
    "tensors": header(counts=(2**63, 0)),
    "entries": header(counts=(0, 2**63)),
    "truncated": header(counts=(1, 0)) + b"\x01",
    "a long key": header(struct.pack("<Q", 2**63), counts=(0, 1)),
    "a key that is none": header(struct.pack("<Q", 2) + b"\xff\xff" + bytes(64), counts=(0, 1)),
    "an unknown type": header(text("k") + struct.pack("<I", 77), counts=(0, 1)),
    "a long text": header(text("k") + struct.pack("<IQ", 8, 2**62), counts=(0, 1)),
    "a long array": header(text("k") + struct.pack("<IIQ", 9, 4, 2**61), counts=(0, 1)),
    "an array past the end": header(text("k") + struct.pack("<IIQ", 9, 4, 2**20), counts=(0, 1)),
    "texts past the end": header(text("k") + struct.pack("<IIQ", 9, 8, 2**20), counts=(0, 1)),
    "arrays of arrays": header(text("k") + struct.pack("<IIQ", 9, 9, 1) * 200, counts=(0, 1)),
    "a key twice": header((text("k") + struct.pack("<II", 4, 1)) * 2, counts=(0, 2)),
    "alignment 0": header(text("general.alignment") + struct.pack("<II", 4, 0), counts=(0, 1)),
    "no dimensions": header(tensors=tensor(()), counts=(1, 0)) + bytes(256),
    "five dimensions": header(tensors=tensor((1,) * 5), counts=(1, 0)) + bytes(256),
    "2^64 values": header(tensors=tensor((2**62, 2**62)), counts=(1, 0)) + bytes(256),
    "no values": header(tensors=tensor((0,)), counts=(1, 0)) + bytes(256),
    "an unknown tensor type": header(tensors=tensor(kind=4), counts=(1, 0)) + bytes(256),
    "half a block": header(tensors=tensor((33,), kind=2), counts=(1, 0)) + bytes(256),
    "outside": header(tensors=tensor(offset=2**40), counts=(1, 0)) + bytes(256),
    "unaligned": header(tensors=tensor(offset=7), counts=(1, 0)) + bytes(256),
    "overlapping": header(tensors=tensor() + tensor(name="y", offset=64), counts=(2, 0)) + bytes(512),
    "a tensor twice": header(tensors=tensor() + tensor(offset=128), counts=(2, 0)) + bytes(512),
    "no architecture": header() + bytes(64),
}


@folded("what", HOSTILE)
def test_hostile_headers(what: str, tmp_path: Path) -> None:
    (tmp_path / "bad.gguf").write_bytes(HOSTILE[what])
    tracemalloc.start()
    with pytest.raises(rl.InputError) as caught:
        rl.load(str(tmp_path / "bad.gguf"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1000
    assert peak < 16 * 2**20


def test_mutations_are_read_or_refused(tmp_path: Path) -> None:
    file = tmp_path / "small.gguf"
    write(file, "llama", KEYS, tensors_of(rl.load({**COMMON, "model_type": "llama"}), "q4_0", ()))
    whole, chance = file.read_bytes(), random.Random(19)
    for _ in range(400):
        content = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            content[chance.randrange(min(len(content), 8000))] = chance.choice((0, 1, 127, 255, chance.randrange(256)))
        if chance.random() < 0.2:
            del content[chance.randrange(len(content)) :]
        file.write_bytes(content)
        with suppress(rl.InputError):
            rl.load(str(file))
