# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem bench vm`: what saving a guest takes, beside QEMU's own ways.

One guest of Debian whose memory is full of data. In each round, in turn: `rem-vm` saves it, from
the drop of PWR_OK until all is committed, and power comes back; QEMU takes a snapshot of it
(`snapshot-save`); QEMU migrates it to a file, memory included. All three stop the guest first and
write to the host's memory, so that no disk is measured. Times are the host's: ratios count.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from lab import run
from lab.errors import HangError, RemError
from lab.machine.qmp import Qmp
from lab.result import Result
from lab.testbed.vm_host import DEBIAN, VmHost

RAM_BYTES = 4 << 30
FREE_BYTES = 512 << 20  # of the guest's memory, for the guest itself
SAVE_LIMIT_S = 300.0
GO_ON_LIMIT_S = 30.0
POLL_S = 0.005
SNAPSHOT_MIN = 10.0  # times ours
NODE = "vmstate"
FILL = """python3 -c '
import os
piece = os.urandom(1 << 20)
with open("/dev/shm/data", "wb") as file:
    for _ in range({mib}):
        file.write(piece)
'"""


@dataclass(frozen=True)
class Plan:
    ram_bytes: int = RAM_BYTES
    rounds: int = 5
    name: str = "bench-vm"


class Peer:
    """QEMU's own ways to save the guest, by a monitor of its own."""

    def __init__(self, host: VmHost) -> None:
        self.media = host.media
        self.qmp = Qmp("bench-vm")
        end = socket.socket(socket.AF_UNIX)
        end.connect(str(host.media / "monitor.sock"))
        self.qmp.connect(end, 10.0)

    def _do(self, command: str, **words: Any) -> Any:
        """While it writes memory it answers nothing."""
        return self.qmp.execute(command, SAVE_LIMIT_S, **words)

    def with_memory(self, whole: bool) -> None:
        """Whether a save has the guest's memory, too."""
        ignore = [{"capability": "x-ignore-shared", "state": not whole}]
        self._do("migrate-set-capabilities", capabilities=ignore)
        mode = "normal" if whole else "cpr-reboot"
        self._do("migrate-set-parameters", mode=mode)

    def snapshot(self) -> int:
        """Time of a snapshot, in ns; it is removed."""
        words = {"job-id": "save", "tag": "bench", "vmstate": NODE, "devices": [NODE]}
        took_ns = self._job("snapshot-save", words)
        self._job("snapshot-delete", {"job-id": "drop", "tag": "bench", "devices": [NODE]})
        return took_ns

    def _job(self, command: str, words: dict[str, Any]) -> int:
        begin_ns = time.monotonic_ns()
        self._do(command, **words)
        end_s = time.monotonic() + SAVE_LIMIT_S
        while True:
            (job,) = self._do("query-jobs")
            if job["status"] == "concluded":
                took_ns = time.monotonic_ns() - begin_ns
                self._do("job-dismiss", id=job["id"])
                if "error" in job:
                    raise RemError(f"QEMU's {command}: {job['error']}")
                return took_ns
            if time.monotonic() > end_s:
                raise HangError(f"QEMU's {command} did not end within {SAVE_LIMIT_S:g} s")
            time.sleep(POLL_S)

    def migrate(self) -> tuple[int, int]:
        """Time of a migration to a file, in ns, and the file's bytes; it is removed."""
        path = self.media / "whole"
        begin_ns = time.monotonic_ns()
        self._do("stop")
        self._do("migrate", uri=f"file:{path}")
        end_s = time.monotonic() + SAVE_LIMIT_S
        while (status := self._do("query-migrate")["status"]) != "completed":
            if status == "failed" or time.monotonic() > end_s:
                raise RemError(f"QEMU's migration to a file: {status}")
            time.sleep(POLL_S)
        took_ns = time.monotonic_ns() - begin_ns
        self._do("cont")
        size = path.stat().st_size
        path.unlink()
        return took_ns, size


def _save(host: VmHost) -> int:
    """Ours, from the drop of PWR_OK to the report that all is committed; then power is back."""
    assert host.supply.wire is not None
    begin_ns = time.monotonic_ns()
    host.supply.set_power_ok(False)
    if not host.supply.wire.stopped.wait(SAVE_LIMIT_S):
        raise HangError(f"rem-vm saved nothing within {SAVE_LIMIT_S:g} s")
    took_ns = time.monotonic_ns() - begin_ns
    host.supply.set_power_ok(True)
    host.run_in_guest("true", limit_s=GO_ON_LIMIT_S)
    return took_ns


def _devices(media: Path) -> tuple[str, ...]:
    """A monitor and a place for snapshots."""
    monitor = f"socket,id=monitor,path={media / 'monitor.sock'},server=on,wait=off"
    place = f"driver=qcow2,node-name={NODE},file.driver=file,file.filename={media / 'snapshots'}"
    return ("-chardev", monitor, "-mon", "chardev=monitor,mode=control", "-blockdev", place)


def run_bench(plan: Plan, print_line: Callable[[str], None]) -> Result:
    """Measure; not ok if a snapshot is less than ten times slower."""
    result = Result("bench-vm")
    found: dict[str, list[int]] = {"ours": [], "snapshot": [], "file": []}
    with VmHost(plan.name, ram_bytes=plan.ram_bytes, hold_up_us=10_000_000,
                more=_devices) as host:  # fmt: skip
        run.run(["qemu-img", "create", "-q", "-f", "qcow2", host.media / "snapshots", "64M"])
        host.power_on()
        host.wait_up()
        print_line("filling the guest's memory")
        mib = (plan.ram_bytes - FREE_BYTES) >> 20
        host.run_in_guest("mount -o remount,size=100% /dev/shm")
        host.run_in_guest(FILL.format(mib=mib), limit_s=SAVE_LIMIT_S)
        peer = Peer(host)
        for number in range(plan.rounds):
            print_line(f"round {number + 1} of {plan.rounds}")
            found["ours"].append(_save(host))
            peer.with_memory(True)
            found["snapshot"].append(peer.snapshot())
            took_ns, whole_bytes = peer.migrate()
            found["file"].append(took_ns)
            peer.with_memory(False)
        peer.qmp.close()
        state_bytes = host.status()[DEBIAN]["state_bytes"]
        host.guest.close()
        host.cut()
        boot_ns = host.power_on()[DEBIAN]["boot_us"] * 1000
    for name, times_ns in found.items():
        result.add(f"{name}_ns", median(times_ns), "ns", "native")
        result.add(f"{name}_min_ns", min(times_ns), "ns", "native")
        result.add(f"{name}_max_ns", max(times_ns), "ns", "native")
    for name in ("snapshot", "file"):
        each = [theirs / ours for theirs, ours in zip(found[name], found["ours"], strict=True)]
        result.add(f"save_vs_{name}", round(median(each), 1), "x", "native")
        result.add(f"save_vs_{name}_min", round(min(each), 1), "x", "native")
    result.add("ours_bytes", state_bytes, "B", "counted")
    result.add("file_bytes", whole_bytes, "B", "counted")
    result.add("restore_ns", boot_ns, "ns", "native")
    result.ok = float(result.figures["save_vs_snapshot"].value) >= SNAPSHOT_MIN
    return result
