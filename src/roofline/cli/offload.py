"""`roofline offload`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from roofline.cli.common import (
    EngineName,
    Formats,
    Headers,
    LawName,
    ModelArgument,
    Needed,
    Revision,
    Switch,
    Whole,
    refuse,
    warn,
)


def offload(
    model: ModelArgument,
    /,
    *,
    on: Annotated[list[str], Parameter(consume_multiple=True, negative="")],
    host: str,
    ram: str | None = None,
    ram_bw: str | None = None,
    pcie: str | None = None,
    drive: str | None = None,
    gpu_layers: Whole = None,
    cpu_experts: Whole = None,
    no_kv_offload: Switch = False,
    batch: Needed = 1,
    input: Needed = 512,
    output_tokens: Needed = 128,
    engine: EngineName = None,
    precision: Formats = None,
    law: LawName = "calibrated",
    revision: Revision = None,
    headers: Headers = False,
    json: Switch = False,
) -> None:
    """A model too large for its cards: layers on cards, the rest on the CPU, as llama.cpp splits it.

    Finds the fastest split that fits, or times the one given. Exits with 1 where it does not fit. With `--engine vllm`
    nothing runs on the CPU: the card reads the host's weights over its link in every step (--cpu-offload-gb).

    Example: `roofline offload openai/gpt-oss-120b --on rtx-4090 --host ryzen-9-7950x`

    Parameters
    ----------
    on:
        A card, or several of any kinds, which share the layers by their memory.
    host:
        The CPU, a name or figures: peak=2T,bw=80G,mem=64G.
    ram:
        Memory of the host: 64GB (the most that the CPU takes).
    ram_bw:
        Bandwidth of the host's memory: 80GB/s (every channel filled).
    pcie:
        Copies between host and card: 12GB/s (25GB/s, PCIe 4.0 of 16 lanes).
    drive:
        Reads of the drive that holds what memory does not: 5GB/s.
    gpu_layers:
        Layers on cards, counted from the last, the output first: llama.cpp's --n-gpu-layers.
    cpu_experts:
        Layers, counted from the first, whose experts stay on the host: llama.cpp's --n-cpu-moe.
    no_kv_offload:
        The KV cache and attention to it stay on the host: llama.cpp's --no-kv-offload.
    batch:
        Sequences together.
    input:
        Prompt tokens of each.
    output_tokens:
        Generated tokens of each.
    json:
        JSON, as docs/json.md has it.
    """
    from roofline.estimates.offload import host_of
    from roofline.estimates.offload import offload as run
    from roofline.model.load import load
    from roofline.show.offload import offload_table, offload_text
    from roofline.show.tables import print_json, print_tables

    built = load(model, revision=revision, headers=headers)
    place = host_of(host, ram=ram, ram_bw=ram_bw, pcie=pcie, drive=drive, cache=no_kv_offload)
    result = run(
        built, on=on, host=place, gpu_layers=gpu_layers, cpu_experts=cpu_experts, batch=batch, input=input,
        output=output_tokens, engine=engine, precision=precision, law=law,
    )  # fmt: skip
    if json:
        print_json(result.to_dict())
    else:
        print_tables((offload_table(result), offload_text(result)))
    warn(built)
    refuse(result.fits)
