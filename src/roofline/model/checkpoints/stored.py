"""Assign a checkpoint's tensors to modules, and derive the actual formats and bytes of the modules.

Tensors are matched by the names in `tensor_names.py`; a matrix with another name is matched by its size, if only one
module of its layer has that size. Packed weights count by their bytes: their bits are those per value of the module.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Literal, TypeAlias

from roofline.model.checkpoints.headers import Tensor, pattern_of
from roofline.model.checkpoints.quantization.rules import blended, settled
from roofline.model.checkpoints.tensor_names import HEAD, pieces
from roofline.model.formats import FORMATS, Format, integers
from roofline.model.model import Block, Model, Tower
from roofline.model.modules import Experts, Linear, Module, Modules

Use: TypeAlias = Literal["matrix", "scales", "vector", "buffer", "copy", "beside"]
"""Use of a tensor in a checkpoint.

`matrix`, `scales`: a module's matrix, or scales of one; `vector`: norms, biases and the like; `buffer`: not a
parameter; `copy`: a tied head stored a second time; `beside`: part of a tower, or of what is not counted.
"""
COUNTED: tuple[Use, ...] = ("matrix", "scales", "vector")
"""Uses of tensors that belong to the language model."""

_LAYER = re.compile(r"(.*?\b(?:layers|layer|h|blocks|block))\.(\d{1,6})\.(.+)", re.DOTALL)
_BESIDE = re.compile(
    r"vision|visual|image|audio|speech|tower|projector|mm_|multi_modal|patch|talker|code2wav|encoder|resampler|mtp|"
    r"nextn|eagle|codec|vqmodel|merger|connector|aligner|qformer|query_tokens|mlp1|language_projection"
)
_ELSEWHERE = re.compile(r"\b(talker|code2wav|token2wav|mtp|nextn|eagle|vqmodel)")
"""Names of parts that no tower counts: drafts, and what makes sound or images."""
_BUFFERS = re.compile(
    r"(.*\.)?(inv_freq|masked_bias|position_ids|rotary_emb\..*|attn\.bias|layer_scalar|running_mean|running_var|num_batches_tracked|act_fn\.(beta|eps))"
)
"""Names of buffers that code recomputes or never changes; not parameters."""
_CORRECTION = re.compile(r"(correction|expert|router)_bias$")
"""A router's bias that is adjusted by its load: a parameter in some implementations, not in others."""
_OTHER_INPUTS = re.compile(r"\b(vision|visual|image|audio)")
_CACHE_SCALE = re.compile(r"\b[kqv]_scale$|_zero_point$|\b(in|out)put_scale$")
_EXPERT = re.compile(r"\bexperts\.\d+\.")
_PAYLOADS = frozenset(
    ("", "weight", "qweight", "weight_packed", "blocks", "W_q", "q_weight", "codes", "weight._data", "weight.qdata")
)
"""Suffixes of tensors that hold a matrix's values: plain, GPTQ and AWQ, compressed-tensors, MXFP4, HQQ, others."""
_PLAIN = {
    "F64": "fp64", "F32": "fp32", "F16": "fp16", "BF16": "bf16", "F8_E4M3": "fp8", "F8_E5M2": "fp8",
    "F8_E4M3FNUZ": "fp8", "F8_E5M2FNUZ": "fp8", "I8": "int8",
}  # fmt: skip
"""Dtypes whose elements are single values; elements of other dtypes may hold several."""
_WIDTHS = frozenset((1, 2, 3, 4, 5, 6, 8))
"""Possible bits of packed values."""


@dataclass(frozen=True)
class Place:
    """A tensor, its use, and the layer (None outside the layers) and module that it belongs to."""

    tensor: Tensor
    use: Use
    layer: int | None = None
    module: str = ""

    @cached_property
    def pattern(self) -> str:
        """The tensor's name with `*` in place of numbers."""
        return pattern_of(self.tensor.name)


