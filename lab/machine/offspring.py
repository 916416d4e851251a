# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Child processes that end with this process, even if it is killed."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any

from lab import run

# PR_SET_PDEATHSIG applies to the *thread* that forked, so a thread that lives as long as the
# process starts every such child.
_launcher = ThreadPoolExecutor(max_workers=1, thread_name_prefix="rem-launcher")


def spawn_bound(
    argv: Sequence[str],
    *,
    cwd: Path | None = None,
    stdout: int | IO[Any] | None = subprocess.DEVNULL,
    stderr: int | IO[Any] | None = subprocess.DEVNULL,
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[str]:
    """Start a process that the kernel kills when this one ends; its pid is the program's own."""
    bound = ["setpriv", "--pdeathsig", "KILL", "--", *argv]
    return _launcher.submit(
        run.spawn,
        bound,
        cwd=cwd,
        stdout=stdout,
        stderr=stderr,
        pass_fds=pass_fds,
        beside=run.is_beside(),
    ).result()
