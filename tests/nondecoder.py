"""Cases of models that are more than decoders: what their real classes hold and multiply, and the steps that ask us.

`python nondecoder.py FILE [WORDS…]` scores a file of such cases (`oracle-nondecoder.json`): for each kind how many have
exact parameters, and exact parameters and FLOPs (`torch` counting); then every miss whose id or kind has one of WORDS.
`--all` lists all misses.

`python nondecoder.py FILE --traced RESULTS [WORDS…]` scores the real code that a trace runs on shapes instead, each
step by its own call. It needs torch, transformers, diffusers and timm. A case has `SECONDS_EACH`; what is known goes to
RESULTS line by line, so that a second run goes on where the first ended; with WORDS those cases are scored anew and
nothing is kept.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import roofline as rl
from roofline.declared.numbers.maths import Count
from roofline.model.configs.config import Inputs
from roofline.work.ops import ExpertMatMul
from roofline.work.step import Step, read_whole

SAMPLES = ("input_values", "audio_values")
SPECTRA = ("input_features", "audio_features")
IMAGES = ("pixel_values", "flattened_patches", "pixel_values_videos")
STREAMS = (("images", IMAGES), ("sound", (*SAMPLES, *SPECTRA)))
CODED = {"x": "images", "z": "latents"}
"""What the two halves of an autoencoder read."""


@dataclass(frozen=True)
class Score:
    """How one case went: our parameters less the real ones, and of each step our FLOPs less the real ones.

    `refused`: the line in which we refuse it, or "".
    """

    id: str
    kind: str
    parameters: int | None
    flops: tuple[tuple[str, int | None], ...]
    refused: str = ""

    @property
    def exact(self) -> bool:
        """Whether parameters and the FLOPs of all steps are right."""
        return self.parameters == 0 and all(difference == 0 for _, difference in self.flops)


def inputs_of(shapes: Mapping[str, Any], channels: object = None) -> Inputs:
    """The sizes of an input by the shapes of its tensors; `channels` of a denoiser tell them from frames."""
    sizes: dict[str, Any] = {}
    packed = _packed(shapes)
    if packed is not None:
        return Inputs(patches=packed)
    pixels = shapes.get("pixel_values") or shapes.get("pixel_values_videos") or shapes.get("x")
    if pixels is not None and len(pixels) >= 4:
        sizes |= {"height": pixels[-2], "width": pixels[-1]}
        if len(pixels) == 5:
            sizes["frames"] = pixels[1] if pixels[2] == 3 else pixels[2]
    for name in SAMPLES:
        if name in shapes:
            sizes["samples"] = shapes[name][-1]
    for name in SPECTRA:
        if name in shapes:
            sizes["spectra"] = max(shapes[name][-2:])
    if "flattened_patches" in shapes:
        sizes["patches"] = shapes["flattened_patches"][1]
    if "encoder_hidden_states" in shapes:
        sizes["tokens"] = shapes["encoder_hidden_states"][1]
    hidden = shapes.get("hidden_states")
    if hidden is not None and len(hidden) == 3:
        sizes["patches"] = hidden[2] if hidden[1] == channels != hidden[2] else hidden[1]
    given = next((v for v in (shapes.get("sample"), shapes.get("z"), hidden) if v is not None and len(v) >= 4), None)
    if given is not None:
        # [batch, channels, height, width], or a video, whose frames some classes have before the channels
        before = given[1] != channels and given[2] == channels and "z" not in shapes
        frames = given[1] if before else given[2]
        sizes["latents"] = (frames if len(given) == 5 else 1, *given[-2:])
    return Inputs(**sizes)


def _packed(shapes: Mapping[str, Any]) -> int | None:
    """Number of patches that a tower takes in one row, whatever the images they come from."""
    if not {"grid_thw", "image_grid_thw"} & set(shapes):
        return None
    rows = shapes.get("pixel_values") or shapes.get("hidden_states")
    return rows[0] if rows else None


def shapes_of(step: Mapping[str, Any]) -> dict[str, Any]:
    """The shapes of a step's tensors; what a decoder of latents reads is `z`, whatever its class calls it."""
    shapes = dict(step["inputs"])
    return {"z": shapes["x"]} if step["what"] == "decode" and "x" in shapes else shapes


