# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem bench persist`: one program, one power failure, every way to survive it (LightPC, section VI
and Figures 18 to 21).

Method: for each way a machine of its own on the modelled memory (`rem run --memory`), one CPU, the
same kernel (kernel/config/server.config), root and medium. The program runs once without a failure
and once with one, at a moment that the seed chooses, in guest time. After the failure the way
brings the program back, and it must end with the digest of the plain run.

Time is the model's, from the program's begin to its end, without the time in which the power was
off: the plugin takes it when the guest's rem-mark reaches a marked address. Energy: the memory's by
its counts, the cores' by their time working, stalled and halted (`rem parts lpc-core`). Both of the
machine until the program's end, a boot included.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

from lab.bench.cost import REQUEST_PJ, Cost, controller_counts, cost_now, cost_until
from lab.bench.criu import dump_counts
from lab.bench.persist_ways import (
    BIN,
    COPY,
    DEVICE,
    DUMP_TIMES,
    HIBERNATE,
    PLACE,
    STATISTICS,
    SWEPT,
    WAYS,
    Failure,
    Way,
)
from lab.bench.stop_go import entry_address
from lab.errors import HangError, RemError
from lab.machine.cut_plan import ANNOUNCED, UNANNOUNCED, CutPlan
from lab.machine.cut_points import QUANTUM_ICOUNT
from lab.machine.machine import Machine
from lab.machine.memories import MEMORY_PROFILE
from lab.machine.plugin import STOPPED_OUT, PluginControl, PluginSpec, ctl_path
from lab.machine.plugin_clock import PluginClock, attach
from lab.machine.qemu import NVRAM_PHYS
from lab.power.model import PowerModel
from lab.progress import step
from lab.result import Result
from lab.setup.memory import MemoryModel
from lab.setup.persist import PersistPrograms
from lab.setup.power import Power
from lab.setup.products import Kernel, Plugin, Root, need_all
from lab.testbed.guest_job import numbers_in
from lab.testbed.machines import make_config
from lab.testbed.pm_guest import REGION_BYTES
from lab.verdict import BrokenError

ROOT = Root.having("criu")
KERNEL = Kernel("server")
PARTS = (KERNEL, Plugin(), ROOT, PersistPrograms(), MemoryModel(), Power())
BEGIN, DONE, FAIL = "begin", "done", "fail"
LOADER = "loader"  # its entry
# Addresses in rem-mark: guest/persist/Makefile.
MARKS = {BEGIN: 0x5EAD0000, DONE: 0x5EAE0000, FAIL: 0x5EAF0000}
BOOT_LIMIT_S = 1800.0  # only for hangs: other machines may have the host
RUN_LIMIT_S = 7200.0  # only for hangs
OFF_LIMIT_S = 1800.0
POLL_S = 0.1
FAIL_LOG = "/run/fail.log"
BESIDE_PID = "/run/beside.pid"
WARM_UP_PART = 8
AT_ONCE = 2
# Steps of the program in a second of guest time: to choose the moment of the failure, no figure.
STEPS_OF_S = 355_000
SHORT_STEPS, LONG_STEPS = 928_000, 8_192_000  # 2.6 s and 23 s of guest time
CUT_SHARES = (0.5, 0.9)  # of the program's time, between which the moment lies
SUPPLY = "server-55"  # whose window the kernel is told
BETWEEN_CUTS_S = 300
OURS_VS_PLAIN_MAX = 1.01
# LightPC, Figure 19: cycles over LightPC's.
PAPER_OVER_LIGHTPC = {"syspc": 1.6, "acheckpc": 8.8, "scheckpc": 2.4}


@dataclass(frozen=True)
class Plan:
    """What to measure."""

    ways: tuple[str, ...] = tuple(WAYS)
    memory: str = "ocpmem"
    steps: int = SHORT_STEPS
    seed: int = 1
    caches: str = MEMORY_PROFILE  # and cores, as --caches of run


