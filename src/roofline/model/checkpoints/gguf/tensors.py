"""A model's matrices as llama.cpp's converter names and shapes them, and their bytes in a mix of types.

Products that are fused here may be separate tensors there (q, k, v; gate and up), or fused in both. Norms, biases,
routers and other values outside matrices are in 32 bits (https://github.com/ggml-org/llama.cpp, convert_hf_to_gguf.py
and gguf-py/gguf/tensor_mapping.py, commit 007dbbf).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from roofline.model import modules as m
from roofline.model.checkpoints.gguf.mixes import (
    MatrixOfGguf,
    TensorPlace,
    Traits,
    TypeMix,
    Typing,
    has_values,
    mix_or_error,
    types_of,
)
from roofline.model.checkpoints.quantization.rules import blended, settled
from roofline.model.formats import FORMATS, Format, GgmlType
from roofline.model.model import Block, Model

ALIGNMENT = 32
"""Alignment of tensors in a file, bytes."""
_FUSED_QKV = frozenset(
    ("bloom", "dbrx", "falcon", "gpt2", "gpt_bigcode", "gpt_neox", "mpt", "phi", "phi3", "glm", "chatglm", "qwen")
)
"""Model types whose queries, keys and values are one tensor, `attn_qkv`."""
_FUSED_GATE_UP = frozenset(("phi3", "glm", "glm4", "chatglm"))
_FUSED_EXPERTS = frozenset(("gemma4_text",))
"""Model types whose experts' gate and up projections are one tensor."""
_KEEPS_DRAFTS = frozenset(("glm4_moe",))
"""Model types whose files include the draft layers."""
_NAMES = {
    "o_proj": "attn_output", "up_proj": "ffn_up", "down_proj": "ffn_down", "q_proj": "attn_q", "q_a_proj": "attn_q_a",
    "q_b_proj": "attn_q_b", "kv_a_proj": "attn_kv_a_mqa", "shared_up_proj": "ffn_up_shexp", "in_proj": "ssm_in",
    "shared_down_proj": "ffn_down_shexp", "shared_gate_proj": "ffn_gate_inp_shexp", "out_proj": "ssm_out",
    "x_proj": "ssm_x", "dt_proj": "ssm_dt", "index_q_proj": "indexer.attn_q_b", "index_k_proj": "indexer.attn_k",
    "index_weights_proj": "indexer.proj",
}  # fmt: skip
"""Module name → tensor name, for products that are one tensor in both."""
_SHORT_CONVOLUTIONS = {"ssm_in": "shortconv.in_proj", "ssm_out": "shortconv.out_proj"}
_SEVENTY = {"llama": True, "mistral": True, "qwen2": False}
"""Model types that llama.cpp treats as a 70B if they have 80 layers; True: only with fewer KV heads than query heads.
"""


@dataclass(frozen=True)
class GgufTensor:
    """A tensor of a GGUF file: its name, values, type and bytes."""

    name: str
    values: int
    type: GgmlType

    @property
    def bytes(self) -> int:
        """Bytes of the tensor's blocks."""
        return self.values // self.type.values * self.type.bytes


@dataclass(frozen=True)
class GgufSize:
    """Size of a model as a GGUF file in a mix.

    `tensors`: its matrices. `vectors`: number of values of norms, biases and the like, 4 bytes each.
    """

    mix: TypeMix
    tensors: tuple[GgufTensor, ...]
    vectors: int

    @property
    def bytes(self) -> int:
        """Bytes of all tensors, the file size that llama.cpp logs; tokenizer and metadata add a few MB."""
        return sum(t.bytes for t in self.tensors) + 4 * self.vectors


def gguf_size(model: Model, mix: TypeMix | str) -> GgufSize:
    """Size of a model's GGUF file in a mix (`q4_k_m`, `bf16`, …), tensor by tensor. Raises InputError for others.

    Towers are in a file of their own.
    """
    model = model.language()
    chosen = mix if isinstance(mix, TypeMix) else mix_or_error(mix)
    typed = types_of(chosen, matrices_of(model), traits_of(model))
    drafts = model.drafts if model.model_type in _KEEPS_DRAFTS else ()
    modules = [x for x, n in model.modules() for _ in range(n)] + [x for block in drafts for x in block.modules]
    vectors = sum(x.parameters - x.matrix for x in modules)
    return GgufSize(chosen, tuple(GgufTensor(t.name, t.values, kind) for t, kind in typed), vectors)


