"""Models derived from other models: with low-rank adapters, or with the checkpoint's draft layers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from roofline.declared.checks import count
from roofline.declared.errors import InputError, nearest
from roofline.declared.trees import JsonValue
from roofline.model.model import Block, Model
from roofline.model.modules import Cut, ExpertLinear, Experts, Linear, Magnitude, Module

FUSED = {"qkv_proj": 3, "gate_up_proj": 2}
"""Number of linear layers of the published code that are fused into one layer here."""


def with_lora(model: Model, rank: int, targets: Iterable[str] = (), magnitudes: bool = False) -> Model:
    """Freeze a model's weights and add a low-rank adapter to its linear layers (LoRA, arXiv:2106.09685).

    The output is W·x + B·(A·x) with A [rank, inputs] and B [outputs, rank], so that an adapter has rank·(inputs +
    outputs) parameters. `magnitudes`: with a learned magnitude of each output besides (DoRA). `targets`: names of the
    linear layers that get an adapter, or of routed experts, of which each has its own; by default all those of
    attention and feed-forward. Raises InputError for a name that the model does not have.
    """
    rank = count("rank", rank, 1)
    named = set(targets)
    known = {m.name for b in model.layers for m in b.modules if isinstance(m, (Linear, Experts))}
    for name in named - known:
        raise InputError("lora_targets", name, "a linear layer of the model", nearest(name, known) or sorted(known))

    def adapted(modules: Iterable[Module], layer: bool) -> Iterator[Module]:
        for module in modules:
            usual = isinstance(module, Experts) or getattr(module, "part", "") in ("attention", "ffn")
            wanted = module.name in named if named else usual
            if layer and isinstance(module, Linear) and wanted:
                yield from _pair(module, rank)
            if layer and isinstance(module, Experts) and wanted:
                yield from _pairs_of_experts(module, rank)
            yield replace(module, frozen=True)
            if layer and isinstance(module, Linear) and wanted and magnitudes:
                yield Magnitude(
                    name=f"{module.name}_dora", inputs=module.inputs // module.groups, outputs=module.outputs,
                    rank=rank, part=module.part, cut=module.cut, stream=module.stream, positions=module.positions,
                    runs=module.runs, pace=module.pace, idle=module.idle,
                )  # fmt: skip

    blocks = {b: Block(b.name, tuple(adapted(b.modules, True))) for b, _ in model.blocks}
    return replace(
        model, embedding=tuple(adapted(model.embedding, False)), head=tuple(adapted(model.head, False)),
        layers=tuple(blocks[b] for b in model.layers),
    )  # fmt: skip


def named_targets(targets: str | Sequence[str] | None, rank: int | None) -> tuple[str, ...]:
    """Names of linear layers from a list or a comma-separated string; empty for None, which stands for all layers.

    Raises InputError where there is no adapter (`rank` is None), and for anything other than names.
    """
    if targets is None:
        return ()
    words = [targets] if isinstance(targets, str) else targets
    if not isinstance(words, (list, tuple)) or not all(isinstance(word, str) for word in words):
        raise InputError("lora_targets", targets, "names of linear layers, such as qkv_proj,o_proj")
    if rank is None:
        raise InputError("lora_targets", targets, "only with lora: the rank of adapters")
    names = tuple(name.strip() for word in words for name in word.split(",") if name.strip())
    if not names:
        raise InputError("lora_targets", targets, "names of linear layers, such as qkv_proj,o_proj")
    return names


def _pair(module: Linear, rank: int) -> Iterator[Linear]:
    """The two products A and B of an adapter: A has the layer's inputs and B its outputs.

    Tensor parallelism splits them as it splits the layer. A layer that fuses several layers of the published code has
    one A for each.
    """
    outputs = rank * FUSED.get(module.name.removeprefix("shared_"), 1)
    wide, narrow = ("columns" if module.cut == "columns" else "none"), ("rows" if module.cut == "rows" else "none")
    yield Linear(name=f"{module.name}_lora_a", inputs=module.inputs, outputs=outputs, part=module.part, cut=narrow)  # type: ignore[arg-type]
    yield replace(
        module, name=f"{module.name}_lora_b", inputs=rank, bias=False, cut=wide, groups=1, tied=False,  # type: ignore[arg-type]
    )  # fmt: skip


def _pairs_of_experts(experts: Experts, rank: int) -> Iterator[ExpertLinear]:
    """The products of every expert's adapters: of gate and up side by side, and of down.

    Expert tensor parallelism splits them as it splits the experts.
    """
    wide, up = (2, "gate_up_proj") if experts.gated else (1, "up_proj")
    products: tuple[tuple[str, int, int, Cut], ...] = (
        (f"{up}_lora_a", experts.hidden, wide * rank, "none"), (f"{up}_lora_b", rank, wide * experts.inner, "columns"),
        ("down_proj_lora_a", experts.inner, rank, "rows"), ("down_proj_lora_b", rank, experts.hidden, "none"),
    )  # fmt: skip
    for name, inputs, outputs, cut in products:
        yield ExpertLinear(
            name=f"{experts.name}_{name}", inputs=inputs, outputs=outputs, experts=experts.experts,
            top_k=experts.top_k, adapts=True, cut=cut,
        )  # fmt: skip


def with_frozen(model: Model) -> Model:
    """The model with no weight that learns."""

    def still(modules: Iterable[Module]) -> tuple[Module, ...]:
        return tuple(replace(module, frozen=True) for module in modules)

    blocks = {b: Block(b.name, still(b.modules)) for b, _ in model.blocks}
    layers = tuple(blocks[b] for b in model.layers)
    return replace(model, embedding=still(model.embedding), head=still(model.head), layers=layers)


def with_context(model: Model, tokens: int) -> Model:
    """The model with a context of `tokens`, as after an extension of RoPE (YaRN, arXiv:2309.00071).

    Raises InputError for a model with a table of positions, which has a row for each.
    """
    if any(x.name == "position_embedding" for x in model.embedding):
        expected = f"none: {model.name} has a learned row for each of its {model.context} positions"
        raise InputError("context_length", tokens, expected)
    return replace(model, context=int(count("context_length", tokens, 1)))


def drafts_note(layers: JsonValue) -> str:
    """Note on a model whose multi-token-prediction layers are not counted."""
    return f"{layers} multi-token-prediction layer(s), run only when drafting"


def with_drafts(model: Model, layers: int | None = None) -> Model:
    """The model with its multi-token-prediction layers appended to its layers (arXiv:2412.19437 §2.2).

    `layers`: number of these layers to append; by default all that the checkpoint has. Raises InputError where it has
    fewer.
    """
    drafts = len(model.drafts) if layers is None else int(count("drafts", layers, 1))
    if not 1 <= drafts <= len(model.drafts):
        raise InputError("drafts", drafts, f"at most the {len(model.drafts)} draft layers of {model.name}")
    rest, note = len(model.drafts) - drafts, drafts_note(len(model.drafts))
    told = (drafts_note(rest) if text == note and rest else text for text in model.not_counted if text != note or rest)
    return replace(model, layers=(*model.layers, *model.drafts[:drafts]), drafts=(), not_counted=tuple(told))
