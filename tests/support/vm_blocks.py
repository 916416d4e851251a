# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A guest of `rem-vm` that writes numbered blocks, and what it says of them (`vm_blocks.c`).

Its disk is an NBD server's, which is no part of the host. Its lines over all lives are in one file.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from lab.setup import newc
from lab.setup.products import need
from lab.setup.stock import Stock
from lab.testbed.vm_host import BARE, VmGuest, VmHost
from lab.testbed.waiting import wait_until
from tests.support.nbd_server import BLOCK_BYTES, WRITE, NbdServer, QemuNbd, Request

NAME = "blocks"
RAM_BYTES = 192 << 20
DISK_BYTES = 1 << 20
WRITERS, PLACES = 4, 4
LIMIT_S = 240.0
POLL_S = 0.05
INIT = """#!/bin/busybox sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
b=/bin/busybox
$b mkdir -p /proc /sys /dev
$b mount -t proc proc /proc; $b mount -t sysfs sys /sys; $b mount -t devtmpfs dev /dev
for module in $($b cat /modules); do $b insmod $module; done
for n in 1 2 3 4 5 6 7 8 9; do [ -b /dev/vda ] || $b sleep 1; done
exec /vm_blocks /dev/vda /dev/ttyS1 {writers}
"""

Write = tuple[int, int]  # writer and number


def make_initrd(folder: Path) -> Path:
    """Debian's initial RAM disk with another PID 1."""
    program = folder / "vm_blocks"
    source = Path(__file__).with_suffix(".c")
    subprocess.run(["gcc", "-O1", "-static", "-o", program, source], check=True)
    stock = need(Stock()).initrd.read_bytes()
    files = {"init": INIT.format(writers=WRITERS).encode(), "vm_blocks": program.read_bytes()}
    made = folder / "blocks.initrd"
    # Archives follow each other, at multiples of 4 bytes; a later file replaces an earlier one.
    made.write_bytes(stock + b"\0" * (-len(stock) % 4) + newc.archive(files))
    return made


def disk_words(
    server: NbdServer | QemuNbd, policy: str = "", write_cache: str = "off"
) -> tuple[str, ...]:
    """QEMU's arguments. *policy*: of errors, `stop` or `report`."""
    policies = f",werror={policy},rerror={policy}" if policy else ""
    return (
        *("-blockdev", f"driver=nbd,node-name=data,server.type=unix,server.path={server.path}"),
        *(
            "-device",
            f"virtio-blk-pci,drive=data,write-cache={write_cache},config-wce=off{policies}",
        ),
    )


def add_blocks(host: VmHost, initrd: Path, disk: tuple[str, ...], requests: str) -> None:
    lines = log(host)
    words = [*BARE, "-kernel", str(need(Stock()).bz_image), "-initrd", str(initrd)]
    words += ["-append", "console=ttyS0 loglevel=1 panic=-1", "-serial", "null"]
    words += ["-chardev", f"file,id=lines,path={lines},append=on", "-serial", "chardev:lines"]
    host.add(VmGuest(NAME, (*words, *disk), RAM_BYTES, requests=requests))


def log(host: VmHost) -> Path:
    return host.files.directory / "blocks.log"


@dataclass(frozen=True)
class Said:
    """What a guest has said, over all lives."""

    asked: tuple[Write, ...]
    acknowledged: tuple[Write, ...]
    failed: tuple[Write, ...]


def said(host: VmHost) -> Said:
    path = log(host)
    text = path.read_text(encoding="latin-1") if path.exists() else ""
    lines = re.findall(r"^([>=!]) (\d+) (\d+) \d+\.$", text, re.MULTILINE)

    def of(kind: str) -> tuple[Write, ...]:
        return tuple((int(writer), int(number)) for what, writer, number in lines if what == kind)

    return Said(of(">"), of("="), of("!"))


def wait_written(host: VmHost, more: int = 40) -> None:
    """Until so many more writes are acknowledged, of each writer some."""
    before = said(host).acknowledged

    def is_there() -> bool:
        new = said(host).acknowledged[len(before) :]
        return len(new) >= more and len({writer for writer, _ in new}) == WRITERS

    wait_until(is_there, f"the guest has written {more} blocks more", LIMIT_S, POLL_S)


def wait_under_way(server: NbdServer) -> None:
    """Until each writer waits for the disk, which hangs."""
    wait_until(lambda: len(server.unanswered) >= WRITERS, "each writer waits", LIMIT_S, POLL_S)


def wait_all_wait(host: VmHost) -> None:
    """Until each writer waits for an answer."""

    def is_so() -> bool:
        now = said(host)
        ended = {*now.acknowledged, *now.failed}
        return len({writer for writer, _ in set(now.asked) - ended}) == WRITERS

    wait_until(is_so, "each writer waits", LIMIT_S, POLL_S)


def writes_of(requests: list[Request]) -> list[Write]:
    found = []
    for request in requests:
        assert request.kind == WRITE
        assert request.bytes == BLOCK_BYTES
        found.append(write_in(request.data))
    return sorted(found)


def write_in(block: bytes) -> Write:
    """Whose it is, and which; (-1, -1) where it is not one write's in all its words."""
    word = block[:8]
    if block != word * (len(block) // 8):
        return (-1, -1)
    value = int.from_bytes(word, "little")
    return (value >> 32, value & 0xFFFFFFFF)


def wrong_blocks(server: NbdServer | QemuNbd, said: Said) -> list[str]:
    """Blocks that have not the last write that was acknowledged there, or one asked for later."""
    wrong, media = [], bytes(server.media)
    for writer in range(WRITERS):
        for place in range(PLACES):
            at = 2 * (writer * PLACES + place) * BLOCK_BYTES
            has = write_in(media[at : at + BLOCK_BYTES])
            last = max(_here(said.acknowledged, writer, place), default=(writer, 0))
            may = [one for one in _here(said.asked, writer, place) if one >= last]
            if last[1] and has not in may:
                wrong.append(f"writer {writer}, place {place}: has {has}, want one of {may}")
    return wrong


def _here(writes: tuple[Write, ...], writer: int, place: int) -> list[Write]:
    return [one for one in writes if one[0] == writer and one[1] % PLACES == place]
