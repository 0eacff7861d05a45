"""GGUF's tensor types and mixes: blocks against the gguf package, tensors and files against published ones."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path
from typing import Any

import gguf
import pytest

import roofline as rl
from folded import folded
from roofline.model.checkpoints.gguf.mixes import MIXES, MatrixOfGguf, Traits, TypeMix, mix_named, more_bits, types_of
from roofline.model.checkpoints.gguf.tensors import gguf_size, in_mix, matrices_of, traits_of
from roofline.model.formats import GGML_TYPES, format_named

GIB = 2**30
NUMPY_TYPES = {"fp32": "F32", "fp16": "F16", "fp64": "F64", "bf16": "BF16"}


@folded("name", sorted(GGML_TYPES))
def test_blocks_are_those_of_the_gguf_package(name: str) -> None:
    ours = GGML_TYPES[name]
    theirs = gguf.GGMLQuantizationType[NUMPY_TYPES.get(name, name.upper())]
    values, size = gguf.GGML_QUANT_SIZES[theirs]
    if name == "q8_1":  # never stored in files; ggml-common.h has two fp16, where the package still has two fp32
        assert (size, ours.bytes) == (40, 36)
        size = ours.bytes
    assert (ours.number, ours.values, ours.bytes) == (int(theirs), values, size)
    assert ours.format.bytes(1024 * values) == 1024 * size


def test_every_type_that_the_package_has() -> None:
    integers = {"I8", "I16", "I32", "I64"}
    assert {t.name for t in gguf.GGML_QUANT_SIZES} - integers == {NUMPY_TYPES.get(n, n.upper()) for n in GGML_TYPES}


def test_bits_by_hand() -> None:
    stored = {
        name: float(format_named(name).stored_bits) for name in ("q4_0", "q8_0", "q4_k", "q6_k", "iq1_s", "tq1_0")
    }
    assert stored == {"q4_0": 4.5, "q8_0": 8.5, "q4_k": 4.5, "q6_k": 6.5625, "iq1_s": 1.5625, "tq1_0": 1.6875}


# What llama.cpp logs of published files: tensors of each type, vectors in f32, and GiB of all of them.
LOGGED = [
    # ggml-org/llama.cpp, issue 14235
    ("Qwen/Qwen3-30B-A3B", "q4_k_m", {"f32": 241, "q4_k": 289, "q6_k": 49}, 17.28),
    # gpustack/gpustack, issue 1681
    ("Qwen/Qwen2.5-14B", "q4_k_m", {"f32": 241, "q4_k": 289, "q6_k": 49}, 8.37),
    # chraac/llama-cpp-qnn-builder, issue 26
    ("Qwen/Qwen2.5-7B", "q6_k", {"f32": 141, "q6_k": 198}, 5.82),
    # ollama/ollama, issue 9031: rows of 896 and 4864 values
    ("Qwen/Qwen2.5-0.5B", "q4_k_m", {"f32": 121, "q5_0": 132, "q8_0": 13, "q4_k": 12, "q6_k": 12}, None),
    # scrya-com/rotorquant, issue 9: layers without values of their own, rows of 2112 and 704
    ("google/gemma-4-26B-A4B", "q4_k_m", {"q5_0": 32, "q8_0": 28, "q4_k": 192, "q6_k": 14}, 15.63),
]


@pytest.mark.parametrize(("model", "mix", "types", "gib"), LOGGED)
def test_as_llama_cpp_logs(model: str, mix: str, types: dict[str, int], gib: float | None) -> None:
    size = gguf_size(rl.load(model), mix)
    counts = Counter(t.type.name for t in size.tensors if t.type.name != "fp32")
    assert counts == {name: n for name, n in types.items() if name != "f32"}
    assert gib is None or size.bytes / GIB == pytest.approx(gib, abs=0.005)


def test_llama_3_tensor_by_tensor() -> None:
    """The log of a conversion in ggml-org/llama.cpp, pull request 6745: types of layers 3 and 26, MiB of each."""
    tensors = {t.name: t for t in gguf_size(rl.load("meta-llama/Meta-Llama-3-8B"), "q4_k_m").tensors}
    expected = {
        "blk.3.ffn_down": ("q6_k", 45.94), "blk.3.ffn_gate": ("q4_k", 31.5), "blk.3.ffn_up": ("q4_k", 31.5),
        "blk.3.attn_k": ("q4_k", 2.25), "blk.3.attn_output": ("q4_k", 9.0), "blk.3.attn_q": ("q4_k", 9.0),
        "blk.3.attn_v": ("q6_k", 3.28), "blk.26.ffn_down": ("q4_k", 31.5), "blk.26.attn_v": ("q4_k", 2.25),
    }  # fmt: skip
    for name, (kind, mib) in expected.items():
        tensor = tensors[f"{name}.weight"]
        assert tensor.type.name == kind, name
        assert tensor.bytes / 2**20 == pytest.approx(mib, abs=0.005), name


with Path(__file__).with_name("gguf_published.csv").open(encoding="utf-8") as table:
    PUBLISHED = [(r["model"], r["mix"], r["size"], r["unit"], r["what"]) for r in csv.DictReader(table)]


@folded(("model", "mix", "size", "unit", "what"), PUBLISHED)
def test_published_sizes(model: str, mix: str, size: str, unit: str, what: str) -> None:
    """Within the rounding of what is published; a file has up to 20 MB of tokeniser and metadata besides."""
    scale = 1e9 if unit == "GB" else 2**30
    counted, known = gguf_size(rl.load(model), mix).bytes, float(size) * scale
    beside = 20e6 if what == "file" else 0
    assert known - 0.006 * scale - beside < counted < known + 0.006 * scale


def test_a_model_in_a_mix_holds_those_bytes() -> None:
    for name, mix in (
        ("meta-llama/Llama-3.2-1B", "q4_k_m"),
        ("Qwen/Qwen3-30B-A3B", "iq2_m"),
        ("openai/gpt-oss-20b", "mxfp4_moe"),
    ):
        model = rl.load(name)
        assert in_mix(model, mix).weight_bytes() == gguf_size(model, mix).bytes
        assert rl.load(name, precision=mix).weight_bytes() == gguf_size(model, mix).bytes


def test_llama_2_by_hand() -> None:
    """Q4_0 of Llama 2 7B: head in q6_k, all else in 4.5 bits, 65 norms of 4096."""
    head = table = 32000 * 4096
    layers = 32 * (4 * 4096 * 4096 + 3 * 4096 * 11008)
    expected = head // 256 * 210 + (table + layers) // 32 * 18 + 4 * 65 * 4096
    assert gguf_size(rl.load("meta-llama/Llama-2-7b-hf"), "q4_0").bytes == expected


@pytest.mark.parametrize("layers", [1, 8, 32, 40, 80])
def test_more_bits_stand_in_both_eighths_and_every_third(layers: int) -> None:
    wide = [i for i in range(layers) if more_bits(i, layers)]
    assert set(range(layers // 8)) | set(range(7 * layers // 8, layers)) <= set(wide)
    inner = [i for i in wide if layers // 8 <= i < 7 * layers // 8]
    assert all((i - layers // 8) % 3 == 2 for i in inner)


def one_type(mix: str, name: str, row: int = 4096, layer: int | None = 0, **traits: Any) -> str:
    tensor = MatrixOfGguf(name, row, 16, layer, experts="_exps" in name)
    chosen = mix_named(mix)
    assert chosen is not None
    model = Traits(**{"layers": 32, "gqa": 1} | traits)
    return types_of(chosen, [tensor], model)[0][1].name


@folded(
    ("mix", "name", "traits", "expected"),
    [
        ("q4_k_m", "blk.0.attn_k.weight", {"experts": 8}, "q8_0"),
        ("q4_k_m", "blk.0.attn_v.weight", {"experts": 8}, "q8_0"),
        ("q4_k_m", "blk.0.attn_output.weight", {"experts": 8}, "q5_k"),
        ("q4_k_m", "blk.0.ffn_gate_inp.weight", {"experts": 8}, "fp32"),
        ("q4_k_m", "blk.0.ffn_down.weight", {"falcon": True}, "q6_k"),
        ("q4_k_s", "blk.0.ffn_down.weight", {"falcon": True}, "q4_k"),
        ("q4_k_s", "blk.0.ffn_down.weight", {}, "q5_k"),
        ("q2_k", "blk.0.attn_v.weight", {}, "q3_k"),
        ("q2_k", "blk.0.attn_v.weight", {"gqa": 4}, "q4_k"),
        ("q3_k_m", "blk.0.attn_v.weight", {}, "q5_k"),
        ("q4_k_m", "output.weight", {"layer": None}, "q6_k"),
        ("q4_k_m", "output.weight", {"layer": None, "row": 4544}, "q8_0"),
        ("q4_k_m", "token_embd.weight", {"layer": None}, "q4_k"),
        ("q4_k_m", "token_embd.weight", {"layer": None, "tied": True}, "q6_k"),
        ("iq2_xxs", "token_embd.weight", {"layer": None}, "q2_k"),
        ("q4_k_m", "blk.0.ffn_up.weight", {"row": 2880}, "q5_0"),
        ("q6_k", "blk.0.ffn_up.weight", {"row": 2880}, "q8_0"),
        ("iq4_xs", "blk.0.ffn_up.weight", {"row": 2880}, "iq4_nl"),
        ("q4_k_m", "blk.0.ssm_dt.weight", {"row": 48}, "fp16"),
        ("iq4_xs", "blk.0.ffn_down.weight", {}, "q5_k"),
        ("iq4_xs-imatrix", "blk.0.ffn_down.weight", {}, "iq4_xs"),
        ("q4_0-imatrix", "blk.0.ffn_down.weight", {}, "q4_1"),
        ("iq1_s", "blk.0.attn_output.weight", {}, "iq2_xxs"),
        ("iq3_xs", "blk.0.attn_q.weight", {}, "iq3_xxs"),
        ("mxfp4_moe", "blk.0.ffn_up_exps.weight", {"experts": 32}, "mxfp4"),
        ("mxfp4_moe", "blk.0.attn_q.weight", {"experts": 32}, "q8_0"),
        ("q4_k_m", "blk.0.attn_k_b.weight", {"row": 128}, "q5_0"),
        ("q3_k_m", "blk.0.attn_v.weight", {"seventy": True, "gqa": 8}, "q5_k"),
        ("q8_0", "blk.0.attn_norm_2.weight", {}, "q8_0"),
        ("f16", "blk.0.ssm_conv1d.weight", {"row": 4}, "fp32"),
    ],
)
def test_the_rule(mix: str, name: str, traits: dict[str, Any], expected: str) -> None:
    assert one_type(mix, name, **traits) == expected


def test_mla_stands_in_two_and_drafts_where_the_file_holds_them() -> None:
    flash = {t.name: t for t in matrices_of(rl.load("zai-org/GLM-4.7-Flash"))}
    assert flash["blk.0.attn_k_b.weight"].row == 192
    assert not any(t.layer == 47 for t in flash.values())


@folded("name", sorted(MIXES), drawn=8)
def test_every_mix_of_every_kind(name: str) -> None:
    for model in (
        "tiiuae/falcon-7b",
        "mistralai/Mixtral-8x7B-v0.1",
        "state-spaces/mamba-130m-hf",
        "google/gemma-3-1b-it",
    ):
        size = gguf_size(rl.load(model), TypeMix(name))
        assert all(t.values % t.type.values == 0 for t in size.tensors)
        assert sum(t.values for t in size.tensors) + size.vectors == rl.load(model).parameters


def test_asked_for_as_a_precision() -> None:
    model, step = rl.load("meta-llama/Llama-3.1-8B"), rl.decode(1, 1000)
    plain = rl.estimate(model, step, on="h100-sxm", precision="q4_k_m").memory
    narrow = rl.estimate(model, step, on="h100-sxm", precision="q4_k_m,kv=q8_0").memory
    same = rl.estimate(model, step, on="h100-sxm", precision={"weights": "q4_k_m", "kv": "q8_0"}).memory
    assert plain.weights == narrow.weights == gguf_size(model, "q4_k_m").bytes == same.weights
    assert narrow.cache / plain.cache == pytest.approx(8.5 / 16)


def test_one_type_for_a_role() -> None:
    model = rl.load("meta-llama/Llama-3.1-8B", precision="weights=q4_k")
    matrices = 32 * (4096 * 6144 + 4096 * 4096 + 3 * 4096 * 14336)
    assert model.weight_bytes() == matrices // 256 * 144 + 2 * (model.parameters - matrices)


def test_sixteen_bits_of_a_file_have_norms_in_32() -> None:
    model = rl.load("meta-llama/Llama-3.1-8B")
    for name in ("f16", "bf16-gguf"):
        assert rl.load("meta-llama/Llama-3.1-8B", precision=name).weight_bytes() == 2 * model.parameters + 2 * 65 * 4096


def test_a_mix_of_nothing() -> None:
    with pytest.raises(rl.InputError, match="precision: expected a number format, got 'q4_k_n'"):
        rl.load("meta-llama/Llama-3.1-8B", precision="q4_k_n")


def test_a_rank_holds_its_share_of_whole_rows() -> None:
    """Rows of 11008 values, shared out over 8 ranks, are no whole blocks; those of the file are."""
    model = rl.load("meta-llama/Llama-2-7b-hf")
    whole = gguf_size(model, "q4_k_m").bytes - 4 * 65 * 4096
    rank = rl.estimate(model, rl.decode(1, 10), on="8xh100-sxm", layout="tp=8", precision="q4_k_m").memory.weights
    assert rank == whole / 8 + 4 * 65 * 4096


def test_the_command_line_says_what_the_file_takes(capsys: pytest.CaptureFixture[str]) -> None:
    from roofline.doors.cli.main import main

    main(["analyze", "meta-llama/Llama-2-7b-hf", "--precision", "q4_k_m", "--layout", "tp=8", "--decode", "10"])
    assert "weights 4.08 GB" in capsys.readouterr().out


@folded("model", ["meta-llama/Llama-3.1-8B", "mistralai/Mixtral-8x7B-v0.1", "tiiuae/falcon-7b", "openai/gpt-oss-20b"])
def test_no_matrix_has_fewer_bits_than_the_narrowest_type_of_its_mix(model: str) -> None:
    """`models --on` leaves out what cannot fit by this bound, without working it out."""
    matrices, traits = matrices_of(rl.load(model)), traits_of(rl.load(model))
    for name in MIXES:
        for mix in (mix_named(name), mix_named(f"{name}-imatrix")):
            assert mix is not None
            bits = {8 * kind.bytes / kind.values for _, kind in types_of(mix, matrices, traits)}
            assert min(bits) >= mix.least_bits
