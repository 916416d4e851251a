# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: what patches add to file systems can be compiled as a module, as Debian has them, and the
names of our tracepoints are nobody else's.

Negative proof: what was there when the packages' kernel did not compile.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from lab.paths import repo_dir

KERNEL = repo_dir() / "kernel"
MODULES = ("fs/btrfs/", "fs/ext4/", "fs/xfs/")  # that patches change and Debian has as modules
ADDED = re.compile(r"^\+(?!\+\+ )(.*)$", re.MULTILINE)
OURS = re.compile(r"\b(rem_\w+)\(")
HEADER = re.compile(r'#include "[^"]*/hooks/(\w+\.h)"')
EVENT = re.compile(
    r"^(?:TRACE_EVENT|DEFINE_EVENT|REM_\w+_EVENT)\((?:\w+, )?(\w+)[,)]", re.MULTILINE
)


def added_to_modules() -> str:
    """Lines that patches add to files of MODULES."""
    text = ""
    for patch in sorted((KERNEL / "patches").glob("*.patch")):
        for part in patch.read_text(encoding="utf-8").split("\n--- a/")[1:]:
            if part.startswith(MODULES):
                text += "\n".join(ADDED.findall(part)) + "\n"
    return text


def sources() -> Iterator[str]:
    for folder in ("persist", "mixed", "stop", "resume"):
        for path in sorted((KERNEL / folder).glob("*.c")):
            yield path.read_text(encoding="utf-8")


def test_headers_that_modules_include_have_nothing_of_stop_and_go() -> None:
    headers = HEADER.findall(added_to_modules())
    assert headers
    for name in headers:
        assert '"hooks.h"' not in (KERNEL / "hooks" / name).read_text(encoding="utf-8"), name


def test_modules_call_what_is_exported() -> None:
    exported = set(re.findall(r"EXPORT_SYMBOL_GPL\((\w+)\)", "".join(sources())))
    header = (KERNEL / "persist" / "rem_persist.h").read_text(encoding="utf-8")
    names = set(OURS.findall(added_to_modules())) - {"rem_name_may_be_there"}
    assert {"rem_persist_drain", "rem_persist_changed"} <= names
    for name in names:
        assert f"__{name}(" in header and f"__{name}" in exported, name
    assert "rem_persist_key" in exported


def events(text: str) -> list[str]:
    return [name for name in EVENT.findall(text) if name != "name"]


def test_names_of_tracepoints_are_ours() -> None:
    found = {
        name
        for path in KERNEL.rglob("*trace*.h")
        for name in events(Path(path).read_text(encoding="utf-8"))
    }
    assert "dram_map" in found
    assert all(name.startswith(("dram_", "rem_")) for name in found)
    assert events("REM_DRAM_EVENT(map);\nTRACE_EVENT(end,\n") == ["map", "end"]