@dataclass(frozen=True)
class StoredWeights:
    """The tensors of a model's checkpoint with their places.

    `model`: the model with the formats of its config.
    """

    model: Model
    places: tuple[Place, ...]

    @cached_property
    def own(self) -> tuple[Place, ...]:
        """Places of the language model's tensors, without draft layers."""
        last = len(self.model.layers)
        return tuple(p for p in self.places if p.use in COUNTED and (p.layer is None or p.layer < last))

    @property
    def total(self) -> int:
        """Bytes of all tensors."""
        return sum(p.tensor.bytes for p in self.places)

    @cached_property
    def bytes(self) -> int:
        """Bytes of the language model."""
        return sum(p.tensor.bytes for p in self.own)

    @cached_property
    def of_towers(self) -> tuple[Place, ...]:
        """Places of the towers' tensors."""
        return tuple(p for p in self.places if p.use == "beside" and not _ELSEWHERE.search(p.tensor.name))

    def groups(self) -> tuple[TensorGroup, ...]:
        """Tensors grouped where they differ only in the numbers in their names, sorted by name."""
        groups: dict[tuple[str, Use, str, str, tuple[int, ...]], list[int]] = {}
        for place in self.places:
            key = place.pattern, place.use, place.module, place.tensor.dtype, place.tensor.shape
            groups.setdefault(key, []).append(place.tensor.bytes)
        return tuple(
            TensorGroup(name, use, module, dtype, shape, len(sizes), sum(sizes))
            for (name, use, module, dtype, shape), sizes in sorted(groups.items())
        )

    def modules(self) -> tuple[ModuleBytes, ...]:
        """Bytes and formats of each module, in the files and by the config, summed over layers."""
        files: Counter[str] = Counter()
        dtypes: dict[str, dict[str, None]] = defaultdict(dict)
        for place in self.own:
            files[place.module] += place.tensor.bytes
            dtypes[place.module][place.tensor.dtype] = None
        promised: Counter[str] = Counter()
        formats: dict[str, dict[str, None]] = defaultdict(dict)
        for x, n in _text_of(self.model).modules():
            name, matrix = x.name if x.name in files else "", self.model.precision.of(x)
            promised[name] += n * int(self.model.precision.weight_bytes(x))
            formats[name].update({matrix.name: None} if x.matrix else {})
        names = sorted({*files, *promised}, key=lambda name: -files[name])
        return tuple(
            ModuleBytes(name, tuple(dtypes[name]), tuple(formats[name]), files[name], promised[name]) for name in names
        )


@dataclass(frozen=True)
class TensorGroup:
    """Tensors that differ only in the numbers in their names."""

    name: str
    "With `*` for the numbers of layers and experts."
    use: Use
    "What they are for."
    module: str
    "The module that they belong to; empty where it is none, or several."
    dtype: str
    "As the file calls it."
    shape: tuple[int, ...]
    "Of each."
    tensors: int
    "How many they are."
    bytes: int
    "Of all of them."


@dataclass(frozen=True)
class ModuleBytes:
    """A module's weights in the files and by the config, summed over layers."""

    module: str
    "Its name; empty for norms and all else that no tensor's name gives to one module."
    dtypes: tuple[str, ...]
    "Of its tensors, scales included."
    formats: tuple[str, ...]
    "Of its matrices, by the config."
    stored_bytes: int
    "In the files."
    promised_bytes: int
    "By the config's formats."


