# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem demo`: boot from NVRAM, load, cut the power, resume, check every promise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from lab.command_line.options import JsonOption, takes
from lab.errors import Exit, UsageError
from lab.isa import ISA_NAMES, IsaName
from lab.machine.config import STOP_MODES, StopModeName
from lab.messages import info

if TYPE_CHECKING:
    from lab.demo.story import Plan

CLIENTS_MAX = 64
KINDS = ("stop-go", "pm", "off2f", "vm", "keep", "cluster", "server")


@dataclass(frozen=True)
class DemoWords:
    """The command line as typed."""

    what: Annotated[
        str,
        typer.Argument(
            help="stop-go; pm: persistent memory; off2f: text in NVRAM; vm: guests of a host; "
            "keep: single programs; cluster: replicated services; server: a Debian that was "
            "installed."
        ),
    ] = "stop-go"
    name: Annotated[str, typer.Option(help="The machine to make.", metavar="NAME")] = "demo"
    cpus: Annotated[int, typer.Option(help="Number of CPUs.")] = 4
    arch: Annotated[str, typer.Option(help=f"{' or '.join(ISA_NAMES)}.", metavar="ISA")] = "x86_64"
    stop: Annotated[str | None, typer.Option(help="How to stop: fast, dpm or sng.")] = None
    writes: Annotated[int, typer.Option(help="Acknowledged writes before the cut, at least.")] = (
        10_000
    )
    clients: Annotated[int, typer.Option(help="Clients of each server.")] = 4
    off: Annotated[float, typer.Option(help="Seconds without power.")] = 3.0
    kernel: Annotated[Path | None, typer.Option(help="Another kernel.", metavar="FILE")] = None
    page: Annotated[Path | None, typer.Option(help="Where to write the page.", metavar="FILE")] = (
        None
    )
    picture: Annotated[
        Path | None,
        typer.Option(help="Draw the timeline, as .svg, .png or .pdf.", metavar="FILE"),
    ] = None
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the machine, stopped, for `rem resume`.")
    ] = False
    caches: Annotated[
        str,
        typer.Option(help="Volatile CPU caches: a profile, auto, or off.", metavar="PROFILE"),
    ] = "auto"
    no_flush: Annotated[
        str | None,
        typer.Option(
            "--no-flush",
            help="Disable Stop's flushes: all but those of its record (data), or all (all). "
            "Exit 0 only if both checks detect the loss. Needs --caches.",
            metavar="WHICH",
        ),
    ] = None
    as_json: JsonOption = False


@dataclass(frozen=True)
class DemoPlan:
    """The demonstration of Stop and Go, checked; nothing has been built yet."""

    name: str
    cpus: int
    isa: IsaName
    stop_mode: StopModeName | None
    kernel: Path | None
    caches: str | None
    story: Plan
    page: Path
    picture: Path | None
    keep: bool


def check(words: DemoWords) -> DemoPlan:
    """A plan that can be carried out, or UsageError."""
    if not 1 <= words.clients <= CLIENTS_MAX or words.writes < 1 or words.off < 0:
        raise UsageError(f"--clients is 1 to {CLIENTS_MAX}, --writes 1 or more, --off 0 or more")
    if words.stop not in {None, *STOP_MODES}:
        raise UsageError(f"--stop {words.stop}: choose one of {', '.join(STOP_MODES)}")
    from lab.demo.story import Plan
    from lab.machine.caches import NO_FLUSH, check_profile
    from lab.paths import state_dir
    from lab.testbed.workload import Size

    if words.arch not in ISA_NAMES:
        raise UsageError(f"--arch {words.arch}: choose one of {', '.join(ISA_NAMES)}")
    profile = check_profile(words.caches)
    if words.caches == "auto" and words.kernel is not None:
        profile = None  # its System.map, which the plugin needs, may be anywhere
    if words.no_flush is not None and (profile is None or words.no_flush not in NO_FLUSH):
        known = ", ".join(NO_FLUSH)
        raise UsageError(f"--no-flush {words.no_flush}: choose {known}, and give --caches PROFILE")
    if words.picture is not None:
        from lab.report.timeline_picture import check_format

        check_format(words.picture)
    plan = Plan(words.writes, words.off, size=Size(words.clients), no_flush=words.no_flush)
    return DemoPlan(
        name=words.name,
        cpus=words.cpus,
        isa=cast(IsaName, words.arch),
        stop_mode=cast(StopModeName | None, words.stop),
        kernel=words.kernel,
        caches=profile,
        story=plan,
        picture=words.picture,
        page=words.page or state_dir() / "demo" / f"{words.name}-{plan.kind}.html",
        keep=words.keep,
    )


