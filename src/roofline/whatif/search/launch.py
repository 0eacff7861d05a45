"""`launch_files`: commands and manifests that serve a plan of a search, and what they cannot express.

Every option has a comment with the assumption behind it. Names of options are in `launch_names.toml`.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias, get_args

from roofline.declared.errors import InputError, not_one_of
from roofline.declared.sanitize import inert_line
from roofline.whatif.search.launch_options import ENGINES, Option, Role, Unsaid, roles_of
from roofline.whatif.search.serving.plans import ServingPlan

LauncherName: TypeAlias = Literal["vllm", "sglang", "trtllm", "dynamo", "k8s"]
LAUNCHERS: tuple[LauncherName, ...] = get_args(LauncherName)
PORT = 8000
IMAGES: Mapping[str, str] = {
    "vllm": "vllm/vllm-openai:latest", "sglang": "lmsysorg/sglang:latest",
    "trtllm": "nvcr.io/nvidia/tensorrt-llm/release",
}  # fmt: skip
RUNTIMES: Mapping[str, str] = {
    "vllm": "nvcr.io/nvidia/ai-dynamo/vllm-runtime", "sglang": "nvcr.io/nvidia/ai-dynamo/sglang-runtime",
}  # fmt: skip
"""Engine → container image, of which a version must be chosen."""


class LaunchFile(NamedTuple):
    """Name and text of a file."""

    name: str
    text: str


@dataclass(frozen=True)
class LaunchFiles:
    """Files that launch a plan, and what of the plan is `missing` from them."""

    launcher: str
    files: tuple[LaunchFile, ...]
    missing: tuple[str, ...]


def launch_files(plan: ServingPlan, launcher: str) -> LaunchFiles:
    """A shell script for each kind of replica, or one manifest for all.

    Raises InputError for an unknown launcher, and for an engine that the launcher does not run.
    """
    if launcher not in LAUNCHERS:
        raise not_one_of("emit", launcher, LAUNCHERS)
    theirs = plan.group.site.how.software or plan.group.site.how.id
    engine = launcher if launcher in ENGINES else theirs
    runs = RUNTIMES if launcher == "dynamo" else ENGINES
    if engine not in runs:
        raise InputError("emit", launcher, f"a plan of an engine that it runs: {', '.join(runs)}, not {engine}")
    roles = roles_of(plan)
    told = {role.name: tuple(ENGINES[engine].told(role)) for role in roles}
    options = {name: tuple(x for x in every if isinstance(x, Option)) for name, every in told.items()}
    missing = [x.what for every in told.values() for x in every if isinstance(x, Unsaid)]
    if engine != theirs:
        missing.insert(0, f"the plan's figures are those of {plan.engine}")
    if engine == "trtllm" and launcher == "k8s":
        missing += [f"{role.name}.yaml as a volume of its containers" for role in roles if _extra(role)]
    missing = list(dict.fromkeys(missing))
    head = _head(plan, missing)
    if launcher == "k8s":
        files = [LaunchFile("deployment.yaml", _commented(head) + _deployments(engine, roles, options))]
    elif launcher == "dynamo":
        files = [LaunchFile("graph.yaml", _commented(head) + _graph(engine, roles, options))]
    else:
        files = [LaunchFile(f"{role.name}.sh", _script(engine, role, options[role.name], head)) for role in roles]
    if engine == "trtllm":
        files += [LaunchFile(f"{role.name}.yaml", _commented(head) + text) for role in roles if (text := _extra(role))]
    if engine == "trtllm" and launcher == "trtllm" and plan.prefill is not None:
        files.append(LaunchFile("disagg.yaml", _commented(head) + _orchestration(roles)))
    return LaunchFiles(launcher, tuple(files), tuple(missing))


def _head(plan: ServingPlan, missing: Iterable[str]) -> list[str]:
    demand = plan.demand
    asked = f"{plan.requests.input} tokens in, {demand.output_tokens} out, {plan.concurrency} requests in flight in all"
    parts = [f"{plan.replicas} × {plan.layout} on {plan.on}"]
    if plan.prefill is not None:
        parts.insert(0, f"{plan.prefills} × {plan.prefill_layout} on {plan.prefill_on}, prefill")
    times = f"TTFT {float(plan.ttft.expected) * 1e3:.0f} ms, TPOT {float(plan.tpot.expected) * 1e3:.2f} ms expected"
    return [
        f"{plan.model.name}: {'; '.join(parts)}", f"{asked}: {times}, {plan.tokens_per_second:,.0f} tokens/s",
        *(f"not expressed: {what}" for what in missing),
    ]  # fmt: skip


def _commented(lines: Iterable[str]) -> str:
    return "".join(f"# {inert_line(line)}\n" for line in lines)


def _script(engine: str, role: Role, options: Iterable[Option], head: Iterable[str]) -> str:
    """A shell script with one argument per line."""
    how = f"one replica on {role.chips} chips; {role.replicas} of them, each on chips and a port of its own"
    lines = [
        f"set -- {' '.join(map(shlex.quote, ENGINES[engine].command(role.model)))}  # the engine and the checkpoint"
    ]
    lines += [
        f'set -- "$@" {_words(o)}  # {inert_line(o.why)}'
        for o in (*options, *_address("another one for each replica of a machine"))
    ]
    return "#!/bin/sh\n" + _commented((*head, f"{role.name}: {how}")) + "\n".join((*lines, 'exec "$@"\n'))


def _words(option: Option) -> str:
    return option.name if option.value is None else f"{option.name} {shlex.quote(str(option.value))}"


def _address(why: str) -> Iterator[Option]:
    yield Option("--host", "0.0.0.0", "reached from other machines")
    yield Option("--port", PORT, why)


def _items(words: Iterable[str], options: Iterable[Option], indent: int) -> str:
    """Arguments as a YAML list, one per line."""
    lines = [json.dumps(word) for word in words]
    lines += [f"{json.dumps(_joined(o))}  # {inert_line(o.why)}" for o in options]
    return "".join(f"{' ' * indent}- {line}\n" for line in lines)


def _joined(option: Option) -> str:
    return option.name if option.value is None else f"{option.name}={option.value}"


def _deployments(engine: str, roles: Iterable[Role], options: Mapping[str, tuple[Option, ...]]) -> str:
    """A Kubernetes Deployment and a Service for each kind of replica."""
    documents = []
    for role in roles:
        name = f"{engine}-{role.name}"
        command = _items(ENGINES[engine].command(role.model), (), 12)
        arguments = _items((), (*options[role.name], *_address("that of the Service below")), 12)
        documents.append(
            f"apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {name}\nspec:\n"
            f"  replicas: {role.replicas}\n  selector:\n    matchLabels:\n      app: {name}\n"
            f"  template:\n    metadata:\n      labels:\n        app: {name}\n    spec:\n      containers:\n"
            f"        - name: {name}\n          image: {IMAGES[engine]}  # choose the version that was estimated\n"
            f"          command:\n{command}          args:\n{arguments}"
            f"          ports:\n            - containerPort: {PORT}\n"
            "          resources:\n            limits:\n"
            f"              {role.resource}: {role.chips}  # of one replica\n"
            "          volumeMounts:\n            - name: shm\n              mountPath: /dev/shm\n"
            "      volumes:\n        - name: shm  # what ranks share\n          emptyDir:\n            medium: Memory\n"
        )
        documents.append(
            f"apiVersion: v1\nkind: Service\nmetadata:\n  name: {name}\nspec:\n  selector:\n    app: {name}\n"
            f"  ports:\n    - port: {PORT}\n"
        )
    return "---\n".join(documents)


def _graph(engine: str, roles: Iterable[Role], options: Mapping[str, tuple[Option, ...]]) -> str:
    """A DynamoGraphDeployment: the frontend, and a worker service for each kind of replica."""
    model = "--model" if engine == "vllm" else "--model-path"
    workers = ""
    for role in roles:
        mode = (Option("--disaggregation-mode", role.name, "this pool's phase"),) if role.pooled else ()
        own = tuple(o for o in options[role.name] if o.name != "--disaggregation-mode")
        arguments = (Option(model, role.model, "the checkpoint"), *own, *mode)
        command = _items(("python3", "-m", f"dynamo.{engine}"), (), 12)
        workers += (
            f"    {role.name.capitalize()}Worker:\n      componentType: worker\n      replicas: {role.replicas}\n"
            f'      resources:\n        limits:\n          gpu: "{role.chips}"  # of one replica\n'
            f"      extraPodSpec:\n        mainContainer:\n"
            f"          image: {RUNTIMES[engine]}  # choose the version that was estimated\n"
            f"          command:\n{command}          args:\n{_items((), arguments, 12)}"
        )
    front = _items(("python3", "-m", "dynamo.frontend"), (), 12)
    return (
        "apiVersion: nvidia.com/v1alpha1\nkind: DynamoGraphDeployment\n"
        "metadata:\n  name: roofline\nspec:\n  services:\n"
        "    Frontend:\n      componentType: main\n      replicas: 1\n      extraPodSpec:\n        mainContainer:\n"
        f"          image: {RUNTIMES[engine]}\n          command:\n{front}"
        f"          args:\n{_items((), (Option('--http-port', PORT, 'where requests arrive'),), 12)}{workers}"
    )


def _extra(role: Role) -> str:
    """TensorRT-LLM's YAML options: attention data parallelism, the cache's format and its transfer."""
    lines = []
    if role.dp > 1:
        lines.append("enable_attention_dp: true  # each rank attends to requests of its own")
    if role.kv != "bf16":
        lines.append(f"kv_cache_config:\n  dtype: {role.kv}  # the format that was estimated")
    if role.pooled:
        lines.append("cache_transceiver_config:\n  backend: DEFAULT  # caches travel between the pools")
    if role.name == "prefill":
        lines.append("disable_overlap_scheduler: true  # as context servers have it")
    return "".join(f"{line}\n" for line in lines)


def _orchestration(roles: Iterable[Role]) -> str:
    """Config of `trtllm-serve disaggregated -c`: addresses of the context and generation servers."""
    text = f"hostname: localhost\nport: {PORT}\nbackend: pytorch\n"
    for role in roles:
        key = "context_servers" if role.name == "prefill" else "generation_servers"
        urls = "".join(f'    - "{role.name}-{i}:{PORT}"  # replace by its host\n' for i in range(role.replicas))
        text += f"{key}:\n  num_instances: {role.replicas}\n  urls:\n{urls}"
    return text