# -- which module --------------------------------------------------------------------------------------------------
class _Names:
    """Checkpoint names of the matrices of some modules, and the numbers of values that each may hold."""

    def __init__(self, modules: Modules) -> None:
        self.by_name: dict[str, list[tuple[int, Module, frozenset[int]]]] = defaultdict(list)
        self.by_leaf: dict[str, list[tuple[int, Module, frozenset[int]]]] = defaultdict(list)
        self.matrices: dict[str, int] = {}
        self.tied = any(isinstance(x, Linear) and x.tied for x in modules)
        for x in modules:
            if x.matrix:
                self.matrices[x.name] = x.matrix
            for piece in pieces(x, modules):
                each = piece.values // x.experts if isinstance(x, Experts) else piece.values
                for rank, name in enumerate(piece.names):
                    entry = rank, x, frozenset((piece.values, each, x.matrix))
                    self.by_name[name].append(entry)
                    self.by_leaf[name.rpartition(".")[2]].append(entry)

    def module_of(self, name: str, tensor: Tensor) -> tuple[str, str] | None:
        """The module whose matrix's name is a prefix of `name`, and the rest of the name; None if there is none."""
        for base, rest in _split(_EXPERT.sub("experts.{e}.", name)):
            if base in self.by_name:
                known = self.by_name[base]
                fitting = [entry for entry in known if tensor.elements in entry[2]]
                return min(fitting or known, key=lambda entry: entry[0])[1].name, rest
        for base, rest in _split(name):
            same = [entry for entry in self.by_leaf.get(base.rpartition(".")[2], ()) if tensor.elements in entry[2]]
            if same and len({entry[1].name for entry in same}) == 1:
                return same[0][1].name, rest
        return None


def _split(name: str) -> Iterator[tuple[str, str]]:
    """Split a name in two, at each dot from the last; also at `_blocks`, `_scales` and `_bias` (MXFP4)."""
    yield name, ""
    at = len(name)
    while (at := name.rfind(".", 0, at)) > 0:
        yield name[:at], name[at + 1 :]
    base, _, end = name.rpartition("_")
    if end in ("blocks", "scales", "bias"):
        yield base, end


def _use(rest: str) -> Use:
    if rest in _PAYLOADS:
        return "matrix"
    return "vector" if "bias" in rest and not rest.endswith("biases") else "scales"


def placed_tensors(model: Model, tensors: Iterable[Tensor]) -> StoredWeights:
    """Assign every tensor of a checkpoint to its place in the model."""
    tensors = tuple(tensors)
    stem = _stem(tensors, len(model.layers), len(model.drafts))
    blocks = (*model.layers, *model.drafts)
    names: dict[Block | None, _Names] = {None: _Names((*model.embedding, *model.head))}
    names.update({block: _Names(block.modules) for block in dict.fromkeys(blocks)})
    places: list[Place] = []
    for tensor in tensors:
        inside = _LAYER.fullmatch(tensor.name)
        if _BUFFERS.fullmatch(tensor.name):
            places.append(Place(tensor, "buffer"))
        elif inside is not None and _OTHER_INPUTS.search(inside[3]):
            places.append(Place(tensor, "beside"))
        elif inside is not None and inside[1] == stem and int(inside[2]) < len(blocks):
            layer = int(inside[2])
            places.append(_in_layer(tensor, layer, inside[3], names[blocks[layer]]))
        elif inside is not None or _BESIDE.search(tensor.name):
            places.append(Place(tensor, "beside"))
        else:
            places.append(_outside(tensor, names[None]))
    stored = StoredWeights(model, tuple(_by_size(places, names, blocks)))
    if vector_values(stored).total() == vectors_expected(model):
        return stored
    without = (replace(p, use="buffer") if _CORRECTION.search(p.tensor.name) else p for p in stored.places)
    return StoredWeights(model, tuple(without))


def _in_layer(tensor: Tensor, layer: int, name: str, names: _Names) -> Place:
    known = names.module_of(name, tensor)
    if known is None:
        return Place(tensor, "scales" if _CACHE_SCALE.search(name) else "vector", layer)
    return Place(tensor, _use(known[1]), layer, known[0])


def _outside(tensor: Tensor, names: _Names) -> Place:
    """Place of a tensor outside the layers: table, head or last norm, under any name of the model itself."""
    words = tensor.name.split(".")
    for first in range(len(words)):
        known = names.module_of(".".join(words[first:]), tensor)
        if known is not None:
            return Place(tensor, _use(known[1]), None, known[0])
    return Place(tensor, "copy" if names.tied and not set(HEAD).isdisjoint(words) else "vector")


