"""Formats set by a caller: for roles, and for modules by their names in the checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from roofline.declared.errors import InputError
from roofline.declared.question import Settings
from roofline.model.checkpoints.gguf.mixes import TypeMix, mix_named
from roofline.model.checkpoints.quantization.named import scheme_named
from roofline.model.checkpoints.quantization.rules import Rule, Scheme, quantised
from roofline.model.formats import GGML_TYPES, Format, format_named
from roofline.model.model import Block, Model
from roofline.model.modules import PARTS, Linear, Modules
from roofline.model.precision import Precision, part_of

_PATTERN = frozenset("._*:")
"""Characters that mark a key as a pattern of module names; no role contains any of them."""


def formats_of(model: Model, asked: object, base: Precision | None = None) -> tuple[Model, Precision]:
    """The model and the formats it runs in: `base` (its own by default) changed by `asked`.

    Roles are as in `Precision.merged`. A key may also be a pattern of names as in quantisation configs: a name
    (`o_proj`, `model.layers.0.mlp`), a glob (`model.layers.0.*`), or a regular expression after `re:` (in a mapping if
    it contains a comma). The first pattern that matches a matrix decides its format, whatever the format of its role. A
    mix of GGUF types (`q4_k_m`, `q4_k_m,kv=q8_0`, `weights=q4_k_m`) gives each tensor the type of llama.cpp's rule, and
    a tool's name (`mlx-4bit`, `exl2-4.25bpw`, `gptq-4bit-g32`) the formats that the tool produces; further entries are
    applied after it. Raises InputError for an unknown role or format, and for a pattern that matches nothing.
    """
    recipe, rest = _recipe_apart(asked)
    if recipe is not None:
        whole = model if base is None else replace(model, precision=base)
        return formats_of(_by_recipe(whole, recipe), rest)
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


def says_cache(asked: object) -> bool:
    """Whether `asked` sets the cache's format; a complete Precision does."""
    if isinstance(asked, str):
        return any(item.partition("=")[0].strip() == "kv" for item in asked.split(","))
    return asked is not None and (not isinstance(asked, Mapping) or "kv" in asked)


def _recipe_apart(asked: object) -> tuple[TypeMix | Scheme | None, object]:
    """The recipe for the whole checkpoint in `asked`, or None, and the remaining entries."""
    if isinstance(asked, str):
        first, _, rest = asked.partition(",")
        if "=" not in first:
            recipe = mix_named(first) or scheme_named(first)
            return recipe, (rest or None) if recipe else asked
        pairs = [item for item in asked.split(",") if item.strip()]
        weights = [item for item in pairs if item.partition("=")[0].strip() == "weights"]
        recipe = _recipe_of_weights(weights[-1].partition("=")[2]) if weights else None
        return recipe, (",".join(item for item in pairs if item not in weights) or None) if recipe else asked
    if isinstance(asked, Mapping):
        recipe = _recipe_of_weights(asked.get("weights"))
        return recipe, {key: value for key, value in asked.items() if key != "weights"} if recipe else asked
    return None, asked


def _recipe_of_weights(name: object) -> TypeMix | Scheme | None:
    """The recipe of a name; None if a single GGUF type has that name, which then applies to all weights."""
    one_type = isinstance(name, str) and name.strip().lower() in GGML_TYPES
    return None if one_type else mix_named(name) or scheme_named(name)


def _by_recipe(model: Model, recipe: TypeMix | Scheme) -> Model:
    """The model in a mix of GGUF types or quantised by a scheme, whatever its checkpoint's formats."""
    if isinstance(recipe, TypeMix):
        from roofline.model.checkpoints.gguf.tensors import in_mix

        return in_mix(model, recipe)
    changed, warnings = quantised(_in_sixteen_bits(model), recipe)
    heads = [x for x in model.head if isinstance(x, Linear) and x.part == "head"]
    if any(rule.pattern == "lm_head" for rule in recipe.rules) and not any(x.matrix for x in heads):
        said = "precision: a head tied to the table, which this tool stores a second time, is not counted"
        warnings = (*warnings, said)
    return replace(changed, warnings=(*changed.warnings, *warnings))


def _in_sixteen_bits(model: Model) -> Model:
    """The model with all weights in the activations' format, from which quantisation starts."""
    wide = model.precision.with_roles(**dict.fromkeys(PARTS, model.precision.activations))
    return replace(_without(model, wide), precision=replace(wide, own=frozenset(PARTS)))


def _by(model: Model, rules: tuple[Rule, ...]) -> tuple[Model, tuple[str, ...]]:
    """The model with these rules applied, and a warning about rules that match nothing."""
    return quantised(model, Scheme(rules, source="precision", strict=True))


def _told_apart(asked: object) -> tuple[Settings, tuple[Rule, ...]]:
    """The roles with their formats, and the rules of the patterns, if any."""
    pairs: Settings = {}
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
    """The model without separate formats of modules in the parts whose format the caller has set."""

    def told(modules: Modules) -> Modules:
        return tuple(x if part_of(x) in formats.own else replace(x, format=None) for x in modules)

    blocks: dict[int, Block] = {id(b): replace(b, modules=told(b.modules)) for b in (*model.layers, *model.drafts)}
    return replace(
        model, layers=tuple(blocks[id(b)] for b in model.layers), drafts=tuple(blocks[id(b)] for b in model.drafts),
        embedding=told(model.embedding), head=told(model.head),
    )  # fmt: skip
