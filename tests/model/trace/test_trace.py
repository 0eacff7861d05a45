"""A traced model does what its family says, to the digit; what cannot be traced is refused in one line."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import roofline as rl
from roofline.model.families.registry import FAMILIES
from roofline.model.trace import make
from roofline.model.trace.installed import real_code

oracle = pytest.mark.oracle

# fmt: off
DENSE = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 128, "max_position_embeddings": 4096, "dtype": "bfloat16"}
EXPERTS = {"num_local_experts": 8, "num_experts_per_tok": 2}
CONFIGS: dict[str, dict[str, Any]] = {
    "llama": {"model_type": "llama", **DENSE},
    "llama, tied and biased": {"model_type": "llama", **DENSE, "tie_word_embeddings": True, "attention_bias": True},
    "mixtral": {"model_type": "mixtral", **DENSE, **EXPERTS},
    "mistral, sliding": {"model_type": "mistral", **DENSE, "sliding_window": 16, "head_dim": 16},
    "gpt-oss, with sinks": {"model_type": "gpt_oss", **DENSE, **EXPERTS, "head_dim": 16, "sliding_window": 16},
    "gpt2": {"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64, "vocab_size": 128,
             "dtype": "bfloat16"},
}
UNKNOWN = {"model_type": "qwen2", **DENSE, "num_hidden_layers": 2}
"""A type whose family the test takes away: every decoder of transformers that runs on shapes has one."""
# fmt: on
STEPS = rl.prefill(batch=2, tokens=50), rl.decode(batch=3, context=77), rl.prefill(batch=1, tokens=4096)


@pytest.fixture
def torch() -> Any:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    return real_code()[0]


def _work(model: rl.Model, step: rl.Step) -> dict[str, tuple[Any, Any]]:
    """FLOPs and bytes of weights, by kind."""
    sums: dict[str, tuple[Any, Any]] = {}
    for row in rl.analyze(model, step).ops:
        if row.kind in ("matmul", "experts", "attention"):
            flops, weight = sums.get(row.kind, (0, 0))
            sums[row.kind] = flops + row.flops, weight + row.moved.weight
    return sums


@oracle
@pytest.mark.parametrize("name", CONFIGS)
def test_a_trace_equals_the_family(torch: Any, name: str) -> None:
    traced, family = rl.trace(CONFIGS[name]), rl.load(CONFIGS[name])
    assert traced.parameters == family.parameters
    assert traced.parameters_by_part() == family.parameters_by_part()
    assert (traced.weight_bytes(), traced.kv_bytes(1000)) == (family.weight_bytes(), family.kv_bytes(1000))
    for step in STEPS:
        assert _work(traced, step) == _work(family, step)


@oracle
def test_a_trace_equals_the_family_of_published_models(torch: Any) -> None:
    for name in ("meta-llama/Llama-3.1-8B", "mistralai/Mixtral-8x7B-v0.1"):
        traced, family = rl.trace(name), rl.load(name)
        assert traced.parameters == family.parameters
        assert [_work(traced, step) for step in STEPS] == [_work(family, step) for step in STEPS]


@oracle
def test_a_type_without_a_family_is_traced_and_says_so(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(FAMILIES, "qwen2")
    with pytest.raises(rl.InputError, match="--traced"):
        rl.load(UNKNOWN)
    model = rl.trace(UNKNOWN)
    real = pytest.importorskip("oracle.real")
    assert model.parameters == real.parameters(UNKNOWN)
    assert any("traced" in line for line in model.not_counted)
    estimate = rl.estimate(model, rl.decode(batch=1, context=1024), on="h100-sxm")
    assert estimate.time > 0


@oracle
@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"model_type": "no-such-type"}, "model_type"),
        ({**CONFIGS["llama"], "hidden_size": "wide"}, "trace"),
        ({**CONFIGS["llama"], "num_hidden_layers": 10**9}, "num_hidden_layers"),
        ({}, "model_type"),
    ],
)
def test_what_cannot_be_traced_is_one_line(torch: Any, config: dict[str, Any], field: str) -> None:
    with pytest.raises(rl.InputError) as error:
        rl.trace(config)
    assert error.value.field == field
    assert "\n" not in str(error.value)


ENCODER = {"vocab_size": 200, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 128}  # fmt: skip
BART = {"model_type": "bart", "vocab_size": 200, "d_model": 64, "encoder_layers": 2, "decoder_layers": 2,
    "encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "max_position_embeddings": 64}  # fmt: skip
BERT = {"model_type": "bert", **ENCODER, "max_position_embeddings": 64, "type_vocab_size": 2}
WHOLES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "an encoder": ({**BERT, "architectures": ["BertForMaskedLM"]}, {"input_ids": (2, 50)}),
    "an encoder without a head": ({**BERT, "architectures": ["BertModel"]}, {"input_ids": (1, 64)}),
    "an encoder-decoder": (
        {**BART, "architectures": ["BartForConditionalGeneration"]},
        {"input_ids": (1, 40), "decoder_input_ids": (1, 7)},
    ),
    "a decoder without the head": ({**CONFIGS["llama"], "architectures": ["LlamaModel"]}, {"input_ids": (1, 33)}),
    "a model of images": (
        {"model_type": "vit", **ENCODER, "image_size": 32, "patch_size": 8, "architectures": ["ViTModel"]},
        {"pixel_values": (1, 3, 32, 32)},
    ),
    "images and text": (
        {"model_type": "clip", "architectures": ["CLIPModel"], "projection_dim": 32,
         "text_config": {**ENCODER, "max_position_embeddings": 77},
         "vision_config": {**ENCODER, "image_size": 32, "patch_size": 8}},
        {"input_ids": (1, 20), "pixel_values": (1, 3, 32, 32)},
    ),
    "convolutions": (
        {"model_type": "resnet", "embedding_size": 16, "hidden_sizes": [16, 32], "depths": [1, 2],
         "architectures": ["ResNetModel"]},
        {"pixel_values": (1, 3, 64, 64)},
    ),
}  # fmt: skip
"""Configs of more than a decoder, and an input of each."""
LLAVA: dict[str, Any] = {
    "model_type": "llava", "architectures": ["LlavaForConditionalGeneration"], "image_token_id": 5,
    "text_config": {"model_type": "llama", **DENSE, "dtype": "float32"},
    "vision_config": {"model_type": "clip_vision_model", **ENCODER, "image_size": 32, "patch_size": 8},
}  # fmt: skip


@oracle
@pytest.mark.parametrize("name", WHOLES)
def test_one_call_of_a_whole_is_what_torch_counts(torch: Any, name: str) -> None:
    """FLOPs of a class on the meta device by torch's own counter, which shares no code with the trace."""
    config, shapes = WHOLES[name]
    transformers = pytest.importorskip("transformers")
    counter = pytest.importorskip("torch.utils.flop_counter").FlopCounterMode(display=False)
    settings = {key: value for key, value in config.items() if key != "model_type"}
    with torch.device("meta"):
        whole = transformers.AutoConfig.for_model(config["model_type"], **settings)
        whole._attn_implementation = "eager"
        real = getattr(transformers, config["architectures"][0])(whole).eval()
        given = {key: torch.zeros(*s, dtype=torch.long if "ids" in key else None) for key, s in shapes.items()}
        with counter, torch.no_grad():
            real(**given)
    model = rl.trace(config, shapes=shapes)
    assert model.parameters == sum(p.numel() for p in real.parameters())
    step = rl.prefill(1, 1)
    assert rl.analyze(model, step, counting="torch").flops == counter.get_total_flops()
    assert rl.analyze(model, rl.prefill(3, 1), counting="torch").flops == 3 * counter.get_total_flops()
    assert rl.estimate(model, step, on="h100-sxm").time > 0


