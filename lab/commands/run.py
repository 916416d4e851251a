# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem run`: make a machine and power it on."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from lab.command_line.options import DEFAULT_NAME, NameOption, takes
from lab.errors import UsageError
from lab.guest_root.spec import RootSpec, parse_packages
from lab.isa import ISA_NAMES, IsaName
from lab.machine.attach import run_in_foreground, start_detached
from lab.machine.caches import AUTO, OFF, check_profile
from lab.machine.config import (
    DISK_MODELS,
    INTERRUPTS,
    MEMTYPES,
    NIC_MODELS,
    STOP_MODES,
    Forward,
    InterruptsName,
    MachineConfig,
)
from lab.machine.files import MachineFiles
from lab.machine.machine import Machine
from lab.machine.memories import MEMORIES
from lab.machine.network import NoNetwork, TapNetwork, namespace_name
from lab.machine.qemu import BootOptions, Wires, build_command, quoted_command
from lab.machine.shares import Share
from lab.messages import info
from lab.quantities import parse_bytes

FIRMWARES = ("direct", "uefi", "uefi-secure")
KERNEL_CONFIGS = ("server",)  # besides the laboratory's own


@dataclass(frozen=True)
class MemoryWords:
    """DRAM and NVRAM."""

    dram: Annotated[
        str | None,
        typer.Option(
            help="Volatile memory; 64M, 1G as main memory, or 256M as its cache.", metavar="SIZE"
        ),
    ] = None
    memtype: Annotated[
        str,
        typer.Option(
            help="Which memory the kernel may use: nvram, dram, nvram,dram, or mixed: NVRAM,"
            " with DRAM as its cache.",
            metavar="KINDS",
        ),
    ] = "nvram"
    nvram: Annotated[str, typer.Option(help="Non-volatile memory.", metavar="SIZE")] = "1G"
    nvram_second: Annotated[
        str | None,
        typer.Option(help="A second range of it, with a gap before it.", metavar="SIZE"),
    ] = None
    nvram_kind: Annotated[
        str, typer.Option(help="The technology of NVRAM: scm, nvdimm-n or battery.")
    ] = "scm"
    nvram_dir: Annotated[
        Path | None, typer.Option(help="Folder of the NVRAM file, e.g. /dev/shm.")
    ] = None


@dataclass(frozen=True)
class DeviceWords:
    """Disk, network and further devices."""

    disk: Annotated[str, typer.Option(help=f"{', '.join(DISK_MODELS)}.")] = "virtio-blk"
    disk_cache: Annotated[
        str, typer.Option(help="The disk's write cache in a cut: protected or volatile.")
    ] = "protected"
    disk_loss: Annotated[
        str, typer.Option(help="What a volatile cache loses: all, or some, sector by sector.")
    ] = "all"
    nic: Annotated[str, typer.Option(help=f"{', '.join(NIC_MODELS)}.")] = "virtio-net"
    network: Annotated[str, typer.Option(help="auto, tap, user or none.")] = "auto"
    forward: Annotated[
        list[str] | None,
        typer.Option(
            help="Forward a port of 127.0.0.1 to one of the guest. May be repeated.",
            metavar="HOST:GUEST",
        ),
    ] = None
    device: Annotated[
        list[str] | None, typer.Option(help="One more QEMU device.", metavar="DEVICE")
    ] = None
    iommu: Annotated[
        bool, typer.Option("--iommu/--no-iommu", help="Put devices behind an IOMMU.")
    ] = True
    tpm: Annotated[
        str | None,
        typer.Option(help="A TPM, so that images are authenticated: crb or tis.", metavar="MODEL"),
    ] = None


@dataclass(frozen=True)
class TimeWords:
    """How time is counted, where the power can be cut, and what a cut loses."""

    stop_mode: Annotated[
        str | None, typer.Option("--stop-mode", help="How to stop: fast, dpm or sng.")
    ] = None
    icount: Annotated[
        bool, typer.Option("--icount", help="Count time by instructions; with cut points.")
    ] = False
    cut_points: Annotated[
        bool, typer.Option("--cut-points", help="Make `rem cut --at` possible; no KASLR.")
    ] = False
    caches: Annotated[
        str,
        typer.Option(
            help="Volatile CPU caches: a profile of models/parts/processors.toml, off, or auto: "
            "wsp-c5528 where they can be modelled, but none under UEFI. They imply --icount.",
            metavar="PROFILE",
        ),
    ] = AUTO
    memory: Annotated[
        str | None,
        typer.Option(
            help="The memory controller behind the caches, which guest time follows: "
            f"{', '.join(MEMORIES)}; settings may follow, as ocpmem:row_buffer=off. Caches are "
            "then those of lightpc, if not chosen.",
            metavar="NAME[:K=V]",
        ),
    ] = None
    plugin: Annotated[
        str | None, typer.Option(help="QEMU plugin and its options.", metavar="FILE[,K=V]")
    ] = None


