# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: a Stop that has been reported is durable even if the memory controller's write queue loses
its content with the power (domain `none`).

Method: as tests/hardware/test_caches.py, on the profile without a persistence domain. Power goes
with the instruction that reports the Stop. The negative proof: the same kernel without the fence
behind the flush of the commit word.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.machine import Machine
from lab.testbed.flushed import check_only_dead_stacks_differ
from lab.testbed.planted import plant
from lab.verdict import BrokenError
from tests.hardware.test_caches import (
    Stopped,
    caches_of,
    check_goes_on,
    with_planted_bugs,
    write_fresh,
)
from tests.support.claims import GO_LIMIT_S
from tests.support.proofs import must_be_found

PROFILE = "wsp-x5650-none"

pytestmark = [pytest.mark.full, pytest.mark.in_turn("file"), pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stopped]:
    with with_planted_bugs("queue", PROFILE, tmp_path_factory.mktemp("queue")) as it:
        yield it


def check_reported_stop_is_durable(machine: Machine) -> None:
    """Inner check: the machine is cut, and resumes."""
    fresh = write_fresh(machine)
    machine.guest.close()
    record = machine.cut()
    assert record.stopped
    machine.resume()
    note = machine.wait_boot_note(GO_LIMIT_S)
    if not note.resumed:
        raise BrokenError("reported-too-early", f"a Stop was reported, and Go ends: {note.reason}")
    check_goes_on(machine, fresh)
    assert caches_of(record)["lost_lines"] == 0


def test_reported_stop_is_durable_without_a_persistence_domain(planted: Stopped) -> None:
    machine = planted.resume()
    for _ in range(2):
        check_reported_stop_is_durable(machine)
    machine.guest.close()
    assert machine.cut().stopped
    check_only_dead_stacks_differ(machine)


def test_commit_word_without_its_fence_is_found(planted: Stopped) -> None:
    machine = planted.resume()
    plant(machine, "skip-fence")
    with must_be_found("skip-fence"):
        check_reported_stop_is_durable(machine)