def _counted(torch: Any, config: dict[str, Any], call: Any) -> int:
    """FLOPs that torch counts in `call(model, counter)` on the real class with values in memory."""
    transformers = pytest.importorskip("transformers")
    counter = pytest.importorskip("torch.utils.flop_counter").FlopCounterMode(display=False)
    whole = transformers.AutoConfig.for_model(**config)
    whole._attn_implementation = "eager"
    real = getattr(transformers, config["architectures"][0])(whole).eval()
    with torch.no_grad():
        call(real, counter)
    return int(counter.get_total_flops())


@oracle
def test_a_token_behind_a_cache_is_what_torch_counts(torch: Any) -> None:
    config = {**CONFIGS["llama"], "architectures": ["LlamaForCausalLM"], "dtype": "float32"}

    def decode(real: Any, counter: Any) -> None:
        cache = real(input_ids=torch.zeros(2, 9, dtype=torch.long), use_cache=True).past_key_values
        with counter:
            real(input_ids=torch.zeros(2, 1, dtype=torch.long), past_key_values=cache, use_cache=True)

    model = rl.trace(config, shapes={"input_ids": (2, 1), "past": 9})
    assert rl.analyze(model, rl.prefill(1, 1), counting="torch").flops == _counted(torch, config, decode)


@oracle
def test_a_token_behind_what_an_encoder_read_is_what_torch_counts(torch: Any) -> None:
    """The keys of cross-attention are in the cache, so neither the encoder nor their products run again."""
    config = {**BART, "architectures": ["BartForConditionalGeneration"]}

    def decode(real: Any, counter: Any) -> None:
        words = torch.zeros(1, 5, dtype=torch.long)
        read = real.get_encoder()(input_ids=torch.zeros(1, 30, dtype=torch.long))
        cache = real(encoder_outputs=read, decoder_input_ids=words, use_cache=True).past_key_values
        with counter:
            real(encoder_outputs=read, decoder_input_ids=words[:, :1], past_key_values=cache, use_cache=True)

    shapes = {"decoder_input_ids": (1, 1), "past": 5, "cross": {"input_ids": (1, 30)}}
    model = rl.trace(config, shapes=shapes)
    assert rl.analyze(model, rl.prefill(1, 1), counting="torch").flops == _counted(torch, config, decode)


