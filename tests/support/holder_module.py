# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A module for tests, whose driver the fast path does not know (kernel/test/rem_holder.c)."""

from __future__ import annotations

import tempfile
from pathlib import Path

from lab.machine import Machine
from lab.paths import repo_dir
from lab.setup.kernel_headers import KernelHeaders
from lab.setup.modules import build_modules
from lab.setup.need import need

GUEST_PATH = "/root/rem_holder.ko"
SOURCE = "kernel/test"
NAME = "rem_holder"


def put_holder(machine: Machine, variant: str | None) -> None:
    """Build the module for a variant of the kernel, and copy it to GUEST_PATH."""
    headers = need(KernelHeaders(variant))
    with tempfile.TemporaryDirectory() as folder:
        sources = sorted((repo_dir() / SOURCE).iterdir())
        build_modules(headers, Path(folder), sources, (), [NAME])
        machine.guest.put(Path(folder) / f"{NAME}.ko", GUEST_PATH)
