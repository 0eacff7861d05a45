"""What `--emit` writes, loaded by the framework's own code of the release that it names.

    pip download --no-deps torchtitan==0.3.0 megatron-core==0.16.1 megatron-bridge==0.3.1 deepspeed==0.19.8
    pip download --no-deps --python-version 3.12 --only-binary=:all: maxtext==0.2.5
    PYTHONPATH=src:UNPACKED python benchmarks/emitted_configs.py UNPACKED [FRAMEWORK]

UNPACKED has the packages' sources side by side. torchtitan: its `Trainer.Config`, on which the written function sets
fields. DeepSpeed: its `DeepSpeedConfig`, which checks batch sizes. Megatron Core: `TransformerConfig`,
`OptimizerConfig` and `DistributedDataParallelConfig` made with the written values. MaxText: its `MaxTextConfig` with
its checks, on as many devices; JAX is left empty. Megatron Bridge needs Transformer
Engine to be imported, so its classes are read from the source. Modules that need a GPU or a package that is not there
are left empty.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib.abc
import importlib.machinery
import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import yaml

import roofline as rl
from roofline.training.emit.make import hand_over

EMPTY = (
    "torchtitan.distributed.minimal_async_ep", "torchtitan.distributed.deepep", "torchvision", "datasets",
    "tensorboard", "torch.utils.tensorboard", "torchdata", "jax", "flax", "maxtext.utils.gcs_utils",
    "maxtext.utils.max_logging", "maxtext.utils.max_utils", "maxtext.utils.elastic_utils",
)  # fmt: skip
"""Modules that no config class needs."""
DENSE, MIXTURE = "meta-llama/Llama-3.1-8B", "Qwen/Qwen3-30B-A3B"
LAYOUTS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    (DENSE, "dp=64,zero=3", {}), (DENSE, "dp=64,zero=1", {"optimizer": "adamw-bf16"}),
    (DENSE, "tp=4,sp,dp=16,zero=1", {"overlap": "dp,tp"}), (DENSE, "dp=64,zero=2", {"recompute": "full"}),
    (DENSE, "tp=2,sp,pp=4,dp=8,zero=1", {"recompute": "op"}), (DENSE, "pp=4,vp=2,dp=16,zero=1", {}),
    (DENSE, "cp=4,dp=16,zero=1", {"recipe": "fp8"}), (DENSE, "cp=4,dp=16,zero=3", {"recompute": "attention,"}),
    (DENSE, "dp=64,zero=1", {"optimizer": "muon"}), (DENSE, "dp=64,zero=1", {"offload": "optimizer"}),
    (DENSE, "pp=3,dp=16,stages=10+12+10", {}), (DENSE, "dp=64,zero=3,shard=8", {}),
    (MIXTURE, "ep=8,dp=64,zero=1", {}), (MIXTURE, "ep=8,pp=2,dp=32,zero=1", {"recompute": "full"}),
    (MIXTURE, "tp=2,sp,ep=4,etp=1,dp=32,zero=1", {"recipe": "mxfp8"}),
)  # fmt: skip


class NamesOf(ModuleType):
    """A module of which every name is a class without anything in it."""

    __path__: ClassVar[list[str]] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


class Left(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Makes EMPTY modules of which every name exists."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        left = any(name == module or name.startswith(f"{module}.") for module in EMPTY)
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if left else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return NamesOf(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to run."""


def emitted(framework: str) -> Iterator[tuple[str, Any, Any]]:
    """Every case: its words, the estimate, and what is handed over."""
    engine = {"torchtitan": "torchtitan", "deepspeed": "deepspeed", "maxtext": "maxtext"}.get(framework, "megatron")
    for model, layout, options in LAYOUTS:
        on = f"{6 if 'pp=3' in layout else 8}xdgx-h100"
        e = rl.train(model, batch=256, tokens=4096, on=on, layout=layout, engine=engine, **options)
        yield f"{model}, {layout}, {options}", e, hand_over(e, framework)


