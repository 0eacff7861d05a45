"""The command `transformer-roofline-analyzer`: the table of the original tool, digit for digit.

Its rows are our modules in the tool's outline of a layer (every layer rotates, no q/k norm, no embedding, no head),
counted by the `original` conventions.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from roofline.declared.errors import InputError, nearest
from roofline.declared.trees import JsonObject
from roofline.model.configs.config import MOST_LAYERS, Config
from roofline.model.families.blocks.feed_forward import mlp
from roofline.model.families.blocks.layers import layer
from roofline.model.families.blocks.norms import rms
from roofline.model.families.blocks.sizes import split
from roofline.model.formats import Format, format_named
from roofline.model.load import config_of
from roofline.model.model import Block, Model
from roofline.model.modules import Add, Attention, Linear, Module, Modules, Norm, Rope
from roofline.model.precision import Precision, uniform
from roofline.views.stdout import printing
from roofline.work.analysis import Analysis, analyze
from roofline.work.step import Step

MODEL_TYPES = ("llama", "llama4")
SCHEMA = "transformer-roofline-analyzer/1"
HEADERS = (
    "Node", "Block Count", "Compute", "Bandwidth (Weight)", "Bandwidth (Input)", "Bandwidth (Output)",
    "Operational Intensity",
)  # fmt: skip


@dataclass(frozen=True)
class Line:
    """A table row: figures of a single block, and the number of such blocks in the model."""

    name: str
    blocks: int
    flops: int
    weight: int
    input: int
    output: int

    def __add__(self, other: Line) -> Line:
        moved = self.weight + other.weight, self.input + other.input, self.output + other.output
        return Line(self.name, self.blocks, self.flops + other.flops, *moved)

    def times(self, blocks: int) -> Line:
        """The figures of that many blocks."""
        return Line(self.name, blocks, *(blocks * v for v in (self.flops, self.weight, self.input, self.output)))

    @property
    def intensity(self) -> float:
        """FLOPs per byte."""
        return self.flops / (self.weight + self.input + self.output)


@dataclass(frozen=True)
class Storage:
    """Least memory in bytes. `experts`: experts that the weights column leaves out."""

    weights: int
    cache: int
    experts: int
    embedding: int

    @property
    def total(self) -> int:
        """Sum of the unrounded terms."""
        return self.weights + self.cache + self.experts + self.embedding


@dataclass(frozen=True)
class Outline:
    """A model in the old tool's outline, and the bytes of the experts and the table that its rows leave out."""

    model: Model
    idle_experts: int
    embedding: int


# -- the outline ---------------------------------------------------------------------------------------------------
def analyzer_outline(raw: JsonObject) -> Outline:
    """The layers as the old tool sees them. Raises InputError for an unsupported model_type or an invalid size."""
    outer = Config(raw)
    model_type = outer.text("model_type")
    if model_type not in MODEL_TYPES:
        raise InputError("model_type", model_type, "llama or llama4", nearest(model_type, MODEL_TYPES))
    c = outer.section("text_config") if model_type == "llama4" else outer
    width, heads = c.size("hidden_size"), c.size("num_attention_heads")
    layers, kv_heads = c.size("num_hidden_layers", most=MOST_LAYERS), c.size("num_key_value_heads", heads)
    if heads % kv_heads:
        raise c.error("num_key_value_heads", f"a divisor of num_attention_heads = {heads}")
    head_dim = c.size("head_dim", None) if model_type == "llama4" else None
    head_dim = split(c, "num_attention_heads", width, heads, "hidden_size") if head_dim is None else head_dim
    inner, table = c.size("intermediate_size"), width * c.size("vocab_size", most=2**28)
    stored = _dtype(outer, c)
    attn = _attention(width, heads, kv_heads, head_dim)
    if model_type == "llama":
        blocks, idle = [_block("dense", width, attn, _feed_forward(width, inner))] * layers, 0
    else:
        experts = c.size("num_local_experts")
        top_k = c.size("num_experts_per_tok", most=experts)
        sparse = layers // c.size("interleave_moe_layer_step")
        routed = tuple(m for i in range(top_k) for m in _feed_forward(width, inner, "RoutedExp_", f"#{i}"))
        shared = (*_feed_forward(width, inner, "SharedExp_"), Add(name="RoutedSharedExpAdd", width=width))
        router = Linear(name="Router", inputs=width, outputs=experts)
        dense = _feed_forward(width, c.size("intermediate_size_mlp"), "NonMoE_") if sparse < layers else ()
        blocks = [_block("moe", width, attn, (router, *routed, *shared))] * sparse
        blocks += [_block("dense", width, attn, (router, *dense))] * (layers - sparse)
        idle = (experts - top_k) * 3 * width * inner * sparse
    model = Model(
        name=model_type, model_type=model_type, vocab=1, hidden=width, embedding=(), layers=tuple(blocks), head=(),
        precision=stored,
    )  # fmt: skip
    return Outline(model, int(stored.ffn.bytes(idle)), int(stored.ffn.bytes(table)))


