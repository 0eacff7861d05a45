"""Encoders of text, encoder-decoders and speech: parameters and FLOPs of the real classes, to the digit.

`nondecoder/text.json`: config, parameters and FLOPs of steps by transformers 5.23 on torch's meta device.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import roofline as rl
from folded import folded
from nondecoder import score
from roofline.model.configs.config import Inputs
from roofline.model.modules import DISTANCES
from roofline.work.lower import fed, lower
from roofline.work.ops import Attend
from roofline.work.step import read_whole

DATA = json.loads(Path(__file__).with_name("nondecoder").joinpath("text.json").read_text())
CASES: dict[str, dict[str, Any]] = {case["id"]: case for case in DATA["cases"]}
BASE = {
    "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072,
    "max_position_embeddings": 512, "type_vocab_size": 2, "vocab_size": 30_522,
}  # fmt: skip
SMALL = {**BASE, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}


@folded("name", CASES)
def test_cases_are_exact(name: str) -> None:
    told = score(CASES[name])
    assert (told.refused, told.parameters, dict(told.flops)) == ("", 0, dict.fromkeys(dict(told.flops), 0))


@folded("name", CASES)
def test_no_key_of_a_published_config_is_unknown(name: str) -> None:
    warnings = rl.load(CASES[name]["config"]).warnings
    assert not [text for text in warnings if "not understood" in text or "was not counted" in text]


# -- published models ----------------------------------------------------------------------------------------------
T5 = {
    "model_type": "t5", "d_model": 768, "d_kv": 64, "num_heads": 12, "num_layers": 12, "vocab_size": 32_128,
    "architectures": ["T5ForConditionalGeneration"],
}  # fmt: skip
ESM = {
    "model_type": "esm", "hidden_size": 1280, "num_hidden_layers": 33, "num_attention_heads": 20, "vocab_size": 33,
    "intermediate_size": 5120, "max_position_embeddings": 1026, "position_embedding_type": "rotary",
    "architectures": ["EsmForMaskedLM"],
}  # fmt: skip
ROBERTA = {**BASE, "vocab_size": 50_265, "max_position_embeddings": 514, "type_vocab_size": 1}


@pytest.mark.parametrize(
    ("config", "parameters"),
    [
        ({"model_type": "bert", **BASE, "architectures": ["BertModel"]}, 109_482_240),
        ({"model_type": "roberta", **ROBERTA, "architectures": ["RobertaModel"]}, 124_645_632),
        ({**T5, "d_ff": 3072, "feed_forward_proj": "relu"}, 222_903_552),
        ({**T5, "d_ff": 2048, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}, 247_577_856),  # Flan-T5
        (ESM, 651_043_254),
    ],
)
def test_published_totals(config: dict[str, Any], parameters: int) -> None:
    assert rl.load(config).parameters == parameters


# -- by hand -------------------------------------------------------------------------------------------------------
def test_a_layer_of_bert_by_hand() -> None:
    """24·T·d² of the products and 4·T²·d of the attention, for each layer; the pooler reads one token of each text."""
    model, tokens, width = rl.load({"model_type": "bert", **BASE, "architectures": ["BertModel"]}), 100, 768
    layers = 12 * (24 * tokens * width**2 + 4 * tokens**2 * width)
    ours = rl.analyze(model, read_whole(3, tokens), counting="torch").flops
    assert ours == 3 * (layers + 2 * width**2)


def test_distances_are_projected_once_a_pass() -> None:
    """DeBERTa's 2·T vectors of distances are common to the texts of a batch."""
    config = {"model_type": "deberta", **SMALL, "relative_attention": True, "pos_att_type": ["c2p"]}
    model, tokens, width = rl.load({**config, "architectures": ["DebertaModel"]}), 50, 64
    one, two = (rl.analyze(model, read_whole(n, tokens), counting="torch").flops for n in (1, 2))
    assert 2 * one - two == 2 * (2 * 2 * tokens * width**2)  # two layers, 2·T positions, a product of width by width
    assert fed(model, read_whole(2, tokens)).of(DISTANCES).new_tokens == 2 * tokens


def test_a_window_on_either_side_by_hand() -> None:
    """ModernBERT's windowed layers: a token sees 64 before it and 64 behind it."""
    config = {"model_type": "modernbert", **SMALL, "layer_types": ["full_attention", "sliding_attention"]}
    model, tokens = rl.load({**config, "local_attention": 128}), 1000
    sides = sum(min(i, 64) + min(tokens - 1 - i, 64) + 1 for i in range(tokens))
    step = read_whole(1, tokens)
    ops = {
        block.name: [op for m in block.modules for op in lower(m, step) if op.name == "attention"]
        for block in model.layers
    }
    pairs = {name: attends.pairs for name, (attends,) in ops.items() if isinstance(attends, Attend)}
    assert pairs == {"first": tokens**2, "sliding dense": sides}


def test_a_shared_layer_counts_once() -> None:
    """ALBERT's layers have the same weights: parameters do not grow with their number, work does."""
    config = {"model_type": "albert", **SMALL, "embedding_size": 32, "architectures": ["AlbertModel"]}
    two, six = (rl.load({**config, "num_hidden_layers": n}) for n in (2, 6))
    assert two.parameters == six.parameters
    flops = [rl.analyze(model, read_whole(1, 64), counting="torch").flops for model in (two, six)]
    pooler = 2 * 64**2 + 2 * 64 * 32 * 64  # and the projection of the table
    assert (flops[1] - pooler) == 3 * (flops[0] - pooler)


