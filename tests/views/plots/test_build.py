"""What the pictures show, as data: exact values from the library."""

from __future__ import annotations

from typing import Any

import pytest

import roofline as rl
from folded import folded
from roofline.hardware.cluster import cluster_named
from roofline.model import modules as m
from roofline.model.summary import in_words
from roofline.views.plots import data as d
from roofline.whatif.markers import points

LLAMA = rl.load("meta-llama/Llama-3.1-8B")
V3 = rl.load("deepseek-ai/DeepSeek-V3")
STEPS = {"prefill": rl.prefill(batch=1, tokens=2048), "decode": rl.decode(batch=8, context=2048)}


def drawn(model: rl.Model, **options: Any) -> Any:
    return rl.plot(model, options.pop("steps", STEPS), **options)


def test_roofs_have_the_formats_in_use_and_their_ridges() -> None:
    plot = drawn(V3, on=["h200-sxm", "b200"])
    h200, b200 = (p.roof for p in plot.panels)
    assert [c.label for c in h200.ceilings] == ["fp8", "bf16"]
    chip = rl.chips()["h200-sxm"]
    assert [(c.peak, c.ridge) for c in h200.ceilings] == [(chip.peak(f), chip.ridge(f)) for f in ("fp8", "bf16")]
    assert h200.slopes == (d.Slope("HBM3e", 4.8e12),)
    assert b200.ceilings[0].peak == rl.chips()["b200"].peak("fp8")


def test_links_are_slopes_where_asked() -> None:
    (panel,) = drawn(LLAMA, on="h100-sxm", links=True).panels
    assert [(s.bandwidth, s.link) for s in panel.roof.slopes] == [(3.35e12, False), (450e9, True), (64e9, True)]


def test_vector_units_have_a_ceiling_where_their_work_is_drawn() -> None:
    (fused,) = drawn(LLAMA, on="h100-sxm").panels
    (unfused,) = drawn(LLAMA, on="h100-sxm", traffic="unfused").panels
    assert [c.vector for c in fused.roof.ceilings] == [False]
    assert [(c.label, c.vector) for c in unfused.roof.ceilings] == [("bf16", False), ("bf16 vector", True)]


def test_pictures_of_several_chips_say_how_many() -> None:
    many = {"on": ["l40s", "h100-sxm"], "layout": "tp=2,pp=4"}
    l40s, h100 = "8 × NVIDIA L40S (tp=2, pp=4)", "8 × NVIDIA H100 SXM5 80GB (tp=2, pp=4)"
    assert [p.roof.chip for p in drawn(LLAMA, **many).panels] == [f"one of {l40s}", f"one of {h100}"]
    assert [c.chip for c in drawn(LLAMA, **many, kind="sweep", most_batch=2).curves] == [l40s, h100]
    memory = drawn(LLAMA, **many, kind="memory", most_context=512)
    assert [c.chip for c in memory.capacities] == [f"the fullest of {l40s}", f"the fullest of {h100}"]
    times = {b.quantity for b in drawn(LLAMA, **many, kind="shares").bars if b.quantity.startswith("time")}
    assert times == {f"time, {l40s}", f"time, {h100}"}
    one = {**many, "on": "l40s"}
    assert drawn(LLAMA, **one, kind="map", most_batch=1, most_context=256).title.endswith(f" · {l40s}")
    assert drawn(LLAMA, **one).title.endswith(f" · one of {l40s}")
    assert drawn(LLAMA, on="l40s").title.endswith(" · NVIDIA L40S")


def test_clusters_of_the_same_chips_are_told_apart() -> None:
    wide, narrow = cluster_named("8xh100-sxm"), cluster_named("4xh100-sxm")
    plot = drawn(LLAMA, on=[wide, narrow], layout="tp=2", points="phases")
    said = "one of 2 × NVIDIA H100 SXM5 80GB (tp=2)"
    assert [p.roof.chip for p in plot.panels] == [f"{said}, {c.name}" for c in (wide, narrow)]


@pytest.mark.parametrize("by", ["ops", "layers", "phases"])
def test_points_are_the_points(by: Any) -> None:
    plot = drawn(LLAMA, on=["h100-sxm", "a100-sxm-80gb"], points=by)
    for panel, chip in zip(plot.panels, ("h100-sxm", "a100-sxm-80gb"), strict=True):
        expected = [
            (name, x.intensity, x.performance, x.light, x.share)
            for name, step in STEPS.items()
            for x in points(rl.estimate(LLAMA, step, on=chip), by)
        ]
        assert [(p.phase, p.intensity, p.performance, p.light, p.share) for p in panel.points] == expected


