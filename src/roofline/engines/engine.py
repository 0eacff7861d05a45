"""Inference and training engines as data: host time, cache blocks, memory rules, slow-downs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias

from roofline.declared.errors import not_one_of
from roofline.declared.numbers.maths import Count, ceil_div, where
from roofline.declared.question import Settings
from roofline.declared.trees import TomlTable
from roofline.engines.releases import changed_fields, former_names, release_of, releases
from roofline.engines.settings import CHIP_SETTINGS, asked_settings, chip_settings, fields_of, static_share
from roofline.hardware.chip import Chip
from roofline.hardware.chip_files import Tables
from roofline.model.formats import Format, format_named
from roofline.model.precision import Precision

FILE = Path(__file__).with_name("engines.toml")
SERVER = "vllm"
"""Default inference engine on the chips that it supports."""
TRAINER = "megatron"
"""Default engine of a training step."""
OWN_SCHEDULES = ("dualpipe",)
"""Pipeline schedules of a framework that was never published: kernels alone unless it is named."""
OF_KIND: Mapping[str, str] = {"experts": "products", "wide": "products", "exchanges": "collectives"}
"""Kinds of work without a separate fit → the kind whose factor they use; `wide`: products in 16 bits or more."""
LOOKED_UP_S = 2e-9
"""Host seconds per token of n-gram lookup in a sequence's text: a single-threaded linear search (Knuth, Morris and
Pratt), as in vLLM's n-gram proposer. In C it takes 1.6 to 3.7 ns per token on a server core."""
UNBOUNDED = 2**40
"""Maximum concurrent sequences of an engine without a scheduler."""
_HALVES = ("bf16", "fp16")
Dispatcher: TypeAlias = Literal["deepep", "alltoall", "nvlink", "allgather"]
Budget: TypeAlias = Literal["vllm", "trtllm", "sglang", "all"]


