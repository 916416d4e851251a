# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a cut lost, as tables for a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from lab.lost_lines.pages import KINDS
from lab.lost_lines.report import Group, Loss
from lab.report.record_text import duration


def _kind_table(loss: Loss) -> Table:
    table = Table(title=f"{len(loss.lines):,} lines are not on media", title_justify="left",
                  title_style="bold", header_style="")  # fmt: skip
    table.add_column("what")
    table.add_column("lines", justify="right")
    for kind, lines in loss.kinds.items():
        table.add_row(KINDS[kind], f"{lines:,}")
    return table


def _last(group: Group) -> str:
    return "" if group.last_ns is None else duration(group.last_ns)


def _owner_table(groups: tuple[Group, ...], all_groups: int) -> Table:
    title = f"Their owners: {len(groups)} of {all_groups}"
    table = Table(title=title, title_justify="left", title_style="bold", header_style="")
    table.add_column("lines", justify="right")
    for column in ("kind", "owner", "last written by"):
        table.add_column(column, overflow="fold")
    table.add_column("at", justify="right")
    for group in groups:
        writer, lines = group.writers.most_common(1)[0]
        more = f" ({lines:,})" if lines != group.lines else ""
        owner = group.owner
        table.add_row(f"{group.lines:,}", owner.kind, owner.name, writer + more, _last(group))
    return table


def show_loss(console: Console, loss: Loss, top: int) -> None:
    """Print the tables."""
    if not loss.lines:
        console.print("Every line is on media as CPUs saw it: the cut lost nothing.")
        return
    console.print(_kind_table(loss))
    console.print(_owner_table(loss.groups[:top], len(loss.groups)))
    for problem in loss.problems:
        console.print(f"problem: {problem}", style="bold red", highlight=False)
