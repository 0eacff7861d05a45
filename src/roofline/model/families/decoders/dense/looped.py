"""Models that run the same layers several times, or skip some."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from roofline.model.configs.config import Config
from roofline.model.families.blocks.attention import attention, layer_windows, rotary, windowed
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.layers import again, causal_lm, layer, stack, untied
from roofline.model.families.blocks.norms import per_head, plain_rms, rms
from roofline.model.families.blocks.sizes import Dims, depth, dims
from roofline.model.families.registry import family
from roofline.model.model import Block, Model
from roofline.model.modules import Activation, Add, Embedding, Linear, Modules


@family("hrm_text")
def hrm_text(c: Config) -> Model:
    """HRM (arXiv:2506.21734) on text: a low stack runs `L_cycles` times per run of a high one, `H_cycles` times in all.

    Every run has separate keys and values; all runs of a stack share its weights.
    """
    stacked = c.size("num_layers_per_stack", None)
    c = c.with_values(num_hidden_layers=stacked) if stacked else c
    d, bias = dims(c, head_dim=128, kv_key="num_attention_heads"), c.flag("attention_bias")
    mixer = attention(d, rotary=rotary(c, d.head_dim), bias=bias, gate=True)
    ffn = mlp(d.width, c.size("intermediate_size"), activation(c), bias=c.flag("mlp_bias"))
    low, high = ([layer(name, d.width, mixer, ffn, norm=plain_rms)] * d.layers for name in ("low", "high"))
    c.mark_read("L_bp_cycles", "prefix_lm", "embedding_scale")
    cycle = [*(low * c.size("L_cycles", 3)), *high]
    start = Embedding(name="low_start", rows=1, width=d.width, frozen=True)
    layers = _runs(cycle * c.size("H_cycles", 2), d.layers, d.width)
    return causal_lm(c, d.width, layers, norm=None, before=(start,))


def _runs(layers: list[Block], length: int, width: int) -> list[Block]:
    """Runs of stacks of `length` layers: a sum of both states before each, a norm after it; weights count once."""
    known: set[str] = set()
    blocks = []
    for start in range(0, len(layers), length):
        run = [list(block.modules) for block in layers[start : start + length]]
        run[0].insert(0, Add(name="cycle_add", width=width))
        run[-1].append(plain_rms("cycle_norm", width))
        name = layers[start].name
        blocks += [Block(name, tuple(again(modules) if name in known else modules)) for modules in run]
        known.add(name)
    return blocks


@family("mllama_text_model")
def mllama(c: Config) -> Model:
    """Llama 3.2 Vision (arXiv:2407.21783 §7.2): Llama with layers that attend to an image.

    These layers are idle: their keys and values all come from the image, and the published code skips them without one.
    The embedding has eight additional rows for image tokens.
    """
    c = untied(c)
    d, crossing = dims(c), _crossing(c, depth(c))
    ffn = mlp(d.width, c.size("intermediate_size"), activation(c))
    block, across = layer("dense", d.width, attention(d, rotary=rotary(c, d.head_dim)), ffn), _to_images(d, ffn)
    return causal_lm(c, d.width, [across if i in crossing else block for i in range(d.layers)], more_rows=8)


@family("ouro")
def ouro(c: Config) -> Model:
    """Ouro (arXiv:2510.25741): all layers run `total_ut_steps` times, each time with keys and values of their own.

    Norms on both sides of each sublayer. A learned gate, which can end the runs early, is counted once.
    """
    d = dims(c)
    c.mark_read("early_exit_step", "early_exit_threshold", "max_window_layers", "use_sliding_window")
    windows = layer_windows(c, d.layers, lambda _: False)
    ffn, rope = mlp(d.width, c.size("intermediate_size"), activation(c)), rotary(c, d.head_dim)
    first = stack(d.width, windowed(windows, partial(attention, d, rotary=rope)), ffn, after=True)
    more = [Block(f"{block.name} again", again(block.modules)) for block in first]
    gate = Linear(name="exit_gate", inputs=d.width, outputs=1, bias=True, part="other")
    return causal_lm(c, d.width, [*first, *more * (c.size("total_ut_steps", 4) - 1)], last=(gate,))


def _crossing(c: Config, layers: int) -> list[int]:
    """The layers that attend to an image; by default those of the 11B model's 40 layers."""
    listed = c.layer_set("cross_attention_layers", layers)
    crossing = [i for i in (range(3, 40, 5) if listed is None else listed) if i < layers]
    if crossing:
        c.note(f"layers {', '.join(map(str, crossing))} attend to an image; a step of text passes them over")
    return crossing


def _to_images(d: Dims, ffn: Modules) -> Block:
    """A cross-attention layer, whose attention and feed-forward each have a gate with one learned value."""
    attn_gate, ffn_gate = (
        Activation(name=name, width=1, function="tanh", gated=False, learned=1) for name in ("attn_gate", "ffn_gate")
    )
    across = layer("cross", d.width, (*attention(d, rotary=0, qk_norm=per_head), attn_gate), (*ffn, ffn_gate))
    return Block(across.name, tuple(replace(module, idle=True) for module in across.modules))


@family("moshi")
def moshi(c: Config) -> Model:
    """Moshi's language model (arXiv:2410.00037 §3.2), Helium; `ffn_dim` counts gate and up projection together.

    The model of codes within a frame and the codec are not included.
    """
    c = untied(c)
    d, window = dims(c), c.size("sliding_window", 3000)
    mixer = attention(d, rotary=rotary(c, d.head_dim), window=window)
    block = layer("dense", d.width, mixer, mlp(d.width, c.size("ffn_dim") // 2, activation(c)), norm=rms)
    c.mark_read("num_codebooks", "audio_vocab_size", "audio_encoder_config", "depth_decoder_config")
    return causal_lm(c, d.width, [block] * d.layers, more_rows=1)