def step_of(model: rl.Model, what: str, of: str | None, shapes: Mapping[str, Any]) -> Step:
    """The step of a case, in our words."""
    tokens = shapes.get("decoder_input_ids") or shapes.get("input_ids") or shapes.get("inputs")
    source = shapes.get("input_ids") if "decoder_input_ids" in shapes else None
    # rows of the decoder may be codebooks
    batch = (source or tokens or next(v for v in shapes.values() if isinstance(v, list)))[0]
    if tokens is None and _packed(shapes) is not None:
        return read_whole(1, 1)
    if what == "decode" and "past" in shapes:
        step = rl.decode(batch, shapes["past"])
        cross = shapes.get("cross", {}).get("input_ids")
        return step if cross is None else step.reading("source", 0, cached=cross[1])
    asked = read_whole if what == "encode" or tokens is None else rl.prefill
    step = asked(batch, 1 if tokens is None else tokens[1])
    if source is not None:
        step = step.reading("source", source[1])
    positions = {tower.stream: tower.positions for tower in reversed(model.towers)}
    for stream, names in STREAMS:
        name = next((name for name in names if name in shapes), None)
        if stream in positions and name is not None:
            step = step.reading(stream, *_read(model, positions[stream], shapes, name))
    return step


def part_of(
    model: rl.Model, what: str, of: str | None, shapes: Mapping[str, Any], *, whole: bool = False
) -> tuple[rl.Model, Step]:
    """The model that a case runs, or the towers of it that it runs alone, and the step."""
    alone = what == "image" or (of or "").startswith(("get_image", "get_audio", "audio"))
    read = {tower.stream: tower.positions for tower in reversed(model.towers)}
    for name, stream in CODED.items():
        if name in shapes and stream in read:
            return model.alone(stream), read_whole(shapes[name][0], read[stream])
    for stream, names in STREAMS:
        name = next((name for name in names if name in shapes), None)
        if alone and stream in read and name is not None:
            positions, count = _read(model, read[stream], shapes, name)
            return model.alone(stream), read_whole(count, positions)
    if what == "encode" and "source" in read and "decoder_input_ids" not in shapes:
        batch, *rest = shapes.get("input_ids") or next(iter(shapes.values()))
        if whole and read["source"] is None:  # the class itself begins with one token
            return model, rl.prefill(batch, 1).reading("source", rest[0])
        return model.alone("source"), read_whole(batch, read["source"] or rest[0])
    return model, step_of(model, what, of, shapes)


def _read(model: rl.Model, positions: int | None, shapes: Mapping[str, Any], name: str) -> tuple[int, int]:
    """Positions of each input of a tower, and the number of inputs: of tiles, those that the image fills."""
    shape = shapes[name]
    if positions is not None and model.images is not None and "image_sizes" in shapes and len(shape) == 5:
        return positions, shape[0] * model.images.patches(shape[-1], shape[-2])[1]
    if positions is not None:
        return positions, shape[0] * (shape[1] if name == "pixel_values" and len(shape) == 5 else 1)
    grids = shapes.get("image_grid_thw") or shapes.get("grid_thw")
    if isinstance(grids, list) and grids and isinstance(grids[0], list):
        return prod(grids[0]), len(grids)
    return (shape[0], 1) if len(shape) == 2 or _packed(shapes) is not None else (shape[-2], shape[0])


def score(case: Mapping[str, Any]) -> Score:
    """One case."""
    sizes = Inputs()
    for step in case["steps"]:
        given = inputs_of(shapes_of(step) | step["inputs"].get("cross", {}), case["config"].get("in_channels"))
        sizes = Inputs(**{k: getattr(sizes, k) or v for k, v in vars(given).items()})
    try:
        model = rl.load(case["config"], inputs=sizes)
    except rl.InputError as error:
        return Score(case["id"], case["kind"], None, (), " ".join(str(error).split())[:150])
    flops = []
    for step in case["steps"]:
        name = step.get("of") or step["what"]
        try:
            part, asked = part_of(model, step["what"], step.get("of"), shapes_of(step), whole="whole" in step)
            analysis = rl.analyze(part, asked, counting="torch")
            ours = analysis.flops + (grouped(analysis) if case.get("experts") == "batched_mm" else 0)
        except rl.InputError as error:
            return Score(case["id"], case["kind"], None, (), " ".join(str(error).split())[:150])
        flops.append((name, int(ours) - step["flops"]))
    return Score(case["id"], case["kind"], model.parameters - case["parameters"], tuple(flops))


def grouped(analysis: rl.Analysis) -> Count:
    """FLOPs of experts that the published code multiplies in one product, for which torch has no formula."""
    experts = [(c.layers, c.op) for c in analysis.ops if isinstance(c.op, ExpertMatMul) and c.op.reference == "grouped"]
    return sum(layers * 2 * op.m * op.k * op.n for layers, op in experts)


def scores(path: Path) -> Iterator[Score]:
    """Every case of a file."""
    return (score(case) for case in json.loads(path.read_text("utf-8"))["cases"])


