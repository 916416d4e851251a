# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Times of Stop and Go, by the clock flat-1ns (machine/README.md): `rem bench stop-go`.

One machine for each stop mode, run by icount with the plugin. A cycle:

1. The VM is stopped over QMP at a random moment, the counters are read, PWR_OK drops, the VM
   continues. Stop ends where the machine is about to send REM_PWR_STOPPED, right after the commit
   has been flushed: interrupt and parking delay are included, nothing after it is. Its first part,
   the edge, ends where the kernel begins the Stop.
2. The QEMU process is killed and a new one started. Go begins at the loader's entry point (firmware
   is left out) and ends where the first program executes its first instruction, on any vCPU.
3. First I/O ends where the driver begins to handle the first completed request: of the disk under
   fsync load, of the network (a received frame) under net load.
4. "Armed" ends where the kernel has finished the part of Go that runs beside programs, and may stop
   again. Only then does the next cycle begin: a drop of PWR_OK before that stays pending until
   then (invariant 9), so the longest flap takes as long as "armed" and a Stop together.

An installed server (lab/bench/server.py) is booted like a machine with caches. It has a TPM, which
answers in the host's time, of which the model knows nothing: what the loader has waited for it is
taken out of Go. The figure beside it is from the boot, by the host's clock.

The timeline's stamps are TSC values, which under icount are sums over all vCPUs: they show the
shares of a Stop's phases, not its duration.

With caches (a profile of machine/cache) an instruction takes a cycle, misses and write-backs take
what the model says, and a Stop has the write-back of all caches in it; figures that leave it out
have `without_flush` in their names. With a memory controller guest time itself follows the model.
The machine boots without caches, which is quicker.

