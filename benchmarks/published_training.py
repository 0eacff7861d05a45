"""Published training runs from papers: what they say, and what is assumed where they do not. Nothing is fitted on them.

    python benchmarks/published_training.py [WORD]

For each run, or those whose paper or label has the word: whether its layout is among those that the search looks at for
its stack, whether it fits, the seconds that are predicted for it and for the best of the search. Where the best is
faster by more than a tenth: what it exploits, one after the other, with the seconds after each. Where the run does not
fit: its fullest rank by bytes. Formats, loss, attention and overlap are the run's; layout, micro-batch, schedule and
recomputation are free. Then the plan that is best with what the run's stack had: its ZeRO stage, recomputation and
context parallelism, and sequence parallelism where the run has it. Megatron-LM has sequence parallelism since 2022
(arXiv:2205.05198) and context parallelism since 2024, after most of these runs. Seconds of a step: as published, or
from the TFLOP/s a chip and the paper's own formula for the FLOPs of a step. At the end: how many are within a tenth of
the best, and of the best with what their stacks had, and what saves most in the others.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import product
from typing import Any

import roofline as rl
from roofline.declared.errors import InputError
from roofline.engines.engine import engine_named
from roofline.hardware.cluster import Cluster, cluster_named
from roofline.model.load import catalog_config
from roofline.training.layouts.candidates import recomputations


@dataclass(frozen=True)
class PublishedRun:
    """A run of a paper: seconds of a step, and what `train` is told. `assumed`: what the paper does not say."""

    paper: str
    label: str
    seconds: float
    model: Any
    batch: int
    tokens: int
    settings: Mapping[str, Any]
    assumed: str = ""
    choices: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)


@cache
def gpt(hidden: int, layers: int, heads: int, vocabulary: int = 51200) -> rl.Model:
    """A GPT with four times the hidden width between its products."""
    return rl.load({
        "model_type": "gpt2", "n_embd": hidden, "n_layer": layers, "n_head": heads, "n_inner": 4 * hidden,
        "vocab_size": vocabulary, "n_positions": 2048, "activation_function": "gelu", "dtype": "float16",
    })  # fmt: skip


def gpt_flops(batch: int, layers: int, hidden: int, vocabulary: int = 51200, tokens: int = 2048) -> float:
    """FLOPs of a step with full recomputation: 96·B·s·l·h²·(1 + s/6h + V/16lh) (arXiv:2104.04473, eq. 3)."""
    more = 1 + tokens / (6 * hidden) + vocabulary / (16 * layers * hidden)
    return 96 * batch * tokens * layers * hidden**2 * more


SC21 = (
    (2304, 24, 24, 1, 1, 32, 512, 137), (3072, 30, 32, 2, 1, 64, 512, 138), (4096, 36, 32, 4, 1, 128, 512, 142),
    (6144, 40, 48, 8, 1, 256, 1024, 135), (8192, 48, 64, 8, 2, 512, 1536, 138), (10240, 60, 80, 8, 4, 1024, 1792, 140),
    (12288, 80, 96, 8, 8, 1536, 2304, 148), (16384, 96, 128, 8, 16, 1920, 2160, 155),
    (20480, 105, 128, 8, 35, 2520, 2520, 163), (25600, 128, 160, 8, 64, 3072, 3072, 163),
)  # fmt: skip
"""arXiv:2104.04473, table 1: hidden, layers, heads, tp, pp, chips, batch, TFLOP/s a chip."""
KORTHIKANTI = (
    ("22B", 8, 6144, 48, 64, "tp=8", 4, 4, 1.42, 1.10),
    ("530B", 280, 20480, 105, 128, "tp=8,pp=35,vp=3", 280, 1, 49.05, 37.83),
    ("1T", 512, 25600, 128, 160, "tp=8,pp=64", 512, 1, 94.42, 71.49),
)
"""arXiv:2205.05198, tables 3, 5: chips, hidden, layers, heads, layout, batch, micro-batch, seconds full, selective."""
MEGASCALE = ((256, 768, 40.0), (1024, 768, 11.9), (12288, 6144, 8.57))
"""arXiv:2402.15627, table 2, Megatron-LM: chips, batch, seconds."""
LLAMA = (
    (8192, "tp=8,pp=16,dp=64,vp=8,sp,zero=2", 2048, 8192, 430),
    (16384, "tp=8,pp=16,dp=128,vp=8,sp,zero=2", 2048, 8192, 400),
    (16384, "tp=8,cp=16,pp=16,dp=8,vp=8,sp,zero=2", 128, 131072, 380),
)
"""arXiv:2407.21783, table 4: chips, layout, batch, tokens, TFLOP/s a chip; §3.3.2: optimizer state and gradients
sharded, weights not, nothing run again."""


def published() -> Iterator[PublishedRun]:
    """Every run."""
    yield from _megatron()
    yield from _megatron_turing()
    yield from _llama()
    yield from _others()


def _megatron() -> Iterator[PublishedRun]:
    usual = {"recipe": "fp16", "flash": False, "recompute": "full", "engine": "megatron"}
    for hidden, layers, heads, tp, pp, chips, batch, tflops in SC21:
        seconds = gpt_flops(batch, layers, hidden) / (1e12 * tflops * chips)
        layout = f"tp={tp},pp={pp},dp={chips // (tp * pp)}"
        chunks = [n for n in range(1, layers // pp + 1) if layers // pp % n == 0] if pp > 1 else [1]
        yield PublishedRun(
            "SC21", f"{hidden} x {layers} on {chips}", seconds, gpt(hidden, layers, heads), batch, 2048,
            {**usual, "on": f"{chips // 8}xdgx-a100", "layout": layout, "overlap": "pp"},
            "§5.1: interleaved; the fastest chunks and micro-batch of 1, 2, 4 and 8 that divide and fit",
            {"micro_batch": (1, 2, 4, 8), "layout": tuple(f"{layout},vp={n}" for n in chunks)},
        )  # fmt: skip
    for name, chips, hidden, layers, heads, layout, batch, micro, *both in KORTHIKANTI:
        for again, seconds in zip(("full", "selective"), both, strict=True):
            spread = layout + (",sp" if again == "selective" else "")
            yield PublishedRun(
                "Korthikanti", f"{name} {again}", seconds, gpt(hidden, layers, heads), batch, 2048,
                {**usual, "recompute": again, "on": f"{chips // 8}xdgx-a100", "layout": spread,
                 "micro_batch": micro, "overlap": "pp", "schedule": "interleaved" if "vp" in layout else "1f1b"},
            )  # fmt: skip
    for chips, batch, seconds in MEGASCALE:
        yield PublishedRun(
            "MegaScale", f"Megatron-LM 175B on {chips}", seconds, gpt(12288, 96, 128, 64000), batch, 2048,
            {"engine": "megatron", "on": f"{chips // 8}xdgx-a100",
             "layout": f"tp=8,pp=8,dp={chips // 64},vp=6,zero=1,sp",
             "micro_batch": 1, "schedule": "interleaved", "recompute": "none", "overlap": "pp"},
            "flash attention, nothing run again, micro-batch 1, sequence parallelism; gradients beside nothing, as "
            "Megatron-LM has it where --overlap-grad-reduce is not given",
        )  # fmt: skip


MEGATRON_TURING = ((280, 8, 60.1), (350, 10, 50.2), (420, 12, 44.4))
"""arXiv:2201.11990 §4.2: nodes, replicas, seconds of a step of 1,920 sequences."""


def _megatron_turing() -> Iterator[PublishedRun]:
    for nodes, dp, seconds in MEGATRON_TURING:
        yield PublishedRun(
            "MT-NLG", f"530B on {8 * nodes}", seconds, gpt(20480, 105, 128), 1920, 2048,
            {"engine": "deepspeed", "on": f"{nodes}xdgx-a100", "layout": f"tp=8,pp=35,dp={dp}", "recompute": "full",
             "flash": False},
            "arXiv:2201.11990 §3, §4.2: layers run again, micro-batch 1",
        )  # fmt: skip


OWN_SHARDS = replace(engine_named("megatron"), staged_zeros=(0, 1, 2))
"""Megatron-LM, but with FSDP's shares of gradients beside pipeline stages, as Llama 3 had (arXiv:2407.21783 §3.3.2)."""


