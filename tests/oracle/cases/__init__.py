"""How the configs of each model type may vary, as data: see `axes` for what a case is."""

from collections.abc import Iterable, Iterator
from copy import deepcopy
from typing import Any

from hypothesis import strategies as st

from oracle.cases import dense, experts, latent, later, layers, multimodal, states, variations
from oracle.cases.axes import ABSENT, Case

_FILES = (dense, experts, latent, multimodal, states, layers, variations, later)
CASES: dict[str, Case] = {name: case for file in _FILES for name, case in file.CASES.items()}

# Wrappers around a text model: a `text_config` inside.
WRAPPERS = {"llama4": "llama4_text", "gemma3": "gemma3_text", "mllama": "mllama_text_model"}

TYPES = sorted([*CASES, *WRAPPERS])

# Families without a case: the type whose builder they share, and why the real code cannot be asked about them.
WITHOUT_CASE = {
    "RefinedWeb": ("falcon", "Falcon 40B's type before transformers had it: the code came with the checkpoint"),
    "RefinedWebModel": ("falcon", "Falcon 7B's type before transformers had it: the code came with the checkpoint"),
    "dots3_note": ("dots3_note_text", "the whole, which published configs describe with the text's keys beside it"),
    "gpt_neox_reward_model": (
        "gpt_neox",
        "a type of Open Assistant's code, which differs by its head",
    ),
    "joyai_llm_flash": ("deepseek_v3", "the code comes with the checkpoint; mlx-lm reads the type as DeepSeek-V3"),
    "kimi_k2": ("deepseek_v3", "the code comes with the checkpoint; the catalog holds Kimi K2's published total"),
    "mimo_v2": ("mimo_v2_flash", "the code comes with the checkpoint; test_published_tensors.py has its bytes"),
    "telechat3": ("llama", "the code comes with the checkpoint; mlx-lm's telechat3.py is Llama"),
    "youtu_llm": ("youtu", "the type's name in mlx-lm"),
}
# Families whose code comes with the checkpoint: the file of tests/model that compares a published one of the type.
ELSEWHERE = {
    "cogvlm": "test_remote_towers.py", "ernie4_5_moe_vl": "index_corpus.json",
    "deepseek_v41_text": "test_deepseek_v41.py",
    "gigachat3_5": "test_gigachat.py",
    "internlmxcomposer2": "index_corpus.json", "minicpmo": "test_remote_towers.py",
    "minicpmv": "test_remote_towers.py", "molmo": "test_remote_towers.py", "phi4mm": "test_remote_towers.py",
    "plamo3": "test_served_dense.py", "spark2_5": "test_served_dense.py",
    "stablelm_epoch": "index_corpus.json", "unlimited_ocr_text": "test_unlimited_ocr.py",
}  # fmt: skip


def base(model_type: str) -> dict[str, Any]:
    """The config of that type from which the others vary."""
    if model_type in WRAPPERS:
        return _wrap(model_type, base(WRAPPERS[model_type]))
    return {"model_type": model_type, **deepcopy(CASES[model_type].base)}  # the real code writes into what it reads


def one_by_one(model_type: str) -> Iterator[dict[str, Any]]:
    """The base config, then one config for each other value of each axis, the rest as in the base."""
    if model_type in WRAPPERS:
        yield from (_wrap(model_type, config) for config in one_by_one(WRAPPERS[model_type]))
        return
    yield base(model_type)
    for keys, values in CASES[model_type].axes.items():
        varied = (_vary(base(model_type), [(keys, value)]) for value in values)
        yield from (config for config in varied if config != base(model_type))


def draw(model_type: str) -> st.SearchStrategy[dict[str, Any]]:
    """Configs of that type, complete as a `config.json`, that the real code accepts."""
    if model_type in WRAPPERS:
        return draw(WRAPPERS[model_type]).map(lambda config: _wrap(model_type, config))
    axes = CASES[model_type].axes
    choices = st.tuples(*(st.sampled_from(list(values)) for values in axes.values()))
    return choices.map(lambda chosen: _vary(base(model_type), zip(axes, chosen, strict=True)))


def _vary(config: dict[str, Any], chosen: Iterable[tuple[str | tuple[str, ...], Any]]) -> dict[str, Any]:
    for keys, value in chosen:
        config |= zip(keys, value, strict=True) if isinstance(keys, tuple) else {keys: value}
    return {key: value for key, value in config.items() if value is not ABSENT}


def _wrap(model_type: str, text_config: dict[str, Any]) -> dict[str, Any]:
    return {"model_type": model_type, "text_config": text_config}
