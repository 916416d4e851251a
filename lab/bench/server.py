# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The installed server as a machine to measure: `rem bench stop-go --machine server`.

Debian with systemd, the kernel of our packages, its drivers armed, and a TPM. The loader starts the
kernel and its initial RAM disk itself, with the second partition as root: a disk that boots by
itself is not modelled.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from lab.bench.stop_go import FIRST_IO_SYMBOLS, Parts, Plan
from lab.setup.kernel import PACKED
from lab.setup.products import Kernel
from lab.testbed.server_guest import initrd_of, server_disk

# Required, besides one write-back of the caches: a board that wants to hold that long can.
STOP_MAX_NS = 1_000_000
GO_MAX_NS = 100_000_000
WORDS = "root=/dev/vda2 ro init=/sbin/init"
# The disk's driver may be a module, at an address that no map has: what it calls first.
FIRST_IO = {**FIRST_IO_SYMBOLS, "fsync": "blk_mq_complete_request"}


@contextmanager
def server_plan(plan: Plan) -> Iterator[Plan]:
    """The same plan with a server, whose disk is removed at the end."""
    kernel = Kernel(PACKED)
    with server_disk() as disk:
        yield replace(
            plan,
            parts=replace(Parts.ready(kernel), root=disk),
            installed=True,
            stop_max_ns=STOP_MAX_NS,
            go_max_ns=GO_MAX_NS,
            cmdline=f"{WORDS} {plan.cmdline}".rstrip(),
            changes={"tpm": "crb", "initrd": initrd_of(disk)},
            first_io=FIRST_IO,
        )