def test_convolutions_leave_fewer_positions() -> None:
    """wav2vec 2.0 makes one position of 320 samples: (L − 400) // 320 + 1."""
    config = next(c["config"] for c in CASES.values() if c["config"]["model_type"] == "data2vec-audio")
    for samples in (16_000, 32_123):
        assert rl.load(config, inputs=Inputs(samples=samples)).positions == (samples - 400) // 320 + 1


# -- the rest of the tool ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["published/t5-small", "published/BAAI/bge-base-en-v1.5", "data2vec-audio/default"])
def test_an_estimate_on_two_chips(name: str) -> None:
    model = rl.load(CASES[name]["config"])
    step = read_whole(512, 128) if model.steps == ("encode",) else rl.prefill(512, 128)
    one, two = (rl.estimate(model, step, on="h100-sxm", layout=f"tp={n}").time for n in (1, 2))
    assert 0 < two < one


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"model_type": "bert", **SMALL, "add_cross_attention": True}, "add_cross_attention"),
        ({"model_type": "xlm", **SMALL, "asm": True}, "asm"),
        ({"model_type": "splinter", **SMALL, "architectures": ["SplinterForQuestionAnswering"]}, "architectures"),
        ({"model_type": "speecht5", **SMALL, "architectures": ["SpeechT5Model"]}, "SpeechT5ForTextToSpeech"),
    ],
)
def test_what_a_config_does_not_decide_is_refused(config: dict[str, Any], words: str) -> None:
    with pytest.raises(rl.InputError, match=words):
        rl.load(config)


def test_text_to_speech_by_its_published_class() -> None:
    """SpeechT5 for speech: FLOPs of the real class less the convolutions that correct all frames once, at the end."""
    config = {
        "model_type": "speecht5", "hidden_size": 768, "encoder_layers": 2, "decoder_layers": 2, "vocab_size": 81,
        "architectures": ["SpeechT5ForTextToSpeech"],
    }  # fmt: skip
    model, frames = rl.load(config), 2 * 32
    assert model.parameters == 35_745_860
    corrected = 2 * frames * 5 * (80 * 256 + 3 * 256 * 256 + 256 * 80)
    ours = rl.analyze(model, rl.prefill(1, 32).reading("source", 128), counting="torch").flops
    assert ours == 5_708_283_904 - corrected


NOMIC = {
    "model_type": "nomic_bert", "architectures": ["NomicBertModel"], "n_embd": 768, "n_head": 12, "n_inner": 3072,
    "n_layer": 12, "n_positions": 8192, "vocab_size": 30_528, "type_vocab_size": 2, "activation_function": "swiglu",
    "fused_bias_fc": True, "prenorm": False, "qkv_proj_bias": False, "use_xentropy": True,
}  # fmt: skip
DEBERTA = {
    "model_type": "deberta-v2", **BASE, "vocab_size": 128_100, "type_vocab_size": 0, "relative_attention": True,
    "position_buckets": 256, "norm_rel_ebd": "layer_norm", "share_att_key": True, "pos_att_type": "p2c|c2p",
    "max_relative_positions": -1, "position_biased_input": False,
}  # fmt: skip


@pytest.mark.parametrize(("config", "parameters"), [(NOMIC, 136_731_648), (DEBERTA, 183_831_552)])
def test_configs_as_their_makers_wrote_them(config: dict[str, Any], parameters: int) -> None:
    """nomic-embed-text-v1.5 and deberta-v3-base, in the words of their own files."""
    model = rl.load(config)
    assert model.parameters == parameters
    assert not [text for text in model.warnings if "not understood" in text]


def test_positions_at_a_pace_by_hand() -> None:
    """Longformer pads 100 words to two windows of 64: scores of 3 pieces of a window, 3 half windows for each of 4."""
    config = {"model_type": "longformer", **SMALL, "num_hidden_layers": 1, "attention_window": 64}
    model = rl.load({**config, "architectures": ["LongformerModel"]})
    ops = {op.name: op for m in model.layers[0].modules for op in lower(m, read_whole(1, 100))}
    pairs = {name: op.pairs for name, op in ops.items() if isinstance(op, Attend)}
    assert pairs == {"scores": 3 * 64 * 64, "attention": 4 * 32 * 96}


def test_a_transducer_scores_every_pair() -> None:
    """376 positions of 30 seconds, each with each of 32 tokens."""
    config = next(c["config"] for c in CASES.values() if c["config"]["model_type"] == "nemotron3_5_asr")
    few, many = (
        rl.analyze(rl.load(config, inputs=Inputs(spectra=3000)), rl.prefill(1, n), counting="torch").flops
        for n in (1, 33)
    )
    lstm, proj = 2 * 2 * 2 * 640 * 4 * 640, 2 * 640 * 640
    assert many - few == 32 * (376 * 2 * 640 * config["vocab_size"] + lstm + proj)


def test_whisper_writes_at_most_its_positions() -> None:
    """Its decoder has a learned position for each of 448 tokens, of the prompt and the answer together."""
    whisper = rl.load("openai/whisper-small")
    assert whisper.context == 448
    with pytest.raises(rl.InputError, match="at most 448 tokens"):
        rl.serve(whisper, input=400, output_tokens=50, concurrency=1, on="l4")
