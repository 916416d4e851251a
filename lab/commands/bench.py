# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem bench`: measurements."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from lab.command_line.options import JsonOption, takes
from lab.errors import Exit, InfraError, UsageError
from lab.isa import ISA_NAMES, IsaName
from lab.machine.caches import AUTO, OFF
from lab.machine.config import StopModeName
from lab.messages import info
from lab.quantities import parse_bytes
from lab.result import Result

if TYPE_CHECKING:
    from lab.bench import rfa as cache_bench
    from lab.bench import rfa_fsync as fsync_bench
    from lab.bench import rfa_whole as whole_bench

LOADS = ("idle", "fsync", "net", "compile")
MODES: dict[str, tuple[StopModeName, ...]] = {
    "fast": ("fast",),
    "dpm": ("dpm",),
    "sng": ("sng",),
    "both": ("fast", "dpm"),
}

bench = typer.Typer(
    help="Measure a machine.", no_args_is_help=True, rich_markup_mode=None, add_completion=False
)


def checked_loads(text: str) -> tuple[str, ...]:
    if text == "all":
        return LOADS
    names = tuple(text.split(","))
    for name in names:
        if name not in LOADS:
            raise UsageError(f"--load {name}: give all, or some of {', '.join(LOADS)}")
    return names


def _show(result: Result, as_json: bool) -> int:
    width = max(24, *(len(name) for name in result.figures))
    for name, figure in result.figures.items():
        value = f"{figure.value:,}" if isinstance(figure.value, int | float) else figure.value
        info(f"{name:{width}} {value:>14} {figure.unit:5} {figure.kind}")
    if as_json:
        result.emit()
    return Exit.PASS if result.ok else Exit.BROKEN


@bench.command("pm")
def pm(
    rows: Annotated[int, typer.Option(help="Rows of the database.", min=1)] = 2000,
    as_json: JsonOption = False,
) -> int:
    """Count what persistent memory costs: disks on it, a database on them, segments."""
    from lab.bench.pm import Plan, run

    return _show(run(Plan(rows=rows), info), as_json)


@bench.command("off2f")
def off2f(
    runs: Annotated[int, typer.Option(help="Runs of each kind and size.", min=1)] = 3,
    largest: Annotated[
        str, typer.Option(help="Largest text: 128K to 64M.", metavar="SIZE")
    ] = "64M",
    as_json: JsonOption = False,
) -> int:
    """Compare starts of OFF2F programs with ELF on disk, in page cache and on ext4-DAX.

    From exec to exit, in guest instructions and counted reads of the disk. Not ok if a required
    ratio is missed.
    """
    from lab.bench import off2f as bench_off2f

    limit = parse_bytes(largest, "--largest")
    sizes = [size for size in bench_off2f.Plan().sizes if size <= limit]
    if not sizes:
        raise UsageError(f"--largest {largest}: the smallest text is 32K")
    result, missed = bench_off2f.run(bench_off2f.Plan(sizes=tuple(sizes), runs=runs), info)
    for line in missed:
        info(line)
    return _show(result, as_json)


@dataclass(frozen=True)
class StopGoWords:
    """The command line of `rem bench stop-go` as typed."""

    cpus: Annotated[int, typer.Option(help="Number of CPUs.", min=1, max=32)] = 4
    arch: Annotated[str, typer.Option(help=f"{' or '.join(ISA_NAMES)}.", metavar="ISA")] = "x86_64"
    stops: Annotated[int, typer.Option(help="Stops for each load and mode.", min=1)] = 50
    machine: Annotated[
        str,
        typer.Option(help="lab, the laboratory's own guest, or server, an installed Debian."),
    ] = "lab"
    load: Annotated[str, typer.Option(help="idle, fsync, net, compile, some, or all.")] = "all"
    stop: Annotated[
        str, typer.Option(help="How to stop: fast, dpm, sng, or both of the first.")
    ] = "both"
    seed: Annotated[int, typer.Option(help="Chooses the moments of the Stops.")] = 1
    kernel: Annotated[
        Path | None, typer.Option(help="Another bzImage, with System.map beside it.")
    ] = None
    nvram_dir: Annotated[
        Path | None, typer.Option(help="Folder of the NVRAM file, e.g. /dev/shm.")
    ] = None
    cmdline: Annotated[str, typer.Option(help="More parameters for the kernel.")] = ""
    caches: Annotated[
        str, typer.Option(help="Model volatile CPU caches: a profile, or off.", metavar="PROFILE")
    ] = "off"
    memory: Annotated[
        str | None,
        typer.Option(help="Model a memory controller behind them, as --memory of run does."),
    ] = None
    busy: Annotated[
        int, typer.Option(help="Processes that keep the host busy meanwhile.", min=0)
    ] = 0
    as_json: JsonOption = False


