# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The installed server as a machine to measure: `rem bench stop-go --machine server`.

Debian with systemd, the kernel of our packages, its drivers armed, and a TPM. The loader starts the
kernel itself, with the second partition as root: firmware would run under the model for minutes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from lab.bench.stop_go import Parts, Plan
from lab.paths import state_dir
from lab.setup.products import Kernel
from lab.testbed.server_guest import VARIANT_OF_KERNEL, make_server_disk

# Required, besides one write-back of the caches: a board that wants to hold that long can.
STOP_MAX_NS = 1_000_000
GO_MAX_NS = 100_000_000
WORDS = "root=/dev/vda2 ro init=/sbin/init"


@contextmanager
def server_plan(plan: Plan) -> Iterator[Plan]:
    """The same plan with a server, whose disk is removed at the end."""
    state_dir().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="server-", dir=state_dir()) as folder:
        disk = Path(folder) / "server.img"
        make_server_disk(disk, ())
        parts = replace(Parts.ready(Kernel(VARIANT_OF_KERNEL)), root=disk)
        yield replace(
            plan,
            parts=parts,
            installed=True,
            stop_max_ns=STOP_MAX_NS,
            go_max_ns=GO_MAX_NS,
            cmdline=f"{WORDS} {plan.cmdline}".rstrip(),
            changes={"tpm": "crb"},
        )