@dataclass(frozen=True)
class Engine:
    """A serving or training engine: formats, host times, memory rule, scheduler policy and slowdown factors.

    Kernels and formats. `software`: software whose measured kernels apply; `softwares`: exceptions by kind or vendor of
    chip. `halves`: stores bf16 weights as fp16 and computes in fp16, or fp32 on chips without fp16. `narrow_states`:
    keeps states in the activations' format unless the config or the caller sets one. `integers`: kinds of chip on which
    quantised weights are multiplied by 8-bit activations. `flash`: prompt attention is one kernel; if false, it is
    separate products whose scores, in the activations' format, cross memory `score_passes` times. `hosts`: layers with
    weights in host memory run on the CPU; if false, the card reads those weights over its link. `rereads`: decode
    attention processes one query head at a time and rereads the group's keys and values from a cache this many times as
    fast as memory; 0 if the heads of a group share one read. `fuses`: dtypes to which activations are quantised in the
    kernel before the product. `widens`: absorbed latent attention holds its key and value weights in the activations'
    format. `weight_only`: compute format → generations that lack it and on which its weights are widened in the
    kernel instead. `marlin_on`: generations on which Marlin runs all products of weights in few bits. `runs`: format of
    routed experts → generation, or `marlin` for engines with `marlin` set → dtype of the kernel, if not the default.
    `dispatches`: format of routed experts → format of dispatched tokens, if not the activations'; combined tokens have
    the activations' format. `caches`: requested weight format → default cache format, as in checkpoints made for the
    engine. `pads`: format of routed experts → generation, or `marlin` for engines with `marlin` set → multiples to
    which the inner and hidden widths are padded in memory. `fills`: dtype of routed experts' kernel → rows that it
    computes for every expert that a rank holds, whether or not a token chose it; none without `deep_gemm`. `untuned`:
    dtype of that kernel → generation → more seconds for each step of its loop where ranks share experts out, for whose
    shapes it has no tuned blocks. `sinks`: generation → kernel of prompts whose attention has sinks, where the usual
    one cannot have them. `wide_heads`: generation → software of attention's kernel for heads of more than 256 elements,
    where it is not the engine's own. `hosts_tables`: tables of n-grams are in pinned memory of the host, from which a
    GPU reads rows over its link.

    Host times. `step_s`, `sequence_s`, `token_s`, `prefill_s`: host seconds per step, per sequence and new token in
    it, and per prompt batch. `idle_step_s`, `idle_sequence_s`: more per step and per sequence unless steps are
    assembled `ahead`, because the GPU waits for the host. `request_s`, `request_token_s`: seconds from a request's
    arrival to the scheduler, per request and per prompt token (HTTP, tokenizer). `queues`: these times of
    simultaneous requests are serialized. `starts`: generation → seconds of kernel compilation before a process's
    first batch. `cold`: a static batch is that first one; steps and servers in steady state never are. `launch_s`:
    host seconds per kernel launch, a lower bound for each op; 0 with CUDA graphs. `eager`: no CUDA graphs,
    `eager_launch_s` host seconds per launch.

    `generations`: generation → its own host times and `rereads`, where whole models were measured on other hosts.

    Memory. `budget`, `share`: rule for the size of the KV cache, and its memory share. `block`: tokens per cache
    block. `rows`: sparse caches have rows that mix formats (`inference/memory/cache_rows.py`). `paged`: hybrid
    caches are allocated in groups of equal pages (`inference/memory/hybrid_blocks.py`). `profiled`: before serving,
    the engine runs a step of `chunk` tokens, samples `most_running` of them and reserves that much for activations.
    `buffers`: reserves the buffer of the largest step in advance, with fp32 activations and every token sampled.
    `sampled_bytes`: bytes per logit for sampling. `overhead_bytes`: other memory (`overheads`: exceptions by kind
    of chip), plus `shared_bytes` if a model spans several chips and `graph_bytes` for CUDA graphs. `driver_bytes`:
    memory that CUDA does not report. `captured`: largest batch captured as a CUDA graph, which affects SGLang's
    default share.

    Scheduler. `chunk`: maximum new tokens per step. `most_running`: maximum concurrent sequences per replica. `mixes`:
    prompts and decodes share steps; if false, prompts run first, alone. `splits`: a prompt that exceeds the tokens left
    in a step is split into chunks. `parts`: so are the prompts of a static batch, which go in steps of at most `chunk`
    tokens. `balanced`: steps for which prompts of a rank of data-parallel attention wait for those of the others; what
    is simulated request by request follows it, `serve` does not. `reserves`: a request starts only if memory can hold
    it to its last token. `expects`: initial share of the tokens that running requests may still generate that is
    reserved when another request starts; 0: nothing is reserved. `ahead`: a step is assembled while the previous one
    runs, so that a request arriving meanwhile joins the step after it.

    Slowdown, network. `slower`: generation → factors by which products, attention, collectives and their `latency` take
    longer than in isolation, because of clocks under sustained load and interference; `arithmetic` there: factor on the
    arithmetic of products alone, whose bytes take as long as before; `within` there: for kernels that were not
    measured, log deviation that holds 80 % of whole models' times. `assumes`: generations whose factors were
    not fitted. `network`: software whose collectives apply, if not `software`. `dispatcher`: expert-parallel exchange:
    DeepEP, which sends a token once per node and rank, NCCL's all-to-all, which sends every copy, kernels that write to
    all ranks of a rack over NVLink, or an all-gather of all ranks' tokens and a reduce-scatter of their sums, as over
    PCIe for every engine. `serves`: supported generations and kinds of chips. `decodes`: format in which a pipeline's
    decoder of latents computes; that of the denoiser where it is empty.

    `expert_layer_s`: host seconds to launch the forward kernels of a layer with experts, twice as many those of its
    backward pass; the passes of a micro-batch are no shorter.

    `looped_experts`: kernels that are launched forward and back for each expert with an adapter, where a loop runs
    over them: on all generations but those that it `groups`.

    `biased_experts`: bytes that training moves, kernel by kernel, for each output of an expert's activation (`act`) and
    of an expert (`combine`) where experts have biases, twice in the backward pass; in none of the `fused_experts`,
    formats whose grouped products have biases and activation in their kernels.

    `moved`: bytes that training moves, kernel by kernel, in the forward pass and back: for each value of experts'
    outputs (`combine`), whose rows are gathered, weighted and added, and for each logit of a loss by its name.
    `retained`: bytes that its kernels keep until the backward pass, and more that they hold at once in it, for each
    output of a norm (`norm`) and of an activation (`act`), value of experts' outputs (`combine`), and logit of a loss.
    `head`: format in which the head is multiplied forward, the activations' if empty.

    Training. `trains`: it is a training engine. `overlaps`: layout axes whose communication overlaps with compute by
    default. `zeros`, `staged_zeros`: the ZeRO stages that it runs without and with pipeline stages. `schedules`,
    `recomputes`: pipeline schedules, and what it runs again, that a search tries; `modules`: any by name. `like`: the
    engine whose values it has where its own table has none. `scatter`: relative spread of the ranks' times.
    `between_s`: host seconds between steps. `spread`: generation → `dense` or `sparse` → interval of 80 % of measured
    steps, relative to the prediction.

    Settings. `words`: the engine's own setting names → general names. `by_chip`: defaults by chip, applied by `on`.
    `asked`: given settings, as written. `release`: whose values these are, empty for an engine without known
    releases; `former`: the name under which it was asked for, if that is no longer its name. `fitted_on`: measured
    tables and rows on which each value was fitted (`accuracy/fitted.py`).
    """

    id: str
    name: str
    software: str | None = None
    softwares: Mapping[str, str] = field(default_factory=dict)
    halves: bool = False
    narrow_states: bool = False
    integers: tuple[str, ...] = ()
    flash: bool = True
    score_passes: float = 4.0
    hosts: bool = False
    hosts_tables: bool = False
    network: str | None = None
    budget: Budget = "all"
    share: float = 1.0
    block: int = 1
    chunk: int = 8192
    most_running: int = UNBOUNDED
    captured: int = 0
    eager: bool = False
    eager_launch_s: float = 2.2e-5
    cold: bool = False
    starts: Mapping[str, float] = field(default_factory=dict)
    paged: bool = False
    rows: bool = False
    profiled: bool = False
    sampled_bytes: float = 4.0
    buffers: bool = False
    overheads: Mapping[str, float] = field(default_factory=dict)
    overhead_bytes: float = 0.0
    shared_bytes: float = 0.0
    graph_bytes: float = 0.0
    driver_bytes: float = 0.0
    step_s: float = 0.0
    sequence_s: float = 0.0
    prefill_s: float = 0.0
    token_s: float = 0.0
    idle_step_s: float = 0.0
    idle_sequence_s: float = 0.0
    request_s: float = 0.0
    request_token_s: float = 0.0
    queues: bool = False
    rereads: float = 0.0
    launch_s: float = 0.0
    generations: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    slower: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    unfused: Mapping[str, float] = field(default_factory=dict)
    decodes: str = ""
    assumes: tuple[str, ...] = ()
    fuses: tuple[str, ...] = ()
    widens: bool = False
    weight_only: Mapping[str, Sequence[str]] = field(default_factory=dict)
    runs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    dispatches: Mapping[str, str] = field(default_factory=dict)
    caches: Mapping[str, str] = field(default_factory=dict)
    mixes: bool = True
    splits: bool = True
    parts: bool = False
    balanced: int = 0
    reserves: bool = False
    expects: float = 0.0
    ahead: bool = False
    pads: Mapping[str, Mapping[str, Sequence[int]]] = field(default_factory=dict)
    fills: Mapping[str, int] = field(default_factory=dict)
    sinks: Mapping[str, str] = field(default_factory=dict)
    wide_heads: Mapping[str, str] = field(default_factory=dict)
    untuned: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    marlin: bool = False
    deep_gemm: bool = True
    marlin_on: tuple[str, ...] = ()
    serves: tuple[str, ...] = ()
    trains: bool = False
    dispatcher: Dispatcher = "deepep"
    overlaps: tuple[str, ...] = ()
    expert_layer_s: float = 0.0
    looped_experts: tuple[float, float] = (0.0, 0.0)
    groups: tuple[str, ...] = ()
    biased_experts: Mapping[str, float] = field(default_factory=dict)
    fused_experts: tuple[str, ...] = ()
    moved: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    retained: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    head: str = ""
    zeros: tuple[int, ...] = (0, 1, 2, 3)
    staged_zeros: tuple[int, ...] = (0, 1, 2, 3)
    schedules: tuple[str, ...] = ("1f1b", "interleaved")
    recomputes: tuple[str, ...] = ("none", "selective", "full")
    like: str = ""
    scatter: float = 0.0
    between_s: float = 0.0
    spread: Mapping[str, Mapping[str, tuple[float, float]]] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)
    by_chip: Sequence[TomlTable] = ()
    asked: tuple[tuple[str, str], ...] = ()
    release: str = ""
    former: str = ""
    fitted_on: Sequence[TomlTable] = ()
    source: str = ""

    def __hash__(self) -> int:
        return hash(self.id)

    def plain(self) -> str:
        """Name of the engine in results, and as it is given: `vllm`, `vllm@0.11`, or `vllm(max_num_seqs=128)`."""
        settings = ",".join(f"{key}={value}" for key, value in self.asked)
        usual = releases()[self.id].newest if self.release else ""
        name = f"{self.id}@{self.release}" if self.release != usual else self.id
        return f"{name}({settings})" if settings else name

    @property
    def titled(self) -> str:
        """Display name of the engine, its release and the settings that were given: `vLLM 0.25 (max_num_seqs=128)`."""
        settings = ", ".join(f"{key}={value}" for key, value in self.asked)
        name = f"{self.name} {self.release}" if self.release else self.name
        name = f"{name}, formerly {self.former}" if self.former else name
        return f"{name} ({settings})" if settings else name

    def on(self, chip: Chip) -> Engine:
        """Apply the engine's defaults for a chip, except to settings that were given or differ from the catalog."""
        if self.id not in engines() or not (self.by_chip or self.softwares or self.generations):
            return self
        usual = _of_release(self.id, self.release)
        own = self.softwares.get(chip.kind, self.softwares.get(chip.vendor, self.software))
        given = fields_of(self.asked, self.words)
        kept = {name for name in CHIP_SETTINGS if getattr(self, name) != getattr(usual, name)} | given
        usual_here = chip_settings(self.by_chip, chip) | dict(self.generations.get(chip.generation, {}))
        settings = {k: v for k, v in usual_here.items() if k not in kept}
        settings |= {"overhead_bytes": self.overheads[chip.kind]} if chip.kind in self.overheads else {}
        engine = replace(self, software=own, **settings)
        if self.budget == "sglang" and "share" not in kept:
            engine = replace(engine, share=static_share(chip.capacity, engine.chunk, engine.captured))
        return engine

    def host(self, sequences: Count, new: Count = 1) -> Count:
        """Host seconds of a step of that many sequences and new tokens."""
        return self.step_s + self.sequence_s * sequences + self.token_s * new

    def looks_up(self, sequences: Count, context: Count) -> Count:
        """Host seconds to look up n-grams in the text of that many sequences; 0 without host times."""
        return LOOKED_UP_S * sequences * context if self.step_s or self.sequence_s or self.request_s else 0.0

    def runs_on(self, chip: Chip) -> bool:
        """Whether its documentation lists the generation or the kind of the chip."""
        return chip.generation in self.serves or chip.kind in self.serves

    def was_served_on(self, chip: Chip) -> bool:
        """Whether times of its steps were fitted on servers of that chip, not of a few models alone (`fitted_on`)."""
        return any(
            "served-tpot" in fit.get("quantities", ())
            and "models" not in fit
            and chip.id in fit.get("chips", (chip.id,))
            and chip.generation in fit.get("generations", (chip.generation,))
            and chip.vendor in fit.get("vendors", (chip.vendor,))
            for fit in self.fitted_on
        )

    def was_tried_on(self, chip: Chip) -> bool:
        """Whether its kernels of experts are as measured: steps of its servers were fitted on some chip, or its own
        kernels on whole models of the generation, or it has none, as where kernels alone are timed."""
        return self.software is None or any(
            {"served-tpot", "served-token"} & set(fit.get("quantities", ()))
            or ("kernels" in fit["values"] and chip.generation in fit.get("generations", ()))
            for fit in self.fitted_on
        )

    @property
    def keeps_step(self) -> bool:
        """Whether requests of equal length that start together stay synchronized.

        If prompts run first, a request that arrives in between catches up with earlier ones. Measured servers of SGLang
        do so; those of vLLM and TensorRT-LLM, whose prompts share steps with decodes, do not (`docs/accuracy.md`).
        """
        return not self.mixes

    def before(self, tokens: Count) -> Count:
        """Seconds from the arrival of a prompt of that many tokens until the scheduler sees it."""
        return self.request_s + self.request_token_s * tokens

    def start_up(self, generation: str) -> tuple[float, float, float]:
        """Seconds (expected, low, high) of kernel compilation before the prompts of a batch; 0 unless `cold`.

        The interval is as wide as that of whole models' times on the generation; zero width if that is unknown.
        """
        seconds = self.starts.get(generation, 0.0) if self.cold else 0.0
        width = math.exp(self.slower.get(generation, {}).get("within", 0.0))
        return seconds, seconds / width, seconds * width

    def factor(self, generation: str, kind: str) -> float:
        """Factor by which a kind of work is slower than alone; for an unmeasured generation, the `other`s' factor."""
        table = self.slower.get(generation, self.slower.get("other", {}))
        return table.get(kind, table.get(OF_KIND.get(kind, kind), 1.0))

    def within(self, generation: str, kind: str) -> float | None:
        """Log deviation of 80 % of whole models' times, if a kind of work's factor was fitted on them; else None."""
        table = self.slower.get(generation, {})
        return table.get("within") if any(term in table for term in terms_of(kind)) else None

    def grade(self, generation: str, kind: str) -> str:
        """Grade of a slowdown factor: A if it is 1, B if fitted on whole models, C if assumed, or for a training engine
        without measured runs on the generation."""
        if self.unfitted(generation):
            return "C"
        if all(self.factor(generation, term) == 1 for term in terms_of(kind)):
            return "A"
        return "B" if generation in self.slower and generation not in self.assumes else "C"

    def unfitted(self, generation: str) -> bool:
        """Whether this is a training engine without measured runs on a generation."""
        fitted = {**self.slower, **self.spread}
        return self.trains and bool(fitted or self.scatter or self.unfused) and generation not in fitted

    def launches_of_expert(self, generation: str) -> tuple[float, float]:
        """Kernels launched forward and back for each expert with an adapter; none where their products are grouped."""
        forward, back = self.looped_experts
        return (0.0, 0.0) if generation in self.groups else (forward, back)

    def ends(self, generation: str, sparse: bool) -> tuple[float, float] | None:
        """Interval of training steps on a generation, relative to the prediction; None if none were measured."""
        known = self.spread.get(generation, {}).get("sparse" if sparse else "dense")
        return None if known is None else (known[0], known[1])

    def kernel(self, fmt: str, generation: str) -> str | None:
        """Dtype of the MoE kernel for expert weights in a format; None: the format's default kernel."""
        return self.runs.get(fmt, {}).get(self._experts_on(generation))

    def multiples(self, fmt: str, generation: str) -> tuple[int, int]:
        """Multiples to which the inner and the hidden width of routed experts in a format are padded in memory."""
        inner, hidden = self.pads.get(fmt, {}).get(self._experts_on(generation), (1, 1))
        return inner, hidden

    def _experts_on(self, generation: str) -> str:
        """The key of `runs` and `pads`: the generation, or `marlin`."""
        return "marlin" if self.marlin else generation

    def running(self, formats: Precision, chip: Chip) -> Precision:
        """The formats that the engine uses on a chip. A CPU converts 16-bit formats that it lacks to fp32."""
        if self.narrow_states and formats.wide_state:
            formats = formats.with_roles(state=formats.activations)
        if not self.halves:
            return _widened(formats, chip)
        fp16 = format_named("fp16")
        half = fp16 if "fp16" in chip.peaks else replace(fp16, compute="fp32")
        stored = {f.name: getattr(formats, f.name) for f in fields(formats)}
        changed: Settings = {k: half for k, f in stored.items() if isinstance(f, Format) and f.name in _HALVES}
        return replace(formats, **changed)

    def multiplied(self, weights: Format, chip: Chip) -> Format:
        """The format as a product has it: only weights are quantised where the chip lacks its arithmetic and the engine
        has a kernel that widens them."""
        fmt = weights.compute
        widened = fmt is not None and fmt not in chip.peaks and chip.generation in self.weight_only.get(fmt, ())
        return replace(weights, compute=None) if widened else weights

    def filled(self, dtype: str) -> int:
        """Rows that the kernel of a dtype computes for every expert of a rank, whether or not a token chose it."""
        return self.fills.get(dtype, 0) if self.deep_gemm else 0

    def runs_marlin(self, weights: Format, chip: Chip) -> bool:
        """Whether Marlin runs products of weights in few bits: those that are widened for want of their arithmetic, and
        on the generations of `marlin_on` all."""
        return chip.generation in self.marlin_on or self.multiplied(weights, chip).compute != weights.compute

    def dispatching(self, formats: Precision) -> Precision:
        """Set the dispatch format that the engine uses for these experts, unless one was requested."""
        name = self.dispatches.get(formats.experts.name)
        return formats if name is None or formats.dispatch is not None else formats.with_roles(dispatch=name)

    def caching(self, formats: Precision, own: Precision) -> Precision:
        """Set the engine's cache format if weights were requested in another format than the checkpoint's, `own`."""
        roles = [(formats.ffn, own.ffn), (formats.experts, own.experts)]
        caches = [self.caches[asked.name] for asked, had in roles if asked != had and asked.name in self.caches]
        return formats.with_roles(kv=caches[0]) if caches else formats

    def hosted(self, chip: Chip) -> bool:
        """Whether tables of n-grams are in the memory of a chip's host."""
        return self.hosts_tables and chip.kind == "gpu"

    def cached_tokens(self, tokens: Count) -> Count:
        """Tokens rounded up to whole cache blocks."""
        return ceil_div(tokens, self.block) * self.block

    def seen(self, chip: Chip) -> float:
        """Bytes of a chip's memory that the engine's memory share refers to."""
        return chip.capacity - (self.driver_bytes if chip.vendor.lower() == "nvidia" else 0.0)

    def overhead(self, chips: Count) -> Count:
        """Bytes beside weights, activations and cache on each of `chips` chips that hold a model together."""
        graphs = 0.0 if self.eager else self.graph_bytes
        return self.overhead_bytes + graphs + where(chips > 1, self.shared_bytes, 0.0)

    def cache_budget(self, capacity: Count, weights: Count, activations: Count, overhead: Count) -> Count:
        """Bytes available to the KV cache.

        vllm: share·capacity − weights − activations − overhead. trtllm: share·(capacity − weights − activations −
        overhead). sglang: share·capacity − weights. all: capacity − weights − activations − overhead.
        """
        if self.budget == "vllm":
            return self.share * capacity - weights - activations - overhead
        if self.budget == "sglang":
            return self.share * capacity - weights
        return self.share * (capacity - weights - activations - overhead)


