"""Every kind of picture of a dense model, one of latents and a hybrid: texts that can be read, in both themes.

benchmarks/picture_check.py has each kind of each model in each theme.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from legible import KINDS, LEAST_CONTRAST, MODELS, THEMES, contrast, picture, problems, rgb_of
from roofline.views.plots.draw import charts as draw_charts
from roofline.views.plots.style import THEMES as COLOURS
from roofline.views.plots.style import Style, ThemeName

SAMPLE = tuple((list(MODELS)[i % 3], kind, THEMES[i // 3 % 2]) for i, kind in enumerate(KINDS))
"""Each kind once, with the models and the themes in turn."""


@pytest.mark.drawn(3)
@pytest.mark.parametrize(("model", "kind", "theme"), SAMPLE)
def test_every_text_can_be_read(model: str, kind: str, theme: ThemeName) -> None:
    assert problems(picture(model, kind), Style(theme=theme, dpi=100)) == []


def test_contrast_is_that_of_the_standard() -> None:
    """Black on white is 21, a colour on itself 1, and #767676 on white the darkest grey's neighbour at 4.54."""
    white, black, grey = np.ones(3), np.zeros(3), np.full(3, 0x76 / 255)
    assert contrast(black, white) == pytest.approx(21)
    assert contrast(grey, grey) == 1
    assert contrast(grey, white) == pytest.approx(4.54, abs=0.005)


def test_text_on_a_bar_can_be_read_where_a_page_changes_its_theme() -> None:
    """A report draws in light colours, and its page puts the dark ones in their place: paper for white, black stays."""
    light, dark = COLOURS["light"], COLOURS["dark"]
    for one, other in zip(light.palette, dark.palette, strict=True):
        ink = draw_charts.on_colour(one)
        there = dark.paper if ink == light.paper else ink
        assert contrast(rgb_of(ink), rgb_of(one)) >= LEAST_CONTRAST, one
        assert contrast(rgb_of(there), rgb_of(other)) >= LEAST_CONTRAST, other


def test_the_check_sees_faint_text_and_text_on_text(monkeypatch: pytest.MonkeyPatch) -> None:
    plot = picture("dense", "parameters")
    theme = replace(COLOURS["light"], ink="#aaaaaa")
    monkeypatch.setattr(Style, "colours", property(lambda self: theme))
    assert any(line.startswith("contrast 2.3") for line in problems(plot, Style(dpi=100)))
    monkeypatch.undo()
    monkeypatch.setattr(draw_charts, "ROW", 0.05)
    assert any(line.startswith("one on the other") for line in problems(plot, Style(dpi=100)))
