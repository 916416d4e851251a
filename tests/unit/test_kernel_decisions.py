# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the kernel's fast path can restart is a decision by lists of what is allowed: unknown
drivers and virtio devices keep a machine on stop=dpm, and modes of a CPU from which Go could not
return keep it unarmed, by name. Which registers of machine checks a CPU has, whether its microcode
will do, and in which order the threads of a core load it, are decisions, too; so are the promise
that a power failure saves the caches, and whether firmware shares ACPI's global lock.

Method: decide.c of kernel/resume/ and kernel/stop/, compiled for the host, are asked. What QEMU
cannot emulate (VMX, CET, CMCI, scalable MCA) is only decided here: no test shows it on a machine.
The kernel's configuration excludes VMX and CET (test_setup_kernel_config.py); CMCI it has, and
scalable MCA it has not.
"""

from __future__ import annotations

import ctypes
import re

import pytest

from lab.paths import repo_dir
from tests.support.decisions import compiled

# By the virtio specification.
NET, BLOCK, CONSOLE, RNG, BALLOON, SCSI, P9 = 1, 2, 3, 4, 5, 8, 9
GPU, INPUT, VSOCK, MEM, FS, PMEM = 16, 18, 19, 24, 26, 27
MULTIPORT = 1 << 1


@pytest.fixture(scope="module")
def decide(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    library = compiled(tmp_path_factory.mktemp("decide"), "resume")
    library.rem_driver_kept.restype = ctypes.c_bool
    library.rem_driver_kept.argtypes = (ctypes.c_char_p, ctypes.c_char_p)
    library.rem_pci_returned.restype = ctypes.c_bool
    library.rem_pci_returned.argtypes = (ctypes.c_char_p,)
    library.rem_below_returned.restype = ctypes.c_bool
    library.rem_below_returned.argtypes = (ctypes.c_char_p, ctypes.c_char_p)
    library.rem_virtio_kept.restype = ctypes.c_bool
    library.rem_virtio_kept.argtypes = (ctypes.c_uint, ctypes.c_ulonglong)
    library.rem_mce_msrs.restype = ctypes.c_uint
    library.rem_mce_msrs.argtypes = (ctypes.c_ulonglong, ctypes.c_bool, ctypes.c_void_p)
    library.rem_cpu_may_start.restype = ctypes.c_bool
    library.rem_cpu_may_start.argtypes = (ctypes.c_uint, *[ctypes.POINTER(ctypes.c_ulong)] * 3)
    library.rem_microcode_lost.restype = ctypes.c_bool
    library.rem_microcode_lost.argtypes = (ctypes.c_uint, ctypes.c_uint)
    library.rem_msr_go.restype = ctypes.c_ulonglong
    library.rem_msr_go.argtypes = (ctypes.c_uint, ctypes.c_ulonglong)
    library.rem_cr4_refused.restype = ctypes.c_char_p
    library.rem_cr4_refused.argtypes = (ctypes.c_ulonglong,)
    return library


@pytest.mark.parametrize("device", [NET, BLOCK, CONSOLE, RNG, PMEM])
def test_device_whose_state_is_in_its_rings_is_kept(decide: ctypes.CDLL, device: int) -> None:
    assert decide.rem_virtio_kept(device, 1 << 32)


@pytest.mark.parametrize("device", [BALLOON, SCSI, P9, GPU, INPUT, VSOCK, MEM, FS, 0, 63, 4711])
def test_device_that_holds_state_or_is_unknown_is_not(decide: ctypes.CDLL, device: int) -> None:
    assert not decide.rem_virtio_kept(device, 1 << 32)


def test_console_with_several_ports_is_not(decide: ctypes.CDLL) -> None:
    assert not decide.rem_virtio_kept(CONSOLE, MULTIPORT)


@pytest.mark.parametrize(
    ("bus", "driver", "kept"),
    [
        ("platform", "serial8250", True),
        ("platform", "alarmtimer", True),
        ("pnp", "rtc_cmos", True),
        ("pnp", "system", True),
        ("pnp", "i8042 kbd", False),
        ("platform", "i8042", False),
        ("platform", "tpm_tis", False),
        ("pnp", "tpm_tis", False),
        ("platform", "ipmi_si", True),
        ("pnp", "ipmi_si", False),
        ("platform", "ipmi-watchdog", False),
        ("platform", "iTCO_wdt", False),
        ("platform", "virtio-mmio", False),
        ("platform", "rtc_cmos", False),  # another bus: another driver
        ("pnp", "", False),
    ],
)
def test_driver_is_kept_only_if_it_is_known(
    decide: ctypes.CDLL, bus: str, driver: str, kept: bool
) -> None:
    assert decide.rem_driver_kept(bus.encode(), driver.encode()) == kept


@pytest.mark.parametrize(
    ("driver", "returned"),
    [
        ("xhci_hcd", True),
        ("bochs-drm", True),
        ("ehci-pci", False),  # waits for answers of a lost controller
        ("snd_hda_intel", False),
        ("virtio-pci", False),
        ("", False),
    ],
)
def test_driver_is_suspended_after_go_only_if_it_is_known(
    decide: ctypes.CDLL, driver: str, returned: bool
) -> None:
    assert decide.rem_pci_returned(driver.encode()) == returned


@pytest.mark.parametrize(
    ("bus", "driver", "returned"),
    [
        ("usb", "usbhid", True),
        ("usb", "hub", True),
        ("hid", "hid-generic", True),
        ("platform", "iTCO_wdt", True),
        ("usb", "usb-storage", False),
        ("usb", "uas", False),
        ("scsi", "sd", False),
        ("i2c", "at24", False),
        ("hid", "usbhid", False),  # another bus: another driver
    ],
)
def test_what_is_below_such_a_device_is_known(
    decide: ctypes.CDLL, bus: str, driver: str, returned: bool
) -> None:
    assert decide.rem_below_returned(bus.encode(), driver.encode()) == returned


@pytest.mark.parametrize(
    ("bit", "name"),
    [
        (12, b"5-level page tables are in use"),
        (23, b"control-flow enforcement is in use"),
        (13, b"VMX operation is in use"),
    ],
)
def test_mode_that_go_cannot_restore_is_refused_by_name(
    decide: ctypes.CDLL, bit: int, name: bytes
) -> None:
    assert decide.rem_cr4_refused(1 << bit) == name
    assert decide.rem_cr4_refused(~(1 << bit) & ~(1 << 12 | 1 << 13 | 1 << 23)) is None


# Of MSR_IA32_MCG_CAP, below which is the number of banks.
CTL_P, CMCI_P, LMCE_P = 1 << 8, 1 << 10, 1 << 27
MCE_MSRS_MAX, GUARD = 66, 0xFEEDC0DE


def mce_msrs(decide: ctypes.CDLL, cap: int, scalable: bool = False) -> list[int]:
    room = (ctypes.c_uint * (MCE_MSRS_MAX + 1))(*[GUARD] * (MCE_MSRS_MAX + 1))
    count = decide.rem_mce_msrs(cap, scalable, room)
    assert set(room[count:]) == {GUARD}
    return list(room[:count])


@pytest.mark.parametrize(
    ("cap", "scalable", "found"),
    [
        (0, False, []),
        (2, False, [0x400, 0x404]),
        (2 | CTL_P, False, [0x17B, 0x400, 0x404]),
        (2 | CMCI_P | LMCE_P, False, [0x4D0, 0x400, 0x280, 0x404, 0x281]),
        # The second bank's configuration comes before its control; CMCI is Intel's.
        (2 | CTL_P | CMCI_P, True, [0x17B, 0xC0002004, 0xC0002000, 0xC0002014, 0xC0002010]),
    ],
)
def test_registers_of_machine_checks_are_those_that_the_cpu_has(
    decide: ctypes.CDLL, cap: int, scalable: bool, found: list[int]
) -> None:
    assert mce_msrs(decide, cap, scalable) == found


@pytest.mark.parametrize("scalable", [False, True])
def test_registers_of_machine_checks_have_room(decide: ctypes.CDLL, scalable: bool) -> None:
    assert len(mce_msrs(decide, 0xFF | CTL_P | CMCI_P | LMCE_P, scalable)) == MCE_MSRS_MAX


def test_older_microcode_is_no_place_for_an_image(decide: ctypes.CDLL) -> None:
    assert not decide.rem_microcode_lost(5, 5)
    assert not decide.rem_microcode_lost(5, 0x80000006)
    assert decide.rem_microcode_lost(0x80000006, 5)


CPUS = 192  # of several words
LONG_BITS = 8 * ctypes.sizeof(ctypes.c_ulong)


def bitmap(cpus: set[int]) -> ctypes.Array[ctypes.c_ulong]:
    words = (ctypes.c_ulong * (CPUS // LONG_BITS))()
    for cpu in cpus:
        words[cpu // LONG_BITS] |= 1 << cpu % LONG_BITS
    return words


def rounds(decide: ctypes.CDLL, cores: list[set[int]], online: set[int]) -> list[set[int]]:
    """Which CPUs Go starts together, if all that were started come back before it looks again."""
    core_of = {cpu: core for core in cores for cpu in core}
    back, found = {0}, []
    while back != online:
        turn = {
            cpu
            for cpu in online - back
            if decide.rem_cpu_may_start(cpu, bitmap(core_of[cpu]), bitmap(online), bitmap(back))
        }
        assert turn, "Go would wait for ever"
        found.append(turn)
        back |= turn
    return found


@pytest.mark.parametrize(
    ("cores", "online", "order"),
    [
        # Numbered core by core, and as firmware of Intel's machines does: first all first threads.
        ([{0, 1}, {2, 3}], {0, 1, 2, 3}, [{1, 2}, {3}]),
        ([{0, 2}, {1, 3}], {0, 1, 2, 3}, [{1, 2}, {3}]),
        # Without a second thread in any core, and with some of them offline.
        ([{0}, {1}, {2}, {3}], {0, 1, 2, 3}, [{1, 2, 3}]),
        ([{0, 2}, {1, 3}], {0, 1}, [{1}]),
        ([{0, 2}, {1, 3}], {0, 1, 2}, [{1, 2}]),
        # The first thread of a core is offline: it executes nothing, and the second one loads.
        ([{0, 2}, {1, 3}], {0, 3}, [{3}]),
        ([{0, 2}, {1, 3}], {0, 2, 3}, [{2, 3}]),
        # Four threads; two words of the bitmap.
        ([{0, 1, 2, 3}, {4, 5, 6, 7}], set(range(8)), [{1, 4}, {2, 5}, {3, 6}, {7}]),
        ([{0, 70}, {1, 71}], {0, 1, 70, 71}, [{1, 70}, {71}]),
    ],
)
def test_threads_of_a_core_start_one_after_the_other(
    decide: ctypes.CDLL, cores: list[set[int]], online: set[int], order: list[set[int]]
) -> None:
    """Because each of them loads microcode when it starts; the boot CPU has loaded it by then."""
    assert rounds(decide, cores, online) == order


def test_thread_waits_for_the_one_before_it_however_long(decide: ctypes.CDLL) -> None:
    core, online = bitmap({1, 3}), bitmap({0, 1, 2, 3})
    assert not decide.rem_cpu_may_start(3, core, online, bitmap({0, 2}))
    assert decide.rem_cpu_may_start(3, core, online, bitmap({0, 1}))


@pytest.mark.parametrize(
    ("register", "before", "after"),
    [
        (0x1D9, 0x0C3, 0x003),  # DEBUGCTL: TR and BTS end, LBR and BTF stay
        (0x1D9, 0x001, 0x001),
        (0x1DA, 0x0C3, 0x0C3),  # another register
        (0xC0000103, 0xFFFF_FFFF_FFFF_FFFF, 0xFFFF_FFFF_FFFF_FFFF),
    ],
)
def test_tracing_of_branches_ends_with_a_stop(
    decide: ctypes.CDLL, register: int, before: int, after: int
) -> None:
    assert decide.rem_msr_go(register, before) == after


FACTS = (
    "stopping", "promised", "exceeded", "window", "armed", "watched", "fast", "fits", "power_ok",
    "charged", "healthy",
)  # fmt: skip
ARMED = {"armed", "watched", "fast", "fits", "power_ok", "charged", "healthy"}


class PromiseFacts(ctypes.Structure):
    _fields_ = [(name, ctypes.c_bool) for name in FACTS]  # noqa: RUF012


@pytest.fixture(scope="module")
def stop(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    library = compiled(tmp_path_factory.mktemp("decide"), "stop")
    library.rem_promise_decide.restype = ctypes.c_bool
    library.rem_promise_decide.argtypes = (ctypes.POINTER(PromiseFacts),)
    library.rem_acpi_blocker.restype = ctypes.c_char_p
    library.rem_acpi_blocker.argtypes = (ctypes.c_ulonglong,) * 3
    return library


def promised(stop: ctypes.CDLL, facts: set[str]) -> bool:
    assert facts <= set(FACTS)
    made = PromiseFacts(**{name: name in facts for name in FACTS})
    return bool(stop.rem_promise_decide(ctypes.byref(made)))


def test_facts_are_those_of_the_kernel() -> None:
    text = (repo_dir() / "kernel" / "stop" / "decide.h").read_text("utf-8")
    body = text.partition("struct rem_promise_facts {")[2].partition("}")[0]
    assert tuple(re.findall(r"bool (\w+);", body)) == FACTS


def test_caches_are_promised_only_while_a_stop_would_begin(stop: ctypes.CDLL) -> None:
    assert promised(stop, ARMED)
    for missing in ARMED:
        assert not promised(stop, ARMED - {missing}), missing
    assert not promised(stop, ARMED | {"window"}), "a CPU goes on- or offline"


def test_promise_stays_as_it_was_during_a_stop(stop: ctypes.CDLL) -> None:
    """A Stop that was begun commits, and PWR_OK is absent then."""
    assert promised(stop, {"stopping", "promised"})
    assert not promised(stop, {"stopping"})
    assert not promised(stop, {"stopping", "promised", "exceeded"})
    assert not promised(stop, {"stopping", "promised", "window"}), (
        "a step begins before it is armed"
    )


COPIES, COPIES_END = 0x1_0010_0000, 0x1_0020_0000


@pytest.mark.parametrize(
    ("facs", "name"),
    [
        (0, None),
        (COPIES, None),
        (COPIES_END - 64, None),
        (COPIES - 64, b"a FACS that firmware shares"),
        (COPIES_END, b"a FACS that firmware shares"),
        (0x7FFE_0000, b"a FACS that firmware shares"),
    ],
)
def test_lock_that_firmware_shares_is_refused_by_name(
    stop: ctypes.CDLL, facs: int, name: bytes | None
) -> None:
    assert stop.rem_acpi_blocker(facs, COPIES, COPIES_END) == name
