"""A machine of several chips is used whole, and a batch is that of all its replicas."""

from __future__ import annotations

from typing import Any

import pytest

import roofline as rl
from folded import folded
from roofline.hardware.chip import chips
from roofline.hardware.chip_files import plain_name
from roofline.hardware.cluster import cluster_named, clusters
from roofline.inference.deployment import deploy, inference_layouts, training_layouts

SMALL, LARGE, LARGEST = "meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-70B", "meta-llama/Llama-3.1-405B"
LATENT = "deepseek-ai/DeepSeek-V3"


@folded(
    ("name", "on", "layout"),
    [
        (SMALL, "h100-sxm", "one chip"),
        (SMALL, "8xh100-sxm", "tp=8"),
        (SMALL, "4xh100-sxm", "tp=4"),
        (SMALL, "2xdgx-h100", "tp=8, dp=2"),
        (SMALL, "8xmi300x", "tp=8"),
        (SMALL, "8xl40s", "tp=8"),
        (SMALL, "4xtpu-v5e", "tp=4"),
        ("google/gemma-3-1b-it", "8xh100-sxm", "tp=4, dp=2"),  # 4 heads
        ("Qwen/Qwen2.5-7B", "8xh100-sxm", "tp=4, dp=2"),  # 28 heads
        ("openai-community/gpt2", "8xh100-sxm", "tp=4, dp=2"),  # 12 heads
        (LATENT, "2xdgx-h200", "tp=8, dp=2"),  # 671 GB on 1,128 of a node
        ("moonshotai/Kimi-K2-Instruct", "2xdgx-h100", "tp=8, pp=2"),  # 1,029 GB on 640
        (LARGEST, "4xdgx-h100", "tp=8, pp=2, dp=2"),  # 812 GB on 1,280 of two nodes
        (LARGE, "8xl4", "tp=8"),  # 141 GB on 192
    ],
    drawn=7,
)
def test_inference_takes_tensor_parallelism_in_a_node_then_replicas_else_stages(
    name: str, on: str, layout: str
) -> None:
    for e in (
        rl.estimate(name, rl.decode(16, 256), on=on), rl.generate(name, batch=16, input=200, output=2, on=on),
        rl.serve(name, concurrency=16, input=200, output=22, on=on), rl.fit(name, batch=16, context=256, on=on),
    ):  # fmt: skip
        assert e.deployment.text == layout
        assert e.deployment.chips == cluster_named(on).chips
        assert e.deployment.chosen == (layout != "one chip")
        assert e.fits
    given = rl.fit(name, batch=16, context=256, on=on, layout=e.deployment.layout)
    assert not given.deployment.chosen
    assert given.memory == e.memory


def test_what_no_layout_holds_is_timed_under_the_last() -> None:
    f = rl.fit(LARGEST, on="8xl4", batch=1, context=100)
    assert (f.deployment.text, f.fits) == ("tp=8", False)
    far = rl.estimate(LARGEST, rl.decode(1, 99), on="2xdgx-a100")
    assert (far.deployment.text, far.fits) == ("tp=8, pp=2", True)
    assert rl.estimate(LARGEST, rl.decode(1, 99), on="8xl4").time > 0


@folded(
    ("name", "on", "batch", "layout"),
    [
        (SMALL, "8xh100-sxm", 8, "tp=2, dp=4, zero=1, sp"),
        (SMALL, "2xdgx-h100", 16, "tp=2, pp=2, dp=4, vp=16, zero=1, sp"),
        (LARGE, "4xdgx-h100", 16, "tp=4, pp=4, dp=2, vp=20, zero=1, sp"),
        (LARGEST, "16xdgx-h100", 16, "tp=8, pp=16, vp=8, sp"),
    ],
)
def test_training_takes_the_fastest_layout_that_fits(name: str, on: str, batch: int, layout: str) -> None:
    """The first of a search over the same micro-batches, as fast as `train` says of it by itself."""
    e = rl.train(name, batch=batch, tokens=1024, on=on)
    assert e.deployment.text == layout
    assert (e.fits, e.deployment.chosen, e.deployment.chips) == (True, True, cluster_named(on).chips)
    every = rl.search_training(name, batch=batch, tokens=1024, on=on, top=10**6).plans
    best = next(plan for plan in every if plan.micro_batch == 1)
    assert best.seconds == pytest.approx(float(e.time), rel=1e-12)
    alone = rl.train(
        name,
        batch=batch,
        tokens=1024,
        on=on,
        layout=e.deployment.layout,
        recompute=e.recompute,
        schedule=e.schedule,
    )
    assert (alone.time, alone.fits, alone.deployment.chosen) == (e.time, True, False)