def _stop_go(plan: DemoPlan, print_line: Callable[[str], None], as_json: bool) -> bool:
    from lab.demo.outcome import Outcome
    from lab.demo.run import draw_picture, end, leave, play, write_page
    from lab.machine import Machine
    from lab.setup.need import ready_after_s
    from lab.testbed.machines import make_config

    config = make_config(
        plan.name, plan.cpus, plan.stop_mode, plan.kernel, plan.caches, isa=plan.isa
    )
    outcome = Outcome(print_line)
    outcome.result.add("setup_s", round(ready_after_s(), 1), "s", "native")
    with Machine.create(config, destroy_on_exit=not plan.keep) as machine:
        play(machine, plan.story, outcome)
        if plan.keep:
            leave(machine)
    end(outcome)
    write_page(outcome, plan.page)
    if plan.picture is not None:
        draw_picture(outcome, plan.picture)
    if as_json:
        outcome.result.emit()
    return outcome.result.ok


def _in_one_machine(words: DemoWords, print_line: Callable[[str], None]) -> bool:
    from lab.demo import cluster, keep, off2f, pm, server, vm

    plays = {
        "pm": pm.play,
        "off2f": off2f.play,
        "vm": vm.play,
        "keep": keep.play,
        "cluster": cluster.play,
        "server": server.play,
    }
    result = plays[words.what](words.name, print_line)
    if words.as_json:
        result.emit()
    return result.ok


@takes(DemoWords)
def demo_command(words: DemoWords) -> int:
    """Show that nothing is lost when the power fails.

    A machine boots from NVRAM only. redis and memcached serve clients on this host, a file is
    written with fsync, programs compute. PWR_OK drops, the machine stops, its QEMU is killed. A
    new process resumes it; the same connections continue; every acknowledged write is read back.
    Exit 0 only if every promise was kept.

    `rem demo pm`: a file system, a database and a program's pointers in persistent memory
    survive a reboot, a panic and a power cut without Stop. `rem demo off2f`: redis-server,
    sqlite3, busybox and cc1 run with their text in NVRAM, beside the ELFs, and again after a
    reset and a power cut. `rem demo vm`: an unmodified guest goes on after its host lost its
    power (`rem-vm`). `rem demo cluster`: three such guests run redis with sentinels, and etcd;
    members return after cuts of one, of the leader, of two and of all, after power that flaps and
    with clocks that jump, and none answers before it has heard from the others. `rem demo
    server`: a Debian with systemd that boots from its disk by UEFI, with PostgreSQL on an
    encrypted disk, a container and nginx; an image that somebody has forged is refused. Only
    --name and --json apply to these.
    """
    if words.what not in KINDS:
        raise UsageError(f"rem demo {words.what}: choose {', '.join(KINDS)}")
    print_line = info if words.as_json else lambda line: print(line, flush=True)
    if words.what == "stop-go":
        ok = _stop_go(check(words), print_line, words.as_json)
    else:
        ok = _in_one_machine(words, print_line)
    return Exit.PASS if ok else Exit.BROKEN


def register(app: typer.Typer) -> None:
    app.command("demo")(demo_command)