@bench.command("stop-go")
@takes(StopGoWords)
def stop_go(words: StopGoWords) -> int:
    """Measure Stop and Go in guest time (clock flat-1ns, or caches), under several loads.

    Stop: from the edge of PWR_OK to the end of the flush of the commit. Go: from the loader's entry
    to the first instruction of a program. Not ok if a Stop of the fast path takes over 300 us
    without the write-back of caches, or that more than 1.1 of one CPU's. The host's load average
    is printed beside them.

    `--machine server`: Debian with systemd and the kernel of our packages, idle; at most 1 ms, and
    100 ms for Go without the time of the TPM.
    """
    from lab.machine.caches import check_profile

    if words.machine not in ("lab", "server"):
        raise UsageError(f"--machine {words.machine}: give lab or server")
    if words.arch not in ISA_NAMES:
        raise UsageError(f"--arch {words.arch}: give one of {', '.join(ISA_NAMES)}")
    is_server = words.machine == "server"
    if is_server and words.arch != "x86_64":
        raise UsageError(f"--machine server: not with --arch {words.arch}")
    if is_server and words.kernel is not None:
        raise UsageError("--machine server: its kernel is that of our packages, not --kernel")
    loads = ("idle",) if is_server and words.load == "all" else checked_loads(words.load)
    if words.arch != "x86_64" and words.load == "all":
        loads = tuple(load for load in loads if load != "compile")  # its guest has no compiler
    if is_server and loads != ("idle",):
        raise UsageError("--machine server: only --load idle, as it has no programs of ours")
    needs_caches = words.memory is not None and words.caches == OFF
    caches = check_profile(AUTO if needs_caches else words.caches, words.memory)
    if words.stop not in MODES:
        raise UsageError(f"--stop {words.stop}: give fast, dpm, sng or both")
    from lab.bench.host_load import host_load
    from lab.bench.server import server_plan
    from lab.bench.stop_go import Parts, Plan, run

    plan = Plan(
        cpus=words.cpus,
        stops=words.stops,
        loads=loads,
        modes=MODES[words.stop],
        parts=Parts.ready(words.kernel, cast(IsaName, words.arch)),
        seed=words.seed,
        nvram_dir=words.nvram_dir,
        cmdline=words.cmdline,
        caches=caches,
        memory=words.memory,
    )
    with ExitStack() as stack:
        if is_server:
            plan = stack.enter_context(server_plan(plan))
        load = stack.enter_context(host_load(words.busy))
        result = run(plan)
    load.add_to(result)
    return _show(result, words.as_json)


@bench.command("drivers")
def drivers(
    devices: Annotated[
        str, typer.Option(help="All, or some, by commas: virtio-blk, nvme, ahci, e1000e, ...")
    ] = "all",
    stops: Annotated[int, typer.Option(help="Stops of each.", min=1)] = 5,
    as_json: JsonOption = False,
) -> int:
    """Measure Stop, Go and the first request with each disk and network device that has a driver.

    Times are those of `stop-go`. Not ok if a Stop of the fast path takes over 300 us. The run ends
    if a program of the load does.
    """
    from lab.bench.drivers import DEVICES, DriversPlan, run

    names = some_of("--devices", devices, tuple(DEVICES))
    return _show(run(DriversPlan(devices=names, stops=stops)), as_json)


FAST_PATH_KERNELS = ("patched", "unpatched", "debian", "debian_preempt", "debian_unmitigated")


