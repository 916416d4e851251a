# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The hash of a product's inputs: its name in the cache.

Names are part of the hash, times are not: the same inputs give the same key in any checkout.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

KEY_DIGITS = 16

# Files that builds leave in source folders, and files that never reach a product.
_IGNORED_NAMES = frozenset({"__pycache__", "target", "out", "build"})
_IGNORED_SUFFIXES = frozenset({".o", ".a", ".pyc", ".orig", ".rej", ".swp", ".md"})


class Inputs:
    """Collects the inputs of a product."""

    def __init__(self, kind: str) -> None:
        self._hash = hashlib.sha256(kind.encode())

    def add(self, name: str, value: str | bytes) -> Inputs:
        """Add a named value. Lengths are hashed, too, so different lists differ in their hashes."""
        data = value.encode() if isinstance(value, str) else value
        for part in (name.encode(), data):
            self._hash.update(len(part).to_bytes(8, "little"))
            self._hash.update(part)
        return self

    def add_path(self, path: Path, name: str) -> Inputs:
        """Add a file, or all source files below a folder, sorted; a missing one is an input."""
        if not path.exists():
            return self.add(name, "missing")
        for file in source_files(path):
            rel = name if file == path else f"{name}/{file.relative_to(path)}"
            executable = "x" if file.stat().st_mode & 0o111 else "-"
            self.add(f"{executable} {rel}", file.read_bytes())
        return self

    def key(self) -> str:
        return self._hash.hexdigest()[:KEY_DIGITS]


def source_files(path: Path) -> list[Path]:
    """Return the file itself, or the source files below a folder, sorted."""
    if path.is_file():
        return [path]
    found = (p for p in path.rglob("*") if p.is_file())
    return sorted(p for p in found if not _ignored(p.relative_to(path)))


def _ignored(rel: Path) -> bool:
    hidden = any(part.startswith(".") for part in rel.parts)
    return hidden or rel.suffix in _IGNORED_SUFFIXES or not _IGNORED_NAMES.isdisjoint(rel.parts)
