"""Every value that an engine declares as fitted has a name in results, in every release."""

from __future__ import annotations

from roofline.engines.engine import engine_named, engines
from roofline.engines.releases import releases
from roofline.measured.accuracy.fitted import WORDS, fits_of


def test_every_fitted_value_of_every_release_has_a_name() -> None:
    named = [*engines(), *(f"{id}@{change.release}" for id, known in releases().items() for change in known.changes)]
    named += ["vllm@0.11.1", "vllm@0.5"]  # before a change
    values = {value for name in named for fit in fits_of(engine_named(name)) for value in fit.values}
    assert "untuned" in values
    assert values <= set(WORDS)