def _widened(formats: Precision, chip: Chip) -> Precision:
    """On a CPU, compute in fp32 for 16-bit formats that it does not support."""
    stored = {f.name: getattr(formats, f.name) for f in fields(formats)}
    halves = {k: f for k, f in stored.items() if isinstance(f, Format) and f.compute in _HALVES}
    wider: Settings = {k: replace(f, compute="fp32") for k, f in halves.items() if f.compute not in chip.peaks}
    return replace(formats, **wider) if wider and chip.kind == "cpu" and "fp32" in chip.peaks else formats


def terms_of(kind: str) -> tuple[str, ...]:
    """The names in `slower` of what slows a kind of work: its own, its wider kind's, of products their arithmetic's.

    >>> terms_of("experts"), terms_of("latency")
    (('experts', 'products', 'arithmetic'), ('latency',))
    """
    names = tuple(dict.fromkeys((kind, OF_KIND.get(kind, kind))))
    return (*names, "arithmetic") if "products" in names else names


@cache
def engines() -> Mapping[str, Engine]:
    """The engines of the catalog, by id; each as of its newest known release."""
    return Tables(_engine, FILE)


def _engine(id: str, table: TomlTable) -> Engine:
    known = releases().get(id)
    return _filled(id, "" if known is None else known.newest, table)