Waiting for a device is not modelled: while all vCPUs are halted QEMU's clock jumps from timer to
timer as fast as the host can, so a request that takes the host 0.1 ms can take the guest several.
The fast path waits for no device; dpm, and first I/O, contain such waits.
"""

from __future__ import annotations

import bisect
import random
import statistics
import struct
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lab import format as fmt
from lab.bench.flushes import Flushes, flushes_of
from lab.bench.loads import Load, make_load
from lab.errors import RemError
from lab.isa import IsaName
from lab.machine.caches import controller_line_ns
from lab.machine.config import RISCV_CPU_BY_LINES, MachineConfig, StopModeName
from lab.machine.cut_points import stopped_address, stopped_outs
from lab.machine.machine import Machine
from lab.machine.plugin import (
    PluginControl,
    PluginSpec,
    Snapshot,
    ctl_path,
    elapsed_ns,
)
from lab.machine.plugin_clock import PluginClock, attach
from lab.machine.symbols import symbol_address
from lab.messages import info
from lab.power.discharge import read_samples
from lab.progress import step
from lab.record.block import Slot, decode, read_block
from lab.result import Result
from lab.setup.products import Kernel, Part, Plugin, need_all
from lab.testbed.machines import parts_of

# Far longer than any Stop: the bench only measures.
HOLD_UP_NS = 2_000_000_000
# Limits are in host time and generous, for a busy host: none is a measurement.
BOOT_LIMIT_S = 1200.0
# More CPUs boot very slowly when they take turns: they boot in parallel and stop by the host's
# clock first.
ICOUNT_BOOT_CPUS_MAX = 8
# With more CPUs that take turns, a guest on a busy host needs half an hour to answer, so its load
# is not checked.
ICOUNT_ANSWER_CPUS_MAX = 32
FREE_HOLD_UP_NS = 600_000_000_000
GO_LIMIT_S = 1200.0
FIRST_IO_LIMIT_S = 60.0
SETTLE_S = 3.0
ARMED_LIMIT_S = 600.0
ARMED_POLL_S = 0.005
# Host time from "armed" to the next Stop: enough for the load to run again.
PAUSE_MIN_S, PAUSE_MAX_S = 0.1, 0.6
# Kernel functions that handle the first completed request, by the load that always has one:
# the virtio-blk interrupt, and the delivery of a frame by a network driver.
FIRST_IO_SYMBOLS = {"fsync": "virtblk_done", "net": "napi_gro_receive"}
# The first function of a Stop, and the last of a Go: after it, the machine is armed.
STOP_SYMBOL, ARMED_SYMBOL = "rem_stop_begin", "rem_stop_end"
# Under icount vCPUs take turns; a vCPU with an interrupt may have to wait for a turn of each of the
# others, unlike on a real machine. Turns this short keep that below the figures' third digit.
QUANTUM_INSNS = 2_000
# Marks of the plugin: indices of the tuple of _spec(). The loader's entry is number 0.
STOP_MARK, ARMED_MARK, FIRST_IO_MARK = 1, 2, 3
FUNCTIONS_MAX = 8  # of each CPU in the worst Stop that are printed
PREFIX: dict[StopModeName, str] = {"fast": "", "dpm": "dpm_", "sng": "sng_"}
# Required of the fast path.
STOP_MAX_NS = 300_000  # without the write-back of caches
GO_MAX_NS = 3_000_000  # where caches are not modelled
ONE_WRITE_BACK_MAX = 1.1  # what all CPUs' write-backs take, over the longest of one


@dataclass(frozen=True)
class Parts:
    """What a machine is made of."""

    kernel: Path
    loader: Path
    root: Path
    plugin: Path
    isa: IsaName = "x86_64"

    @classmethod
    def ready(cls, kernel: Kernel | Path | None = None, isa: IsaName = "x86_64") -> Parts:
        """Set-up's products, with one of its kernels or another image."""
        own = parts_of(isa)
        wanted: list[Part[Any]] = [own.programs, own.loader, own.root, Plugin()]
        built = kernel or own.kernel
        wanted += [] if isinstance(built, Path) else [built]
        made = need_all(wanted)
        image = built if isinstance(built, Path) else made[built].bz_image
        return cls(image, made[own.loader], made[own.root], made[Plugin()], isa)

    @property
    def system_map(self) -> Path:
        """Is beside the kernel."""
        return self.kernel.parent / "System.map"


@dataclass(frozen=True)
class Plan:
    """What to measure. *stops* is for each load and each stop mode."""

    cpus: int
    stops: int
    loads: tuple[str, ...]
    modes: tuple[StopModeName, ...]
    parts: Parts
    seed: int = 1
    nvram_dir: Path | None = None
    cmdline: str = ""  # additional parameters of the kernel
    installed: bool = False  # a Debian, which says nothing on the console when it is up
    stop_max_ns: int = STOP_MAX_NS  # required of the fast path, without the write-back of caches
    go_max_ns: int = GO_MAX_NS
    caches: str | None = None  # a profile
    memory: str | None = None  # a controller behind them, which guest time follows
    changes: Mapping[str, Any] = field(default_factory=dict)  # of the machine's configuration
    first_io: Mapping[str, str] = field(default_factory=lambda: FIRST_IO_SYMBOLS)

    @property
    def model(self) -> str:
        """What gives the times."""
        memory = f", {self.memory}" if self.memory else ""
        return (self.caches or "flat-1ns") + memory


@dataclass(frozen=True)
class Sample:
    """One cycle."""

    load: str
    sequence: int
    stop_ns: int
    stop_edge_ns: int  # of stop_ns: until the kernel began the Stop
    stop_halted_ns: int  # of stop_ns: all vCPUs were halted
    stop_counts: tuple[int, ...]  # instructions of each vCPU in it
    go_ns: int  # without the TPM
    armed_ns: int
    first_io_ns: int | None
    timeline: tuple[tuple[int, str, int], ...]  # (sum of instructions since the edge, event, CPU)
    turns: tuple[tuple[int, int], ...]  # (CPU, address) where turns ended in the kernel
    flushes: Flushes | None = None  # with caches
    tpm_boot_ns: int = 0  # the loader waited for the TPM at the boot, by the host's clock

    @property
    def without_flush_ns(self) -> int:
        return self.stop_ns - (self.flushes.taken_ns if self.flushes else 0)


