"""Options that commands share, and how a result reaches stdout or a file."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from roofline.model.errors import InputError
from roofline.model.model import Model
from roofline.work.step import Step

CountingName = Literal["standard", "torch", "original"]
TrafficName = Literal["fused", "unfused", "floor", "original"]
ModelArgument = Annotated[
    str, Parameter(help="A Hub id (`meta-llama/Llama-3.1-8B`), a catalog name, a config.json or its folder.")
]
DEFAULT_TOKENS = 1024
"""Prompt and context length of `analyze` where no step is given; printed with the result."""


@Parameter(name="*")
@dataclass(frozen=True)
class StepOptions:
    """Which step. Without any of these: a prefill and a decode of 1024 tokens, batch 1."""

    prefill: int | None = None
    "Prompt length: a prefill of that many new tokens for each sequence."
    decode: int | None = None
    "Context length: one new token for each sequence after that many cached ones."
    batch: int | None = None
    "Sequences in the batch (1), or a multiple of the length of --cached and --new, which then repeat."
    cached: Annotated[list[int] | None, Parameter(consume_multiple=True, negative="")] = None
    "Cached tokens of each query of a mixed batch."
    new: Annotated[list[int] | None, Parameter(consume_multiple=True, negative="")] = None
    "New tokens of each query of a mixed batch."

    def steps(self) -> list[tuple[str, Step]]:
        """The steps asked for, with a name for each."""
        from roofline.work.step import decode, prefill

        batch = 1 if self.batch is None else self.batch
        if self.cached is not None or self.new is not None:
            if self.prefill is not None or self.decode is not None:
                raise InputError("--cached", self.cached, "either --prefill and --decode or --cached and --new")
            size = len(self.cached or self.new or [])
            cached, new = self.cached or [0] * size, self.new or [1] * size
            if len(cached) != len(new):
                raise InputError("--new", new, f"{len(cached)} values, as many as --cached")
            return [("step", Step(cached=cached, new=new, batch=self.batch))]
        first, then = self.prefill, self.decode
        if first is None and then is None:
            first = then = DEFAULT_TOKENS
        chosen = [("prefill", prefill(batch, first))] if first is not None else []
        return chosen + ([("decode", decode(batch, then))] if then is not None else [])


def warn(model: Model) -> None:
    """What the config says that was not understood, and what was left out, on stderr."""
    for text in model.warnings:
        print(f"warning: {text}", file=sys.stderr)
    for text in model.not_counted:
        print(f"not counted: {text}", file=sys.stderr)


def deliver(text: str, output: Path | None, force: bool) -> None:
    """To stdout, or to a file that is not there yet (or may be overwritten)."""
    if output is None:
        sys.stdout.write(text)
        return
    try:
        with output.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise InputError("--output", str(output), "a new file, or --force to overwrite it") from None
    except OSError as error:
        raise InputError("--output", str(output), f"a file that can be written ({error.strerror})") from None
