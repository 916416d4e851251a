# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A disk that boots: Debian with systemd and our packages, as a file for a USB stick or for QEMU.

It has a GUID partition table with two partitions: the EFI system partition, on which loader, kernel
and command line are one file, as the default of a removable medium, and the root; and a third one
for data, which is empty, if the plan has one. The kernel finds the root by its partition's GUID, so
that the disk boots at any place.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import uuid
from dataclasses import dataclass, field
from pathlib import Path

from lab.distribution.system import APT, LIST, inside, offer
from lab.errors import InfraError
from lab.guest_root.image import make_ext4
from lab.machine.esp import make_esp
from lab.progress import step
from lab.run import run

MIB_BYTES = 1 << 20
ALIGN_BYTES = MIB_BYTES
SECTOR_BYTES = 512
# Four files with a kernel and an initial RAM disk each: the medium's default, the image, the one
# before it, and one that replaces them.
ESP_MIN_BYTES = 512 * MIB_BYTES
ROOT_MIN_BYTES = 2 << 30
# Types of partitions (UEFI 5.3.3, and the Discoverable Partitions Specification for x86-64).
ESP_TYPE = "C12A7328-F81F-11D2-BA4B-00A0C93EC93B"
ROOT_TYPE = "4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709"
DATA_TYPE = "0FC63DAF-8483-4772-8E79-3D69D8477DE4"
DATA_LABEL = "data"
ESP_PLACE = "boot/efi"
# Of Debian, what our disks have; the variant of mmdebstrap.
VARIANT = "important"
BASE = ("systemd-sysv", "dbus", "udev", "kmod", "openssh-server", "iproute2", "efibootmgr")
OURS = ("linux-image-remanence", "remanence-loader", "remanence-tools")
# Devices, not what drivers make by themselves, such as dummy0.
MATCH = """[Match]
Type=ether
Kind=!*
"""
DHCP = f"""{MATCH}
[Network]
DHCP=yes
"""
FSTAB = """PARTUUID={root} / ext4 errors=remount-ro 0 1
PARTUUID={esp} /boot/efi vfat umask=0077,iocharset=ascii 0 2
"""


@dataclass(frozen=True)
class DiskPlan:
    """What the disk is to have.

    *base*: the tree of BASE and more; *network*: a file of systemd-networkd; *cmdline*: words of
    the kernel besides its root; *root_bytes*: of the root, at least; *data_bytes*: of the third
    partition. Both are whole MiB.
    """

    base: Path
    debs: Path
    ssh_key: str
    network: str = DHCP
    cmdline: str = "memtype=nvram"
    hostname: str = "remanence"
    root_bytes: int = ROOT_MIN_BYTES
    data_bytes: int = 0
    root_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    esp_id: str = field(default_factory=lambda: str(uuid.uuid4()))


def make_disk(plan: DiskPlan, file: Path) -> None:
    """Write the disk; it appears whole. Needs root's rights, for mmdebstrap."""
    with tempfile.TemporaryDirectory(prefix=".rem-image-", dir=file.parent) as name:
        folder = Path(name)
        tree, root, esp = folder / "tree", folder / "root.img", folder / "esp.img"
        with step("disk: our packages"):
            _install(plan, tree)
        with step("disk: file systems"):
            _configure(plan, tree)
            # Twice: firmware starts the default of a medium that it has no entry for.
            image = tree / ESP_PLACE / "EFI/remanence/remanence.efi"
            make_esp(esp, image, {image.name: image}, {}, ESP_MIN_BYTES)
            shutil.rmtree(tree / ESP_PLACE)
            (tree / ESP_PLACE).mkdir()
            make_ext4(tree, root, plan.root_bytes)
            disk = folder / "disk.img"
            _partition(plan, disk, esp.stat().st_size, root.stat().st_size)
            _copy_into(esp, disk, ALIGN_BYTES)
            _copy_into(root, disk, ALIGN_BYTES + esp.stat().st_size)
        disk.replace(file)


def _install(plan: DiskPlan, tree: Path) -> None:
    run(["cp", "-a", plan.base, tree], what="copying Debian")
    # Before there is a kernel: its initial RAM disk checks the file system that is the root's here.
    fstab = FSTAB.format(root=plan.root_id, esp=plan.esp_id)
    (tree / "etc/fstab").write_text(fstab, encoding="utf-8")
    offer(tree, plan.debs)
    only_ours = ("-o", f"Dir::Etc::sourcelist=/{LIST}", "-o", "Dir::Etc::sourceparts=/dev/null")
    for words in (("update",), ("install", "-y", *OURS)):
        inside(tree, *APT, *only_ours, *words, what="installing our packages")


