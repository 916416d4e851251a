# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Debian's own 6.12 kernel with its modules, to boot the guest's root.

    product   CACHE/debian-guest/KEY   bzImage, initrd; to be unpacked in the guest: modules.tar,
                                       and tools.tar (mkfs and fsck that its root lacks)

modules.tar has the modules that the guest needs, and what they depend on. Debian's busybox in the
initial RAM disk loads those for the root and the network, which our own kernel has built in.
"""

from __future__ import annotations

import lzma
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

from lab.errors import InfraError
from lab.progress import step
from lab.run import run
from lab.setup.fetch import dependencies, unpack
from lab.setup.inputs import Inputs
from lab.setup.need import Part, Site
from lab.setup.newc import archive
from lab.setup.packages import BUSYBOX, Group
from lab.setup.stock_headers import image_package, stock_version

FORMAT = "5"  # raised when the product changes
# In the order of loading; ext4 requests the checksum by its name, which loads no module here.
FOR_BOOT = ("crc32c_generic", "virtio_pci", "virtio_blk", "virtio_net", "ext4")
DEVICES = ("nfit", "nd_e820", "nd_pmem", "nd_btt", "brd", "libcrc32c")
FILE_SYSTEMS = ("xfs", "btrfs", "xxhash_generic", "vfat", "nls_ascii", "nls_cp437", "nls_iso8859_1")
# What CRIU asks the kernel for: sockets by their diagnosis, and a connection closed by iptables.
CHECKPOINTS = (
    *("inet_diag", "tcp_diag", "udp_diag", "raw_diag", "unix_diag", "netlink_diag"),
    *("af_packet_diag", "nf_tables", "nft_compat", "iptable_filter", "xt_mark", "xt_tcpudp"),
)
TOOLS = ("xfsprogs", "btrfs-progs", "dosfstools")
# Those of their libraries that the guest's root lacks. The ends of the names depend on the release.
LIBRARIES = ("libinih", "liburcu", "liblzo2", "libudev")
INIT = """#!/bin/busybox sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
b=/bin/busybox
$b mkdir -p /proc /sys /dev /root
$b mount -t proc proc /proc; $b mount -t sysfs sys /sys; $b mount -t devtmpfs dev /dev
for module in $($b cat /modules); do $b insmod $module || echo "stock: $module" >/dev/console; done
for n in 1 2 3 4 5 6 7 8 9; do [ -b /dev/vda ] || $b sleep 1; done
# Of the words that our own kernel reads: ip=ADDRESS::HOST:...
for word in $($b cat /proc/cmdline); do case $word in ip=*) address=${word#ip=};; esac; done
$b ip link set eth0 up; $b ip addr add ${address%%:*}/24 dev eth0
$b mount -t ext4 /dev/vda /root
$b umount /proc; $b umount /sys; $b mount --move /dev /root/dev
exec $b switch_root /root /sbin/rem-init </root/dev/console >/root/dev/console 2>&1
"""


@dataclass(frozen=True)
class StockKernel:
    bz_image: Path
    initrd: Path
    modules: Path  # a tar of lib/modules/VERSION, with its modules.dep
    tools: Path
    version: str


@dataclass(frozen=True)
class Stock(Part[StockKernel]):
    """The newest 6.12 that this machine's apt sources have."""

    groups = (Group.GUESTS, Group.MODULES)
    lane = "fetch"

    def make(self, site: Site) -> StockKernel:
        version = stock_version()
        key = Inputs("stock").add("format", FORMAT).add("version", version).add("init", INIT).key()

        def build(into: Path) -> None:
            with step(f"Debian's kernel {version} for the guest"):
                _make(f"{version}-amd64", into)
                _make_tools(into)

        folder = site.product("debian-guest", key, build)
        return StockKernel(
            folder / "bzImage",
            folder / "initrd",
            folder / "modules.tar",
            folder / "tools.tar",
            f"{version}-amd64",
        )


def _make(release: str, into: Path) -> None:
    with tempfile.TemporaryDirectory(dir=into) as scratch:
        root = Path(scratch)
        if not (package := image_package(release)):
            raise InfraError(f"apt has headers of {release}, and no linux-image: run apt update")
        unpack("Debian's kernel", [package], root)
        (root / "boot" / f"vmlinuz-{release}").rename(into / "bzImage")
        modules = next(root.glob(f"**/modules/{release}"))
        _plain(modules)
        base = modules.parent.parent.parent  # the parent of `lib/modules`
        run(["depmod", "-b", base, release], what="depmod")
        needs = _dependencies(modules)
        (into / "initrd").write_bytes(_initrd(modules, needs))
        _pack(modules, needs, into / "modules.tar")


def _plain(modules: Path) -> None:
    """Unpack them: busybox cannot load packed modules."""
    for packed in modules.rglob("*.ko.xz"):
        packed.with_suffix("").write_bytes(lzma.decompress(packed.read_bytes()))
        packed.unlink()


def _dependencies(modules: Path) -> dict[str, list[str]]:
    """Return by module: the files to load, its own last."""
    found = {}
    for line in (modules / "modules.dep").read_text(encoding="utf-8").splitlines():
        path, _, before = line.partition(":")
        found[Path(path).stem.replace("-", "_")] = [*reversed(before.split()), path]
    return found


def _closure(names: tuple[str, ...], needs: dict[str, list[str]]) -> list[str]:
    ordered: dict[str, None] = {}
    for name in names:
        # What is built into this kernel is not a module.
        ordered.update(dict.fromkeys(needs.get(name, [])))
    return list(ordered)


def _initrd(modules: Path, needs: dict[str, list[str]]) -> bytes:
    paths = _closure(FOR_BOOT, needs)
    files = {f"m/{Path(path).name}": (modules / path).read_bytes() for path in paths}
    files["modules"] = "".join(f"/{name}\n" for name in files).encode()
    files["init"] = INIT.encode()
    files["bin/busybox"] = BUSYBOX.read_bytes()
    return archive(files)


def _pack(modules: Path, needs: dict[str, list[str]], to: Path) -> None:
    paths = _closure((*DEVICES, *FILE_SYSTEMS, *CHECKPOINTS), needs)
    with tarfile.open(to, "w") as tar:
        for path in (*paths, "modules.dep"):
            tar.add(modules / path, f"lib/modules/{modules.name}/{path}", recursive=False)


def _make_tools(into: Path) -> None:
    with tempfile.TemporaryDirectory(dir=into) as scratch:
        unpack("mkfs and fsck", [*TOOLS, *_libraries()], Path(scratch))
        argv: list[str | Path] = ["tar", "-C", scratch, "--exclude=usr/share", "-cf"]
        run([*argv, into / "tools.tar", "."], what="packing mkfs and fsck")


def _libraries() -> list[str]:
    """The packages of LIBRARIES on which the tools depend, as this release names them."""
    shown = run(["apt-cache", "depends", "--important", *TOOLS], what="asking apt for libraries")
    return library_packages(shown.stdout)


def library_packages(depends: str) -> list[str]:
    """The packages of LIBRARIES in what `apt-cache depends` prints.

    Raises InfraError if one of them is missing.
    """
    names = dependencies(depends)
    found = {library: sorted(n for n in names if n.startswith(library)) for library in LIBRARIES}
    if missing := [library for library, packages in found.items() if not packages]:
        raise InfraError(
            f"{', '.join(TOOLS)} do not depend on {', '.join(missing)}: run apt update"
        )
    return [name for packages in found.values() for name in packages]
