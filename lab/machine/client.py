# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Finds the machine that a command names."""

from __future__ import annotations

from lab.errors import UsageError
from lab.machine.control import has_supervisor
from lab.machine.files import MachineFiles


def existing(name: str) -> MachineFiles:
    """A machine that exists, or UsageError."""
    files = MachineFiles.of(name)
    files.read_config()
    return files


def supervised(name: str) -> MachineFiles:
    """A machine that has a supervisor, or UsageError."""
    files = existing(name)
    if not has_supervisor(files):
        raise UsageError(
            f"machine {name!r} is not running: start it with `rem resume --name {name}`"
        )
    return files
