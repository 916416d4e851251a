# SPDX-License-Identifier: Apache-2.0 OR MIT
"""QEMU: the command line as a pure function of the machine, and the process.

QEMU's sockets (console, PWR_OK wire, QMP, NVDIMM) are socket pairs that it inherits: they are
always connected, have no name that can be too long, and leave nothing behind. QEMU always ends
with the process that started it (offspring.py).
"""

from __future__ import annotations

import shlex
import signal
import socket
import subprocess
from contextlib import suppress
from pathlib import Path

from lab.errors import InfraError
from lab.machine.config import NVRAM_PHYS as NVRAM_PHYS
from lab.machine.config import NVRAM_SECOND_PHYS, MachineConfig
from lab.machine.files import MachineFiles
from lab.machine.offspring import spawn_bound
from lab.machine.qemu_parts import BootOptions as BootOptions
from lab.machine.qemu_parts import Wires as Wires
from lab.machine.qemu_parts import (
    device_arguments,
    disk_is_protected,
    icount_arguments,
    nvram_file,
    plugin_argument,
    quoted,
    served_arguments,
)
from lab.machine.qemu_riscv import riscv_command
from lab.machine.qmp import Qmp
from lab.machine.tpm import qemu_arguments as tpm_arguments

QEMU = "qemu-system-x86_64"
ESP_SERIAL = "rem-esp"
# Under Secure Boot only firmware's own code, in system management mode, writes to its variables.
SECURE = ("-machine", "smm=on", "-global", "driver=cfi.pflash01,property=secure,value=on")

# QEMU answers QMP some 50 ms after its start; this bounds a start on a crowded host.
START_LIMIT_S = 30.0
# SIGKILL needs only the end of a system call; a process in D state for this long is a broken host.
KILL_LIMIT_S = 30.0
# Linux's SO_SNDBUFFORCE, which Python does not name: exceeds the limit for users, if allowed.
SNDBUF_FORCE = 32
CONSOLE_ROOM_BYTES = 64 << 20


def esp_texts(config: MachineConfig, options: BootOptions) -> dict[str, str]:
    """The loader's small files on the disk that UEFI boots from."""
    texts = {"cmdline": config.cmdline()}
    if disk_is_protected(config):
        texts["protected"] = options.disk_serial
    if options.mutant is not None:
        texts["mutant"] = options.mutant
    if options.cold:
        texts["cold"] = ""
    return texts


def _uefi_arguments(config: MachineConfig, files: MachineFiles) -> list[str]:
    flash = [
        *(SECURE if config.signing_key is not None else ()),
        "-drive", f"if=pflash,format=raw,readonly=on,file={quoted(config.firmware_code)}",
        "-drive", f"if=pflash,format=raw,file={quoted(files.variables)}",
    ]  # fmt: skip
    if config.boots_from_root:
        return flash
    esp = f"driver=file,node-name=rem-esp-file,read-only=on,filename={quoted(files.esp)}"
    modern = ",disable-legacy=on,iommu_platform=on" if config.has_iommu else ""
    return [
        *flash,
        "-blockdev", esp,
        "-blockdev", "driver=raw,node-name=rem-esp,read-only=on,file=rem-esp-file",
        "-device", f"virtio-blk-pci,drive=rem-esp,serial={ESP_SERIAL},bootindex=0{modern}",
    ]  # fmt: skip


def _boot_arguments(config: MachineConfig, files: MachineFiles, options: BootOptions) -> list[str]:
    if config.firmware_code is not None:
        return _uefi_arguments(config, files)
    kernel = options.kernel or config.kernel
    if config.loader is None:
        args = ["-kernel", str(kernel), "-append", config.cmdline()]
        return args + (["-initrd", str(config.initrd)] if config.initrd else [])
    return ["-kernel", str(config.loader), *served_arguments(config, options)]


def _nvram_arguments(name: str, path: Path, size_bytes: int, phys: int) -> list[str]:
    return [
        "-object", f"memory-backend-file,id={name},share=on,mem-path={quoted(path)},"
        f"size={size_bytes}",
        "-device", f"nvdimm,id=dimm-{name},memdev={name},addr={phys:#x}",
    ]  # fmt: skip


def _memory_arguments(
    config: MachineConfig, files: MachineFiles, options: BootOptions
) -> list[str]:
    nvram = nvram_file(config, files)
    ranges = []
    if options.first_nvram:
        ranges += _nvram_arguments("nvram", nvram, config.nvram_bytes, NVRAM_PHYS)
    if config.nvram_second_bytes is not None:
        second, second_bytes = files.nvram_second(config), config.nvram_second_bytes
        ranges += _nvram_arguments("second", second, second_bytes, NVRAM_SECOND_PHYS)
    dram = []
    if config.dram_file is not None:
        dram = [
            "-object", f"memory-backend-file,id=dram,share=on,"
            f"mem-path={quoted(config.dram_file)},size={config.dram_size_bytes}",
            "-machine", "memory-backend=dram",
        ]  # fmt: skip
    return [
        "-m", f"{config.dram_size_bytes >> 20}M,slots=2,maxmem=8G", *dram, *ranges,
    ]  # fmt: skip


