"""The settings of dump_model_info's counting and what they give, for any model of attention and feed-forwards."""

from roofline.compat.model_info.account import Account, Term, account
from roofline.compat.model_info.floor import Beyond, beyond_floor
from roofline.compat.model_info.frontier import Crossing, Frontier, crossing, frontier
from roofline.compat.model_info.grid import Point, grid, ranking, scaled
from roofline.compat.model_info.rules import EFFICIENT, H200, NAIVE, PHASES, RULES, Peaks, Phase, Rules, on_chip

__all__ = [
    "EFFICIENT", "H200", "NAIVE", "PHASES", "RULES", "Account", "Beyond", "Crossing", "Frontier", "Peaks", "Phase",
    "Point", "Rules", "Term", "account", "beyond_floor", "crossing", "frontier", "grid", "on_chip", "ranking", "scaled",
]  # fmt: skip