def _by_size(places: Sequence[Place], names: Mapping[Block | None, _Names], blocks: Sequence[Block]) -> Iterator[Place]:
    """The places, with matrices of unknown names identified by their number of values.

    A tensor as large as exactly one module without matrices belongs to that module. If several tensors remain that
    together hold as many values as the modules without matrices, they are matrices of no particular one of these.
    """
    of_layer: dict[int | None, list[Place]] = defaultdict(list)
    for place in places:
        of_layer[place.layer].append(place)
    for layer, inside in of_layer.items():
        known = {place.module for place in inside if place.use == "matrix"}
        sizes = names[None if layer is None else blocks[layer]].matrices
        missing = {name: size for name, size in sizes.items() if name not in known}
        nameless = [p for p in inside if p.use == "vector" and not p.module and p.tensor.dtype in _PLAIN]
        told = _told(missing, [p for p in nameless if sum(n > 1 for n in p.tensor.shape) >= 2])
        yield from (
            replace(p, use="matrix", module=told[p.tensor.name]) if p.tensor.name in told else p for p in inside
        )


def _told(missing: Mapping[str, int], nameless: Sequence[Place]) -> dict[str, str]:
    """Name of each tensor that is a matrix → the module that it belongs to, "" if unknown."""
    sizes = Counter(missing.values())
    counts = Counter(place.tensor.elements for place in nameless)
    by_size = {size: name for name, size in missing.items() if sizes[size] == counts[size] == 1}
    told = {p.tensor.name: by_size[p.tensor.elements] for p in nameless if p.tensor.elements in by_size}
    left = [place for place in nameless if place.tensor.name not in told]
    wanted = sum(size for name, size in missing.items() if name not in told.values())
    for most in (16, 2):  # a convolution has three sides
        flat = [place for place in left if len(place.tensor.shape) <= most]
        if wanted and sum(place.tensor.elements for place in flat) == wanted:
            return told | dict.fromkeys((place.tensor.name for place in flat), "")
    return told


def _stem(tensors: Iterable[Tensor], layers: int, drafts: int) -> str:
    """Name of the language model's layers in the checkpoint: the one with as many layers, else with most bytes."""
    numbers: dict[str, set[int]] = defaultdict(set)
    sizes: Counter[str] = Counter()
    for tensor in tensors:
        inside = _LAYER.fullmatch(tensor.name)
        if inside is not None:
            numbers[inside[1]].add(int(inside[2]))
            sizes[inside[1]] += tensor.bytes
    own = [stem for stem in sizes if not _BESIDE.search(stem)] or [s for s in sizes if not _OTHER_INPUTS.search(s)]
    counts = (layers, layers + drafts)
    return max(own, key=lambda stem: (len(numbers[stem]) in counts, sizes[stem]), default="")


# -- which format --------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Matrix:
    """A module's values of one dtype: number of elements, their bytes, and the bytes of their scales."""

    dtype: str
    elements: int
    bytes: int
    scales: int


def _matrices(places: Iterable[Place]) -> tuple[_Matrix, ...]:
    """A module's matrices by dtype. Scales belong to the matrix whose name is a prefix of theirs."""
    dtypes: dict[str, str] = {}
    sums: dict[str, list[int]] = {}
    loose: list[tuple[str, int]] = []
    for place in places:
        base, tensor = place.tensor.name, place.tensor
        if place.use == "matrix":
            base = next((base.removesuffix(f".{end}") for end in _PAYLOADS if end and base.endswith(f".{end}")), base)
            dtypes[base.removesuffix("_blocks")] = tensor.dtype
            of = sums.setdefault(tensor.dtype, [0, 0, 0])
            of[0], of[1] = of[0] + tensor.elements, of[1] + tensor.bytes
        elif place.use == "scales":
            loose.append((base, tensor.bytes))
    for name, size in loose:
        owner = next((base for base, _ in _split(name) if base in dtypes), next(iter(dtypes), None))
        if owner is not None:
            sums[dtypes[owner]][2] += size
    return tuple(_Matrix(dtype, *counts) for dtype, counts in sums.items())


