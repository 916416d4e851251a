# SPDX-License-Identifier: Apache-2.0 OR MIT
"""In the guest: locks of block segments. Ends with an error where one does not hold.

pm-locks.py NAME   of a block segment
"""

import errno
import os
import signal
import sys
import threading
import time
from collections.abc import Callable

import pm

ROUNDS = 100


def refused(blocks: pm.Blocks, exclusive: bool, why: int = errno.EAGAIN) -> bool:
    try:
        blocks.lock(exclusive, wait=False)
    except OSError as error:
        assert error.errno == why, error
        return True
    blocks.unlock()
    return False


def until(what: str, true: Callable[[], bool]) -> None:
    end_s = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end_s, what
        time.sleep(0.01)


def who_holds_it_off(name: str) -> None:
    with pm.Blocks(name) as one, pm.Blocks(name) as other:
        one.lock(exclusive=False)
        assert refused(one, False, errno.EDEADLK)
        assert not refused(other, False), "readers do not share"
        assert refused(other, True), "a writer beside a reader"
        one.unlock()
        one.lock(exclusive=True)
        assert refused(other, False), "a reader beside a writer"
        assert refused(other, True), "two writers"
        one.unlock()
        assert not refused(other, True)
        try:
            other.unlock()
        except OSError as error:
            assert error.errno == errno.ENOLCK
        else:
            raise AssertionError("what is not held was given back")


def a_writer_that_waits_holds_later_readers_back(name: str) -> None:
    with pm.Blocks(name) as one, pm.Blocks(name) as two, pm.Blocks(name) as three:
        one.lock(exclusive=False)
        writer = threading.Thread(target=two.lock)
        writer.start()
        until("the writer waits", lambda: refused(three, False))
        one.unlock()
        writer.join(60)
        assert not writer.is_alive()
        assert refused(three, False)
        two.unlock()


def child(name: str, ready: int) -> None:
    blocks = pm.Blocks(name)
    os.write(ready, b"w")
    blocks.lock()
    os.write(ready, b"h")
    signal.pause()


def who_dies_is_out_of_the_way(name: str) -> None:
    """A holder, and one that waits."""
    ready, theirs = os.pipe()
    with pm.Blocks(name) as one:
        for holds in (True, False):
            if not holds:
                one.lock(exclusive=False)
            pid = os.fork()
            if not pid:
                child(name, theirs)
            os.read(ready, 1)
            if holds:
                os.read(ready, 1)
                assert refused(one, False)
            else:
                with pm.Blocks(name) as other:
                    until("the child waits", lambda other=other: refused(other, False))
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            if not holds:
                one.unlock()
        one.lock()
        one.unlock()


def count(name: str) -> None:
    """Reads and writes that go wrong where somebody comes between them."""
    with pm.Blocks(name) as blocks:
        for _ in range(ROUNDS):
            blocks.lock()
            number = int.from_bytes(blocks.read([5])[0][:8], "little")
            time.sleep(0)
            blocks.write({5: (number + 1).to_bytes(8, "little").ljust(blocks.block_bytes, b"\0")})
            blocks.unlock()


def nobody_comes_between(name: str) -> None:
    threads = [threading.Thread(target=count, args=(name,)) for _ in range(3)]
    with pm.Blocks(name) as blocks:
        blocks.write({5: None})
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert int.from_bytes(blocks.read([5])[0][:8], "little") == 3 * ROUNDS


for shown in (
    who_holds_it_off,
    a_writer_that_waits_holds_later_readers_back,
    who_dies_is_out_of_the_way,
    nobody_comes_between,
):
    shown(sys.argv[1])
