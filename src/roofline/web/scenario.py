"""A scenario of the page, and what each view asks of it: as `static/state.js` has it, which a test compares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from roofline.web.choices import chosen_model

SWEPT = (512, 2048, 8192, 32768)
"""Tokens of context that the sweep draws, of a model that takes so many and one more."""
LEAST_SWEPT = 256
"""Requests in flight that a sweep reaches at least."""


@dataclass(frozen=True)
class Scenario:
    """What is chosen at the left of the page; texts are as the commands take them, empty for what is usual."""

    model: str | dict[str, Any] = "meta-llama/Llama-3.1-8B"
    on: str = "h100-sxm"
    layout: str = ""
    precision: str = ""
    engine: str = ""
    law: str = "calibrated"
    input: int = 1024
    output: int = 256
    concurrency: int = 32
    phase: str = "decode"

    @property
    def place(self) -> dict[str, Any]:
        """The settings of every question about memory or time."""
        return {"model": self.model, "on": self.on, "layout": self.layout or None, "precision": self.precision or None,
                "engine": self.engine or None}  # fmt: skip

    @property
    def timed(self) -> dict[str, Any]:
        """The same with the law of times."""
        return {**self.place, "law": self.law}

    @property
    def billed(self) -> dict[str, Any]:
        """The same with the bill: the catalog's."""
        return {**self.timed, "price": None, "grid": None, "pue": None}

    @property
    def middle(self) -> int:
        """Tokens of context half way through the answer; of a prefill those of the prompt."""
        return self.input if self.phase == "prefill" else self.input + self.output // 2

    @property
    def swept(self) -> list[int]:
        """Tokens of context that the sweep of this model draws."""
        longest = chosen_model(self.model).context
        return [tokens for tokens in SWEPT if longest is None or tokens < longest]

    def body(self, view: str) -> tuple[str, dict[str, Any]]:
        """The question, and its body, of one of the page's `asks`."""
        step = {"phase": self.phase, "batch": self.concurrency, "context": self.middle}
        sizes = {"input": self.input, "output_tokens": self.output}
        full = {"batch": self.concurrency, "context": self.input + self.output}
        powers = _powers(self.concurrency)
        contexts = self.swept if view == "sweep" else []
        bodies: dict[str, tuple[str, dict[str, Any]]] = {
            "limits": ("limits", {"model": self.model}),
            "serve": ("serve", {**self.billed, **sizes, "concurrency": self.concurrency}),
            "front": ("serve", {**self.billed, **sizes, "concurrency": powers}),
            "estimate": ("estimate", {**self.billed, **step}),
            "plot": ("plot", {**self.timed, "kind": "roofline", **step}),
            "diagram": ("plot", {"model": self.model, "kind": "diagram"}),
            "analyze": ("analyze", {"model": self.model, "precision": self.precision or None, **step}),
            "fit": ("fit", {**self.place, **full}),
            "sweep": (
                "sweep",
                {**self.billed, "phase": self.phase, "batch": powers, "context": contexts, "only": ["time", "memory"]},
            ),
        }
        return bodies[view]


FIRST_VIEW = ("limits", "serve", "fit", "estimate")
"""What the overview asks."""


def _powers(last: int) -> list[int]:
    end = max(LEAST_SWEPT, 2 * last)
    return sorted({last, *(1 << i for i in range(end.bit_length()) if 1 << i <= end)})
