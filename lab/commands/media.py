# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem media`: the model of a memory controller, under requests, a workload or a trace."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from lab.command_line.options import DEFAULT_NAME, JsonOption, NameOption, takes
from lab.errors import Exit, UsageError

media = typer.Typer(
    help="Run the model of a memory controller.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)

Controller = Annotated[str, typer.Argument(help="lightpc, lightpc-b, dram, optane, nmem, ...")]
Settings = Annotated[
    list[str],
    typer.Option("--set", help="NAME=VALUE: a mechanism (xcc=off) or a number of its part."),
]
UNITS = {"ns": "ns", "mj": "mJ"}


def _show(name: str, answer: dict[str, Any], as_json: bool) -> None:
    from lab.result import Result

    result = Result(name)
    inner = answer.pop("memory", {})
    for key, value in answer.items():
        if isinstance(value, (int, float)):
            unit = "bytes/ns" if "bandwidth" in key else UNITS.get(key.rpartition("_")[2], "")
            result.add(key, value, unit, "modelled")
    for key, figure in sorted(inner.items()):
        if figure["unit"] == "1":
            result.add(f"memory_{key}", int(figure["value"]), "", "counted")
        else:
            result.add(f"memory_{key}", figure["value"], figure["unit"], "modelled")
    for key, shown in result.figures.items():
        print(f"{key:32} {shown.value:>18,} {shown.unit}")
    if as_json:
        result.emit()


@dataclass(frozen=True)
class TrafficWords:
    """The command line of `rem media traffic` as typed."""

    controller: Controller
    read_percent: Annotated[int, typer.Option(help="The others are writes.")] = 100
    block_bytes: Annotated[int, typer.Option(help="Size of one request.")] = 64
    in_flight: Annotated[int, typer.Option(help="Requests in flight.")] = 1
    requests: Annotated[int, typer.Option(help="How many are counted.")] = 100_000
    pattern: Annotated[str, typer.Option(help="random or sequential.")] = "random"
    settings: Settings = field(default_factory=list)
    as_json: JsonOption = False


@media.command("traffic")
@takes(TrafficWords)
def traffic(words: TrafficWords) -> int:
    """Compute latency and bandwidth of requests of one size and mix."""
    from lab.media.engine import Engine
    from lab.media.settings import memory_of

    answer = Engine.ready().ask(
        "traffic",
        memory=memory_of(words.controller, words.settings),
        read_percent=words.read_percent,
        block_bytes=words.block_bytes,
        in_flight=words.in_flight,
        requests=words.requests,
        pattern=words.pattern,
    )
    _show("media-traffic", answer, words.as_json)
    return Exit.PASS


@dataclass(frozen=True)
class ReplayWords:
    """The command line of `rem media replay` as typed."""

    controller: Controller
    workload: Annotated[str, typer.Option(help="A kernel, e.g. Redis.")] = ""
    trace: Annotated[Path | None, typer.Option(help="A file (format/rem_trace.h).")] = None
    accesses: Annotated[int, typer.Option(help="Loads and stores of the kernel.")] = 1_000_000
    settings: Settings = field(default_factory=list)
    as_json: JsonOption = False


@media.command("replay")
@takes(ReplayWords)
def replay(words: ReplayWords) -> int:
    """Run a workload's kernel or a trace on the modelled cores."""
    from lab.media.engine import Engine
    from lab.media.settings import memory_of

    answer = Engine.ready().ask(
        "replay",
        memory=memory_of(words.controller, words.settings),
        workload=words.workload or None,
        trace=str(words.trace) if words.trace else None,
        accesses=words.accesses,
    )
    _show("media-replay", answer, words.as_json)
    return Exit.PASS


@media.command("record")
def record(
    file: Annotated[Path, typer.Argument(help="The trace (format/rem_trace.h).")],
    name: NameOption = DEFAULT_NAME,
    records: Annotated[int, typer.Option(help="The trace ends after so many.")] = 1_000_000,
    limit_s: Annotated[float, typer.Option(help="Or after so long, of the host's time.")] = 600.0,
    redis: Annotated[
        bool, typer.Option("--redis", help="The trace of redis that `rem bench media` replays.")
    ] = False,
) -> None:
    """Record the memory requests of a running machine with --caches, into a trace."""
    from lab.machine.client import supervised
    from lab.machine.control import request
    from lab.machine.tracing import check_records
    from lab.media.engine import Engine

    check_records(records)
    if not file.resolve().parent.is_dir():  # checked before minutes are spent
        raise UsageError(f"{file}: there is no folder {file.resolve().parent}")
    if redis:
        from lab.media.redis import ensure_redis_trace

        made = ensure_redis_trace()
    else:
        files = supervised(name)
        made = Path(request(files, "trace", records=records, limit_s=limit_s))
    try:
        shutil.copyfile(made, file)
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}: give a file that can be written") from error
    trace = Engine.ready().ask("trace", file=str(file))
    print(f"{file}: {trace['records']:,} records, {trace['cpus']} CPUs, {trace['lines']:,} lines")


def register(app: typer.Typer) -> None:
    app.add_typer(media, name="media")
