"""Decoders that write the codes of a codec of sound: MusicGen, Dia."""

from __future__ import annotations

from dataclasses import replace

from roofline.model.configs.config import Config
from roofline.model.families.blocks.attention import attention, cross_attention, rotary
from roofline.model.families.blocks.encoders import encoder, tower
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.layers import causal_lm
from roofline.model.families.blocks.norms import layer_norm, rms
from roofline.model.families.blocks.seq2seq import sublayers
from roofline.model.families.blocks.sizes import HEADS, Dims, dims
from roofline.model.families.blocks.text_heads import dense
from roofline.model.families.registry import WHOLES, complete
from roofline.model.model import Block, Model, Tower
from roofline.model.modules import Embedding, Linear, Module, Modules


def music_decoder(c: Config, *, listens: bool) -> Model:
    """MusicGen's decoder, one token of which has a code of every codebook. `listens`: it attends to the text."""
    c.mark_read("cross_attention_hidden_size", "audio_channels", "num_codebooks", "tie_word_embeddings")
    d, act, books = dims(c, kv_key=HEADS), activation(c, "activation_function", "gelu"), c.size("num_codebooks", 4)
    rows = c.size("vocab_size", 2048)
    ffn = mlp(d.width, c.size("ffn_dim", 4096), act, gated=False)
    parts = [("attn", attention(d, rotary=0)), ("cross", cross_attention(d)), ("ffn", ffn)]
    block = sublayers("dense", d.width, parts if listens else [parts[0], parts[2]], norm=layer_norm)
    model = causal_lm(c, d.width, [block] * d.layers, norm=layer_norm)
    tables = tuple(Embedding(name=f"embedding{i}", rows=rows + 1, width=d.width) for i in range(books))
    heads: list[Module] = [m for m in model.head if m.name != "lm_head"]
    if not c.architecture.endswith("Model"):
        heads += [
            Linear(name=f"lm_head{i}", inputs=d.width, outputs=rows, part="head", cut="columns") for i in range(books)
        ]
    return replace(model, embedding=tables, head=tuple(heads), context=None)


@complete("musicgen_decoder")
def musicgen_decoder(c: Config) -> Model:
    """MusicGen's decoder alone, with the attention to a text that another model reads."""
    return music_decoder(c, listens=True)


@complete("musicgen_melody_decoder")
def musicgen_melody_decoder(c: Config) -> Model:
    """The decoder of MusicGen that reads text and melody before its codes."""
    return music_decoder(c, listens=False)


@complete("musicgen")
def musicgen(c: Config) -> Model:
    """MusicGen (arXiv:2306.05284): T5's encoder reads the text, and a decoder writes four codes at a time."""
    return _music(c, "musicgen_decoder")


@complete("musicgen_melody")
def musicgen_melody(c: Config) -> Model:
    """MusicGen with a melody (arXiv:2306.05284 §2.3): text and `chroma_length` notes are a part of the prompt."""
    c.mark_read("chroma_length", "num_chroma")
    model = _music(c, "musicgen_melody_decoder")
    notes = dense("melody_proj", c.size("num_chroma", 12), model.hidden)
    return replace(model, embedding=(*model.embedding, replace(notes, stream="melody")))


def _music(c: Config, kind: str) -> Model:
    """A decoder, T5's encoder, and EnCodec, which a step of the decoder does not run."""
    c.mark_read("model_type", "is_encoder_decoder", "tie_word_embeddings")
    inner = c.section("decoder").of_kind(kind)
    text, codec = (_part(c, name) for name in ("text_encoder", "audio_encoder"))
    written = WHOLES[kind](inner.with_values(architectures=["MusicgenForCausalLM"]))
    read = WHOLES[text.kind](text.with_values(architectures=[_ENCODERS.get(text.kind, "")]))
    sound = WHOLES[codec.kind](codec)
    c.note(*inner.leftovers(), *text.leftovers(), *codec.leftovers())
    joint: Modules = ()
    if read.hidden != written.hidden and inner.get("cross_attention_hidden_size") is None:
        joint = (replace(dense("joint_proj", read.hidden, written.hidden), stream="source"),)
    towers = as_tower("encoder", "source", read), as_tower("codec", "sound", sound)
    return replace(
        written, model_type=c.text("model_type"), name=c.text("_name_or_path", "") or c.text("model_type"),
        embedding=(*joint, *written.embedding), towers=towers, steps=("encode", "prefill", "decode"),
    )  # fmt: skip


_ENCODERS = {"t5": "T5EncoderModel", "mt5": "MT5EncoderModel", "umt5": "UMT5EncoderModel"}
"""Classes of encoders of text that are a half of a model."""


def as_tower(name: str, stream: str, model: Model) -> Tower:
    """A model as a tower of another."""
    ends = (("front", model.embedding), ("end", model.head))
    front, end = ([Block(label, modules)] if modules else [] for label, modules in ends)
    return tower(
        name, stream, model.hidden, [*front, *model.layers, *end], model.positions, quantised=stream == "source"
    )


