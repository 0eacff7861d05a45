"""llama.cpp on this machine's CPU against `--on here`: a model of random weights in three formats, its memory too.

    pip install llama-cpp-python gguf
    python benchmarks/llama_cpp_here.py [--threads N]

The model is written by the `gguf` package, in a folder that is removed. A prompt of 512 tokens is read and 24 tokens
are generated, three times; the median counts. Memory: llama.cpp's own log of its buffers against `roofline fit`, but
for the copies that its CPU kernels make of weights in another order (CPU_REPACK), beside which the file stays mapped.
"""

import argparse
import ctypes
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import roofline as rl
from roofline.hardware.detect.recognise import this_machine

HIDDEN, WIDTH, LAYERS, HEADS, GROUPS, VOCABULARY = 1536, 4096, 16, 12, 4, 32000
PROMPT, ANSWER, CONTEXT, TIMES = 512, 24, 1024, 3
FORMATS = ("f16", "q8_0", "q4_0")


@dataclass(frozen=True)
class Measured:
    """Seconds of the prompt and of a token, and the bytes of every buffer that llama.cpp's log names."""

    prompt: float
    token: float
    buffers: dict[str, float]


def write_model(path: Path, fmt: str) -> None:
    """A Llama of random weights."""
    import gguf

    kind = {"f16": gguf.GGMLQuantizationType.F16, "q8_0": gguf.GGMLQuantizationType.Q8_0,
            "q4_0": gguf.GGMLQuantizationType.Q4_0}[fmt]  # fmt: skip
    draw, size = np.random.default_rng(0), HIDDEN // HEADS
    w = gguf.GGUFWriter(path, "llama")
    w.add_context_length(4096)
    w.add_embedding_length(HIDDEN)
    w.add_block_count(LAYERS)
    w.add_feed_forward_length(WIDTH)
    w.add_head_count(HEADS)
    w.add_head_count_kv(GROUPS)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_rope_dimension_count(size)
    w.add_vocab_size(VOCABULARY)
    w.add_file_type({"f16": 1, "q8_0": 7, "q4_0": 2}[fmt])
    w.add_tokenizer_model("llama")
    w.add_token_list([f"t{i}".encode() for i in range(VOCABULARY)])
    w.add_token_scores([0.0] * VOCABULARY)
    w.add_token_types([1] * VOCABULARY)

    def matrix(name: str, rows: int, columns: int) -> None:
        values = draw.standard_normal((rows, columns), dtype=np.float32) * np.float32(0.02)
        if fmt == "f16":
            w.add_tensor(f"{name}.weight", values.astype(np.float16))
        else:
            w.add_tensor(f"{name}.weight", gguf.quants.quantize(values, kind), raw_dtype=kind)

    matrix("token_embd", VOCABULARY, HIDDEN)
    matrix("output", VOCABULARY, HIDDEN)
    w.add_tensor("output_norm.weight", np.ones(HIDDEN, np.float32))
    for layer in range(LAYERS):
        block = f"blk.{layer}."
        for norm in ("attn_norm", "ffn_norm"):
            w.add_tensor(f"{block}{norm}.weight", np.ones(HIDDEN, np.float32))
        for name, rows, columns in (
            ("attn_q", HIDDEN, HIDDEN), ("attn_k", GROUPS * size, HIDDEN), ("attn_v", GROUPS * size, HIDDEN),
            ("attn_output", HIDDEN, HIDDEN), ("ffn_gate", WIDTH, HIDDEN), ("ffn_up", WIDTH, HIDDEN),
            ("ffn_down", HIDDEN, WIDTH),
        ):  # fmt: skip
            matrix(block + name, rows, columns)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def measured(path: Path, threads: int) -> Measured:
    """What llama.cpp takes, by its C interface: no sampling, no tokenizer."""
    import llama_cpp as lc

    said: list[str] = []

    @lc.llama_log_callback
    def log(_: int, text: bytes, __: Any) -> None:
        said.append(text.decode(errors="replace"))

    lc.llama_log_set(log, ctypes.c_void_p(0))
    options = {"n_ctx": CONTEXT, "n_batch": PROMPT, "n_ubatch": PROMPT, "n_threads": threads}
    llama = lc.Llama(str(path), **options, n_threads_batch=threads, verbose=True)
    lc.llama_log_set(log, ctypes.c_void_p(0))
    context = llama.ctx

    def decode(tokens: list[int], position: int) -> float:
        batch = lc.llama_batch_init(len(tokens), 0, 1)
        batch.n_tokens = len(tokens)
        for i, token in enumerate(tokens):
            batch.token[i], batch.pos[i], batch.n_seq_id[i] = token, position + i, 1
            batch.seq_id[i][0], batch.logits[i] = 0, i == len(tokens) - 1
        start = time.perf_counter()
        if lc.llama_decode(context, batch):
            raise RuntimeError("llama_decode failed")
        lc.llama_synchronize(context)
        taken = time.perf_counter() - start
        lc.llama_batch_free(batch)
        return taken

    prompts, answers = [], []
    for _ in range(TIMES):
        lc.llama_memory_clear(lc.llama_get_memory(context), True)
        prompts.append(decode([5 + i for i in range(PROMPT)], 0))
        answers += [decode([7], PROMPT + i) for i in range(ANSWER)]
    llama.close()
    return Measured(median(prompts), median(answers), dict(buffers("".join(said))))


def buffers(log: str) -> Iterator[tuple[str, float]]:
    """Buffers that a log names, bytes: model, KV, output and compute."""
    for name in ("model", "KV", "output", "compute"):
        sizes = re.findall(rf"(?<!REPACK) {name} buffer size\s*=\s*([\d.]+) MiB", log)
        if sizes:
            yield name, sum(map(float, sizes)) * 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    given = parser.parse_args()
    machine = this_machine()
    chip = machine.chip
    print(f"{chip.name}, {given.threads} threads, {chip.bandwidth / 1e9:.1f} GB/s; load {os.getloadavg()[0]:.1f}")
    errors, held = [], []
    with TemporaryDirectory() as folder:
        for fmt in FORMATS:
            path = Path(folder) / f"{fmt}.gguf"
            write_model(path, fmt)
            real = measured(path, given.threads)
            g = rl.generate(str(path), on=chip, engine="llama.cpp", input=PROMPT, output=ANSWER + 1)
            for what, seconds, span in (("prompt", real.prompt, g.ttft), ("token", real.token, g.tpot)):
                off = span.expected / seconds - 1
                errors.append(abs(off))
                inside = "inside" if span.low <= seconds <= span.high else "outside"
                print(f"  {fmt:5} {what:7} measured {seconds * 1e3:8.2f} ms  predicted {span.expected * 1e3:8.2f} ms "
                      f"({off:+.1%}), floor {span.floor * 1e3:.2f} ms, {inside} the interval")  # fmt: skip
            memory = rl.fit(str(path), on=chip, engine="llama.cpp", context=CONTEXT).memory
            ours = {"model": memory.weights, "KV": memory.cache, "compute": memory.activations}
            for name, size in ours.items():
                off = size / real.buffers[name] - 1
                held.append(abs(off))
                print(f"  {fmt:5} {name:7} logged {real.buffers[name] / 1e6:10.2f} MB  ours {size / 1e6:10.2f} MB "
                      f"({off:+.2%})")  # fmt: skip
            path.unlink()
    print(f"times: median error {median(errors):.1%}, largest {max(errors):.1%}; memory: largest {max(held):.2%}")


if __name__ == "__main__":
    main()
