"""What the real model code says: parameters and counted FLOPs of a published architecture, without its weights.

The class that `transformers` has for a `config.json` is built on torch's `meta` device (shapes only, so 671 billion
parameters take a second), and `torch.utils.flop_counter` watches one forward pass. What is counted, and in which form:

- A forward without cache over `batch` x `tokens` new tokens, the head for every token, eager attention: every query
  with every key, whatever the mask, the window or the chunk. The counter knows matmuls and convolutions only; norms,
  activations, rotary embeddings, attention sinks, triangular solves and biases count nothing.
- `decode_flops`: one token behind a filled cache, which keeps of a window's keys those that it still needs; scans then
  recur instead of going by chunks.
- A causal convolution of K taps is counted over its padded output, tokens + K - 1 positions.
- Latent attention (MLA) runs expanded: keys and values of every head are made from the latent.
- Routed experts run as one grouped matmul over the rows that the router sends, tokens x top-k. torch 2.13 has no
  formula for it, so the bare counter **leaves routed experts out**; `experts=True` adds 2 x rows x in x out. Llama 4 is
  the exception: it sends every token through every expert with an ordinary `bmm`, which is counted.
- Mamba-1 (mamba, falcon_mamba, jamba) scans step by step: only each step's product of state and C is a matmul.
- Mamba-2 (mamba2, bamba, granitemoehybrid, nemotron_h) scans in chunks of the config's chunk size, the last one padded.
- The gated delta rule (qwen3_next, qwen3_5) and Kimi delta attention scan in chunks of 64, the last one padded.
"""

import contextlib
import copy
import importlib
import inspect
import logging
import math
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoConfig, AutoModelForCausalLM, DynamicCache, PreTrainedModel

logging.getLogger("transformers").setLevel(logging.ERROR)

# No attention layer: these take a mask over tokens or none, as does a model that makes its ALiBi bias from the mask.
WITHOUT_MASK = {
    "bloom", "falcon_mamba", "imagegpt", "kosmos_2_5_text_model", "kosmos_2_text_model", "mamba", "mamba2",
    "openai-gpt",
}  # fmt: skip

# Values decide what is looked up or checked, which the meta device lacks: these run on empty weights in memory.
BY_VALUES = {"dbrx", "glm5_next_text", "imagegpt", "jetmoe", "longcat_flash", "qwen4_exp_text", "step3p5"}

# The masks of these ask for values where they stand behind a cache.
CACHED_BY_VALUES = {"gemma3", "granite4_vision_text", "moshi"}

# These return no cache, but fill one that they are given.
UNRETURNED = {"granite4_vision_text", "recurrent_gemma"}

# What the caches of models are called, in what they return and in what they take.
CACHES = ("past_key_values", "cache_params", "state")

# Causal language models that AutoModelForCausalLM does not list.
UNLISTED = {
    "mistral4": "Mistral4ForCausalLM", "mllama_text_model": "MllamaForCausalLM",
    "chameleon": "ChameleonForConditionalGeneration", "imagegpt": "ImageGPTForCausalImageModeling",
    "kosmos_2_text_model": "models.kosmos2.modeling_kosmos2.Kosmos2TextForCausalLM",
    "kosmos_2_5_text_model": "models.kosmos2_5.modeling_kosmos2_5.Kosmos2_5TextForCausalLM",
}  # fmt: skip

# The state is in float32 and meets products of the weights' format: these are built in float32 throughout.
IN_SINGLE = {"xlstm"}

# Text parts that have a class of their own only without a head: their wholes' heads are a product without bias, from
# hidden_size to vocab_size, tied to the embedding where the config says so.
BACKBONES = {
    "cosmos3_edge_text": "Cosmos3EdgeTextModel",
    "deepseek_ocr2_text": "DeepseekOcr2TextModel",
    "ernie4_5_vl_moe_text": "Ernie4_5_VLMoeTextModel",
    "glm4v_moe_text": "Glm4vMoeTextModel",
    "glm4v_text": "Glm4vTextModel",
    "glm_image_text": "models.glm_image.modeling_glm_image.GlmImageTextModel",
    "glm_ocr_text": "GlmOcrTextModel",
    "granite4_vision_text": "Granite4VisionTextModel",
    "granite_docling_text": "GraniteDoclingTextModel",
    "hunyuan_vl_text": "HunYuanVLTextModel",
    "glm5_next_text": "Glm5NextTextModel",
    "mistral_large4_text": "MistralLarge4TextModel",
    "molmo2_text": "Molmo2TextModel",
    "muse_glimmer_text": "MuseGlimmerTextModel",
    "muse_spark_text": "MuseSparkTextModel",
    "paddleocr_vl_text": "PaddleOCRTextModel",
    "qwen2_5_omni_text": "Qwen2_5OmniThinkerTextModel",
    "qwen3_omni_moe_text": "Qwen3OmniMoeThinkerTextModel",
    "step3p5": "Step3p7TextModel",
    "voxtral_realtime_text": "models.voxtral_realtime.modeling_voxtral_realtime.VoxtralRealtimeTextModel",
}

