# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: what patches add to file systems can be compiled as a module, as Debian has them, and the
names of our tracepoints are nobody else's.

Negative proof: a header of a driver that is built in, a function that is not exported, and names of
tracepoints that are the kernel's.
"""

from __future__ import annotations

import re

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


def is_for_modules(header: str) -> bool:
    """Whether a header of hooks/ has nothing of hooks.h, which no module may include."""
    return '"hooks.h"' not in (KERNEL / "hooks" / header).read_text(encoding="utf-8")


def is_exported(name: str) -> bool:
    """Whether modules may call a function of persist/ by its inline one of rem_persist.h."""
    sources = (path.read_text(encoding="utf-8") for path in (KERNEL / "persist").glob("*.c"))
    return any(f"EXPORT_SYMBOL_GPL(__{name});" in source for source in sources)


def test_headers_that_modules_include_have_nothing_of_stop_and_go() -> None:
    headers = HEADER.findall(added_to_modules())
    assert headers and all(map(is_for_modules, headers))
    assert not is_for_modules("nvme_cache.h")


def test_modules_call_what_is_exported() -> None:
    names = set(OURS.findall(added_to_modules())) - {"rem_name_may_be_there"}
    assert {"rem_persist_drain", "rem_persist_changed"} <= names
    assert [name for name in names if not is_exported(name)] == []
    assert not is_exported("rem_persist_store"), "only the kernel itself calls it"


def events(text: str) -> list[str]:
    return [name for name in EVENT.findall(text) if name != "name"]


def test_names_of_tracepoints_are_ours() -> None:
    found = {
        name
        for path in KERNEL.rglob("*trace*.h")
        for name in events(path.read_text(encoding="utf-8"))
    }
    assert "dram_map" in found
    assert all(name.startswith(("dram_", "rem_")) for name in found)
    assert events("REM_DRAM_EVENT(map);\nTRACE_EVENT(end,\n") == ["map", "end"]