def _configure(plan: DiskPlan, tree: Path) -> None:
    texts = {
        "etc/hostname": f"{plan.hostname}\n",
        "etc/hosts": f"127.0.0.1 localhost\n127.0.1.1 {plan.hostname}\n",
        "etc/systemd/network/80-remanence.network": plan.network,
        "etc/remanence/cmdline": f"root=PARTUUID={plan.root_id} ro {plan.cmdline}\n",
        "root/.ssh/authorized_keys": plan.ssh_key.strip() + "\n",
    }
    for name, text in texts.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (tree / "root/.ssh").chmod(0o700)
    (tree / "root/.ssh/authorized_keys").chmod(0o600)
    # Each system gets its own at its first boot.
    (tree / "etc/machine-id").write_text("uninitialized\n", encoding="utf-8")
    for key in (tree / "etc/ssh").glob("ssh_host_*"):
        key.unlink()
    _enable(tree, "systemd-networkd.service", "rem-host-keys.service")
    (tree / ESP_PLACE).mkdir(parents=True, exist_ok=True)
    words = ("remctl", "install", "--esp", f"/{ESP_PLACE}")
    inside(tree, *words, what="installing the loader")


HOST_KEYS = """[Unit]
Description=Host keys of ssh, of which each system makes its own
ConditionFileNotEmpty=!/etc/ssh/ssh_host_ed25519_key
Before=ssh.service

[Service]
Type=oneshot
ExecStartPre=/bin/rm -f /etc/ssh/ssh_host_ed25519_key /etc/ssh/ssh_host_ed25519_key.pub
ExecStart=/usr/bin/ssh-keygen -q -t ed25519 -N "" -f /etc/ssh/ssh_host_ed25519_key
ExecStartPost=/bin/sync /etc/ssh/ssh_host_ed25519_key /etc/ssh/ssh_host_ed25519_key.pub /etc/ssh

[Install]
WantedBy=multi-user.target
"""


def _enable(tree: Path, *units: str) -> None:
    (tree / "etc/systemd/system/rem-host-keys.service").write_text(HOST_KEYS, encoding="utf-8")
    inside(tree, "systemctl", "enable", *units, what="enabling units")


def _partition(plan: DiskPlan, disk: Path, esp_bytes: int, root_bytes: int) -> None:
    total = ALIGN_BYTES + esp_bytes + root_bytes + plan.data_bytes
    total += ALIGN_BYTES  # the second table is at the end
    with disk.open("wb") as file:
        file.truncate(total)
    esp_start = ALIGN_BYTES // SECTOR_BYTES
    esp_size, root_size = esp_bytes // SECTOR_BYTES, root_bytes // SECTOR_BYTES
    root_start = esp_start + esp_size
    lines = [
        "label: gpt",
        f"start={esp_start}, size={esp_size}, type={ESP_TYPE}, uuid={plan.esp_id}",
        f"start={root_start}, size={root_size}, type={ROOT_TYPE}, uuid={plan.root_id}",
    ]
    if plan.data_bytes:
        data_start = root_start + root_size
        size = f"size={plan.data_bytes // SECTOR_BYTES}"
        lines.append(f'start={data_start}, {size}, type={DATA_TYPE}, name="{DATA_LABEL}"')
    run(["sfdisk", "-q", disk], stdin="\n".join(lines) + "\n", what="partitioning the disk")


def take_from_root(disk: Path, name: str, to: Path) -> None:
    """Copy a file out of the root of a disk that make_disk() has written."""
    table = json.loads(run(["sfdisk", "-J", disk], what="reading partitions").stdout)
    parts = table["partitiontable"]["partitions"]
    start = next(part["start"] for part in parts if part["type"] == ROOT_TYPE)
    file_system = f"{disk}?offset={start * SECTOR_BYTES}"
    run(["debugfs", "-R", f"dump {name} {to}", file_system], what=f"copying {name}")
    if not to.exists() or not to.stat().st_size:
        raise InfraError(f"{disk} has no {name}")


def _copy_into(part: Path, disk: Path, at_bytes: int) -> None:
    words = [f"if={part}", f"of={disk}", "bs=1M", f"seek={at_bytes // MIB_BYTES}"]
    run(["dd", *words, "conv=notrunc,sparse", "status=none"], what="writing the disk")
