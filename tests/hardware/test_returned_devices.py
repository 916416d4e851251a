# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: a device whose driver can suspend and resume it comes back after Go, though nothing
suspended it before the cut, and the machine is on stop=fast with it. A program that has keyboards
behind a USB controller open goes on reading the same file; the screen has the mode and the picture
that it had; the chip set's bus controller is as its driver has set it up, and its watchdog counts.
What such a driver must not do to the device below it, a disk behind USB, keeps the machine on
stop=dpm for as long as it is there. So does a driver that the list does not have, sound here.

Method: keys are pressed by QEMU's monitor, before and after each cut, while a program reads them;
QEMU says what is on the screen. Negative proofs: a kernel that does not restart devices, and one
that does not tell the USB driver that its controller is lost: its devices then go and come back.
That a power failure in the middle of a restart loses no keyboard is in tests/test_power_flaps.py.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from lab.machine.console import kernel_warnings
from lab.testbed.planted import plant
from lab.testbed.waiting import wait_until
from lab.verdict import BrokenError
from tests.support.proofs import must_be_found
from tests.support.trials import Bed, booted_bed

CUTS = 3
GO_LIMIT_S = 60.0
KEY_LIMIT_S = 20.0
LISTED_LIMIT_S = 20.0
SYSFS = "/sys/kernel/remanence"
KERNEL = "devices-mutants"
USB = (
    "qemu-xhci,id=usb,addr=6",
    "usb-hub,bus=usb.0,port=1",
    "usb-kbd,bus=usb.0,port=1.1,id=key",
    "usb-kbd,bus=usb.0,port=2",
)
SCREEN = ("bochs-display,addr=7",)
CONTROLLER, SOUND = "0000:00:06.0", "0000:00:08.0"
KEYBOARDS = 2
EVENT_BYTES = 24  # struct input_event
BUS_CONTROLLER = "/sys/bus/pci/drivers/i801_smbus/0000:00:1f.3/config"
HOST_CONFIGURATION = 0x40  # bit 0: the controller is enabled

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]


def stop_mode(it: Bed) -> str:
    return it.machine.run_in_guest(f"cat {SYSFS}/stop_mode").stdout.strip()


def wait_mode(it: Bed, wanted: str) -> None:
    wait_until(lambda: stop_mode(it) == wanted, f"stop={wanted}", LISTED_LIMIT_S)


def qmp(it: Bed, command: str, **arguments: Any) -> Any:
    assert it.machine.qemu is not None
    return it.machine.qemu.qmp.execute(command, **arguments)


def read_keys(it: Bed) -> None:
    """A program for each keyboard that keeps it open, and writes what it reads."""
    steps = "n=0; for name in $(grep -l 'QEMU USB Keyboard' /sys/class/input/event*/device/name)"
    steps += "; do event=$(echo $name | cut -d/ -f5); n=$((n + 1))"
    steps += "; setsid cat /dev/input/$event >/root/keys-$n 2>/root/end-$n </dev/null & done"
    it.machine.run_in_guest(steps + "; sleep 1; ls /root/keys-*")
    it.machine.guest.close()


