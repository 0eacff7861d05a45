"""Groups of settings shared by several questions, declared once: place, load, SLO, pools.

Calls take a group as one value or as flat settings. Texts (machines, layouts, formats, engines, laws) are parsed where
they are used.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Annotated, Any, TypeAlias

from roofline.declared.checks import count
from roofline.declared.errors import InputError
from roofline.declared.kinds import (
    MEAN,
    Attained,
    Bandwidth,
    ChipCount,
    CountingName,
    EngineName,
    Formats,
    LawName,
    LayoutText,
    MachineName,
    PerSecond,
    RankCount,
    Replicas,
    Requests,
    Seconds,
    Sequences,
    Share,
    Switch,
    Tokens,
    TrafficName,
    Variation,
)
from roofline.declared.numbers.maths import Count
from roofline.declared.question import group, group_settings

PrecisionText: TypeAlias = Annotated[
    Formats | None,
    "Formats instead of the checkpoint's, of the weights (`fp8`), by role (`weights=int4,kv=fp8`) or by modules' names "
    "(`weights=fp8,o_proj=bf16`, `model.layers.0.*=bf16`): `bf16`, `fp16`, `fp8`, `int8`, `int4`, `int4-g32`, `mxfp4`, "
    "`nvfp4`, `nf4` and more.",
]
CountingText: TypeAlias = Annotated[
    CountingName,
    "How FLOPs are counted. `standard`: a multiply-add is 2, masked pairs are none; `torch`: as "
    "torch.utils.flop_counter; `original`: as transformer-roofline-analyzer; `llm-para`: as LLM-para.",
]
TrafficText: TypeAlias = Annotated[
    TrafficName,
    "What crosses memory. `fused`: flash attention, elementwise work with its neighbours; `unfused`: all that every op "
    "reads and writes; `floor`: weights and cache once; `original`: as transformer-roofline-analyzer; `llm-para`: as "
    "LLM-para. Any with factors: `fused(weights=0.5,activations=0.8,cache=1,scratch=1)`.",
]
DEGREES = ("tp", "pp", "dp", "ep")
"""Degrees of a layout that are also settings by themselves."""


@group
@dataclass(frozen=True, kw_only=True)
class PartsSettings:
    """Which parts of a multimodal model are counted."""

    text_only: Annotated[
        Switch, "The language model of a multimodal model alone, without the towers that read images or sound."
    ] = False


@group
@dataclass(frozen=True, kw_only=True)
class MachineSettings:
    """A machine: a name, a file, figures, a `Chip` or a `Cluster`, or a list of them."""

    on: Annotated[
        MachineName,
        "A chip of the catalog (`roofline chips`), a chip file, or figures such as `peak=1000T,bw=4.8T,mem=141G` or "
        "`like=h100-sxm,bw=4.8T`, or several chips (`8xh100-sxm`, `dgx-h100`, `superpod-h100`). "
        "`@490W`, `@70%` or `@1400MHz` behind a name limits each board or its clock (`dgx-h100@490W`).",
    ]


@group
@dataclass(frozen=True, kw_only=True)
class LayoutSettings:
    """The layout: a text, a mapping of degrees or a `Layout`. Separate degrees are merged into it (`fully`)."""

    layout: Annotated[
        LayoutText | None,
        "How the model is spread over chips: degrees such as `tp=8,pp=4,dp=2`, with `ep`, `etp`, `cp`, `vp`, `zero`, "
        "`shard`, `sp`, `stages=20+22+22`, `exchange=ring|all_gather|ulysses`. Default: one chip; on a cluster "
        "all of it.",
    ] = None
    tp: Annotated[
        RankCount | None,
        "Tensor-parallel ranks: the same as tp=… in the layout; likewise the next three, alone or beside a layout.",
    ] = None
    pp: Annotated[RankCount | None, "Pipeline stages."] = None
    dp: Annotated[RankCount | None, "Data-parallel replicas."] = None
    ep: Annotated[RankCount | None, "Expert-parallel ranks."] = None

    @staticmethod
    def fully(settings: Mapping[str, Any]) -> dict[str, Any]:
        """Merge separate degrees into the layout.

        Raises InputError for a degree given twice, one below 1, and degrees beside a `Layout` object.
        >>> LayoutSettings.fully({"on": "8xh100-sxm", "layout": "tp=2,sp", "dp": 4})
        {'on': '8xh100-sxm', 'layout': 'tp=2,sp,dp=4'}
        """
        rest = {name: value for name, value in settings.items() if name not in DEGREES}
        degrees = {name: settings[name] for name in DEGREES if settings.get(name) is not None}
        if not degrees:
            return rest
        layout = rest.get("layout")
        for name, degree in degrees.items():
            degrees[name] = count(name, degree, 1)
            written = isinstance(layout, str) and re.search(rf"(?<![a-z]){name}\s*=", layout)
            if written or (isinstance(layout, Mapping) and name in layout):
                raise InputError(name, degree, f"{name} in the layout or as an option, not in both")
        if isinstance(layout, Mapping) or (layout is None and any(not isinstance(d, int) for d in degrees.values())):
            return rest | {"layout": {**(layout or {}), **degrees}}
        if layout is not None and not isinstance(layout, str):
            name, degree = next(iter(degrees.items()))
            raise InputError(name, degree, "no degree beside a layout that is not a text or a mapping")
        parts = [*([layout] if layout else []), *(f"{name}={degree}" for name, degree in degrees.items())]
        return rest | {"layout": ",".join(parts)}


@group
@dataclass(frozen=True, kw_only=True)
class KernelSettings:
    """The engine and the formats."""

    engine: Annotated[
        EngineName | None,
        "Whose kernels, host time and memory rule: `vllm`, `trtllm`, `sglang`, …; `none` is kernels alone. "
        "Default: `vllm` on the chips that it supports, else `none`. A release or a date behind it: `vllm@0.11`, "
        "`vllm@2025-06`; without one the newest known. Its settings in brackets: `vllm(max_num_seqs=128)`.",
    ] = None
    precision: PrecisionText = None


@group
@dataclass(frozen=True, kw_only=True)
class LawSettings:
    """The law of the times."""

    law: Annotated[LawName, "Times `calibrated` on measurements, `ideal` (speed of light), or `fixed(mfu,mbu)`."] = (
        "calibrated"
    )


@group
@dataclass(frozen=True, kw_only=True)
class PlaceSettings(KernelSettings, LayoutSettings, MachineSettings):
    """Where a model runs, with its formats and engine. `on`, layout, precision and engine may be lists."""


@group
@dataclass(frozen=True, kw_only=True)
class Where(LawSettings, PlaceSettings):
    """A place, and the law of its times."""


@group
@dataclass(frozen=True)
class RequestLengths:
    """Prompt and answer tokens of a request. Arrays broadcast."""

    input: Annotated[Tokens, "Prompt tokens of a request."]
    output_tokens: Annotated[Tokens, "Generated tokens of a request."]


@group
@dataclass(frozen=True)
class StaticBatch(RequestLengths):
    """A static batch: equal requests that start together."""

    batch: Annotated[Sequences, "Sequences that start together, those of all replicas."] = 1


@group
@dataclass(frozen=True)
class PrefixedLengths(RequestLengths):
    """Tokens of a request, and the share of its prompt in the prefix cache."""

    prefix: Annotated[Share, "Share of each prompt found in the prefix cache."] = 0.0


PROMPTS_VARY, ANSWERS_VARY = 0.96, 0.78
"""Coefficients of variation of prompt and answer lengths in served conversations.

