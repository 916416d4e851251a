# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the command lines of QEMU have in common, whatever the machine."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from lab import format as fmt
from lab.machine import disks
from lab.machine.config import MachineConfig
from lab.machine.files import MachineFiles
from lab.machine.memories import DRAM_CACHE, controller_of

MAC = "52:54:00:72:65:6d"
DISK_SERIAL = "rem-root"
DISK_LATE_BYTES = 512
# Read only by a loader with planted bugs (loader/mutants/switch.patch), so it is no format.
MUTANT_FILE = "opt/remanence/mutant"


@dataclass(frozen=True)
class Wires:
    """The back ends of QEMU's character devices."""

    console: str
    power: str
    qmp: str
    nvdimm: str = ""
    tpm: str = ""  # its other end is swtpm's

    @staticmethod
    def by_path() -> Wires:
        """For a command that is printed, or run by hand in the machine's directory."""
        ends = {name: f"path={name}.sock,server=on,wait=off" for name in Wires.names()}
        return Wires(**ends, tpm="path=tpm.sock")

    @staticmethod
    def names() -> tuple[str, str, str, str]:
        return ("console", "power", "qmp", "nvdimm")


@dataclass(frozen=True)
class BootOptions:
    """What may differ between boots of the same machine."""

    boot: int = 1  # counts QEMU processes; names the logs
    cold: bool = False  # ask the loader never to resume
    rtc: str = "utc"  # QEMU's -rtc base
    kernel: Path | None = None  # instead of the machine's own: for tests of refusal
    cpus: int | None = None  # likewise
    disk_serial: str = DISK_SERIAL  # likewise
    disk_late: bool = False  # the disk has almost no sectors until Machine.disk_is_ready()
    first_nvram: bool = True  # whether that range is there; only with a second one
    mutant: str | None = None  # name of a planted bug, for a loader with all of them
    paused: bool = False  # no instruction runs before `cont` over QMP

    @staticmethod
    def rtc_of(config: MachineConfig, offset_s: int) -> str:
        if config.rtc_base is not None:
            base = datetime.fromisoformat(config.rtc_base)
            return (base + timedelta(seconds=offset_s)).strftime("%Y-%m-%dT%H:%M:%S")
        if offset_s == 0:
            return "utc"
        return (datetime.now(UTC) + timedelta(seconds=offset_s)).strftime("%Y-%m-%dT%H:%M:%S")


def quoted(value: object) -> str:
    """A value inside a QEMU option, in which commas are doubled."""
    return str(value).replace(",", ",,")


def disk_is_protected(config: MachineConfig) -> bool:
    claim = config.disk_claim or config.disk_cache
    return config.root is not None and claim == "protected"


def served_arguments(config: MachineConfig, options: BootOptions) -> list[str]:
    """The loader's files, by fw_cfg."""
    kernel = options.kernel or config.kernel
    served = {fmt.CONST["REM_FWCFG_KERNEL"]: f"file={quoted(kernel)}"}
    served[fmt.CONST["REM_FWCFG_CMDLINE"]] = f"string={quoted(config.cmdline())}"
    if config.initrd:
        served[fmt.CONST["REM_FWCFG_INITRD"]] = f"file={quoted(config.initrd)}"
    if disk_is_protected(config):
        serial = quoted(options.disk_serial)
        served[fmt.CONST["REM_FWCFG_PROTECTED"]] = f"string={serial}"
    if options.mutant is not None:
        served[MUTANT_FILE] = f"string={quoted(options.mutant)}"
    if options.cold:
        served[fmt.CONST["REM_FWCFG_COLD"]] = "string=1"
    args: list[str] = []
    for name, source in served.items():
        args += ["-fw_cfg", f"name={name},{source}"]
    return args


# QEMU 10.0.13 gives each ring so many, whatever its options say: with them the machine is the same
# on both releases of Debian.
RING_ENTRIES = 1024


def _disk_device(config: MachineConfig, serial: str, modern: str) -> str:
    if config.disk == "nvme":
        return f"nvme,drive=rem-disk,serial={quoted(serial)}"
    if config.disk == "ahci":
        # At the controller that the chip set has; its identification shows 20 characters.
        return f"ide-hd,bus=ide.0,drive=rem-disk,serial={quoted(serial)}"
    ring = f"queue-size={RING_ENTRIES}"
    return f"virtio-blk-pci,drive=rem-disk,{ring},serial={quoted(serial)}{modern}"


