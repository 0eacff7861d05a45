"""An encoder pool before a server: the sum of its parts at a low load, the least of these at saturation.

The hand's side has the encoder's pass alone (`encode --tower`), embeddings by tokens × width × bytes, links by their
bandwidth, and a queue played out request by request.
"""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import roofline as rl
from roofline.declared.groups import EncoderReplicas, Where
from roofline.serving.encoders import Encoders, encoders_of
from roofline.serving.simulate.checkpoint import Ledger
from roofline.serving.simulate.recorder import Row

VISION = "Qwen/Qwen3-VL-8B-Instruct"
IMAGES: dict[str, Any] = {"images": 2, "image_size": "1024x768"}
SIZES: dict[str, Any] = {"input": 128, "output_tokens": 128, "input_cv": 0.0, "output_cv": 0.0}
LENGTHS: dict[str, Any] = {"input": 128, "output_tokens": 128}
"""With the usual spread: users whose requests are all alike fall into a rhythm without any wait."""
SLOW: dict[str, Any] = {
    "encoders": 1,
    "encoder_on": "l4",
    "encoder_bandwidth": 10e9,
    "on": "8xh100-sxm",
    "layout": "dp=8",
}
"""Eight fast chips behind one slow encoder."""


@pytest.fixture(scope="module")
def model() -> rl.Model:
    return rl.load(VISION)


def front_of(model: rl.Model, on: str = "h100-sxm", **pool: Any) -> Encoders:
    images = rl.Images(2, 1024, 768)
    behind, front = encoders_of(model, Where(on=on), images, EncoderReplicas(**pool), None)
    assert front is not None
    assert behind == model.language()
    return front


