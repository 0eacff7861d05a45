"""Commands made from questions: each setting of a question is an option of the same name.

    serve = command(question, show, "…docstring…")

    @with_settings(question)
    def simulate(model: ModelArgument, /, *, out: OutFile = None, **asked: Given) -> None: ...

`command` makes a command that only prints its answer. With `with_settings`, a function receives the settings as
keyword arguments beside its own options.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce, wraps
from math import inf
from operator import or_
from typing import Annotated, Literal

from cyclopts import Parameter, Token

from roofline.declared.errors import InputError
from roofline.declared.kinds import Given, ValueKind
from roofline.declared.question import NEEDED, Function, Hint, Setting, Settings, declaration_of, question_settings
from roofline.doors.cli.common import Headers, ModelArgument, Revision, TextOnly, Wide
from roofline.views.text.tables import all_columns

KEYWORD = inspect.Parameter.KEYWORD_ONLY
WHAT_IS_LEFT = inspect.Parameter.VAR_KEYWORD


def command(question: Function, show: Callable[..., None], about: str) -> Callable[..., None]:
    """Create the command of a question about a model; `show` prints its answer.

    `about`: the help text, with an example. Parameters of `show` after the first become further options, such as
    `--json`.
    """
    own = list(inspect.signature(show, eval_str=True).parameters.values())[1:]

    def run(
        model: ModelArgument, /, *, revision: Revision = None, headers: Headers = False, text_only: TextOnly = False,
        **given: Given,
    ) -> None:  # fmt: skip
        from roofline.model.load import load

        shown = {p.name: given.pop(p.name) for p in own if p.name in given}
        with in_options(question_settings(question)):
            answer = question(load(model, revision=revision, headers=headers, text_only=text_only), **given)
        show(answer, **shown)

    run.__name__ = run.__qualname__ = declaration_of(question).name
    run.__doc__ = about
    complete = with_settings(question)(run)
    parts = inspect.signature(complete).parameters.values()
    return _with_parameters(complete, (*parts, *own))


def with_settings(
    question: Function | Mapping[str, Setting], *, several: Sequence[str] = (), optional: Sequence[str] = ()
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorator that adds the settings of a question (or a mapping of settings) as options, passed in `**kwargs`.

    `several`: settings that accept lists. `optional`: required settings that the command may omit. A parameter of the
    function replaces the setting of the same name.
    """
    settings = question if isinstance(question, Mapping) else question_settings(question)

    def with_options(function: Callable[..., None]) -> Callable[..., None]:
        own = [p for p in inspect.signature(function, eval_str=True).parameters.values() if p.kind != WHAT_IS_LEFT]
        first = [p for p in own if p.kind != KEYWORD]
        named = {p.name for p in own}
        options = [option(s, s.name in several or s.kind.several, s.name in optional) for s in settings.values()
                   if s.name not in named]  # fmt: skip

        @wraps(function)
        def run(*args: Given, **given: Given) -> None:
            with in_options(settings):
                function(*args, **given)

        return _with_parameters(run, (*first, *options, *(p for p in own if p.kind == KEYWORD)))

    return with_options


def with_tables(function: Callable[..., None]) -> Callable[..., None]:
    """Decorator of a command that prints tables: it has `--wide`."""
    parts = inspect.signature(function, eval_str=True).parameters.values()

    @wraps(function)
    def run(*args: Given, wide: bool = False, **given: Given) -> None:
        with all_columns(wide):
            function(*args, **given)

    return _with_parameters(run, (*parts, inspect.Parameter("wide", KEYWORD, default=False, annotation=Wide)))


def _with_parameters(run: Callable[..., None], parameters: Sequence[inspect.Parameter]) -> Callable[..., None]:
    """The function, which Cyclopts takes to have these parameters."""
    run.__annotations__ = {}  # Cyclopts reads the annotations of __signature__
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


# -- errors --------------------------------------------------------------------------------------------------------
@contextmanager
def in_options(settings: Container[str]) -> Iterator[None]:
    """Context in which errors name settings as command-line options."""
    try:
        yield
    except InputError as error:
        names = error.field.split(" and ")
        if not all(name in settings for name in names):
            raise
        expected = re.sub(r"`([a-z_]+)`|\b([a-z]+(?:_[a-z]+)+)\b", lambda m: _option_of(m, settings), error.expected)
        field = " and ".join(map(option_name, names))
        raise InputError(field, error.value, expected, error.nearest) from error


def _option_of(word: re.Match[str], settings: Container[str]) -> str:
    name = word[1] or word[2]
    return option_name(name) if name in settings else word[0]


# -- options -------------------------------------------------------------------------------------------------------
def option_name(name: str) -> str:
    """The option name of a setting.

    >>> option_name("output_tokens")
    '--output-tokens'
    """
    return f"--{name.replace('_', '-')}"


def option(setting: Setting, several: bool = False, optional: bool = False) -> inspect.Parameter:
    """The function parameter from which Cyclopts makes a setting's option."""
    unlimited = optional or setting.default == inf
    default = None if unlimited else inspect.Parameter.empty if setting.default is NEEDED else setting.default
    return inspect.Parameter(setting.name, KEYWORD, default=default, annotation=annotation(setting, several, default))


def annotation(setting: Setting, several: bool, default: object) -> object:
    """The annotated type of an option, with its help text and converter."""
    kind, optional = setting.kind, default is None
    if bool in kind.json:
        negative = f"--no-{setting.name.replace('_', '-')}" if optional or default is True else ""
        said = Parameter(help=setting.help, negative=negative, show_default=False)
        return Annotated[bool | None if optional else bool, said]
    if several:
        whole = kind.several and int in kind.json
        hint: Hint = list[int] if whole else list[str]
        converter = _list_reader(kind) if whole else None
        said = Parameter(help=setting.help, consume_multiple=True, negative="", converter=converter)
        return Annotated[hint | None if optional else hint, said]
    plain: Hint = Literal[kind.words] if kind.words else kind.json[0]
    converter = None if kind.words or kind.json[0] is str else _reader(kind)
    if converter is not None:
        plain = reduce(or_, kind.json)  # the converter may return any of these types
    return Annotated[plain | None if optional else plain, Parameter(help=setting.help, converter=converter)]


def _reader(kind: ValueKind) -> Callable[[Hint, Sequence[Token]], Given]:
    def read(type_: Hint, tokens: Sequence[Token]) -> Given:
        del type_
        if len(tokens) != 1:
            raise InputError(tokens[0].keyword or "value", " ".join(t.value for t in tokens), "one value")
        return kind.read(tokens[0].keyword or "value", tokens[0].value)

    return read


def _list_reader(kind: ValueKind) -> Callable[[Hint, Sequence[Token]], Given]:
    def read(type_: Hint, tokens: Sequence[Token]) -> Given:
        del type_
        name = tokens[0].keyword or "value"
        values = [kind.read(name, token.value) for token in tokens]
        kind.check(name, values)
        return values

    return read


def options_given(given: Settings) -> dict[str, Given]:
    """Options with a value other than None."""
    return {name: value for name, value in given.items() if value is not None}
