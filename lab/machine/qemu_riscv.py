# SPDX-License-Identifier: Apache-2.0 OR MIT
"""QEMU's command line for a machine of RISC-V, and its device tree.

All of its memory is NVRAM. QEMU cannot say that, so its device tree is taken from it, and the
node of memory is replaced by one of the standard binding for persistent memory (pmem-region).
"""

from __future__ import annotations

from lab.isa import RISCV64
from lab.machine.config import MachineConfig
from lab.machine.files import MachineFiles
from lab.machine.qemu_parts import (
    BootOptions,
    Wires,
    device_arguments,
    icount_arguments,
    nvram_file,
    plugin_argument,
    quoted,
    served_arguments,
)
from lab.run import run

MACHINE = "virt,memory-backend=nvram"
AIA = {"aia": "aplic-imsic", "plic": "none"}


def _board_arguments(config: MachineConfig, files: MachineFiles, options: BootOptions) -> list[str]:
    nvram = quoted(nvram_file(config, files))
    return [
        RISCV64.qemu, "-nodefaults", "-no-user-config", "-display", "none", "-machine",
        f"{MACHINE},aia={AIA[config.interrupts]}",
        "-cpu", config.cpu, "-smp", str(options.cpus or config.cpus),
        "-m", f"{config.nvram_bytes >> 20}M", "-object",
        f"memory-backend-file,id=nvram,share=on,mem-path={nvram},size={config.nvram_bytes}",
    ]  # fmt: skip


def make_tree(config: MachineConfig, files: MachineFiles, options: BootOptions) -> None:
    """Write the machine's device tree."""
    tree, phys = files.tree, RISCV64.nvram_phys
    dump = ["-machine", f"dumpdtb={quoted(tree)}"]
    run([*_board_arguments(config, files, options), *dump], what="QEMU's device tree")
    node = f"/pmem@{phys:x}"
    cells = [f"{word:x}" for value in (phys, config.nvram_bytes)
             for word in (value >> 32, value & 0xFFFFFFFF)]  # fmt: skip
    calls: tuple[list[str], ...] = (
        ["-r", str(tree), f"/memory@{phys:x}"],
        ["-c", str(tree), node],
        ["-t", "s", str(tree), node, "compatible", "pmem-region"],
        ["-t", "x", str(tree), node, "reg", *cells],
    )
    for words in calls:
        run(["fdtput", *words], what="the device tree")


def riscv_command(
    config: MachineConfig,
    files: MachineFiles,
    wires: Wires,
    options: BootOptions,
    netdev: str | None,
) -> list[str]:
    """The whole command. Pure, as qemu.build_command()."""
    log = quoted(files.console_log(options.boot))
    args = [*_board_arguments(config, files, options), "-name", f"rem-{config.name}"]
    args += ["-accel", "tcg,thread=single" if config.icount else "tcg,thread=multi"]
    args += [*icount_arguments(config), "-dtb", str(files.tree)]
    args += ["-rtc", f"base={options.rtc},clock={'vm' if config.icount else 'host'}"]
    args += ["-chardev", f"socket,id=console,{wires.console},logfile={log},logappend=off"]
    args += ["-serial", "chardev:console"]
    # There is one UART; the wire is behind PCI (kernel/riscv/wire.c).
    args += ["-chardev", f"socket,id=power,{wires.power}", "-device", "pci-serial,chardev=power"]
    args += ["-chardev", f"socket,id=qmp,{wires.qmp}", "-mon", "chardev=qmp,mode=control"]
    args += device_arguments(config, files, options, netdev)
    args += ["-kernel", str(config.loader), *served_arguments(config, options)]
    if config.plugin is not None:
        args += ["-plugin", plugin_argument(config.plugin, config, files)]
    return args + (["-S"] if options.paused else [])
