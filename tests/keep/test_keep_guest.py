# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Programs that outlive their system, under Debian's own kernel.

Goal: a kept program is exactly what it was when the power went, its memory is where it was, and it
is entered once; what cannot be kept is refused by name, and a damaged image is not entered. Method:
real cuts, changes of the kernel, and damage to media while the machine is off. The witness checks
its own memory in two processes that share pages (witness.py).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab import format as fmt
from lab.errors import RemError
from lab.machine.cut_plan import UNANNOUNCED
from lab.machine.qemu import NVRAM_PHYS
from lab.testbed.keep_guest import CONFIG, FOLDER, KeepGuest, keep_guest
from lab.testbed.pm_guest import kernel_complaints, reset
from lab.testbed.waiting import wait_acked, wait_until

pytestmark = [pytest.mark.full, pytest.mark.in_turn("file"), pytest.mark.timeout(1800)]

WITNESS_MIB = 4
REPORT_LIMIT_S = 120.0
WAIT_MS = 3_600_000  # longer than any test
FAR = 5  # more than the witness does while it is asked
PAGE_BYTES = fmt.CONST["REM_KEEP_PAGE_BYTES"]
HUGE_PAGES = (2 << 20) // PAGE_BYTES  # of a huge page


@pytest.fixture(scope="module")
def guest() -> Iterator[KeepGuest]:
    with keep_guest(f"t-keep-{os.getpid()}") as made:
        made.machine.guest.put(Path(__file__).with_name("witness.py"), "/root/witness.py")
        made.sh("sync")
        yield made
        assert not kernel_complaints(made.machine)


@pytest.fixture
def witness(guest: KeepGuest) -> Iterator[KeepGuest]:
    """The guest, with the witness as a kept program and the wire served."""
    guest.sh("rm -f /root/witness.parent /root/witness.child")
    guest.run("witness", f"python3 /root/witness.py {WITNESS_MIB << 10}")
    guest.serve()
    started = "test -e /root/witness.parent && test -e /root/witness.child"
    wait_until(lambda: guest.sh(started, check=False).ok, "the witness starts", REPORT_LIMIT_S)
    yield guest
    guest.sh("pkill -KILL -f [w]itness.py; pkill rem-keep; sleep 0.2", check=False)


def reports(guest: KeepGuest) -> dict[str, int]:
    """How often parent and child have found their memory right, asked now."""
    guest.sh("rm -f /root/witness.parent /root/witness.child; pkill -USR1 -o -f [w]itness.py")
    found: dict[str, int] = {}

    def are_there() -> bool:
        for name in ("parent", "child"):
            text = guest.sh(f"cat /root/witness.{name}", check=False)
            if text.ok:
                found[name] = int(text.stdout.split()[0])
        return len(found) == 2

    wait_until(are_there, "parent and child report", REPORT_LIMIT_S)
    return found


def goes_on(guest: KeepGuest, before: dict[str, int]) -> bool:
    """Both have the counts that they had, and count on."""
    after = reports(guest)
    return all(after[name] >= before[name] for name in before)


def program(status: dict[str, object], name: str) -> dict[str, int]:
    programs = status["programs"]
    assert isinstance(programs, list)
    (one,) = [one for one in programs if one["name"] == name]
    found: dict[str, int] = one
    return found


def changed_pages_of_files(guest: KeepGuest) -> int:
    """Of the witness's processes: pages of private mappings of files that they have stored to."""
    text = guest.sh("for p in $(pgrep -f '[w]itness.py'); do cat /proc/$p/smaps; done").stdout
    changed_kib, of_file = 0, False
    for words in (line.split() for line in text.splitlines()):
        if "-" in words[0]:
            of_file = words[4] != "0"
        elif words[0] == "Anonymous:" and of_file:
            changed_kib += int(words[1])
    return (changed_kib << 10) // PAGE_BYTES


def pages_of_huge_ones(guest: KeepGuest) -> int:
    """At most, since the boot: pages of huge pages that a return made and could not replace.

    CRIU stores to one address of a mapping that parent and child have in common. Where the kernel
    makes a huge page of it, the mapping is split when CRIU moves it, which the kernel counts, and
    all of its pages are copied, in one process or both.
    """
    text = guest.sh("awk '$1 == \"thp_split_pmd\" {print $2}' /proc/vmstat").stdout
    return min(int(text or 0), 2) * HUGE_PAGES


def test_program_goes_on_after_a_cut_with_its_pages_in_place(witness: KeepGuest) -> None:
    before, changed = reports(witness), changed_pages_of_files(witness)
    cut = witness.cut()
    assert cut.stopped
    status = witness.power_on()
    assert status["verdict"] == "resume"
    assert goes_on(witness, before)
    # Parent and child share half of the memory: the second owner of a page gets a copy at the
    # save. All of it is put in place at the return, less what the restorer has touched, be it
    # by a huge page, and changed pages of files, of which the kernel takes copies only.
    pages = (2 * WITNESS_MIB << 20) // PAGE_BYTES
    found = program(status, "witness")
    assert found["placed"] >= pages
    assert found["copied"] - changed <= found["placed"] // 20 + pages_of_huge_ones(witness)
    witness.serve()
    before = reports(witness)
    assert witness.cut().stopped
    assert witness.power_on()["verdict"] == "resume"
    assert goes_on(witness, before)


