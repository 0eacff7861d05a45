"""Reference page of settings: a table for each group and each question, generated from the declarations.

`python -m roofline.views.reference.settings` prints docs/settings.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import inf

import roofline
from roofline.declared.question import Function, Setting, declaration_of, group_settings, is_question

HEAD = """# Settings

What each question is asked. A setting has one name at every door. The option `--output-tokens` of a command is the
argument `output_tokens` of the library, and the field of that name of the API and of agents' tools. Settings that
several questions share stand in groups. The library takes a group flat or as one value, as in
`rl.serve(model, rl.Where(on="h100-sxm"), rl.Load(1024, 256, concurrency=32))`. Numbers may be written `4k` (4,000) or
`4Ki` (4,096), and times `300ms`. This page is made from the code.
"""
COLUMNS = "| setting | unit | default | meaning |\n|---|---|---|---|\n"


def questions() -> Iterator[tuple[str, Function]]:
    """The library's questions by name, sorted."""
    for name in sorted(roofline.__all__):
        function = getattr(roofline, name)
        if is_question(function):
            yield name, function


def row(setting: Setting) -> str:
    """A setting as a table row."""
    default = "needed" if setting.needed else "" if setting.default in (None, False, inf) else f"`{setting.default}`"
    words = " ".join(setting.help.replace("|", "\\|").split())
    return f"| `{setting.name}` | {setting.kind.unit} | {default} | {words} |"


def table(settings: Iterable[Setting]) -> str:
    """A table of settings; empty if there are none."""
    rows = "\n".join(map(row, settings))
    return f"\n{COLUMNS}{rows}\n" if rows else ""


def settings_page() -> str:
    """The page in Markdown: groups first, then each question with its groups and its own settings."""
    named = dict(questions())
    groups = {kind.__name__: kind for f in named.values() for kind in declaration_of(f).groups.values()}
    parts = [HEAD, "## Groups\n"]
    for name, kind in sorted(groups.items()):
        parts.append(f"### {name}\n\n{_about(kind)}\n{table(group_settings(kind).values())}")
    parts.append("## Questions\n")
    for name, function in named.items():
        declared = declaration_of(function)
        shared = ", ".join(f"[{g.__name__}](#{g.__name__.lower()})" for g in dict.fromkeys(declared.groups.values()))
        asked = f"\nGroups: {shared}.\n" if shared else ""
        own = (setting for setting in declared.settings.values() if not setting.parameter)
        parts.append(f"### {name}\n\n{_about(function)}\n{asked}{table(own)}")
    return "\n".join(parts)


def _about(documented: object) -> str:
    """The first sentence of a docstring."""
    return (documented.__doc__ or "").strip().splitlines()[0]


if __name__ == "__main__":
    print(settings_page(), end="")