def build_command(
    config: MachineConfig,
    files: MachineFiles,
    wires: Wires,
    options: BootOptions,
    netdev: str | None,
) -> list[str]:
    """The whole QEMU command. Pure: the same arguments give the same command."""
    if config.isa == "riscv64":
        return riscv_command(config, files, wires, options, netdev)
    log = quoted(files.console_log(options.boot))
    clock = "vm" if config.icount else "host"
    args = [QEMU, "-name", f"rem-{config.name}", "-nodefaults", "-display", "none"]
    # With one ACPI table more than 10 (IOMMU and TPM) QEMU's commands that place them are more than
    # 32, and SeaBIOS 1.16 makes tables of its own, without the NFIT.
    hpet = ",hpet=off" if config.tpm is not None and config.firmware_code is None else ""
    args += ["-no-user-config", "-machine", f"q35,nvdimm=on,vmport=off{hpet}"]
    # Not chosen by QEMU: with icount the vCPUs take turns on one thread.
    args += ["-accel", "tcg,thread=single" if config.icount else "tcg,thread=multi"]
    threads = f",threads={config.threads}" if config.threads > 1 else ""
    args += ["-cpu", config.cpu_model, "-smp", f"{options.cpus or config.cpus}{threads}"]
    args += icount_arguments(config)
    args += _memory_arguments(config, files, options)
    args += ["-rtc", f"base={options.rtc},clock={clock}"]
    args += ["-chardev", f"socket,id=console,{wires.console},logfile={log},logappend=off"]
    args += ["-serial", "chardev:console"]
    args += ["-chardev", f"socket,id=power,{wires.power}", "-serial", "chardev:power"]
    if config.nvram_kind == "nvdimm-n":
        args += ["-chardev", f"socket,id=nvdimm,{wires.nvdimm}", "-serial", "chardev:nvdimm"]
    if config.tpm is not None:
        args += tpm_arguments(config.tpm, wires.tpm)
    args += ["-chardev", f"socket,id=qmp,{wires.qmp}", "-mon", "chardev=qmp,mode=control"]
    args += device_arguments(config, files, options, netdev)
    args += _boot_arguments(config, files, options)
    if config.plugin is not None:
        args += ["-plugin", plugin_argument(config.plugin, config, files)]
    if options.paused:
        args += ["-S"]
    return args


def quoted_command(prefix: list[str], command: list[str]) -> str:
    return shlex.join([*prefix, *command])


class QemuProcess:
    """One QEMU process from start to waitpid(). Only kill() ends it."""

    def __init__(
        self,
        config: MachineConfig,
        files: MachineFiles,
        options: BootOptions,
        netdev: str | None,
        prefix: list[str],
        tpm: socket.socket | None = None,
    ) -> None:
        pairs = {name: socket.socketpair() for name in Wires.names()}
        make_room(pairs["console"][1])
        given = {name: theirs for name, (_, theirs) in pairs.items()}
        if tpm is not None:
            given["tpm"] = tpm
        ends = {name: f"fd={theirs.fileno()}" for name, theirs in given.items()}
        command = build_command(config, files, Wires(**ends), options, netdev)
        self.log = files.qemu_log(options.boot)
        with self.log.open("wb") as log:
            log.write(quoted_command(prefix, command).encode() + b"\n")
            log.flush()
            self.process = spawn_bound(
                [*prefix, *command],
                stdout=log,
                stderr=log,
                pass_fds=[theirs.fileno() for theirs in given.values()],
            )
        self._start_time = _start_time(self.pid)
        for theirs in given.values():
            theirs.close()
        self.console_socket = pairs["console"][0]
        self.power_socket = pairs["power"][0]
        self.nvdimm_socket = pairs["nvdimm"][0]
        self.qmp = Qmp(f"rem-{config.name}")
        try:
            self.qmp.connect(pairs["qmp"][0], START_LIMIT_S)
        except (OSError, TimeoutError) as err:
            self.kill()
            raise InfraError(f"QEMU did not start: {self.last_words()} (see {self.log})") from err

    @property
    def pid(self) -> int:
        return int(self.process.pid)

    def last_words(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()[1:]
        return lines[-1].strip() if lines else "it printed nothing"

    def wait(self) -> int:
        """The exit status, negative for a signal."""
        return int(self.process.wait())

    def wait_killed(self) -> None:
        """Wait a limited time while the plugin ends the process; kill() follows."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=KILL_LIMIT_S)

    def kill(self) -> int:
        """SIGKILL and waitpid; return the exit status."""
        self.process.send_signal(signal.SIGKILL)  # nothing if it has been waited for already
        try:
            status = int(self.process.wait(timeout=KILL_LIMIT_S))
        except subprocess.TimeoutExpired as err:
            raise InfraError(
                f"QEMU, process {self.pid}, is still there {KILL_LIMIT_S:.0f} s after SIGKILL"
            ) from err
        self.qmp.close()
        return status

    def gone(self) -> bool:
        """Whether the process has been waited for and is no longer in the process table."""
        return self.process.returncode is not None and _start_time(self.pid) != self._start_time


def make_room(console: socket.socket) -> None:
    """Make QEMU's end large enough for a slow reader.

    If the socket is full, QEMU 10.0 retries a character and writes it into its log file twice:
    qemu_chr_write_buffer() also logs what it did not write.
    """
    for option in (socket.SO_SNDBUF, SNDBUF_FORCE):
        with suppress(PermissionError):
            console.setsockopt(socket.SOL_SOCKET, option, CONSOLE_ROOM_BYTES)


def _start_time(pid: int) -> bytes | None:
    """The start time of a process; with the pid it identifies it, as pids are reused."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return stat.rpartition(b")")[2].split()[19]
