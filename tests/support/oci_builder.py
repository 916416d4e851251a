# SPDX-License-Identifier: Apache-2.0 OR MIT
"""OCI image layouts for tests: right by default, each part open to be made wrong."""

from __future__ import annotations

import gzip
import hashlib
import json
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.tar_builder import Archive

OCI = "application/vnd.oci.image"
MANIFEST, INDEX = f"{OCI}.manifest.v1+json", f"{OCI}.index.v1+json"
PLATFORM = {"os": "linux", "architecture": "amd64"}


def compress(data: bytes, form: str) -> bytes:
    if form == "gzip":
        return gzip.compress(data, mtime=0)
    if form == "zstd":
        return subprocess.run(["zstd", "-qc"], input=data, capture_output=True, check=True).stdout
    return data


@dataclass
class LayoutBuilder:
    """Add layers, change what is to be wrong, then write."""

    process: dict[str, Any] = field(default_factory=dict)
    platform: dict[str, str] = field(default_factory=lambda: dict(PLATFORM))
    layers: list[tuple[bytes, str]] = field(default_factory=list)  # archive, form
    blobs: dict[str, bytes] = field(default_factory=dict)
    diff_ids: list[str] | None = None

    def layer(self, archive: bytes, form: str = "gzip") -> None:
        self.layers.append((archive, form))

    def blob(self, data: bytes, media_type: str, **more: Any) -> dict[str, Any]:
        digest = hashlib.sha256(data).hexdigest()
        self.blobs[digest] = data
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data), **more}

    def document(self, content: dict[str, Any], media_type: str, **more: Any) -> dict[str, Any]:
        return self.blob(json.dumps(content).encode(), media_type, **more)

    def manifest(self) -> dict[str, Any]:
        """The manifest's descriptor; its blobs are there then."""
        layers = [
            self.blob(compress(data, form), f"{OCI}.layer.v1.tar" + f"+{form}" * (form != "tar"))
            for data, form in self.layers
        ]
        found = [f"sha256:{hashlib.sha256(data).hexdigest()}" for data, _ in self.layers]
        rootfs = {"type": "layers", "diff_ids": found if self.diff_ids is None else self.diff_ids}
        config = {**self.platform, "config": self.process, "rootfs": rootfs}
        at = self.document(config, f"{OCI}.config.v1+json")
        content = {"schemaVersion": 2, "mediaType": MANIFEST, "config": at, "layers": layers}
        return self.document(content, MANIFEST, platform=self.platform)

    def files(self, index: dict[str, Any] | None = None) -> dict[str, bytes]:
        """All files of the layout by name."""
        if index is None:
            index = {"schemaVersion": 2, "manifests": [self.manifest()]}
        found = {f"blobs/sha256/{digest}": data for digest, data in self.blobs.items()}
        found["oci-layout"] = b'{"imageLayoutVersion": "1.0.0"}'
        found["index.json"] = json.dumps(index).encode()
        return found

    def write(self, where: Path, index: dict[str, Any] | None = None) -> Path:
        """As a folder."""
        for name, data in self.files(index).items():
            (where / name).parent.mkdir(parents=True, exist_ok=True)
            (where / name).write_bytes(data)
        return where

    def write_archive(self, where: Path) -> Path:
        """As a tar archive."""
        made = Archive()
        for name, data in self.files().items():
            made.file(name, data)
        where.write_bytes(made.bytes())
        return where
