"""Formats that a caller asks for: of roles, and of modules by the names that a checkpoint gives them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from roofline.model.errors import InputError
from roofline.model.formats import GGML_TYPES, Format, format_named
from roofline.model.gguf.mixes import TypeMix, mix_named
from roofline.model.model import Block, Model
from roofline.model.modules import PARTS, Modules
from roofline.model.precision import Precision, part_of
from roofline.model.quantization.rules import Rule, Scheme, quantised

_PATTERN = frozenset("._*:")
"""A key with one of these is a pattern of module names, since no role has any."""


def formats_of(model: Model, asked: object, base: Precision | None = None) -> tuple[Model, Precision]:
    """The model and the formats it runs in: `base` (its own) changed by what is `asked` for.

    Roles are as in `Precision.merged`. Beside them stand patterns of names as quantisation configs write them: a name
    (`o_proj`, `model.layers.0.mlp`), a glob (`model.layers.0.*`), an expression behind `re:` (in a mapping where it
    holds a comma); the first that names a matrix says its format, whatever its role has. A mix of GGUF types
    (`q4_k_m`, `q4_k_m,kv=q8_0`, `weights=q4_k_m`) gives each tensor the type that llama.cpp's rule has for it; what
    else is asked for comes after.

    Raises InputError for a role or format that does not exist, and for a pattern that names nothing.
    """
    mix, rest = _mix_apart(asked)
    if mix is not None:
        from roofline.model.gguf.tensors import in_mix

        return formats_of(in_mix(model if base is None else replace(model, precision=base), mix), rest)
    own = model.precision if base is None else base
    roles, rules = _told_apart(asked)
    if not rules:
        return model, own.merged(asked)
    formats = own.merged(roles or None)
    plain = replace(_without(model, formats), precision=replace(formats, own=frozenset(PARTS)))
    changed, unmatched = _by(plain, rules)
    if unmatched:
        nothing = next(rule.pattern for rule in rules if _by(plain, (rule,))[1])
        raise InputError("precision", nothing, "a role, or a name or pattern of the model's modules")
    return changed, changed.precision


def _mix_apart(asked: object) -> tuple[TypeMix | None, object]:
    """The mix of GGUF types that is asked for, and what else is; None where none is asked for."""
    if isinstance(asked, str):
        first, _, rest = asked.partition(",")
        if "=" not in first:
            mix = mix_named(first)
            return mix, (rest or None) if mix else asked
        pairs = [item for item in asked.split(",") if item.strip()]
        weights = [item for item in pairs if item.partition("=")[0].strip() == "weights"]
        mix = _mix_of_weights(weights[-1].partition("=")[2]) if weights else None
        return mix, (",".join(item for item in pairs if item not in weights) or None) if mix else asked
    if isinstance(asked, Mapping):
        mix = _mix_of_weights(asked.get("weights"))
        return mix, {key: value for key, value in asked.items() if key != "weights"} if mix else asked
    return None, asked


def _mix_of_weights(name: object) -> TypeMix | None:
    """The mix of a name, unless one type is called so, which the weights then are all in."""
    return None if isinstance(name, str) and name.strip().lower() in GGML_TYPES else mix_named(name)


def _by(model: Model, rules: tuple[Rule, ...]) -> tuple[Model, tuple[str, ...]]:
    """The model by these rules, and a line about those that name nothing in it."""
    return quantised(model, Scheme(rules, source="precision", strict=True))


def _told_apart(asked: object) -> tuple[dict[str, Any], tuple[Rule, ...]]:
    """The roles with their formats, and the rules of the patterns; no rules where none is asked for."""
    pairs: Mapping[str, Any] = {}
    if isinstance(asked, Mapping):
        pairs = asked
    elif isinstance(asked, str) and "=" in asked:
        items = (item.rpartition("=") for item in asked.split(",") if item.strip())
        pairs = {key.strip(): value.strip() for key, _, value in items}
    rules = tuple(Rule(key, _format(value, key)) for key, value in pairs.items() if not _PATTERN.isdisjoint(key))
    return {key: value for key, value in pairs.items() if _PATTERN.isdisjoint(key)}, rules


def _format(value: object, key: str) -> Format:
    return value if isinstance(value, Format) else format_named(value, key)


def _without(model: Model, formats: Precision) -> Model:
    """The model without its modules' own formats in the parts whose format a caller has set."""

    def told(modules: Modules) -> Modules:
        return tuple(x if part_of(x) in formats.own else replace(x, format=None) for x in modules)

    blocks: dict[int, Block] = {id(b): replace(b, modules=told(b.modules)) for b in (*model.layers, *model.drafts)}
    return replace(
        model, layers=tuple(blocks[id(b)] for b in model.layers), drafts=tuple(blocks[id(b)] for b in model.drafts),
        embedding=told(model.embedding), head=told(model.head),
    )  # fmt: skip