@dataclass(frozen=True)
class Outcome:
    """One run of a way."""

    cost: Cost
    digest: int
    save: Cost | None = None  # from the failure to the loss of power
    back: Cost | None = None  # from the loader's entry until the program works again
    dumps_ns: tuple[int, ...] = ()  # of what runs beside the program
    copies_ns: tuple[int, ...] = ()  # of as many bytes as a dump's pages, by the kernel alone
    dump_counts: dict[str, int] = field(default_factory=dict)  # of the last dump, by CRIU


class Rig:
    """A running machine whose marks the plugin sees."""

    def __init__(self, machine: Machine, control: PluginControl, spec: PluginSpec) -> None:
        self.machine = machine
        self.control = control
        self.spec = spec

    def sh(self, command: str, limit_s: float = BOOT_LIMIT_S) -> str:
        return self.machine.run_in_guest(command, limit_s=limit_s).stdout

    def mark(self, name: str, limit_s: float) -> Cost:
        """Wait for a mark; the cost until then, since the process began."""
        snapshot = self.control.wait_mark(self._place(name), limit_s)
        return cost_until(snapshot, self._read())

    def reached(self, name: str) -> bool:
        """Whether that mark was reached since they were reset, or the process began."""
        return self.control.first(self._place(name)) is not None

    def _place(self, name: str) -> int:
        return self.spec.pc_mark([*MARKS, LOADER].index(name))

    def stop_costs(self) -> tuple[Cost, Cost]:
        """The costs until PWR_OK dropped, and until the machine reported the end of its Stop."""
        clock, counts = self.machine.clock, self.control.memory()
        assert isinstance(clock, PluginClock) and clock.last is not None and counts is not None
        begin, end = clock.last
        return cost_until(begin, counts), cost_until(end, counts)

    def first_user(self) -> Cost:
        """Wait for the first instruction of a program after power-on."""
        snapshot = self.control.wait_mark(self.spec.user_mark(), BOOT_LIMIT_S)
        return cost_until(snapshot, self._read())

    def firmware(self) -> Cost:
        """From power-on to the loader's entry; its few requests to memory are not in it."""
        snapshot = self.control.wait_mark(self._place(LOADER), BOOT_LIMIT_S)
        no_requests = {name: 0 for name in REQUEST_PJ}
        return cost_until(snapshot, {**self._read(), **no_requests})

    def now(self) -> Cost:
        return cost_now(self.machine, self.control)

    def _read(self) -> dict[str, int]:
        return controller_counts(self.machine, self.control)


@contextmanager
def rig_of(plan: Plan, way: Way) -> Iterator[Rig]:
    """A machine for a way, with the programs; destroyed at the end."""
    built = need_all(list(PARTS))
    hold_up_us = PowerModel.ready().window_ns(SUPPLY) // 1000
    name = f"persist-{way.name}-{os.getpid()}"[:32]
    config = make_config(name, 1, way.stop_mode, built[KERNEL].bz_image)
    assert config.loader is not None
    phys = NVRAM_PHYS + config.nvram_bytes - REGION_BYTES
    spec = PluginSpec(
        built[Plugin()],
        cut=True,
        quantum=QUANTUM_ICOUNT,
        pcs=(*MARKS.values(), entry_address(config.loader)),
        outs=(STOPPED_OUT,),
        user=True,
    )
    config = replace(
        config,
        root=built[ROOT],
        network="auto",
        icount=True,
        idle_waits=True,  # a disk's answer takes the host's time, not the way to the next timer
        caches=plan.caches,
        memory=plan.memory,
        plugin=spec.argument(ctl_path(name)),
        cmdline_extra=f"memmap={REGION_BYTES >> 20}M!{phys:#x} resume={DEVICE}"
        f" remanence.hold_up_us={hold_up_us}",
    )
    with Machine.create(config, destroy_on_exit=True) as machine:
        rig = Rig(machine, attach(machine, spec), spec)
        machine.boot()
        machine.wait_up(BOOT_LIMIT_S)
        rig.sh(f"mkdir -p {BIN}")
        for path in sorted(built[PersistPrograms()].iterdir()):
            if path.is_file() and os.access(path, os.X_OK):
                machine.guest.put(path, f"{BIN}/{path.name}")
        # Disks answer in the host's time: programs are read before any is measured.
        rig.sh(f"sync; cat {BIN}/* $(command -v criu) >/dev/null")
        yield rig


