# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The files of the repository, and which of them are text."""

from __future__ import annotations

from pathlib import Path

from lab.run import run

ELF_MAGIC = b"\x7fELF"


def project_files(repo: Path) -> list[Path]:
    """Files that are in the repository or would be with the next `git add`, sorted."""
    words = ["ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = run(["git", *words], cwd=repo).stdout.split("\0")
    return sorted(repo / name for name in set(names) if name and (repo / name).is_file())


def is_binary(data: bytes) -> bool:
    return data.startswith(ELF_MAGIC) or b"\0" in data


def text_of(data: bytes) -> str | None:
    """None for a binary file."""
    return None if is_binary(data) else data.decode("utf-8", errors="replace")


def is_shell(lines: list[str]) -> bool:
    """By its first line."""
    return bool(lines) and lines[0].startswith("#!") and lines[0].split("/")[-1].endswith("sh")
