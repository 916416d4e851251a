# SPDX-License-Identifier: Apache-2.0 OR MIT
"""How long Stop and Go take, by the clock flat-1ns (machine/README.md): `rem bench stop-go`.

One machine for each way of stopping, run by icount with the plugin. A cycle:

1. The VM is stopped over QMP at a moment of no significance, the counters are read, PWR_OK drops,
   the VM goes on. Stop ends where the machine is about to send REM_PWR_STOPPED, which is right
   after the commit has been flushed: interrupt and parking delay are in, nothing after it is.
2. The QEMU process is killed and a new one started. Go begins at the loader's entry point (firmware
   is left out) and ends where the first program executes its first instruction, on any vCPU.
3. First I/O is the kernel's own time stamp (REM_EVENT_GO_FIRST_IO), which under icount is the sum
   over all vCPUs: an upper bound of what flat-1ns would say.

The timeline's stamps are sums too; they say where a Stop's time went, not how long it took.
"""

from __future__ import annotations

import random
import statistics
import struct
import time
from dataclasses import dataclass, field
from pathlib import Path

from lab import format as fmt
from lab.bench.loads import Load, make_load
from lab.errors import HangError, RemError
from lab.machine.config import MachineConfig, StopModeName
from lab.machine.machine import Machine
from lab.machine.plugin import (
    STOPPED_OUT,
    PluginClock,
    PluginControl,
    PluginSpec,
    attach,
    ctl_path,
    elapsed_ns,
)
from lab.record import Slot, decode, read_block
from lab.result import Result
from lab.say import say

# Far more than any Stop takes: the bench measures, it does not judge by a hold-up.
HOLD_UP_NS = 2_000_000_000
BOOT_LIMIT_S = 600.0
GO_LIMIT_S = 300.0
FIRST_IO_LIMIT_S = 60.0
FIRST_IO_POLL_S = 0.05
SETTLE_S = 3.0
# Host time between Go and the next Stop: enough for the load to be at work again.
PAUSE_MIN_S, PAUSE_MAX_S = 0.3, 1.0
# Which loads surely complete a request after Go. Idle ones need none.
LOADS_WITH_IO = ("fsync", "net")
PREFIX: dict[StopModeName, str] = {"fast": "", "dpm": "dpm_"}


@dataclass(frozen=True)
class Plan:
    """What to measure. *stops* is for each load and each way of stopping."""

    cpus: int
    stops: int
    loads: tuple[str, ...]
    modes: tuple[StopModeName, ...]
    kernel: Path
    loader: Path
    root: Path
    plugin: Path
    seed: int = 1
    nvram_dir: Path | None = None


@dataclass(frozen=True)
class Sample:
    """One cycle."""

    load: str
    sequence: int
    stop_ns: int
    stop_halted_ns: int  # of stop_ns: all vCPUs were halted
    go_ns: int
    first_io_ns: int | None
    timeline: tuple[tuple[int, str, int], ...]  # (sum of instructions since the edge, event, CPU)


@dataclass
class Bench:
    """One machine, one way of stopping."""

    machine: Machine
    control: PluginControl
    spec: PluginSpec
    mode: StopModeName
    rng: random.Random
    samples: list[Sample] = field(default_factory=list)

    def cycle(self, load: str) -> Sample:
        """One Stop and one Go; the sample is of the two together."""
        time.sleep(self.rng.uniform(PAUSE_MIN_S, PAUSE_MAX_S))
        stop_ns, halted_ns = self._stop()
        go_ns = self._go()
        note = self.machine.boot_note()
        assert note is not None, "_go() saw one"
        stop = [event for event in self._slot(note.sequence).timeline if event.part == "stop"]
        first_io_ns = None
        if load in LOADS_WITH_IO:
            first_io_ns = self._first_io_tsc(note.sequence) - note.entry_tsc
        return Sample(
            load=load,
            sequence=note.sequence,
            stop_ns=stop_ns,
            stop_halted_ns=halted_ns,
            go_ns=go_ns,
            first_io_ns=first_io_ns,
            timeline=tuple((event.tsc - stop[0].tsc, event.type, event.cpu) for event in stop),
        )

    def _stop(self) -> tuple[int, int]:
        assert self.machine.qemu is not None
        self.machine.qemu.qmp.execute("stop")
        record = self.machine.cut()
        clock = self.machine.clock
        assert isinstance(clock, PluginClock)
        if record.stopped_after_ns is None or clock.last is None:
            raise RemError(
                f"no Stop within {HOLD_UP_NS} ns of guest time after PWR_OK dropped: "
                f"see {self.machine.files.console_log(self.machine.boots)}"
            )
        begin, end = clock.last
        assert begin.halted_ns is not None
        assert end.halted_ns is not None
        return record.stopped_after_ns, end.halted_ns - begin.halted_ns

    def _go(self) -> int:
        self.control.prepare()
        self.machine.resume()
        note = self.machine.wait_boot_note(GO_LIMIT_S)
        if not note.resumed:
            raise RemError(f"the loader did not resume after a committed Stop: {note.reason}")
        self._check_mode(note.sequence)
        user = self.control.wait_mark(self.spec.user_mark(), GO_LIMIT_S)
        entry = self.control.first(self.spec.pc_mark())
        assert entry is not None, "programs run, but the loader's entry point was never reached"
        return elapsed_ns(entry, user)

    def _slot(self, sequence: int) -> Slot:
        nvram = self.machine.files.nvram(self.machine.config)
        return decode(read_block(nvram)).slots[sequence % int(fmt.CONST["REM_SLOTS"])]

    def _check_mode(self, sequence: int) -> None:
        """A kernel may have had to fall back to the other way of stopping."""
        body = self._slot(sequence).body
        took = body.stop_mode.lower() if body else "?"
        if took != self.mode:
            raise RemError(f"the kernel was told stop={self.mode} and stopped by {took}")

    def _first_io_tsc(self, sequence: int) -> int:
        """Time stamp of the last of the devices to complete a first request."""
        end_s = time.monotonic() + FIRST_IO_LIMIT_S
        while time.monotonic() < end_s:
            events = self._slot(sequence).timeline
            stamps = [event.tsc for event in events if event.type == "GO_FIRST_IO"]
            if stamps:
                return max(stamps)
            time.sleep(FIRST_IO_POLL_S)
        raise HangError(f"no request completed within {FIRST_IO_LIMIT_S:g} s after Go")