@dataclass
class Bench:
    """One machine, one stop mode."""

    machine: Machine
    control: PluginControl
    spec: PluginSpec
    mode: StopModeName
    rng: random.Random
    first_io: tuple[str, ...]  # loads, in the order of their marks
    samples: list[Sample] = field(default_factory=list)
    tpm_boot_ns: int = 0

    def cycle(self, load: str) -> Sample:
        """Run one Stop and one Go; return their sample."""
        time.sleep(self.rng.uniform(PAUSE_MIN_S, PAUSE_MAX_S))
        stop_ns, edge_ns, begin, end = self._stop()
        turns = tuple(self.control.turns())
        flushes = None
        config = self.machine.config
        # Line by line there is no instruction that begins it.
        if config.caches is not None and config.cpu != RISCV_CPU_BY_LINES:
            read = read_samples(self.machine.files.flushes)
            flushes = flushes_of(read, config.cpus, controller_line_ns(config))
        assert begin.halted_ns is not None
        assert end.halted_ns is not None
        tpm_ns, go_ns = 0, self._go()
        if config.tpm is not None:
            tpm_ns = self._tpm_ns()
        note = self.machine.boot_note()
        assert note is not None, "_go() has found one"
        stop = [event for event in self._slot(note.sequence).timeline if event.part == "stop"]
        return Sample(
            load=load,
            sequence=note.sequence,
            stop_ns=stop_ns,
            stop_edge_ns=edge_ns,
            stop_halted_ns=end.halted_ns - begin.halted_ns,
            stop_counts=tuple(b - a for a, b in zip(begin.count, end.count, strict=True)),
            go_ns=go_ns - tpm_ns,
            armed_ns=self._armed_ns(note.sequence) - tpm_ns,
            first_io_ns=self._first_io_ns(load),
            timeline=tuple((event.tsc - stop[0].tsc, event.type, event.cpu) for event in stop),
            turns=turns,
            flushes=flushes,
            tpm_boot_ns=self.tpm_boot_ns,
        )

    def _stop(self) -> tuple[int, int, Snapshot, Snapshot]:
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
        began = self.control.first(self.spec.pc_mark(STOP_MARK))
        if began is None:
            raise RemError(f"the machine stopped without {STOP_SYMBOL}()")
        return record.stopped_after_ns, elapsed_ns(begin, began), begin, end

    def _go(self) -> int:
        self.control.prepare()
        self.machine.resume()
        note = self.machine.wait_boot_note(GO_LIMIT_S)
        if not note.resumed:
            raise RemError(f"the loader did not resume after a committed Stop: {note.reason}")
        self._check_mode(note.sequence)
        user = self.control.wait_mark(self.spec.user_mark(), GO_LIMIT_S)
        return elapsed_ns(self._entered(), user)

    def _tpm_ns(self) -> int:
        """By the TSC, which under icount counts nanoseconds."""
        with self.machine.files.seen(self.machine.config).open("rb") as nvram:
            nvram.seek(fmt.CONST["REM_TRUST_OFFSET"])
            trust = fmt.parse("rem_trust", nvram.read(fmt.size_of("rem_trust")))
        if trust.state != fmt.VIEWS.rem_trust_state.REM_TRUST_ON:
            raise RemError("the TPM gave no key in this Go: its time is not known")
        return int(trust.tpm_ticks)

    def _slot(self, sequence: int) -> Slot:
        """As the machine sees it: what it has just stored may be in a cache, and not on media."""
        seen = self.machine.files.seen(self.machine.config)
        return decode(read_block(seen)).slots[sequence % int(fmt.CONST["REM_SLOTS"])]

    def _check_mode(self, sequence: int) -> None:
        """Raise RemError if the kernel fell back to the other stop mode."""
        body = self._slot(sequence).body
        took = body.stop_mode.lower() if body else "?"
        if took != self.mode:
            raise RemError(f"the kernel has stop={self.mode} and stopped by {took}")

    def _armed_ns(self, sequence: int) -> int:
        """Wait until the machine may stop again."""
        armed = self.control.wait_mark(self.spec.pc_mark(ARMED_MARK), ARMED_LIMIT_S)
        end_s = time.monotonic() + ARMED_LIMIT_S
        while all(event.type != "GO_DONE" for event in self._slot(sequence).timeline):
            if time.monotonic() > end_s:
                raise RemError(
                    f"Go has ended, and the kernel is not armed {ARMED_LIMIT_S:g} s later"
                )
            time.sleep(ARMED_POLL_S)
        return elapsed_ns(self._entered(), armed)

    def _first_io_ns(self, load: str) -> int | None:
        if load not in self.first_io:
            return None
        mark = self.spec.pc_mark(FIRST_IO_MARK + self.first_io.index(load))
        first_io = self.control.wait_mark(mark, FIRST_IO_LIMIT_S)
        return elapsed_ns(self._entered(), first_io)

    def _entered(self) -> Snapshot:
        entry = self.control.first(self.spec.pc_mark())
        if entry is None:
            raise RemError("programs run, but the loader's entry point was never reached")
        return entry


