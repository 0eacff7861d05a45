"""A question is a function whose signature declares it to every interface.

    @question()
    def serve(model: Any, where: Where, load: Load, *, rounds: Annotated[Requests | None, "…"] = None) -> Serving: ...

    serve(model, on="h100-sxm", input=1024, output_tokens=256, concurrency=32)
    serve(model, Where(on="h100-sxm"), Load(input=1024, output_tokens=256, concurrency=32))

A parameter whose type is a group (a frozen dataclass marked with `@group`) stands for the settings of the group.
Callers pass them flat or as one value; only this module assembles them into groups. `question_settings` lists the
settings of a question, from which options, request bodies, tools, schemas and pages are derived.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import InitVar, dataclass, fields, is_dataclass
from functools import cache, cached_property, wraps
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Any, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

from roofline.declared.deprecated import deprecated
from roofline.declared.errors import InputError, nearest
from roofline.declared.kinds import Given, ValueKind, as_written, text_kind

T = TypeVar("T")
Function: TypeAlias = Callable[..., Any]
"""A question, or a function that makes one."""
Hint: TypeAlias = Any
"""A type annotation."""
Settings: TypeAlias = Mapping[str, Any]
"""Settings by name, or fields of a frozen dataclass, as `replace` takes them."""
NEEDED = inspect.Parameter.empty
"""The default of a required setting."""
OLD_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "output": "output_tokens",
        "decode_layout": "layout",
        "layouts": "layout",
        "kinds": "kind",
        "objective": "slo",
    }
)
"""Former names of settings, accepted for one release."""


@dataclass(frozen=True)
class Setting:
    """A setting of a question or a group: name, kind, help and default.

    `hint`: its type without the kind. `parameter`: the function parameter that passes the group which holds it.
    """

    name: str
    kind: ValueKind
    help: str
    default: Given
    hint: Hint
    parameter: str = ""

    @property
    def needed(self) -> bool:
        """Whether it is required."""
        return self.default is NEEDED


@dataclass(frozen=True)
class Declaration:
    """The settings of a question by name, its parameters, its groups, and former names of settings."""

    name: str
    settings: Mapping[str, Setting]
    parameters: Mapping[str, inspect.Parameter]
    groups: Mapping[str, type]
    renamed: Mapping[str, str]
    function: Function

    @cached_property
    def varied(self) -> tuple[str, ...]:
        """The model, and the settings for which a list is an axis of the answer."""
        return ("model", *(name for name, setting in self.settings.items() if setting.kind.varies))

    @cached_property
    def completed_by(self) -> tuple[Function, ...]:
        """Functions that combine settings of one group."""
        return tuple(kind.fully for kind in dict.fromkeys(self.groups.values()) if hasattr(kind, "fully"))


def group(cls: type[T]) -> type[T]:
    """Mark a frozen dataclass as a group of settings, whose fields are checked by their kinds.

    A group whose settings differ from its fields has a class method `asked`, whose signature declares them. A group
    that must know which settings were given has a class method `from_settings`. Fields without a kind and a sentence
    are no settings. `fully` combines the settings of one group before lists among them become axes.
    """
    if "asked" not in cls.__dict__:
        own: Callable[..., None] = cls.__init__
        kind: type = cls

        @wraps(own)
        def checked(self: Any, *args: Given, **settings: Given) -> None:
            own(self, *args, **settings)
            for name, setting in _checked_settings(kind):
                value = getattr(self, name)
                if value is not None and not is_list(setting, value):
                    object.__setattr__(self, name, setting.kind.check(name, value))

        cls.__init__ = checked  # type: ignore[method-assign]
    cls.__declared_group__ = True  # type: ignore[attr-defined]
    return cls


def is_list(setting: Setting, value: Given) -> bool:
    """Whether a value of a varying setting is a list."""
    return setting.kind.varies and isinstance(value, (list, tuple))


def is_group(hint: Hint) -> bool:
    """Whether a type is a group."""
    return isinstance(hint, type) and bool(hint.__dict__.get("__declared_group__"))


def group_settings(cls: type) -> Mapping[str, Setting]:
    """The settings of a group, by name."""
    if cls not in _SETTINGS:
        _SETTINGS[cls] = MappingProxyType(_of_class(cls))
    return _SETTINGS[cls]


_SETTINGS: dict[type, Mapping[str, Setting]] = {}


@cache
def _checked_settings(cls: type) -> tuple[tuple[str, Setting], ...]:
    """The settings of a group whose kind has a check, with their names."""
    return tuple(
        (name, setting) for name, setting in group_settings(cls).items() if setting.kind.check is not as_written
    )


@cache
def _maker(cls: type) -> tuple[Function, tuple[str, ...]]:
    """The constructor of a group from its settings, and its required settings."""
    made_of = next((m for m in ("asked", "from_settings") if hasattr(cls, m)), None)
    needed = tuple(name for name, setting in group_settings(cls).items() if setting.needed)
    return cls if made_of is None else getattr(cls, made_of), needed


def _of_class(cls: type) -> dict[str, Setting]:
    asked = getattr(cls, "asked", None)
    if asked is not None:
        return _declared(asked)
    assert is_dataclass(cls)
    settings: dict[str, Setting] = {}
    for name, hint in get_type_hints(cls, include_extras=True).items():
        said = hint.type if isinstance(hint, InitVar) else hint
        if any(isinstance(note, (ValueKind, str)) for note in _parts(said)[1]):
            settings[name] = _setting(name, said, getattr(cls, name, NEEDED))
    return settings


def _declared(function: Function) -> dict[str, Setting]:
    """The settings of a signature, with those of its groups; parameters without a kind are left out."""
    settings: dict[str, Setting] = {}
    hints = get_type_hints(function, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        hint = _of_group(hints[name])
        if hint is not None:
            optional = parameter.default is not NEEDED
            for inner in group_settings(hint).values():
                default = None if optional and inner.needed else inner.default
                settings[inner.name] = Setting(inner.name, inner.kind, inner.help, default, inner.hint, name)
        elif _kind(hints[name]) is not None:
            settings[name] = _setting(name, hints[name], parameter.default)
    return settings


def _of_group(hint: Any) -> type | None:
    """The group in a type, None without one."""
    members = get_args(hint) if get_origin(hint) in (UnionType, Union) else (hint,)
    return next((member for member in members if is_group(member)), None)


def _parts(hint: Any) -> tuple[Hint, list[object]]:
    """A type and all of its annotations, those of union members included."""
    if get_origin(hint) is Annotated:
        inner, *said = get_args(hint)
        plain, more = _parts(inner)
        return plain, [*more, *said]
    if get_origin(hint) in (UnionType, Union):
        members = [_parts(member) for member in get_args(hint) if member is not NoneType]
        plain = members[0][0]
        return plain, [note for _, notes in members for note in notes]
    return hint, []


def _kind(hint: Hint) -> ValueKind | None:
    return next((note for note in _parts(hint)[1] if isinstance(note, ValueKind)), None)


def _setting(name: str, hint: Hint, default: Given) -> Setting:
    plain, notes = _parts(hint)
    kind = next((note for note in notes if isinstance(note, ValueKind)), text_kind())
    help = next((note for note in reversed(notes) if isinstance(note, str)), "")
    return Setting(name, kind, help, default, plain)


@cache
def declaration_of(function: Function) -> Declaration:
    """The declaration of a question, from its signature."""
    plain = inspect.unwrap(function)
    hints = get_type_hints(plain, include_extras=True)
    every = inspect.signature(plain).parameters
    parameters = {name: parameter for name, parameter in every.items() if parameter.kind != parameter.VAR_KEYWORD}
    groups = {name: hint for name in parameters if (hint := _of_group(hints[name])) is not None}
    settings = {**_declared(plain), **getattr(plain, "__settings_beside__", {})}
    former: Mapping[str, str] = getattr(plain, "__former_names__", OLD_NAMES)
    renamed = {old: new for old, new in former.items() if old not in parameters and new in {*settings, *parameters}}
    return Declaration(plain.__name__, settings, parameters, groups, renamed, plain)


def question_settings(function: Function) -> Mapping[str, Setting]:
    """The settings of a question by name, in the order of its signature."""
    return declaration_of(function).settings


def is_question(value: object) -> bool:
    """Whether a value is a question."""
    return getattr(value, "__declares_settings__", False)


def makes_grids(function: Function) -> bool:
    """Whether a question is evaluated for every combination of lists among its settings."""
    return getattr(function, "__makes_grids__", False)


Over = Callable[[Function, Settings, tuple[str, ...]], Given]
"""Evaluates a question for every combination of lists among its settings, given the names of those that vary."""


def question(
    over: Over | None = None, *, former: Mapping[str, str] = OLD_NAMES,
    beside: Mapping[str, Setting] = MappingProxyType({}),
) -> Callable[[Function], Function]:  # fmt: skip
    """Make a function a question, callable with groups or with flat settings.

    `over`: handles lists of varying settings. `former`: former → current names of settings, accepted for one release.
    `beside`: settings of other questions, taken as extra keywords. The function itself is called with groups.
    """

    def declared_by(function: Function) -> Function:
        vars(function).update(__former_names__=former, __settings_beside__=beside)

        @wraps(function)
        def asked(*args: Given, **given: Given) -> Given:
            declared = declaration_of(function)
            flat = flattened(declared, args, given)

            def one(**settings: Given) -> Given:
                return function(**arguments_of(declared, settings))

            return one(**flat) if over is None else over(one, flat, declared.varied)

        asked.__declares_settings__ = True  # type: ignore[attr-defined]
        asked.__makes_grids__ = over is not None  # type: ignore[attr-defined]
        return asked

    return declared_by


def flattened(declared: Declaration, args: tuple[Given, ...], given: Settings) -> dict[str, Given]:
    """The settings of a call, all flat; other parameters under their own names.

    Raises TypeError for unknown names, and InputError for a setting given twice.
    """
    parameters, settings = declared.parameters, declared.settings
    if len(args) > len(parameters):
        raise TypeError(f"{declared.name}() takes at most {len(parameters)} arguments, got {len(args)}")
    flat: dict[str, Given] = {}
    for name, value in (*zip(parameters, args, strict=False), *given.items()):
        new = declared.renamed.get(name, name)
        if new != name and name not in settings:
            deprecated(name, new)
        kind = declared.groups.get(new)
        if kind is not None and (isinstance(value, kind) or (is_group(type(value)) and issubclass(kind, type(value)))):
            parts = ungrouped(value, kind)
        elif new in settings or (kind is None and new in parameters):
            parts = {new: value}
        elif kind is None:
            raise _unknown(declared, new)
        elif value is None:
            parts = {}
        else:
            raise InputError(new, value, f"a {kind.__name__}({', '.join(f'{n}=…' for n in group_settings(kind))})")
        for part, content in parts.items():
            if part in flat:
                raise InputError(part, content, "to be given once")
            flat[part] = content
    for fully in declared.completed_by:
        flat = fully(flat)
    return flat


def _unknown(declared: Declaration, name: str) -> TypeError:
    near = ", ".join(nearest(name, [*declared.settings, *(p for p in declared.parameters if p not in declared.groups)]))
    hint = f"; nearest: {near}" if near else ""
    return TypeError(f"{declared.name}() has no setting {name!r}{hint}")


def ungrouped(value: Given, kind: type) -> dict[str, Given]:
    """The settings in a group, without those at their defaults.

    The group as a whole, if its fields are not all settings.
    """
    if hasattr(kind, "asked") or not {f.name for f in fields(value)} <= group_settings(kind).keys():
        return {WHOLE + kind.__name__: value}
    return {f.name: own for f in fields(value) if (own := getattr(value, f.name)) is not f.default}


WHOLE = "whole "
"""Prefix of the name of a group that is passed as a whole."""


def arguments_of(declared: Declaration, flat: Settings) -> dict[str, Given]:
    """The arguments of a question's function: settings assembled into groups, each checked by its kind.

    Raises TypeError for a missing setting, and InputError for an invalid one or one that requires another.
    """
    grouped: dict[str, dict[str, Given]] = {parameter: {} for parameter in declared.groups}
    alone, arguments = dict[str, Given](), dict[str, Given]()
    for name, value in flat.items():
        setting = declared.settings.get(name)
        if setting is None or not setting.parameter:
            alone[name] = value
        elif value is not None:
            grouped[setting.parameter][name] = value
    for parameter, kind in declared.groups.items():
        whole, own = alone.pop(WHOLE + kind.__name__, None), grouped[parameter]
        if whole is not None:
            if own:
                raise InputError(*next(iter(own.items())), f"nothing beside a {kind.__name__}")
            arguments[parameter] = whole
        elif own or declared.parameters[parameter].default is NEEDED:
            make, needed = _maker(kind)
            missing = [name for name in needed if name not in own]
            if missing and declared.parameters[parameter].default is not NEEDED:
                raise InputError(*next(iter(own.items())), f"{' and '.join(f'`{n}`' for n in missing)} as well")
            if missing:
                raise TypeError(f"{declared.name}() needs {' and '.join(missing)}")
            arguments[parameter] = make(**own)
    for name, value in alone.items():
        setting = None if value is None else declared.settings.get(name)
        arguments[name] = value if setting is None or is_list(setting, value) else setting.kind.check(name, value)
    return arguments