@dataclass(frozen=True)
class ProductWords:
    """What runs in the machine, instead of what set-up builds."""

    kernel: Annotated[Path | None, typer.Option(help="Another kernel.")] = None
    append: Annotated[str, typer.Option(help="More for the kernel's command line.")] = ""
    loader: Annotated[
        Path | None, typer.Option(help="Another loader.elf, with loader.efi beside it.")
    ] = None
    firmware: Annotated[
        str,
        typer.Option(
            help="What starts the loader: direct (QEMU itself), uefi, or uefi-secure, which has "
            "Secure Boot on.",
        ),
    ] = "direct"
    no_loader: Annotated[
        bool, typer.Option("--no-loader", help="QEMU's own boot: nothing can resume.")
    ] = False
    root: Annotated[Path | None, typer.Option(help="Another root image.")] = None
    disk_image: Annotated[
        Path | None,
        typer.Option(
            help="A whole disk that UEFI boots by itself, such as one of `rem image`; copied.",
            metavar="FILE",
        ),
    ] = None
    initrd: Annotated[Path | None, typer.Option(help="An initial RAM disk.")] = None


@dataclass(frozen=True)
class GuestWords:
    """What is in the guest, besides what every guest has."""

    packages: Annotated[
        str | None,
        typer.Option(help="Debian packages for the guest, as nginx,g++.", metavar="NAME[,NAME]"),
    ] = None
    oci: Annotated[
        Path | None,
        typer.Option(
            help="Run a container image: an OCI image layout (a folder, or a tar archive of one), "
            "or a folder that is a root.",
            metavar="IMAGE",
        ),
    ] = None
    share: Annotated[
        list[str] | None,
        typer.Option(
            help="Share a folder of the host with the guest, at /host if no path is given. "
            "May be repeated.",
            metavar="DIR[:PATH][,ro]",
        ),
    ] = None
    pm: Annotated[
        str | None,
        typer.Option(
            "--pm", help="Put so much of NVRAM aside as persistent memory.", metavar="SIZE"
        ),
    ] = None
    off2f: Annotated[
        bool,
        typer.Option("--off2f", help="Programs of two files: tool, module, their texts in /nvm."),
    ] = False
    off2f_size: Annotated[
        str, typer.Option(help="How much of NVRAM is put aside for these texts.", metavar="SIZE")
    ] = "128M"
    disk_size: Annotated[
        str | None,
        typer.Option(help="Size of the disk; 3G, or as much as the root needs.", metavar="SIZE"),
    ] = None
    kernel_config: Annotated[
        str | None,
        typer.Option(help="Another configuration of the kernel: server.", metavar="NAME"),
    ] = None


@dataclass(frozen=True)
class RunWords:
    """The command line as typed."""

    name: NameOption = DEFAULT_NAME
    cpus: Annotated[int, typer.Option(help="Number of CPUs.")] = 4
    arch: Annotated[str, typer.Option(help=f"{' or '.join(ISA_NAMES)}.", metavar="ISA")] = "x86_64"
    interrupts: Annotated[
        str,
        typer.Option(help="Of RISC-V: aia (messages to each hart) or plic (wires alone)."),
    ] = "aia"
    memory: MemoryWords = field(default_factory=MemoryWords)
    devices: DeviceWords = field(default_factory=DeviceWords)
    time: TimeWords = field(default_factory=TimeWords)
    products: ProductWords = field(default_factory=ProductWords)
    guest: GuestWords = field(default_factory=GuestWords)
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Run without this terminal.")] = (
        False
    )
    dry: Annotated[bool, typer.Option("--dry-run", help="Print the QEMU command and exit.")] = False


@dataclass(frozen=True)
class RunPlan:
    """The command line, checked; nothing has been built yet."""

    config: MachineConfig  # what is in *missing* is not filled in
    missing: frozenset[str]  # which of kernel, loader, root and firmware set-up is to provide
    root: RootSpec  # where it provides the root
    caches: str | None  # profile of volatile caches
    memory: str | None  # its controller
    with_plugin: bool  # the plugin that knows cut points and guest time
    boots_from_root: bool  # the root is a whole disk
    detach: bool
    dry_run: bool


