"""Formats of traces that are recognised by their columns, with their documentation."""

from __future__ import annotations

from dataclasses import dataclass

from roofline.declared.errors import InputError, nearest
from roofline.serving.simulate.load.workload import CHAIN_TOKENS


@dataclass(frozen=True)
class TraceFormat:
    """The columns of a trace format, and where it is documented.

    per_second: units of numeric times per second. session, prefix, shared, chains: optional columns, "" where a format
    has none. signs: further columns that identify the format. chain_tokens: tokens of a block in `chains`.
    """

    name: str
    time: str
    input: str
    output: str
    source: str
    per_second: float = 1.0
    session: str = ""
    prefix: str = ""
    shared: str = ""
    chains: str = ""
    chain_tokens: int = CHAIN_TOKENS
    signs: tuple[str, ...] = ()

    @property
    def needed(self) -> tuple[str, ...]:
        """Required columns."""
        return (self.time, self.input, self.output, *self.signs)

    def columns(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """The names that are read."""
        known = (self.time, self.input, self.output, self.session, self.prefix, self.shared, self.chains)
        return tuple(name for name in names if name in known)


OWN = TraceFormat(
    "Roofline",
    "time",
    "input",
    "output",
    "docs/simulation.md",
    session="session",
    prefix="prefix",
    shared="shared",
)
FORMATS = (
    OWN,
    TraceFormat(
        "Azure", "TIMESTAMP", "ContextTokens", "GeneratedTokens",
        "github.com/Azure/AzurePublicDataset: AzureLLMInferenceDataset2023.md, AzureLLMInferenceDataset2024.md",
    ),
    TraceFormat(
        "BurstGPT", "Timestamp", "Request tokens", "Response tokens",
        "github.com/HPMLL/BurstGPT: README.md; arXiv:2401.17644", session="Session ID",
    ),
    TraceFormat(
        "Qwen-Bailian", "timestamp", "input_length", "output_length",
        "github.com/alibaba-edu/qwen-bailian-usagetraces-anon: README.md; arXiv:2506.02634",
        chains="hash_ids", chain_tokens=16, signs=("hash_ids", "chat_id", "parent_chat_id"),
    ),
    TraceFormat(
        "Mooncake", "timestamp", "input_length", "output_length",
        "github.com/kvcache-ai/Mooncake: FAST25-release/README.md; arXiv:2407.00079",
        per_second=1e3, chains="hash_ids", signs=("hash_ids",),
    ),
)  # fmt: skip
"""Trace formats; where several match, the first is used."""


def format_of(path: str, names: tuple[str, ...]) -> TraceFormat:
    """The trace format with these columns. Raises InputError where none matches, with what the nearest lacks."""
    for kind in FORMATS:
        if set(kind.needed) <= set(names):
            one, other = (kind.prefix, kind.shared) if kind.prefix in names else (kind.shared, kind.prefix)
            if one in names and other not in names:
                raise InputError(path, ", ".join(names), f"a column {other} beside {one}")
            return kind
    best = max(FORMATS, key=lambda kind: len(set(kind.needed) & set(names)) / len(kind.needed))
    lacking = [name for name in best.needed if name not in names]
    if len(lacking) == len(best.needed):
        kinds = "; ".join(f"{kind.name}: {', '.join(kind.needed)}" for kind in FORMATS)
        raise InputError(path, ", ".join(names), f"the columns of a trace ({kinds})")
    expected = f"a column {lacking[0]} too, as traces of the kind {best.name} have"
    raise InputError(path, ", ".join(names), expected, nearest(lacking[0], names))