def events(it: Bed) -> list[int]:
    """How many events each program has read; shorter if it has ended."""
    shown = it.machine.run_in_guest("pgrep -c '^cat$'; stat -c %s /root/keys-*").stdout.split()
    running, *sizes = map(int, shown)
    if running != KEYBOARDS:
        raise BrokenError("does-not-continue", f"{KEYBOARDS - running} keyboards went away")
    return [size // EVENT_BYTES for size in sizes]


def press(it: Bed) -> None:
    """Press a key of the keyboard that hears: QEMU sends keys to one of them."""
    for down in (True, False):
        key = {"type": "qcode", "data": "a"}
        event = {"type": "key", "data": {"down": down, "key": key}}
        qmp(it, "input-send-event", events=[event])


def check_keys_arrive(it: Bed) -> None:
    before, end_s = sum(events(it)), time.monotonic() + KEY_LIMIT_S
    while sum(events(it)) == before:
        if time.monotonic() > end_s:
            raise BrokenError("does-not-continue", f"no key arrived in {KEY_LIMIT_S:g} s")
        press(it)
        time.sleep(0.2)


def cut_and_resume(it: Bed) -> None:
    assert it.machine.cut().stopped, "no Stop within the hold-up"
    it.resume(GO_LIMIT_S)


def check_keyboards_are_kept(it: Bed, cuts: int = CUTS) -> None:
    """Inner check: programs that read keys go on, and get those of after the cut."""
    read_keys(it)
    check_keys_arrive(it)
    for _ in range(cuts):
        cut_and_resume(it)
        check_keys_arrive(it)
        wait_mode(it, "fast")
    assert kernel_warnings(it.machine.console.text()) == []
    assert "USB disconnect" not in it.machine.run_in_guest("dmesg").stdout


@pytest.mark.in_turn
def test_keyboards_behind_usb_are_kept() -> None:
    with booted_bed("usb", variant=KERNEL, devices=USB) as it:
        assert stop_mode(it) == "fast"
        check_keyboards_are_kept(it)


@pytest.mark.in_turn
def test_keyboards_that_are_not_restarted_are_found() -> None:
    with booted_bed("no-usb", variant=KERNEL, devices=USB) as it:
        plant(it.machine, "skip-device")
        with must_be_found("skip-device"):
            check_keyboards_are_kept(it, 1)


@pytest.mark.in_turn
def test_controller_that_is_not_told_is_found() -> None:
    with booted_bed("untold", variant=KERNEL, devices=USB) as it:
        plant(it.machine, "return-untold")
        with must_be_found("return-untold"):
            check_keyboards_are_kept(it, 1)
        # Its driver was bound once more.
        count = "grep -c 'QEMU USB Keyboard' /proc/bus/input/devices; true"
        wait_until(
            lambda: int(it.machine.run_in_guest(count).stdout) == KEYBOARDS,
            "other keyboards",
            KEY_LIMIT_S,
        )
        wait_mode(it, "fast")


@pytest.mark.in_turn
def test_a_disk_behind_usb_keeps_the_machine_on_the_portable_path() -> None:
    with booted_bed("stick", variant=KERNEL, devices=USB) as it:
        qmp(it, "blockdev-add", driver="null-co", **{"node-name": "stick", "size": 1 << 20})
        qmp(it, "device_add", driver="usb-storage", id="stick", drive="stick", bus="usb.0")
        wait_mode(it, f"dpm: because of {CONTROLLER}")
        cut_and_resume(it)
        wait_mode(it, "fast")  # with the power the stick was pulled out, too


@pytest.mark.in_turn
def test_screen_and_bus_are_as_before(tmp_path: Path) -> None:
    def picture(name: str) -> bytes:
        file = tmp_path / name
        qmp(it, "screendump", filename=str(file))
        return file.read_bytes()

    def bus_byte() -> int:
        words = f"od -An -tu1 -j{HOST_CONFIGURATION} -N1 {BUS_CONTROLLER}"
        return int(it.machine.run_in_guest(words).stdout)

    words = "nokaslr console=tty0 console=ttyS0 consoleblank=0 vt.cur_default=1"
    with booted_bed("screen", variant=KERNEL, devices=SCREEN, cmdline_extra=words) as it:
        assert stop_mode(it) == "fast"
        it.machine.run_in_guest("echo quiet >/dev/tty0; dmesg -n 1")
        before, enabled = picture("before.ppm"), bus_byte()
        assert len(set(before)) > 1 and enabled & 1
        for number in range(CUTS):
            cut_and_resume(it)
            wait_mode(it, "fast")
            assert picture(f"{number}.ppm") == before
            assert bus_byte() == enabled
        assert kernel_warnings(it.machine.console.text()) == []


WATCHDOG = "/sys/class/watchdog/watchdog0"
PERIOD_S = 40
# The program is killed without the letter that would stop the watchdog.
PET = "exec 3>/dev/watchdog0; while printf 1 >&3; do sleep 1; done"


def left_s(it: Bed) -> int:
    return int(it.machine.run_in_guest(f"cat {WATCHDOG}/timeleft").stdout)


def check_watchdog_goes_on(it: Bed, cuts: int) -> None:
    """Inner check: after a cut the chip set's timer runs with its period, while it is active."""
    it.machine.run_in_guest(f"setsid sh -c '{PET}' >/dev/null 2>&1 </dev/null & sleep 2")
    for _ in range(cuts):
        cut_and_resume(it)
        wait_mode(it, "fast")
        it.machine.run_in_guest("pkill -STOP -f 'printf [1] '")
        before = left_s(it)
        time.sleep(5)
        if not before - PERIOD_S / 2 < left_s(it) < before <= PERIOD_S:
            raise BrokenError("does-not-continue", f"{before} s were left, now {left_s(it)}")
        it.machine.run_in_guest("pkill -CONT -f 'printf [1] '")
    assert kernel_warnings(it.machine.console.text()) == []


@pytest.mark.in_turn
def test_watchdog_goes_on_after_a_cut() -> None:
    words = f"nokaslr iTCO_wdt.heartbeat={PERIOD_S}"
    with booted_bed("watchdog", variant=KERNEL, cmdline_extra=words) as it:
        assert stop_mode(it) == "fast"
        check_watchdog_goes_on(it, CUTS)
        plant(it.machine, "skip-device")
        with must_be_found("skip-device"):
            check_watchdog_goes_on(it, 1)


@pytest.mark.in_turn
def test_sound_keeps_the_machine_on_the_portable_path() -> None:
    with booted_bed("sound", variant=KERNEL, devices=("ich9-intel-hda,addr=8",)) as it:
        wait_mode(it, f"dpm: because of {SOUND}")
        cut_and_resume(it)
        assert it.kept()
