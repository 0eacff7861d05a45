"""Mixes of types in which llama.cpp quantises a model (`q4_k_m` and the like), tensor by tensor.

A mix is a rule that gives the type of a tensor from its name, its layer's number and a few traits of the model. The
rules are those of `src/llama-quant.cpp` (ggml-org/llama.cpp, commit 007dbbf: `llama_tensor_get_type_impl`,
`tensor_allows_quantization`, `tensor_type_fallback`). Files from older releases differ only in tensors fused as
`attn_qkv`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from roofline.declared.errors import InputError, nearest
from roofline.model.formats import GGML_TYPES, GgmlType

MIXES: Mapping[str, str] = {
    "f32": "fp32", "f16": "fp16", "q8_0": "q8_0", "q6_k": "q6_k", "q5_k_m": "q5_k", "q5_k_s": "q5_k", "q5_0": "q5_0",
    "q5_1": "q5_1", "q4_k_m": "q4_k", "q4_k_s": "q4_k", "q4_0": "q4_0", "q4_1": "q4_1", "q3_k_l": "q3_k",
    "q3_k_m": "q3_k", "q3_k_s": "q3_k", "q2_k": "q2_k", "q2_k_s": "q2_k", "iq4_nl": "iq4_nl", "iq4_xs": "iq4_xs",
    "iq3_m": "iq3_s", "iq3_s": "iq3_s", "iq3_xs": "iq3_s", "iq3_xxs": "iq3_xxs", "iq2_m": "iq2_s", "iq2_s": "iq2_xs",
    "iq2_xs": "iq2_xs", "iq2_xxs": "iq2_xxs", "iq1_m": "iq1_m", "iq1_s": "iq1_s", "tq1_0": "tq1_0", "tq2_0": "tq2_0",
    "mxfp4_moe": "mxfp4",
}  # fmt: skip
"""Mix → its base type, for tensors without a special rule."""
_ALIASES = {"q3_k": "q3_k_m", "q4_k": "q4_k_m", "q5_k": "q5_k_m", "bf16-gguf": "bf16"}
"""Other names of mixes that llama-quantize accepts."""
_WIDE_TABLES = {"q2_k_l": "q2_k", "q3_k_xl": "q3_k_l", "q4_k_l": "q4_k_m", "q5_k_l": "q5_k_m", "q6_k_l": "q6_k"}
"""Publishers' names of mixes with q8_0 embedding table and head (--token-embedding-type, --output-tensor-type)."""
IMATRIX = "-imatrix"
"""Suffix of a mix made with an importance matrix; without one, some tensors get wider types."""
_ALWAYS_IMATRIX = frozenset(("iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq2_m", "iq3_xxs", "iq3_xs", "q2_k_s"))
"""Mixes that llama-quantize makes only with an importance matrix."""
_NARROWER = {"iq3_xs": "iq3_xxs", "iq3_xxs": "iq2_s"}
"""Mix → the one type narrower than its base that its rule gives; no rule of another mix has one."""
_TINY = frozenset(("iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq2_m"))
_FALLBACK = {
    **dict.fromkeys(("iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s", "iq4_xs"), "iq4_nl"),
    **dict.fromkeys(("q2_k", "q3_k", "tq1_0", "tq2_0"), "q4_0"),
    "q4_k": "q5_0", "q5_k": "q5_1", "q6_k": "q8_0",
}  # fmt: skip
"""Type → the type with blocks of 32 used instead where rows do not divide into its blocks."""
_NEVER = (
    r"_norm\.weight|ffn_gate_inp\.weight|ffn_gate_tid2eid|altup|laurel|per_layer_model_proj|^position_embd|"
    r"^token_types|ssm_conv1d|shortconv\.conv|indexer\.[kq]_proj|attn_rel_b|"
    r"time_mix_(first|w[012]|v[012]|a[012]|g[12]|decay_w[12]|lerp_fused)\.weight"
)
"""Matrices that are not quantised and stay in 32 bits."""


@dataclass(frozen=True)
class TypeMix:
    """A mix by its llama.cpp name.

    `imatrix`: whether it is made with an importance matrix. `tables`: type of embedding table and head, where it is not
    the rule's.
    """

    name: str
    imatrix: bool = False
    tables: GgmlType | None = None

    @property
    def base(self) -> GgmlType:
        """Base type of the mix, for tensors without a special rule."""
        return GGML_TYPES["bf16" if self.name == "bf16" else MIXES[self.name]]

    @property
    def least_bits(self) -> float:
        """Bits of a value in the narrowest type that the rule gives a matrix."""
        narrowest = GGML_TYPES[_NARROWER[self.name]] if self.name in _NARROWER else self.base
        return 8 * narrowest.bytes / narrowest.values


