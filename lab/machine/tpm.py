# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The TPM of a machine: a process of swtpm, which ends with the machine's power.

What a TPM keeps without power is in a folder. The process is killed at a cut, as a chip loses its
power: it gets no TPM2_Shutdown.
"""

from __future__ import annotations

import socket
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Literal, get_args

from lab.errors import InfraError
from lab.machine.offspring import spawn_bound
from lab.setup.products import TPM, need

# Its register interface: a command buffer, or a FIFO.
TpmModel = Literal["crb", "tis"]
TPM_MODELS: tuple[str, ...] = get_args(TpmModel)
END_LIMIT_S = 10.0


class Tpm:
    """One TPM, through all boots of its machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._process: subprocess.Popen[str] | None = None

    def power_on(self) -> socket.socket:
        """Start it; returns the end of its wire that QEMU gets."""
        need(TPM)
        self.power_off()
        self.folder.mkdir(mode=0o700, exist_ok=True)
        ours, theirs = socket.socketpair()
        with ours:
            self._process = spawn_bound(
                [
                    "swtpm", "socket", "--tpm2",
                    "--tpmstate", f"dir={self.folder},mode=0600",
                    "--ctrl", f"type=unixio,clientfd={ours.fileno()}",
                    "--log", f"file={self.folder}/swtpm.log,level=1,truncate",
                ],
                pass_fds=[ours.fileno()],
            )  # fmt: skip
        return theirs

    def power_off(self) -> None:
        """Its power fails."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        try:
            process.wait(timeout=END_LIMIT_S)
        except subprocess.TimeoutExpired as err:
            raise InfraError(
                f"swtpm, process {process.pid}, is still there {END_LIMIT_S:.0f} s after SIGKILL"
            ) from err

    def clear(self) -> None:
        """As another TPM, or one whose owner has cleared it: it has other seeds, and no indices."""
        assert self._process is None
        for path in self.folder.glob("tpm2-*"):
            with suppress(FileNotFoundError):
                path.unlink()


def qemu_arguments(model: TpmModel, chardev: str) -> list[str]:
    """*chardev* is the back end of its wire, as QEMU's -chardev socket takes it."""
    return [
        "-chardev", f"socket,id=tpm-wire,{chardev}",
        "-tpmdev", "emulator,id=tpm,chardev=tpm-wire",
        "-device", f"tpm-{model},tpmdev=tpm",
    ]  # fmt: skip
