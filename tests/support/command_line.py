# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem` as a person types it, about one machine."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lab.errors import Exit
from lab.paths import repo_dir
from lab.testbed.machines import fast_dir
from tests.support.claims import machine_name

LIMIT_S = 240.0


class Cli:
    """Each call is a process of its own."""

    def __init__(self, state: Path, name: str) -> None:
        self.state = state
        self.name = machine_name(name)
        self.env = {**os.environ, "REM_STATE": str(state)}

    def words(self, command: str, *options: str) -> list[str]:
        return [str(repo_dir() / "rem"), command, "--name", self.name, *options]

    def __call__(
        self, command: str, *options: str, **more: Any
    ) -> subprocess.CompletedProcess[str]:
        more = {"text": True, **more}
        return subprocess.run(
            self.words(command, *options),
            env=self.env,
            capture_output=True,
            timeout=LIMIT_S,
            check=False,
            **more,
        )

    def well(self, command: str, *options: str, **more: Any) -> subprocess.CompletedProcess[str]:
        done = self(command, *options, **more)
        assert done.returncode == Exit.PASS, done.stderr
        return done

    def guest(self, command: str) -> str:
        """What a command that must succeed prints in the guest."""
        return self.well("ssh", command).stdout


@contextmanager
def running_machine(state: Path, name: str, *options: str) -> Iterator[Cli]:
    """A machine of `rem run -d` with these options; removed at the end."""
    cli = Cli(state, name)
    fast = fast_dir()
    where = [] if fast is None else ["--nvram-dir", str(fast)]
    cli.well("run", "-d", *where, *options)
    try:
        yield cli
    finally:
        cli("rm", "--force")