@dataclass(frozen=True)
class MatrixOfGguf:
    """A matrix under its llama.cpp name: `rows` rows of `row` values, and its layer (None outside the layers).

    `experts`: whether it holds the matrices of several experts. `module`: the model's module whose weights these are.
    """

    name: str
    row: int
    rows: int
    layer: int | None = None
    experts: bool = False
    module: str = ""

    @property
    def values(self) -> int:
        """Number of values: row · rows."""
        return self.row * self.rows


@dataclass(frozen=True)
class Traits:
    """Traits of a model that the rules of mixes use.

    `layers`: layers in the file, including its draft layers. `gqa`: query heads per KV head of the first attention.
    `experts`: routed experts, or 0. `seventy`: whether llama.cpp treats it as a 70B model. `tied`: whether the
    embedding table is also the head.
    """

    layers: int
    gqa: int
    experts: int = 0
    falcon: bool = False
    seventy: bool = False
    tied: bool = False


def mix_named(name: object) -> TypeMix | None:
    """The mix of a name such as `q4_k_m`, `Q4_K_L` or `iq4_xs-imatrix`; None for any other name."""
    text = name.strip().lower() if isinstance(name, str) else ""
    plain = text.removesuffix(IMATRIX)
    tables = GGML_TYPES["q8_0"] if plain in _WIDE_TABLES else None
    plain = _WIDE_TABLES.get(plain, _ALIASES.get(plain, plain))
    if (plain not in MIXES and plain != "bf16") or text == "bf16":
        return None
    return TypeMix(plain, text.endswith(IMATRIX) or plain in _ALWAYS_IMATRIX, tables)


def mix_or_error(name: object, field: str = "mix") -> TypeMix:
    """The mix of a name. Raises InputError if the name is not a mix."""
    mix = TypeMix("bf16") if name == "bf16" else mix_named(name)
    if mix is None:
        raise InputError(field, name, "a mix of GGUF types", nearest(str(name), MIXES) or ["q4_k_m", "q8_0"])
    return mix


def types_of(mix: TypeMix, tensors: Iterable[MatrixOfGguf], traits: Traits) -> list[tuple[MatrixOfGguf, GgmlType]]:
    """Type of each matrix, in llama.cpp's order: by layer, then by name.

    All matrices are needed together, since some types depend on the number of earlier tensors of the same kind. A row
    that divides into no block stays in fp16.
    """
    ordered = sorted(tensors, key=lambda t: (t.layer is not None, t.layer or 0, t.name))
    typing = Typing(mix, traits, sum(_kind(t.name) == "v" for t in ordered))
    return [(tensor, typing.type_of(tensor, typing.placed(tensor, tensor.layer))) for tensor in ordered]


def has_values(tensor: MatrixOfGguf) -> bool:
    """Whether a matrix is, or contains, the projection of values."""
    return _kind(tensor.name) == "v"


class Typing:
    """Types of the matrices of one model in a mix, which are placed one after another in llama.cpp's order.

    `values`: the number of matrices with `has_values`.
    """

    def __init__(self, mix: TypeMix, traits: Traits, values: int) -> None:
        self._mix, self._traits, self._values = mix, traits, values
        self._before: Counter[str] = Counter()

    def placed(self, tensor: MatrixOfGguf, layer: int | None) -> TensorPlace:
        """All that its type depends on besides the tensor itself; counts it as one that came before the next."""
        kind = _kind(tensor.name)
        before = self._before[kind]
        self._before[kind] += 1
        place = layer if self._traits.experts > 1 and layer is not None else before
        return _place(place, before, self._traits.layers, self._values)

    def type_of(self, tensor: MatrixOfGguf, place: TensorPlace) -> GgmlType:
        """The type of a matrix at a place; equal for equal matrices at equal places."""
        at = _At(self._mix.name, self._mix.base.name, self._mix.imatrix, self._traits, _kind(tensor.name), place)
        return _type_of(self._mix, tensor, at)


