# SPDX-License-Identifier: Apache-2.0 OR MIT
"""An OCI image layout: a folder, or a tar archive of one, as `skopeo copy ... oci-archive:` makes.

    oci-layout                {"imageLayoutVersion": "1.0.0"}
    index.json                -> manifest, by digest (or another index)
    blobs/sha256/DIGEST       manifest -> configuration and layers

A blob is used only if it has the size and the SHA-256 of its descriptor. File names are made from
digests, never taken from the image.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from lab.archive.limits import ArchiveError, shown
from lab.archive.tar_stream import CHUNK_BYTES, Kind, TarStream
from lab.archive.tree import PathParts
from lab.errors import UsageError

LAYOUT_FILE, INDEX_FILE = "oci-layout", "index.json"
JSON_BYTES_MAX = 4 << 20  # what registries accept for a manifest
INDEX_DEPTH_MAX = 4
LAYERS_MAX = 512  # overlayfs mounts at most 500
PLATFORM = ("linux", "amd64")

# gzip, zstd, xz, bzip2
_COMPRESSED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7zX", b"BZh")
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_INDEXES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
_MANIFESTS = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_CONFIGS = (
    "application/vnd.oci.image.config.v1+json",
    "application/vnd.docker.container.image.v1+json",
)
_LAYERS = {
    "application/vnd.oci.image.layer.v1.tar": "tar",
    "application/vnd.oci.image.layer.v1.tar+gzip": "gzip",
    "application/vnd.oci.image.layer.v1.tar+zstd": "zstd",
    "application/vnd.docker.image.rootfs.diff.tar": "tar",
    "application/vnd.docker.image.rootfs.diff.tar.gzip": "gzip",
}


@dataclass(frozen=True)
class Descriptor:
    """A reference from one document to another."""

    media_type: str
    digest: str  # 64 hexadecimal digits
    size_bytes: int
    platform: tuple[str, str] | None = None

    @staticmethod
    def parse(raw: Any, what: str) -> Descriptor:
        fields = typed(raw, dict, what)
        digest = _DIGEST.fullmatch(typed(fields.get("digest"), str, f"{what}: digest"))
        if digest is None:
            raise ArchiveError(f"{what}: the digest is not a sha256: {shown(fields['digest'])}")
        size_bytes = typed(fields.get("size"), int, f"{what}: size")
        if size_bytes < 0:
            raise ArchiveError(f"{what}: a size of {size_bytes}")
        platform = fields.get("platform")
        found = None
        if platform is not None:
            typed(platform, dict, f"{what}: platform")
            found = (str(platform.get("os")), str(platform.get("architecture")))
        return Descriptor(str(fields.get("mediaType")), digest[1], size_bytes, found)


@dataclass(frozen=True)
class Layer:
    blob: Descriptor
    form: str  # tar, gzip or zstd
    content_digest: str  # of the tar archive, not compressed: the configuration's diff_id


@dataclass(frozen=True)
class Image:
    """One image of a layout, its documents checked, its layers not read yet."""

    digest: str  # of the manifest: names the content of all
    config: dict[str, Any]  # the part of the configuration that describes the process
    layers: tuple[Layer, ...]


class Blob:
    """A part of an open file, read like a file."""

    def __init__(self, source: BinaryIO, start: int, size_bytes: int) -> None:
        self._source, self._start, self.size_bytes = source, start, size_bytes
        self.rewind()

    def rewind(self) -> None:
        self._source.seek(self._start)
        self._left_bytes = self.size_bytes

    def read(self, size: int, /) -> bytes:
        data = self._source.read(min(size, self._left_bytes))
        self._left_bytes -= len(data)
        return data


class Layout(ABC):
    """The files of a layout."""

    @abstractmethod
    def _open(self, name: PathParts) -> tuple[BinaryIO, int, int]:
        """Return the file that has a file of the layout, its start there and its size."""

    @abstractmethod
    def close(self) -> None: ...

    @contextmanager
    def _file(self, name: PathParts) -> Iterator[Blob]:
        source, start, size_bytes = self._open(name)
        with source:
            yield Blob(source, start, size_bytes)

    @contextmanager
    def blob(self, descriptor: Descriptor) -> Iterator[Blob]:
        """Yield a blob after checking its size and digest."""
        short = descriptor.digest[:12]
        with self._file(("blobs", "sha256", descriptor.digest)) as blob:
            if blob.size_bytes != descriptor.size_bytes:
                raise ArchiveError(
                    f"blob {short}: {blob.size_bytes} bytes; "
                    f"its descriptor says {descriptor.size_bytes}"
                )
            found = hashlib.sha256()
            while data := blob.read(CHUNK_BYTES):
                found.update(data)
            if found.hexdigest() != descriptor.digest:
                raise ArchiveError(f"blob {short}: its content has another digest")
            blob.rewind()
            yield blob

    def document(self, descriptor: Descriptor, what: str) -> dict[str, Any]:
        """Return the content of a JSON blob."""
        _check_size(descriptor.size_bytes, what)
        with self.blob(descriptor) as blob:
            return _parse(blob.read(blob.size_bytes), what)

    def plain_document(self, name: str) -> dict[str, Any]:
        """Return the content of a JSON file outside blobs/."""
        with self._file((name,)) as blob:
            _check_size(blob.size_bytes, name)
            return _parse(blob.read(blob.size_bytes), name)


class FolderLayout(Layout):
    """A layout in a folder. No link is followed: a layout has none."""

    def __init__(self, where: Path) -> None:
        self._root = os.open(where, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)

    def _open(self, name: PathParts) -> tuple[BinaryIO, int, int]:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        fd = os.dup(self._root)
        try:
            for part in name:
                new = os.open(part, flags, dir_fd=fd)
                os.close(fd)
                fd = new
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode):
                raise ArchiveError(f"{'/'.join(name)}: not a regular file")
        except OSError as error:
            os.close(fd)
            raise ArchiveError(f"{'/'.join(name)}: {error.strerror}") from error
        except ArchiveError:
            os.close(fd)
            raise
        return os.fdopen(fd, "rb"), 0, found.st_size

    def close(self) -> None:
        os.close(self._root)


class ArchiveLayout(Layout):
    """An uncompressed tar archive: its files are read in place."""

    def __init__(self, where: Path) -> None:
        self._where = where
        self._files: dict[PathParts, tuple[int, int]] = {}
        with where.open("rb") as source:
            if source.read(4).startswith(_COMPRESSED):
                raise UsageError(f"{where} is compressed: decompress it first")
            source.seek(0)
            stream = TarStream(source)
            for entry in stream.entries():
                if entry.path in self._files:
                    raise ArchiveError(f"{shown(entry.name)} is in the archive twice")
                if entry.kind is Kind.FILE:
                    self._files[entry.path] = (source.tell(), entry.size_bytes)

    def _open(self, name: PathParts) -> tuple[BinaryIO, int, int]:
        place = self._files.get(name)
        if place is None:
            raise ArchiveError(f"{'/'.join(name)}: not in the archive")
        return self._where.open("rb"), *place

    def close(self) -> None:
        pass


@contextmanager
def opened(where: Path) -> Iterator[Layout]:
    layout: Layout = FolderLayout(where) if where.is_dir() else ArchiveLayout(where)
    try:
        yield layout
    finally:
        layout.close()


def read_image(layout: Layout) -> Image:
    """Return the image for this processor; everything but its layers is read and checked."""
    layout.plain_document(LAYOUT_FILE)
    index = layout.plain_document(INDEX_FILE)
    chosen = _choose(layout, index, 0)
    manifest = layout.document(chosen, "the manifest")
    config_at = Descriptor.parse(manifest.get("config"), "the manifest's config")
    if config_at.media_type not in _CONFIGS:
        raise ArchiveError(f"the image's configuration is of type {shown(config_at.media_type)}")
    config = layout.document(config_at, "the configuration")
    platform = (str(config.get("os")), str(config.get("architecture")))
    if platform != PLATFORM:
        raise ArchiveError(f"the image is for {shown('/'.join(platform))}: linux/amd64 is needed")
    process = config.get("config")
    return Image(
        chosen.digest,
        {} if process is None else typed(process, dict, "the configuration's config"),
        _layers(manifest, config),
    )


def _choose(layout: Layout, index: dict[str, Any], depth: int) -> Descriptor:
    """Return the manifest for this processor; an index may contain another."""
    entries = [
        Descriptor.parse(raw, "an entry of the index")
        for raw in typed(index.get("manifests"), list, "the index's manifests")
    ]
    manifests = [entry for entry in entries if entry.media_type in _MANIFESTS]
    fitting = [entry for entry in manifests if entry.platform in (None, PLATFORM)]
    if len(fitting) == 1:
        return fitting[0]
    if len(fitting) > 1:
        raise ArchiveError(
            f"the layout holds {len(fitting)} images for linux/amd64: copy one of them "
            "into a layout of its own (`skopeo copy`)"
        )
    nested = [entry for entry in entries if entry.media_type in _INDEXES]
    if len(nested) == 1:
        if depth >= INDEX_DEPTH_MAX:
            raise ArchiveError(f"an index in an index, {INDEX_DEPTH_MAX} times and more")
        return _choose(layout, layout.document(nested[0], "an index"), depth + 1)
    found = ", ".join(sorted({"/".join(e.platform) for e in manifests if e.platform}))
    raise ArchiveError(f"no image for linux/amd64 in the layout; it has: {shown(found)}")


def _layers(manifest: dict[str, Any], config: dict[str, Any]) -> tuple[Layer, ...]:
    raw_layers = typed(manifest.get("layers"), list, "the manifest's layers")
    rootfs = typed(config.get("rootfs"), dict, "the configuration's rootfs")
    raw_digests = typed(rootfs.get("diff_ids"), list, "the configuration's diff_ids")
    if len(raw_layers) != len(raw_digests):
        raise ArchiveError(
            f"{len(raw_layers)} layers in the manifest, {len(raw_digests)} in the configuration"
        )
    if len(raw_layers) > LAYERS_MAX:
        raise ArchiveError(f"{len(raw_layers)} layers: at most {LAYERS_MAX}")
    layers = []
    for raw_layer, raw_digest in zip(raw_layers, raw_digests, strict=True):
        blob = Descriptor.parse(raw_layer, "a layer")
        form = _LAYERS.get(blob.media_type)
        if form is None:
            raise ArchiveError(f"a layer of type {shown(blob.media_type)}, which is unknown")
        digest = _DIGEST.fullmatch(typed(raw_digest, str, "a diff_id"))
        if digest is None:
            raise ArchiveError("a diff_id is not a sha256")
        layers.append(Layer(blob, form, digest[1]))
    return tuple(layers)


_T = TypeVar("_T")


def typed(value: Any, kind: type[_T], what: str) -> _T:
    """Return a JSON value of one type, or raise ArchiveError. A boolean is not a number."""
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ArchiveError(f"{what}: {type(value).__name__} where {kind.__name__} is expected")
    return value


def _check_size(size_bytes: int, what: str) -> None:
    if size_bytes > JSON_BYTES_MAX:
        raise ArchiveError(f"{what}: {size_bytes} bytes, at most {JSON_BYTES_MAX}")


def _parse(data: bytes, what: str) -> dict[str, Any]:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ArchiveError(f"{what}: not valid JSON") from error
    return typed(document, dict, what)
