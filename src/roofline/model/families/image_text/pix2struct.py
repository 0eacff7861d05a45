"""Pix2Struct: patches of an image of any shape, read by a vision transformer, and T5's decoder."""

from __future__ import annotations

from roofline.model.configs.config import MOST_LAYERS, Config
from roofline.model.families.blocks.attention import attention, cross_attention
from roofline.model.families.blocks.encoders import tower
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.images.sight import read_part
from roofline.model.families.blocks.norms import rms
from roofline.model.families.blocks.seq2seq import sublayers
from roofline.model.families.blocks.sizes import Dims
from roofline.model.families.image_text.image_to_text import writes
from roofline.model.families.registry import complete
from roofline.model.families.text.t5 import relative_table
from roofline.model.model import Block, Model
from roofline.model.modules import Embedding, Learned, Linear, Modules

PATCHES = 2048
"""Patches of an image, as the processors of the published checkpoints scale it (`max_patches`)."""


@complete("pix2struct")
def pix2struct(c: Config) -> Model:
    """Pix2Struct (arXiv:2210.03347), DePlot (arXiv:2212.10505) and MatCha (arXiv:2212.09662)."""
    c.mark_read("is_encoder_decoder", "tie_word_embeddings", "is_vqa", "decoder_start_token_id")
    seen, said = read_part(c, "vision_config"), read_part(c, "text_config")
    said.mark_read("relative_attention_max_distance", "is_decoder", "add_cross_attention", "tie_word_embeddings")
    seen.mark_read("relative_attention_max_distance", "relative_attention_num_buckets")
    v, t = _dims(seen, "num_attention_heads", "num_hidden_layers"), _dims(said, "num_heads", "num_layers")
    patches, rows = c.inputs.patches or PATCHES, seen.size("seq_len", 4096)
    vocab = said.size("vocab_size", most=2**28)
    lm_head = Linear(name="lm_head", inputs=t.width, outputs=vocab, part="head", cut="columns")
    front = (
        Linear(name="patch_embedding", inputs=seen.size("patch_embed_hidden_size", 768), outputs=v.width, bias=True,
               part="other"),
        Learned(name="row_embedding", width=v.width, rows=rows),
        Learned(name="column_embedding", width=v.width, rows=rows),
    )  # fmt: skip
    sees = sublayers("dense", v.width, (("attn", attention(v, rotary=0, causal=False)), ("ffn", _ffn(seen))), norm=rms)
    blocks = [Block("front", front), *[sees] * v.layers, Block("last", (rms("final_norm", v.width),))]
    own, cross = attention(t, rotary=0), cross_attention(t, source=v.width, fixed=patches)
    says = sublayers("dense", t.width, (("attn", own), ("cross", cross), ("ffn", _ffn(said))), norm=rms)
    first = Block("first", (relative_table(said, t.heads), *says.modules))
    return writes(
        c, t, [first, *[says] * (t.layers - 1)], vocab=vocab, context=None,
        tables=(Embedding(name="embedding", rows=vocab, width=t.width),),
        head=(rms("final_norm", t.width), lm_head),
        towers=[tower("encoder", "source", v.width, blocks, patches, quantised=True)],
    )  # fmt: skip


def _dims(c: Config, heads: str, layers: str) -> Dims:
    count, width = c.size(heads), c.size("hidden_size")
    return Dims(c.size(layers, most=MOST_LAYERS), width, count, count, c.size("d_kv", 64))


def _ffn(c: Config) -> Modules:
    return mlp(c.size("hidden_size"), c.size("d_ff", 2048), activation(c, "dense_act_fn", "gelu_new"))
