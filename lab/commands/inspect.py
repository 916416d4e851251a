# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem inspect`: the image record in a machine's NVRAM, its last Stop and Go, and what was lost."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lab.course import Course, counter_events
from lab.errors import InfraError, UsageError
from lab.machine.options import DEFAULT_NAME, JsonOption
from lab.record import Record, decode, read_block
from lab.say import say
from lab.timeline import Timeline, chrome_trace, timeline_of

if TYPE_CHECKING:
    from lab.lost.report import Loss

TOP_LINES = 10


def as_json(seen: Seen, top: int) -> dict[str, Any]:
    return {
        **asdict(seen.record),
        "last": asdict(seen.timeline) if seen.timeline else None,
        "course": asdict(seen.course) if seen.course else None,
        "lost": seen.loss.as_dict(top) if seen.loss else None,
    }


def loss_at_cut(name: str | None, file: Path | None, at_cut: Path | None) -> Loss | None:
    """What the last cut lost; None where caches were not volatile, or the power is on."""
    from lab.lost.report import loss_of
    from lab.lost.source import source_of, source_of_machine
    from lab.machine.files import MachineFiles

    if file is not None:
        return loss_of(source_of(at_cut, file, None, None)) if at_cut else None
    files = MachineFiles.of(name or DEFAULT_NAME)
    source = source_of_machine(files, files.read_config())
    return loss_of(source) if source else None


@dataclass(frozen=True)
class Seen:
    """What there is to show."""

    record: Record
    loss: Loss | None
    timeline: Timeline | None
    course: Course | None


def look(
    name: str | None,
    file: Path | None,
    at_cut: Path | None,
    recorded: Recorded | None,
    top: int,
    supply: str | None,
) -> Seen:
    """At a machine, at files, or at what a cut of a recording leaves."""
    if recorded is not None:
        from lab.lost.source import recorded_cut

        with recorded_cut(recorded.directory, recorded.cut, recorded.evict) as (media, loss):
            record = decode(read_block(media))
            return Seen(record, loss, _timeline(record), None)
    record = decode(read_block(nvram_of(name, file)))
    timeline, course = _timeline(record), None
    if file is None and timeline is not None:
        timeline, course = _with_course(name or DEFAULT_NAME, timeline, supply)
    return Seen(record, loss_at_cut(name, file, at_cut) if top else None, timeline, course)


def _timeline(record: Record) -> Timeline | None:
    return timeline_of(record.newest) if record.newest else None


def _with_course(
    name: str, timeline: Timeline, supply: str | None
) -> tuple[Timeline, Course | None]:
    """With what a record cannot hold: its own flush, the commit, and what was left meanwhile."""
    from lab.course import course_of, read_samples, whole_timeline
    from lab.machine.files import MachineFiles
    from lab.power.model import PowerModel

    files = MachineFiles.of(name)
    cut = files.read_state().get("last_cut") or {}
    if supply is not None:
        cut["supply"] = supply
    samples = read_samples(files.flushes)
    model = PowerModel.ready() if cut.get("supply") and samples else None
    course = course_of(cut, samples, files.read_config().cpus, model)
    return (whole_timeline(timeline, course, samples) if course else timeline), course


@dataclass(frozen=True)
class Recorded:
    """A cut of a recording."""

    directory: Path
    cut: int
    evict: str


def recorded_of(recording: Path | None, cut: int | None, evict: str) -> Recorded | None:
    if recording is None or cut is None:
        if recording is not None or cut is not None:
            raise UsageError("--recording and --cut go together")
        return None
    return Recorded(recording, cut, evict)