def in_mix(model: Model, mix: TypeMix | str) -> Model:
    """The model with its weights in a mix; activations and cache keep their formats. Raises InputError for others.

    Norms, biases and routers are in 32 bits. A module stored as several tensors gets a format with their combined bits.
    """
    chosen = mix if isinstance(mix, TypeMix) else mix_or_error(mix)
    kept = model.drafts if model.model_type in _KEEPS_DRAFTS else ()
    blocks = (*model.layers, *kept)
    outside = sorted(_outside(model), key=lambda t: t.name)
    distinct = {id(b): b for b in blocks}
    inside = {key: sorted(_inside(b, 0, model.model_type), key=lambda t: t.name) for key, b in distinct.items()}
    values = {key: sum(map(has_values, tensors)) for key, tensors in inside.items()}
    typing = Typing(chosen, traits_of(model), sum(map(has_values, outside)) + sum(values[id(b)] for b in blocks))
    parts = _parts(outside, [typing.type_of(t, typing.placed(t, None)) for t in outside])
    known: dict[tuple[int, tuple[TensorPlace, ...]], Block] = {}
    typed = []
    for layer, block in enumerate(blocks):
        tensors = inside[id(block)]
        places = tuple(typing.placed(t, layer) for t in tensors)
        same = known.get((id(block), places))
        if same is None:
            of = _parts(tensors, list(map(typing.type_of, tensors, places)))
            same = known[id(block), places] = replace(block, modules=_typed(block.modules, of))
        typed.append(same)
    drafts = [*typed[len(model.layers) :], *model.drafts[len(kept) :]]
    return _put_together(model, typed[: len(model.layers)], drafts, parts)


ModuleTypes: TypeAlias = Mapping[str, Sequence[tuple[int, GgmlType]]]
"""Module → the number of values of each type."""


def _parts(tensors: Sequence[MatrixOfGguf], types: Sequence[GgmlType]) -> ModuleTypes:
    parts: dict[str, list[tuple[int, GgmlType]]] = defaultdict(list)
    for tensor, kind in zip(tensors, types, strict=True):
        parts[tensor.module].append((tensor.values, kind))
    return parts


def _typed(modules: Sequence[m.Module], parts: ModuleTypes) -> m.Modules:
    """The modules in these types; one whose number of values differs from the sum keeps its format."""
    typed = []
    for x in modules:
        of = parts.get(x.name, ())
        told = x.matrix and sum(n for n, _ in of) == x.matrix
        typed.append(replace(x, format=blended([(n, kind.format) for n, kind in of])) if told else x)
    return tuple(typed)


def typed_model(
    model: Model, parts: Mapping[tuple[int | None, str], Sequence[tuple[int, GgmlType]]],
    vectors: Sequence[tuple[int, Format]] = (), warnings: tuple[str, ...] = (),
) -> Model:  # fmt: skip
    """The model with the given tensor types: (layer or None, module) → the number of values of each type.

    `vectors`: values and formats outside matrices, by default 32 bits.
    """
    by_layer: dict[int | None, dict[str, Sequence[tuple[int, GgmlType]]]] = defaultdict(dict)
    for (layer, name), of in parts.items():
        by_layer[layer][name] = of
    blocks = (*model.layers, *(model.drafts if model.model_type in _KEEPS_DRAFTS else ()))
    typed = [replace(block, modules=_typed(block.modules, by_layer[i])) for i, block in enumerate(blocks)]
    drafts = [*typed[len(model.layers) :], *model.drafts[len(blocks) - len(model.layers) :]]
    return _put_together(model, typed[: len(model.layers)], drafts, by_layer[None], vectors, warnings)


def _put_together(
    model: Model, layers: Sequence[Block], drafts: Sequence[Block], outside: ModuleTypes,
    vectors: Sequence[tuple[int, Format]] = (), warnings: tuple[str, ...] = (),
) -> Model:  # fmt: skip
    """The model of these blocks, with the types of what is outside the layers."""
    rest = blended(list(vectors)) if vectors else FORMATS["fp32"]
    wide = replace(model.precision.with_roles(other=rest), own=frozenset(m.PARTS))
    alike: dict[Block, Block] = {}
    plain = replace(model, precision=wide, warnings=(*model.warnings, *warnings))
    each = [alike.setdefault(block, block) for block in layers]
    return settled(plain, each, drafts, _typed(model.embedding, outside), _typed(model.head, outside))


# -- what the rule asks --------------------------------------------------------------------------------------------
def traits_of(model: Model) -> Traits:
    """The traits of a model that llama.cpp's rules use."""
    blocks = [*model.layers, *(model.drafts if model.model_type in _KEEPS_DRAFTS else ())]
    every = [x for block in dict.fromkeys(blocks) for x in block.modules]
    attention = next((x for x in every if isinstance(x, (m.Attention, m.LatentAttention))), None)
    heads = attention.heads if attention is not None else 0
    keys = attention.kv_heads if isinstance(attention, m.Attention) else 1
    grouped = heads != keys
    return Traits(
        layers=len(blocks),
        gqa=heads // keys,
        experts=max((x.experts for x in every if isinstance(x, m.Experts)), default=0),
        falcon=model.model_type == "falcon",
        seventy=len(blocks) == 80 and model.model_type in _SEVENTY and (grouped or not _SEVENTY[model.model_type]),
        tied=not any(isinstance(x, m.Linear) and x.part == "head" and not x.tied for x in model.head),
    )