def _filled(id: str, release: str, table: TomlTable) -> Engine:
    """An engine of a table's values, and where it has none those of the engine that it is `like`."""
    own = {"id": id, "release": release, **table}
    return replace(engines()[table["like"]], **own) if "like" in table else Engine(**own)


@cache
def _of_release(id: str, release: str) -> Engine:
    """The engine as of a release, "" for the newest."""
    newest = engines()[id]
    if release in ("", newest.release):
        return newest
    fields, whole = changed_fields(id, release)
    if whole:
        return _filled(id, release, {"name": newest.name, **fields})
    return replace(newest, release=release, **fields)


def engine_named(name: str | Engine) -> Engine:
    """Look up an engine by name (`none`: kernels only), its release, and settings under its own or general names.

    `vllm@0.11`, `vllm@2025-06`, `vllm(gpu_memory_utilization=0.95,max_num_seqs=128)`, `none(reserve=2GB)`.
    Raises InputError for an unknown engine, release or setting, with the nearest names, and for an invalid value.
    """
    if isinstance(name, Engine):
        return name
    if not isinstance(name, str):
        raise not_one_of("engine", name, engines())
    spec, bracket, inside = name.strip().partition("(")
    plain, at, asked_release = spec.partition("@")
    id = plain.replace(".", "-")  # llama.cpp
    id, former = former_names().get(id, (id, ""))
    if id not in engines() or (at and former):
        raise not_one_of("engine", name, engines())
    engine = _of_release(id, release_of(id, asked_release) if at else former)
    if former:
        engine = replace(engine, former=plain)
    if not bracket:
        return _waiting(engine)
    asked, values = asked_settings(name, inside, engine.words)
    if values.get("eager"):
        values["launch_s"] = engine.eager_launch_s
    return _waiting(replace(engine, asked=asked, **values))