def _dtype(outer: Config, c: Config) -> Precision:
    names = [x.raw[k] for x in (c, outer) for k in ("torch_dtype", "dtype") if x.has(k)]
    chosen: Format = format_named(names[0] if names else "float16", "torch_dtype")
    return uniform(chosen)


def _attention(width: int, heads: int, kv_heads: int, head_dim: int) -> Modules:
    queries = heads * head_dim
    return (
        Linear(name="QKV_Proj", inputs=width, outputs=queries + 2 * kv_heads * head_dim),
        Rope(name="RoPE", heads=heads + kv_heads, dims=head_dim),
        Attention(name="SDPA", heads=heads, kv_heads=kv_heads, head_dim=head_dim, v_head_dim=head_dim),
        Linear(name="O_Proj", inputs=queries, outputs=width),
    )


def _feed_forward(width: int, inner: int, prefix: str = "", suffix: str = "") -> Modules:
    up, act, down = mlp(width, inner, "silu")
    names = ("GateUp_Proj", "ActMul", "Down_Proj")
    return tuple(replace(m, name=prefix + n + suffix) for m, n in zip((up, act, down), names, strict=True))


def _block(name: str, width: int, attn: Modules, ffn: Modules) -> Block:
    """A pre-norm layer; its modules are labelled by the half that they belong to."""
    named: list[Module] = []
    half = "Attn"
    for module in layer(name, width, attn, ffn, norm=rms).modules:
        label = module.name
        if isinstance(module, Norm):
            half, label = ("Attn" if label == "attn_norm" else "Ffn"), "RMSNorm"
        if isinstance(module, Add) and label.endswith("residual"):
            label = "ResidualAdd"
        named.append(replace(module, name=f"{half} - {label}"))
    return Block(name, tuple(named))


# -- the table -----------------------------------------------------------------------------------------------------
def analyzer_rows(analysis: Analysis) -> list[Line]:
    """One row for each name, in the order of a sparse layer followed by a dense one; choices of routed experts are
    added up."""
    by_block: dict[tuple[str, str], Line] = {}
    for cost in analysis.ops:
        name, moved = cost.name.partition("#")[0], cost.each_moved
        figures = (int(v) for v in (cost.each_flops, moved.weights, moved.input, moved.output))
        row, key = Line(name, cost.layers, *figures), (name, cost.block)
        by_block[key] = by_block[key] + row if key in by_block else row
    merged: dict[str, Line] = {}
    for (name, _), row in by_block.items():
        merged[name] = replace(row, blocks=row.blocks + (merged[name].blocks if name in merged else 0))
    last = "Ffn - ResidualAdd"
    return [*(r for n, r in merged.items() if n != last), merged[last]]


def analyzer_total(table: Sequence[Line], layers: int) -> Line:
    """Sum over the rows, each times its number of blocks."""
    first, *rest = (row.times(row.blocks) for row in table)
    for row in rest:
        first = first + row
    return replace(first, name=f"Total ({layers} Blocks)", blocks=layers)


def storage(seen: Outline, step: Step, summed: Line) -> Storage:
    """Terms of the storage line."""
    cache = seen.model.kv_bytes(step.cached_tokens + step.tokens)
    return Storage(summed.weight, int(cache), seen.idle_experts, seen.embedding)


def flops_text(value: float, unit: str = "FLOPs") -> str:
    """A value with an SI prefix and two decimals."""
    from prefixed import Float

    return f"{Float(value):!.2h}{unit}"


def bytes_text(value: float) -> str:
    """A value with a binary prefix and two decimals."""
    from prefixed import Float

    return f"{Float(value):!.2k}B"


def rendered(table: Sequence[Line], summed: Line, layers: int, stored: Storage) -> str:
    """The table and the storage line."""
    from tabulate import tabulate

    def cells(row: Line, blocks: str) -> list[str]:
        moved = [bytes_text(v) for v in (row.weight, row.input, row.output)]
        return [row.name, blocks, flops_text(row.flops), *moved, flops_text(row.intensity, "FLOPs/Bytes")]

    lines = [cells(row, f"{row.blocks} / {layers}") for row in table]
    lines += [[""] * len(HEADERS), cells(summed, "N/A")]
    align = ("left", "center", *["right"] * 5)
    text = tabulate(lines, headers=HEADERS, tablefmt="github", colalign=align, disable_numparse=True)
    return "\n".join([*_plain_rules(text.splitlines()), "", storage_line(stored)])


def _plain_rules(lines: list[str]) -> Iterator[str]:
    """Remove alignment marks from the rule under the headers, which depend on tabulate's release."""
    for i, line in enumerate(lines):
        yield line.replace(":", "-") if i == 1 else line