def some_of(option: str, text: str, known: Sequence[str]) -> tuple[str, ...]:
    """The names in a list that a user typed, or `all`; each once."""
    if text == "all":
        return tuple(known)
    names = tuple(dict.fromkeys(text.split(",")))
    for name in names:
        if name not in known:
            raise UsageError(f"{option} {name}: give all, or some of {', '.join(known)}")
    return names


def checked_kernels(text: str) -> tuple[str, ...]:
    return some_of("--kernels", text, FAST_PATH_KERNELS)


@bench.command("fast-path")
def fast_path(
    kernels: Annotated[
        str, typer.Option(help=f"All, or some of {', '.join(FAST_PATH_KERNELS)}.")
    ] = "all",
    repeats: Annotated[int, typer.Option(help="Runs of each loop.", min=4)] = 15,
    as_json: JsonOption = False,
) -> int:
    """Count what a system call and a page fault take, with and without our patches.

    Instructions of one iteration, user's and kernel's, compared with kernels that are built or
    fetched at the first use: the same without our patches, and Debian's of the same version. Not
    ok if our patches make one of them longer.
    """
    names = checked_kernels(kernels)
    from lab.bench.fast_path import make_plan, run_bench

    return _show(run_bench(make_plan(names, repeats)), as_json)


# The range is a multiple of a memory block; a dump fits the emulated machine's DRAM.
KEEP_UNIT_BYTES, KEEP_MAX_BYTES = 256 << 20, 1 << 30


@bench.command("vm")
def vm(
    ram: Annotated[str, typer.Option(help="The guest's memory.", metavar="SIZE")] = "4G",
    rounds: Annotated[int, typer.Option(help="Interleaved rounds.", min=1)] = 5,
    as_json: JsonOption = False,
) -> int:
    """Measure what `rem-vm` takes to save a guest, beside QEMU's snapshot and migration to a file.

    Not ok if a snapshot is less than ten times slower.
    """
    ram_bytes = parse_bytes(ram, "--ram")
    if ram_bytes < 1 << 30:
        raise UsageError(f"--ram {ram}: give 1G at least")
    from lab.bench.vm import Plan, run_bench

    return _show(run_bench(Plan(ram_bytes, rounds), info), as_json)


@bench.command("keep")
def keep(
    ram: Annotated[str, typer.Option(help="The program's memory.", metavar="SIZE")] = "1G",
    rounds: Annotated[int, typer.Option(help="Interleaved rounds.", min=1)] = 3,
    as_json: JsonOption = False,
) -> int:
    """Measure what `rem-keep` takes to save a program, beside CRIU's dumps of it.

    Not ok if CRIU's dump into memory is less than ten times slower.
    """
    ram_bytes = parse_bytes(ram, "--ram")
    if not KEEP_UNIT_BYTES <= ram_bytes <= KEEP_MAX_BYTES or ram_bytes % KEEP_UNIT_BYTES:
        raise UsageError(f"--ram {ram}: give 256M to 1G, in steps of 256M")
    from lab.bench.keep import Plan, run_bench

    return _show(run_bench(Plan(ram_bytes, rounds), info), as_json)


MACHINE_LOADS = ("redis", "sqlite", "gcc")
# The model must not be slower than this.
SLOWDOWN_MAX = 2.5
MEMORY_SLOWDOWN_MAX = 3.0  # with a memory controller, over caches only


@dataclass(frozen=True)
class MachineWords:
    """The command line as typed."""

    caches: Annotated[
        str,
        typer.Option(
            help="Profile of the volatile caches; auto: wsp-c5528, or lightpc with --memory.",
            metavar="PROFILE",
        ),
    ] = AUTO
    memory: Annotated[
        str | None,
        typer.Option(help="One more machine, with this memory controller.", metavar="NAME"),
    ] = None
    insns: Annotated[
        float, typer.Option(help="Busy instructions in all, on each machine.", min=3e9)
    ] = 1e10
    rounds: Annotated[int, typer.Option(help="Interleaved rounds of each load.", min=1)] = 3
    load: Annotated[str, typer.Option(help=f"{', '.join(MACHINE_LOADS)}, some, or all.")] = "all"
    contrib: Annotated[
        str,
        typer.Option(
            help="QEMU's own cache plugin, to compare with: auto (fetched and built), off, or a"
            " file.",
            metavar="SO",
        ),
    ] = "auto"
    as_json: JsonOption = False