def check(words: RunWords) -> RunPlan:
    """A plan that can be carried out, or UsageError."""
    time, products = words.time, words.products
    own_plugin = time.plugin is None and not products.no_loader
    caches = OFF if time.caches == AUTO and not _is_usual(words) else time.caches
    profile = check_profile(caches, time.memory)
    if not own_plugin and (profile is not None or time.cut_points):
        option = "--cut-points" if profile is None else "--caches"
        raise UsageError(f"{option} needs the loader, and no other --plugin")
    icount = time.icount or profile is not None
    given: dict[str, Any] = {"kernel": products.kernel}
    if products.loader is not None or products.no_loader:
        given["loader"] = None if products.no_loader else products.loader
    if products.root is not None or products.initrd is not None:
        given["root"] = products.root
    if products.disk_image is not None:
        given |= _disk_image_fields(products, words.guest)
    missing = {"kernel", "loader", "root"} - set(given)
    firmware = _choice(products.firmware, FIRMWARES, "--firmware")
    if products.disk_image is not None and firmware == "direct":
        firmware = "uefi"
    if firmware != "direct":
        if products.no_loader:
            raise UsageError("UEFI starts the loader: leave --no-loader out")
        if products.disk_image is not None and (icount or time.cut_points):
            raise UsageError("--disk-image: no --icount, no --cut-points, no --caches")
        missing.add(firmware)
    if products.kernel is None:
        missing.add("kernel")
        given["kernel"] = Path()
    fields = {**_memory_fields(words.memory), **_device_fields(words.devices)}
    fields |= _guest_fields(words.guest)
    if time.stop_mode is not None:
        fields["stop_mode"] = _choice(time.stop_mode, STOP_MODES, "--stop-mode")
    config = MachineConfig(
        name=words.name,
        isa=cast(IsaName, _choice(words.arch, ISA_NAMES, "--arch")),
        interrupts=cast(InterruptsName, _choice(words.interrupts, INTERRUPTS, "--interrupts")),
        cpus=words.cpus,
        cmdline_extra=products.append,
        initrd=products.initrd,
        icount=icount,
        # A person's machine: idle it takes no host CPU, and its clock does not run ahead.
        idle_waits=icount,
        plugin=time.plugin,
        **fields,
        **given,
    )
    with_plugin = time.cut_points or (icount and own_plugin)
    root = _root_spec(words.guest, missing)
    if config.isa != "x86_64" and root.is_special:
        raise UsageError(f"--packages, --oci and the like: not with --arch {config.isa}")
    return RunPlan(
        config=config,
        missing=frozenset(missing),
        root=root,
        caches=profile,
        memory=time.memory,
        with_plugin=with_plugin,
        boots_from_root=products.disk_image is not None,
        detach=words.detach,
        dry_run=words.dry,
    )


def _disk_image_fields(products: ProductWords, guest: GuestWords) -> dict[str, Any]:
    """What is on the disk chooses kernel, loader, command line and root."""
    chosen = {
        "--kernel": products.kernel, "--append": products.append, "--loader": products.loader,
        "--no-loader": products.no_loader, "--root": products.root, "--initrd": products.initrd,
        "--packages": guest.packages, "--oci": guest.oci, "--share": guest.share,
        "--pm": guest.pm, "--off2f": guest.off2f, "--kernel-config": guest.kernel_config,
    }  # fmt: skip
    for option, value in chosen.items():
        if value:
            raise UsageError(f"--disk-image has all that boots: leave {option} out")
    assert products.disk_image is not None
    if not products.disk_image.is_file():
        raise UsageError(f"--disk-image {products.disk_image}: no such file")
    return {"root": products.disk_image.absolute()}


def _is_usual(words: RunWords) -> bool:
    """Whether volatile caches can be modelled without further options."""
    products, memory = words.products, words.memory
    files = (products.kernel, products.loader, products.initrd, products.disk_image)
    if (
        products.no_loader
        or products.firmware != "direct"
        or words.time.plugin is not None
        or any(file is not None for file in files)
    ):
        return False
    one_range = memory.nvram_second is None
    return memory.memtype == "nvram" and memory.nvram_kind == "scm" and one_range


def _choice(value: str, allowed: tuple[str, ...], option: str) -> str:
    if value not in allowed:
        raise UsageError(f"{option} {value}: choose one of {', '.join(allowed)}")
    return value


def _memory_fields(words: MemoryWords) -> dict[str, Any]:
    return {
        "memtype": _choice(words.memtype, MEMTYPES, "--memtype"),
        "dram_bytes": None if words.dram is None else parse_bytes(words.dram, "--dram"),
        "nvram_bytes": parse_bytes(words.nvram, "--nvram"),
        "nvram_second_bytes": _bytes(words.nvram_second, "--nvram-second"),
        "nvram_kind": words.nvram_kind,
        "nvram_dir": words.nvram_dir,
    }


