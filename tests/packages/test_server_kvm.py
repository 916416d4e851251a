# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A server whose guests run on the processor itself (KVM on AMD) goes on, and they with it.

Goal: over ten cuts a guest of KVM counts on and finds its memory as it has left it, in the same
QEMU in the same boot of the server. What a CPU needs to run guests (EFER.SVME, VM_HSAVE_PA) was
lost with the power. Nor does KVM take the time stamp counter, which has started again, for a broken
one. Method: QEMU's emulated CPUs have SVM with nested paging; the guest is that of guest/counter,
which says when its memory is not right. The negative proofs are of the check: a byte that is
changed in the guest's memory, and a guest that stands still, are found.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest

from lab.setup.counter import Counter
from lab.setup.products import need
from lab.testbed.nested_host import TURN
from lab.testbed.server_guest import Server, booted_server, make_server_disk
from lab.testbed.waiting import wait_until

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

CUTS = 10
COUNTS_LIMIT_S = 300.0
RUN_S = 180.0  # longer than from power-on to a guest that runs, so that the counter is behind
CLOCK_SOURCE = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
# AMD's with SVM, as far as QEMU emulates it, and with what Stop flushes by.
WITHOUT = ("fxsr-opt", "misalignsse", "osvw", "topoext", "nrip-save", "xsavec")
CPU = f"EPYC,{','.join(f'-{name}' for name in WITHOUT)},+clwb,enforce=on"
COUNTER, COUNTS = "/root/counter.bin", "/run/counts"
QEMU = (
    "qemu-system-x86_64 -accel kvm -cpu host -nodefaults -no-user-config -display none"
    " -object memory-backend-memfd,id=ram,size=32M,share=on -machine memory-backend=ram -m 32"
    f" -bios {COUNTER} -serial file:{COUNTS}"
)
# In each part of the guest's memory, which it reads in its next turn: in QEMU's own.
CHANGE = """import subprocess
pid = int(subprocess.check_output(["pidof", "qemu-system-x86_64"]))
[mapped] = [line for line in open(f"/proc/{pid}/maps") if "memfd:" in line]
with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
    for part in range(64):
        memory.seek(int(mapped.split("-")[0], 16) + (2 << 20) + part * (64 << 10) + 8)
        memory.write(bytes([0xff]))
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    disk = tmp_path_factory.mktemp("server") / "server.img"
    make_server_disk(disk, ("python3", "qemu-system-x86"), root_bytes=5 << 30)
    with booted_server("t-kvm", disk, cpu_model=CPU) as made:
        made.machine.guest.put(need(Counter()), COUNTER)
        made.sh("modprobe kvm_amd && test -c /dev/kvm")
        yield made


@pytest.fixture
def pid(server: Server) -> Iterator[str]:
    """Of the QEMU of a guest that has begun to count."""
    server.sh(f"rm -f {COUNTS}; setsid {QEMU} >/run/qemu.log 2>&1 </dev/null &")
    wait_counts(server, 1)
    yield server.sh("pidof qemu-system-x86_64")
    server.sh("pkill -x qemu-system-x86; while pidof qemu-system-x86_64; do sleep 0.1; done")


def counts(server: Server) -> list[int]:
    """What the guest has counted; a line that it has begun is none."""
    said = server.sh(f"cat {COUNTS} 2>/dev/null || true")
    return [int(word) for word in re.findall(r"guest count (\d+)\.", said)]


def wait_counts(server: Server, more: int) -> None:
    """Waits until the guest has counted so many further; each once and in their order."""
    before = counts(server)
    last = before[-1] if before else 0

    def done() -> bool:
        log = server.sh("cat /run/qemu.log")
        assert server.sh("pidof qemu-system-x86_64 || true"), log
        assert not server.sh(f"grep differs {COUNTS} 2>/dev/null || true")
        now = counts(server)
        return bool(now) and now[-1] >= last + more

    wait_until(done, f"{more} counts of the guest after {last}", COUNTS_LIMIT_S, poll_s=1.0)
    now = counts(server)
    assert now == list(range(now[0], now[0] + len(now))), now


def test_a_guest_of_kvm_goes_on_with_its_server(server: Server, pid: str) -> None:
    boot_id, before = server.boot_id, server.status["resumes"]
    assert server.stop_mode == "fast"
    for _ in range(CUTS):
        assert server.cut().stopped
        server.power_on()
        wait_counts(server, TURN)
    assert server.boot_id == boot_id
    assert server.sh("pidof qemu-system-x86_64") == pid
    assert server.status["resumes"] == before + CUTS
    assert not server.machine.kernel_warnings()


def test_a_guest_that_moves_after_a_cut_leaves_the_clock_source_as_it_is(
    server: Server, pid: str
) -> None:
    """A vCPU whose first CPU after the cut is another one: there KVM compares time stamp counters,
    and calls them unstable for good where they have gone back.
    """
    began_s = time.monotonic()
    server.sh(f"taskset -acp 0 {pid}")
    wait_counts(server, 1)
    time.sleep(max(0.0, RUN_S - (time.monotonic() - began_s)))
    server.sh(f"kill -STOP {pid}")
    assert server.cut().stopped
    on_s = time.monotonic()
    server.power_on()
    server.sh(f"taskset -acp 1 {pid}; kill -CONT {pid}")
    assert time.monotonic() - on_s < RUN_S, "the counter may have been ahead: this shows nothing"
    wait_counts(server, TURN)
    assert server.sh(f"cat {CLOCK_SOURCE}") == "tsc"
    assert server.sh("dmesg | grep -i 'tsc.*unstable' || true") == ""


@pytest.mark.usefixtures("pid")
def test_a_byte_that_changes_in_the_guest_is_found(server: Server) -> None:
    """The negative proof of the check."""
    server.sh(f"cat >/root/change.py <<'END'\n{CHANGE}END\npython3 /root/change.py")
    with pytest.raises(AssertionError):
        wait_counts(server, 2 * TURN)


def test_a_guest_that_stands_still_is_found(server: Server, pid: str) -> None:
    """The negative proof of the other check."""
    server.sh(f"kill -STOP {pid}")
    before = counts(server)
    assert server.cut().stopped
    server.power_on()
    assert counts(server) == before
    server.sh(f"kill -CONT {pid}")
    wait_counts(server, 1)
