# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem rm`: remove a machine with its media, logs and network."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from lab.command_line.options import DEFAULT_NAME, NameOption
from lab.errors import HangError, RemError, UsageError
from lab.machine.client import existing
from lab.machine.control import has_supervisor, request
from lab.machine.files import MachineFiles, MachineLock
from lab.machine.machine import Machine, MachineState, remove_leftovers
from lab.messages import info

QUIT_LIMIT_S = 30.0


def _end_supervisor(files: MachineFiles) -> None:
    request(files, "quit", immediate=True)
    end_s = time.monotonic() + QUIT_LIMIT_S
    while MachineLock.owner_pid(files) is not None:
        if time.monotonic() > end_s:
            raise HangError(f"the supervisor of {files.name!r} does not end")
        time.sleep(0.02)


def register(app: typer.Typer) -> None:
    @app.command("rm")
    def rm_command(
        name: NameOption = DEFAULT_NAME,
        force: Annotated[
            bool, typer.Option("--force", "-f", help="Also if it runs, or is damaged.")
        ] = False,
    ) -> int:
        """Remove a machine: its NVRAM, its disk, its logs and its network."""
        try:
            files = existing(name)
        except RemError:
            if not force:
                raise
            info(f"rem: removed {remove_leftovers(name)}")
            return 0
        if has_supervisor(files):
            if files.read_state().get("state") == MachineState.RUNNING and not force:
                raise UsageError(f"machine {name!r} is running: `rem rm --force --name {name}`")
            _end_supervisor(files)
        Machine.open(name).destroy()
        return 0
