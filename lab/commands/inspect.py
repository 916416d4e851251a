# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem inspect`: the image record in a machine's NVRAM, its last Stop and Go, and what was lost."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lab.command_line.options import DEFAULT_NAME, JsonOption, takes
from lab.errors import InfraError, UsageError
from lab.messages import info
from lab.power.discharge import Discharge, counter_events
from lab.record.block import Record, decode, read_block
from lab.record.timeline import Timeline, chrome_trace, timeline_of

if TYPE_CHECKING:
    from lab.lost_lines.report import Loss
    from lab.machine.files import MachineFiles

TOP_LINES = 10


@dataclass(frozen=True)
class InspectWords:
    """The command line as typed."""

    name: Annotated[str | None, typer.Argument(help="The machine (`default` if not given).")] = None
    file: Annotated[
        Path | None, typer.Option(help="A file that holds an NVRAM instead.", metavar="FILE")
    ] = None
    as_json: JsonOption = False
    trace: Annotated[
        Path | None,
        typer.Option(help="Write the timeline for ui.perfetto.dev.", metavar="FILE"),
    ] = None
    picture: Annotated[
        Path | None,
        typer.Option(help="Draw the timeline, as .svg or .png.", metavar="FILE"),
    ] = None
    at_cut: Annotated[
        Path | None,
        typer.Option(help="With --file: NVRAM as CPUs saw it, to compare.", metavar="FILE"),
    ] = None
    lost: Annotated[
        Path | None,
        typer.Option(
            help="Write each lost line with its owner and last writer, as CSV.", metavar="FILE"
        ),
    ] = None
    top: Annotated[
        int, typer.Option(help="Owners of lost lines to print; 0: do not compare.", min=0)
    ] = TOP_LINES
    recording: Annotated[
        Path | None,
        typer.Option(help="A recording's directory instead of a machine.", metavar="DIR"),
    ] = None
    cut: Annotated[
        int | None, typer.Option(help="With --recording: events before the cut.", min=0)
    ] = None
    evict: Annotated[
        str, typer.Option(help="With --recording: as of `rem replay`.", metavar="LINES")
    ] = "none"
    supply: Annotated[
        str | None,
        typer.Option(help="Energy left with this supply; else with the cut's own, if it had one."),
    ] = None
    everything: Annotated[
        bool, typer.Option("--all", help="Also each entry of the machine descriptions.")
    ] = False


@dataclass(frozen=True)
class RecordedCut:
    """A cut of a recording."""

    directory: Path
    cut: int
    evict: str


@dataclass(frozen=True)
class InspectPlan:
    """What to inspect, checked: a machine, a file, or a cut of a recording."""

    machine: str | None
    file: Path | None
    at_cut: Path | None
    recorded: RecordedCut | None
    top: int
    supply: str | None


@dataclass(frozen=True)
class View:
    """What there is to show."""

    record: Record
    loss: Loss | None
    timeline: Timeline | None
    discharge: Discharge | None

    def as_dict(self, top: int) -> dict[str, Any]:
        return {
            **asdict(self.record),
            "last": asdict(self.timeline) if self.timeline else None,
            "discharge": asdict(self.discharge) if self.discharge else None,
            "lost": self.loss.as_dict(top) if self.loss else None,
        }


def check(words: InspectWords) -> InspectPlan:
    """A plan with one source, or UsageError."""
    if words.at_cut is not None and words.file is None:
        raise UsageError("--at-cut goes with --file; a machine's own is found")
    if (words.recording is None) != (words.cut is None):
        raise UsageError("--recording and --cut go together")
    recorded = None
    if words.recording is not None and words.cut is not None:
        recorded = RecordedCut(words.recording, words.cut, words.evict)
    if sum(source is not None for source in (words.name, words.file, recorded)) > 1:
        raise UsageError("give one of a machine, --file and --recording")
    machine = (words.name or DEFAULT_NAME) if words.file is None and recorded is None else None
    return InspectPlan(machine, words.file, words.at_cut, recorded, words.top, words.supply)


def view(plan: InspectPlan) -> View:
    """Decode and compare what the plan names."""
    if plan.recorded is not None:
        return _view_recorded(plan.recorded)
    if plan.file is not None:
        record = decode(read_block(plan.file))
        loss = _loss_of_files(plan.file, plan.at_cut) if plan.top else None
        return View(record, loss, _timeline(record), None)
    assert plan.machine is not None
    return _view_machine(plan.machine, plan.supply, compare=plan.top > 0)