@oracle
def test_an_image_among_tokens_is_what_torch_counts(torch: Any) -> None:
    """16 tokens stand for the patches; without shapes, a usual input has an image too, so all weights are used."""

    def prefill(real: Any, counter: Any) -> None:
        ids = torch.zeros(1, 20, dtype=torch.long)
        ids[:, 2:18] = 5
        with counter:
            real(input_ids=ids, pixel_values=torch.zeros(1, 3, 32, 32))

    model = rl.trace(LLAVA, shapes={"input_ids": (1, 20), "pixel_values": (1, 3, 32, 32)})
    assert rl.analyze(model, rl.prefill(1, 1), counting="torch").flops == _counted(torch, LLAVA, prefill)
    assert rl.trace(LLAVA).parameters == model.parameters
    tower = rl.trace(LLAVA, shapes={"pixel_values": (1, 3, 32, 32)})
    text = rl.trace(LLAVA, shapes={"input_ids": (1, 20)})
    flops = [rl.analyze(m, rl.prefill(1, 1), counting="torch").flops for m in (model, tower, text)]
    assert flops[0] == flops[1] + flops[2]


@oracle
def test_a_grid_by_its_shape_has_the_patches_that_there_are(torch: Any) -> None:
    """768 patches are 32 rows of 24, as the values say that one may give instead."""
    vision = {"model_type": "qwen2_5_vl", "depth": 2, "hidden_size": 32, "intermediate_size": 48, "num_heads": 4,
              "out_hidden_size": 64, "fullatt_block_indexes": [1]}  # fmt: skip
    text = {"model_type": "qwen2_5_vl_text", **DENSE, "rope_parameters": {"rope_type": "default", "rope_theta": 1e4,
                                                                         "mrope_section": [2, 3, 3]}}  # fmt: skip
    config = {"model_type": "qwen2_5_vl", "architectures": ["Qwen2_5_VLForConditionalGeneration"], "image_token_id": 9,
              "vision_start_token_id": 7, "text_config": text, "vision_config": vision}  # fmt: skip
    pixels = {"pixel_values": (768, 1176)}
    models = [rl.trace(config, shapes={**pixels, "image_grid_thw": grid}) for grid in ((1, 3), [[1, 32, 24]])]
    assert len({rl.analyze(m, rl.prefill(1, 1), counting="torch").flops for m in models}) == 1
    assert rl.trace(config, shapes={**pixels, "image_grid_thw": (1, 3), "input_ids": (1, 224)}).parameters > 0


