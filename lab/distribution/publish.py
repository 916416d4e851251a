# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Packages of the last commit, copied to where a person wants them."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from lab.commit import Commit, changed_files, commit_of_checkout
from lab.distribution.sign import forget_signature
from lab.errors import RemError

INDEX = ("Packages", "Release")


def clean_commit() -> Commit:
    """The last commit, if the checkout is that commit: packages are named by it."""
    changed = changed_files()
    if changed:
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        raise RemError(
            f"packages are made of a commit, and {changed[0][3:]}{more} differ from it: commit"
            " them, or move them away"
        )
    return commit_of_checkout()


def publish(debs: Path, folder: Path) -> list[Path]:
    """Copy the packages and their index into *folder*, which apt can use; return the packages.

    Each file appears whole, and the index last. Other files there, older packages among them, stay;
    the index has only the new ones.
    """
    folder.mkdir(parents=True, exist_ok=True)
    packages = sorted(debs.glob("*.deb"))
    with tempfile.TemporaryDirectory(prefix=".rem-package-", dir=folder) as name:
        scratch = Path(name)
        forget_signature(folder)
        for source in (*packages, *(debs / index for index in INDEX)):
            copied = scratch / source.name
            shutil.copyfile(source, copied)
            copied.chmod(0o644)  # apt reads it as a user of its own
            copied.replace(folder / source.name)
    return [folder / package.name for package in packages]