def _start(rig: Rig, way: Way, steps: int, fails: str = ":") -> Cost:
    """Start the program, and what runs beside it; *fails*: a command for the power's failure."""
    rig.control.reset_marks()
    beside = (
        f"export pid; setsid sh -c '{way.beside}' >/run/beside.log 2>&1 </dev/null &\n"
        f"echo $! >{BESIDE_PID}"
    )
    rig.sh(
        f"""rounds={steps}; {BIN}/rem-mark {BEGIN}
setsid sh -c '{fails}' >{FAIL_LOG} 2>&1 </dev/null &
setsid {way.program} >{way.log} 2>&1 </dev/null &
pid=$!
{beside if way.beside else ""}
setsid {BIN}/rem-mark {DONE} $pid >/dev/null 2>&1 </dev/null &"""
    )
    return rig.mark(BEGIN, BOOT_LIMIT_S)


def _digest(rig: Rig, way: Way) -> int:
    rig.machine.guest.wait_ssh(BOOT_LIMIT_S)
    text = rig.sh(f"cat {way.log}")
    for line in text.splitlines():
        if line.startswith("OK "):
            return numbers_in(line)["digest"]
    raise BrokenError("no-result", f"{way.name}: the program ended without a result: {text!r}")


def run_whole(rig: Rig, way: Way, steps: int) -> Outcome:
    """Without a failure."""
    begin = _start(rig, way, steps)
    done = rig.mark(DONE, RUN_LIMIT_S)
    outcome = Outcome(done - begin, _digest(rig, way))
    if not way.beside:
        return outcome
    # It ends with the program. In the next run another process may have the program's number.
    rig.sh(f"while kill -0 $(cat {BESIDE_PID}) 2>/dev/null; do sleep 0.1; done")
    dumps = rig.sh(f"cat {DUMP_TIMES}").split()
    if not dumps:
        raise RemError(f"{way.name}: the program had ended before a dump was durable: more steps")
    copies, counted = rig.sh(COPY).split(), rig.sh(STATISTICS).split()
    return replace(
        outcome,
        dumps_ns=tuple(map(int, dumps)),
        copies_ns=tuple(map(int, copies)),
        dump_counts=dump_counts(bytes(map(int, counted))),
    )


def _hibernated(rig: Rig) -> None:
    """Wait until the machine has switched itself off."""
    assert rig.machine.qemu is not None
    qmp = rig.machine.qemu.qmp
    end_s = time.monotonic() + OFF_LIMIT_S
    while qmp.execute("query-status")["status"] == "running":
        if time.monotonic() > end_s:
            said = ""
            with suppress(RemError):
                said = rig.sh(f"cat {FAIL_LOG}; dmesg | tail -n 3", limit_s=20)
            raise HangError(f"no hibernation within {OFF_LIMIT_S:g} s: {said.strip()}")
        time.sleep(POLL_S)


def _fail(rig: Rig, way: Way, stop: CutPlan) -> tuple[Cost, Cost]:
    """The power fails now; the costs at its failure and until it is gone.

    RemError if the program has ended before: then there is nothing to come back.
    """
    machine = rig.machine
    failed = gone = rig.mark(FAIL, RUN_LIMIT_S)
    if rig.reached(DONE):
        raise RemError(f"{way.name}: the program had ended before the power failed: more steps")
    if way.failure is Failure.STOP:
        record = machine.cut(stop)
        if not record.stopped:
            raise BrokenError("no-stop", f"{way.name}: no Stop within the hold-up")
        failed, gone = rig.stop_costs()
    else:
        if way.failure is Failure.HIBERNATE:
            _hibernated(rig)
            gone = rig.now()
        machine.cut(UNANNOUNCED)
    machine.guest.close()
    return failed, gone


