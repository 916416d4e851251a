# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The looker of off-raw (in_guest.py): it tells a program that runs from one that does not.

Goal: what it reports of a spoilt partition is what is there. Method: its functions on the host, on
programs and files of the test; mounts and the kernel's module are left to the experiment.
"""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from lab.experiment.run import folder

TEXT = b"\x90" * 4096


@pytest.fixture
def looker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("looker", folder() / "off-raw" / "in_guest.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "HOME", tmp_path)
    monkeypatch.setattr(module, "PROGRAMS", {"one": ["one", "word"]})
    return module


def program(folder: Path, text: str, mode: int = 0o755) -> None:
    path = folder / "one"
    path.write_text(text)
    path.chmod(mode)


@pytest.mark.parametrize(
    ("text", "mode", "started"),
    [
        ("#!/bin/sh\necho $1\n", 0o755, "same"),
        ("#!/bin/sh\necho other\n", 0o755, "other"),
        ("#!/bin/sh\necho $1; exit 1\n", 0o755, "other"),
        ("#!/nowhere/sh\n", 0o755, "ENOENT"),
        ("no program", 0o755, "ENOEXEC"),
        ("#!/bin/sh\necho $1\n", 0o644, "EACCES"),
    ],
)
def test_start_is_told_by_its_output_or_errno(
    looker: ModuleType, tmp_path: Path, text: str, mode: int, started: str
) -> None:
    program(tmp_path, text, mode)
    assert looker.start("one", "word\n") == started


def test_text_is_told_from_the_rest_of_its_file(looker: ModuleType, tmp_path: Path) -> None:
    xyz = tmp_path / "xyz"
    xyz.write_bytes(b"head" + TEXT + b"symbols")
    about = {"xyz": str(xyz), "texts": [{"xyz_offset": 4, "bytes": len(TEXT)}]}
    whole, text = looker.digests(about)
    assert text == hashlib.sha256(TEXT).hexdigest()
    xyz.write_bytes(b"head" + TEXT + b"SYMBOLS")
    changed, same = looker.digests(about)
    assert (changed != whole, same) == (True, text)
    xyz.write_bytes(b"head" + TEXT[:-1] + b"\0symbols")
    assert looker.digests(about)[1] != text
    xyz.unlink()
    with pytest.raises(OSError):
        looker.digests(about)


def test_piece_is_overwritten_and_nothing_else(looker: ModuleType) -> None:
    data = bytes(range(100))
    spoilt = looker.overwritten(data, 20, 10)
    assert spoilt == data[:20] + looker.PATTERN * 10 + data[30:]
    assert len(spoilt) == len(data)
    assert looker.short(data, 20, 10) == data[:20] + bytes(80)
