"""UDOP: T5 over the words of a page, their places and the patches of its picture."""

from __future__ import annotations

from dataclasses import replace

from roofline.model.configs.config import Config
from roofline.model.families.blocks.encoders import at, tower
from roofline.model.families.blocks.images.sight import both_sides
from roofline.model.families.blocks.images.vision import patches
from roofline.model.families.registry import complete
from roofline.model.families.text.t5 import t5_feed_forward, t5_like
from roofline.model.media.images import IMAGES
from roofline.model.model import Block, Model
from roofline.model.modules import Learned


@complete("udop")
def udop(c: Config) -> Model:
    """UDOP (arXiv:2212.02623): biases of distances along the text and both sides of the page.

    The source of a step is the words and the patches beside which no word stands. The decoder holds patches of its own,
    which nothing runs.
    """
    width, heads, places = c.size("d_model"), c.size("num_heads"), c.size("max_2d_position_embeddings", 1024)
    buckets = c.size("relative_attention_num_buckets", 32)
    kinds = c.value("relative_bias_args", None)[1]
    more = max(0, len(kinds) - 1) if isinstance(kinds, list) else 2
    (rows, columns), (p, q) = both_sides(c, "image_size", 224), both_sides(c, "patch_size", 16)
    count = ((c.inputs.height or rows) // p) * ((c.inputs.width or columns) // q)
    model = t5_like(c, t5_feed_forward(c, "relu"))
    beside = tuple(
        Learned(name=f"relative_bias_{i}", width=heads, rows=buckets, applied=False) for i in range(1, more + 1)
    )
    page = Learned(name="places", width=width, rows=2 * places, applied=False)
    if not model.towers:
        embedding = (*model.embedding, *beside, page, *at(count, patches(c, width).modules))
        return replace(model, embedding=embedding)
    (read,) = model.towers
    front = Block("places", tuple(replace(m, stream="source") for m in (*beside, page)))
    own = (
        (Learned(name="relative_bias_0", width=heads, rows=2 * buckets),) if c.architecture == "UdopModel" else ()
    )  # which it does not tie
    unused = tuple(replace(m, idle=True) for m in (*patches(c, width).modules, *beside, *own))
    seen = Block("patches", at(count, patches(c, width).modules))
    picture = tower("vision", IMAGES, width, (seen, Block("unused", unused)), count)
    return replace(model, towers=(picture, replace(read, layers=(front, *read.layers))))
