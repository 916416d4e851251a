# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem run`: make a machine and power it on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lab.errors import UsageError
from lab.machine.attach import run_in_foreground, start_detached
from lab.machine.caches import AUTO, OFF, check_profile
from lab.machine.config import DISK_MODELS, MEMTYPES, NIC_MODELS, Forward, MachineConfig
from lab.machine.files import MachineFiles
from lab.machine.machine import Machine
from lab.machine.network import NoNetwork, TapNetwork, namespace_name
from lab.machine.options import DEFAULT_NAME, NameOption, parse_bytes
from lab.machine.qemu import BootOptions, Wires, build_command, quoted_command
from lab.say import say

StopModeOption = Annotated[
    str | None, typer.Option("--stop-mode", help="How Stop treats devices: dpm or fast.")
]
NvramDirOption = Annotated[
    Path | None, typer.Option(help="Where the NVRAM file is, e.g. /dev/shm.")
]
NvramKindOption = Annotated[str, typer.Option(help="What it is made of: scm, nvdimm-n or battery.")]
DiskCacheOption = Annotated[
    str, typer.Option(help="The disk's write cache in a cut: protected or volatile.")
]
DiskLossOption = Annotated[
    str, typer.Option(help="What of a volatile one is lost: all, or some, sector by sector.")
]


def _choice(value: str, allowed: tuple[str, ...], what: str) -> str:
    if value not in allowed:
        raise UsageError(f"{what} {value}: choose one of {', '.join(allowed)}")
    return value


def with_products(config: dict[str, object]) -> dict[str, object]:
    """Fill in what set-up makes for whatever was not given."""
    if config["kernel"] is not None and "loader" in config and "root" in config:
        return config
    from lab.setup import products
    from lab.setup.progress import Progress

    progress = Progress()
    if config["kernel"] is None:
        config["kernel"] = products.ensure_kernel(progress).bz_image
    if "loader" not in config:
        config["loader"] = products.ensure_loader(progress)
    if "root" not in config:
        config["root"] = products.ensure_root(progress)
    return config


def with_cut_points(config: dict[str, object], name: str, icount: bool) -> dict[str, object]:
    """The plugin that knows guest time under icount, and places in Stop and Go."""
    from lab.machine.cut_points import make_spec
    from lab.machine.plugin import ctl_path
    from lab.setup import products
    from lab.setup.progress import Progress

    kernel, loader = config["kernel"], config["loader"]
    assert isinstance(kernel, Path) and isinstance(loader, Path)
    library = products.ensure_plugin(Progress())
    spec = make_spec(library, kernel, loader, icount)
    return {**config, "cut_points": True, "plugin": spec.argument(ctl_path(name))}


def dry_run(config: MachineConfig) -> None:
    """Print the command; sockets by name stand in for the ones that QEMU would inherit."""
    files = MachineFiles.of(config.name)
    options = BootOptions(rtc=BootOptions.rtc_of(config, 0))
    network = NoNetwork() if config.network == "none" else TapNetwork(f"rem-{config.name}")
    if files.directory.is_dir() and isinstance(network, TapNetwork):
        network = TapNetwork(namespace_name(files))
    command = build_command(config, files, Wires.by_path(), options, network.netdev())
    print(quoted_command(network.exec_prefix(), command))