def _llama() -> Iterator[PublishedRun]:
    config = {**catalog_config("meta-llama/Llama-3.1-405B"), "max_position_embeddings": 2**20}
    model = rl.load(config)
    for chips, layout, batch, tokens, tflops in LLAMA:
        flops = rl.analyze(model, rl.training(1, tokens)).flops * batch
        yield PublishedRun(
            "Llama-3", f"405B, {tokens} tokens on {chips}", flops / (1e12 * tflops * chips), model, batch, tokens,
            {"engine": OWN_SHARDS, "on": "llama-3-24k", "layout": layout, "schedule": "interleaved",
             "overlap": "dp,pp", "recompute": ("act",)},
            "its cluster's pods; eight chunks of a layer; published TFLOP/s taken to count attention's unmasked half; "
            "§3.3.2 frees tensors that are not needed again: SwiGLU keeps gate and up alone, as Meta's own kernel does "
            "(xformers, ops/swiglu_op.py: save_for_backward(x, w1, w2, w3, x1, x2); silu_bw_fused makes their product)",
        )  # fmt: skip


def jean_zay(nodes: int) -> Cluster:
    """Nodes of eight A100 with four Omni-Path links of 100 Gbit/s each (arXiv:2211.05100 §3.2.2)."""
    usual = cluster_named(f"{nodes}xdgx-a100")
    *inner, network = usual.levels
    return replace(usual, levels=(*inner, replace(network, bandwidth=4 * 12.5e9 / 8)))


