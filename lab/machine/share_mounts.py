# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The shared folders of a machine: their servers, and their mounts after a Go.

A cold boot's init mounts them. A resumed guest has them mounted; where the server is another one
than at the Stop (another process owns the machine now), it mounts them again.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Protocol

from lab.addresses import HOST_ADDRESS
from lab.errors import HangError, InfraError, RemError, UsageError
from lab.machine.config import MachineConfig
from lab.machine.files import MachineFiles
from lab.machine.guest import SSH_FAILED, Guest
from lab.machine.network import Network, TapNetwork
from lab.machine.share_server import ShareServer
from lab.messages import info
from lab.record.boot_note import BootNote

MOUNT_LIMIT_S = 240.0  # a resumed guest on a crowded host
COMMAND = "/opt/rem/bin/rem-share"


class SharingMachine(Protocol):
    """What is needed of a machine."""

    config: MachineConfig
    files: MachineFiles
    network: Network
    guest: Guest

    def wait_boot_note(self, limit_s: float) -> BootNote: ...


class Shares:
    """Of one machine; of most, none."""

    def __init__(self, machine: SharingMachine) -> None:
        self._machine = machine
        self._servers: list[ShareServer] = []
        self._mounted: Future[None] = Future()
        self._mounted.set_result(None)

    def check(self) -> None:
        """UsageError where this machine cannot have shared folders."""
        config, network = self._machine.config, self._machine.network
        if config.shares and not isinstance(network, TapNetwork):
            # Elsewhere every user of the host could reach the server.
            raise UsageError(
                f"--share needs a tap network: run as root; this is {network.mode} mode"
            )

    def start(self) -> None:
        """Before power-on. A server that runs keeps its connection."""
        if self._machine.config.shares and not self._servers:
            self._servers = self._make_servers()
        for server in self._servers:
            server.start()

    def _make_servers(self) -> list[ShareServer]:
        self.check()
        config = self._machine.config
        system, log = config.share_server, self._machine.files.share_log
        if system is None or not system.is_dir():
            raise InfraError(f"the server of --share is missing ({system}): run `./rem run` again")
        prefix = self._machine.network.exec_prefix()
        return [
            ShareServer(share, number, system, HOST_ADDRESS, prefix, log)
            for number, share in enumerate(config.shares)
        ]

    def stop(self) -> None:
        for server in self._servers:
            server.stop()

    def mount_again(self) -> None:
        """In the background: once the guest answers after a resume, look after its mounts."""
        if not self._machine.config.shares:
            return
        self._mounted = Future()
        threading.Thread(
            target=self._mount_again, args=(self._mounted,), name="rem-share", daemon=True
        ).start()

    def _mount_again(self, mounted: Future[None]) -> None:
        machine = self._machine
        try:
            if machine.config.loader is not None and machine.wait_boot_note(MOUNT_LIMIT_S).resumed:
                for number, share in enumerate(machine.config.shares):
                    self._run(f"{COMMAND} {share.word(number).partition('=')[2]}")
            mounted.set_result(None)
        except RemError as error:
            info(f"rem: shared folders of {machine.config.name!r}: {error.message}")
            mounted.set_exception(error)

    def _run(self, command: str) -> None:
        """In a guest that may not answer yet: what cannot be reached is tried again."""
        end_s = time.monotonic() + MOUNT_LIMIT_S
        while True:
            self._machine.guest.wait_ssh(MOUNT_LIMIT_S)
            result = self._machine.guest.run(command, check=False, limit_s=MOUNT_LIMIT_S)
            if result.ok:
                return
            if result.returncode != SSH_FAILED or time.monotonic() > end_s:
                lines = result.stderr.strip().splitlines() or [f"exit {result.returncode}"]
                raise RemError(f"in the guest: {command}: {lines[-1]}")

    def wait_mounted(self, limit_s: float) -> None:
        """After a resume: until the folders are there; what kept them away is raised."""
        try:
            self._mounted.result(limit_s)
        except FutureTimeoutError as error:
            raise HangError(f"the shared folders are not there {limit_s:g} s after Go") from error
