"""Parse the output of nvidia-smi, rocm-smi, system_profiler, sysctl, lscpu, dmidecode and files of /proc.

Each function takes a tool's output in any of its common formats and returns the devices in it. A text without the
expected information gives an empty result: a missing device is no error here; callers report it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import pairwise

from roofline.declared.trees import JsonValue
from roofline.hardware.detect.devices import GIB, MIB, MOST_DEVICES, Dimms, Gpu, Processor

_SIZES = {"b": 1, "k": 2**10, "m": MIB, "g": GIB, "t": 2**40}
_SIZE = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)\s*(?:([KMGT])i?B|B|([KMG]))\b", re.IGNORECASE)


# -- NVIDIA ----------------------------------------------------------------------------------------------------------
_SMI_NAME = re.compile(
    r"^[ \t#]*\|\s+\d{1,3}\s+(?P<name>[A-Za-z].*?)\s+(?:On|Off|N/A|TCC|WDDM|MCDM)\s*\|", re.MULTILINE
)
_SMI_MEMORY = re.compile(r"\|\s*\d{1,9}\s*MiB\s*/\s*(?P<total>\d{1,9})\s*MiB\s*\|")
_SMI_LISTED = re.compile(r"^GPU \d{1,3}: (?P<name>.+?) \(UUID: ", re.MULTILINE)


def gpus_of_nvidia_smi(text: str) -> tuple[Gpu, ...]:
    """GPUs in the output of nvidia-smi: its table, `-L`, `-q`, or CSV with the columns name and memory.total."""
    if "Product Name" in text:
        every = list(_long_list(text))
    elif "MiB /" in text or "NVIDIA-SMI" in text:
        every = list(_table(text))
    elif _SMI_LISTED.search(text):
        every = [Gpu(m["name"]) for m in _SMI_LISTED.finditer(text)]
    else:
        every = list(_comma_separated(text))
    return tuple(every[:MOST_DEVICES])


def _table(text: str) -> Iterator[Gpu]:
    """Parse the table: a GPU is a line with its name, followed by a line with its memory use."""
    for m, following in pairwise([*_SMI_NAME.finditer(text), None]):
        if m is None:
            return
        end = following.start() if following else len(text)
        memory = _SMI_MEMORY.search(text, m.end(), end)
        name = m["name"]
        yield Gpu(name.rstrip("."), float(memory["total"]) * MIB if memory else None, cut=name.endswith(".."))


def _long_list(text: str) -> Iterator[Gpu]:
    for part in re.split(r"^\s*Product Name\s*:\s*", text, flags=re.MULTILINE)[1:]:
        memory = re.search(r"FB Memory Usage\s+Total\s*:\s*(\d{1,9}) MiB", part)
        yield Gpu(part.partition("\n")[0].strip(), float(memory[1]) * MIB if memory else None)


_ROW = re.compile(r"(?P<name>[A-Za-z][^,]{1,80}),\s*(?P<total>\d{1,9}|\[N/A\]|N/A)", re.ASCII)


def _comma_separated(text: str) -> Iterator[Gpu]:
    """Parse CSV; without a header, the columns are `name, memory.total`. Memory is in MiB, with or without the unit."""
    lines = [line[:1000] for line in text.splitlines()[:MOST_DEVICES]]
    header = [field.strip().partition(" ")[0] for field in lines[0].split(",")] if lines else []
    if "name" in header:
        lines = lines[1:]
    else:
        header = ["name", "memory.total"]
    wanted = [header.index(column) for column in ("name", "memory.total") if column in header]
    for line in lines:
        fields = [field.strip() for field in line.split(",")]
        if len(fields) < len(header) or len(wanted) < 2:
            continue
        row = _ROW.match(", ".join(fields[place] for place in wanted))
        if row:
            yield Gpu(row["name"].strip(), float(row["total"]) * MIB if row["total"].isdigit() else None)


# -- AMD -------------------------------------------------------------------------------------------------------------
_ROCM_LINE = re.compile(
    r"^[ \t]*GPU\[(?P<place>\d{1,3})\]\s*:\s*(?P<key>[^:]+?)\s*:\s*(?P<value>.+?)\s*$", re.MULTILINE
)
_NO_NAME = re.compile(r"0x[0-9a-f]+|n/?a|", re.IGNORECASE)
_ROCM_NAMES = ("card series", "market name", "marketing name", "product name", "card model", "device name")


def gpus_of_rocm_smi(text: str) -> tuple[Gpu, ...]:
    """GPUs in the output of rocm-smi, amd-smi or rocminfo, as text or JSON: names, memory and compute units."""
    stripped = text.lstrip()
    if stripped.startswith(("{", "[")):
        return tuple(_rocm_json(stripped))[:MOST_DEVICES]
    if "Marketing Name:" in text and "GPU[" not in text:
        return tuple(_rocminfo(text))[:MOST_DEVICES]
    cards: dict[str, dict[str, str]] = {}
    for m in _ROCM_LINE.finditer(text):
        cards.setdefault(m["place"], {})[m["key"].lower()] = m["value"]
    return tuple(gpu for gpu in map(_rocm_card, cards.values()) if gpu)[:MOST_DEVICES]


def _rocm_json(text: str) -> Iterator[Gpu]:
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError):
        return
    cards = tree if isinstance(tree, list) else [c for name, c in sorted(tree.items()) if name.startswith("card")]
    for card in cards[:MOST_DEVICES]:
        flat = {k.lower().replace("_", " "): str(v) for k, v in _leaves_of_tree(card)}
        gpu = _rocm_card(flat)
        if gpu:
            yield gpu


def _leaves_of_tree(tree: JsonValue, depth: int = 0) -> Iterator[tuple[str, JsonValue]]:
    if isinstance(tree, dict) and depth < 5:
        for key, value in tree.items():
            if isinstance(value, dict) and set(value) == {"value", "unit"}:
                yield key, f"{value['value']} {value['unit']}"
            elif isinstance(value, dict):
                yield from _leaves_of_tree(value, depth + 1)
            else:
                yield key, value


def _rocm_card(card: dict[str, str]) -> Gpu | None:
    name = next((card[key] for key in _ROCM_NAMES if key in card and not _NO_NAME.fullmatch(card[key])), None)
    if name is None:
        return None
    vram = next((v for k, v in card.items() if k in ("vram total memory (b)", "vram total memory", "size")), "")
    memory = float(vram) if re.fullmatch(r"\d{1,15}", vram) else sized(vram)
    return Gpu(name, memory)


def _rocminfo(text: str) -> Iterator[Gpu]:
    for agent in re.split(r"^\*+\s*\n\s*Agent \d+", text, flags=re.MULTILINE):
        if re.search(r"Device Type:\s+GPU", agent):
            name = re.search(r"Marketing Name:[ \t]*(\S.*?)\s*$", agent, re.MULTILINE)
            units = re.search(r"Compute Unit:\s+(\d{1,4})", agent)
            pools = [int(size) for size in re.findall(r"Size:\s+(\d{1,12})\(0x[0-9a-f]+\) KB", agent)]
            if name:
                yield Gpu(name[1], max(pools, default=0) * 1024.0 or None, int(units[1]) if units else None)


# -- Apple -----------------------------------------------------------------------------------------------------------
def gpus_of_system_profiler(text: str) -> tuple[Gpu, ...]:
    """The GPU of a Mac with Apple silicon, from system_profiler SPHardwareDataType SPDisplaysDataType, text or JSON."""
    if text.lstrip().startswith("{"):
        text = _as_lines(text)
    chip = re.search(r"(?:Chip|Chipset Model|chip_type|sppci_model):\s*(Apple M\d+(?: (?:Pro|Max|Ultra))?)", text)
    if not chip:
        return ()
    memory = re.search(r"(?:Memory|physical_memory):\s*(\d{1,5}(?:\.\d)?) ?(GB|TB)", text)
    displays = re.search(r"(?:Graphics/Displays|SPDisplaysDataType|Chipset Model)(.*)", text, re.DOTALL)
    units = re.search(r"(?:Total Number of Cores|sppci_cores):\s*(\d{1,4})", displays[1]) if displays else None
    return (
        Gpu(
            chip[1], sized(" ".join(memory.groups())) if memory else None, int(units[1]) if units else None, shared=True
        ),
    )


def _as_lines(text: str) -> str:
    """Convert JSON of system_profiler to `key: value` lines, in order."""
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    lines: list[str] = []

    def walk(value: JsonValue, name: str, depth: int) -> None:
        if depth < 8 and isinstance(value, dict):
            for key, inner in value.items():
                lines.append(f"{key}:" if isinstance(inner, (dict, list)) else "")
                walk(inner, str(key), depth + 1)
        elif depth < 8 and isinstance(value, list):
            for inner in value:
                walk(inner, name, depth + 1)
        else:
            lines.append(f"{name}: {value}")

    walk(tree, "", 0)
    return "\n".join(lines)


def processor_of_sysctl(text: str) -> Processor | None:
    """The CPU of a Mac, from `sysctl -a` or `sysctl machdep.cpu hw`."""
    keys = dict(re.findall(r"^([\w.]{1,80})\s*[:=]\s*(.{1,400})$", text, re.MULTILINE))
    name = keys.get("machdep.cpu.brand_string")
    if not name:
        return None
    cores = keys.get("hw.physicalcpu") or keys.get("machdep.cpu.core_count") or keys.get("hw.ncpu") or "1"
    told = f"{keys.get('machdep.cpu.features', '')} {keys.get('machdep.cpu.leaf7_features', '')}".lower().split()
    apple = name.startswith("Apple")
    features = {"asimd"} if apple else {"avx2", "avx512f"}.intersection(told)
    clock = _hertz(keys.get("hw.cpufrequency_max", ""))
    return Processor(name.strip(), "apple" if apple else "intel", 1, _whole(cores), clock, features=frozenset(features))


def memory_of_sysctl(text: str) -> float | None:
    """Bytes of memory, from `hw.memsize`."""
    size = re.search(r"^hw\.memsize\s*[:=]\s*(\d{1,15})\s*$", text, re.MULTILINE)
    return float(size[1]) if size else None


# -- CPUs ------------------------------------------------------------------------------------------------------------
_VENDORS = {"authenticamd": "amd", "genuineintel": "intel", "arm": "arm", "apple": "apple", "ampere": "ampere"}


def processor_of_lscpu(text: str) -> Processor | None:
    """The CPU in the output of `lscpu` or `lscpu -J`."""
    if text.lstrip().startswith("{"):
        text = _lscpu_lines(text)
    fields: dict[str, str] = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon:
            fields.setdefault(key.strip().lower(), value.strip())
    name = fields.get("model name") or fields.get("model")
    if not name or "cpu(s)" not in fields:
        return None
    sockets = _whole(fields.get("socket(s)", "1"))
    each = _whole(fields.get("core(s) per socket") or fields.get("core(s) per cluster") or fields["cpu(s)"])
    threads = _whole(fields.get("thread(s) per core", "1"))
    cores = sockets * each if fields.get("core(s) per socket") else _whole(fields["cpu(s)"]) // threads
    return Processor(
        name, _VENDORS.get(fields.get("vendor id", "").lower(), ""), sockets, max(1, cores),
        _mhz(fields.get("cpu max mhz") or fields.get("cpu mhz")) or _bogo(fields.get("bogomips"), name),
        sized(fields.get("l3 cache") or fields.get("l3") or ""), frozenset(fields.get("flags", "").split()),
    )  # fmt: skip


def _lscpu_lines(text: str) -> str:
    try:
        pairs: list[str] = []
        rows = [(row, 0) for row in reversed(json.loads(text)["lscpu"])]
        while rows:
            row, depth = rows.pop()
            pairs.append(f"{row['field']} {row.get('data')}")
            if depth < 5:
                rows += [(inner, depth + 1) for inner in reversed(row.get("children", ()))]
        return "\n".join(pairs)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return ""


def processor_of_cpuinfo(text: str) -> Processor | None:
    """The CPU in /proc/cpuinfo, for systems without lscpu."""
    name = re.search(r"^(?:model name|Model|Hardware)\s*:\s*(.{1,200})$", text, re.MULTILINE)
    count = len(re.findall(r"^processor\s*:", text, re.MULTILINE))
    if not name or not count:
        return None
    per_socket = re.search(r"^cpu cores\s*:\s*(\d{1,5})", text, re.MULTILINE)
    sockets = len(set(re.findall(r"^physical id\s*:\s*(\d{1,5})", text, re.MULTILINE))) or 1
    vendor = re.search(r"^vendor_id\s*:\s*(\w+)", text, re.MULTILINE)
    clock = re.search(r"^cpu MHz\s*:\s*([\d.]{1,12})", text, re.MULTILINE)
    flags = re.search(r"^(?:flags|Features)\s*:\s*(.{1,20000})$", text, re.MULTILINE)
    return Processor(
        name[1].strip(), _VENDORS.get(vendor[1].lower(), "") if vendor else "", sockets,
        sockets * int(per_socket[1]) if per_socket else count, _mhz(clock[1]) if clock else None,
        features=frozenset(flags[1].split() if flags else ()),
    )  # fmt: skip


def memory_of_meminfo(text: str) -> float | None:
    """Bytes of memory, from /proc/meminfo."""
    total = re.search(r"^MemTotal:\s*(\d{1,15}) kB", text, re.MULTILINE)
    return float(total[1]) * 1024 if total else None


_SPEEDS = ("configured memory speed", "configured clock speed", "speed")


def dimms_of_dmidecode(text: str) -> Dimms | None:
    """Memory channels and speed, from `dmidecode -t memory`. Modules with the same channel in their locators share that
    channel; a module whose locators name no channel counts as one channel."""
    sizes: list[float] = []
    speeds: list[float] = []
    channels: set[str] = set()
    for part in re.split(r"^Memory Device\s*$", text, flags=re.MULTILINE)[1:]:
        pairs = re.findall(r"^\s+([\w ]{1,60}):(.{0,200})$", part, re.MULTILINE)
        fields = {key.strip().lower(): value.strip() for key, value in pairs}
        size = sized(fields.get("size", ""))
        if not size:
            continue
        sizes.append(size)
        told = next((fields[key] for key in _SPEEDS if key in fields), "")
        speed = re.match(r"(\d{1,6}) (?:MT/s|MHz)", told)
        speeds.append(float(speed[1]) if speed else 0.0)
        channels.add(_channel(fields.get("bank locator", ""), fields.get("locator", "")) or f"module {len(sizes)}")
        if len(sizes) >= MOST_DEVICES:
            break
    rates = [s for s in speeds if s]
    return Dimms(len(channels), min(rates) * 1e6, sum(sizes)) if rates else None


def _channel(bank: str, locator: str) -> str | None:
    """Channel, with its socket, named by a module's locators: `P0 CHANNEL A`, `CPU1_DIMM_B2`, `DIMM_A1`."""
    for text in (bank.upper(), locator.upper()):
        m = re.search(r"(?:CHANNEL|CH)[ _-]?([A-P]|\d{1,2})", text) or re.search(r"DIMM[ _-]?([A-P])\d?\b", text)
        if m:
            socket = re.search(r"(?:CPU|NODE|P)[ _]?(\d)", f"{bank} {locator}".upper())
            return f"{socket[1] if socket else 0} {m[1]}"
    return None


