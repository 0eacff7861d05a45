"""`trace`: a model from a config whose type has no family, built from the products that its real code runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING

from roofline.declared.errors import InputError
from roofline.declared.trees import JsonObject, JsonValue
from roofline.extras import install_line
from roofline.model.checkpoints.quantization.methods import stored_precision
from roofline.model.configs.config import MOST_LAYERS, Config
from roofline.model.load import Source, config_of
from roofline.model.model import Block, Model
from roofline.model.modules import Attention, Experts, Linear, Module, Part

if TYPE_CHECKING:
    from roofline.model.trace.calls import InputShapes
    from roofline.model.trace.watch import Pass

SHAPES = ((2, 7, False), (2, 11, False), (3, 1, True))
"""(sequences, new tokens, whether behind a cache) of each traced pass; sizes consistent in all three hold in any
step."""
_HOW_IT_RUNS = ("implementation", "auto_map", "quantization_config", "kernel", "name_or_path", "backbone", "trust_")
"""Words in config keys that say where code or kernels come from: only transformers' own code is traced."""


def trace(
    source: Source,
    *,
    revision: str | None = None,
    shapes: InputShapes | None = None,
    call: str | None = None,
) -> Model:
    """A model of any class of transformers or diffusers, traced by running its real code on torch's meta device.

    The code runs on shapes, without weights, over two prompts and over one token behind a cache. A product with a
    weight becomes a Linear or an Embedding, attention an Attention, routed experts an Experts, each named as in the
    code. Norms, activations and all other work are not counted, and the model says so (`not_counted`). Attention is to
    all earlier tokens or to a window; sparse selection is not detected. All parameters count. The model can be
    analysed, estimated and fitted like any other. Code that comes with a checkpoint is never run.

    What is more than a decoder, and a class of diffusers (`_class_name`), is traced by one call of the class that
    `architectures` names, for inputs of fixed size. `shapes` gives them by argument (`{"pixel_values": (1, 3, 224,
    224)}`); nested lists are values (`{"image_grid_thw": [[1, 32, 24]]}`). As many tokens stand for an image or sound
    as its tower makes. Two are no arguments: `past`, the tokens in the cache before the call, and `cross`, the shapes
    of what an encoder read before it. `call`: another method, such as `get_image_features`; without it, the method
    that reads what is given alone, an encoder's or a tower's. Without `shapes`, inputs of the config's own sizes
    apply. Where the code runs on none of them, or leaves a hundredth of the weights unused on each, the model has its
    weights and no steps, and a step of it is refused.

    Raises InputError where torch or transformers are missing, where they lack this type, and where the code does not
    run on shapes.
    """
    name, raw = config_of(source, revision=revision)
    for package in ("torch", "transformers"):
        if find_spec(package) is None:
            raise InputError("trace", f"no {package}", f"torch and transformers: {install_line('oracle')}")
    from roofline.model.trace.watch import HalfAModelError, passes
    from roofline.model.trace.whole import traced_call

    if shapes is not None or call is not None or ("_class_name" in raw and "model_type" not in raw):
        return traced_call(name, raw, shapes, call)
    c = Config(raw)
    model_type = c.text("model_type")
    c.size("num_hidden_layers|n_layer|n_layers|num_layers", 1, most=MOST_LAYERS)
    try:
        runs = passes(model_type, settings_of(raw), SHAPES)
    except HalfAModelError:
        return traced_call(name, raw)
    except InputError as error:
        if error.field != "trace" or not c.architecture:
            raise
        return traced_call(name, raw)
    return _model(name or model_type, model_type, c, runs)


def settings_of(raw: JsonObject) -> dict[str, JsonValue]:
    """The settings without those that say where code comes from and in which formats weights are stored."""
    return {
        key: settings_of(value) if isinstance(value, Mapping) else value
        for key, value in raw.items()
        if key != "model_type" and not any(word in key for word in _HOW_IT_RUNS)
    }


