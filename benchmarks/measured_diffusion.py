"""Images and videos by pipelines of diffusers under xDiT, measured by ML.ENERGY 3.0 (github.com/ml-energy/leaderboard).

`python benchmarks/measured_diffusion.py MEASURED [MODEL]` prints the median error of latency and joules by model and
chip, first on one GPU, then under Ulysses and ring attention; with a word of a model's name also every row of it.

Configs are those of the published repositories. A row's latency is that of the whole pipeline. The transformers read
the prompt as padded by their pipelines; the text encoders, T5 and the like, take less than a hundredth of the time and
are left out. Guidance takes every input twice, except for HunyuanVideo, which has it built in.
"""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import roofline as rl
from roofline.inference.cost.cost import Cost

KL = {
    "_class_name": "AutoencoderKL", "block_out_channels": [128, 256, 512, 512], "layers_per_block": 2,
    "down_block_types": ["DownEncoderBlock2D"] * 4, "up_block_types": ["UpDecoderBlock2D"] * 4, "latent_channels": 4,
    "sample_size": 1024,
}  # fmt: skip
DEEP: dict[str, Any] = {
    "_class_name": "AutoencoderDC", "latent_channels": 32, "attention_head_dim": 32,
    "downsample_block_type": "conv", "upsample_block_type": "interpolate",
    **{f"{side}_block_types": [*["ResBlock"] * 3, *["EfficientViTBlock"] * 3] for side in ("encoder", "decoder")},
    **{f"{side}_block_out_channels": [128, 256, 512, 512, 1024, 1024] for side in ("encoder", "decoder")},
    **{f"{side}_qkv_multiscales": [[], [], [], [5], [5], [5]] for side in ("encoder", "decoder")},
    "encoder_layers_per_block": [2, 2, 2, 3, 3, 3], "decoder_layers_per_block": [3, 3, 3, 3, 3, 3],
}  # fmt: skip
SANA: dict[str, Any] = {
    "_class_name": "SanaTransformer2DModel", "num_attention_heads": 70, "attention_head_dim": 32,
    "num_cross_attention_heads": 20, "cross_attention_head_dim": 112, "cross_attention_dim": 2240,
    "qk_norm": "rms_norm_across_heads", "sample_size": 32, "caption_channels": 2304, "mlp_ratio": 2.5,
}  # fmt: skip
PIPELINES: dict[str, dict[str, Any]] = {
    "PixArt-Sigma-XL-2-1024-MS": {
        "transformer": {
            "_class_name": "PixArtTransformer2DModel", "num_layers": 28, "caption_channels": 4096, "sample_size": 128,
            "use_additional_conditions": False,
        },
        "vae": KL,
    },
    "HunyuanDiT-v1.2-Diffusers": {
        "transformer": {
            "_class_name": "HunyuanDiT2DModel", "num_layers": 40, "num_attention_heads": 16, "attention_head_dim": 88,
            "in_channels": 4, "mlp_ratio": 4.3637, "cross_attention_dim": 1024, "cross_attention_dim_t5": 2048,
            "pooled_projection_dim": 1024, "text_len": 77, "text_len_t5": 256, "sample_size": 128,
            "use_style_cond_and_image_meta_size": False,
        },
        "vae": KL,
    },
    "Wan2.1-T2V-1.3B-Diffusers": {
        "transformer": {
            "_class_name": "WanTransformer3DModel", "num_layers": 30, "num_attention_heads": 12,
            "attention_head_dim": 128, "ffn_dim": 8960,
        },
        "vae": {"_class_name": "AutoencoderKLWan"},
    },
    "CogVideoX1.5-5B": {
        "transformer": {
            "_class_name": "CogVideoXTransformer3DModel", "num_layers": 42, "num_attention_heads": 48,
            "attention_head_dim": 64, "patch_size_t": 2, "sample_width": 170, "sample_height": 96, "sample_frames": 81,
            "max_text_seq_length": 224, "use_rotary_positional_embeddings": True, "patch_bias": False,
        },
        "vae": {"_class_name": "AutoencoderKLCogVideoX"},
    },
    "HunyuanVideo": {
        "transformer": {"_class_name": "HunyuanVideoTransformer3DModel"},
        "vae": {"_class_name": "AutoencoderKLHunyuanVideo"},
    },
    "SANA1.5_1.6B_1024px_diffusers": {"transformer": {**SANA, "num_layers": 20}, "vae": DEEP},
    "SANA1.5_4.8B_1024px_diffusers": {"transformer": {**SANA, "num_layers": 60}, "vae": DEEP},
}  # fmt: skip
UNGUIDED = ("HunyuanVideo",)
MACHINES = {"H100": ("h100-sxm", "1xdgx-h100"), "B200": ("b200", "1xdgx-b200")}


