# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Power that flaps: it drops and is back within a save, and fails again within a return."""

from __future__ import annotations

import time
from collections.abc import Iterable

from lab import format as fmt
from lab.testbed.vm_host import VmHost

# From the drop of PWR_OK until it is up again: the first ones are within a save.
DROPS_S = (0.0, 0.002, 0.01, 0.05, 0.2)
# From the moment at which a return may begin until the power fails again: a guest's memory and
# devices are back within 0.2 s here, and its save has been rehearsed some time later.
RETURNS_S = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4)
BETWEEN_S = 0.1
NO_POWER_S = 1.0  # for longer than an entry takes that does not wait for power


def flap_in_saves(host: VmHost, drops_s: Iterable[float] = DROPS_S) -> None:
    """PWR_OK drops, and is up again before the power has gone; the host stays on."""
    for drop_s in drops_s:
        host.supply.set_power_ok(False)
        time.sleep(drop_s)
        host.supply.set_power_ok(True)
        time.sleep(BETWEEN_S)


def flap_in_returns(host: VmHost, returns_s: Iterable[float] = RETURNS_S) -> int:
    """The power of a host that is off comes and fails, each time later in the return; it is off
    afterwards. The number of returns after which the host reported that all is saved.
    """
    host.begin_power_on(is_good=False)
    time.sleep(NO_POWER_S)
    host.cut(announced=False)
    saved = 0
    for return_s in returns_s:
        host.begin_power_on()
        time.sleep(return_s)
        saved += host.cut().stopped
        time.sleep(BETWEEN_S)
    return saved


def return_without_charge(host: VmHost, off_s: float) -> None:
    """The power of a host that is off comes, too little for a save, and goes without a word."""
    host.supply.set_charge(fmt.Charge.STOP)
    host.begin_power_on()
    time.sleep(off_s)
    host.cut(announced=False)
    host.supply.set_charge(fmt.Charge.FULL)
