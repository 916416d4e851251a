# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The first half of `rem demo`: boot, load, cut, time off, Go. The checks after Go: verdict.py.

Each step reports what it did and adds its figures to the Outcome.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from lab.demo.outcome import Outcome
from lab.errors import RemError
from lab.machine import CutRecord, Machine
from lab.machine.cut_plan import CutPlan
from lab.machine.status import cut_line
from lab.progress import waiting
from lab.report.record_text import note_line
from lab.testbed.guest_job import ProcessId
from lab.testbed.workload import Size, Workload

BOOT_LIMIT_S = 240.0
LOAD_LIMIT_S = 600.0
LOW_PAGES_MAX = 9
PAGE_BYTES = 4096


@dataclass(frozen=True)
class Plan:
    """What to do."""

    writes: int = 10_000  # acknowledged before the cut, at least
    off_s: float = 3.0
    more_s: float = 2.0  # of load after Go
    size: Size = field(default_factory=Size)
    no_flush: str | None = None  # which of Stop's flushes are disabled: a negative proof

    @property
    def kind(self) -> str:
        """Names the page: runs of different kinds do not overwrite each other's."""
        return "stop-go" if self.no_flush is None else f"no-flush-{self.no_flush}"


@dataclass
class Before:
    """The state when the power failed."""

    processes: dict[str, ProcessId | None]
    boot_id: str
    redis_run: str
    acked: dict[str, int] = field(default_factory=dict)  # of each server
    records: int = 0  # on disk


def guest_text(machine: Machine, command: str) -> str:
    return machine.run_in_guest(command).stdout.strip()


def boot_id(machine: Machine) -> str:
    return guest_text(machine, "cat /proc/sys/kernel/random/boot_id")


def redis_run(machine: Machine) -> str:
    """The id that redis chooses at each start."""
    lines = guest_text(machine, "redis-cli info server").splitlines()
    return next((line.strip() for line in lines if line.startswith("run_id:")), "")


def report_memory(machine: Machine, outcome: Outcome) -> None:
    """Report where main memory is, by the kernel's own map."""
    low = high = 0
    isa = machine.config.machine_isa
    for line in guest_text(machine, "cat /proc/iomem").splitlines():
        span, _, name = line.partition(" : ")
        if name == "System RAM" and not line.startswith(" "):
            first, last = (int(word, 16) for word in span.split("-"))
            if first >= isa.nvram_phys:
                high += last + 1 - first
            else:
                low += last + 1 - first
    pages = low // PAGE_BYTES
    outcome.report(
        f"Linux {guest_text(machine, 'uname -r')} runs from NVRAM: {high >> 20} MiB of main "
        f"memory above {isa.nvram_phys >> 30} GiB, {pages} pages of DRAM."
    )
    outcome.result.add("nvram_bytes", high, "bytes", "counted")
    outcome.result.add("dram_pages", pages, "pages", "counted")
    outcome.check(
        "main memory is NVRAM",
        high > 0 and pages <= LOW_PAGES_MAX,
        f"{pages} pages of DRAM in the kernel's map, at most {LOW_PAGES_MAX} allowed",
    )


def boot(machine: Machine, outcome: Outcome) -> None:
    machine.boot()
    machine.wait_up(BOOT_LIMIT_S)
    note = machine.boot_note()
    outcome.report(f"Power on. The loader: {note_line(note) if note else 'left no note'}.")
    report_memory(machine, outcome)


def load(machine: Machine, work: Workload, plan: Plan, outcome: Outcome) -> Before:
    """Return when enough is acknowledged and everything is at work."""
    work.start()
    outcome.report(
        f"redis (nothing of it on disk) and memcached serve {2 * plan.size.clients} clients on the "
        "host; a file is written with fsync; two programs compute."
    )
    before = Before(work.processes(), boot_id(machine), redis_run(machine))
    with waiting("the load: acknowledged writes"):
        work.wait_acked(plan.writes, LOAD_LIMIT_S)
    missing = [name for name, process in before.processes.items() if process is None]
    if missing:
        raise RemError(f"these ended before the cut: {', '.join(missing)}")
    return before


def cut(
    machine: Machine, work: Workload, before: Before, plan: Plan, outcome: Outcome
) -> CutRecord:
    """Drop PWR_OK under full load; the clients are stopped only afterwards."""
    record = machine.cut(CutPlan(no_flush=plan.no_flush))
    # By the host's clock, as the clients; the Stop's own time is the model's.
    writers = work.writers().items()
    held = {name: load.ask("hold", at_ns=record.went_at_ns) for name, load in writers}
    before.acked = {name: one["acked"] for name, one in held.items()}
    before.records = work.loads["peer"].ask("status")["acked_records"]
    acked = sum(before.acked.values())
    clients = sum(one["clients"] for one in held.values())
    waiting = sum(one["clients_in_flight_at_cut"] for one in held.values())
    in_flight = sum(one["in_flight_at_cut"] for one in held.values())
    line = cut_line(vars(record))
    outcome.report(f"Power cut: {line}.")
    outcome.report(
        f"{acked} writes and {before.records} records on disk are acknowledged; {in_flight} "
        f"requests of {waiting} clients are in flight."
    )
    add = outcome.result.add
    add("acked_writes", acked, "writes", "counted")
    add("acked_records", before.records, "records", "counted")
    add("in_flight_requests", in_flight, "requests", "counted")
    add("in_flight_clients", waiting, "clients", "counted")
    if record.stopped_after_ns is not None:
        if machine.config.icount:
            add("stop_model_ns", record.stopped_after_ns, "ns", "modelled")
        else:
            add("stop_wall_ns", record.stopped_after_ns, "ns", "native")
    gone = record.gone and not Path(f"/proc/{record.qemu_pid}").exists()
    outcome.check("the QEMU process has ended", gone, f"process {record.qemu_pid}")
    outcome.check("Stop committed within the hold-up", record.stopped, line)
    enough = f"{acked} writes, at least {plan.writes} wanted"
    outcome.check("enough was acknowledged before the cut", acked >= plan.writes, enough)
    everyone = f"{waiting} of {clients} clients"
    outcome.check("each client had a request in flight", waiting == clients, everyone)
    failures = work.failures()
    outcome.check("no connection ended at the cut", not failures, "; ".join(failures) or "none did")
    return record


def go(machine: Machine, plan: Plan, outcome: Outcome) -> bool:
    """Power returns; false if the loader does not enter the image."""
    time.sleep(plan.off_s)
    begin_ns = time.monotonic_ns()
    machine.resume()
    note = machine.wait_boot_note()
    took_ms = (time.monotonic_ns() - begin_ns) / 1e6
    pid = machine.qemu.pid if machine.qemu else 0
    outcome.report(
        f"{plan.off_s:g} s later power returns: a new QEMU, process {pid}. After {took_ms:.0f} ms "
        f"its loader has decided: {note_line(note)}."
    )
    return outcome.check("the loader entered the image", note.resumed, note_line(note))