def _device_fields(words: DeviceWords) -> dict[str, Any]:
    return {
        "disk": _choice(words.disk, DISK_MODELS, "--disk"),
        "disk_cache": words.disk_cache,
        "disk_loss": words.disk_loss,
        "nic": _choice(words.nic, NIC_MODELS, "--nic"),
        "network": _choice(words.network, ("auto", "tap", "user", "none"), "--network"),
        "forwards": tuple(Forward.parse(text) for text in words.forward or []),
        "devices": tuple(words.device or []),
        "iommu": words.iommu,
        "tpm": words.tpm,
    }


def _guest_fields(words: GuestWords) -> dict[str, Any]:
    return {
        "disk_bytes": _bytes(words.disk_size, "--disk-size"),
        "pm_bytes": _bytes(words.pm, "--pm"),
        "off2f_bytes": _bytes(words.off2f_size, "--off2f-size") if words.off2f else None,
        "shares": tuple(Share.parse(text) for text in words.share or []),
    }


def _bytes(text: str | None, option: str) -> int | None:
    return None if text is None else parse_bytes(text, option)


def _root_spec(words: GuestWords, missing: set[str]) -> RootSpec:
    """The root that set-up is to provide; options that it serves need it, and its kernel."""
    config = words.kernel_config
    if config is not None:
        _choice(config, KERNEL_CONFIGS, "--kernel-config")
    spec = RootSpec(
        packages=parse_packages(words.packages) if words.packages is not None else (),
        oci=words.oci.absolute() if words.oci is not None else None,
        pm=words.pm is not None,
        off2f=words.off2f,
        kernel=config,
        limit_bytes=_bytes(words.disk_size, "--disk-size"),
    )
    if spec.is_special and "root" not in missing:
        raise UsageError("--packages, --oci, --pm and --off2f make a root: leave --root out")
    if (spec.pm or spec.off2f or config is not None) and "kernel" not in missing:
        raise UsageError("--pm, --off2f and --kernel-config choose the kernel: leave --kernel out")
    return spec


def complete(plan: RunPlan) -> MachineConfig:
    """The machine, with everything that set-up builds for it."""
    from lab.setup.ovmf import Ovmf, SecureOvmf
    from lab.setup.products import Part, Plugin, need_all
    from lab.setup.share_server import ShareServerFiles
    from lab.testbed.machines import firmware_fields, parts_of, with_cut_points

    own = parts_of(plan.config.isa, plan.root)
    parts: dict[str, Part[Any]] = {
        "kernel": own.kernel,
        "loader": own.loader,
        "root": own.root,
        "share_server": ShareServerFiles(),
        "uefi": Ovmf(),
        "uefi-secure": SecureOvmf(),
    }
    missing = plan.missing | ({"share_server"} if plan.config.shares else set())
    wanted = [part for name, part in parts.items() if name in missing]
    made = need_all([own.programs, *wanted, *([Plugin()] if plan.with_plugin else [])])
    built: dict[str, Any] = {name: made[parts[name]] for name in missing}
    for name in FIRMWARES:
        if name in built:
            built |= firmware_fields(built.pop(name))
    if "kernel" in built:
        built["kernel"] = built["kernel"].bz_image
    config = replace(plan.config, boots_from_root=plan.boots_from_root, **built)
    if not plan.with_plugin:
        return config
    return replace(with_cut_points(config), caches=plan.caches, memory=plan.memory)


def print_command(config: MachineConfig) -> None:
    """The command of QEMU; sockets by name stand in for those that QEMU would inherit."""
    files = MachineFiles.of(config.name)
    options = BootOptions(rtc=BootOptions.rtc_of(config, 0))
    network = NoNetwork() if config.network == "none" else TapNetwork(f"rem-{config.name}")
    if files.directory.is_dir() and isinstance(network, TapNetwork):
        network = TapNetwork(namespace_name(files))
    command = build_command(config, files, Wires.by_path(), options, network.netdev())
    print(quoted_command(network.exec_prefix(), command))


@takes(RunWords)
def run_command(words: RunWords) -> int:
    """Make a machine and power it on, with this terminal as its console (Ctrl-] ends it).

    At its end the machine gets the hold-up to stop in, so that `rem resume` continues from there.
    """
    plan = check(words)
    config = complete(plan)
    if plan.dry_run:
        print_command(config)
        return 0
    machine = Machine.create(config)
    if machine.network.note:
        info(f"rem: {machine.network.note}")
    if plan.detach:
        machine.close()
        start_detached(machine.files)
        info(f"rem: machine {words.name!r} runs; console: rem console --name {words.name}")
        return 0
    info(f"rem: machine {words.name!r}; Ctrl-] ends it")
    return run_in_foreground(machine)


def register(app: typer.Typer) -> None:
    app.command("run")(run_command)
