"""T5Gemma 2: an encoder of text and images, and a decoder whose attention sees both its own tokens and the source."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from roofline.model.configs.config import Config
from roofline.model.families.blocks.attention import attention, layer_windows, rotary, windowed
from roofline.model.families.blocks.encoders import tower
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.images.vision import section_of
from roofline.model.families.blocks.layers import causal_lm, stack
from roofline.model.families.blocks.norms import per_head, rms
from roofline.model.families.blocks.sizes import dims
from roofline.model.families.registry import complete
from roofline.model.families.text.t5gemma import classifying
from roofline.model.families.towers.fixed_resolution import gemma3_towers
from roofline.model.model import Block, Model
from roofline.model.modules import Attention, Embedding, Learned, Linear, Module, Modules

ACT = "hidden_activation"
_UNUSED = """
    model_type is_encoder_decoder is_decoder vocab_size max_position_embeddings dropout_rate tie_word_embeddings
    classifier_dropout_rate eoi_token_index
""".split()
"""Keys that change no size: the code ties all tables of words."""


@complete("t5gemma2")
def t5gemma2(c: Config) -> Model:
    """T5Gemma 2 (arXiv:2512.14856): Gemma 3's layers; one product makes keys of tokens and of the source."""
    e, d = section_of(c, "encoder"), section_of(c, "decoder")
    t = section_of(e, "text_config")
    for part in (c, e, d, t):
        part.mark_read(*_UNUSED)
    read, written = _layers(t, causal=False), [_merged(block) for block in _layers(d, causal=True)]
    rows = t.size("vocab_size")
    words = Embedding(name="embedding", rows=rows, width=t.size("hidden_size"), shared=True)
    source = replace(words, name="source_embedding", shared=False, stream="source")
    mark = Learned(name="end_of_image", width=t.size("hidden_size"), applied=False)
    model = classifying(c, causal_lm(d, d.size("hidden_size"), written, norm=rms, tied=True))
    front = Block("words", (replace(source, rows=0), mark))
    last = Block("last", (rms("final_norm", t.size("hidden_size")),))
    encoder = tower("encoder", "source", t.size("hidden_size"), [front, *read, last], quantised=True)
    seen = tuple(gemma3_towers(e, replace(model, hidden=t.size("hidden_size")))) if e.get("vision_config") else ()
    c.note(*e.leftovers(), *d.leftovers(), *t.leftovers())
    return replace(model, model_type="t5gemma2", towers=(*seen, encoder), steps=("encode", "prefill", "decode"))


def _layers(c: Config, *, causal: bool) -> list[Block]:
    """Gemma 3's layers: norms around sublayers, norms of queries and keys, windows but in every sixth."""
    d, bias = dims(c, head_dim=256), c.flag("attention_bias")
    c.mark_read("is_decoder", "query_pre_attn_scalar", "final_logit_softcapping", "attn_logit_softcapping")
    ffn = mlp(d.width, c.size("intermediate_size"), activation(c, ACT, "gelu_pytorch_tanh"))
    windows = layer_windows(c, d.layers, lambda i: (i + 1) % 6 != 0)
    mixer = partial(attention, d, rotary=rotary(c, d.head_dim), bias=bias, qk_norm=per_head, causal=causal)
    return stack(d.width, windowed(windows, mixer), ffn, after=True)


def _merged(block: Block) -> Block:
    """The layer with keys and values of the source too, by the products of its own."""
    modules: list[Module] = []
    for module in block.modules:
        modules.append(module)
        if isinstance(module, Attention):
            own = next(m for m in block.modules if isinstance(m, Linear) and m.name == "qkv_proj")
            kv = module.kv_heads * (module.head_dim + module.v_head_dim)
            keys = replace(own, name="cross_kv_proj", outputs=kv, tied=True, bias=False, stream="source")
            reads: Modules = (keys, replace(module, name="cross_attention", window=None, reads="source"))
            modules += reads
    return Block(block.name, tuple(modules))
