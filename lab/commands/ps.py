# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem ps`: all machines."""

from __future__ import annotations

import json
from typing import Any

import typer

from lab.command_line.options import JsonOption
from lab.errors import RemError
from lab.machine.files import MachineFiles
from lab.machine.status import status_from_files
from lab.paths import machines_dir


def _machines() -> list[dict[str, Any]]:
    found = []
    directory = machines_dir()
    for path in sorted(directory.iterdir()) if directory.is_dir() else []:
        try:
            found.append(status_from_files(MachineFiles.of(path.name)))
        except RemError as err:
            found.append({"name": path.name, "state": "damaged", "why": err.message})
    return found


def register(app: typer.Typer) -> None:
    @app.command("ps")
    def ps_command(as_json: JsonOption = False) -> int:
        """List the machines and their states."""
        machines = _machines()
        if as_json:
            print(json.dumps(machines))
            return 0
        print(f"{'NAME':<16} {'STATE':<11} {'QEMU':>8} {'OWNER':>8} {'BOOTS':>5}")
        for one in machines:
            qemu, owner = one.get("qemu_pid") or "-", one.get("supervisor_pid") or "-"
            boots = one.get("boots", "-")
            print(f"{one['name']:<16} {one['state']:<11} {qemu:>8} {owner:>8} {boots:>5}")
        return 0
