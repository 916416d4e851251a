# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: a status of the supply that comes during Go is not lost, whichever CPU it interrupts.

While a CPU is on its way back its interrupt controller is off, and what is sent to it then is gone;
the wire then stays silent for ever, since nobody reads the byte that holds its interrupt. So after
Go each CPU repeats the interrupt of the wire, also where all other devices are suspended.

Method: the interrupt of the wire goes to the second CPU. Over one power failure it is counted: the
drop is one, and there has to be another one without a byte. On a busy host the supply repeats the
drop before it is answered, which is one more. Negative proof: a planted bug; of several power
failures one shows it, also where some drops are repeated.
"""

from __future__ import annotations

import pytest

from lab.machine import Machine
from lab.machine.config import StopModeName
from lab.testbed.cycle import cut_and_resume
from lab.testbed.planted import plant
from lab.verdict import BrokenError
from tests.support.claims import booted
from tests.support.proofs import must_be_found
from tests.support.trials import parts

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]

NAME = "remanence-pwr"
FAILURES = 3  # of power, with a planted bug
TO_SECOND = f"""irq=$(sed -n 's/^ *\\([0-9]*\\):.* {NAME}$/\\1/p' /proc/interrupts)
echo 1 >/proc/irq/$irq/smp_affinity_list && cat /proc/irq/$irq/effective_affinity_list"""


def interrupts(machine: Machine) -> list[int]:
    """Of the wire, by CPU."""
    text = machine.run_in_guest("cat /proc/interrupts").stdout
    line = next(line for line in text.splitlines() if line.endswith(NAME))
    return [int(word) for word in line.split()[1:3]]


def check_interrupt_is_repeated(machine: Machine) -> None:
    before = interrupts(machine)
    cut_and_resume(machine)
    after = interrupts(machine)
    assert after[0] == before[0], "the interrupt has moved"
    if (count := after[1] - before[1]) < 2:
        raise BrokenError("stop-missed", f"{count} interrupts of the wire over a power failure")


@pytest.mark.parametrize("stop", ["fast", "sng"])
def test_interrupt_of_the_wire_is_repeated_after_go(stop: StopModeName) -> None:
    with booted("wire-after-go", 2, stop) as machine:
        assert machine.run_in_guest(TO_SECOND).stdout.strip() == "1"
        for _ in range(2):
            check_interrupt_is_repeated(machine)


@pytest.mark.in_turn
def test_wire_that_stays_silent_is_found() -> None:
    with booted("silent-wire", 2, "sng", parts(mutants=True).kernel) as machine:
        assert machine.run_in_guest(TO_SECOND).stdout.strip() == "1"
        check_interrupt_is_repeated(machine)
        plant(machine, "silent-wire")
        with must_be_found("silent-wire"):
            for _ in range(FAILURES):
                check_interrupt_is_repeated(machine)
