# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Unpack the layers of an image, one over the other, into one tree.

Whiteouts: `.wh.NAME` removes NAME of the layers below, `.wh..wh..opq` removes everything that the
layers below have in its directory. Neither removes anything of its own layer, in any order.
"""

from __future__ import annotations

from pathlib import Path

from lab.archive.extract import write_entry
from lab.archive.limits import ArchiveError, Budget, shown
from lab.archive.tar_stream import TarStream
from lab.archive.tree import LinkPolicy, PathParts, Tree
from lab.oci.decompress import layer_source
from lab.oci.layout import Image, Layer, Layout

WHITEOUT = ".wh."
OPAQUE = ".wh..wh..opq"
# Headers and padding of an archive, beside the files' content.
OVERHEAD = 2


def unpack(layout: Layout, image: Image, into: Path, limit_bytes: int, advice: str) -> int:
    """Write all layers below a new folder; return the bytes of all files ever written.

    *limit_bytes* bounds them, including deleted ones. *advice*: how the user can raise the limit.
    """
    files = Budget(limit_bytes, advice)
    archives = Budget(limit_bytes * OVERHEAD, advice)
    with Tree(into, LinkPolicy.INSIDE, files) as tree:
        for layer in image.layers:
            _apply(layout, layer, tree, archives)
        tree.finish()
    return files.used_bytes


def _apply(layout: Layout, layer: Layer, tree: Tree, archives: Budget) -> None:
    own: set[PathParts] = set()
    with layout.blob(layer.blob) as blob, layer_source(blob, layer.form, archives) as source:
        stream = TarStream(source)
        for entry in stream.entries():
            if entry.path and entry.path[-1].startswith(WHITEOUT):
                _white_out(tree, entry.path, own)
                continue
            if any(part.startswith(WHITEOUT) for part in entry.path):
                raise ArchiveError(f"{shown(entry.name)}: below a whiteout")
            write_entry(tree, stream, entry, entry.path, owners=True)
            _remember(own, entry.path)
        if source.digest() != layer.content_digest:
            raise ArchiveError(f"layer {layer.blob.digest[:12]}: wrong digest of its content")


def _remember(own: set[PathParts], path: PathParts) -> None:
    """Add a path and the directories above it. If one is known, so are those above it."""
    while path and path not in own:
        own.add(path)
        path = path[:-1]


def _white_out(tree: Tree, path: PathParts, own: set[PathParts]) -> None:
    folder, name = path[:-1], path[-1]
    if name == OPAQUE:
        _clear(tree, folder, own)
        return
    hidden = name.removeprefix(WHITEOUT)
    if hidden in ("", ".", "..") or hidden.startswith(WHITEOUT):
        raise ArchiveError(f"{shown('/'.join(path))}: a whiteout of nothing")
    target = (*folder, hidden)
    if target in own:
        _clear(tree, target, own)
    else:
        tree.remove(target)


def _clear(tree: Tree, folder: PathParts, own: set[PathParts]) -> None:
    """Remove everything below a directory that is not of this layer."""
    for name in tree.list(folder):
        path = (*folder, name)
        if path in own:
            _clear(tree, path, own)
        else:
            tree.remove(path)