@bench.command("machine")
@takes(MachineWords)
def machine(words: MachineWords) -> int:
    """Measure how much slower the guest is with volatile caches than without, both under icount.

    Not ok if the worst load is more than 2.5 times slower; or, with a memory controller, more than
    3 times slower than with caches only.
    """
    names = MACHINE_LOADS if words.load == "all" else tuple(words.load.split(","))
    for name in names:
        if name not in MACHINE_LOADS:
            raise UsageError(f"--load {name}: give all, or some of {', '.join(MACHINE_LOADS)}")
    from lab.bench.machine import Plan, run_bench
    from lab.machine.caches import check_profile
    from lab.setup.products import Kernel, Loader, Plugin, Root, need
    from lab.testbed.machines import fast_dir

    profile = check_profile(words.caches, words.memory)
    if profile is None:
        raise UsageError("--caches off: there is nothing to measure")
    kernel, loader, root, plugin = need(Kernel(), Loader(), Root(), Plugin())
    plan = Plan(
        kernel=kernel.bz_image,
        loader=loader,
        root=root,
        plugin=plugin,
        profile=profile,
        loads=names,
        insns=int(words.insns),
        rounds=words.rounds,
        nvram_dir=fast_dir(),
        memory=words.memory,
        contrib=_contrib(words.contrib),
    )
    result = run_bench(plan)
    slowdown = result.figures["slowdown_vs_bare"].value
    assert isinstance(slowdown, float)
    result.ok = slowdown <= SLOWDOWN_MAX
    if words.memory is not None:
        slower = result.figures["slowdown_vs_caches"].value
        assert isinstance(slower, float)
        result.ok &= slower <= MEMORY_SLOWDOWN_MAX
    return _show(result, words.as_json)


def _contrib(text: str) -> Path | None:
    """QEMU's cache plugin. Without its source the comparison is left out."""
    from lab.setup.contrib_plugin import ContribPlugin
    from lab.setup.products import need

    if text == "off":
        return None
    if text != "auto":
        return Path(text)
    try:
        return need(ContribPlugin())
    except InfraError as error:
        info(f"rem: no comparison with QEMU's cache plugin: {error.message}")
        return None


def checked_ways(text: str) -> tuple[str, ...]:
    from lab.bench.persist_ways import WAYS

    return some_of("--ways", text, tuple(WAYS))


@bench.command("persist")
def persist(
    ways: Annotated[
        str,
        typer.Option(
            help="All, or some of ours, sng, fof, syspc, acheckpc, scheckpc, heap, block, dax."
        ),
    ] = "all",
    memory: Annotated[
        str, typer.Option(help="The memory's controller, as --memory of run.")
    ] = "ocpmem",
    steps: Annotated[
        int, typer.Option(help="Steps of the program, a multiple of 16; 355,000 take 1 s.", min=16)
    ] = 928_000,
    seed: Annotated[int, typer.Option(help="Chooses the moment of the power failure.")] = 1,
    as_json: JsonOption = False,
) -> int:
    """Compare ways to survive a power failure: one program, one failure, the same memory.

    Time and energy over the same program without a failure, by the model of cores and memory. Not
    ok if a way fails or ends with another result, or if Stop and Go cost more than 1 % where power
    fails each 5 minutes.
    """
    from lab.bench.persist import Plan, run
    from lab.machine.memories import check_memory

    if steps % 16:
        raise UsageError(f"--steps {steps}: give a multiple of 16")
    check_memory(memory)
    plan = Plan(checked_ways(ways), memory, steps, seed)
    return _show(run(plan, info), as_json)


