"""Fills in what follows from the configs of the catalog: each model's type and its exact parameters, all and active.

`python benchmarks/catalog_index.py`, after a config and its entry (`published`, `active`, `source`, `scope`) came in.
"""

from __future__ import annotations

import json

from roofline.model.families import build
from roofline.model.load import CATALOG
from roofline.model.sources.untrusted import read_config

INDEX = CATALOG / "index.json"


def main() -> None:
    """Writes the index anew, in the order of the ids."""
    entries = json.loads(INDEX.read_text("utf-8"))
    filled = {}
    for name in sorted(entries, key=str.lower):
        model = build(read_config(CATALOG / f"{name}.json"), name)
        exact = {
            "model_type": model.model_type,
            "parameters": model.parameters,
            "active_parameters": model.active_parameters,
        }
        filled[name] = {**exact, **{key: value for key, value in entries[name].items() if key not in exact}}
    INDEX.write_text(json.dumps(filled, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
