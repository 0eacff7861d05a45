"""Every type of transformers is a family, a whole with one inside, or refused by what it is."""

import pytest

from roofline.model.families.refused import REFUSED
from roofline.model.families.registry import FAMILIES, WHOLES
from roofline.model.families.wholes import SAME, WRAPPERS

pytestmark = pytest.mark.oracle


def test_every_type_of_transformers_is_placed() -> None:
    import roofline.model.families.beyond  # noqa: F401 - its families enter the registry

    configuration = pytest.importorskip("transformers.models.auto.configuration_auto")
    placed = {*FAMILIES, *WHOLES, *SAME, *WRAPPERS, *REFUSED}
    assert [name for name in configuration.CONFIG_MAPPING_NAMES if name not in placed] == []


def test_nothing_is_refused_that_transformers_does_not_have() -> None:
    configuration = pytest.importorskip("transformers.models.auto.configuration_auto")
    assert sorted({*REFUSED} - {*configuration.CONFIG_MAPPING_NAMES}) == []