def _others() -> Iterator[PublishedRun]:
    bloom = rl.load({
        "model_type": "bloom", "hidden_size": 14336, "n_layer": 70, "n_head": 112, "vocab_size": 250880,
        "seq_length": 2048, "dtype": "bfloat16",
    })  # fmt: skip
    yield PublishedRun(
        "BLOOM", "176B on 384", 104.5, bloom, 2048, 2048,
        {"engine": "deepspeed", "on": jean_zay(48), "overlap": False, "layout": "tp=4,pp=12,dp=8,zero=1",
         "micro_batch": 2,
         "recompute": "full", "flash": False},
        "arXiv:2211.05100 §3.2.2: four Omni-Path links of 100 Gbit/s a node; layers run again, nothing overlaps",
    )  # fmt: skip
    yield PublishedRun(
        "DeepSeek-V3", "2,048 H800", 2.664e6 * 3600 / 2048 / (14.8e12 / (15360 * 4096)),
        "deepseek-ai/DeepSeek-V3", 15360, 4096,
        {"engine": "hai-llm", "on": "2048xh800-sxm"},
        "arXiv:2412.19437 §3: its framework by the plain call (engines/stacks.toml), on which nothing was fitted; "
        "micro-batch 1",
    )  # fmt: skip
    palm = rl.load({
        "model_type": "cohere", "hidden_size": 18432, "intermediate_size": 73728, "num_hidden_layers": 118,
        "num_attention_heads": 48, "num_key_value_heads": 1, "head_dim": 256, "vocab_size": 256000,
        "tie_word_embeddings": True, "max_position_embeddings": 2048, "dtype": "bfloat16",
    })  # fmt: skip
    yield PublishedRun(
        "PaLM", "540B on 6,144 TPU v4", 2048 * 2048 / 238.3e3, palm, 2048, 2048,
        {"engine": "maxtext", "on": "2xtpu-v4-pod", "layout": "tp=12,dp=512,zero=3,shard=256", "recompute": "full",
         "recompute_layers": 89},
        "arXiv:2204.02311 §4: 238,300 tokens/s, every pod has a whole copy; 89 of 118 layers run again, the share of "
        "the forward that is between its HFU, 57.8 %, and its MFU, 46.2 %",
    )  # fmt: skip


def best(run: PublishedRun) -> Any:
    """Its estimate: the fastest of its choices that fits, or of all where none does."""
    estimates = []
    for values in product(*run.choices.values()):
        chosen = dict(zip(run.choices, values, strict=True))
        try:
            estimates.append(rl.train(run.model, batch=run.batch, tokens=run.tokens, **{**run.settings, **chosen}))
        except InputError:
            if not run.choices:
                raise
    return min([e for e in estimates if e.fits] or estimates, key=lambda e: float(e.time))


# -- among what a search looks at ----------------------------------------------------------------------------------
CHOSEN = ("layout", "micro_batch", "schedule", "recompute", "recompute_layers")
"""Settings that a search chooses."""
WHOLE_S = 3600.0
"""Seconds for each search: none is cut short, however busy the machine."""
NEAR = 0.10
"""Share by which the best may be faster before it is said what it does otherwise."""


@dataclass(frozen=True)
class Exploit:
    """What the best plan does otherwise, with the seconds of a step that does this and all before it, and whether it
    fits; None where that step is not possible."""

    kind: str
    what: str
    seconds: float | None
    fits: bool = False

    @property
    def text(self) -> str:
        """It and its seconds."""
        after = "not possible" if self.seconds is None else f"{self.seconds:.2f} s{'' if self.fits else ' (too large)'}"
        return f"{self.what}: {after}"


