"""What the config classes of transformers 5.23 take where a config.json leaves a key out: the table the package reads.

Of each type of transformers, the fields as the class declares them: a value is a
constant of the class; null is what the class works out from other keys, or nothing. To write the table anew, run
`python -m oracle.class_defaults` in the folder `tests`.
"""

import json
from collections.abc import Iterator
from dataclasses import MISSING, fields
from typing import Any

from roofline.model.configs.class_defaults import FILE

NOT_FIELDS = ("model_type", "transformers_version", "output_attentions")


def lines() -> Iterator[str]:
    """The table's lines: a type, its values, its other names for keys, and the classes of its parts."""
    yield from (f"{json.dumps(name)}: {json.dumps(of_class(name), sort_keys=True)}" for name in sorted(types()))


def text() -> str:
    """The whole table, a line for each type."""
    return "{\n" + ",\n".join(lines()) + "\n}\n"


def types() -> set[str]:
    """The types that transformers has."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    return set(CONFIG_MAPPING_NAMES)


def of_class(name: str) -> dict[str, Any]:
    """One type's entry of the table."""
    from transformers import CONFIG_MAPPING, PreTrainedConfig
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    kind = CONFIG_MAPPING[name]
    common = {f.name for f in fields(PreTrainedConfig)} - {"tie_word_embeddings"}
    declared = {f.name: _declared(f) for f in fields(kind)}
    worked_out = dict.fromkeys(key for key in _by_default(kind) if not key.startswith("_"))
    values = {key: value for key, value in (worked_out | declared).items() if key not in {*common, *NOT_FIELDS}}
    parts = {key: _part(spec) for key, spec in kind.sub_configs_defaults.items()}
    parts = {key: part for key, part in parts.items() if part["type"] in CONFIG_MAPPING}
    aliases = {alias: key for alias, key in kind.attribute_map.items() if {alias, key} & values.keys()}
    values = {key: value for key, value in values.items() if key not in parts}
    bases = MODEL_MAPPING_NAMES.get(name, ())
    bases = [base for base in ([bases] if isinstance(bases, str) else bases) if "For" not in base]
    entry = {"values": values, "aliases": aliases, "parts": parts, "bases": bases}
    return {key: value for key, value in entry.items() if value}


def _declared(field: Any) -> Any:
    if field.default is not MISSING:
        return field.default
    return None if field.default_factory is MISSING else field.default_factory()


def _by_default(kind: Any) -> dict[str, Any]:
    """What a class says of itself without any key; nothing where its own defaults contradict each other."""
    try:
        said: dict[str, Any] = kind().to_dict()
    except Exception:  # classes raise errors of several libraries
        return {}
    return said


def _part(spec: Any) -> dict[str, Any]:
    """The class of a part, whether it is that one whatever the part says, and what it has where the part is missing."""
    from transformers import PreTrainedConfig

    fixed = issubclass(spec.config_class, PreTrainedConfig)
    values = {key: value for key, value in spec.init_kwargs.items() if key != "model_type"}
    part = {"type": spec.config_class.model_type if fixed else spec.model_type, "fixed": fixed, "values": values}
    return {key: value for key, value in part.items() if value != {}}


if __name__ == "__main__":
    FILE.write_text(text(), "utf-8")
