"""Determine the format of each module of a checkpoint by rules over the names of its matrices; the first match wins.

A pattern is a name (`lm_head`, `model.layers.3.mlp`, `self_attn`), which stands for the module and everything inside
it; a glob (`model.layers.0*`); or a regular expression after `re:`, matched from the start of a name. Wrappers and
hybrids use other names for the layers (`language_model.model.layers`, `backbone.layers`), which are treated as equal.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import translate
from fractions import Fraction
from functools import cached_property, lru_cache
from time import thread_time

from roofline.declared.errors import InputError
from roofline.model.checkpoints.tensor_names import MIXERS, NETWORKS, SHARED, STEMS, Piece, pieces
from roofline.model.formats import Format
from roofline.model.model import Block, Model
from roofline.model.modules import PARTS, Experts, LatentAttention, Linear, Module, Modules, Part
from roofline.model.precision import WEIGHTS, Precision, part_of

_OUTER = re.compile(r"(?:(?:model|language_model|text_model|backbone|transformer|decoder|encoder|gpt_neox|llm)\.)*")
_LAYERS = re.compile(_OUTER.pattern + r"(?:layers|h|blocks|block)\.(\d+)(?:\.(.*)|(\*)|())", re.DOTALL)
_INNER = frozenset(
    (*MIXERS, *NETWORKS, *SHARED, "indexer", "experts", "gate", "router", "layers", "h", "blocks", "block")
)
"""First words of dotted names within a model or a layer."""
_BESIDE = (
    r"vision|visual|image|audio|speech|tower|projector|mm_|multi_modal|mtp|nextn|eh_proj|norm|embed|bias|conv|rotary|"
    r"lm_head|\bhead\b|output|patch|rope|sinks|altup|talker|code2wav|_scale|A_log|dt_"
)
"""Names in patterns that are not matrices of a layer: other parts of the model, norms, tables, the head."""
_WORD = re.compile(r"\w+")
_EXPERT = re.compile(r"experts\.(\d+)\b")
_LONGEST_PATTERN, _MOST_PATTERNS = 2000, 200_000
_BROAD = re.compile(r"(?:\.|\\[wWSD]|\])(?:[*+]|\{)")
"""A repeat of a class that matches nearly everything; with n of them, matching takes time of the order of lengthⁿ."""
_MOST_REPEATS, _MOST_OPTIONS = 4, 24
_ONE_LAYER = (
    r"re:(?:\^|\.\*|model\\?\.)*(?:layers|h|blocks|block)\\?\.(\d+)\\\.(?:[\w.\\*$]|(?<!\\)\([\w.\\|:?]*(?<!\\)\))*"
)
"""A regular expression that names one layer by its number: `re:.*layers\\.17\\..*`."""
SLOWEST_RULES = 5.0
"""Seconds of a processor within which the rules of a checkpoint must be matched."""


@dataclass(frozen=True)
class Rule:
    """Format of the matrices that a pattern matches; None leaves them in the checkpoint's dtype."""

    pattern: str
    format: Format | None = None


@dataclass(frozen=True)
class Scheme:
    """Quantisation of a checkpoint: the first rule that matches a matrix decides its format.

    Where no rule matches, matrices of the parts in `covers` have the `default` format; None leaves them in the dtype.
    `source`: section of the config, for warnings. `kv`: format of the KV cache, if given. `strict`: every rule must
    match something, whatever it looks like. `before`: an earlier quantisation that this one builds on; matrices that
    this one leaves keep their format from it. `linear_only`: routers that mlx-lm keeps as a bare array (`BARE_ROUTERS`)
    are not quantised.
    """

    rules: tuple[Rule, ...] = ()
    default: Format | None = None
    covers: frozenset[Part] = frozenset(WEIGHTS)
    kv: Format | None = None
    source: str = "quantization_config"
    strict: bool = False
    before: Scheme | None = None
    linear_only: bool = False


