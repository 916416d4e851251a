# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Folders of an interrupted installation, which may have mounts in them.

mmdebstrap mounts folders of this machine in the tree that it fills, /dev/shm among them. If it is
ended it leaves them, and who removes the tree removes this machine's files through them.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from lab.errors import InfraError
from lab.run import run

MOUNTINFO = Path("/proc/self/mountinfo")
_PLACE = 4  # proc_pid_mountinfo(5): the field with the mount's place
_OCTAL = re.compile(r"\\([0-7]{3})")  # as blanks in names are written


def mounts_below(folder: Path, mountinfo: str) -> list[Path]:
    """Places in the folder where something is mounted, those mounted last first."""
    places = (line.split()[_PLACE] for line in mountinfo.splitlines())
    named = (Path(_OCTAL.sub(lambda it: chr(int(it[1], 8)), place)) for place in places)
    return [place for place in reversed(list(named)) if folder in place.parents]


def remove_tree(folder: Path) -> None:
    """Remove a folder, but nothing of what is mounted in it; InfraError if that stays mounted."""
    folder = folder.resolve()
    for place in mounts_below(folder, MOUNTINFO.read_text(encoding="utf-8")):
        run(["umount", place], what=f"unmounting {place}")
    if left := mounts_below(folder, MOUNTINFO.read_text(encoding="utf-8")):
        raise InfraError(f"{left[0]} is still mounted: unmount it, it is of an interrupted set-up")
    shutil.rmtree(folder)
