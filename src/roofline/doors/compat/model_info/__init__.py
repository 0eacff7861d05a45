"""dump_model_info: a Markdown report of a model with naive, efficient and physical figures side by side.

`account` computes the figures from the ops of the model's outline under conventions set by `Rules`; physical FLOPs,
bytes and times come from the library itself.
"""

from roofline.doors.compat.chips import H200, Peaks, on_chip
from roofline.doors.compat.model_info.account import Account, Term, account
from roofline.doors.compat.model_info.dump import dump_model_info
from roofline.doors.compat.model_info.floor import Beyond, beyond_floor
from roofline.doors.compat.model_info.frontier import CriticalBatch, Frontier, frontier, frontier_batch
from roofline.doors.compat.model_info.knobs import COLUMNS as CSV_HEADER
from roofline.doors.compat.model_info.knobs import KnobPoint, knob_grid, ranking
from roofline.doors.compat.model_info.rules import EFFICIENT, NAIVE, PHASES, RULES, ReportPhase, Rules

__all__ = [
    "CSV_HEADER",
    "EFFICIENT",
    "H200",
    "NAIVE",
    "PHASES",
    "RULES",
    "Account",
    "Beyond",
    "CriticalBatch",
    "Frontier",
    "KnobPoint",
    "Peaks",
    "ReportPhase",
    "Rules",
    "Term",
    "account",
    "beyond_floor",
    "dump_model_info",
    "frontier",
    "frontier_batch",
    "knob_grid",
    "on_chip",
    "ranking",
]  # fmt: skip