def _nic_device(config: MachineConfig, modern: str) -> str:
    # No boot ROM, so that firmware does not copy one into DRAM.
    common = f"netdev=rem-net,mac={MAC},romfile="
    if config.nic == "virtio-net":
        return f"virtio-net-pci,rx_queue_size={RING_ENTRIES},{common}{modern}"
    return f"{config.nic},{common}"


def device_arguments(
    config: MachineConfig, files: MachineFiles, options: BootOptions, netdev: str | None
) -> list[str]:
    modern = ",disable-legacy=on" if config.has_iommu or config.isa != "x86_64" else ""
    modern += ",iommu_platform=on" if config.has_iommu else ""
    args: list[str] = []
    if config.has_iommu:
        # First, because the devices behind it need it when they are made.
        # device-iotlb: devices that ask for it may translate addresses themselves (ATS).
        # eim: local APICs as registers; why: machine/README.md, "A write that reaches the wrong
        # device".
        args += ["-device", "intel-iommu,intremap=on,eim=on,device-iotlb=on"]
    if config.root is not None:
        if config.disk_cache == "volatile":
            args += disks.blockdevs(files.disk_parts, quoted)
        else:
            file = f"driver=file,node-name=rem-file,filename={quoted(files.disk)}"
            args += ["-blockdev", file]
            late = f",size={DISK_LATE_BYTES}" if options.disk_late else ""
            args += ["-blockdev", f"driver=raw,node-name=rem-disk,file=rem-file{late}"]
        args += ["-device", _disk_device(config, options.disk_serial, modern)]
    if config.blank_bytes is not None:
        file = f"driver=file,node-name=rem-blank-file,filename={quoted(files.blank)}"
        args += [
            "-blockdev",
            file,
            "-blockdev",
            "driver=raw,node-name=rem-blank,file=rem-blank-file",
        ]
        ring = f"queue-size={RING_ENTRIES}"
        args += ["-device", f"virtio-blk-pci,drive=rem-blank,{ring}{modern}"]
    if netdev is not None:
        args += ["-netdev", netdev]
        args += ["-device", _nic_device(config, modern)]
    for device in config.devices:
        args += ["-device", device]
    if config.acpi_table is not None:
        args += ["-acpitable", f"file={quoted(config.acpi_table)}"]
    return args


def nvram_file(config: MachineConfig, files: MachineFiles) -> Path:
    """What the guest's NVRAM is while the machine runs."""
    return files.nvram(config) if config.caches is None else files.memory(config)


def icount_arguments(config: MachineConfig) -> list[str]:
    """Time by instructions, if the machine has it."""
    if not config.icount:
        return []
    sleep = "on" if config.idle_waits else "off"
    return ["-icount", f"shift=0,sleep={sleep}", "-seed", str(config.seed)]


def plugin_argument(plugin: str, config: MachineConfig, files: MachineFiles) -> str:
    if config.caches is None:
        return plugin
    memory, media = quoted(files.memory(config)), quoted(files.nvram(config))
    words = [plugin, f"cache={config.caches}", f"memory={memory}", f"media={media}"]
    words += [f"trace={quoted(files.trace)}", f"writers={quoted(files.writers(config))}"]
    words += [f"flushes={quoted(files.flushes)}"]
    if config.memory is not None:
        words += [f"controller={quoted(controller_of(config.memory))}"]
        if config.memtype == "mixed":
            words += [f"dram={config.dram_size_bytes:#x}", f"dramcontroller={DRAM_CACHE}"]
    return ",".join([*words, *place_words(config)])


def place_words(config: MachineConfig) -> list[str]:
    """Where NVRAM is, for the plugin: without what firmware has of it, which a cut loses."""
    skip_bytes = config.block_bytes
    words = [f"skip={skip_bytes:#x}"] if skip_bytes else []
    return [*words, f"base={config.machine_isa.nvram_phys + skip_bytes:#x}"]
