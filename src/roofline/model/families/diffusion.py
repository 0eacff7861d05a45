"""Denoisers: diffusion transformers, by the classes of diffusers."""

from __future__ import annotations

from dataclasses import replace

from roofline.model.config import Config
from roofline.model.families.blocks.encoders import at, at_one, encoder
from roofline.model.families.registry import complete
from roofline.model.model import Block, Model
from roofline.model.modules import Activation, Add, Attention, Gate, Linear, Module, Modules, Norm, Rope


def product(name: str, inputs: int, outputs: int, bias: bool = True) -> Linear:
    """A product with a bias."""
    return Linear(name=name, inputs=inputs, outputs=outputs, bias=bias)


def embedded(name: str, inputs: int, width: int) -> Modules:
    """A time step, guidance or pooled text as one vector of `width`: two products around SiLU."""
    return at_one((
        product(f"{name}_in", inputs, width),
        Activation(name=f"{name}_act", width=width, function="silu", gated=False),
        product(f"{name}_out", width, width),
    ))  # fmt: skip


def modulation(name: str, width: int, vectors: int) -> Modules:
    """Shifts, scales and gates of a block: `vectors` vectors of `width` from the embedded time step (AdaLN)."""
    return at_one((
        Activation(name=f"{name}_act", width=width, function="silu", gated=False),
        product(f"{name}_proj", width, vectors * width),
    ))  # fmt: skip


@complete("FluxTransformer2DModel")
def flux(c: Config) -> Model:
    """FLUX.1 (Black Forest Labs, 2024): blocks with streams of image and text, then blocks of both together."""
    heads, head = c.size("num_attention_heads", 24), c.size("attention_head_dim", 128)
    width, channels = heads * head, c.size("in_channels", 64)
    text_width, pooled_width = c.size("joint_attention_dim", 4096), c.size("pooled_projection_dim", 768)
    sizes = c.inputs
    image = sizes.patches or ((sizes.height or 1024) // 16) * ((sizes.width or 1024) // 16)
    text = sizes.tokens or 512
    both = image + text
    c.mark_read("axes_dims_rope", "patch_size")

    def stream(name: str, positions: int) -> tuple[Modules, Modules]:
        """One stream of a double block: what comes before the attention, and what after it."""
        before: tuple[Module, ...] = (
            *modulation(f"{name}_modulation", width, 6),
            *at(positions, (
                Norm(name=f"{name}_norm", width=width, center=True, weight=False),
                product(f"{name}_qkv_proj", width, 3 * width),
                Norm(name=f"{name}_q_norm", width=head, repeats=heads),
                Norm(name=f"{name}_k_norm", width=head, repeats=heads),
            )),
        )  # fmt: skip
        after = at(positions, (
            product(f"{name}_o_proj", width, width),
            Gate(name=f"{name}_gate", width=width, gates=width, sigmoid=False),
            Add(name=f"{name}_residual", width=width),
            Norm(name=f"{name}_ffn_norm", width=width, center=True, weight=False),
            product(f"{name}_up_proj", width, 4 * width),
            Activation(name=f"{name}_ffn_act", width=4 * width, function="gelu_pytorch_tanh", gated=False),
            product(f"{name}_down_proj", 4 * width, width),
            Gate(name=f"{name}_ffn_gate", width=width, gates=width, sigmoid=False),
            Add(name=f"{name}_ffn_residual", width=width),
        ))  # fmt: skip
        return before, after

    attention = at(both, (
        Rope(name="rope", heads=2 * heads, dims=head),
        Attention(name="attention", heads=heads, kv_heads=heads, head_dim=head, v_head_dim=head, causal=False),
    ))  # fmt: skip
    (seen, seen_after), (read, read_after) = stream("image", image), stream("text", text)
    double = Block("double", (*seen, *read, *attention, *seen_after, *read_after))
    single = Block("single", (
        *modulation("modulation", width, 3),
        *at(both, (
            Norm(name="norm", width=width, center=True, weight=False),
            product("qkv_proj", width, 3 * width),
            Norm(name="q_norm", width=head, repeats=heads),
            Norm(name="k_norm", width=head, repeats=heads),
            *(replace(x, positions=None) for x in attention),
            product("up_proj", width, 4 * width),
            Activation(name="ffn_act", width=4 * width, function="gelu_pytorch_tanh", gated=False),
            product("out_proj", 5 * width, width),
            Gate(name="gate", width=width, gates=width, sigmoid=False),
            Add(name="residual", width=width),
        )),
    ))  # fmt: skip
    guided = embedded("guidance", 256, width) if c.flag("guidance_embeds") else ()
    embedding = (
        *embedded("time", 256, width), *guided, *embedded("pooled_text", pooled_width, width),
        *at(text, (product("text_proj", text_width, width),)), *at(image, (product("image_proj", channels, width),)),
    )  # fmt: skip
    head_modules = (
        *modulation("final_modulation", width, 2),
        *at(image, (
            Norm(name="final_norm", width=width, center=True, weight=False),
            product("out_proj", width, c.size("out_channels", channels)),
        )),
    )  # fmt: skip
    blocks = [double] * c.size("num_layers", 19) + [single] * c.size("num_single_layers", 38)
    return encoder(c, width, blocks, embedding=embedding, head=head_modules, positions=image, steps=("denoise",))
