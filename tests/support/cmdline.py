# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Machines whose command line lacks words that all others have."""

from __future__ import annotations

import pytest

from lab.machine import config


def leave_out(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Leave out the words of CMDLINE_BASE that begin with these names; each has to be there."""
    words = config.CMDLINE_BASE.split()
    kept = [word for word in words if word.partition("=")[0] not in names]
    assert len(words) == len(kept) + len(names)
    monkeypatch.setattr(config, "CMDLINE_BASE", " ".join(kept))
