# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Commands in the guest, by ssh: one reused connection, which survives cuts (tap mode)."""

from __future__ import annotations

import shlex
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab import run
from lab.addresses import GUEST_ADDRESS
from lab.errors import HangError, InfraError, RemError
from lab.machine.files import MachineFiles
from lab.machine.network import SSH_PORT, Network
from lab.machine.offspring import spawn_bound
from lab.paths import ssh_key

# ssh's own exit code for "the connection failed", which no command of ours uses.
SSH_FAILED = 255
CONNECT_LIMIT_S = 10
PROBE_PAUSE_S = 0.2
COMMAND_LIMIT_S = 120.0

# No host key is checked: the guest makes a new one, and the connection stays on this host.
# No keep-alives: a machine that is off answers none, and its connections must stay.
OPTIONS = {
    "BatchMode": "yes",
    "StrictHostKeyChecking": "no",
    "UserKnownHostsFile": "/dev/null",
    "GlobalKnownHostsFile": "/dev/null",
    "IdentitiesOnly": "yes",
    "LogLevel": "ERROR",
    "ConnectTimeout": str(CONNECT_LIMIT_S),
    "ServerAliveInterval": "0",
    "TCPKeepAlive": "no",
    "Compression": "no",
}


@dataclass(frozen=True)
class GuestResult:
    """A command that ended in the guest."""

    command: str
    returncode: int
    stdout: str
    stderr: str

    @property
    def ok(self) -> bool:
        return self.returncode == 0


def ssh_words(network: Network, *extra: str, key: Path | None = None) -> list[str]:
    """The ssh command up to the words that are for the guest."""
    host, port = network.address(SSH_PORT)
    words = [*network.exec_prefix(), "ssh", "-F", "none", "-i", str(key or ssh_key())]
    for name, value in OPTIONS.items():
        words += ["-o", f"{name}={value}"]
    return [*words, "-p", str(port), *extra, f"root@{host}"]


class Guest:
    """The guest's userland, reached over the network; independent of the machine's power."""

    def __init__(self, files: MachineFiles, network: Network, key: Path | None = None) -> None:
        self._files = files
        self._network = network
        self._key = key
        self._master: subprocess.Popen[str] | None = None
        self._master_lock = threading.Lock()  # requests come from several threads

    def _ssh(self, *extra: str) -> list[str]:
        # By its name only, with the machine's directory as the working one: socket names are short.
        control = ["-S", self._files.ssh_control.name]
        return ssh_words(self._network, *control, *extra, key=self._key)

    def _ensure_master(self) -> None:
        """One connection for all commands; if it fails, each command makes its own."""
        with self._master_lock:
            self._make_master()

    def _make_master(self) -> None:
        if self._master is not None and self._master.poll() is None:
            return
        self._files.ssh_control.unlink(missing_ok=True)
        # Not detached by ssh itself: it must end with us.
        self._master = spawn_bound(self._ssh("-M", "-N"), cwd=self._files.directory)
        end_s = time.monotonic() + CONNECT_LIMIT_S
        while not self._files.ssh_control.exists() and time.monotonic() < end_s:
            if self._master.poll() is not None:
                return
            time.sleep(0.02)

    def command_line(self, command: str) -> list[str]:
        """The host's command line that runs *command* in the guest."""
        return [*self._ssh(), command]

    def run(
        self, command: str | Sequence[str], check: bool = True, limit_s: float = COMMAND_LIMIT_S
    ) -> GuestResult:
        """Run a shell command to its end. `check`: any exit but 0 is an error."""
        text = command if isinstance(command, str) else shlex.join(command)
        first_line = text.strip().partition("\n")[0]
        self._ensure_master()
        done = run.run(
            self.command_line(text),
            cwd=self._files.directory,
            timeout_s=limit_s,
            check=False,
            what=f"in the guest: {first_line}",
        )
        result = GuestResult(text, done.returncode, done.stdout, done.stderr)
        if check and not result.ok:
            lines = (result.stderr or result.stdout).strip().splitlines()
            reason = lines[-1] if lines else "no output"
            if result.returncode == SSH_FAILED:
                raise InfraError(f"the guest cannot be reached by ssh: {reason}")
            raise RemError(f"in the guest: {text}: exit {result.returncode}: {reason}")
        return result

    def put(self, local: Path, remote: str, limit_s: float = COMMAND_LIMIT_S) -> None:
        """Copy a file into the guest, with its mode."""
        mode = local.stat().st_mode & 0o777
        target = shlex.quote(remote)
        with local.open("rb") as source:
            self._copy(f"cat > {target} && chmod {mode:o} {target}", limit_s, stdin=source)

    def get(self, remote: str, local: Path, limit_s: float = COMMAND_LIMIT_S) -> None:
        """Copy a file out of the guest; on failure *local* is not there."""
        part = local.with_name(local.name + ".part")
        try:
            with part.open("wb") as target:
                self._copy(f"cat {shlex.quote(remote)}", limit_s, stdout=target)
            part.replace(local)
        finally:
            part.unlink(missing_ok=True)

    def _copy(self, command: str, limit_s: float, **ends: object) -> None:
        self._ensure_master()
        child = run.spawn(
            self.command_line(command),
            cwd=self._files.directory,
            stderr=subprocess.PIPE,
            **ends,  # type: ignore[arg-type]  # stdin= or stdout=, open files
        )
        try:
            _, err = child.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired as error:
            raise HangError(f"in the guest: {command}: did not end within {limit_s:g} s") from error
        finally:
            run.end(child)
        if child.returncode != 0:
            raise RemError(f"in the guest: {command}: exit {child.returncode}: {err.strip()}")

    def wait_ssh(self, limit_s: float) -> None:
        """Wait until the guest answers commands; HangError after *limit_s*."""
        end_s = time.monotonic() + limit_s
        reason = "no answer"
        while (rest_s := end_s - time.monotonic()) > 0:
            try:
                result = self.run("true", check=False, limit_s=max(rest_s, 1.0))
            except HangError:
                break
            if result.ok:
                return
            reason = result.stderr.strip() or f"exit {result.returncode}"
            time.sleep(PROBE_PAUSE_S)
        raise HangError(f"no ssh to {GUEST_ADDRESS} within {limit_s:g} s: {reason}")

    def close(self) -> None:
        """End the shared connection; the next command makes a new one."""
        if self._master is not None:
            run.end(self._master)
            self._master = None
        self._files.ssh_control.unlink(missing_ok=True)
