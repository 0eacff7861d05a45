"""Weight quantisation: only weights that are stored in more bits are narrowed."""

from __future__ import annotations

from dataclasses import dataclass

from roofline.model.formats import format_named
from roofline.model.model import Model
from roofline.model.modules import Part
from roofline.model.precision import WEIGHTS, Precision, part_of


@dataclass(frozen=True)
class QuantizedWeights:
    """Formats with some weights in fewer bits.

    `what`: those weights in words. `bytes`: stored bytes of the matrices of attention, feed-forwards and experts, as a
    fraction of those before.
    """

    precision: Precision
    what: str
    bytes: float


def quantized_weights(model: Model, formats: Precision, name: str) -> QuantizedWeights | None:
    """Narrow every weight of attention, feed-forwards and experts with more bits than format `name` to that format.

    None where no weight has more bits.
    """
    fmt = format_named(name)
    matrices = [(x, n * x.matrix) for x, n in model.modules() if part_of(x) in WEIGHTS]
    stored = _stored(model)
    wide = [role for role in stored if any(formats.of(x).bits > fmt.bits for x, _ in matrices if part_of(x) == role)]
    if not wide:
        return None
    every = wide == stored
    spec = f"weights={name}" if every else ",".join(f"{role}={name}" for role in wide)

    def size(p: Precision) -> float:
        return sum(float(p.of(x).bytes(n)) for x, n in matrices)

    narrow = formats.merged(spec)
    what = "weights" if every else f"{' and '.join(wide)} weights"
    return QuantizedWeights(narrow, what, size(narrow) / size(formats))


def weights_text(model: Model, formats: Precision) -> str:
    """The distinct formats of the weights of attention, feed-forwards and experts: `bf16/mxfp4`."""
    stored = _stored(model)
    usual = [formats.weights(role).name for role in stored]
    own = [formats.of(x).name for x, _ in model.modules() if x.matrix and part_of(x) in stored]
    return "/".join(dict.fromkeys([*usual, *own]))


def _stored(model: Model) -> list[Part]:
    """The parts with weight matrices."""
    parts = {part_of(x) for x, _ in model.modules() if x.matrix}
    return [role for role in WEIGHTS if role in parts]
