"""Denoisers: embedded time steps, modulated streams, attention over image and text, and the sizes of latents."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from roofline.model.configs.config import Config
from roofline.model.families.blocks.encoders import at, at_one
from roofline.model.families.blocks.norms import (
    across_heads,
    layer_norm_per_head,
    per_head,
    plain_layer_norm,
    plain_per_head,
)
from roofline.model.modules import Activation, Add, Attention, Gate, Linear, Module, Modules, Norm, Rope

QK = {"": None, "heads": per_head, "across": across_heads, "layer": layer_norm_per_head, "plain": plain_per_head}
"""Norms of queries and keys: none, RMSNorm of each head or across all of them, LayerNorm of each head, no weights."""
TEXT, PIXELS = 512, 1024
"""Tokens of a prompt, and sides of an image, where neither config nor caller says."""


# -- sizes ---------------------------------------------------------------------------------------------------------
def latents(
    c: Config, *, side: int | tuple[int, int] = PIXELS // 8, frames: int = 1, space: int = 8, time: int = 4
) -> tuple[int, int, int]:
    """Frames, height and width of the latents: as given, else of the given pixels, else those of the config.

    `side` (or height and width) and `frames` are the config's own; an autoencoder makes one latent of `space`² pixels
    and of `time` frames, the first frame apart.
    """
    sizes, (height, width) = c.inputs, side if isinstance(side, tuple) else (side, side)
    if sizes.latents is not None:
        count, rows, columns = (1, *sizes.latents)[-3:]
        return count, rows, columns
    return (
        frames if sizes.frames is None else (sizes.frames - 1) // time + 1,
        height if sizes.height is None else -(-sizes.height // space),
        width if sizes.width is None else -(-sizes.width // space),
    )


def prompt(c: Config, tokens: int = TEXT) -> int:
    """Tokens of the prompt that a denoiser attends to."""
    return c.inputs.tokens or tokens


def sequence(c: Config, patches: int) -> int:
    """Latents that a denoiser takes as a sequence, where they are given as one."""
    return c.inputs.patches or patches


# -- parts ---------------------------------------------------------------------------------------------------------
def product(name: str, inputs: int, outputs: int, bias: bool = True) -> Linear:
    """A product with a bias."""
    return Linear(name=name, inputs=inputs, outputs=outputs, bias=bias)


def function(name: str, width: int, kind: str = "silu", *, gated: bool = False) -> Activation:
    """An activation by itself."""
    return Activation(name=name, width=width, function=kind, gated=gated)


def two_products(name: str, inputs: int, width: int, outputs: int, act: str = "silu", *, bias: bool = True) -> Modules:
    """Two products around an activation."""
    return (
        product(f"{name}_in", inputs, width, bias), function(f"{name}_act", width, act),
        product(f"{name}_out", width, outputs, bias),
    )  # fmt: skip


def embedded(name: str, inputs: int, width: int, act: str = "silu", *, bias: bool = True) -> Modules:
    """A time step, guidance or pooled text as one vector of `width`: two products around SiLU."""
    return at_one(two_products(name, inputs, width, width, act, bias=bias))


def modulation(name: str, width: int, vectors: int, *, of: int | None = None, bias: bool = True) -> Modules:
    """Shifts, scales and gates of a block: `vectors` vectors of `width` from the embedded time step (AdaLN).

    `of`: width of that embedding, where it is another.
    """
    of = width if of is None else of
    return at_one((function(f"{name}_act", of), product(f"{name}_proj", of, vectors * width, bias)))


def affine(name: str, width: int, weights: bool) -> Norm:
    """LayerNorm, with weight and bias where it has any."""
    return Norm(name=name, width=width, center=True, weight=weights, bias=weights)


def placed_at(positions: int, modules: Iterable[Module]) -> Modules:
    """The modules over a number of positions, but those that have one of their own."""
    return tuple(m if m.positions is not None else replace(m, positions=positions) for m in modules)


def prefixed(prefix: str, modules: Iterable[Module]) -> Modules:
    """The modules with a prefix before their names."""
    return tuple(replace(m, name=f"{prefix}{m.name}") for m in modules)


ACTS = {
    "gelu-approximate": ("gelu_pytorch_tanh", False), "gelu": ("gelu", False), "geglu": ("gelu", True),
    "swiglu": ("silu", True), "linear-silu": ("silu", False), "geglu-approximate": ("gelu_pytorch_tanh", False),
}  # fmt: skip
"""Activations of diffusers' feed-forward networks: the function, and whether a gate is beside it."""


def feed_forward(
    name: str, width: int, inner: int, act: str = "gelu-approximate", *, bias: bool = True, outputs: int | None = None
) -> Modules:
    """A feed-forward network by the name of its activation in diffusers."""
    kind, gated = ACTS[act]
    return (
        replace(product(f"{name}_up_proj", width, (1 + gated) * inner, bias), gated=gated),
        function(f"{name}_act", inner, kind, gated=gated),
        product(f"{name}_down_proj", inner, width if outputs is None else outputs, bias),
    )


def act_of(c: Config, default: str = "gelu-approximate") -> str:
    """The activation of the feed-forward networks."""
    return c.text("activation_fn", default, ACTS)


