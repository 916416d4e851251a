# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Folders of interrupted installations, with mounts of this machine's own folders in them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from lab.setup.mounts import mounts_below, remove_tree

INFO = """\
22 1 0:5 / / rw - ext4 /dev/vda rw
23 22 0:27 / /dev/shm rw - tmpfs tmpfs rw
40 22 0:27 / /cache/a\\040b.partial/files/dev rw - tmpfs tmpfs rw
41 40 0:28 / /cache/a\\040b.partial/files/dev/shm rw - tmpfs tmpfs rw
42 22 0:29 / /cache/a\\040b.partial.other rw - tmpfs tmpfs rw
"""


def test_what_was_mounted_last_is_first() -> None:
    partial = Path("/cache/a b.partial")
    dev = partial / "files" / "dev"
    assert mounts_below(partial, INFO) == [dev / "shm", dev]
    assert mounts_below(Path("/cache/c"), INFO) == []


def test_a_tree_without_mounts_goes(tmp_path: Path) -> None:
    (tmp_path / "tree" / "dev").mkdir(parents=True)
    remove_tree(tmp_path / "tree")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it mounts a folder")
def test_what_is_mounted_in_a_tree_stays(tmp_path: Path) -> None:
    shared, tree = tmp_path / "shared", tmp_path / "tree"
    shared.mkdir()
    (shared / "file").touch()
    (tree / "shm").mkdir(parents=True)
    subprocess.run(["mount", "--bind", shared, tree / "shm"], check=True)
    try:
        remove_tree(tree)
        assert not tree.exists()
        assert (shared / "file").exists()
    finally:
        if tree.exists():
            subprocess.run(["umount", tree / "shm"], check=False)
            shutil.rmtree(tree)