def write_text(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InfraError(f"cannot write {path}: {error.strerror}") from error
    say(f"rem: wrote {path}")


def nvram_of(name: str | None, file: Path | None) -> Path:
    if file is not None:
        if name is not None:
            raise UsageError("give a machine or --file, not both")
        return file
    from lab.machine.files import MachineFiles

    files = MachineFiles.of(name or DEFAULT_NAME)
    return files.seen(files.read_config())


def register(app: typer.Typer) -> None:
    @app.command("inspect")
    def inspect_command(  # noqa: PLR0917 - the options of a command, given by name
        name: Annotated[
            str | None, typer.Argument(help="The machine (`default` if not given).")
        ] = None,
        file: Annotated[
            Path | None, typer.Option(help="A file that holds an NVRAM instead.", metavar="FILE")
        ] = None,
        json_: JsonOption = False,
        trace: Annotated[
            Path | None,
            typer.Option(help="Write the timeline for ui.perfetto.dev.", metavar="FILE"),
        ] = None,
        picture: Annotated[
            Path | None,
            typer.Option(help="Draw the timeline, as .svg or .png.", metavar="FILE"),
        ] = None,
        at_cut: Annotated[
            Path | None,
            typer.Option(help="With --file: NVRAM as CPUs saw it, to compare.", metavar="FILE"),
        ] = None,
        lost: Annotated[
            Path | None,
            typer.Option(
                help="Write each lost line, whose it was and who wrote it, as CSV.", metavar="FILE"
            ),
        ] = None,
        top: Annotated[
            int, typer.Option(help="Owners of lost lines that are told; 0: do not look.", min=0)
        ] = TOP_LINES,
        recording: Annotated[
            Path | None,
            typer.Option(help="A recording's directory instead of a machine.", metavar="DIR"),
        ] = None,
        cut: Annotated[
            int | None, typer.Option(help="With --recording: events before the cut.", min=0)
        ] = None,
        evict: Annotated[
            str, typer.Option(help="With --recording: as of `rem replay`.", metavar="LINES")
        ] = "none",
        supply: Annotated[
            str | None,
            typer.Option(help="Energy left as of this supply; of the cut's own if it had one."),
        ] = None,
        everything: Annotated[
            bool, typer.Option("--all", help="Also each entry of the machine descriptions.")
        ] = False,
    ) -> int:
        """Show the image record in a machine's NVRAM and the timeline of its last Stop and Go.

        The machine may be running or off. After a cut on volatile caches, until power
        returns: which lines are not on media, whose they were and who wrote them. Exit 1 if
        something in the record is damaged.
        """
        if at_cut is not None and file is None:
            raise UsageError("--at-cut goes with --file; a machine's own is found")
        recorded = recorded_of(recording, cut, evict)
        if recorded is not None and (name is not None or file is not None):
            raise UsageError("give a machine, --file or --recording")
        seen = look(name, file, at_cut, recorded, top, supply)
        if seen.timeline is None and (trace or picture):
            raise UsageError("there is no timeline: no Stop has run on this NVRAM")
        if trace and seen.timeline:
            counters = counter_events(seen.course) if seen.course else []
            write_text(trace, json.dumps(chrome_trace(seen.timeline, counters)))
        if picture and seen.timeline:
            from lab.report.timeline_picture import draw

            draw(seen.timeline, picture, seen.course)
            say(f"rem: wrote {picture}")
        if lost:
            _write_lost(seen.loss, lost)
        if json_:
            print(json.dumps(as_json(seen, top)))
        else:
            _show(seen, everything, top)
        return 1 if seen.record.problems else 0


def _write_lost(loss: Loss | None, path: Path) -> None:
    from lab.lost.report import write_csv

    if loss is None:
        raise UsageError(
            "no lost lines to write: caches were not volatile, the power is on, or --top 0"
        )
    write_csv(loss, path)
    say(f"rem: wrote {path}")


def _show(seen: Seen, everything: bool, top: int) -> None:
    from rich.console import Console

    from lab.report.record_text import show

    console = Console(file=sys.stdout)
    show(console, seen.record, everything, seen.timeline, seen.course)
    if seen.loss is not None:
        from lab.report.lost_text import show_loss

        show_loss(console, seen.loss, top)