@dataclass(frozen=True, kw_only=True)
class StreamSizes:
    """Sizes of one stream of a block: its width, heads and inner width, and what its parts have.

    `vectors`: of its modulation, made from an embedding of `time` values; none where one modulation serves all blocks.
    `qk`: norm of queries and keys (`QK`). `biases`: whether queries, keys and values have a bias, the output
    projection, and the feed-forward network. `norm`: before attention and feed-forward network.
    """

    width: int
    heads: int
    head: int
    inner: int
    act: str = "gelu-approximate"
    vectors: int = 6
    time: int | None = None
    qk: str = "heads"
    kv_heads: int | None = None
    biases: tuple[bool, bool, bool] = (True, True, True)
    norm: Callable[[str, int], Norm] = plain_layer_norm
    rotated: bool = True

    @property
    def keys(self) -> int:
        """Heads of keys and values."""
        return self.kv_heads or self.heads

    @property
    def wide(self) -> int:
        """Outputs of queries, keys and values together."""
        return (self.heads + 2 * self.keys) * self.head

    def modulated(self, name: str = "modulation") -> Modules:
        """The modulation of a block."""
        bias = self.biases[0] or self.vectors > 0
        return modulation(name, self.width, self.vectors, of=self.time, bias=bias) if self.vectors else ()

    def head_norms(self, prefix: str = "") -> Modules:
        """Norms of queries and keys."""
        norm = QK[self.qk]
        if norm is None:
            return ()
        return norm(f"{prefix}q_norm", self.heads, self.head), norm(f"{prefix}k_norm", self.keys, self.head)

    def projected(self, prefix: str = "") -> Modules:
        """Norm of the stream, then queries, keys and values."""
        return (
            self.norm(f"{prefix}norm", self.width),
            product(f"{prefix}qkv_proj", self.width, self.wide, self.biases[0]), *self.head_norms(prefix),
        )  # fmt: skip

    def attention(self, name: str = "") -> Modules:
        """Attention without a mask, rotated where positions are."""
        rope = Rope(name=f"{name}rope", heads=self.heads + self.keys, dims=self.head)
        attend = Attention(
            name=f"{name}attention", heads=self.heads, kv_heads=self.keys, head_dim=self.head, v_head_dim=self.head,
            causal=False,
        )  # fmt: skip
        return (rope, attend) if self.rotated else (attend,)

    def output(self, prefix: str = "", *, gated: bool = True) -> Modules:
        """The output projection, its gate and the sum."""
        gate = (Gate(name=f"{prefix}gate", width=self.width, gates=self.width, sigmoid=False),) if gated else ()
        return (
            product(f"{prefix}o_proj", self.heads * self.head, self.width, self.biases[1]), *gate,
            Add(name=f"{prefix}residual", width=self.width),
        )  # fmt: skip

    def fed(self, prefix: str = "", *, gated: bool = True) -> Modules:
        """Norm, feed-forward network, its gate and the sum."""
        gate = (Gate(name=f"{prefix}ffn_gate", width=self.width, gates=self.width, sigmoid=False),) if gated else ()
        return (
            self.norm(f"{prefix}ffn_norm", self.width),
            *feed_forward(f"{prefix}ffn", self.width, self.inner, self.act, bias=self.biases[2]), *gate,
            Add(name=f"{prefix}ffn_residual", width=self.width),
        )  # fmt: skip

    def crossed(self, keys: int, width: int, *, prefix: str = "cross_", bias: bool = True) -> Modules:
        """Attention of the stream to `keys` positions of `width` values, such as a prompt."""
        inner, read = self.heads * self.head, at(keys, (
            product(f"{prefix}kv_proj", width, 2 * self.keys * self.head, bias), *self.head_norms(prefix)[1:],
        ))  # fmt: skip
        return (
            product(f"{prefix}q_proj", self.width, inner, bias), *self.head_norms(prefix)[:1], *read,
            Attention(
                name=f"{prefix}attention", heads=self.heads, kv_heads=self.keys, head_dim=self.head,
                v_head_dim=self.head, causal=False, keys=keys,
            ),
            product(f"{prefix}o_proj", inner, self.width, self.biases[1]),
            Add(name=f"{prefix}residual", width=self.width),
        )  # fmt: skip


def double(
    seen: StreamSizes, read: StreamSizes, image: int, text: int, *, last: bool = False, more: Modules = ()
) -> Modules:
    """A block with streams of image and text, which attend to both together (MM-DiT, arXiv:2403.03206 §4).

    `last`: the text is not used after it, and has two vectors of modulation and no output. `more`: of the image, before
    its feed-forward network.
    """
    begins = replace(read, vectors=2 if read.vectors else 0) if last else read
    return (
        *seen.modulated("image_modulation"), *at(image, seen.projected("image_")),
        *begins.modulated("text_modulation"), *at(text, read.projected("text_")),
        *at(image + text, seen.attention()),
        *at(image, (*seen.output("image_"), *more, *seen.fed("image_"))),
        *(() if last else at(text, (*read.output("text_"), *read.fed("text_")))),
    )  # fmt: skip


def parallel(s: StreamSizes, *, vectors: int = 3, out_bias: bool = True) -> Modules:
    """A block whose attention and feed-forward network read the same norm and share their output projection."""
    kind, gated = ACTS[s.act]
    bias = s.biases[0]
    return (
        *(modulation("modulation", s.width, vectors, of=s.time, bias=True) if vectors else ()),
        *s.projected(), *s.attention(),
        replace(product("up_proj", s.width, (1 + gated) * s.inner, bias), gated=gated),
        function("ffn_act", s.inner, kind, gated=gated),
        product("out_proj", s.heads * s.head + s.inner, s.width, out_bias),
        Gate(name="gate", width=s.width, gates=s.width, sigmoid=False),
        Add(name="residual", width=s.width),
    )  # fmt: skip


def final(width: int, outputs: int, *, of: int | None = None, vectors: int = 2, bias: bool = True) -> Modules:
    """Modulated norm of a denoiser's output, and the product to its patches."""
    return (
        *(modulation("final_modulation", width, vectors, of=of, bias=bias) if vectors else ()),
        plain_layer_norm("final_norm", width), product("out_proj", width, outputs, bias),
    )  # fmt: skip
