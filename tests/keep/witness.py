# SPDX-License-Identifier: Apache-2.0 OR MIT
"""In the guest: a parent and a child whose memory is checked all the time.

witness.py KIB   each has so much of it. SIGUSR1 makes both write /root/witness.PARENT-or-CHILD: how
often the memory was right, and the last answer of the other, by a pipe. Wrong memory ends both.

One page after another gets new content. The child has the parent's pages, half of which it changes:
two processes with one page. A part of the parent's memory is locked.
"""

import ctypes
import hashlib
import os
import signal
import struct
import sys
import threading

PAGE_BYTES = 4096
LOCKED_PAGES = 16
memory = bytearray(os.urandom(int(sys.argv[1]) << 10))
inside = (ctypes.c_char * 1).from_buffer(memory)
assert not ctypes.CDLL(None).mlock(
    ctypes.c_void_p(ctypes.addressof(inside) + PAGE_BYTES), LOCKED_PAGES * PAGE_BYTES
)
del inside
to_child, to_parent = os.pipe(), os.pipe()
child = os.fork()
name = "parent" if child else "child"
if not child:
    for at in range(0, len(memory), 2 * PAGE_BYTES):
        memory[at : at + 16] = os.urandom(16)
digest = hashlib.sha256(memory).digest()
checks, ticks, heard = 0, 0, 0


def count() -> None:
    """A thread that does nothing but count."""
    global ticks
    while True:
        ticks += 1
        threading.Event().wait(0.01)


def report(*_: object) -> None:
    """At the start, too: from then on the signal is taken."""
    path = f"/root/witness.{name}"
    with open(path + ".new", "w") as file:
        file.write(f"{checks} {heard} {ticks}\n")
    os.rename(path + ".new", path)
    if child and checks:
        os.kill(child, signal.SIGUSR1)


signal.signal(signal.SIGUSR1, report)
report()
threading.Thread(target=count, daemon=True).start()
mine, other = (to_child[1], to_parent[0]) if child else (to_parent[1], to_child[0])
while True:
    if hashlib.sha256(memory).digest() != digest:
        os.kill(child or os.getppid(), signal.SIGKILL)
        sys.exit("the memory is another one")
    checks += 1
    at = checks * PAGE_BYTES % len(memory)
    memory[at : at + PAGE_BYTES] = os.urandom(PAGE_BYTES)
    digest = hashlib.sha256(memory).digest()
    os.write(mine, struct.pack("<Q", checks))
    (heard,) = struct.unpack("<Q", os.read(other, 8))
