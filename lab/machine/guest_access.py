# SPDX-License-Identifier: Apache-2.0 OR MIT
"""How a command of its own reaches a machine's guest: past the supervisor, by the same ssh.

The connection belongs to the command, and to the machine's network: in tap mode it lives through a
cut and a resume.
"""

from __future__ import annotations

from lab.machine.client import supervised
from lab.machine.control import request
from lab.machine.files import MachineFiles
from lab.machine.guest import ssh_words
from lab.machine.network import network_from_state


def reach(name: str) -> MachineFiles:
    """The machine's files, once its guest takes commands."""
    files = supervised(name)
    request(files, "guest_up")
    return files


def ssh_command(files: MachineFiles, command: str | None, terminal: bool) -> list[str]:
    """The host's command that runs *command*, or a shell, in the guest."""
    state, config = files.read_state(), files.read_config()
    network = network_from_state(state["network"], config)
    words = ssh_words(network, "-t" if terminal else "-T")
    return [*words, command] if command is not None else words
