"""What training keeps in which format: recipes with changes, adapters on some layers, layers offloaded."""

from __future__ import annotations

from typing import Any

import pytest

import roofline as rl
from folded import folded
from roofline.model.adapters import with_lora
from roofline.training.memory.saved_activations import kept_bytes, op_bytes
from roofline.work.recipe import recipe_named
from roofline.work.training import with_options

LLAMA = rl.load("meta-llama/Llama-3.1-8B")
PSI = LLAMA.parameters
WIDTH, INNER, KV, HEADS, LAYERS = 4096, 14336, 1024, 32, 32
MATRICES = LAYERS * (WIDTH * (WIDTH + 2 * KV) + WIDTH * WIDTH + 3 * WIDTH * INNER)


def step(**options: Any) -> Any:
    given: dict[str, Any] = {"batch": 8, "tokens": 2048, "on": "8xb200", "layout": "dp=8,zero=1", **options}
    return rl.train(LLAMA, **given)


def layer(**options: Any) -> Any:
    """Bytes that a layer keeps of one token."""
    return kept_bytes(LLAMA.layers[0].modules, rl.training(1, 1, **options))


# -- recipes -------------------------------------------------------------------------------------------------------
def test_a_recipe_with_changes_is_that_recipe_but_for_them() -> None:
    usual, changed = recipe_named("fp8"), recipe_named("fp8(matrices=fp8, gradients=bf16)")
    assert (changed.gradients, changed.matrices, changed.activated) == ("bf16", "fp8", None)
    assert (changed.products, changed.stream, changed.weights) == (usual.products, usual.stream, usual.weights)
    assert changed.name == "fp8(gradients=bf16,matrices=fp8)" == recipe_named(changed.name).name


def test_a_change_to_what_is_there_is_none() -> None:
    assert recipe_named("fp8(gradients=fp32,matrices=bf16)") == recipe_named("fp8")
    assert recipe_named("fp8-primary(matrices=fp8)") == recipe_named("fp8-primary")


@folded(
    ("name", "field"),
    [
        ("fp9(gradients=bf16)", "recipe"), ("fp8(gradient=bf16)", "recipe"), ("fp8(gradients=bf16", "recipe"),
        ("fp8(gradients=int8)", "recipe.gradients"), ("fp8()", "recipe"), ("fp8(activated=bf16)", "recipe.activated"),
        ("fp8(gradients=bf16,gradients=fp16)", "recipe.gradients"),
    ],
)  # fmt: skip
def test_a_change_that_is_not_understood_is_refused(name: str, field: str) -> None:
    with pytest.raises(rl.InputError) as caught:
        step(recipe=name)
    assert caught.value.field == field


def test_gradients_of_two_bytes_and_matrices_of_one() -> None:
    usual, changed = step(recipe="fp8").fullest, step(recipe="fp8(gradients=bf16,matrices=fp8)").fullest
    assert usual.gradients == 4 * PSI
    assert changed.gradients == 2 * PSI
    assert usual.weights == 2 * PSI
    assert changed.weights == 2 * PSI - MATRICES
    assert changed.optimizer == usual.optimizer


def test_without_a_master_copy_the_moments_are_all_of_the_state() -> None:
    usual, changed = step(recipe="bf16").fullest, step(recipe="bf16(master=none)").fullest
    assert usual.optimizer == pytest.approx(12 * PSI / 8, rel=1e-6)
    assert changed.optimizer == pytest.approx(8 * PSI / 8, rel=1e-6)
    assert recipe_named("bf16-pure(master=none)") == recipe_named("bf16-pure")


def test_gradients_of_two_bytes_are_sent_in_two() -> None:
    usual, changed = (step(recipe=r, overlap=False).time for r in ("fp8", "fp8(gradients=bf16)"))
    assert changed < usual


