# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Building modules of this repository for a kernel, also with planted bugs."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from lab.errors import RemError
from lab.paths import cache_dir, repo_dir
from lab.run import stream
from lab.setup import kernel
from lab.setup.patch_series import Patch, patched_copy


def build_modules(
    headers: Path,
    into: Path,
    sources: Iterable[Path],
    patches: Sequence[Patch],
    names: Sequence[str],
    words: Sequence[str] = (),
) -> None:
    """Build the modules *names* from *sources* in one folder, as patched, and copy them to *into*.

    The first folder of the repository that has a source names the log. A warning is an error: there
    is none on any kernel. *words*: more of them for make. No module has the folder's name, which is
    another one each time.
    """
    repo = repo_dir()
    paths = [path.relative_to(repo) for path in sources]
    rooms = list(dict.fromkeys(path.parts[0] for path in paths))
    with (
        tempfile.TemporaryDirectory(dir=into) as folder,
        tempfile.TemporaryDirectory(dir=into) as copy,
    ):
        patched_copy(repo, rooms, patches, Path(copy))
        for path in paths:
            shutil.copy(Path(copy) / path, folder)
        argv = ["nice", "make", "-C", str(headers), f"M={folder}", "CC=gcc", "W=1", *words]
        # Where strings are checked (CONFIG_FORTIFY_SOURCE) the kernel's messages name the file.
        flags = f"KCFLAGS=-Werror -ffile-prefix-map={folder}/="
        stream(
            [*argv, flags, "modules"],
            log=cache_dir() / "logs" / f"{rooms[0]}.log",
            env=kernel.make_env(),
            what=f"building the modules of {rooms[0]}",
        )
        for name in names:
            made = Path(folder) / f"{name}.ko"
            if folder.encode() in made.read_bytes():
                raise RemError(
                    f"{made.name} has the name of the folder where it was built: {folder}"
                )
            shutil.copy(made, into / made.name)