def torchtitan(e: Any, text: str, _: Path) -> None:
    """Its function on its config: fields exist, and keep their checks."""
    from torchtitan.trainer import Trainer

    config = Trainer.Config()
    space: dict[str, Any] = {}
    exec(compile(text, "planned", "exec"), space)  # classes have slots: a field that is not there is an error
    space["planned"](config)
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(value) and not isinstance(value, type) and hasattr(value, "__post_init__"):
            value.__post_init__()
    chips, p = int(e.chips), config.parallelism
    ranks = p.data_parallel_replicate_degree * p.data_parallel_shard_degree * p.tensor_parallel_degree
    if ranks * p.context_parallel_degree * p.pipeline_parallel_degree != chips:
        raise ValueError(f"degrees do not multiply to {chips}")
    if p.pipeline_parallel_degree > 1:
        from torch.distributed.pipelining.schedules import get_schedule_class

        get_schedule_class(p.pipeline_parallel_schedule)


def deepspeed(e: Any, text: str, _: Path) -> None:
    """Its config, in a world of as many replicas."""
    from deepspeed.runtime import config
    from deepspeed.runtime.config import DeepSpeedConfig

    config.dist.get_rank = lambda: 0  # a process group would need the other ranks

    class Replicas:
        def get_data_parallel_world_size(self) -> int:
            return int(e.asked.layout.dp)

        def get_sequence_data_parallel_world_size(self) -> int:
            return int(e.asked.layout.dp)

    read = DeepSpeedConfig(json.loads(text), mpu=Replicas())
    found = (read.train_batch_size, read.train_micro_batch_size_per_gpu, read.zero_config.stage)
    if found != (int(e.batch), int(e.micro_batch), e.asked.layout.zero):
        raise ValueError(f"read {found}")


def _classes(*paths: Path) -> Mapping[str, set[str]]:
    """Names of the fields of every class in the sources, those of its bases in them included."""
    own: dict[str, set[str]] = {}
    bases: dict[str, set[str]] = {}
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                fields = {ast.unparse(x.target) for x in node.body if isinstance(x, ast.AnnAssign)}
                own[node.name] = own.get(node.name, set()) | fields
                bases.setdefault(node.name, set()).update(ast.unparse(b).rpartition(".")[2] for b in node.bases)

    def every(name: str, below: frozenset[str] = frozenset()) -> set[str]:
        further = bases.get(name, set()) - below - {name}
        return own.get(name, set()).union(*(every(b, below | {name}) for b in further))

    return {name: every(name) for name in own}


CORE = (
    "core/transformer/transformer_config.py", "core/model_parallel_config.py", "core/optimizer/optimizer_config.py",
    "core/distributed/distributed_data_parallel_config.py",
)  # fmt: skip
SECTIONS = {
    "model": ("TransformerConfig", "GPTModelProvider"), "ddp": ("DistributedDataParallelConfig",),
    "optimizer": ("OptimizerConfig",), "train": ("TrainingConfig",), "checkpoint": ("CheckpointConfig",),
    "dataset": ("DatasetProvider", "GPTDatasetConfig"), "comm_overlap": ("CommOverlapConfig",),
}  # fmt: skip
"""Section of Bridge's config → its classes."""


def bridge(e: Any, text: str, folder: Path) -> None:
    """Every section and field in the sources of Bridge and Core."""
    core = [folder / "megatron" / path for path in CORE]
    own = (folder / "megatron" / "bridge").rglob("*.py")
    classes = _classes(*core, *(p for p in own if p.parent.name in ("training", "models", "gpt", "utils") or
                                p.name.endswith(("config.py", "provider.py"))))  # fmt: skip
    for section, fields in yaml.safe_load(text).items():
        if section == "mixed_precision":
            continue
        known = set().union(*(classes.get(name, set()) for name in SECTIONS[section]))
        if section == "dataset":
            known |= {"seq_length"} & set().union(*classes.values())
        for name in fields:
            if name not in known:
                raise ValueError(f"{section}.{name}: no field of {', '.join(SECTIONS[section])}")