@dataclass(frozen=True)
class RfaWords:
    """The command line of `rem bench rfa` as typed."""

    part: Annotated[
        str,
        typer.Option(
            help="fsync, cache (DRAM as a cache of NVRAM), whole (both, beside DRAM only), or all."
        ),
    ] = "all"
    size: Annotated[
        str, typer.Option(help="ci, which is short, or full: how long programs with fsync run.")
    ] = "full"
    fsync_programs: Annotated[
        str,
        typer.Option(
            help="All, or some of fileio, sqlite_wal, sqlite_delete, postgres, mail.",
            metavar="PROGRAMS",
        ),
    ] = "all"
    fsync_memories: Annotated[
        str, typer.Option(help="Main memories, as --memory of run.", metavar="MEMORIES")
    ] = "dram,optane,ocpmem"
    fsync_journal: Annotated[
        str, typer.Option(help="Of the ext4: default, or fast-commit.", metavar="JOURNAL")
    ] = "default"
    programs: Annotated[
        str, typer.Option(help="Of the cache's: all, or some of redis, make, sysbench, postgres.")
    ] = "all"
    whole_programs: Annotated[
        str,
        typer.Option(
            help="Of the whole: all, or some of redis, postgres, sqlite_wal, make.",
            metavar="PROGRAMS",
        ),
    ] = "all"
    memory: Annotated[str, typer.Option(help="NVRAM behind the cache, as --memory of run.")] = (
        "optane"
    )
    caches: Annotated[str, typer.Option(help="Profile of the CPU's caches.")] = "lightpc"
    percents: Annotated[
        str, typer.Option(help="DRAM as the cache, in per cent of the program's resident set.")
    ] = "1,5,10,25"
    rules: Annotated[
        str,
        typer.Option(
            help="What chooses the pages in DRAM: some of heat, data, numa, nomad, generations,"
            " damon, or all."
        ),
    ] = "heat"
    rest: Annotated[
        bool, typer.Option("--rest", help="Whose reads still go to NVRAM, with DRAM as the cache.")
    ] = False
    as_json: JsonOption = False


@bench.command("rfa")
@takes(RfaWords)
def rfa(words: RfaWords) -> int:
    """Measure what recommendations 3 and 4 of The Age of Core Memory gain.

    fsync that ends in memory: programs with it, without it, and with a libeatmydata that lets fsync
    do nothing, on a modelled SSD. Not ok if one gains less than 5 times, or reaches less than 90 %
    of libeatmydata, if a Stop may outlast the supply, or a fast path costs an instruction with all
    of it off (as kept of `rem bench fast-path`).

    DRAM as a cache: not ok if with 25 % of the resident set redis or make wins back less than 80 %
    of the difference between NVRAM and DRAM, by the kernel's own rule. Memory Mode of the same size
    stands beside, and other rules if --rules names them.

    The whole: time and energy of programs on DRAM only, on NVRAM, and on NVRAM with one of the
    recommendations, and with both. All times are modelled.
    """
    from lab.bench import rfa as cache
    from lab.bench import rfa_fsync as fsync
    from lab.bench import rfa_whole as whole

    parts = some_of("--part", words.part, ("fsync", "cache", "whole"))
    fsync_plan, cache_plan, whole_plan = rfa_plans(words)
    result = Result("rfa")
    if "fsync" in parts:
        fsync.run(fsync_plan, result, info)
    if "cache" in parts:
        cache.run(cache_plan, result, info)
    if "whole" in parts:
        whole.run(whole_plan, result, info)
    return _show(result, words.as_json)