def busy_functions(system_map: Path, turns: tuple[tuple[int, int], ...]) -> dict[int, list[str]]:
    """Return for each CPU the functions in which turns ended, the most frequent ones first."""
    words = [line.split() for line in system_map.read_text(encoding="ascii").splitlines()]
    symbols = sorted((int(at, 16), name) for at, kind, name in words if kind in "tT")
    starts = [start for start, _ in symbols]
    seen: dict[int, Counter[str]] = {}
    for cpu, address in turns:
        index = bisect.bisect_right(starts, address) - 1
        seen.setdefault(cpu, Counter())[symbols[index][1] if index >= 0 else "?"] += 1
    return {
        cpu: [f"{name} {times}" for name, times in counts.most_common(FUNCTIONS_MAX)]
        for cpu, counts in sorted(seen.items())
    }


def entry_address(elf: Path) -> int:
    """Return the entry point of an ELF program, 32-bit or 64-bit."""
    header = elf.read_bytes()[:32]
    entry_form = {b"\x7fELF\x01": "<I", b"\x7fELF\x02": "<Q"}.get(header[:5])
    if entry_form is None:
        raise RemError(f"{elf} is not an ELF file: rebuild it with `./rem setup`")
    return int(struct.unpack_from(entry_form, header, 24)[0])


def _spec(plan: Plan) -> PluginSpec:
    symbols = (STOP_SYMBOL, ARMED_SYMBOL, *plan.first_io.values())
    return PluginSpec(
        plan.parts.plugin,
        cut=True,
        quantum=QUANTUM_INSNS,
        pcs=(
            entry_address(plan.parts.loader),
            *(symbol_address(plan.parts.system_map, name) for name in symbols),
        ),
        stopped=stopped_address(plan.parts.system_map, plan.parts.isa),
        outs=stopped_outs(plan.parts.isa),
        user=True,
    )


def _config(plan: Plan, mode: StopModeName, spec: PluginSpec) -> MachineConfig:
    name = f"bench-{mode}-{plan.cpus}"
    config = MachineConfig(
        name=name,
        kernel=plan.parts.kernel,
        isa=plan.parts.isa,
        loader=plan.parts.loader,
        root=plan.parts.root,
        cpus=plan.cpus,
        stop_mode=mode,
        cmdline_extra=f"nokaslr {plan.cmdline}".rstrip(),  # so that System.map is valid
        icount=True,
        plugin=spec.argument(ctl_path(name)),
        seed=plan.seed,
        nvram_dir=plan.nvram_dir,
        hold_up_ns=HOLD_UP_NS,
        caches=plan.caches,
        memory=plan.memory,
    )
    return replace(config, **plan.changes)