def megatron(e: Any, text: str, folder: Path) -> None:
    """The fields of Megatron Core behind the flags, by its own classes with their checks.

    Flags that belong to no class of Core are Megatron-LM's own: the wheel does not have its parser, so they are named.
    """
    import torch
    from megatron.core import utils
    from megatron.core.distributed.distributed_data_parallel_config import DistributedDataParallelConfig
    from megatron.core.optimizer.optimizer_config import OptimizerConfig
    from megatron.core.transformer.transformer_config import TransformerConfig

    utils._te_version = utils.PkgVersion("2.9")  # of Transformer Engine, which needs a GPU; none is called
    told = {x.name.rpartition(".")[2]: x.value for x in hand_over(e, "bridge").settings}
    model = {"num_layers": len(e.model.layers), "hidden_size": e.model.hidden, "num_attention_heads": 32}
    if "expert_model_parallel_size" in told:
        model["num_moe_experts"] = next(x.experts for x, _ in e.model.modules() if hasattr(x, "held"))
    for kind, given in (
        (TransformerConfig, {**model, "params_dtype": torch.bfloat16, "pipeline_dtype": torch.bfloat16, "bf16": True}),
        (OptimizerConfig, {}), (DistributedDataParallelConfig, {}),
    ):  # fmt: skip
        names = {field.name for field in dataclasses.fields(kind)}
        chosen = {name: list(v) if isinstance(v, tuple) else v for name, v in told.items() if name in names}
        if "exp_avg_dtype" not in chosen:  # Core looks for Transformer Engine's FusedAdam; the names are its own
            kind(**{**given, **chosen})
    known = set().union(*_classes(*(folder / "megatron" / path for path in CORE)).values())
    LAUNCHER.update(name for name in told if name not in known)


def maxtext(e: Any, text: str, folder: Path) -> None:
    """The axes of its base.yml and the written settings, by `MaxTextConfig` on as many devices."""
    import flax
    import jax

    flax.struct = dataclasses
    from maxtext.configs import types
    from maxtext.utils import max_utils

    jax.devices, jax.local_device_count = lambda: [None] * int(e.chips), lambda: 8
    written = yaml.safe_load(text)
    slices = [value for name, value in written.items() if name.startswith("dcn_")]
    max_utils.get_num_slices = lambda _: math.prod(slices)
    base = yaml.safe_load((folder / "maxtext" / "configs" / "base.yml").read_text(encoding="utf-8"))
    model = {name: base[name] for name in ("mesh_axes", "logical_axis_rules", "data_sharding")}
    model |= {"base_num_decoder_layers": len(e.model.layers), "decoder_block": DECODERS[e.model.model_type]}
    read = types.MaxTextConfig(**model, run_name="planned", **written)
    if read.global_batch_size_to_train_on != int(e.batch):
        raise ValueError(f"read {read.global_batch_size_to_train_on}")


DECODERS = {"llama": "llama2", "qwen3_moe": "qwen3_moe"}
"""Type of a model → MaxText's name of its decoder."""
LAUNCHER: set[str] = set()
"""Fields that Megatron Core's classes do not have: flags of Megatron-LM's own parser."""
BEYOND = {"maxtext": "stages of"}
"""Framework → the words of what it cannot express at all, so that the config is not that of the layout."""
LOADED: Mapping[str, Callable[[Any, str, Path], None]] = {
    "torchtitan": torchtitan, "deepspeed": deepspeed, "megatron": megatron, "bridge": bridge, "maxtext": maxtext,
}  # fmt: skip


def main(words: list[str]) -> int:
    """Prints what is refused, and a line for each framework."""
    folder, failed = Path(words[0]), 0
    sys.meta_path.insert(0, Left())
    for framework, load in LOADED.items():
        if words[1:] and framework not in words[1:]:
            continue
        refused, beyond = [], 0
        for case, e, handed in emitted(framework):
            try:
                load(e, handed.text, folder)
            except Exception as error:  # whatever the framework's own checks raise
                if any(words.startswith(BEYOND.get(framework, "-")) for words in handed.missing):
                    beyond += 1
                    continue
                refused.append(f"  {case}: {type(error).__name__}: {str(error)[:200]}; not expressed: {handed.missing}")
        failed += len(refused)
        loaded, told = len(LAYOUTS) - len(refused) - beyond, f", {beyond} cannot be expressed" if beyond else ""
        print(f"{framework} {handed.release}: {loaded} of {len(LAYOUTS)} configs load{told}")
        print("\n".join(refused), end="\n" if refused else "")
    if LAUNCHER:
        print(f"by Megatron-LM's own parser alone, not loaded: {', '.join(sorted(LAUNCHER))}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