def test_the_note_says_what_is_not_drawn() -> None:
    note = drawn(LLAMA, on="h100-sxm").note
    assert "prefill 1 × (0 cached, 2048 new); decode 8 × (2048 cached, 1 new)" in note
    e = rl.estimate(LLAMA, STEPS["decode"], on="h100-sxm")
    assert f"{100 * (1 - sum(x.share for x in points(e))):.1f} % of decode" in note


def test_shares_by_quantity_and_phase() -> None:
    plot = drawn(LLAMA, on="h100-sxm", kind="shares")
    time = "time, NVIDIA H100 SXM5 80GB"
    assert [(b.phase, b.quantity) for b in plot.bars] == [
        (phase, quantity) for phase in STEPS for quantity in ("FLOPs", "bytes", time)
    ]
    a = rl.analyze(LLAMA, STEPS["decode"])
    flops = dict(plot.bars[3].parts)
    assert flops["attention"] == a.op("attention").flops / a.flops
    assert all(sum(v for _, v in b.parts) == pytest.approx(1) for b in plot.bars)
    assert [b.quantity for b in drawn(LLAMA, kind="shares").bars] == ["FLOPs", "bytes"] * 2


def test_sweep_curves() -> None:
    (curve,) = drawn(LLAMA, on="h100-sxm", kind="sweep", context=256, most_batch=512).curves
    e = rl.estimate(LLAMA, rl.decode(batch=512, context=256), on="h100-sxm")
    assert (curve.values[0], curve.values[-1]) == (1, 512)
    assert curve.latency[-1] == pytest.approx(e.time, rel=1e-12)
    assert (curve.low[-1], curve.high[-1]) == pytest.approx(e.interval, rel=1e-12)
    assert curve.floor[-1] == pytest.approx(e.serial_floor, rel=1e-12)
    assert curve.tokens_per_second[-1] == pytest.approx(512 / e.time, rel=1e-12)
    # a product's weights, inputs and outputs cross memory
    assert [(c.at, c.label, c.floor) for c in curve.crossings] == [(336, "compute from 336", False)]


def test_memory_and_its_capacities() -> None:
    plot = drawn(LLAMA, on=["a100-sxm-40gb", "b200"], kind="memory", batch=8)
    assert [(c.chip, c.bytes) for c in plot.capacities] == [
        ("NVIDIA A100 SXM4 40GB", 40 * 2**30),
        (rl.chips()["b200"].name, rl.chips()["b200"].capacity),
    ]
    longest = rl.fit(LLAMA, on="a100-sxm-40gb", batch=8, context=131071, engine=None).longest_context
    assert [c.longest for c in plot.capacities] == [longest, None]
    assert dict(plot.terms)["weights"][0] == LLAMA.weight_bytes()
    assert drawn(V3, on="h200-sxm", kind="memory").capacities[0].longest == 0


@pytest.mark.parametrize(
    ("longest", "says"),
    [(None, "fits throughout"), (0, "does not fit"), (1, "up to 1 token"), (9000, "up to 9,000 tokens")],
)
def test_a_capacity_in_words(longest: int | None, says: str) -> None:
    assert d.Capacity("chip", 1.0, longest).says == says


def test_a_swing_in_words() -> None:
    def label(elasticity: float) -> str:
        return d.Swing("batch", "× 0.5", "× 2", 0.9, 1.2, elasticity).label

    assert [label(e) for e in (-0.128, 0.5, -0.001)] == ["batch  ε -0.13", "batch  ε +0.50", "batch  ε +0.00"]


def test_ceilings_of_one_height_are_drawn_as_one() -> None:
    mamba = rl.load("state-spaces/mamba-130m-hf")
    (panel,) = drawn(mamba, on="m3-max", precision="fp32").panels
    assert [(c.label, c.vector) for c in panel.roof.ceilings] == [("fp32", False), ("fp32 vector", True)]
    assert [(c.label, c.vector) for c in panel.roof.levels] == [("fp32, fp32 vector", False)]


def test_parameters_by_part_sum_to_the_model() -> None:
    plot = drawn(V3, kind="parameters")
    assert plot.total == V3.parameters == sum(n for _, n, _ in plot.parts)
    name, experts, share = plot.parts[0]
    assert name == "routed experts"
    assert experts == 58 * 256 * 3 * 7168 * 2048
    assert share == pytest.approx(0.97449, abs=1e-5)
    assert [n for _, n, _ in plot.parts] == sorted((n for _, n, _ in plot.parts), reverse=True)