def _waiting(engine: Engine) -> Engine:
    """The engine with the seconds in its host times for which the GPU waits, if steps are not assembled ahead."""
    if engine.ahead or not (engine.idle_step_s or engine.idle_sequence_s):
        return engine
    return replace(
        engine, step_s=engine.step_s + engine.idle_step_s, sequence_s=engine.sequence_s + engine.idle_sequence_s,
        idle_step_s=0.0, idle_sequence_s=0.0,
    )  # fmt: skip


def trainers() -> tuple[str, ...]:
    """The ids of the training engines, and `none`."""
    return tuple(name for name, engine in engines().items() if engine.trains)


def trainer_named(name: str | Engine | None, schedule: str = "") -> Engine:
    """Look up a training engine by name. Raises InputError for an inference engine.

    The default is Megatron-LM, or kernels only for the DualPipe schedule, which only DeepSeek's own framework has
    (arXiv:2412.19437 §3.2); nothing was measured of that framework.
    """
    usual = "none" if schedule in OWN_SCHEDULES else TRAINER
    engine = engine_named(usual if name is None else name)
    if not engine.trains:
        raise not_one_of("engine", engine.id, trainers())
    return engine


def default_engine(chip: Chip) -> Engine:
    """Default inference engine: vLLM on the chips that it supports, elsewhere kernels only.

    >>> from roofline.hardware.chip import chips
    >>> default_engine(chips()["h100-sxm"]).id, default_engine(chips()["m4-max"]).id
    ('vllm', 'none')
    """
    server = engines()[SERVER]
    return server if server.runs_on(chip) else engines()["none"]
