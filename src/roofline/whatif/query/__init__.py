"""A question with unknowns: its axes, knobs, figures, conditions and compiled plans."""
