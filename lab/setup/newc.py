# SPDX-License-Identifier: Apache-2.0 OR MIT
"""An initial RAM disk: the archive format `newc`, as the kernel unpacks it."""

from __future__ import annotations

import stat
from collections.abc import Mapping


def archive(files: Mapping[str, bytes]) -> bytes:
    """Return an uncompressed archive of executable files by name, with their folders."""
    out = bytearray()
    folders: set[str] = set()

    def add(name: str, mode: int, data: bytes) -> None:
        path = name.encode() + b"\0"
        fields = [len(out) + 1, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(path), 0]
        out.extend(b"070701" + b"".join(b"%08x" % value for value in fields))
        for part in (path, data):
            out.extend(part)
            out.extend(b"\0" * (-len(out) % 4))

    for name, data in files.items():
        parts = name.split("/")[:-1]
        for depth in range(1, len(parts) + 1):
            folder = "/".join(parts[:depth])
            if folder not in folders:
                folders.add(folder)
                add(folder, stat.S_IFDIR | 0o755, b"")
        add(name, stat.S_IFREG | 0o755, data)
    add("TRAILER!!!", 0, b"")
    return bytes(out)
