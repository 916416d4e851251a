# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Records what a running machine asks of memory, below its caches, into a trace (rem_trace.h)."""

from __future__ import annotations

import time
from pathlib import Path

from lab import format as fmt
from lab.errors import RemError, UsageError
from lab.machine.caches import control_of
from lab.machine.parts import MachineParts

RECORDS_MAX = int(fmt.CONST["REM_PLUGIN_TRACE_RECORDS_MAX"])
POLL_S = 0.02
WRITE_LIMIT_S = 60.0  # of the file, once the trace has ended


def check_records(records: int) -> None:
    if not 1 <= records <= RECORDS_MAX:
        raise UsageError(f"{records} records: give 1 to {RECORDS_MAX}")


def record(machine: MachineParts, records: int, limit_s: float) -> Path:
    """A trace from now on: so many records, or what there is after *limit_s* of the host's time."""
    check_records(records)
    control = control_of(machine)
    path = machine.files.trace
    path.unlink(missing_ok=True)
    _tell(machine, records)
    if not _wait(machine, path, limit_s):
        _tell(machine, 0)
        if not _wait(machine, path, WRITE_LIMIT_S):
            raise RemError(f"{path}: no trace came: is there room on the disk? {control.path}")
    else:
        _tell(machine, 0)  # loads are not looked at any more, which is quicker
    return path


def _tell(machine: MachineParts, records: int) -> None:
    assert machine.qemu is not None, "the machine is off"
    machine.qemu.qmp.execute("stop")
    control_of(machine).trace(records)
    machine.qemu.qmp.execute("cont")


def _wait(machine: MachineParts, path: Path, limit_s: float) -> bool:
    end_s = time.monotonic() + limit_s
    while time.monotonic() < end_s and not path.exists():
        if machine.qemu is None or machine.qemu.process.poll() is not None:
            raise RemError(f"machine {machine.config.name!r} ended while its trace was recorded")
        time.sleep(POLL_S)
    return path.exists()
