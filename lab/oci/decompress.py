# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Decompress a layer's tar archive: plain, gzip or zstd, with at most a chunk in memory.

Reads are exact: fewer bytes than requested mean the end. The output is counted, because a blob of
some KiB can hold terabytes of zeros, and hashed.
"""

from __future__ import annotations

import hashlib
import subprocess
import threading
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from lab import run
from lab.archive.limits import ArchiveError, Budget
from lab.archive.tar_stream import CHUNK_BYTES
from lab.oci.layout import Blob

GZIP_WINDOW = 31  # zlib's word for a gzip header and the largest window
# A frame may require a window of up to 3.75 TiB; compressors use at most this by default.
ZSTD_MEMORY = "128MB"


class LayerSource(ABC):
    """The archive of one layer."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._hash = hashlib.sha256()
        self._chunk, self._at = b"", 0

    @abstractmethod
    def _more(self) -> bytes:
        """Return the next bytes, at most about a chunk; none at the end."""

    def read(self, size: int, /) -> bytes:
        parts = []
        while size:
            if self._at == len(self._chunk):
                self._chunk, self._at = self._more(), 0
                if not self._chunk:
                    break
                self._budget.charge(len(self._chunk))
                self._hash.update(self._chunk)
            part = self._chunk[self._at : self._at + size]
            self._at += len(part)
            size -= len(part)
            parts.append(part)
        return b"".join(parts)

    def digest(self) -> str:
        """Return the digest of the whole archive, after reading the rest of it."""
        while self.read(CHUNK_BYTES):
            pass
        return self._hash.hexdigest()


class Plain(LayerSource):
    def __init__(self, blob: Blob, budget: Budget) -> None:
        super().__init__(budget)
        self._blob = blob

    def _more(self) -> bytes:
        return self._blob.read(CHUNK_BYTES)


class Gzip(LayerSource):
    """A sequence of gzip members."""

    def __init__(self, blob: Blob, budget: Budget) -> None:
        super().__init__(budget)
        self._blob = blob
        self._member = zlib.decompressobj(GZIP_WINDOW)
        self._input = b""
        self._began = False

    def _more(self) -> bytes:
        while True:
            if not self._input:
                self._input = self._blob.read(CHUNK_BYTES)
            if not self._input:
                if self._began:
                    raise ArchiveError("a layer's gzip stream ends in the middle")
                return b""
            self._began = True
            try:
                data = self._member.decompress(self._input, CHUNK_BYTES)
            except zlib.error as error:
                raise ArchiveError(f"a layer's gzip stream is damaged: {error}") from error
            self._input = self._member.unconsumed_tail
            if self._member.eof:
                self._input = self._member.unused_data
                self._member = zlib.decompressobj(GZIP_WINDOW)
                self._began = False
            if data:
                return data


class Zstd(LayerSource):
    """Decompression by the program, which bounds its own memory."""

    def __init__(self, child: subprocess.Popen[str], budget: Budget) -> None:
        super().__init__(budget)
        self._child = child

    def _more(self) -> bytes:
        assert self._child.stdout is not None
        data: bytes = self._child.stdout.buffer.read(CHUNK_BYTES)  # type: ignore[attr-defined]
        if not data and self._child.wait() != 0:
            raise ArchiveError("a layer's zstd stream is damaged, or needs too much memory")
        return data


@contextmanager
def layer_source(blob: Blob, form: str, budget: Budget) -> Iterator[LayerSource]:
    if form == "tar":
        yield Plain(blob, budget)
    elif form == "gzip":
        yield Gzip(blob, budget)
    else:
        with _zstd(blob) as child:
            yield Zstd(child, budget)


@contextmanager
def _zstd(blob: Blob) -> Iterator[subprocess.Popen[str]]:
    child = run.spawn(
        ["zstd", "-dc", "-q", f"-M{ZSTD_MEMORY}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )

    def feed() -> None:
        assert child.stdin is not None
        pipe = child.stdin.buffer  # type: ignore[attr-defined]
        # Broken if the reader has ended: its error is the one to report.
        with suppress(BrokenPipeError, ValueError):
            while data := blob.read(CHUNK_BYTES):
                pipe.write(data)
        with suppress(BrokenPipeError, ValueError):
            child.stdin.close()

    feeder = threading.Thread(target=feed, name="rem-zstd", daemon=True)
    feeder.start()
    try:
        yield child
    finally:
        with suppress(ProcessLookupError):
            child.kill()
        feeder.join()
        run.end(child)