# Text parts whose wholes tie the head where the config does not say.
TIED_BY_WHOLE = {"voxtral_realtime_text"}

# Parts of layers that run once a stream, of a value that is the same for all its tokens: they are left out of a count.
ONCE = {"voxtral_realtime_text": "ada_rms_norm"}

# Parts of a whole that text does not pass through, by the name they have in it: their parameters are left out.
BESIDES = {
    "phi4_multimodal": {"embed_tokens_extend"},
    "chameleon": {"vqmodel"},
    "git": {"image_encoder", "visual_projection", "img_temporal_embedding"},
}

# Wholes whose own class ties no head, whatever their text part says.
UNTIED = {"mllama"}


class Headed(torch.nn.Module):
    """A text part and the head that its whole puts on it."""

    def __init__(self, backbone: PreTrainedModel) -> None:
        super().__init__()
        self.config, self.backbone = backbone.config, backbone
        self.lm_head = torch.nn.Linear(self.config.hidden_size, self.config.vocab_size, bias=False)
        if getattr(self.config, "tie_word_embeddings", self.config.model_type in TIED_BY_WHOLE):
            self.lm_head.weight = backbone.get_input_embeddings().weight

    @property
    def device(self) -> torch.device:
        return self.backbone.device

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor, use_cache: bool) -> torch.Tensor:
        delay = {"t_cond": torch.zeros(1, 1, self.config.hidden_size, device=self.device)}
        besides = delay if self.config.model_type in ONCE else {}
        states = self.backbone(input_ids=input_ids, attention_mask=attention_mask, use_cache=use_cache, **besides)
        logits: torch.Tensor = self.lm_head(states.last_hidden_state)
        return logits


def build(config: Mapping[str, Any]) -> PreTrainedModel | Headed:
    """The causal language model that `config`, the content of a `config.json`, describes, on the meta device.

    For a wrapper this is what `AutoModelForCausalLM` makes of it: the text part alone (llama4, qwen3_5), or the text
    part together with the vision part (gemma3).
    """
    settings = {key: _plain(value) for key, value in copy.deepcopy(dict(config)).items() if key != "model_type"}
    with _format(config["model_type"]), torch.device("meta"):
        described = AutoConfig.for_model(config["model_type"], **settings)
        if config["model_type"] in BACKBONES:
            described._attn_implementation = "eager"
            model = Headed(_class(BACKBONES[config["model_type"]])(described))
        elif config["model_type"] in UNLISTED:
            described._attn_implementation = "eager"
            model = _class(UNLISTED[config["model_type"]])(described)
        else:
            model = AutoModelForCausalLM.from_config(  # type: ignore[no-untyped-call]
                described, attn_implementation="eager"
            )
    assert isinstance(model, (PreTrainedModel, Headed))
    model.train(False)
    return model


def parameters(config: Mapping[str, Any], *, text_only: bool = False) -> int:
    """Parameters of the real model: a tied head once, buffers (such as a router's correction bias) not at all."""
    config = text(config) if text_only else config
    beside = BESIDES.get(config["model_type"], set()) if text_only else set()
    weights = build(config).named_parameters()
    return sum(_met(config, name, weight) for name, weight in weights if beside.isdisjoint(name.split(".")))


def _met(config: Mapping[str, Any], name: str, weight: torch.Tensor) -> int:
    """Values that a checkpoint holds: LongCat's class makes up-projections for experts that do nothing, too."""
    if config["model_type"] == "longcat_flash" and name.endswith("experts.gate_up_proj"):
        weight = weight[: config["n_routed_experts"]]
    return int(weight.numel())


def matmul_flops(config: Mapping[str, Any], batch: int, tokens: int, *, experts: bool = False) -> int:
    """FLOPs that torch counts in a forward of text over `batch` x `tokens` tokens; see the module for what that means.

    `experts` adds the formula that torch lacks: rows x in x out multiply-adds for the grouped matmul of routed experts.
    """
    model = build(config)
    if model.config.model_type in BY_VALUES:
        model = model.to(torch.float32).to_empty(device="cpu").requires_grad_(False)
        _balance(model)
    for layer in model.backbone.layers if model.config.model_type in ONCE else ():
        setattr(layer, ONCE[model.config.model_type], torch.nn.Identity())
    takes = inspect.signature(model.forward).parameters
    inputs: dict[str, Any] = {
        "input_ids": torch.zeros(batch, tokens, dtype=torch.long, device=model.device),
        "use_cache": False,
        "position_ids": torch.arange(tokens, device=model.device).expand(batch, tokens).contiguous(),
        "attention_mask": torch.zeros(batch, 1, tokens, tokens, dtype=torch.bfloat16, device=model.device),
    }
    if model.config.model_type in WITHOUT_MASK or getattr(model.config, "alibi", False):
        del inputs["attention_mask"]
    formulas = {torch.ops.aten._grouped_mm: _grouped_mm_flops} if experts else {}
    counter = FlopCounterMode(display=False, custom_mapping=formulas)
    with _format(config["model_type"]), torch.no_grad(), counter:
        model(**{name: value for name, value in inputs.items() if name in takes})
    return int(counter.get_total_flops())


