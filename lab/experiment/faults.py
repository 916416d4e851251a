# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Faults that a power failure meets, and what a way to come back makes of them.

A fault is made while the system runs, while it is off, or is there when the power returns. Whether
it is there is asked by using what it spoils, before it is made as well.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from lab.clients.process import ClientProcess
from lab.clients.writers import COUNTER_EVERY, value_of
from lab.experiment.kept import kept
from lab.experiment.run import Context
from lab.setup.inputs import Inputs
from lab.testbed.fault_bed import (
    COMMAND_LIMIT_S,
    DRIVER,
    PAGE_BYTES,
    PROBE_LIMIT_S,
    RELEASES,
    Back,
    Bed,
)
from lab.testbed.fault_beds import BEDS, key_of
from lab.testbed.waiting import wait_acked

WRITES = 2000  # acknowledged before anything happens, at least
READ_LIMIT_S = 15.0
WRITE = "dd if=/dev/zero of=/root/probe bs=4096 count=1 oflag=direct conv=notrunc"
# A virtio source of random numbers, whose driver need not be loaded.
DEVICE_IS_THERE = "grep -qxE '0x10(44|05)' /sys/bus/pci/devices/*/device"
Make = Callable[[Bed, ClientProcess], Any]


def _nothing(_bed: Bed, _writers: ClientProcess) -> None:
    return None


def _none(_bed: Bed, _made: Any) -> int:
    return 0


def _silence(bed: Bed, _writers: ClientProcess) -> None:
    bed.silence_disk()


def _code(bed: Bed, _writers: ClientProcess) -> int:
    return bed.code_place()


