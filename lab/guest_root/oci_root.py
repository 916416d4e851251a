# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Make a guest's root from an OCI image, or from a folder with a root."""

from __future__ import annotations

from pathlib import Path

from lab.archive.limits import Budget
from lab.archive.tree import LinkPolicy, Tree
from lab.guest_root import folder
from lab.guest_root.spec import RootSpec
from lab.oci.layers import unpack
from lab.oci.layout import LAYOUT_FILE, opened, read_image
from lab.oci.service import Service, service_of

LIMIT_DEFAULT_BYTES = 3 << 30
ADVICE = "give a larger --disk-size"


def oci_key(spec: RootSpec) -> str:
    """Return a key: the digest of an image's manifest, or times and inodes of a folder."""
    assert spec.oci is not None
    if not _is_layout(spec.oci):
        return "folder " + folder.fingerprint(spec.oci)
    with opened(spec.oci) as layout:
        return "image " + read_image(layout).digest


def root_from_oci(spec: RootSpec, tree: Path) -> Service | None:
    """Fill an empty folder; the bytes written are bounded by the disk's size."""
    assert spec.oci is not None
    limit_bytes = spec.limit_bytes or LIMIT_DEFAULT_BYTES
    if not _is_layout(spec.oci):
        folder.check(spec.oci, Budget(limit_bytes, ADVICE))
        folder.copy(spec.oci, tree)
        return None
    with opened(spec.oci) as layout:
        image = read_image(layout)
        unpack(layout, image, tree, limit_bytes, ADVICE)
    with Tree(tree, LinkPolicy.INSIDE, Budget(0, ADVICE)) as written:
        return service_of(image.config, written)


def _is_layout(where: Path) -> bool:
    return where.is_file() or (where / LAYOUT_FILE).is_file()