def exploits(run: PublishedRun, theirs: Any, best: Any) -> Iterator[Exploit]:
    """From a published run to the best plan: sequence parallelism, ZeRO stage, recomputation, then its degrees."""
    chosen: dict[str, Any] = {
        "layout": theirs.deployment.layout, "micro_batch": theirs.step.micro_batch, "schedule": theirs.schedule,
        "recompute": theirs.step.recompute, "recompute_layers": theirs.step.recompute_layers,
    }  # fmt: skip
    own, aim = theirs.deployment.layout, best.spread
    moves: list[tuple[str, str, dict[str, Any]]] = []
    if own.tp > 1 and not own.sp:
        own = replace(own, sp=True)
        moves.append(("sequence parallelism", "sequence parallelism", {"layout": own}))
    if own.zero != aim.zero or own.shard != aim.shard:
        own = replace(own, zero=aim.zero, shard=aim.shard)
        moves.append(("ZeRO", f"ZeRO-{aim.zero}", {"layout": own}))
    if best.recompute != theirs.recompute:
        again = {"recompute": best.estimate.step.recompute, "recompute_layers": None}
        moves.append(("recomputation", f"recompute {best.recompute.strip(',')}", again))
    rest = {"layout": aim, "micro_batch": best.micro_batch, "schedule": best.schedule}
    if own != aim or chosen["micro_batch"] != best.micro_batch:
        moves.append(("degrees", f"{best.layout}, mb {best.micro_batch}, {best.schedule}", rest))
    kept = {name: value for name, value in run.settings.items() if name not in CHOSEN}
    for kind, what, changes in moves:
        chosen |= changes
        try:
            e = rl.train(run.model, batch=run.batch, tokens=run.tokens, **kept, **chosen)
            yield Exploit(kind, what, float(e.time), bool(e.fits))
        except InputError:
            yield Exploit(kind, what, None)


def by_bytes(e: Any) -> str:
    """The fullest rank of a run, by term."""
    most = e.fullest
    terms = ("weights", "gradients", "optimizer", "activations", "working", "context")
    text = ", ".join(f"{name} {float(getattr(most, name)) / 1e9:.1f}" for name in terms)
    free = float(most.reserved - most.allocated) / 1e9
    each = f"{float(most.activations / most.each):.1f} micro-batches of {float(most.each) / 1e9:.2f}"
    return f"GB: {text}, unused by the allocator {free:.1f}; {each} in flight"


@dataclass(frozen=True)
class Ranked:
    """A run among the plans of the search: its estimate, the best plan, plans, and how many of them are faster.

    `there`: whether its layout, micro-batch, schedule and recomputation are one of the plans. `unlike`: settings of it
    that no plan has. `alike`: the best of the plans with what its stack had, if any, as text and seconds.
    """

    run: PublishedRun
    theirs: Any
    best: Any
    alike: tuple[str, float] | None
    plans: int
    faster: int
    there: bool
    unlike: tuple[str, ...]

    @property
    def gap(self) -> float:
        """Share by which the best is faster."""
        return float(self.theirs.time) / float(self.best.seconds) - 1

    @property
    def own_gap(self) -> float:
        """Share by which the best with what its stack had is faster; 0 where there is none."""
        return float(self.theirs.time) / self.alike[1] - 1 if self.alike else 0.0

    @property
    def exploits(self) -> tuple[Exploit, ...]:
        """What a best plan that is faster by more than a tenth does otherwise."""
        return tuple(exploits(self.run, self.theirs, self.best)) if self.gap > NEAR else ()

    @property
    def most(self) -> str:
        """The kind of exploit that saves most."""
        seconds, savings = float(self.theirs.time), dict[str, float]()
        for one in self.exploits:
            if one.seconds is not None:
                savings[one.kind] = seconds - one.seconds
                seconds = one.seconds
        return max(savings, key=lambda kind: savings[kind])

    @property
    def _why(self) -> str:
        return f", of which none has {' or '.join(self.unlike)}" if self.unlike else ""

    @property
    def line(self) -> str:
        """One line of text."""
        e, b = self.theirs, self.best
        words = (
            ""
            if self.there
            else f"; not among them{self._why}"
            if e.fits
            else f"; {_missing(e):.0f} GB too large, {by_bytes(e)}"
        )
        other = "".join(f"; + {one.text}" for one in self.exploits)
        own = f"{e.deployment.layout.text()}, mb {e.step.micro_batch}, {e.schedule}, {e.recompute}"
        times = f"{float(e.time):.2f} s, best {b.seconds:.2f} ({100 * self.gap:+.0f} %)"
        if self.alike:
            text, seconds = self.alike
            times += f", with what its stack had {seconds:.2f} ({text})"
        place = f"{self.faster:,} of {self.plans:,} faster{words}{other}"
        return f"{self.run.paper}, {self.run.label}: {own}: {times}, {place}"


def _missing(e: Any) -> float:
    return (float(e.fullest.total) - float(e.memory.capacity)) / 1e9