def decode_flops(config: Mapping[str, Any], batch: int, cached: int) -> int:
    """FLOPs that torch counts where each of `batch` sequences adds one token behind a cache of `cached` tokens.

    The cache is the model's own, filled by a prefill that is not counted.
    """
    model = build(config)
    if model.config.model_type in BY_VALUES | CACHED_BY_VALUES:
        model = model.to(torch.float32).to_empty(device="cpu").requires_grad_(False)
        _balance(model)
    net = model.backbone if isinstance(model, Headed) else model
    for layer in net.layers if model.config.model_type in ONCE else ():
        setattr(layer, ONCE[model.config.model_type], torch.nn.Identity())
    takes = inspect.signature(net.forward).parameters

    def run(tokens: int, before: int, **cache: Any) -> Any:
        at = {"device": model.device}
        places = torch.arange(before, before + tokens, **at).expand(batch, tokens).contiguous()
        given = {"position_ids": places}
        if model.config.model_type == "gemma3":
            given["token_type_ids"] = torch.zeros(batch, tokens, dtype=torch.long, **at)
        known = {name: value for name, value in (given | cache).items() if name in takes}
        if model.config.model_type in ONCE:
            known["t_cond"] = torch.zeros(1, 1, model.config.hidden_size, **at)
        out = net(input_ids=torch.zeros(batch, tokens, dtype=torch.long, **at), use_cache=True, **known)
        if isinstance(model, Headed):
            model.lm_head(out.last_hidden_state)
        return out

    counter = FlopCounterMode(display=False)
    with _format(config["model_type"]), torch.no_grad():
        own = {"past_key_values": DynamicCache(config=model.config)} if model.config.model_type in UNRETURNED else {}
        filled = run(cached, 0, **own)
        cache = own or {name: getattr(filled, name) for name in CACHES if getattr(filled, name, None) is not None}
        assert cache, "a model that returns its cache"
        with counter:
            run(1, cached, **cache)
    return int(counter.get_total_flops())


def _balance(model: torch.nn.Module) -> None:
    """Spreads the choices of LongCat's router evenly over all experts, those that do nothing included.

    Tells hashes of n-grams the sizes of their tables, which empty buffers do not hold.
    """
    for table in model.modules():
        if type(table).__name__ == "Qwen4ExpTextNGramEmbedding":
            table.ngram_heads_vocab_sizes.copy_(torch.tensor(table.head_vocab_sizes))
            table.ngram_heads_offsets.copy_(torch.tensor(table.head_offsets))
            table.layer_multipliers.fill_(1)
    for router in model.modules():
        if type(router).__name__ == "LongcatFlashTopkRouter":
            many, top_k = router.n_routed_experts, router.top_k
            router.get_topk_indices = lambda scores, n=many, k=top_k: (torch.arange(len(scores) * k) % n).view(-1, k)


def text(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The text part of a multimodal wrapper's config; any other config as it is."""
    inner: Mapping[str, Any] = config.get("text_config") or config
    return {**inner, "tie_word_embeddings": False} if config["model_type"] in UNTIED else inner


def _class(name: str) -> Any:
    """A class of transformers by its name, or by the path to it where it is not lent at the top."""
    path, _, leaf = f"transformers.{name}".rpartition(".")
    return getattr(importlib.import_module(path), leaf)


def _grouped_mm_flops(rows: torch.Size, *_: Any, out_shape: torch.Size, **__: Any) -> int:
    """2 x rows x in x out: each of the rows (rows, in) meets the one (in, out) matrix of its group."""
    return 2 * math.prod(rows) * out_shape[-1]


def _plain(value: Any) -> Any:
    """A config.json writes an infinite float as {"__float__": "Infinity"}."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return float(value["__float__"]) if isinstance(value, dict) and "__float__" in value else value


@contextlib.contextmanager
def _format(model_type: str) -> Iterator[None]:
    """bfloat16 for all but `IN_SINGLE`: the grouped matmul refuses float32 on the meta device."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32 if model_type in IN_SINGLE else torch.bfloat16)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
