# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Guests of `rem-vm`: what a cut of the host's power leaves of them.

Goal: a guest goes on from its image once, and boots cold, with the right reason, wherever the
image is not that of this guest, whole and new. Method: a guest of Debian under QEMU, whose host is
killed; then something of what the image consists of is changed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab import format as fmt
from lab.testbed.vm_host import DEBIAN, VmGuest, VmHost

MARK = "/dev/shm/mark"
# Requests to the disk are under way at each cut.
LOAD = """cat >/run/load.sh <<'END'
while :; do dd if=/dev/urandom of=/root/load bs=64k count=16 conv=fsync 2>/dev/null; done
END
sh /run/load.sh </dev/null >/dev/null 2>&1 &"""
BOOT_ID = "cat /proc/sys/kernel/random/boot_id"


pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def host() -> Iterator[VmHost]:
    with VmHost("test-vm") as host:
        yield host


def begin(host: VmHost) -> None:
    """On, with a guest that answers; its state is marked."""
    if not host.is_on:
        host.power_on()
    host.wait_up()
    host.run_in_guest(f"pkill -f 'run.load[.]sh'; echo here >{MARK}; sync")


def cut(host: VmHost, announced: bool = True) -> None:
    host.guest.close()
    assert host.cut(announced).stopped == announced


def reason(host: VmHost) -> str:
    """Of the next power-on; the host is on afterwards."""
    guest = host.power_on()[DEBIAN]
    assert guest["resumed"] == (guest["reason"] == "resume")
    return str(guest["reason"])


@pytest.mark.parametrize("cuts", [3, pytest.param(25, marks=pytest.mark.soak)])
def test_guest_goes_on_after_each_cut(host: VmHost, cuts: int) -> None:
    begin(host)
    boot = host.run_in_guest(BOOT_ID).stdout
    host.run_in_guest(LOAD)
    for _ in range(cuts):
        cut(host)
        assert reason(host) == "resume"
        host.wait_up()
        assert host.run_in_guest(f"{BOOT_ID}; cat {MARK}").stdout == f"{boot}here\n"
    assert host.run_in_guest("pkill -f 'run.load[.]sh'; sync; dmesg | grep -c 'I/O error'",
                             check=False).stdout.strip() == "0"  # fmt: skip


def test_planned_stop_saves_all_and_the_next_start_goes_on(host: VmHost) -> None:
    begin(host)
    boot = host.run_in_guest(BOOT_ID).stdout
    host.guest.close()
    host.stop()
    assert reason(host) == "resume"
    host.wait_up()
    assert host.run_in_guest(BOOT_ID).stdout == boot


def test_image_is_entered_once(host: VmHost) -> None:
    begin(host)
    cut(host)
    assert reason(host) == "resume"
    cut(host, announced=False)
    assert reason(host) == "already-consumed"


@pytest.mark.in_turn
def test_guest_boots_cold_after_a_cut_without_a_save(host: VmHost) -> None:
    begin(host)
    cut(host, announced=False)
    assert reason(host) in ("not-committed", "already-consumed")
    host.wait_up()
    assert not host.run_in_guest(f"test -e {MARK}", check=False).ok


def test_guest_goes_on_if_power_comes_back_and_its_image_is_never_entered(host: VmHost) -> None:
    begin(host)
    boot = host.run_in_guest(BOOT_ID).stdout
    host.save()
    host.supply.set_power_ok(True)
    deadline_s = time.monotonic() + 30
    while host.run_in_guest(BOOT_ID, check=False, limit_s=40).stdout != boot:
        assert time.monotonic() < deadline_s
    cut(host, announced=False)
    assert reason(host) == "already-consumed"


def disk_that_is_away(host: VmHost) -> Callable[[], object]:
    away = host.files.disk.rename(host.files.disk.with_suffix(".away"))
    return lambda: away.rename(host.files.disk)


def console_that_cannot_be_opened(host: VmHost) -> Callable[[], object]:
    console = host.files.directory / "console.log"
    console.unlink()
    console.mkdir()
    return console.rmdir


