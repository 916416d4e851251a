# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Whether packages are the same bytes when they are made at another time and place.

The checkout is cloned to another path, and set-up makes every product there again, with an empty
cache, other rights for new files, another time zone and another language. Only the compiler's cache
is shared: it has what the same compiler made of the same text with the same options.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.paths import cache_dir, repo_dir
from lab.run import run, stream

# Shared with this checkout: Python's packages, which are in no product, and the compiler's cache.
SHARED = ("venv", "ccache")
OTHER_WORDS = {"TZ": "Pacific/Kiritimati", "LC_ALL": "C", "LANG": "C"}
OTHER_UMASK = 0o027


@contextmanager
def made_again() -> Iterator[Path]:
    """A folder of packages that another checkout of the same commit has made."""
    with tempfile.TemporaryDirectory(prefix="rem-again-", dir=cache_dir()) as name:
        folder = Path(name)
        clone, cache, out = folder / "another-checkout", folder / "cache", folder / "packages"
        run(["git", "clone", "-q", "--no-hardlinks", repo_dir(), clone], what="the second checkout")
        cache.mkdir()
        for shared in SHARED:
            (cache_dir() / shared).mkdir(exist_ok=True)
            (cache / shared).symlink_to(cache_dir() / shared)
        words = {"REM_CACHE": str(cache), "CARGO_TARGET_DIR": "", "PYTHONPATH": "", **OTHER_WORDS}
        before = os.umask(OTHER_UMASK)
        try:
            stream(
                [clone / "rem", "package", out],
                cwd=clone,
                env=words,
                log=cache_dir() / "logs" / "package-again.log",
                what="making the packages again",
            )
        finally:
            os.umask(before)
        yield out


def differing(one: Path, other: Path) -> list[str]:
    """Names of packages whose bytes differ, or that only one of the folders has."""
    names = {path.name for folder in (one, other) for path in folder.glob("*.deb")}
    return sorted(name for name in names if not _same(one / name, other / name))


def _same(one: Path, other: Path) -> bool:
    return one.exists() and other.exists() and one.read_bytes() == other.read_bytes()
