# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The errors that end a command: one line each (what, where, what to do) and an exit code."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """What `rem` returns to its caller."""

    PASS = 0
    BROKEN = 1  # an invariant is broken or a test failed
    USAGE = 2  # the command line is wrong
    HANG = 3  # a hang, or a budget of time exceeded
    INFRASTRUCTURE = 4  # a tool, disk space, the network or a permission is missing
    INTERRUPTED = 130  # Ctrl-C, as shells count it


class RemError(Exception):
    """Ends the command with one line on stderr."""

    exit_code: Exit = Exit.BROKEN

    def __init__(self, message: str, exit_code: Exit | None = None) -> None:
        super().__init__(message)
        self.message = message
        if exit_code is not None:
            self.exit_code = exit_code


class UsageError(RemError):
    """The command line is wrong."""

    exit_code = Exit.USAGE


class HangError(RemError):
    """Something did not end within its bound."""

    exit_code = Exit.HANG


class InfraError(RemError):
    """The environment lacks something: a tool, disk space, the network, a permission."""

    exit_code = Exit.INFRASTRUCTURE
