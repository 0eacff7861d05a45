"""Requests that are all equally long, for tests that work out by hand what such requests take."""

from __future__ import annotations

from typing import Any

EQUAL: dict[str, Any] = {"input_cv": 0, "output_cv": 0}