def test_of_a_format_that_no_optimizer_updates_only_frozen_matrices_are_kept() -> None:
    learning = step(recipe="nvfp4(matrices=nvfp4)")
    assert learning.fullest.weights == 2 * PSI
    frozen = step(recipe="nvfp4(matrices=nvfp4)", lora=16)
    adapters = with_lora(LLAMA, 16).parameters - PSI
    assert frozen.fullest.weights == pytest.approx(MATRICES * 4.5 / 8 + 2 * (PSI - MATRICES) + 2 * adapters, rel=1e-6)


# -- activations ---------------------------------------------------------------------------------------------------
def test_attention_keeps_its_output_where_the_product_behind_keeps_another_format() -> None:
    stream = 2 * (2 * WIDTH + WIDTH + 2 * KV + 2 * INNER) + 4 * HEADS
    products = WIDTH + WIDTH + WIDTH + INNER
    assert layer() == stream + 2 * products
    assert layer(recipe="fp8") == stream + products + 2 * WIDTH
    frozen = with_lora(LLAMA, 16, ("qkv_proj",)).layers[0].modules
    sizes = {op.name: size for op, size in op_bytes(frozen, rl.training(1, 1))}
    assert sizes["attention"] == 2 * (WIDTH + 2 * KV) + 4 * HEADS + 2 * WIDTH
    again = {op.name: size for op, size in op_bytes(frozen, rl.training(1, 1, recompute="selective"))}
    assert again["attention"] == 2 * (WIDTH + 2 * KV)


def test_inputs_of_activation_functions_in_a_byte() -> None:
    assert layer(recipe="fp8") - layer(recipe="fp8(activated=fp8)") == 2 * INNER


# -- adapters ------------------------------------------------------------------------------------------------------
def test_adapters_beside_some_linear_layers() -> None:
    e = step(lora=16, lora_targets="qkv_proj, o_proj", engine="none")
    learning = LAYERS * 16 * ((3 * WIDTH + WIDTH + 2 * KV) + 2 * WIDTH)
    assert e.fullest.gradients == 4 * learning
    assert e.time < step(lora=16, engine="none").time
    assert e.fullest.gradients == step(lora=16, lora_targets=["qkv_proj", "o_proj"]).fullest.gradients


@pytest.mark.parametrize(
    "options",
    [
        {"lora_targets": "qkv_proj"}, {"lora": 16, "lora_targets": ""}, {"lora": 16, "lora_targets": "qkv"},
        {"lora": 16, "lora_targets": [1]}, {"lora": 16, "lora_targets": 3},
    ],
)  # fmt: skip
def test_targets_that_are_none_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(rl.InputError) as caught:
        step(**options)
    assert caught.value.field == "lora_targets"


# -- offloading ----------------------------------------------------------------------------------------------------
def test_activations_of_some_layers_live_with_the_host() -> None:
    none, all_of_them = step().fullest, step(offload="activations").fullest
    some = step(offload="activations", offload_layers=24).fullest
    assert some.activations == pytest.approx(none.each * 8 / 32 + none.each * 2 / 32)
    assert all_of_them.activations == pytest.approx(none.each * 2 / 32)
    assert step(offload="activations", offload_layers=40).fullest == all_of_them


def test_layers_that_are_offloaded_take_their_time() -> None:
    times = [step(on="8xl40s", batch=64, tokens=8192, micro_batch=8, offload="activations", offload_layers=n).time
             for n in (1, 16, 32)]  # fmt: skip
    assert times == sorted(times)
    assert times[0] < times[-1]


@pytest.mark.parametrize(
    "options",
    [{"offload_layers": 4}, {"offload": "activations", "offload_layers": 0},
     {"offload": "activations", "offload_layers": 1.5}, {"offload": "optimizer", "offload_layers": 4}],
)  # fmt: skip
def test_offloaded_layers_of_nothing_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(rl.InputError) as caught:
        step(**options)
    assert caught.value.field == "offload_layers"


def test_layers_are_forgotten_with_what_is_offloaded() -> None:
    given = rl.training(8, 128, offload="activations", offload_layers=4)
    assert with_options(given, offload=()).offload_layers is None
    assert with_options(given, recompute="full").offload_layers == 4
