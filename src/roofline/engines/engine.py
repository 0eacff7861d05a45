"""Inference and training engines as data: host time, cache blocks, memory rules, slow-downs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias

from roofline.declared.errors import not_one_of
from roofline.declared.maths import Count, ceil_div, where
from roofline.declared.question import Settings
from roofline.declared.trees import TomlTable
from roofline.engines.settings import CHIP_SETTINGS, asked_settings, chip_settings, fields_of, static_share
from roofline.hardware.chip import Chip
from roofline.hardware.chip_files import Tables
from roofline.model.formats import Format, format_named
from roofline.model.precision import Precision

FILE = Path(__file__).with_name("engines.toml")
SERVER = "vllm"
"""The engine of inference where none is given, on the chips that it serves."""
TRAINER = "megatron"
OWN_SCHEDULES = ("dualpipe",)
"""Schedules of frameworks that are no engine here."""
"""The engine of a training step where none is given."""
OF_KIND: Mapping[str, str] = {"experts": "products", "wide": "products", "exchanges": "collectives"}
"""Kinds of work without a separate fit → the kind whose factor they use; `wide`: products in 16 bits or more."""
LOOKED_UP_S = 2e-9
"""Host seconds per token of text searched for a sequence's last words: a linear search in one thread (Knuth, Morris and
Pratt), as in vLLM's n-gram proposer. In C it takes 1.6 to 3.7 ns per token on a server core."""
UNBOUNDED = 2**40
"""Most concurrent sequences of an engine without a scheduler."""
_HALVES = ("bf16", "fp16")
Dispatcher: TypeAlias = Literal["deepep", "alltoall", "nvlink"]
Budget: TypeAlias = Literal["vllm", "trtllm", "sglang", "all"]