def test_map_cells() -> None:
    plot = drawn(LLAMA, on="h100-sxm", kind="map", most_batch=4, most_context=2048)
    assert [row[0].batch for row in plot.rows] == [1, 2, 4]
    assert [c.context for c in plot.rows[0]] == [256, 512, 1024, 2048]
    e = rl.estimate(LLAMA, rl.decode(batch=4, context=1024), on="h100-sxm")
    cell = plot.rows[2][2]
    assert cell.latency == pytest.approx(e.time, rel=1e-12)
    assert cell.tokens_per_second == pytest.approx(4 / e.time, rel=1e-12)
    assert (cell.bound, cell.fits) == (e.bound, True)


def test_a_layout_draws_what_one_rank_does() -> None:
    on, layout = "8xh200-sxm", "tp=8"
    e = rl.estimate(V3, STEPS["decode"], on=on, layout=layout)
    (panel,) = drawn(V3, on=on, layout=layout, points="phases").panels
    point = next(p for p in panel.points if p.phase == "decode")
    assert point.intensity == e.analysis.intensity
    assert point.performance == pytest.approx(e.analysis.flops / e.time)
    shares = drawn(V3, on=on, layout=layout, kind="shares")
    parts = next(dict(b.parts) for b in shares.bars if b.phase == "decode" and b.quantity.startswith("time"))
    assert parts["communication"] == pytest.approx(dict(e.shares)["communication"])
    assert "tp=8" in shares.note


def test_memory_of_a_layout_is_that_of_the_fullest_rank() -> None:
    plot = drawn(V3, on="8xh200-sxm", layout="tp=8", kind="memory", batch=16)
    fit = rl.fit(V3, on="8xh200-sxm", layout="tp=8", batch=16, context=plot.context[-1], engine=None)
    assert sum(values[-1] for _, values in plot.terms) == pytest.approx(fit.memory.total)
    assert plot.capacities[0].longest == fit.longest_context


def test_the_map_of_a_layout() -> None:
    plot = drawn(LLAMA, on="8xh100-sxm", layout="tp=4,dp=2", kind="map", most_batch=4, most_context=512)
    cell = plot.rows[2][1]
    e = rl.estimate(LLAMA, rl.decode(cell.batch, cell.context), on="8xh100-sxm", layout="tp=4,dp=2")
    assert (cell.batch, cell.latency, cell.fits) == (4, pytest.approx(e.time), True)


def test_a_prefill_sweep() -> None:
    plot = drawn(LLAMA, on="h100-sxm", kind="sweep", phase="prefill", over="context", batch=2, most_context=4096)
    (curve,) = plot.curves
    e = rl.estimate(LLAMA, rl.prefill(2, 4096), on="h100-sxm")
    assert (curve.values[-1], curve.latency[-1]) == (4096, e.time)
    assert curve.tokens_per_second[-1] == pytest.approx(2 * 4096 / e.time)
    assert (plot.axis_label, plot.step_label) == ("Prompt (tokens)", "Time of the prefill")


def test_a_sweep_over_context_does_not_hit_the_steps_that_compress() -> None:
    """One step in 4, and one in 128, does more: true of each, but not of the contexts between it and the next drawn."""
    model = rl.load("deepseek-ai/DeepSeek-V4-Flash")
    options: dict[str, Any] = {"on": "8xb200", "layout": "tp=8"}
    plot = drawn(model, **options, kind="sweep", over="context")
    (curve,) = plot.curves
    assert not any((v + 1) % 4 == 0 for v in curve.values)
    assert curve.values[-1] == 131072
    assert list(curve.latency) == sorted(curve.latency)
    assert "steps that complete a compressed entry of 128 or 4 tokens" in plot.note
    plain, fourth, last = (rl.estimate(model, rl.decode(1, n), **options).time for n in (8190, 8187, 8191))
    assert plain < fourth < last
    prefill = drawn(model, **options, kind="sweep", over="context", phase="prefill", most_context=64)
    assert 7 in prefill.curves[0].values
    assert "compressed" not in prefill.note


def test_a_sweep_over_context_has_both_ends_of_every_chunk() -> None:
    model = rl.load("meta-llama/Llama-4-Scout-17B-16E-Instruct")
    (curve,) = drawn(model, on="8xb200", layout="tp=8", kind="sweep", over="context").curves
    assert {n for k in range(1, 16) for n in (8192 * k - 1, 8192 * k)} <= set(curve.values)


