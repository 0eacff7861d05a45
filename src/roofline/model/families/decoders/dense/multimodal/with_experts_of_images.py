"""Decoders with weights of their own for images: CogVLM's experts, XComposer 2's and Phi-4-multimodal's adapters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from roofline.model.adapters import FUSED
from roofline.model.configs.config import Config
from roofline.model.families.blocks.attention import attention, rotary
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.layers import causal_lm, layer
from roofline.model.families.blocks.sizes import dims
from roofline.model.families.decoders.dense.gpt import phi3
from roofline.model.families.decoders.dense.remote_dense import internlm2
from roofline.model.families.registry import family
from roofline.model.model import Block, Model
from roofline.model.modules import Linear, Module, Modules


def _beside(model: Model, more: Callable[[Linear], Iterable[Module]]) -> Model:
    """The model with idle modules behind each product of its layers: tokens of text alone skip them."""

    def widened(block: Block) -> Block:
        modules: list[Module] = []
        for module in block.modules:
            modules.append(module)
            if isinstance(module, Linear):
                modules += [replace(m, idle=True) for m in more(module)]
        return Block(block.name, tuple(modules))

    blocks = {block: widened(block) for block in dict.fromkeys(model.layers)}
    return replace(model, layers=tuple(blocks[block] for block in model.layers))


def low_rank(m: Linear, rank: int, name: str, *, apart: bool) -> Modules:
    """An adapter of a product (arXiv:2106.09685); `apart`: one for each of the products that are fused here."""
    pieces = FUSED.get(m.name, 1) if apart else 1
    return (
        Linear(name=f"{m.name}_{name}_a", inputs=m.inputs, outputs=rank * pieces, part="other"),
        Linear(name=f"{m.name}_{name}_b", inputs=rank, outputs=m.outputs, part="other"),
    )


@family("cogvlm")
def cogvlm(c: Config) -> Model:
    """CogVLM and CogVLM 2 (arXiv:2311.03079): Llama, with products of their own for the tokens of an image."""
    kv = c.size("num_multi_query_heads|num_key_value_heads", None)
    c.mark_read("num_multi_query_heads", "template_version", "bos_token_id", "num_attention_heads")
    d = dims(c.with_values(num_key_value_heads=kv or c.size("num_attention_heads")))
    ffn = mlp(d.width, c.size("intermediate_size"), activation(c))
    block = layer("dense", d.width, attention(d, rotary=rotary(c, d.head_dim)), ffn)
    text = causal_lm(c, d.width, [block] * d.layers)
    return _beside(text, lambda m: [replace(m, name=f"image_{m.name}", bias=kv is not None and m.name == "qkv_proj")])


@family("internlmxcomposer2")
def xcomposer2(c: Config) -> Model:
    """InternLM-XComposer 2-4KHD and 2.5 (arXiv:2404.06512, 2407.03320): InternLM 2, low-rank products for images.

    Ranks are those of the published files: 8 of queries, keys and values, 256 of the others.
    """
    longest = c.size("max_length", 4096)
    if longest <= 4096:
        raise c.error("max_length", "more than 4,096: of XComposer 2 that reads small images no sizes are known")
    c.mark_read("img_size", "vit", "max_pixels", "tag")

    def adapter(m: Linear) -> Iterable[Module]:
        return low_rank(m, 8 if m.name == "qkv_proj" else 256, "plora", apart=m.name == "gate_up_proj")

    return _beside(internlm2(c), adapter)


@family("phi4mm")
def phi4mm(c: Config) -> Model:
    """Phi-4-multimodal as published (arXiv:2503.01743): Phi-4-mini, with adapters for images and for speech."""
    ranks = {name: c.section(f"{name}_lora").size("r", None) for name in ("vision", "speech")}
    c.mark_read("vision_lora", "speech_lora", "audio_processor")

    def adapters(m: Linear) -> Iterable[Module]:
        for name, rank in ranks.items():
            yield from () if rank is None else low_rank(m, rank, name, apart=False)

    return _beside(phi3(c), adapters)
