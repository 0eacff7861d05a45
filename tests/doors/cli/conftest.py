"""What tests of commands share."""

from __future__ import annotations

from pathlib import Path

import pytest

from roofline.doors.cli.main import main


@pytest.fixture(scope="session")
def v3_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of DeepSeek-V3 on eight chips, a page that the command wrote."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    main(["report", "deepseek-ai/DeepSeek-V3", "--on", "8xh200-sxm", "--layout", "tp=8", "--out", str(path)])
    return path