def _part(c: Config, name: str) -> Config:
    """A section, as its type reads it."""
    part = c.section(name)
    kind = part.text("model_type")
    if kind not in WHOLES:
        raise part.error("model_type", "a model that is known", tuple(WHOLES))
    return part.of_kind(kind)


# -- Dia -----------------------------------------------------------------------------------------------------------
def _dia_encoder(c: Config) -> tuple[list[Block], int]:
    """Dia's encoder: bytes of text, rotary positions, gated networks."""
    c.mark_read("max_position_embeddings", "model_type")
    d = dims(c)
    mixer = attention(d, rotary=rotary(c, d.head_dim), causal=False)
    ffn = mlp(d.width, c.size("intermediate_size"), activation(c))
    block = sublayers("dense", d.width, (("attn", mixer), ("ffn", ffn)), norm=rms)
    words = Embedding(name="embedding", rows=c.size("vocab_size", 256), width=d.width)
    return [Block("words", (words,)), *[block] * d.layers, Block("last", (rms("final_norm", d.width),))], d.width


def _dia_decoder(c: Config) -> Model:
    """Dia's decoder: one token has a code of every channel."""
    c.mark_read("is_encoder_decoder", "model_type")
    d, heads, channels = dims(c), c.size("cross_num_attention_heads", 16), c.size("num_channels", 9)
    width, rows = c.size("cross_hidden_size", 1024), c.size("vocab_size", 1028)
    x = Dims(d.layers, d.width, heads, c.size("cross_num_key_value_heads", heads), c.size("cross_head_dim", 128))
    mixer = attention(d, rotary=rotary(c, d.head_dim))
    ffn = mlp(d.width, c.size("intermediate_size"), activation(c))
    parts = (("attn", mixer), ("cross", cross_attention(x, source=width)), ("ffn", ffn))
    model = causal_lm(c, d.width, [sublayers("dense", d.width, parts, norm=rms)] * d.layers)
    codes = Embedding(name="embedding", rows=rows * channels, width=d.width)
    scores = Linear(name="lm_head", inputs=d.width, outputs=rows * channels, part="head", cut="columns")
    return replace(model, embedding=(codes,), head=(*model.head[:-1], scores))


@complete("dia_encoder")
def dia_encoder(c: Config) -> Model:
    """Dia's encoder alone."""
    blocks, width = _dia_encoder(c)
    return encoder(c, width, blocks, embedding=())


@complete("dia_decoder")
def dia_decoder(c: Config) -> Model:
    """Dia's decoder alone."""
    model = _dia_decoder(c)
    return replace(model, head=model.head[:-1])


@complete("dia")
def dia(c: Config) -> Model:
    """Dia (model card nari-labs/Dia-1.6B): an encoder of bytes, and a decoder of nine channels of codes."""
    c.mark_read("model_type", "is_encoder_decoder", "delay_pattern", "norm_eps", "tie_word_embeddings")
    inner, source = (
        c.section("decoder_config").of_kind("dia_decoder"),
        c.section("encoder_config").of_kind("dia_encoder"),
    )
    (blocks, width), model = _dia_encoder(source), _dia_decoder(inner)
    c.note(*inner.leftovers(), *source.leftovers())
    head = model.head[:-1] if c.architecture.endswith("Model") else model.head
    read = tower("encoder", "source", width, blocks, quantised=True)
    return replace(model, model_type="dia", head=head, towers=(read,), steps=("encode", "prefill", "decode"))


# -- Kyutai --------------------------------------------------------------------------------------------------------
@complete("kyutai_speech_to_text")
def kyutai_speech_to_text(c: Config) -> Model:
    """Kyutai's speech to text (arXiv:2509.08753): a decoder of words over Mimi's codes of each frame."""
    c.mark_read("frame_size", "codebook_vocab_size", "num_codebooks", "audio_pad_token_id", "audio_bos_token_id")
    d, inner, window = dims(c), c.size("ffn_dim", 11_264) // 2, c.size("sliding_window", 375)
    mixer = attention(d, rotary=rotary(c, d.head_dim), window=window)
    ffn = mlp(d.width, inner, activation(c, default="silu"))
    block = sublayers("sliding", d.width, (("attn", mixer), ("ffn", ffn)), norm=rms)
    codes = c.size("codebook_vocab_size", 2049) * c.size("num_codebooks", 32)
    model = causal_lm(c, d.width, [block] * d.layers, more_rows=codes + 1)
    codec = _part(c, "codec_config")
    sound = WHOLES[codec.kind](codec)
    c.note(*codec.leftovers())
    if c.architecture.endswith("Model"):
        return replace(model, head=model.head[:-1])
    return replace(model, towers=(as_tower("codec", "sound", sound),))