BARE_ROUTERS = frozenset({
    "deepseek", "deepseek_v2", "deepseek_v3", "deepseek_v32", "dots1", "exaone_moe", "glm4_moe", "glm4_moe_lite",
    "glm_moe_dsa", "kimi_k2", "mimo_v2_flash", "mistral4", "muse_spark_text", "nemotron_h",
})  # fmt: skip
"""Model types whose router is not a linear layer in mlx-lm and is therefore not quantised (mlx_lm/models, 0.32)."""


# -- patterns ------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Pattern:
    """A parsed pattern: the layer that it names, and how it is matched within the layer."""

    text: str
    layer: str | None = None
    rest: str | None = None
    regex: re.Pattern[str] | None = None
    beside: bool = False
    """Whether it names another part of the model: a vision tower, draft layers."""
    only: str | None = None
    """The one layer within which a regular expression can match, where that is plain from its text."""

    def may(self, layer: int) -> bool:
        """Whether the pattern can match something in a layer."""
        if self.layer is None:
            return True
        number = str(layer)
        return number.startswith(self.layer[:-1]) if self.layer.endswith("*") else number == self.layer

    def names(self, layer: int | None, name: str) -> bool:
        """Whether the pattern matches a matrix of a layer (None: outside the layers) or a module that contains it."""
        if self.rest == "":
            return True
        if self.regex is not None and self.rest is None:
            places = [""] if layer is None else [f"{stem}.{layer}." for stem in _stems(self.text)]
            return any(self.regex.match(place + name) for place in places)
        if self.regex is not None:
            return self.regex.match(name) is not None
        return _stands_in(self.rest or "", name)


@lru_cache(maxsize=4096)
def _stems(pattern: str) -> tuple[str, ...]:
    """Layer names with which a pattern is tried: the usual one, and others that it mentions."""
    return (STEMS[0], *(stem for stem in STEMS[1:] if stem.split(".")[-2] in pattern or stem.split(".")[0] in pattern))


def _stands_in(pattern: str, name: str) -> bool:
    """Whether the dotted words of a pattern occur consecutively in a name."""
    return f".{pattern}." in f".{name}."


@lru_cache(maxsize=2**16)
def _parsed(text: str) -> _Pattern:
    """Parse a pattern. Raises InputError for an invalid regular expression."""
    if len(text) > _LONGEST_PATTERN:
        raise InputError("quantization_config", text[:40] + "…", f"patterns of at most {_LONGEST_PATTERN} characters")
    if text.startswith("re:"):
        one = re.fullmatch(_ONE_LAYER, text, re.ASCII)
        return _Pattern(text, regex=_compiled(text), only=one and one[1])
    place = _LAYERS.fullmatch(text.removesuffix(".weight"))
    if place is not None:
        number, rest, star, _ = place.groups()
        if star:
            return _Pattern(text, f"{number}*", "")
        rest = rest or ""
        return _Pattern(text, number, rest, _glob(rest) if _is_glob(rest) else None)
    outer = _OUTER.match(text)
    inner = text[outer.end() if outer else 0 :].removesuffix(".weight")
    first, dot, _ = inner.partition(".")
    beside = bool(dot) and not _is_glob(first) and first not in _INNER
    if _is_glob(text):
        return _Pattern(text, regex=_glob(text), beside=beside)
    return _Pattern(text, rest=inner, beside=beside)


def _glob(text: str) -> re.Pattern[str]:
    """Regular expression of a glob: matches a name and all names within it."""
    return re.compile(f"{translate(text)}|{translate(text + '.*')}")


def _is_glob(text: str) -> bool:
    return any(sign in text for sign in "*?[")


def _compiled(text: str) -> re.Pattern[str]:
    """Compile a regular expression that is certain to match quickly. Raises InputError for others."""
    expression = text.removeprefix("re:")
    try:
        if re.search(r"[+*}]\)?[+*{]|\)[+*{]", expression):
            raise re.error("repeats of what repeats")
        parts = re.split(r"\|(?![^(]*\))", re.sub(r"(\.\*)+\$?$", "", expression))
        if max(len(_BROAD.findall(part)) for part in parts) > _MOST_REPEATS or expression.count("?") > _MOST_OPTIONS:
            raise re.error("too many repeats")
        return re.compile(expression)
    except (re.error, OverflowError, RecursionError) as error:
        raise InputError("quantization_config", text, f"a regular expression ({error})") from None


