"""Commands made from questions: each setting of a question is an option of the same name.

    serve = command(question, show, "…docstring…")

`show` prints the answer and exits; its own parameters behind the answer are options that are not settings, such as
`json`. What the command says of a model, its revision and where its weights' formats come from are options of all.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Container, Sequence
from typing import Annotated, Any, Literal

from cyclopts import Parameter, Token

from roofline.cli.common import Headers, ModelArgument, Revision
from roofline.declared.errors import InputError
from roofline.declared.kinds import ValueKind
from roofline.declared.question import NEEDED, Setting, declaration_of, question_settings

KEYWORD, POSITIONAL = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_ONLY


def option_name(name: str) -> str:
    """A setting as an option.

    >>> option_name("output_tokens")
    '--output-tokens'
    """
    return f"--{name.replace('_', '-')}"


def command(
    question: Callable[..., Any], show: Callable[..., None], about: str, *, several: Sequence[str] = (),
    without: Sequence[str] = (),
) -> Callable[..., None]:  # fmt: skip
    """The command of a question about a model, whose answer `show` prints.

    `about`: what help says, with an example. `several`: settings of which the command takes lists. `without`: those
    that it does not take, since it asks for them otherwise.
    """
    settings = {name: s for name, s in question_settings(question).items() if name not in without}
    own = list(inspect.signature(show, eval_str=True).parameters.values())[1:]

    def run(model: str, /, **given: Any) -> None:
        from roofline.model.load import load

        asked = {name: given.pop(name) for name in settings if name in given}
        shown = {p.name: given.pop(p.name) for p in own if p.name in given}
        built = load(model, **given)
        try:
            answer = question(built, **asked)
        except InputError as error:
            raise in_options(error, settings) from error
        show(answer, **shown)

    run.__name__ = run.__qualname__ = declaration_of(question).name
    run.__doc__ = about
    run.__annotations__ = {}  # those of the signature count
    run.__signature__ = inspect.Signature([  # type: ignore[attr-defined]
        inspect.Parameter("model", POSITIONAL, annotation=ModelArgument),
        *(option(s, name in several) for name, s in settings.items()),
        inspect.Parameter("revision", KEYWORD, default=None, annotation=Revision),
        inspect.Parameter("headers", KEYWORD, default=False, annotation=Headers),
        *(p.replace(kind=KEYWORD) for p in own),
    ])  # fmt: skip
    return run


def in_options(error: InputError, settings: Container[str]) -> InputError:
    """The error with settings named as options."""
    names = error.field.split(" and ")
    if not all(name in settings for name in names):
        return error
    expected = re.sub(r"\b[a-z]+(?:_[a-z]+)+\b", lambda word: option_of(word[0], settings), error.expected)
    return InputError(" and ".join(map(option_name, names)), error.value, expected, error.nearest)


def option_of(word: str, settings: Container[str]) -> str:
    """A word of a message, which may be a setting's name."""
    return option_name(word) if word in settings else word


def option(setting: Setting, several: bool = False, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    """A setting as a parameter that Cyclopts makes an option of."""
    if default is inspect.Parameter.empty:
        default = setting.default if setting.default is not NEEDED else inspect.Parameter.empty
    return inspect.Parameter(setting.name, KEYWORD, default=default, annotation=annotation(setting, several))


def annotation(setting: Setting, several: bool = False) -> object:
    """The type of an option, with its help and how its words are read."""
    kind, optional = setting.kind, setting.default is None
    if bool in kind.json:
        negative = f"--no-{setting.name.replace('_', '-')}" if optional else ""
        said = Parameter(help=setting.help, negative=negative, show_default=False)
        return Annotated[bool | None if optional else bool, said]
    if several:
        return Annotated[list[str] | None, Parameter(help=setting.help, consume_multiple=True, negative="")]
    plain: Any = Literal[kind.words] if kind.words else kind.json[0]
    converter = None if kind.words or kind.json == (str,) else _reader(kind)
    return Annotated[plain | None if optional else plain, Parameter(help=setting.help, converter=converter)]


def _reader(kind: ValueKind) -> Callable[[Any, Sequence[Token]], Any]:
    def read(type_: Any, tokens: Sequence[Token]) -> Any:
        del type_
        if len(tokens) != 1:
            raise InputError(tokens[0].keyword or "value", " ".join(t.value for t in tokens), "one value")
        return kind.read(tokens[0].keyword or "value", tokens[0].value)

    return read