def _view_recorded(recorded: RecordedCut) -> View:
    from lab.campaign.recorded_cut import recorded_cut

    with recorded_cut(recorded.directory, recorded.cut, recorded.evict) as (media, loss):
        record = decode(read_block(media))
        return View(record, loss, _timeline(record), None)


def _view_machine(name: str, supply: str | None, compare: bool) -> View:
    from lab.lost_lines.report import loss_of
    from lab.lost_lines.source import source_of_machine
    from lab.machine.files import MachineFiles

    files = MachineFiles.of(name)
    config = files.read_config()
    record = decode(read_block(files.seen(config)))
    timeline, discharge = _timeline(record), None
    if timeline is not None:
        timeline, discharge = _with_discharge(files, timeline, supply)
    source = source_of_machine(files, config) if compare else None
    return View(record, loss_of(source) if source else None, timeline, discharge)


def _loss_of_files(file: Path, at_cut: Path | None) -> Loss | None:
    from lab.lost_lines.report import loss_of
    from lab.lost_lines.source import source_of

    return loss_of(source_of(at_cut, file, None, None)) if at_cut else None


def _timeline(record: Record) -> Timeline | None:
    return timeline_of(record.newest) if record.newest else None


def _with_discharge(
    files: MachineFiles, timeline: Timeline, supply: str | None
) -> tuple[Timeline, Discharge | None]:
    """Add what a record cannot hold: its own flush, the commit, and what was left meanwhile."""
    from lab.power.discharge import discharge_of, read_samples, whole_timeline
    from lab.power.model import PowerModel

    cut = files.read_state().get("last_cut") or {}
    if supply is not None:
        cut["supply"] = supply
    samples = read_samples(files.flushes)
    model = PowerModel.ready() if cut.get("supply") and samples else None
    discharge = discharge_of(cut, samples, files.read_config().cpus, model)
    return (whole_timeline(timeline, discharge, samples) if discharge else timeline), discharge


def _write_files(seen: View, words: InspectWords) -> None:
    if seen.timeline is None and (words.trace or words.picture):
        raise UsageError("there is no timeline: no Stop has run on this NVRAM")
    if words.trace and seen.timeline:
        counters = counter_events(seen.discharge) if seen.discharge else []
        text = json.dumps(chrome_trace(seen.timeline, counters))
        try:
            words.trace.write_text(text, encoding="utf-8")
        except OSError as error:
            raise InfraError(f"cannot write {words.trace}: {error.strerror}") from error
        info(f"rem: wrote {words.trace}")
    if words.picture and seen.timeline:
        from lab.report.timeline_picture import draw

        draw(seen.timeline, words.picture, seen.discharge)
        info(f"rem: wrote {words.picture}")
    if words.lost:
        _write_lost(seen.loss, words.lost)


def _write_lost(loss: Loss | None, path: Path) -> None:
    from lab.lost_lines.report import write_csv

    if loss is None:
        raise UsageError(
            "no lost lines to write: caches were not volatile, the power is on, or --top 0"
        )
    write_csv(loss, path)
    info(f"rem: wrote {path}")


def _print(seen: View, everything: bool, top: int) -> None:
    from rich.console import Console

    from lab.report.record_text import show

    console = Console(file=sys.stdout)
    show(console, seen.record, everything, seen.timeline, seen.discharge)
    if seen.loss is not None:
        from lab.report.lost_text import show_loss

        show_loss(console, seen.loss, top)


@takes(InspectWords)
def inspect_command(words: InspectWords) -> int:
    """Show the image record in a machine's NVRAM and the timeline of its last Stop and Go.

    The machine may be running or off. After a cut on volatile caches, until power returns: the
    lines that are not on media, with their owners and last writers. Exit 1 if something in the
    record is damaged.
    """
    seen = view(check(words))
    _write_files(seen, words)
    if words.as_json:
        print(json.dumps(seen.as_dict(words.top)))
    else:
        _print(seen, words.everything, words.top)
    return 1 if seen.record.problems else 0


def register(app: typer.Typer) -> None:
    app.command("inspect")(inspect_command)