@dataclass(frozen=True)
class TensorPlace:
    """Where a tensor stands, as far as a rule may ask; layers by the number of the layer in models with experts.

    Elsewhere the number of earlier tensors of the kind stands for the layer. `sixteenth`, `eighth`: whether it is in
    that first part of the layers; `inner`: in neither the first nor the last eighth; `more`: as in `more_bits`.
    `of_values`: the same among the tensors with values. `two`, `four`, `first`: fewer than two, four or an eighth of
    the layers are before it.
    """

    sixteenth: bool
    eighth: bool
    inner: bool
    more: bool
    of_values: bool
    two: bool
    four: bool
    first: bool


@lru_cache(maxsize=4096)
def _place(layer: int, before: int, layers: int, values: int) -> TensorPlace:
    return TensorPlace(
        sixteenth=layer < layers // 16, eighth=layer < layers // 8, inner=layers // 8 <= layer < 7 * layers // 8,
        more=more_bits(layer, layers), of_values=more_bits(before, values), two=before < 2, four=before < 4,
        first=before < layers // 8,
    )  # fmt: skip


@dataclass(frozen=True)
class _At:
    """Position of a tensor: the mix, the model, the tensor's kind, and its place."""

    mix: str
    base: str
    imatrix: bool
    model: Traits
    kind: str
    place: TensorPlace


def more_bits(layer: int, layers: int) -> bool:
    """Whether the M mixes give a layer a wider type: both outer eighths, and every third layer between them.

    >>> [i for i in range(32) if more_bits(i, 32)]
    [0, 1, 2, 3, 6, 9, 12, 15, 18, 21, 24, 27, 28, 29, 30, 31]
    """
    return layer < layers // 8 or layer >= 7 * layers // 8 or (layer - layers // 8) % 3 == 2


_KINDS = (
    (r"^output\.weight$", "head"), (r"^(per_layer_)?token_embd\.weight$", "table"),
    (r"attn_(v|qkv|kv_b)\.weight", "v"), (r"attn_k\.weight", "k"), (r"attn_q\.weight", "q"),
    (r"attn_output\.weight", "o"), (r"ffn_up", "up"), (r"ffn_gate", "gate"), (r"ffn_down", "down"),
)  # fmt: skip


@lru_cache(maxsize=4096)
def _kind(name: str) -> str:
    return next((kind for pattern, kind in _KINDS if re.search(pattern, name)), "")


def _type_of(mix: TypeMix, tensor: MatrixOfGguf, at: _At) -> GgmlType:
    if re.search(_NEVER, tensor.name):
        return GGML_TYPES["fp32"]
    if mix.base.values == 1:
        return mix.base
    if mix.tables is not None and at.kind in ("head", "table"):
        return mix.tables
    chosen = GGML_TYPES[_chosen(tensor, at)]
    if tensor.row % chosen.values == 0:
        return chosen
    other = GGML_TYPES[_FALLBACK.get(chosen.name, "fp16")]
    return other if tensor.row % other.values == 0 else GGML_TYPES["fp16"]


def _chosen(tensor: MatrixOfGguf, at: _At) -> str:
    """The rule's type for a tensor, before checking that its rows divide into blocks."""
    if at.kind == "head" or (at.kind == "table" and at.model.tied):
        return _head(tensor, at)
    if at.mix == "mxfp4_moe":
        return "mxfp4" if tensor.experts else "q8_0"
    if at.kind == "table":
        return _table(at)
    if at.mix in _TINY:
        return _tiny(at)
    by_kind = {"v": _v, "k": _kq, "q": _kq, "down": _down, "o": _o, "gate": _gate_up, "up": _gate_up}
    return by_kind[at.kind](at) if at.kind in by_kind else at.base


def _head(tensor: MatrixOfGguf, at: _At) -> str:
    if at.mix == "mxfp4_moe" or at.model.falcon or tensor.row % GGML_TYPES[at.base].values:
        return "q8_0"
    if at.mix in _TINY or at.mix == "iq3_xxs":
        return "q5_k"
    return "q8_0" if at.base == "q8_0" else "q6_k"


def _table(at: _At) -> str:
    if at.mix in ("iq2_xxs", "iq2_xs", "iq1_s", "iq1_m"):
        return "q2_k"
    if at.mix in ("iq2_s", "iq2_m", "iq3_xxs"):
        return "iq3_s"
    return "q4_k" if at.mix in ("tq1_0", "tq2_0") else at.base


