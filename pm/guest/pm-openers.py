# SPDX-License-Identifier: Apache-2.0 OR MIT
"""pm-openers.py SEGMENT ROUNDS: a disk goes only while nobody has it open.

One process opens and closes the disk as fast as it can, and counts in shared memory how often it
has it open; the other removes it. A disk that was removed had no opener, before or after.
"""

import mmap
import os
import signal
import subprocess
import sys

OPEN, CLOSED = 1, 0


def opener(disk: str, state: mmap.mmap) -> None:
    while True:
        try:
            fd = os.open(disk, os.O_RDONLY)
        except OSError:
            continue
        state[0] = OPEN
        os.pread(fd, 512, 0)
        state[0] = CLOSED
        os.close(fd)


def pmadmin(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["pmadmin", *words], capture_output=True, text=True, check=False)


def main() -> None:
    name, rounds = sys.argv[1], int(sys.argv[2])
    state = mmap.mmap(-1, 4096)
    refused = 0
    for _ in range(rounds):
        added = pmadmin("ramdisk", "add", name)
        assert added.returncode == 0, added.stderr
        child = os.fork()
        if not child:
            opener(added.stdout.strip(), state)
        while pmadmin("ramdisk", "remove", name).returncode:
            refused += 1
        # Stopped where it is: it must not be between open and close.
        os.kill(child, signal.SIGSTOP)
        os.waitpid(child, os.WUNTRACED)
        assert state[0] == CLOSED, "a disk was removed that was open"
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    print("refused", refused)


main()
