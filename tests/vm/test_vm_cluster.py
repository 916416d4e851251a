# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Nodes of replicated services on hosts that lose power.

Goal: no acknowledged answer is lost, none is older than one before it, and each fault that is
planted is noticed. Method: `rem demo cluster`; of it, the cut of two nodes at once takes its turn
in CI: it computes for as long as half of this share may last.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.demo.cluster_cuts import two_are_back
from lab.demo.cluster_scene import Scene
from lab.demo.promises import Promises
from lab.result import Result
from lab.testbed.cluster import running
from lab.testbed.cluster_watch import watching
from tests.support.rem_runs import figures_of, rem

LIMIT_S = 3000


@pytest.mark.full
@pytest.mark.in_turn
@pytest.mark.timeout(900)
def test_two_nodes_that_return_answer_nothing_old() -> None:
    promises = Promises(print, Result("cluster"))
    with running("test-two-nodes") as cluster, watching(cluster) as watch:
        assert two_are_back(Scene(cluster, watch, promises))
        found = watch.verify()
    assert promises.kept == promises.made
    assert found.acked > 0
    assert found.operations > 0
    assert found.lost == found.waiting == 0
    assert not found.impossible
    assert not found.early
    assert found.same


@pytest.mark.soak
@pytest.mark.timeout(3100)
def test_demonstration_keeps_its_promises(tmp_path: Path) -> None:
    words = ("demo", "cluster", "--name", "test-cluster", "--json")
    figures = figures_of(rem(tmp_path, *words, limit_s=LIMIT_S))
    assert figures["resumed"] == 1
    assert figures["lost_answers"] == figures["stale_answers"] == figures["planted_missed"] == 0