@dataclass(frozen=True)
class Row:
    """A measured row and its prediction: seconds of the batch and joules of an item, each measured and predicted.

    `cost`: what the chips take, as predicted.
    """

    model: str
    chip: str
    gpus: int
    batch: int
    ulysses: int
    ring: int
    seconds: tuple[float, float]
    joules: tuple[float, float]
    cost: Cost

    @property
    def place(self) -> tuple[str, str, str]:
        """What the row is summed under."""
        how = f"{self.gpus} GPUs" if self.gpus > 1 else "one GPU"
        return how, self.model, self.chip


def predicted(row: dict[str, str]) -> Row | None:
    """A row with its prediction; None for models of other runtimes."""
    name = row["model"].split("/")[1]
    if name not in PIPELINES or row["gpu"] not in MACHINES:
        return None
    gpus, ulysses, ring, batch = (
        int(row[key]) for key in ("num_gpus", "ulysses_degree", "ring_degree", "batch_size")
    )  # fmt: skip
    chip, node = MACHINES[row["gpu"]]
    answer = rl.encode(
        {"_class_name": "Pipeline", **PIPELINES[name]}, on=chip if gpus == 1 else node,
        layout=layout_of(name, gpus, ulysses) if gpus > 1 else None, batch=batch,
        size=f"{row['width_px']}x{row['height_px']}", frames=int(row["frames"]) if row["frames"] else None,
        passes=int(row["denoising_steps"]), guidance=name not in UNGUIDED, engine="diffusers",
    )  # fmt: skip
    return Row(
        name, row["gpu"], gpus, batch, ulysses, ring, (float(row["batch_latency_s"]), answer.latency.expected),
        (float(row["joules_per_item"]), float(answer.joules_per_input or 0)), answer.cost,
    )  # fmt: skip


def layout_of(name: str, gpus: int, ulysses: int) -> str:
    """Sequence parallelism over all GPUs: Ulysses where it is a part and divides the heads, else a ring."""
    heads = PIPELINES[name]["transformer"].get("num_attention_heads", 24)
    return f"cp={gpus}" + (",exchange=ulysses" if ulysses > 1 and heads % gpus == 0 else "")


def error(pair: tuple[float, float]) -> float:
    """Error of a prediction, a share of what was measured."""
    return pair[1] / pair[0] - 1


def main(file: str, *words: str) -> None:
    """Print the errors."""
    sums: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    with Path(file).open(encoding="utf-8") as lines:
        for line in csv.DictReader(lines):
            row = predicted(line)
            if row is None:
                continue
            sums[row.place].append(row)
            if any(word in row.model for word in words):
                place = f"{row.model} {row.chip} x{row.gpus} u{row.ulysses} r{row.ring} b{row.batch}"
                sides = (f"{row.seconds[i]:.3g} s, {row.joules[i]:.4g} J" for i in (0, 1))
                print(f"{place}: measured {next(sides)}; predicted {next(sides)}")
    for place in ("one GPU", "2 GPUs", "4 GPUs", "8 GPUs", "any number"):
        kept = [(key, rows) for key, rows in sorted(sums.items()) if place in (key[0], "any number")]
        for (_, model, chip), rows in kept if place != "any number" else ():
            late, used = (
                [error(pair) for pair in pairs] for pairs in ([r.seconds for r in rows], [r.joules for r in rows])
            )
            print(
                f"{place:18} {model:30} {chip:5} {len(rows):4} rows: latency {median(map(abs, late)):5.0%} "
                f"({median(late):+.0%}), joules {median(map(abs, used)):5.0%} ({median(used):+.0%})"
            )
        everything = [row for _, rows in kept for row in rows]
        if everything:
            print(
                f"{place:18} {'all':30} {'':5} {len(everything):4} rows: "
                f"latency {median(abs(error(row.seconds)) for row in everything):5.0%}, "
                f"joules {median(abs(error(row.joules)) for row in everything):5.0%}"
            )


if __name__ == "__main__":
    main(*sys.argv[1:])