@pytest.mark.parametrize(
    ("spoil_machine", "word"),
    [
        (disk_that_is_away, "held: machine-differs"),
        (console_that_cannot_be_opened, "could not connect serial device"),
    ],
)
def test_image_is_kept_where_its_machine_is_not_there_yet(
    host: VmHost, spoil_machine: Callable[[VmHost], Callable[[], object]], word: str
) -> None:
    begin(host)
    boot = host.run_in_guest(BOOT_ID).stdout
    cut(host)
    mend = spoil_machine(host)
    try:
        guest = host.power_on()[DEBIAN]
    finally:
        host.kill()
        mend()
    assert not guest["runs"]
    assert word in guest["failed"]
    assert reason(host) == "resume"
    host.wait_up()
    assert host.run_in_guest(BOOT_ID).stdout == boot


def test_image_of_another_disk_is_given_up_if_that_is_the_policy(host: VmHost) -> None:
    begin(host)
    cut(host)
    host.files.disk.touch()
    assert not host.power_on()[DEBIAN]["runs"]
    host.kill()
    text = host.config.read_text()
    host.config.write_text(text.replace('"hold"', '"cold"'))
    try:
        assert reason(host).startswith("machine-differs: now disk ")
    finally:
        host.config.write_text(text)


def spoil(path: Path, offset: int) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 1]))


def newest(host: VmHost) -> tuple[Path, int]:
    """The guest's folder and the slot of its newest commit."""
    folder = host.media / DEBIAN
    raw = (folder / "record").read_bytes()
    size = fmt.size_of("rem_word")
    words = []
    for slot in (0, 1):
        at = fmt.CONST["REM_VM_COMMIT_OFFSET"] + slot * fmt.CONST["REM_VM_SLOT_BYTES"]
        words.append(fmt.parse("rem_word", raw[at : at + size]).sequence)
    return folder, words.index(max(words))


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("state", "state-damaged"),
        *(
            pytest.param(*case, marks=pytest.mark.in_turn("refused"))
            for case in (
                ("memory", "memory-differs"),
                ("commit", "commit-damaged"),
                ("body", "commit-damaged"),
                ("consumed", "consumed-damaged"),
                ("header", "no-record"),
            )
        ),
    ],
)
def test_image_that_is_not_whole_is_refused_by_name(host: VmHost, what: str, expected: str) -> None:
    begin(host)
    cut(host)
    folder, slot = newest(host)
    at = slot * fmt.CONST["REM_VM_SLOT_BYTES"]
    record = folder / "record"
    if what == "state":
        spoil(folder / f"state.{slot}", 1000)
    elif what == "memory":
        ram = folder / "ram"
        spoil(ram, ram.stat().st_size - fmt.size_of("rem_vm_tail") + 20)
    else:
        spoil(record, {
            "commit": fmt.CONST["REM_VM_COMMIT_OFFSET"] + at,
            "body": fmt.CONST["REM_VM_BODY_OFFSET"] + at + 40,
            "consumed": fmt.CONST["REM_VM_CONSUMED_OFFSET"],
            "header": 0,
        }[what])  # fmt: skip
    assert reason(host).partition(":")[0] == expected
    host.wait_up()
    assert not host.run_in_guest(f"test -e {MARK}", check=False).ok


def test_guests_that_do_not_fit_the_hold_up_are_named_and_not_saved() -> None:
    """Two guests of no system, and a hold-up in which one of them fits."""
    bare = ("-nodefaults", "-display", "none", "-no-user-config")
    guests = [VmGuest(name, bare, 16 << 20, number) for number, name in enumerate(("low", "high"))]
    with VmHost("test-vm-budget", guests, debian=False, hold_up_us=10_000_000) as host:
        takes_us = min(one["save_us"] for one in host.power_on().values())
        host.kill()
        text = host.config.read_text()
        host.hold_up_us = 1
        host.config.write_text(text.replace("hold_up_us = 10000000", "hold_up_us = 1"))
        assert not any(one["persistent"] for one in host.power_on().values())
        host.kill()
        assert takes_us > 1
        assert {one["reason"] for one in host.power_on().values()} == {"not-committed"}
