"""Models that hear: Whisper."""

from __future__ import annotations

from dataclasses import replace

from roofline.model.configs.config import MOST_LAYERS, Config
from roofline.model.families.blocks.attention import attention, cross_attention
from roofline.model.families.blocks.encoders import at, encoder, tower
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.layers import causal_lm, layer
from roofline.model.families.blocks.norms import layer_norm
from roofline.model.families.blocks.sizes import Dims
from roofline.model.families.registry import complete
from roofline.model.families.speech.wav2vec2 import TRAINING, speech_head
from roofline.model.model import Block, Model
from roofline.model.modules import Activation, Add, Convolution, Embedding, Learned, Linear, Modules


@complete("whisper")
def whisper(c: Config) -> Model:
    """Whisper (arXiv:2212.04356): two convolutions halve the spectrogram; keys have no bias."""
    c.mark_read(*TRAINING, "median_filter_width", "num_hidden_layers", "is_encoder_decoder")
    width, act = c.size("d_model"), activation(c, "activation_function", "gelu")
    positions, mels = c.size("max_source_positions", 1500), c.size("num_mel_bins", 80)

    def sizes(side: str) -> Dims:
        heads, layers = c.size(f"{side}_attention_heads"), c.size(f"{side}_layers", most=MOST_LAYERS)
        return Dims(layers, width, heads, heads, width // heads)

    e, d = sizes("encoder"), sizes("decoder")
    blocks = whisper_encoder(e, c.size("encoder_ffn_dim"), act, positions, mels)
    if c.architecture.endswith("ForAudioClassification"):
        c.mark_read("decoder_ffn_dim", "max_target_positions", "tie_word_embeddings")
        head = speech_head(c, e, width, positions)
        return encoder(c, width, blocks, embedding=(), head=head, positions=positions)
    read = tower("encoder", "source", width, blocks, positions, quantised=True)
    written = mlp(width, c.size("decoder_ffn_dim"), act, gated=False, bias=True)
    cross = cross_attention(d, bias=True, key_bias=False, fixed=positions)
    attends = (layer_norm("cross_norm", width), *cross, Add(name="cross_residual", width=width))
    block = layer("dense", width, attention_of_whisper(d), (), norm=layer_norm)
    rest = layer("dense", width, (), written, norm=layer_norm)
    blocks = [Block("dense", (*block.modules, *attends, *rest.modules))] * d.layers
    longest = c.size("max_target_positions", 448)
    table = Embedding(name="position_embedding", rows=longest, width=width)
    model = causal_lm(c, width, blocks, norm=layer_norm, tied=True, before=(table,))
    return replace(model, towers=(read,), steps=("encode", "prefill", "decode"), context=longest)


def whisper_encoder(e: Dims, inner: int, act: str, positions: int, mels: int) -> list[Block]:
    """Whisper's encoder: two convolutions, learned positions, layers with norms before, a norm."""
    width = e.width
    front = Block("front", (
        *halving_convolutions(mels, width, positions),
        Activation(name="conv_act", width=width, function="gelu", gated=False),
        Learned(name="position_embedding", width=width, rows=positions),
    ))  # fmt: skip
    heard = mlp(width, inner, act, gated=False, bias=True)
    listens = layer("dense", width, attention_of_whisper(e, causal=False), heard, norm=layer_norm)
    return [front, *[listens] * e.layers, Block("norm", (layer_norm("final_norm", width),))]


def halving_convolutions(mels: int, width: int, positions: int) -> Modules:
    """Whisper's two convolutions over a spectrogram, the second of which halves it to `positions`."""
    return (
        *at(2 * positions, (Convolution(name="conv1", inputs=mels, outputs=width, kernel=3, bias=True),)),
        Convolution(name="conv2", inputs=width, outputs=width, kernel=3, stride=2, bias=True),
    )


def attention_of_whisper(
    d: Dims, causal: bool = True, *, rotary: int = 0, chunk: int | None = None, window: int | None = None
) -> Modules:
    """Self-attention of Whisper: queries and values have a bias, keys have none."""
    first, *rest = attention(d, rotary=rotary, bias=True, causal=causal, chunk=chunk, window=window)
    assert isinstance(first, Linear)
    k = d.kv_heads * d.head_dim
    qv = d.heads * d.head_dim + k
    return (
        replace(first, name="qv_proj", outputs=qv, kv=k),
        replace(first, name="k_proj", outputs=k, bias=False, kv=k, beside=True),
        *rest,
    )