def _value(_bed: Bed, writers: ClientProcess) -> bytes:
    """Of a request that all clients have made by now, and that no later one replaces soon."""
    acked = writers.ask("status")["acked_min"]
    return value_of(acked // COUNTER_EVERY * COUNTER_EVERY - COUNTER_EVERY)


def _no_disk(bed: Bed) -> bool:
    return not bed.holds(WRITE)


def _module(name: str) -> Make:
    """A fault of kernel/test/rem_fault.c."""
    return lambda bed, _writers: bed.sh(f"echo {name} >/sys/module/rem_fault/parameters/fault")


def _fails(command: str) -> Callable[[Bed], bool]:
    return lambda bed: not bed.holds(command)


def _driver(bed: Bed, writers: ClientProcess) -> None:
    """The device has met its error; the newer driver is on the disk, as after an update."""
    _module("driver")(bed, writers)
    bed.sh(f"cp {RELEASES['mended']} {DRIVER}; sync")


def _loop_in_redis(bed: Bed, _writers: ClientProcess) -> None:
    bed.sh("redis-cli config set lua-time-limit 0 >/dev/null")
    bed.sh("setsid redis-cli eval 'while true do end' 0 </dev/null >/dev/null 2>&1 & sleep 1")


def _spoil_kernel(bed: Bed, code: int) -> int:
    """Whatever of the kernel is in NVRAM; else what is nobody's there."""
    return bed.spoil([code], PAGE_BYTES) or bed.spoil(bed.free_places(), PAGE_BYTES)


def _spoil_program(bed: Bed, value: bytes) -> int:
    return bed.spoil_value(value)


@dataclass(frozen=True)
class Fault:
    """One row of the table."""

    name: str
    make: Make = _nothing  # while the system runs
    while_off: Callable[[Bed, Any], int] = _none  # with what was made; how many places it has hit
    at_power_on: str = ""  # what is so from then on: an attribute of the bed
    is_there: Callable[[Bed], bool] = lambda _bed: False
    asking_harms: bool = False  # where it is there
    lasts: bool = False  # a cold boot does not bring the system back that it was before

    @property
    def is_early(self) -> bool:
        """It is made while the system runs."""
        return self.make is not _nothing and not self.spoils

    @property
    def spoils(self) -> bool:
        """It is made while the power is off."""
        return self.while_off is not _none


NOTHING = Fault("none")
FAULTS = (
    NOTHING,
    Fault("disk silent until the power fails", _silence, is_there=_no_disk),
    Fault("lock held for ever", _module("lock"), is_there=_fails("ip link set lo up")),
    Fault("CPU in an endless loop", _module("loop"), is_there=_fails("taskset -c 1 true")),
    Fault(
        "list damaged",
        _module("list"),
        is_there=_fails("cat /proc/net/protocols"),
        asking_harms=True,
    ),
    Fault("kernel's memory lost", _code, _spoil_kernel),
    Fault("program's memory lost", _value, _spoil_program),
    Fault("program hangs", _loop_in_redis, is_there=_fails("redis-cli ping")),
    Fault("driver's defect", _driver, is_there=_fails("cat /dev/rem_fault"), lasts=True),
    Fault(
        "device gone", at_power_on="device_is_gone", is_there=_fails(DEVICE_IS_THERE), lasts=True
    ),
    Fault(
        "disk silent after power-on", at_power_on="disk_is_silent", is_there=_no_disk, lasts=True
    ),
)
WHOLE, COLD = "whole", "cold"
SHORT = ("none", "list damaged", "driver's defect")  # --tier ci


def trials(it: Context, mode: str, names: tuple[str, ...]) -> dict[str, Any]:
    """Faults by name in one bed, each with the base (COLD) where the whole system comes back.

    They are kept, under the key of what the bed consists of.
    """
    key = Inputs("trials").add("bed", key_of(mode)).key()
    folder = it.out.parent / "faults"
    files = {name: folder / f"{mode}-{_word(name)}-{key}.json" for name in names}

    def measure(missing: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
        with BEDS[mode]() as bed:
            for fault in FAULTS:
                if fault.name not in missing:
                    continue
                found = trial(bed, fault)
                if mode == WHOLE:
                    found[COLD] = cold(bed, fault)
                _hardware(bed, fault, False)
                yield fault.name, found

    return kept(files, measure)


def _word(name: str) -> str:
    """Of a file's name."""
    return re.sub(r"\W+", "-", name)


def trial(bed: Bed, fault: Fault) -> dict[str, Any]:
    """One power failure with a fault: what came back, and whether the fault did."""
    bed.start()
    with bed.writers() as writers:
        wait_acked(writers, WRITES)
        bed.sh("test -e /root/probe || head -c 4096 /dev/zero >/root/probe; sync")
        before = fault.is_there(bed)
        made = fault.make(bed, writers)
        there = fault.is_early and not fault.asking_harms and fault.is_there(bed)
        saved = bed.cut()
        writers.ask("hold", at_ns=time.monotonic_ns())
        hit = fault.while_off(bed, made)
        _hardware(bed, fault, True)
        back = bed.back()
        found = _service(bed, back, writers)
        after = back.up and not found["crashed"] and fault.is_there(bed)
        later = not back.up and _goes_on_when_mended(bed, fault, writers)
    bed.fresh = back.up and not back.entered and not fault.lasts
    return {"before": before, "made": there, "saved": saved, "hit": hit, "entered": back.entered,
            "reason": back.reason, "up": back.up, "after": after, "later": later,
            **found}  # fmt: skip


def _hardware(bed: Bed, fault: Fault, is_bad: bool) -> None:
    """From the next power-on."""
    if fault.at_power_on:
        setattr(bed, fault.at_power_on, is_bad)


def _goes_on_when_mended(bed: Bed, fault: Fault, writers: ClientProcess) -> bool:
    """Whether the image has waited for hardware as it was."""
    bed.off()
    _hardware(bed, fault, False)
    found = _service(bed, bed.back(), writers)
    return bool(found["answers"]) and found["lost"] == 0


def _service(bed: Bed, back: Back, writers: ClientProcess) -> dict[str, Any]:
    """Whether redis goes on over the connections that it had, with all that it has answered."""
    acked = writers.ask("status")["acked"]
    if not back.entered:
        return {"acked": acked, "answers": False, "lost": acked, "crashed": False}
    found = writers.ask("verify", READ_LIMIT_S + COMMAND_LIMIT_S, limit_s=READ_LIMIT_S)
    answers = bool(found["drained"])
    crashed = not answers and bed.crashed()
    return {"acked": acked, "answers": answers, "lost": int(found.get("lost", 0)),
            "crashed": crashed}  # fmt: skip


def cold(bed: Bed, fault: Fault) -> dict[str, Any]:
    """The base: the power fails again and nothing is entered. redis begins with nothing."""
    _hardware(bed, fault, True)
    up = bed.boot()
    if not up:
        return {"up": False, "after": True, "answers": False}
    bed.load_driver()
    bed.start_redis()
    answers = bed.holds(f"timeout {PROBE_LIMIT_S} redis-cli ping")
    bed.fresh = not fault.lasts
    return {"up": True, "after": fault.is_there(bed), "answers": answers}