def _model(name: str, model_type: str, c: Config, runs: Sequence[Pass]) -> Model:
    """The model of the work that all passes agree on; work in only some of them is not counted."""
    first = runs[0]
    alike = [step for step in first.steps if all(step in run.steps for run in runs[1:])]
    layers = dict.fromkeys(step.layer for step in alike if step.layer is not None)
    if not layers:
        raise InputError("trace", model_type, "a model whose numbered layers multiply by their weights")
    parts = {layer: [step.module for step in alike if step.layer == layer] for layer in (None, *layers)}
    ends = [(step.module, step.last) for step in alike if step.layer is None]
    idle = first.parameters - sum(step.module.parameters for step in alike)
    rest = (Linear(name="rest", inputs=idle, outputs=1, part="other", idle=True),) if idle > 0 else ()
    odd = {step.module.name for run in runs for step in run.steps if step not in alike}
    return Model(
        name=name,
        model_type=model_type,
        vocab=first.vocab,
        hidden=first.hidden,
        embedding=_apart([*(m for m, last in ends if not last), *rest]),
        layers=tuple(Block("layer", _apart(_in_parts(parts[layer]))) for layer in layers),
        head=_apart([m for m, last in ends if last]),
        precision=stored_precision(c),
        context=first.context,
        warnings=tuple(_warnings(c)),
        not_counted=tuple(_not_counted(runs, odd, idle)),
    )


def _in_parts(modules: Sequence[Module]) -> list[Module]:
    """Assign a layer's products to the parts that formats are given by: attention and router.

    A product belongs to attention if it is in the same module of the code. It is a router if it is beside experts and
    has one score for each of them.
    and scores each of them.
    """
    attention = tuple(_around(m.name.removesuffix(".attention") + ".") for m in modules if isinstance(m, Attention))
    experts = {(_around(m.name), m.experts) for m in modules if isinstance(m, Experts)}

    def part_of(m: Linear) -> Part:
        if any(around and m.name.startswith(around) for around in attention):
            return "attention"
        routes = any(m.outputs == count and m.name.startswith(around) for around, count in experts)
        return "router" if routes else m.part

    return [replace(m, part=part_of(m)) if isinstance(m, Linear) else m for m in modules]


def _around(name: str) -> str:
    """Path of the module of the code that contains this name, with a trailing dot."""
    return name[: name.rfind(".") + 1]


def _apart(modules: Sequence[Module]) -> tuple[Module, ...]:
    """Modules with unique names; a module that runs again has the same weights, which are counted once."""
    known: dict[str, int] = {}
    named: list[Module] = []
    for module in modules:
        known[module.name] = count = known.get(module.name, 0) + 1
        named.append(module if count == 1 else replace(module, name=f"{module.name} {count}"))
    return tuple(named)


def _warnings(c: Config) -> Iterator[str]:
    yield "traced from the real code: a layout divides attention and experts among ranks, but no other product"
    if c.has("quantization_config") or c.has("compression_config"):
        yield "quantization_config was not counted: weights are as dtype says; give their formats by precision"
    yield from c.notes


def _not_counted(runs: Sequence[Pass], odd: set[str], idle: int) -> Iterator[str]:
    first = runs[0]
    yield f"the work of all but matrix products and attention (traced from transformers {first.version})"
    if idle > 0:
        yield f"the work of {idle} parameters of norms and other modules; their memory counts"
    if odd:
        yield f"products whose rows do not follow the tokens: {_some(odd)}; its cache may be smaller than counted"
    if first.unknown:
        yield f"products of activations outside attention, and convolutions: {_some(first.unknown)}"
    if not any(run.cached for run in runs):
        yield "anything that it does behind a cache only: its code does not run there without values"


def _some(names: set[str] | frozenset[str]) -> str:
    shown = sorted(names)
    return ", ".join(shown[:4]) + (f" and {len(shown) - 4} more" if len(shown) > 4 else "")
