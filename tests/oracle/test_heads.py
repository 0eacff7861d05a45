"""Base models and classifiers have the parameters of the real code, to the digit."""

from typing import Any

import pytest

import roofline as rl
from oracle import cases

pytestmark = pytest.mark.oracle

TASKS = ("SEQUENCE_CLASSIFICATION", "TOKEN_CLASSIFICATION", "QUESTION_ANSWERING")
APART = {
    "modernbert-decoder": "its classifier stands behind a layer of its own",
    "gptj": "its answers' head has num_labels outputs",
}

SEEING = {
    "phi4_multimodal": "its base sees and hears",
    "chameleon": "its base holds the coder of images",
    "git": "its base sees",
    "voxtral_realtime_text": "its base has no name in the package",
    "longcat_flash": "its class makes up-projections for experts that do nothing, which no checkpoint holds",
}


def parameters(config: dict[str, Any], name: str) -> int:
    import torch
    import transformers

    settings = {key: value for key, value in config.items() if key != "model_type"}
    with torch.device("meta"):
        model = getattr(transformers, name)(transformers.AutoConfig.for_model(config["model_type"], **settings))
    return sum(weight.numel() for weight in model.parameters())


@pytest.mark.parametrize("labels", [1, 5])
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("model_type", [name for name in cases.CASES if name not in APART])
def test_classifiers(model_type: str, task: str, labels: int) -> None:
    auto = pytest.importorskip("transformers.models.auto.modeling_auto")
    name = getattr(auto, f"MODEL_FOR_{task}_MAPPING_NAMES").get(model_type)
    if name is None:
        pytest.skip("the real code has none")
    named = {str(i): f"LABEL_{i}" for i in range(labels)}
    config = {**cases.base(model_type), "id2label": named, "label2id": {v: int(k) for k, v in named.items()}}
    assert rl.load({**config, "architectures": [name]}).parameters == parameters(config, name)


@pytest.mark.parametrize("model_type", [name for name in cases.CASES if name not in APART | SEEING])
def test_base_models(model_type: str) -> None:
    auto = pytest.importorskip("transformers.models.auto.modeling_auto")
    name = auto.MODEL_MAPPING_NAMES.get(model_type)
    if not isinstance(name, str) or "For" in name:
        pytest.skip("the real code has none")
    config = cases.base(model_type)
    assert rl.load({**config, "architectures": [name]}).parameters == parameters(config, name)
