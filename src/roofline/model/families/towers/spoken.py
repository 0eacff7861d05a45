"""What speaks in Qwen-Omni: a talker that writes codes of sound, and what makes waves of them.

An answer in text runs none of it, so that its modules are idle: weights without work.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise

from roofline.model.configs.config import MOST_LAYERS, Config
from roofline.model.families.blocks.attention import attention
from roofline.model.families.blocks.feed_forward import mlp, moe
from roofline.model.families.blocks.images.vision import TowerStage, listed_sizes, section_of, streamed
from roofline.model.families.blocks.layers import layer
from roofline.model.families.blocks.norms import layer_norm, per_head, rms
from roofline.model.families.blocks.sizes import Dims, dims
from roofline.model.families.blocks.sound import size_list
from roofline.model.families.decoders.dense.qwen import qwen2, qwen3
from roofline.model.families.towers.resampled import unapplied
from roofline.model.formats import FORMATS
from roofline.model.media.sound import SOUND
from roofline.model.model import Block, Model, Tower
from roofline.model.modules import Convolution, Linear, Module, Modules

SPEECH = "talker"
"""Name of the tower that speaks."""


def speech(width: int, blocks: Iterable[Block], *, wide: bool = False) -> Iterator[Tower]:
    """A tower of weights alone; `wide`: kept in fp32, whatever the rest is in."""
    fp32 = FORMATS["fp32"] if wide else None

    def kept(m: Module) -> Module:
        return replace(m, idle=True, format=fp32 or m.format)

    idle = tuple(Block(b.name, tuple(kept(m) for m in b.modules)) for b in blocks)
    return streamed((TowerStage(SPEECH, width, idle),), SOUND)


def _product(name: str, inputs: int, outputs: int, bias: bool = True) -> Linear:
    return Linear(name=name, inputs=inputs, outputs=outputs, bias=bias)


def _conv(name: str, inputs: int, outputs: int, taps: int, *, groups: int = 1, bias: bool = True) -> Convolution:
    return Convolution(name=name, inputs=inputs, outputs=outputs, kernel=taps, groups=groups, bias=bias)


def _stack(model: Model, name: str) -> Iterator[Block]:
    """The layers of a decoder and its last norm, without tables and heads."""
    yield from model.layers
    yield Block(f"{name} norm", tuple(m for m in model.head if not isinstance(m, Linear)))


# -- Qwen2.5-Omni --------------------------------------------------------------------------------------------------
def qwen2_5_talker(c: Config) -> Iterator[Tower]:
    """Qwen2.5-Omni's talker (arXiv:2503.20215 §2.3): Qwen2 over codes of sound and the thinker's states."""
    width, rows, wide = c.size("hidden_size"), c.size("vocab_size"), c.size("embedding_size")
    own = (
        unapplied("codes", wide, rows),
        _product("thinker_proj", wide, width),
        _product("codec_head", width, rows, bias=False),
    )
    yield from speech(width, (Block("codes", own), *_stack(qwen2(c), "talker")))


def qwen2_5_waves(c: Config) -> Iterator[Tower]:
    """Qwen2.5-Omni's waves (arXiv:2503.20215 §2.3): a diffusion transformer of spectra, then BigVGAN, both in fp32."""
    d, g = section_of(c, "dit_config"), section_of(c, "bigvgan_config")
    yield from speech(d.size("hidden_size"), (*_diffused(d), *_bigvgan(g)), wide=True)


