# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Give a cache that root has filled to the user in whose folder it is.

Root's set-up for a user is `REM_CACHE=~USER/.cache/remanence ./rem setup`. Afterwards the user
must be able to write there, or no later change could be built.
"""

from __future__ import annotations

import os
from pathlib import Path

from lab.paths import cache_dir
from lab.setup.host import is_root

# Images are made of this root's files, which must keep the owners of the packages.
ROOTS = "root-base"


def owner_of(folder: Path) -> tuple[int, int] | None:
    """Return owner and group of the nearest parent folder that is not root's, or None."""
    for above in (folder, *folder.parents):
        if above.exists() and (stat := above.stat()).st_uid != 0:
            return stat.st_uid, stat.st_gid
    return None


def give_to_owner() -> None:
    """Change the owner of everything in the cache, if it is below a user's folder."""
    folder = cache_dir()
    owner = owner_of(folder)
    if not is_root() or owner is None:
        return
    for above in folder.parents:  # `~/.cache`, where there was none
        if above.stat().st_uid != 0:
            break
        os.chown(above, *owner)
    for place, folders, files in os.walk(folder):
        if Path(place) == folder and ROOTS in folders:
            folders.remove(ROOTS)
        for path in (place, *(os.path.join(place, name) for name in files)):
            os.chown(path, *owner, follow_symlinks=False)
