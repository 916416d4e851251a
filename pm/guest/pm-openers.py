# SPDX-License-Identifier: Apache-2.0 OR MIT
"""pm-openers.py SEGMENT ROUNDS: a disk goes only while nobody has it open.

One process opens, reads and closes the disk as fast as it can; the other removes it. Of a disk that
was removed there is nothing to read. And when it was removed,
the opener is stopped, and the kernel's own list of its files says whether it has it open: no moment
between open() and close() is left out.
"""

import os
import signal
import subprocess
import sys

SECTOR = 512
WAS_OPEN = "a disk was removed that was open"


def opener(disk: str) -> None:
    while True:
        try:
            fd = os.open(disk, os.O_RDONLY)
        except OSError:
            continue
        # The cache of a disk outlives the disk: of each read another page, and none ahead.
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
        for at in range(0, 64 << 10, 4096):
            if len(os.pread(fd, SECTOR, at)) != SECTOR:
                os._exit(1)
        os.close(fd)


def pmadmin(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["pmadmin", *words], capture_output=True, text=True, check=False)


def open_files(pid: int) -> list[str]:
    folder = f"/proc/{pid}/fd"
    return [os.readlink(f"{folder}/{name}") for name in os.listdir(folder)]


def stopped_with(child: int, disk: str) -> bool:
    """Whether the opener has it open, or had it open when it went; the opener is ended."""
    os.kill(child, signal.SIGSTOP)
    _, status = os.waitpid(child, os.WUNTRACED)
    if not os.WIFSTOPPED(status):
        return True
    # A removed node's name has more behind it.
    has = any(name.startswith(disk) for name in open_files(child))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return has


def main() -> None:
    name, rounds = sys.argv[1], int(sys.argv[2])
    refused = 0
    for _ in range(rounds):
        added = pmadmin("ramdisk", "add", name)
        assert added.returncode == 0, added.stderr
        disk = added.stdout.strip()
        child = os.fork()
        if not child:
            opener(disk)
        while pmadmin("ramdisk", "remove", name).returncode:
            refused += 1
        if stopped_with(child, disk):
            sys.exit(WAS_OPEN)
    print("refused", refused)


main()