def fails_while_up(guest: KeepGuest, done: str, extra: str) -> str:
    """Power without charge for a save comes, and goes when `up` has *done* that; what `up` said."""
    supply = guest.machine.supply
    supply.set_charge(fmt.Charge.STOP)
    guest.machine.boot()
    guest.machine.wait_up()
    guest.mount()
    guest.sh(
        f"grep -v '^{extra.split()[0]} ' {CONFIG} >/run/up.toml; echo '{extra}' >>/run/up.toml"
    )
    guest.sh("setsid rem-keep up /run/up.toml >/run/up.log 2>&1 </dev/null &")
    wait_until(lambda: guest.sh(done, check=False).ok, "`up` is so far", REPORT_LIMIT_S)
    said = guest.sh("cat /run/up.log").stdout
    guest.cut(UNANNOUNCED)
    supply.set_charge(fmt.Charge.FULL)
    return said


def test_image_waits_for_charge(witness: KeepGuest) -> None:
    """A drop of power in a return costs nothing."""
    before = reports(witness)
    assert witness.cut().stopped
    said = fails_while_up(witness, "grep -q charge /run/up.log", f"supply_wait_ms = {WAIT_MS}")
    assert said.strip() == "rem-keep: images wait for charge"
    assert witness.power_on()["verdict"] == "resume"
    assert goes_on(witness, before)


@pytest.mark.in_turn
def test_image_without_a_wire_is_lost_with_the_power(witness: KeepGuest) -> None:
    """The negative proof: an `up` that does not ask."""
    assert witness.cut().stopped
    said = fails_while_up(witness, "grep -q total_us /run/up.log", 'wire = "/run/nobody.sock"')
    assert json.loads(said.splitlines()[-1])["verdict"] == "resume"
    assert witness.power_on()["verdict"] == "already-consumed"


def test_program_outlives_a_change_of_the_kernel(witness: KeepGuest) -> None:
    before, boot_id = reports(witness), witness.sh("cat /proc/sys/kernel/random/boot_id").stdout
    assert witness.kexec()["verdict"] == "resume"
    assert witness.sh("cat /proc/sys/kernel/random/boot_id").stdout != boot_id
    assert goes_on(witness, before)


def test_power_that_returns_lets_the_program_go_on(witness: KeepGuest) -> None:
    """And the image of that save is never entered: the program has run since."""
    before = reports(witness)
    witness.keep("save")
    with pytest.raises(RemError):
        reports_within(witness, 2.0)
    witness.keep("abort")
    assert goes_on(witness, before)
    witness.cut(UNANNOUNCED)
    status = witness.power_on()
    assert status["verdict"] == "already-consumed"
    assert not witness.sh("pgrep -f [w]itness.py", check=False).ok


def reports_within(guest: KeepGuest, limit_s: float) -> None:
    """HangError if the witness does not report: it does not run."""
    guest.sh("rm -f /root/witness.parent; pkill -USR1 -o -f [w]itness.py")
    wait_until(
        lambda: guest.sh("cat /root/witness.parent", check=False).ok, "the parent reports", limit_s
    )


def test_connections_live_through_checks_checkpoints_and_aborts(guest: KeepGuest) -> None:
    """Each freezes the server in the middle of its clients' requests, and lets it go on."""
    guest.start_redis()
    with guest.writers("redis", 4, 4) as writers:
        for words in (("check", "redis"), ("checkpoint",), ("checkpoint",), ("save",), ("abort",)):
            if words != ("abort",):
                wait_acked(writers, 200)
            guest.keep(*words)
        wait_acked(writers, 200)
        assert not writers.ask("status")["failures"]
    guest.sh("pkill redis-server; until ! pidof redis-server >/dev/null; do sleep 0.1; done")


def test_checkpoint_is_entered_after_a_crash(witness: KeepGuest) -> None:
    """Programs that ran on after it are what they were then, though their pages have changed."""
    before = reports(witness)
    witness.keep("checkpoint")
    assert goes_on(witness, before)
    witness.keep("checkpoint")
    then = reports(witness)
    wait_until(lambda: goes_far(witness, then), "the witness goes on", REPORT_LIMIT_S)
    later = reports(witness)
    reset(witness.machine, "c")
    status = witness.begin()
    assert (status["verdict"], status["checkpoint"]) == ("resume", True)
    after = reports(witness)
    assert all(before[name] <= after[name] for name in before)
    assert any(after[name] < later[name] for name in later), "nothing was lost: no checkpoint"
    # Entered once.
    witness.cut(UNANNOUNCED)
    assert witness.power_on()["verdict"] == "already-consumed"


def goes_far(guest: KeepGuest, since: dict[str, int]) -> bool:
    return all(count > since[name] + FAR for name, count in reports(guest).items())