def _power_on(rig: Rig, way: Way) -> Cost:
    """Power is back: from power-on until the loader begins, which is a PC's firmware."""
    if way.failure is Failure.STOP:
        rig.machine.resume()
        note = rig.machine.wait_boot_note(BOOT_LIMIT_S)
        if not note.resumed:
            raise BrokenError("cold", f"{way.name}: the loader did not resume: {note.reason}")
    else:
        rig.machine.boot()
    return rig.firmware()


def _come_back(rig: Rig, way: Way, steps: int) -> Cost:
    """From power-on until the program works again."""
    machine = rig.machine
    if way.failure is Failure.STOP:
        return rig.first_user()
    if way.failure is Failure.HIBERNATE:
        back = rig.first_user()
        machine.guest.wait_ssh(BOOT_LIMIT_S)
        return back
    machine.wait_up(BOOT_LIMIT_S)
    assert way.back is not None
    if way.again is None:
        rig.sh(way.back)
        _start(rig, replace(way, beside=""), steps)
    else:
        rig.sh(
            f"""rounds={steps}; {way.back} && {way.again} && {BIN}/rem-mark {BEGIN} || exit
setsid {BIN}/rem-mark {DONE} $pid >/dev/null 2>&1 </dev/null &"""
        )
    return rig.mark(BEGIN, BOOT_LIMIT_S)


def run_cut(rig: Rig, way: Way, steps: int, after_s: float, stop: CutPlan = ANNOUNCED) -> Outcome:
    """With one failure, *after_s* of guest time after the program's begin.

    *stop*: how the power goes for a way that stops within the hold-up.
    """
    # By the guest's clock and in the guest: a command of a slow host would come late.
    fails = f"sleep {after_s:.3f}; {BIN}/rem-mark {FAIL}"
    if way.failure is Failure.HIBERNATE:
        assert rig.machine.qemu is not None
        rig.machine.qemu.qmp.execute("set-action", shutdown="pause")
        fails += f"; {HIBERNATE}"
    begin = _start(rig, way, steps, fails)
    failed, gone = _fail(rig, way, stop)
    # Go and a boot begin with the loader: the prototype has no firmware of a PC (lpc-f21).
    firmware = _power_on(rig, way)
    back = _come_back(rig, way, steps) - firmware
    done = rig.mark(DONE, RUN_LIMIT_S) - firmware
    return Outcome(gone - begin + done, _digest(rig, way), gone - failed, back)


def prepare(rig: Rig, way: Way) -> None:
    """The medium, as the way needs it."""
    rig.sh(f"umount {PLACE} 2>/dev/null; {way.prepare}")


