# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Negative proof: what a kernel or loader with a planted bug does is no path of the model.

Method: each bug of the protocol that a campaign knows is recorded as a campaign does it, and the
recording is followed. That of the right kernel is followed by every campaign.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.campaign import mutants
from lab.campaign.record import record
from lab.protocol.check import follow

LIMIT_S = 1200
# Bugs that change which steps there are, or their order, in words, headers and write-backs.
VISIBLE = (
    "arm-clears-both",
    "arm-keeps-commit",
    "commit-early",
    "consume-not-flushed",
    "consume-older",
    "old-sequence",
    "reported-early",
    "skip-commit",
    "skip-consume",
    "skip-fence",
    "skip-flush",
    "word-not-flushed",
)


@pytest.mark.soak
@pytest.mark.timeout(LIMIT_S)
@pytest.mark.parametrize("name", VISIBLE)
def test_recording_of_a_planted_bug_is_refused(tmp_path: Path, name: str) -> None:
    (line,) = follow([record(mutants.recorded(tmp_path, name))])
    assert line["refused"], line