def lose_commit(guest: KeepGuest) -> None:
    for slot in (0, 1):
        at = fmt.CONST["REM_VM_COMMIT_OFFSET"] + slot * fmt.CONST["REM_VM_SLOT_BYTES"]
        write(guest, at, bytes(8))


def spoil_tables(guest: KeepGuest) -> None:
    """A bit of the first entry of both tables."""
    size = fmt.size_of("rem_keep_entry")
    table_bytes = guest.range_bytes // PAGE_BYTES * size
    for at in (0, table_bytes):
        place = fmt.CONST["REM_KEEP_TABLE_OFFSET"] + at
        write(guest, place, bytes([read(guest, place, 1)[0] ^ 0x10]))


def spoil_record(guest: KeepGuest) -> None:
    write(guest, fmt.CONST["REM_VM_CONSUMED_OFFSET"], b"damage")


def read(guest: KeepGuest, offset: int, count: int) -> bytes:
    with guest.nvram().open("rb") as nvram:
        nvram.seek(guest.range_offset + offset)
        return nvram.read(count)


def write(guest: KeepGuest, offset: int, data: bytes) -> None:
    with guest.nvram().open("r+b") as nvram:
        nvram.seek(guest.range_offset + offset)
        nvram.write(data)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lose_commit, ("not-committed", "already-consumed")),
        (spoil_tables, ("table-damaged",)),
        (spoil_record, ("consumed-damaged",)),
    ],
)
def test_damaged_image_is_refused_by_name(
    witness: KeepGuest, damage: Callable[[KeepGuest], None], reason: tuple[str, ...]
) -> None:
    assert witness.cut().stopped
    damage(witness)
    assert witness.power_on()["verdict"] in reason
    assert not witness.sh("pgrep -f [w]itness.py", check=False).ok
    # Nothing of it is entered later, and the range serves programs again.
    witness.cut(UNANNOUNCED)
    assert witness.power_on()["verdict"] in ("already-consumed", "not-committed")


def test_damaged_images_of_criu_are_refused(witness: KeepGuest) -> None:
    assert witness.cut().stopped
    witness.machine.boot()
    witness.machine.wait_up()
    witness.sh(
        f"modprobe nd_e820; modprobe nd_pmem; mkdir -p {FOLDER}; mount /dev/pmem0 {FOLDER}; "
        f"f=$(find {FOLDER}/images -name 'mm-*.img' | tail -1); "
        f"printf x | dd of=$f bs=1 seek=40 conv=notrunc status=none; umount {FOLDER}"
    )
    status = witness.begin()
    assert status["verdict"] == "images-damaged"


def test_what_cannot_be_kept_is_refused_with_the_reason(guest: KeepGuest) -> None:
    ring = (
        "python3 -c 'import ctypes,time; ctypes.CDLL(None).syscall(425,8,(ctypes.c_char*120)());"
        " time.sleep(1000)'"
    )
    guest.run("ring", ring)
    has_ring = "ls -l /proc/$(pgrep -f '[s]yscall')/fd | grep -q io_uring"
    wait_until(lambda: guest.sh(has_ring, check=False).ok, "the ring is there", REPORT_LIMIT_S)
    found = json.loads(guest.keep("check", "ring", check=False).stdout)
    assert not found["kept"]
    assert any("io_uring" in reason for reason in found["reasons"])
    guest.sh("pkill -KILL -f [s]yscall")


def test_program_that_can_be_kept_is_rehearsed_and_runs_on(witness: KeepGuest) -> None:
    before = reports(witness)
    found = json.loads(witness.keep("check", "witness").stdout)
    assert found["kept"], found["reasons"]
    assert found["in_place_bytes"] + found["copied_bytes"] >= 2 * WITNESS_MIB << 20
    assert goes_on(witness, before)


def test_pages_follow_the_rules_of_the_device(guest: KeepGuest) -> None:
    """With a module that nobody has used since it was loaded."""
    guest.cut(UNANNOUNCED)
    guest.machine.boot()
    guest.machine.wait_up()
    guest.machine.guest.put(Path(__file__).with_name("pages.py"), "/root/pages.py")
    start = NVRAM_PHYS + guest.range_offset
    guest.sh(
        "echo online_movable >/sys/devices/system/memory/auto_online_blocks && "
        f"insmod /root/rem_keep.ko start={start:#x} bytes={guest.range_bytes}"
    )
    assert guest.sh("python3 /root/pages.py 2>&1").stdout == ""
    assert not kernel_complaints(guest.machine)
    guest.cut(UNANNOUNCED)
    guest.power_on()


def test_only_root_reaches_the_pages(guest: KeepGuest) -> None:
    assert guest.sh("stat -c %a:%u /dev/rem_keep").stdout.strip() == "600:0"


def test_wrong_configuration_is_one_line(guest: KeepGuest) -> None:
    guest.sh(f"sed 's/^bytes.*/bytes = 12345/' {CONFIG} >/tmp/wrong.toml")
    found = guest.sh("rem-keep up /tmp/wrong.toml 2>&1", check=False)
    assert not found.ok
    assert len(found.stdout.strip().splitlines()) == 1