def stored_format(x: Module, places: Iterable[Place], promised: Format) -> Format | None:
    """Format of a module's matrices in the tensors; None if the tensors' number of values differs from the module's.

    Bits and scales are those of the files. The format of multiplication is that of `promised` if it has as many bits.
    """
    matrices = _matrices(places)
    if not matrices:
        return None
    plain = sum(matrix.elements for matrix in matrices if matrix.dtype in _PLAIN)
    packed = [matrix for matrix in matrices if matrix.dtype not in _PLAIN]
    left = x.matrix - plain
    if left < 0 or bool(left) != bool(packed):
        return None
    parts = [(m.elements, _with_scales(_known(_PLAIN[m.dtype], promised), m.scales, m.elements)) for m in matrices
             if m.dtype in _PLAIN]  # fmt: skip
    if packed:
        bits = Fraction(8 * sum(m.bytes for m in packed), left)
        if bits not in _WIDTHS:
            return None
        chosen = promised if promised.bits == bits else replace(integers(int(bits), 128), name=f"int{bits}")
        parts.append((left, _with_scales(chosen, sum(m.scales for m in packed), left)))
    return blended(parts)


def _known(name: str, promised: Format) -> Format:
    fmt = FORMATS[name]
    return promised if (promised.bits, promised.compute) == (fmt.bits, fmt.compute) else fmt


def _with_scales(fmt: Format, scales: int, values: int) -> Format:
    overhead = Fraction(8 * scales, values)
    return fmt if overhead == fmt.overhead else replace(fmt, overhead=overhead)


def as_stored(stored: StoredWeights) -> Model:
    """The model with the formats of its checkpoint's tensors instead of those of its config.

    Formats that the tensors do not determine stay as in the config, with a warning. Vectors get one format: their
    common one, else one with their combined bits.
    """
    model, notes = stored.model, _Notes()
    of: dict[tuple[int | None, str], list[Place]] = defaultdict(list)
    for place in stored.places:
        of[place.layer, place.module].append(place)

    def formatted(modules: Modules, layer: int | None) -> Modules:
        nameless = [place for place in of.get((layer, ""), ()) if place.use == "matrix"]
        return tuple(
            _formatted(x, of.get((layer, x.name), ()), nameless, model.precision.of(x), notes) if x.matrix else x
            for x in modules
        )

    layers = [replace(block, modules=formatted(block.modules, i)) for i, block in enumerate(model.layers)]
    drafts = tuple(
        replace(b, modules=formatted(b.modules, len(layers) + i)) if any((len(layers) + i, x.name) in of for x in
        b.modules) else b for i, b in enumerate(model.drafts)
    )  # fmt: skip
    changed = settled(model, layers, drafts, formatted(model.embedding, None), formatted(model.head, None))
    beside = _towers(stored)
    changed = replace(changed, towers=tuple(tower_in(tower, beside.format) for tower in changed.towers))
    vectors, short = _vectors(stored, beside.vectors)
    if vectors is not None:
        precision = changed.precision.with_roles(other=vectors)
        changed = replace(changed, precision=replace(precision, own=model.precision.own))
    said = _difference(stored.bytes, model)
    return replace(changed, warnings=(*model.warnings, *notes.lines(), *short, *said, *beside.lines))


def _formatted(
    x: Module, places: Sequence[Place], nameless: Sequence[Place], promised: Format, notes: _Notes
) -> Module:
    """The module with the format of its tensors, or of its layer's unassigned tensors if these share one dtype."""
    fmt = stored_format(x, places, promised)
    dtypes = {place.tensor.dtype for place in nameless}
    if any(place.use == "matrix" for place in places):
        notes.other[x.name] += fmt is None
    elif len(dtypes) == 1:
        fmt = _known(_PLAIN[dtypes.pop()], promised)
    else:
        notes.missing[x.name] += 1
    return replace(x, format=fmt or promised)