@oracle
def test_code_that_runs_on_no_usual_input_is_known_by_its_weights(
    torch: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its parameters count, and a step of it is refused in one line, which says why."""
    pytest.importorskip("diffusers")
    config = {"_class_name": "PriorTransformer", "num_attention_heads": 2, "attention_head_dim": 8, "num_layers": 1,
              "embedding_dim": 16, "num_embeddings": 4, "additional_embeddings": 4}  # fmt: skip
    diffusers = pytest.importorskip("diffusers")
    real = diffusers.PriorTransformer(**{k: v for k, v in config.items() if k != "_class_name"})
    model = rl.trace(config)
    assert (model.parameters, model.steps) == (sum(p.numel() for p in real.parameters()), ())
    with pytest.raises(rl.InputError, match="missing 1 required positional argument: 'proj_embedding'"):
        rl.analyze(model, rl.prefill(1, 1))
    with pytest.raises(rl.InputError, match="a model whose steps are known"):
        rl.fit(model, on="h100-sxm")
    from roofline.doors.cli.main import main

    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    with pytest.raises(SystemExit) as ended:
        main(["analyze", str(path), "--traced"])
    assert ended.value.code == 2
    assert "--shape: expected the shapes of an input (trace: " in capsys.readouterr().err


@oracle
def test_a_network_of_timm(torch: Any) -> None:
    """ResNet-50 with two labels; timm imports torchvision, whose operators this torch may not be able to load."""
    pytest.importorskip("timm")
    config: dict[str, Any] = {"model_type": "timm_wrapper", "architecture": "resnet50"}
    shapes = {"pixel_values": (1, 3, 224, 224)}
    assert rl.trace(config, shapes=shapes).parameters == 25_557_032 - 1_000 * 2_049
    config["architectures"] = ["TimmWrapperForImageClassification"]
    assert rl.trace(config, shapes=shapes).parameters == 25_557_032 - 998 * 2_049


@oracle
def test_half_a_model_is_refused(torch: Any) -> None:
    """A tower that a text does not use, and whose layers no usual image reaches as the config has them."""
    model = rl.trace({**LLAVA, "vision_feature_layer": 99})
    assert model.parameters == rl.trace(LLAVA).parameters
    with pytest.raises(rl.InputError, match=r"expected `shapes` of inputs that use all of it .* parameters unused"):
        rl.analyze(model, rl.prefill(1, 1))


@oracle
def test_only_classes_of_models_are_built(torch: Any) -> None:
    pytest.importorskip("diffusers")
    for name in ("DiffusionPipeline", "no_such", "logging"):
        with pytest.raises(rl.InputError, match="a model's class of diffusers"):
            rl.trace({"_class_name": name})


def test_shapes_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    from roofline.doors.cli.main import main

    for words, line in (
        (["--shape", "input_ids=1x128"], "--shape: expected --traced as well"),
        (["--traced", "--shape", "input_ids"], "--shape: expected an argument and its shape"),
        (["--traced", "--shape", "cross.=1x2"], "--shape: expected an argument and its shape"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(["analyze", "openai-community/gpt2", *words])
        assert ended.value.code == 2
        assert line in capsys.readouterr().err


@oracle
def test_a_cache_on_the_command_line(torch: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from roofline.doors.cli.main import main

    path = tmp_path / "config.json"
    path.write_text(json.dumps({**BART, "architectures": ["BartForConditionalGeneration"]}))
    words = [
        "--traced",
        "--shape",
        "decoder_input_ids=1x1,past=5,cross.input_ids=1x30",
        "--counting",
        "torch",
        "--json",
    ]
    main(["analyze", str(path), *words])
    shapes = {"decoder_input_ids": (1, 1), "past": 5, "cross": {"input_ids": (1, 30)}}
    model = rl.trace(path, shapes=shapes)
    told = json.loads(capsys.readouterr().out)["steps"][0]["flops"]
    assert told == rl.analyze(model, rl.prefill(1, 1), counting="torch").flops


@oracle
def test_a_class_of_the_checkpoint_is_traced_as_the_type_has_it(torch: Any) -> None:
    own = rl.trace({**CONFIGS["llama"], "architectures": ["MyLlamaForCausalLM"]})
    assert own.parameters == rl.load(CONFIGS["llama"]).parameters


def test_without_torch_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(make, "find_spec", lambda name: None)
    with pytest.raises(rl.InputError, match=r"pip install .*'torch==[\d.]+' 'transformers==5"):
        rl.trace(CONFIGS["llama"])


def test_no_key_of_a_config_chooses_code() -> None:
    """What says where code, kernels or weights come from is not handed on, wherever it stands."""
    raw = {
        "model_type": "llama", "hidden_size": 64, "auto_map": {"AutoModel": "org/evil--x.Y"},
        "_attn_implementation": "org/kernel", "attn_implementation": "org/kernel", "use_kernels": True,
        "text_config": {"attn_implementation": "org/kernel", "hidden_size": 32}, "backbone": "timm/x",
    }  # fmt: skip
    assert make.settings_of(raw) == {"hidden_size": 64, "text_config": {"hidden_size": 32}}


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="torch is installed")
def test_the_command_says_what_to_install(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"model_type": "llama"}')
    words = [sys.executable, "-m", "roofline.doors.cli.main", "analyze", str(path), "--traced"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert "pip install 'diffusers==" in done.stderr
    assert "'torch==" in done.stderr
    assert "Traceback" not in done.stderr
