# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The status of a machine: from its files, its boot note and, while it runs, the guest."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from lab import format as fmt
from lab.errors import RemError
from lab.machine.files import MachineFiles, MachineLock
from lab.machine.machine import Machine, MachineState
from lab.record.boot_note import read_boot_note

SYSFS = "/sys/kernel/remanence"
GUEST_FILES = (
    "status",
    "last_boot",
    "sequence",
    "resumes",
    "last_error",
    "stop_mode",
    "low_pages",
    "budget",
    "disks",
    "hold",
    "nvdimm",
    "trust",
    "flush_on_fail",
    "health",
)
# Parts of the kernel that can be off: folders with a state and counts.
PARTS = ("persist", "dram")
GUEST_LIMIT_S = 5.0


def _note(files: MachineFiles) -> dict[str, Any] | None:
    try:
        config = files.read_config()
        with files.seen(config).open("rb") as nvram:
            nvram.seek(config.block_bytes + fmt.CONST["REM_NOTE_OFFSET"])
            note = read_boot_note(nvram.read(fmt.size_of("rem_boot_note")))
    except OSError:
        return None
    return asdict(note) if note else None


def status_from_files(files: MachineFiles) -> dict[str, Any]:
    """The status without the help of an owner."""
    files.read_config()  # UsageError if there is no such machine
    state = files.read_state()
    owner = MachineLock.owner_pid(files)
    if state.get("state") == MachineState.RUNNING and owner is None:
        # Its QEMU ended with the owner: an unannounced cut.
        state |= {"state": MachineState.CUT, "qemu_pid": None, "why": "its process died"}
    return {
        "name": files.name,
        "state": state.get("state", MachineState.CONFIGURED),
        "why": state.get("why"),
        "supervisor_pid": owner,
        "qemu_pid": state.get("qemu_pid"),
        "boots": state.get("boots", 0),
        "network": state.get("network"),
        "last_cut": state.get("last_cut"),
        "boot_note": _note(files),
        "guest": None,
        "directory": str(files.directory),
    }


def status_of(machine: Machine) -> dict[str, Any]:
    """The owner's status: with the supply and the guest."""
    status = status_from_files(machine.files)
    supply = machine.supply
    status["supply"] = {
        "power_ok": supply.power_ok,
        "charge": fmt.Charge(supply.charge).name,
        "sequence": supply.sequence,
        "echoed": supply.wire is not None and supply.wire.echoed.is_set(),
    }
    if machine.state is MachineState.RUNNING:
        status["kernel_warnings"] = machine.kernel_warnings()
        status["resets"] = machine.resets
        status["guest"] = guest_status(machine)
    return status


def guest_status(machine: Machine) -> dict[str, str] | None:
    """The files of the kernel; None if the guest does not answer or has another kernel.

    Of a part: its state, and a line for each count.
    """
    files, parts = " ".join(GUEST_FILES), " ".join(PARTS)
    script = (
        f'cd {SYSFS} || exit 0; for f in {files}; do [ -e $f ] && echo "@$f" && cat $f; done; '
        f'for p in {parts}; do [ -e $p ] && echo "@$p" && cat $p/state $p/counts; done; :'
    )
    try:
        result = machine.guest.run(script, check=False, limit_s=GUEST_LIMIT_S)
    except RemError:
        return None
    if not result.ok or not result.stdout:
        return None
    values: dict[str, str] = {}
    for part in f"\n{result.stdout}".split("\n@")[1:]:
        name, _, text = part.partition("\n")
        values[name] = text.rstrip("\n")
    return values


def status_lines(status: dict[str, Any]) -> list[str]:
    """The status for people."""
    lines = [f"machine    {status['name']}", f"state      {status['state']}"]
    if status["why"]:
        lines[-1] += f" ({status['why']})"
    if status["qemu_pid"]:
        lines.append(f"processes  QEMU {status['qemu_pid']}, owner {status['supervisor_pid']}")
    lines.append(f"boots      {status['boots']}")
    network = status["network"] or {}
    where = network.get("namespace") or network.get("note") or ""
    lines.append(f"network    {network.get('mode', 'none')} {where}".rstrip())
    lines.append(f"last boot  {decision_line(status['boot_note'])}")
    if cut := status["last_cut"]:
        lines.append(f"last cut   {cut_line(cut)}")
    if supply := status.get("supply"):
        ok = "present" if supply["power_ok"] else "absent"
        lines.append(f"supply     PWR_OK {ok}, charge {supply['charge']}")
    if status.get("resets"):
        lines.append(f"resets     {status['resets']} since power-on")
    for warning in status.get("kernel_warnings", []):
        lines.append(f"WARNING    {warning}")
    for name, text in (status["guest"] or {}).items():
        if name == "health" and not text:
            continue  # nothing is reported
        body = _part(text) if name in PARTS else text.replace("\n", "\n           ")
        lines.append(f"{name:<10} {body}")
    lines.append(f"files      {status['directory']}")
    return lines


def _part(text: str) -> str:
    """A part's state, and its counts unless it is off."""
    state, _, counts = text.partition("\n")
    if state.startswith("off") or not counts:
        return state
    return f"{state}; {', '.join(counts.splitlines())}"


def decision_line(note: dict[str, Any] | None) -> str:
    """The loader's decision in one line."""
    if note is None:
        return "no note: the loader of this project has not run on this NVRAM"
    held = _words(note["held"]) if note["held"] else None
    if note["reason"] == fmt.BootReason.RESUME.name:
        text = f"resumed image {note['sequence']} from slot {note['slot']}"
        text += f", held before: {held}" if held else ""
    elif note["reason"] == fmt.BootReason.HOLD.name:
        text = f"holds image {note['sequence']} (answer on the console): {held}"
    else:
        text = f"cold boot: {_words(note['reason'])}"
    if note["expected"] or note["found"]:
        text += f"; image has {_entry(note['expected'])}, machine has {_entry(note['found'])}"
    return text


def _words(reason: str) -> str:
    return reason.removeprefix("COLD_").lower().replace("_", " ")


def _entry(entry: dict[str, Any] | None) -> str:
    if entry is None:
        return "nothing"
    values = " ".join(f"{value:#x}" for value in entry["value"])
    return f"{entry['type'].lower()} {entry['key']:#x}.{entry['index']} = {values}"


def cut_line(cut: dict[str, Any]) -> str:
    """A CutRecord in one line."""
    process = f"QEMU {cut['qemu_pid']} " + ("has ended" if cut["gone"] else "STILL RUNS")
    if not cut["announced"]:
        return f"unannounced; {process}"
    if cut.get("place"):
        return f"at {cut['place']} of Stop; {process}"
    hold_up_ms = cut["hold_up_ns"] / 1e6
    if cut["stopped"]:
        stop_ms = cut["stopped_after_ns"] / 1e6
        return f"stopped after {stop_ms:.2f} ms of {hold_up_ms:g} ms hold-up; {process}"
    echo = "drop was echoed" if cut["echoed"] else "drop was not echoed"
    return f"no Stop within {hold_up_ms:g} ms of hold-up ({echo}); {process}"
