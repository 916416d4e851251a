# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Turn a tree into a root that boots here: our init and programs, ssh by key, an account for it.

The tree may be of an untrusted image, so it is written to through lab/archive/tree.py.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from lab.archive.limits import Budget
from lab.archive.tree import LinkPolicy, PathParts, Tree
from lab.guest_root.additions import Addition, link_applets, put
from lab.oci.service import Service

ACCOUNTS_BYTES_MAX = 1 << 20
SHELL = "/opt/rem/bin/rem-shell"
# Where init mounts something; the kernel itself mounts /dev before there is an init.
MOUNT_POINTS = ("dev", "proc", "sys", "run", "tmp")
# Far more than is added to a root.
ADDED_BYTES_MAX = 1 << 30


def personalise(
    root: Path,
    additions: Iterable[Addition],
    busybox: Path,
    public_key: str,
    service: Service | None = None,
) -> None:
    """Add our files. Existing ones may be links to a product: they are replaced."""
    budget = Budget(ADDED_BYTES_MAX, "the additions to a root are bounded")
    with Tree(root, LinkPolicy.INSIDE, budget) as tree:
        for name in MOUNT_POINTS:
            if not tree.is_directory((name,)):
                tree.make_directory((name,), 0o755, time.time_ns())
        put(tree, additions)
        link_applets(tree, busybox)
        _accounts(tree, public_key)
        put(tree, [Addition("/etc/hostname", b"remanence\n", 0o644)])
        put(tree, [Addition("/etc/hosts", b"127.0.0.1 localhost remanence\n", 0o644)])
        if service is not None:
            number = f"{service.stop_signal}\n".encode()
            put(tree, [Addition("/opt/rem/service", service.as_bytes(), 0o644)])
            put(tree, [Addition("/opt/rem/stop-signal", number, 0o644)])
        tree.finish()


def _accounts(tree: Tree, public_key: str) -> None:
    """Make sure that root exists, with a shell that ssh accepts, and a key in its home."""
    lines = _lines(tree, ("etc", "passwd"))
    index = next((n for n, line in enumerate(lines) if line.startswith("root:")), None)
    row = [] if index is None else lines[index].split(":")
    if len(row) != 7 or not tree.is_executable(_parts(row[6])):
        home = row[5] if len(row) == 7 else "/root"
        new = f"root:x:0:0:root:{home}:{SHELL}"
        lines = [new, *(line for n, line in enumerate(lines) if n != index)]
        _write_lines(tree, ("etc", "passwd"), lines)
        row = new.split(":")
    shells = _lines(tree, ("etc", "shells"))
    if row[6] not in shells:
        _write_lines(tree, ("etc", "shells"), [*shells, row[6]])
    ssh = (*_parts(row[5]), ".ssh")
    tree.make_directory(ssh, 0o700, time.time_ns())
    key = f"{public_key}\n".encode()
    put(tree, [Addition("/".join([*ssh, "authorized_keys"]), key, 0o600)])


def _parts(path: str) -> PathParts:
    return tuple(part for part in path.split("/") if part not in ("", ".", ".."))


def _lines(tree: Tree, path: PathParts) -> list[str]:
    data = tree.read(path, ACCOUNTS_BYTES_MAX) or b""
    return data.decode("utf-8", "surrogateescape").splitlines()


def _write_lines(tree: Tree, path: PathParts, lines: list[str]) -> None:
    text = "".join(f"{line}\n" for line in lines)
    put(tree, [Addition("/".join(path), text.encode("utf-8", "surrogateescape"), 0o644)])
