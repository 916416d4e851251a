# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a file system's own check says is a complaint, but for what the kernel's code explains."""

from __future__ import annotations

from lab.testbed.fsx import EXT4, EXT4_FAST, complaints

UNNAMED = """e2fsck 1.47.0 (5-Feb-2023)
Pass 1: Checking inodes, blocks, and sizes
Pass 4: Checking reference counts
Unattached zero-length inode 65.  Clear? no

Unattached inode 65
Connect to /lost+found? no

Pass 5: Checking group summary information

/dev/dm-0: ********** WARNING: Filesystem still has errors **********

/dev/dm-0: 180/196608 files (2.2% non-contiguous), 31684/786432 blocks
"""
COUNT = "Inode 14, i_blocks is 96, should be 104.  Fix? no"


def test_file_without_a_name_is_explained_with_fast_commits_alone() -> None:
    assert complaints(EXT4_FAST, UNNAMED) == []
    assert len(complaints(EXT4, UNNAMED)) == 3


def test_everything_else_is_a_complaint() -> None:
    assert complaints(EXT4_FAST, f"{UNNAMED}{COUNT}\n") == [COUNT]
    assert complaints(EXT4_FAST, "/dev/dm-0: it is damaged") != []
