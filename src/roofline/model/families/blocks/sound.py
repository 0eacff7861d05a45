"""Encoders of sound: convolutions over samples or spectra, and the positions that they leave."""

from __future__ import annotations

from roofline.model.configs.config import Config
from roofline.model.families.blocks.encoders import at
from roofline.model.modules import Activation, Convolution, Module, Modules, Norm

SAMPLES = 480_000
"""Samples of an input where the caller does not say: 30 seconds at 16 kHz."""
SPECTRA = 3000
"""Columns of a spectrogram where the caller does not say: 30 seconds, one every 10 ms."""


def samples_of(c: Config) -> int:
    """Samples of an input."""
    return c.inputs.samples or SAMPLES


def spectra_of(c: Config) -> int:
    """Columns of the spectrogram of an input."""
    return c.inputs.spectra or SPECTRA


def strided_frames(length: int, kernel: int, stride: int = 1, padding: int = 0) -> int:
    """Positions that a convolution leaves of `length`."""
    return (length + 2 * padding - kernel) // stride + 1


def size_list(c: Config, key: str, count: int | None = None, default: list[int] | None = None) -> list[int]:
    """A list of sizes; a single one where the config gives a number."""
    value = c.value(key, default)[1]
    listed = [value] if type(value) is int else list(value) if isinstance(value, (list, tuple)) else []
    if not listed or any(type(v) is not int or v < 1 for v in listed) or (count is not None and len(listed) != count):
        raise c.error(key, "a list of sizes" if count is None else f"a list of {count} sizes")
    return [int(str(v)) for v in listed]


def lists_of(c: Config, key: str, count: int) -> list[list[int]]:
    """A list of `count` lists of sizes."""
    value = c.value(key, None)[1]
    listed = [v for v in value if isinstance(v, list) and v] if isinstance(value, list) else []
    if len(listed) != count:
        raise c.error(key, f"{count} lists of sizes")
    return [[int(str(n)) for n in v] for v in listed]


def channel_norm(name: str, width: int, *, weight: bool = True) -> Norm:
    """A norm of each channel over time, or of a batch: a weight and a bias for each channel."""
    return Norm(name=name, width=width, center=True, weight=weight, bias=weight)


def feature_encoder(c: Config, norms: str) -> tuple[Modules, int, int]:
    """wav2vec 2.0's convolutions over samples: the modules, positions that they leave, width.

    `norms`: `group` for a norm behind the first, `layer` behind each.
    """
    widths = size_list(c, "conv_dim")
    kernels, strides = size_list(c, "conv_kernel", len(widths)), size_list(c, "conv_stride", len(widths))
    bias, act = c.flag("conv_bias"), c.text("feat_extract_activation", "gelu")
    c.mark_read("num_feat_extract_layers")
    length, inputs, parts = samples_of(c), 1, list[Module]()
    for i, (width, kernel, stride) in enumerate(zip(widths, kernels, strides, strict=True)):
        length = strided_frames(length, kernel, stride)
        if length < 1:
            raise c.error("conv_stride", f"strides that leave a position of {samples_of(c)} samples")
        step: list[Module] = [
            Convolution(
                name=f"conv{i}", inputs=inputs, outputs=width, kernel=kernel, stride=stride, bias=bias, part="other"
            )
        ]
        step += [channel_norm(f"conv{i}_norm", width)] if norms == "layer" or i == 0 else []
        step.append(Activation(name=f"conv{i}_act", width=width, function=act, gated=False))
        parts += at(length, step)
        inputs = width
    return tuple(parts), length, inputs
