# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem demo`: boot from NVRAM, load, cut the power, resume, check every promise."""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from lab.errors import Exit, UsageError
from lab.machine.options import JsonOption
from lab.say import say

if TYPE_CHECKING:
    from lab.machine import MachineConfig

NVRAM_BYTES = 1 << 30
# Every page of the NVRAM file gets written: in memory where there is room, else in the state.
FAST_DIR = Path("/dev/shm")
CLIENTS_MAX = 64


def fast_dir() -> Path | None:
    with suppress(OSError):
        if shutil.disk_usage(FAST_DIR).free > 2 * NVRAM_BYTES and os.access(FAST_DIR, os.W_OK):
            return FAST_DIR
    return None


def make_config(
    name: str, cpus: int, stop: str | None, kernel: Path | None, caches: str | None = None
) -> MachineConfig:
    from lab.machine import MachineConfig
    from lab.machine.machine import make_room
    from lab.setup import products
    from lab.setup.progress import Progress

    if stop not in {None, "dpm", "fast"}:
        raise UsageError(f"--stop {stop}: choose dpm or fast")
    # Checked before anything is built: a wrong word must not cost a kernel build.
    MachineConfig(name=name, kernel=Path(), cpus=cpus)
    make_room(name)
    progress = Progress()
    config = MachineConfig(
        name=name,
        kernel=kernel or products.ensure_kernel(progress).bz_image,
        loader=products.ensure_loader(progress),
        root=products.ensure_root(progress),
        cpus=cpus,
        nvram_bytes=NVRAM_BYTES,
        nvram_dir=fast_dir(),
        network="tap",
        stop_mode=cast(Literal["dpm", "fast"] | None, stop),
    )
    return config if caches is None else with_caches(config, caches)


def with_caches(config: MachineConfig, profile: str) -> MachineConfig:
    """The same machine with volatile caches, whose model runs in the plugin."""
    from lab.machine.cut_points import make_spec
    from lab.machine.plugin import ctl_path
    from lab.setup import products
    from lab.setup.progress import Progress

    assert config.loader is not None
    spec = make_spec(products.ensure_plugin(Progress()), config.kernel, config.loader, icount=True)
    argument = spec.argument(ctl_path(config.name))
    return replace(config, icount=True, cut_points=True, caches=profile, plugin=argument)


def _demo_other(what: str, name: str, json_: bool) -> int:
    from lab.demo import off2f, pm

    play = {"pm": pm.play, "off2f": off2f.play}[what]
    result = play(name, say if json_ else lambda line: print(line, flush=True))
    if json_:
        result.emit()
    return int(Exit.PASS if result.ok else Exit.BROKEN)


def register(app: typer.Typer) -> None:
    @app.command("demo")
    def demo_command(  # noqa: PLR0917 - the options of a command, given by name
        what: Annotated[
            str, typer.Argument(help="stop-go; pm: persistent memory; off2f: text in NVRAM.")
        ] = "stop-go",
        name: Annotated[str, typer.Option(help="The machine to make.", metavar="NAME")] = "demo",
        cpus: Annotated[int, typer.Option(help="Number of CPUs.")] = 4,
        stop: Annotated[
            str | None, typer.Option(help="How Stop treats devices: dpm or fast.")
        ] = None,
        writes: Annotated[
            int, typer.Option(help="Acknowledged writes before the cut, at least.")
        ] = 10_000,
        clients: Annotated[int, typer.Option(help="Clients of each server.")] = 4,
        off: Annotated[float, typer.Option(help="Seconds without power.")] = 3.0,
        kernel: Annotated[
            Path | None, typer.Option(help="Another bzImage.", metavar="FILE")
        ] = None,
        page: Annotated[
            Path | None, typer.Option(help="Where to write the page.", metavar="FILE")
        ] = None,
        keep: Annotated[
            bool, typer.Option("--keep", help="Keep the machine, stopped: `rem resume` goes on.")
        ] = False,
        caches: Annotated[
            str,
            typer.Option(help="Volatile CPU caches: a profile, auto, or off.", metavar="PROFILE"),
        ] = "auto",
        no_flush: Annotated[
            str | None,
            typer.Option(
                "--no-flush",
                help="Stop's flushes have no effect, of all but its record (data) or at all (all): "
                "then exit 0 if that was noticed. Needs --caches.",
                metavar="WHICH",
            ),
        ] = None,
        json_: JsonOption = False,
    ) -> int:
        """Show that nothing is lost when the power fails.

        A machine boots from NVRAM only. redis and memcached serve clients on this host, a file is
        written with fsync, programs compute. PWR_OK drops, the machine stops, its QEMU is killed. A
        new process resumes it; the same connections go on; every acknowledged write is looked up.
        Exit 0 only if every promise was kept.

        `rem demo pm`: a file system, a database and a program's pointers in persistent memory
        outlive a reboot, a panic and a power cut without Stop. `rem demo off2f`: redis-server,
        sqlite3, busybox and cc1 run with their text in NVRAM, beside the ELFs, and again after a
        reset and a power cut. Only --name and --json apply to these.
        """
        if what not in {"stop-go", "pm", "off2f"}:
            raise UsageError(f"rem demo {what}: choose stop-go, pm or off2f")
        if what != "stop-go":
            return _demo_other(what, name, json_)
        if not 1 <= clients <= CLIENTS_MAX or writes < 1 or off < 0:
            raise UsageError(
                f"--clients is 1 to {CLIENTS_MAX}, --writes 1 or more, --off 0 or more"
            )
        from lab.machine.caches import NO_FLUSH, check_profile

        profile = check_profile(caches)
        if caches == "auto" and kernel is not None:
            profile = None  # its System.map, which the plugin needs, may be anywhere
        if no_flush is not None and (profile is None or no_flush not in NO_FLUSH):
            raise UsageError(
                f"--no-flush {no_flush}: choose {', '.join(NO_FLUSH)}, and give --caches PROFILE"
            )
        config = make_config(name, cpus, stop, kernel, profile)

        from lab.demo.outcome import Outcome
        from lab.demo.run import end, leave, play, write_page
        from lab.demo.story import Plan
        from lab.demo.workload import Size
        from lab.machine import Machine
        from lab.paths import state_dir

        outcome = Outcome(say if json_ else lambda line: print(line, flush=True))
        with Machine.create(config, destroy_on_exit=not keep) as machine:
            play(machine, Plan(writes, off, size=Size(clients), no_flush=no_flush), outcome)
            if keep:
                leave(machine)
        end(outcome)
        write_page(outcome, page or state_dir() / "demo" / f"{name}.html")
        if json_:
            outcome.result.emit()
        sys.stdout.flush()
        return int(Exit.PASS if outcome.result.ok else Exit.BROKEN)
