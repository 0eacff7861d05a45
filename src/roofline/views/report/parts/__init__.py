"""The parts of a report, first page to last."""