# -- which tensors -------------------------------------------------------------------------------------------------
def matrices_of(model: Model) -> list[MatrixOfGguf]:
    """All matrices of a model's GGUF file, under llama.cpp's names."""
    drafts = model.drafts if model.model_type in _KEEPS_DRAFTS else ()
    layers = (t for i, block in enumerate((*model.layers, *drafts)) for t in _inside(block, i, model.model_type))
    return [*_outside(model), *layers]


def _outside(model: Model) -> list[MatrixOfGguf]:
    """The matrices outside the layers."""
    return [t for x in (*model.embedding, *model.head) if x.matrix for t in _of(x, (), model.model_type)]


def _inside(block: Block, layer: int, kind: str) -> list[MatrixOfGguf]:
    """The matrices of a layer."""
    tensors = (t for x in block.modules if x.matrix for t in _of(x, block.modules, kind))
    return [replace(t, name=f"blk.{layer}.{t.name}", layer=layer) for t in tensors]


def _of(x: m.Module, block: m.Modules, kind: str) -> Iterator[MatrixOfGguf]:
    """Tensors of a module, named as within a layer."""
    if isinstance(x, m.Embedding):
        table = "position_embd" if "position" in x.name else "token_embd"
        yield MatrixOfGguf(f"{table}.weight", x.width, x.rows, module=x.name)
    elif isinstance(x, m.Router):
        yield MatrixOfGguf("ffn_gate_inp.weight", x.inputs, x.experts, module=x.name)
    elif isinstance(x, m.Experts):
        if kind in _FUSED_EXPERTS:
            yield MatrixOfGguf("ffn_gate_up_exps.weight", x.hidden, 2 * x.inner * x.held, experts=True, module=x.name)
        for name in () if kind in _FUSED_EXPERTS else ("gate", "up") if x.gated else ("up",):
            yield MatrixOfGguf(f"ffn_{name}_exps.weight", x.hidden, x.inner * x.held, experts=True, module=x.name)
        yield MatrixOfGguf("ffn_down_exps.weight", x.inner, x.hidden * x.held, experts=True, module=x.name)
    elif isinstance(x, m.LatentAttention):
        yield MatrixOfGguf("attn_k_b.weight", x.nope, x.rank * x.heads, module=x.name)
        yield MatrixOfGguf("attn_v_b.weight", x.rank, x.v * x.heads, module=x.name)
    elif isinstance(x, m.Linear):
        row = x.inputs // x.groups
        for name, rows in _products(x, block, kind):
            yield MatrixOfGguf(f"{name}.weight", row, rows, module=x.name)
    else:
        yield MatrixOfGguf(f"{x.name}.weight", x.matrix, 1, module=x.name)


def _products(x: m.Linear, block: m.Modules, kind: str) -> Iterator[tuple[str, int]]:
    """Names and rows of the tensors that a product is stored as."""
    shared = "_shexp" if x.name.startswith("shared_") else ""
    if x.part == "head":
        yield "output", x.outputs
    elif x.name == "qkv_proj" and kind not in _FUSED_QKV:
        keys = _keys(x, block)
        sizes = (("attn_q", x.outputs - x.kv), ("attn_k", keys), ("attn_v", x.kv - keys))
        yield from ((name, rows) for name, rows in sizes if rows)
    elif x.name == "qkv_proj":
        yield "attn_qkv", x.outputs
    elif x.name.removeprefix("shared_") == "gate_up_proj" and kind not in _FUSED_GATE_UP:
        yield f"ffn_gate{shared}", x.outputs // 2
        yield f"ffn_up{shared}", x.outputs - x.outputs // 2
    elif x.name.removeprefix("shared_") == "gate_up_proj":
        yield f"ffn_up{shared}", x.outputs
    else:
        yield from _recurrent(x, block)


def _keys(x: m.Linear, block: m.Modules) -> int:
    """Rows of the key projection: half of the key and value rows, or all where keys also serve as values."""
    attention = next((a for a in block if isinstance(a, m.Attention)), None)
    alone = attention is not None and x.kv == attention.kv_heads * attention.head_dim
    return x.kv if alone else x.kv // 2


def _recurrent(x: m.Linear, block: m.Modules) -> Iterator[tuple[str, int]]:
    """Tensors of any other product; the input projection of a delta rule is stored as separate tensors."""
    rule = next((s for s in block if isinstance(s, m.DeltaRule) and not s.channelwise), None)
    if rule is not None and x.name == "in_proj":
        values, rates = rule.value_heads * rule.value_dim, rule.value_heads
        yield "attn_qkv", x.outputs - values - 2 * rates
        yield "attn_gate", values
        yield "ssm_beta", rates
        yield "ssm_alpha", rates
        return
    name = _NAMES.get(x.name, x.name)
    short = any(isinstance(s, m.Conv) for s in block) and not any(
        isinstance(s, (m.SelectiveScan, m.StateSpace, m.DeltaRule)) for s in block
    )
    yield _SHORT_CONVOLUTIONS.get(name, name) if short else name, x.outputs