def rfa_plans(words: RfaWords) -> tuple[fsync_bench.Plan, cache_bench.Plan, whole_bench.Plan]:
    """The words, checked, as plans of the parts."""
    from lab.bench import rfa as cache
    from lab.bench import rfa_fsync as fsync
    from lab.bench import rfa_whole as whole
    from lab.machine.memories import check_memory

    if words.size not in fsync.SIZES:
        raise UsageError(f"--size {words.size}: give {' or '.join(fsync.SIZES)}")
    memories = tuple(dict.fromkeys(map(check_memory, words.fsync_memories.split(","))))
    names = some_of("--fsync-programs", words.fsync_programs, tuple(fsync.PROGRAMS))
    if words.fsync_journal not in fsync.JOURNALS:
        raise UsageError(
            f"--fsync-journal {words.fsync_journal}: give {' or '.join(fsync.JOURNALS)}"
        )
    fsync_plan = fsync.Plan(
        names,
        memories,
        words.caches,
        journal=words.fsync_journal,
        **fsync.SIZES[words.size],
    )
    check_memory(words.memory)
    percents = tuple(_percent(text) for text in words.percents.split(","))
    programs = some_of("--programs", words.programs, tuple(cache.PROGRAMS))
    rules = some_of("--rules", words.rules, tuple(cache.RULES))
    cache_plan = cache.Plan(programs, words.memory, words.caches, percents, rules, words.rest)
    names = some_of("--whole-programs", words.whole_programs, tuple(whole.LOADS))
    whole_plan = whole.Plan(names, words.memory, words.caches, fsync_plan.seconds)
    return fsync_plan, cache_plan, whole_plan


def _percent(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 100:
        raise UsageError(f"--percents {text}: give whole numbers from 1 to 100")
    return int(text)


@bench.command("media")
def media(
    requests: Annotated[
        int | None,
        typer.Option(help="Random requests: 100,000,000 over 4 GiB, or 1,000,000 of --rtl.", min=1),
    ] = None,
    trace: Annotated[
        Path | None, typer.Option(help="Another trace than redis's; replayed as often as needed.")
    ] = None,
    rtl: Annotated[
        bool,
        typer.Option("--rtl", help="Compare the controller in RTL with its model instead."),
    ] = False,
    peer: Annotated[
        bool,
        typer.Option("--peer", help="Compare the model of DRAM with DRAMsim3 instead."),
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """Measure the memory controller's model: its speed beside DRAMsim3's, and lifetimes.

    With --rtl: content and cycles of each request, coverage, area. A --trace is then served once,
    as fast as it can be. Not ok if content differs, a cycle is not explained, or times by over 3%.
    With --peer: bandwidth, latency and rows opened of both for the same requests, in percent of the
    peer. Not ok if one is further apart than its case explains.
    """
    if rtl and peer:
        raise UsageError("--rtl and --peer compare different things: give one of them")
    if peer:
        if requests is not None:
            raise UsageError("--requests: the cases of --peer have their own numbers")
        from lab.bench import media_peer
        from lab.setup.media_peer import MediaPeer
        from lab.setup.products import need

        return _show(media_peer.run(need(MediaPeer()), trace), as_json)
    if rtl:
        from lab.bench import rtl as bench_rtl

        return _show(bench_rtl.run(requests or bench_rtl.REQUESTS, trace), as_json)
    from lab.bench.media import REQUESTS, run

    return _show(run(requests or REQUESTS, trace), as_json)


@bench.command("heap")
def heap(
    rounds: Annotated[int, typer.Option(help="Rounds of the interleaved operations.", min=5)] = 300,
    objects: Annotated[
        int, typer.Option(help="Objects of the region whose opening is timed.", min=1000)
    ] = 10_000_000,
    figure5: Annotated[
        bool, typer.Option("--figure5", help="Figure 5 of the WSP paper instead.")
    ] = False,
    operations: Annotated[
        int, typer.Option(help="Operations of each point of --figure5.", min=1000)
    ] = 1_000_000,
    as_json: JsonOption = False,
) -> int:
    """Measure the persistent heap beside libpmemobj, natively and interleaved.

    The measured binary runs the heap's crash tests first. Ratios come with their spread. Not ok
    if a required ratio is missed; on a busy machine that may be the machine's fault.
    """
    from lab.bench import heap as heap_bench
    from lab.setup.heap import HeapWithPeer
    from lab.setup.products import need

    built = need(HeapWithPeer())
    if figure5:
        return _show(heap_bench.figure5(built, operations), as_json)
    result, missed, accepted = heap_bench.ops(built, rounds, objects)
    for line in missed:
        info(line)
    for line in accepted:
        info(f"accepted deviation: {line}")
    return _show(result, as_json)


def register(app: typer.Typer) -> None:
    app.add_typer(bench, name="bench")
