# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A machine's volatile caches: NVRAM as CPUs and devices read it, and media as a separate file.

While the machine runs, its NVRAM is a file of its own, filled from media at power-on. Media
gets a line when the plugin's model writes it back (machine/README.md). That file is lost with the
power, and the next boot begins with media alone.
"""

from __future__ import annotations

import os
import shutil
import tomllib
from pathlib import Path
from typing import Any

from qemu.qmp import QMPError

from lab import run
from lab.errors import InfraError, UsageError
from lab.machine.config import MachineConfig
from lab.machine.files import MachineFiles
from lab.machine.memories import MEMORY_PROFILE, PROFILE_MEMORY, check_memory
from lab.machine.parts import MachineParts
from lab.machine.plugin import Honour, PluginControl
from lab.machine.qemu import QemuProcess
from lab.paths import repo_dir

# WSP's first machine: four cores, each with two levels, and one inclusive level of 8 MiB.
DEFAULT_PROFILE = "wsp-c5528"
OFF, AUTO = "off", "auto"
FAST_DIR = Path("/dev/shm")
PROFILES_FILE = repo_dir() / "models" / "parts" / "processors.toml"
# What `rem cut --no-flush` takes, and which flushes it disables.
NO_FLUSH = {
    "data": Honour.REM_PLUGIN_HONOUR_BLOCK,
    "all": Honour.REM_PLUGIN_HONOUR_NOTHING,
    "others": Honour.REM_PLUGIN_HONOUR_FIRST,
    "invd": Honour.REM_PLUGIN_HONOUR_INVD,
}


def _described() -> dict[str, Any]:
    return tomllib.loads(PROFILES_FILE.read_text(encoding="utf-8"))


def profiles() -> list[str]:
    """Names of the machines whose caches can be modelled."""
    return sorted(_described())


def check_profile(text: str, memory: str | None = None) -> str | None:
    """The profile that --caches names, for a machine with this --memory; None for off."""
    if memory is not None:
        check_memory(memory)
    if text == OFF:
        if memory is not None:
            raise UsageError("--memory needs volatile caches, whose misses it serves")
        return None
    if text == AUTO:
        return DEFAULT_PROFILE if memory is None else MEMORY_PROFILE
    if _row(text) not in profiles():
        raise UsageError(f"--caches {text}: choose {AUTO}, {OFF}, {', '.join(profiles())}")
    return text


def _row(profile: str) -> str:
    """The row of the table that a profile is, without settings; those are the plugin's to check."""
    return profile.partition(":")[0]


def caches_survive(profile: str) -> bool:
    """Whether a machine's caches outlive its power: then it needs no flush."""
    return bool(_described()[_row(profile)]["domain"] == "eadr")


def controller_line_ns(config: MachineConfig) -> float:
    """Time of each line of a flush in the controller that all CPUs share; 0 without one, or where
    the table of parts has no such number.
    """
    if config.memory != PROFILE_MEMORY or config.caches != MEMORY_PROFILE:
        return 0.0
    return float(_described()[MEMORY_PROFILE]["memory_write_ns"])


def fill_memory(files: MachineFiles, config: MachineConfig) -> None:
    """Power on: CPUs read what media has. Holes stay holes, which makes searches quick."""
    media, memory = files.nvram(config), files.memory(config)
    if media.stat().st_size != config.nvram_bytes:
        raise InfraError(
            f"{media} has {media.stat().st_size} bytes and the machine {config.nvram_bytes}: "
            f"it is not this machine's media; remove it with `rem rm --name {config.name}`"
        )
    drop_memory(files, config)
    if media.parent != FAST_DIR and shutil.disk_usage(FAST_DIR).free > 2 * config.nvram_bytes:
        # They are needed hardly longer than the power is on, so the host's memory will do.
        for file in (memory, files.writers(config)):
            file.symlink_to(FAST_DIR / f"rem-{files.name}-{files.identity}{file.suffix}")
    used_bytes = media.stat().st_blocks * 512
    free_bytes = shutil.disk_usage(memory.resolve().parent).free
    if used_bytes > free_bytes:
        raise InfraError(
            f"{memory.parent} has {free_bytes} bytes free and the machine's memory takes "
            f"{used_bytes} and more: free some, or take another --nvram-dir"
        )
    memory.resolve().touch(mode=0o600)
    run.run(["cp", "--sparse=always", media, memory], what="filling NVRAM from media")
    os.truncate(memory, config.nvram_bytes)


def keep_memory(files: MachineFiles, config: MachineConfig) -> None:
    """The power is off: keep what CPUs read for `rem inspect`, which compares it with media until
    power returns.
    """
    memory = files.memory(config)
    if memory.exists():
        _remove(files.at_cut(config))
        memory.rename(files.at_cut(config))


def drop_memory(files: MachineFiles, config: MachineConfig) -> None:
    """Remove what CPUs read, at the last cut too."""
    for file in (files.memory(config), files.at_cut(config), files.writers(config)):
        _remove(file)


def _remove(memory: Path) -> None:
    """With the target of the link."""
    memory.resolve().unlink(missing_ok=True)
    memory.unlink(missing_ok=True)


def control_of(machine: MachineParts) -> PluginControl:
    if machine.config.caches is None or machine.plugin is None:
        raise UsageError(
            f"machine {machine.config.name!r} has no volatile caches: "
            "`rem run --caches PROFILE` makes them"
        )
    return machine.plugin


def without_flush(machine: MachineParts, which: str) -> None:
    """Disable flushes from now to the loss of power: a negative proof."""
    control = control_of(machine)
    if which not in NO_FLUSH:
        raise UsageError(f"--no-flush={which}: choose one of {', '.join(NO_FLUSH)}")
    assert machine.qemu is not None, "the machine is off"
    machine.qemu.qmp.execute("stop")
    control.wait_ready()
    control.honour(NO_FLUSH[which])


def arm_store(machine: MachineParts, number: int) -> None:
    """Let the power fail right after that store to NVRAM, counted from the drop of PWR_OK."""
    control = control_of(machine)
    if number < 1:
        raise UsageError(f"--at-store {number}: stores are counted from 1")
    assert machine.qemu is not None, "the machine is off"
    machine.qemu.qmp.execute("stop")
    control.wait_ready()
    control.arm_store(number)


def power_goes(machine: MachineParts, qemu: QemuProcess) -> int:
    """End QEMU, by its plugin if possible, so that the persistence domain is completed."""
    control = machine.plugin
    if machine.config.caches is not None and control is not None and qemu.process.poll() is None:
        try:
            qemu.qmp.execute("stop")
            control.power_cut()
            qemu.wait_killed()
        except (ConnectionError, QMPError):
            pass  # the plugin has ended it already
    return qemu.kill()


def at_cut(machine: MachineParts) -> dict[str, int] | None:
    """The state of the caches when the power failed."""
    if machine.config.caches is None or machine.plugin is None:
        return None
    return machine.plugin.caches()


def is_lost(state: dict[str, int] | None) -> bool:
    """Whether media lacks what a flush should have written, by the count and by both digests."""
    if state is None:
        return False
    return state["lost_lines"] > 0 and state["digest_due"] != state["digest_media"]
