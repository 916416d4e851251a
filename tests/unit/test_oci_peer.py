# SPDX-License-Identifier: Apache-2.0 OR MIT
"""lab/oci against an independent reader: umoci unpacks the same images to the same trees.

Method: images of random layers over few names, so that files, folders, links and whiteouts hide and
replace each other in all orders.
"""

from __future__ import annotations

import os
import random
import stat
from pathlib import Path

import pytest

from lab.oci.layers import unpack
from lab.oci.layout import opened, read_image
from lab.run import run
from tests.support.oci_builder import LayoutBuilder
from tests.support.tar_builder import Archive

IMAGES = 40
LIMIT_BYTES = 64 << 20
NAMES = ("a", "b", "c")
TAG = "test"

pytestmark = pytest.mark.full


def random_layer(chance: random.Random) -> bytes:
    """As tools write them: the folders above an entry come first, nothing is there twice."""
    made = Archive()
    own: dict[str, bool] = {}  # whether it is a folder
    for _ in range(chance.randint(1, 8)):
        parts = [chance.choice(NAMES) for _ in range(chance.randint(1, 3))]
        path, above = "/".join(parts), ["/".join(parts[:n]) for n in range(1, len(parts))]
        if path in own or not all(own.get(one, True) for one in above):
            continue
        for one in above:
            if one not in own:
                made.directory(one, mode=0o700 + chance.randrange(8))
                own[one] = True
        kind = chance.randrange(5)
        own[path] = kind in (1, 2)
        if kind == 0:
            made.file("/".join([*parts[:-1], f".wh.{parts[-1]}"]), b"")
        elif kind == 1:
            made.directory(path, mode=0o750, uid=chance.randrange(3))
            made.file(f"{path}/.wh..wh..opq", b"")
        elif kind == 2:
            made.directory(path, mode=0o711)
        elif kind == 3:
            made.symlink(path, chance.choice(["a", "../b", "/c", "missing"]))
        else:
            made.file(path, chance.randbytes(20), mode=0o640, uid=7)
    return made.bytes()


def listing(root: Path) -> dict[str, tuple[object, ...]]:
    found = {}
    for path in sorted(root.rglob("*")):
        about = path.lstat()
        kind = stat.S_IFMT(about.st_mode)
        mode = stat.S_IMODE(about.st_mode) if kind != stat.S_IFLNK else None
        content: object = None
        if kind == stat.S_IFREG:
            content = path.read_bytes()
        elif kind == stat.S_IFLNK:
            content = os.readlink(path)
        found[str(path.relative_to(root))] = (kind, mode, about.st_uid, content)
    return found


@pytest.mark.parametrize("seed", range(IMAGES))
def test_umoci_unpacks_the_same_tree(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    built = LayoutBuilder()
    for _ in range(chance.randint(2, 5)):
        built.layer(random_layer(chance))
    manifest = {**built.manifest(), "annotations": {"org.opencontainers.image.ref.name": TAG}}
    where = built.write(tmp_path / "layout", {"schemaVersion": 2, "manifests": [manifest]})
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    run(["umoci", "raw", "unpack", "--image", f"{where}:{TAG}", theirs])
    ours.mkdir()
    with opened(where) as layout:
        unpack(layout, read_image(layout), ours, LIMIT_BYTES, "")
    assert listing(ours) == listing(theirs)
