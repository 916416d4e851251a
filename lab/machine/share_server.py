# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A folder of the host in the guest: a 9P server in the machine's network, which outlives QEMU.

The server (diod) is an ordinary peer on the network, so a Stop and a Go are for it what they are
for any other connection: it waits, and files that the guest has open stay open. A device of QEMU
(virtio-9p, virtiofs) would lose them, because what it knows of them dies with QEMU. The server ends
with the process that owns the machine; when another one resumes the machine, the guest mounts the
folder again, and files that were open report errors (guest/rem-share).

The guest is not trusted. The server runs with the rights of the folder's owner and no more, sees
nothing but the folder and programs of the system, and cannot make devices or programs with rights
of their own (seccomp.py).
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from lab import run
from lab.addresses import GUEST_ADDRESS
from lab.errors import InfraError
from lab.machine.offspring import spawn_bound
from lab.machine.seccomp import share_filter
from lab.machine.shares import PORT_FIRST, Share

SERVER = "/usr/sbin/diod"
START_LIMIT_S = 20.0  # of a server on a crowded host; it takes some ms
SYSTEM_FOLDERS = ("usr", "bin", "sbin", "lib", "lib64")
# Its /etc. It refuses a peer whose name it does not find.
FILES = {
    "group": b"root:x:0:\n",
    "hosts": f"{GUEST_ADDRESS} guest\n".encode(),
    "nsswitch.conf": b"passwd: files\ngroup: files\nhosts: files\n",
}
# What the server needs to become the folder's owner.
CAPABILITIES = ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP")


class ShareServer:
    """One server; runs until stop() or until this process ends."""

    def __init__(
        self,
        share: Share,
        number: int,
        system: Path,
        address: str,
        prefix: Sequence[str],
        log: Path,
    ) -> None:
        """*system*: files of the server and its libraries, as a root."""
        self._share = share
        self._system = system
        self._where = f"{address}:{PORT_FIRST + number}"
        self._prefix = list(prefix)
        self._log = log
        self._child: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Returns when the server listens; nothing happens where it runs already."""
        if self._child is not None and self._child.poll() is None:
            return
        with ExitStack() as stack:
            pipes = inherited(stack, self._share)
            log = stack.enter_context(self._log.open("ab"))
            argv = [*self._prefix, *server_command(self._share, self._system, self._where, pipes)]
            self._child = spawn_bound(argv, stdout=log, stderr=log, pass_fds=list(pipes.values()))
        self._wait()

    def _wait(self) -> None:
        assert self._child is not None
        probe = [*self._prefix, "ss", "-Hltn", f"src = {self._where}"]
        end_s = time.monotonic() + START_LIMIT_S
        while not run.run(probe).stdout:
            if self._child.poll() is not None or time.monotonic() > end_s:
                lines = self._log.read_text(errors="replace").splitlines() or ["it printed nothing"]
                raise InfraError(f"the server of {self._share.host} did not start: {lines[-1]}")
            time.sleep(0.02)

    def stop(self) -> None:
        if self._child is not None:
            run.end(self._child)
            self._child = None


def inherited(stack: ExitStack, share: Share) -> dict[str, int]:
    """Descriptors that the sandbox reads what it is made of from; *stack* closes ours."""
    pipes = {"seccomp": _pipe(stack, share_filter()), "passwd": _pipe(stack, _passwd(share.host))}
    return pipes | {name: _pipe(stack, data) for name, data in FILES.items()}


def server_command(share: Share, system: Path, where: str, pipes: dict[str, int]) -> list[str]:
    """The server in its sandbox; *pipes* are descriptors that it inherits."""
    about = share.host.stat()
    argv = ["bwrap", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try"]
    argv += ["--die-with-parent", "--new-session", "--clearenv", "--chdir", "/"]
    for name in SYSTEM_FOLDERS:
        if (system / name).is_dir() and not (system / name).is_symlink():
            argv += ["--ro-bind", str(system / name), f"/{name}"]
        else:
            argv += ["--symlink", f"usr/{name}", f"/{name}"]
    argv += ["--proc", "/proc", "--dev", "/dev", "--dir", "/etc", "--dir", "/run"]
    for name in ("passwd", *FILES):
        argv += ["--perms", "0444", "--ro-bind-data", str(pipes[name]), f"/etc/{name}"]
    argv += ["--ro-bind" if share.read_only else "--bind", str(share.host), "/share"]
    argv += ["--cap-drop", "ALL", *(w for cap in CAPABILITIES for w in ("--cap-add", cap))]
    argv += ["--seccomp", str(pipes["seccomp"])]
    bounds = "--bounding-set=-all"
    if about.st_uid == 0:  # the server then changes to that user itself, which takes both
        bounds += ",+setuid,+setgid"
    argv += ["setpriv", "--reuid", str(about.st_uid), "--regid", str(about.st_gid)]
    argv += ["--clear-groups", "--inh-caps=-all", bounds]
    # Every user of the guest is the folder's owner.
    argv += [SERVER, "-f", "-n", "-S", "-U", _user(about), "-l", where, "-e", "/share"]
    argv += ["-L", "stderr", "-c", "/dev/null"]
    return [*argv, "-o", "ro"] if share.read_only else argv


def _user(about: os.stat_result) -> str:
    return "owner" if about.st_uid else "root"


def _passwd(folder: Path) -> bytes:
    """The guest's root, who mounts, and the owner, whom the server makes of everybody."""
    about = folder.stat()
    lines = ["root:x:0:0::/:/bin/false"]
    if about.st_uid:
        lines.append(f"{_user(about)}:x:{about.st_uid}:{about.st_gid}::/:/bin/false")
    return "".join(f"{line}\n" for line in lines).encode()


def _pipe(stack: ExitStack, data: bytes) -> int:
    """A descriptor from which these few bytes can be read."""
    read, write = os.pipe()
    stack.callback(os.close, read)
    try:
        os.write(write, data)
    finally:
        os.close(write)
    return read
