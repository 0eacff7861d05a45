collect_ignore = ["real.py"]  # has no doctests, and needs the oracle extra