@folded(
    ("module", "says"),
    [
        (m.Conv(name="x", channels=8192, kernel=4), "8,192 channels, kernel 4"),
        (m.SelectiveScan(name="x", channels=8192, state_size=16), "8,192 channels, state 16"),
        (m.StateSpace(name="x", heads=128, head_dim=64, state_size=128, groups=8, chunk=256),
         "128 heads, 8 groups, state 64 × 128"),
        (m.DeltaRule(name="x", key_heads=16, value_heads=32, key_dim=128, value_dim=64),
         "32 heads, 16 key, state 128 × 64"),
        (m.LinearAttention(name="x", heads=64, head_dim=128, chunk=256), "64 heads, state 128 × 128"),
        (m.GatedRecurrence(name="x", channels=2560), "2,560 channels"),
        (m.Indexer(name="x", heads=64, head_dim=128), "64 heads × 128"),
        (m.Compressor(name="x", width=512, rate=4, rope=64, overlap=True), "512 of 4 tokens, overlapping"),
        (m.CompressedAttention(name="x", heads=64, head_dim=512, window=128, rate=4, select=512),
         "64 heads × 512, window 128, entries of 4, best 512"),
        (m.LatentAttention(name="x", heads=128, rank=512, nope=128, rope=64, v=128, select=2048),
         "128 heads, latent 512 + 64, best 2,048"),
        (m.Collective(name="x", op="all_reduce", width=4096, ranks=8), "all reduce of 4,096, 8 ranks"),
    ],
)  # fmt: skip
def test_modules_in_words(module: m.Module, says: str) -> None:
    assert in_words(module) == says


@pytest.mark.parametrize(
    "name",
    ["ai21labs/Jamba-v0.1", "Qwen/Qwen3-Next-80B-A3B-Instruct", "state-spaces/mamba-130m-hf",
     "deepseek-ai/DeepSeek-V4-Flash"],
)  # fmt: skip
def test_no_box_of_a_diagram_shows_a_field(name: str) -> None:
    plot = drawn(rl.load(name), kind="diagram")
    assert not [b for stack in plot.layers for b in stack.boxes if "=" in b.detail or not b.detail]


def test_a_training_step_is_a_point_too() -> None:
    steps = {"training": rl.training(batch=8, tokens=2048)}
    (panel,) = drawn(LLAMA, steps=steps, on="8xh100-sxm", layout="tp=2,dp=4", points="phases").panels
    t = rl.estimate(LLAMA, steps["training"], on="8xh100-sxm", layout="tp=2,dp=4")
    micro = t.micro(t.stages[0])
    (point,) = panel.points
    assert point.intensity == micro.analysis.intensity
    assert point.performance == pytest.approx(micro.analysis.flops / micro.time)


def test_a_tornado_has_the_answers() -> None:
    plot = drawn(LLAMA, on="h100-sxm", kind="tornado", batch=4, context=2048)
    assert [(p.phase, p.kind) for p in plot.panels] == [
        (phase, kind) for phase in ("prefill", "decode") for kind in ("deployment", "architecture")
    ]
    swing = next(s for s in plot.panels[2].swings if s.knob == "batch")
    times = [rl.estimate(LLAMA, rl.decode(b, 2048), on="h100-sxm").time for b in (2, 4, 8)]
    assert (swing.at_low, swing.at_high) == pytest.approx((times[0] / times[1], times[2] / times[1]))
    for panel in plot.panels:
        widths = [abs(s.at_high - s.at_low) for s in panel.swings]
        assert widths == sorted(widths, reverse=True)
        assert all(max(abs(s.at_low - 1), abs(s.at_high - 1)) >= 0.005 for s in panel.swings)
    assert plot.AXIS in plot.note


def test_a_diagram_has_every_module() -> None:
    plot = drawn(V3, kind="diagram")
    assert [b.label for b in plot.model.boxes] == ["embedding", "3 dense", "58 moe", "final_norm", "lm_head"]
    assert [s.title for s in plot.layers] == ["moe · 58 layers", "dense · 3 layers"]
    for stack, (block, _) in zip(plot.layers, sorted(V3.blocks, key=lambda b: -b[1]), strict=True):
        assert [b.label for b in stack.boxes] == [x.name for x in block.modules]
        assert [b.label for b in stack.boxes if b.adds] == ["attn_residual", "ffn_residual"]