def entry_address(elf: Path) -> int:
    """Where an ELF program begins, 32-bit or 64-bit."""
    header = elf.read_bytes()[:32]
    entry_form = {b"\x7fELF\x01": "<I", b"\x7fELF\x02": "<Q"}.get(header[:5])
    if entry_form is None:
        raise RemError(f"{elf} is no ELF file: build it anew with `./rem setup`")
    return int(struct.unpack_from(entry_form, header, 24)[0])


def _spec(plan: Plan) -> PluginSpec:
    return PluginSpec(
        plan.plugin,
        cut=True,
        pcs=(entry_address(plan.loader),),
        outs=(STOPPED_OUT,),
        user=True,
    )


def _config(plan: Plan, mode: StopModeName, spec: PluginSpec) -> MachineConfig:
    name = f"bench-{mode}-{plan.cpus}"
    return MachineConfig(
        name=name,
        kernel=plan.kernel,
        loader=plan.loader,
        root=plan.root,
        cpus=plan.cpus,
        stop_mode=mode,
        icount=True,
        plugin=spec.argument(ctl_path(name)),
        seed=plan.seed,
        nvram_dir=plan.nvram_dir,
        hold_up_ns=HOLD_UP_NS,
    )


def _measure(plan: Plan, mode: StopModeName) -> list[Sample]:
    """Boot one machine, run all loads on it."""
    spec = _spec(plan)
    with Machine.create(_config(plan, mode, spec), destroy_on_exit=True) as machine:
        control = attach(machine, spec)
        control.prepare()
        say(f"stop={mode}, {plan.cpus} CPUs: booting")
        machine.boot()
        control.wait_ready()
        machine.wait_ready(BOOT_LIMIT_S)
        machine.guest.wait_ssh(BOOT_LIMIT_S)
        bench = Bench(machine, control, spec, mode, random.Random(plan.seed))
        for name in plan.loads:
            with make_load(name, machine) as load:
                _measure_load(bench, load, name, plan.stops)
        return bench.samples


def _measure_load(bench: Bench, load: Load, name: str, stops: int) -> None:
    time.sleep(SETTLE_S)
    for number in range(1, stops + 1):
        sample = bench.cycle(name)
        bench.samples.append(sample)
        say(
            f"  {name} {number}/{stops}: stop {sample.stop_ns:,} ns "
            f"(halted {sample.stop_halted_ns:,}), go {sample.go_ns:,} ns"
        )
    load.check()
    if warnings := bench.machine.kernel_warnings():
        raise RemError(f"the kernel warned under {name} load: {warnings[0]}")


def _median(values: list[int]) -> int:
    return int(statistics.median_low(values))


def add_figures(result: Result, mode: StopModeName, samples: list[Sample]) -> None:
    prefix = PREFIX[mode]

    def add(name: str, value: int) -> None:
        result.add(prefix + name, value, "ns", "modelled")

    stops, goes = [s.stop_ns for s in samples], [s.go_ns for s in samples]
    add("stop_max_ns", max(stops))
    add("stop_p50_ns", _median(stops))
    add("go_max_ns", max(goes))
    add("go_p50_ns", _median(goes))
    first_io = [s.first_io_ns for s in samples if s.first_io_ns is not None]
    if first_io:
        add("go_first_io_ns", max(first_io))
    for load in dict.fromkeys(s.load for s in samples):
        add(f"stop_{load}_max_ns", max(s.stop_ns for s in samples if s.load == load))
    result.add(prefix + "stops", len(samples), "stops", "counted")


def _say_worst(mode: StopModeName, samples: list[Sample]) -> None:
    worst = max(samples, key=lambda sample: sample.stop_ns)
    say(f"worst Stop, stop={mode}: {worst.stop_ns:,} ns under {worst.load} load (flat-1ns)")
    say("  where it went, in instructions of all CPUs together:")
    for at, event, cpu in worst.timeline:
        say(f"  {at:>12,}  {event}  CPU {cpu}")


def run(plan: Plan) -> Result:
    """Measure all that is planned. Model flat-1ns."""
    result = Result(f"stop-go-{plan.cpus}")
    for mode in plan.modes:
        samples = _measure(plan, mode)
        add_figures(result, mode, samples)
        _say_worst(mode, samples)
    result.add("model", "flat-1ns", "", "modelled")
    return result