@dataclass(frozen=True)
class Engine:
    """What an engine adds to the kernels.

    `software`: whose kernels were measured; `softwares`: by kind or vendor of chip, where it has others there;
    `halves`: it keeps in fp16 what the checkpoint has in bf16, and multiplies in fp16, on chips
    without it in fp32; `narrow_states`: it keeps states in the activations' format unless config or caller say
    otherwise; `integers`: kinds of chip on which it multiplies quantised weights by activations of 8 bits.
    `flash`: prompts' attention is one kernel; where not, it is products whose scores go through memory `score_passes`
    times, each time as large as activations.
    `hosts`: layers whose weights lie in the host's memory run on its CPU; else the card reads these over its link.
    `network`: whose collectives, where they are not the same.
    `step_s`, `sequence_s`, `token_s`, `prefill_s`: host seconds of a step, of each sequence and of each new token in
    it, and of a prompt batch. `request_s`, `request_token_s`: seconds from a request's arrival to the
    scheduler, of each and of each token of its prompt (HTTP, tokeniser). `queues`: those of requests that arrive
    together are spent one after another.
    `starts`: by generation of chip, the seconds that the first batch of a process waits before its prompts, while
    kernels are compiled. `cold`: a batch is that first one; a step and a server in its steady state never are.
    `budget` and `share`: whose rule says how much memory the KV cache may take. `block`: tokens of a cache block.
    `paged`: a hybrid cache is allocated in groups of equal pages (`inference/hybrid_blocks.py`). `profiled`: before it
    serves, it runs a step of `chunk` tokens and samples `most_running` of them, and keeps that much for activations.
    `buffers`: it sets aside the buffer of the largest step before any request, activations in fp32 and every token
    sampled. `sampled_bytes`: bytes a logit that sampling takes. `overhead_bytes`: what it keeps beside (`overheads`: on
    kinds of chip that are named there), `shared_bytes` more
    where a model is on several chips, `graph_bytes` more for CUDA graphs; `driver_bytes`: memory that CUDA does not
    show.
    `chunk`: most new tokens of a step; `most_running`: most sequences that a replica's scheduler runs at once.
    `captured`: the largest batch captured as a CUDA graph, where that decides SGLang's share; `eager`: none is, and
    kernels are launched one by one, `eager_launch_s` host seconds each. `words`: the engine's own words for these
    settings, and the general name of each; `by_chip`: their defaults, as `on` picks them; `asked`: those that were
    given, as they were written.
    `rereads`: its decode attention serves one query head at a time and reads the
    group's keys and values again, from a cache that many times as fast as the memory; 0 where heads share one read.
    `launch_s`: seconds the host needs to launch a kernel, which a step takes at least for each of its ops; 0 with CUDA
    graphs. `slower`: by generation of chip, how much longer products, attention and collectives take than alone,
    because of clocks under lasting load and of one another, and how much longer a collective's `latency` is; `within`,
    where kernels were not measured: what four fifths of whole models' times stay within of it, as a logarithm.
    `assumes`: generations whose factors were fitted on nothing.
    `fuses`: dtypes it quantises activations to in the kernel before the product. `widens`: of absorbed latent attention
    it holds the weights of keys and values in the activations' format. `runs`: by format of routed experts
    and generation of chip, the dtype of the kernel it runs where that is not the format's own. `dispatches`: by format
    of routed experts, that of tokens on their way to them where it is not the activations'; they come back in these.
    `caches`: by format that weights are asked for in, that of the cache where nothing is said of it, as checkpoints
    made for the engine have it.
    `mixes`: prompts and decodes share a step, else prompts go first, alone. `splits`: a prompt longer than what is left
    of a step's tokens is cut into chunks. `reserves`: a request begins where the memory holds it to its last token.
    `expects`: at first, the share of the tokens still allowed to running requests that is kept free for them when
    another begins; 0 where the engine keeps none.
    `ahead`: a step is put together while the one before it runs, so that a request that comes meanwhile is in the
    one after. `pads`: by format of routed experts and generation of chip, of what the inner and the hidden width of
    its weights in memory are multiples; of Marlin's kernels, where it is `marlin` that runs them. `serves`:
    generations and kinds of chips that it runs on.
    `dispatcher`: whose kernels bring tokens to experts and back, DeepEP's, which send a token once to each node and
    rank, NCCL's all-to-all, which sends each of its copies, or those that write to all ranks of a rack over NVLink.
    `trains`: it is one of training. `overlaps`: there, the axes of the layout whose communication travels beside work
    where nothing else is asked for; `scatter`: by what share the times of ranks scatter; `between_s`: host seconds
    between steps; `spread`: by generation and `dense` or `sparse` model, the ends of the interval that held 80 % of
    its measured steps, over what was expected.
    `fitted_on`: which of these values were fitted on which rows of which measured table (`accuracy/fitted.py`).
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
    request_s: float = 0.0
    request_token_s: float = 0.0
    queues: bool = False
    rereads: float = 0.0
    launch_s: float = 0.0
    slower: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    assumes: tuple[str, ...] = ()
    fuses: tuple[str, ...] = ()
    widens: bool = False
    runs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    dispatches: Mapping[str, str] = field(default_factory=dict)
    caches: Mapping[str, str] = field(default_factory=dict)
    mixes: bool = True
    splits: bool = True
    reserves: bool = False
    expects: float = 0.0
    ahead: bool = False
    pads: Mapping[str, Mapping[str, Sequence[int]]] = field(default_factory=dict)
    marlin: bool = False
    serves: tuple[str, ...] = ()
    trains: bool = False
    dispatcher: Dispatcher = "deepep"
    overlaps: tuple[str, ...] = ()
    scatter: float = 0.0
    between_s: float = 0.0
    spread: Mapping[str, Mapping[str, tuple[float, float]]] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)
    by_chip: Sequence[TomlTable] = ()
    asked: tuple[tuple[str, str], ...] = ()
    fitted_on: Sequence[TomlTable] = ()
    source: str = ""

    def __hash__(self) -> int:
        return hash(self.id)

    def plain(self) -> str:
        """Name of the engine in results, and as it is given: `vllm`, or `vllm(max_num_seqs=128)`."""
        settings = ",".join(f"{key}={value}" for key, value in self.asked)
        return f"{self.id}({settings})" if settings else self.id

    @property
    def titled(self) -> str:
        """Display name of the engine, with the settings that were given: `vLLM (max_num_seqs=128)`."""
        settings = ", ".join(f"{key}={value}" for key, value in self.asked)
        return f"{self.name} ({settings})" if settings else self.name

    def on(self, chip: Chip) -> Engine:
        """The engine with its defaults for a chip, except where settings were given or differ from the catalog."""
        usual = engines().get(self.id)
        if usual is None or not (self.by_chip or self.softwares):
            return self
        own = self.softwares.get(chip.kind, self.softwares.get(chip.vendor, self.software))
        given = fields_of(self.asked, self.words)
        kept = {name for name in CHIP_SETTINGS if getattr(self, name) != getattr(usual, name)} | given
        settings = {k: v for k, v in chip_settings(self.by_chip, chip).items() if k not in kept}
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

    @property
    def keeps_step(self) -> bool:
        """Whether users who start together with requests of equal length stay in step.

        Where prompts run first, a user who arrives in between catches up with those ahead. Measured servers of SGLang
        do so; those of vLLM and TensorRT-LLM, whose prompts share steps with decodes, do not (`docs/accuracy.md`).
        those of vLLM and TensorRT-LLM, whose prompts share steps with decodes, do not (`docs/accuracy.md`).
        """
        return not self.mixes

    def before(self, tokens: Count) -> Count:
        """Seconds from the arrival of a prompt of that many tokens until the scheduler sees it."""
        return self.request_s + self.request_token_s * tokens

    def start_up(self, generation: str) -> tuple[float, float, float]:
        """Seconds before the prompts of a batch, with the ends of their interval; 0 where the process has run before.

        The interval is as wide as that of whole models' times on the generation, a point where none is known.
        """
        seconds = self.starts.get(generation, 0.0) if self.cold else 0.0
        width = math.exp(self.slower.get(generation, {}).get("within", 0.0))
        return seconds, seconds / width, seconds * width

    def factor(self, generation: str, kind: str) -> float:
        """Factor by which a kind of work is slower than alone; for an unmeasured generation, the `other`s' factor."""
        table = self.slower.get(generation, self.slower.get("other", {}))
        return table.get(kind, table.get(OF_KIND.get(kind, kind), 1.0))

    def within(self, generation: str, kind: str) -> float | None:
        """What whole models' times stay within where a kind of work has a factor that was fitted on them, log."""
        table = self.slower.get(generation, {})
        return table.get("within") if kind in table else None

    def grade(self, generation: str, kind: str) -> str:
        """How well that factor is known: A where there is none, B where it was fitted, on whole models, C
        elsewhere, and under an engine of training of which no run on the generation is known."""
        if self.unfitted(generation):
            return "C"
        if self.factor(generation, kind) == 1:
            return "A"
        return "B" if generation in self.slower and generation not in self.assumes else "C"

    def unfitted(self, generation: str) -> bool:
        """Whether it is a training engine without fitted runs on a generation."""
        fitted = {**self.slower, **self.spread}
        return self.trains and bool(fitted or self.scatter) and generation not in fitted

    def ends(self, generation: str, sparse: bool) -> tuple[float, float] | None:
        """The interval of its steps of training on a generation, over what is expected; None where none were known."""
        known = self.spread.get(generation, {}).get("sparse" if sparse else "dense")
        return None if known is None else (known[0], known[1])

    def kernel(self, fmt: str, generation: str) -> str | None:
        """The dtype of the kernel for experts in a format, None for the format's own."""
        return self.runs.get(fmt, {}).get(generation)

    def multiples(self, fmt: str, generation: str) -> tuple[int, int]:
        """Multiples to which the inner and the hidden width of routed experts in a format are padded in memory."""
        inner, hidden = self.pads.get(fmt, {}).get("marlin" if self.marlin else generation, (1, 1))
        return inner, hidden

    def running(self, formats: Precision, chip: Chip) -> Precision:
        """The formats as it runs them on a chip. A CPU widens to fp32 halves that it does not multiply in."""
        if self.narrow_states and formats.wide_state:
            formats = formats.with_roles(state=formats.activations)
        if not self.halves:
            return _widened(formats, chip)
        fp16 = format_named("fp16")
        half = fp16 if "fp16" in chip.peaks else replace(fp16, compute="fp32")
        stored = {f.name: getattr(formats, f.name) for f in fields(formats)}
        changed: Settings = {k: half for k, f in stored.items() if isinstance(f, Format) and f.name in _HALVES}
        return replace(formats, **changed)

    def dispatching(self, formats: Precision) -> Precision:
        """The formats with that of a dispatch, where none was asked for and the engine has one for such experts."""
        name = self.dispatches.get(formats.experts.name)
        return formats if name is None or formats.dispatch is not None else formats.with_roles(dispatch=name)

    def caching(self, formats: Precision, own: Precision) -> Precision:
        """The formats with that of the cache, where weights were asked for in a format that `own`, the checkpoint's,
        are not in."""
        roles = [(formats.ffn, own.ffn), (formats.experts, own.experts)]
        caches = [self.caches[asked.name] for asked, had in roles if asked != had and asked.name in self.caches]
        return formats.with_roles(kv=caches[0]) if caches else formats

    def cached_tokens(self, tokens: Count) -> Count:
        """Tokens rounded up to whole cache blocks."""
        return ceil_div(tokens, self.block) * self.block

    def seen(self, chip: Chip) -> float:
        """Bytes of a chip's memory that the engine's memory share refers to."""
        return chip.capacity - (self.driver_bytes if chip.vendor.lower() == "nvidia" else 0.0)

    def overhead(self, chips: Count) -> Count:
        """Bytes beside weights, activations and cache on each of so many chips that hold a model together."""
        graphs = 0.0 if self.eager else self.graph_bytes
        return self.overhead_bytes + graphs + where(chips > 1, self.shared_bytes, 0.0)

    def cache_budget(self, capacity: Count, weights: Count, activations: Count, overhead: Count) -> Count:
        """Bytes the KV cache may take.

        vllm: share·capacity − weights − activations − overhead. trtllm: share·(capacity − weights − activations −
        overhead). sglang: share·capacity − weights. all: capacity − weights − activations − overhead.
        """
        if self.budget == "vllm":
            return self.share * capacity - weights - activations - overhead
        if self.budget == "sglang":
            return self.share * capacity - weights
        return self.share * (capacity - weights - activations - overhead)


