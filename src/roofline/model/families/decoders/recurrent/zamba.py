"""Zamba2 (arXiv:2411.15242): Mamba-2 layers, and a few shared transformer layers that run many times."""

from __future__ import annotations

from dataclasses import replace

from roofline.model.configs.config import Config
from roofline.model.families.blocks.attention import attention, rotary
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.layers import again, causal_lm, layer
from roofline.model.families.blocks.norms import rms
from roofline.model.families.blocks.projections import row_product
from roofline.model.families.blocks.recurrent import mamba2
from roofline.model.families.blocks.sizes import Dims, depth, split
from roofline.model.families.registry import family
from roofline.model.model import Block, Model
from roofline.model.modules import Add, Linear, Module, Modules

HYBRIDS = (6, 12, 18, 24, 30, 36, 42, 47, 51)


@family("zamba2")
def zamba2(c: Config) -> Model:
    """Zamba2: hybrid layers run one of `num_mem_blocks` shared transformers in turn, then a Mamba-2 mixer."""
    width, layers, blocks = c.size("hidden_size"), depth(c), c.size("num_mem_blocks", 1)
    kinds = c.per_layer("layers_block_type", layers, ("mamba", "linear_attention", "hybrid"), _usual(c))
    scan = _scan(c, width)
    c.mark_read("kv_channels", "num_query_groups", "hybrid_layer_ids", "use_long_context", "use_mem_eff_path")
    c.mark_read("use_conv_bias")
    plain, first = layer("mamba", width, scan), _shared(c, width, c.flag("add_bias_linear"))
    hybrid = Block("hybrid", (*first, *_own(c, width), *plain.modules))
    repeat = Block("hybrid again", (*again(first), *_own(c, width), *plain.modules))
    places = [i for i, name in enumerate(kinds) if name == "hybrid"]
    hybrids = {i: hybrid if n < blocks else repeat for n, i in enumerate(places)}
    if not c.flag("tie_word_embeddings", True):
        turns = [range(n % blocks, len(places), blocks) for n in range(len(places))]
        hybrids = {i: _untied(hybrid, len(turns[n]) - 1) for n, i in enumerate(places)}
    return causal_lm(c, width, [hybrids.get(i, plain) for i in range(layers)], tied=True)


def _usual(c: Config) -> list[str]:
    """Layer types of Zamba2-2.7B, the class's default."""
    if not c.has("layers_block_type"):
        c.note_assumed("layers_block_type", f"hybrid at {', '.join(map(str, HYBRIDS))}")
    return ["hybrid" if i in HYBRIDS else "mamba" for i in range(54)]


def _untied(hybrid: Block, others: int) -> Block:
    """A hybrid layer with a separate transformer, which also stores the adapters of the other layers in its turn."""
    adapters = [m for m in hybrid.modules if isinstance(m, Linear) and "_adapter_" in m.name]
    spare = (replace(m, name=f"{m.name}_{n + 1}", idle=True) for n in range(others) for m in adapters)
    return Block(hybrid.name, (*hybrid.modules, *spare))


def _scan(c: Config, width: int) -> Modules:
    """Mamba-2 mixer from Zamba's keys."""
    heads, inner = c.size("n_mamba_heads", 8), c.size("mamba_expand", 2) * width
    state, groups, kernel = c.size("mamba_d_state", 64), c.size("mamba_ngroups", 1), c.size("mamba_d_conv", 4)
    bias, chunk = c.flag("add_bias_linear"), c.size("chunk_size", 256)
    head_dim, conv_bias = split(c, "n_mamba_heads", inner, heads, "mamba_expand · hidden_size"), True
    if c.size("mamba_headdim", head_dim) != head_dim:
        raise c.error("mamba_headdim", f"mamba_expand · hidden_size / n_mamba_heads = {head_dim}")
    return mamba2(width, heads, head_dim, state, groups, kernel, chunk, conv_bias=conv_bias, bias=bias)


def _shared(c: Config, width: int, bias: bool) -> Modules:
    """The shared transformer: attention over the hidden state concatenated with the embedding, then a feed-forward."""
    heads, act = c.size("num_attention_heads"), activation(c, default="gelu")
    d = _shared_dims(c, width, heads)
    *inside, out = attention(d, rotary=rotary(c, d.head_dim) * c.flag("use_mem_rope"))
    parts: list[Module] = [rms("attn_in_norm", 2 * width), *inside, row_product(out.name, heads * d.head_dim, width)]
    ffn = mlp(width, c.size("intermediate_size", 4 * width), act, bias=bias)
    return tuple(replace(m, name=f"shared_{m.name}") for m in (*parts, rms("ffn_norm", width), *ffn))


def _shared_dims(c: Config, width: int, heads: int) -> Dims:
    """Attention sizes over the hidden state concatenated with the embedding; adapters need q, k and v of that width."""
    if c.size("attention_hidden_size", 2 * width) != 2 * width:
        raise c.error("attention_hidden_size", f"2 · hidden_size = {2 * width}: the stream beside the embedding")
    if not c.has("attention_head_dim"):
        c = c.with_values(attention_head_dim=split(c, "num_attention_heads", 2 * width, heads, "2 · hidden_size"))
    d = Dims(1, 2 * width, heads, c.size("num_key_value_heads", heads), c.size("attention_head_dim"))
    for key, count in (("attention_head_dim", heads), ("num_key_value_heads", d.kv_heads)):
        if c.flag("use_shared_attention_adapter") and count * d.head_dim != 2 * width:
            raise c.error(key, f"heads · attention_head_dim = 2 · hidden_size = {2 * width}, as adapters make")
    return d


def _own(c: Config, width: int) -> Modules:
    """Modules that each hybrid layer has separately: low-rank adapters and a projection of the transformer's output."""
    rank, inner = c.size("adapter_rank", 128), c.size("intermediate_size", 4 * width)
    attend: Modules = ()
    if c.flag("use_shared_attention_adapter"):
        attend = (
            Linear(name="qkv_adapter_in", inputs=2 * width, outputs=3 * rank, part="attention"),
            Linear(name="qkv_adapter_out", inputs=3 * rank, outputs=6 * width, groups=3, part="attention"),
        )
    return (
        *attend,
        Linear(name="ffn_adapter_in", inputs=width, outputs=rank),
        Linear(name="ffn_adapter_out", inputs=rank, outputs=2 * inner),
        Linear(name="hybrid_proj", inputs=width, outputs=width),
        Add(name="hybrid_residual", width=width),
    )
