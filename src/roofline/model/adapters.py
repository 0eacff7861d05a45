"""Models made from models: low-rank adapters on frozen weights, and the draft layers that a checkpoint has besides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from roofline.declared.checks import count
from roofline.declared.errors import InputError, nearest
from roofline.model.model import Block, Model
from roofline.model.modules import Linear, Module

FUSED = {"qkv_proj": 3, "gate_up_proj": 2}
"""How many linear layers of the published code one of ours is."""


def with_lora(model: Model, rank: int, targets: Iterable[str] = ()) -> Model:
    """The model with its weights frozen and a pair of low-rank products beside each linear layer (arXiv:2106.09685).

    W·x + B·(A·x), A [rank, inputs], B [outputs, rank]: rank·(inputs + outputs) parameters each. `targets`: names of the
    modules that get one, all of the attention and the feed-forward where none are given. Raises InputError for a name
    that the model does not have.
    """
    rank = count("rank", rank, 1)
    named = set(targets)
    known = {m.name for b in model.layers for m in b.modules if isinstance(m, Linear)}
    for name in named - known:
        raise InputError("lora_targets", name, "a linear layer of the model", nearest(name, known) or sorted(known))

    def adapted(modules: Iterable[Module], layer: bool) -> Iterator[Module]:
        for module in modules:
            wanted = module.name in named if named else getattr(module, "part", "") in ("attention", "ffn")
            if layer and isinstance(module, Linear) and wanted:
                yield from _pair(module, rank)
            yield replace(module, frozen=True)

    blocks = {b: Block(b.name, tuple(adapted(b.modules, True))) for b, _ in model.blocks}
    return replace(
        model, embedding=tuple(adapted(model.embedding, False)), head=tuple(adapted(model.head, False)),
        layers=tuple(blocks[b] for b in model.layers),
    )  # fmt: skip


def named_targets(targets: str | Sequence[str] | None, rank: int | None) -> tuple[str, ...]:
    """The linear layers named, in a list or with commas between; none where all that can have an adapter are meant.

    Raises InputError where there is no adapter, and for anything else than names.
    """
    if targets is None:
        return ()
    words = targets.split(",") if isinstance(targets, str) else targets
    if not isinstance(words, (list, tuple)) or not all(isinstance(word, str) for word in words):
        raise InputError("lora_targets", targets, "names of linear layers, such as qkv_proj,o_proj")
    if rank is None:
        raise InputError("lora_targets", targets, "only with lora: the rank of adapters")
    names = tuple(word.strip() for word in words if word.strip())
    if not names:
        raise InputError("lora_targets", targets, "names of linear layers, such as qkv_proj,o_proj")
    return names


def _pair(module: Linear, rank: int) -> Iterator[Linear]:
    """A reads what the layer reads, B makes what it makes; each is shared out over ranks as the layer is.

    A layer that is several of the published code's in one has as many A's.
    """
    outputs = rank * FUSED.get(module.name.removeprefix("shared_"), 1)
    wide, narrow = ("columns" if module.cut == "columns" else "none"), ("rows" if module.cut == "rows" else "none")
    yield Linear(name=f"{module.name}_lora_a", inputs=module.inputs, outputs=outputs, part=module.part, cut=narrow)  # type: ignore[arg-type]
    yield replace(
        module, name=f"{module.name}_lora_b", inputs=rank, bias=False, cut=wide, groups=1, tied=False,  # type: ignore[arg-type]
    )  # fmt: skip


def drafts_note(layers: object) -> str:
    """What is said of a model whose multi-token-prediction layers are left out."""
    return f"{layers} multi-token-prediction layer(s), run only when drafting"


def with_drafts(model: Model, layers: int | None = None) -> Model:
    """The model with its multi-token-prediction layers behind the last one (arXiv:2412.19437 §2.2).

    `layers`: how many of them, all that the checkpoint has where not given. Raises InputError where it has fewer.
    """
    drafts = len(model.drafts) if layers is None else int(count("drafts", layers, 1))
    if not 1 <= drafts <= len(model.drafts):
        raise InputError("drafts", drafts, f"at most the {len(model.drafts)} draft layers of {model.name}")
    rest, note = len(model.drafts) - drafts, drafts_note(len(model.drafts))
    told = (drafts_note(rest) if text == note and rest else text for text in model.not_counted if text != note or rest)
    return replace(model, layers=(*model.layers, *model.drafts[:drafts]), drafts=(), not_counted=tuple(told))