def _widened(formats: Precision, chip: Chip) -> Precision:
    """The formats, of which those of 16 bits that a CPU does not multiply in are widened to fp32 as they are loaded."""
    stored = {f.name: getattr(formats, f.name) for f in fields(formats)}
    halves = {k: f for k, f in stored.items() if isinstance(f, Format) and f.compute in _HALVES}
    wider: Settings = {k: replace(f, compute="fp32") for k, f in halves.items() if f.compute not in chip.peaks}
    return replace(formats, **wider) if wider and chip.kind == "cpu" and "fp32" in chip.peaks else formats


@cache
def engines() -> Mapping[str, Engine]:
    """The engines of the catalog, by id."""
    return Tables(lambda id, table: Engine(id=id, **table), FILE)


def engine_named(name: str | Engine) -> Engine:
    """An engine by name, `none` for kernels only, with settings in its own words or in general ones.

    `vllm(gpu_memory_utilization=0.95,max_num_seqs=128)`, `sglang(mem_fraction_static=0.85)`, `none(reserve=2GB)`.
    Raises InputError, with the nearest, for an engine or a setting that is not known, and for a value that is not what
    the setting takes.
    """
    if isinstance(name, Engine):
        return name
    id, bracket, inside = name.strip().partition("(") if isinstance(name, str) else (name, "", "")
    id = id.replace(".", "-") if isinstance(id, str) else id  # llama.cpp
    if id not in engines():
        raise not_one_of("engine", name, engines())
    engine = engines()[id]
    if not bracket:
        return engine
    asked, values = asked_settings(name, inside, engine.words)
    if values.get("eager"):
        values["launch_s"] = engine.eager_launch_s
    return replace(engine, asked=asked, **values)


def trainers() -> tuple[str, ...]:
    """The ids of the training engines, and `none`."""
    return tuple(name for name, engine in engines().items() if engine.trains)


def trainer_named(name: str | Engine | None, schedule: str = "") -> Engine:
    """An engine of training by name. Raises InputError for one of inference.

    Where none is given Megatron-LM; kernels alone for DualPipe, a schedule that none of the engines has but DeepSeek's
    own framework (arXiv:2412.19437 §3.2), of which nothing is measured.
    """
    usual = "none" if schedule in OWN_SCHEDULES else TRAINER
    engine = engine_named(usual if name is None else name)
    if not engine.trains:
        raise not_one_of("engine", engine.id, trainers())
    return engine


def default_engine(chip: Chip) -> Engine:
    """The engine of inference where none is given: vLLM on the chips that it serves, elsewhere kernels only.

    >>> from roofline.hardware.chip import chips
    >>> default_engine(chips()["h100-sxm"]).id, default_engine(chips()["m4-max"]).id
    ('vllm', 'none')
    """
    server = engines()[SERVER]
    return server if chip.generation in server.serves or chip.kind in server.serves else engines()["none"]
