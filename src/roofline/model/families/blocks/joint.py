"""Words and an image in one sequence, or each looking at the other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from roofline.model.families.blocks.layers import again
from roofline.model.model import Block
from roofline.model.modules import Attention, Module, Modules


def of_images(positions: int, modules: Iterable[Module], prefix: str = "image_") -> Modules:
    """The modules over positions of the image."""
    return tuple(replace(m, stream="images", name=prefix + m.name, positions=m.positions or positions) for m in modules)


def words_and_image(name: str, positions: int, heads: int, head_dim: int) -> Attention:
    """Products of every word with every position of the image, whichever of them attend."""
    return Attention(
        name=name, heads=heads, kv_heads=heads, head_dim=head_dim, v_head_dim=head_dim, causal=False, keys=positions
    )


def one_sequence(block: Block, positions: int) -> Block:
    """A layer over words and `positions` of an image as one sequence: its weights serve both.

    Words see words and the image, and the image sees both.
    """
    modules: list[Module] = []
    for m in block.modules:
        modules.append(m)
        if isinstance(m, Attention):
            modules += [
                words_and_image(f"{m.name}_of_words_to_image", positions, m.heads, m.head_dim),
                words_and_image(f"{m.name}_of_image_to_words", positions, m.heads, m.head_dim),
            ]
        modules += of_images(positions, again((m,)))
    return Block(block.name, tuple(modules))
