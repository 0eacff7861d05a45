"""Every family is compared with the real code, or a reason is written down. Needs neither torch nor transformers."""

from pathlib import Path

import pytest

import roofline as rl
from oracle import cases, defaults
from oracle.cases import remote
from roofline.model.families.registry import FAMILIES

MODELS = Path(__file__).parents[1] / "model"


def test_every_family_has_a_case_or_a_reason() -> None:
    assert sorted(FAMILIES) == sorted([*cases.CASES, *cases.WITHOUT_CASE, *cases.ELSEWHERE, *remote.PUBLISHED])


@pytest.mark.parametrize("name", cases.ELSEWHERE)
def test_a_family_that_is_compared_elsewhere_is(name: str) -> None:
    assert f'"model_type": "{name}"' in (MODELS / cases.ELSEWHERE[name]).read_text(encoding="utf-8")


def test_every_case_has_its_kept_figures() -> None:
    assert list(defaults.load()) == cases.TYPES


@pytest.mark.parametrize("name", cases.WITHOUT_CASE)
def test_a_family_without_a_case_shares_the_builder_of_one_with(name: str) -> None:
    same, reason = cases.WITHOUT_CASE[name]
    assert reason
    assert FAMILIES[name] is FAMILIES[same]
    config = cases.base(same)
    assert rl.load({**config, "model_type": name}).parameters == rl.load(config).parameters