def measure(plan: Plan, way: Way, after_s: float) -> dict[str, Outcome]:
    """The way's runs; `ours`, whose program is plain, once more without a failure."""
    with rig_of(plan, way) as rig:
        found = {}
        if way.name == "ours":
            run_whole(rig, way, plan.steps // WARM_UP_PART)  # the first run finds nothing ready
            found["plain"] = run_whole(rig, way, plan.steps)
        if "whole" in way.runs:
            prepare(rig, way)
            found["whole"] = run_whole(rig, way, plan.steps)
        if "cut" in way.runs:
            prepare(rig, way)
            found["cut"] = run_cut(rig, way, plan.steps, after_s)
        return found


def _add(result: Result, name: str, outcomes: dict[str, Outcome], plain: Outcome) -> None:
    whole, cut = outcomes["whole"], outcomes["cut"]
    result.add(f"{name}_time_over_plain", round(cut.cost.ns / plain.cost.ns, 4), "", "modelled")
    result.add(f"{name}_energy_over_plain", round(cut.cost.pj / plain.cost.pj, 4), "", "modelled")
    persist_ns = whole.cost.ns - plain.cost.ns
    result.add(f"{name}_persistence_ns", persist_ns, "ns", "modelled")
    assert cut.save is not None and cut.back is not None
    result.add(f"{name}_save_ns", cut.save.ns, "ns", "modelled")
    result.add(f"{name}_back_ns", cut.back.ns, "ns", "modelled")
    again_ns = cut.cost.ns - whole.cost.ns - cut.save.ns - cut.back.ns
    result.add(f"{name}_again_ns", again_ns, "ns", "modelled")
    if whole.dumps_ns:
        result.add(f"{name}_dump_max_ns", max(whole.dumps_ns), "ns", "modelled")


def judge(found: dict[str, dict[str, Outcome]], print_line: Callable[[str], None]) -> Result:
    """Figures and verdict of the ways that came back; `ours` must be among them."""
    result = Result("bench-persist")
    plain = found["ours"]["plain"]
    equal = 0
    for name, outcomes in found.items():
        _add(result, name, outcomes, plain)
        if {outcome.digest for outcome in outcomes.values()} == {plain.digest}:
            equal += 1
        else:
            print_line(f"FAILED: {name}: another result than without a failure")
            result.ok = False
    ours = found["ours"]["cut"]
    for name, paper in PAPER_OVER_LIGHTPC.items():
        if name in found:
            ratio = found[name]["cut"].cost.ns / ours.cost.ns
            result.add(f"{name}_over_ours", round(ratio, 3), "", "modelled")
            print_line(f"{name}: {ratio:.2f} times ours; in the paper {paper} times LightPC's")
    assert ours.save is not None and ours.back is not None
    lost_ns = ours.save.ns + ours.back.ns
    vs_plain = found["ours"]["whole"].cost.ns / plain.cost.ns * (1 + lost_ns / BETWEEN_CUTS_S / 1e9)
    print_line(
        f"ours_vs_plain = whole / plain * (1 + (save + back) / {BETWEEN_CUTS_S} s) = {vs_plain:.5f}"
        f" (plain: {plain.cost.ns / 1e9:.1f} s)"
    )
    result.add("ours_vs_plain", round(vs_plain, 5), "", "modelled")
    result.add("plain_ns", plain.cost.ns, "ns", "modelled")
    result.add("methods", len(found), "ways", "counted")
    result.add("results_equal", equal, "ways", "counted")
    result.ok &= vs_plain <= OURS_VS_PLAIN_MAX
    return result


def measure_ways(
    plan: Plan, print_line: Callable[[str], None]
) -> tuple[dict[str, dict[str, Outcome]], dict[str, RemError]]:
    """The outcomes of the plan's ways, two at once, and those that failed."""
    need_all(list(PARTS))
    share = random.Random(plan.seed).uniform(*CUT_SHARES)
    after_s = share * plan.steps / STEPS_OF_S
    ways = [(WAYS | SWEPT)[name] for name in plan.ways]
    found: dict[str, dict[str, Outcome]] = {}
    failed: dict[str, RemError] = {}

    def one(way: Way) -> dict[str, Outcome] | RemError:
        try:
            return measure(plan, way, after_s)
        except RemError as error:
            return error

    with step("ways to persist", len(ways), "ways") as shown, ThreadPoolExecutor(AT_ONCE) as pool:
        for way, outcome in zip(ways, pool.map(one, ways), strict=True):
            shown.advance()
            if isinstance(outcome, RemError):
                failed[way.name] = outcome
                print_line(f"FAILED: {way.name}: {outcome.message}")
            else:
                found[way.name] = outcome
                print_line(f"{way.name}: {way.about}")
    return found, failed


def run(plan: Plan, print_line: Callable[[str], None]) -> Result:
    """All ways of the plan. One that fails is listed, and the result is not ok."""
    ways = tuple(dict.fromkeys(("ours", *plan.ways)))
    found, failed = measure_ways(replace(plan, ways=ways), print_line)
    if "ours" in failed:
        raise failed["ours"]
    result = judge(found, print_line)
    result.ok &= not failed
    return result