def _plan(p: Any) -> str:
    return f"{p.layout}, mb {p.micro_batch}, {p.schedule}, {p.recompute}"


def ranked(run: PublishedRun) -> Ranked | str:
    """A run among the plans of the search with its own formats, or why there is none."""
    e = best(run)
    asked = {name: value for name, value in run.settings.items() if name not in CHOSEN}
    schedules = list(dict.fromkeys((e.schedule, "1f1b", "interleaved"))) if asked["engine"] != "hai-llm" else None
    again = run.settings.get("recompute")
    if isinstance(again, tuple):  # of the run's own kernels: beside what is tried by default
        asked["recompute"] = [*recomputations(e.model, e.engine), again]
    s = rl.search_training(
        run.model, batch=run.batch, tokens=run.tokens, chips=int(e.chips), top=10**6, schedule=schedules,
        seconds=WHOLE_S, **asked,
    )  # fmt: skip
    if not s.plans:
        return f"{run.paper}, {run.label}: no plan fits"
    faster = sum(p.seconds < float(e.time) * (1 - 1e-9) for p in s.plans)
    own = _bare(e.deployment.layout.text(), e.step.micro_batch, e.schedule, e.recompute)
    there = own in {_bare(p.layout, p.micro_batch, p.schedule, p.recompute) for p in s.plans}
    had = e.deployment.layout
    alike = [p for p in s.plans if (p.spread.zero, p.spread.cp) == (had.zero, had.cp) and _again(p) == _again(e)]
    own_settings, known = _settings(e.deployment.layout, e), [_settings(p.spread, p) for p in s.plans]
    unlike = tuple(f"{name}={value}" for name, value in own_settings.items() if all(k[name] != value for k in known))
    return Ranked(run, e, s.plans[0], _had(run, e, alike[:LOOKED_AT]), len(s.plans), faster, there, unlike)


LOOKED_AT = 16
"""Plans with a run's ZeRO stage and recomputation that are timed without sequence parallelism where it had none."""


def _had(run: PublishedRun, theirs: Any, plans: Sequence[Any]) -> tuple[str, float] | None:
    """The fastest of plans, without sequence parallelism where the run had none: its text and seconds."""
    own = theirs.deployment.layout
    if own.sp or own.tp == 1 or not plans:
        return (_plan(plans[0]), float(plans[0].seconds)) if plans else None
    kept = {name: value for name, value in run.settings.items() if name not in CHOSEN}
    timed = []
    for p in plans:
        again = {"recompute": p.estimate.step.recompute, "schedule": p.schedule, "micro_batch": p.micro_batch}
        layout = replace(p.spread, sp=False)
        e = rl.train(run.model, batch=run.batch, tokens=run.tokens, layout=layout, **kept, **again)
        if e.fits:
            timed.append((_plan(p).replace(", sp", ""), float(e.time)))
    return min(timed, key=lambda one: one[1], default=None)


def _again(of: Any) -> str:
    return str(of.recompute).strip(",")


def _settings(layout: Any, of: Any) -> dict[str, Any]:
    """What a plan or an estimate chooses, by name."""
    degrees = {name: getattr(layout, name) for name in ("tp", "cp", "pp", "ep", "vp", "zero", "shard")}
    again = getattr(getattr(of, "step", None), "recompute_layers", None)
    return {**degrees, "schedule": of.schedule, "recompute": of.recompute.strip(","), "recompute_layers": again}


def _bare(layout: str, micro_batch: int, schedule: str, again: str) -> tuple[str, int, str, str]:
    """A plan without sequence parallelism, which the search always has."""
    return layout.replace(", sp", ""), micro_batch, schedule, again.rstrip(",")


def main(word: str = "") -> None:
    """Prints a line for each run, and the counts."""
    places: list[Ranked] = []
    for one in published():
        if word in f"{one.paper} {one.label}":
            place = ranked(one)
            print(place if isinstance(place, str) else place.line, flush=True)
            places += [] if isinstance(place, str) else [place]
    causes = Counter(place.most for place in places if place.gap > NEAR)
    far = ", ".join(f"{kind} {number}" for kind, number in causes.most_common())
    larger = sum(not place.theirs.fits for place in places)
    near, own = (sum(gap(p) <= NEAR for p in places) for gap in (lambda p: p.gap, lambda p: p.own_gap))
    print(f"{len(places)} runs: {near} within a tenth of the best, {own} of the best with what their stacks had")
    print(f"{larger} do not fit; {sum(p.there for p in places)} layouts are among the plans")
    print(f"what saves most in the others: {far}")


if __name__ == "__main__":
    main(*sys.argv[1:])
