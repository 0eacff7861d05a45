"""A GGUF file for the tests, small enough to write each time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter

WIDTH, LAYERS, VOCABULARY = 256, 2, 512


def write_gguf(path: Path) -> None:
    """A small Llama, by the reference writer, whose weights are 8-bit blocks and whose norms are fp32."""
    writer = GGUFWriter(path, "llama")
    writer.add_name("Small")
    writer.add_context_length(2048)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(2 * WIDTH)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_token_list([f"t{i}" for i in range(VOCABULARY)])
    sides = {"attn_q": (256, 256), "attn_k": (128, 256), "attn_v": (128, 256), "attn_output": (256, 256),
             "ffn_gate": (512, 256), "ffn_up": (512, 256), "ffn_down": (256, 512)}  # fmt: skip
    matrices = {f"blk.{i}.{name}.weight": side for i in range(LAYERS) for name, side in sides.items()}
    matrices |= {"token_embd.weight": (VOCABULARY, WIDTH), "output.weight": (VOCABULARY, WIDTH)}
    vectors = [f"blk.{i}.{name}.weight" for i in range(LAYERS) for name in ("attn_norm", "ffn_norm")]
    for name, (rows, columns) in matrices.items():
        blocks = np.zeros((rows, columns // 32 * 34), dtype=np.uint8)
        writer.add_tensor(name, blocks, raw_dtype=GGMLQuantizationType.Q8_0)
    for name in (*vectors, "output_norm.weight"):
        writer.add_tensor(name, np.zeros(WIDTH, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