The conversation trace of Azure's LLM inference service of November 2023 (AzurePublicDataset, CC-BY; Patel et al.,
Splitwise, ISCA 2024): 3,442 of its 19,366 requests, in eight parts spread over the file, have 1,097 ± 1,054 tokens in
and 207 ± 161 out.
"""


@group
@dataclass(frozen=True, kw_only=True)
class LengthSpread:
    """The spread of request lengths about their means; they are log-normal."""

    input_cv: Annotated[
        Variation,
        "Standard deviation of the prompts' lengths over their mean; 0: all equally long. Default: that of a public "
        "trace of conversations.",
    ] = PROMPTS_VARY
    output_cv: Annotated[Variation, "Standard deviation of the answers' lengths over their mean."] = ANSWERS_VARY


@group
@dataclass(frozen=True)
class RequestFlow:
    """The amount of requests: a concurrency or a rate."""

    concurrency: Annotated[Requests | None, "Requests always in flight, those of all replicas."] = None
    rate: Annotated[
        PerSecond | None, "Requests a second, of all replicas, arriving at random; instead of a concurrency."
    ] = None


@group
@dataclass(frozen=True)
class Load(LengthSpread, RequestFlow, PrefixedLengths):
    """The load of a server: lengths of requests and their spread, cached prefix, and concurrency or rate.

    Raises InputError for both a concurrency and a rate.
    """

    def __post_init__(self) -> None:
        if self.concurrency is not None and self.rate is not None:
            raise one_load("both")

    @property
    def kind(self) -> str:
        """`concurrency` or `rate`, whichever is given."""
        return "rate" if self.concurrency is None else "concurrency"

    @property
    def number(self) -> Count:
        """The concurrency or the rate."""
        number = self.rate if self.concurrency is None else self.concurrency
        assert number is not None, "a load that says how many"
        return number

    @property
    def given(self) -> Mapping[str, Count]:
        """The concurrency or the rate by its name; empty if neither is given."""
        return {} if self.concurrency is None and self.rate is None else {self.kind: self.number}

    def needed(self) -> Load:
        """The load itself. Raises InputError where neither a concurrency nor a rate is given."""
        if self.concurrency is None and self.rate is None:
            raise one_load("neither")
        return self


def one_load(got: str) -> InputError:
    """The error for both or neither of concurrency and rate."""
    return InputError("concurrency and rate", got, "one of them: requests in flight, or requests a second")


@group
@dataclass(frozen=True, kw_only=True)
class EncoderReplicas:
    """An encoder pool before the other replicas, which then have no towers of images and sound."""

    encoders: Annotated[
        Replicas | None,
        "Replicas that only encode images and sound, on chips of their own; the others then have no towers.",
    ] = None
    encoder_layout: Annotated[LayoutText | None, "Layout of a replica that only encodes (one chip)."] = None
    encoder_on: Annotated[MachineName | None, "Chip of the replicas that only encode, if it differs."] = None
    encoder_bandwidth: Annotated[
        Bandwidth | None,
        "Bandwidth at which a replica sends embeddings, such as `50GB/s` (default: that of the node network).",
    ] = None

    @property
    def apart(self) -> bool:
        """Whether there is an encoder pool. Raises InputError for its settings without a number of replicas."""
        if self.encoders is None:
            for name in ("encoder_layout", "encoder_on", "encoder_bandwidth"):
                if getattr(self, name) is not None:
                    expected = "encoders as well; without, no replica only encodes"
                    raise InputError(name, getattr(self, name), expected)
        return self.encoders is not None


@group
@dataclass(frozen=True, kw_only=True)
class PrefillReplicas:
    """A prefill pool beside the replicas of the layout, which then only decode."""

    prefill_layout: Annotated[
        LayoutText | None,
        "Layout of the replicas that only prefill; those of `layout` then only decode.",
    ] = None
    prefill_on: Annotated[MachineName | None, "Chip or cluster of the replicas that only prefill, if it differs."] = (
        None
    )
    prefill_engine: Annotated[EngineName | None, "Engine of the replicas that only prefill, if it differs."] = None


@group
@dataclass(frozen=True, kw_only=True)
class PoolSizes(PrefillReplicas):
    """Sizes of the prefill pool and the decode pool."""

    chips: Annotated[
        ChipCount | None,
        "Chips of both pools, divided for the highest throughput at the concurrency, or the earliest answer at the "
        "rate.",
    ] = None
    prefills: Annotated[Replicas | None, "Replicas that only prefill, with a number of `decodes` instead of chips."] = (
        None
    )
    decodes: Annotated[Replicas | None, "Replicas that only decode."] = None

    @property
    def apart(self) -> bool:
        """Whether there is a prefill pool.

        Raises InputError for its settings without `prefill_layout`, and where its size is missing.
        """
        if self.prefill_layout is None:
            for name in group_settings(type(self)):
                if getattr(self, name) is not None:
                    expected = "prefill_layout as well; without, no replica only prefills"
                    raise InputError(name, getattr(self, name), expected)
        elif self.chips is None and (self.prefills is None or self.decodes is None):
            raise InputError("chips", "nothing", "the chips of both pools, or prefills and decodes")
        return self.prefill_layout is not None


LIMITED = ("ttft", "tpot", "latency")
"""Names of the limits, in the order of `SLO.bounds`."""
KEPT_BY = 0.99
"""Default share of requests that must keep the limits."""


@group
@dataclass(frozen=True)
class SLO:
    """Upper limits in seconds on TTFT, TPOT and request latency, infinite for none, and the required attainment."""

    ttft: Annotated[Seconds, "Maximum time to first token, such as `300ms`."] = inf
    tpot: Annotated[Seconds, "Maximum time per output token after the first."] = inf
    latency: Annotated[Seconds, "Maximum time of a whole request."] = inf
    attainment: Annotated[
        Attained, "Share of requests that must keep all of these limits, such as `0.95`; `mean`: the means must."
    ] = KEPT_BY

    @property
    def share(self) -> float | None:
        """The share of requests that must keep all limits; None where limits apply to means."""
        return None if self.attainment == MEAN else float(self.attainment)

    @property
    def limits(self) -> Mapping[str, float]:
        """The finite limits, by name."""
        return {name: limit for name, limit in zip(LIMITED, self.bounds, strict=True) if limit < inf}

    def met(self, ttft: float, tpot: float, latency: float) -> bool:
        """Whether a request keeps all limits."""
        return ttft <= self.ttft and tpot <= self.tpot and latency <= self.latency

    @property
    def bounds(self) -> tuple[float, float, float]:
        """The limits in seconds, infinite for none."""
        return self.ttft, self.tpot, self.latency