def test_a_diagram_has_paths_side_by_side() -> None:
    """Queries beside latents, shared experts beside routed ones; each path begins at the fork and ends at the join."""
    moe = drawn(V3, kind="diagram").layers[0]
    edges = {(moe.boxes[a].label, moe.boxes[b].label) for a, b in moe.edges}
    latent = {("attn_norm", "q_a_proj"), ("attn_norm", "kv_a_proj"), ("q_b_proj", "rope"), ("kv_a_norm", "rope")}
    experts = {("ffn_norm", "router"), ("ffn_norm", "shared_gate_up_proj"), ("experts", "shared_add"),
               ("shared_down_proj", "shared_add")}  # fmt: skip
    assert latent | experts <= edges
    assert not {("q_b_proj", "kv_a_proj"), ("experts", "shared_gate_up_proj")} & edges
    assert len(edges) == len(moe.boxes) - 1 + 2
    row = {b.label: r for b, r in zip(moe.boxes, moe.rows, strict=True)}
    assert row["q_a_proj"] == row["kv_a_proj"] == row["attn_norm"] + 1
    assert row["rope"] == row["q_b_proj"] + 1
    assert row["shared_add"] == row["shared_down_proj"] + 1 == row["experts"] + 2
    dense = drawn(LLAMA, kind="diagram").layers[0]
    assert dense.lanes == 1
    assert dense.rows == tuple(range(len(dense.boxes)))


@pytest.mark.parametrize(
    ("phase", "over", "batch", "context"), [("decode", "batch", 1, 8192), ("decode", "context", 16, 0)]
)
def test_a_sweep_ends_where_fit_says_that_memory_does(phase: str, over: str, batch: int, context: int) -> None:
    """The last batch, and the last context with the token that is new, are those of `fit`, which looks another way."""
    options: dict[str, Any] = {"context": context} if over == "batch" else {"batch": batch}
    (curve,) = drawn(LLAMA, on="h100-sxm", kind="sweep", over=over, **options).curves
    fit = rl.fit(LLAMA, on="h100-sxm", batch=batch, context=context + 1 if over == "batch" else 4096)
    last = fit.largest_batch if over == "batch" else fit.longest_context - 1
    assert curve.unfit_from == last + 1
    assert curve.values[curve.fitting - 1] <= last
    assert drawn(LLAMA, on="h100-sxm", kind="sweep", most_batch=8).curves[0].unfit_from is None


@pytest.mark.parametrize(
    ("name", "stack"),
    [
        ("google/gemma-3-27b-it", ["10 × (5 sliding dense, 1 dense)", "2 sliding dense"]),
        ("ai21labs/Jamba-v0.1", ["4 × 8 layers"]), ("meta-llama/Llama-3.1-8B", ["32 dense"]),
    ],
)  # fmt: skip
def test_layers_that_repeat_are_said_once(name: str, stack: list[str]) -> None:
    boxes = drawn(rl.load(name), kind="diagram").model.boxes
    assert [b.label for b in boxes if b.group == "layers"] == stack


@folded(
    ("options", "field"),
    [
        ({"on": "h100-sxm", "steps": {}}, "steps"),
        ({"on": "h100-sxm", "steps": {"a": rl.decode(batch=[1, 2], context=9)}}, "steps"),
        ({"on": "h100-sxm", "steps": {"a": rl.training(batch=[1, 2], tokens=9)}}, "steps"),
        ({"on": "h100-sxm", "kind": "sweep", "phase": "training"}, "phase"), ({"kind": "tornado"}, "on"),
        ({"on": "h100-sxm", "steps": {"a": (0, 9)}}, "steps"), ({"kind": "pie"}, "kind"),
        ({"on": ()}, "on"), ({"on": "h100-sxm", "points": "atoms"}, "points"),
        ({"on": ["h100-sxm", "l4"], "kind": "map"}, "on"), ({"on": "h100-sxm", "theme": "sepia"}, "theme"),
        ({"on": "h100-sxm", "legend": "inside"}, "legend"), ({"on": "h100-sxm", "dpi": 5}, "dpi"),
        ({"on": "h100-sxm", "kind": "sweep", "over": "tokens"}, "over"), ({"on": "h99"}, "chip"),
    ],
)  # fmt: skip
def test_bad_requests_name_their_field(options: dict[str, Any], field: str) -> None:
    with pytest.raises(rl.InputError, match=rf"^{field}\b"):
        drawn(LLAMA, **options)


def test_chips_with_as_much_memory_are_one_line() -> None:
    same = drawn(LLAMA, on=["h100-sxm", "h20", "a100-sxm-80gb"], kind="memory", most_context=512)
    assert [c.chip for c in same.levels] == ["NVIDIA H100 SXM5 80GB, NVIDIA A100 SXM4 80GB", "NVIDIA H20 96GB"]
    assert [c.bytes for c in same.levels] == [80 * 2**30, 96 * 2**30]
