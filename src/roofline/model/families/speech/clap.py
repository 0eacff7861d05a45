"""CLAP: text and sound compared, by RoBERTa and a Swin transformer over a spectrogram."""

from __future__ import annotations

from dataclasses import replace

from roofline.model.configs.config import Config
from roofline.model.families.blocks.attention import attention
from roofline.model.families.blocks.encoders import at, at_one, encoder, patch_embedding, tower
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.layers import layer, with_before
from roofline.model.families.blocks.norms import layer_norm
from roofline.model.families.blocks.sizes import Dims
from roofline.model.families.blocks.sound import channel_norm, size_list
from roofline.model.families.blocks.text_heads import acted, dense
from roofline.model.families.registry import complete
from roofline.model.families.text.bert import bert_like
from roofline.model.model import Block, Model
from roofline.model.modules import Learned, Linear, Module

_STEERING = """
    spec_size drop_path_rate fusion_num_hidden_layers fusion_type aff_block_r mlp_ratio projection_hidden_act
    enable_patch_fusion enable_patch_layer_norm flatten_patch_embeds num_classes patch_embed_input_channels hidden_size
    projection_dim num_hidden_layers initializer_factor window_size logit_scale_init_value attention_probs_dropout_prob
    num_attention_heads patch_stride patch_size num_mel_bins depths patch_embeds_hidden_size qkv_bias enable_fusion
    model_type
""".split()


def clap_sound(c: Config) -> tuple[list[Block], int, int]:
    """HTS-AT (arXiv:2202.00874): blocks, width and positions of a spectrogram folded to a square."""
    c.mark_read(*_STEERING)
    if c.flag("enable_fusion", False):
        raise c.error("enable_fusion", "false: fusion of long sound is not covered")
    side, patch, width = c.size("spec_size", 256), c.size("patch_size", 4), c.size("patch_embeds_hidden_size", 96)
    depths, window = size_list(c, "depths", None, [2, 2, 6, 2]), c.size("window_size", 8)
    heads = size_list(c, "num_attention_heads", len(depths), [4, 8, 16, 32])
    places, act, ratio = side // patch, activation(c, default="gelu"), c.number("mlp_ratio", 4.0)
    inputs = c.size("patch_embed_input_channels", 1)
    norm = (layer_norm("patch_norm", width),) if c.flag("enable_patch_layer_norm", True) else ()
    front = (patch_embedding("patch_embedding", inputs, patch * patch, width), *norm)
    spectrum = replace(channel_norm("batch_norm", c.size("num_mel_bins", 64)), positions=1)
    blocks = [Block("patches", (spectrum, *at(places * places, front)))]
    for i, (depth, count) in enumerate(zip(depths, heads, strict=True)):
        d, seen = Dims(depth, width, count, count, width // count), min(window, places)
        table = Learned(name="relative_bias", width=count, rows=(2 * seen - 1) ** 2, applied=False)
        mixer = attention(d, rotary=0, bias=c.flag("qkv_bias", True), out_bias=True, causal=False)
        modules = layer(
            "windowed", width, mixer, mlp(width, int(ratio * width), act, gated=False, bias=True), norm=layer_norm
        )
        tokens, runs = seen * seen, (places // seen) ** 2
        blocks += [Block(f"stage{i}", at(tokens, with_before(modules.modules, "attention", table), runs))] * depth
        if i < len(depths) - 1:
            places //= 2
            merge = (layer_norm("merge_norm", 4 * width), dense("merge_proj", 4 * width, 2 * width, bias=False))
            blocks.append(Block(f"merge{i}", at(places * places, merge)))
            width *= 2
    return [*blocks, Block("norm", at(places * places, (layer_norm("final_norm", width),)))], width, places * places


@complete("clap_audio_model")
def clap_audio(c: Config) -> Model:
    """CLAP's encoder of sound alone."""
    blocks, width, positions = clap_sound(c)
    return encoder(c, width, blocks, embedding=(), positions=positions)


@complete("clap")
def clap(c: Config) -> Model:
    """CLAP (arXiv:2211.06687): each side is projected by two products to where they are compared."""
    c.mark_read(
        "model_type",
        "projection_hidden_act",
        "logit_scale_init_value",
        "num_hidden_layers",
        "hidden_size",
        "initializer_factor",
    )
    text = c.section("text_config").of_kind("clap_text_model")
    sound, size = c.section("audio_config").of_kind("clap_audio_model"), c.size("projection_dim", 512)
    text.mark_read("model_type", "projection_dim", "projection_hidden_act")
    words, (blocks, width, positions) = bert_like(text), clap_sound(sound)
    act = c.text("projection_hidden_act", "relu")

    def projected(inputs: int) -> tuple[Module, ...]:
        return at_one((*acted("projection_in", inputs, size, act), dense("projection_out", size, size)))

    compared = Linear(name="logits", inputs=size, outputs=2, tied=True, part="other", stream="sound", positions=1)
    scales = Learned(name="logit_scale", width=2, applied=False)
    c.note(*text.leftovers(), *sound.leftovers())
    hearing = tower(
        "audio", "sound", width, [*blocks, Block("projection", projected(width))], positions, quantised=True
    )
    return replace(
        words, model_type="clap", head=(*words.head, *projected(words.hidden), scales, compared), towers=(hearing,)
    )
