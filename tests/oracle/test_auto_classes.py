"""Every class that an Auto class of transformers or diffusers builds has the parameters of the real one."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from folded import folded
from oracle.auto_classes import classes, row_of

pytestmark = pytest.mark.oracle

APART = {
    "LongcatFlashForCausalLM": "its class makes up-projections for experts that do nothing, which no checkpoint holds",
    "LongcatFlashModel": "the same",
    "MllamaForCausalLM": "it takes the config of the text alone, and this one is the whole's",
    "PPDocLayoutV3Model": "its table of labels for training has a row more than the detector's",
    "Qwen3ASRForTokenClassification": "its scores have no bias",
}
"""Class → why its default config is counted otherwise."""
INSTALLED = find_spec("transformers") is not None and find_spec("diffusers") is not None


@folded("mapping, model_type, name", list(classes()) if INSTALLED else [("", "", "")], drawn=60)
def test_every_auto_class(mapping: str, model_type: str, name: str) -> None:
    """Exact, or refused, or with parts set aside, which it names."""
    if not name or name in APART:
        return
    row = row_of(mapping, model_type, name)
    if row.ours is not None and row.real is not None and not row.why:
        assert row.ours == row.real