def storage_line(stored: Storage) -> str:
    """The terms of the least memory and their sum."""
    terms = [("Weights", stored.weights), ("KV-cache", stored.cache)]
    terms += [("Additional Experts", stored.experts)] if stored.experts else []
    terms += [("Embedding Table", stored.embedding)]
    listed = " + ".join(f"({name}) {bytes_text(value)}" for name, value in terms)
    return f"Minimum Storage Requirement: {listed} = {bytes_text(stored.total)}"


# -- the command ---------------------------------------------------------------------------------------------------
def parser() -> argparse.ArgumentParser:
    """The old tool's options and two of ours."""
    p = argparse.ArgumentParser(
        prog="transformer-roofline-analyzer",
        description="Compute, bandwidth and storage of each layer of a llama or llama4 model, as the tool of that "
        "name counts them.",
        epilog="example: transformer-roofline-analyzer --cached-tokens 4096 -- meta-llama/Llama-2-7b-hf",
    )
    p.add_argument("--cached-tokens", nargs="+", type=int, help="tokens each query already has in the KV cache (0)")
    p.add_argument("--input-tokens", nargs="+", type=int, help="tokens each query brings (1)")
    p.add_argument("--batch-size", type=int, help="queries in the batch: a multiple of the lists' length, which repeat")
    p.add_argument("--counting", choices=("original", "standard"), default="original", help="how FLOPs are counted")
    p.add_argument("--json", action="store_true", help="print the figures as JSON")
    p.add_argument("model_name_or_config", help="a Hub id such as meta-llama/Llama-2-7b-hf, or a config.json")
    return p


def analyzer_step(cached: Sequence[int] | None, new: Sequence[int] | None, batch: int | None) -> Step:
    """The batch that the options describe. Raises InputError naming both options if the lists do not match."""
    both = "--cached-tokens and --input-tokens"
    cached_list, new_list = list(cached or [0]), list(new or [1])
    if len(cached_list) != len(new_list):
        counts = f"{len(cached_list)} and {len(new_list)}"
        raise InputError(both, counts, "the same number of values")
    if any(t < 0 for t in cached_list) or any(t < 1 for t in new_list):
        raise InputError(both, [cached_list, new_list], "at least 0 cached tokens and 1 input token")
    size = len(cached_list) if batch is None else batch
    if size < 1 or size % len(cached_list):
        raise InputError("--batch-size", size, f"a multiple of {len(cached_list)}, the length of {both}")
    return Step(cached=cached_list, new=new_list, batch=size)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command; exits with 1 if the config cannot be read and 2 for invalid options."""
    with printing("transformer-roofline-analyzer"):
        _run(argv)


def _run(argv: Sequence[str] | None) -> None:
    options = parser()
    args = options.parse_args(argv)
    try:
        step = analyzer_step(args.cached_tokens, args.input_tokens, args.batch_size)
    except InputError as error:
        options.error(str(error))
    try:
        where = Path(args.model_name_or_config)
        if where.exists() and not where.is_file():
            raise InputError("model_name_or_config", str(where), "a file or a Hub id, not a folder")
        seen = analyzer_outline(config_of(args.model_name_or_config)[1])
    except InputError as error:
        print(f"Error loading config: {error}", file=sys.stderr)
        raise SystemExit(1) from None
    counted = {name: analyze(seen.model, step, counting=name, traffic="original") for name in ("original", "standard")}
    chosen = replace(counted[args.counting], counting=replace(counted[args.counting].counting, layers_only=True))
    layers = len(seen.model.layers)
    table = analyzer_rows(chosen)
    summed = analyzer_total(table, layers)
    stored = storage(seen, step, summed)
    if args.json:
        print(json.dumps(_json(args.counting, layers, table, summed, stored), indent=2))
    else:
        print(rendered(table, summed, layers, stored))
    before, after = float(counted["original"].flops), float(counted["standard"].flops)
    print(
        f"note: {args.counting} counting. original counts {flops_text(before)} here, --counting standard "
        f"{flops_text(after)} ({after / before - 1:+.2%}): masked pairs left out, values over all query heads, "
        "activations multiplied by their tokens, 2·K a product instead of 2·K − 1.",
        file=sys.stderr,
    )


def _json(counting: str, layers: int, table: Sequence[Line], summed: Line, stored: Storage) -> JsonObject:
    def entry(row: Line) -> JsonObject:
        return {**row.__dict__, "intensity": row.intensity}

    return {
        "schema": SCHEMA, "counting": counting, "layers": layers, "rows": [entry(r) for r in table],
        "total": entry(summed), "storage_bytes": {**stored.__dict__, "total": stored.total},
    }  # fmt: skip


if __name__ == "__main__":
    main()