def _tiny(at: _At) -> str:
    """Types in mixes of less than three bits."""
    wider = at.mix in ("iq2_s", "iq2_m")
    if at.kind == "v":
        many = at.model.gqa >= 4 or at.model.experts >= 4
        return "q4_k" if many else "iq3_s" if wider else "q2_k"
    if at.kind == "k" and at.model.experts == 8:
        return "q4_k"
    if at.kind == "down" and at.place.first:
        return "iq3_s" if wider else "q2_k"
    if at.kind == "o":
        if at.model.experts == 8:
            return "q5_k"
        return "iq3_s" if wider else "iq2_xxs" if at.mix in ("iq1_s", "iq1_m") else at.base
    return at.base


def _v(at: _At) -> str:
    """Type of a value projection, or of a fused tensor that contains one."""
    if at.model.experts == 8:
        return "q8_0"
    many = at.model.gqa >= 4
    choices = {
        "q2_k": "q4_k" if many else "q3_k",
        "q2_k_s": "q4_k" if many else at.base,
        "iq3_xxs": "q4_k" if many else "iq3_xxs" if at.imatrix else "iq3_s",
        "iq3_xs": "q4_k" if many else at.base,
        "iq3_s": "q4_k" if many else at.base,
        "iq3_m": "q4_k",
        "q3_k_m": "q5_k" if at.place.two else "q4_k",
        "q3_k_l": "q5_k",
        "iq4_nl": "q5_k" if many else at.base,
        "iq4_xs": "q5_k" if many else at.base,
        "q4_k_m": "q6_k" if at.place.of_values else at.base,
        "q5_k_m": "q6_k" if at.place.of_values else at.base,
        "q4_k_s": "q5_k" if at.place.four else at.base,
    }
    chosen = choices.get(at.mix, at.base)
    return "q5_k" if at.model.seventy and chosen in ("q3_k", "q4_k") else chosen


def _kq(at: _At) -> str:
    if at.kind == "k" and at.model.experts == 8:
        return "q8_0"
    return {"iq3_xs": "iq3_xxs", "iq3_xxs": "iq2_s"}.get(at.mix, at.base)


def _down(at: _At) -> str:
    falcon, place = at.model.falcon, at.place
    first = {
        "q2_k_s": "q4_k", "iq3_m": "q4_k",
        **({} if falcon else {"q4_k_s": "q5_k"}),
        **({"q4_0": "q4_1", "q5_0": "q5_1"} if at.imatrix else {"iq4_nl": "q5_k", "iq4_xs": "q5_k"}),
    }  # fmt: skip
    if place.eighth and at.mix in first:
        return first[at.mix]
    if at.mix == "iq3_xxs" and not at.imatrix:
        return "q4_k" if place.eighth else "q3_k"
    if at.mix == "iq3_m" and at.model.experts == 8 and place.more:
        return "q4_k"
    choices = {
        "q2_k": "q3_k",
        "q3_k_m": "q5_k" if place.sixteenth else "q4_k" if not falcon or place.more else "q3_k",
        "q3_k_l": "q4_k" if falcon else "q5_k",
        "q4_k_m": ("q6_k" if place.sixteenth else "q5_k" if place.more else "q4_k")
        if falcon
        else "q6_k"
        if place.more
        else "q4_k",
        "q5_k_m": "q6_k" if place.more else "q5_k",
    }
    return choices.get(at.mix, at.base)


_WIDER_WITH_EIGHT = frozenset(
    ("q2_k", "iq3_xs", "iq3_xxs", "q3_k_s", "q3_k_m", "iq4_nl", "q4_k_s", "q4_k_m", "iq3_s", "iq3_m", "iq4_xs")
)


def _o(at: _At) -> str:
    if at.model.falcon:
        return "q4_k" if at.mix == "q3_k_l" else at.base
    if at.model.experts == 8:
        return "q5_k" if at.mix in _WIDER_WITH_EIGHT else at.base
    choices = {"q2_k": "q3_k", "iq3_xxs": "iq3_s", "q3_k_m": "q4_k", "q3_k_l": "q5_k", "iq3_m": "q4_k"}
    return choices.get(at.mix, at.base)


def _gate_up(at: _At) -> str:
    return "iq3_xxs" if at.mix == "iq3_xs" and at.place.inner else at.base