# -- matching ------------------------------------------------------------------------------------------------------
class Matcher:
    """Applies the rules of a scheme layer by layer, and records which patterns matched something."""

    def __init__(self, scheme: Scheme) -> None:
        if len(scheme.rules) > _MOST_PATTERNS:
            raise InputError(scheme.source, f"{len(scheme.rules)} patterns", f"at most {_MOST_PATTERNS}")
        self.scheme = scheme
        self.rules = tuple((_parsed(rule.pattern), rule.format) for rule in scheme.rules)
        self.used: set[str] = set()
        self._of_layer: dict[str, list[int]] = {}
        self._everywhere: list[int] = []
        self._starred: list[int] = []
        self._blocks: dict[object, tuple[Block, list[int]]] = {}
        self._relevant: dict[int | None, tuple[int, ...]] = {}
        self._until = thread_time() + SLOWEST_RULES
        for i, (pattern, _) in enumerate(self.rules):
            if pattern.beside:
                continue
            if pattern.only is not None or (pattern.layer is not None and not pattern.layer.endswith("*")):
                self._of_layer.setdefault(str(pattern.only or pattern.layer), []).append(i)
            else:
                (self._everywhere if pattern.layer is None else self._starred).append(i)
        self._common = tuple(self._everywhere)
        self._numbered = any(_by_number(self.rules[i][0]) for i in self._common)

    @cached_property
    def words(self) -> frozenset[str] | None:
        """All words of the patterns; names without any of them need not be tried. None if there are `re:` patterns."""
        if any(pattern.regex is not None and pattern.text.startswith("re:") for pattern, _ in self.rules):
            return None
        return frozenset(word for pattern, _ in self.rules for word in _WORD.findall(pattern.text))

    @cached_property
    def experts(self) -> tuple[int, ...]:
        """Numbers of the experts that patterns name individually."""
        numbers = (n for pattern, _ in self.rules for n in _EXPERT.findall(pattern.text.replace("\\.", ".")))
        return tuple(sorted({int(number) for number in numbers}))

    def relevant(self, layer: int | None) -> tuple[int, ...]:
        """Indices of the rules that can match something in a layer (None: outside the layers), in order."""
        if layer is None:
            return self._common
        if layer not in self._relevant:
            own = [*self._of_layer.get(str(layer), []), *(i for i in self._starred if self.rules[i][0].may(layer))]
            self._relevant[layer] = tuple(sorted([*own, *self._common])) if own else self._common
        return self._relevant[layer]

    def _alike(self, layer: int) -> tuple[object, ...]:
        """Key of a layer under the rules; equal blocks with equal keys have the same formats."""
        relevant = self.relevant(layer)
        if relevant is self._common:
            return (layer if self._numbered else None,)
        rules = ((i, *self.rules[i]) for i in relevant)
        return tuple(
            (p.rest, fmt) if p.layer is not None else (i, layer if _by_number(p) else None) for i, p, fmt in rules
        )

    def formatted(self, block: Block, layer: int, stored: Precision) -> Block:
        """A layer with the formats of its modules set."""
        self._in_time()
        key, relevant = (block, self._alike(layer)), self.relevant(layer)
        if key not in self._blocks:
            done = replace(block, modules=self.modules(block.modules, layer, stored))
            self._blocks[key] = done, [n for n, i in enumerate(relevant) if self.rules[i][0].text in self.used]
        done, used = self._blocks[key]
        self.used.update(self.rules[relevant[n]][0].text for n in used)
        return done

    def _in_time(self) -> None:
        """Raise InputError where matching takes longer than any published checkpoint's by orders of magnitude."""
        if thread_time() > self._until:
            expected = f"patterns that are matched within {SLOWEST_RULES:g} s, not so many for so many layers"
            raise InputError(self.scheme.source, f"{len(self.rules)} patterns", expected)

    def modules(self, modules: Modules, layer: int | None, stored: Precision) -> Modules:
        """The modules with their formats set."""
        return tuple(
            self._formatted(x, modules, layer, x.format or stored.weights(part_of(x)))
            if part_of(x) in stored.own
            else x
            for x in modules
        )

    def _formatted(self, x: Module, block: Modules, layer: int | None, stored: Format) -> Module:
        parts = [
            (count, self._format_of(layer, names, part_of(x), stored))
            for piece in pieces(x, block)
            for count, names in self._named(piece, x)
        ]
        parts = [(count, _spread(fmt, x, block)) for count, fmt in parts]
        return replace(x, format=blended(parts)) if parts else x

    def _named(self, piece: Piece, x: Module) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Numbers of values of a piece with the names to try; experts that patterns name are separate."""
        words, names = self.words, piece.names
        if words is not None:
            names = (names[0], *(name for name in names[1:] if not words.isdisjoint(name.split("."))))
        if not isinstance(x, Experts):
            yield piece.values, names
            return
        apart = [e for e in self.experts if e < x.experts]
        each = piece.values // x.experts
        for e in apart:
            yield each, tuple(name.format(e=e) for name in names)
        rest = next((e for e in range(len(apart) + 1) if e not in apart), 0)
        if len(apart) < x.experts:
            yield each * (x.experts - len(apart)), tuple(name.format(e=rest) for name in names)

    def _format_of(self, layer: int | None, names: Sequence[str], part: Part, stored: Format) -> Format:
        """Format of a matrix by its possible names; `stored`: format of the checkpoint's dtype."""
        naming = []
        for i in self.relevant(layer):
            pattern, fmt = self.rules[i]
            self._in_time()
            if any(pattern.names(layer, name) for name in names):
                naming.append((pattern, fmt))
        self.used.update(pattern.text for pattern, _ in naming)
        default = self.scheme.default if part in self.scheme.covers else None
        return (naming[0][1] if naming else default) or stored

    def warnings(self, layers: int) -> tuple[str, ...]:
        """Warning about patterns that matched nothing although they look as if they should."""
        unused = [pattern.text for pattern, _ in self.rules if self._missed(pattern, layers)]
        if not unused:
            return ()
        some = ", ".join(text if text.isprintable() else repr(text) for text in unused[:3]) + (
            f" and {len(unused) - 3} more" if len(unused) > 3 else ""
        )
        return (f"{self.scheme.source} names what this model does not have: {some}",)

    def _missed(self, pattern: _Pattern, layers: int) -> bool:
        if pattern.text in self.used or self.scheme.strict:
            return pattern.text not in self.used
        if re.search(_BESIDE, pattern.text):
            return False
        return pattern.layer is None or not pattern.layer.isdigit() or int(pattern.layer) < layers


