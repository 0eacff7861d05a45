"""What is slower in an engine than alone, and by how much: at most 1.3 times, or for a reason that is written here."""

from __future__ import annotations

from collections.abc import Iterator

from roofline.engines.engine import Engine, engine_named, engines
from roofline.engines.releases import releases

MOST = 1.3
KINDS = ("products", "wide", "experts", "attention", "streams", "collectives", "exchanges", "latency")
LANES = "kernels written for groups of 32 lanes, of which the chip's have 64; fitted on whole models"
ARRIVAL = "not a kernel's time: ranks come to a collective one after another, and its latency counts again"
FLASH_2 = "FlashAttention 2, on an H100 1.75 times the time of version 3 (arXiv:2407.08608, figure 5)"
FLASH_1 = "FlashAttention 1 in Triton (llm-foundry's attn_impl of 2023), about half as fast as version 2"
FIRST_PORTS = "ports of 2024, of vLLM 0.5 and 0.6: no term is known apart, the factor is all of it"
REASONS: dict[tuple[str, str, str], str] = {
    **dict.fromkeys((("trtllm", "hopper", "latency"), ("sglang", "hopper", "latency")), ARRIVAL),
    ("tensorrt", "hopper", "latency"): ARRIVAL,
    ("vllm", "hopper", "latency"): ARRIVAL,
    ("fastertransformer", "ampere", "latency"): ARRIVAL,
    **{("llama-cpp", "cdna2", kind): LANES for kind in ("products", "wide", "experts", "attention")},
    **{("llama-cpp", "cdna3", kind): LANES for kind in ("products", "wide", "experts", "attention", "streams")},
    **{(e, g, "attention"): FLASH_2 for e in ("diffusers", "xdit", "tei", "infinity") for g in ("hopper", "blackwell")},
    ("torchtitan", "hopper", "attention"): f"{FLASH_2}; the board of 500 W, 1.46 as for products: 1.21 is left",
    ("torchtitan", "hopper", "wide"): "boards of 500 W beside the usual 700; the same runs fitted it",
    ("torchtitan", "hopper", "products"): "boards of 500 W",
    ("torchtitan", "hopper", "experts"): "as products: no run had experts",
    ("fsdp", "hopper", "attention"): f"FlashAttention of 2023: {FLASH_2}; 1.73 is left and unexplained",
    ("fsdp", "ampere", "attention"): FLASH_1,
    ("megatron-2025", "blackwell", "wide"): "one machine of 8 B200 (SimuMax), unexplained",
    ("megatron-2025", "blackwell", "collectives"): "the same machine, unexplained",
    ("megatron-2025", "blackwell", "exchanges"): "as collectives",
    **{("vllm", "cdna2", kind): FIRST_PORTS for kind in ("products", "wide", "experts", "latency")},
    **{
        ("vllm", "cdna3", kind): FIRST_PORTS
        for kind in ("products", "wide", "experts", "attention", "streams", "latency")
    },
    **{
        ("vllm", "xe-hpc", kind): f"{FIRST_PORTS}; small kernels launched one by one, without graphs"
        for kind in ("products", "wide", "experts", "attention", "streams", "latency")
    },
}
"""Engine, generation and kind of work → why its factor is above `MOST`."""


def releases_of(name: str) -> Iterator[Engine]:
    """An engine as of each of its releases, or as it is where none is known."""
    known = releases().get(name)
    for release in known.months if known is not None else ():
        yield engine_named(f"{name}@{release}")
    yield engines()[name]


def slowed() -> dict[tuple[str, str, str], float]:
    """Engine, generation and kind of work → the largest product of factors of its releases, where above `MOST`.

    Factors of `arithmetic` are of products beside their own.
    """
    largest: dict[tuple[str, str, str], float] = {}
    for name in engines():
        for engine in releases_of(name):
            for generation in engine.slower:
                for kind in KINDS:
                    product = engine.factor(generation, kind)
                    if kind in ("products", "wide", "experts"):
                        product *= engine.factor(generation, "arithmetic")
                    place = name, generation, kind
                    largest[place] = max(largest.get(place, 1.0), product, 1 / product)
    return {place: product for place, product in largest.items() if product > MOST}


def test_no_factor_is_above_1_3_without_a_reason() -> None:
    over = slowed()
    assert {place: round(f, 2) for place, f in over.items() if place not in REASONS} == {}
    assert [place for place in REASONS if place not in over] == []


def test_servers_of_today_slow_no_kernel() -> None:
    """vLLM, SGLang and TensorRT-LLM: each kernel as measured alone, so that no product of factors is there at all."""
    for name in ("vllm", "sglang", "trtllm"):
        terms = {t for table in engines()[name].slower.values() for t in table}
        assert terms <= {"latency"}, name
