# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The commit of this checkout, by which packages are named."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from datetime import UTC, datetime

from lab.errors import InfraError
from lab.paths import repo_dir
from lab.run import run


def base_version() -> str:
    """The version that Cargo.toml has for all crates."""
    manifest = tomllib.loads((repo_dir() / "Cargo.toml").read_text(encoding="utf-8"))
    return str(manifest["workspace"]["package"]["version"])


@dataclass(frozen=True)
class Commit:
    """What packages are made of."""

    digest: str
    time_s: int
    maker: str  # NAME <ADDRESS>

    @property
    def version(self) -> str:
        """It grows with the time of the commit."""
        time = datetime.fromtimestamp(self.time_s, UTC)
        return f"{base_version()}+git{time:%Y%m%d.%H%M%S}.{self.digest[:7]}"


def commit_of_checkout() -> Commit:
    """The last commit. A checkout without git, or without a commit, is an error."""
    argv = ["git", "log", "-1", "--format=%H %ct %cN <%cE>"]
    done = run(argv, cwd=repo_dir(), check=False)
    words = done.stdout.strip().split(" ", 2)
    if not done.ok or len(words) != 3:
        raise InfraError(f"{repo_dir()} is no checkout of git, whose commit packages are named by")
    return Commit(words[0], int(words[1]), words[2])


def changed_files() -> list[str]:
    """What git says differs from the last commit, with files that it does not know."""
    argv = ["git", "status", "--porcelain", "--untracked-files=normal"]
    return run(argv, cwd=repo_dir()).stdout.splitlines()
