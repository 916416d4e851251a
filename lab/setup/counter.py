# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Small guests that would notice memory that is not their own, for hosts that are slow.

product   CACHE/counter/KEY   counter.bin (guest/counter: all of a machine, without firmware), and
                              initrd (for Debian's kernel: busybox)

Each counts on its serial line, `guest count N.`, and checks what it has in memory in each round.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lab.paths import repo_dir
from lab.progress import step
from lab.run import run
from lab.setup.host import tool_version
from lab.setup.inputs import Inputs
from lab.setup.need import Part, Site
from lab.setup.newc import archive
from lab.setup.packages import BUSYBOX, Group

SOURCES = "guest/counter"
CMDLINE = "console=ttyS0 quiet panic=-1 mitigations=off no_timer_check tsc=reliable"
# Each round changes the file; its sum is in the shell's own memory, the file in the page cache.
INIT = """#!/bin/busybox sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
b=/bin/busybox
$b mkdir -p /dev; $b mount -t devtmpfs dev /dev
$b head -c 65536 /dev/urandom >/bytes
n=0
while :; do
  n=$((n + 1)); echo $n >>/bytes
  sum=$($b md5sum </bytes)
  echo "guest count $n."
  $b usleep 100000
  [ "$sum" = "$($b md5sum </bytes)" ] || echo "memory differs at $n."
done
"""


@dataclass(frozen=True)
class CounterFiles:
    """What QEMU loads."""

    image: Path  # by `-bios`
    initrd: Path  # by `-initrd`, for Debian's kernel with CMDLINE


@dataclass(frozen=True)
class Counter(Part[CounterFiles]):
    groups = (Group.COMPILER,)

    def make(self, site: Site) -> CounterFiles:
        inputs = Inputs("counter").add("init", INIT).add_path(BUSYBOX, "busybox")
        key = inputs.add("gcc", tool_version("gcc")).add_path(repo_dir() / SOURCES, SOURCES).key()

        def build(into: Path) -> None:
            with step("guests that count"):
                run(["make", "-C", repo_dir() / SOURCES, f"OUT={into}"], what=f"making {SOURCES}")
            files = {"init": INIT.encode(), "bin/busybox": BUSYBOX.read_bytes()}
            (into / "initrd").write_bytes(archive(files))

        folder = site.product("counter", key, build)
        return CounterFiles(folder / "counter.bin", folder / "initrd")