# -- by trace ----------------------------------------------------------------------------------------------------------
SECONDS_EACH = 120
"""Time of a case's steps."""
SLOW = 15
"""Seconds above which a case is listed though it is right."""


def calls_of(case: Mapping[str, Any]) -> Iterator[tuple[str, str | None, dict[str, Any], int]]:
    """Each step of a case as a call of its class: what it is, the method, the inputs by argument, its FLOPs.

    A table of sizes that one step gives by its values and another by its shape has the values in both.
    """
    values = {k: v for step in case["steps"] for k, v in step["inputs"].items() if _nested(v)}
    for step in case["steps"]:
        of = step.get("of") or ("forward" if "whole" in step else None)
        shapes = {k: values.get(k, v) for k, v in step["inputs"].items() if k != "cross_kv"}
        yield step["what"], of, shapes, step["flops"]


def _nested(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], list)


def score_traced(case: Mapping[str, Any]) -> Score:
    """One case by the trace of every step; of a case without steps, by that of a usual input."""
    asked = list(calls_of(case))
    parameters, flops = [], []
    try:
        for what, call, shapes, right in asked:
            model = rl.trace(case["config"], shapes=shapes, call=call)
            parameters.append(model.parameters - case["parameters"])
            flops.append((what, int(rl.analyze(model, rl.prefill(1, 1), counting="torch").flops) - right))
        if not asked:
            parameters.append(rl.trace(case["config"]).parameters - case["parameters"])
    except rl.InputError as error:
        reason = " ".join(str(error).split())
        return Score(case["id"], case["kind"], max(parameters, default=None), tuple(flops), reason)
    except TimeoutError:
        return Score(case["id"], case["kind"], None, (), f"longer than {SECONDS_EACH} s")
    return Score(case["id"], case["kind"], max(parameters, key=abs), tuple(flops))


def _too_long(number: int, frame: object) -> None:
    raise TimeoutError


def main_traced(file: str, results: str, *words: str) -> None:
    """Score all cases that are not yet in `results`, and print the table and every miss."""
    kept = Path(results)
    rows = [json.loads(line) for line in kept.read_text("utf-8").splitlines()] if kept.exists() and not words else []
    known = {row["id"] for row in rows}
    signal.signal(signal.SIGALRM, _too_long)
    for case in json.loads(Path(file).read_text("utf-8"))["cases"]:
        about = f"{case['id']} {case['kind']}".lower()
        if case["id"] in known or (words and not any(word.lower() in about for word in words)):
            continue
        begun = time.monotonic()
        signal.alarm(SECONDS_EACH)
        s = score_traced(case)
        signal.alarm(0)
        rows.append({**vars(s), "exact": s.exact, "seconds": round(time.monotonic() - begun, 1)})
        if not words:
            with kept.open("a", encoding="utf-8") as out:
                out.write(json.dumps(rows[-1]) + "\n")
    for row in rows:
        if not row["exact"] or row["refused"] or row["seconds"] > SLOW:
            flops = ", ".join(f"{name} {difference:+,}" for name, difference in row["flops"])
            why = row["refused"] or f"parameters {row['parameters']:+,}"
            print(f"{row['id']}: {why[:300]}; {flops} [{row['seconds']} s]")
    right = sum(row["exact"] and not row["refused"] for row in rows)
    held = sum(row["parameters"] == 0 for row in rows)
    longest = max((row["seconds"] for row in rows), default=0)
    print(f"{'all':32} {len(rows):4} parameters {held:4} exact {right:4} longest {longest} s")


def main(file: str, *words: str) -> None:
    """Print the table, and the misses that are asked for."""
    if words[:1] == ("--traced",):
        main_traced(file, *words[1:])
        return
    all_of, right, held = Counter[str](), Counter[str](), Counter[str]()
    for s in scores(Path(file)):
        all_of[s.kind] += 1
        right[s.kind] += s.exact
        held[s.kind] += s.parameters == 0
        if not s.exact and (words == ("--all",) or any(w.lower() in f"{s.id} {s.kind}".lower() for w in words)):
            flops = ", ".join(f"{name} {difference:+,}" for name, difference in s.flops)
            print(f"{s.id}: {s.refused or f'parameters {s.parameters:+,}; {flops}'}")
    for kind in all_of:
        print(f"{kind:32} {all_of[kind]:4} parameters {held[kind]:4} exact {right[kind]:4}")
    print(f"{'all':32} {all_of.total():4} parameters {held.total():4} exact {right.total():4}")


if __name__ == "__main__":
    main(*sys.argv[1:])