def measure(plan: Plan, mode: StopModeName) -> list[Sample]:
    """Boot one machine, run all loads on it."""
    spec = _spec(plan)
    config = _config(plan, mode, spec)
    first, tpm_boot_ns = config, 0
    if plan.cpus > ICOUNT_BOOT_CPUS_MAX or plan.caches is not None or plan.installed:
        first = replace(config, icount=False, plugin=None, caches=None, memory=None)
        first = replace(first, hold_up_ns=FREE_HOLD_UP_NS)
    with Machine.create(first, destroy_on_exit=True) as machine:
        control = attach(machine, spec) if first.icount else None
        with step(f"stop={mode}, {plan.cpus} CPUs: boot"):
            machine.boot()
            if control is not None:
                control.wait_ready()
            if plan.installed:
                tpm_boot_ns = _settled(machine)
            else:
                machine.wait_up(BOOT_LIMIT_S)
        samples: list[Sample] = []
        rng = random.Random(plan.seed)
        for name in plan.loads:
            with make_load(name, machine) as load:
                load.guest_answers = plan.cpus <= ICOUNT_ANSWER_CPUS_MAX
                if control is None:
                    control = _resume_under_icount(machine, config, spec)
                bench = Bench(machine, control, spec, mode, rng, tuple(plan.first_io), samples)
                bench.tpm_boot_ns = tpm_boot_ns
                _measure_load(bench, load, name, plan.stops)
        return samples


def _settled(machine: Machine) -> int:
    """Wait until systemd has started all; returns how long the loader has waited for the TPM, in
    nanoseconds."""
    machine.guest.wait_ssh(BOOT_LIMIT_S)
    command = "systemctl is-system-running --wait"
    state = machine.run_in_guest(command, check=False, limit_s=BOOT_LIMIT_S)
    if state.stdout.strip() != "running":
        failed = machine.run_in_guest("systemctl --failed --plain --no-legend").stdout
        units = ", ".join(line.split()[0] for line in failed.splitlines())
        raise RemError(f"systemd says of the server that it is {state.stdout.strip()}: {units}")
    words = machine.run_in_guest("cat /sys/kernel/remanence/trust").stdout.split()
    return int(words[words.index("tpm_us") + 1]) * 1000


def _resume_under_icount(
    machine: Machine, config: MachineConfig, spec: PluginSpec
) -> PluginControl:
    """Resume a machine that booted without icount under icount; measuring begins after that."""
    machine.guest.close()
    if not machine.cut().stopped:
        raise RemError(f"{config.cpus} CPUs did not stop in {FREE_HOLD_UP_NS / 1e9:g} s")
    machine.config = config
    control = attach(machine, spec)
    info(f"stop={config.stop_mode}, {config.cpus} CPUs: resuming under icount")
    machine.resume()
    control.wait_ready()
    note = machine.wait_boot_note(BOOT_LIMIT_S)
    if not note.resumed:
        raise RemError(f"the loader did not resume after a committed Stop: {note.reason}")
    machine.wait_go_done(note.sequence, BOOT_LIMIT_S)
    return control


