# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Whether a cut has left a sound ext4 on a disk."""

from __future__ import annotations

import re
from pathlib import Path

from lab import run
from lab.errors import InfraError

CLEAN, REPLAYED = 0, 1
TEXT_CHARS = 300
PASS = re.compile(r"^(?:e2fsck \d.*|Pass \d.*|Fix\? no)?$")


def damage(disk: Path) -> str:
    """What e2fsck finds after the steps of any mount; empty if nothing.

    First the journal is replayed and files without a name are removed, and no more: `-p` alone
    would go on to repair what is to be judged. Then everything is checked and nothing is changed.
    """
    tool = run.find_tool("e2fsck")
    if tool is None:
        raise InfraError("no e2fsck on this host: see `rem doctor`")
    mount = run.run([tool, "-p", "-E", "journal_only", disk], check=False)
    whole = run.run([tool, "-fn", disk], check=False)
    if mount.returncode in {CLEAN, REPLAYED} and whole.returncode == CLEAN:
        return ""
    lines = (mount.stdout + mount.stderr + whole.stdout).splitlines()
    found = " ".join(line for line in lines if not PASS.match(line))
    return f"e2fsck: {found[:TEXT_CHARS]}"