def _by_number(pattern: _Pattern) -> bool:
    """Whether a pattern for all layers may distinguish them by number: one that is matched with the layer's name."""
    return pattern.regex is not None and pattern.rest is None and bool(re.search(r"\\d|[0-9]", pattern.text))


# -- formats of a model --------------------------------------------------------------------------------------------
def blended(parts: Sequence[tuple[int, Format]]) -> Format:
    """Format of several matrices that are one product here: their format, or one with their combined bits.

    The result multiplies in the format that holds the most values.
    """
    shares: dict[Format, int] = {}
    for values, fmt in parts:
        shares[fmt] = shares.get(fmt, 0) + values
    if len(shares) == 1:
        return next(iter(shares))
    total, most = sum(shares.values()), max(shares, key=lambda fmt: shares[fmt])
    bits = sum((n * fmt.bits for fmt, n in shares.items()), Fraction(0)) / total
    overhead = sum((n * fmt.overhead for fmt, n in shares.items()), Fraction(0)) / total
    return replace(most, name="/".join(fmt.name for fmt in shares), bits=bits, overhead=overhead)


def _spread(fmt: Format, x: Module, block: Modules) -> Format:
    """A module's format, with the bits stored per input, output and matrix spread over its values."""
    each = (fmt.input_bits, fmt.output_bits, fmt.matrix_bits)
    if not any(each):
        return fmt
    more = sum(bits * number for bits, number in zip(each, _sides(x, block), strict=True))
    overhead = fmt.overhead + Fraction(more, x.matrix)
    return replace(fmt, overhead=overhead, input_bits=0, output_bits=0, matrix_bits=0)


