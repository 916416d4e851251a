# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Records the memory requests of a running machine, below its caches (rem_trace.h)."""

from __future__ import annotations

import time
from pathlib import Path

from lab import format as fmt
from lab.errors import RemError, UsageError
from lab.machine.caches import control_of
from lab.machine.parts import MachineParts

RECORDS_MAX = int(fmt.CONST["REM_PLUGIN_TRACE_RECORDS_MAX"])
POLL_S = 0.02
WRITE_LIMIT_S = 60.0  # for the file, once the trace has ended


def check_records(records: int) -> None:
    if not 1 <= records <= RECORDS_MAX:
        raise UsageError(f"{records} records: give 1 to {RECORDS_MAX}")


def record(machine: MachineParts, records: int, limit_s: float) -> Path:
    """Trace from now on: *records*, or as many as come in *limit_s* of the host's time."""
    check_records(records)
    control = control_of(machine)
    path = machine.files.trace
    path.unlink(missing_ok=True)
    _set(machine, records)
    if not _wait(machine, path, limit_s):
        _set(machine, 0)
        if not _wait(machine, path, WRITE_LIMIT_S):
            raise RemError(f"{path}: no trace was written: is the disk full? ({control.path})")
    else:
        _set(machine, 0)  # so that loads are no longer traced, which is faster
    return path


def _set(machine: MachineParts, records: int) -> None:
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
