"""Properties that hold for every architecture, step and convention."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import roofline as rl
from folded import by_day, folded
from roofline.declared.errors import InputError
from roofline.work.counting import COUNTINGS
from roofline.work.traffic import TRAFFICS

EACH = settings(max_examples=by_day(6, 15), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
LATENT = ("attention_kv_b", "attention", "attention_absorbed", "attention_q_absorb", "attention_v_absorb")
batches, tokens, contexts = st.integers(1, 40), st.integers(1, 70), st.integers(0, 90)


def cost(model: rl.Model, step: rl.Step, **conventions: Any) -> rl.Analysis:
    return rl.analyze(model, step, **conventions)


@folded("counting", COUNTINGS)
@folded("traffic", TRAFFICS)
def test_arrays_equal_a_loop_of_scalars(model: rl.Model, counting: str, traffic: str) -> None:
    batch, context, new = np.array([[1], [3], [17]]), np.array([0, 5, 40, 129]), 7
    step = rl.Step([(context, new, batch)])
    sweep = cost(model, step, counting=counting, traffic=traffic)
    for i, b in list(enumerate([1, 3, 17]))[:: by_day(2, every=1)]:
        for j, c in list(enumerate([0, 5, 40, 129]))[:: by_day(3, every=1)]:
            one = cost(model, rl.Step([(c, new, b)]), counting=counting, traffic=traffic)
            assert sweep.flops[i, j] == one.flops
            assert sweep.bytes[i, j] == pytest.approx(one.bytes, rel=1e-12)
            assert sweep.intensity[i, j] == pytest.approx(one.intensity, rel=1e-12)
    assert sweep.flops.shape == sweep.bytes.shape == sweep.intensity.shape == (3, 4)
    assert all(row.flops.shape == row.bytes.shape == (3, 4) for row in sweep.ops)


def test_array_latent_attention_chooses_its_form_for_each_element() -> None:
    model = rl.load("deepseek-ai/DeepSeek-V3")
    new = np.array([1, 64, 128, 256, 1024])
    sweep = rl.analyze(model, rl.Step([(4096, new)]))
    assert sweep.flops.tolist() == [rl.analyze(model, rl.Step([(4096, int(n))])).flops for n in new]


@EACH
@given(batch=batches, new=tokens, cached=contexts, data=st.data())
def test_flops_bytes_and_cache_grow_with_batch_and_length(
    model: rl.Model, batch: int, new: int, cached: int, data: st.DataObject
) -> None:
    traffic = data.draw(st.sampled_from(["fused", "unfused", "floor"]))
    here = cost(model, rl.Step([(cached, new, batch)]), traffic=traffic)
    for more in ((cached, new, batch + 1), (cached, new + 1, batch)):
        there = cost(model, rl.Step([more]), traffic=traffic)
        assert there.flops >= here.flops
        assert there.bytes >= here.bytes * (1 - 1e-12)
    assert model.kv_bytes(cached + 1) >= model.kv_bytes(cached)


@EACH
@given(batch=batches, new=tokens, cached=contexts)
def test_floor_fused_unfused_in_that_order_for_every_op(model: rl.Model, batch: int, new: int, cached: int) -> None:
    step = rl.Step([(cached, new, batch)])
    floor, fused, unfused = (cost(model, step, traffic=t) for t in ("floor", "fused", "unfused"))
    assert floor.bytes <= fused.bytes <= unfused.bytes
    for a, b, c in zip(floor.ops, fused.ops, unfused.ops, strict=True):
        assert a.bytes <= b.bytes <= c.bytes


@EACH
@given(parts=st.lists(tokens, min_size=1, max_size=4), cached=contexts)
def test_chunked_prefill_sums_to_the_whole(model: rl.Model, parts: list[int], cached: int) -> None:
    """Everything but the head, which a chunk before the last does not need, and the form of latent attention."""

    def layers(step: rl.Step) -> int:
        return sum(
            row.flops for row in cost(model, step).ops
            if row.name != "lm_head" and not (row.name in LATENT and model.model_type == "deepseek_v3")
        )  # fmt: skip

    total, held = 0, cached
    for part in parts:
        total += layers(rl.Step([(held, part)]))
        held += part
    assert total == layers(rl.Step([(cached, sum(parts))]))


def test_latent_attention_is_never_dearer_than_either_form() -> None:
    from roofline.model.modules import LatentAttention
    from roofline.work.counting import STANDARD
    from roofline.work.lower import latent_forms, lower

    a = LatentAttention(name="attention", heads=128, rank=512, nope=128, rope=64, v=128)
    for cached in (0, 100, 4096, 100_000):
        for new in (1, 16, 100, 170, 171, 300, 2048):
            step = rl.Step([(cached, new)])
            both = list(latent_forms(a, step))
            expanded = sum(STANDARD.flops(op) for op in both[:2])
            absorbed = sum(STANDARD.flops(op) for op in both[2:])
            assert sum(STANDARD.flops(op) for op in lower(a, step)) == min(expanded, absorbed)


@EACH
@given(queries=st.lists(st.tuples(contexts, tokens), min_size=1, max_size=4))
def test_a_mixed_batch_is_the_sum_of_its_parts_but_reads_weights_once(
    model: rl.Model, queries: list[tuple[int, int]]
) -> None:
    mixed = cost(model, rl.Step(queries))
    apart = [cost(model, rl.Step([q])) for q in queries]
    assert mixed.flops == sum(a.flops for a in apart)
    assert mixed.moved.cache == sum(a.moved.cache for a in apart)
    assert mixed.moved.activations == sum(a.moved.activations for a in apart)
    assert mixed.moved.weights <= sum(a.moved.weights for a in apart) * (1 + 1e-12)


def test_the_total_is_the_sum_of_the_ops(model: rl.Model) -> None:
    a = cost(model, rl.prefill(batch=2, tokens=33))
    assert sum(row.flops for row in a.ops) == a.flops
    assert sum(row.bytes for row in a.ops) == pytest.approx(a.bytes, rel=1e-12)
    assert a.moved.total == pytest.approx(a.bytes, rel=1e-12)
    assert sum(n * m.parameters for m, n in model.modules()) == model.parameters


def test_symbols_give_the_same_figures(model: rl.Model) -> None:
    """Every op explained: the formula with its numbers put in equals the figure."""
    import sympy

    from roofline.work.explain import explained

    few = by_day(2, every=1)  # by day each way of counting is of one of both steps
    for start, step in enumerate((rl.prefill(batch=2, tokens=48), rl.decode(batch=3, context=40))):
        for counting in list(COUNTINGS)[start % few :: few]:
            analysis = cost(model, step, counting=counting)
            for row in analysis.ops:
                explanation = explained(analysis, row.name)
                for figure in explanation.figures:
                    values = dict(explanation.symbols)
                    if isinstance(figure.formula, sympy.Basic):
                        names = {s: values[str(s)] for s in figure.formula.free_symbols}
                        assert float(figure.formula.subs(names)) == pytest.approx(float(figure.value), rel=1e-9)
                    else:
                        assert figure.formula == figure.value


def test_sweeps_beyond_64_bits_stay_right() -> None:
    model = rl.load("meta-llama/Llama-3.1-405B")
    step = rl.prefill(batch=10**6, tokens=np.array([2**20]))
    assert rl.analyze(model, step).flops[0] == pytest.approx(
        rl.analyze(model, rl.prefill(batch=10**6, tokens=2**20)).flops, rel=1e-12
    )


def test_scalars_are_exact_ints_at_any_size() -> None:
    model = rl.load("meta-llama/Llama-3.1-405B")
    flops = rl.analyze(model, rl.prefill(batch=10**6, tokens=2**20)).flops
    assert isinstance(flops, int)
    assert flops == 10**6 * rl.analyze(model, rl.prefill(batch=1, tokens=2**20)).flops


@folded(
    ("arguments", "field"),
    [
        ({"counting": "standart"}, "counting"),
        ({"traffic": "fussed"}, "traffic"),
        ({"precision": "fp9"}, "precision"),
        ({"precision": "wieghts=int4"}, "precision"),
        ({"precision": "weights=int5"}, "weights"),
        ({"precision": {"kv": 8}}, "kv"),
    ],
)
def test_bad_conventions_name_the_field_and_the_nearest(arguments: dict[str, Any], field: str) -> None:
    model = rl.load("openai-community/gpt2")
    with pytest.raises(InputError) as error:
        rl.analyze(model, rl.decode(batch=1, context=1), **arguments)
    assert error.value.field == field
    assert error.value.nearest


def test_factors_multiply_bytes_by_role_and_say_where_they_break_the_floor() -> None:
    model = rl.load("deepseek-ai/DeepSeek-V3")
    step = rl.prefill(8, 255)
    plain = rl.analyze(model, step, traffic="unfused").moved
    factored = rl.analyze(model, step, traffic="unfused(weights=0.25,activations=0.5,scratch=0.7,cache=2)").moved
    assert factored.weights == pytest.approx(plain.weights / 4)
    assert factored.input + factored.output == pytest.approx((plain.input + plain.output) / 2)
    assert factored.cache == pytest.approx(2 * plain.cache)
    assert factored.scratch == pytest.approx(0.7 * plain.scratch)
    less = rl.analyze(model, rl.decode(8, 255), traffic="fused(weights=0.5)")
    least = rl.analyze(model, rl.decode(8, 255), traffic="floor").bytes
    assert less.below_floor == pytest.approx(less.bytes / least)
    assert rl.analyze(model, step, traffic="fused(weights=2)").below_floor is None
    assert rl.analyze(model, step, traffic="llm-para").below_floor is None


def test_factors_of_one_stay_exact_and_arrays_say_where() -> None:
    model = rl.load("meta-llama/Llama-3.1-8B")
    step = rl.decode(batch=3, context=100)
    assert rl.analyze(model, step, traffic="fused(cache=1)").bytes == rl.analyze(model, step).bytes
    many = rl.analyze(model, rl.decode(batch=np.array([1, 4096]), context=100), traffic="fused(weights=0.9)")
    share = many.below_floor
    assert share is not None
    assert share[0] < 1 < share[1]
