"""Headers of safetensors files: what they say, what is refused, and the formats and bytes that models have by them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import roofline as rl
from folded import folded
from headed import Shapes, beginning, header, size, write, write_all
from hub import CONFIG
from roofline.model.checkpoints.headers import LARGEST_HEADER, Tensor, header_tensors
from roofline.model.checkpoints.stored import as_stored, placed_tensors
from roofline.model.load import catalog_config

HIDDEN, INNER, VOCAB = 64, 128, 128
"""Sizes of `CONFIG`: two layers, four heads of 16."""
WHOLE = {
    "model.embed_tokens.weight": (VOCAB, HIDDEN),
    "model.norm.weight": (HIDDEN,),
    "lm_head.weight": (VOCAB, HIDDEN),
}
NORMS = {"input_layernorm.weight": (HIDDEN,), "post_attention_layernorm.weight": (HIDDEN,)}
MATRICES = {
    **dict.fromkeys((f"self_attn.{x}_proj" for x in "qkvo"), (HIDDEN, HIDDEN)),
    **dict.fromkeys(("mlp.gate_proj", "mlp.up_proj"), (INNER, HIDDEN)),
    "mlp.down_proj": (HIDDEN, INNER),
}


def llama(of_matrix: Any = None, dtype: str = "BF16", layers: int = 2) -> dict[str, tuple[str, tuple[int, ...]]]:
    """The tensors of `CONFIG`, its matrices as `of_matrix` stores them: suffix → dtype and shape."""
    of_matrix = of_matrix or (lambda shape: {"weight": (dtype, shape)})
    tensors = {name: (dtype, shape) for name, shape in WHOLE.items()}
    for i in range(layers):
        tensors.update({f"model.layers.{i}.{name}": (dtype, shape) for name, shape in NORMS.items()})
        for name, shape in MATRICES.items():
            tensors.update({f"model.layers.{i}.{name}.{end}": stored for end, stored in of_matrix(shape).items()})
    return tensors


# -- one file ------------------------------------------------------------------------------------------------------
def tensors_in(content: bytes, length: int | None = None) -> tuple[Tensor, ...]:
    """The tensors of a file that begins so and is so long."""
    return header_tensors("a.safetensors", lambda at, most: (content[at : at + most], length or len(content)))


def test_tensors_of_a_file() -> None:
    shapes: Shapes = {"a": ("BF16", (2, 3)), "b": ("F8_E4M3", (5,)), "c": ("F32", ()), "empty": ("I32", (0, 4))}
    start = beginning(header(shapes))
    assert tensors_in(start, len(start) + 21) == (
        Tensor("a", "BF16", (2, 3), 12), Tensor("b", "F8_E4M3", (5,), 5), Tensor("c", "F32", (), 4),
        Tensor("empty", "I32", (0, 4), 0),
    )  # fmt: skip


def test_order_of_names_is_not_that_of_bytes() -> None:
    start = beginning(dict(reversed(header({"a": ("U8", (2,)), "b": ("U8", (3,))}).items())))
    assert [t.name for t in tensors_in(start, len(start) + 5)] == ["b", "a"]


def test_half_bytes() -> None:
    entry = {"dtype": "F4", "shape": [2, 4], "data_offsets": [0, 4]}
    assert tensors_in(beginning({"a": entry}) + bytes(4))[0].bytes == 4
    with pytest.raises(rl.InputError, match=r"3.5 bytes"):
        tensors_in(beginning({"a": {**entry, "shape": [7], "data_offsets": [0, 3]}}) + bytes(3))


def test_nothing_behind_the_header_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "a.safetensors", {f"t{i}": ("BF16", (10**6,)) for i in range(3000)})
    content, end, reads = path.open("rb"), 8, []

    def read(offset: int, length: int) -> tuple[bytes, int]:
        reads.append(offset + length)
        content.seek(offset)
        return content.read(length), os.path.getsize(path)

    assert len(header_tensors("a", read)) == 3000
    content.seek(0)
    end += int.from_bytes(content.read(8), "little")
    content.close()
    assert len(reads) == 2
    assert max(reads) == end


ENTRY: dict[str, Any] = {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}
HOSTILE = {
    "nothing": (b"", "begins with its header's length"),
    "short": (b"1234567", "begins with its header's length"),
    "longer than the file": ((99).to_bytes(8, "little") + b"{}", "a header of at most 2 bytes"),
    "longer than 100 MB": ((10**9).to_bytes(8, "little") + b"{}", "at most"),
    "negative": (b"\xff" * 16, "at most 8 bytes"),
    "no JSON": (beginning("{"), "a JSON object"),
    "a list": (beginning([1]), "a JSON object"),
    "broken JSON": ((4).to_bytes(8, "little") + b'{"a"', "JSON at line 1"),
    "no UTF-8": ((4).to_bytes(8, "little") + b"{\xff\xff}", "UTF-8"),
    "name twice": ((len(b'{"a":1,"a":1}')).to_bytes(8, "little") + b'{"a":1,"a":1}', "each key once"),
    "name of control characters": (beginning({"\x1b[2J": ENTRY}) + bytes(4), "printable"),
    "metadata": (beginning({"__metadata__": {"a": 1}, "x": ENTRY}) + bytes(4), "texts by name"),
    "entry is no object": (beginning({"a": 5}), "dtype, shape and data_offsets"),
    "key too many": (beginning({"a": {**ENTRY, "more": 1}}) + bytes(4), "dtype, shape and data_offsets"),
    "unknown dtype": (beginning({"a": {**ENTRY, "dtype": "F17"}}) + bytes(4), "a dtype of safetensors"),
    "dtype is a list": (beginning({"a": {**ENTRY, "dtype": []}}) + bytes(4), "a dtype of safetensors"),
    "shape is a number": (beginning({"a": {**ENTRY, "shape": 4}}) + bytes(4), "list of whole numbers"),
    "negative side": (beginning({"a": {**ENTRY, "shape": [-2, -2]}}) + bytes(4), "list of whole numbers"),
    "true as a side": (beginning({"a": {**ENTRY, "shape": [True, 4]}}) + bytes(4), "list of whole numbers"),
    "fraction": (beginning({"a": {**ENTRY, "shape": [4.0]}}) + bytes(4), "list of whole numbers"),
    "many sides": (beginning({"a": {**ENTRY, "shape": [1] * 17 + [4]}}) + bytes(4), "list of whole numbers"),
    "overflow": (beginning({"a": {**ENTRY, "shape": [2**32, 2**32, 0x10]}}) + bytes(4), "elements"),
    "one offset": (beginning({"a": {**ENTRY, "data_offsets": [4]}}) + bytes(4), "two whole numbers"),
    "backwards": (beginning({"a": {**ENTRY, "data_offsets": [4, 0]}}) + bytes(4), "4 bytes, as U8"),
    "other size": (beginning({"a": {**ENTRY, "shape": [3]}}) + bytes(4), "3 bytes, as U8"),
    "overlap": (beginning({"a": ENTRY, "b": {**ENTRY, "data_offsets": [2, 6]}}) + bytes(6), "bytes that begin at 4"),
    "same place": (beginning({"a": ENTRY, "b": ENTRY}) + bytes(4), "bytes that begin at 4"),
    "gap": (beginning({"a": ENTRY, "b": {**ENTRY, "data_offsets": [5, 9]}}) + bytes(9), "a gap before it"),
    "out of the file": (beginning({"a": ENTRY}) + bytes(3), "4, as its tensors take"),
    "more than tensors": (beginning({"a": ENTRY}) + bytes(5), "4, as its tensors take"),
}


@folded("name", HOSTILE)
def test_hostile_headers_are_refused_in_a_line(name: str) -> None:
    content, said = HOSTILE[name]
    with pytest.raises(rl.InputError) as caught:
        tensors_in(content)
    assert said in str(caught.value)
    assert str(caught.value).isprintable()


def test_longest_header() -> None:
    with pytest.raises(rl.InputError, match=f"at most {LARGEST_HEADER} bytes"):
        tensors_in((LARGEST_HEADER + 1).to_bytes(8, "little") + b"{", 2**40)


# -- a folder ------------------------------------------------------------------------------------------------------
def test_bytes_of_a_folder(tmp_path: Path) -> None:
    for files in (1, 3):
        model = rl.load(write_all(tmp_path / str(files), CONFIG, llama(), files), headers=True)
        assert model.weight_bytes() == size(llama()) == 2 * model.parameters
        assert model.warnings == ()
    assert model.precision == rl.load(CONFIG).precision


def test_without_headers_no_file_is_read(tmp_path: Path) -> None:
    folder = write_all(tmp_path, CONFIG, llama())
    (folder / "model.safetensors").write_bytes(b"broken")
    assert rl.load(folder).warnings == ()
    with pytest.raises(rl.InputError, match="begins with its header"):
        rl.load(folder, headers=True)


def test_what_has_no_files(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    for source in ("meta-llama/Llama-3.1-8B", CONFIG, tmp_path):
        with pytest.raises(rl.InputError, match=r"headers: expected a folder or a Hub id with model.safetensors.index"):
            rl.load(source, headers=True)


@folded(
    ("change", "said"),
    [
        ({"weight_map": {}}, "the file of each tensor"), ({"weight_map": [1]}, "the file of each tensor"),
        ({"weight_map": {"a": 5}}, "a .safetensors file beside"), ({}, "the file of each tensor"),
        *(({"weight_map": {"a": name}}, "a .safetensors file beside the index") for name in (
            "../a.safetensors", "/etc/passwd", "a/b.safetensors", "a.bin", "..safetensors", "a\n.safetensors",
        )),
        ({"weight_map": {"a": "gone.safetensors"}}, "No such file"),
        ({"weight_map": {"lm_head.weigth": "model-00001-of-00002.safetensors"}}, "a tensor of model-00001"),
    ],
)  # fmt: skip
def test_index_that_is_wrong(tmp_path: Path, change: Any, said: str) -> None:
    folder = write_all(tmp_path, CONFIG, llama(), 2)
    (folder / "model.safetensors.index.json").write_text(json.dumps(change))
    with pytest.raises(rl.InputError, match=said):
        rl.load(folder, headers=True)


def test_tensor_of_two_files(tmp_path: Path) -> None:
    folder = write_all(tmp_path, CONFIG, llama(), 2)
    write(folder / "model-00002-of-00002.safetensors", llama())
    with pytest.raises(rl.InputError, match="expected one file"):
        rl.load(folder, headers=True)


# -- formats -------------------------------------------------------------------------------------------------------
def stored(config: Any, shapes: Shapes) -> rl.Model:
    tensors = tuple(
        Tensor(name, dtype, tuple(shape), size({name: (dtype, shape)})) for name, (dtype, shape) in shapes.items()
    )
    return as_stored(placed_tensors(rl.load(config), tensors))


def fp8_blocks(shape: tuple[int, int]) -> Any:
    return {"weight": ("F8_E4M3", shape), "weight_scale_inv": ("F32", (-(-shape[0] // 128), -(-shape[1] // 128)))}


def int4(shape: tuple[int, int]) -> Any:
    """GPTQ's: eight values in 32 bits, groups of 32 with a scale and a zero point."""
    out, into = shape
    groups = into // 32
    return {
        "qweight": ("I32", (into // 8, out)), "scales": ("F16", (groups, out)), "qzeros": ("I32", (groups, out // 8)),
        "g_idx": ("I32", (into,)),
    }  # fmt: skip


def nvfp4(shape: tuple[int, int]) -> Any:
    out, into = shape
    return {
        "weight": ("U8", (out, into // 2)), "weight_scale": ("F8_E4M3", (out, into // 16)),
        "weight_scale_2": ("F32", ()), "input_scale": ("F32", ()),
    }  # fmt: skip


def mlx4(shape: tuple[int, int]) -> Any:
    out, into = shape
    return {
        "weight": ("U32", (out, into // 8)), "scales": ("F16", (out, into // 64)), "biases": ("F16", (out, into // 64)),
    }  # fmt: skip


GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 32}


@folded(
    ("of_matrix", "quantization", "name"),
    [
        (fp8_blocks, {"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8-block"), (fp8_blocks, None, "fp8"),
        (int4, GPTQ, "int4-g32"), (int4, None, "int4"),
        (nvfp4, {"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4"),
        (mlx4, None, "int4"),
    ],
)  # fmt: skip
def test_quantised_bytes_are_those_of_the_files(of_matrix: Any, quantization: Any, name: str) -> None:
    """With the config's word for it and without."""
    shapes = llama(of_matrix)
    model = stored(CONFIG | ({"quantization_config": quantization} if quantization else {}), shapes)
    assert model.weight_bytes() == size(shapes)
    assert {m.format.name if m.format else model.precision.of(m).name for b, _ in model.blocks for m in b.modules
            if m.matrix} == {name}  # fmt: skip
    assert model.precision.head.name == "bf16"
    assert len(model.blocks) == 1
    difference = [w for w in model.warnings if "the files count" not in w]
    assert difference == []


def test_layers_that_differ() -> None:
    """The second layer and the output of the first stay in 16 bits."""
    shapes = {**llama(fp8_blocks), **{n: t for n, t in llama().items() if ".1." in n or "o_proj" in n}}
    shapes = {n: t for n, t in shapes.items() if not (n.endswith("scale_inv") and (".1." in n or "o_proj" in n))}
    model = stored(CONFIG, shapes)
    assert model.weight_bytes() == size(shapes)
    assert [n for _, n in model.blocks] == [1, 1]
    first, second = (block for block, _ in model.blocks)
    of = {m.name: model.precision.of(m).name for m in first.modules if m.matrix}
    assert of == {"qkv_proj": "fp8", "o_proj": "bf16", "gate_up_proj": "fp8", "down_proj": "fp8"}
    assert {model.precision.of(m).name for m in second.modules if m.matrix} == {"bf16"}


def test_promise_that_files_do_not_keep_is_said() -> None:
    model = stored(CONFIG | {"quantization_config": {"quant_method": "fp8"}}, llama())
    assert model.weight_bytes() == size(llama())
    promised = rl.load(CONFIG | {"quantization_config": {"quant_method": "fp8"}}).weight_bytes()
    assert model.warnings[-1] == (
        f"headers: weights take {size(llama())} bytes in the files, by the config's formats {promised}; the files count"
    )


def test_parts_besides_are_not_counted() -> None:
    shapes = {
        **llama(), "vision_tower.encoder.layers.0.mlp.fc1.weight": ("BF16", (640, 640)),
        "multi_modal_projector.linear.weight": ("BF16", (64, 64)), "model.layers.0.self_attn.rotary_emb.inv_freq":
        ("F32", (8,)), "model.layers.2.eh_proj.weight": ("BF16", (64, 128)),
    }  # fmt: skip
    model = stored(CONFIG, shapes)
    assert model.weight_bytes() == size(llama())
    assert model.warnings == ()


def test_tied_head_stored_twice_counts_once() -> None:
    model = stored(CONFIG | {"tie_word_embeddings": True}, llama())
    assert model.weight_bytes() == size(llama()) - 2 * VOCAB * HIDDEN
    assert model.warnings == ()


def test_wrapped_names_and_vectors_in_two_dtypes() -> None:
    shapes = {f"language_model.{name}": tensor for name, tensor in llama().items()}
    shapes["language_model.model.norm.weight"] = "F32", (HIDDEN,)
    model = stored(CONFIG, shapes)
    assert abs(model.weight_bytes() - size(shapes)) <= sum(n for _, n in model.modules())
    assert model.precision.other.name == "fp32/bf16"


def test_sizes_that_differ_stay_as_promised() -> None:
    shapes = {**llama(), "model.layers.1.mlp.down_proj.weight": ("BF16", (HIDDEN, INNER + 8))}
    shapes.pop("model.layers.0.self_attn.o_proj.weight")
    model = stored(CONFIG, shapes)
    assert model.weight_bytes() == rl.load(CONFIG).weight_bytes()
    assert "headers: no tensor of o_proj (1 of them), which is as the config says" in model.warnings
    assert "headers: tensors of down_proj hold other sizes (1 of them), which is as the config says" in model.warnings


def test_experts_in_mxfp4_as_gpt_oss_is_published() -> None:
    """Blocks of 32 values in 16 bytes with a scale of 8 bits; gate and up in one tensor, biases in 16 bits."""
    config = catalog_config("openai/gpt-oss-20b")
    shapes: dict[str, tuple[str, tuple[int, ...]]] = {
        "model.embed_tokens.weight": ("BF16", (201088, 2880)), "lm_head.weight": ("BF16", (201088, 2880)),
        "model.norm.weight": ("BF16", (2880,)),
    }  # fmt: skip
    for i in range(24):
        layer = f"model.layers.{i}"
        for part, out, into in (
            ("q_proj", 4096, 2880),
            ("k_proj", 512, 2880),
            ("v_proj", 512, 2880),
            ("o_proj", 2880, 4096),
        ):
            shapes[f"{layer}.self_attn.{part}.weight"] = "BF16", (out, into)
            shapes[f"{layer}.self_attn.{part}.bias"] = "BF16", (out,)
        for name in ("input_layernorm", "post_attention_layernorm"):
            shapes[f"{layer}.{name}.weight"] = "BF16", (2880,)
        shapes[f"{layer}.self_attn.sinks"] = "BF16", (64,)
        shapes[f"{layer}.mlp.router.weight"], shapes[f"{layer}.mlp.router.bias"] = ("BF16", (32, 2880)), ("BF16", (32,))
        for part, out in (("gate_up_proj", 5760), ("down_proj", 2880)):
            shapes[f"{layer}.mlp.experts.{part}_blocks"] = "U8", (32, out, 90, 16)
            shapes[f"{layer}.mlp.experts.{part}_scales"] = "U8", (32, out, 90)
            shapes[f"{layer}.mlp.experts.{part}_bias"] = "BF16", (32, out)
    model = stored(config, shapes)
    assert model.warnings == rl.load(config).warnings
    assert model.weight_bytes() == size(shapes) == rl.load(config).weight_bytes() == 13_761_264_768
    assert model.precision.experts == rl.load(config).precision.experts


def test_experts_one_by_one() -> None:
    """A mixture in FP8 with a scale for each tensor, stored as Mixtral is, and draft-free."""
    config = {
        "model_type": "mixtral", "max_position_embeddings": 2048, "vocab_size": 128, "hidden_size": 64,
        "intermediate_size": 128, "dtype": "bfloat16",
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4, "num_local_experts": 4,
        "num_experts_per_tok": 2, "tie_word_embeddings": False,
    }  # fmt: skip
    shapes: dict[str, tuple[str, tuple[int, ...]]] = {n: t for n, t in llama().items() if ".mlp." not in n}
    for i in range(2):
        shapes[f"model.layers.{i}.block_sparse_moe.gate.weight"] = "BF16", (4, 64)
        for e in range(4):
            for part, shape in (("w1", (128, 64)), ("w2", (64, 128)), ("w3", (128, 64))):
                name = f"model.layers.{i}.block_sparse_moe.experts.{e}.{part}"
                shapes[f"{name}.weight"], shapes[f"{name}.weight_scale"] = ("F8_E4M3", shape), ("F32", ())
    model = stored(config, shapes)
    assert model.weight_bytes() == size(shapes)
    assert model.precision.experts.name == "fp8"
    assert [w for w in model.warnings if "the files count" not in w] == []
