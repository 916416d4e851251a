# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A module for tests, whose driver the fast path does not know (kernel/test/rem_holder.c)."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from lab.machine import Machine
from lab.paths import cache_dir, repo_dir
from lab.run import stream
from lab.setup.kernel import make_env
from lab.setup.kernel_headers import KernelHeaders
from lab.setup.need import need

GUEST_PATH = "/root/rem_holder.ko"
SOURCE = "kernel/test"


def put_holder(machine: Machine, variant: str | None) -> None:
    """Build the module for a variant of the kernel, and copy it to GUEST_PATH."""
    headers = need(KernelHeaders(variant))
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(repo_dir() / SOURCE, folder, dirs_exist_ok=True)
        stream(
            ["make", "-C", str(headers), f"M={folder}", "CC=gcc", "KCFLAGS=-Werror", "modules"],
            log=cache_dir() / "logs" / "holder.log",
            env=make_env(),
            what="building the module of tests",
        )
        machine.guest.put(Path(folder) / "rem_holder.ko", GUEST_PATH)
