# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Paths: the repository, the cache (can be rebuilt), the state (machines)."""

from __future__ import annotations

import os
from pathlib import Path


def repo_dir() -> Path:
    """The checkout that this package is part of."""
    return Path(__file__).resolve().parent.parent


def cache_dir() -> Path:
    """REM_CACHE, or `remanence` in the user's cache folder: everything that set-up can rebuild."""
    return _own_dir("REM_CACHE", "XDG_CACHE_HOME", ".cache")


def state_dir() -> Path:
    """REM_STATE, or `remanence` in the user's state folder: machines and their media."""
    return _own_dir("REM_STATE", "XDG_STATE_HOME", ".local/state")


def machines_dir() -> Path:
    """One folder per machine."""
    return state_dir() / "machines"


def ssh_key() -> Path:
    """The private key of every guest; set-up generates it and installs its public half."""
    return cache_dir() / "ssh" / "id_ed25519"


def _own_dir(own: str, xdg: str, fallback: str) -> Path:
    if os.environ.get(own):
        return Path(os.environ[own]).absolute()
    base = os.environ.get(xdg)
    return (Path(base) if base else Path.home() / fallback) / "remanence"