def test_embeddings_are_one_for_each_token_and_layer_of_deepstack(model: rl.Model) -> None:
    tokens = 2 * (1024 // 32) * (768 // 32) + 2 * 2  # patches of 16 merged 2 × 2; beginning and end of each image
    front = front_of(model, encoders=1)
    assert front.images.tokens == tokens
    assert front.embeddings == tokens * 4096 * (1 + 3) * 2
    plain = rl.load("Qwen/Qwen3.5-9B")
    images = rl.Images(1, 1024, 768)
    _, front = encoders_of(plain, Where(on="h100-sxm"), images, EncoderReplicas(encoders=1), None)  # type: ignore[assignment]
    assert front.embeddings == front.images.tokens * 4096 * 2


def test_a_lone_request_takes_encoding_transfer_and_prefill(model: rl.Model) -> None:
    text = rl.load(VISION, text_only=True)
    tokens = rl.Images(2, 1024, 768)
    alone = rl.serve(text, on="h100-sxm", rate=1e-4, **SIZES | {"input": 128 + model.seen(tokens).tokens})  # type: ignore[union-attr]
    tower = rl.encode(model.alone("images"), on="h100-sxm", batch=1, engine="vllm")
    with_it = rl.serve(model, on="h100-sxm", rate=1e-4, encoders=1, **SIZES, **IMAGES)
    pool = with_it.encoder
    assert pool is not None
    assert with_it.ttft.expected - alone.ttft.expected == pytest.approx(
        pool.encode.expected + pool.transfer.expected, rel=1e-4
    )
    assert tower.latency.expected > 0
    link = 50e9  # bytes per second of an H100's network of 400 Gbit/s
    assert pool.transfer.floor == pytest.approx(pool.embeddings / link, rel=0.01)
    apart = rl.pools(
        model, on="h100-sxm", prefill_layout="tp=1", prefills=1, decodes=1, rate=1e-4, encoders=1, **SIZES, **IMAGES
    )
    both = rl.pools(
        text, on="h100-sxm", prefill_layout="tp=1", prefills=1, decodes=1, rate=1e-4,
        **SIZES | {"input": alone.input},
    )  # fmt: skip
    added = pool.encode.expected + pool.transfer.expected
    assert apart.ttft.expected - both.ttft.expected == pytest.approx(added, rel=1e-4)


def test_at_saturation_the_slowest_of_the_three_decides(model: rl.Model) -> None:
    slow = rl.serve(model, concurrency=256, **SLOW, **SIZES, **IMAGES)
    assert slow.encoder is not None
    assert slow.requests_per_second == pytest.approx(1 / slow.encoder.encode.expected, rel=1e-3)
    fast = rl.serve(model, concurrency=256, **SLOW | {"encoders": 64}, **SIZES, **IMAGES)
    text = rl.load(VISION, text_only=True)
    alone = rl.serve(text, on="8xh100-sxm", layout="dp=8", concurrency=256, **SIZES | {"input": fast.input})
    assert fast.requests_per_second == pytest.approx(alone.requests_per_second, rel=0.05)
    assert fast.requests_per_second > 2 * slow.requests_per_second
    sizes = {"prefill_layout": "tp=1", "prefills": 1, "decodes": 1, "concurrency": 512, "on": "h100-sxm"}
    for encoders, chip in ((1, "l4"), (64, "l4")):
        p = rl.pools(model, encoders=encoders, encoder_on=chip, encoder_bandwidth=10e9, **sizes, **SIZES, **IMAGES)
        assert p.encoder is not None
        least = min(
            p.encoder.requests_per_second, p.prefill_requests_per_second, p.transfer_requests_per_second,
            p.decode_requests_per_second,
        )  # fmt: skip
        assert p.requests_per_second == pytest.approx(least, rel=0.02)
        assert p.bottleneck == ("encoder" if encoders == 1 else p.bottleneck)


@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("load", [0.3, 0.8])
def test_the_wait_is_that_of_a_queue_played_out(model: rl.Model, groups: int, load: float) -> None:
    front = front_of(model, encoders=groups)
    rate = load * front.fastest
    rng, time, free, waited, number = random.Random(1), 0.0, [0.0] * groups, 0.0, 200_000
    for i in range(number):
        time += rng.expovariate(rate)
        begun = max(time, free[i % groups])
        waited += begun - time
        free[i % groups] = begun + float(front.seconds.expected)
    share = 0.02 if groups == 1 else 0.12  # exact, and an approximation of queues with even gaps
    assert front.at(rate).wait == pytest.approx(waited / number, rel=share, abs=2e-4)


def test_a_slow_link_is_waited_for_like_a_slow_encoder(model: rl.Model) -> None:
    front = front_of(model, encoders=1)
    thin = replace(front, transfer=front.seconds.times(3.0))
    assert thin.fastest == pytest.approx(front.fastest / 3)
    assert thin.at(0.5 * thin.fastest).wait == pytest.approx(3 * front.at(0.5 * front.fastest).wait)


@pytest.mark.drawn(2)
@pytest.mark.parametrize("load", [{"rate": 2.0}, {"concurrency": 4}, {"concurrency": 64}, {"concurrency": 1}])
def test_the_simulation_agrees(model: rl.Model, load: dict[str, Any]) -> None:
    asked = {**SLOW, **load, **IMAGES, "images": 4}
    asked["encoder_on"] = "l40s"
    formula = rl.serve(model, **asked, **LENGTHS)
    run = rl.simulate(model, **asked, **LENGTHS, requests=1500)
    assert run.encoder is not None
    assert formula.encoder is not None
    assert run.requests_per_second == pytest.approx(formula.requests_per_second, rel=0.05)
    assert run.ttft.mean == pytest.approx(formula.ttft.expected, rel=0.1)
    assert run.ttft.p90 == pytest.approx(formula.percentiles.ttft.p90, rel=0.3)  # few users vary less
    assert run.encoder.wait == pytest.approx(formula.encoder.wait, rel=0.25, abs=2e-3)


def test_two_pools_are_simulated_behind_it(model: rl.Model) -> None:
    asked: dict[str, Any] = {"on": "h100-sxm", "prefill_layout": "tp=1", "encoders": 1, **SIZES, **IMAGES}
    for load in ({"rate": 0.05}, {"concurrency": 8}):
        run = rl.simulate(model, **asked, **load, requests=600)
        formula = rl.pools(model, prefills=1, decodes=1, **asked, **load)
        assert run.ttft.mean == pytest.approx(formula.ttft.expected, rel=0.12)
        assert run.requests_per_second == pytest.approx(formula.requests_per_second, rel=0.12)


class Killed(Exception):  # noqa: N818
    """A simulation was killed after a checkpoint."""


class Rows(Ledger):
    """Rows of a simulation, which is killed at a number of them, or goes on from a checkpoint."""

    def __init__(self, state: Any = None, killed: float = float("inf")) -> None:
        self.rows: list[Row] = []
        self.state, self.killed = state, killed

    def __call__(self, row: Row) -> None:
        self.rows.append(row)

    def begin(self, fingerprint: str) -> Any:
        return self.state

    def due(self, rows: int) -> bool:
        return rows >= self.killed

    def save(self, state: Any) -> None:
        self.state = json.loads(json.dumps(state))
        raise Killed


@pytest.mark.drawn(1)
@pytest.mark.parametrize("load", [{"concurrency": 12}, {"rate": 4.0}, {"concurrency": 12, "prefill_layout": "tp=1"}])
def test_a_killed_simulation_goes_on_with_the_queue_as_it_was(model: rl.Model, load: dict[str, Any]) -> None:
    asked = {"on": "h100-sxm", "encoders": 2, "encoder_on": "l40s", "requests": 300, **LENGTHS, **IMAGES, **load}
    whole, first = Rows(), Rows(killed=120)
    uninterrupted = rl.simulate(model, **asked, written=whole)
    with pytest.raises(Killed):
        rl.simulate(model, **asked, written=first)
    second = Rows(first.state)
    resumed = rl.simulate(model, **asked, written=second)
    assert [*first.rows, *second.rows] == whole.rows
    assert resumed.encoder is not None
    assert uninterrupted.encoder is not None
    assert resumed.encoder.wait == uninterrupted.encoder.wait


def test_requests_in_the_pool_and_behind_it_are_those_of_little_s_law(model: rl.Model) -> None:
    for users in (1, 16, 200):
        s = rl.serve(model, concurrency=users, **SLOW, **SIZES, **IMAGES)
        assert s.encoder is not None
        whole = s.requests_per_second * s.latency.expected
        assert whole == pytest.approx(users, rel=0.05)
        assert s.encoder.in_flight + s.encoder.behind == pytest.approx(users, rel=1e-6)


def test_many_points_at_once_are_the_single_points(model: rl.Model) -> None:
    users = np.array([1, 7, 40])
    many = rl.serve(model, concurrency=users, on="h100-sxm", encoders=2, **SIZES, **IMAGES)
    assert many.encoder is not None
    for i, number in enumerate(users.tolist()):
        one = rl.serve(model, concurrency=number, on="h100-sxm", encoders=2, **SIZES, **IMAGES)
        assert many.ttft.expected[i] == pytest.approx(one.ttft.expected)
        assert many.requests_per_second[i] == pytest.approx(one.requests_per_second)


def test_its_chips_are_paid_for_and_the_server_has_no_tower(model: rl.Model) -> None:
    s = rl.serve(model, on="h100-sxm", rate=2.0, encoders=2, encoder_on="l40s", price="3", **SIZES, **IMAGES)
    assert s.usd_per_hour == pytest.approx(9.0)
    assert s.tokens_per_second_per_chip == pytest.approx(s.tokens_per_second / 3)
    assert s.encoder is not None
    towers = model.parameters - rl.load(VISION, text_only=True).parameters
    assert s.encoder.memory.weights == 2 * towers
    assert s.memory.weights == 2 * (model.parameters - towers)
    assert s.encoder.deployment.chip.id == "l40s"
    assert s.to_dict()["encoder"]["replicas"] == 2
    columns = s.columns()
    assert columns["encoder_wait"] == [s.encoder.wait]
    assert columns["encoder_encode_floor"] == [s.encoder.encode.floor]
    assert columns["fits"] == [True]


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"encoders": 1}, "encoders"),
        ({"encoder_on": "l4", **IMAGES}, "encoder_on"),
        ({"encoder_layout": "tp=1", **IMAGES}, "encoder_layout"),
        ({"encoder_bandwidth": 1e9, **IMAGES}, "encoder_bandwidth"),
        ({"encoders": 1, "encoder_bandwidth": 0, **IMAGES}, "encoder_bandwidth"),
        ({"encoders": 1, "encoder_on": "l4", **IMAGES}, "encoder_on"),
        ({"encoders": 0, **IMAGES}, "encoders"),
        ({"encoders": 1, "encoder_layout": "pp=2", **IMAGES}, "layout.pp"),
        ({"encoders": 1, "formula": False, **IMAGES}, "formula"),
        ({"encoders": 1, "rate": 1e4, **IMAGES}, "rate"),
    ],
)
def test_what_cannot_be_is_refused_by_its_name(model: rl.Model, settings: dict[str, Any], field: str) -> None:
    with pytest.raises(rl.InputError) as error:
        rl.serve(model, on="h100-sxm", **{"rate": 1.0, **settings}, **SIZES)
    assert error.value.field == field


def test_a_model_without_towers_has_no_encoder_pool() -> None:
    with pytest.raises(rl.InputError, match="a model with a tower"):
        rl.serve("Qwen/Qwen2.5-0.5B", on="h100-sxm", rate=1.0, encoders=1, **SIZES, **IMAGES)


def test_recordings_are_encoded_there_too() -> None:
    text = {"model_type": "qwen2", "hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 2,
            "num_attention_heads": 8, "num_key_value_heads": 8, "vocab_size": 1000}  # fmt: skip
    heard = rl.load(
        {
            "model_type": "qwen2_audio",
            "text_config": text,
            "audio_config": {"model_type": "qwen2_audio_encoder"},
            "dtype": "bfloat16",
        }
    )
    s = rl.serve(heard, on="h100-sxm", rate=0.01, encoders=1, audio=30.0, **SIZES)
    assert s.encoder is not None
    assert s.encoder.embeddings == (750 + 2) * heard.hidden * 2  # beginning and end are tokens too
