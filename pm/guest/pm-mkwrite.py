# SPDX-License-Identifier: Apache-2.0 OR MIT
"""pm-mkwrite.py SEGMENT: a sync in the middle of the page fault of a store.

A thread stores to a page that is mapped for reading. The modules, built for tests, hold it where
the page is about to be mapped for writing. Meanwhile another process syncs, and another thread
reads the page. Then the store goes on. Prints how many bytes the next sync writes back, behind a
second store to the same page: not none.

The thread that is held has the process's mappings locked for reading, so all threads are there from
before, and nobody here allocates memory until it goes on.
"""

import ctypes
import mmap
import os
import signal
import sys
import threading
import time
from collections.abc import Callable

HOLD = "/sys/module/pmcore/parameters/hold_mkwrite"
WRITTEN = "/sys/class/misc/pmctl/region/written_back_bytes"
LIMIT_S = 10.0
ENOUGH_S = 1.0  # for a sync or a read that nobody holds up
PR_SET_PDEATHSIG = 1

libc = ctypes.CDLL(None)


class Servant:
    """Does the same at each call; a thread of this process, or another process."""

    def __init__(self, act: Callable[[], object], forked: bool) -> None:
        self._wake, self._done = os.pipe(), os.pipe()
        os.set_blocking(self._done[0], False)
        self._act = act
        self.pid = os.fork() if forked else -1
        if forked and not self.pid:
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            self._serve()
        if not forked:
            threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            os.read(self._wake[0], 1)
            self._act()
            os.write(self._done[1], b"x")

    def begin(self) -> None:
        os.write(self._wake[1], b"x")

    def is_done(self, limit_s: float) -> bool:
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            try:
                return os.read(self._done[0], 1) == b"x"
            except BlockingIOError:
                time.sleep(0.01)
        return False


def must(what: str, ok: bool) -> None:
    if not ok:
        sys.exit(what)


def main() -> None:
    file = os.open(f"/dev/pm/{sys.argv[1]}", os.O_RDWR)
    hold, written = os.open(HOLD, os.O_RDWR), os.open(WRITTEN, os.O_RDONLY)
    memory = mmap.mmap(file, mmap.PAGESIZE)
    at = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    seen, word = ctypes.create_string_buffer(8), ctypes.create_string_buffer(b"earlier!")
    # By memmove(), which other threads of Python run beside.
    syncs = Servant(lambda: os.fsync(file), forked=True)
    reads = Servant(lambda: ctypes.memmove(seen, at, 8), forked=False)
    stores = Servant(lambda: ctypes.memmove(at, word, 8), forked=False)
    for servant in (stores, syncs, reads):
        servant.begin()
        must("a servant does not work", servant.is_done(LIMIT_S))
    # What was synced is not mapped, and then mapped for reading.
    os.pwrite(hold, b"1", 0)
    stores.begin()
    end = time.monotonic() + LIMIT_S
    while os.pread(hold, 2, 0).strip() != b"2":
        must("no store is held", time.monotonic() < end)
        time.sleep(0.01)
    syncs.begin()
    synced = syncs.is_done(ENOUGH_S)
    reads.begin()
    read = reads.is_done(ENOUGH_S)
    os.pwrite(hold, b"0", 0)
    must("the store does not go on", stores.is_done(LIMIT_S))
    must("the sync does not end", synced or syncs.is_done(LIMIT_S))
    must("the read does not end", read or reads.is_done(LIMIT_S))
    for offset in range(0, mmap.PAGESIZE, 64):
        memory[offset : offset + 8] = b"durable!"
    before = int(os.pread(written, 32, 0))
    os.fsync(file)
    print(int(os.pread(written, 32, 0)) - before, flush=True)
    os.kill(syncs.pid, signal.SIGKILL)
    os.waitpid(syncs.pid, 0)
    os._exit(0)


main()
