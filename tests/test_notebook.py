"""The notebook of the documentation: it runs, and its outputs are those it shows."""

from __future__ import annotations

import base64

import roofline as rl
from documented import NOTEBOOK, executed, stored, texts


def test_the_notebook_runs_and_shows_what_comes_out() -> None:
    assert texts(executed(NOTEBOOK)) == texts(stored(NOTEBOOK))


def test_a_model_shows_its_sizes_as_a_table() -> None:
    shown = rl.load("meta-llama/Llama-3.1-8B")._repr_html_()
    for figure in ("8,030,261,248", "16,060,522,496 B (bf16)", "131,072 B for one token", "32, 4,096, 128,256"):
        assert f"<td>{figure}</td>" in shown


def test_a_picture_shows_as_an_image_with_words_beside_it() -> None:
    shown = rl.plot("meta-llama/Llama-3.1-8B", on="h100-sxm")._repr_html_()
    address, _, rest = shown.removeprefix('<img src="data:image/svg+xml;base64,').partition('"')
    assert base64.b64decode(address).lstrip().startswith(b"<?xml")
    assert 'alt="kind roofline; title meta-llama/Llama-3.1-8B' in rest


def test_names_of_a_config_are_inert_in_a_notebook() -> None:
    config = {"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "vocab_size": 100,
              "num_hidden_layers": 2, "num_attention_heads": 4, "_name_or_path": "<b>name</b>"}  # fmt: skip
    assert "<b>" not in rl.load(config)._repr_html_()
