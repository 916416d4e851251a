# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Make a file system with a tree in it."""

from __future__ import annotations

from pathlib import Path

from lab.run import run

MIB_BYTES = 1 << 20
# The journal, and room that ext4's own tables take for each byte of files.
OVERHEAD_BYTES = 128 * MIB_BYTES
OVERHEAD_SHARE = 1.05
INODES_SHARE = 1.5  # for files that are created later
INODE_EVERY_BYTES = 16384  # mke2fs's own ratio


def make_ext4(tree: Path, image: Path, least_bytes: int) -> int:
    """Make an image of *least_bytes*, or of as much as the tree needs; return its size."""
    used_bytes, files = _used(tree)
    needed_bytes = int(used_bytes * OVERHEAD_SHARE) + OVERHEAD_BYTES
    size_bytes = max(least_bytes, needed_bytes + -needed_bytes % MIB_BYTES)
    inodes = max(int(files * INODES_SHARE), size_bytes // INODE_EVERY_BYTES)
    options = ["-q", "-t", "ext4", "-L", "rem-root", "-m", "0", "-N", str(inodes)]
    run(
        ["mke2fs", *options, "-d", tree, image, f"{size_bytes >> 10}k"],
        what="making the root's file system",
    )
    image.chmod(0o444)
    return size_bytes


def _used(tree: Path) -> tuple[int, int]:
    """Return bytes on disk and the number of files, directories and links."""
    words = run(["du", "-s", "-B1", "--inodes", tree]).stdout.split()
    used = run(["du", "-s", "-B1", tree]).stdout.split()
    return int(used[0]), int(words[0])
