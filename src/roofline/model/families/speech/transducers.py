"""Transducers: an encoder of speech, a recurrent network of the words so far, and a network that joins the two."""

from __future__ import annotations

from dataclasses import replace

from roofline.model.configs.config import MOST_LAYERS, Config
from roofline.model.families.blocks.encoders import tower
from roofline.model.families.blocks.feed_forward import activation
from roofline.model.families.blocks.layers import causal_lm
from roofline.model.families.blocks.text_heads import acted, dense
from roofline.model.families.registry import complete
from roofline.model.families.speech.codecs import recurrent
from roofline.model.families.speech.conformers import parakeet
from roofline.model.model import Block, Model
from roofline.model.modules import Activation, Embedding, Modules, Pace


def transducer(c: Config, encoder: str, *, streams: bool = False, prompts: bool = False, more: int = 0) -> Model:
    """A transducer (arXiv:1211.3711): every pair of a position of sound and a token has scores of its own.

    `encoder`: type of the encoder's config. `prompts`: the language is joined to the sound. `more`: scores beside those
    of tokens.
    """
    c.mark_read("max_symbols_per_step", "blank_token_id", "default_prompt_id", "is_encoder_decoder")
    c.mark_read("num_prompts", "prompt_intermediate_size", "tie_word_embeddings")
    inner = c.section("encoder_config").of_kind(encoder)
    front, blocks, d, length = parakeet(inner, streams=streams)
    c.note(*inner.leftovers())
    width, vocab = c.size("decoder_hidden_size", 640), c.size("vocab_size")
    joins: Modules = (dense("encoder_proj", d.width, width),)
    if prompts:
        wide = c.size("prompt_intermediate_size", 2048)
        asks = acted("prompt_in", d.width + c.size("num_prompts", 128), wide, "relu")
        joins = (*asks, dense("prompt_out", wide, d.width), *joins)
    joins = tuple(replace(m, stream="source") for m in joins)
    words = Embedding(name="embedding", rows=vocab, width=width)
    *state, _ = recurrent(width, c.size("num_decoder_layers", 2, most=MOST_LAYERS))
    pairs = Pace(times=length)
    act = Activation(name="joint_act", width=width, function=activation(c, default="relu"), gated=False, pace=pairs)
    scores = replace(dense("scores", width, vocab + more), pace=pairs)
    model = causal_lm(c, width, [Block("recurrent", (*state, dense("decoder_proj", width, width)))], norm=None)
    read = tower("encoder", "source", d.width, [Block("front", front), *blocks], length, quantised=True)
    return replace(
        model, embedding=(*joins, words), head=(act, scores), towers=(read,), steps=("encode", "prefill"), context=None
    )


@complete("parakeet_rnnt")
def parakeet_rnnt(c: Config) -> Model:
    """Parakeet with a transducer."""
    return transducer(c, "parakeet_encoder")


@complete("parakeet_tdt")
def parakeet_tdt(c: Config) -> Model:
    """Parakeet with a transducer that also scores how many positions a token lasts (arXiv:2304.06795)."""
    durations = c.value("durations", [0, 1, 2, 3, 4])[1]
    if not isinstance(durations, list) or not durations:
        raise c.error("durations", "a list of durations")
    return transducer(c, "parakeet_encoder", more=len(durations))


@complete("nemotron_asr_streaming")
def nemotron_asr_streaming(c: Config) -> Model:
    """Nemotron's streaming encoder with a transducer."""
    return transducer(c, "nemotron_asr_streaming_encoder", streams=True)


@complete("nemotron3_5_asr")
def nemotron3_5_asr(c: Config) -> Model:
    """Nemotron 3.5 ASR: a transducer that is told the language."""
    return transducer(c, "nemotron_asr_streaming_encoder", streams=True, prompts=True)