def _sides(x: Module, block: Modules) -> tuple[int, int, int]:
    """Inputs and outputs of all matrices that a checkpoint stores for a module, and the number of these matrices."""
    match x:
        case Experts():
            wide, matrices = (2, 3) if x.gated else (1, 2)
            return x.held * (wide * x.hidden + x.inner), x.held * (wide * x.inner + x.hidden), x.held * matrices
        case Linear():
            number = len(pieces(x, block))
            return x.inputs * number, x.matrix // x.inputs, number
        case LatentAttention():
            return x.rank, x.matrix // x.rank, 1
        case _:
            return 0, 0, 0


def quantised(model: Model, scheme: Scheme) -> tuple[Model, tuple[str, ...]]:
    """The model with the formats of its checkpoint's matrices, and a warning about rules that match nothing in it.

    The format of a part is that of most of its values. Modules with another format carry it themselves, and layers that
    differ become different blocks.
    """
    if scheme.before is not None:
        model, unmatched = quantised(model, scheme.before)
        changed, more = quantised(model, replace(scheme, before=None))
        return changed, (*unmatched, *more)
    if scheme.linear_only and model.model_type in BARE_ROUTERS:
        scheme = replace(scheme, covers=scheme.covers - {"router"})
    matcher, stored = Matcher(scheme), model.precision
    layers = [matcher.formatted(block, i, stored) for i, block in enumerate(model.layers)]
    drafts = [matcher.formatted(block, len(layers) + i, stored) for i, block in enumerate(model.drafts)]
    embedding = matcher.modules(model.embedding, None, stored)
    head = matcher.modules(model.head, None, stored)
    told = model if scheme.kv is None else replace(model, precision=stored.with_roles(kv=scheme.kv))
    told = replace(told, precision=replace(told.precision, own=stored.own))
    return settled(told, layers, drafts, embedding, head), matcher.warnings(len(layers))


def settled(model: Model, layers: Sequence[Block], drafts: Sequence[Block], embedding: Modules, head: Modules) -> Model:
    """The model with these parts in place of its own; the format of every matrix must be set.

    The format of a part becomes that of most of its values, and modules in that format no longer carry it.
    """
    number = Counter(map(id, layers))
    distinct = {id(b): b for b in layers}
    every = [(x, 1) for x in (*embedding, *head)]
    every += [(x, number[key]) for key, block in distinct.items() for x in block.modules]
    own = model.precision.own
    precision = replace(model.precision.with_roles(**_usual(every)), own=own)
    usual = {part: precision.weights(part) for part in PARTS}

    def told_apart(modules: Iterable[Module]) -> Modules:
        return tuple(
            replace(x, format=None) if x.format is not None and x.format == usual[part_of(x)] else x for x in modules
        )

    apart = {**distinct, **{id(b): b for b in drafts}}
    blocks = {key: replace(b, modules=told_apart(b.modules)) for key, b in apart.items()}
    return replace(
        model, layers=tuple(blocks[id(b)] for b in layers), drafts=tuple(blocks[id(b)] for b in drafts),
        embedding=told_apart(embedding), head=told_apart(head), precision=precision,
    )  # fmt: skip


def _usual(modules: Iterable[tuple[Module, int]]) -> dict[str, Format]:
    """Format of most values of each part, of modules and how many of each there are."""
    shares: dict[str, dict[Format, int]] = {}
    for x, number in modules:
        if x.format is not None:
            of_part = shares.setdefault(part_of(x), {})
            of_part[x.format] = of_part.get(x.format, 0) + number * x.matrix
    return {part: max(formats, key=lambda fmt: formats[fmt]) for part, formats in shares.items()}