def _measure_load(bench: Bench, load: Load, name: str, stops: int) -> None:
    time.sleep(SETTLE_S)
    load.check()
    with step(f"stop={bench.mode}, load {name}", stops, "Stops") as shown:
        for number in range(1, stops + 1):
            sample = bench.cycle(name)
            bench.samples.append(sample)
            shown.advance()
            info(
                f"  {name} {number}/{stops}: stop {sample.stop_ns:,} ns "
                f"(edge {sample.stop_edge_ns:,}, halted {sample.stop_halted_ns:,}), "
                f"go {sample.go_ns:,} ns, armed {sample.armed_ns:,} ns"
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
    add("stop_edge_max_ns", max(s.stop_edge_ns for s in samples))
    add("go_max_ns", max(goes))
    add("go_p50_ns", _median(goes))
    if any(s.tpm_boot_ns for s in samples):
        result.add(f"{prefix}tpm_ns", max(s.tpm_boot_ns for s in samples), "ns", "native")
    add("go_armed_max_ns", max(s.armed_ns for s in samples))
    first_io = [s.first_io_ns for s in samples if s.first_io_ns is not None]
    if first_io:
        add("go_first_io_ns", max(first_io))
    for load in dict.fromkeys(s.load for s in samples):
        add(f"stop_{load}_max_ns", max(s.stop_ns for s in samples if s.load == load))
    flushes = [s.flushes for s in samples if s.flushes is not None]
    if flushes:
        add("stop_without_flush_max_ns", max(s.without_flush_ns for s in samples))
        add("flush_max_ns", max(flush.taken_ns for flush in flushes))
        add("write_back_max_ns", max(flush.longest_ns for flush in flushes))
        worst = max(flush.vs_one for flush in flushes)
        result.add(prefix + "flush_vs_one_write_back", round(worst, 3), "x", "modelled")
    result.add(prefix + "stops", len(samples), "stops", "counted")


def required(plan: Plan, samples: list[Sample]) -> list[str]:
    """Return what Stops and Goes of the fast path miss, in words."""
    missed = []
    longest_ns = max(sample.without_flush_ns for sample in samples)
    if longest_ns > plan.stop_max_ns:
        missed.append(f"a Stop took {longest_ns:,} ns, at most {plan.stop_max_ns:,} are required")
    longest_ns = max((sample.go_ns for sample in samples if sample.flushes is None), default=0)
    if longest_ns > plan.go_max_ns:
        missed.append(f"a Go took {longest_ns:,} ns, at most {plan.go_max_ns:,} are required")
    worst = max((sample.flushes.vs_one for sample in samples if sample.flushes), default=0.0)
    if worst > ONE_WRITE_BACK_MAX:
        missed.append(
            f"the write-back took {worst:.2f} of one CPU's,"
            f" at most {ONE_WRITE_BACK_MAX} is required"
        )
    return missed


def _print_worst(plan: Plan, mode: StopModeName, samples: list[Sample]) -> None:
    worst = max(samples, key=lambda sample: sample.stop_ns)
    info(f"worst Stop, stop={mode}: {worst.stop_ns:,} ns under {worst.load} load")
    counts = ", ".join(f"{count:,}" for count in worst.stop_counts)
    info(f"  instructions of each CPU: {counts}; all halted for {worst.stop_halted_ns:,} ns")
    info(f"  until the kernel began it: {worst.stop_edge_ns:,} ns")
    info("  from there on, in instructions of all CPUs together:")
    for at, event, cpu in worst.timeline:
        info(f"  {at:>12,}  {event}  CPU {cpu}")
    info(f"  where its first turns of {QUANTUM_INSNS:,} instructions ended in the kernel:")
    for cpu, names in busy_functions(plan.parts.system_map, worst.turns).items():
        info(f"  CPU {cpu}: {', '.join(names)}")


def run(plan: Plan) -> Result:
    """Run the plan; not ok if the fast path misses what is required."""
    result = Result(f"stop-go-{'server-' if plan.installed else ''}{plan.cpus}")
    for mode in plan.modes:
        samples = measure(plan, mode)
        add_figures(result, mode, samples)
        _print_worst(plan, mode, samples)
        if mode == "fast":
            missed = required(plan, samples)
            for line in missed:
                info(line)
            result.ok = result.ok and not missed
    result.add("model", plan.model, "", "modelled")
    return result
