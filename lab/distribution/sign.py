# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The signature of a repository: apt takes packages of the key's owner alone."""

from __future__ import annotations

import tempfile
from pathlib import Path

from lab.errors import RemError
from lab.run import find_tool, run

SIGNED = "InRelease"  # the index with its signature: what apt asks for first
KEYRING = "remanence-keyring.pgp"  # the public key, for /etc/apt/keyrings


def find_key(key: str) -> None:
    """Check that the caller's GnuPG has the secret key, before hours of making packages."""
    if find_tool("gpg") is None:
        raise RemError("gpg is not installed, which signs the repository: apt install gpg")
    listed = run(["gpg", "--batch", "--list-secret-keys", "--", key], check=False, what="gpg")
    if not listed.ok:
        raise RemError(
            f"GnuPG has no secret key {key!r}: `gpg --list-secret-keys` shows those that it has"
        )


def sign(folder: Path, key: str) -> None:
    """Sign the index in *folder*, and put the public key beside it.

    Each file appears whole, the signed index last.
    """
    with tempfile.TemporaryDirectory(prefix=".rem-sign-", dir=folder) as name:
        scratch = Path(name)
        index, signed, public = folder / "Release", scratch / SIGNED, scratch / KEYRING
        gpg = ("gpg", "--batch", "--output")
        run(
            [*gpg, signed, "--local-user", key, "--clearsign", index], what="signing the repository"
        )
        run([*gpg, public, "--export", "--", key], what="the public key of the repository")
        for file in (KEYRING, SIGNED):
            (scratch / file).chmod(0o644)
            (scratch / file).replace(folder / file)


def forget_signature(folder: Path) -> None:
    """Remove the signature of an older index, which apt would believe instead of the new one."""
    for name in (SIGNED, "Release.gpg"):
        (folder / name).unlink(missing_ok=True)
