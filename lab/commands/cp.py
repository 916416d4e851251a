# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem cp`: files and folders into a guest and out of it."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from lab.archive.limits import shown
from lab.command_line.options import DEFAULT_NAME, NameOption, takes
from lab.errors import Exit, UsageError
from lab.machine.copy import Advance, Copied, Place, pull, push
from lab.machine.guest_access import reach, ssh_command
from lab.messages import info
from lab.progress import step

MIB_BYTES = 1 << 20
SHOWN_BYTES_MIN = 16 * MIB_BYTES  # some seconds through an emulated machine


@dataclass(frozen=True)
class CpWords:
    """The command line as typed."""

    source: Annotated[str, typer.Argument(help="What is copied.", metavar="SRC")]
    target: Annotated[
        str, typer.Argument(help="A folder that is there, or the copy's name.", metavar="DST")
    ]
    name: NameOption = DEFAULT_NAME
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace a folder that is there already.")
    ] = False
    skip_links: Annotated[
        bool,
        typer.Option(
            "--skip-links",
            help="Out of a guest: leave out links that lead outside of what is copied, "
            "which are refused otherwise.",
        ),
    ] = False


@takes(CpWords)
def cp_command(words: CpWords) -> int:
    """Copy a file or a folder between the host and a guest: SRC or DST is :PATH or NAME:PATH.

    Folders are copied with all they hold; modes, times and links are kept, and owners are root in
    the guest and you on the host. The copy appears when it is complete.
    """
    source, target = Place.parse(words.source, words.name), Place.parse(words.target, words.name)
    machines = [end.machine for end in (source, target) if end.machine is not None]
    if len(machines) != 1:
        raise UsageError("one of SRC and DST must be in a guest: :PATH or NAME:PATH")
    command = partial(ssh_command, reach(machines[0]), terminal=False)
    with ExitStack() as stack:
        begin = partial(_begin, stack, source.path)
        if source.machine is None:
            copied = push(command, Path(source.path), target.path, words.replace, begin)
        else:
            place = Path(target.path)
            copied = pull(command, source.path, place, words.replace, words.skip_links, begin)
    _report(copied)
    return Exit.PASS


def _begin(stack: ExitStack, name: str, total_bytes: int) -> Advance:
    """Show the progress of what takes more than a moment."""
    if total_bytes < SHOWN_BYTES_MIN:
        return lambda count_bytes: None
    shown = stack.enter_context(step(f"copying {name}", total_bytes / MIB_BYTES, "MiB"))
    return lambda count_bytes: shown.advance(count_bytes / MIB_BYTES)


def _report(copied: Copied) -> None:
    for path in copied.skipped:
        info(f"rem: left out: {shown(path)}")
    if copied.changed:
        info("rem: some files changed while they were copied")


def register(app: typer.Typer) -> None:
    app.command("cp")(cp_command)
