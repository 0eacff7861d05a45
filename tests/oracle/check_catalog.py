"""Build every model of the catalog on torch's meta device and compare its parameters with the index.

Run it with the oracle extra installed: `python tests/oracle/check_catalog.py [ID …]`. It prints what differs and exits
with 1 if anything does. Buffers and MTP layers are not counted, a tied head is counted once.
"""

import json
import sys
from pathlib import Path
from typing import Any

CATALOG = Path(__file__).parents[2] / "src" / "roofline" / "model" / "catalog"
FIELDS = {"parameters", "published", "active", "source", "scope"}
SCOPES = {"all"}
SAME_CODE = {"kimi_k2": "deepseek_v3"}  # types that transformers does not know, and the type whose code they copy


def built(config: dict[str, Any]) -> int:
    """Parameters of the model that `config` describes, towers included."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText

    values = {key: value for key, value in config.items() if key not in ("quantization_config", "auto_map")}
    kind = values.pop("model_type")
    whole = AutoConfig.for_model(SAME_CODE.get(kind, kind), **values)
    auto = AutoModelForImageTextToText if "text_config" in values else AutoModelForCausalLM
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device("meta"):
            model = auto.from_config(whole)
    finally:
        torch.set_default_dtype(before)
    return sum(weight.numel() for weight in model.parameters())


def differences(name: str, entry: dict[str, Any]) -> list[str]:
    """What is wrong with one entry of the index; empty if nothing is."""
    wrong = []
    if set(entry) != FIELDS:
        wrong.append(f"fields {sorted(entry)}, expected {sorted(FIELDS)}")
    if entry.get("scope") not in SCOPES:
        wrong.append(f"scope {entry.get('scope')!r}, expected one of {sorted(SCOPES)}")
    path = CATALOG / f"{name}.json"
    if not path.is_file():
        return [*wrong, "no config file"]
    config = json.loads(path.read_text(encoding="utf-8"))
    try:
        count = built(config)
    except Exception as error:  # the code of any architecture may raise anything: report it and go on
        return [*wrong, f"cannot be built: {type(error).__name__}: {error}"]
    if count != entry.get("parameters"):
        wrong.append(f"{count:,} parameters built, {entry.get('parameters'):,} in the index")
    return wrong


def main(names: list[str]) -> int:
    """Check the named models, or all of them, and report."""
    index: dict[str, dict[str, Any]] = json.loads((CATALOG / "index.json").read_text(encoding="utf-8"))
    files = {path.relative_to(CATALOG).with_suffix("").as_posix() for path in CATALOG.glob("*/*.json")}
    found = {name: ["config file without an entry in the index"] for name in files - set(index)}
    for name in names or index:
        if name not in index:
            found[name] = ["not in the index"]
        elif wrong := differences(name, index[name]):
            found[name] = wrong
    for name, wrong in sorted(found.items()):
        for line in wrong:
            print(f"{name}: {line}")
    print(f"{len(names or index)} checked, {len(found)} differ", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    from transformers.utils import logging

    logging.set_verbosity_error()
    raise SystemExit(main(sys.argv[1:]))