def register(app: typer.Typer) -> None:
    @app.command("run")
    def run_command(  # noqa: PLR0917 - the options of a command, given by name
        name: NameOption = DEFAULT_NAME,
        cpus: Annotated[int, typer.Option(help="Number of CPUs.")] = 4,
        dram: Annotated[
            str | None,
            typer.Option(help="Volatile memory; 64M, or 1G as main memory.", metavar="SIZE"),
        ] = None,
        memtype: Annotated[
            str,
            typer.Option(
                help="Which memory the kernel may use: nvram, dram or nvram,dram.", metavar="KINDS"
            ),
        ] = "nvram",
        nvram: Annotated[str, typer.Option(help="Non-volatile memory.", metavar="SIZE")] = "1G",
        nvram_kind: NvramKindOption = "scm",
        disk_cache: DiskCacheOption = "protected",
        disk_loss: DiskLossOption = "all",
        stop_mode: StopModeOption = None,
        network: Annotated[str, typer.Option(help="auto, tap, user or none.")] = "auto",
        forward: Annotated[
            list[str] | None,
            typer.Option(
                help="A port of 127.0.0.1 that leads to one of the guest. May be repeated.",
                metavar="HOST:GUEST",
            ),
        ] = None,
        append: Annotated[str, typer.Option(help="More for the kernel's command line.")] = "",
        disk: Annotated[str, typer.Option(help=f"{', '.join(DISK_MODELS)}.")] = "virtio-blk",
        nic: Annotated[str, typer.Option(help=f"{', '.join(NIC_MODELS)}.")] = "virtio-net",
        device: Annotated[
            list[str] | None, typer.Option(help="One more QEMU device.", metavar="DEVICE")
        ] = None,
        iommu: Annotated[
            bool, typer.Option("--iommu/--no-iommu", help="Put devices behind an IOMMU.")
        ] = True,
        icount: Annotated[
            bool,
            typer.Option("--icount", help="Time by counted instructions; with cut points."),
        ] = False,
        cut_points: Annotated[
            bool,
            typer.Option("--cut-points", help="Let `rem cut --at` find its places; no KASLR."),
        ] = False,
        caches: Annotated[
            str,
            typer.Option(
                help="Volatile CPU caches: a profile of machine/cache/profiles.toml, off, or auto: "
                "wsp-c5528 where they can be modelled. They imply --icount.",
                metavar="PROFILE",
            ),
        ] = AUTO,
        plugin: Annotated[
            str | None, typer.Option(help="QEMU plugin and its options.", metavar="FILE[,K=V]")
        ] = None,
        kernel: Annotated[Path | None, typer.Option(help="Another bzImage.")] = None,
        loader: Annotated[Path | None, typer.Option(help="Another loader.elf.")] = None,
        no_loader: Annotated[
            bool, typer.Option("--no-loader", help="QEMU's own boot: nothing can resume.")
        ] = False,
        root: Annotated[Path | None, typer.Option(help="Another root image.")] = None,
        initrd: Annotated[Path | None, typer.Option(help="An initial RAM disk.")] = None,
        nvram_dir: NvramDirOption = None,
        detach: Annotated[
            bool, typer.Option("--detach", "-d", help="Run without this terminal.")
        ] = False,
        dry: Annotated[
            bool, typer.Option("--dry-run", help="Print the QEMU command and stop.")
        ] = False,
    ) -> int:
        """Make a machine and power it on, with this terminal as its console (Ctrl-] ends it).

        Ending it gives it the hold-up to stop in, so that `rem resume` goes on where it was.
        """
        wanted: dict[str, object] = {
            "name": name, "cpus": cpus, "iommu": iommu, "icount": icount, "plugin": plugin,
            "nvram_bytes": parse_bytes(nvram, "--nvram"),
            "cmdline_extra": append, "kernel": kernel, "initrd": initrd, "nvram_dir": nvram_dir,
            "network": _choice(network, ("auto", "tap", "user", "none"), "--network"),
            "forwards": tuple(Forward.parse(text) for text in forward or []),
            "memtype": _choice(memtype, MEMTYPES, "--memtype"),
            "disk": _choice(disk, DISK_MODELS, "--disk"),
            "nic": _choice(nic, NIC_MODELS, "--nic"),
            "devices": tuple(device or []), "nvram_kind": nvram_kind,
            "disk_cache": disk_cache, "disk_loss": disk_loss,
        }  # fmt: skip
        usual = plugin is None and kernel is None and loader is None and not no_loader
        usual = usual and initrd is None and memtype == "nvram" and nvram_kind == "scm"
        profile = check_profile(OFF if caches == AUTO and not usual else caches)
        if profile is not None and (plugin is not None or no_loader):
            raise UsageError("--caches needs the loader, and the one plugin of a machine")
        icount = icount or profile is not None
        wanted["icount"] = icount
        if cut_points and (plugin is not None or no_loader):
            raise UsageError("--cut-points needs the loader, and the one plugin of a machine")
        if dram is not None:
            wanted["dram_bytes"] = parse_bytes(dram, "--dram")
        if stop_mode is not None:
            wanted["stop_mode"] = _choice(stop_mode, ("dpm", "fast"), "--stop-mode")
        if root is not None or initrd is not None:
            wanted["root"] = root
        if loader is not None or no_loader:
            wanted["loader"] = None if no_loader else loader
        # Checked before anything is built: a wrong word must not cost a kernel build.
        MachineConfig(**{**wanted, "kernel": kernel or Path()})  # type: ignore[arg-type]
        wanted = with_products(wanted)
        if cut_points or (icount and plugin is None and not no_loader):
            wanted = {**with_cut_points(wanted, name, icount), "caches": profile}
        config = MachineConfig(**wanted)  # type: ignore[arg-type]
        if dry:
            dry_run(config)
            return 0
        machine = Machine.create(config)
        if machine.network.note:
            say(f"rem: {machine.network.note}")
        if detach:
            machine.close()
            start_detached(machine.files)
            say(f"rem: machine {name!r} runs; console: rem console --name {name}")
            return 0
        say(f"rem: machine {name!r}; Ctrl-] ends it")
        return run_in_foreground(machine)
