# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem media`: a memory controller's model by itself, under requests, a workload or a trace."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated, Any

import typer

from lab.errors import UsageError
from lab.machine.options import DEFAULT_NAME, JsonOption, NameOption

media = typer.Typer(
    help="Ask the model of a memory controller.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)

Controller = Annotated[str, typer.Argument(help="lightpc, lightpc-b, dram, optane, nmem, ...")]
Settings = Annotated[
    list[str],
    typer.Option("--set", help="NAME=VALUE: a mechanism (xcc=off) or a number of its part."),
]
WORDS = {"on": True, "off": False, "true": True, "false": False}
UNITS = {"ns": "ns", "mj": "mJ"}
MECHANISMS = ("xcc", "early_return", "row_buffer", "start_gap", "randomize")
NAMED = ("layout", "order", "stagger", "part", "part_file")


def memory_of(controller: str, settings: list[str]) -> dict[str, Any]:
    """The memory that a job is done on."""
    memory: dict[str, Any] = {"controller": controller, "change": {}}
    for setting in settings:
        name, found, text = setting.partition("=")
        if not found:
            raise UsageError(f"--set {setting}: give NAME=VALUE")
        if name in MECHANISMS:
            if text not in WORDS:
                raise UsageError(f"--set {setting}: give on or off")
            memory[name] = WORDS[text]
        elif name in NAMED:
            memory[name] = text
        else:
            try:
                number = float(text)
            except ValueError:
                raise UsageError(f"--set {setting}: {text} is no number") from None
            if name == "threshold_writes":
                memory[name] = int(number)
            else:
                memory["change"][name] = number
    return memory


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


@media.command("traffic")
def traffic(
    controller: Controller,
    read_percent: Annotated[int, typer.Option(help="The others are writes.")] = 100,
    block_bytes: Annotated[int, typer.Option(help="Of one request.")] = 64,
    in_flight: Annotated[int, typer.Option(help="Requests under way.")] = 1,
    requests: Annotated[int, typer.Option(help="How many are counted.")] = 100_000,
    pattern: Annotated[str, typer.Option(help="random or sequential.")] = "random",
    settings: Settings = [],  # noqa: B006 the parser makes a new list each time
    as_json: JsonOption = False,
) -> None:
    """Latency and bandwidth of requests of one size and mix."""
    from lab.media.engine import Engine

    answer = Engine.ready().ask(
        "traffic",
        memory=memory_of(controller, settings),
        read_percent=read_percent,
        block_bytes=block_bytes,
        in_flight=in_flight,
        requests=requests,
        pattern=pattern,
    )
    _show("media-traffic", answer, as_json)


@media.command("replay")
def replay(
    controller: Controller,
    workload: Annotated[str, typer.Option(help="A kernel, e.g. Redis.")] = "",
    trace: Annotated[Path | None, typer.Option(help="A file (format/rem_trace.h).")] = None,
    accesses: Annotated[int, typer.Option(help="Loads and stores of the kernel.")] = 1_000_000,
    settings: Settings = [],  # noqa: B006 as above
    as_json: JsonOption = False,
) -> None:
    """A workload's kernel or a trace on the modelled cores."""
    from lab.media.engine import Engine

    answer = Engine.ready().ask(
        "replay",
        memory=memory_of(controller, settings),
        workload=workload or None,
        trace=str(trace) if trace else None,
        accesses=accesses,
    )
    _show("media-replay", answer, as_json)


@media.command("record")
def record(
    file: Annotated[Path, typer.Argument(help="The trace (format/rem_trace.h).")],
    name: NameOption = DEFAULT_NAME,
    records: Annotated[int, typer.Option(help="It ends after so many.")] = 1_000_000,
    limit_s: Annotated[float, typer.Option(help="Or after so long, of the host's time.")] = 600.0,
    redis: Annotated[
        bool, typer.Option("--redis", help="The trace of redis that `rem bench media` replays.")
    ] = False,
) -> None:
    """Record what a running machine with --caches asks of memory, into a trace."""
    from lab.machine.client import supervised
    from lab.machine.control import request
    from lab.machine.tracing import check_records
    from lab.media.engine import Engine

    check_records(records)
    if not file.resolve().parent.is_dir():  # said before minutes are spent
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
    told = Engine.ready().ask("trace", file=str(file))
    print(f"{file}: {told['records']:,} records, {told['cpus']} CPUs, {told['lines']:,} lines")


def register(app: typer.Typer) -> None:
    app.add_typer(media, name="media")
