"""Read a config.json: values are checked when read, and the keys that were read are recorded.

A family asks for what it needs (`c.size("hidden_size")`). Any key that it did not ask for and that is not known to be
harmless gives a warning, so no key is silently ignored.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, TypeVar

from roofline.declared.errors import LONGEST_LIKENED, MOST_LIKENED, InputError, nearest, not_one_of
from roofline.declared.sanitize import LONGEST_WORD, shortened
from roofline.declared.trees import JsonObject, JsonValue
from roofline.model.configs.class_defaults import ClassDefaults, class_defaults
from roofline.model.configs.ignored_keys import HARMLESS, NEUTRAL, Checks

T = TypeVar("T")
_REQUIRED: Any = object()

LARGEST_SIZE = 2**26
LARGEST_CONTEXT = 2**40
MOST_LAYERS = 8192
MOST_UNKNOWN = 64
"""Unknown keys that are listed, each with the known keys most similar to it; the rest are only counted."""


@dataclass(frozen=True)
class ReadKeys:
    """Record of reading a config: keys that were read, notes for the model's warnings, and defaults that were used."""

    read: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    assumed: dict[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True)
class Inputs:
    """Sizes of one input of a model that does not read tokens alone; None for those of the config.

    `width`, `height`: of an image or a video in pixels. `frames`: of a video. `samples`: values of a recording.
    `spectra`: columns of its spectrogram. `tokens`: of the text beside these. `patches`: of an image, a video or sound
    that is given as patches already. `latents`: frames, height and width of what a denoiser or a decoder of latents
    gets, where it is given instead of the pixels that it stands for.
    """

    width: int | None = None
    height: int | None = None
    frames: int | None = None
    samples: int | None = None
    spectra: int | None = None
    tokens: int | None = None
    patches: int | None = None
    latents: tuple[int, ...] | None = None


