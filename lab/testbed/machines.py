# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A machine of this checkout's kernel, loader and guest root, with or without volatile caches."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from lab.guest_root.spec import RootSpec
from lab.isa import IsaName
from lab.machine import MachineConfig
from lab.machine.config import StopModeName
from lab.machine.cut_points import QUANTUM_ICOUNT, begin_of, make_spec
from lab.machine.disk_log import SECTOR_BYTES
from lab.machine.machine import make_room
from lab.machine.places import PHASES
from lab.machine.plugin import STOPPED_OUT, PluginSpec, ctl_path
from lab.setup.ovmf import Firmware, Ovmf, SecureOvmf
from lab.setup.products import (
    MACHINE,
    RISCV,
    Kernel,
    Loader,
    Part,
    Plugin,
    RiscvRoot,
    Root,
    need,
    need_all,
)

NVRAM_BYTES = 1 << 30
USUAL_ROOT = RootSpec()
# What starts the loader: QEMU itself, or firmware.
FirmwareName = Literal["direct", "uefi"]
# Every page of the NVRAM file gets written: in memory where there is room, else in the state.
FAST_DIR = Path("/dev/shm")


def fast_dir() -> Path | None:
    """A folder in the host's memory with room for an NVRAM, or None."""
    with suppress(OSError):
        if shutil.disk_usage(FAST_DIR).free > 2 * NVRAM_BYTES and os.access(FAST_DIR, os.W_OK):
            return FAST_DIR
    return None


@dataclass(frozen=True)
class IsaParts:
    """What set-up provides for machines of an instruction set."""

    programs: Part[None]
    kernel: Kernel
    loader: Part[Path]
    root: Part[Path]


def parts_of(isa: IsaName, root: RootSpec = USUAL_ROOT) -> IsaParts:
    """*root*: what the root has besides; of x86-64 only."""
    if isa == "riscv64":
        return IsaParts(RISCV, Kernel(isa), Loader(isa=isa), RiscvRoot())
    return IsaParts(MACHINE, Kernel(root.kernel), Loader(), Root(root))


def make_config(
    name: str,
    cpus: int = 2,
    stop_mode: StopModeName | None = None,
    kernel: Path | None = None,
    caches: str | None = None,
    isa: IsaName = "x86_64",
) -> MachineConfig:
    """The usual machine, on a tap network. Builds what is missing; *kernel* is another image."""
    # Checked before anything is built: a wrong word must not cost a kernel build.
    MachineConfig(name=name, kernel=Path(), cpus=cpus, isa=isa)
    make_room(name)
    own = parts_of(isa)
    parts: list[Part[Any]] = [own.programs, own.loader, own.root]
    parts += [own.kernel] if kernel is None else []
    parts += [Plugin()] if caches is not None else []
    built = need_all(parts)  # in one call, so that they are built side by side
    config = MachineConfig(
        name=name,
        kernel=kernel or built[own.kernel].bz_image,
        isa=isa,
        loader=built[own.loader],
        root=built[own.root],
        cpus=cpus,
        nvram_bytes=NVRAM_BYTES,
        nvram_dir=fast_dir(),
        network="tap",
        stop_mode=stop_mode,
    )
    return config if caches is None else with_caches(config, caches)


def with_uefi(config: MachineConfig, secure: bool = False) -> MachineConfig:
    """The same machine with UEFI firmware, which starts the loader from a disk of its own."""
    return replace(config, **firmware_fields(need(SecureOvmf() if secure else Ovmf())))


def firmware_fields(firmware: Firmware) -> dict[str, Any]:
    """Of a machine's configuration."""
    fields = {"firmware_code": firmware.code, "firmware_variables": firmware.variables}
    if firmware.signer is not None:
        signer = firmware.signer
        fields |= {"signing_key": signer.key, "signing_certificate": signer.certificate}
    return fields


def with_caches(config: MachineConfig, profile: str) -> MachineConfig:
    """The same machine with volatile caches, whose model runs in the plugin."""
    return replace(with_cut_points(replace(config, icount=True)), caches=profile)


def with_caches_alone(config: MachineConfig, profile: str) -> MachineConfig:
    """The same for any kernel: the plugin knows no places in it."""
    spec = PluginSpec(
        need(Plugin()),
        cut=True,
        quantum=QUANTUM_ICOUNT,
        pcs=(0,) * len(PHASES),
        outs=(STOPPED_OUT,),
        begin=begin_of(config),
    )
    plugin = spec.argument(ctl_path(config.name))
    return replace(config, icount=True, cut_points=True, plugin=plugin, caches=profile)


def with_cut_points(config: MachineConfig) -> MachineConfig:
    """The same machine with the plugin, which knows places in Stop and Go and, under icount, time.

    It needs the loader, and System.map beside the kernel. UEFI decides where the loader is, so no
    place in that is known then.
    """
    assert config.loader is not None
    plugin, isa = need(Plugin()), config.isa
    firmware = config.firmware_code is not None
    spec = make_spec(plugin, config.kernel, config.loader, config.icount, isa, firmware)
    return replace(config, cut_points=True, plugin=spec.argument(ctl_path(config.name)))


def with_log(config: MachineConfig, mib: int) -> MachineConfig:
    """Return *config* with its root disk under the target `remanence-log` from boot on."""
    assert config.root is not None
    sectors = config.root.stat().st_size // SECTOR_BYTES
    table = f"0 {sectors} remanence-log /dev/vda {mib}"
    words = f'{config.cmdline_extra} dm-mod.create="root,,,rw,{table}" root=/dev/dm-0'
    return replace(config, disk_cache="volatile", cmdline_extra=words.strip())
