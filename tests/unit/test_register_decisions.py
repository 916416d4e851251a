# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a Stop does to registers of a CPU, and in which order Go restores them: a CPU is as before,
what stores to memory behind its back is off, and of two clocks that differ Go hears.

Method: decide.c of kernel/resume/ and kernel/stop/, compiled for the host, decides for CPUs whose
CPUID and registers are faked here: no CPU of QEMU has AMX, performance counters or tracing by
hardware, and its packages start at the same time. What this is no proof of is in SECURITY.md.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Iterator

import pytest

from tests.support.decisions import compiled

STEPS = ("fpu", "selectors", "bases", "microcode", "msrs")
KEPT_MAX, GUARD = 35, 0xFEEDC0DE
FS_BASE = 0xC0000100
TSX_CTRL, XFD, XSS, DEBUGCTL = 0x122, 0x1C4, 0xDA0, 0x1D9


@pytest.fixture(scope="module")
def resume(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    library = compiled(tmp_path_factory.mktemp("decide"), "resume")
    library.rem_cpu_step.restype = ctypes.c_uint
    library.rem_cpu_step.argtypes = (ctypes.c_uint,)
    library.rem_msrs_kept.restype = ctypes.c_uint
    library.rem_msrs_kept.argtypes = (ctypes.c_void_p,)
    library.rem_msr_go.restype = ctypes.c_ulonglong
    library.rem_msr_go.argtypes = (ctypes.c_uint, ctypes.c_ulonglong)
    library.rem_tsc_differs.restype = ctypes.c_bool
    library.rem_tsc_differs.argtypes = (ctypes.c_ulonglong,) * 3
    return library


def kept(resume: ctypes.CDLL) -> list[int]:
    room = (ctypes.c_uint * (KEPT_MAX + 1))(*[GUARD] * (KEPT_MAX + 1))
    count = resume.rem_msrs_kept(room)
    assert set(room[count:]) == {GUARD}
    return list(room[:count])


class Cpu:
    """A CPU after a cut: registers have other values, and those of an update are missing."""

    def __init__(self, resume: ctypes.CDLL) -> None:
        self._resume = resume
        self._kept = kept(resume)
        self.before = {index: 0x1000 + index for index in (*self._kept, FS_BASE)}
        self.before[DEBUGCTL] = 0x1
        self.now = dict.fromkeys(self.before, 0)
        del self.now[TSX_CTRL]

    def step(self, name: str) -> None:
        match name:
            case "fpu":  # the kernel's: XFD of the task that runs, not of the one that ran last
                self.now |= {XSS: self.before[XSS], XFD: 0}
            case "selectors":
                self.now[FS_BASE] = 0
            case "bases":
                self.now[FS_BASE] = self.before[FS_BASE]
            case "microcode":
                self.now.setdefault(TSX_CTRL, 0)
            case "msrs":
                for index in self._kept:
                    if index not in self.now:
                        raise LookupError(f"write to register {index:#x}, which does not exist yet")
                    self.now[index] = self._resume.rem_msr_go(index, self.before[index])


def restored(resume: ctypes.CDLL, order: tuple[str, ...]) -> bool:
    cpu = Cpu(resume)
    try:
        for name in order:
            cpu.step(name)
    except LookupError:
        return False
    return cpu.now == cpu.before


def order_of_go(resume: ctypes.CDLL) -> tuple[str, ...]:
    return tuple(STEPS[resume.rem_cpu_step(number)] for number in range(len(STEPS)))


def test_cpu_is_as_before_in_the_order_of_go(resume: ctypes.CDLL) -> None:
    assert restored(resume, order_of_go(resume))


def right_orders() -> Iterator[tuple[str, ...]]:
    pairs = (("fpu", "msrs"), ("selectors", "bases"), ("microcode", "msrs"))
    for order in itertools.permutations(STEPS):
        if all(order.index(first) < order.index(then) for first, then in pairs):
            yield order


def test_cpu_is_as_before_in_no_order_that_breaks_a_rule(resume: ctypes.CDLL) -> None:
    """The model of the CPU finds each wrong order."""
    right = set(right_orders())
    for order in itertools.permutations(STEPS):
        assert restored(resume, order) == (order in right), order


@pytest.mark.parametrize(
    "index",
    [
        0x1C4,  # XFD: the kernel does not write what it believes is there already
        0xDA0,  # XSS
        0xE8, 0xE7,  # APERF, MPERF
        0x3B,  # TSC_ADJUST
        0x1B0, 0xE1,
        0xC0010117,  # VM_HSAVE_PA
        0xC0000104,  # TSC_RATIO
        0x10F, 0x123,  # TSX_FORCE_ABORT, MCU_OPT_CTRL
        0xC0011029, 0xC001102E,  # DE_CFG, BP_CFG
        0xC0000081, 0xC0000082, 0xC0000084, 0x277,
    ],
    ids=hex,
)  # fmt: skip
def test_register_of_which_the_kernel_remembers_the_value_is_kept(
    resume: ctypes.CDLL, index: int
) -> None:
    assert kept(resume).count(index) == 1


@pytest.mark.parametrize(
    ("enables", "then"), [(0x770, 0x774), (0xC00102B1, 0xC00102B3)], ids=["HWP", "CPPC"]
)
def test_what_enables_a_register_is_written_before_it(
    resume: ctypes.CDLL, enables: int, then: int
) -> None:
    """Intel SDM volume 3, 15.4.2: HWP_REQUEST is there only while PM_ENABLE is set."""
    found = kept(resume)
    assert found.index(enables) < found.index(then)


def test_no_register_is_kept_that_another_part_restores(resume: ctypes.CDLL) -> None:
    """TSC, APIC base, TSC deadline, bases, EFER; and none twice."""
    found = kept(resume)
    assert len(set(found)) == len(found)
    assert not {0x10, 0x1B, 0x6E0, 0xC0000080, 0xC0000100, 0xC0000101, 0xC0000102} & set(found)
    assert 0 not in found


@pytest.mark.parametrize(
    ("before", "there", "after", "differs"),
    [
        (100, 150, 200, False),
        (100, 100, 100, False),
        (100, 99, 200, True),  # the other CPU is behind
        (100, 201, 200, True),  # it is ahead
        (2**63, 2**63 + 1, 2**63 + 2, False),
        (2**63, 5, 2**63 + 2, True),  # it began again, alone
    ],
)
def test_counters_that_do_not_ascend_differ(
    resume: ctypes.CDLL, before: int, there: int, after: int, differs: bool
) -> None:
    assert resume.rem_tsc_differs(before, there, after) == differs


class QuietCpu(ctypes.Structure):
    _fields_ = (
        ("perfmon_amd", ctypes.c_bool),
        ("leaf_max", ctypes.c_uint),
        ("perfmon_eax", ctypes.c_uint),
        ("bts", ctypes.c_bool),
        ("pt", ctypes.c_bool),
    )


class QuietMsr(ctypes.Structure):
    _fields_ = (
        ("index", ctypes.c_uint),
        ("traces", ctypes.c_bool),
        ("off", ctypes.c_ulonglong),
    )


QUIET_MAX = 3
AMD_GLOBAL, GLOBAL, RTIT_CTL = 0xC0000301, 0x38F, 0x570


@pytest.fixture(scope="module")
def stop(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    library = compiled(tmp_path_factory.mktemp("decide"), "stop")
    library.rem_quiet_choose.restype = ctypes.c_uint
    library.rem_quiet_choose.argtypes = (ctypes.POINTER(QuietCpu), ctypes.c_void_p)
    return library


def quiet(stop: ctypes.CDLL, **facts: int) -> dict[int, tuple[bool, int]]:
    room = (QuietMsr * (QUIET_MAX + 1))()
    room[QUIET_MAX].index = GUARD
    cpu = QuietCpu(**facts)
    count = stop.rem_quiet_choose(ctypes.byref(cpu), room)
    assert room[QUIET_MAX].index == GUARD
    return {msr.index: (msr.traces, msr.off) for msr in room[:count]}


ALL_BITS = 2**64 - 1


@pytest.mark.parametrize(
    ("facts", "found"),
    [
        ({}, {}),  # as QEMU's
        # Version 2 to 5 of Intel's performance monitoring; 1 has no common switch.
        ({"leaf_max": 10, "perfmon_eax": 0x07300402}, {GLOBAL: (False, ALL_BITS)}),
        ({"leaf_max": 0x1F, "perfmon_eax": 0x08300805}, {GLOBAL: (False, ALL_BITS)}),
        ({"leaf_max": 10, "perfmon_eax": 0x07280201}, {}),
        # No leaf 10: what is there is of another leaf.
        ({"leaf_max": 9, "perfmon_eax": 0x07300402}, {}),
        # AMD's has a register of its own, also where a hypervisor shows leaf 10.
        ({"perfmon_amd": 1, "leaf_max": 0x10}, {AMD_GLOBAL: (False, ALL_BITS)}),
        ({"perfmon_amd": 1, "leaf_max": 16, "perfmon_eax": 2}, {AMD_GLOBAL: (False, ALL_BITS)}),
        ({"bts": 1}, {DEBUGCTL: (True, 0xC0)}),
        ({"pt": 1}, {RTIT_CTL: (True, 1)}),
        (
            {"leaf_max": 0x20, "perfmon_eax": 5, "bts": 1, "pt": 1},
            {GLOBAL: (False, ALL_BITS), DEBUGCTL: (True, 0xC0), RTIT_CTL: (True, 1)},
        ),
    ],
)
def test_what_stores_to_memory_behind_a_cpu_is_switched_off(
    stop: ctypes.CDLL, facts: dict[str, int], found: dict[int, tuple[bool, int]]
) -> None:
    """Counters count again after Go; tracing does not begin again."""
    assert quiet(stop, **facts) == found