@dataclass(frozen=True, eq=False)
class Config:
    """A config.json with checked access that records the keys read.

    `path` prefixes field names in errors (`text_config.hidden_size`). The values never change; `with_values` returns a
    config with other values that shares the same `record`. A key that the file leaves out has the default of the
    transformers class for the type `kind`; `record.assumed` holds the defaults that were used.
    """

    raw: JsonObject
    path: str = ""
    parent: Config | None = None
    record: ReadKeys = field(default_factory=ReadKeys, repr=False)
    kind: str = ""
    own_inputs: Inputs | None = field(default=None, repr=False)

    @property
    def inputs(self) -> Inputs:
        """Sizes of an input, where a caller gave them."""
        if self.own_inputs is not None or self.parent is None:
            return self.own_inputs or Inputs()
        return self.parent.inputs

    @property
    def architecture(self) -> str:
        """First class in `architectures`, or ""."""
        named = self.raw.get("architectures")
        first = named[0] if isinstance(named, list) and named else named
        return first if isinstance(first, str) else ""

    def __post_init__(self) -> None:
        for key in self.raw:
            if not isinstance(key, str) or not key.isprintable():
                raise InputError(self.path or "config", key, "keys that are printable text")

    def with_values(self, **values: JsonValue) -> Config:
        """This config with other values, for an architecture that writes them differently; both share one record."""
        return replace(self, raw={**self.raw, **values})

    def of_kind(self, kind: str) -> Config:
        """This config as the class of the type `kind` reads it: with all of its names for keys, and its defaults."""
        known = replace(self, kind=kind)
        pairs = known.same_keys
        return known.with_values(**{key: self.raw[other] for key, other in pairs if key not in self.raw})

    # -- the record ------------------------------------------------------------------------------------------------
    @property
    def read(self) -> set[str]:
        """The keys that were read."""
        return self.record.read

    def mark_read(self, *keys: str) -> None:
        """Mark keys that need no warning, since the architecture ignores them or reads their content elsewhere."""
        self.record.read.update(keys)

    @property
    def notes(self) -> list[str]:
        """Notes on values that were used or ignored."""
        return self.record.notes

    def note(self, *texts: str) -> None:
        """Add to the notes."""
        self.record.notes.extend(texts)

    @property
    def defaults(self) -> ClassDefaults:
        """Defaults of the class for missing keys."""
        return class_defaults(self.kind)

    @property
    def same_keys(self) -> list[tuple[str, str]]:
        """Pairs of names for one key of the class, where the second name has a value in this config.

        A pair is the class's name and an alias; also the reverse, where the class has a default for the alias.
        """
        aliases = self.defaults.aliases.items()
        back = [(alias, key) for alias, key in aliases if self.defaults.values.get(alias) is not None]
        return [
            pair for pair in (*((key, alias) for alias, key in aliases), *back) if self.raw.get(pair[1]) is not None
        ]

    def note_assumed(self, key: str, value: JsonValue) -> None:
        """Add a note that a key is missing and the family's own default was used."""
        self.note(f"{self.field(key)} is missing; {value}, the default of this model_type, was used")

    # -- access ----------------------------------------------------------------------------------------------------
    def field(self, key: str) -> str:
        """The key prefixed with the path of this config."""
        return f"{self.path}.{key}" if self.path else key

    def has(self, key: str) -> bool:
        """Whether the key has a value other than null, in the config or as a default of the class."""
        return self.get(key) is not None

    def get(self, key: str, default: JsonValue = None) -> JsonValue:
        """Unchecked value of a key, from the config or as a default of the class; the key does not count as read."""
        return self.raw[key] if key in self.raw else self.defaults.values.get(key, default)

    def value(
        self, keys: str, default: JsonValue | T = _REQUIRED, expected: str = "a value"
    ) -> tuple[str, JsonValue | T]:
        """Name and value of the first of `keys` ("n_embd|hidden_size") present, else of the class, else `default`.

        null counts as missing and gives the default. Where the class has separate defaults for several of the keys, the
        first counts, whether from the config or from the class. Raises InputError where there is neither a value nor a
        default.
        """
        names = keys.split("|")
        self.mark_read(*names)
        given = next((name for name in names if self.raw.get(name) is not None), None)
        before = self._before(names, given)
        assumed = next((name for name in before if self.defaults.values.get(name) is not None), None)
        if assumed and not any(name in self.raw for name in before):
            return assumed, self._assume(assumed, default)
        if given is not None:
            return given, self.raw[given]
        if default is not _REQUIRED:
            return names[0], default
        for name in names:
            if name in self.raw:
                raise InputError(self.field(name), None, expected)
        near = dict.fromkeys(k for name in names for k in self._like(name))
        also = f" (or under the name {' or '.join(names[1:])})" if names[1:] else ""
        raise InputError(self.field(names[0]), "nothing (missing key)", expected + also, near)

    def _before(self, names: list[str], given: str | None) -> list[str]:
        """Names that precede the `given` one if the class has a default for that one; all names if none is given."""
        if given is None:
            return names
        return names[: names.index(given)] if self.defaults.values.get(given) is not None else []

    def _assume(self, key: str, default: JsonValue | T) -> JsonValue:
        """The class's default for a missing key.

        It is recorded if it is a size or differs from the family's own default. Raises InputError where the key is
        required and seems to be present but misspelt.
        """
        value = self.defaults.values[key]
        if default is _REQUIRED and (near := self._like(key)):
            raise InputError(self.field(key), "nothing (missing key)", "a value", near)
        if type(value) is int or default is _REQUIRED or not _same(value, default):
            self.record.assumed[self.field(key)] = value
        return value

    def _like(self, key: str) -> list[str]:
        """Unknown keys of this config that are similar enough to `key` to be a misspelling of it."""
        known = (self.read, HARMLESS, NEUTRAL)
        unknown = [k for k in self.raw if not any(k in keys for keys in known) and not self.defaults.knows(k)]
        return _misspelt(key, unknown) if unknown else []

    def _checked(self, keys: str, default: JsonValue | T, expected: str, valid: Callable[[JsonValue], bool]) -> Any:
        """Value of the first name that is present; values under the other names must be valid, too."""
        used, value = self.value(keys, default, expected)
        for name in keys.split("|"):
            if self.raw.get(name) is None:
                continue
            if not valid(self.raw[name]):
                raise InputError(self.field(name), self.raw[name], expected)
            if self.raw[name] != value:
                self.note(f"{self.field(name)} = {self.raw[name]} was not used, {used} = {value} was")
        return value

    def error(self, key: str, expected: str, near: Iterable[str] = ()) -> InputError:
        """The error for a key whose value is invalid."""
        return InputError(self.field(key), self.get(key), expected, near)

    def size(self, keys: str, default: int | T = _REQUIRED, *, least: int = 1, most: int = LARGEST_SIZE) -> int | T:
        """A whole number from `least` to `most`; null or a missing key gives the default, if there is one."""
        expected = f"a whole number from {least} to {most}"
        size: int | T = self._checked(keys, default, expected, lambda v: type(v) is int and least <= v <= most)
        return size

    def assumed(self, key: str, default: int, *, least: int = 1, null: bool = False) -> Any:
        """A size that has a default of the architecture; using the default adds a note.

        `null`: a null gives None. Raises InputError for any other value that is not a size.
        """
        if key in self.raw or self.has(key):
            return self.size(key, None, least=least) if null else self.size(key, least=least)
        self.mark_read(key)
        self.note_assumed(key, default)
        return default

    def unused_sizes(self, *keys: str, least: int = 1) -> None:
        """Check sizes that have no effect in this architecture; they must be valid where present."""
        for key in keys:
            self.mark_read(key)
            if key in self.raw:
                self.size(key, None, least=least)

    def per_layer_size(self, keys: str, layers: int, default: int | list[int]) -> list[int]:
        """One size for every layer, or a list with one for each, as the default may be."""
        name, value = self.value(keys, default)
        if not isinstance(value, list):
            return [self.size(keys) if isinstance(default, list) else self.size(keys, default)] * layers
        if len(value) != layers:
            raise InputError(self.field(name), f"{len(value)} entries", f"{layers}, as num_hidden_layers says")
        for i, entry in enumerate(value):
            if type(entry) is not int or not 1 <= entry <= LARGEST_SIZE:
                raise InputError(f"{self.field(name)}[{i}]", entry, f"a whole number from 1 to {LARGEST_SIZE}")
        return list(value)

    def number(self, key: str, default: float | None = None, *, least: float = 0.0, most: float = 1e12) -> Any:
        """A finite number from `least` to `most`."""
        value: Any
        name, value = self.value(key, default, f"a number from {least:g}")
        if value is default:
            return default
        if type(value) not in (int, float) or not math.isfinite(value) or not least <= value <= most:
            raise InputError(self.field(name), value, f"a number from {least:g} to {most:g}")
        return value

    def per_layer_number(
        self, key: str, layers: int, default: float | Sequence[float], *, most: float = 1
    ) -> list[float]:
        """One number from 0 to `most` for each layer, from a list, else from the default (one for all or one each)."""
        numbers = self.value(key, [default] * layers if isinstance(default, (int, float)) else list(default))[1]
        if not isinstance(numbers, list) or len(numbers) != layers:
            raise self.error(key, f"a list of {layers} numbers, as num_hidden_layers says")
        for i, number in enumerate(numbers):
            if type(number) not in (int, float) or not 0 <= number <= most:
                raise InputError(f"{self.field(key)}[{i}]", number, f"a number from 0 to {most:g}")
        return list(numbers)

    def flag(self, keys: str, default: bool = False) -> bool:
        """true or false."""
        return bool(self._checked(keys, default, "true or false", lambda v: type(v) is bool))

    def text(self, keys: str, default: str | None = None, choices: Iterable[str] | None = None) -> str:
        """A string, one of `choices` where given."""
        name, value = self.value(keys, _REQUIRED if default is None else default, "text")
        if not isinstance(value, str):
            raise InputError(self.field(name), value, "text")
        known = None if choices is None else list(choices)
        if known is not None and value not in known:
            raise not_one_of(self.field(name), value, known)
        return value

    def section(self, key: str) -> Config:
        """A nested object; empty if missing or null."""
        _, value = self.value(key, {})
        if not isinstance(value, Mapping):
            raise InputError(self.field(key), value, "an object")
        return Config(value, self.field(key), self)

    def per_layer(self, key: str, layers: int, kinds: Sequence[T], default: Sequence[T] | None = None) -> list[T]:
        """One of `kinds` for each layer; the default if the key is missing."""
        _, value = self.value(key, default)
        if not isinstance(value, (list, tuple)):
            raise InputError(self.field(key), value, f"a list of {layers} entries")
        if len(value) != layers:
            raise InputError(self.field(key), f"{len(value)} entries", f"{layers}, as num_hidden_layers says")
        for i, entry in enumerate(value):
            if not any(type(entry) is type(kind) and entry == kind for kind in kinds):
                shown = [str(k) for k in kinds]
                raise InputError(
                    f"{self.field(key)}[{i}]", entry, f"one of {', '.join(shown)}", nearest(str(entry), shown)
                )
        return list(value)

    def layer_set(self, key: str, layers: int) -> list[int] | None:
        """A list of layer indices, or None if the key is missing."""
        _, value = self.value(key, None)
        if value is None:
            return None
        if not isinstance(value, (list, tuple)):
            raise InputError(self.field(key), value, "a list of layer indices")
        for i, entry in enumerate(value):
            if type(entry) is not int or not 0 <= entry < layers:
                raise InputError(f"{self.field(key)}[{i}]", entry, f"a layer index from 0 to {layers - 1}")
        return list(value)

    # -- what was not read -----------------------------------------------------------------------------------------
    def leftovers(self, harmless: Checks = HARMLESS, neutral: JsonObject = NEUTRAL) -> list[str]:
        """A warning for each key that is neither read nor known to be harmless; harmless keys are type-checked.

        Keys with the value null are skipped, since they set nothing.
        """
        warnings: list[str] = []
        unknown = 0
        for key, value in self.raw.items():
            if key in self.read or value is None or (key in neutral and _same(value, neutral[key])):
                continue
            if key in harmless:
                harmless[key](self.field(key), value)
                continue
            if key in neutral:
                warnings.append(f"{self.field(key)} was not counted; only {neutral[key]!r} is understood here")
                continue
            unknown += 1
            if unknown > MOST_UNKNOWN:
                continue
            near = _misspelt(key, [*self.read, *harmless, *neutral])
            hint = f"; nearest known: {', '.join(near)}" if near else ""
            name = shortened(self.field(key), LONGEST_WORD)
            warnings.append(f"{name} is not understood and was not counted{hint}")
        if unknown > MOST_UNKNOWN:
            more = f"{unknown - MOST_UNKNOWN:,} more keys"
            warnings.append(f"{more} of {self.path or 'the config'} are not understood and were not counted")
        return warnings


def _misspelt(key: str, known: Iterable[str]) -> list[str]:
    """Known keys similar enough to `key` that one is likely a misspelling of the other, best match first."""
    import difflib  # loaded where a key is unknown

    if len(key) > LONGEST_LIKENED:
        return []
    some = islice(dict.fromkeys(known), MOST_LIKENED)
    return difflib.get_close_matches(key, [k for k in some if len(k) <= LONGEST_LIKENED], n=2, cutoff=0.8)


def _same(value: object, other: object) -> bool:
    """Whether two values are equal, with true distinct from 1 and false from 0."""
    return value == other and isinstance(value, bool) == isinstance(other, bool)
