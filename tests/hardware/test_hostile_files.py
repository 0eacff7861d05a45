"""Files of chips and clusters that mean harm: refused in one line, at once, in little memory."""

from __future__ import annotations

import io
import os
import time
import tracemalloc
from pathlib import Path

import pytest

from folded import folded
from roofline.declared.errors import InputError
from roofline.hardware.cluster import cluster_named
from roofline.hardware.named_chip import chip_named
from roofline.model.sources import untrusted

CHIP = """[mine]
[mine.memory]
bandwidth_gbs = 4800
capacity_gb = 141
[mine.peak]
bf16 = 1000
"""


def refused(path: Path, *parts: str) -> None:
    for named in (chip_named, cluster_named):
        tracemalloc.start()
        begin = time.process_time()
        with pytest.raises(InputError) as caught:
            named(path)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert time.process_time() - begin < 2
        assert peak < 100e6
        line = str(caught.value)
        assert line.isprintable()
        assert all(part in line for part in parts), line


def written(folder: Path, content: str | bytes) -> Path:
    path = folder / "mine.toml"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    assert chip_named(written(tmp_path, b"\xef\xbb\xbf" + CHIP.encode())).bandwidth == 4.8e12


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "mine.toml")
    refused(tmp_path / "mine.toml", "expected a regular file")


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="needs /dev/zero")
def test_a_link_to_a_device(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").symlink_to("/dev/zero")
    refused(tmp_path / "mine.toml", "expected a regular file")


@folded(
    ("content", "part"),
    [
        ("[" + "a." * 50_000 + "b]\nc = 1", "at most 4096 characters"),
        ("a." * 1_000 + "b = 1", "64 dots"),
        ("a = {" * 1_000 + "}" * 1_000, "at most 4096 characters"),
        ("a = {b" * 100 + "}" * 100, "64 dots and braces"),
        ("a = " + "[\n" * 100_000, "levels of nesting"),
        ("[mine]\nb = " + "9" * 401, "whole numbers of at most"),
        ("[mine]\nb = 1." + "9" * 401, "a number of 403 characters"),
        ("[mine]\nb = " + "9" * 4_500, "at most 4096 characters"),
        ("x" * (2**20 + 1), "at most 1048576 bytes"),
        (b"[mine]\nname = \"\xff\"", "UTF-8"),
        (b"\x00" * 100, "a TOML file"),
    ],
)  # fmt: skip
def test_what_no_machine_needs(tmp_path: Path, content: str | bytes, part: str) -> None:
    refused(written(tmp_path, content), part)


def test_a_chip_like_a_chip_like_a_chip() -> None:
    with pytest.raises(InputError, match="chip like: expected a chip of the catalog or its file"):
        chip_named("like=" * 2_000 + "h100-sxm")


def test_what_is_piped_in(monkeypatch: pytest.MonkeyPatch) -> None:
    class Piped:
        buffer = io.BytesIO(CHIP.encode())

    monkeypatch.setattr("sys.stdin", Piped)
    assert untrusted.read_text(Path("/dev/stdin"), 1000) == CHIP
    Piped.buffer = io.BytesIO(b"x" * 1001)
    with pytest.raises(InputError, match="at most 1000 bytes"):
        untrusted.read_bytes(Path("/dev/stdin"), 1000)