# -- numbers ---------------------------------------------------------------------------------------------------------
def sized(text: str) -> float | None:
    """Bytes of `64 GB`, `24576 MiB` or `32 MiB (1 instance)`. All units are binary.

    >>> sized("24 GB"), sized("No Module Installed")
    (25769803776.0, None)
    """
    m = _SIZE.search(text)
    return float(m[1]) * _SIZES[(m[2] or m[3] or "B").lower()] if m else None


def _whole(text: str) -> int:
    m = re.match(r"\s*(\d{1,6})", text)
    return max(1, int(m[1])) if m else 1


def _number(text: str | None, scale: float) -> float | None:
    try:
        value = float(text or "") * scale
    except ValueError:
        return None
    return value if 1e8 <= value <= 1e11 else None


def _mhz(text: str | None) -> float | None:
    return _number((text or "").replace(",", "."), 1e6)


def _hertz(text: str) -> float | None:
    return _number(text, 1.0)


def _bogo(bogomips: str | None, name: str) -> float | None:
    """Clock in Hz, from the name (`@ 2.40GHz`) or from BogoMIPS (two per cycle on x86)."""
    told = re.search(r"@ ?(\d\.\d{1,3}) ?GHz", name)
    return float(told[1]) * 1e9 if told else _number(bogomips, 0.5e6)
