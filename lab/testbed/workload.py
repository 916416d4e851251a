# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What runs while the power fails: servers with clients on the host, programs in the guest."""

from __future__ import annotations

import shutil
import time
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from lab.addresses import GUEST_ADDRESS, HOST_ADDRESS
from lab.clients.process import ClientProcess, need_tap
from lab.errors import HangError, InfraError, RemError
from lab.machine import Machine
from lab.testbed.guest_job import GuestJob, ProcessId, identify, pid_of

SERVERS = {
    # Nothing may come from a disk: no append-only file, no snapshots.
    "redis": "redis-server --save '' --appendonly no --protected-mode no --daemonize yes "
    "--bind 0.0.0.0 --logfile /run/redis.log --dir /run",
    "memcached": "memcached -d -u root -m 128 -l 0.0.0.0",
}
PROGRAMS = {"redis": "redis-server", "memcached": "memcached"}
PORTS = {"redis": 6379, "memcached": 11211}
START_LIMIT_S = 60.0
POLL_S = 0.1
# Computation gets the time that the servers leave.
COMPUTATION_NICE = 10


@dataclass(frozen=True)
class Size:
    """How much load there is."""

    clients: int = 4  # of each server
    depth: int = 4  # requests in flight of each client
    records: int = 4096  # slots of rem-fsync's file


class Workload:
    """Use as a context: its host processes end with it; the guest's end with the machine."""

    def __init__(self, machine: Machine, size: Size) -> None:
        need_tap(machine.network)  # before anything is started
        if shutil.which("ip") is None:
            raise InfraError("`ip` is not installed: apt-get install iproute2")
        self.machine = machine
        self.size = size
        self.loads: dict[str, ClientProcess] = {}
        self.jobs: dict[str, GuestJob] = {}
        self.pids: dict[str, int] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def _load(self, kind: str, **options: object) -> ClientProcess:
        return self._stack.enter_context(
            ClientProcess.beside(self.machine.network, kind, **options)
        )

    def start(self) -> None:
        """Servers, computation, file, clients: in this order."""
        for name, command in SERVERS.items():
            self.machine.run_in_guest(command)
            self._wait_port(PORTS[name])
            self.pids[name] = pid_of(self.machine, PROGRAMS[name])
        peer = self.loads["peer"] = self._load("peer", host=HOST_ADDRESS)
        frame_port, ack_port = peer.started["ports"]
        self._job("rem-fsync", "--path", "/root/rem-fsync.data", "--slots", str(self.size.records),
                  "--ack", f"{HOST_ADDRESS}:{ack_port}")  # fmt: skip
        self._job("rem-tcp", "--peer", f"{HOST_ADDRESS}:{frame_port}")
        self._job("rem-cpu", nice=COMPUTATION_NICE)
        self._job("rem-prime", "--limit", "100000000", nice=COMPUTATION_NICE)
        for name in SERVERS:
            self.loads[name] = self._load(
                "writers", protocol=name, host=GUEST_ADDRESS, clients=self.size.clients,
                depth=self.size.depth,
            )  # fmt: skip

    def _job(self, program: str, *options: str, nice: int = 0) -> None:
        job = GuestJob(self.machine, program, *options, nice=nice)
        self.jobs[program] = job
        self.pids[program] = job.pid

    def _wait_port(self, port: int) -> None:
        end_s = time.monotonic() + START_LIMIT_S
        while time.monotonic() < end_s:
            try:
                self.machine.connect(port).close()
            except OSError:
                time.sleep(POLL_S)
            else:
                return
        raise HangError(f"nothing listens on port {port} of the guest after {START_LIMIT_S:g} s")

    def writers(self) -> dict[str, ClientProcess]:
        return {name: self.loads[name] for name in SERVERS}

    def status(self) -> dict[str, dict[str, Any]]:
        return {name: load.ask("status") for name, load in self.loads.items()}

    def failures(self) -> list[str]:
        """Failures on the host's side: a connection that ended, a wrong reply."""
        return [failure for status in self.status().values() for failure in status["failures"]]

    def acked_writes(self) -> int:
        return sum(load.ask("status")["acked"] for load in self.writers().values())

    def wait_acked(self, writes: int, limit_s: float) -> int:
        """Wait until so many writes are acknowledged, some by each client, and records on disk."""
        end_s = time.monotonic() + limit_s
        while time.monotonic() < end_s:
            status = self.status()
            failures = [failure for one in status.values() for failure in one["failures"]]
            if failures:
                raise RemError(f"the load failed before the cut: {failures[0]}")
            acked = sum(status[name]["acked"] for name in SERVERS)
            everyone = all(status[name]["acked_min"] > 0 for name in SERVERS)
            if acked >= writes and everyone and status["peer"]["acked_records"] > 0:
                return int(acked)
            time.sleep(POLL_S)
        raise HangError(f"{self.acked_writes()} of {writes} writes acknowledged in {limit_s:g} s")

    def processes(self) -> dict[str, ProcessId | None]:
        """The identity of servers and programs in the guest now."""
        found = identify(self.machine, list(self.pids.values()))
        return {name: found.get(pid) for name, pid in self.pids.items()}
