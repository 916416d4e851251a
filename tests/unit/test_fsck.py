# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The check of a disk after a cut does what a mount does, and repairs nothing: damage that e2fsck
could repair is still damage. Errors are planted by debugfs.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lab.machine.fsck import damage
from lab.run import find_tool, run

BLOCK_BYTES = 1024
SIZE_BYTES = 16 << 20


def debugfs(disk: Path, *requests: str) -> str:
    tool = find_tool("debugfs")
    assert tool is not None
    done = run([tool, "-w", "-f", "/dev/stdin", disk], stdin="".join(f"{r}\n" for r in requests))
    return done.stdout


def number(disk: Path, request: str, pattern: str) -> int:
    match = re.search(pattern, debugfs(disk, request))
    assert match is not None
    return int(match[1])


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """An ext4 with a file of two names, and another file."""
    folder, image = tmp_path / "root", tmp_path / "disk"
    folder.mkdir()
    (folder / "twice").write_text("two names")
    (folder / "again").hardlink_to(folder / "twice")
    (folder / "other").write_bytes(bytes(range(256)) * 80)
    with image.open("wb") as file:
        file.truncate(SIZE_BYTES)
    tool = find_tool("mke2fs")
    assert tool is not None
    run([tool, "-q", "-F", "-t", "ext4", "-b", str(BLOCK_BYTES), "-d", folder, image])
    return image


def inode_block(disk: Path) -> int:
    return number(disk, "imap /twice", r"block (\d+)")


def test_sound_file_system_is_clean(disk: Path) -> None:
    assert damage(disk) == ""


def test_wrong_link_count_is_damage(disk: Path) -> None:
    debugfs(disk, "set_inode_field /twice links_count 3")
    assert "ref count is 3, should be 2" in damage(disk)


def test_block_that_is_marked_free_is_damage(disk: Path) -> None:
    block = number(disk, "blocks /other", r"(?m)^(\d+) ")
    debugfs(disk, f"freeb {block}")
    assert "bitmap differences" in damage(disk)


def test_what_the_journal_has_is_no_damage(disk: Path, tmp_path: Path) -> None:
    at = inode_block(disk)
    right = tmp_path / "block"
    right.write_bytes(disk.read_bytes()[at * BLOCK_BYTES : (at + 1) * BLOCK_BYTES])
    debugfs(
        disk,
        "set_inode_field /twice links_count 3",
        "journal_open",
        f"journal_write -b {at} {right}",
        "journal_close",
    )
    assert damage(disk) == ""


def test_file_that_was_open_and_has_no_name_is_no_damage(disk: Path) -> None:
    inode = number(disk, "stat /other", r"Inode: (\d+)")
    debugfs(
        disk,
        "unlink /other",
        f"set_inode_field <{inode}> links_count 0",
        f"set_inode_field <{inode}> dtime 0",
        f"set_super_value last_orphan {inode}",
    )
    assert damage(disk) == ""


def test_no_file_system_is_damage(tmp_path: Path) -> None:
    nothing = tmp_path / "disk"
    nothing.write_bytes(bytes(SIZE_BYTES))
    assert damage(nothing) != ""
