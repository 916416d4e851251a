# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Write entries of an archive below one directory."""

from __future__ import annotations

from lab.archive.limits import ArchiveError, shown
from lab.archive.tar_stream import Entry, Kind, TarStream
from lab.archive.tree import PathParts, Tree

# Set-user-ID and similar bits would give the archive's author rights on the host.
PLAIN_MODE = 0o777
# Of all extended attributes only these mean the same on another system.
XATTRS = ("security.capability", "user.")


def write_entry(tree: Tree, stream: TarStream, entry: Entry, path: PathParts, owners: bool) -> None:
    """Write one entry, under another name than its own if *path* has one.

    *owners*: keep owner, special mode bits and attributes, for a root that another system runs.
    Otherwise the files belong to this process and have plain modes.
    """
    try:
        _write(tree, stream, entry, path, owners)
    except (OSError, ValueError) as error:  # a name that the file system refuses
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise ArchiveError(f"{shown(entry.name)} cannot be written: {why}") from error


def _write(tree: Tree, stream: TarStream, entry: Entry, path: PathParts, owners: bool) -> None:
    mode = entry.mode if owners else entry.mode & PLAIN_MODE
    match entry.kind:
        case Kind.DIRECTORY:
            tree.make_directory(path, mode, entry.time_ns)
        case Kind.FILE:
            tree.make_file(path, mode, entry.time_ns, entry.size_bytes, stream.content())
        case Kind.SYMLINK:
            tree.make_symlink(path, entry.link, entry.time_ns)
        case Kind.HARDLINK:
            tree.make_hardlink(path, entry.link_path)
            return  # owner and mode are those of the file
    if not owners:
        return
    tree.set_owner(path, entry.uid, entry.gid)
    if entry.kind is Kind.FILE:
        tree.set_mode(path, mode)
        for name, value in entry.xattrs.items():
            if name.startswith(XATTRS):
                tree.set_xattr(path, name, value)