class _Notes:
    """Modules without tensors or with another number of values, and in how many layers."""

    def __init__(self) -> None:
        self.missing: Counter[str] = Counter()
        self.other: Counter[str] = Counter()

    def lines(self) -> Iterator[str]:
        for name, layers in self.missing.items():
            yield f"headers: no tensor of {name} ({layers} of them), which is as the config says"
        for name, layers in (+self.other).items():
            yield f"headers: tensors of {name} hold other sizes ({layers} of them), which is as the config says"


@dataclass(frozen=True)
class _Beside:
    """What files say of towers: the format of matrices, values outside matrices by dtype, and a warning."""

    format: Format | None = None
    vectors: Counter[str] = field(default_factory=Counter)
    lines: tuple[str, ...] = ()


def _towers(stored: StoredWeights) -> _Beside:
    """The towers' formats, if their tensors hold as many plain values as their modules; towers of several share a mean.

    Values outside matrices are those of the most common dtype.
    """
    modules = [(x, n) for tower in stored.model.towers for block, n in tower.blocks for x in block.modules]
    expected = sum(n * x.parameters for x, n in modules)
    values: Counter[str] = Counter()
    for place in stored.of_towers:
        values[place.tensor.dtype] += place.tensor.elements
    if not modules:
        return _Beside()
    if values.total() != expected or not values.keys() <= _PLAIN.keys():
        given = f"headers: {values.total()} values beside the language model, the config makes {expected}"
        return _Beside(lines=(f"{given}; they are as the config says",))
    common, most = values.most_common(1)[0]
    outside = min(most, sum(n * (x.parameters - x.matrix) for x, n in modules))
    values[common] -= outside
    return _Beside(
        blended([(n, FORMATS[_PLAIN[dtype]]) for dtype, n in values.items() if n]), Counter({common: outside})
    )


def tower_in(tower: Tower, fmt: Format | None) -> Tower:
    """The tower with its matrices in a format; None leaves them as they are."""
    if fmt is None:
        return tower
    blocks = {
        block: replace(block, modules=tuple(replace(x, format=fmt) if x.matrix else x for x in block.modules))
        for block in dict.fromkeys(tower.layers)
    }
    return replace(tower, layers=tuple(blocks[block] for block in tower.layers))


def _text_of(model: Model) -> Model:
    """The model without any tower, an encoder among them."""
    return replace(model, towers=())


def _vectors(stored: StoredWeights, beside: Counter[str]) -> tuple[Format | None, tuple[str, ...]]:
    """Format of values outside matrices, those of towers included, and a warning if the config makes another number."""
    values, expected = vector_values(stored), vectors_expected(stored.model)
    total = values.total()
    lines = (f"headers: {total} values beside matrices, the config makes {expected}",) if total != expected else ()
    values = values + beside
    parts = [(n, FORMATS[_PLAIN[dtype]]) for dtype, n in values.items() if n]
    return (blended(parts) if parts else None), lines


def vector_values(stored: StoredWeights) -> Counter[str]:
    """Dtype → number of values outside matrices."""
    values: Counter[str] = Counter()
    for place in stored.own:
        if place.use == "vector" and place.tensor.dtype in _PLAIN:
            values[place.tensor.dtype] += place.tensor.elements
    return values


def vectors_expected(model: Model) -> int:
    """Number of values outside matrices by the config."""
    return sum(n * (x.parameters - x.matrix) for x, n in _text_of(model).modules())


def _difference(stored: int, model: Model) -> Iterator[str]:
    promised = _text_of(model).weight_bytes()
    if promised != stored:
        yield f"headers: weights take {stored} bytes in the files, by the config's formats {promised}; the files count"
