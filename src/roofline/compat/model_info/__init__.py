"""dump_model_info: a model's report in Markdown, its naive and efficient figures and the physical ones beside them.

The figures come from `account`, under the settings of `Rules`; FLOPs, bytes and times without its rules from the
library itself.
"""

from roofline.compat.model_info.accounting import Account, Term, account
from roofline.compat.model_info.dump import CSV_HEADER, dump_model_info
from roofline.compat.model_info.floor import Beyond, beyond_floor
from roofline.compat.model_info.knobs import Point, grid, ranking, scaled
from roofline.compat.model_info.reach import Crossing, Frontier, crossing, frontier
from roofline.compat.model_info.rules import EFFICIENT, H200, NAIVE, PHASES, RULES, Peaks, Phase, Rules, on_chip

__all__ = [
    "CSV_HEADER", "EFFICIENT", "H200", "NAIVE", "PHASES", "RULES", "Account", "Beyond", "Crossing", "Frontier", "Peaks",
    "Phase", "Point", "Rules", "Term", "account", "beyond_floor", "crossing", "dump_model_info", "frontier", "grid",
    "on_chip", "ranking", "scaled",
]  # fmt: skip