def test_a_long_context_without_a_layout_is_divided_and_fits() -> None:
    """275 GB a chip without context parallelism."""
    e = rl.train("meta-llama/Llama-3.1-70B", batch=64, tokens=32768, on="64xh100-sxm")
    assert (e.fits, e.deployment.text) == (True, "dp=4, cp=16, zero=3")


def test_training_that_fits_nowhere_divides_the_batch_at_least() -> None:
    e = rl.train(LARGEST, batch=6, tokens=1024, on="2xdgx-h100")
    assert not e.fits
    assert e.deployment.chips == 16
    assert 6 % e.deployment.layout.dp == 0


@folded("name", [SMALL, LATENT, "google/gemma-3-1b-it"])
@folded("on", ["8xh100-sxm", "4xdgx-h100", "gb200-nvl72", "16xmi300x", "8xrtx-4090"])
def test_every_layout_of_a_whole_machine_takes_all_its_chips(name: str, on: str) -> None:
    try:
        cluster = cluster_named(on)
    except rl.InputError:  # no preset joins so many
        return
    model = rl.load(name)
    for layouts in (inference_layouts(model, cluster), training_layouts(model, cluster)):
        numbers = {layout.chips for layout in layouts}
        assert numbers == {cluster.chips}


# -- machines ------------------------------------------------------------------------------------------------------
def test_names_of_clusters_and_of_chips_never_coincide() -> None:
    of_chips = {plain_name(n) for c in chips().values() for n in (c.id, c.name, *c.aliases)}
    of_clusters = {plain_name(n) for c in clusters().values() for n in (c.name, *c.aliases)}
    assert not of_chips & of_clusters


@pytest.mark.parametrize("count", [2, 4, 8])
def test_so_many_chips_are_so_many(count: int) -> None:
    """Whatever preset they would be a part of."""
    known = 0
    for id in chips():
        try:
            cluster = cluster_named(f"{count}x{id}")
        except rl.InputError:  # nothing joins two of them
            continue
        assert (cluster.chips, cluster.chip) == (count, id)
        known += 1
    assert known > 40


@pytest.mark.parametrize(("on", "layout"), [("8xh100-sxm", "tp=8,dp=2"), ("4xmi300x", "tp=8"), ("2xdgx-h100", "dp=17")])
def test_a_layout_of_more_chips_than_there_are_is_an_input_error(on: str, layout: str) -> None:
    for run in (
        lambda: rl.estimate(SMALL, rl.decode(17, 9), on=on, layout=layout),
        lambda: rl.fit(SMALL, on=on, layout=layout),
        lambda: rl.train(SMALL, batch=34, tokens=128, on=on, layout=layout),
        lambda: deploy(on, layout),
    ):
        with pytest.raises(rl.InputError, match=f"at most the {cluster_named(on).chips} chips") as error:
            run()
        assert error.value.field == "layout"


# -- a batch -------------------------------------------------------------------------------------------------------
def test_a_batch_below_the_replicas_leaves_some_idle() -> None:
    given: dict[str, Any] = {"on": "2xdgx-h100", "layout": "tp=4,dp=4"}
    alone = rl.generate(SMALL, batch=1, input=100, output=4, on="2xdgx-h100", layout="tp=4")
    g = rl.generate(SMALL, batch=3, input=100, output=4, **given)
    assert (g.batch_per_replica, g.idle_replicas) == (1, 1)
    assert g.latency == alone.latency
    assert g.tokens_per_second == pytest.approx(3 * 4 / alone.latency.expected)
    assert g.tokens_per_second_per_chip == g.tokens_per_second / 16
    s = rl.serve(SMALL, concurrency=5, input=100, output=24, **given)
    assert (s.in_flight_per_replica, s.idle_replicas) == (2, 3)


@pytest.mark.parametrize(
    ("batch", "options", "near"),
    [(7, {"layout": "dp=4"}, ("4", "8")), (2, {"layout": "dp=4"}, ("4",)),
     (12, {"layout": "dp=2", "micro_batch": 4}, ("8", "16"))],
)  # fmt: skip
def test_a_training_batch_that_does_not_divide_names_the_nearest_that_do(
    batch: int, options: dict[str, Any], near: tuple[str, ...]
) -> None:
    with pytest.raises(rl.InputError) as error:
        rl.train(SMALL, batch=batch, tokens=128, on="8xh100-sxm", **options)
    assert (error.value.field, tuple(error.value.nearest)) == ("batch", near)
