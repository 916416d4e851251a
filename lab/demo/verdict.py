# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The second half of `rem demo`: after Go, every promise is checked.

What could not be verified counts as lost.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from lab.demo.outcome import Outcome
from lab.demo.story import Before, Plan, boot_id, redis_run
from lab.errors import RemError
from lab.machine import Machine
from lab.machine.console import kernel_warnings
from lab.record.block import decode, read_block
from lab.record.timeline import timeline_of
from lab.testbed.guest_job import ProcessId
from lab.testbed.workload import Workload

# TCP may wait some seconds before it sends again what was lost at the cut.
ANSWER_LIMIT_S = 120.0
# Reading tens of thousands of keys back, from an emulated machine under load.
READ_LIMIT_S = 240.0
FINISH_LIMIT_S = 120.0


@dataclass
class Tally:
    """Sums over the servers' clients."""

    lost: int = 0
    repeated: int = 0
    checked: int = 0
    gap_ns: int = 0
    problems: tuple[str, ...] = ()


def read_back(work: Workload, promised: dict[str, int]) -> Tally:
    """Wait for the missing answers, then read back every write, over the same connections."""
    tally = Tally()
    for name, load in work.writers().items():
        result = load.ask("verify", ANSWER_LIMIT_S + READ_LIMIT_S, limit_s=ANSWER_LIMIT_S)
        tally.gap_ns = max(tally.gap_ns, result["longest_gap_ns"])
        if result["drained"] and not result["failures"]:
            tally.lost += result["lost"]
            tally.repeated += result["repeated"]
            tally.checked += result["checked"]
            found = result["first_loss"]
            tally.problems += (f"first loss: {found}",) if found else ()
        else:
            tally.lost += promised[name]
            waiting = result.get("waiting_clients", 0)
            tally.problems += tuple(result["failures"]) or (
                f"{name}: {waiting} clients got no answer in {ANSWER_LIMIT_S:g} s",
            )
    return tally


def check_clients(work: Workload, before: Before, plan: Plan, outcome: Outcome) -> int:
    """Check the servers' clients, before and after more load; return how many writes are lost."""
    first = read_back(work, before.acked)
    outcome.check(
        "every acknowledged write is there",
        first.lost == 0 and not first.problems,
        "; ".join(first.problems) or f"{first.checked} writes read back over the same connections",
    )
    outcome.check("no write was done twice", first.repeated == 0, f"{first.repeated} increments")
    outcome.result.add("lost_writes", first.lost, "writes", "counted")
    outcome.result.add("repeated_writes", first.repeated, "writes", "counted")
    outcome.result.add("client_gap_ns", first.gap_ns, "ns", "native")
    if first.problems:
        return first.lost
    for load in work.writers().values():
        load.ask("resume")
    time.sleep(plan.more_s)
    for load in work.writers().values():
        load.ask("hold", at_ns=time.monotonic_ns())
    now = {name: status["acked"] for name, status in work.status().items() if name in before.acked}
    second = read_back(work, now)
    more = sum(now.values()) - sum(before.acked.values())
    outcome.check(
        "the same connections continue",
        more > 0 and second.lost == second.repeated == 0 and not second.problems,
        "; ".join(second.problems) or f"{more} further writes, none lost",
    )
    outcome.report(
        f"{first.checked} writes were read back over the connections that were open at the cut: "
        f"{first.lost} lost. They continued: {more} further writes. The longest time a client "
        f"waited was {first.gap_ns / 1e9:.1f} s."
    )
    return first.lost


def _same(before: ProcessId | None, after: ProcessId | None) -> bool:
    return before is not None and before == after


def check_processes(machine: Machine, work: Workload, before: Before, outcome: Outcome) -> bool:
    """Check that kernel and processes are the same."""
    after = work.processes()
    changed = [name for name, old in before.processes.items() if not _same(old, after[name])]
    same_boot = boot_id(machine) == before.boot_id
    same_redis = redis_run(machine) == before.redis_run
    pids = ", ".join(f"{name} {pid}" for name, pid in work.pids.items())
    outcome.check("the same kernel runs", same_boot, "boot_id is as before the cut")
    ok = outcome.check(
        "the same processes run",
        not changed and same_redis,
        f"changed: {', '.join(changed) or 'redis'}" if changed or not same_redis else pids,
    )
    if ok:
        outcome.report(f"The processes are the same: {pids}.")
    return ok and same_boot


def check_programs(work: Workload, before: Before, outcome: Outcome) -> None:
    """Check the verdicts of the self-checking programs, the disk and the peer."""
    verdicts = {name: job.finish(FINISH_LIMIT_S) for name, job in work.jobs.items()}
    for name, line in verdicts.items():
        outcome.check(f"{name} found no error", line.startswith("OK "), line)
    outcome.report("; ".join(verdicts.values()) + ".")
    peer = work.loads["peer"].ask("status")
    failures = "; ".join(peer["failures"])
    finished = peer["frame_connections_finished"] == peer["frame_connections"] == 1
    frames = f"{peer['frames_received']} frames received, {peer['frames_sent']} sent"
    outcome.check("the peer's connection continued", finished and not failures, failures or frames)
    check = (
        f"/opt/rem/bin/rem-fsync --check 1 --path /root/rem-fsync.data "
        f"--slots {work.size.records} --acked {peer['acked_records']}"
    )
    line = work.machine.run_in_guest(check, check=False).stdout.strip()
    ok = line.startswith("OK ") and peer["acked_records"] >= before.records
    outcome.check("every acknowledged record is on the disk", ok, line)


def check_log(machine: Machine, outcome: Outcome) -> None:
    """Check both consoles, and take the times of Stop and Go from the record."""
    text = "".join(
        path.read_text(errors="replace")
        for path in sorted(machine.files.directory.glob("console-*"))
    )
    found = kernel_warnings(text)
    outcome.check("no kernel warning", not found, found[0] if found else "none in the console logs")
    record = decode(read_block(machine.files.seen(machine.config)))
    newest = record.newest
    outcome.timeline = timeline_of(newest) if newest else None
    for name in ("stop", "loader", "go"):
        time_ns = getattr(outcome.timeline, f"{name}_ns") if outcome.timeline else None
        if time_ns is not None:
            outcome.result.add(f"{name}_ns", round(time_ns), "ns", "native")


def check_all(
    machine: Machine, work: Workload, before: Before, plan: Plan, outcome: Outcome
) -> None:
    """After the loader entered the image."""
    check_clients(work, before, plan, outcome)
    try:
        same = check_processes(machine, work, before, outcome)
        check_programs(work, before, outcome)
    except RemError as error:
        same = outcome.check("the guest answers commands", False, error.message)
    outcome.result.add("resumed", int(same), "machines", "counted")
    check_log(machine, outcome)


def all_lost(before: Before, outcome: Outcome) -> None:
    """After a cold boot: everything that was only in memory is lost."""
    outcome.result.add("lost_writes", sum(before.acked.values()), "writes", "counted")
    outcome.result.add("resumed", 0, "machines", "counted")