def _diffused(c: Config) -> Iterator[Block]:
    width, mels, rows = c.size("hidden_size"), c.size("mel_dim", 80), c.size("emb_dim", 512)
    spoken, voice = c.size("enc_dim", 128), c.size("enc_emb_dim", 192)
    heads, head = c.size("num_attention_heads"), c.size("head_dim")
    d, inner = Dims(1, width, heads, heads, head), width * c.size("ff_mult", 2)
    yield Block("inputs", (
        _product("time_in", 256, width), _product("time_out", width, width),
        unapplied("codes", rows, c.size("num_embeds") + 1),
        _product("input_proj", mels + spoken + voice + rows, width),
    ))  # fmt: skip
    yield Block("speaker", tuple(_speaker(c, mels, spoken)))
    block = Block("diffusion", (
        _product("shifts", width, 6 * width), *attention(d, rotary=0, bias=True, causal=False),
        *mlp(width, inner, "gelu", gated=False, bias=True),
    ))  # fmt: skip
    for _ in range(c.size("num_hidden_layers", most=MOST_LAYERS)):
        yield block
    yield Block("spectra", (_product("last_shifts", width, 2 * width), _product("proj_out", width, mels)))


def _speaker(c: Config, mels: int, out: int) -> Iterator[Module]:
    """ECAPA-TDNN (arXiv:2005.07143), which hears whose voice it is to be."""
    widths, kernels = size_list(c, "enc_channels"), size_list(c, "enc_kernel_sizes")
    scale, squeezed, attended = (
        c.size(key) for key in ("enc_res2net_scale", "enc_se_channels", "enc_attention_channels")
    )
    yield _conv("speaker_in", mels, widths[0], kernels[0])
    for i, ((inputs, outputs), taps) in enumerate(zip(pairwise(widths[:-1]), kernels[1:], strict=False)):
        yield _conv(f"speaker{i}_in", inputs, outputs, 1)
        for j in range(scale - 1):
            yield _conv(f"speaker{i}_part{j}", outputs // scale, outputs // scale, taps)
        yield _conv(f"speaker{i}_out", outputs, outputs, 1)
        yield _conv(f"speaker{i}_squeeze", outputs, squeezed, 1)
        yield _conv(f"speaker{i}_expand", squeezed, outputs, 1)
    last = widths[-1]
    yield _conv("speaker_all", last, last, kernels[-1])
    yield _conv("speaker_weights", 3 * last, attended, 1)
    yield _conv("speaker_scores", attended, last, 1)
    yield _conv("speaker_out", 2 * last, out, 1)


def _bigvgan(c: Config) -> Iterator[Block]:
    """BigVGAN (arXiv:2206.04658): the spectrogram becomes longer, with residual convolutions of several kernels."""
    width, mels = c.size("upsample_initial_channel", 1536), c.size("mel_dim", 80)
    kernels, ups = size_list(c, "resblock_kernel_sizes"), size_list(c, "upsample_kernel_sizes")
    dilations = c.value("resblock_dilation_sizes", None)[1]
    deep = [len(v) for v in dilations] if isinstance(dilations, (list, tuple)) else [3] * len(kernels)
    c.mark_read("upsample_rates")
    yield Block("waves in", (_conv("pre", mels, width, 7),))
    for i, taps in enumerate(ups):
        modules: list[Module] = [_conv("up", width, width // 2, taps)]
        width //= 2
        for j, (kernel, layers) in enumerate(zip(kernels, deep, strict=False)):
            for k in range(2 * layers):
                modules += [unapplied(f"snake{j}_{k}", width, 2), _conv(f"conv{j}_{k}", width, width, kernel)]
        yield Block(f"waves {i}", tuple(modules))
    yield Block("waves out", (unapplied("snake", width, 2), _conv("post", width, 1, 7, bias=False)))


# -- Qwen3-Omni ----------------------------------------------------------------------------------------------------
def qwen3_talker(c: Config) -> Iterator[Tower]:
    """Qwen3-Omni's talker (arXiv:2509.17765 §2.4): a mixture with a shared expert, and a predictor of more codes."""
    t, p = c.section("text_config"), c.section("code_predictor_config")
    t = replace(t, kind="qwen3_omni_moe_talker_text").of_kind("qwen3_omni_moe_talker_text")
    p = replace(p, kind="qwen3_omni_moe_talker_code_predictor").of_kind("qwen3_omni_moe_talker_code_predictor")
    d, rows, thinker = dims(t), t.size("vocab_size"), c.size("thinker_hidden_size", 2048)
    mixer = attention(d, rotary=d.head_dim, bias=t.flag("attention_bias"), qk_norm=per_head)
    shared = t.size("shared_expert_intermediate_size", 0, least=0)
    experts = moe(
        t, d.width, t.size("num_experts|num_local_experts"), t.size("num_experts_per_tok"),
        t.size("moe_intermediate_size"), shared=shared, shared_gate=shared > 0,
    )  # fmt: skip
    inner = t.size("intermediate_size")
    resized = tuple(
        _product(f"{name}_{i}", *sizes)
        for name in ("text", "states")
        for i, sizes in enumerate(((thinker, inner), (inner, d.width)))
    )
    codes = (unapplied("codes", d.width, rows), *resized, _product("codec_head", d.width, rows, bias=False))
    block = layer("sparse", d.width, mixer, experts)
    yield from speech(
        d.width, (Block("codes", codes), *[block] * d.layers, Block("norm", (rms("final_norm", d.width),)))
    )
    width, more, groups = p.size("hidden_size"), p.size("vocab_size"), p.size("num_code_groups", 32) - 1
    each = tuple(
        m
        for i in range(groups)
        for m in (unapplied(f"codes{i}", width, more), _product(f"head{i}", width, more, bias=False))
    )
    yield from speech(width, (Block("codes", each), *_stack(qwen3(p), "predictor")))


def qwen3_waves(c: Config) -> Iterator[Tower]:
    """Qwen3-Omni's waves (arXiv:2509.17765 §2.4): a few layers over codes, then causal convolutions."""
    c = replace(c, kind="qwen3_omni_moe_code2wav").of_kind("qwen3_omni_moe_code2wav")
    width, heads, kv = (
        c.size(key, default)
        for key, default in (("hidden_size", 1024), ("num_attention_heads", 16), ("num_key_value_heads", 16))
    )
    head: int | None = c.size("head_dim", None)
    d = Dims(c.size("num_hidden_layers", 8), width, heads, kv, head or width // heads)
    scales = {name: unapplied(f"{name}_scale", width) for name in ("attn", "ffn")}
    mixer = (*attention(d, rotary=d.head_dim, bias=c.flag("attention_bias")), scales["attn"])
    block = layer("dense", width, mixer, (*mlp(width, c.size("intermediate_size", 3072), "silu"), scales["ffn"]))
    codes = unapplied("codes", width, c.size("codebook_size", 2048) * c.size("num_quantizers", 16))
    blocks = [Block("codes", (codes,)), *[block] * d.layers, Block("norm", (rms("final_norm", width),))]
    for i, factor in enumerate(listed_sizes(c, "upsampling_ratios", (2, 2))):
        longer: Modules = (
            _conv("up", width, width, factor), _conv("taps", width, width, 7, groups=width), layer_norm("norm", width),
            _product("fc1", width, 4 * width), _product("fc2", 4 * width, width), unapplied("scale", width),
        )  # fmt: skip
        blocks.append(Block(f"longer {i}", longer))
    wide = c.size("decoder_dim", 1536)
    blocks.append(Block("waves in", (_conv("pre", width, wide, 7),)))
    for i, rate in enumerate(listed_sizes(c, "upsample_rates", (8, 5, 4, 3))):
        modules: list[Module] = [unapplied("snake", wide, 2), _conv("up", wide, wide // 2, 2 * rate)]
        wide //= 2
        for j in range(3):
            modules += [
                unapplied(f"snake{j}_1", wide, 2), _conv(f"conv{j}_1", wide, wide, 7),
                unapplied(f"snake{j}_2", wide, 2), _conv(f"conv{j}_2", wide, wide, 1),
            ]  # fmt: skip
        blocks.append(Block(f"waves {i}", tuple(modules)))
    blocks.append(Block("waves out", (unapplied("snake", wide, 2), _conv("post", wide, 1, 7))))
    yield from speech(width, blocks)
